//! The SD status register (SSR): speed classes and erase parameters [SD 4.10.2].

use super::bits;

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// The SD status, 64 bytes of data. Every content gives a value: a reserved code reads as not
/// declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssr {
    /// Whether four data lines are in use.
    pub width4: bool,
    /// Whether the card is in secured mode.
    pub secured: bool,
    /// SD_CARD_TYPE: 0 is an ordinary card, 1 a ROM card, 2 an OTP card.
    pub card_type: u16,
    /// SIZE_OF_PROTECTED_AREA, as in the register; its unit depends on the card's capacity.
    pub protected_area: u32,
    /// Speed class: 0, 2, 4, 6 or 10 (MB/s); `None` for a reserved code.
    pub speed_class: Option<u8>,
    /// Speed of copying data with read-modify-write in MB/s; 0 is undefined, 255 unlimited.
    pub performance_move: u8,
    /// Size of the allocation unit (AU_SIZE) in bytes; `None` if not defined.
    pub au_bytes: Option<u32>,
    /// Number of allocation units that one erase of [`erase_timeout_s`](Self::erase_timeout_s)
    /// covers (ERASE_SIZE); 0 if not declared.
    pub erase_aus: u16,
    /// Longest erase of [`erase_aus`](Self::erase_aus) allocation units, in seconds
    /// (ERASE_TIMEOUT); 0 if not declared.
    pub erase_timeout_s: u8,
    /// Time to add to every erase, in seconds (ERASE_OFFSET).
    pub erase_offset_s: u8,
    /// UHS speed grade: 0, 1 or 3 (times 10 MB/s); other codes are reserved.
    pub uhs_grade: u8,
    /// Size of the allocation unit in UHS modes (UHS_AU_SIZE), in bytes; `None` if not defined.
    pub uhs_au_bytes: Option<u32>,
    /// Video speed class in MB/s: 0, 6, 10, 30, 60 or 90.
    pub video_class: u8,
    /// Size of the allocation unit of the video speed class, in bytes; `None` if not defined.
    pub video_au_bytes: Option<u32>,
    /// Suspension address (SUS_ADDR), in units of 512 KiB.
    pub suspension_address: u32,
    /// Application performance class: 0 (none), 1 or 2.
    pub app_class: u8,
    /// Depth of the card's command queue; 0 if the card has none.
    pub queue_depth: u8,
    /// Whether the card has a cache.
    pub cache: bool,
    /// Whether the card supports maintenance that the host starts.
    pub host_maintenance: bool,
    /// Whether the card supports maintenance that the card itself starts.
    pub card_maintenance: bool,
    /// Whether CMD38 can discard blocks.
    pub discard: bool,
    /// Whether CMD38 can erase the full user area logically (FULE).
    pub fule: bool,
}

/// Returns the allocation unit in bytes for a code of AU_SIZE or UHS_AU_SIZE; `None` for code 0.
fn au_bytes(code: u32) -> Option<u32> {
    match code {
        1..=9 => Some((16 * KIB) << (code - 1)),
        10 => Some(8 * MIB),
        11 => Some(12 * MIB),
        12 => Some(16 * MIB),
        13 => Some(24 * MIB),
        14 => Some(32 * MIB),
        15 => Some(64 * MIB),
        _ => None,
    }
}

impl Ssr {
    /// Decodes the 64 bytes of the register.
    pub fn parse(bytes: &[u8; 64]) -> Self {
        let at = |hi, lo| bits::of_bytes(bytes, hi, lo);
        let flag = |n| at(n, n) != 0;
        Ssr {
            width4: at(511, 510) == 2,
            secured: flag(509),
            card_type: at(495, 480) as u16,
            protected_area: at(479, 448),
            speed_class: match at(447, 440) {
                code @ 0..=3 => Some(2 * code as u8),
                4 => Some(10),
                _ => None,
            },
            performance_move: at(439, 432) as u8,
            au_bytes: au_bytes(at(431, 428)),
            erase_aus: at(423, 408) as u16,
            erase_timeout_s: at(407, 402) as u8,
            erase_offset_s: at(401, 400) as u8,
            uhs_grade: at(399, 396) as u8,
            uhs_au_bytes: au_bytes(at(395, 392)),
            video_class: at(391, 384) as u8,
            video_au_bytes: match at(377, 368) {
                0 => None,
                mebibytes => Some(mebibytes * MIB),
            },
            suspension_address: at(367, 346),
            app_class: at(339, 336) as u8,
            queue_depth: at(335, 331) as u8,
            cache: flag(330),
            host_maintenance: flag(329),
            card_maintenance: flag(328),
            discard: flag(313),
            fule: flag(312),
        }
    }

    /// Returns the longest erase of `aus` allocation units in nanoseconds, rounded up [SD 4.14].
    /// `None` if the card does not declare it.
    pub fn erase_timeout_ns(&self, aus: u32) -> Option<u64> {
        if self.erase_aus == 0 || self.erase_timeout_s == 0 {
            return None;
        }
        let span_ns = u64::from(self.erase_timeout_s) * 1_000_000_000;
        let per_au_ns = span_ns.div_ceil(u64::from(self.erase_aus));
        let offset_ns = u64::from(self.erase_offset_s) * 1_000_000_000;
        Some(per_au_ns.saturating_mul(u64::from(aus)).saturating_add(offset_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_erase() {
        let mut bytes = [0; 64];
        bytes[0] = 0x80;
        // Bytes 8 on: class 10, no move speed, AU 4 MiB, 15 AUs in 1 s, offset 1 s, U3 with AU 16
        // MiB, V30.
        bytes[8..15].copy_from_slice(&[4, 0, 0x90, 0, 15, 1 << 2 | 1, 0x3c]);
        bytes[15] = 30;
        bytes[17] = 8;
        bytes[21] = 2;
        bytes[22] = 31 << 3 | 0b101;
        bytes[24] = 0b11;
        let ssr = Ssr::parse(&bytes);
        assert!(ssr.width4 && !ssr.secured && ssr.cache && !ssr.host_maintenance && ssr.card_maintenance);
        assert_eq!((ssr.speed_class, ssr.uhs_grade, ssr.video_class, ssr.app_class), (Some(10), 3, 30, 2));
        assert_eq!((ssr.au_bytes, ssr.uhs_au_bytes), (Some(4 * MIB), Some(16 * MIB)));
        assert_eq!((ssr.video_au_bytes, ssr.queue_depth), (Some(8 * MIB), 31));
        assert!(ssr.discard && ssr.fule);
        assert_eq!((ssr.erase_aus, ssr.erase_timeout_s, ssr.erase_offset_s), (15, 1, 1));
        assert_eq!(ssr.erase_timeout_ns(15), Some(2_000_000_005));
        assert_eq!(ssr.erase_timeout_ns(0), Some(1_000_000_000));
    }

    #[test]
    fn any_input_is_read() {
        crate::fuzz::fuzz("any_input_is_read", 200, |u| {
            let mut bytes = [0; 64];
            u.fill_buffer(&mut bytes)?;
            let ssr = Ssr::parse(&bytes);
            let known = ssr.erase_aus != 0 && ssr.erase_timeout_s != 0;
            assert_eq!(ssr.erase_timeout_ns(u32::MAX).is_some(), known);
            assert!(ssr.uhs_grade <= 15 && ssr.queue_depth <= 31);
            Ok(())
        });
    }
}
