//! Random runs on a mobile storage host, Allwinner's or DesignWare's.
//!
//! Cards do not come and go: Allwinner's tells nothing of that.

use super::case::{Case, Wishes};
use super::run::CARDS;
use super::score::Score;
use super::spread::until;
use super::swarm::OPERATIONS;
use mmcq_sim::world::Stream;

/// Faults and cuts as [`Wishes`] have them.
const OFTEN: (f64, f64) = (0.002, 1.0);

/// Runs until there were enough requests, or enough is broken. `progress` hears of requests.
pub fn hosts(seed: u64, requests: u64, jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(seed, requests, jobs, progress, &draw)
}

/// The run of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "hosts");
    let (faults, cuts) = OFTEN;
    let wishes = Wishes { faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: None };
    let mut case = Case::draw(seed, &wishes);
    case.setup.mshc = 1 + random.below(2) as u8;
    case.setup.scheduler = 0;
    case.visit = None;
    case
}
