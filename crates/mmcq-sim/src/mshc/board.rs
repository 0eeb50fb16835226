//! The board around a mobile storage host: clock unit, level shifter and card power.

use super::{Mshc, MshcConfig};
use crate::time::Time;
use mmcq::host::Step;
use mmcq::host::mshc::MshcBoard;
use mmcq::host::surroundings::Surroundings;
use std::cell::RefCell;
use std::rc::Rc;

/// Clock unit, level shifter and card power of a board. A clone controls the same board, not a copy
/// of it.
#[derive(Clone)]
pub struct Board {
    /// Model of the controller.
    pub model: Rc<RefCell<Mshc>>,
    /// Virtual clock from which the functions of the board read the time.
    pub time: Time,
    /// Number of sampling phases of the clock unit; 0: the board has no clock unit.
    pub phases: u8,
    /// Fault: sampling phase at which the clock unit stays, whatever software sets; `None`: no
    /// fault.
    pub stuck_at: Option<u8>,
}

impl Board {
    /// Makes the board of this controller; its lines are at 3.3 V.
    pub fn new(model: Rc<RefCell<Mshc>>, time: Time) -> Self {
        let MshcConfig { phases, .. } = *model.borrow().config();
        Board { model, time, phases, stuck_at: None }
    }

    fn sample(&mut self, phase: u8) {
        let phase = self.stuck_at.unwrap_or(phase);
        let degrees = 360 * u16::from(phase) / u16::from(self.phases.max(1));
        self.model.borrow_mut().set_phase(degrees, self.time.now());
    }
}

impl MshcBoard for Board {
    fn taps(&self) -> u8 {
        self.phases
    }

    fn select(&mut self, tap: u8) {
        self.sample(tap);
    }

    fn unselect(&mut self) {
        self.sample(0);
    }
}

impl Surroundings for Board {
    fn supply(&mut self, on: bool, _: bool, now_ns: u64) -> Step {
        self.model.borrow_mut().set_supply(on, now_ns);
        Step::Done
    }

    fn signalling(&mut self, low: bool, _: bool, now_ns: u64) -> Step {
        self.model.borrow_mut().set_signal18(low, now_ns);
        Step::Done
    }
}
