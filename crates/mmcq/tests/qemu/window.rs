//! A part of the card with its expected content, and buffers that detect writes outside of them.

use crate::image::{BLOCK, Random};
use crate::machine::Machine;
use std::ops::Range;

/// Number of blocks of the card that a test uses.
pub const WINDOW: u32 = 4096;
/// First block of a window around 4 GiB, where a byte address does not fit into 32 bits.
pub const FAR: u32 = (1 << 23) - WINDOW / 2;
/// Number of blocks before and after the window that must stay zero.
const EDGE: u32 = 64;
/// Number of bytes before and after a buffer that must not change.
const GUARD: usize = 4096;

/// The expected content of [`WINDOW`] blocks of the card, which the test computes without reading
/// the card.
#[derive(Debug)]
pub struct Window<'m> {
    machine: &'m Machine,
    base: u32,
    shadow: Vec<u8>,
}

impl<'m> Window<'m> {
    /// Makes a window of the blocks from `base` on, and fills them in the image file, without a
    /// command to the card.
    pub fn new(machine: &'m Machine, base: u32, random: &mut Random) -> Self {
        let shadow = random.bytes(WINDOW as usize * BLOCK);
        machine.image().write(base, &shadow);
        Window { machine, base, shadow }
    }

    /// Returns a random first block in the window for this number of blocks.
    pub fn place(&self, random: &mut Random, blocks: u32) -> u32 {
        self.base + random.below(WINDOW - blocks + 1)
    }

    /// Returns the expected content of `bytes` bytes from `block` on.
    pub fn bytes(&self, block: u32, bytes: usize) -> &[u8] {
        &self.shadow[self.range(block, bytes)]
    }

    /// Records that these bytes were written.
    pub fn note(&mut self, block: u32, bytes: &[u8]) {
        let range = self.range(block, bytes.len());
        self.shadow[range].copy_from_slice(bytes);
    }

    /// Compares the window, and the blocks directly outside of it, with the image file.
    pub fn check(&self) {
        let image = self.machine.image().read(self.base, WINDOW);
        let wrong = image.iter().zip(&self.shadow).position(|(is, must)| is != must);
        if let Some(at) = wrong {
            panic!("the image differs from the shadow at block {}", self.base as usize + at / BLOCK);
        }
        for start in [self.base - EDGE, self.base + WINDOW] {
            let outside = self.machine.image().read(start, EDGE);
            assert!(outside.iter().all(|&byte| byte == 0), "written outside, at block {start} or later");
        }
    }

    fn range(&self, block: u32, bytes: usize) -> Range<usize> {
        let start = (block - self.base) as usize * BLOCK;
        start..start + bytes
    }
}

/// A buffer between guard bytes, at an address that has the requested alignment and no larger one.
#[derive(Debug)]
pub struct Guarded {
    memory: Vec<u8>,
    range: Range<usize>,
    fill: u8,
}

impl Guarded {
    /// Makes a buffer of `bytes` bytes that all have the same value.
    pub fn new(bytes: usize, align: usize, random: &mut Random) -> Self {
        let align = align.max(1);
        let fill = random.next() as u8;
        let memory = vec![fill; bytes + 2 * GUARD + 2 * align];
        let skew = random.below((GUARD / align) as u32) as usize * align;
        let address = memory.as_ptr() as usize;
        let start = (address + skew).next_multiple_of(align) - address;
        Guarded { memory, range: start..start + bytes, fill }
    }

    /// Returns the bytes of the buffer.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }

    /// Panics if a guard byte has changed.
    pub fn check(&self) {
        let guards = self.memory[..self.range.start].iter().chain(&self.memory[self.range.end..]);
        assert!(guards.into_iter().all(|&byte| byte == self.fill), "bytes outside the buffer have changed");
    }
}
