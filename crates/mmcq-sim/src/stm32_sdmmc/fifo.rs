//! The FIFO: words, of which the last one may hold fewer than four bytes of data.

use std::collections::VecDeque;

/// FIFO of words between the register and the lines.
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

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        4 * self.depth
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.words.len() >= self.depth
    }

    /// Returns whether half of its words or more hold data.
    pub fn half_full(&self) -> bool {
        self.words.len() >= self.depth / 2
    }

    /// Returns whether half of its words or more are empty.
    pub fn half_empty(&self) -> bool {
        self.words.len() <= self.depth / 2
    }

    /// Adds up to four bytes; returns false if there is no room.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        self.words.push_back(word);
        true
    }

    /// Takes out the next word; bytes after the end of the data are zero.
    pub fn pop(&mut self) -> Option<[u8; 4]> {
        self.words.pop_front()
    }
}
