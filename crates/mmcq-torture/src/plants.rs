//! Test of the checker: plants bugs in mmcq and in the models of the cards (lies), and measures how
//! soon the campaigns find each.

use super::case::Case;
use super::corners::corners;
use super::exhaustive::exhaustive;
use super::hosts::sdmmc;
use super::large::large;
use super::narrow::narrow;
use super::queues::queues;
use super::score::Score;
use super::spread::Share;
use super::spread::stop_at_first;
use super::streams::streams;
use super::swarm::Swarm;
use super::{aimed, presence, queue_sweep};
use mmcq::plant::{self, Bug};
use mmcq_sim::checker::Violation;
use mmcq_sim::parallel;
use mmcq_sim::plant::{self as lies, Lie};
use std::time::{Duration, Instant};

/// Number of requests of a random campaign: with a planted bug, and without one to see that no
/// promise is broken.
const REQUESTS: (u64, u64) = (400_000, 100_000);
/// The campaign of large requests has as many requests as other campaigns, divided by this number.
const LARGE: u64 = 10;
/// Seeds at which a random campaign starts. The median of the results counts.
const BEGINNINGS: [u64; 3] = [1, 1_000_001, 2_000_001];
/// Number of requests in the longest program that the exhaustive campaign executes. (It executes
/// every program, that is every short sequence of requests.)
const LENGTH: u32 = 2;

/// A bug that is planted on purpose, to test whether a campaign finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A bug in mmcq itself.
    Bug(Bug),
    /// A bug in the model of the cards, called a lie: for example, the card acknowledges what it
    /// has not done.
    Lie(Lie),
}

impl Planted {
    /// Returns all bugs and lies that can be planted.
    #[must_use]
    pub fn all() -> Vec<Planted> {
        Bug::ALL.into_iter().map(Planted::Bug).chain(Lie::ALL.into_iter().map(Planted::Lie)).collect()
    }

    /// Returns the name by which tables show this planted bug of the stack or of a card (lie).
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Planted::Bug(bug) => format!("{bug:?}"),
            Planted::Lie(lie) => format!("{lie:?}"),
        }
    }

    /// Plants a bug or lie for this thread in place of the previous one; `None` removes it.
    fn plant(planted: Option<Planted>) {
        let (bug, lie) = match planted {
            Some(Planted::Bug(bug)) => (Some(bug), None),
            Some(Planted::Lie(lie)) => (None, Some(lie)),
            None => (None, None),
        };
        plant::choose(bug);
        lies::choose(lie);
    }
}

/// A campaign that looks for a planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Campaign {
    /// Campaign with random cases (machine, requests, faults and power cuts).
    Random,
    /// All small programs of requests, with a power cut at every event.
    Programs,
    /// Campaign in which the card is replaced by another one: each case does this once, at each
    /// event of a run in turn.
    AnotherCard,
    /// Random cases on controllers that leave transfers open (without a CMD12), so that requests
    /// continue them.
    Streams,
    /// Random cases on ST's SDMMC.
    Sdmmc,
    /// Random cases with a command queue or packed commands.
    Queues,
    /// Random cases with large requests.
    Large,
    /// Random cases on controllers that take few blocks at a time.
    Narrow,
    /// Random cases with rare settings ([`super::corners`]).
    Corners,
    /// Single faults of a command queue: each kind of fault in turn, at each event where it can
    /// strike.
    QueueSweep,
    /// Pairs of faults with a command queue: a block that cannot be programmed or read, and a
    /// second fault at each event where it can strike.
    QueueDouble,
    /// One of the [aimed] campaigns, by its index in [`aimed::CAMPAIGNS`].
    Aimed(usize),
}

impl Campaign {
    /// All campaigns of tests that look for a planted bug, in the order in which they are tried.
    pub const ALL: [Campaign; 17] = [
        Campaign::Random,
        Campaign::Streams,
        Campaign::Sdmmc,
        Campaign::Queues,
        Campaign::Large,
        Campaign::Narrow,
        Campaign::Corners,
        Campaign::QueueSweep,
        Campaign::Aimed(0),
        Campaign::Aimed(1),
        Campaign::Aimed(2),
        Campaign::Aimed(3),
        Campaign::Aimed(4),
        Campaign::Aimed(5),
        Campaign::AnotherCard,
        Campaign::Programs,
        Campaign::QueueDouble,
    ];

