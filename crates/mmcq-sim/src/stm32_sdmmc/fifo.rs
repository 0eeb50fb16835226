//! FIFO of words; the last word may hold fewer than four bytes of data.

use std::collections::VecDeque;

/// FIFO of words between the FIFO register and the data lines.
#[derive(Debug)]
pub(super) struct Fifo {
    words: VecDeque<[u8; 4]>,
    depth: usize,
}

impl Fifo {
    pub fn new(depth: usize) -> Self {
        Fifo { words: VecDeque::with_capacity(depth), depth }
    }

    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Returns the size of the FIFO in bytes.
    pub fn size(&self) -> usize {
        4 * self.depth
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.words.len() >= self.depth
    }

    /// Returns whether at least half of the words hold data.
    pub fn half_full(&self) -> bool {
        self.words.len() >= self.depth / 2
    }

    /// Returns whether at least half of the words are empty.
    pub fn half_empty(&self) -> bool {
        self.words.len() <= self.depth / 2
    }

    /// Adds a word of up to four bytes. Returns false if the FIFO is full.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        self.words.push_back(word);
        true
    }

    /// Removes the next word; bytes after the end of the data are zero. `None`: the FIFO is empty.
    pub fn pop(&mut self) -> Option<[u8; 4]> {
        self.words.pop_front()
    }
}
