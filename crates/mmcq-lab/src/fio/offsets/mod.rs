//! Chooses a worker's next transfer: its direction, file, offset and length. The choices are those
//! of fio 3.33.
//!
//! Random offsets come from a generator. A map has the blocks already used: if the generator draws
//! a used block, the next free one is taken. Reads and writes of a mixed job share generator and
//! map. Sequential positions are separate for each direction.

mod lfsr;
mod map;
mod random;
mod region;
mod spread;

use super::job::{Dir, Distribution, Job, RandomGenerator, Sequencer};
use lfsr::Lfsr;
pub use map::RandomMap;
use random::Draws;
pub use random::{Seeds, Taus88};
pub use region::{Extent, Region, extent, file_sizes};
use spread::Ranks;
use std::sync::Arc;

/// Direction of a transfer, and its place in a worker's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Direction of the transfer's data.
    pub dir: Dir,
    /// Index of the file among the worker's files.
    pub file: usize,
    /// Offset in bytes in the file of the transfer's first byte.
    pub offset: u64,
    /// Length of the transfer in bytes.
    pub bytes: u64,
}

/// What a worker does next in its pass over its files: a transfer, a flush, or the end of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A transfer of this file in this direction. If this direction must wait, the caller may
    /// choose the other direction. [`Offsets::place`] returns its offset and length.
    Transfer {
        /// Index of the file among the worker's files.
        file: usize,
        /// Direction of the transfer's data.
        dir: Dir,
    },
    /// A flush of this file; `data_only` for `fdatasync`.
    Sync {
        /// Index of the file to flush among the worker's files.
        file: usize,
        /// Whether the file's own metadata need not be written.
        data_only: bool,
    },
    /// The worker has done all of its files one time (one pass).
    End,
}

#[derive(Debug)]
struct File {
    region: Region,
    map: Option<RandomMap>,
    lfsr: Option<Lfsr>,
    ranks: Option<Ranks>,
    last_start: [Option<u64>; 2],
    last_end: [u64; 2],
    done: bool,
}

impl File {
    fn reset(&mut self) {
        self.last_start = [None; 2];
        self.last_end = [self.region.start; 2];
        if let Some(map) = &mut self.map {
            map.reset();
        }
        if let Some(lfsr) = &mut self.lfsr {
            lfsr.reset();
        }
    }

    fn fits(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.region.start + self.region.len)
    }
}

/// Generator of one worker's transfers: for each, the direction, the file, the offset and the
/// length, as fio chooses them.
#[derive(Debug)]
pub struct Offsets {
    job: Arc<Job>,
    seeds: Seeds,
    files: Vec<File>,
    next_file: usize,
    offset: Draws,
    zone: Taus88,
    mix: Taus88,
    block_size: [Draws; 2],
    issued: [u64; 2],
    mix_dir: Dir,
    mix_until: u64,
    jump_in: u32,
    last_was_sync: bool,
}

/// Largest number of draws of a block size for one transfer. If none of them fits before the file's
/// end, the smallest size is used.
const SIZE_DRAWS_MAX: u32 = 10_000;

impl Offsets {
    /// Makes a generator over these regions of the worker's files.
    pub fn new(job: &Arc<Job>, regions: &[Region], seeds: Seeds) -> Self {
        let unit = job.min_block();
        let files = regions
            .iter()
            .map(|region| {
                let bytes = region.len.min(region.file_bytes);
                // A distribution that is not uniform draws blocks repeatedly, so fio keeps no map
                // for it.
                let seed = (seeds.offset & 0xffff_ffff) as u32;
                let ranks = Ranks::new(&job.random_distribution, bytes.div_ceil(unit), seed);
                let ranks = ranks.filter(|_| job.rw.random);
                let register = job.rw.random && job.random_generator == RandomGenerator::Lfsr;
                let register = register && ranks.is_none();
                let lfsr = register.then(|| Lfsr::new(bytes / job.min_block(), seeds.offset));
                let map = job.has_map().then(|| RandomMap::new(region.len / unit));
                let (last_start, last_end) = ([None; 2], [0; 2]);
                let mut file = File { region: *region, map, lfsr, ranks, last_start, last_end, done: false };
                file.reset();
                file
            })
            .collect();
        Offsets {
            seeds,
            files,
            next_file: 0,
            offset: Draws::new(job, seeds.offset),
            zone: Taus88::new(seeds.zone),
            mix: Taus88::new(seeds.mix),
            block_size: seeds.block_size.map(|seed| Draws::new(job, seed)),
            issued: [0; 2],
            mix_dir: Dir::Read,
            mix_until: 0,
            jump_in: 1,
            last_was_sync: false,
            job: Arc::clone(job),
        }
    }

