//! The OCR: operation conditions register [SD 5.1], [eMMC 7.1].

use super::bit;

/// The unit in which a card is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressUnit {
    /// Addresses are in bytes (cards up to 2 GB).
    Byte,
    /// Addresses are in sectors of 512 bytes.
    Sector,
}

/// The OCR, as in R3. If only one standard has a bit, the comment of the bit's method names that
/// standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ocr(pub u32);

impl Ocr {
    /// Bits 23:15, 2.7 to 3.6 V: every SD card and eMMC supports the whole range.
    pub const V27_36: u32 = 0x00ff_8000;
    /// Bit 7, 1.70 to 1.95 V: only eMMC.
    pub const V170_195: u32 = 1 << 7;

    /// Returns whether the card has finished its power-up (bit 31). Until then the bits above the
    /// voltages mean nothing.
    pub const fn ready(self) -> bool {
        bit(self.0, 31)
    }

    /// SD, CCS: returns whether the card is over 2 GB and uses sector addresses. Valid when
    /// [`ready`](Self::ready) returns true.
    pub const fn ccs(self) -> bool {
        bit(self.0, 30)
    }

    /// SD: returns whether the card has a UHS-II interface.
    pub const fn uhs2(self) -> bool {
        bit(self.0, 29)
    }

    /// SD, CO2T: returns whether the card is over 2 TB.
    pub const fn co2t(self) -> bool {
        bit(self.0, 27)
    }

    /// SD, S18A: returns whether the card will switch its signal lines to 1.8 V.
    pub const fn s18a(self) -> bool {
        bit(self.0, 24)
    }

    /// Returns the unit of an eMMC's addresses, bits 30:29; `None` for the two reserved codes.
    pub const fn emmc_access(self) -> Option<AddressUnit> {
        match self.0 >> 29 & 3 {
            0 => Some(AddressUnit::Byte),
            2 => Some(AddressUnit::Sector),
            _ => None,
        }
    }

    /// Returns the voltage window, bits 23:7. Bit 15 is 2.7 to 2.8 V, bit 23 is 3.5 to 3.6 V, bit 7
    /// is 1.70 to 1.95 V.
    pub const fn voltages(self) -> u32 {
        self.0 & 0x00ff_ff80
    }

    /// Returns whether the card works with the supply voltage `supply_mv`, in millivolts. Each OCR
    /// bit from 2.7 V on stands for a window of 0.1 V that includes both its ends.
    pub const fn supports_mv(self, supply_mv: u32) -> bool {
        if supply_mv >= 1700 && supply_mv <= 1950 {
            return self.0 & Self::V170_195 != 0;
        }
        if supply_mv < 2700 || supply_mv > 3600 {
            return false;
        }
        let above = (supply_mv - 2700) / 100;
        let on_edge = supply_mv.is_multiple_of(100);
        (above < 9 && bit(self.0, 15 + above)) || (on_edge && above > 0 && bit(self.0, 14 + above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sd_card_after_power_up() {
        // SDHC card at 3.3 V that would not switch its voltage, and one that would.
        let ocr = Ocr(0xc0ff_8000);
        assert!(ocr.ready() && ocr.ccs() && !ocr.s18a() && !ocr.uhs2() && !ocr.co2t());
        assert_eq!(ocr.voltages(), Ocr::V27_36);
        assert!(Ocr(0xc1ff_8000).s18a());
        assert!(!Ocr(0x00ff_8000).ready());
    }

    #[test]
    fn emmc_access_mode() {
        assert_eq!(Ocr(0xc0ff_8080).emmc_access(), Some(AddressUnit::Sector));
        assert_eq!(Ocr(0x80ff_8080).emmc_access(), Some(AddressUnit::Byte));
        assert_eq!(Ocr(0xe0ff_8080).emmc_access(), None);
    }

    #[test]
    fn windows_in_millivolts() {
        let ocr = Ocr(1 << 20 | 1 << 21);
        assert!(ocr.supports_mv(3200) && ocr.supports_mv(3300) && ocr.supports_mv(3400));
        assert!(!ocr.supports_mv(3199) && !ocr.supports_mv(3401) && !ocr.supports_mv(1800));
        assert!(Ocr(Ocr::V170_195).supports_mv(1800));
        assert!(Ocr(Ocr::V27_36).supports_mv(2700) && Ocr(Ocr::V27_36).supports_mv(3600));
        assert!(!Ocr(u32::MAX).supports_mv(u32::MAX) && !Ocr(u32::MAX).supports_mv(2000));
    }
}
