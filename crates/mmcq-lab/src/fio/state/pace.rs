//! When the next transfer may go: `thinktime=`, `rate=`, `rate_iops=` and `rate_process=`.

use super::{JobState, Next, Taus88};
use crate::fio::job::Dir;

/// Arrivals by chance, `[read, write]`: the streams, and when each has its next from the beginning.
#[derive(Debug)]
pub(super) struct Poisson {
    streams: [Taus88; 2],
    next_ns: [Option<u64>; 2],
    sum_us: [u64; 2],
}

impl Poisson {
    pub(super) fn new(seeds: [u32; 2]) -> Self {
        Poisson { streams: seeds.map(Taus88::new), next_ns: [None; 2], sum_us: [0; 2] }
    }

    /// When the next goes, at so many in a second.
    fn due_ns(&mut self, dir: usize, per_second: u64) -> u64 {
        let (stream, sum_us) = (&mut self.streams[dir], &mut self.sum_us[dir]);
        *self.next_ns[dir].get_or_insert_with(|| {
            // Never 0, whose logarithm is none.
            let share = stream.share().max(f64::MIN_POSITIVE);
            *sum_us += ((1_000_000 / per_second.max(1)) as f64 * -share.ln()) as u64;
            sum_us.saturating_mul(1000)
        })
    }

    /// That one has gone.
    pub(super) fn gone(&mut self, dir: Dir) {
        self.next_ns[dir.index()] = None;
    }
}

impl JobState {
    /// `thinktime=`: after some blocks all is drained, then nothing happens for a while.
    pub(super) fn think(&mut self, now_ns: u64) -> Option<Next> {
        if let Some(until_ns) = self.think_until_ns {
            if now_ns < until_ns {
                return Some(Next::Wait(until_ns));
            }
            self.think_until_ns = None;
        }
        if self.job.thinktime_ns == 0 || self.blocks_since_think < self.job.thinktime_blocks {
            return None;
        }
        if self.outstanding > 0 {
            return Some(Next::AfterCompletion);
        }
        self.blocks_since_think = 0;
        let until_ns = now_ns.saturating_add(self.job.thinktime_ns);
        self.think_until_ns = Some(until_ns);
        Some(Next::Wait(until_ns))
    }

    /// When `rate=` and `rate_iops=` let the next transfer of this direction go.
    pub(super) fn allowed_ns(&mut self, dir: Dir) -> u64 {
        let i = dir.index();
        if self.job.poisson {
            let of_bytes = self.job.rate_bytes[i].map(|rate| rate / self.job.bs[i].min);
            if let Some(rate) = self.job.rate_iops[i].map(u64::from).or(of_bytes) {
                return self.paced_from_ns.saturating_add(self.poisson.due_ns(i, rate));
            }
        }
        let (bytes, ios) = self.paced[i];
        let after = |amount: u64, per_second: u64| {
            let ns = u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        let by_bytes = self.job.rate_bytes[dir.index()].map_or(0, |rate| after(bytes, rate));
        let by_ios = self.job.rate_iops[dir.index()].map_or(0, |rate| after(ios, rate.into()));
        self.paced_from_ns.saturating_add(by_bytes.max(by_ios))
    }
}
