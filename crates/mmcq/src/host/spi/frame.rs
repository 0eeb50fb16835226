//! Command frames, and the memory that the driver uses for everything but blocks.

use crate::spec::crc::crc7;

/// Largest number of bytes in an exchange that uses the driver's own memory.
pub(super) const WIRE_BYTES: usize = 64;
/// Bytes of an exchange with a command: one byte before it [SD 7.5.1, N_RC], the six bytes of the
/// command, and as many as most cards need to respond.
pub(super) const WITH_ANSWER: usize = 12;

/// Bytes of an exchange with a command that is long enough for the slowest card [SD 7.5.1, N_CR].
pub(super) const WITH_LATE_ANSWER: usize = 16;

/// Returns the six bytes of a command, with their CRC7.
pub(super) const fn of(index: u8, arg: u32) -> [u8; 6] {
    let [a, b, c, d] = arg.to_be_bytes();
    let first = 0x40 | index & 0x3f;
    [first, a, b, c, d, crc7(&[first, a, b, c, d]) << 1 | 1]
}

/// Memory of a driver for everything but blocks: 64 bytes, which the port must be able to access.
#[derive(Debug)]
#[repr(C, align(4))]
pub struct SpiMemory(pub(super) [u8; WIRE_BYTES]);

impl SpiMemory {
    /// Makes the memory, for a static variable.
    pub const fn new() -> Self {
        SpiMemory([0; WIRE_BYTES])
    }
}

impl Default for SpiMemory {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes of the driver's memory that were received and not read yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Input {
    at: usize,
    end: usize,
}

impl Input {
    /// Marks the first `end` bytes of the memory as received.
    pub fn of(end: usize) -> Self {
        Input { at: 0, end: end.min(WIRE_BYTES) }
    }

    pub fn len(&self) -> usize {
        self.end - self.at
    }

    pub fn skip(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.end);
    }

    /// Returns the bytes that were not read yet.
    pub fn bytes<'m>(&self, memory: &'m SpiMemory) -> &'m [u8] {
        memory.0.get(self.at..self.end).unwrap_or_default()
    }

    /// Returns the next byte that was not read, and marks it as read; `None` if there is none.
    pub fn next(&mut self, memory: &SpiMemory) -> Option<u8> {
        let byte = *self.bytes(memory).first()?;
        self.at += 1;
        Some(byte)
    }

    /// Returns the last received byte, if it was not read yet.
    pub fn last(&self, memory: &SpiMemory) -> Option<u8> {
        self.bytes(memory).last().copied()
    }

    /// Moves the bytes that were not read to the front, and puts `ones` bytes of 0xff after them.
    /// Returns the number of moved bytes.
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
