//! What a power cut may take: sectors that were sent and are not safe yet.
//!
//! A card that was given faults ([`super::Card::set_faults`]) follows every sector from its arrival
//! until it is in the flash for good; with a volatile cache switched on it does so always. The
//! medium holds the newest content, as reads see it; the [`Journal`] holds what was there before.
//! At a cut a chooser decides, sector by sector, what is left.
//!
//! Writes in the cache drain by themselves, in an order that is the card's own; a flush drains the
//! rest. Between sectors there is no order. [eMMC 6.6.31] [SD 5.8.2]

use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap, VecDeque};

use super::medium::content::{Bytes, Short};
use super::medium::{Medium, SECTOR_BYTES};

/// How far a sector has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Its write is under way: data still move, or the card is busy with them. It may be torn.
    InFlight,
    /// Its write is over; it sits in the volatile cache. It may be lost, but it is not torn.
    Cached,
}

/// A version of a sector that a cut decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtStake {
    /// As in PARTITION_CONFIG of an eMMC: 0 the user area, 1 and 2 boot, 4 to 7 general purpose. SD
    /// cards have 0.
    pub partition: u8,
    /// Number of the sector of 512 bytes.
    pub sector: u64,
    /// Counts the versions in order of their arrival; a later one of the same sector lies over an
    /// earlier one.
    pub seq: u64,
    /// How far it has come.
    pub stage: Stage,
    /// By a reliable write: old or new, never torn [eMMC 6.6.22].
    pub reliable: bool,
}

/// What is left of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kept {
    /// What was there before it.
    Old,
    /// All of it.
    New,
    /// Nothing that can be read, until the sector is written again. Of a reliable write the old is
    /// left.
    Torn,
    /// Its first half, and the second of what was there before. Of a reliable write the old is
    /// left.
    Mixed,
}

/// Of a sector.
#[derive(Clone, Debug)]
enum Content {
    Unreadable,
    /// Its bytes follow from a number.
    Short(Short),
    Kept(Box<Bytes>),
}

impl Content {
    /// Its bytes, if it can be read.
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
    /// In the flash from then on.
    safe_ns: u64,
    /// The cache has lost it without a word: no flush helps.
    lost: bool,
    /// Tidied away.
    goes: bool,
}

/// The media of a card, by number of the partition.
pub(crate) trait Media {
    /// The medium of this partition.
    fn of(&mut self, partition: u8) -> Option<&mut Medium>;
}

impl Media for Medium {
    fn of(&mut self, partition: u8) -> Option<&mut Medium> {
        (partition == 0).then_some(self)
    }
}

/// Sectors of a page that is programmed as one, 16 KiB.
const PAGE_SECTORS: u64 = 32;
/// Sectors of a stretch, one for each bit.
const STRETCH: u64 = u64::BITS as u64;
/// More sectors than this are not kept in mind: the oldest are taken as safe.
const LONGEST: usize = 1 << 17;
/// Memory of so many sectors is kept for the next ones.
const SPARE: usize = 1 << 15;
/// In the cache, sectors drain by themselves within this time, or not at all.
const DRAIN_NS: u64 = 20_000_000;

