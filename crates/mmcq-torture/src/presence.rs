//! Removal and insertion of cards: at each event of a workload the card is replaced by another, or
//! the same card goes out and in many times.

use super::case::{Case, Visit};
use super::run::{Bench, run};
use super::score::Score;
use super::spread::spread;
use super::workloads::{NAMES, workload};

/// Number of times that a card with bouncing contacts goes out and in.
const BOUNCES: u8 = 20;

fn each_event(jobs: usize, visit: Visit, progress: &(dyn Fn(u64) + Sync)) -> Score {
    spread(jobs, &|index, bench: &mut Bench, score| {
        if index >= NAMES.len() as u64 {
            return false;
        }
        let whole = workload(index as usize);
        // A soldered card does not bounce. It can be replaced, which the host may not notice.
        if !whole.setup.is_removable() && visit != Visit::Swap {
            progress(1);
            return true;
        }
        let clean = run(&whole, bench, None);
        for event in clean.before.0 + 1..=clean.events {
            let case = Case { visit: Some((event, visit)), ..whole.clone() };
            let outcome = run(&case, bench, None);
            if !score.add(&case, &outcome) {
                break;
            }
        }
        progress(1);
        true
    })
}

/// Replaces the card by another at each event. Data for one card must never be found on the other.
pub fn swaps(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    each_event(jobs, Visit::Swap, progress)
}

/// Takes the same card out and in many times at each event (bouncing contacts).
pub fn bounces(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    each_event(jobs, Visit::Bounce(BOUNCES), progress)
}
