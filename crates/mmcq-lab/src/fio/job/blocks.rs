//! Sizes of a job's blocks.

use super::{Dir, Distribution, Job, RandomGenerator};

/// Block sizes of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// Smallest block size in bytes.
    pub min: u64,
    /// Largest block size in bytes.
    pub max: u64,
    /// Option `bssplit=`: sizes in bytes, each with its percentage, in the order of the option;
    /// empty if it is not given.
    pub split: Vec<(u64, u8)>,
}

impl BlockSize {
    /// Makes block sizes that are all `bytes`.
    pub fn fixed(bytes: u64) -> Self {
        BlockSize { min: bytes, max: bytes, split: Vec::new() }
    }
}

impl Job {
    /// Returns the alignment in bytes of the offsets of one direction.
    pub fn align(&self, dir: Dir) -> u64 {
        self.blockalign[dir.index()].unwrap_or(self.bs[dir.index()].min)
    }

    /// Returns the smallest block in bytes of both directions. As in fio, a direction that the job
    /// does not use counts too. A bit of the random map represents a block of this size.
    pub fn min_block(&self) -> u64 {
        self.bs[0].min.min(self.bs[1].min)
    }

    /// Returns the largest block in bytes of both directions. As in fio, a direction that the job
    /// does not use counts too where a pass ends.
    pub fn largest_block(&self) -> u64 {
        self.bs[0].max.max(self.bs[1].max)
    }

    /// Returns whether the job remembers in a random map which blocks of its pass it has used. As in
    /// fio, it does not if blocks are drawn repeatedly, or by a shift register.
    pub fn has_map(&self) -> bool {
        let is_uniform = self.random_distribution == Distribution::Uniform;
        let has_register = self.random_generator == RandomGenerator::Lfsr;
        self.rw.random && !self.norandommap && is_uniform && !has_register
    }

    /// Returns the largest block in bytes among the directions that the job uses.
    pub fn max_block(&self) -> u64 {
        match (self.rw.read, self.rw.write) {
            (true, true) => self.bs[0].max.max(self.bs[1].max),
            (_, true) => self.bs[1].max,
            _ => self.bs[0].max,
        }
    }
}
