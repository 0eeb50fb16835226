//! Fields of EXT_CSD, converted to bytes and nanoseconds [eMMC 7.4]. Numbers in brackets are byte
//! numbers.

use super::ExtCsd;
use crate::spec::timing;

const KIB: u64 = 1024;
const MS: u64 = 1_000_000;

/// The command that sends a high-priority interrupt (HPI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hpi {
    /// CMD12 with the HPI bit.
    Cmd12,
    /// CMD13 with the HPI bit.
    Cmd13,
}

/// Share of the spare blocks that the device has used up [eMMC 7.4, 267].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreEol {
    /// Code 0: the device does not report how many spare blocks are used up.
    Undefined,
    /// Code 1: less than 80 % of the spare blocks are used up.
    Normal,
    /// Code 2: 80 % of the spare blocks are used.
    Warning,
    /// Code 3: 90 % is used.
    Urgent,
    /// Any other code.
    Reserved(u8),
}

/// Wear of one type of memory [eMMC 7.4, 268 and 269].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeTime {
    /// Code 0: the device does not report it.
    Undefined,
    /// Codes 1 to 10: at most this percentage of the lifetime is used.
    UsedPercent(u8),
    /// Code 11: the estimated lifetime is exceeded.
    Exceeded,
    /// A code that the standard reserves.
    Reserved(u8),
}

impl LifeTime {
    const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => LifeTime::Undefined,
            1..=10 => LifeTime::UsedPercent(byte * 10),
            11 => LifeTime::Exceeded,
            other => LifeTime::Reserved(other),
        }
    }
}

/// Returns `unit_ns` * 2^`exponent`, where a larger exponent than the standard allows counts as the
/// largest one (0x17).
const fn doubled(unit_ns: u64, exponent: u8) -> u64 {
    unit_ns << if exponent > 0x17 { 0x17 } else { exponent }
}

