//! Where the card's data are sampled: the delay block.

/// What a board does for the controller, beside [`Surroundings`](crate::host::surroundings). Every
/// default does nothing, so a board writes only what it has; `()` has nothing.
pub trait Stm32Board {
    /// Resets the controller by the clock tree (RCC): registers as after power-on, no DMA under
    /// way. False: it cannot be. Nothing else switches the card's power off once it was on, and
    /// nothing else ends a data path that CMDSTOP does not.
    fn reset(&mut self) -> bool {
        false
    }

    /// Taps of the delay block, at most 32; they cover one period of the clock. 0: there is none,
    /// so no timing that has to be tuned.
    fn taps(&self) -> u8 {
        0
    }

    /// The delay block measures the clock as it is now, before a tuning. False: it does not lock.
    fn lock(&mut self) -> bool {
        false
    }

    /// Samples by this tap from now on.
    fn select(&mut self, tap: u8) {
        let _ = tap;
    }
}

/// A board with neither.
impl Stm32Board for () {}
