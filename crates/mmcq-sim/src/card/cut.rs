//! What a power cut may lose: sectors that were sent and are not yet safe in the flash.
//!
//! A card that was given faults ([`super::Card::set_faults`]) tracks every sector from its arrival
//! until it is safe in the flash. With a volatile cache switched on it always does. The medium
//! holds the newest content, as reads see it; the [`Journal`] holds the content before. At a cut a
//! chooser decides, sector by sector, what is left.
//!
//! Writes in the cache drain by themselves, in an order that the card chooses; a flush drains the
//! rest. There is no order between sectors. [eMMC 6.6.31] [SD 5.8.2]

use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use super::medium::content::{Bytes, Short};
use super::medium::{Medium, SECTOR_BYTES};

/// State of a sector on its way to the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The write is under way: data are on the bus, or the card is busy programming. The sector may
    /// be torn by a cut.
    InFlight,
    /// The write is over and the sector is in the volatile cache. A cut may lose it, but not tear
    /// it.
    Cached,
}

/// A version of a sector that a power cut decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtStake {
    /// Partition, numbered as in PARTITION_CONFIG of an eMMC: 0 the user area, 1 and 2 boot, 4 to 7
    /// general purpose. Always 0 on an SD card.
    pub partition: u8,
    /// Number of the sector of 512 bytes.
    pub sector: u64,
    /// Number of the version, in order of arrival. A later version of a sector replaces an earlier
    /// one.
    pub seq: u64,
    /// State on the way to the flash.
    pub stage: Stage,
    /// Whether it was sent by a reliable write: old or new after a cut, never torn [eMMC 6.6.22].
    pub reliable: bool,
}

/// What a power cut leaves of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kept {
    /// The content before it.
    Old,
    /// The whole version.
    New,
    /// Nothing readable, until the sector is written again. After a reliable write: the content
    /// before.
    Torn,
    /// The first half of the version, and the second half of the content before. After a reliable
    /// write: the content before.
    Mixed,
}

/// Content of a sector.
#[derive(Clone, Debug)]
enum Content {
    Unreadable,
    /// Content that is generated from a number.
    Short(Short),
    Kept(Box<Bytes>),
}

impl Content {
    /// Returns the bytes; `None` if the sector cannot be read.
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
    /// Whether the cache has lost the version without an error. No flush writes it then.
    lost: bool,
    /// Whether the entry is to be removed.
    goes: bool,
}

/// The media of a card, by partition number.
pub(crate) trait Media {
    /// Returns the medium of this partition.
    fn of(&mut self, partition: u8) -> Option<&mut Medium>;
}

impl Media for Medium {
    fn of(&mut self, partition: u8) -> Option<&mut Medium> {
        (partition == 0).then_some(self)
    }
}

/// Sectors of a flash page that is programmed as a whole: 16 KiB.
const PAGE_SECTORS: u64 = 32;
/// Sectors of a stretch, one bit each.
const STRETCH: u64 = u64::BITS as u64;
/// Most sectors in the journal. Beyond that, the oldest count as safe.
const LONGEST: usize = 1 << 17;
/// Most sectors of an erase that a cut may undo.
const LONGEST_ERASE: u64 = 1 << 14;
/// Most free sector buffers that are kept for reuse.
const SPARE: usize = 1 << 15;
/// Time in ns within which a cached sector drains by itself, if it does.
const DRAIN_NS: u64 = 20_000_000;

