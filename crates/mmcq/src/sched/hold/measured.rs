//! Measures the time per block, both with delayed starts and without them. A start is delayed for
//! the tail of a batch: the requests that are about to come and would continue it.
//!
//! The [`costs`](super::costs) predict which of two ways is faster: to delay the start, or to start
//! at once. This module measures both ways. A measure covers several transfers, from the beginning
//! of the first to the beginning of the one after them, with all that came in between.

/// Number of transfers in one measurement of the time: the mean over these transfers is compared.
const WINDOW: u8 = 8;
/// Number of fixed-point units by which one nanosecond is counted, so that the times are integers.
const UNITS: u64 = 16;
/// Number of decisions between two trials at the beginning; later it grows ([`SURE_MAX`]). Each
/// decision is whether to delay a start. In a trial the next few decisions are the opposite of the
/// predicted ones, so that both ways are measured.
const DOUBTED: u16 = 128;
/// Limit for the interval between two trials, as a number of doublings. The interval is [`DOUBTED`]
/// decisions at first. It doubles with each trial that begins while the measured times with and
/// without a delayed start clearly differ.
const SURE_MAX: u8 = 3;

/// The measured times of both ways: to start at once, and to delay the start.
#[derive(Debug)]
pub(super) struct Measured {
    /// Time of a block in sixteenths of a nanosecond: first for starts that are not delayed, second
    /// for delayed ones; 0: not known.
    took: [u32; 2],
    /// Time in ns at which the measurement in progress began; it covers several transfers.
    since_ns: u64,
    /// Number of blocks of the transfers that the measurement in progress has covered so far.
    blocks: u32,
    /// Number of transfers that the measurement in progress has covered so far.
    transfers: u8,
    /// Whether a start was delayed in the measurement in progress, which covers several transfers.
    held: bool,
    /// Whether a transfer was started at once, without a delay, in the measurement in progress.
    went: bool,
    /// Number of decisions since the last trial. In a trial some decisions go against the
    /// prediction, so that both choices are measured.
    chances: u16,
    /// Number of transfers until the trial in progress ends; a trial takes some decisions against
    /// the prediction, to measure both ways.
    trying: u8,
    /// Number of trials in a row that began although the measured times showed clearly which way is
    /// faster: with or without a delayed start. Each such trial doubles the interval to the next
    /// one.
    sure: u8,
    /// The choice of the present trial for each start of a transfer: true: it delays the start; false:
    /// it starts the transfer immediately.
    tried: bool,
    /// The last decision, true for a delay; `None`: nothing was decided.
    last: Option<bool>,
}

impl Measured {
    pub const NEW: Measured = Measured {
        took: [0; 2],
        since_ns: 0,
        blocks: 0,
        transfers: 0,
        held: false,
        went: false,
        chances: 0,
        trying: 0,
        sure: 0,
        tried: false,
        last: None,
    };

    /// Counts a transfer of this many blocks that begins now in the measurement of the time per
    /// block. If the measurement already has [`WINDOW`] transfers, ends it and begins the next one.
    pub fn begin(&mut self, blocks: u32, now_ns: u64) {
        if self.transfers == WINDOW {
            self.note(now_ns);
            self.restart();
        }
        if self.transfers == 0 {
            self.since_ns = now_ns;
        }
        self.trying = self.trying.saturating_sub(1);
        self.transfers += 1;
        self.blocks = self.blocks.saturating_add(blocks);
    }

    fn restart(&mut self) {
        (self.transfers, self.blocks, self.held, self.went) = (0, 0, false, false);
    }

    fn note(&mut self, now_ns: u64) {
        if !self.held && !self.went {
            return;
        }
        let took_ns = now_ns.saturating_sub(self.since_ns).min(1 << 40);
        let took = (took_ns * UNITS).checked_div(self.blocks.into()).unwrap_or(0);
        let took = u32::try_from(took).unwrap_or(u32::MAX).max(1);
        let [went, held] = &mut self.took;
        let (known, other) = if self.went { (went, held) } else { (held, went) };
        if *known == 0 {
            *known = took;
        } else {
            if took.abs_diff(*known) > *known / 4 {
                *other = 0;
                self.sure = 0;
            }
            *known = (*known - *known / 4).saturating_add(took / 4);
        }
    }

