//! The content of the blocks that the test of open transfers writes, and checksums of the data that
//! it reads.

use crate::engine::BLOCK_BYTES;

/// Start value of a checksum.
pub(super) const SEED: u64 = 0xcbf2_9ce4_8422_2325;
/// Marks the second word of a block that the test has written.
const TAG: u64 = 0x6d6d_6371_0000_0000;

/// Returns a number that depends on all bits of `value`.
pub(super) const fn mixed(value: u64) -> u64 {
    let value = (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ value >> 29
}

/// Returns the first eight bytes as a little-endian number; 0 if there are fewer.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the checksum of a block.
pub(super) fn sum_of(block: &[u8]) -> u64 {
    block.chunks_exact(8).fold(SEED, |sum, bytes| mixed(sum ^ number_of(bytes)))
}

/// Returns the word with the index `at` in the block `lba`, as write number `version` of the test
/// writes it.
const fn word(lba: u64, version: u32, at: usize) -> u64 {
    match at {
        0 => lba,
        1 => TAG | version as u64,
        _ => mixed(lba ^ (version as u64) << 40 ^ (at as u64) << 56),
    }
}

/// Fills the memory of a request of `blocks` blocks with the data that write number `version` of
/// the test writes from the block `lba` on. The request's memory begins `shift` blocks after the
/// begin of the buffer.
pub(super) fn fill(buf: &mut [u8], lba: u64, shift: u32, blocks: u32, version: u32) {
    let memory = buf.chunks_exact_mut(BLOCK_BYTES as usize).skip(shift as usize);
    for (block, lba) in memory.take(blocks as usize).zip(lba..) {
        for (at, bytes) in block.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&word(lba, version, at).to_le_bytes());
        }
    }
}

/// Returns whether a block has exactly the data that the test's series of requests with number
/// `version` wrote to the block `lba`.
pub(super) fn is_block(block: &[u8], lba: u64, version: u32) -> bool {
    block.chunks_exact(8).enumerate().all(|(at, bytes)| number_of(bytes) == word(lba, version, at))
}

/// Returns the number of the block to which a test run with a number up to `version` has written
/// these data, by the mark in the data; `None`: no such run has written them.
pub(super) fn holder(block: &[u8], version: u32) -> Option<u64> {
    let (lba, tag) = (number_of(block), number_of(block.get(8..)?));
    let by = tag.checked_sub(TAG).and_then(|by| u32::try_from(by).ok()).filter(|by| *by <= version)?;
    is_block(block, lba, by).then_some(lba)
}

/// Returns the blocks of a request in the buffer, `shift` blocks behind its begin.
pub(super) fn blocks_of(buf: &[u8], shift: u32, blocks: u32) -> impl Iterator<Item = &[u8]> {
    buf.chunks_exact(BLOCK_BYTES as usize).skip(shift as usize).take(blocks as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(lba: u64, version: u32) -> [u8; 512] {
        let mut block = [0; 512];
        fill(&mut block, lba, 0, 1, version);
        block
    }

    #[test]
    fn a_block_tells_where_it_belongs() {
        let mut written = block(77, 3);
        assert!(is_block(&written, 77, 3) && !is_block(&written, 77, 2) && !is_block(&written, 78, 3));
        assert_eq!((holder(&written, 3), holder(&written, 2)), (Some(77), None));
        written[511] ^= 1;
        assert_eq!(holder(&written, 3), None);
        assert_eq!(holder(&[0; 512], 3), None);
    }
}
