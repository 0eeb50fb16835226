//! Delays a worker's next transfer by `thinktime=`, `rate=`, `rate_iops=`, `rate_process=` and
//! `flow=`.

use super::{JobState, Next, Taus88};
use crate::fio::job::Dir;

/// Interval in ns after which a worker that is ahead of its share in its flow asks again, if
/// `flow_sleep=` is not given.
const FLOW_LOOK_NS: u64 = 1_000;

/// Random arrival times of requests, as pairs `[read, write]`: a random stream for each direction,
/// and the time in ns of its next arrival, counted from the worker's start.
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

    /// Returns the time in ns of the next arrival of a request in direction `dir` (0 reads, 1
    /// writes), at the mean rate of `per_second` requests a second.
    fn due_ns(&mut self, dir: usize, per_second: u64) -> u64 {
        let (stream, sum_us) = (&mut self.streams[dir], &mut self.sum_us[dir]);
        *self.next_ns[dir].get_or_insert_with(|| {
            // The share must not be 0, which has no logarithm.
            let share = stream.share().max(f64::MIN_POSITIVE);
            *sum_us += ((1_000_000 / per_second.max(1)) as f64 * -share.ln()) as u64;
            sum_us.saturating_mul(1000)
        })
    }

    /// Records that the request that was due next in this direction has started.
    pub(super) fn gone(&mut self, dir: Dir) {
        self.next_ns[dir.index()] = None;
    }
}

/// Counters for `thinktime=`, and the pause that it makes.
#[derive(Debug, Default)]
pub(super) struct Think {
    /// Number of transfers that the worker has issued.
    pub(super) issued: u64,
    /// Number of transfers that have ended without an error.
    pub(super) ended: u64,
    /// Whether the worker has issued a transfer since it last checked whether a pause
    /// (`thinktime=`) is due. As in fio, it checks only then.
    pub(super) is_due: bool,
    /// Value of the counter of transfers (issued or ended, by `thinktime_blocks_type=`) at the
    /// newest pause.
    last: u64,
    /// Value of the counter of transfers (issued or ended, by `thinktime_blocks_type=`) when the
    /// worker began to wait for the pause; `None`: it does not wait.
    waits_at: Option<u64>,
    /// Time in ns at which the pause ends; `None`: there is none.
    until_ns: Option<u64>,
}

/// A transfer that must wait because of its rate limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub file: usize,
    pub dir: Dir,
    pause_ns: u64,
    /// Time in ns at which the pause before the transfer ends; `None`: the pause begins only when
    /// no transfer is under way any more.
    until_ns: Option<u64>,
}

/// Share of a worker in its flow (`flow=`), and the pause that the flow makes.
#[derive(Debug)]
pub(super) struct Flow {
    /// Number of transfers and flushes that the worker has begun.
    pub(super) begun: u64,
    /// Number of transfers and flushes that the worker may begin before the other jobs of its flow
    /// begin some.
    left: u64,
    /// Whether the next transfer or flush counts already.
    is_counted: bool,
    /// Whether the worker is ahead of its share, and ends its transfers before it sleeps.
    is_ending: bool,
    /// Time in ns at which the worker asks its flow again; `None`: it does not wait.
    until_ns: Option<u64>,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { begun: 0, left: u64::MAX, is_counted: false, is_ending: false, until_ns: None }
    }
}

impl Flow {
    /// Records that the worker begins a transfer or flush.
    pub(super) fn goes(&mut self) {
        self.is_counted = false;
    }

    /// Returns whether the worker waits for the other jobs of its flow, and keeps what it has
    /// queued: as in fio, only `flow_sleep=` makes it submit the rest of a group.
    pub(super) fn is_looking(&self, sleep_ns: u64) -> bool {
        self.until_ns.is_some() && sleep_ns == 0
    }
}

impl JobState {
    /// Sets the number of transfers and flushes that the worker may begin before it is ahead of
    /// its share in its flow (`flow=`).
    pub fn allow(&mut self, left: u64) {
        self.flow.left = left;
    }

    /// Returns the number of transfers and flushes that the worker has begun in its passes and
    /// verifications.
    pub fn begun(&self) -> u64 {
        self.flow.begun
    }

