//! FIFO of a mobile storage host, counted in bytes, since a block need not end with a whole word.

/// FIFO between the data lines and the CPU or the internal DMA. It copies data in slices, which is
/// faster than byte by byte.
#[derive(Debug)]
pub(super) struct Fifo {
    /// Bytes that were already taken out (the first `out`), followed by the content.
    bytes: Vec<u8>,
    out: usize,
    words: usize,
}

impl Fifo {
    pub fn new(words: usize) -> Self {
        Fifo { bytes: Vec::with_capacity(4 * words), out: 0, words }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.out = 0;
    }

    pub fn len(&self) -> usize {
        self.bytes.len() - self.out
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of free bytes.
    pub fn room(&self) -> usize {
        (4 * self.words).saturating_sub(self.len())
    }

    /// Returns the number of words that hold data.
    pub fn count(&self) -> usize {
        self.len().div_ceil(4).min(self.words)
    }

    pub fn is_full(&self) -> bool {
        self.count() >= self.words
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds `count` bytes that `fill` writes; adds nothing if `fill` fails.
    pub fn push_with<E>(
        &mut self,
        count: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.make_room(count);
        let before = self.bytes.len();
        self.bytes.resize(before + count, 0);
        fill(&mut self.bytes[before..]).inspect_err(|_| self.bytes.truncate(before))
    }

    /// Returns the first bytes, at most `most`, and leaves them in the FIFO.
    pub fn front(&self, most: usize) -> &[u8] {
        &self.bytes[self.out..][..most.min(self.len())]
    }

    /// Removes the first bytes, at most `most`, and appends them to `into`.
    pub fn pop(&mut self, most: usize, into: &mut Vec<u8>) {
        into.extend_from_slice(self.front(most));
        self.drop_front(most);
    }

    /// Removes the first `count` bytes.
    pub fn drop_front(&mut self, count: usize) {
        self.out += count.min(self.len());
        if self.is_empty() {
            self.clear();
        }
    }

    /// Makes room for `count` further bytes by reuse of the space of removed bytes, so that the
    /// vector does not grow.
    fn make_room(&mut self, count: usize) {
        if self.bytes.len() + count > self.bytes.capacity() {
            self.bytes.drain(..self.out);
            self.out = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fifo;
    use std::collections::VecDeque;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        crate::fuzz::fuzz("bytes_come_out_as_they_went_in", 200, |u| {
            let (mut fifo, mut same) = (Fifo::new(16), VecDeque::new());
            for number in 0..u.int_in_range(1..=60)? {
                let count: usize = u.int_in_range(0..=80)?;
                let bytes: Vec<u8> = (0..count).map(|at| (at as u8).wrapping_add(number)).collect();
                match u.int_in_range(0..=3)? {
                    0 => fifo.push(&bytes),
                    1 => {
                        let fill = |into: &mut [u8]| {
                            into.copy_from_slice(&bytes);
                            Ok::<_, ()>(())
                        };
                        fifo.push_with(count, fill).unwrap();
                    }
                    2 => {
                        assert_eq!(fifo.push_with(count, |into| Err(into.len())), Err(count));
                        continue;
                    }
                    _ => {
                        let mut out = vec![7];
                        let front = fifo.front(count).to_vec();
                        fifo.pop(count, &mut out);
                        let expected: Vec<u8> = same.drain(..count.min(same.len())).collect();
                        assert_eq!((&out[1..], &front[..]), (&expected[..], &expected[..]));
                        continue;
                    }
                }
                same.extend(bytes);
                let room = 64usize.saturating_sub(same.len());
                assert_eq!((fifo.len(), fifo.room(), fifo.is_full()), (same.len(), room, room < 4));
            }
            Ok(())
        });
    }
}
