//! The CID register: the card's identity [SD 5.2], [eMMC 7.2].

use super::bits;

/// Package of an eMMC (CBX field of the CID).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A removable card.
    Removable,
    /// A soldered chip (BGA package).
    Bga,
    /// A chip on top of another chip (package on package).
    Pop,
    /// Code 3, which the standard reserves.
    Reserved,
}

/// The CID, decoded. Every content gives a value, since no content is a reason to refuse a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cid {
    /// Manufacturer ID (MID).
    pub manufacturer: u8,
    /// OEM or application ID (OID): two characters on SD, 8 bits on eMMC.
    pub oem: u16,
    /// Product name (PNM), as in the register: five characters on SD, six on eMMC, then zeros.
    pub name_bytes: [u8; 6],
    /// Product revision (PRV): major number in the upper four bits, minor number in the lower four.
    pub revision: u8,
    /// Product serial number (PSN).
    pub serial: u32,
    /// Month of manufacture, 1 to 12; another value is an error of the card.
    pub month: u8,
    /// Year of manufacture. For eMMC the value is 1997 to 2012, and may mean a later year: see
    /// [`emmc_year`](Cid::emmc_year).
    pub year: u16,
    /// Package of an eMMC; `None` for an SD card.
    pub form: Option<Form>,
}

impl Cid {
    /// Decodes the CID of an SD card, from the R2 response [SD 5.2].
    pub const fn parse_sd(words: &[u32; 4]) -> Self {
        let bits = Bits(words);
        Cid {
            manufacturer: bits.at(127, 120) as u8,
            oem: bits.at(119, 104) as u16,
            name_bytes: name_bytes(bits.at(103, 88), bits.at(87, 72), bits.at(71, 64) << 8),
            revision: bits.at(63, 56) as u8,
            serial: bits.at(55, 24),
            year: 2000 + bits.at(19, 12) as u16,
            month: bits.at(11, 8) as u8,
            form: None,
        }
    }

    /// Decodes the CID of an eMMC, from the R2 response [eMMC 7.2].
    pub const fn parse_emmc(words: &[u32; 4]) -> Self {
        let bits = Bits(words);
        Cid {
            manufacturer: bits.at(127, 120) as u8,
            form: Some(match bits.at(113, 112) {
                0 => Form::Removable,
                1 => Form::Bga,
                2 => Form::Pop,
                _ => Form::Reserved,
            }),
            oem: bits.at(111, 104) as u16,
            name_bytes: name_bytes(bits.at(103, 88), bits.at(87, 72), bits.at(71, 56)),
            revision: bits.at(55, 48) as u8,
            serial: bits.at(47, 16),
            month: bits.at(15, 12) as u8,
            year: 1997 + bits.at(11, 8) as u16,
        }
    }

    /// Returns the year of manufacture of an eMMC. The four bits of the year repeat every 16 years,
    /// and EXT_CSD_REV shows which period they mean [eMMC 7.2.7].
    pub const fn emmc_year(&self, ext_csd_rev: u8) -> u16 {
        match (ext_csd_rev, self.year) {
            (9.., 1997..=2022) | (5..=8, 1997..=2009) => {
                let next = self.year + 16;
                if ext_csd_rev >= 9 && next < 2023 { next + 16 } else { next }
            }
            _ => self.year,
        }
    }

    /// Returns the product name: its leading printable characters, without spaces at the end.
    pub fn name(&self) -> &str {
        let printable = self.name_bytes.iter().take_while(|byte| matches!(byte, 0x20..=0x7e)).count();
        let bytes = self.name_bytes.get(..printable).unwrap_or(&[]);
        core::str::from_utf8(bytes).unwrap_or("").trim_end()
    }
}

/// Access to the register by the bit numbers of the standard's table.
struct Bits<'a>(&'a [u32; 4]);

impl Bits<'_> {
    const fn at(&self, hi: u32, lo: u32) -> u32 {
        bits::of_words(self.0, hi, lo)
    }
}

/// Returns the six bytes of three 16-bit numbers in order, the upper byte of each first.
const fn name_bytes(a: u32, b: u32, c: u32) -> [u8; 6] {
    [(a >> 8) as u8, a as u8, (b >> 8) as u8, b as u8, (c >> 8) as u8, c as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned() {
        let mut cid = Cid::parse_sd(&[0x744a_6055, 0x5344_2020, 0x1041_82bb, 0xc701_0600]);
        assert_eq!(cid.name(), "USD");
        assert_eq!(cid.name_bytes, *b"USD  \0");
        cid.name_bytes = [0xff; 6];
        assert_eq!(cid.name(), "");
        cid.name_bytes = *b"AB\x07CDE";
        assert_eq!(cid.name(), "AB");
    }

    #[test]
    fn years_of_emmc() {
        let with = |code: u32| Cid::parse_emmc(&[0, 0, 0, code << 8]);
        assert_eq!(with(0).emmc_year(4), 1997);
        assert_eq!(with(0).emmc_year(6), 2013);
        assert_eq!(with(12).emmc_year(8), 2025);
        assert_eq!(with(13).emmc_year(8), 2010);
        assert_eq!(with(13).emmc_year(9), 2026);
        assert_eq!(with(10).emmc_year(9), 2023);
        assert_eq!(with(9).emmc_year(9), 2038);
    }

    #[test]
    fn any_input_is_read() {
        crate::fuzz::fuzz("any_input_is_read", 200, |u| {
            let words: [u32; 4] = u.arbitrary()?;
            let (sd, emmc) = (Cid::parse_sd(&words), Cid::parse_emmc(&words));
            assert!(sd.name().len() <= 5 && emmc.name().len() <= 6);
            assert!((2000..=2255).contains(&sd.year));
            assert!((1997..=2038).contains(&emmc.emmc_year(u.arbitrary()?)));
            Ok(())
        });
    }
}
