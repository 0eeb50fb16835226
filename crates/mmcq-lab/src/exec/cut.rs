//! The card's power, and the time at which it is cut.

use crate::controller::Controller;
use mmcq_sim::card::{Kept, Stage};
use mmcq_sim::world::Stream;

/// What a power cut did to sectors that were not safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Number of sectors that were not safe.
    pub at_stake: u64,
    /// Number of them that have their content from before.
    pub old: u64,
    /// Number of them that are torn: the first half is new and the second old, as they were being
    /// programmed.
    pub torn: u64,
}

/// When the power is cut, and what that did.
pub struct Supply {
    /// Time in ns after the begin of the program.
    pub at_ns: Option<u64>,
    /// Number of flushes that the card completes before the cut. The program gets no answer to the
    /// last.
    pub after_flush: Option<u64>,
    controller: Controller,
    luck: Stream,
    runs: bool,
    /// What the cut did; `None`: the power is not cut yet.
    pub failed: Option<Lost>,
}

impl Supply {
    /// Makes the power of this controller's card. The seed decides which sectors are lost.
    pub fn new(controller: Controller, at_ns: Option<u64>, after_flush: Option<u64>, seed: u64) -> Self {
        let luck = Stream::new(seed, "cut");
        Supply { at_ns, after_flush, controller, luck, runs: false, failed: None }
    }

    /// Starts the clock of the cut. Returns whether a time was set and the clock did not run
    /// before.
    pub fn begins(&mut self) -> bool {
        self.at_ns.is_some() && !std::mem::replace(&mut self.runs, true)
    }

    /// Returns whether that clock runs.
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// Stops that clock while no job of the program exists.
    pub fn rests(&mut self) {
        self.runs = false;
    }

    /// Cuts the power now.
    pub fn fails(&mut self, now_ns: u64) {
        if self.failed.is_none() {
            let mut lost = Lost::default();
            let luck = &mut self.luck;
            self.controller.cut(now_ns, &mut |what| {
                lost.at_stake += 1;
                // An image cannot hold a sector that cannot be read: a torn one is two halves.
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
