//! Several transfers of different places that go to the card as one, as the engine knows them:
//! their entries, what is known of their end, and whether they pay [eMMC 6.6.29].
//!
//! An *entry* is one transfer of the single lane: a request, or several that were merged. Nothing
//! here sends a command; `engine/packs/` does.

mod pays;

use crate::host::Direction;
use crate::sched::Demotion;
use crate::sched::chains::Chains;
use crate::sched::failures::Failures;
use crate::sched::tasks::{Hosted, Lanes, Sealed, Tasks, lanes_below};
use pays::Pays;

/// Entries of a pack at most: what waits behind it waits for all of them.
pub(crate) const ENTRIES_MAX: usize = 16;

/// The lanes of a profile, and packed commands besides. It takes half a kilobyte for each engine.
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

/// Counters of the lane of packed commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackStats {
    /// Packed writes, and packed reads.
    pub writes: u32,
    /// See [`writes`](Self::writes).
    pub reads: u32,
    /// Entries of all of these.
    pub entries: u32,
    /// Packs of which the card named the entry that failed.
    pub split: u32,
    /// Packs that failed otherwise: all their requests go again, one at a time.
    pub failures: u32,
    /// Late errors of which all writes of a pack were suspects.
    pub suspected: u32,
    /// Why packs are not used any more, if so.
    pub demoted: Option<Demotion>,
}

impl PackStats {
    const ZERO: PackStats =
        PackStats { writes: 0, reads: 0, entries: 0, split: 0, failures: 0, suspected: 0, demoted: None };
}

/// A part of a pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub start: u64,
    pub blocks: u32,
    /// Requests that were merged to it.
    pub members: u8,
    /// A reliable write.
    pub reliable: bool,
}

const NO_ENTRY: Entry = Entry { start: 0, blocks: 0, members: 0, reliable: false };

/// The command that is under way for a pack, beside that with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// CMD23 of the header of a read, and the header.
    HeaderCount,
    Header,
    /// EXT_CSD, to see which entry failed.
    Look,
}

/// The fate of the writes of the last pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The fate is known, or there are no writes.
    Known,
    /// The card's next status tells.
    Open,
    /// A status says that something went wrong.
    Doubtful(u32),
}

/// The pack in progress, and what is known of packs.
#[derive(Debug)]
pub struct Packs {
    /// Entries that the card takes in a packed write, in a packed read; 0: none.
    most: [u8; 2],
    /// A pack is with the controller.
    running: Option<Direction>,
    fate: Fate,
    step: Option<Step>,
    count: u8,
    entries: [Entry; ENTRIES_MAX],
    /// The next transfers go one by one: there was no room for a header.
    rests: bool,
    /// The card was told again to tell of failures.
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

    /// Sets how many writes and reads a pack of the card may have, and believes it again.
    pub(crate) fn configure(&mut self, writes: u8, reads: u8) {
        self.most = [reads, writes].map(|most| if most < 2 { 0 } else { most });
        self.stats.demoted = None;
        self.failures = Failures::NONE;
        self.pays = Pays::NEW;
    }

    /// Forgets the pack: there is another card, or none, or it begins anew.
    pub(crate) fn forget(&mut self) {
        (self.most, self.running, self.step) = ([0; 2], None, None);
    }

    /// The card was initialised, and does not tell of a pack that fails unless it was told to again.
    pub(crate) fn begin_anew(&mut self) {
        if !core::mem::take(&mut self.restored) {
            self.most = [0; 2];
        }
    }

    /// Whether the card tells of a pack that fails after the initialisation that is about to be
    /// told.
    pub(crate) fn restore(&mut self, told: bool) {
        self.restored = told;
    }

    /// May packs be used?
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.most != [0; 2] && self.stats.demoted.is_none()
    }

    /// Entries of a pack of this direction at most; fewer than two: there is none.
    pub(crate) fn most(&self, direction: Direction) -> usize {
        let [reads, writes] = self.most;
        let most = if direction == Direction::Write { writes } else { reads };
        usize::from(most).min(ENTRIES_MAX)
    }

    pub(crate) fn stats(&self) -> &PackStats {
        &self.stats
    }

    /// A transfer of this direction is about to begin although others wait. Shall it be a pack?
    /// `ended_ns`: when the one before was over.
    pub(crate) fn would_pay(&mut self, direction: Direction, ended_ns: u64) -> bool {
        !core::mem::take(&mut self.rests) && self.pays.choose_pack(direction, ended_ns)
    }

    /// Notes that a transfer begins, with so many requests.
    pub(crate) fn begin(&mut self, direction: Direction, packed: bool, requests: usize, now_ns: u64) {
        self.pays.begin(direction, packed, requests, now_ns);
    }

    /// Forgets when the last pack began: something else begins.
    pub(crate) fn reset_timing(&mut self) {
        self.pays.reset_timing();
    }

    /// Lets the next transfer go alone.
    pub(crate) fn skip_next(&mut self) {
        self.rests = true;
    }

    /// Drops the entries that were collected.
    pub(crate) fn clear_entries(&mut self) {
        self.count = 0;
    }

    /// Adds an entry. False: there is no room.
    pub(crate) fn add(&mut self, entry: Entry) -> bool {
        let Some(free) = self.entries.get_mut(usize::from(self.count)) else { return false };
        *free = entry;
        self.count += 1;
        true
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.entries.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Is an entry on these blocks?
    pub(crate) fn meets(&self, start: u64, end: u64) -> bool {
        self.entries().iter().any(|e| e.start < end && start < e.start.saturating_add(u64::from(e.blocks)))
    }

    /// Notes that the pack goes to the controller.
    pub(crate) fn set_running(&mut self, direction: Direction) {
        self.running = Some(direction);
        match direction {
            Direction::Write => self.stats.writes = self.stats.writes.wrapping_add(1),
            Direction::Read => self.stats.reads = self.stats.reads.wrapping_add(1),
        }
        self.stats.entries = self.stats.entries.wrapping_add(u32::from(self.count));
    }

    /// Takes the pack that has come to its end, or has failed: its direction, if there was one.
    pub(crate) fn take_running(&mut self) -> Option<Direction> {
        self.running.take()
    }

    #[inline(always)]
    pub(crate) fn fate(&self) -> Fate {
        self.fate
    }

    /// Sets whether it is known what became of the pack's writes.
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

    /// Counts a pack whose failed entry the card has named.
    pub(crate) fn count_split(&mut self) {
        self.stats.split = self.stats.split.wrapping_add(1);
    }

    /// Counts a pack all of whose writes are suspects of an error.
    pub(crate) fn count_suspects(&mut self) {
        self.stats.suspected = self.stats.suspected.wrapping_add(1);
    }

    /// Notes that a pack has failed, and no entry of it is known as the cause. Packs are given up
    /// where that is so too often.
    pub(crate) fn note_failure(&mut self, now_ns: u64) {
        self.stats.failures = self.stats.failures.wrapping_add(1);
        if self.failures.again(now_ns) {
            self.stats.demoted.get_or_insert(Demotion::Failures);
        }
    }
}
