//! Cards that do not do what their registers say, known by their identity.
//!
//! Each set bit changes one path and nothing else. The tables hold what others have found out about products on the market; more can be
//! given in [`Options::quirks`](super::Options::quirks). Where two entries match, both count.

use crate::spec::cid::Cid;

/// What a card needs otherwise than its standard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks(u32);

impl Quirks {
    /// It keeps to its standard.
    pub const NONE: Quirks = Quirks(0);
    /// CMD23 makes it fail or slow.
    pub const NO_COUNT: Quirks = Quirks(1);
    /// Its first byte may come later than its CSD says.
    pub const LONG_READ: Quirks = Quirks(1 << 1);
    /// Secure erase and secure trim destroy it.
    pub const NO_SECURE_ERASE: Quirks = Quirks(1 << 2);
    /// Trim damages data, or does not read back as erased.
    pub const NO_TRIM: Quirks = Quirks(1 << 3);
    /// Its cache may be flushed only if something was written since the last flush.
    pub const FLUSH_AFTER_WRITE: Quirks = Quirks(1 << 4);
    /// SD: a flush of its cache never ends.
    pub const NO_SD_CACHE: Quirks = Quirks(1 << 5);
    /// SD: it never gets ready to be powered off.
    pub const NO_SD_POWER_OFF: Quirks = Quirks(1 << 6);
    /// SD: it must not be tuned at DDR50.
    pub const NO_DDR50_TUNING: Quirks = Quirks(1 << 7);
    /// SD: discard does not work.
    pub const NO_SD_DISCARD: Quirks = Quirks(1 << 8);
    /// The high-priority interrupt breaks it.
    pub const NO_HPI: Quirks = Quirks(1 << 9);
    /// Its date of manufacture counts from a later year than its revision says.
    pub const LATE_DATE: Quirks = Quirks(1 << 10);
    /// A secure erase takes two seconds, whatever its size.
    pub const FIXED_SECURE_TIME: Quirks = Quirks(1 << 11);
    /// CMD38 takes its argument from EXT_CSD [113].
    pub const ERASE_ARGUMENT_BY_SWITCH: Quirks = Quirks(1 << 12);
    /// SD: its command queue loses data.
    pub const NO_SD_QUEUE: Quirks = Quirks(1 << 13);
    /// The last block must be read alone.
    pub const LAST_BLOCK_ALONE: Quirks = Quirks(1 << 14);
    /// I/O: functions do not announce a standard interface as they should.
    pub const IO_NO_STANDARD_INTERFACE: Quirks = Quirks(1 << 15);
    /// I/O: its pull-up at DAT3 stays on and must be switched off.
    pub const IO_DETECT_OFF: Quirks = Quirks(1 << 16);
    /// I/O: registers of function 0 outside the vendor's range may be written.
    pub const IO_LENIENT_F0: Quirks = Quirks(1 << 17);
    /// I/O: transfers by bytes must have the block's size.
    pub const IO_BLOCK_SIZE_FOR_BYTES: Quirks = Quirks(1 << 18);
    /// I/O: transfers by bytes cannot have 512 of them.
    pub const IO_NO_512_BYTES: Quirks = Quirks(1 << 19);
    /// I/O: its pending bits must not be polled.
    pub const IO_NO_POLLING: Quirks = Quirks(1 << 20);
    /// I/O: a slower clock than it claims, 150 MHz at most.
    pub const IO_SLOWER: Quirks = Quirks(1 << 21);
    /// I/O: it must not be switched to 1.8 V.
    pub const IO_NO_1V8: Quirks = Quirks(1 << 22);

    /// How many different ones there are.
    pub const COUNT: u32 = 23;