    /// Applies `flow=` before the next transfer or flush. Returns the action that waits for the
    /// other jobs of the flow; `None`: the worker may begin its next transfer or flush, which counts
    /// now. As in fio, a worker with `flow_sleep=` submits what it has queued, and sleeps when all
    /// its transfers have ended. Without `flow_sleep=` it asks again and again, and does nothing
    /// else.
    pub(super) fn flows(&mut self, now_ns: u64) -> Option<Next> {
        let (sleep_ns, flow) = (self.job.flow_sleep_ns, &mut self.flow);
        if let Some(until_ns) = flow.until_ns {
            if now_ns < until_ns {
                return Some(Next::Wait(until_ns));
            }
            flow.until_ns = None;
        }
        if flow.is_counted {
            return None;
        }
        if !flow.is_ending && flow.left > 0 {
            (flow.left, flow.begun, flow.is_counted) = (flow.left - 1, flow.begun + 1, true);
            return None;
        }
        flow.is_ending = sleep_ns > 0 && self.outstanding > 0;
        if flow.is_ending {
            return Some(Next::AfterCompletion);
        }
        let until_ns = now_ns.saturating_add(if sleep_ns > 0 { sleep_ns } else { FLOW_LOOK_NS });
        flow.until_ns = Some(until_ns);
        Some(Next::Wait(until_ns))
    }

    /// Applies `thinktime=`: when `thinktime_blocks=` transfers have ended or were issued since the
    /// last pause, all transfers must end, and then the worker pauses. Returns the action that waits
    /// for this; `None`: no pause now. As in fio, the worker counts only after it has issued a
    /// transfer, and transfers that end while it waits for the pause count for the next one.
    pub(super) fn think(&mut self, now_ns: u64) -> Option<Next> {
        let (job, think) = (&self.job, &mut self.think);
        if let Some(until_ns) = think.until_ns {
            if now_ns < until_ns {
                return Some(Next::Wait(until_ns));
            }
            think.until_ns = None;
            // The pause is a part of the worker's run time.
            self.last_ns = self.last_ns.max(until_ns);
        }
        let blocks = u64::from(job.thinktime_blocks);
        if job.thinktime_ns > 0 && std::mem::take(&mut think.is_due) {
            let count = if job.thinktime_by_issue { think.issued } else { think.ended };
            think.waits_at = Some(count).filter(|count| *count >= think.last + blocks);
        }
        let count = think.waits_at?;
        if self.outstanding > 0 {
            return Some(Next::AfterCompletion);
        }
        let until_ns = now_ns.saturating_add(job.thinktime_ns);
        (think.last, think.waits_at, think.until_ns) = (count, None, Some(until_ns));
        Some(Next::Wait(until_ns))
    }

    /// Returns the direction of the pass's next transfer by `rate=` and `rate_iops=`. The direction
    /// that the mix has chosen goes if it is not ahead of its rate. If it is, the other direction
    /// of a mixed job goes if that is not ahead of its own rate, as in fio. Otherwise the worker
    /// waits (`Err`) until all transfers under way have ended, and then pauses; with
    /// `io_submit_mode=offload`, it pauses at once.
    pub(super) fn paced(&mut self, file: usize, dir: Dir, now_ns: u64) -> Result<Dir, Next> {
        let mut allowed_ns = self.allowed_ns(dir);
        if allowed_ns <= now_ns {
            return Ok(dir);
        }
        let mut next = dir;
        let reads = u64::from(self.job.rwmixread);
        let has_other = if dir == Dir::Read { reads < 100 } else { reads > 0 };
        if self.job.rw.mixed() && has_other {
            let other_ns = self.allowed_ns(dir.other());
            if other_ns <= now_ns {
                return Ok(dir.other());
            }
            if other_ns < allowed_ns {
                (next, allowed_ns) = (dir.other(), other_ns);
            }
        }
        let held = Held { file, dir: next, pause_ns: allowed_ns - now_ns, until_ns: None };
        self.still_held(held, now_ns).map_or(Ok(next), Err)
    }

    /// Returns what the worker does until the pause before this transfer is over; `None`: it is
    /// over, and the transfer may start.
    pub(super) fn still_held(&mut self, mut held: Held, now_ns: u64) -> Option<Next> {
        if held.until_ns.is_none() && self.outstanding > 0 && !self.job.offload {
            self.held = Some(held);
            return Some(Next::AfterCompletion);
        }
        let until_ns = *held.until_ns.get_or_insert(now_ns.saturating_add(held.pause_ns));
        if now_ns >= until_ns {
            return None;
        }
        self.held = Some(held);
        Some(Next::Wait(until_ns))
    }

    /// Returns the time in ns at which `rate=` and `rate_iops=` allow the next transfer of this
    /// direction. As in fio 3.33, I/Os per second times the smallest block give bytes per second.
    fn allowed_ns(&mut self, dir: Dir) -> u64 {
        let i = dir.index();
        let least = self.job.bs[i].min.max(1);
        let of_ios = self.job.rate_iops[i].map(|rate| u64::from(rate).saturating_mul(least));
        let Some(rate) = self.job.rate_bytes[i].or(of_ios) else { return 0 };
        let after_ns = if self.job.poisson {
            self.poisson.due_ns(i, rate / least)
        } else {
            let ns = u128::from(self.paced_bytes[i]) * 1_000_000_000 / u128::from(rate.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        self.paced_from_ns.saturating_add(after_ns)
    }
}
