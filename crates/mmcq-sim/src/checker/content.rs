//! Content of a sector, generated from the place and the version of the sector. So 512 bytes can be
//! written and checked without being stored.

use crate::card::Fill;

/// Bytes in a sector.
pub const SECTOR_BYTES: usize = 512;

/// Size in bytes of a piece: a sector has 16 pieces, and each contains the number of its sector. So
/// the checker can distinguish a torn sector from one with the data of another place.
const PIECE_BYTES: usize = 32;
const PIECES: usize = SECTOR_BYTES / PIECE_BYTES;

/// Generator for the contents of one card's sectors. Each generated content includes the number of
/// the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    seed: u64,
    card: u16,
    fill: Fill,
}

/// Content that was found in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The sector holds its content from before the first write.
    Untouched,
    /// The sector holds what the write with this version number wrote to it.
    Version(u32),
    /// All bytes of the sector are 00h.
    Zeros,
    /// All bytes of the sector are FFh.
    Ones,
    /// The sector has pieces of different contents.
    Torn(Pieces),
    /// The sector cannot be read.
    Unreadable,
    /// The sector, or a piece of it, has data that were written to another place.
    Elsewhere {
        /// Number of the sector to which the data were written.
        lba: u64,
        /// Number of the write (its version) that had these data.
        version: u32,
    },
    /// The data of the sector, or of a part of it, were written for another card.
    OtherCard {
        /// Number of the card that the data belong to.
        card: u16,
        /// Number of the sector on card `card` to which the data were written.
        lba: u64,
    },
    /// The sector has bytes that no request wrote.
    Nonsense {
        /// Offset in the sector of the first part with bytes that no request has written.
        at: usize,
    },
}

/// What the parts of a torn sector contain, if they are from different writes. The sector is
/// compared in parts of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Up to two versions that were found in the pieces, in the order in which they appear in the
    /// sector.
    pub versions: [Option<u32>; 2],
    /// Whether the pieces of the sector have more than two versions; [`versions`](Self::versions)
    /// then has only two of them.
    pub more: bool,
    /// Whether a part of the sector still has the content from before the first write.
    pub untouched: bool,
    /// Whether some parts of the sector are all 00h.
    pub zeros: bool,
    /// Whether some parts of the sector are all FFh.
    pub ones: bool,
    /// Hash of the bytes, to compare this torn sector with another.
    pub digest: u64,
}

fn digest(sector: &[u8]) -> u64 {
    (0..sector.len() / 8).fold(0, |digest, index| mix(digest, word(sector, index)))
}

fn mix(a: u64, b: u64) -> u64 {
    let mixed = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
    u64::from_le_bytes(word)
}

impl Content {
    /// Makes the generator for card number `card` under this seed. `fill` is the card's content
    /// before the first write.
    #[must_use]
    pub fn new(seed: u64, card: u16, fill: Fill) -> Self {
        Content { seed, card, fill }
    }

    fn place(&self, lba: u64) -> u64 {
        (lba & 0xffff_ffff_ffff) | u64::from(self.card) << 48
    }

    fn piece(&self, place: u64, version: u32, index: usize) -> [u64; 4] {
        let what = u64::from(version) << 32 | index as u64;
        let hash = mix(place ^ self.seed, what);
        [place, what, hash, hash.rotate_left(23) ^ what]
    }