    /// Does it have all of these?
    pub const fn has(self, other: Quirks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    pub const fn and(self, other: Quirks) -> Quirks {
        Quirks(self.0 | other.0)
    }

    /// Only what is in both.
    pub const fn within(self, other: Quirks) -> Quirks {
        Quirks(self.0 & other.0)
    }

    /// Its bits, the lowest for the first above.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// By what a card is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// SD cards: product name without spaces at its end; year and month of manufacture, from and to (0 and [`u16::MAX`]: any), as year times 16 plus month.
    Sd(&'static str, u16, u16),
    /// eMMC: product name; EXT_CSD_REV, 0: any.
    Emmc(&'static str, u8),
    /// I/O cards: their device number. The manufacturer is that of the tuples.
    Io(u16),
}

/// An entry: who, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirk {
    /// Manufacturer: MID of the CID, or the code of CISTPL_MANFID.
    pub manufacturer: u16,
    /// Bits 119:104 of the CID; `None`: any.
    pub oem: Option<u16>,
    /// The rest of the identity. An empty name is any.
    pub whose: Whose,
    /// What it needs.
    pub quirks: Quirks,
}

impl Quirk {
    const fn sd(manufacturer: u16, oem: Option<u16>, name: &'static str, quirks: Quirks) -> Self {
        Quirk { manufacturer, oem, whose: Whose::Sd(name, 0, u16::MAX), quirks }
    }

    const fn sd_of(manufacturer: u16, oem: u16, name: &'static str, date: (u16, u16), quirks: Quirks) -> Self {
        let month = date.0 * 16 + date.1;
        Quirk { manufacturer, oem: Some(oem), whose: Whose::Sd(name, month, month), quirks }
    }

    const fn emmc(manufacturer: u16, oem: Option<u16>, name: &'static str, quirks: Quirks) -> Self {
        Quirk { manufacturer, oem, whose: Whose::Emmc(name, 0), quirks }
    }

    const fn io(manufacturer: u16, device: u16, quirks: Quirks) -> Self {
        Quirk { manufacturer, oem: None, whose: Whose::Io(device), quirks }
    }
}

const SANDISK_SD: u16 = 0x03;
const ATP: u16 = 0x09;
const GIGASTONE: u16 = 0x12;
const APACER: u16 = 0x27;
const SWISSBIT: u16 = 0x5d;
const KINGSTON_SD: u16 = 0x9f;

/// SD cards.
pub const SD: &[Quirk] = &[
    Quirk::sd(ATP, None, "AF SD", Quirks::NO_COUNT),
    Quirk::sd(APACER, Some(0x5048), "APUSD", Quirks::NO_COUNT),
    Quirk::sd(SANDISK_SD, Some(0x5344), "", Quirks::NO_SD_DISCARD),
    Quirk::sd_of(KINGSTON_SD, 0x5449, "SD64G", (2019, 11), Quirks::NO_SD_CACHE),
    Quirk::sd_of(GIGASTONE, 0x3456, "ASTC", (2022, 2), Quirks::NO_SD_CACHE.and(Quirks::NO_SD_POWER_OFF)),
    Quirk::sd_of(SWISSBIT, 0x5342, "0016G", (2019, 1), Quirks::NO_DDR50_TUNING),
];

const SANDISK: u16 = 0x02;
const TOSHIBA: u16 = 0x11;
const MICRON: u16 = 0x13;
const SAMSUNG: u16 = 0x15;
const SANDISK_2: u16 = 0x45;
const KINGSTON: u16 = 0x70;
const HYNIX: u16 = 0x90;
const NUMONYX: u16 = 0xfe;

/// eMMC devices.
pub const EMMC: &[Quirk] = &[
    Quirk::emmc(SANDISK, Some(0x100), "SEM02G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, Some(0x100), "SEM04G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, Some(0x100), "SEM08G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, Some(0x100), "SEM16G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, Some(0x100), "SEM32G", Quirks::ERASE_ARGUMENT_BY_SWITCH),
    Quirk::emmc(SANDISK, None, "SDMB-32", Quirks::NO_COUNT),
    Quirk::emmc(SANDISK, None, "SDM032", Quirks::NO_COUNT),
    Quirk::emmc(TOSHIBA, None, "MMC08G", Quirks::NO_COUNT),
    Quirk::emmc(TOSHIBA, None, "MMC16G", Quirks::NO_COUNT),
    Quirk::emmc(TOSHIBA, None, "MMC32G", Quirks::NO_COUNT),
    Quirk::emmc(MICRON, Some(0x200), "", Quirks::LONG_READ),
    Quirk::emmc(TOSHIBA, None, "008GE0", Quirks::LONG_READ),
    Quirk::emmc(SAMSUNG, None, "M8G2FA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, None, "MAG4FA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, None, "MBG8FA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, None, "MCGAFA", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, None, "VAL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, None, "VYL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, None, "KYL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(SAMSUNG, None, "VZL00M", Quirks::NO_SECURE_ERASE),
    Quirk::emmc(KINGSTON, None, "V10008", Quirks::NO_TRIM),
    Quirk::emmc(KINGSTON, None, "V10016", Quirks::NO_TRIM),
    Quirk::emmc(KINGSTON, Some(0x100), "M62704", Quirks::NO_TRIM),
    Quirk::emmc(MICRON, Some(0x14e), "Q2J54A", Quirks::NO_TRIM.and(Quirks::FLUSH_AFTER_WRITE)),
    Quirk::emmc(KINGSTON, Some(0x100), "IY2964", Quirks::FIXED_SECURE_TIME),
    Quirk::emmc(KINGSTON, Some(0x100), "IB2932", Quirks::FIXED_SECURE_TIME),
    Quirk::emmc(SANDISK_2, None, "", Quirks::LATE_DATE),
    // HPI: of 4.41, and of 4.5.
    Quirk { manufacturer: HYNIX, oem: Some(0x14a), whose: Whose::Emmc("", 5), quirks: Quirks::NO_HPI },
    Quirk { manufacturer: NUMONYX, oem: Some(0x14e), whose: Whose::Emmc("", 6), quirks: Quirks::NO_HPI },
];

const TI: u16 = 0x97;
const STE: u16 = 0x20;
const MARVELL: u16 = 0x2df;

/// I/O cards.
pub const IO: &[Quirk] = &[
    Quirk::io(TI, 0x4076, Quirks::IO_NO_STANDARD_INTERFACE.and(Quirks::IO_DETECT_OFF)),
    Quirk::io(STE, 0x2280, Quirks::IO_NO_512_BYTES),
    // 8797, function 0.
    Quirk::io(MARVELL, 0x9128, Quirks::IO_NO_POLLING),
    // 8887.
    Quirk::io(MARVELL, 0x9134, Quirks::IO_SLOWER),
];

/// What both tables say of an SD card, by its R2.
pub fn of_sd(cid: &[u32; 4], more: &[Quirk]) -> Quirks {
    let known = Cid::parse_sd(cid);
    let date = known.year.saturating_mul(16) + u16::from(known.month);
    let oem = oem(cid);
    gather(SD, more, |quirk| match quirk.whose {
        Whose::Sd(name, from, to) => {
            matches(quirk, known.manufacturer.into(), oem, name, known.name()) && (from..=to).contains(&date)
        }
        _ => false,
    })
}

/// What both tables say of an eMMC, by its R2 and EXT_CSD_REV.
pub fn of_emmc(cid: &[u32; 4], revision: u8, more: &[Quirk]) -> Quirks {
    let known = Cid::parse_emmc(cid);
    let oem = oem(cid);
    gather(EMMC, more, |quirk| match quirk.whose {
        Whose::Emmc(name, of) => {
            let (short, given) = (known.name(), name);
            // Seven characters do not fit the field: what is there counts.
            let given = given.get(..6).unwrap_or(given);
            matches(quirk, known.manufacturer.into(), oem, given, short) && (of == 0 || of == revision)
        }
        _ => false,
    })
}

/// What both tables say of an I/O card, by its manufacturer tuple.
pub fn of_io(manufacturer: u16, device: u16, more: &[Quirk]) -> Quirks {
    gather(IO, more, |quirk| match quirk.whose {
        Whose::Io(of) => quirk.manufacturer == manufacturer && of == device,
        _ => false,
    })
}

const fn oem(cid: &[u32; 4]) -> u16 {
    (cid[0] >> 8) as u16
}

fn matches(quirk: &Quirk, manufacturer: u16, oem: u16, wanted: &str, name: &str) -> bool {
    quirk.manufacturer == manufacturer
        && quirk.oem.is_none_or(|of| of == oem)
        && (wanted.is_empty() || wanted == name)
}

fn gather(known: &[Quirk], more: &[Quirk], fits: impl Fn(&Quirk) -> bool) -> Quirks {
    known.iter().chain(more).filter(|quirk| fits(quirk)).fold(Quirks::NONE, |all, quirk| all.and(quirk.quirks))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CID that the maker of the fix for it published, CRC left out.
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
        [u32::from(manufacturer) << 24 | u32::from(oem) << 8 | a, b << 24 | c << 16 | d << 8 | e, f << 24, 0x4700]
    }

    #[test]
    fn name_maker_and_month_count() {
        let both = Quirks::NO_SD_CACHE.and(Quirks::NO_SD_POWER_OFF);
        assert_eq!(of_sd(&sd(0x12, 0x3456, b"ASTC\0", 2022, 2), &[]), both);
        // The same card of another month works.
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
        let micron = of_emmc(&emmc(0x13, 0x14e, b"Q2J54A"), 7, &[]);
        assert!(micron.has(Quirks::NO_TRIM) && micron.has(Quirks::FLUSH_AFTER_WRITE));
        assert_eq!(of_io(0x97, 0x4076, &[]).bits().count_ones(), 2);
    }

    #[test]
    fn entries_of_the_user_add_to_ours() {
        const MINE: &[Quirk] = &[Quirk {
            manufacturer: 0x15,
            oem: None,
            whose: Whose::Emmc("VYL00M", 0),
            quirks: Quirks::NO_TRIM,
        }];
        let all = of_emmc(&emmc(0x15, 0x100, b"VYL00M"), 5, MINE);
        assert_eq!(all, Quirks::NO_SECURE_ERASE.and(Quirks::NO_TRIM));
    }

    #[test]
    fn every_quirk_has_a_bit_of_its_own() {
        let all = SD.iter().chain(EMMC).chain(IO).fold(Quirks::NONE, |all, quirk| all.and(quirk.quirks));
        assert!(all.bits() < 1 << Quirks::COUNT);
        assert_eq!(Quirks::IO_NO_1V8.bits(), 1 << (Quirks::COUNT - 1));
    }
}
