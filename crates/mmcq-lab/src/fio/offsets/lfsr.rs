//! Option `random_generator=lfsr`: a linear feedback shift register that returns every block
//! exactly one time.

/// Taps of shift registers of maximal period, for 3 bits and more (Xilinx XAPP052, table 3).
const TAPS: [&[u32]; 31] = [
    &[3, 2],
    &[4, 3],
    &[5, 3],
    &[6, 5],
    &[7, 6],
    &[8, 6, 5, 4],
    &[9, 5],
    &[10, 7],
    &[11, 9],
    &[12, 6, 4, 1],
    &[13, 4, 3, 1],
    &[14, 5, 3, 1],
    &[15, 14],
    &[16, 15, 13, 4],
    &[17, 14],
    &[18, 11],
    &[19, 6, 2, 1],
    &[20, 17],
    &[21, 19],
    &[22, 21],
    &[23, 18],
    &[24, 23, 22, 17],
    &[25, 22],
    &[26, 6, 2, 1],
    &[27, 5, 2, 1],
    &[28, 25],
    &[29, 27],
    &[30, 6, 4, 1],
    &[31, 28],
    &[32, 22, 2, 1],
    &[33, 20],
];

/// Shift register whose values are the numbers of a file's blocks.
#[derive(Clone, Debug)]
pub(super) struct Lfsr {
    blocks: u64,
    feedback: u64,
    top: u64,
    seed: u64,
    value: u64,
    drawn: u64,
}

impl Lfsr {
    /// Makes a shift register over `blocks` blocks, at most 2^32, from a seed.
    pub(super) fn new(blocks: u64, seed: u64) -> Self {
        // A register never leaves the state of all ones, so n bits give only 2^n - 1 values.
        let taps = TAPS.iter().find(|taps| 1 << taps[0] > blocks).unwrap_or(&TAPS[TAPS.len() - 1]);
        let feedback = taps.iter().fold(0, |mask, tap| mask | 1 << (tap - 1));
        let top = 1 << (taps[0] - 1);
        let mut register = Lfsr { blocks, feedback, top, seed, value: 0, drawn: 0 };
        register.reset();
        register
    }

    /// Restarts the shift register at its seed.
    pub(super) fn reset(&mut self) {
        let all = (self.top << 1) - 1;
        self.drawn = 0;
        self.value = self.seed & all;
        if self.value == all {
            self.value = 0;
        }
        // fio begins one step after the seed.
        self.step();
    }

    fn step(&mut self) {
        let flip = if self.value & 1 == 0 { self.feedback } else { 0 };
        self.value = (self.value >> 1 | self.top) ^ flip;
    }

    /// Returns the number of the next block; `None` when each block was returned one time.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.drawn >= self.blocks {
            return None;
        }
        self.drawn += 1;
        // A register has at most twice as many values as there are blocks, and gives each once in a
        // period.
        for _ in 0..=2 * self.top {
            self.step();
            if self.value < self.blocks {
                return Some(self.value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_once() {
        for blocks in [1, 2, 3, 7, 8, 100, 255, 256, 4097, 70_000] {
            let mut register = Lfsr::new(blocks, 0xb189_9bed);
            let mut seen: Vec<u64> = std::iter::from_fn(|| register.next()).collect();
            assert_eq!(register.next(), None);
            seen.sort_unstable();
            assert_eq!(seen, (0..blocks).collect::<Vec<_>>(), "{blocks}");
        }
    }
}