    /// Begins the worker's next pass: files and random maps start again; with `randrepeat` the
    /// random streams start again, too.
    pub fn restart(&mut self) {
        for file in &mut self.files {
            file.reset();
            file.done = false;
        }
        self.mix_until = 0;
        self.last_was_sync = false;
        if self.job.randrepeat {
            self.offset = Draws::new(&self.job, self.seeds.offset);
            self.zone = Taus88::new(self.seeds.zone);
            self.mix = Taus88::new(self.seeds.mix);
            self.block_size = self.seeds.block_size.map(|seed| Draws::new(&self.job, seed));
        }
    }

    /// Marks all files as not finished, so that another pass over them can begin: fio does so when
    /// it reads the files back to verify them.
    pub fn reopen(&mut self) {
        self.files.iter_mut().for_each(|file| file.done = false);
    }

    /// Returns whether the last transfer step or flush that [`step`](Self::step) returned was a
    /// flush.
    pub fn last_was_sync(&self) -> bool {
        self.last_was_sync
    }

    /// Returns whether every file of the worker is done in the present pass.
    pub fn all_done(&self) -> bool {
        self.files.iter().all(|f| f.done)
    }

    /// Returns what the worker does next in the present pass: a transfer, a flush, or its end.
    pub fn step(&mut self) -> Step {
        let Some(file) = self.pick_file() else { return Step::End };
        match self.direction() {
            Ok(dir) => Step::Transfer { file, dir },
            Err(data_only) => {
                self.last_was_sync = true;
                Step::Sync { file, data_only }
            }
        }
    }

    /// Returns the offset and length of the transfer of a step ([`Step::Transfer`] with this file
    /// and direction). `None`: the step's file is done, and the caller must ask for another step.
    pub fn place(&mut self, file: usize, dir: Dir) -> Option<Place> {
        self.mix_dir = dir;
        let Some((offset, bytes)) = self.fill(file, dir) else {
            self.files[file].done = true;
            return None;
        };
        self.last_was_sync = false;
        self.issued[dir.index()] += 1;
        Some(Place { dir, file, offset, bytes })
    }

    /// Returns the index of the next file, in turn, that is not done; `None`: all files are done.
    fn pick_file(&mut self) -> Option<usize> {
        for _ in 0..self.files.len() {
            let index = self.next_file;
            self.next_file = (self.next_file + 1) % self.files.len();
            if !self.files[index].done {
                return Some(index);
            }
        }
        None
    }

    /// Returns the direction of the next transfer. `Err` means that a flush is due instead;
    /// `Err(true)` means `fdatasync`.
    fn direction(&mut self) -> Result<Dir, bool> {
        let job = &self.job;
        let writes = self.issued[Dir::Write.index()];
        if job.rw.write && !self.last_was_sync && writes > 0 {
            if job.fsync > 0 && writes.is_multiple_of(job.fsync.into()) {
                return Err(false);
            }
            if job.fdatasync > 0 && writes.is_multiple_of(job.fdatasync.into()) {
                return Err(true);
            }
        }
        if !job.rw.mixed() {
            return Ok(if job.rw.write { Dir::Write } else { Dir::Read });
        }
        if self.issued[self.mix_dir.index()] >= self.mix_until {
            let percent = 1 + (self.mix.share() * 100.0) as u64;
            let dir = if percent <= u64::from(job.rwmixread) { Dir::Read } else { Dir::Write };
            if dir != self.mix_dir {
                let other_percent = match self.mix_dir.other() {
                    Dir::Read => u64::from(job.rwmixread),
                    Dir::Write => 100 - u64::from(job.rwmixread),
                };
                self.mix_until = self.issued[self.mix_dir.index()] * other_percent / 100;
            }
            self.mix_dir = dir;
        }
        Ok(self.mix_dir)
    }

    /// Returns offset and length in bytes of the next transfer in the file at `index`; `None` if
    /// the file is done.
    fn fill(&mut self, index: usize, dir: Dir) -> Option<(u64, u64)> {
        let (relative, keep_map) = self.relative_offset(index, dir)?;
        let file = &self.files[index];
        if relative >= file.region.len {
            return None;
        }
        let offset = file.region.start + relative;
        let mut bytes = self.length(index, dir, offset)?;
        let file = &mut self.files[index];
        if offset.checked_add(bytes).is_none_or(|end| end > file.region.file_bytes) {
            return None;
        }
        if let Some(map) = &mut file.map
            && !keep_map
        {
            let unit = self.job.bs[dir.index()].min;
            let taken = map.take_run(relative / unit, bytes.div_ceil(unit));
            bytes = bytes.min(taken.saturating_mul(unit));
        }
        if bytes == 0 {
            return None;
        }
        file.last_start[dir.index()] = Some(offset);
        file.last_end[dir.index()] = offset + bytes;
        Some((offset, bytes))
    }

