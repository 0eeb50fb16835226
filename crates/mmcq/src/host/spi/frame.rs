//! Frames and the driver's own memory.

use crate::spec::crc::crc7;

/// Bytes that one exchange of the driver's own has at most.
pub(super) const WIRE_BYTES: usize = 64;
/// A byte before a command [SD 7.5.1, N_RC], its six, and as many as most cards take to answer.
pub(super) const WITH_ANSWER: usize = 12;

/// As many as any card takes [SD 7.5.1, N_CR].
pub(super) const WITH_LATE_ANSWER: usize = 16;

/// The six bytes of a command.
pub(super) const fn of(index: u8, arg: u32) -> [u8; 6] {
    let [a, b, c, d] = arg.to_be_bytes();
    let first = 0x40 | index & 0x3f;
    [first, a, b, c, d, crc7(&[first, a, b, c, d]) << 1 | 1]
}

/// Memory of a driver, for all but blocks: 64 bytes that the port reaches.
#[derive(Debug)]
#[repr(C, align(4))]
pub struct SpiMemory(pub(super) [u8; WIRE_BYTES]);

impl SpiMemory {
    /// For a static.
    pub const fn new() -> Self {
        SpiMemory([0; WIRE_BYTES])
    }
}

impl Default for SpiMemory {
    fn default() -> Self {
        Self::new()
    }
}

/// What of the memory has come in and was not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Input {
    at: usize,
    end: usize,
}

impl Input {
    /// So many bytes are in.
    pub fn of(end: usize) -> Self {
        Input { at: 0, end: end.min(WIRE_BYTES) }
    }

    pub fn len(&self) -> usize {
        self.end - self.at
    }

    pub fn skip(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.end);
    }

    /// What is left.
    pub fn bytes<'m>(&self, memory: &'m SpiMemory) -> &'m [u8] {
        memory.0.get(self.at..self.end).unwrap_or_default()
    }

    /// The next byte.
    pub fn next(&mut self, memory: &SpiMemory) -> Option<u8> {
        let byte = *self.bytes(memory).first()?;
        self.at += 1;
        Some(byte)
    }

    /// The last byte that came in, if one was not looked at.
    pub fn last(&self, memory: &SpiMemory) -> Option<u8> {
        self.bytes(memory).last().copied()
    }

    /// Moves what is left to the front, with so many ones behind it; how much that is.
    pub fn settle(&mut self, memory: &mut SpiMemory, ones: usize) -> usize {
        let left = self.len();
        for place in 0..left {
            let byte = memory.0.get(self.at + place).copied().unwrap_or(0xff);
            if let Some(to) = memory.0.get_mut(place) {
                *to = byte;
            }
        }
        memory.0.iter_mut().skip(left).take(ones).for_each(|byte| *byte = 0xff);
        *self = Input { at: 0, end: left };
        left
    }
}
