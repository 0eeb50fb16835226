//! SplitMix64, the random data of load generators: this module generates and recognises it.
//!
//! A sequence has the outputs for a state, for the state after it, and so on. The generator makes
//! eight bytes with a few instructions, and computes any word of a sequence without those before
//! it.

use multiversion::multiversion;

/// Size of one output of the generator, in bytes.
pub const WORD: usize = size_of::<u64>();

/// Constant that SplitMix64 adds to its state for each output.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// Returns the state that the generator has `words` outputs after `state`.
#[inline(always)]
#[must_use]
pub const fn later(state: u64, words: usize) -> u64 {
    state.wrapping_add(STEP.wrapping_mul(words as u64))
}

/// Returns the generator's output in this state.
#[inline(always)]
#[must_use]
pub const fn word(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(FIRST);
    let z = (z ^ (z >> 27)).wrapping_mul(SECOND);
    z ^ (z >> 31)
}

/// Returns the state whose output is this word.
#[must_use]
pub const fn state_of(output: u64) -> u64 {
    // z = x ^ (x >> n) is undone by x = z ^ (z >> n) ^ (z >> 2n) ^ ...; for n of 27 to 31, the
    // terms from z >> 3n on are 0. Each odd factor has an inverse modulo 2^64.
    let z = unshifted(output, 31).wrapping_mul(const { inverse(SECOND) });
    let z = unshifted(z, 27).wrapping_mul(const { inverse(FIRST) });
    unshifted(z, 30)
}

const fn unshifted(z: u64, by: u32) -> u64 {
    z ^ (z >> by) ^ (z >> (2 * by))
}

/// Returns the inverse of this odd factor modulo 2^64, by Newton's iteration: each round doubles
/// the number of correct bits.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut round = 0;
    while round < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// Writes the sequence that begins with this state, as little-endian words. The last word is cut
/// off at the end of `bytes`.
pub fn write(state: u64, bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<WORD>();
    write_words(state, words);
    let last = word(later(state, words.len())).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Returns whether these words are the outputs of the random generator (SplitMix64) that begin with
/// this state.
#[must_use]
pub fn is(state: u64, words: &[[u8; WORD]]) -> bool {
    differences(state, words) == 0
}

// Half of the cost of a simulated write is generating its data; with the processor's widest vector
// instructions it is a quarter.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn write_words(state: u64, words: &mut [[u8; WORD]]) {
    for (n, bytes) in words.iter_mut().enumerate() {
        *bytes = word(later(state, n)).to_le_bytes();
    }
}

/// Returns the bits in which any word differs from the sequence. The loop does not stop at the
/// first difference, so that the compiler can handle many words at a time.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn differences(state: u64, words: &[[u8; WORD]]) -> u64 {
    let mut differ = 0;
    for (n, bytes) in words.iter().enumerate() {
        differ |= u64::from_le_bytes(*bytes) ^ word(later(state, n));
    }
    differ
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        // Outputs that the authors of SplitMix64 publish for the seed 1234567.
        let published = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
            16408922859458223821_u64,
        ];
        let mut bytes = [0; 5 * WORD];
        write(1234567 + STEP, &mut bytes);
        let (words, _) = bytes.as_chunks::<WORD>();
        assert!(words.iter().map(|word| u64::from_le_bytes(*word)).eq(published));
    }

    #[test]
    fn many_words_at_a_time_are_what_one_by_one_gives() {
        crate::fuzz::fuzz("many_words_at_a_time_are_what_one_by_one_gives", 500, |u| {
            let state: u64 = u.arbitrary()?;
            assert_eq!(state_of(word(state)), state);
            let mut bytes = vec![0; u.int_in_range(0..=600)?];
            write(state, &mut bytes);
            for (n, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte, word(later(state, n / WORD)).to_le_bytes()[n % WORD]);
            }
            let (words, _) = bytes.as_chunks_mut::<WORD>();
            assert!(is(state, words));
            if !words.is_empty() {
                let at = u.choose_index(words.len())?;
                words[at][u.int_in_range(0..=WORD - 1)?] ^= 1 << u.int_in_range(0..=7)?;
                assert!(!is(state, words));
            }
            Ok(())
        });
    }
}