    /// Fills one sector with its content at place `lba` in version `version`.
    pub fn write(&self, lba: u64, version: u32, sector: &mut [u8]) {
        let place = self.place(lba);
        for (index, piece) in sector.chunks_exact_mut(PIECE_BYTES).enumerate() {
            for (bytes, word) in piece.chunks_exact_mut(8).zip(self.piece(place, version, index)) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// Returns whether the sector holds exactly what version `version` wrote to place `lba`.
    #[must_use]
    pub fn is(&self, lba: u64, version: u32, sector: &[u8]) -> bool {
        let place = self.place(lba);
        sector.chunks_exact(PIECE_BYTES).enumerate().all(|(index, piece)| {
            let expected = self.piece(place, version, index);
            (0..4).fold(0, |differ, i| differ | (word(piece, i) ^ expected[i])) == 0
        })
    }

    /// Returns which content `sector` is, the bytes that a read of the sector `lba` returned.
    #[must_use]
    pub fn seen(&self, lba: u64, sector: &[u8]) -> Seen {
        let claimed = (word(sector, 1) >> 32) as u32;
        if self.is(lba, claimed, sector) {
            return Seen::Version(claimed);
        }
        let mut untouched = [0; SECTOR_BYTES];
        self.fill.generate(lba * SECTOR_BYTES as u64, &mut untouched);
        if sector == untouched {
            return Seen::Untouched;
        }
        let (mut versions, mut more) = ([None; 2], false);
        let mut kinds = [Seen::Untouched; PIECES];
        for (index, piece) in sector.chunks_exact(PIECE_BYTES).enumerate() {
            let at = index * PIECE_BYTES;
            let seen = self.seen_piece(lba, index, piece, &untouched[at..at + PIECE_BYTES]);
            match seen {
                Seen::Version(version) => match versions {
                    [None, _] => versions[0] = Some(version),
                    [Some(first), None] if first != version => versions[1] = Some(version),
                    known => more |= !known.contains(&Some(version)),
                },
                Seen::Untouched | Seen::Zeros | Seen::Ones => {}
                other => return other,
            }
            kinds[index] = seen;
        }
        match kinds[0] {
            same if kinds.iter().all(|kind| *kind == same) => same,
            _ => {
                let some = |kind| kinds.contains(&kind);
                let (untouched, zeros, ones) = (some(Seen::Untouched), some(Seen::Zeros), some(Seen::Ones));
                Seen::Torn(Pieces { versions, more, untouched, zeros, ones, digest: digest(sector) })
            }
        }
    }

    fn seen_piece(&self, lba: u64, index: usize, piece: &[u8], untouched: &[u8]) -> Seen {
        // With seed 0, the first piece of version 0 of sector 0 is also all zeros.
        match piece {
            _ if piece == untouched => return Seen::Untouched,
            _ if piece.iter().all(|byte| *byte == 0) => return Seen::Zeros,
            _ if piece.iter().all(|byte| *byte == 0xff) => return Seen::Ones,
            _ => {}
        }
        let (place, what) = (word(piece, 0), word(piece, 1));
        let version = (what >> 32) as u32;
        let expected = self.piece(place, version, what as u32 as usize);
        if (0..4).any(|i| word(piece, i) != expected[i]) {
            return Seen::Nonsense { at: index * PIECE_BYTES };
        }
        let (card, claims) = ((place >> 48) as u16, place & 0xffff_ffff_ffff);
        match () {
            () if card != self.card => Seen::OtherCard { card, lba: claims },
            () if claims != lba || what as u32 as usize != index => Seen::Elsewhere { lba: claims, version },
            () => Seen::Version(version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: Content = Content { seed: 7, card: 1, fill: Fill::Pattern(3) };

    fn sector(lba: u64, version: u32) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        CONTENT.write(lba, version, &mut bytes);
        bytes
    }

    #[test]
    fn whole_sectors_are_known_for_what_they_are() {
        assert_eq!(CONTENT.seen(5, &sector(5, 9)), Seen::Version(9));
        assert_eq!(CONTENT.seen(6, &sector(5, 9)), Seen::Elsewhere { lba: 5, version: 9 });
        let mut fresh = [0; SECTOR_BYTES];
        Fill::Pattern(3).generate(5 * 512, &mut fresh);
        assert_eq!(CONTENT.seen(5, &fresh), Seen::Untouched);
        assert_eq!(CONTENT.seen(5, &[0; SECTOR_BYTES]), Seen::Zeros);
        assert_eq!(CONTENT.seen(5, &[0xff; SECTOR_BYTES]), Seen::Ones);
        let mut other = [0; SECTOR_BYTES];
        Content { card: 2, ..CONTENT }.write(5, 9, &mut other);
        assert_eq!(CONTENT.seen(5, &other), Seen::OtherCard { card: 2, lba: 5 });
    }

    #[test]
    fn zeros_are_zeros_with_every_seed() {
        let content = Content::new(0, 1, Fill::Pattern(3));
        assert_eq!(content.seen(5, &[0; SECTOR_BYTES]), Seen::Zeros);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for bit in 0..SECTOR_BYTES * 8 {
            let mut bytes = sector(5, 9);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let at = bit / 8 / PIECE_BYTES * PIECE_BYTES;
            assert_eq!(CONTENT.seen(5, &bytes), Seen::Nonsense { at }, "bit {bit}");
        }
    }

    #[test]
    fn torn_sectors_name_their_pieces() {
        let torn = |bytes: &[u8]| match CONTENT.seen(5, bytes) {
            Seen::Torn(pieces) => pieces,
            seen => panic!("{seen:?}"),
        };
        let mut bytes = sector(5, 9);
        bytes[64..].copy_from_slice(&sector(5, 4)[64..]);
        let two = torn(&bytes);
        assert_eq!((two.versions, two.more, two.zeros), ([Some(9), Some(4)], false, false));
        bytes[480..].copy_from_slice(&sector(5, 3)[480..]);
        assert!(torn(&bytes).more && torn(&bytes).digest != two.digest);
        bytes[64..].fill(0);
        let zeros = torn(&bytes);
        assert_eq!((zeros.versions, zeros.zeros, zeros.ones), ([Some(9), None], true, false));
        bytes[64..].copy_from_slice(&sector(8, 1)[64..]);
        assert_eq!(CONTENT.seen(5, &bytes), Seen::Elsewhere { lba: 8, version: 1 });
        // A piece that is at a wrong offset in its own sector also counts as misdirected.
        let mut bytes = sector(5, 9);
        bytes.copy_within(0..32, 32);
        assert_eq!(CONTENT.seen(5, &bytes), Seen::Elsewhere { lba: 5, version: 9 });
    }
}
