//! The supply of the card, where it is to fail.

use crate::controller::Controller;
use mmcq_sim::card::{Kept, Stage};
use mmcq_sim::world::Stream;

/// What a failure of the supply did to sectors that were not safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// All of them.
    pub at_stake: u64,
    /// Of these, those that are what they were before.
    pub old: u64,
    /// ... and those whose first half is new and whose second is old: they were being programmed.
    pub torn: u64,
}

/// When the supply fails, and what that did.
pub struct Supply {
    /// This long after the program's beginning.
    pub at_ns: Option<u64>,
    /// As soon as the card has done so many flushes, before the program hears of the last.
    pub after_flush: Option<u64>,
    controller: Controller,
    luck: Stream,
    runs: bool,
    /// It has failed.
    pub failed: Option<Lost>,
}

impl Supply {
    /// Of this controller's card. Which sectors are lost follows from the seed.
    pub fn new(controller: Controller, at_ns: Option<u64>, after_flush: Option<u64>, seed: u64) -> Self {
        let luck = Stream::new(seed, "cut");
        Supply { at_ns, after_flush, controller, luck, runs: false, failed: None }
    }

    /// It is to fail at a time, and the clock for that did not run yet.
    pub fn begins(&mut self) -> bool {
        self.at_ns.is_some() && !std::mem::replace(&mut self.runs, true)
    }

    /// The clock for that runs.
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// ... and stops, as long as no job of the program is there.
    pub fn rests(&mut self) {
        self.runs = false;
    }

    /// It fails now.
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
