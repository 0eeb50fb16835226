//! State of the chain in progress: its transfers, and its progress. A *chain* is several transfers
//! that the controller executes from one list.
//!
//! A *link* is one ordinary transfer: a request, or several that were merged. Nothing
//! here starts a chain; `engine/chains/` does.

use super::failures::Failures;
use super::packs::Packs;
use super::slot_set::SlotSet;
use crate::host::{ChainCaps, Direction};
use crate::sched::Demotion;
use crate::sched::tasks::{Hosted, Lanes, Sealed, Tasks, lanes_below};

/// Most links (transfers) of a chain. The number is small, since later requests wait for the whole
/// chain.
pub(crate) const LINKS_MAX: usize = 16;
const BLOCK_BYTES: u32 = 512;

/// Adds chains (lists of transfers that the controller executes) to the ways `L` of sending
/// transfers. Chains take less than a kilobyte for each engine.
#[derive(Debug)]
pub struct Chaining<L>(L, Chains);

impl<L: Sealed> Sealed for Chaining<L> {}

impl<L: Lanes> Lanes for Chaining<L> {
    const NEW: Self = Chaining(L::NEW, Chains::NEW);

    lanes_below!(get get_mut Tasks, hosted hosted_mut Hosted, packs packs_mut Packs);

    #[inline(always)]
    fn chains(&self) -> Option<&Chains> {
        Some(&self.1)
    }

    #[inline(always)]
    fn chains_mut(&mut self) -> Option<&mut Chains> {
        Some(&mut self.1)
    }
}

/// Counters of chains: lists of several transfers, which the controller executes without the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainStats {
    /// Number of chains (lists of transfers that the controller executes) that were started.
    pub chains: u32,
    /// Number of transfers in all chains that were started.
    pub transfers: u32,
    /// Number of chains (lists of transfers that the controller executes) in which a transfer
    /// failed.
    pub failures: u32,
    /// Number of chains (lists of several transfers) that the controller reported as complete
    /// although its registers contradicted that.
    pub disbelieved: u32,
    /// Number of failed chains after which a late error could belong to any earlier write of the
    /// chain: these writes were repeated, one at a time.
    pub suspected: u32,
    /// Why chains are not used any more; `None`: they were not given up.
    pub demoted: Option<Demotion>,
}

impl ChainStats {
    const ZERO: ChainStats =
        ChainStats { chains: 0, transfers: 0, failures: 0, disbelieved: 0, suspected: 0, demoted: None };
}

/// A link: one transfer of a chain. A chain is a list of transfers that the controller executes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub direction: Direction,
    pub start: u64,
    pub blocks: u32,
    /// The slots of the requests that were merged into this transfer of the chain.
    pub members: SlotSet,
}

const NO_LINK: Link = Link { direction: Direction::Read, start: 0, blocks: 0, members: 0 };

impl Link {
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.blocks))
    }
}

/// The state of a chain (several transfers that the controller executes from one list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainAt {
    /// The controller has no chain. The engine may be collecting the transfers of the next one.
    Rest,
    /// All transfers (links) of the chain are described in memory, and the controller could not
    /// start it yet.
    Waits,
    /// The controller executes the chain (the list of transfers).
    Runs,
    /// The chain (a list of transfers) has failed at transfer `link`, and the controller still uses
    /// its memory. `believed`: the transfers before `link` are done. `well`: a later response of
    /// the card shows no error of these transfers.
    Failed { link: u8, believed: bool, well: bool },
}

/// State of chains (several transfers in one list of the controller): the chain that is collected
/// or executed now, and what is learned and counted over all of them.
#[derive(Debug)]
pub struct Chains {
    /// The controller's limits for a chain (a list of several transfers). If the list has fewer
    /// than two entries, chains are not used.
    caps: ChainCaps,
    at: ChainAt,
    count: u8,
    links: [Link; LINKS_MAX],
    failures: Failures,
    stats: ChainStats,
}

impl Chains {
    const NEW: Chains = Chains {
        caps: ChainCaps { entries: 0, max_segments: 0, max_bytes: 0 },
        at: ChainAt::Rest,
        count: 0,
        links: [NO_LINK; LINKS_MAX],
        failures: Failures::NONE,
        stats: ChainStats::ZERO,
    };

    /// Sets which chains the controller executes, and allows chains again if they were given up
    /// after failures.
    pub(crate) fn configure(&mut self, caps: ChainCaps) {
        self.caps = caps;
        self.stats.demoted = None;
        self.failures = Failures::NONE;
    }

