//! When to poll a busy card on hosts that have no interrupt for the end of busy.
//!
//! The engine learns how long writes keep the card busy, by size, and polls for the first time
//! after that. After an answer "busy" the engine polls again. The first interval is a small share
//! of the time waited so far; each further one is twice as long, up to a larger share. So polls are
//! close together while the card is a little late, and far apart when it does other work (for
//! example, garbage collection).
//!
//! A first poll that finds the card ready shows only that the poll was not too early. So the
//! learned time decreases by itself, faster with each such poll in a row. The learned time
//! increases much only if two writes in a row took longer. *Guarantee: the time
//! that writes wait beyond their busy, summed over all writes, is at most six times the busy of
//! the writes that had to be polled again, plus 5 us for each write.*

use super::Error;
use super::area::Area;
use super::batch::Batch;
use super::bus::SLACK_NS;
use super::card::Card;
use super::lane::Lane;
use super::phases::{STOP_TIMEOUT_NS, Stage};
use super::recover::Incident;
use super::timers::{Timers, later};
use crate::sched::{Lanes, Profile};

/// State of polling the card, for the end of busy or for its status.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Busy {
    /// When the present busy began, which is when the data ended, in ns.
    since_ns: u64,
    /// Longest time in ns for which the card may be busy with the control request in progress.
    longest_ns: u64,
    /// Number of polls of the card in the present wait so far.
    questions: u32,
    /// Next stage of the engine when the busy of a control request (no read or write) has ended.
    followed_by: Stage,
    times: BusyTimes,
}

impl Busy {
    /// Makes an empty state. This is a function, because a constant (nearly all zeros) would be
    /// copied into the firmware image.
    pub const fn new() -> Busy {
        Busy {
            questions: 0,
            followed_by: Stage::FlushStatus,
            since_ns: 0,
            longest_ns: 0,
            times: BusyTimes::new(),
        }
    }

    /// Notes that the busy after a write of `blocks` blocks begins. Returns after how many ns the
    /// card is polled first.
    pub fn begin(&mut self, blocks: u32, now_ns: u64) -> u64 {
        (self.since_ns, self.questions) = (now_ns, 0);
        self.times.first_ns(blocks)
    }

    /// Clears the count of polls, for a busy that is about to begin.
    #[inline(always)]
    pub fn not_asked(&mut self) {
        self.questions = 0;
    }

    /// Counts one more poll of the busy card.
    #[inline(always)]
    pub fn asked(&mut self) {
        self.questions += 1;
    }

    #[inline(always)]
    pub fn questions(&self) -> u32 {
        self.questions
    }

    /// Sets the longest busy in ns after the command of a control request (neither a read nor a
    /// write), and clears the count of polls.
    #[inline(always)]
    pub fn begin_timed(&mut self, ns: u64) {
        (self.longest_ns, self.questions) = (ns, 0);
    }

    /// Updates the learned busy time for writes of `blocks` blocks by the present busy, which was
    /// found over at `now_ns`.
    #[inline(always)]
    pub fn learn_duration(&mut self, blocks: u32, now_ns: u64) {
        self.times.learn(blocks, now_ns.saturating_sub(self.since_ns), self.questions == 1);
    }

    /// Returns what the engine does next when the card is not busy any more.
    pub fn next_stage(&self) -> Stage {
        self.followed_by
    }

    /// Sets what the engine does next when the busy has ended.
    #[inline(always)]
    pub fn set_next_stage(&mut self, stage: Stage) {
        self.followed_by = stage;
    }
}

/// Learned lengths of busy after writes. Writes of 2^n to 2^(n + 1) - 1 blocks are one class; all
/// writes from 2^10 blocks on are the last class.
#[derive(Debug)]
struct BusyTimes {
    // Separate arrays, since an array of structures would take a third more memory.
    estimates_ns: [u32; CLASSES],
    /// For each class of write lengths: the busy of the last write in ns, if it was much longer
    /// than the expected one; else 0.
    outliers_ns: [u32; CLASSES],
    /// For each class of write lengths: how many writes in a row were found ready at their first
    /// poll.
    hits: [u8; CLASSES],
}

