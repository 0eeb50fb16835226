//! Tuning: the sampling point of data from the card, set by the delay block.

/// Functions of a board for the controller, in addition to
/// [`Surroundings`](crate::host::surroundings). Every default does nothing, so a board implements
/// only what it has.
pub trait Stm32Board {
    /// Resets the controller by the clock tree (RCC): the registers are then as after power-on, and
    /// DMA is stopped. Returns false if the board cannot do that. Only this reset can switch the
    /// card's supply off once it was on, and end a data path that CMDSTOP does not end.
    fn reset(&mut self) -> bool {
        false
    }

    /// Returns the number of taps of the delay block, at most 32, which cover one period of the
    /// clock. With 0 the board has no delay block, so timings that need tuning are not offered.
    fn taps(&self) -> u8 {
        0
    }

    /// Lets the delay block measure the present clock before a tuning. Returns false if the delay
    /// block does not lock.
    fn lock(&mut self) -> bool {
        false
    }

    /// Selects tap `tap` of the delay block for sampling.
    fn select(&mut self, tap: u8) {
        let _ = tap;
    }
}

/// A board that can neither reset the controller nor tune.
impl Stm32Board for () {}
