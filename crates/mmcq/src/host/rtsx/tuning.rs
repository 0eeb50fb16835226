//! Search for the sampling phase [SD 4.2.4.5].
//!
//! The search reads one tuning block at each of the 32 phases, in the order of their numbers. Then
//! it reads one more block at the middle of the longest row of good phases, which must be good
//! again. That makes 33 blocks; the standard allows 40.

use super::regs::PHASE_MASK;

const PHASES: u8 = 32;

/// Progress of the search for a sampling phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    /// Sampling phase at which the next tuning block is read, until a phase is chosen.
    next: u8,
    /// Good phases, one bit for each phase.
    good: u32,
    /// The chosen sampling phase (the delay of the clock that samples the data), which one more
    /// block must confirm; `None` until all 32 phases were tried.
    chosen: Option<u8>,
}

impl Sweep {
    pub(super) const fn new() -> Self {
        Sweep { next: 0, good: 0, chosen: None }
    }

    /// Returns the sampling phase (the delay of the clock that samples the data) at which the next
    /// tuning block is read.
    pub(super) fn phase(&self) -> u8 {
        self.chosen.unwrap_or(self.next) & PHASE_MASK
    }

    /// Records whether the tuning block at the present phase was received without an error
    /// (`good`). Returns the phase to use when the search has found it; `None` before. A search
    /// without success begins again, until the caller has no more blocks.
    pub(super) fn judge(&mut self, good: bool) -> Option<u8> {
        if let Some(chosen) = self.chosen {
            *self = Sweep::new();
            return good.then_some(chosen);
        }
        self.good |= u32::from(good).checked_shl(self.next.into()).unwrap_or(0);
        self.next += 1;
        if self.next >= PHASES {
            *self = Sweep { chosen: middle(self.good), ..Sweep::new() };
        }
        None
    }
}

/// Returns the middle of the longest row of good phases; `None` if no phase is good. Phases form a
/// circle, so a row may continue from 31 to 0.
fn middle(good: u32) -> Option<u8> {
    if good == u32::MAX {
        return Some(PHASES / 2);
    }
    let mut best: Option<(u32, u32)> = None;
    for first in 0..32 {
        let length = good.rotate_right(first).trailing_ones();
        if length > best.map_or(0, |(length, _)| length) {
            best = Some((length, first));
        }
    }
    best.map(|(length, first)| ((first + length / 2) % 32) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the phase that a search finds, and the number of blocks that it took; `None` if it
    /// finds none. `good` decides by block number and phase whether a block is good.
    fn search(good: impl Fn(u32, u8) -> bool) -> Option<(u8, u32)> {
        let mut sweep = Sweep::new();
        (1..=40).find_map(|block| sweep.judge(good(block, sweep.phase())).map(|phase| (phase, block)))
    }

    #[test]
    fn middle_of_the_longest_run() {
        assert_eq!(search(|_, phase| (7..=17).contains(&phase)), Some((12, 33)));
        // A row around the end of the circle: 28 to 31 and 0 to 6.
        assert_eq!(search(|_, phase| !(7..28).contains(&phase)), Some((1, 33)));
        assert_eq!(search(|_, phase| phase == 5 || (20..=22).contains(&phase)), Some((21, 33)));
        assert_eq!(search(|_, phase| phase == 31), Some((31, 33)));
        assert_eq!(search(|_, _| true), Some((16, 33)));
    }

    #[test]
    fn no_run_and_no_confirmation_find_nothing() {
        assert_eq!(search(|_, _| false), None);
        assert_eq!(search(|block, phase| block < 33 && phase < 8), None);
    }
}
