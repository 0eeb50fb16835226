//! The FIFO: bytes, since a block need not end with a word.

use std::collections::VecDeque;

/// What is between the lines and the CPU, or the internal DMA.
#[derive(Debug)]
pub(super) struct Fifo {
    bytes: VecDeque<u8>,
    words: usize,
}

impl Fifo {
    pub fn new(words: usize) -> Self {
        Fifo { bytes: VecDeque::with_capacity(4 * words), words }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that there is room for.
    pub fn room(&self) -> usize {
        (4 * self.words).saturating_sub(self.bytes.len())
    }

    /// Words that hold something.
    pub fn count(&self) -> usize {
        self.bytes.len().div_ceil(4).min(self.words)
    }

    pub fn is_full(&self) -> bool {
        self.count() >= self.words
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// A look at as many bytes as there are, at most so many.
    pub fn peek(&self, most: usize, into: &mut Vec<u8>) {
        into.extend(self.bytes.iter().take(most));
    }

    /// Takes as many bytes as there are, at most so many.
    pub fn pop(&mut self, most: usize, into: &mut Vec<u8>) {
        let n = most.min(self.bytes.len());
        into.extend(self.bytes.drain(..n));
    }
}