    /// Returns the name of the campaign for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Campaign::Random => "random",
            Campaign::Programs => "programs",
            Campaign::Streams => "streams",
            Campaign::Sdmmc => "sdmmc",
            Campaign::Queues => "queues",
            Campaign::Large => "large",
            Campaign::Narrow => "narrow",
            Campaign::Corners => "corners",
            Campaign::QueueSweep => "queue sweep",
            Campaign::QueueDouble => "queue double",
            Campaign::AnotherCard => "another card",
            Campaign::Aimed(which) => aimed::NAMES[which],
        }
    }

    fn run(self, seed: u64, requests: u64, card: Option<usize>, jobs: usize) -> Score {
        let silent = &|_| {};
        let share = Share { seed, requests, shard: None, jobs };
        match self {
            Campaign::Random => Swarm { share, faults: 0.003, cuts: requests / 60, card }.run(silent),
            Campaign::Streams => streams(&share, silent),
            Campaign::Sdmmc => sdmmc(&share, silent),
            Campaign::Queues => queues(&share, silent),
            Campaign::Large => large(&Share { requests: requests / LARGE, ..share }, silent),
            Campaign::Narrow => narrow(&share, silent),
            Campaign::Corners => corners(&share, silent),
            Campaign::QueueSweep => queue_sweep::singles(&|_| true, jobs, silent),
            Campaign::QueueDouble => queue_sweep::doubles(jobs, silent),
            Campaign::Programs => exhaustive(LENGTH, jobs, silent),
            Campaign::AnotherCard => presence::swaps(jobs, silent),
            Campaign::Aimed(which) => aimed::CAMPAIGNS[which](jobs, silent),
        }
    }

    /// Returns whether seeds decide the cases of the campaign.
    fn is_random(self) -> bool {
        use Campaign::{Corners, Large, Narrow, Queues, Random, Sdmmc, Streams};
        matches!(self, Random | Streams | Sdmmc | Queues | Large | Narrow | Corners)
    }

    /// Returns the campaign that finds this bug soonest, as measured. It is tried first.
    #[must_use]
    pub fn likely(planted: Planted) -> Campaign {
        let wanted = match planted {
            Planted::Bug(bug) => bug.found_by(),
            Planted::Lie(_) => None,
        };
        Campaign::ALL.into_iter().find(|campaign| Some(campaign.name()) == wanted).unwrap_or(Campaign::Random)
    }
}

/// Result of a search that has found the planted bug.
#[derive(Clone, Debug)]
pub struct Found {
    /// Campaign that has found the bug.
    pub campaign: Campaign,
    /// Promise that the stack has broken because of the planted bug.
    pub violation: Violation,
    /// Real time that the search for the bug took in one thread.
    pub took: Duration,
    /// Number of requests until the bug was found. A random campaign has one number for each of its
    /// start seeds.
    pub requests: Vec<u64>,
    /// A case that shows the bug.
    pub case: Case,
}

impl Found {
    /// Returns the number of requests until the bug was found: the median over the start seeds.
    #[must_use]
    pub fn median_requests(&self) -> u64 {
        let mut requests = self.requests.clone();
        requests.sort_unstable();
        requests.get(requests.len() / 2).copied().unwrap_or(0)
    }
}

/// Executes the campaigns without a planted bug, as a cross-check: the stack must keep all
/// guarantees about data. If it breaks one, returns the campaign and the violation; otherwise
/// `None`. `card`: index of the only card to use (`None`: all cards); `jobs`: number of threads.
/// The longest campaign ([`Campaign::QueueDouble`]) is left out; `check long` executes it.
#[must_use]
pub fn without(card: Option<usize>, jobs: usize) -> Option<(Campaign, Violation)> {
    Planted::plant(None);
    Campaign::ALL.into_iter().filter(|&campaign| campaign != Campaign::QueueDouble).find_map(|campaign| {
        let score = campaign.run(BEGINNINGS[0], REQUESTS.1, card, jobs);
        score.failures.into_iter().next().map(|(_, violation)| (campaign, violation))
    })
}

/// Plants one bug or lie in this thread and looks for it in cases with card number `card` (`None`:
/// any card), beginning with the campaign that is likely to find it soonest. Returns how it was
/// found; `None`: no campaign has found it.
fn look_for(planted: Planted, card: Option<usize>) -> Option<Found> {
    Planted::plant(Some(planted));
    let (began, likely) = (Instant::now(), Campaign::likely(planted));
    let others = Campaign::ALL.into_iter().filter(|campaign| *campaign != likely);
    let found = std::iter::once(likely).chain(others).find_map(|campaign| {
        let look = |seed| campaign.run(seed, REQUESTS.0, card, 1);
        let score = look(BEGINNINGS[0]);
        let (case, violation) = score.failures.into_iter().next()?;
        let took = began.elapsed();
        let mut requests = vec![score.requests];
        if campaign.is_random() {
            requests.extend(BEGINNINGS[1..].iter().map(|&seed| look(seed).requests));
        }
        Some(Found { campaign, violation, took, requests, case })
    });
    Planted::plant(None);
    found
}

/// Looks for all of these planted bugs; each thread takes one after the other. Returns the results
/// in their order. Calls `progress` after each.
pub fn look_for_all(
    all: &[Planted],
    card: Option<usize>,
    jobs: usize,
    progress: &(dyn Fn() + Sync),
) -> Vec<Option<Found>> {
    stop_at_first();
    parallel::each(all.len(), jobs, |at| {
        let found = look_for(all[at], card);
        progress();
        found
    })
}
