//! The board around the controller.

use super::{PHASES, Stm32Sdmmc};
use crate::time::Time;
use mmcq::host::Step;
use mmcq::host::stm32_sdmmc::Stm32Board;
use mmcq::host::surroundings::Surroundings;
use std::cell::RefCell;
use std::rc::Rc;

/// The reset line of the clock tree, the delay block, the level shifter and the card's power.
/// Clones are the same board.
#[derive(Clone)]
pub struct Board {
    /// The controller's model.
    pub model: Rc<RefCell<Stm32Sdmmc>>,
    /// The time of the code that calls the board.
    pub time: Time,
    /// Whether the clock tree can reset the controller.
    pub resets: bool,
    /// Number of taps of the delay block; 0: there is none.
    pub taps: u8,
    /// Tap at which the delay block is stuck, whatever is set.
    pub stuck_at: Option<u8>,
    /// Whether the lines are always at 1.8 V.
    pub signal18_fixed: bool,
}

impl Board {
    /// Makes a board with all of these, at 3.3 V at first.
    pub fn new(model: Rc<RefCell<Stm32Sdmmc>>, time: Time) -> Self {
        Board { model, time, resets: true, taps: PHASES, stuck_at: None, signal18_fixed: false }
    }
}

impl Stm32Board for Board {
    fn reset(&mut self) -> bool {
        if self.resets {
            self.model.borrow_mut().reset(self.time.now());
        }
        self.resets
    }

    fn taps(&self) -> u8 {
        self.taps
    }

    fn lock(&mut self) -> bool {
        self.taps != 0
    }

    fn select(&mut self, tap: u8) {
        let tap = self.stuck_at.unwrap_or(tap);
        self.model.borrow_mut().set_phase(tap, self.time.now());
    }
}

impl Surroundings for Board {
    fn supply(&mut self, on: bool, _: bool, now_ns: u64) -> Step {
        self.model.borrow_mut().set_supply(on, now_ns);
        Step::Done
    }

    fn signalling(&mut self, low: bool, _: bool, now_ns: u64) -> Step {
        self.model.borrow_mut().set_signal18(low || self.signal18_fixed, now_ns);
        Step::Done
    }
}
