//! Decides how this process waits for an action of another process: by polling or by sleeping.

use std::cell::Cell;

/// Number of polls in a wait before this process sleeps.
const SPINS: u32 = 3000;
/// Largest value of the credit, a count of how well polling has worked lately ([`Luck`]); also its
/// start value. A wait whose polls find nothing reduces the credit by two; a wait in which a poll
/// finds the action increases it by one. At 0, a wait polls only once before it sleeps.
const LUCK: u32 = 8;
/// While the credit (a count of how well polling has worked lately) is 0, one of this many waits
/// still makes all [`SPINS`] polls, to find out whether polling pays again.
const RETRY: u32 = 64;

/// Decides whether this process polls or sleeps while it waits for another process, by a credit.
/// The credit grows if polls succeed. They do if the other process runs on another CPU; otherwise
/// polling only keeps that process from running.
pub struct Luck {
    left: Cell<u32>,
    times: Cell<u32>,
}

impl Default for Luck {
    fn default() -> Self {
        Luck { left: Cell::new(LUCK), times: Cell::new(0) }
    }
}

impl Luck {
    /// Polls until `came` returns true, which says that the other process has acted. Returns false
    /// if that has not happened in time; then the caller must sleep.
    pub fn spins(&self, came: impl Fn() -> bool) -> bool {
        let (left, times) = (self.left.get(), self.times.get().wrapping_add(1));
        self.times.set(times);
        let spins = if left > 0 || times.is_multiple_of(RETRY) { SPINS } else { 1 };
        for _ in 0..spins {
            if came() {
                self.left.set((left + u32::from(spins > 1)).min(LUCK));
                return true;
            }
            std::hint::spin_loop();
        }
        self.left.set(left.saturating_sub(2));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_are_given_up_and_tried_again() {
        let looked = Cell::new(0);
        let never = || {
            looked.set(looked.get() + 1);
            false
        };
        let luck = Luck::default();
        let count = |luck: &Luck| {
            looked.set(0);
            assert!(!luck.spins(never));
            looked.get()
        };
        assert!((0..LUCK / 2).all(|_| count(&luck) == SPINS));
        assert!((LUCK / 2 + 1..RETRY).all(|_| count(&luck) == 1));
        assert_eq!(count(&luck), SPINS);
        assert_eq!(count(&luck), 1);
        while luck.times.get() % RETRY != RETRY - 1 {
            luck.spins(|| true);
        }
        assert!(luck.spins(|| true), "tried again, with luck");
        assert_eq!(count(&luck), SPINS);
    }
}
