//! Decides whether a transfer of one direction is kept open while no request waits.
//!
//! The request after a pause continues the transfer, or does not. If the transfer is kept open, a
//! request that continues it saves a close and a new start, and any other request waits for the
//! close. Both times are measured. So each pause shows how much keeping the transfer open would
//! have gained or lost, also if it was closed. No trials are needed. Each pause belongs to one of
//! three cases ([`Case`]).
//!
//! *Guarantee: for the present decision (keep open, or close) the engine sums the time that it has
//! lost against the opposite one; a gain reduces the sum, but not below 0. The decision is changed
//! when this loss is larger than [`CHANGE`] times the time of a close and a new start. Compared
//! with the better of "always keep open" and "always close", the engine therefore loses, in each
//! case and for each change, no more than this amount and one pause.*

use crate::host::Direction;

/// The situations at the end of a transfer's data for which the engine decides separately whether
/// to keep the transfer open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// The last request was not contiguous with the one before it, so it is the first of a run.
    First,
    /// The last request continued the one before it, and the next request is not late yet (see
    /// [`Late`](Self::Late)).
    Run,
    /// The next request is late: since the end of the data, four times the usual pause of this run
    /// of contiguous requests has passed.
    Late,
}

/// Limit for a wrong decision (keep transfers open, or close them), in units of the time that
/// closing a transfer and starting a new one takes. When a decision has lost more than that against
/// the opposite one, the engine changes it.
const CHANGE: u64 = 8;
/// Expected time in ns to close an open transfer (to end it by CMD12), as long as no close was
/// measured.
const CLOSE_NS: u32 = 200_000;
/// Largest factor by which a sample may exceed the known time: a sample that something else has
/// delayed counts no more than that.
const OUTLIER: u32 = 4;

/// The present decision for one situation at the end of a transfer's data: to keep the transfer
/// open (`keeps`), or to close it. `lost_ns`: time in ns that this decision has cost in total,
/// compared with the opposite one. A gain reduces the sum, which never falls below 0.
#[derive(Clone, Copy, Debug)]
struct Lean {
    keeps: bool,
    lost_ns: u64,
}

impl Lean {
    const fn new(keeps: bool) -> Lean {
        Lean { keeps, lost_ns: 0 }
    }

    /// Adds what keeping a transfer open would have gained and lost, in ns, to the account of the
    /// present decision. Changes the decision if it has lost more than `change_ns` in total.
    fn learn(&mut self, gained_ns: u64, lost_ns: u64, change_ns: u64) {
        let (for_ns, against_ns) = if self.keeps { (gained_ns, lost_ns) } else { (lost_ns, gained_ns) };
        self.lost_ns = self.lost_ns.saturating_add(against_ns).saturating_sub(for_ns);
        if self.lost_ns > change_ns {
            *self = Lean::new(!self.keeps);
        }
    }
}

/// The measured times of transfers of one direction, and for each [`Case`] the decision whether it
/// pays to keep the transfer open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    /// Time from CMD12, or from the end of the data, until the card takes the next command, in ns;
    /// 0: not known.
    close_ns: u32,
    /// Time that a transfer that begins with a command takes in addition to its time on the wire,
    /// in nanoseconds; 0: not known.
    anew_ns: u32,
    /// Time that a transfer that continues an open one takes in addition to its time on the wire,
    /// in nanoseconds; 0: not known.
    on_ns: u32,
    cases: [Lean; 3],
}

fn learn(known_ns: &mut u32, seen_ns: u64) {
    let seen_ns = u32::try_from(seen_ns).unwrap_or(u32::MAX).max(1);
    *known_ns = match *known_ns {
        0 => seen_ns,
        known_ns => {
            let seen_ns = seen_ns.min(known_ns.saturating_mul(OUTLIER));
            (known_ns - known_ns / 8).saturating_add(seen_ns / 8)
        }
    };
}

impl Worth {
    /// The decisions before anything is measured, for each [`Case`]. After a request that continued
    /// the one before it, the transfer is kept open; after a single request, it is closed.
    pub const NEW: Worth = Worth {
        close_ns: 0,
        anew_ns: 0,
        on_ns: 0,
        cases: [Lean::new(false), Lean::new(true), Lean::new(true)],
    };

    /// Returns whether a transfer is kept open at the end of its data in this case.
    #[inline(always)]
    pub fn keeps(&self, case: Case) -> bool {
        let [first, run, late] = self.cases;
        match case {
            Case::First => first.keeps,
            Case::Run => run.keeps,
            Case::Late => late.keeps,
        }
    }

    /// Updates the learned time that the card needs to end a transfer by the time `took_ns` of the
    /// last one.
    pub fn closed(&mut self, took_ns: u64) {
        learn(&mut self.close_ns, took_ns);
    }

    /// Updates the mean time of a transfer's start and end from one measurement: `beside_ns` is its
    /// duration in ns minus the time of its data on the wire. `on`: the transfer continued one that
    /// was left open, so it had no command of its own.
    pub fn moved(&mut self, beside_ns: u64, on: bool) {
        learn(if on { &mut self.on_ns } else { &mut self.anew_ns }, beside_ns);
    }

    fn close_ns(&self) -> u64 {
        if self.close_ns == 0 { CLOSE_NS.into() } else { self.close_ns.into() }
    }

    /// Returns how much more time in ns a new transfer takes to start than the continuation of an
    /// open transfer.
    fn start_ns(&self) -> u64 {
        self.anew_ns.saturating_sub(self.on_ns).into()
    }

