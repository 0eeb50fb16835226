//! Search for the sampling point: a tuning block tests each tap, and then the middle of the good
//! taps.

/// Largest number of taps. A tuning has 40 blocks [SD 4.2.4.5], one of which tests the chosen tap
/// again.
pub(crate) const TAPS_MAX: u8 = 32;

/// State of a search for the sampling point, while it is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    taps: u8,
    /// Whether the taps form a circle: the first tap follows the last one, a clock period later.
    circle: bool,
    at: u8,
    good: u32,
}

/// The action that follows a tuning block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Select this tap and test it with the next block.
    Next(u8),
    /// The search has ended: the chosen tap is good.
    Tuned,
    /// The search has ended without a result: no tap is good, or the chosen tap was bad when it was
    /// tested again.
    None,
}

impl Search {
    /// Begins a search over `taps` taps; more than [`TAPS_MAX`] are reduced to that number.
    /// `circle`: the first tap follows the last one.
    pub(crate) const fn new(taps: u8, circle: bool) -> Self {
        let taps = if taps < TAPS_MAX { taps } else { TAPS_MAX };
        Search { taps, circle, at: 0, good: 0 }
    }

    /// Records whether the tuning block at the current tap was received without an error (`good`).
    /// Returns the tap to try next, or the result of the search.
    pub(crate) fn tried(&mut self, good: bool) -> Found {
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

    /// Returns the middle of the longest row of good taps; `None` if no tap is good.
    fn middle(&self) -> Option<u8> {
        let taps = u32::from(self.taps).max(1);
        let good = |tap: u32| (self.circle || tap < taps) && self.good >> (tap % taps) & 1 != 0;
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

    fn search(circle: bool, good: &[bool]) -> (Option<u8>, Found) {
        let mut search = Search::new(good.len() as u8, circle);
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
        assert_eq!(search(true, &row(3, 5)), (Some(5), Found::Tuned));
        // The row of good taps continues from the last tap to the first.
        assert_eq!(search(true, &row(10, 5)), (Some(0), Found::Tuned));
        assert_eq!(search(true, &row(0, 0)), (None, Found::None));
        assert_eq!(search(true, &row(7, 1)), (Some(7), Found::Tuned));
        assert_eq!(search(true, &row(0, 12)), (Some(6), Found::Tuned));
        // Without a circle, the row ends at the last tap.
        assert_eq!(search(false, &row(10, 5)), (Some(1), Found::Tuned));
        assert_eq!(search(false, &row(9, 3)), (Some(10), Found::Tuned));
        assert_eq!(search(false, &row(0, 0)), (None, Found::None));
    }

    #[test]
    fn a_chosen_tap_that_fails_is_none() {
        let mut search = Search::new(2, true);
        assert_eq!(search.tried(true), Found::Next(1));
        assert_eq!(search.tried(true), Found::Next(1));
        assert_eq!(search.tried(false), Found::None);
        // More taps than a tuning has blocks.
        assert_eq!(Search::new(200, true).taps, 32);
    }
}
