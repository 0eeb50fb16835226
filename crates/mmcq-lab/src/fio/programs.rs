//! Measurements for each program that made requests in a trace.

use super::job::Dir;
use super::stats::Latency;
use std::collections::BTreeMap;

/// Measurements of a program's requests of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Number of bytes that the requests transferred or discarded.
    pub bytes: u64,
    /// Latencies of the requests from submission to completion.
    pub clat: Latency,
}

impl Taken {
    fn add(&mut self, bytes: u64, ns: u64) {
        self.bytes += bytes;
        self.clat.add(ns);
    }

    fn pool(&mut self, other: &Taken) {
        self.bytes += other.bytes;
        self.clat.pool(&other.clat);
    }
}

/// Measurements of the requests of one program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramStats {
    /// Measurements of reads and writes, `[read, write]`.
    pub dirs: [Taken; 2],
    /// Measurements of discard requests.
    pub discards: Taken,
    /// Measurements of flush requests.
    pub flushes: Taken,
}

impl ProgramStats {
    /// Adds the measurements in `other` to these.
    pub fn pool(&mut self, other: &ProgramStats) {
        self.dirs.iter_mut().zip(&other.dirs).for_each(|(mine, theirs)| mine.pool(theirs));
        self.discards.pool(&other.discards);
        self.flushes.pool(&other.flushes);
    }
}

/// Measurements of each program, by the number of the program in the trace.
pub type Programs = BTreeMap<u16, Box<ProgramStats>>;

/// Kind of a request that a program made.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A read or a write.
    Transfer(Dir),
    /// A discard of blocks.
    Discard,
    /// A flush of the card's cache.
    Flush,
}

/// Adds a completed request to the measurements of the program with this number. `bytes`: the
/// number of bytes that it transferred; `ns`: its latency.
pub fn add(programs: &mut Programs, number: u16, kind: Kind, bytes: u64, ns: u64) {
    let stats = programs.entry(number).or_default();
    match kind {
        Kind::Transfer(dir) => stats.dirs[dir.index()].add(bytes, ns),
        Kind::Discard => stats.discards.add(bytes, ns),
        Kind::Flush => stats.flushes.add(bytes, ns),
    }
}

/// Adds the measurements of another worker's programs to these.
pub fn pool(programs: &mut Programs, other: &Programs) {
    for (number, theirs) in other {
        programs.entry(*number).or_default().pool(theirs);
    }
}