/// Journal of the sectors that are not yet safe in the flash.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    /// Whether writes that bypass the cache are tracked too.
    pub(crate) follow: bool,
    /// Whether the volatile cache is on.
    pub(crate) volatile: bool,
    /// Whether a cut destroys the whole page around each sector in flight.
    pub(crate) neighbours: bool,
    /// Whether a cut may tear a sector in flight even if it was to be kept whole.
    pub(crate) shorn: bool,
    /// Capacity of the cache in sectors.
    pub(crate) capacity: usize,
    /// Number of decisions about everything at stake, and of those with something in the cache.
    pub(crate) losses: (u64, u64),
    /// Entries, oldest first.
    entries: VecDeque<Entry>,
    seq: u64,
    /// Number of the first version of the command under way.
    open: u64,
    /// Time in ns at which all versions before `open` are safe.
    all_safe_ns: u64,
    /// Number of entries at which the journal is tidied.
    tidy_at: usize,
    /// Buffers of sectors that are safe, for reuse.
    #[allow(clippy::vec_box, reason = "a box is handed on to an entry as it is")]
    spare: Vec<Box<Bytes>>,
    /// Used while tidying: the safe sectors, one bit each, by partition and number of the stretch.
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
    /// Returns whether a write must be recorded.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.follow || self.volatile || !self.entries.is_empty()
    }

    /// Begins a write command.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        if self.open != self.seq {
            // The command before was broken off.
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

    /// Records a sector before it is overwritten.
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

    /// Ends the data of a write command; the card is busy until `busy_ns`. `past_cache`: the data
    /// go to the flash at once. `lost`: the cache loses them without an error.
    pub(crate) fn end(&mut self, busy_ns: u64, past_cache: bool, lost: bool) {
        let cached = self.volatile && !past_cache;
        for entry in self.entries.iter_mut().rev().take_while(|entry| entry.what.seq >= self.open) {
            entry.safe_ns = busy_ns;
            if cached {
                entry.what.stage = Stage::Cached;
                // A quarter stays until a flush, or until there is no room any more.
                let luck = mixed(entry.what.seq);
                entry.lost = lost;
                let drain_ns = if lost || luck & 3 == 0 { u64::MAX } else { (luck >> 2) % DRAIN_NS };
                entry.safe_ns = busy_ns.saturating_add(drain_ns);
            }
            self.all_safe_ns = self.all_safe_ns.max(entry.safe_ns);
        }
        self.open = self.seq;
    }

    /// Makes everything in the cache safe from this time on.
    pub(crate) fn flush(&mut self, until_ns: u64) {
        for entry in self.entries.iter_mut().filter(|entry| entry.what.stage == Stage::Cached && !entry.lost)
        {
            entry.safe_ns = entry.safe_ns.min(until_ns);
        }
        self.all_safe_ns = self.entries.iter().map(|entry| entry.safe_ns).max().unwrap_or(0);
    }

    /// Fails a flush: half of the cache goes to the flash, the cache drops the other half. Reads
    /// return the content before for that half.
    pub(crate) fn fail_flush(&mut self, media: &mut dyn Media, now_ns: u64) {
        self.decide(media, now_ns, &mut |what| match what.stage {
            Stage::Cached if mixed(what.seq ^ 0xf1) & 1 == 0 => Kept::Old,
            _ => Kept::New,
        });
    }

    /// Records sectors before an erase changes them: until it is safe, a cut may undo it in each
    /// sector. A whole sector is erased or is not. An erase of more sectors than the journal is for
    /// is safe at once.
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

    /// Removes erased sectors from the journal: their old content cannot come back.
    fn forget(&mut self, partition: u8, at: u64, bytes: u64) {
        let sectors = at / SECTOR_BYTES..(at.saturating_add(bytes)).div_ceil(SECTOR_BYTES);
        self.entries
            .retain(|entry| entry.what.partition != partition || !sectors.contains(&entry.what.sector));
    }

    /// Removes the versions that are safe, and the older versions that they replace.
    fn tidy(&mut self, now_ns: u64) {
        let Journal { entries, spare, safe, .. } = self;
        safe.clear();
        // From the newest to the oldest: what is safe lies over all that come later here. Sectors
        // mostly come in runs: those of the stretch at hand are looked for once.
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

    /// Returns what a cut at this time would decide about, oldest first.
    pub(crate) fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        self.tidy(now_ns);
        self.entries.iter().map(|entry| entry.what).collect()
    }

    /// Cuts the power: decides everything at stake, and may damage sectors that were not at stake.
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

    /// Interrupts the flush under way: what is not safe by now stays in the cache.
    pub(crate) fn interrupt_flush(&mut self, now_ns: u64) {
        for entry in self.entries.iter_mut() {
            if entry.what.stage == Stage::Cached && entry.safe_ns > now_ns {
                entry.safe_ns = u64::MAX;
                self.all_safe_ns = u64::MAX;
            }
        }
    }

    /// Decides about everything at stake; afterwards nothing is at stake.
    pub(crate) fn decide(
        &mut self,
        media: &mut dyn Media,
        now_ns: u64,
        keep: &mut dyn FnMut(&AtStake) -> Kept,
    ) {
        self.tidy(now_ns);
        self.losses.0 += 1;
        self.losses.1 += u64::from(self.entries.iter().any(|entry| entry.what.stage == Stage::Cached));
        // From the newest to the oldest: what each version brought is what the next one found.
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
                // The supply is gone: no host is there to be told of a failure.
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

/// Default decision of a power cut: only what is safe is left.
pub(crate) fn lose(_: &AtStake) -> Kept {
    Kept::Old
}

/// Decision of a reset under power: the cache is lost, but programming is finished.
pub(crate) fn reset(at_stake: &AtStake) -> Kept {
    if at_stake.stage == Stage::Cached { Kept::Old } else { Kept::New }
}

/// Reads the content at this byte of the medium, into `room`.
fn read(medium: &mut Medium, at: u64, mut room: Box<Bytes>) -> Content {
    match medium.read(at, &mut room[..]) {
        Ok(()) => Content::Kept(room),
        Err(_) => Content::Unreadable,
    }
}

/// Returns the present content of this sector.
fn now(media: &mut dyn Media, (partition, sector): (u8, u64)) -> Content {
    match media.of(partition) {
        Some(medium) => read(medium, sector * SECTOR_BYTES, Box::new([0; SECTOR_BYTES as usize])),
        None => Content::Unreadable,
    }
}

/// Returns bits without a pattern (SplitMix).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
