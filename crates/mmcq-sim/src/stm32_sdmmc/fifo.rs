//! The FIFO: words, of which the last one may hold fewer than four bytes of data.

use std::collections::VecDeque;

/// Words between the register and the lines.
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

    /// Bytes that fit.
    pub fn size(&self) -> usize {
        4 * self.depth
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.words.len() >= self.depth
    }

    /// Half of its words or more hold data.
    pub fn half_full(&self) -> bool {
        self.words.len() >= self.depth / 2
    }

    /// Half of its words or more hold none.
    pub fn half_empty(&self) -> bool {
        self.words.len() <= self.depth / 2
    }

    /// Takes up to four bytes; false if there is no room.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        self.words.push_back(word);
        true
    }

    /// The next word; bytes behind the end of the data are zero.
    pub fn pop(&mut self) -> Option<[u8; 4]> {
        self.words.pop_front()
    }
}