    /// Returns whether chains (lists of transfers that the controller executes) may be used: the
    /// controller can execute them, the program has enabled them, and no failure has made the
    /// engine give them up.
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.caps.entries > 1 && self.stats.demoted.is_none()
    }

    /// Returns three limits: the number of transfers (links) in a chain, and the number of blocks
    /// and of segments in one transfer.
    pub(crate) fn limits(&self) -> (usize, u32, u16) {
        let links = usize::from(self.caps.entries).min(LINKS_MAX);
        (links, self.caps.max_bytes / BLOCK_BYTES, self.caps.max_segments)
    }

    pub(crate) fn stats(&self) -> &ChainStats {
        &self.stats
    }

    #[inline(always)]
    pub(crate) fn at(&self) -> ChainAt {
        self.at
    }

    /// Begins to describe another chain, which has no transfer (link) yet.
    pub(crate) fn begin(&mut self) {
        self.count = 0;
    }

    /// Adds a transfer to the chain. Returns false if the chain is full.
    pub(crate) fn add(&mut self, link: Link) -> bool {
        let Some(free) = self.links.get_mut(usize::from(self.count)) else { return false };
        *free = link;
        self.count += 1;
        true
    }

    pub(crate) fn links(&self) -> &[Link] {
        self.links.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Returns whether some transfer of the chain (a list of transfers) overlaps the blocks from
    /// `start` up to `end`, and that transfer or `direction` writes.
    pub(crate) fn meets(&self, direction: Direction, start: u64, end: u64) -> bool {
        self.links().iter().any(|link| {
            let writes = direction == Direction::Write || link.direction == Direction::Write;
            writes && link.start < end && start < link.end()
        })
    }

    /// Records that the descriptors of all transfers of the chain are in memory. From now on the
    /// engine tries to start the chain on the controller.
    pub(crate) fn set_waiting(&mut self) {
        self.at = ChainAt::Waits;
    }

    /// Notes that the chain (a list of several transfers) was given to the controller, which
    /// executes it now.
    pub(crate) fn set_running(&mut self) {
        self.at = ChainAt::Runs;
        self.stats.chains = self.stats.chains.wrapping_add(1);
        self.stats.transfers = self.stats.transfers.wrapping_add(u32::from(self.count));
    }

    /// Notes that the chain (the list of transfers) is over, and the controller does not use its
    /// memory any more.
    pub(crate) fn set_rest(&mut self) {
        self.at = ChainAt::Rest;
    }

    /// Notes that the chain (a list of transfers) has failed at this link ([`ChainAt::Failed`]
    /// explains the parameters). If chains fail too often, the engine sends none any more.
    pub(crate) fn note_failure(&mut self, link: u8, believed: bool, well: bool, now_ns: u64) {
        self.at = ChainAt::Failed { link, believed, well };
        self.stats.failures = self.stats.failures.wrapping_add(1);
        if self.failures.again(now_ns) {
            self.stats.demoted.get_or_insert(Demotion::Failures);
        }
    }

    /// Gives chains up, because the controller reported a chain as complete that was not.
    pub(crate) fn demote_early_end(&mut self) {
        self.stats.disbelieved = self.stats.disbelieved.wrapping_add(1);
        self.stats.demoted = Some(Demotion::EndsEarly);
    }

    /// Counts a failed chain (list of transfers) after which it is not known which of its writes,
    /// before the failed transfer, has failed.
    pub(crate) fn count_suspects(&mut self) {
        self.stats.suspected = self.stats.suspected.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(direction: Direction, start: u64) -> Link {
        Link { direction, start, blocks: 8, members: 1 }
    }

    #[test]
    fn links_meet_where_one_of_the_two_writes() {
        let mut chains = Chains::NEW;
        chains.begin();
        assert!(chains.add(link(Direction::Read, 8)) && chains.add(link(Direction::Write, 100)));
        let meets = |direction, start| chains.meets(direction, start, start + 4);
        assert!(!meets(Direction::Read, 8) && meets(Direction::Write, 12) && !meets(Direction::Write, 16));
        assert!(meets(Direction::Read, 107) && !meets(Direction::Read, 96));
        for _ in 2..LINKS_MAX {
            assert!(chains.add(link(Direction::Read, 1000)));
        }
        assert!(!chains.add(link(Direction::Read, 1000)), "it is full");
    }

    #[test]
    fn two_failures_in_ten_seconds_are_too_many_and_an_early_end_is() {
        let caps = ChainCaps { entries: 8, max_segments: 4, max_bytes: 4096 };
        let mut chains = Chains::NEW;
        assert!(!chains.is_armed());
        chains.configure(caps);
        for second in [1, 20, 40, 60] {
            chains.note_failure(0, true, true, second * 1_000_000_000);
            assert!(chains.is_armed());
        }
        chains.note_failure(0, true, true, 65_000_000_000);
        assert_eq!((chains.is_armed(), chains.stats().demoted), (false, Some(Demotion::Failures)));
        chains.configure(caps);
        assert!(chains.is_armed());
        chains.demote_early_end();
        assert_eq!((chains.is_armed(), chains.stats().demoted), (false, Some(Demotion::EndsEarly)));
    }
}
