//! What a power cut may lose: sectors that the host has written and that are not in the flash yet.
//!
//! A [`Journal`] tracks every written sector from its arrival until the sector is *safe*: it is in
//! the flash, so that a power cut cannot lose it. It runs on a card that was given faults
//! ([`super::Card::set_faults`]), and on each card whose volatile cache is on. The medium always
//! holds the newest content, which reads return; the [`Journal`] holds the content before each
//! write. Each write of a sector makes a new version of it. At a power cut a callback decides for
//! each version that is not safe what is left of it ([`Kept`]).
//!
//! The cache writes its sectors to the flash in the background, in an order that the card chooses.
//! A flush writes all sectors that are still in the cache. Of two sectors, the one that arrived
//! later may be the first in the flash. [eMMC 6.6.31] [SD 5.8.2]

use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use super::medium::content::{Bytes, Short};
use super::medium::{Medium, SECTOR_BYTES};

/// How far the content of a sector has got after a write (each write makes a new version) on its
/// way to the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The write command has not ended: its data are on the bus, or the card is busy programming. A
    /// power cut may tear the sector.
    InFlight,
    /// The write command is over and the sector is in the volatile cache. A power cut may lose the
    /// version, but not tear it.
    Cached,
}

/// A written version of a sector that is not in the flash yet, so that a power cut may lose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtStake {
    /// Partition, numbered as in PARTITION_CONFIG of an eMMC: 0 the user area, 1 and 2 boot, 4 to 7
    /// general purpose. Always 0 on an SD card.
    pub partition: u8,
    /// Number of the sector of 512 bytes.
    pub sector: u64,
    /// Number of the version, counted in order of arrival over all sectors of the card. A later
    /// version of a sector replaces an earlier one.
    pub seq: u64,
    /// How far the version is on its way to the flash.
    pub stage: Stage,
    /// Whether a reliable write sent the version. A power cut leaves the old or the new content of
    /// such a sector and never tears it [eMMC 6.6.22].
    pub reliable: bool,
}

/// What a power cut leaves of one written version of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kept {
    /// The sector has its content before the write.
    Old,
    /// The sector has the whole new version.
    New,
    /// The sector is unreadable until it is written or erased. If the write was reliable, the
    /// sector has its content before the write instead.
    Torn,
    /// The sector has the first half of the new version, and the second half of its content before
    /// the write. If the write was reliable, the sector has its whole content before the write
    /// instead.
    Mixed,
}

/// Content of a sector, in the form in which the journal stores it.
#[derive(Clone, Debug)]
enum Content {
    Unreadable,
    /// Content that needs no memory for its bytes, because a short description generates them again
    /// (such as a repeated word).
    Short(Short),
    Kept(Box<Bytes>),
}

