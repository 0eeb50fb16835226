//! Campaign of many small random cases, each on its own machine. A case depends only on its seed,
//! so threads can share the work.

use super::case::{Case, Wishes};
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};
use super::usage;

/// Mean number of requests in a case. Small cases find more bugs and are easier to read.
pub const OPERATIONS: u32 = 250;

/// Size of a campaign of random cases, and frequency of faults and power cuts.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// Seeds, requests and threads of this share of the campaign.
    pub share: Share,
    /// Mean probability with which faults strike in the cases of the campaign: see
    /// [`Wishes::faults`].
    pub faults: f64,
    /// Approximate number of power cuts. Each run ends with a cut. A cut that is drawn beyond the
    /// end of a run does not happen.
    pub cuts: u64,
    /// Number of the card that all cases use; `None`: any card.
    pub card: Option<usize>,
}

impl Swarm {
    /// Returns what the campaign wants of each random case: the frequency of faults and cuts, the
    /// number of requests, and the cards.
    #[must_use]
    pub fn wishes(&self) -> Wishes {
        // Each run ends with a cut; the other cuts come before.
        let runs = (self.share.requests / u64::from(OPERATIONS)).max(1);
        let cuts = (self.cuts as f64 / runs as f64 - 1.0).clamp(0.0, 20.0);
        Wishes { faults: self.faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: self.card }
    }

    /// Draws the random case of this seed.
    #[must_use]
    pub fn draw(&self, seed: u64) -> Case {
        usage::with(Case::draw(seed, &self.wishes()))
    }

    /// Executes this share of the campaign. After each case calls `progress` with the
    /// number of requests of that case.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Score {
        until(&self.share, progress, &|seed| self.draw(seed))
    }
}
