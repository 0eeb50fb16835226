//! When the next transfer may go: `thinktime=`, `rate=` and `rate_iops=`.

use super::{JobState, Next};
use crate::fio::job::Dir;

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
    pub(super) fn allowed_ns(&self, dir: Dir) -> u64 {
        let (bytes, ios) = self.paced[dir.index()];
        let after = |amount: u64, per_second: u64| {
            let ns = u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        let by_bytes = self.job.rate_bytes[dir.index()].map_or(0, |rate| after(bytes, rate));
        let by_ios = self.job.rate_iops[dir.index()].map_or(0, |rate| after(ios, rate.into()));
        self.paced_from_ns.saturating_add(by_bytes.max(by_ios))
    }
}
