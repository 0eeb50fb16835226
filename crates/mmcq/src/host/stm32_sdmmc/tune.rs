//! The sampling point of data from the card: the delay block.

/// Functions of a board for the controller, besides [`Surroundings`](crate::host::surroundings).
/// Every default does nothing, so a board implements only what it has.
pub trait Stm32Board {
    /// Resets the controller by the clock tree (RCC): registers as after power-on, no DMA in
    /// progress. Returns false if that is not possible. Only this can switch the card's power off
    /// once it was on, and end a data path that CMDSTOP does not end.
    fn reset(&mut self) -> bool {
        false
    }

    /// Returns the number of taps of the delay block, at most 32; they cover one period of the
    /// clock. 0: there is none, so no timing that needs tuning.
    fn taps(&self) -> u8 {
        0
    }

    /// Lets the delay block measure the present clock, before a tuning. Returns false if it does
    /// not lock.
    fn lock(&mut self) -> bool {
        false
    }

    /// Selects this tap for sampling.
    fn select(&mut self, tap: u8) {
        let _ = tap;
    }
}

/// A board without reset and delay block.
impl Stm32Board for () {}