const CLASSES: usize = 11;
/// Shortest time in ns between polls: a CMD13 with its interrupt costs about as much.
const INTERVAL_NS_MIN: u64 = 5_000;
/// Divisor of a time: the first interval between polls is the time waited so far, divided by this
/// number. Each further interval is twice as long.
const INTERVAL_SHARE_FIRST: u64 = 64;
/// Divisor: no interval between polls is longer than the time waited so far divided by this.
const INTERVAL_SHARE: u64 = 8;
/// Exponents n for the decrease of the busy time that is expected from earlier ones. Each write
/// that is found ready at its first poll decreases this time by the fraction 1/2^n. The entries are
/// for the first, second, ... such write in a row; from the sixth on n is 1.
const FALLS: [u32; 5] = [7, 7, 5, 3, 1];
/// Divisor: after the first write of a size that keeps the card busy, the time before the first
/// poll is learned as the length of this busy divided by `FIRST_SHARE`.
const FIRST_SHARE: u32 = 8;

fn class(blocks: u32) -> usize {
    (blocks.max(1).ilog2() as usize).min(CLASSES - 1)
}

impl BusyTimes {
    const fn new() -> Self {
        BusyTimes { estimates_ns: [0; CLASSES], outliers_ns: [0; CLASSES], hits: [0; CLASSES] }
    }

    /// Returns how long in ns after the end of a write of `blocks` blocks the card is polled first.
    fn first_ns(&self, blocks: u32) -> u64 {
        u64::from(self.estimates_ns[class(blocks)])
    }

    /// Returns how long to wait, in ns, between the answer "busy" number `answers` and the next
    /// poll. The answer came `waited_ns` after the end of the data.
    fn again_ns(waited_ns: u64, answers: u32) -> u64 {
        let first_ns = waited_ns / INTERVAL_SHARE_FIRST;
        let doubled_ns = first_ns << answers.saturating_sub(1).min(3);
        doubled_ns.min(waited_ns / INTERVAL_SHARE).max(INTERVAL_NS_MIN)
    }

