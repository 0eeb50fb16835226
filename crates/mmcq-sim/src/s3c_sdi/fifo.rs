//! The FIFO: sixteen words, some of which may hold fewer than four bytes.

use std::collections::VecDeque;

/// Number of words.
const WORDS: usize = 16;
/// Half of the FIFO, in bytes.
const HALF_BYTES: usize = 32;

/// Words between the data register and the lines.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    words: VecDeque<([u8; 4], u8)>,
}

impl Fifo {
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Returns the number of bytes in it.
    pub fn bytes(&self) -> usize {
        self.words.iter().map(|&(_, bytes)| usize::from(bytes)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.words.len() >= WORDS
    }

    /// Returns whether it is at least half full.
    pub fn half_full(&self) -> bool {
        self.bytes() >= HALF_BYTES
    }

    /// Returns whether it is at least half empty.
    pub fn half_empty(&self) -> bool {
        self.bytes() <= HALF_BYTES
    }

    /// Adds up to four bytes; returns false if there is no room.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        self.words.push_back((word, bytes.len() as u8));
        true
    }

    /// Takes out the next word. Also returns how many of its bytes are valid.
    pub fn pop(&mut self) -> Option<([u8; 4], usize)> {
        self.words.pop_front().map(|(word, bytes)| (word, bytes.into()))
    }
}
