//! The board around an SDMMC: reset line, delay block, level shifter and card power.

use super::{PHASES, Stm32Sdmmc};
use crate::time::Time;
use mmcq::host::Step;
use mmcq::host::stm32_sdmmc::Stm32Board;
use mmcq::host::surroundings::Surroundings;
use std::cell::RefCell;
use std::rc::Rc;

/// Parts of the board: reset line of the clock tree, delay block, level shifter, card power. A
/// clone controls the same board, not a copy of it.
#[derive(Clone)]
pub struct Board {
    /// Model of the controller.
    pub model: Rc<RefCell<Stm32Sdmmc>>,
    /// Virtual time of the code that calls the board.
    pub time: Time,
    /// Whether the clock tree has a reset line for the controller.
    pub resets: bool,
    /// Number of taps of the delay block; 0: the board has no delay block.
    pub taps: u8,
    /// Fault: tap at which the delay block stays, whatever software sets; `None`: no fault.
    pub stuck_at: Option<u8>,
    /// Whether the lines are fixed at 1.8 V.
    pub signal18_fixed: bool,
}

impl Board {
    /// Makes a board with reset line, delay block and level shifter; its lines are at 3.3 V.
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