    /// Learns that a poll found the card ready `waited_ns` after the end of the data of a write of
    /// `blocks` blocks. `first_question`: it was the first poll for this busy.
    fn learn(&mut self, blocks: u32, waited_ns: u64, first_question: bool) {
        let class = class(blocks);
        let (estimate_ns, hits) = (&mut self.estimates_ns[class], &mut self.hits[class]);
        let estimate = *estimate_ns;
        let waited = u32::try_from(waited_ns).unwrap_or(u32::MAX);
        let before = core::mem::take(&mut self.outliers_ns[class]);
        if first_question {
            let fall = FALLS.get(usize::from(*hits)).copied().unwrap_or(1);
            *hits = hits.saturating_add(1);
            *estimate_ns = estimate - (estimate >> fall);
            return;
        }
        *hits = 0;
        if waited <= estimate.saturating_add(estimate / 2) {
            *estimate_ns = waited;
        } else if before != 0 {
            *estimate_ns = before.min(waited);
        } else {
            self.outliers_ns[class] = waited;
            if estimate == 0 {
                *estimate_ns = waited / FIRST_SHARE;
            }
        }
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the card is used by a request that is no read or write of blocks (such as a
    /// flush), or by the engine's own switch back to the user area.
    pub fn is_control_busy<P: Profile>(&self, area: &Area) -> bool {
        self.has_control() || P::RECOVERS && area.is_returning()
    }

    /// Returns the number of blocks of the transfer after which the card is busy now. The engine
    /// learns busy times by this number. The busy of a flush or another control request counts as
    /// that of the largest number.
    pub fn busy_blocks<const N: usize, P: Profile>(&self, area: &Area, batch: &Batch<N>) -> u32 {
        if self.is_control_busy::<P>(area) { u32::MAX } else { batch.blocks() }
    }

    /// Returns the longest time in ns that the card's present busy may last.
    pub fn busy_limit_ns<P: Profile>(&self, card: &Card, area: &Area) -> u64 {
        match *card.target() {
            Some(target) if !self.is_control_busy::<P>(area) => target.write_timeout_ns,
            _ => self.busy().longest_ns.max(STOP_TIMEOUT_NS),
        }
    }

    pub fn busy_again<P: Profile>(&mut self, timers: &mut Timers, card: &Card, area: &Area, now_ns: u64) {
        let waited = now_ns.saturating_sub(self.busy().since_ns);
        let limit = self.busy_limit_ns::<P>(card, area);
        self.enter(Stage::BusyPause);
        let last_ns = later(self.busy().since_ns, limit);
        timers.give_up_at(later(last_ns, SLACK_NS));
        let again_ns = later(now_ns, BusyTimes::again_ns(waited, self.busy().questions));
        // The card is polled once more at the end of its time, before the engine gives up.
        timers.wake_at(if now_ns < last_ns { again_ns.min(last_ns) } else { again_ns });
    }

    /// Plans another poll of a card that is busy with a control request (any request but a read or
    /// write), within the time that the request may take.
    pub fn repeat_busy_question<P: Profile>(
        &mut self,
        timers: &mut Timers,
        incident: &mut Incident,
        card: &Card,
        area: &Area,
        now_ns: u64,
    ) {
        // The caller has kept the errors so far.
        incident.failed_mut().forget_status();
        if self.busy().questions == 0 {
            self.busy_mut().since_ns = now_ns;
        }
        self.busy_mut().asked();
        self.busy_again::<P>(timers, card, area, now_ns);
    }

    /// Plans another poll: the host has signalled the end of busy too early, and CMD13 shows that
    /// the card still programs.
    pub fn repeat_status<P: Profile>(
        &mut self,
        timers: &mut Timers,
        incident: &mut Incident,
        card: &Card,
        area: &Area,
        now_ns: u64,
    ) {
        if self.busy().questions == 0 {
            self.busy_mut().since_ns = now_ns;
        }
        self.busy_mut().asked();
        if now_ns.saturating_sub(self.busy().since_ns) > self.busy_limit_ns::<P>(card, area) {
            return self.fail(incident, Error::Silent);
        }
        let waited_ns = now_ns.saturating_sub(self.busy().since_ns);
        timers.give_up_never();
        timers.wake_at(later(now_ns, BusyTimes::again_ns(waited_ns, self.busy().questions)));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// Polls a card that is busy for `busy_ns`, as the engine does. Returns the time in ns that a
    /// write loses beyond its busy, and the number of polls.
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

    /// Simulates writes with these busy times, whose polls are scheduled by [`BusyTimes`]. Returns
    /// the sum in ns of the times from the end of a busy to the poll that finds it; the number of
    /// polls; the sum in ns of the busy times of the writes that had to be polled again; and the
    /// number of writes.
    fn regret(busy_ns: impl IntoIterator<Item = u64>) -> (u64, u32, u64, u64) {
        let mut times = BusyTimes::new();
        let (mut lost, mut asked, mut again_ns, mut writes) = (0, 0, 0, 0);
        for busy_ns in busy_ns {
            let (late, questions) = ask(&mut times, busy_ns);
            (lost, asked, writes) = (lost + late, asked + questions, writes + 1);
            again_ns += if questions > 1 { busy_ns } else { 0 };
        }
        (lost, asked, again_ns, writes)
    }

    #[test]
    fn one_slow_first_write_does_not_make_the_others_wait() {
        let (lost, ..) = regret([250_000_000].into_iter().chain([1_000_000; 500]));
        assert!(lost < 250_000_000, "500 writes of 1 ms were made to wait {} ms more", lost / 1_000_000);
    }

    /// Tests for random sequences of busy times that polling loses no more time than is guaranteed,
    /// and that the number of polls is bounded.
    #[test]
    fn the_regret_is_bounded_for_any_sequence() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        // From 1 us to 1 s.
        let mut scale = move || 1_000u64 << (random() % 21);
        for round in 0..4_000u64 {
            let (low, high, middle) = (scale(), scale(), scale());
            let (every, run) = (2 + round % 37, 1 + round % 11);
            let busy_ns = |n: u64| match round % 8 {
                0 => {
                    if n.is_multiple_of(2) {
                        low
                    } else {
                        high
                    }
                }
                1 => {
                    if n < 150 {
                        low
                    } else {
                        high
                    }
                }
                2 => {
                    if n.is_multiple_of(every) {
                        high.max(low)
                    } else {
                        low.min(high)
                    }
                }
                3 => {
                    if n == 0 {
                        high
                    } else {
                        low
                    }
                }
                4 => {
                    if (n / run).is_multiple_of(2) {
                        low
                    } else {
                        high
                    }
                }
                5 => [low, middle, high][(n % 3) as usize],
                6 => low.saturating_sub(n * low / 300).max(1_000),
                _ => low + (n * 7_919 + round) % (high / 4 + 1),
            };
            let (lost, asked, again_ns, writes) = regret((0..300).map(busy_ns));
            let what = std::format!("round {round}: {low} {high} {middle} every {every} run {run}");
            assert!(lost <= 6 * again_ns + writes * INTERVAL_NS_MIN, "{what}: {lost} ns lost, {again_ns} ns");
            assert!(u64::from(asked) <= 100 * writes, "{what}: {asked} questions");
        }
    }
}
