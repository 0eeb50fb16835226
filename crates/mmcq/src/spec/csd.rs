//! The CSD register: size, speed and supported commands of a card [SD 5.3], [eMMC 7.3].

use super::{Field, ParseError, bits, timing};
use core::ops::RangeInclusive;

/// Structure of the CSD (CSD_STRUCTURE): which bits hold which field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// CSD structure version 1.0 of the SD standard: SDSC cards, up to 2 GB.
    SdV1,
    /// CSD structure version 2.0 of the SD standard: SDHC and SDXC cards, over 2 GB up to 2 TB.
    SdV2,
    /// CSD structure version 3.0 of the SD standard: SDUC cards, over 2 TB.
    SdV3,
    /// Structure of the CSD in the eMMC standard.
    Emmc,
}

/// The command classes that a card supports (CCC) [SD 4.7.3], [eMMC 6.10.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes(pub u16);

impl Classes {
    /// Returns whether the card supports command class `class`, 0 to 11.
    pub const fn has(self, class: u8) -> bool {
        class < 12 && self.0 >> class & 1 != 0
    }
}

/// The CSD, decoded. A "write block" has [`write_block_bytes`](Self::write_block_bytes) bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Csd {
    /// Structure of this CSD: which bits hold which field.
    pub structure: Structure,
    /// eMMC: version of the standard (SPEC_VERS), 4 for all of 4.x and 5.x. SD: 0.
    pub spec_version: u8,
    /// Read access time, the part in nanoseconds (TAAC), rounded up. Reserved codes read as 0.
    pub access_ns: u64,
    /// Read access time, the part in clocks (NSAC).
    pub access_clocks: u32,
    /// Fastest clock (TRAN_SPEED) in the card's present mode, in hertz. Reserved codes read as 25 MHz
    /// on SD and 26 MHz on eMMC.
    pub tran_speed_hz: u32,
    /// Supported command classes (CCC).
    pub classes: Classes,
    /// Longest block that can be read (READ_BL_LEN), in bytes.
    pub read_block_bytes: u32,
    /// Whether shorter blocks can be read (READ_BL_PARTIAL).
    pub read_partial: bool,
    /// Whether a block that is read may cross a physical block boundary (READ_BLK_MISALIGN).
    pub read_misalign: bool,
    /// Longest block that can be written (WRITE_BL_LEN), in bytes.
    pub write_block_bytes: u32,
    /// Whether shorter blocks can be written (WRITE_BL_PARTIAL).
    pub write_partial: bool,
    /// Whether a block that is written may cross a physical block boundary (WRITE_BLK_MISALIGN).
    pub write_misalign: bool,
    /// Whether the card's driver stage can be set by CMD4 (DSR_IMP).
    pub dsr: bool,
    /// Size of the card in bytes. `None` for an eMMC over 2 GB: see
    /// [`ExtCsd::capacity_bytes`](super::ext_csd::ExtCsd::capacity_bytes).
    pub capacity_bytes: Option<u64>,
    /// SD: whether single write blocks can be erased (ERASE_BLK_EN).
    pub erase_single_block: bool,
    /// Smallest erasable unit in write blocks: SECTOR_SIZE of SD, or the erase group of eMMC.
    pub erase_unit_blocks: u32,
    /// Size of a write protect group in erase units; `None` if the card has no group protection.
    pub wp_group_units: Option<u32>,
    /// Factor by which a write takes longer than a read (R2W_FACTOR): 1 to 128.
    pub r2w_factor: u32,
    /// eMMC: error correction that the manufacturer chose (DEFAULT_ECC).
    pub default_ecc: u8,
    /// eMMC: error correction that is in use (ECC).
    pub ecc: u8,
    /// eMMC: whether content protection is supported.
    pub content_protection: bool,
    /// Whether the content is a copy (COPY).
    pub copy: bool,
    /// Whether the card is write-protected for ever (PERM_WRITE_PROTECT).
    pub perm_write_protect: bool,
    /// Whether the card is write-protected until this bit is cleared (TMP_WRITE_PROTECT).
    pub tmp_write_protect: bool,
    /// SD: whether write protection until the next power cycle is supported (WP_UPC).
    pub wp_until_power_cycle: bool,
    /// FILE_FORMAT_GRP and FILE_FORMAT as a three-bit number; 0 is a disk with a partition table.
    pub file_format: u8,
}