    /// Decides whether a start that may be delayed is delayed. `better`: the learned costs favour
    /// the delay. `close`: by the costs, the two ways differ little. `alone`: no other sequential
    /// stream is active. If other streams are active, the time of a block depends on them as much
    /// as on the decision. A trial then changes only one decision, and its time is not measured
    /// here.
    pub fn decide(&mut self, better: bool, close: bool, alone: bool) -> bool {
        if !alone {
            self.restart();
            (self.took, self.trying) = ([0; 2], 0);
            self.chances = if self.chances >= DOUBTED { 0 } else { self.chances + 1 };
            return better != (self.chances == 0 && close);
        }
        let [went, held] = self.took;
        let known = went != 0 && held != 0;
        let mut holds = match () {
            () if self.trying > 0 => self.tried,
            () if known && went > held.saturating_add(held / 32) => true,
            () if known && held > went.saturating_add(went / 32) => false,
            () => better,
        };
        if self.trying == 0 && (close || known) {
            self.chances += 1;
            if self.chances >= DOUBTED << self.sure {
                let apart = known && went.abs_diff(held) > went.min(held) / 32;
                self.sure = if apart { (self.sure + 1).min(SURE_MAX) } else { 0 };
                (self.chances, self.trying, self.tried) = (0, WINDOW + 2, !holds);
                holds = !holds;
                self.restart();
            }
        }
        holds
    }

    /// Returns the last decision (true: delay the start); if there is none, `better`. The caller
    /// uses it if delaying and not delaying take about the same time, since a change of the
    /// decision costs more than either.
    pub fn again(&self, better: bool) -> bool {
        self.last.unwrap_or(better)
    }

    /// Stores whether a start is delayed (`holds`), and counts this decision in the measurement of
    /// the time per block that is in progress.
    pub fn decided(&mut self, holds: bool) {
        self.last = Some(holds);
        if holds {
            self.held = true;
        } else {
            if !self.went && self.held {
                self.restart();
            }
            self.went = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a closed loop of batches of 8 blocks, and returns how many of them were not delayed. By
    /// the predicted costs (`by_costs`) both decisions are close, so the measured times decide: 88
    /// us for a batch in one transfer, 160 us for a batch that was not delayed and goes in two.
    fn not_held(batches: u32, by_costs: bool) -> u32 {
        let mut measured = Measured::NEW;
        let (mut now_ns, mut went) = (0, 0);
        for _ in 0..batches {
            let holds = measured.decide(by_costs, true, true);
            measured.decided(holds);
            if holds {
                measured.begin(8, now_ns);
                now_ns += 88_000;
            } else {
                went += 1;
                measured.begin(1, now_ns);
                measured.begin(7, now_ns + 64_000);
                now_ns += 160_000;
            }
        }
        went
    }

    #[test]
    fn what_took_longer_is_left_again_although_the_costs_speak_for_it() {
        // The only transfers that are not delayed are the trials of the other way and those that
        // measure it.
        assert!(not_held(6_000, true) < 6_000 / 16, "{}", not_held(6_000, true));
        // The costs favour the wrong way; the first trial shows that.
        assert!(not_held(6_000, false) < 6_000 / 8, "{}", not_held(6_000, false));
    }

    #[test]
    fn what_is_level_is_decided_as_before() {
        let mut measured = Measured::NEW;
        assert!(measured.again(true) && !measured.again(false), "nothing was decided before");
        measured.decided(true);
        assert!(measured.again(false));
        measured.decided(false);
        assert!(!measured.again(true));
    }

    #[test]
    fn the_longest_and_the_shortest_do_not_overflow() {
        let mut measured = Measured::NEW;
        for n in 0..1_000u64 {
            let holds = measured.decide(n % 3 == 0, n % 2 == 0, n % 11 != 0);
            measured.decided(holds);
            measured.begin(if n % 5 == 0 { u32::MAX } else { 0 }, if n % 7 == 0 { u64::MAX } else { n });
        }
    }
}
