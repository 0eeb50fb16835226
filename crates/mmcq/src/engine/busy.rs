//! When to ask a busy card whether it is ready, on hosts that cannot be interrupted by it.
//!
//! The engine learns how long writes keep the card busy, by size, and asks for the first time shortly before that; then at a fraction of the time
//! already waited, so that the error stays a small share of the wait however long it becomes.

use super::phases::{SLACK_NS, STOP_TIMEOUT_NS, Stage};
use super::slot::NONE;
use super::{Engine, FlushBy, Target};
use crate::host::{BusyDetect, Host};
use crate::sched::Policy;

/// Learned busy times, one for each power of two of blocks up to 2^10.
#[derive(Debug)]
pub(super) struct BusyTimes {
    estimate_ns: [u32; CLASSES],
}

const CLASSES: usize = 11;
/// Questions are never closer than this: a CMD13 with its interrupt costs about as much.
const INTERVAL_NS_MIN: u64 = 5_000;
/// Next question after this share of the time waited.
const INTERVAL_SHARE: u64 = 8;

fn class(blocks: u32) -> usize {
    (blocks.max(1).ilog2() as usize).min(CLASSES - 1)
}

impl BusyTimes {
    pub const fn new() -> Self {
        BusyTimes { estimate_ns: [0; CLASSES] }
    }

    fn estimate(&mut self, blocks: u32) -> &mut u32 {
        &mut self.estimate_ns[class(blocks)]
    }

    /// How long after the end of the data to ask first.
    pub fn first_ns(&mut self, blocks: u32) -> u64 {
        u64::from(*self.estimate(blocks))
    }

    /// How long to wait after an answer "busy", `waited_ns` after the end of the data.
    pub fn again_ns(waited_ns: u64) -> u64 {
        (waited_ns / INTERVAL_SHARE).max(INTERVAL_NS_MIN)
    }

    /// The card was found ready `waited_ns` after the end of the data, at the first question or a later one.
    pub fn learn(&mut self, blocks: u32, waited_ns: u64, first_question: bool) {
        let estimate = self.estimate(blocks);
        let waited = u32::try_from(waited_ns).unwrap_or(u32::MAX);
        if first_question {
            // It may have been ready long before: come a little earlier next time.
            *estimate -= *estimate / 32;
        } else {
            // Half the last interval is the expected error.
            let found = waited - waited / (2 * INTERVAL_SHARE as u32);
            *estimate = (*estimate / 4).saturating_mul(3).saturating_add(found / 4);
        }
    }
}

impl<H: Host, const N: usize, P: Policy> Engine<H, N, P> {
    /// The data are over; the card may program for a while, and nobody tells when it is ready.
    pub(super) fn watch_busy(&mut self, now_ns: u64) {
        self.stage = Stage::BusyPause;
        self.data_end_ns = now_ns;
        self.questions = 0;
        self.recovered_status = 0;
        let first = self.busy_times.first_ns(self.busy_blocks());
        self.wake_ns = now_ns.saturating_add(first);
        let limit = match (self.control, self.target) {
            (NONE, Some(target)) => target.write_timeout_ns,
            (_, Some(Target { flush: FlushBy::EmmcCache { timeout_ns }, .. })) => timeout_ns,
            _ => STOP_TIMEOUT_NS,
        };
        self.deadline_ns = now_ns.saturating_add(limit).saturating_add(SLACK_NS);
        if first == 0 {
            self.ask_busy(now_ns);
        }
    }

    /// Size class of the busy time being watched; a flush has none and takes the largest.
    fn busy_blocks(&self) -> u32 {
        if self.control == NONE { self.gathered.blocks } else { u32::MAX }
    }

    pub(super) fn ask_busy(&mut self, now_ns: u64) {
        self.questions += 1;
        self.stats.busy_polls += 1;
        if self.host.caps().busy == BusyDetect::Level {
            if self.host.dat0_busy() { self.busy_again(now_ns) } else { self.ready(None, now_ns) }
        } else {
            let deadline = self.deadline_ns;
            self.ask_status(Stage::BusyStatus, now_ns);
            self.deadline_ns = deadline;
        }
    }

    pub(super) fn busy_again(&mut self, now_ns: u64) {
        let waited = now_ns.saturating_sub(self.data_end_ns);
        let limit = self.target.map_or(STOP_TIMEOUT_NS, |t| match t.flush {
            FlushBy::EmmcCache { timeout_ns } if self.control != NONE => timeout_ns,
            _ => t.write_timeout_ns,
        });
        self.stage = Stage::BusyPause;
        self.deadline_ns = self.data_end_ns.saturating_add(limit).saturating_add(SLACK_NS);
        self.wake_ns = now_ns.saturating_add(BusyTimes::again_ns(waited));
    }

    /// The card's busy is over; `status` if it was CMD13 that said so.
    pub(super) fn ready(&mut self, status: Option<u32>, now_ns: u64) {
        let waited = now_ns.saturating_sub(self.data_end_ns);
        self.busy_times.learn(self.busy_blocks(), waited, self.questions == 1);
        (self.wake_ns, self.deadline_ns) = (u64::MAX, u64::MAX);
        if core::mem::take(&mut self.closing) {
            if let Some(status) = status {
                self.settle(status);
            }
            self.go_idle(now_ns);
        } else if self.control != NONE {
            self.ask_status(Stage::FlushStatus, now_ns);
        } else {
            self.end_transfer(status, now_ns);
        }
    }
}