impl Csd {
    /// Decodes the CSD of an SD card, from the R2 response [SD 5.3].
    ///
    /// Returns an error for the reserved structure code 3, and (version 1) for a code of a block
    /// length that the standard reserves.
    pub fn parse_sd(words: &[u32; 4]) -> Result<Self, ParseError> {
        let bits = Bits(words);
        let structure = match bits.at(127, 126) {
            0 => Structure::SdV1,
            1 => Structure::SdV2,
            2 => Structure::SdV3,
            value => return Err(ParseError { field: Field::CsdStructure, value }),
        };
        let (read_log, write_log, capacity_bytes) = match structure {
            Structure::SdV1 => {
                let read = bits.block_log(Field::ReadBlLen, 83, 80, 9..=11)?;
                let write = bits.block_log(Field::WriteBlLen, 25, 22, 9..=11)?;
                (read, write, u64::from(bits.at(73, 62) + 1) << (bits.at(49, 47) + 2 + read))
            }
            Structure::SdV2 => (9, 9, u64::from(bits.at(69, 48) + 1) << 19),
            // These CSD versions have fixed block lengths; the standard says not to use the fields.
            Structure::SdV3 | Structure::Emmc => (9, 9, u64::from(bits.at(75, 48) + 1) << 19),
        };
        Ok(Csd {
            structure,
            spec_version: 0,
            tran_speed_hz: bits.tran_speed_hz(&TRAN_SPEED_SD),
            capacity_bytes: Some(capacity_bytes),
            read_block_bytes: 1 << read_log,
            write_block_bytes: 1 << write_log,
            erase_single_block: bits.flag(46),
            erase_unit_blocks: bits.at(45, 39) + 1,
            wp_group_units: bits.flag(31).then(|| bits.at(38, 32) + 1),
            wp_until_power_cycle: bits.flag(9),
            default_ecc: 0,
            ecc: 0,
            content_protection: false,
            ..bits.stack()
        })
    }

    /// Decodes the CSD of an eMMC, from the R2 response [eMMC 7.3].
    ///
    /// Returns an error for a code of a block length that the standard reserves.
    pub fn parse_emmc(words: &[u32; 4]) -> Result<Self, ParseError> {
        let bits = Bits(words);
        let read_log = bits.block_log(Field::ReadBlLen, 83, 80, 0..=14)?;
        let write_log = bits.block_log(Field::WriteBlLen, 25, 22, 0..=14)?;
        let c_size = bits.at(73, 62);
        let small = u64::from(c_size + 1) << (bits.at(49, 47) + 2 + read_log);
        Ok(Csd {
            structure: Structure::Emmc,
            spec_version: bits.at(125, 122) as u8,
            tran_speed_hz: bits.tran_speed_hz(&TRAN_SPEED_EMMC),
            capacity_bytes: (c_size != 0xfff).then_some(small),
            read_block_bytes: 1 << read_log,
            write_block_bytes: 1 << write_log,
            erase_single_block: false,
            erase_unit_blocks: (bits.at(46, 42) + 1) * (bits.at(41, 37) + 1),
            wp_group_units: bits.flag(31).then(|| bits.at(36, 32) + 1),
            wp_until_power_cycle: false,
            default_ecc: bits.at(30, 29) as u8,
            ecc: bits.at(9, 8) as u8,
            content_protection: bits.flag(16),
            ..bits.stack()
        })
    }

