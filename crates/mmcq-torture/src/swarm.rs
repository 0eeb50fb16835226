//! Many small random runs, each on a machine of its own. A run depends only on its seed, so threads
//! can share the work.

use super::case::{Case, Wishes};
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};

/// Mean number of requests of one run. Small runs find more bugs, and are easier to read.
pub const OPERATIONS: u32 = 250;

/// Size of a campaign of random runs, and how often faults and cuts strike.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// Seeds, requests and threads of this share of the campaign.
    pub share: Share,
    /// See [`Wishes::faults`].
    pub faults: f64,
    /// Rough number of power cuts. Each run ends with one; a cut that is drawn beyond the end of a
    /// run does not happen.
    pub cuts: u64,
    /// Number of the only card to use; `None`: any.
    pub card: Option<usize>,
}

impl Swarm {
    /// Returns what the campaign asks of its cases.
    #[must_use]
    pub fn wishes(&self) -> Wishes {
        // Each run ends with a cut; more of them come in between.
        let runs = (self.share.requests / u64::from(OPERATIONS)).max(1);
        let cuts = (self.cuts as f64 / runs as f64 - 1.0).clamp(0.0, 20.0);
        Wishes { faults: self.faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: self.card }
    }

    /// Runs the share of the campaign. Calls `progress` with the requests of each run.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Score {
        let wishes = self.wishes();
        until(&self.share, progress, &|seed| Case::draw(seed, &wishes))
    }
}
