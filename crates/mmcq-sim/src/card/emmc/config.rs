//! Identity registers of an eMMC: CID, CSD and EXT_CSD [eMMC 7].

use super::super::flash::Timing;
use super::super::queue::QueueConfig;
use super::super::quirk::Quirks;
use super::super::registers::{Identity, emmc_cid, put, seal};
use super::current::PowerClasses;
use super::packed::PackedConfig;

/// Indexes in EXT_CSD of the bytes that the model uses [eMMC 7.4].
pub(super) mod byte {
    pub(crate) const CMDQ_MODE_EN: u8 = 15;
    pub(crate) const FLUSH_CACHE: u8 = 32;
    pub(crate) const CACHE_CTRL: u8 = 33;
    pub(crate) const POWER_OFF_NOTIFICATION: u8 = 34;
    pub(crate) const EXCEPTION_EVENTS_CTRL_LOW: u8 = 56;
    pub(crate) const EXCEPTION_EVENTS_CTRL_HIGH: u8 = 57;
    pub(crate) const INAND_CMD38: u8 = 113;
    pub(crate) const PERIODIC_WAKEUP: u8 = 131;
    pub(crate) const HPI_MGMT: u8 = 161;
    pub(crate) const RST_N_FUNCTION: u8 = 162;
    pub(crate) const BKOPS_EN: u8 = 163;
    pub(crate) const BKOPS_START: u8 = 164;
    pub(crate) const SANITIZE_START: u8 = 165;
    pub(crate) const USER_WP: u8 = 171;
    pub(crate) const BOOT_WP: u8 = 173;
    pub(crate) const ERASE_GROUP_DEF: u8 = 175;
    pub(crate) const BOOT_BUS_CONDITIONS: u8 = 177;
    pub(crate) const BOOT_CONFIG_PROT: u8 = 178;
    pub(crate) const PARTITION_CONFIG: u8 = 179;
    pub(crate) const BUS_WIDTH: u8 = 183;
    pub(crate) const STROBE_SUPPORT: u8 = 184;
    pub(crate) const HS_TIMING: u8 = 185;
    pub(crate) const POWER_CLASS: u8 = 187;
    pub(crate) const CMD_SET: u8 = 191;
    pub(crate) const CARD_TYPE: u8 = 196;
    pub(crate) const DRIVER_STRENGTH: u8 = 197;
    pub(crate) const SEC_FEATURE_SUPPORT: u8 = 231;

    /// Names and indexes of the bytes of EXT_CSD that a power cycle does not reset. A part of
    /// PARTITION_CONFIG also survives.
    pub(crate) const KEPT: [(&str, u8); 6] = [
        ("RST_N_FUNCTION", RST_N_FUNCTION),
        ("BKOPS_EN", BKOPS_EN),
        ("BOOT_CONFIG_PROT", BOOT_CONFIG_PROT),
        ("BOOT_BUS_CONDITIONS", BOOT_BUS_CONDITIONS),
        ("USER_WP", USER_WP),
        ("BOOT_WP", BOOT_WP),
    ];
}

/// Mask of BOOT_ACK and BOOT_PARTITION_ENABLE in PARTITION_CONFIG.
pub(super) const BOOT_CHOICE: u8 = 0x78;

/// Bit of CARD_TYPE in EXT_CSD: the device supports HS at up to 52 MHz.
pub(super) const TYPE_HS52: u8 = 0x02;
/// Bit of CARD_TYPE in EXT_CSD: the device supports DDR52.
pub(super) const TYPE_DDR52: u8 = 0x04;
/// Bit of CARD_TYPE in EXT_CSD: the device supports HS200 at 1.8 V.
pub(super) const TYPE_HS200: u8 = 0x10;
/// Bit of CARD_TYPE in EXT_CSD: the device supports HS400 at 1.8 V.
pub(super) const TYPE_HS400: u8 = 0x40;

/// Revision of the standard that the device follows, as EXT_CSD_REV holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    /// EXT_CSD_REV of a device of eMMC 4.41.
    V4_41 = 5,
    /// EXT_CSD_REV of a device of eMMC 4.5 or 4.51.
    V4_5 = 6,
    /// EXT_CSD_REV of a device of eMMC 5.0 or 5.01.
    V5_0 = 7,
    /// EXT_CSD_REV of a device of eMMC 5.1.
    V5_1 = 8,
}

/// Fastest bus timing of the device, which also supports all slower timings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fastest {
    Hs26,
    Hs52,
    Ddr52,
    Hs200,
    Hs400,
    Hs400Es,
}

