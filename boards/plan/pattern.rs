//! The test plan: 512 steps, each of which reads or writes blocks of the card, and the data of each
//! block. `expect.rs` on the development computer implements these rules independently:
//!
//! - Sixteen windows of 2048 blocks are evenly distributed over the card: the first at its
//!   beginning, the last at its end.
//! - Step i (from 1) draws three numbers: place, length and kind. The generator is xorshift64* (12,
//!   25, 27), upper half. In the first 256 steps the window is the first number modulo 16. After
//!   them, four steps at a time are under way, and step i uses window `(i mod 4) * 4 + first mod
//!   4`. The length is `1 + second mod 64` blocks, from block `(second >> 8) mod (2049 - length)`
//!   of the window on. One step in three (third modulo 3 = 0) reads, the others write.
//! - Word k of a block (little-endian) is a hash of the block's number, of the step that wrote it
//!   last (0: none), and of k.

/// Number of windows on the card.
pub const WINDOWS: u32 = 16;
/// Number of blocks in a window.
pub const WINDOW_BLOCKS: u32 = 2048;
/// Largest number of blocks in a step.
pub const STEP_BLOCKS: u32 = 64;
/// Number of steps that are done one by one.
pub const SINGLE: u32 = 256;
/// Number of all steps.
pub const STEPS: u32 = 512;
const SEED: u64 = 0x0123_4567_89ab_cdef;

/// One step of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Number of the step, from 1.
    pub number: u32,
    /// Whether the step reads; otherwise it writes.
    pub read: bool,
    /// Number of the window.
    pub window: u32,
    /// First block of the step in the window.
    pub at: u32,
    /// Number of blocks.
    pub blocks: u32,
}

/// Returns all steps in order.
pub fn steps() -> impl Iterator<Item = Step> {
    let mut state = SEED;
    let mut draw = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    };
    (1..=STEPS).map(move |number| {
        let (place, length, kind) = (draw(), draw(), draw());
        let window = if number <= SINGLE { place % WINDOWS } else { number % 4 * 4 + place % 4 };
        let blocks = 1 + length % STEP_BLOCKS;
        let at = (length >> 8) % (WINDOW_BLOCKS + 1 - blocks);
        Step { number, read: kind.is_multiple_of(3), window, at, blocks }
    })
}

/// Returns the first block of a window on a card with this number of blocks.
pub fn window_start(window: u32, blocks: u64) -> u64 {
    blocks.saturating_sub(WINDOW_BLOCKS.into()) * u64::from(window) / u64::from(WINDOWS - 1)
}

fn word(lba: u64, step: u32, k: u32) -> u32 {
    let mut x =
        (lba as u32).wrapping_mul(0x9e37_79b1) ^ step.wrapping_mul(0x85eb_ca6b) ^ k.wrapping_mul(0xc2b2_ae35);
    x = (x ^ x >> 15).wrapping_mul(0x2c1b_3ce5);
    x ^ x >> 12
}

/// Fills a block with the content that this step writes to this place.
pub fn fill(block: &mut [u8], lba: u64, step: u32) {
    for (k, bytes) in (0..).zip(block.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&word(lba, step, k).to_le_bytes());
    }
}

/// Returns whether the block holds what this step wrote to this place.
pub fn holds(block: &[u8], lba: u64, step: u32) -> bool {
    (0..).zip(block.chunks_exact(4)).all(|(k, bytes)| bytes == word(lba, step, k).to_le_bytes())
}
