//! Tuning: selects the sampling point of data from the card, by the board's clock unit or by SMHC's
//! delay line.

use super::layout::*;
use super::regs::*;
use super::{Mshc, MshcLayout};
use crate::host::search::{Found, Search};
use crate::host::{Dma, Regs};

/// Functions of a board's clock unit for the controller, in addition to
/// [`Surroundings`](crate::host::surroundings). Each default does nothing, so a board implements
/// only the functions that it has. `()` is a board without clock phases.
pub trait MshcBoard {
    /// Returns the number of clock phases at which the card's data can be sampled, at most 32. They
    /// are equally spaced over one period of the card's clock. With 0, timings that need tuning are
    /// not offered.
    fn taps(&self) -> u8 {
        0
    }

    /// Selects the clock phase `tap` for sampling.
    fn select(&mut self, tap: u8) {
        let _ = tap;
    }

    /// Selects the default clock phase for sampling. The driver uses this phase without tuning, at
    /// clocks of up to 52 MHz.
    fn unselect(&mut self) {}
}

/// A board without selectable clock phases.
impl MshcBoard for () {}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
    const fn has_delay(&self) -> bool {
        !L::DESIGN_WARE && self.config.sample_delay
    }

    /// Begins to search for a sampling point; returns false if the board has no clock phases and
    /// the controller no delay line.
    pub(super) fn start_search(&mut self) -> bool {
        let taps = if self.has_delay() { DELAY_TAPS } else { self.board.taps() };
        if taps == 0 {
            return false;
        }
        // The taps of a delay line have a first and a last one; clock phases form a circle.
        self.bus.search = Some(Search::new(taps, !self.has_delay()));
        self.select(Some(0));
        true
    }

    /// Selects sampling tap `tap`; `None` selects the sampling point that needs no tuning.
    pub(super) fn select(&mut self, tap: Option<u8>) {
        self.bus.tap = tap;
        match tap {
            _ if self.has_delay() => self.write_delay(),
            Some(tap) => self.board.select(tap),
            None => self.board.unselect(),
        }
    }

    /// Writes the selected tap to SMHC's delay line, if the controller has one.
    pub(super) fn write_delay(&self) {
        if self.has_delay() {
            let steps = DELAY_TAP_STEPS * u32::from(self.bus.tap.unwrap_or(0));
            self.regs.write32(SMHC_SAMPLE_DELAY, DELAY_ON | steps);
        }
    }

    /// Records whether the current tap is good. Returns `Some(false)` while the search goes on, and
    /// `Some(true)` when it has selected a good tap. `None` if it has ended without one.
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