    /// Returns the size in blocks of 512 bytes; `None` if the CSD does not have the size.
    pub fn blocks(&self) -> Option<u64> {
        self.capacity_bytes.map(|bytes| bytes / 512)
    }

    /// Returns the smallest erasable unit in bytes. If the card can also erase single blocks, it
    /// erases this unit faster.
    pub fn erase_unit_bytes(&self) -> u64 {
        u64::from(self.erase_unit_blocks) * u64::from(self.write_block_bytes)
    }

    /// Returns the typical read access time at this clock in nanoseconds, TAAC and NSAC together; a
    /// clock of 0 Hz counts as 1 Hz.
    pub fn access_time_ns(&self, clock_hz: u32) -> u64 {
        let clocks_ns = u64::from(self.access_clocks) * 1_000_000_000 / u64::from(clock_hz.max(1));
        self.access_ns.saturating_add(clocks_ns)
    }

    /// Returns the longest time to the first byte of a read, in nanoseconds, with the bus clock
    /// `clock_hz` [SD 4.6.2.1], [eMMC 6.8.2].
    pub fn read_timeout_ns(&self, clock_hz: u32) -> u64 {
        match self.structure {
            Structure::SdV1 => self.access_time_ns(clock_hz).saturating_mul(100).min(timing::sd::READ_NS),
            Structure::SdV2 | Structure::SdV3 => timing::sd::READ_NS,
            Structure::Emmc => self.access_time_ns(clock_hz).saturating_mul(10),
        }
    }

    /// Returns the longest busy after a block was written, in nanoseconds [SD 4.6.2.2], [eMMC
    /// 6.8.2]. `clock_hz`: bus clock, since the CSD declares a part of this time in clocks.
    pub fn write_timeout_ns(&self, clock_hz: u32) -> u64 {
        let access_ns = self.access_time_ns(clock_hz).saturating_mul(u64::from(self.r2w_factor));
        match self.structure {
            Structure::SdV1 => access_ns.saturating_mul(100).min(timing::sd::WRITE_NS),
            // Cards over 32 GB are SDXC or SDUC.
            Structure::SdV2 | Structure::SdV3 if self.capacity_bytes > Some(32 << 30) => {
                timing::sd::WRITE_XC_NS
            }
            Structure::SdV2 | Structure::SdV3 => timing::sd::WRITE_NS,
            Structure::Emmc => access_ns.saturating_mul(10),
        }
    }
}

/// Values of TRAN_SPEED on SD, times ten; 0 is reserved.
const TRAN_SPEED_SD: [u8; 16] = [0, 10, 12, 13, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80];
/// Values of TRAN_SPEED on eMMC, times ten; 0 is reserved.
const TRAN_SPEED_EMMC: [u8; 16] = [0, 10, 12, 13, 15, 20, 26, 30, 35, 40, 45, 52, 55, 60, 70, 80];
/// Values of TAAC, times ten; 0 is reserved.
const TAAC: [u8; 16] = [0, 10, 12, 13, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80];

/// Access to the register by the bit numbers of the standard's table.
struct Bits<'a>(&'a [u32; 4]);

