//! Bit fields of registers, by the bit numbers in the standards' tables: the last bit of a register
//! has the number 0.

/// Returns bits `hi` to `lo` (at most 32) of a 128-bit register whose first word holds bits 127:96.
#[inline(always)]
pub(super) const fn of_words(words: &[u32; 4], hi: u32, lo: u32) -> u32 {
    let word = 3 - (lo as usize / 32) % 4;
    let above = if word == 0 { 0 } else { words[word - 1] };
    let both = (above as u64) << 32 | words[word] as u64;
    (both >> (lo % 32)) as u32 & mask(hi, lo)
}

/// Returns bits `hi` to `lo` (at most 32) of a register whose first byte holds its highest bits.
/// Bits beyond the register read as 0.
pub(super) fn of_bytes(bytes: &[u8], hi: u32, lo: u32) -> u32 {
    let mut value = 0;
    for byte in (lo / 8..=hi / 8).rev() {
        let from_front = bytes.len().checked_sub(1 + byte as usize);
        let part = from_front.and_then(|at| bytes.get(at)).copied().unwrap_or(0);
        value = value << 8 | u64::from(part);
    }
    (value >> (lo % 8)) as u32 & mask(hi, lo)
}

/// Returns a mask with as many ones as there are bits from `hi` to `lo`.
#[inline(always)]
pub(super) const fn mask(hi: u32, lo: u32) -> u32 {
    match hi.saturating_sub(lo) {
        wide @ 0..=30 => (2 << wide) - 1,
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_across_words_and_bytes() {
        let words = [0x0123_4567, 0x89ab_cdef, 0xfedc_ba98, 0x7654_3210];
        assert_eq!(of_words(&words, 127, 120), 0x01);
        assert_eq!(of_words(&words, 103, 88), 0x6789);
        assert_eq!(of_words(&words, 31, 0), 0x7654_3210);
        assert_eq!(of_words(&words, 47, 16), 0xba98_7654);
        assert_eq!(of_words(&words, 0, 0), 0);
        let bytes = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        assert_eq!(of_bytes(&bytes, 63, 60), 0);
        assert_eq!(of_bytes(&bytes, 59, 56), 1);
        assert_eq!(of_bytes(&bytes, 51, 20), 0x3456_789a);
        assert_eq!(of_bytes(&bytes, 3, 0), 0xf);
        assert_eq!(of_bytes(&bytes, 71, 64), 0);
    }
}
