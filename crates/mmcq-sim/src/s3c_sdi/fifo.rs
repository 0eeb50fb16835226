//! FIFO of sixteen words; a word may hold fewer than four bytes.

use std::collections::VecDeque;

/// Number of words that the FIFO can hold.
const WORDS: usize = 16;
/// Half of the FIFO, in bytes.
const HALF_BYTES: usize = 32;

/// FIFO of words between the data register and the data lines.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    words: VecDeque<([u8; 4], u8)>,
}

impl Fifo {
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Returns the number of bytes in the FIFO.
    pub fn bytes(&self) -> usize {
        self.words.iter().map(|&(_, bytes)| usize::from(bytes)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.words.len() >= WORDS
    }

    /// Returns whether the FIFO is half full or fuller.
    pub fn half_full(&self) -> bool {
        self.bytes() >= HALF_BYTES
    }

    /// Returns whether the FIFO is half empty or emptier.
    pub fn half_empty(&self) -> bool {
        self.bytes() <= HALF_BYTES
    }

    /// Adds a word of up to four bytes. Returns false if the FIFO is full.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        self.words.push_back((word, bytes.len() as u8));
        true
    }

    /// Removes the next word. Returns it with the number of its valid bytes; `None` if the FIFO is
    /// empty.
    pub fn pop(&mut self) -> Option<([u8; 4], usize)> {
        self.words.pop_front().map(|(word, bytes)| (word, bytes.into()))
    }
}
