//! The buffer between the DAT lines and the data port (20h) [SDHC 1.7, 2.2.8].

use super::bits::{int, present};
use super::{Sdhci, Timer};

/// Buffer of whole blocks; the host reads or writes one of them through the data port.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Index of the first valid byte in the buffer.
    head: usize,
    block: usize,
    capacity: usize,
    /// Number of bytes of the present block that the host has not accessed yet; 0: the host has no
    /// block to access.
    left: usize,
    /// Number of blocks of a write for which Buffer Write Ready has not been raised yet.
    wanted: u64,
    write: bool,
    /// Time in ns from which the Present State register shows the ready bit of the present block.
    ready_ns: u64,
}

impl Buffer {
    /// Begins a transfer through the data port. `block`: bytes in a block; `slots`: number of
    /// blocks that the buffer can hold. `write`: the host writes the data, `blocks` blocks in all.
    pub fn begin(&mut self, block: usize, slots: u8, write: bool, blocks: u64) {
        self.clear();
        self.block = block;
        self.capacity = block * usize::from(slots.max(1));
        self.write = write;
        self.wanted = if write { blocks } else { 0 };
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.head, self.left, self.wanted) = (0, 0, 0);
    }

    pub fn present_bits(&self, now: u64) -> u32 {
        match (self.left > 0 && now >= self.ready_ns, self.write) {
            (false, _) => 0,
            (true, true) => present::BUFFER_WRITE,
            (true, false) => present::BUFFER_READ,
        }
    }

    fn held(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// Returns whether the buffer has room for a further block from the card.
    pub fn room(&self) -> bool {
        self.held() + self.block <= self.capacity
    }

    pub fn is_empty(&self) -> bool {
        self.held() == 0
    }

    /// Adds a block that came from the card to the buffer.
    pub fn push(&mut self, block: &[u8]) {
        self.bytes.extend_from_slice(block);
    }

    /// Removes a whole block that the host has written from the buffer. Returns false if the buffer
    /// holds no whole block.
    pub fn pull(&mut self, block: &mut [u8]) -> bool {
        let unfinished = if self.left > 0 { self.block - self.left } else { 0 };
        if self.block == 0 || self.held() - unfinished < self.block {
            return false;
        }
        block.copy_from_slice(&self.bytes[self.head..self.head + self.block]);
        self.drop_front(self.block);
        true
    }

    fn drop_front(&mut self, n: usize) {
        self.head += n;
        if self.head == self.bytes.len() {
            self.bytes.clear();
            self.head = 0;
        } else if self.head > 0x4000 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
    }

    /// Makes the next block available to the host, if possible. Returns true if it did.
    pub fn offer(&mut self) -> bool {
        if self.left > 0 || self.block == 0 {
            return false;
        }
        let can = if self.write { self.wanted > 0 && self.room() } else { self.held() >= self.block };
        if can {
            self.left = self.block;
            self.wanted = self.wanted.saturating_sub(u64::from(self.write));
        }
        can
    }

    fn read(&mut self, size: usize) -> Option<u32> {
        if self.write || self.left == 0 {
            return None;
        }
        let n = size.min(self.left);
        let mut word = [0; 4];
        word[..n].copy_from_slice(&self.bytes[self.head..self.head + n]);
        self.drop_front(n);
        self.left -= n;
        Some(u32::from_le_bytes(word))
    }

    fn write(&mut self, size: usize, value: u32) -> bool {
        if !self.write || self.left == 0 {
            return false;
        }
        let n = size.min(self.left);
        self.bytes.extend_from_slice(&value.to_le_bytes()[..n]);
        self.left -= n;
        true
    }
}

impl Sdhci {
    /// Raises Buffer Read Ready or Buffer Write Ready for the next block that the host can access.
    pub(super) fn offer_block(&mut self, now: u64) {
        if self.pio.offer() {
            self.pio.ready_ns = now.saturating_add(self.config.mistakes.buffer_late_ns);
            self.raise(if self.pio.write { int::BUFFER_WRITE_READY } else { int::BUFFER_READ_READY }, now);
        }
    }

    pub(super) fn buffer_read(&mut self, size: u8, now: u64) -> u32 {
        let Some(value) = self.pio.read(size.into()) else {
            self.violation("the Buffer Data Port read with nothing in it [SDHC 2.2.8]");
            return 0;
        };
        if self.pio.left == 0 {
            self.offer_block(now);
            self.buffer_has_room(now);
        }
        value
    }

    pub(super) fn buffer_write(&mut self, size: u8, value: u32, now: u64) {
        if !self.pio.write(size.into(), value) {
            return self.violation("the Buffer Data Port written with no room in it [SDHC 2.2.8]");
        }
        if self.pio.left == 0 {
            self.offer_block(now);
            self.buffer_has_data(now);
        }
    }

    /// Stops all timers of the DAT lines.
    pub(super) fn stop_data_timers(&mut self) {
        self.stop_timer(Timer::Data);
        self.stop_timer(Timer::DataTimeout);
    }
}
