//! The EXT_CSD register of eMMC: 512 bytes of properties and modes [eMMC 7.4].
//!
//! This file has the raw bytes, each under the standard's name in lower case. `derived.rs` converts
//! them to bytes and nanoseconds, and [`index`] has the byte numbers for CMD6.

mod derived;
pub mod index;

pub use derived::{Hpi, LifeTime, PreEol};

use super::{Field, ParseError};

/// The EXT_CSD register, as read by CMD8.
#[derive(Clone, Copy, Debug)]
pub struct ExtCsd<'a>(&'a [u8; 512]);

/// Defines the functions that return single bytes.
macro_rules! bytes {
    ($($(#[$doc:meta])* $name:ident $index:literal;)*) => {
        impl ExtCsd<'_> {
            $($(#[$doc])* pub const fn $name(&self) -> u8 { self.0[$index] })*
        }
    };
}

bytes! {
    /// Byte 15: 1 if the command queue is enabled.
    cmdq_mode_en 15;
    /// Byte 16: supported kinds of secure removal in bits 3:0, the kind in use in 5:4.
    secure_removal_type 16;
    /// Byte 17: whether production state awareness is enabled: the device gets data before it is
    /// soldered.
    product_state_awareness_enablement 17;
    /// Byte 26: status of a firmware update; 0 is success.
    ffu_status 26;
    /// Byte 29: operation code of a firmware update.
    mode_operation_codes 29;
    /// Byte 30: mode of a firmware update.
    mode_config 30;
    /// Byte 31: 1 if the barrier of the cache is enabled.
    barrier_ctrl 31;
    /// Byte 33: bit 0 is set if the cache is enabled.
    cache_ctrl 33;
    /// Byte 34: last power-off notification.
    power_off_notification 34;
    /// Byte 35: entry of a packed command that failed, counted from 1.
    packed_failure_index 35;
    /// Byte 36: bit 0 is set if a packed command failed, bit 1 if
    /// [`packed_failure_index`](Self::packed_failure_index) is valid.
    packed_command_status 36;
    /// Byte 58: whether the release of dynamic capacity is requested.
    dyncap_needed 58;
    /// Byte 59: meaning of command class 6.
    class_6_ctrl 59;
    /// Byte 61: sector size, 0 for 512 bytes, 1 for 4096.
    data_sector_size 61;
    /// Byte 62: whether the native sector size is selected.
    use_native_sector 62;
    /// Byte 63: native sector size, coded as in [`data_sector_size`](Self::data_sector_size).
    native_sector_size 63;
    /// Byte 130: whether CMD26 and CMD27 work with DDR.
    program_cid_csd_ddr_support 130;
    /// Byte 131: period of the wake-up for maintenance.
    periodic_wakeup 131;
    /// Byte 133: whether the device gets data before it is soldered: 0 normal use, 1 and 2 manual
    /// mode (while and after the data are written), 3 automatic mode.
    production_state_awareness 133;
    /// Byte 134: whether the device erases bad blocks securely when it retires them.
    sec_bad_blk_mgmnt 134;
    /// Byte 155: bit 0 is set if the partitioning is final.
    partition_setting_completed 155;
    /// Byte 156: enhanced attribute of the user area (bit 0) and the general purpose partitions
    /// (4:1).
    partitions_attribute 156;
    /// Byte 160: supported functions: partitioning (bit 0), enhanced attribute (1), extended
    /// attributes (2).
    partitioning_support 160;
    /// Byte 161: bit 0 is set if the high-priority interrupt (HPI) is enabled.
    hpi_mgmt 161;
    /// Byte 162: RST_n: 0 never configured, 1 enabled, 2 disabled for ever.
    rst_n_function 162;
    /// Byte 163: background operations: bit 0 manual (set for ever), bit 1 automatic.
    bkops_en 163;
    /// Byte 166: bit 2 is set for reliable writes of any length, bit 0 if
    /// [`wr_rel_set`](Self::wr_rel_set) can be written, bit 4 if one RPMB write can have 32 frames.
    wr_rel_param 166;
    /// Byte 167: partitions that keep the old data when a write is interrupted, one bit each.
    wr_rel_set 167;
    /// Byte 168: size of the RPMB partition in units of 128 KiB.
    rpmb_size_mult 168;
    /// Byte 169: bit 0 is set if firmware updates are disabled for ever.
    fw_config 169;
    /// Byte 171: write protection of the user area.
    user_wp 171;
    /// Byte 173: write protection of the boot areas.
    boot_wp 173;
    /// Byte 174: state of the write protection of each boot area.
    boot_wp_status 174;
    /// Byte 175: bit 0 is set if high-capacity erase groups are in use.
    erase_group_def 175;
    /// Byte 177: bus width and timing during boot.
    boot_bus_conditions 177;
    /// Byte 178: protection of the boot configuration.
    boot_config_prot 178;
    /// Byte 179: the partition that is accessed in bits 2:0, the partition that boots in 5:3, boot
    /// acknowledge in 6.
    partition_config 179;
    /// Byte 181: value of all bits of erased memory, 0 or 1.
    erased_mem_cont 181;
    /// Byte 183: bus width; the standard makes the byte write-only.
    bus_width 183;
    /// Byte 184: bit 0 is set if the enhanced strobe is supported.
    strobe_support 184;
    /// Byte 185: timing in bits 3:0 (0 legacy, 1 HS, 2 HS200, 3 HS400), driver strength in 7:4.
    hs_timing 185;
    /// Byte 187: power class in use.
    power_class 187;
    /// Byte 189: revision of the command set.
    cmd_set_rev 189;
    /// Byte 191: command set in use.
    cmd_set 191;
    /// Byte 192: revision of EXT_CSD: 5 is eMMC 4.41, 6 is 4.5, 7 is 5.0, 8 is 5.1.
    ext_csd_rev 192;
    /// Byte 194: structure of the CSD.
    csd_structure 194;
    /// Byte 196: supported timings, decoded by [`hs400`](Self::hs400) and similar functions.
    device_type 196;
    /// Byte 197: supported driver strengths, bit n for type n.
    driver_strength 197;
    /// Byte 198: longest busy after a high-priority interrupt, in units of 10 ms.
    out_of_interrupt_time 198;
    /// Byte 199: longest busy of a partition switch, in units of 10 ms.
    partition_switch_time 199;
    /// Byte 200: power class at 52 MHz and 1.95 V.
    pwr_cl_52_195 200;
    /// Byte 201: power class at 26 MHz and 1.95 V.
    pwr_cl_26_195 201;
    /// Byte 202: power class at 52 MHz and 3.6 V.
    pwr_cl_52_360 202;
    /// Byte 203: power class at 26 MHz and 3.6 V.
    pwr_cl_26_360 203;
    /// Byte 205: least read performance (a code) with 4 data lines at 26 MHz.
    min_perf_r_4_26 205;
    /// Byte 206: least write performance (a code) with 4 data lines at 26 MHz.
    min_perf_w_4_26 206;
    /// Byte 207: least read performance (a code) with 8 data lines at 26 MHz, or 4 at 52 MHz.
    min_perf_r_8_26_4_52 207;
    /// Byte 208: least write performance (a code) with 8 data lines at 26 MHz, or 4 at 52 MHz.
    min_perf_w_8_26_4_52 208;
    /// Byte 209: least read performance (a code) with 8 data lines at 52 MHz.
    min_perf_r_8_52 209;
    /// Byte 210: least write performance (a code) with 8 data lines at 52 MHz.
    min_perf_w_8_52 210;
    /// Byte 211: support of secure write protection.
    secure_wp_info 211;
    /// Byte 216: n, for a longest sleep notification of 10 us * 2^n.
    sleep_notification_time 216;
    /// Byte 217: n, for a longest time to enter or leave sleep of 100 ns * 2^n.
    s_a_timeout 217;
    /// Byte 218: n, for a longest change of
    /// [`production_state_awareness`](Self::production_state_awareness) of 100 us * 2^n.
    production_state_awareness_timeout 218;
    /// Byte 219: n, for a sleep current from VCCQ of 1 uA * 2^n.
    s_c_vccq 219;
    /// Byte 220: n, for a sleep current from VCC of 1 uA * 2^n.
    s_c_vcc 220;
    /// Byte 221: size of a write protect group, in high-capacity erase groups.
    hc_wp_grp_size 221;
    /// Byte 222: number of sectors in a reliable write.
    rel_wr_sec_c 222;
    /// Byte 223: longest erase of a high-capacity erase group, in units of 300 ms.
    erase_timeout_mult 223;
    /// Byte 224: size of a high-capacity erase group, in units of 512 KiB.
    hc_erase_grp_size 224;
    /// Byte 225: super-page size code.
    acc_size 225;
    /// Byte 226: size of a boot area, in units of 128 KiB.
    boot_size_mult 226;
    /// Byte 228: supported boot modes: bit 0 alternative boot, bit 1 DDR, bit 2 high speed.
    boot_info 228;
    /// Byte 229: factor by which a secure trim takes longer than an erase.
    sec_trim_mult 229;
    /// Byte 230: factor by which a secure erase takes longer than an erase.
    sec_erase_mult 230;
    /// Byte 231: supported functions: bit 0 secure erase, 2 secure bad block retirement, 4 trim, 6
    /// sanitize.
    sec_feature_support 231;
    /// Byte 232: longest trim of an erase group, in units of 300 ms.
    trim_mult 232;
    /// Byte 234: least read performance (a code) with 8 data lines at 52 MHz, DDR.
    min_perf_ddr_r_8_52 234;
    /// Byte 235: least write performance (a code) with 8 data lines at 52 MHz, DDR.
    min_perf_ddr_w_8_52 235;
    /// Byte 236: power class at 200 MHz with VCCQ at 1.3 V.
    pwr_cl_200_130 236;
    /// Byte 237: power class at 200 MHz with VCCQ at 1.95 V.
    pwr_cl_200_195 237;
    /// Byte 238: power class at 52 MHz DDR and 1.95 V.
    pwr_cl_ddr_52_195 238;
    /// Byte 239: power class at 52 MHz DDR and 3.6 V.
    pwr_cl_ddr_52_360 239;
    /// Byte 240: bit 0 is set if the cache is flushed in the order in which data arrived.
    cache_flush_policy 240;
    /// Byte 241: longest first power-up after partitioning, in units of 100 ms.
    ini_timeout_ap 241;
    /// Byte 246: urgency of background operations, 0 to 3 in bits 1:0.
    bkops_status 246;
    /// Byte 247: longest busy of the notification "power off long", in units of 10 ms.
    power_off_long_time 247;
    /// Byte 248: longest busy of CMD6, in units of 10 ms.
    generic_cmd6_time 248;
    /// Byte 253: power class at 200 MHz DDR and 3.6 V.
    pwr_cl_ddr_200_360 253;
    /// Byte 264: best size of a trim.
    optimal_trim_unit_size 264;
    /// Byte 265: best size of a write, in units of 4 KiB.
    optimal_write_size 265;
    /// Byte 266: best size of a read, in units of 4 KiB.
    optimal_read_size 266;
    /// Byte 267: used share of the spare blocks, see [`pre_eol`](Self::pre_eol).
    pre_eol_info 267;
    /// Byte 268: wear of type A memory, see [`life_time_a`](Self::life_time_a).
    device_life_time_est_typ_a 268;
    /// Byte 269: wear of type B memory, see [`life_time_b`](Self::life_time_b).
    device_life_time_est_typ_b 269;
    /// Byte 307: depth of the command queue minus one, in bits 4:0.
    cmdq_depth_less_1 307;
    /// Byte 308: bit 0 is set if the device has a command queue.
    cmdq_support 308;
    /// Byte 486: bit 0 is set if the device supports the barrier of the cache.
    barrier_support 486;
    /// Byte 491: n, for a longest firmware operation code of 100 us * 2^n.
    operation_code_timeout 491;
    /// Byte 492: bit 0 is set if a firmware update uses operation codes.
    ffu_features 492;
    /// Byte 493: supported modes: bit 0 firmware update, bit 1 vendor's mode.
    supported_modes 493;
    /// Byte 494: supported extended partition attributes: bit 0 system code, bit 1 non-persistent.
    ext_support 494;
    /// Byte 495: size of a large unit minus one, in units of 1 MiB.
    large_unit_size_m1 495;
    /// Byte 496: number of contexts in bits 3:0, largest multiple of a large unit context in 6:4.
    context_capabilities 496;
    /// Byte 497: size code of the memory that is reserved for tagged data.
    tag_res_size 497;
    /// Byte 498: n, for a unit of tagged data of 2^n sectors.
    tag_unit_size 498;
    /// Byte 499: bit 0 is set if the device supports data tags.
    data_tag_support 499;
    /// Byte 500: largest number of entries in a packed write; 0 if not supported.
    max_packed_writes 500;
    /// Byte 501: largest number of entries in a packed read; 0 if not supported.
    max_packed_reads 501;
    /// Byte 502: bit 0 is set if the device supports background operations.
    bkops_support 502;
    /// Byte 503: high-priority interrupt (HPI): bit 0 is set if supported, bit 1 if sent by CMD12
    /// instead of CMD13.
    hpi_features 503;
    /// Byte 504: supported command sets, bit n for set n.
    s_cmd_set 504;
    /// Byte 505: error bits of a security protocol.
    ext_security_err 505;
}

impl<'a> ExtCsd<'a> {
    /// Decodes the 512 bytes. Returns an error for a reserved CSD structure (byte 194), since then
    /// no other field is reliable.
    pub const fn parse(bytes: &'a [u8; 512]) -> Result<Self, ParseError> {
        match bytes[194] {
            0..=2 => Ok(ExtCsd(bytes)),
            value => Err(ParseError { field: Field::ExtCsdStructure, value: value as u32 }),
        }
    }

    /// Returns all 512 bytes of the register.
    pub const fn bytes(&self) -> &'a [u8; 512] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_structure_is_refused() {
        let mut bytes = [0; 512];
        assert!(ExtCsd::parse(&bytes).is_ok());
        bytes[194] = 3;
        let error = ExtCsd::parse(&bytes).unwrap_err();
        assert_eq!((error.field, error.value), (Field::ExtCsdStructure, 3));
    }

    #[test]
    fn bytes_are_where_the_table_says() {
        let mut bytes = [0; 512];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at % 251) as u8;
        }
        bytes[194] = 2;
        let ext_csd = ExtCsd::parse(&bytes).unwrap();
        assert_eq!(ext_csd.hs_timing(), index::HS_TIMING);
        assert_eq!(ext_csd.partition_config(), index::PARTITION_CONFIG);
        assert_eq!(ext_csd.cmdq_mode_en(), index::CMDQ_MODE_EN);
        assert_eq!(ext_csd.cache_ctrl(), index::CACHE_CTRL);
        assert_eq!(ext_csd.power_off_notification(), index::POWER_OFF_NOTIFICATION);
        assert_eq!(ext_csd.bkops_en(), index::BKOPS_EN);
        assert_eq!(u16::from(ext_csd.max_packed_writes()), 500 % 251);
    }
}
