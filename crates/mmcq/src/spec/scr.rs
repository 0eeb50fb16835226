//! The SCR register: supported commands and version of an SD card [SD 5.6].

use super::{Field, ParseError, bits};

/// Version of the SD physical layer specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SdVersion {
    /// Version 1.0 or 1.01: no CMD6.
    V1_0,
    /// Version 1.10.
    V1_10,
    /// Version 2.00: CMD8, high capacity.
    V2,
    /// Version 3.0x: UHS-I.
    V3,
    /// Version 4.xx: extension registers.
    V4,
    /// Version 5.xx: video speed classes.
    V5,
    /// Version 6.xx: cache and command queue.
    V6,
    /// Version 7.xx: SDUC, SD Express.
    V7,
    /// Version 8.xx.
    V8,
    /// Version 9.xx.
    V9,
    /// A later version, whose code this list does not have.
    Later,
}

/// The SCR, decoded from 8 bytes of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scr {
    /// Version of the SD physical layer specification that the card follows.
    pub version: SdVersion,
    /// Value of every bit in an erased block: true for 1 (DATA_STAT_AFTER_ERASE).
    pub erased_ones: bool,
    /// Version of the copy protection (SD_SECURITY): 0 none, 2 SDSC, 3 SDHC, 4 SDXC.
    pub security: u8,
    /// Extended security (EX_SECURITY): 0 if the card does not support it.
    pub ex_security: u8,
    /// Whether the card supports one data line, as every card should.
    pub width1: bool,
    /// Whether the card supports four data lines.
    pub width4: bool,
    /// Whether the card supports CMD20, speed class control.
    pub cmd20: bool,
    /// Whether the card supports CMD23, which sets the block count.
    pub cmd23: bool,
    /// Whether the card supports CMD48 and CMD49, access to extension registers.
    pub cmd48: bool,
    /// Whether the card supports CMD58 and CMD59, access to extension registers in many blocks.
    pub cmd58: bool,
    /// Whether the card supports ACMD53 and ACMD54, secure receive and send.
    pub acmd53: bool,
}

impl Scr {
    /// Decodes the 8 bytes of the SCR. Returns an error for an unknown structure; accepts other
    /// reserved codes.
    pub fn parse(bytes: &[u8; 8]) -> Result<Self, ParseError> {
        let all = u64::from_be_bytes(*bytes);
        let at = |hi, lo| (all >> lo) as u32 & bits::mask(hi, lo);
        let flag = |n| at(n, n) != 0;
        if at(63, 60) != 0 {
            return Err(ParseError { field: Field::ScrStructure, value: at(63, 60) });
        }
        // The fields SD_SPEC, SD_SPEC3, SD_SPEC4 and SD_SPECX.
        let version = match (at(59, 56), flag(47), flag(42), at(41, 38)) {
            (0, ..) => SdVersion::V1_0,
            (1, ..) => SdVersion::V1_10,
            (2, false, ..) => SdVersion::V2,
            (2, true, false, 0) => SdVersion::V3,
            (2, true, true, 0) => SdVersion::V4,
            // From SD_SPECX 1 on, SD_SPEC4 does not matter.
            (2, true, _, 1) => SdVersion::V5,
            (2, true, _, 2) => SdVersion::V6,
            (2, true, _, 3) => SdVersion::V7,
            (2, true, _, 4) => SdVersion::V8,
            (2, true, _, 5) => SdVersion::V9,
            _ => SdVersion::Later,
        };
        Ok(Scr {
            version,
            erased_ones: flag(55),
            security: at(54, 52) as u8,
            width1: flag(48),
            width4: flag(50),
            ex_security: at(46, 43) as u8,
            acmd53: flag(36),
            cmd58: flag(35),
            cmd48: flag(34),
            cmd23: flag(33),
            cmd20: flag(32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version = |bytes: [u8; 4]| {
            let [a, b, c, d] = bytes;
            Scr::parse(&[a, b, c, d, 0, 0, 0, 0]).map(|scr| scr.version)
        };
        assert_eq!(version([0x00, 0xa5, 0x00, 0x00]), Ok(SdVersion::V1_0));
        assert_eq!(version([0x01, 0x25, 0x00, 0x00]), Ok(SdVersion::V1_10));
        assert_eq!(version([0x02, 0x25, 0x00, 0x00]), Ok(SdVersion::V2));
        assert_eq!(version([0x02, 0x35, 0x80, 0x02]), Ok(SdVersion::V3));
        assert_eq!(version([0x02, 0x45, 0x84, 0x03]), Ok(SdVersion::V4));
        assert_eq!(version([0x02, 0x45, 0x84, 0x43]), Ok(SdVersion::V5));
        assert_eq!(version([0x02, 0x45, 0x84, 0x87]), Ok(SdVersion::V6));
        assert_eq!(version([0x02, 0x45, 0x85, 0x40]), Ok(SdVersion::V9));
        assert_eq!(version([0x0f, 0x45, 0x85, 0x40]), Ok(SdVersion::Later));
        assert!(version([0x12, 0x45, 0x84, 0x43]).is_err());
        assert!(SdVersion::V9 > SdVersion::V3);
    }

    #[test]
    fn any_input_is_read_or_refused() {
        crate::fuzz::fuzz("any_input_is_read_or_refused", 200, |u| {
            let bytes: [u8; 8] = u.arbitrary()?;
            assert_eq!(Scr::parse(&bytes).is_err(), bytes[0] >> 4 != 0);
            Ok(())
        });
    }
}
