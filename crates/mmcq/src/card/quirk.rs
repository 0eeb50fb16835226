//! Cards that deviate from what their registers declare, recognised by their identity.
//!
//! Each quirk changes one behaviour of this stack and nothing else. The tables list products on the
//! market, from what other projects found out about them;
//! [`Options::quirks`](super::Options::quirks) adds more entries. If two entries match a card, both
//! apply.

pub use crate::spec::quirks::Quirks;

/// The kind of card to which an entry of a quirk table applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// SD memory cards, matched by their CID.
    Sd,
    /// eMMC devices, matched by their CID and EXT_CSD_REV.
    Emmc,
    /// I/O cards, matched by their manufacturer tuple (CISTPL_MANFID).
    Io,
}

/// An entry of the table: a card and its quirks. Make it by [`sd`](Self::sd), [`emmc`](Self::emmc)
/// or [`io`](Self::io), and restrict it by [`made`](Self::made) or [`revision`](Self::revision).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirk {
    of: Of,
    /// EXT_CSD_REV of the device; 0 matches any.
    revision: u8,
    /// Manufacturer: MID of the CID, or the code in CISTPL_MANFID.
    manufacturer: u16,
    /// Bits 119:104 of the CID (on SD the OEM ID, on eMMC the byte with the package CBX and then
    /// the OEM ID), or the product code of an I/O card; 0 matches any.
    oem: u16,
    /// Product name, filled up with zeros (on SD: or spaces); all zeros match any name.
    name: [u8; 6],
    /// SD: month of manufacture, coded as in the CID (years since 2000 times 16, plus month); 0
    /// matches any.
    month: u16,
    quirks: Quirks,
}

impl Quirk {
    const fn new(of: Of, manufacturer: u16, oem: u16, name: &str, quirks: Quirks) -> Self {
        let mut bytes = [0; 6];
        let given = name.as_bytes();
        let mut at = 0;
        while at < 6 && at < given.len() {
            bytes[at] = given[at];
            at += 1;
        }
        Quirk { of, revision: 0, manufacturer, oem, name: bytes, month: 0, quirks }
    }

    /// Makes an entry for SD cards of this manufacturer, OEM (0 matches any) and product name
    /// (empty matches any).
    pub const fn sd(manufacturer: u8, oem: u16, name: &str, quirks: Quirks) -> Self {
        Quirk::new(Of::Sd, manufacturer as u16, oem, name, quirks)
    }

    /// Makes an entry for eMMC devices of this manufacturer, OEM and product name (empty matches
    /// any). `oem` is compared with bits 119:104 of the CID: the byte with the package (CBX), and
    /// then the OEM ID; 0 matches any.
    pub const fn emmc(manufacturer: u8, oem: u16, name: &str, quirks: Quirks) -> Self {
        Quirk::new(Of::Emmc, manufacturer as u16, oem, name, quirks)
    }

    /// Makes an entry for I/O cards with this manufacturer code and product code.
    pub const fn io(manufacturer: u16, device: u16, quirks: Quirks) -> Self {
        Quirk::new(Of::Io, manufacturer, device, "", quirks)
    }

    /// Restricts the entry to SD cards that were manufactured in this year (such as 2019) and month
    /// (1 to 12).
    pub const fn made(self, year: u16, month: u16) -> Self {
        Quirk { month: year.saturating_sub(2000) << 4 | month & 0xf, ..self }
    }

    /// Restricts the entry to eMMC devices with this EXT_CSD_REV.
    pub const fn revision(self, revision: u8) -> Self {
        Quirk { revision, ..self }
    }
}

const SANDISK_SD: u8 = 0x03;
const ATP: u8 = 0x09;
const GIGASTONE: u8 = 0x12;
const APACER: u8 = 0x27;
const SWISSBIT: u8 = 0x5d;
const KINGSTON_SD: u8 = 0x9f;

