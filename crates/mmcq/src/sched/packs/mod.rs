//! State of packs: their entries, whether their writes have succeeded, and whether packs pay. A
//! *pack* is several transfers of different places that are sent to the card as one [eMMC 6.6.29].
//!
//! An *entry* is one ordinary transfer: a request, or several that were merged. Nothing
//! here sends a command; `engine/packs/` does.

mod pays;

use crate::host::Direction;
use crate::sched::Demotion;
use crate::sched::chains::Chains;
use crate::sched::failures::Failures;
use crate::sched::tasks::{Hosted, Lanes, Sealed, Tasks, lanes_below};
use pays::Pays;

/// Most transfers in a packed command. The number is small, since later requests wait for the whole
/// packed command.
pub(crate) const ENTRIES_MAX: usize = 16;

/// The ways `L` of sending transfers to the card (such as one at a time, or as tasks of the card's
/// queue), and in addition packed commands: several transfers that are sent as one. This takes half
/// a kilobyte of memory for each engine.
#[derive(Debug)]
pub struct Packing<L>(L, Packs);

impl<L: Sealed> Sealed for Packing<L> {}

impl<L: Lanes> Lanes for Packing<L> {
    const NEW: Self = Packing(L::NEW, Packs::NEW);

    lanes_below!(get get_mut Tasks, hosted hosted_mut Hosted, chains chains_mut Chains);

    #[inline(always)]
    fn packs(&self) -> Option<&Packs> {
        Some(&self.1)
    }

    #[inline(always)]
    fn packs_mut(&mut self) -> Option<&mut Packs> {
        Some(&mut self.1)
    }
}

/// Counters of packed commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackStats {
    /// Number of packed writes.
    pub writes: u32,
    /// Number of packed reads.
    pub reads: u32,
    /// Number of entries in all packed writes and reads.
    pub entries: u32,
    /// Number of packed writes with a late error for which the card named the entry that failed.
    pub split: u32,
    /// Number of packed commands whose transfer failed: all their requests were sent again, one at
    /// a time.
    pub failures: u32,
    /// Number of packed writes whose error the card reported after their end, without naming the
    /// entry (write) that failed. All their writes were sent again, one at a time.
    pub suspected: u32,
    /// Why the engine does not use packed commands any more; `None`: it has not given them up.
    pub demoted: Option<Demotion>,
}

impl PackStats {
    const ZERO: PackStats =
        PackStats { writes: 0, reads: 0, entries: 0, split: 0, failures: 0, suspected: 0, demoted: None };
}

/// Transfer that is one of those in a packed command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub start: u64,
    pub blocks: u32,
    /// Number of requests that were merged into this entry of the packed command.
    pub members: u8,
    /// Whether the entry (one transfer of the packed command) is a reliable write.
    pub reliable: bool,
}

const NO_ENTRY: Entry = Entry { start: 0, blocks: 0, members: 0, reliable: false };

/// The command in progress for a pack (several requests in one packed command), other than the one
/// that transfers the data of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// CMD23 before the header of a packed read.
    HeaderCount,
    /// The transfer of the header of a packed read.
    Header,
    /// A read of EXT_CSD, to see which entry failed.
    Look,
}

/// Whether the result of the writes in the last packed command is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The result of the last packed writes is known, or there were none.
    Known,
    /// The result of the last packed writes is not known yet: the card's next status will show it.
    Open,
    /// An R1 of the card with this value shows that a write of the pack may have failed.
    Doubtful(u32),
}

/// State of packed commands: the one that is collected or executed now, and the times and counters
/// of all packed commands.
#[derive(Debug)]
pub struct Packs {
    /// Largest number of entries of a packed read, and of a packed write; 0: no packed commands in
    /// this direction.
    most: [u8; 2],
    /// Direction of the packed command that the controller executes; `None`: it executes none.
    running: Option<Direction>,
    fate: Fate,
    step: Option<Step>,
    count: u8,
    entries: [Entry; ENTRIES_MAX],
    /// Whether the next transfer is not a pack, because the header of the last pack could not be
    /// mapped.
    rests: bool,
    /// Whether the card was initialised, and was then set again to report failures of packed
    /// commands.
    restored: bool,
    failures: Failures,
    pays: Pays,
    stats: PackStats,
}

impl Packs {
    const NEW: Packs = Packs {
        most: [0; 2],
        running: None,
        fate: Fate::Known,
        step: None,
        count: 0,
        entries: [NO_ENTRY; ENTRIES_MAX],
        rests: false,
        restored: false,
        failures: Failures::NONE,
        pays: Pays::NEW,
        stats: PackStats::ZERO,
    };

    /// Sets how many writes and how many reads one packed command for the card may have (fewer than
    /// two: none). Allows packed commands again.
    pub(crate) fn configure(&mut self, writes: u8, reads: u8) {
        self.most = [reads, writes].map(|most| if most < 2 { 0 } else { most });
        self.stats.demoted = None;
        self.failures = Failures::NONE;
        self.pays = Pays::NEW;
    }

    /// Forgets the transfers collected for a packed command, and the limits of such commands: there
    /// is no card any more, or it will be brought up again.
    pub(crate) fn forget(&mut self) {
        (self.most, self.running, self.step) = ([0; 2], None, None);
    }

