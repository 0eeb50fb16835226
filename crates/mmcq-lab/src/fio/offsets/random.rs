//! Random numbers of fio: L'Ecuyer's combined Tausworthe generators, and the seeds of its streams.

use crate::fio::job::{Job, RandomGenerator, Verify};

/// L'Ecuyer's generator `taus88` ("Maximally equidistributed combined Tausworthe generators",
/// 1996), with fio's seeding.
#[derive(Clone, Debug)]
pub struct Taus88 {
    s: [u32; 3],
}

impl Taus88 {
    /// Makes a stream of numbers from its seed.
    pub fn new(seed: u32) -> Self {
        // Each word of the state must exceed a bound, or its recurrence would stay at zero.
        let floor = |x: u32, min: u32| if x < min { x.wrapping_add(min) } else { x };
        let step = |x: u32| x.wrapping_mul(69069) ^ seed;
        let a = floor(step(53), 1);
        let b = floor(step(a), 7);
        let c = floor(step(b), 15);
        let mut stream = Taus88 { s: [a, b, c] };
        for _ in 0..6 {
            stream.next_u32();
        }
        stream
    }

    /// Returns the next random number of 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        let [a, b, c] = &mut self.s;
        *a = ((*a & 0xffff_fffe) << 12) ^ (((*a << 13) ^ *a) >> 19);
        *b = ((*b & 0xffff_fff8) << 4) ^ (((*b << 2) ^ *b) >> 25);
        *c = ((*c & 0xffff_fff0) << 17) ^ (((*c << 3) ^ *c) >> 11);
        *a ^ *b ^ *c
    }

    /// Returns the next random number scaled to 0 <= x < 1.
    pub fn share(&mut self) -> f64 {
        f64::from(self.next_u32()) / 4_294_967_296.0
    }
}

/// L'Ecuyer's generator `lfsr258` ("Tables of maximally equidistributed combined LFSR generators",
/// 1999), which fio calls `tausworthe64`, with fio's seeding.
#[derive(Clone, Debug)]
pub struct Taus258 {
    s: [u64; 5],
}

/// Parameters of the generator's five parts: of each, the first left shift, the right shift, a mask
/// of bits to clear, and the second left shift. [`Taus258::next_u64`] shows their use.
const PARTS: [(u32, u32, u64, u32); 5] =
    [(1, 53, 1, 10), (24, 50, 511, 5), (3, 23, 4095, 29), (5, 24, 131_071, 23), (3, 33, 8_388_607, 8)];

impl Taus258 {
    /// Makes a stream of numbers from its seed.
    pub fn new(seed: u64) -> Self {
        let mut word: u64 = 53;
        let s = [1, 7, 15, 33, 49].map(|least| {
            let next = word.wrapping_mul(6_906_969_069) ^ seed;
            word = if next < least { next + least } else { next };
            word
        });
        let mut stream = Taus258 { s };
        for _ in 0..6 {
            stream.next_u64();
        }
        stream
    }

    /// Returns the next random number of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        for (s, (into, right, lost, left)) in self.s.iter_mut().zip(PARTS) {
            let x = ((*s << into) ^ *s) >> right;
            *s = (*s & !lost) << left ^ x;
        }
        self.s.iter().fold(0, |all, s| all ^ s)
    }

    /// Returns the next random number scaled to 0 <= x <= 1.
    fn share(&mut self) -> f64 {
        self.next_u64() as f64 / 18_446_744_073_709_551_616.0
    }
}

/// Stream of the random numbers that determine a job's offsets, sizes of blocks, or sizes of files.
#[derive(Clone, Debug)]
pub(super) enum Draws {
    /// Generator of `random_generator=tausworthe`.
    Short(Taus88),
    /// Generator of `random_generator=tausworthe64`.
    Long(Taus258),
}

impl Draws {
    /// Makes a stream from its seed, with the generator that the job requests.
    pub(super) fn new(job: &Job, seed: u64) -> Self {
        match job.random_generator {
            RandomGenerator::Tausworthe64 => Draws::Long(Taus258::new(seed)),
            _ => Draws::Short(Taus88::new((seed & 0xffff_ffff) as u32)),
        }
    }

    /// Returns the next random number, and the largest that there may be.
    pub(super) fn number(&mut self) -> (u64, u64) {
        match self {
            Draws::Short(stream) => (stream.next_u32().into(), u32::MAX.into()),
            Draws::Long(stream) => (stream.next_u64(), u64::MAX),
        }
    }

