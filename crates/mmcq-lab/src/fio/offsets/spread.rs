//! Option `random_distribution=`: how often the offsets draw each block of the file.
//!
//! Zipf's law uses the generator of Gray et al. ("Quickly Generating Billion-Record Synthetic
//! Databases", SIGMOD 1994). Pareto's law uses its inverse. The normal distribution uses a sum of
//! twelve draws. As in fio, a multiplication then scatters the drawn rank over the file.

use super::random::Taus88;
use crate::fio::job::{Distribution, Zone};

/// Largest number of terms in the sum of Zipf's law, as in fio.
const TERMS_MAX: u64 = 10_000_000;
/// Number of uniform draws whose sum makes a normally distributed value.
const DRAWS: u64 = 12;

/// Generator of the numbers of a file's blocks by rank: the block of rank 0 is drawn most often.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    blocks: u64,
    stream: Taus88,
    shift: u64,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    Zipf { theta: f64, sum: f64, two: f64 },
    Pareto { power: f64 },
    Normal { deviation: u64 },
}

impl Ranks {
    /// Makes the generator for a file with this number of blocks; `seed` is the start value of its
    /// random numbers. `None`: the distribution draws offsets without ranks (places of blocks in
    /// the order of popularity).
    pub(super) fn new(distribution: &Distribution, blocks: u64, seed: u32) -> Option<Self> {
        let mut stream = Taus88::new(seed);
        let mut ranks = |center: Option<f64>, law| {
            let drawn = u64::from(stream.next_u32());
            let shift = center.map_or(drawn, |center| (blocks as f64 * center) as u64);
            Ranks { blocks, stream: stream.clone(), shift, law }
        };
        Some(match *distribution {
            Distribution::Zipf { theta, center } => {
                let term = |i: u64| (1.0 / (i + 1) as f64).powf(theta);
                let sum = (0..blocks.min(TERMS_MAX)).map(term).fold(0.0, |sum, term| sum + term);
                ranks(center, Law::Zipf { theta, sum, two: 1.0 + 0.5f64.powf(theta) })
            }
            Distribution::Pareto { h, center } => {
                ranks(center, Law::Pareto { power: h.ln() / (1.0 - h).ln() })
            }
            Distribution::Normal { percent, center } => {
                let deviation = ((blocks as f64 * percent / 100.0).ceil() as u64).min(blocks / 2);
                let shift = center.map_or(0.0, |center| blocks as f64 * (center - 0.5));
                // fio keeps only 32 bits of this value.
                let shift = u64::from(shift as i64 as u32);
                Ranks { blocks, stream, shift, law: Law::Normal { deviation } }
            }
            Distribution::Uniform | Distribution::Zoned(_) | Distribution::ZonedBytes(_) => return None,
        })
    }

    /// Returns the number of the next block that is drawn.
    pub(super) fn next(&mut self) -> u64 {
        let blocks = self.blocks.max(1);
        let rank = match self.law {
            Law::Zipf { theta, sum, two } => {
                let draw = f64::from(self.stream.next_u32()) / f64::from(u32::MAX);
                let n = blocks as f64;
                let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - two / sum);
                match draw * sum {
                    z if z < 1.0 => 0,
                    z if z < two => 1,
                    _ => (n * (eta * draw - eta + 1.0).powf(1.0 / (1.0 - theta))) as u64,
                }
            }
            Law::Pareto { power } => {
                let draw = f64::from(self.stream.next_u32()) / f64::from(u32::MAX);
                ((blocks - 1) as f64 * draw.powf(power)) as u64
            }
            Law::Normal { deviation } => {
                let mut draw = || u64::from(self.stream.next_u32());
                let sum: u64 = (0..DRAWS).map(|_| draw() % (blocks + 1)).sum();
                let middle = sum.div_ceil(DRAWS);
                if deviation == 0 {
                    middle
                } else {
                    let part = (deviation as f64 * (draw() as f64 / 4_294_967_296.0)) as u64;
                    let mut off = part as i64 - (deviation / 2) as i64;
                    // Each turn halves the value, so the loop ends after at most 63.
                    while off > 0 && off as u64 + middle >= blocks {
                        off /= 2;
                    }
                    middle.wrapping_add_signed(off)
                }
            }
        };
        scatter(rank).wrapping_add(self.shift) % blocks
    }
}

/// Returns a pseudo-random number for a rank (a number that the distribution has drawn). It is a
/// multiplication with the golden ratio; the caller takes the result modulo the number of blocks.
fn scatter(rank: u64) -> u64 {
    rank.wrapping_mul(0x61c8_8646_80b5_83eb)
}

/// Returns the zone that a draw of 1 to 100 selects, in a file of `blocks` blocks of `align` bytes:
/// the zone's first block and its number of blocks. `None`: the distribution has no zones.
pub(super) fn zone(distribution: &Distribution, draw: u64, blocks: u64, align: u64) -> Option<(u64, u64)> {
    let found = |zones: &[Zone]| {
        let (mut percent, mut from) = (0, 0);
        for zone in zones {
            percent += u64::from(zone.percent);
            if draw <= percent {
                return Some((from, from + zone.size));
            }
            from += zone.size;
        }
        None
    };
    match distribution {
        Distribution::Zoned(zones) => {
            found(zones).map(|(from, to)| (from * blocks / 100, blocks * (to - from) / 100))
        }
        Distribution::ZonedBytes(zones) => {
            found(zones).map(|(from, to)| (from / align, to / align - from / align))
        }
        _ => None,
    }
}
