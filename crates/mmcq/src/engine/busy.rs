//! When to ask a busy card whether it is ready, on hosts that cannot be interrupted by it.
//!
//! The engine learns how long writes keep the card busy, by size, and asks for the first time then. An answer "busy" is followed by questions at intervals that begin
//! with a small share of the time waited and double up to a larger one: close together while the card is a little late, far apart when it does something
//! else (collects garbage, say). Such an outlier moves what was learned only a little, or one of them would make many writes wait for nothing.

use super::extras::Event;
use super::phases::{SLACK_NS, STOP_TIMEOUT_NS, Stage};
use super::slot::NONE;
use super::{Engine, Error};
use crate::host::{BusyDetect, Host};
use crate::plant::{self, Bug};
use crate::sched::Policy;

/// Learned busy times, one for each power of two of blocks up to 2^10.
#[derive(Debug)]
pub(super) struct BusyTimes {
    estimate_ns: [u32; CLASSES],
}

const CLASSES: usize = 11;
/// Questions are never closer than this: a CMD13 with its interrupt costs about as much.
const INTERVAL_NS_MIN: u64 = 5_000;
/// The next question comes after this share of the time waited, then twice as much ...
const INTERVAL_SHARE_FIRST: u64 = 64;
/// ... up to this share of it.
const INTERVAL_SHARE: u64 = 8;
/// What was learned creeps down by this share each time the first question finds the card ready: it may have been for long.
const CREEP_SHARE: u32 = 128;
/// An outlier takes longer than the learned time and half of it; it moves it by this share.
const OUTLIER_SHARE: u32 = 32;

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

    /// How long to wait after the nth answer "busy", `waited_ns` after the end of the data.
    pub fn again_ns(waited_ns: u64, answers: u32) -> u64 {
        let first_ns = waited_ns / INTERVAL_SHARE_FIRST;
        let doubled_ns = first_ns << answers.saturating_sub(1).min(3);
        doubled_ns.min(waited_ns / INTERVAL_SHARE).max(INTERVAL_NS_MIN)
    }

    /// The card was found ready `waited_ns` after the end of the data, at the first question or a later one.
    pub fn learn(&mut self, blocks: u32, waited_ns: u64, first_question: bool) {
        let estimate = self.estimate(blocks);
        let waited = u32::try_from(waited_ns).unwrap_or(u32::MAX);
        if first_question {
            *estimate -= *estimate / CREEP_SHARE;
        } else if *estimate == 0 || waited <= estimate.saturating_add(*estimate / 2) {
            *estimate = waited;
        } else {
            *estimate = estimate.saturating_add((*estimate / OUTLIER_SHARE).max(1));
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
        let limit = self.busy_limit_ns();
        self.deadline_ns = now_ns.saturating_add(limit).saturating_add(SLACK_NS);
        if first == 0 {
            self.ask_busy(now_ns);
        }
    }

    /// How long the busy being watched may last.
    fn busy_limit_ns(&self) -> u64 {
        match self.target {
            Some(target) if !self.is_control() => target.write_timeout_ns,
            _ => self.order_ns.max(STOP_TIMEOUT_NS),
        }
    }

    /// Size class of the busy time being watched; a flush has none and takes the largest.
    fn busy_blocks(&self) -> u32 {
        if self.is_control() { u32::MAX } else { self.gathered.blocks }
    }

    /// Is what keeps the card busy no read or write?
    fn is_control(&self) -> bool {
        self.control != NONE || P::RECOVERS && self.memory.area.is_returning()
    }

    pub(super) fn ask_busy(&mut self, now_ns: u64) {
        self.questions += 1;
        self.stats.busy_polls += 1;
        if self.host.caps().busy == BusyDetect::Level {
            if self.host.dat0_busy() && !plant::is(Bug::BusyOnce) {
                self.busy_again(now_ns)
            } else {
                self.ready(None, now_ns)
            }
        } else {
            let deadline = self.deadline_ns;
            self.ask_status(Stage::BusyStatus, now_ns);
            // A question that was asked late has the time of any command: it may be the platform that was busy, and not the card.
            self.deadline_ns = self.deadline_ns.max(deadline);
        }
    }

    pub(super) fn busy_again(&mut self, now_ns: u64) {
        let waited = now_ns.saturating_sub(self.data_end_ns);
        let limit = self.busy_limit_ns();
        self.stage = Stage::BusyPause;
        let last_ns = self.data_end_ns.saturating_add(limit);
        self.deadline_ns = last_ns.saturating_add(SLACK_NS);
        let again_ns = now_ns.saturating_add(BusyTimes::again_ns(waited, self.questions));
        // Nobody is given up without a question at the end of his time.
        self.wake_ns = if now_ns < last_ns { again_ns.min(last_ns) } else { again_ns };
    }

    /// The host has seen the end of busy too early: CMD13 says that the card programs still.
    pub(super) fn status_again(&mut self, now_ns: u64) {
        if self.questions == 0 {
            self.data_end_ns = now_ns;
        }
        self.questions = self.questions.saturating_add(1);
        if now_ns.saturating_sub(self.data_end_ns) > self.busy_limit_ns() {
            return self.fail(Error::Silent, now_ns);
        }
        let waited_ns = now_ns.saturating_sub(self.data_end_ns);
        self.deadline_ns = u64::MAX;
        self.wake_ns = now_ns.saturating_add(BusyTimes::again_ns(waited_ns, self.questions));
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
        } else if self.is_control() {
            match (self.after_busy, status) {
                (Stage::Extra, Some(status)) if P::RECOVERS => self.extra(Event::Done(status), now_ns),
                (Stage::FlushStatus, Some(status)) => self.flush_judged(status, now_ns),
                (stage, _) => self.ask_status(stage, now_ns),
            }
        } else {
            self.end_transfer(status, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks as the engine does; the time beyond the busy that a write loses, and the questions.
    fn ask(times: &mut BusyTimes, busy_ns: u64) -> (u64, u32) {
        let mut waited_ns = times.first_ns(8);
        let mut questions = 1;
        while waited_ns < busy_ns {
            waited_ns += BusyTimes::again_ns(waited_ns, questions);
            questions += 1;
        }
        times.learn(8, waited_ns, questions == 1);
        (waited_ns - busy_ns, questions)
    }

    #[test]
    fn a_steady_card_loses_one_hundredth() {
        for busy_ns in [34_000, 250_000, 1_750_000, 12_000_000] {
            let mut times = BusyTimes::new();
            for _ in 0..4 {
                ask(&mut times, busy_ns);
            }
            let lost: u64 = (0..1_000).map(|_| ask(&mut times, busy_ns).0).sum::<u64>() / 1_000;
            assert!(lost <= busy_ns / 64 + INTERVAL_NS_MIN, "{lost} of {busy_ns}");
        }
    }

    #[test]
    fn outliers_do_not_make_the_others_wait() {
        let mut times = BusyTimes::new();
        let mut lost = 0;
        for n in 0..3_000u64 {
            let stall_ns = if n % 15 == 7 { 39_000_000 } else { 0 };
            let (late, questions) = ask(&mut times, 1_750_000 + stall_ns);
            assert!(n < 10 || questions <= 40, "{questions}");
            if n >= 10 && stall_ns == 0 {
                lost += late;
            }
        }
        assert!(lost / 2_800 <= 1_750_000 / 16, "{}", lost / 2_800);
    }

    #[test]
    fn a_card_that_has_become_slower_or_faster_is_followed() {
        let mut times = BusyTimes::new();
        for (busy_ns, writes) in [(400_000, 50), (4_000_000, 100), (40_000, 700)] {
            for _ in 0..writes {
                ask(&mut times, busy_ns);
            }
            let (late, _) = ask(&mut times, busy_ns);
            assert!(late <= busy_ns / 8 + INTERVAL_NS_MIN, "{late} of {busy_ns}");
        }
    }
}