impl Content {
    /// Returns the 512 bytes of the sector; `None` if the sector cannot be read.
    fn bytes(&self, sector: u64) -> Option<Bytes> {
        match self {
            Content::Unreadable => None,
            Content::Short(short) => {
                let mut bytes = [0; SECTOR_BYTES as usize];
                short.part(sector * SECTOR_BYTES, 0, &mut bytes);
                Some(bytes)
            }
            Content::Kept(bytes) => Some(**bytes),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    what: AtStake,
    before: Content,
    /// Time in ns from which the version is in the flash.
    safe_ns: u64,
    /// Whether the cache has lost this version of the sector without an error, because of an
    /// injected fault. A flush does not write such a version.
    lost: bool,
    /// Whether the entry is marked for removal from the journal by [`Journal::tidy`].
    goes: bool,
}

/// The media of a card, by partition number.
pub(crate) trait Media {
    /// Returns the medium of the partition with this number; `None` if the card has no such
    /// partition.
    fn of(&mut self, partition: u8) -> Option<&mut Medium>;
}

impl Media for Medium {
    fn of(&mut self, partition: u8) -> Option<&mut Medium> {
        (partition == 0).then_some(self)
    }
}

/// Number of sectors in a flash page (16 KiB), which the flash programs as a whole.
const PAGE_SECTORS: u64 = 32;
/// Number of consecutive sectors for which one 64-bit word of the map `Journal::safe` has one bit
/// each.
const STRETCH: u64 = u64::BITS as u64;
/// Largest number of sectors in the journal. If more are written, the oldest sectors count as being
/// in the flash: no power cut loses them.
const LONGEST: usize = 1 << 17;
/// Largest number of sectors of an erase that a power cut may undo. A longer erase counts as done
/// in the flash at once.
const LONGEST_ERASE: u64 = 1 << 14;
/// Largest number of unused sector buffers that are stored for reuse.
const SPARE: usize = 1 << 15;
/// Longest time in ns that a sector stays in the cache before the cache writes it to the flash in
/// the background. Some sectors wait for a flush instead.
const DRAIN_NS: u64 = 20_000_000;

/// Journal of the written sectors that are not in the flash yet, so that a power cut may lose them.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    /// Whether the journal also tracks writes that bypass the cache, and not only those in the
    /// cache.
    pub(crate) follow: bool,
    /// Whether the card's volatile write cache is on.
    pub(crate) volatile: bool,
    /// Fault: whether a power cut destroys the whole flash page around each sector that is being
    /// programmed.
    pub(crate) neighbours: bool,
    /// Fault: a power cut may tear a sector that is being programmed, even if the callback has
    /// chosen that the sector keeps the whole new version.
    pub(crate) shorn: bool,
    /// Capacity of the card's write cache in sectors.
    pub(crate) capacity: usize,
    /// Two counters. The first is the number of times that a cut, a reset or a failed flush decided
    /// which of the written versions that were not in the flash yet are lost. The second is the
    /// number of these times at which the cache held a sector.
    pub(crate) losses: (u64, u64),
    /// Versions of sectors that are not in the flash yet, oldest first, each with the sector's
    /// content before the write.
    entries: VecDeque<Entry>,
    seq: u64,
    /// Number of the first entry that the present write command added; each written version of a
    /// sector has one entry, and they are numbered in order.
    open: u64,
    /// Time in ns at which all versions with a number below `open` (those of earlier write
    /// commands) are in the flash; `u64::MAX` if some of them wait for a flush.
    all_safe_ns: u64,
    /// Number of entries at which [`Journal::tidy`] next removes the versions that are in the flash
    /// already, and so cannot be lost any more.
    tidy_at: usize,
    /// Buffers of entries that [`Journal::tidy`] has removed, for reuse.
    #[allow(clippy::vec_box, reason = "a box is handed on to an entry as it is")]
    spare: Vec<Box<Bytes>>,
    /// Scratch map of [`Journal::tidy`]: the sectors of which a version is in the flash already,
    /// one bit for each sector. Its key is the partition, and the sector number divided by
    /// [`STRETCH`].
    safe: HashMap<(u8, u64), u64, FixedState>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal {
            follow: false,
            volatile: false,
            neighbours: false,
            shorn: false,
            capacity: 1024,
            losses: (0, 0),
            entries: VecDeque::new(),
            seq: 0,
            open: 0,
            all_safe_ns: 0,
            tidy_at: 256,
            spare: Vec::new(),
            safe: HashMap::default(),
        }
    }
}

