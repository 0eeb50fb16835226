//! Supply voltage of the card, and the time at which it is cut.

use crate::controller::Controller;
use mmcq_sim::card::{Kept, Stage};
use mmcq_sim::world::Stream;

/// What a power cut did to written sectors that were not in the card's flash yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Number of sectors that were written but were not in the flash yet, so that the cut could
    /// lose them.
    pub at_stake: u64,
    /// Number of written sectors that were not in the flash yet, and have their old content after
    /// the cut.
    pub old: u64,
    /// Number of the sectors that are torn after the cut, because they were being programmed: the
    /// first half is new, the second half is old.
    pub torn: u64,
}

/// Supply voltage of the card: when the power is cut, and what the cut did to the data.
pub struct Supply {
    /// Time in ns after the program's start at which the power is cut; `None`: at no time.
    pub at_ns: Option<u64>,
    /// The power is cut when the card has completed this many flushes, before the program gets the
    /// answer to the last of them. `None`: flushes do not decide when the power is cut.
    pub after_flush: Option<u64>,
    controller: Controller,
    luck: Stream,
    runs: bool,
    /// Sectors that the cut damaged; `None`: the power is not cut yet.
    pub failed: Option<Lost>,
}

impl Supply {
    /// Makes the supply of this controller's card. The power is cut at [`at_ns`](Self::at_ns) or
    /// after [`after_flush`](Self::after_flush) flushes. The seed decides which sectors are lost.
    pub fn new(controller: Controller, at_ns: Option<u64>, after_flush: Option<u64>, seed: u64) -> Self {
        let luck = Stream::new(seed, "cut");
        Supply { at_ns, after_flush, controller, luck, runs: false, failed: None }
    }

    /// Starts the timer of the power cut. Returns true if a cut time is set and the timer was not
    /// running.
    pub fn begins(&mut self) -> bool {
        self.at_ns.is_some() && !std::mem::replace(&mut self.runs, true)
    }

    /// Returns whether the time of the power cut is set and its timer is running.
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// Stops the timer of the power cut while the program has no job.
    pub fn rests(&mut self) {
        self.runs = false;
    }

    /// Cuts the power of the card now.
    pub fn fails(&mut self, now_ns: u64) {
        if self.failed.is_none() {
            let mut lost = Lost::default();
            let luck = &mut self.luck;
            self.controller.cut(now_ns, &mut |what| {
                lost.at_stake += 1;
                // An image cannot store a sector as unreadable, so a torn sector consists of two
                // halves.
                let kept = match luck.bits() % if what.stage == Stage::InFlight { 3 } else { 2 } {
                    0 => Kept::Old,
                    1 => Kept::New,
                    _ if what.reliable => Kept::Old,
                    _ => Kept::Mixed,
                };
                lost.old += u64::from(kept == Kept::Old);
                lost.torn += u64::from(kept == Kept::Mixed);
                kept
            });
            self.failed = Some(lost);
        }
    }
}
