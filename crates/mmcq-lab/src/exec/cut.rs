//! The supply of the card, where it is to fail.

use crate::controller::Controller;
use mmcq_sim::card::Kept;
use mmcq_sim::world::Stream;

/// When the supply fails, and what that did.
pub struct Supply {
    /// This long after the program's beginning.
    pub at_ns: Option<u64>,
    /// As soon as the card has done so many flushes, before the program hears of the last.
    pub after_flush: Option<u64>,
    controller: Controller,
    luck: Stream,
    runs: bool,
    /// Sectors that were not safe, and how many of them are what they were before.
    pub failed: Option<(u64, u64)>,
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
            let (mut at_stake, mut lost) = (0, 0);
            let luck = &mut self.luck;
            self.controller.cut(now_ns, &mut |_| {
                at_stake += 1;
                let old = luck.bits() & 1 == 0;
                lost += u64::from(old);
                if old { Kept::Old } else { Kept::New }
            });
            self.failed = Some((at_stake, lost));
        }
    }
}
