//! The sampling point of data from the card: set by the board's clock unit, or by SMHC's delay
//! line.

use super::layout::*;
use super::regs::*;
use super::{Mshc, MshcLayout};
use crate::host::search::{Found, Search};
use crate::host::{Dma, Regs};

/// Functions of a board's clock unit for the controller, besides
/// [`Surroundings`](crate::host::surroundings). Every default does nothing, so a board implements
/// only what it has; `()` has nothing.
pub trait MshcBoard {
    /// Returns the number of clock phases for sampling the card's data, at most 32. They are
    /// equally spaced over one period of the card's clock. 0: there are none, so no timing that
    /// needs tuning.
    fn taps(&self) -> u8 {
        0
    }

    /// Selects this phase for sampling.
    fn select(&mut self, tap: u8) {
        let _ = tap;
    }

    /// Selects the phase that needs no tuning, for clocks of up to 52 MHz.
    fn unselect(&mut self) {}
}

/// A board without phases.
impl MshcBoard for () {}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
    const fn has_delay(&self) -> bool {
        !L::DESIGN_WARE && self.config.sample_delay
    }

    /// Begins to search a sampling point; returns false if there is no phase or delay to choose
    /// from.
    pub(super) fn start_search(&mut self) -> bool {
        let taps = if self.has_delay() { DELAY_TAPS } else { self.board.taps() };
        if taps == 0 {
            return false;
        }
        // A delay line has two ends; phases are a circle.
        self.bus.search = Some(Search::new(taps, !self.has_delay()));
        self.select(Some(0));
        true
    }

    /// Selects this tap; `None`: the sampling point without tuning.
    pub(super) fn select(&mut self, tap: Option<u8>) {
        self.bus.tap = tap;
        match tap {
            _ if self.has_delay() => self.write_delay(),
            Some(tap) => self.board.select(tap),
            None => self.board.unselect(),
        }
    }

    /// Writes SMHC's delay line, if there is one.
    pub(super) fn write_delay(&self) {
        if self.has_delay() {
            let steps = DELAY_TAP_STEPS * u32::from(self.bus.tap.unwrap_or(0));
            self.regs.write32(SMHC_SAMPLE_DELAY, DELAY_ON | steps);
        }
    }

    /// Notes the result of one tap. `Some(true)`: the chosen tap is good; `None`: no tap is.
    pub(super) fn tried(&mut self, good: bool) -> Option<bool> {
        let found = self.bus.search.as_mut().map_or(Found::None, |search| search.tried(good));
        match found {
            Found::Next(tap) => {
                self.select(Some(tap));
                return Some(false);
            }
            Found::Tuned | Found::None => self.bus.search = None,
        }
        (found == Found::Tuned).then_some(true)
    }
}