    /// Notes that the card was initialised. Packs are not used any more unless the card was set
    /// again to report failed packs ([`restore`](Self::restore)).
    pub(crate) fn begin_anew(&mut self) {
        if !core::mem::take(&mut self.restored) {
            self.most = [0; 2];
        }
    }

    /// Stores `told`: whether the present initialisation has set the card to report failed packed
    /// commands. [`begin_anew`](Self::begin_anew) uses this at the initialisation's end.
    pub(crate) fn restore(&mut self, told: bool) {
        self.restored = told;
    }

    /// Returns whether packed commands may be used.
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.most != [0; 2] && self.stats.demoted.is_none()
    }

    /// Returns the largest number of transfers in one packed command of this direction. Below two,
    /// packed commands are not used.
    pub(crate) fn most(&self, direction: Direction) -> usize {
        let [reads, writes] = self.most;
        let most = if direction == Direction::Write { writes } else { reads };
        usize::from(most).min(ENTRIES_MAX)
    }

    pub(crate) fn stats(&self) -> &PackStats {
        &self.stats
    }

    /// Decides whether a transfer of this direction, which begins while other requests wait, is
    /// sent as a packed command. `ended_ns`: when the transfer before ended, in ns.
    pub(crate) fn would_pay(&mut self, direction: Direction, ended_ns: u64) -> bool {
        !core::mem::take(&mut self.rests) && self.pays.choose_pack(direction, ended_ns)
    }

    /// Notes that a transfer of this many requests begins: as a pack (`packed`), or as an ordinary
    /// transfer of one request or of several merged ones. From this the mean time of a request is
    /// learned, in packs and in ordinary transfers.
    pub(crate) fn begin(&mut self, direction: Direction, packed: bool, requests: usize, now_ns: u64) {
        self.pays.begin(direction, packed, requests, now_ns);
    }

    /// Clears the time at which the last packed command began: something else begins now, so the
    /// time of the packed command cannot be measured.
    pub(crate) fn reset_timing(&mut self) {
        self.pays.reset_timing();
    }

    /// Makes the next transfer an ordinary one, since the header of a packed command could not be
    /// mapped for DMA.
    pub(crate) fn skip_next(&mut self) {
        self.rests = true;
    }

    /// Removes all transfers (entries) that were collected for the next packed command.
    pub(crate) fn clear_entries(&mut self) {
        self.count = 0;
    }

    /// Adds a transfer to the packed command. Returns false if the packed command is full.
    pub(crate) fn add(&mut self, entry: Entry) -> bool {
        let Some(free) = self.entries.get_mut(usize::from(self.count)) else { return false };
        *free = entry;
        self.count += 1;
        true
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.entries.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Returns whether one of the transfers (entries) collected for the next packed command
    /// overlaps the blocks from `start` up to but not including `end`.
    pub(crate) fn meets(&self, start: u64, end: u64) -> bool {
        self.entries().iter().any(|e| e.start < end && start < e.start.saturating_add(u64::from(e.blocks)))
    }

    /// Records that the packed command is now sent to the controller, and counts it and its
    /// transfers in the statistics. `direction`: whether it writes or reads.
    pub(crate) fn set_running(&mut self, direction: Direction) {
        self.running = Some(direction);
        match direction {
            Direction::Write => self.stats.writes = self.stats.writes.wrapping_add(1),
            Direction::Read => self.stats.reads = self.stats.reads.wrapping_add(1),
        }
        self.stats.entries = self.stats.entries.wrapping_add(u32::from(self.count));
    }

    /// Returns and clears the direction of the pack (requests in one packed command) that has ended
    /// or failed; `None`: no pack was in progress.
    pub(crate) fn take_running(&mut self) -> Option<Direction> {
        self.running.take()
    }

    #[inline(always)]
    pub(crate) fn fate(&self) -> Fate {
        self.fate
    }

    /// Records whether it is known which writes of the pack have succeeded.
    pub(crate) fn set_fate(&mut self, fate: Fate) {
        self.fate = fate;
    }

    pub(crate) fn set_step(&mut self, step: Step) {
        self.step = Some(step);
    }

    #[inline(always)]
    pub(crate) fn step(&self) -> Option<Step> {
        self.step
    }

    pub(crate) fn take_step(&mut self) -> Option<Step> {
        self.step.take()
    }

    /// Counts a packed command whose error the card reported after its end, if the card named the
    /// entry (request) that failed.
    pub(crate) fn count_split(&mut self) {
        self.stats.split = self.stats.split.wrapping_add(1);
    }

    /// Counts a packed command with a late error for which the card named no entry, so that any of
    /// its writes may have failed.
    pub(crate) fn count_suspects(&mut self) {
        self.stats.suspected = self.stats.suspected.wrapping_add(1);
    }

    /// Notes that the transfer of a packed command has failed. If that happens too often, no packed
    /// commands are sent any more.
    pub(crate) fn note_failure(&mut self, now_ns: u64) {
        self.stats.failures = self.stats.failures.wrapping_add(1);
        if self.failures.again(now_ns) {
            self.stats.demoted.get_or_insert(Demotion::Failures);
        }
    }
}