    /// Returns the next offset in bytes, relative to the start of the worker's region. The second
    /// value is true if this block must not be marked in the random map. `None`: the worker has no
    /// further offset in this file.
    fn relative_offset(&mut self, index: usize, dir: Dir) -> Option<(u64, bool)> {
        if !self.job.rw.random {
            return self.sequential(index, dir).map(|offset| (offset, false));
        }
        if self.job.rw_every > 1 {
            self.jump_in -= 1;
            if self.jump_in > 0 {
                if self.job.rw_sequencer == Sequencer::Identical {
                    let file = &self.files[index];
                    let last = file.last_start[dir.index()].map_or(0, |at| at - file.region.start);
                    return Some((last, true));
                }
                let offset = self.sequential(index, dir).or_else(|| self.random(index, dir))?;
                return Some((offset, true));
            }
            self.jump_in = self.job.rw_every;
        }
        self.random(index, dir).map(|offset| (offset, false))
    }

    fn sequential(&mut self, index: usize, dir: Dir) -> Option<u64> {
        let file = &mut self.files[index];
        let end = file.region.start + file.region.len;
        let last = &mut file.last_end[dir.index()];
        if *last >= end && self.job.time_based {
            *last = file.region.start;
        }
        if *last >= file.region.file_bytes {
            return None;
        }
        let step = self.job.rw_add_bytes;
        if step < 0 && file.region.start > 0 && *last == file.region.start {
            // With an offset, fio begins a backward pass at the end. It counts that end from the
            // start of the file.
            *last = file.region.len.min(file.region.file_bytes);
        }
        let position = last.wrapping_sub(file.region.start);
        if position == 0 || step == 0 {
            return Some(position);
        }
        match position.wrapping_add_signed(step) {
            position if position < file.region.file_bytes => Some(position),
            _ if step > 0 => Some(0),
            _ => file.region.len.min(file.region.file_bytes).checked_add_signed(step),
        }
    }

    fn random(&mut self, index: usize, dir: Dir) -> Option<u64> {
        let found = self.random_block(index, dir);
        let found = if found.is_none() && self.job.time_based {
            self.files[index].reset();
            self.random_block(index, dir)
        } else {
            found
        };
        found.map(|block| block.saturating_mul(self.job.align(dir)))
    }

    fn random_block(&mut self, index: usize, dir: Dir) -> Option<u64> {
        let file = &self.files[index];
        let (align, min) = (self.job.align(dir), self.job.bs[dir.index()].min);
        let size = file.region.len.min(file.region.file_bytes).saturating_sub(min.saturating_sub(align));
        let blocks = size / align;
        if blocks == 0 {
            return None;
        }
        let file = &mut self.files[index];
        if let Some(ranks) = &mut file.ranks {
            return Some(ranks.next());
        }
        let zoned =
            matches!(self.job.random_distribution, Distribution::Zoned(_) | Distribution::ZonedBytes(_));
        let draw = if zoned { 1 + (self.zone.share() * 100.0) as u64 } else { 0 };
        let zone = spread::zone(&self.job.random_distribution, draw, blocks, align);
        let (first, blocks) = zone.unwrap_or((0, blocks));
        let block = match &mut file.lfsr {
            Some(lfsr) => lfsr.next()?,
            None => (blocks as f64 * self.offset.share()) as u64,
        };
        let block = match &file.map {
            Some(map) if !map.is_free(block) => map.next_free(block)?,
            _ => block,
        };
        Some(first + block)
    }

    /// Returns the length in bytes of a transfer at byte `offset` of the file with this index;
    /// `None` if not even the smallest block fits there.
    fn length(&mut self, index: usize, dir: Dir, offset: u64) -> Option<u64> {
        let bs = &self.job.bs[dir.index()];
        let file = &self.files[index];
        // As in fio, a block of fixed size may begin inside the region and end beyond it.
        if bs.min == bs.max {
            return Some(bs.min);
        }
        if !file.fits(offset, bs.min) {
            return None;
        }
        for _ in 0..SIZE_DRAWS_MAX {
            let stream = &mut self.block_size[dir.index()];
            let mut bytes = if bs.split.is_empty() {
                bs.min + (bs.max as f64 * stream.share()) as u64
            } else {
                let (draw, most) = stream.number();
                let mut percent = 0;
                let mut chosen = bs.min;
                for (size, share) in bs.split.iter().filter(|(_, share)| *share > 0) {
                    chosen = *size;
                    percent += u64::from(*share);
                    if draw / percent <= most / 100 && file.fits(offset, chosen) {
                        break;
                    }
                }
                chosen
            };
            if !self.job.bs_unaligned {
                bytes -= bytes % bs.min;
            }
            bytes = bytes.min(bs.max);
            if file.fits(offset, bytes) {
                return Some(bytes);
            }
        }
        Some(bs.min)
    }
}
