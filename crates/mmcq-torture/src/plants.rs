//! What checks the checker: bugs planted in the core, lies of the cards, and how soon the campaigns
//! find each.

use super::case::Case;
use super::exhaustive::exhaustive;
use super::hosts::sdmmc;
use super::large::large;
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

/// Requests of one try at random, for a bug; and to see that without one nothing is broken.
const REQUESTS: (u64, u64) = (400_000, 100_000);
/// So many times fewer are large.
const LARGE: u64 = 10;
/// Seeds to begin with, for the median.
const BEGINNINGS: [u64; 3] = [1, 1_000_001, 2_000_001];
/// Operations of the longest program.
const LENGTH: u32 = 2;

/// What is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// In the core.
    Bug(Bug),
    /// In the cards.
    Lie(Lie),
}

impl Planted {
    /// All of both.
    #[must_use]
    pub fn all() -> Vec<Planted> {
        Bug::ALL.into_iter().map(Planted::Bug).chain(Lie::ALL.into_iter().map(Planted::Lie)).collect()
    }

    /// As it is called in a table.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Planted::Bug(bug) => format!("{bug:?}"),
            Planted::Lie(lie) => format!("{lie:?}"),
        }
    }

    /// Plants it for this thread in place of what was there; `None`: nothing.
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

/// What looks for bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Campaign {
    /// Random runs.
    Random,
    /// All small programs.
    Programs,
    /// Another card at each event.
    AnotherCard,
    /// Random runs on a reader that leaves transfers open.
    Streams,
    /// Random runs on ST's SDMMC.
    Sdmmc,
    /// Random runs through the queue of a card, or in packed commands.
    Queues,
    /// Random runs with large requests.
    Large,
    /// Faults of a queue at each of their events.
    QueueSweep,
    /// The same after a bad block.
    QueueDouble,
    /// One of the [aimed] campaigns.
    Aimed(usize),
}

impl Campaign {
    /// All of them, as they are tried.
    pub const ALL: [Campaign; 15] = [
        Campaign::Random,
        Campaign::Streams,
        Campaign::Sdmmc,
        Campaign::Queues,
        Campaign::Large,
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

    /// As it is called in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Campaign::Random => "random",
            Campaign::Programs => "programs",
            Campaign::Streams => "streams",
            Campaign::Sdmmc => "sdmmc",
            Campaign::Queues => "queues",
            Campaign::Large => "large",
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
            Campaign::QueueSweep => queue_sweep::singles(&|_| true, jobs, silent),
            Campaign::QueueDouble => queue_sweep::doubles(jobs, silent),
            Campaign::Programs => exhaustive(LENGTH, jobs, silent),
            Campaign::AnotherCard => presence::swaps(jobs, silent),
            Campaign::Aimed(which) => aimed::CAMPAIGNS[which](jobs, silent),
        }
    }

    /// Its runs are drawn by seeds.
    fn is_random(self) -> bool {
        use Campaign::{Large, Queues, Random, Sdmmc, Streams};
        matches!(self, Random | Streams | Sdmmc | Queues | Large)
    }

    /// What finds this bug soonest, as measured; the others are tried after it.
    #[must_use]
    pub fn likely(planted: Planted) -> Campaign {
        let wanted = match planted {
            Planted::Bug(bug) => bug.found_by(),
            Planted::Lie(_) => None,
        };
        Campaign::ALL.into_iter().find(|campaign| Some(campaign.name()) == wanted).unwrap_or(Campaign::Random)
    }
}

/// How a bug was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// What found it.
    pub campaign: Campaign,
    /// What it broke.
    pub violation: Violation,
    /// Real time, of one thread.
    pub took: Duration,
    /// Requests until then; at random from each of the beginnings.
    pub requests: Vec<u64>,
    /// A run that shows it.
    pub case: Case,
}

impl Found {
    /// The median of the requests.
    #[must_use]
    pub fn median_requests(&self) -> u64 {
        let mut requests = self.requests.clone();
        requests.sort_unstable();
        requests.get(requests.len() / 2).copied().unwrap_or(0)
    }
}

/// Plants nothing: is a promise broken all the same? The longest campaign is left out: `check long`
/// has it alone.
#[must_use]
pub fn without(card: Option<usize>, jobs: usize) -> Option<(Campaign, Violation)> {
    Planted::plant(None);
    Campaign::ALL.into_iter().filter(|&campaign| campaign != Campaign::QueueDouble).find_map(|campaign| {
        let score = campaign.run(BEGINNINGS[0], REQUESTS.1, card, jobs);
        score.failures.into_iter().next().map(|(_, violation)| (campaign, violation))
    })
}

/// Plants one in this thread and looks for it, where it is likely to be found first.
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

/// Plants all of these, one after the other in each of the threads; what came of each, in their order.
/// `progress` hears of each that is done.
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