    /// Returns the next random number, scaled to the range 0 to 1.
    pub(super) fn share(&mut self) -> f64 {
        match self {
            Draws::Short(stream) => stream.share(),
            Draws::Long(stream) => stream.share(),
        }
    }
}

/// Seeds of one worker's random streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// Seeds of the block sizes, `[read, write]`.
    pub block_size: [u64; 2],
    /// Seed of the random numbers that go into verification headers.
    pub verify: u32,
    /// Seed of the choice between reads and writes.
    pub mix: u32,
    /// Seed of the random offsets of the transfers in their files.
    pub offset: u64,
    /// Seed of file sizes, if `filesize=` is a range.
    pub file_size: u64,
    /// Seeds of the times between requests with `rate_process=poisson`, `[read, write]`.
    pub poisson: [u32; 2],
    /// Seed of the choice of zones with `random_distribution=zoned`.
    pub zone: u32,
}

const GOLDEN: u64 = 0x9e37_0001;
const FIO_SEED: u64 = 0xb189_9bed;

impl Seeds {
    /// Returns whether a random seed of this job depends on the seed of the run.
    pub fn are_of_run(job: &Job) -> bool {
        job.randseed.is_none() && !job.randrepeat && !job.allrandrepeat
    }

    /// Returns the seeds of worker `thread_number` (from 1) of a job, chosen as in fio. They come
    /// from a table that starts from `randseed` (0x89 if not given); repeatable offsets depend only
    /// on the worker. Where fio would use the system's randomness (`randrepeat=0` without
    /// `randseed`), `run_seed` is used, so that a run can be repeated.
    pub fn of(job: &Job, thread_number: u32, run_seed: u64) -> Self {
        let thread = u64::from(thread_number);
        let base = match (job.randseed, job.randrepeat) {
            (Some(seed), _) => seed,
            (None, true) => 0x89,
            (None, false) => run_seed ^ 0x9e37_79b9_7f4a_7c15,
        };
        let mut seed = base;
        for _ in 0..4 {
            seed = seed.wrapping_mul(GOLDEN);
        }
        let mut table = [0u64; 18];
        for (entry, i) in table.iter_mut().zip(0u64..) {
            *entry = seed.wrapping_mul(thread).wrapping_add(i);
            seed = seed.wrapping_mul(GOLDEN);
        }
        if job.allrandrepeat {
            for (entry, i) in table.iter_mut().zip(0u64..) {
                *entry = FIO_SEED.wrapping_mul(thread).wrapping_add(i);
            }
        }
        // fio's table has 64 bits per entry, but some streams use only the lower 32.
        let low = |i: usize| (table[i] & 0xffff_ffff) as u32;
        // A verifying job that only reads must draw the sizes that the writing job drew.
        let write_size = if job.verify != Verify::Off { table[0] } else { table[1] };
        let offset = if job.randrepeat { FIO_SEED.wrapping_mul(thread) } else { table[6] };
        Seeds {
            block_size: [table[0], write_size],
            verify: low(3),
            mix: low(4),
            offset,
            file_size: table[7],
            poisson: [low(15), low(17)],
            zone: low(16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::Place;

    #[test]
    fn seeds_that_are_not_of_the_run_are_those_of_every_run() {
        for (randrepeat, allrandrepeat, randseed) in
            [(true, false, None), (false, false, None), (false, true, None), (false, false, Some(7))]
        {
            let mut job = Job::new("t", Place::Whole("t".to_owned()));
            (job.randrepeat, job.allrandrepeat, job.randseed) = (randrepeat, allrandrepeat, randseed);
            let same = Seeds::of(&job, 3, 1) == Seeds::of(&job, 3, 2);
            assert_eq!(Seeds::are_of_run(&job), !same, "{randrepeat} {allrandrepeat} {randseed:?}");
        }
    }

    #[test]
    fn first_numbers_are_fios() {
        // Output of fio 3.33 with --debug=random, first worker of a randread job.
        let mut stream = Taus88::new(0xb189_9bed);
        let first: Vec<u32> = (0..6).map(|_| stream.next_u32()).collect();
        assert_eq!(first, [259043585, 3179521932, 3621444214, 2018697059, 1726199243, 3608323581]);
    }
}
