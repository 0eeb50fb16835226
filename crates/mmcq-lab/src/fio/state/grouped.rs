//! Groups of transfers that a worker submits and collects together, with an I/O engine that does
//! not block: `iodepth_batch=`, `iodepth_batch_complete_min=` and `iodepth_batch_complete_max=`.
//!
//! As in fio, a transfer that the worker has prepared is queued. All queued ones are submitted
//! together when `iodepth_batch=` of them have come, or when the worker waits. A worker collects
//! completions only when `iodepth=` transfers are under way, or when it waits for another reason.
//! It then collects at least `iodepth_batch_complete_min=` of them in one call, and at the end of
//! the pass all. Each of them ends for the worker when this call returns, not when its transfer was
//! done.

use super::complete::Ended;
use super::{Io, JobState, Next, Phase, Sync};
use std::collections::VecDeque;

/// Transfers of a worker that it will submit together, and completions that it has not collected.
#[derive(Debug, Default)]
pub(super) struct Groups {
    queued: VecDeque<Io>,
    /// Whether the caller is to submit the queued transfers, one after the other.
    submitting: bool,
    /// Number of queued transfers that the statistics of the queue depth do not count yet.
    uncounted: u32,
    /// Flush that must wait, since transfers were queued before it; `None`: no flush waits.
    postponed: Option<Sync>,
    ended: VecDeque<Ended>,
    /// Whether the worker sleeps until completions come, so that it collects them as they come.
    sleeping: bool,
}

impl JobState {
    /// Returns whether the worker collects completions by calls of its own. A worker that plays a
    /// script does not: it gets each completion at once.
    pub(super) fn has_groups(&self) -> bool {
        self.player.is_none() && self.job.is_collecting()
    }

    /// Returns the next action of a worker that submits and collects in groups.
    pub(super) fn next_of_groups(&mut self, now_ns: u64) -> Next {
        // Each turn queues a transfer, submits some, collects some, or returns.
        loop {
            if self.groups.submitting {
                if let Some(io) = self.groups.queued.pop_front() {
                    return Next::Io(io);
                }
                self.groups.submitting = false;
            }
            let postponed = self.groups.postponed;
            let next = match postponed {
                Some(sync) if self.collect(now_ns) => {
                    self.groups.postponed = None;
                    return self.flush(sync);
                }
                Some(_) => Next::AfterCompletion,
                None => self.step(now_ns),
            };
            match next {
                Next::Io(io) => {
                    self.groups.queued.push_back(io);
                    self.groups.uncounted += 1;
                    if self.groups.uncounted >= self.job.submits() {
                        self.count_depth(self.outstanding);
                        self.submit();
                    }
                }
                Next::Sync(_) => return next,
                Next::Wait(_) if self.flow.is_looking(self.job.flow_sleep_ns) => return next,
                _ if !self.groups.queued.is_empty() => {
                    // fio does not count the depth here if it waits since its queue is full.
                    if self.phase == Phase::Pass && self.filling && postponed.is_none() {
                        // A transfer that must wait for its rate counts already.
                        self.count_depth(self.outstanding + u32::from(self.held.is_some()));
                    }
                    self.submit();
                }
                Next::AfterCompletion if !self.flushing => {
                    if !self.collect(now_ns) {
                        self.groups.sleeping = true;
                        return next;
                    }
                }
                _ => return next,
            }
        }
    }

    /// Counts the transfers that were begun and are not counted yet, in fio's statistics of the
    /// depth, with `outstanding` as their depth.
    fn count_depth(&mut self, outstanding: u32) {
        self.stats.mark_depths(outstanding, std::mem::take(&mut self.groups.uncounted));
    }

    fn submit(&mut self) {
        let count = self.groups.queued.len() as u32;
        self.stats.mark_submit(count);
        self.groups.submitting = true;
    }

    /// Returns the flush as the worker's next action. If transfers are queued, fio submits these
    /// first, collects once, and then tries the flush again.
    pub(super) fn flush(&mut self, sync: Sync) -> Next {
        self.flow.goes();
        if !self.groups.queued.is_empty() {
            self.groups.postponed = Some(sync);
            self.count_depth(self.outstanding + 1);
            return Next::AfterCompletion;
        }
        if let Some(logs) = &mut self.logs {
            logs.flushes(&sync);
        }
        self.submitted();
        self.flushing = true;
        Next::Sync(sync)
    }

    /// Keeps a completion until the worker collects it.
    pub(super) fn keep(&mut self, ended: Ended) {
        self.groups.ended.push_back(ended);
    }

    /// Collects completions if there are as many as the worker waits for. Returns whether it
    /// collected some.
    fn collect(&mut self, now_ns: u64) -> bool {
        let is_full = !self.filling || self.groups.postponed.is_some();
        let least = match self.phase {
            Phase::Pass | Phase::Verify if is_full => self.job.collects(self.outstanding),
            // Before a pause, fio collects until nothing is under way.
            Phase::Pass => 1,
            _ => self.outstanding.max(1),
        };
        self.collect_between(least, least.max(self.job.iodepth_batch_complete_max), now_ns)
    }

    fn collect_between(&mut self, least: u32, most: u32, now_ns: u64) -> bool {
        let count = self.groups.ended.len().min(most as usize);
        if count < least as usize {
            return false;
        }
        let group: Vec<Ended> = self.groups.ended.drain(..count).collect();
        let slept = std::mem::take(&mut self.groups.sleeping);
        let came_ns = group.iter().map(|ended| ended.times.complete_ns).max();
        let at_ns = came_ns.filter(|_| slept).unwrap_or(now_ns);
        self.tick(at_ns);
        self.stats.mark_complete(count as u32);
        for mut ended in group {
            ended.times.complete_ns = at_ns;
            self.ended(ended);
        }
        true
    }
}