/// SD cards with known quirks.
pub const SD: &[Quirk] = &[
    Quirk::sd(ATP, 0, "AF SD", Quirks::NO_COUNT),
    Quirk::sd(APACER, 0x5048, "APUSD", Quirks::NO_COUNT),
    Quirk::sd(SANDISK_SD, 0x5344, "", Quirks::NO_SD_DISCARD),
    Quirk::sd(KINGSTON_SD, 0x5449, "SD64G", Quirks::NO_SD_CACHE).made(2019, 11),
    Quirk::sd(GIGASTONE, 0x3456, "ASTC", Quirks::NO_SD_CACHE.and(Quirks::NO_SD_POWER_OFF)).made(2022, 2),
    Quirk::sd(SWISSBIT, 0x5342, "0016G", Quirks::NO_DDR50_TUNING).made(2019, 1),
];

const SANDISK: u8 = 0x02;
const TOSHIBA: u8 = 0x11;
const MICRON: u8 = 0x13;
const SAMSUNG: u8 = 0x15;
const SANDISK_2: u8 = 0x45;
const KINGSTON: u8 = 0x70;
const HYNIX: u8 = 0x90;
const NUMONYX: u8 = 0xfe;

/// eMMC devices with known quirks.
pub const EMMC: &[Quirk] = &[
    Quirk::emmc(SANDISK, 0x100, "SEM02G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, 0x100, "SEM04G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, 0x100, "SEM08G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, 0x100, "SEM16G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, 0x100, "SEM32G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, 0, "SDMB-32", Quirks::NO_COUNT),
    Quirk::emmc(SANDISK, 0, "SDM032", Quirks::NO_COUNT),
    Quirk::emmc(TOSHIBA, 0, "MMC08G", Quirks::NO_COUNT),
    Quirk::emmc(TOSHIBA, 0, "MMC16G", Quirks::NO_COUNT),
    Quirk::emmc(TOSHIBA, 0, "MMC32G", Quirks::NO_COUNT),
    Quirk::emmc(MICRON, 0x200, "", Quirks::LONG_READ),
    Quirk::emmc(TOSHIBA, 0, "008GE0", Quirks::LONG_READ),
    Quirk::emmc(SAMSUNG, 0, "M8G2FA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, 0, "MAG4FA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, 0, "MBG8FA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, 0, "MCGAFA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, 0, "VAL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, 0, "VYL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, 0, "KYL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, 0, "VZL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(KINGSTON, 0, "V10008", Quirks::NO_TRIM),
    Quirk::emmc(KINGSTON, 0, "V10016", Quirks::NO_TRIM),
    Quirk::emmc(KINGSTON, 0x100, "M62704", Quirks::NO_TRIM),
    Quirk::emmc(MICRON, 0x14e, "Q2J54A", Quirks::NO_TRIM),
    Quirk::emmc(KINGSTON, 0x100, "IY2964", Quirks::FIXED_SECURE_TIME),
    Quirk::emmc(KINGSTON, 0x100, "IB2932", Quirks::FIXED_SECURE_TIME),
    Quirk::emmc(SANDISK_2, 0, "", Quirks::LATE_DATE),
    // HPI fails on Hynix devices of eMMC 4.41, and on Numonyx devices of eMMC 4.5.
    Quirk::emmc(HYNIX, 0x14a, "", Quirks::NO_HPI).revision(5),
    Quirk::emmc(NUMONYX, 0x14e, "", Quirks::NO_HPI).revision(6),
];

const TI: u16 = 0x97;
const STE: u16 = 0x20;
const MARVELL: u16 = 0x2df;

/// I/O cards with known quirks.
pub const IO: &[Quirk] = &[
    Quirk::io(TI, 0x4076, Quirks::IO_NO_STANDARD_INTERFACE.and(Quirks::IO_DETECT_OFF)),
    Quirk::io(STE, 0x2280, Quirks::IO_NO_512_BYTES),
    // Marvell 8385 and 8686.
    Quirk::io(MARVELL, 0x9103, Quirks::IO_LENIENT_F0),
    // Marvell 8786 and 8787.
    Quirk::io(MARVELL, 0x9116, Quirks::IO_BLOCK_SIZE_FOR_BYTES),
    Quirk::io(MARVELL, 0x9119, Quirks::IO_BLOCK_SIZE_FOR_BYTES),
    // Marvell 8797, function 0.
    Quirk::io(MARVELL, 0x9128, Quirks::IO_NO_POLLING),
    // Marvell 8887.
    Quirk::io(MARVELL, 0x9134, Quirks::IO_SLOWER),
];

/// Returns the quirks of an SD card from [`SD`] and `more`, by its CID.
pub fn of_sd(cid: &[u32; 4], more: &[Quirk]) -> Quirks {
    gather(SD, more, Of::Sd, cid, 0)
}

/// Returns the quirks of an eMMC from [`EMMC`] and `more`, by its CID and EXT_CSD_REV.
pub fn of_emmc(cid: &[u32; 4], revision: u8, more: &[Quirk]) -> Quirks {
    gather(EMMC, more, Of::Emmc, cid, revision)
}

/// Returns the quirks of an I/O card from [`IO`] and `more`, by its manufacturer tuple.
pub fn of_io(manufacturer: u16, device: u16, more: &[Quirk]) -> Quirks {
    let fits =
        |quirk: &&Quirk| quirk.of == Of::Io && quirk.manufacturer == manufacturer && quirk.oem == device;
    IO.iter().chain(more).filter(fits).fold(Quirks::NONE, |all, quirk| all.and(quirk.quirks))
}

/// Returns whether any entry for an I/O card in [`IO`] or `more` has these quirks.
pub(super) fn of_any_io(quirks: Quirks, more: &[Quirk]) -> bool {
    IO.iter().chain(more).any(|quirk| quirk.of == Of::Io && quirk.quirks.has(quirks))
}

fn gather(known: &[Quirk], more: &[Quirk], of: Of, cid: &[u32; 4], revision: u8) -> Quirks {
    let [first, second, third, last] = *cid;
    let [manufacturer, oem_high, oem_low, a] = first.to_be_bytes();
    let oem = u16::from_be_bytes([oem_high, oem_low]);
    let [b, c, d, e] = second.to_be_bytes();
    // Names of SD cards have five characters; the sixth byte of the CID field is the revision.
    let f = if of == Of::Emmc { (third >> 24) as u8 } else { 0 };
    let mut name = [a, b, c, d, e, f];
    for byte in name.iter_mut().rev() {
        if !matches!(byte, 0 | b' ') {
            break;
        }
        *byte = 0;
    }
    let month = (last >> 8 & 0xfff) as u16;
    let fits = |quirk: &&Quirk| {
        quirk.of == of
            && quirk.manufacturer == u16::from(manufacturer)
            && (quirk.oem == 0 || quirk.oem == oem)
            && (quirk.name == [0; 6] || quirk.name == name)
            && (quirk.month == 0 || quirk.month == month)
            && (quirk.revision == 0 || quirk.revision == revision)
    };
    known.iter().chain(more).filter(fits).fold(Quirks::NONE, |all, quirk| all.and(quirk.quirks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::cid::Cid;

    /// CID of a card without its CRC, as published with the fix for that card.
    const GIGASTONE_2022: [u32; 4] = [0x1234_5641, 0x5354_4300, 0x2000_0001, 0x4501_6200];

    #[test]
    fn a_published_identity_is_found() {
        let cid = Cid::parse_sd(&GIGASTONE_2022);
        assert_eq!((cid.name(), cid.year, cid.month), ("ASTC", 2022, 2));
        assert!(of_sd(&GIGASTONE_2022, &[]).has(Quirks::NO_SD_CACHE));
    }

    fn sd(manufacturer: u8, oem: u16, name: &[u8; 5], year: u16, month: u16) -> [u32; 4] {
        let [a, b, c, d, e] = name.map(u32::from);
        let date = u32::from((year - 2000) << 4 | month);
        [
            u32::from(manufacturer) << 24 | u32::from(oem) << 8 | a,
            b << 24 | c << 16 | d << 8 | e,
            0x1000_0000,
            date << 8,
        ]
    }

    fn emmc(manufacturer: u8, oem: u16, name: &[u8; 6]) -> [u32; 4] {
        let [a, b, c, d, e, f] = name.map(u32::from);
        [
            u32::from(manufacturer) << 24 | u32::from(oem) << 8 | a,
            b << 24 | c << 16 | d << 8 | e,
            f << 24,
            0x4700,
        ]
    }

    #[test]
    fn name_maker_and_month_count() {
        let both = Quirks::NO_SD_CACHE.and(Quirks::NO_SD_POWER_OFF);
        assert_eq!(of_sd(&sd(0x12, 0x3456, b"ASTC\0", 2022, 2), &[]), both);
        // Cards of this product from another month work.
        assert_eq!(of_sd(&sd(0x12, 0x3456, b"ASTC\0", 2024, 1), &[]), Quirks::NONE);
        assert_eq!(of_sd(&sd(0x27, 0x5048, b"APUSD", 2020, 1), &[]), Quirks::NO_COUNT);
        assert_eq!(of_sd(&sd(0x27, 0x5049, b"APUSD", 2020, 1), &[]), Quirks::NONE);
        assert_eq!(of_sd(&sd(0x03, 0x5344, b"SC16G", 2020, 1), &[]), Quirks::NO_SD_DISCARD);
    }

    #[test]
    fn devices_by_name_and_revision() {
        assert_eq!(of_emmc(&emmc(0x15, 0x100, b"VYL00M"), 5, &[]), Quirks::NO_SECURE_ERASE);
        assert_eq!(of_emmc(&emmc(0x15, 0x100, b"VYL00X"), 5, &[]), Quirks::NONE);
        assert_eq!(of_emmc(&emmc(0x90, 0x14a, b"HYNIX1"), 5, &[]), Quirks::NO_HPI);
        assert_eq!(of_emmc(&emmc(0x90, 0x14a, b"HYNIX1"), 6, &[]), Quirks::NONE);
        assert_eq!(of_emmc(&emmc(0x13, 0x14e, b"Q2J54A"), 7, &[]), Quirks::NO_TRIM);
        assert_eq!(of_io(0x97, 0x4076, &[]).bits().count_ones(), 2);
        const MINE: &[Quirk] = &[Quirk::io(1, 2, Quirks::IO_NO_1V8)];
        assert_eq!((of_io(1, 2, MINE), of_io(1, 3, MINE)), (Quirks::IO_NO_1V8, Quirks::NONE));
        assert!(of_any_io(Quirks::IO_NO_1V8, MINE) && of_any_io(Quirks::IO_SLOWER, &[]));
        assert!(!of_any_io(Quirks::NO_TRIM, MINE));
    }

    #[test]
    fn entries_of_the_user_add_to_ours() {
        const MINE: &[Quirk] = &[Quirk::emmc(0x15, 0, "VYL00M", Quirks::NO_TRIM)];
        let all = of_emmc(&emmc(0x15, 0x100, b"VYL00M"), 5, MINE);
        assert_eq!(all, Quirks::NO_SECURE_ERASE.and(Quirks::NO_TRIM));
    }

    #[test]
    fn every_quirk_has_a_bit_of_its_own() {
        let all = SD.iter().chain(EMMC).chain(IO).fold(Quirks::NONE, |all, quirk| all.and(quirk.quirks));
        assert!(all.bits() < 1 << Quirks::COUNT);
        assert_eq!(Quirks::SD_QUEUE_WORKS.bits(), 1 << (Quirks::COUNT - 1));
    }
}
