//! Memory for transfers, in statics.

use super::Once;
use crate::engine::{BLOCK_BYTES, DmaBuf};

/// `BLOCKS` blocks of memory for a `static`, aligned to 64 bytes, which is a cache line on most
/// chips. On chips whose controller reaches only a part of the memory, place the static there by
/// `#[link_section]`.
#[derive(Debug)]
pub struct Buffer<const BLOCKS: usize> {
    memory: Once<Lines<BLOCKS>>,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Lines<const BLOCKS: usize>([[u8; BLOCK_BYTES as usize]; BLOCKS]);

impl<const BLOCKS: usize> Buffer<BLOCKS> {
    /// Makes a buffer of zeroes that is not taken yet.
    pub const fn new() -> Self {
        const { assert!(BLOCKS < (u32::MAX / BLOCK_BYTES) as usize, "a buffer has at most 4 GiB") };
        Buffer { memory: Once::new(Lines([[0; BLOCK_BYTES as usize]; BLOCKS])) }
    }

    /// Returns the memory at the first call, and `None` at every later one.
    pub fn take(&'static self) -> Option<DmaBuf> {
        self.memory.take().map(|lines| DmaBuf::from_static(lines.0.as_flattened_mut()))
    }
}

impl<const BLOCKS: usize> Default for Buffer<BLOCKS> {
    fn default() -> Self {
        Self::new()
    }
}
