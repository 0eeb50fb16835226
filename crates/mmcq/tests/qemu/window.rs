//! A part of the card and what must be in it; buffers that tell when their surroundings are
//! touched.

use crate::image::{BLOCK, Random};
use crate::machine::Machine;
use std::ops::Range;

/// Blocks of the card that a test uses.
pub const WINDOW: u32 = 4096;
/// Around 4 GiB, where a byte address has no room in 32 bits.
pub const FAR: u32 = (1 << 23) - WINDOW / 2;
/// Blocks around the window that must stay zero.
const EDGE: u32 = 64;
/// Bytes before and after a buffer that must stay as they are.
const GUARD: usize = 4096;

/// A shadow of [`WINDOW`] blocks: what the card must hold, kept without looking at the card.
#[derive(Debug)]
pub struct Window<'m> {
    machine: &'m Machine,
    base: u32,
    shadow: Vec<u8>,
}

impl<'m> Window<'m> {
    /// Blocks from `base` on, filled behind the card's back.
    pub fn new(machine: &'m Machine, base: u32, random: &mut Random) -> Self {
        let shadow = random.bytes(WINDOW as usize * BLOCK);
        machine.image().write(base, &shadow);
        Window { machine, base, shadow }
    }

    /// A place in it for that many blocks.
    pub fn place(&self, random: &mut Random, blocks: u32) -> u32 {
        self.base + random.below(WINDOW - blocks + 1)
    }

    /// What must be on the card from `block` on, as many bytes.
    pub fn bytes(&self, block: u32, bytes: usize) -> &[u8] {
        &self.shadow[self.range(block, bytes)]
    }

    /// Notes what has been written.
    pub fn note(&mut self, block: u32, bytes: &[u8]) {
        let range = self.range(block, bytes.len());
        self.shadow[range].copy_from_slice(bytes);
    }

    /// Compares with what the file behind the card holds, also just outside.
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

/// A buffer at an address that is aligned as demanded and no better chosen, between guards.
#[derive(Debug)]
pub struct Guarded {
    memory: Vec<u8>,
    range: Range<usize>,
    fill: u8,
}

impl Guarded {
    /// That many bytes, all alike.
    pub fn new(bytes: usize, align: usize, random: &mut Random) -> Self {
        let align = align.max(1);
        let fill = random.next() as u8;
        let memory = vec![fill; bytes + 2 * GUARD + 2 * align];
        let skew = random.below((GUARD / align) as u32) as usize * align;
        let address = memory.as_ptr() as usize;
        let start = (address + skew).next_multiple_of(align) - address;
        Guarded { memory, range: start..start + bytes, fill }
    }

    /// The buffer.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }

    /// Panics if a byte outside has changed.
    pub fn check(&self) {
        let guards = self.memory[..self.range.start].iter().chain(&self.memory[self.range.end..]);
        assert!(guards.into_iter().all(|&byte| byte == self.fill), "bytes outside the buffer have changed");
    }
}