impl Bits<'_> {
    #[inline(always)]
    fn at(&self, hi: u32, lo: u32) -> u32 {
        bits::of_words(self.0, hi, lo)
    }

    fn flag(&self, n: u32) -> bool {
        self.at(n, n) != 0
    }

    /// Returns the field in bits `hi` to `lo`: the base 2 logarithm of a block length. Returns an
    /// error, which names `field`, if the value is not in `codes`.
    fn block_log(
        &self,
        field: Field,
        hi: u32,
        lo: u32,
        codes: RangeInclusive<u32>,
    ) -> Result<u32, ParseError> {
        match self.at(hi, lo) {
            log if codes.contains(&log) => Ok(log),
            value => Err(ParseError { field, value }),
        }
    }

    /// Returns the fastest clock in hertz (TRAN_SPEED). `values`: the standard's table of ten times
    /// the time value. A reserved code gives the clock that every card has: 25 MHz on SD, 26 MHz on
    /// eMMC.
    fn tran_speed_hz(&self, values: &[u8; 16]) -> u32 {
        let (value, unit_hz) = match (value_at(values, self.at(102, 99)), self.at(98, 96)) {
            (0, _) | (_, 4..) => (value_at(values, 6), 1_000_000),
            (value, 0) => (value, 10_000),
            (value, 1) => (value, 100_000),
            (value, 2) => (value, 1_000_000),
            (value, _) => (value, 10_000_000),
        };
        u32::from(value) * unit_hz
    }

    fn access_ns(&self) -> u64 {
        // The unit has three bits, so it is at most 10^7; times 80 it stays below 2^32.
        let unit_ns = 10u32.pow(self.at(114, 112) & 7);
        u64::from((u32::from(value_at(&TAAC, self.at(118, 115))) * unit_ns).div_ceil(10))
    }

    /// Decodes the fields that have the same position in all tables; the caller sets the others.
    fn stack(&self) -> Csd {
        Csd {
            structure: Structure::Emmc,
            spec_version: 0,
            access_ns: self.access_ns(),
            access_clocks: self.at(111, 104) * 100,
            tran_speed_hz: 0,
            classes: Classes(self.at(95, 84) as u16),
            read_block_bytes: 0,
            read_partial: self.flag(79),
            write_misalign: self.flag(78),
            read_misalign: self.flag(77),
            dsr: self.flag(76),
            capacity_bytes: None,
            erase_single_block: false,
            erase_unit_blocks: 0,
            wp_group_units: None,
            r2w_factor: 1 << self.at(28, 26),
            write_block_bytes: 0,
            write_partial: self.flag(21),
            default_ecc: 0,
            content_protection: false,
            copy: self.flag(14),
            perm_write_protect: self.flag(13),
            tmp_write_protect: self.flag(12),
            file_format: (self.at(15, 15) << 2 | self.at(11, 10)) as u8,
            wp_until_power_cycle: false,
            ecc: 0,
        }
    }
}

