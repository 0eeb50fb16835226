//! Compares two runs of the same guest.

use super::{Failure, Report, Run};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Result of running the same guest twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Twice {
    /// Whether console, counters and bus log of both runs were equal, byte for byte.
    pub same: bool,
    /// Hash over console, counters and bus log: one for each of the two runs that are compared.
    pub hashes: [u64; 2],
    /// Largest difference, over all loads, between the rates of the two runs, in percent.
    pub spread_percent: f64,
}

impl Twice {
    pub(super) fn compare(one: (&Run, &Report), other: (&Run, &Report)) -> Result<Self, Failure> {
        let hashes = [hash(one.0)?, hash(other.0)?];
        let pairs = one.1.loads.iter().zip(&other.1.loads);
        let apart = pairs.map(|(a, b)| 100.0 * (a.mib_per_s / b.mib_per_s - 1.0).abs());
        let spread_percent = apart.fold(0.0, f64::max);
        Ok(Twice { same: hashes[0] == hashes[1], hashes, spread_percent })
    }

    /// Returns the result in one line.
    pub fn line(&self) -> String {
        let [one, other] = self.hashes;
        if self.same {
            format!("two runs: the same, hash {one:016x}")
        } else {
            let spread = self.spread_percent;
            format!(
                "two runs: not the same, {one:016x} and {other:016x}; their rates differ by {spread:.3} % at most"
            )
        }
    }
}

fn hash(run: &Run) -> Result<u64, Failure> {
    let mut state = Fnv::default();
    state.take(run.console.as_bytes());
    state.take(run.counters.as_bytes());
    state.file(&run.log).map_err(|error| Failure::Run(format!("the log of the bus: {error}")))?;
    Ok(state.0)
}

/// FNV-1a hash (Fowler, Noll, Vo) with 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn file(&mut self, path: &Path) -> std::io::Result<()> {
        let mut file = BufReader::new(File::open(path)?);
        let mut part = vec![0; 1 << 16];
        loop {
            match file.read(&mut part)? {
                0 => return Ok(()),
                count => self.take(&part[..count]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fnv, Twice};

    #[test]
    fn the_hash_is_the_published_one() {
        let mut state = Fnv::default();
        state.take(b"foobar");
        assert_eq!(state.0, 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_spread_is_printed() {
        let twice = Twice { same: false, hashes: [1, 2], spread_percent: 0.0421 };
        assert!(twice.line().contains("not the same") && twice.line().ends_with("0.042 % at most"));
    }
}