/// Configuration of an eMMC: its registers, times and quirks, but not the content of its medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmmcConfig {
    pub(crate) identity: Identity,
    pub(crate) capacity_bytes: u64,
    pub(crate) revision: Revision,
    pub(crate) fastest: Fastest,
    /// CACHE_SIZE of EXT_CSD: the size of the write cache in KiB that the host reads.
    pub(crate) cache_size_kib: u32,
    pub(crate) boot_bytes: u64,
    pub(crate) gp_bytes: [u64; 4],
    pub(crate) rpmb_bytes: u64,
    /// Whether CMD13 can send a high priority interrupt (HPI).
    pub(crate) hpi: bool,
    pub(crate) power_up_ns: u64,
    pub(crate) switch_ns: u64,
    pub(crate) partition_switch_ns: u64,
    pub(crate) sleep_awake_ns: u64,
    pub(crate) generic_cmd6_time_ms: u64,
    pub(crate) power_classes: PowerClasses,
    pub(crate) flash: Timing,
    /// The command queue, which devices of revision 5.1 may have; `None`: the device has none.
    pub(crate) queue: Option<QueueConfig>,
    /// Packed commands, which devices from revision 4.5 on may have; `None`: the device has none.
    pub(crate) packed: Option<PackedConfig>,
    pub(crate) quirks: Quirks,
}

/// Size in bytes of an erase group: 512 KiB, in the old and in the high-capacity definition.
pub(crate) const ERASE_GROUP_BYTES: u64 = 512 * 1024;
/// Size in bytes of a write protect group: 16 erase groups.
pub(crate) const WP_GROUP_BYTES: u64 = 16 * ERASE_GROUP_BYTES;
/// Size in bytes of the unit in which BOOT_SIZE_MULT counts.
pub(crate) const BOOT_UNIT_BYTES: u64 = 128 * 1024;
/// Largest capacity in bytes of an eMMC whose commands take byte addresses.
pub(crate) const BYTE_MODE_BYTES: u64 = 2 << 30;

impl EmmcConfig {
    pub(crate) fn sector_mode(&self) -> bool {
        self.capacity_bytes > BYTE_MODE_BYTES
    }

    /// Returns READ_BL_LEN of the CSD: the block length after a reset is 2 to this power.
    fn read_bl_len(&self) -> u8 {
        if self.sector_mode() || self.capacity_bytes <= 1 << 30 { 9 } else { 10 }
    }

    /// Returns the block length in bytes that reads and writes have after a reset.
    pub(super) fn default_block_len(&self) -> u16 {
        1 << self.read_bl_len()
    }

    pub(crate) fn cid(&self) -> [u8; 16] {
        emmc_cid(&self.identity, self.revision >= Revision::V4_41)
    }

    /// Returns the CSD [eMMC 7.3]. A device of more than 2 GiB has the largest C_SIZE here; its
    /// true size is in EXT_CSD.
    pub(crate) fn csd(&self) -> [u8; 16] {
        let mut csd = [0u8; 16];
        put(&mut csd, 127, 126, 3);
        put(&mut csd, 125, 122, 4);
        // TAAC 10 ms, NSAC 100 clocks, TRAN_SPEED 26 MHz, command classes 0, 2, 4, 5, 6, 7.
        put(&mut csd, 119, 112, 0x0f);
        put(&mut csd, 111, 104, 1);
        put(&mut csd, 103, 96, 0x32);
        put(&mut csd, 95, 84, 0x0f5);
        let block_len = u64::from(self.read_bl_len());
        let c_size = if self.sector_mode() { 0xfff } else { self.capacity_bytes / (512u64 << block_len) - 1 };
        put(&mut csd, 83, 80, block_len);
        put(&mut csd, 73, 62, c_size);
        put(&mut csd, 61, 50, 0o7777);
        put(&mut csd, 49, 47, 7);
        put(&mut csd, 46, 42, 31);
        put(&mut csd, 41, 37, 31);
        put(&mut csd, 36, 32, 15);
        put(&mut csd, 31, 31, 1);
        put(&mut csd, 28, 26, 2);
        put(&mut csd, 25, 22, block_len);
        seal(&mut csd);
        csd
    }

