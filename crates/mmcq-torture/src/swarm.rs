//! Many small random runs, each on a machine of its own. A run depends on its seed alone, so
//! threads share the work.

use super::case::{Case, Wishes};
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};

/// Mean requests of one run: small runs find more, and are easier to read.
pub const OPERATIONS: u32 = 250;

/// How much of what.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// Its seeds, requests and threads.
    pub share: Share,
    /// See [`Wishes::faults`].
    pub faults: f64,
    /// Power cuts, roughly: each run ends with one, and those that are drawn beyond its end do not
    /// happen.
    pub cuts: u64,
    /// Only this card.
    pub card: Option<usize>,
}

impl Swarm {
    /// The runs' parameters.
    #[must_use]
    pub fn wishes(&self) -> Wishes {
        // Each run ends with a cut; more of them come in between.
        let runs = (self.share.requests / u64::from(OPERATIONS)).max(1);
        let cuts = (self.cuts as f64 / runs as f64 - 1.0).clamp(0.0, 20.0);
        Wishes { faults: self.faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: self.card }
    }

    /// Runs its share. `progress` hears of requests.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Score {
        let wishes = self.wishes();
        until(&self.share, progress, &|seed| Case::draw(seed, &wishes))
    }
}