/// Sectors that are not safe.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    /// Follow writes that go past the cache as well.
    pub(crate) follow: bool,
    /// The cache is on.
    pub(crate) volatile: bool,
    /// A cut spoils the page around each sector in flight.
    pub(crate) neighbours: bool,
    /// A cut keeps of a sector in flight what it likes.
    pub(crate) shorn: bool,
    /// Sectors that the cache holds.
    pub(crate) capacity: usize,
    /// Times that everything was decided, and those with something in the cache.
    pub(crate) losses: (u64, u64),
    /// Oldest first.
    entries: VecDeque<Entry>,
    seq: u64,
    /// First version of the command under way.
    open: u64,
    /// All versions before `open` are safe then.
    all_safe_ns: u64,
    /// Tidied up when there are so many entries.
    tidy_at: usize,
    /// Memory of sectors that are safe, for the next ones.
    #[allow(clippy::vec_box, reason = "a box is handed on to an entry as it is")]
    spare: Vec<Box<Bytes>>,
    /// For tidying up: what is safe, a bit for each sector of a stretch, by partition and number of
    /// the stretch.
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
    /// Is there anything to be done at a write?
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        self.follow || self.volatile || !self.entries.is_empty()
    }

    /// A write command begins.
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

    /// A sector is about to be written over.
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

    /// The write command's data end; the card is busy until then. `past_cache`: they go to the
    /// flash at once. `lost`: the cache forgets them.
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

    /// All that is in the cache is in the flash from this time on.
    pub(crate) fn flush(&mut self, until_ns: u64) {
        for entry in self.entries.iter_mut().filter(|entry| entry.what.stage == Stage::Cached && !entry.lost)
        {
            entry.safe_ns = entry.safe_ns.min(until_ns);
        }
        self.all_safe_ns = self.entries.iter().map(|entry| entry.safe_ns).max().unwrap_or(0);
    }

    /// A flush fails: the cache gives up what it could not write, which is half of it, and the other
    /// half is in the flash. Reads bring what was there before.
    pub(crate) fn fail_flush(&mut self, media: &mut dyn Media, now_ns: u64) {
        self.decide(media, now_ns, &mut |what| match what.stage {
            Stage::Cached if mixed(what.seq ^ 0xf1) & 1 == 0 => Kept::Old,
            _ => Kept::New,
        });
    }

    /// These sectors were erased: what was there before does not come back.
    pub(crate) fn forget(&mut self, partition: u8, at: u64, bytes: u64) {
        let sectors = at / SECTOR_BYTES..(at.saturating_add(bytes)).div_ceil(SECTOR_BYTES);
        self.entries
            .retain(|entry| entry.what.partition != partition || !sectors.contains(&entry.what.sector));
    }

    /// Forgets what is safe, and what lies under it.
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

    /// What a cut at this time would decide about, oldest first.
    pub(crate) fn at_stake(&mut self, now_ns: u64) -> Vec<AtStake> {
        self.tidy(now_ns);
        self.entries.iter().map(|entry| entry.what).collect()
    }

    /// The supply goes: everything is decided, and more may be damaged than was at stake.
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

    /// The flush that is going on ends here: what is not safe by now stays in the cache.
    pub(crate) fn interrupt_flush(&mut self, now_ns: u64) {
        for entry in self.entries.iter_mut() {
            if entry.what.stage == Stage::Cached && entry.safe_ns > now_ns {
                entry.safe_ns = u64::MAX;
                self.all_safe_ns = u64::MAX;
            }
        }
    }

    /// Everything is decided now; afterwards nothing is at stake.
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

/// What a cut leaves without a chooser: nothing that is not safe.
pub(crate) fn lose(_: &AtStake) -> Kept {
    Kept::Old
}

/// What a reset leaves, under power: the cache is empty, but what is being programmed is finished.
pub(crate) fn reset(at_stake: &AtStake) -> Kept {
    if at_stake.stage == Stage::Cached { Kept::Old } else { Kept::New }
}

/// What the medium holds at this byte; `room` is for it.
fn read(medium: &mut Medium, at: u64, mut room: Box<Bytes>) -> Content {
    match medium.read(at, &mut room[..]) {
        Ok(()) => Content::Kept(room),
        Err(_) => Content::Unreadable,
    }
}

/// What this sector holds now.
fn now(media: &mut dyn Media, (partition, sector): (u8, u64)) -> Content {
    match media.of(partition) {
        Some(medium) => read(medium, sector * SECTOR_BYTES, Box::new([0; SECTOR_BYTES as usize])),
        None => Content::Unreadable,
    }
}

/// Bits without a pattern (splitmix).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