    /// Returns EXT_CSD after a power-up [eMMC 7.4].
    pub(crate) fn ext_csd(&self) -> [u8; 512] {
        let mut ext = [0u8; 512];
        let since = |revision| self.revision >= revision;
        // The properties segment of EXT_CSD: the host can only read it.
        ext[504] = 1;
        // HPI_FEATURES: an HPI is sent by CMD13.
        ext[503] = self.hpi.into();
        ext[502] = 1;
        if let Some(packed) = self.packed {
            (ext[501], ext[500]) = (packed.reads, packed.writes);
        }
        if let Some(queue) = self.queue {
            ext[308] = 1;
            ext[307] = queue.depth - 1;
        }
        if since(Revision::V5_0) {
            ext[269] = 1;
            ext[268] = 1;
            ext[267] = 1;
            ext[254..262].copy_from_slice(&u64::from(self.identity.revision).to_le_bytes());
        }
        if since(Revision::V4_5) {
            ext[266] = 1;
            ext[265] = 8;
            ext[264] = 1;
            ext[249..253].copy_from_slice(&self.cache_size_kib.to_le_bytes());
            ext[248] = (self.generic_cmd6_time_ms.div_ceil(10)).min(255) as u8;
            ext[247] = 100;
        }
        ext[241] = (self.power_up_ns.div_ceil(100_000_000)).clamp(1, 255) as u8;
        // TRIM_MULT; SEC_FEATURE_SUPPORT (secure erase, secure bad block, trim, sanitize); the
        // secure multipliers.
        ext[232] = 2;
        ext[usize::from(byte::SEC_FEATURE_SUPPORT)] = if since(Revision::V4_5) { 0x55 } else { 0x15 };
        ext[230] = 10;
        ext[229] = 10;
        ext[228] = 7;
        ext[226] = (self.boot_bytes / BOOT_UNIT_BYTES) as u8;
        ext[225] = 6;
        ext[224] = 1;
        ext[223] = 2;
        ext[222] = 1;
        ext[221] = (WP_GROUP_BYTES / ERASE_GROUP_BYTES) as u8;
        ext[220] = 7;
        ext[219] = 7;
        ext[217] = sleep_code(self.sleep_awake_ns);
        let sectors = u32::try_from(self.capacity_bytes / 512).unwrap_or(u32::MAX);
        ext[212..216].copy_from_slice(&sectors.to_le_bytes());
        // Minimum performance classes: at least class J (8) at 8 bits and 52 MHz.
        ext[205..211].fill(8);
        ext[199] = (self.partition_switch_ns.div_ceil(10_000_000)).clamp(1, 255) as u8;
        ext[198] = 5;
        self.power_classes.write_to(&mut ext);
        if self.fastest >= Fastest::Hs200 {
            // DRIVER_STRENGTH: types 0 to 3; from revision 5.0 on also type 4 (40 ohms).
            ext[usize::from(byte::DRIVER_STRENGTH)] = if since(Revision::V5_0) { 0x1f } else { 0x0f };
        }
        ext[usize::from(byte::CARD_TYPE)] = self.card_type();
        ext[194] = 2;
        ext[192] = self.revision as u8;
        ext[usize::from(byte::STROBE_SUPPORT)] = (self.fastest == Fastest::Hs400Es).into();
        ext[168] = (self.rpmb_bytes / BOOT_UNIT_BYTES) as u8;
        // The partitions were set up in the factory, and the host cannot change them.
        ext[167] = 0x1f;
        ext[166] = if self.rpmb_bytes > 0 && since(Revision::V5_1) { 0x14 } else { 0x04 };
        if self.quirks.reliable_unit > 0 {
            ext[166] &= !0x04;
            ext[222] = self.quirks.reliable_unit;
        }
        ext[160] = 0x03;
        for (gp, bytes) in self.gp_bytes.iter().enumerate() {
            let units = (bytes / WP_GROUP_BYTES).to_le_bytes();
            ext[143 + 3 * gp..146 + 3 * gp].copy_from_slice(&units[..3]);
        }
        ext[155] = 1;
        ext
    }

    /// Returns whether the card takes a reliable write of `blocks` sectors from byte address `at`
    /// on [eMMC 6.6.8.1].
    pub(super) fn takes_reliable(&self, at: u64, blocks: u32) -> bool {
        let unit = u32::from(self.quirks.reliable_unit);
        unit == 0 || blocks == 1 || blocks == unit && (at / 512).is_multiple_of(unit.into())
    }

    fn card_type(&self) -> u8 {
        let steps = [
            (Fastest::Hs26, 0x01),
            (Fastest::Hs52, TYPE_HS52),
            (Fastest::Ddr52, TYPE_DDR52),
            (Fastest::Hs200, TYPE_HS200),
            (Fastest::Hs400, TYPE_HS400),
        ];
        steps.iter().filter(|(step, _)| self.fastest >= *step).fold(0, |bits, (_, bit)| bits | bit)
    }
}

/// Returns the S_A_TIMEOUT code for a time in ns. The code means a time of 100 ns << code.
fn sleep_code(ns: u64) -> u8 {
    (1..=0x17).find(|code| 100u64 << code >= ns).unwrap_or(0x17)
}
