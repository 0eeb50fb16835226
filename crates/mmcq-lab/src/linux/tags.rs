//! Model of the allocator that the block layer uses for driver tags (sbitmap).
//!
//! The bitmap consists of words of several bits: with 64 tags there are four words of 16 bits. A
//! hint for each core names the word in which its search starts. The allocator takes the lowest
//! zero bit of a word. A freed bit becomes available only when its word is exhausted. So the tags
//! of one word go up, and then start again from the bottom.

use mmcq_sim::world::Stream;

#[derive(Clone, Copy, Default)]
struct Word {
    taken: u64,
    cleared: u64,
}

/// Model of the allocator that gives each request of a driver a tag (a number).
pub struct Tags {
    depth: u32,
    word_bits: u32,
    words: Vec<Word>,
    hints: Vec<u32>,
}

impl Tags {
    /// Makes an allocator of `depth` tags (1 to 64) for a machine with this number of cores. For
    /// each core, the word of the bitmap in which its first search begins is random.
    pub fn new(depth: u32, cores: usize, stream: &mut Stream) -> Self {
        let depth = depth.clamp(1, 64);
        // The bitmap has at least four words, if there are at least four tags.
        let mut word_bits = 64;
        while depth >= 4 && word_bits * 4 > depth {
            word_bits /= 2;
        }
        let words = depth.div_ceil(word_bits) as usize;
        let hints = (0..cores).map(|_| stream.below(u64::from(depth)) as u32).collect();
        Tags { depth, word_bits, words: vec![Word::default(); words], hints }
    }

    /// Allocates a tag for an I/O of this core; `None` if all tags are in use.
    pub fn get(&mut self, core: u8) -> Option<u32> {
        let hint = self.hints[core as usize];
        let n = self.words.len() as u32;
        let first = (hint / self.word_bits).min(n - 1);
        for k in 0..n {
            let index = (first + k) % n;
            let width = self.word_bits.min(self.depth - index * self.word_bits);
            let full = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let word = &mut self.words[index as usize];
            if word.taken == full && word.cleared != 0 {
                word.taken &= !word.cleared;
                word.cleared = 0;
            }
            if word.taken != full {
                let bit = word.taken.trailing_ones();
                word.taken |= 1 << bit;
                let tag = index * self.word_bits + bit;
                if tag == hint {
                    self.hints[core as usize] = if hint + 1 >= self.depth - 1 { 0 } else { hint + 1 };
                }
                return Some(tag);
            }
        }
        self.hints[core as usize] = 0;
        None
    }

    /// Frees a tag; `core` is the core that submitted its I/O.
    pub fn put(&mut self, tag: u32, core: u8) {
        self.words[(tag / self.word_bits) as usize].cleared |= 1 << (tag % self.word_bits);
        self.hints[core as usize] = tag;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(depth: u32) -> Tags {
        let mut tags = Tags::new(depth, 2, &mut Stream::new(1, "tags"));
        tags.hints = vec![0, 40.min(depth - 1)];
        tags
    }

    #[test]
    fn words_are_as_wide_as_in_sbitmap() {
        for (depth, bits) in [(64, 16), (32, 8), (16, 4), (4, 1), (2, 64)] {
            assert_eq!(tags(depth).word_bits, bits, "{depth}");
        }
    }

    #[test]
    fn a_freed_tag_returns_only_when_its_word_is_exhausted() {
        let mut t = tags(64);
        let mut got = Vec::new();
        for _ in 0..18 {
            let tag = t.get(0).unwrap();
            got.push(tag);
            t.put(tag, 0);
        }
        assert_eq!(got, (0..16).chain(0..2).collect::<Vec<_>>());
    }

    #[test]
    fn another_core_starts_in_its_own_word() {
        let mut t = tags(64);
        assert_eq!(t.get(1), Some(32));
        assert_eq!(t.get(0), Some(0));
    }

    #[test]
    fn all_tags_are_different_and_then_none_is_left() {
        let mut t = tags(64);
        let mut got: Vec<_> = std::iter::from_fn(|| t.get(1)).collect();
        got.sort_unstable();
        assert_eq!(got, (0..64).collect::<Vec<_>>());
    }
}