impl Journal {
    /// Returns whether the next write must be recorded in the journal.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.follow || self.volatile || !self.entries.is_empty()
    }

    /// Begins a write command. If the journal has more versions than the cache has room for, about
    /// half of the cached ones are from now on in the flash, so that no power cut can lose them.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        if self.open != self.seq {
            // The write command before this one did not reach its end.
            self.all_safe_ns = u64::MAX;
        }
        if now_ns >= self.all_safe_ns {
            self.entries.clear();
            self.all_safe_ns = 0;
        }
        if self.entries.len() >= self.tidy_at {
            self.tidy(now_ns);
            if self.entries.len() > self.capacity {
                for entry in self.entries.iter_mut().filter(|e| e.what.stage == Stage::Cached && !e.lost) {
                    if mixed(entry.what.seq ^ 0x5555) & 1 == 0 {
                        entry.safe_ns = entry.safe_ns.min(now_ns);
                    }
                }
                self.tidy(now_ns);
            }
            self.tidy_at = (2 * self.entries.len()).max(256);
        }
        self.open = self.seq;
    }

    /// Records the content of the sector at byte address `at` of a partition before a write
    /// replaces it. `reliable`: the write is a reliable write.
    pub(crate) fn note(&mut self, medium: &mut Medium, partition: u8, at: u64, reliable: bool) {
        let before = match medium.short(at) {
            Some(short) => Content::Short(short),
            None => {
                let room = self.spare.pop();
                read(medium, at, room.unwrap_or_else(|| Box::new([0; SECTOR_BYTES as usize])))
            }
        };
        let what =
            AtStake { partition, sector: at / SECTOR_BYTES, seq: self.seq, stage: Stage::InFlight, reliable };
        self.seq += 1;
        if self.entries.len() >= LONGEST {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { what, before, safe_ns: u64::MAX, lost: false, goes: false });
    }

    /// Ends the data of a write command; the card is busy until `busy_ns`. With `past_cache` the
    /// data go to the flash without the cache. With `lost` the cache loses them later and reports
    /// no error.
    pub(crate) fn end(&mut self, busy_ns: u64, past_cache: bool, lost: bool) {
        let cached = self.volatile && !past_cache;
        for entry in self.entries.iter_mut().rev().take_while(|entry| entry.what.seq >= self.open) {
            entry.safe_ns = busy_ns;
            if cached {
                entry.what.stage = Stage::Cached;
                // A quarter of the sectors stays in the cache until a flush, or until the cache is
                // full.
                let luck = mixed(entry.what.seq);
                entry.lost = lost;
                let drain_ns = if lost || luck & 3 == 0 { u64::MAX } else { (luck >> 2) % DRAIN_NS };
                entry.safe_ns = busy_ns.saturating_add(drain_ns);
            }
            self.all_safe_ns = self.all_safe_ns.max(entry.safe_ns);
        }
        self.open = self.seq;
    }

    /// Flushes the cache. From the time `until_ns` on, its sectors are in the flash, so that no
    /// power cut can lose them. Sectors that the cache has lost before stay lost.
    pub(crate) fn flush(&mut self, until_ns: u64) {
        for entry in self.entries.iter_mut().filter(|entry| entry.what.stage == Stage::Cached && !entry.lost)
        {
            entry.safe_ns = entry.safe_ns.min(until_ns);
        }
        self.all_safe_ns = self.entries.iter().map(|entry| entry.safe_ns).max().unwrap_or(0);
    }

    /// Fails a flush: half of the cache goes to the flash, the cache drops the other half. Reads of
    /// the dropped sectors return the content before the write.
    pub(crate) fn fail_flush(&mut self, media: &mut dyn Media, now_ns: u64) {
        self.decide(media, now_ns, &mut |what| match what.stage {
            Stage::Cached if mixed(what.seq ^ 0xf1) & 1 == 0 => Kept::Old,
            _ => Kept::New,
        });
    }

    /// Records sectors before an erase changes them: until the erase has reached the flash, a power
    /// cut may undo it sector by sector. A sector is erased as a whole or not at all. An erase of
    /// more than [`LONGEST_ERASE`] sectors counts as done in the flash at once, so that no power
    /// cut undoes it.
    pub(crate) fn note_erase(&mut self, medium: &mut Medium, partition: u8, range: Range<u64>, now_ns: u64) {
        let bytes = range.end - range.start;
        if !self.follows() || bytes / SECTOR_BYTES > LONGEST_ERASE {
            return self.forget(partition, range.start, bytes);
        }
        self.begin(now_ns);
        for at in range.step_by(SECTOR_BYTES as usize) {
            self.note(medium, partition, at, true);
        }
    }

    /// Removes `bytes` erased bytes of this partition, from byte address `at` on, from the journal:
    /// the old content of these sectors cannot come back.
    fn forget(&mut self, partition: u8, at: u64, bytes: u64) {
        let sectors = at / SECTOR_BYTES..(at.saturating_add(bytes)).div_ceil(SECTOR_BYTES);
        self.entries
            .retain(|entry| entry.what.partition != partition || !sectors.contains(&entry.what.sector));
    }

    /// Removes from the journal the versions of sectors that are in the flash at `now_ns`, so that
    /// no power cut can lose them, and every older version of the same sectors.
    fn tidy(&mut self, now_ns: u64) {
        let Journal { entries, spare, safe, .. } = self;
        safe.clear();
        // The loop goes from the newest entry to the oldest: a safe version makes all older
        // versions of its sector obsolete. Neighbouring entries mostly belong to neighbouring
        // sectors, so that the word of the map for the present 64 sectors is looked up once.
        let (mut stretch, mut sectors) = ((0, u64::MAX), 0);
        for entry in entries.iter_mut().rev() {
            let place = (entry.what.partition, entry.what.sector / STRETCH);
            if place != stretch {
                if sectors != 0 {
                    safe.insert(stretch, sectors);
                }
                (stretch, sectors) = (place, safe.get(&place).copied().unwrap_or(0));
            }
            let sector = 1 << (entry.what.sector % STRETCH);
            entry.goes = entry.safe_ns <= now_ns || sectors & sector != 0;
            if entry.goes {
                sectors |= sector;
            }
        }
        entries.retain_mut(|entry| {
            if entry.goes
                && spare.len() < SPARE
                && let Content::Kept(room) = std::mem::replace(&mut entry.before, Content::Unreadable)
            {
                spare.push(room);
            }
            !entry.goes
        });
    }

    /// Returns the versions of sectors that a power cut at this time could lose or tear, oldest
    /// first.
    pub(crate) fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        self.tidy(now_ns);
        self.entries.iter().map(|entry| entry.what).collect()
    }

    /// Cuts the power: `keep` decides what is left of each written version of a sector that is not
    /// in the flash yet. With [`Journal::neighbours`] the cut also damages other sectors of the
    /// same flash page.
    pub(crate) fn cut(&mut self, media: &mut dyn Media, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        let stake = self.at_stake(now_ns);
        let shorn = self.shorn;
        self.decide(media, now_ns, &mut |what| match keep(what) {
            Kept::New if shorn && what.stage == Stage::InFlight => match mixed(what.seq) % 3 {
                0 => Kept::New,
                1 => Kept::Mixed,
                _ => Kept::Torn,
            },
            kept => kept,
        });
        if !self.neighbours {
            return;
        }
        for what in stake.iter().filter(|what| what.stage == Stage::InFlight) {
            let first = what.sector / PAGE_SECTORS * PAGE_SECTORS;
            for sector in first..first + PAGE_SECTORS {
                let own = stake.iter().any(|s| s.partition == what.partition && s.sector == sector);
                if let Some(medium) = media.of(what.partition).filter(|_| !own) {
                    medium.spoil(sector);
                }
            }
        }
    }

    /// Interrupts the flush under way: sectors that are not in the flash at this time stay in the
    /// cache.
    pub(crate) fn interrupt_flush(&mut self, now_ns: u64) {
        for entry in self.entries.iter_mut() {
            if entry.what.stage == Stage::Cached && entry.safe_ns > now_ns {
                entry.safe_ns = u64::MAX;
                self.all_safe_ns = u64::MAX;
            }
        }
    }

    /// Lets `keep` decide what is left of every version of a sector that is not in the flash yet,
    /// and writes what is left to the media. Afterwards the journal is empty.
    pub(crate) fn decide(
        &mut self,
        media: &mut dyn Media,
        now_ns: u64,
        keep: &mut dyn FnMut(&AtStake) -> Kept,
    ) {
        self.tidy(now_ns);
        self.losses.0 += 1;
        self.losses.1 += u64::from(self.entries.iter().any(|entry| entry.what.stage == Stage::Cached));
        // The loop goes from the newest entry to the oldest: the content that one version wrote is
        // the content that the next newer version of the sector replaced.
        let mut after: BTreeMap<(u8, u64), Content> = BTreeMap::new();
        let mut versions: Vec<(AtStake, Content)> = Vec::with_capacity(self.entries.len());
        let mut first: BTreeMap<(u8, u64), Content> = BTreeMap::new();
        for entry in self.entries.drain(..).rev() {
            let place = (entry.what.partition, entry.what.sector);
            let brought = match after.insert(place, entry.before.clone()) {
                Some(content) => content,
                None => now(media, place),
            };
            versions.push((entry.what, brought));
            first.insert(place, entry.before);
        }
        for (what, brought) in versions.into_iter().rev() {
            let place = (what.partition, what.sector);
            let Some(left) = first.get_mut(&place) else { continue };
            match keep(&what) {
                Kept::New => *left = brought,
                Kept::Torn if !what.reliable => *left = Content::Unreadable,
                Kept::Mixed if !what.reliable => {
                    *left = match (left.bytes(what.sector), brought.bytes(what.sector)) {
                        (Some(old), Some(mut new)) => {
                            let half = new.len() / 2;
                            new[half..].copy_from_slice(&old[half..]);
                            Content::Kept(Box::new(new))
                        }
                        _ => Content::Unreadable,
                    };
                }
                _ => {}
            }
        }
        for ((partition, sector), content) in first {
            if let Some(medium) = media.of(partition) {
                // The card has no power, so that a failure cannot be reported to the host.
                let _ = match content.bytes(sector) {
                    Some(bytes) => medium.write(sector * SECTOR_BYTES, &bytes[..]),
                    None => {
                        medium.spoil(sector);
                        Ok(())
                    }
                };
                let _ = medium.commit();
            }
        }
        self.open = self.seq;
        self.all_safe_ns = 0;
    }
}

/// Default callback of a power cut: each written version of a sector that is not in the flash yet
/// is lost, and the sector has its content before the write.
pub(crate) fn lose(_: &AtStake) -> Kept {
    Kept::Old
}

/// Returns which content a sector has after a reset while the power stays on: the cache loses its
/// sectors, but sectors that are being programmed get their new content.
pub(crate) fn reset(at_stake: &AtStake) -> Kept {
    if at_stake.stage == Stage::Cached { Kept::Old } else { Kept::New }
}

/// Reads the sector at this byte address of the medium into the buffer `room`, and returns its
/// content.
fn read(medium: &mut Medium, at: u64, mut room: Box<Bytes>) -> Content {
    match medium.read(at, &mut room[..]) {
        Ok(()) => Content::Kept(room),
        Err(_) => Content::Unreadable,
    }
}

/// Returns the present content of the sector (partition, sector number).
fn now(media: &mut dyn Media, (partition, sector): (u8, u64)) -> Content {
    match media.of(partition) {
        Some(medium) => read(medium, sector * SECTOR_BYTES, Box::new([0; SECTOR_BYTES as usize])),
        None => Content::Unreadable,
    }
}

/// Returns pseudo-random bits that depend only on `number` (SplitMix).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