    /// Learns whether it pays to keep a transfer open, after a pause between two requests of
    /// `pause_ns`. `went_on`: the next request has continued the transfer.
    ///
    /// The close costs time as follows:
    /// - A write that is closed at once is complete only after the close, so its client waits for
    ///   all of the close.
    /// - The close of a read passes during its client's pause.
    /// - A read that is not kept open ends by itself where CMD23 sets its length. So a read that
    ///   was kept open for nothing loses the whole close.
    /// - A write of a run that was kept open for nothing delays the next request by the close. Its
    ///   own client got its result earlier by the same time, so this counts as no loss.
    pub fn learn(&mut self, case: Case, direction: Direction, pause_ns: u64, went_on: bool) {
        let (close_ns, start_ns) = (self.close_ns(), self.start_ns());
        let change_ns = CHANGE.saturating_mul(close_ns.saturating_add(start_ns));
        let hidden_ns = close_ns.min(pause_ns);
        let shown_ns = if direction == Direction::Read { close_ns - hidden_ns } else { close_ns };
        let (gained_ns, lost_ns) = match (went_on, direction, case) {
            (true, ..) => (start_ns.saturating_add(shown_ns), 0),
            (false, Direction::Write, Case::Run) => (0, 0),
            (false, Direction::Write, _) => (0, hidden_ns),
            (false, Direction::Read, _) => (0, close_ns),
        };
        let [first, run, late] = &mut self.cases;
        let lean = match case {
            Case::First => first,
            Case::Run => run,
            Case::Late => late,
        };
        lean.learn(gained_ns, lost_ns, change_ns);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const CLOSE: u64 = 400_000;
    const START: u64 = 300_000;
    const PAUSE: u64 = 1_000_000;

    fn worth() -> Worth {
        let mut worth = Worth::NEW;
        worth.closed(CLOSE);
        worth.moved(START + 10_000, false);
        worth.moved(10_000, true);
        worth
    }

    /// Lets `worth` decide at many pauses whether to keep a read open. `goes_on`: for each pause,
    /// whether the next request continues the read. Returns the time that the decisions lost, the
    /// time that the better of "always open" and "always closed" loses, and how many times the
    /// decision was changed.
    fn cost(worth: &mut Worth, goes_on: &[bool]) -> (u64, u64, u64) {
        let (mut ours, mut kept, mut closed, mut changes) = (0, 0, 0, 0);
        let mut before = worth.keeps(Case::Run);
        for &on in goes_on {
            let keeps = worth.keeps(Case::Run);
            changes += u64::from(keeps != before);
            before = keeps;
            let (if_kept, if_closed) = if on { (0, START) } else { (CLOSE.min(PAUSE), 0) };
            (kept, closed) = (kept + if_kept, closed + if_closed);
            ours += if keeps { if_kept } else { if_closed };
            worth.learn(Case::Run, Direction::Read, PAUSE, on);
        }
        (ours, kept.min(closed), changes)
    }

    #[test]
    fn runs_are_kept_open_until_they_stop_and_what_begins_is_not() {
        let mut worth = worth();
        assert_eq!([Case::First, Case::Run, Case::Late].map(|case| worth.keeps(case)), [false, true, true]);
        for _ in 0..20 {
            worth.learn(Case::First, Direction::Write, PAUSE, true);
            worth.learn(Case::Run, Direction::Read, PAUSE, false);
        }
        assert_eq!([Case::First, Case::Run, Case::Late].map(|case| worth.keeps(case)), [true, false, true]);
    }

    /// Tests the decision whether to keep a transfer open in a pause, for pauses of which 0 to 10
    /// in ten are followed by a request that continues the transfer, in a fixed pattern or at
    /// random. The learned decisions must cost little more than the better of "always keep open"
    /// and "always close".
    #[test]
    fn turns_by_chance_and_in_step_lose_little() {
        for share in 0..=10u32 {
            for in_step in [false, true] {
                let mut seed = 0x9e37_79b9_7f4a_7c15u64 ^ u64::from(share);
                let goes_on: Vec<bool> = (0..4_000u32)
                    .map(|n| {
                        seed ^= seed << 13;
                        seed ^= seed >> 7;
                        seed ^= seed << 17;
                        let place = if in_step { n } else { (seed >> 33) as u32 };
                        place % 10 < share
                    })
                    .collect();
                let (ours, best, changes) = cost(&mut worth(), &goes_on);
                let most = (changes + 1) * (CHANGE * (CLOSE + START) + PAUSE);
                assert!(
                    ours <= best + most,
                    "{share} of 10, {in_step}: {ours} for {best}, {changes} changes"
                );
                // On average, for 4000 pauses of 1 ms.
                assert!(ours <= best + 20_000_000, "{share} of 10, {in_step}: {ours} for {best}");
            }
        }
    }

    #[test]
    fn a_write_that_is_closed_at_once_keeps_its_client_waiting_and_a_read_does_not() {
        let pauses = |direction| {
            let mut worth = worth();
            (1..).find(|_| {
                worth.learn(Case::First, direction, PAUSE, true);
                worth.keeps(Case::First)
            })
        };
        // A decision changes after a fixed loss, and a write loses more in each pause.
        assert!(pauses(Direction::Write) < pauses(Direction::Read));
    }

    #[test]
    fn the_longest_and_the_shortest_do_not_overflow() {
        let mut worth = Worth::NEW;
        for n in 0..200u64 {
            let ns = if n % 3 == 0 { u64::MAX } else { n % 2 };
            worth.closed(ns);
            worth.moved(ns, n % 5 == 0);
            worth.learn(Case::Late, Direction::Write, ns, n % 7 == 0);
        }
    }
}