/// Returns the entry of a table for a four-bit code.
fn value_at(values: &[u8; 16], code: u32) -> u8 {
    values.get(code as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CSD of version 2 for 15 GB, as many cards send it.
    const SDHC: [u32; 4] = [0x400e_0032, 0x5b59_0000, 0x73a7_7f80, 0x0a40_0001];

    #[test]
    fn version_2() {
        let csd = Csd::parse_sd(&SDHC).unwrap();
        assert_eq!(csd.structure, Structure::SdV2);
        assert_eq!(csd.blocks(), Some((0x73a7 + 1) * 1024));
        assert_eq!(csd.tran_speed_hz, 25_000_000);
        assert_eq!(csd.access_ns, 1_000_000);
        assert_eq!(csd.classes, Classes(0x5b5));
        assert!(csd.classes.has(10) && csd.classes.has(0) && !csd.classes.has(1) && !csd.classes.has(200));
        assert_eq!((csd.erase_single_block, csd.erase_unit_bytes()), (true, 65536));
        assert_eq!(csd.wp_group_units, None);
        assert_eq!(csd.r2w_factor, 4);
        assert_eq!(csd.read_timeout_ns(25_000_000), 100_000_000);
        assert_eq!(csd.write_timeout_ns(25_000_000), 250_000_000);
    }

    #[test]
    fn version_1_counts_as_the_example_of_the_standard() {
        // [SD 5.3.2]: 32 MB with blocks of 512 bytes is C_SIZE 2000 - 1, C_SIZE_MULT 32.
        let mut words = [0x0026_0032, 0x5b59_0000, 0, 0x0a40_0000];
        words[1] |= 1999 >> 2;
        words[2] |= (1999 & 3) << 30 | 3 << 15;
        let csd = Csd::parse_sd(&words).unwrap();
        assert_eq!(csd.capacity_bytes, Some(2000 * 32 * 512));
        // TAAC is 1.5 ms, and 100 times that is above the limit.
        assert_eq!((csd.access_ns, csd.read_timeout_ns(25_000_000)), (1_500_000, 100_000_000));
    }

    #[test]
    fn uhs_speeds() {
        for (code, hz) in [(0x32, 25_000_000), (0x5a, 50_000_000), (0x0b, 100_000_000), (0x2b, 200_000_000)] {
            let words = [SDHC[0] & !0xff | code, SDHC[1], SDHC[2], SDHC[3]];
            assert_eq!(Csd::parse_sd(&words).unwrap().tran_speed_hz, hz);
        }
    }

    #[test]
    fn reserved_codes_are_named() {
        let error = Csd::parse_sd(&[0xc00e_0032, 0, 0, 0]).unwrap_err();
        assert_eq!((error.field, error.value), (Field::CsdStructure, 3));
        let error = Csd::parse_sd(&[0x000e_0032, 0x000f_0000, 0, 0]).unwrap_err();
        assert_eq!((error.field, error.value), (Field::ReadBlLen, 15));
        let error = Csd::parse_sd(&[0x000e_0032, 0x000c_0000, 0, 0]).unwrap_err();
        assert_eq!((error.field, error.value), (Field::ReadBlLen, 12));
        let error = Csd::parse_emmc(&[0xd00e_0032, 0x000f_0000, 0, 0]).unwrap_err();
        assert_eq!((error.field, error.value), (Field::ReadBlLen, 15));
    }

    /// Tests codes without a meaning in fields that a card can be used without.
    #[test]
    fn a_reserved_speed_and_a_long_block_are_no_reason_to_refuse_a_card() {
        for code in [0x00, 0x02, 0x07, 0x34, 0x87] {
            let words = [SDHC[0] & !0xff | code, SDHC[1], SDHC[2], SDHC[3]];
            assert_eq!(Csd::parse_sd(&words).unwrap().tran_speed_hz, 25_000_000, "{code:#x}");
            let emmc = Csd::parse_emmc(&[0xd00e_0000 | code, 0x0009_0000, 0, 0x0240_0000]).unwrap();
            assert_eq!(emmc.tran_speed_hz, 26_000_000, "{code:#x}");
        }
        for log in [0, 9, 12, 14] {
            let words = [0xd00e_0032, log << 16 | 0x3ff, 0xc000_0000, log << 22];
            let emmc = Csd::parse_emmc(&words).unwrap();
            assert_eq!((emmc.read_block_bytes, emmc.write_block_bytes), (1 << log, 1 << log));
            assert_eq!(emmc.capacity_bytes, None, "EXT_CSD has the size");
        }
    }

    #[test]
    fn any_input_is_read_or_refused() {
        crate::fuzz::fuzz("any_input_is_read_or_refused", 200, |u| {
            let words: [u32; 4] = u.arbitrary()?;
            let clock_hz = u.arbitrary()?;
            if let Ok(csd) = Csd::parse_sd(&words) {
                // Bring-up uses these times for SD cards, whatever the cards declare.
                assert!(csd.read_timeout_ns(clock_hz) <= timing::sd::READ_NS);
                assert!(csd.write_timeout_ns(clock_hz) <= timing::sd::WRITE_XC_NS);
            }
            for csd in [Csd::parse_sd(&words), Csd::parse_emmc(&words)].into_iter().flatten() {
                assert!(csd.capacity_bytes.is_none_or(|bytes| bytes > 0 && bytes <= 1 << 47));
                assert!(csd.tran_speed_hz > 0 && csd.erase_unit_bytes() > 0);
                assert!(csd.write_timeout_ns(clock_hz) >= csd.read_timeout_ns(clock_hz));
            }
            Ok(())
        });
    }
}
