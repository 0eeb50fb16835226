//! Where the card's data are sampled: the delay block, and the search for its best tap.

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

/// Most taps: a tuning has 40 blocks [SD 4.2.4.5], one of which tries the chosen tap again.
pub(super) const TAPS_MAX: u8 = 32;

/// A search in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Search {
    taps: u8,
    at: u8,
    good: u32,
}

/// What a block that was read, or was not, leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This tap is next.
    Next(u8),
    /// The chosen tap is good.
    Tuned,
    /// No tap is.
    None,
}

impl Search {
    pub(super) const fn new(taps: u8) -> Self {
        let taps = if taps < TAPS_MAX { taps } else { TAPS_MAX };
        Search { taps, at: 0, good: 0 }
    }

    /// The tap of now was good, or was not.
    pub(super) fn tried(&mut self, good: bool) -> Found {
        let at = self.at;
        self.at = at.saturating_add(1);
        if at >= self.taps {
            return if good { Found::Tuned } else { Found::None };
        }
        self.good |= u32::from(good) << at;
        if self.at < self.taps {
            return Found::Next(self.at);
        }
        match self.middle() {
            Some(tap) => Found::Next(tap),
            None => Found::None,
        }
    }

    /// The middle of the longest row of good taps. The taps are a circle: behind the last comes the
    /// first, a period later.
    fn middle(&self) -> Option<u8> {
        let taps = u32::from(self.taps).max(1);
        let good = |tap: u32| self.good >> (tap % taps) & 1 != 0;
        let mut best: Option<(u32, u32)> = None;
        for from in 0..taps {
            let length = (0..taps).take_while(|&step| good(from + step)).count() as u32;
            if length > best.map_or(0, |(_, longest)| longest) {
                best = Some((from, length));
            }
        }
        best.map(|(from, length)| ((from + length / 2) % taps) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(good: &[bool]) -> (Option<u8>, Found) {
        let mut search = Search::new(good.len() as u8);
        for (tap, &is_good) in good.iter().enumerate() {
            match search.tried(is_good) {
                Found::Next(next) if tap + 1 < good.len() => assert_eq!(usize::from(next), tap + 1),
                Found::Next(chosen) => return (Some(chosen), search.tried(true)),
                other => return (None, other),
            }
        }
        panic!("no end");
    }

    #[test]
    fn the_middle_of_the_longest_row_is_taken() {
        let row = |from: usize, length: usize| {
            core::array::from_fn::<bool, 12, _>(|tap| (0..length).any(|step| (from + step) % 12 == tap))
        };
        assert_eq!(search(&row(3, 5)), (Some(5), Found::Tuned));
        // Across the end.
        assert_eq!(search(&row(10, 5)), (Some(0), Found::Tuned));
        assert_eq!(search(&row(0, 0)), (None, Found::None));
        assert_eq!(search(&row(7, 1)), (Some(7), Found::Tuned));
        assert_eq!(search(&row(0, 12)), (Some(6), Found::Tuned));
    }

    #[test]
    fn a_chosen_tap_that_fails_is_none() {
        let mut search = Search::new(2);
        assert_eq!(search.tried(true), Found::Next(1));
        assert_eq!(search.tried(true), Found::Next(1));
        assert_eq!(search.tried(false), Found::None);
        // More taps than the block has tries.
        assert_eq!(Search::new(200).taps, 32);
    }
}