impl ExtCsd<'_> {
    /// Returns the little-endian number in the `len` bytes (at most 8) from byte `at` on.
    const fn number(&self, at: usize, len: usize) -> u64 {
        let mut value = 0;
        let mut n = len;
        while n > 0 {
            n -= 1;
            value = value << 8 | self.0[(at + n) & 511] as u64;
        }
        value
    }

    /// Returns the size of the user area in bytes, from SEC_COUNT (215:212); 0 on devices up to 2
    /// GB, whose size is in the CSD.
    pub const fn capacity_bytes(&self) -> u64 {
        self.number(212, 4) * 512
    }

    /// Returns the size of a sector in bytes: 512 or 4096.
    pub const fn sector_bytes(&self) -> u32 {
        if self.data_sector_size() == 1 { 4096 } else { 512 }
    }

    /// Returns the size of a high-capacity erase group in bytes (224); `None` if the device has
    /// none.
    pub const fn hc_erase_group_bytes(&self) -> Option<u64> {
        match self.hc_erase_grp_size() {
            0 => None,
            units => Some(units as u64 * 512 * KIB),
        }
    }

    /// Returns the size of a high-capacity write protect group in bytes (221); `None` if the device
    /// has none.
    pub const fn hc_wp_group_bytes(&self) -> Option<u64> {
        match (self.hc_erase_group_bytes(), self.hc_wp_grp_size()) {
            (None, _) | (_, 0) => None,
            (Some(group), groups) => Some(group * groups as u64),
        }
    }

    /// Returns the size of each of the two boot areas in bytes (226).
    pub const fn boot_bytes(&self) -> u64 {
        self.boot_size_mult() as u64 * 128 * KIB
    }

    /// Returns the size of the replay-protected area (RPMB) in bytes (168).
    pub const fn rpmb_bytes(&self) -> u64 {
        self.rpmb_size_mult() as u64 * 128 * KIB
    }

    /// Returns the size of general purpose partition 1 to 4 in bytes (154:143); 0 if the partition
    /// does not exist.
    pub const fn gp_bytes(&self, partition: u8) -> u64 {
        match (partition, self.hc_wp_group_bytes()) {
            (1..=4, Some(unit)) => self.number(143 + 3 * (partition as usize - 1), 3) * unit,
            _ => 0,
        }
    }

    /// Returns the start of the enhanced user area (139:136), in bytes.
    pub const fn enhanced_start_bytes(&self) -> u64 {
        // The start is in bytes on devices up to 2 GB, and in sectors on others.
        let unit = if self.capacity_bytes() > 2 << 30 { 512 } else { 1 };
        self.number(136, 4) * unit
    }

    /// Returns the size of the enhanced user area in bytes (142:140).
    pub const fn enhanced_bytes(&self) -> u64 {
        match self.hc_wp_group_bytes() {
            Some(unit) => self.number(140, 3) * unit,
            None => 0,
        }
    }

    /// Returns the largest possible size of the enhanced area in bytes (159:157).
    pub const fn max_enhanced_bytes(&self) -> u64 {
        match self.hc_wp_group_bytes() {
            Some(unit) => self.number(157, 3) * unit,
            None => 0,
        }
    }

    /// Returns the size of the cache in bytes (252:249); 0 if the device has none.
    pub const fn cache_bytes(&self) -> u64 {
        self.number(249, 4) * KIB
    }

    /// Returns whether the device flushes the cache in the order in which data arrived, so that a
    /// cache barrier costs no time.
    pub const fn cache_flushes_in_order(&self) -> bool {
        self.cache_flush_policy() & 1 != 0
    }

    /// Returns whether the device supports HS at 26 MHz.
    pub const fn hs26(&self) -> bool {
        self.device_type() & 1 << 0 != 0
    }

    /// Returns whether the device supports HS at 52 MHz.
    pub const fn hs52(&self) -> bool {
        self.device_type() & 1 << 1 != 0
    }

    /// Returns whether the device supports DDR52 at 1.8 or 3.3 V.
    pub const fn ddr52(&self) -> bool {
        self.device_type() & 1 << 2 != 0
    }

    /// Returns whether the device supports DDR52 at 1.2 V.
    pub const fn ddr52_1v2(&self) -> bool {
        self.device_type() & 1 << 3 != 0
    }

    /// Returns whether the device supports HS200 at 1.8 V.
    pub const fn hs200(&self) -> bool {
        self.device_type() & 1 << 4 != 0
    }

    /// Returns whether the device supports HS200 at 1.2 V.
    pub const fn hs200_1v2(&self) -> bool {
        self.device_type() & 1 << 5 != 0
    }

    /// Returns whether the device supports HS400 at 1.8 V.
    pub const fn hs400(&self) -> bool {
        self.device_type() & 1 << 6 != 0
    }

    /// Returns whether the device supports HS400 at 1.2 V.
    pub const fn hs400_1v2(&self) -> bool {
        self.device_type() & 1 << 7 != 0
    }

    /// Returns whether the device supports HS400 with enhanced strobe.
    pub const fn enhanced_strobe(&self) -> bool {
        self.strobe_support() & 1 != 0
    }

    /// Returns the depth of the command queue, 1 to 32; 0 if the device has none.
    pub const fn cmdq_depth(&self) -> u8 {
        if self.cmdq_support() & 1 == 0 { 0 } else { (self.cmdq_depth_less_1() & 0x1f) + 1 }
    }

    /// Returns which command sends the high-priority interrupt; `None` if the device has no such
    /// interrupt.
    pub const fn hpi(&self) -> Option<Hpi> {
        match self.hpi_features() & 3 {
            1 => Some(Hpi::Cmd13),
            3 => Some(Hpi::Cmd12),
            _ => None,
        }
    }

    /// Returns whether trim is supported.
    pub const fn trim(&self) -> bool {
        self.sec_feature_support() & 1 << 4 != 0
    }

    /// Returns whether discard is supported, which begins with version 4.5.
    pub const fn discard(&self) -> bool {
        self.ext_csd_rev() >= 6
    }

    /// Returns whether secure erase and secure trim are supported.
    pub const fn secure_erase(&self) -> bool {
        self.sec_feature_support() & 1 << 0 != 0
    }

    /// Returns whether sanitize is supported.
    pub const fn sanitize(&self) -> bool {
        self.sec_feature_support() & 1 << 6 != 0
    }

    /// Returns whether reliable writes may have any length; otherwise they have 1 or
    /// [`rel_wr_sec_c`](Self::rel_wr_sec_c) sectors.
    pub const fn reliable_write_enhanced(&self) -> bool {
        self.wr_rel_param() & 1 << 2 != 0
    }

    /// Returns the exception events that have happened (55:54): bit 0 urgent background operations,
    /// 1 dynamic capacity, 2 system pool, 3 packed command, 4 extended security.
    pub const fn exception_events_status(&self) -> u16 {
        self.number(54, 2) as u16
    }

    /// Returns the exception events that set EXCEPTION_EVENT in the card status (57:56).
    pub const fn exception_events_ctrl(&self) -> u16 {
        self.number(56, 2) as u16
    }

    /// Returns the extended partition attributes (53:52), four bits for each partition.
    pub const fn ext_partitions_attribute(&self) -> u16 {
        self.number(52, 2) as u16
    }

    /// Returns the configuration of a context, 1 to 15 (51:37); 0 for any other.
    pub const fn context_conf(&self, context: u8) -> u8 {
        match context {
            1..=15 => self.0[36 + context as usize],
            _ => 0,
        }
    }

    /// Returns the number of sectors of the last write that were programmed (245:242).
    pub const fn correctly_programmed_sectors(&self) -> u32 {
        self.number(242, 4) as u32
    }

    /// Returns the firmware version (261:254), in the manufacturer's coding.
    pub const fn firmware_version(&self) -> u64 {
        self.number(254, 8)
    }

    /// Returns the device version (263:262).
    pub const fn device_version(&self) -> u16 {
        self.number(262, 2) as u16
    }

    /// Returns the number of sectors of a firmware update that were programmed (305:302).
    pub const fn firmware_sectors_programmed(&self) -> u32 {
        self.number(302, 4) as u32
    }

    /// Returns the argument that CMD25 needs in a firmware update (490:487).
    pub const fn ffu_arg(&self) -> u32 {
        self.number(487, 4) as u32
    }

    /// Returns the manufacturer's own health report (301:270).
    pub fn vendor_health(&self) -> &[u8] {
        self.0.get(270..302).unwrap_or(&[])
    }

    /// Returns the share of the spare blocks that the device has used up (267).
    pub const fn pre_eol(&self) -> PreEol {
        match self.pre_eol_info() {
            0 => PreEol::Undefined,
            1 => PreEol::Normal,
            2 => PreEol::Warning,
            3 => PreEol::Urgent,
            other => PreEol::Reserved(other),
        }
    }

    /// Returns the wear of type A memory (268), usually the faster one.
    pub const fn life_time_a(&self) -> LifeTime {
        LifeTime::from_byte(self.device_life_time_est_typ_a())
    }

    /// Returns the wear of type B memory (269), usually the larger one.
    pub const fn life_time_b(&self) -> LifeTime {
        LifeTime::from_byte(self.device_life_time_est_typ_b())
    }

    /// Returns the longest busy of CMD6 in nanoseconds (248); [`timing::emmc::SWITCH_NS`] if not
    /// declared.
    pub const fn generic_cmd6_time_ns(&self) -> u64 {
        match self.generic_cmd6_time() {
            0 => timing::emmc::SWITCH_NS,
            units => units as u64 * 10 * MS,
        }
    }

    /// Returns the longest busy of a partition switch in nanoseconds (199); the value of CMD6 if
    /// not declared.
    pub const fn part_switch_time_ns(&self) -> u64 {
        match self.partition_switch_time() {
            0 => self.generic_cmd6_time_ns(),
            units => units as u64 * 10 * MS,
        }
    }

    /// Returns the longest busy after a high-priority interrupt in nanoseconds (198); 0 if not
    /// declared.
    pub const fn out_of_interrupt_time_ns(&self) -> u64 {
        self.out_of_interrupt_time() as u64 * 10 * MS
    }

    /// Returns the longest busy of the notification "power off long" in nanoseconds (247); the
    /// value of CMD6 if not declared.
    pub const fn power_off_long_time_ns(&self) -> u64 {
        match self.power_off_long_time() {
            0 => self.generic_cmd6_time_ns(),
            units => units as u64 * 10 * MS,
        }
    }

    /// Returns the longest busy of CMD5 in nanoseconds (217).
    pub const fn sleep_awake_time_ns(&self) -> u64 {
        doubled(100, self.s_a_timeout())
    }

    /// Returns the longest busy of a sleep notification in nanoseconds (216).
    pub const fn sleep_notification_time_ns(&self) -> u64 {
        doubled(10_000, self.sleep_notification_time())
    }

    /// Returns the longest first power-up (CMD1) after partitioning in nanoseconds (241); 0 if not
    /// declared.
    pub const fn first_power_up_time_ns(&self) -> u64 {
        self.ini_timeout_ap() as u64 * 100 * MS
    }

    /// Returns the longest erase of one high-capacity erase group in nanoseconds (223); 0 if not
    /// declared.
    pub const fn erase_timeout_ns(&self) -> u64 {
        self.erase_timeout_mult() as u64 * 300 * MS
    }

    /// Returns the longest trim or discard of one erase group in nanoseconds (232); 0 if not
    /// declared.
    pub const fn trim_timeout_ns(&self) -> u64 {
        self.trim_mult() as u64 * 300 * MS
    }

    /// Returns the longest secure erase of one erase group in nanoseconds (230); 0 if not declared.
    pub const fn secure_erase_timeout_ns(&self) -> u64 {
        self.erase_timeout_ns() * self.sec_erase_mult() as u64
    }

    /// Returns the longest secure trim of one erase group in nanoseconds (229); 0 if not declared.
    pub const fn secure_trim_timeout_ns(&self) -> u64 {
        self.erase_timeout_ns() * self.sec_trim_mult() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_units() {
        let mut bytes = [0; 512];
        let silent = ExtCsd::parse(&bytes).unwrap();
        assert_eq!(silent.generic_cmd6_time_ns(), timing::emmc::SWITCH_NS);
        assert_eq!((silent.cmdq_depth(), silent.hpi(), silent.hc_erase_group_bytes()), (0, None, None));
        bytes[248] = 25;
        assert_eq!(ExtCsd::parse(&bytes).unwrap().part_switch_time_ns(), 250 * MS);
        bytes[199] = 3;
        bytes[217] = 0x11;
        bytes[223] = 2;
        bytes[230] = 10;
        let ext_csd = ExtCsd::parse(&bytes).unwrap();
        assert_eq!(ext_csd.part_switch_time_ns(), 30 * MS);
        assert_eq!(ext_csd.sleep_awake_time_ns(), 13_107_200);
        assert_eq!(ext_csd.secure_erase_timeout_ns(), 6_000 * MS);
    }

    #[test]
    fn partitions() {
        let mut bytes = [0; 512];
        bytes[212..216].copy_from_slice(&0x0747_c000u32.to_le_bytes());
        (bytes[224], bytes[221]) = (1, 16);
        bytes[146..149].copy_from_slice(&[2, 1, 0]);
        bytes[136] = 8;
        let ext_csd = ExtCsd::parse(&bytes).unwrap();
        assert_eq!(ext_csd.capacity_bytes(), 0x0747_c000 * 512);
        assert_eq!((ext_csd.gp_bytes(1), ext_csd.gp_bytes(2)), (0, 0x102 * (8 << 20)));
        assert_eq!((ext_csd.gp_bytes(0), ext_csd.gp_bytes(5)), (0, 0));
        assert_eq!(ext_csd.enhanced_start_bytes(), 4096);
    }

    #[test]
    fn any_input_is_read_or_refused() {
        crate::fuzz::fuzz("any_input_is_read_or_refused", 200, |u| {
            let mut bytes = [0; 512];
            u.fill_buffer(&mut bytes)?;
            let Ok(ext_csd) = ExtCsd::parse(&bytes) else {
                assert!(bytes[194] > 2);
                return Ok(());
            };
            assert!(ext_csd.cmdq_depth() <= 32);
            assert!(ext_csd.capacity_bytes() < 1 << 41);
            assert!(ext_csd.cache_bytes() < 1 << 42);
            assert!(ext_csd.sleep_awake_time_ns() <= 838_860_800);
            assert!(ext_csd.generic_cmd6_time_ns() > 0 && ext_csd.part_switch_time_ns() > 0);
            assert!(ext_csd.secure_erase_timeout_ns() <= 255 * 255 * 300 * MS);
            assert!(ext_csd.secure_trim_timeout_ns() <= 255 * 255 * 300 * MS);
            let partition = u.arbitrary()?;
            assert!(ext_csd.gp_bytes(partition) < 1 << 60 && ext_csd.max_enhanced_bytes() < 1 << 60);
            assert_eq!(ext_csd.vendor_health().len(), 32);
            assert!(ext_csd.context_conf(partition) == 0 || (1..=15).contains(&partition));
            Ok(())
        });
    }
}
