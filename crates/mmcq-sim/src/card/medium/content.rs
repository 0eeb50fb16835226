//! Short forms of a sector's content, which need only a few bytes of memory. Load generators mostly
//! write one repeated word, or a sequence of pseudo-random words, so that most sectors have a short
//! form.

use super::{Fill, SECTOR_BYTES};
use crate::sequence::{self, WORD};

pub(super) const SECTOR: usize = SECTOR_BYTES as usize;

/// The bytes of a sector.
pub(crate) type Bytes = [u8; SECTOR];

/// Content of a sector that can be generated from a short description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// The content of a sector that was never written.
    Fill(Fill),
    /// A repeated 8-byte word.
    Word(u64),
    /// The words that SplitMix64 makes from this state on; load generators write random data this
    /// way.
    Sequence(u64),
}

impl Short {
    /// Returns the short description ([`Short::Word`] or [`Short::Sequence`]) that generates these
    /// bytes; `None` if neither does.
    #[inline]
    pub(super) fn of(bytes: &Bytes) -> Option<Short> {
        let (words, _) = bytes.as_chunks::<WORD>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        let (first, second) = (word(0), word(1));
        if second == first {
            return words.iter().all(|other| *other == words[0]).then_some(Short::Word(first));
        }
        let state = sequence::state_of(first);
        // The second word already shows for most contents that they are no such sequence.
        let follows = second == sequence::word(sequence::later(state, 1)) && sequence::is(state, words);
        follows.then_some(Short::Sequence(state))
    }

    /// Writes a part of the sector's content, from byte `offset` of the sector on. `at` is the byte
    /// address at which the sector begins on the medium.
    #[inline]
    pub(crate) fn part(self, at: u64, offset: usize, part: &mut [u8]) {
        match self {
            Short::Fill(fill) => fill.generate(at + offset as u64, part),
            Short::Word(0) => part.fill(0),
            Short::Word(word) => words(|_| word, offset, part),
            Short::Sequence(state) if offset.is_multiple_of(WORD) => {
                sequence::write(sequence::later(state, offset / WORD), part);
            }
            Short::Sequence(state) => words(|n| sequence::word(sequence::later(state, n)), offset, part),
        }
    }
}

/// Writes a part of a sequence of words, from byte `offset` of the sequence on. `word` returns the
/// word with a given number.
#[inline]
fn words(word: impl Fn(usize) -> u64, offset: usize, part: &mut [u8]) {
    let first = offset / WORD;
    if offset.is_multiple_of(WORD) {
        let (whole, rest) = part.as_chunks_mut::<WORD>();
        let next = first + whole.len();
        for (n, bytes) in whole.iter_mut().enumerate() {
            *bytes = word(first + n).to_le_bytes();
        }
        let len = rest.len();
        rest.copy_from_slice(&word(next).to_le_bytes()[..len]);
        return;
    }
    for (n, byte) in part.iter_mut().enumerate() {
        *byte = word((offset + n) / WORD).to_le_bytes()[(offset + n) % WORD];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_comes_back_byte_for_byte() {
        crate::fuzz::fuzz("what_is_short_comes_back_byte_for_byte", 500, |u| {
            let word: u64 = u.arbitrary()?;
            for short in [Short::Word(word), Short::Sequence(word)] {
                let mut bytes = [0; SECTOR];
                short.part(0, 0, &mut bytes);
                assert_eq!(Short::of(&bytes), Some(short));
                let from = u.int_in_range(0..=SECTOR)?;
                let to = u.int_in_range(from..=SECTOR)?;
                let mut part = vec![0; to - from];
                short.part(0, from, &mut part);
                assert_eq!(part, bytes[from..to]);
                // A sector that differs by one bit must not get the same short form.
                bytes[u.int_in_range(0..=SECTOR - 1)?] ^= 1 << u.int_in_range(0..=7)?;
                assert_eq!(Short::of(&bytes), None);
            }
            Ok(())
        });
    }
}
