//! Random map of fio: which blocks of a file a worker's pass has already used.

/// Bitmap of used blocks, in levels. Bit i of a level is set when word i of the level below is
/// full. So the next free block is found in a few steps even in a full map.
#[derive(Clone, Debug)]
pub struct RandomMap {
    blocks: u64,
    levels: Vec<Vec<u64>>,
}

fn words(bits: u64) -> usize {
    usize::try_from(bits.div_ceil(64)).expect("bounded by MAX_BLOCKS")
}

fn split(bit: u64) -> (usize, u32) {
    (usize::try_from(bit / 64).expect("bounded by MAX_BLOCKS"), (bit % 64) as u32)
}

impl RandomMap {
    /// Largest number of blocks in a map, since the generator draws 32 bits.
    pub const MAX_BLOCKS: u64 = 1 << 32;

    /// Makes a map of `blocks` free blocks, at most [`RandomMap::MAX_BLOCKS`].
    pub fn new(blocks: u64) -> Self {
        let blocks = blocks.min(Self::MAX_BLOCKS);
        let mut levels = Vec::new();
        let mut bits = blocks.max(1);
        loop {
            let count = words(bits);
            levels.push(vec![0; count]);
            if count == 1 {
                break;
            }
            bits = count as u64;
        }
        let mut map = RandomMap { blocks, levels };
        map.reset();
        map
    }

    /// Marks every block of the map as free.
    pub fn reset(&mut self) {
        let mut bits = self.blocks;
        for level in &mut self.levels {
            level.fill(0);
            // Bits beyond the last block are set, so that no search finds them.
            if let Some(last) = level.last_mut()
                && !bits.is_multiple_of(64)
            {
                *last = u64::MAX << (bits % 64);
            }
            bits = bits.div_ceil(64);
        }
    }

    /// Returns whether the block with this number exists and is free.
    pub fn is_free(&self, block: u64) -> bool {
        let (word, bit) = split(block);
        block < self.blocks && self.levels[0][word] >> bit & 1 == 0
    }

    /// Marks the block with this number as used.
    fn take(&mut self, block: u64) {
        let mut at = block;
        for level in &mut self.levels {
            let (word, bit) = split(at);
            level[word] |= 1 << bit;
            if level[word] != u64::MAX {
                break;
            }
            at /= 64;
        }
    }

    /// Marks up to `count` blocks from `block` on as used, and stops before a block that is already
    /// used. Returns the number of blocks that were marked.
    pub fn take_run(&mut self, block: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count && self.is_free(block + taken) {
            self.take(block + taken);
            taken += 1;
        }
        taken
    }

    /// Returns the first free block at or after `from`. The search continues at block 0 after the
    /// last one. `None`: no block is free.
    pub fn next_free(&self, from: u64) -> Option<u64> {
        self.free_from(from).or_else(|| self.free_from(0))
    }

    fn free_from(&self, from: u64) -> Option<u64> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let (word, bit) = split(at);
            let free = !level.get(word)? & (u64::MAX << bit);
            if free != 0 {
                let mut found = (at / 64) * 64 + u64::from(free.trailing_zeros());
                for lower in self.levels[..height].iter().rev() {
                    let (word, _) = split(found * 64);
                    found = found * 64 + u64::from((!lower[word]).trailing_zeros());
                }
                return Some(found);
            }
            at = at / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_list_of_booleans() {
        crate::fuzz::sized("agrees_with_a_list_of_booleans", 200, 32..1 << 12, |u| {
            let blocks: u64 = u.int_in_range(1..=9000)?;
            let mut map = RandomMap::new(blocks);
            let mut plain = vec![false; blocks as usize];
            for _ in 0..u.int_in_range(0..=60)? {
                let at: u64 = u.int_in_range(0..=blocks - 1)?;
                let run: u64 = u.int_in_range(0..=600)?;
                let want = plain[at as usize..].iter().take(run as usize).take_while(|t| !**t).count();
                assert_eq!(map.take_run(at, run), want as u64);
                plain[at as usize..at as usize + want].fill(true);
                let from: u64 = u.int_in_range(0..=blocks - 1)?;
                let next = (from..blocks).chain(0..from).find(|b| !plain[*b as usize]);
                assert_eq!(map.next_free(from), next);
                assert_eq!(map.is_free(from), !plain[from as usize]);
            }
            Ok(())
        });
    }

    #[test]
    fn fills_and_resets() {
        for blocks in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut map = RandomMap::new(blocks);
            assert_eq!(map.take_run(0, u64::MAX), blocks);
            assert_eq!(map.next_free(blocks / 2), None);
            map.reset();
            assert_eq!(map.next_free(blocks - 1), Some(blocks - 1));
        }
    }
}
