//! The eMMC's extended register: 512 bytes of abilities and modes [eMMC 7.4].
//!
//! This file has the bytes unchanged, each under the standard's name in lower case. `derived.rs`
//! has their meaning in bytes and nanoseconds, [`index`] the numbers for CMD6.

mod derived;
pub mod index;

pub use derived::{Hpi, LifeTime, PreEol};

use super::{Field, ParseError};

/// EXT_CSD, as read by CMD8.
#[derive(Clone, Copy, Debug)]
pub struct ExtCsd<'a>(&'a [u8; 512]);

/// Accessors of single bytes.
macro_rules! bytes {
    ($($(#[$doc:meta])* $name:ident $index:literal;)*) => {
        impl ExtCsd<'_> {
            $($(#[$doc])* pub const fn $name(&self) -> u8 { self.0[$index] })*
        }
    };
}

bytes! {
    /// 15: 1 if the command queue is on.
    cmdq_mode_en 15;
    /// 16: supported kinds of secure removal in bits 3:0, the one in use in 5:4.
    secure_removal_type 16;
    /// 17: production state awareness.
    product_state_awareness_enablement 17;
    /// 26: state of a firmware update; 0 is good.
    ffu_status 26;
    /// 29: firmware update, operation code.
    mode_operation_codes 29;
    /// 30: firmware update, mode.
    mode_config 30;
    /// 31: 1 if the barrier is on.
    barrier_ctrl 31;
    /// 33: bit 0 if the cache is on.
    cache_ctrl 33;
    /// 34: last power-off notification.
    power_off_notification 34;
    /// 35: entry of a packed command that failed, counted from 1.
    packed_failure_index 35;
    /// 36: bit 0 a packed command failed, bit 1 the index is valid.
    packed_command_status 36;
    /// 58: dynamic capacity is needed.
    dyncap_needed 58;
    /// 59: meaning of class 6.
    class_6_ctrl 59;
    /// 61: 0 if the sectors have 512 bytes, 1 if 4096.
    data_sector_size 61;
    /// 62: native sectors are to be used.
    use_native_sector 62;
    /// 63: size of native sectors, coded as 61.
    native_sector_size 63;
    /// 130: CMD26 and CMD27 work in double data rate.
    program_cid_csd_ddr_support 130;
    /// 131: periodic wake-up.
    periodic_wakeup 131;
    /// 133: production state.
    production_state_awareness 133;
    /// 134: bad blocks are retired securely.
    sec_bad_blk_mgmnt 134;
    /// 155: bit 0 if the partitioning is final.
    partition_setting_completed 155;
    /// 156: enhanced attribute of the user area (bit 0) and the general purpose partitions (4:1).
    partitions_attribute 156;
    /// 160: partitioning (bit 0), enhanced (1) and extended attributes (2) are supported.
    partitioning_support 160;
    /// 161: bit 0 if the high-priority interrupt is on.
    hpi_mgmt 161;
    /// 162: 0 never set, 1 reset pin on, 2 off for ever.
    rst_n_function 162;
    /// 163: background operations: bit 0 manual (for ever), bit 1 automatic.
    bkops_en 163;
    /// 166: bit 2 reliable write without length limits, bit 0 [`wr_rel_set`](Self::wr_rel_set) can
    /// be written, bit 4 RPMB by 32.
    wr_rel_param 166;
    /// 167: partitions that keep the old data when a write is interrupted.
    wr_rel_set 167;
    /// 168: RPMB in units of 128 KiB.
    rpmb_size_mult 168;
    /// 169: bit 0 if firmware updates are off for ever.
    fw_config 169;
    /// 171: write protection of the user area.
    user_wp 171;
    /// 173: write protection of the boot areas.
    boot_wp 173;
    /// 174: how each boot area is protected.
    boot_wp_status 174;
    /// 175: bit 0 if high-capacity erase groups are in use.
    erase_group_def 175;
    /// 177: bus while booting.
    boot_bus_conditions 177;
    /// 178: protection of the boot configuration.
    boot_config_prot 178;
    /// 179: bits 2:0 the partition that is accessed, 5:3 the one that boots, 6 boot acknowledge.
    partition_config 179;
    /// 181: what every byte of erased memory reads as: 0 or 1 in all bits.
    erased_mem_cont 181;
    /// 183: bus width, write-only in the standard.
    bus_width 183;
    /// 184: bit 0 if the enhanced strobe is supported.
    strobe_support 184;
    /// 185: bits 3:0 0 legacy, 1 HS, 2 HS200, 3 HS400; 7:4 driver strength.
    hs_timing 185;
    /// 187: power class.
    power_class 187;
    /// 189: revision of the command set.
    cmd_set_rev 189;
    /// 191: command set.
    cmd_set 191;
    /// 192: revision of this register: 5 is 4.41, 6 is 4.5, 7 is 5.0, 8 is 5.1.
    ext_csd_rev 192;
    /// 194: structure of the CSD.
    csd_structure 194;
    /// 196: device types, see [`hs400`](Self::hs400) and its like.
    device_type 196;
    /// 197: driver strengths, bit n for type n.
    driver_strength 197;
    /// 198: longest time out of an interrupt, in 10 ms.
    out_of_interrupt_time 198;
    /// 199: partition switch time, in 10 ms.
    partition_switch_time 199;
    /// 200: power class of 52 MHz at 1.95 V.
    pwr_cl_52_195 200;
    /// 201: power class of 26 MHz at 1.95 V.
    pwr_cl_26_195 201;
    /// 202: power class of 52 MHz at 3.6 V.
    pwr_cl_52_360 202;
    /// 203: power class of 26 MHz at 3.6 V.
    pwr_cl_26_360 203;
    /// 205: least read performance, 4 bits, 26 MHz.
    min_perf_r_4_26 205;
    /// 206: least write performance, 4 bits, 26 MHz.
    min_perf_w_4_26 206;
    /// 207: least read performance, 8 bits, 26 MHz, or 4 bits, 52 MHz.
    min_perf_r_8_26_4_52 207;
    /// 208: least write performance, 8 bits, 26 MHz, or 4 bits, 52 MHz.
    min_perf_w_8_26_4_52 208;
    /// 209: least read performance, 8 bits, 52 MHz.
    min_perf_r_8_52 209;
    /// 210: least write performance, 8 bits, 52 MHz.
    min_perf_w_8_52 210;
    /// 211: secure write protection.
    secure_wp_info 211;
    /// 216: time to prepare for sleep, 10 us times two to this.
    sleep_notification_time 216;
    /// 217: time to fall asleep and to wake, 100 ns times two to this.
    s_a_timeout 217;
    /// 218: time for a change of the production state, 100 us times two to this.
    production_state_awareness_timeout 218;
    /// 219: sleep current of VCCQ, 1 uA times two to this.
    s_c_vccq 219;
    /// 220: sleep current of VCC, 1 uA times two to this.
    s_c_vcc 220;
    /// 221: write protect group in high-capacity erase groups.
    hc_wp_grp_size 221;
    /// 222: sectors of a reliable write.
    rel_wr_sec_c 222;
    /// 223: erase timeout of a group, in 300 ms.
    erase_timeout_mult 223;
    /// 224: high-capacity erase group in 512 KiB.
    hc_erase_grp_size 224;
    /// 225: super-page size.
    acc_size 225;
    /// 226: a boot area in 128 KiB.
    boot_size_mult 226;
    /// 228: boot modes: bit 0 alternative, 1 double data rate, 2 high speed.
    boot_info 228;
    /// 229: secure trim takes an erase's time times this.
    sec_trim_mult 229;
    /// 230: secure erase takes an erase's time times this.
    sec_erase_mult 230;
    /// 231: bit 0 secure erase, 2 bad block retirement, 4 trim, 6 sanitize.
    sec_feature_support 231;
    /// 232: trim timeout of a group, in 300 ms.
    trim_mult 232;
    /// 234: least read performance, 8 bits, 52 MHz, double data rate.
    min_perf_ddr_r_8_52 234;
    /// 235: least write performance, 8 bits, 52 MHz, double data rate.
    min_perf_ddr_w_8_52 235;
    /// 236: power class of 200 MHz with VCCQ at 1.3 V.
    pwr_cl_200_130 236;
    /// 237: power class of 200 MHz with VCCQ at 1.95 V.
    pwr_cl_200_195 237;
    /// 238: power class of 52 MHz double data rate at 1.95 V.
    pwr_cl_ddr_52_195 238;
    /// 239: power class of 52 MHz double data rate at 3.6 V.
    pwr_cl_ddr_52_360 239;
    /// 240: bit 0 if the cache is flushed in order of arrival.
    cache_flush_policy 240;
    /// 241: first start after partitioning, in 100 ms.
    ini_timeout_ap 241;
    /// 246: urgency of background operations, 0 to 3 in bits 1:0.
    bkops_status 246;
    /// 247: power-off long, in 10 ms.
    power_off_long_time 247;
    /// 248: CMD6, in 10 ms.
    generic_cmd6_time 248;
    /// 253: power class of 200 MHz double data rate at 3.6 V.
    pwr_cl_ddr_200_360 253;
    /// 264: best trim size.
    optimal_trim_unit_size 264;
    /// 265: best write size, in 4 KiB.
    optimal_write_size 265;
    /// 266: best read size, in 4 KiB.
    optimal_read_size 266;
    /// 267: spare blocks, see [`pre_eol`](Self::pre_eol).
    pre_eol_info 267;
    /// 268: wear of type A memory, see [`life_time_a`](Self::life_time_a).
    device_life_time_est_typ_a 268;
    /// 269: wear of type B memory.
    device_life_time_est_typ_b 269;
    /// 307: depth of the command queue less one, in bits 4:0.
    cmdq_depth_less_1 307;
    /// 308: bit 0 if there is a command queue.
    cmdq_support 308;
    /// 486: bit 0 if there is a barrier.
    barrier_support 486;
    /// 491: time for a mode operation, 100 us times two to this.
    operation_code_timeout 491;
    /// 492: bit 0 if a firmware update uses mode operation codes.
    ffu_features 492;
    /// 493: bit 0 firmware update, bit 1 vendor's mode.
    supported_modes 493;
    /// 494: bit 0 system code, bit 1 non-persistent, as extended partition attributes.
    ext_support 494;
    /// 495: size of a large unit less one, in MiB.
    large_unit_size_m1 495;
    /// 496: contexts in bits 3:0, largest of a large unit context in 6:4.
    context_capabilities 496;
    /// 497: memory reserved for tagged data.
    tag_res_size 497;
    /// 498: unit of tagged data, two to this sectors.
    tag_unit_size 498;
    /// 499: bit 0 if data can be tagged.
    data_tag_support 499;
    /// 500: most entries of a packed write; 0: none.
    max_packed_writes 500;
    /// 501: most entries of a packed read; 0: none.
    max_packed_reads 501;
    /// 502: bit 0 if there are background operations.
    bkops_support 502;
    /// 503: bit 0 high-priority interrupt, bit 1 by CMD12 instead of CMD13.
    hpi_features 503;
    /// 504: command sets, bit n for set n.
    s_cmd_set 504;
    /// 505: error of a security protocol.
    ext_security_err 505;
}

impl<'a> ExtCsd<'a> {
    /// Reads the bytes. Error: a reserved CSD structure (194), since then no other field is
    /// reliable.
    pub const fn parse(bytes: &'a [u8; 512]) -> Result<Self, ParseError> {
        match bytes[194] {
            0..=2 => Ok(ExtCsd(bytes)),
            value => Err(ParseError { field: Field::ExtCsdStructure, value: value as u32 }),
        }
    }

    /// Returns all 512 bytes.
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
