//! A run that can be repeated and made shorter: a machine, a list of operations, and what goes
//! wrong.

use super::machine::Keeps;
pub use super::setup::{BusyBy, Chip, Defer, Host, Place, Setup};
use mmcq::card::SdQueue;
use mmcq_sim::checker::Asked;
use mmcq_sim::faults::{Plan, Point, Shot, Strike};
use mmcq_sim::world::Stream;
use std::fmt;

/// Requests under way at most: slots of the engine.
pub const SLOTS: usize = 32;
/// Blocks of the longest request of most campaigns.
pub const LONGEST: u32 = 64;
/// ... and of the campaign of [large](super::large) requests: 1 MiB.
pub const LARGEST: u32 = 2048;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What.
    pub asked: Asked,
    /// Partition of an eMMC, as in PARTITION_CONFIG; 0 is the user area. In another there are only
    /// reads and writes.
    pub area: u8,
    /// First sector, in the window.
    pub at: u32,
    /// Sectors.
    pub blocks: u32,
    /// Only when all before it are answered.
    pub alone: bool,
    /// It is dropped after so many events; 0 for never.
    pub dropped_after: u16,
    /// Waited for by the name of its slot instead of a future.
    pub by_slot: bool,
    /// So long before it nothing is asked, in microseconds; only where it is alone.
    pub rest_us: u32,
}

impl Operation {
    /// A request of the user area with nothing special about it.
    pub const fn plain(asked: Asked, at: u32, blocks: u32) -> Operation {
        Operation { asked, area: 0, at, blocks, alone: false, dropped_after: 0, by_slot: false, rest_us: 0 }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.asked {
            Asked::Read => write!(f, "read {}+{}", self.at, self.blocks)?,
            Asked::Write { durable: false } => write!(f, "write {}+{}", self.at, self.blocks)?,
            Asked::Write { durable: true } => write!(f, "write durable {}+{}", self.at, self.blocks)?,
            Asked::Flush => f.write_str("flush")?,
            Asked::Erase => write!(f, "erase {}+{}", self.at, self.blocks)?,
            Asked::Discard => write!(f, "discard {}+{}", self.at, self.blocks)?,
            Asked::Zero => write!(f, "zero {}+{}", self.at, self.blocks)?,
        }
        match self.area {
            0 => {}
            boot @ (1 | 2) => write!(f, " of boot area {boot}")?,
            general => write!(f, " of general purpose partition {}", general.saturating_sub(3))?,
        }
        if self.alone {
            f.write_str(", alone")?;
        }
        if self.rest_us > 0 {
            write!(f, ", {} us later", self.rest_us)?;
        }
        match self.dropped_after {
            0 => Ok(()),
            events => write!(f, ", dropped after {events} events"),
        }
    }
}

/// The partitions of the campaign's cards that are read and written as blocks, beside the user
/// area: boot areas and general purpose partitions.
#[must_use]
pub fn areas(card: usize) -> &'static [u8] {
    match super::run::EVERY_CARD[card] {
        "emmc-hs200" => &[1, 2, 4, 5],
        name if name.starts_with("sd") => &[],
        _ => &[1, 2],
    }
}

/// Share of each kind of request, in a run.
#[derive(Clone, Copy, Debug)]
struct Mix {
    read: u64,
    write: u64,
    durable: u64,
    flush: u64,
    other: u64,
    alone: f64,
    dropped: f64,
    most: u32,
}

/// Something that happens to the whole machine, at its nth event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Event of the run, from 1.
    pub at: u64,
    /// What it leaves of what was under way.
    pub keeps: Keeps,
}

/// What goes wrong with controller and card.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Luck {
    /// Nothing.
    #[default]
    Good,
    /// These, by chance.
    Chances(u64, Vec<(Point, Strike, f64)>),
    /// These.
    Shots(Vec<Shot>),
    /// From this event of the point on, always.
    Always(Shot),
    /// The first brings about what the second strikes from its event on, always.
    Brought(Shot, Shot),
}

impl Luck {
    /// As the models take it.
    #[must_use]
    pub fn plan(&self) -> Plan {
        match self {
            Luck::Good => Plan::none(),
            Luck::Chances(seed, chances) => {
                chances.iter().fold(Plan::seeded(*seed), |plan, (point, strike, share)| {
                    plan.chance(*point, *strike, *share)
                })
            }
            Luck::Shots(shots) => Plan::none().shots(shots),
            Luck::Always(shot) => Plan::none().from(shot.point, shot.nth, shot.strike),
            Luck::Brought(first, shot) => {
                Plan::none().shots(&[*first]).from(shot.point, shot.nth, shot.strike)
            }
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Where it came from, and of what its data are made.
    pub seed: u64,
    /// The machine.
    pub setup: Setup,
    /// Requests in order.
    pub operations: Vec<Operation>,
    /// Power cuts in order; one more comes at the end.
    pub cuts: Vec<Cut>,
    /// The rest that goes wrong.
    pub luck: Luck,
    /// The first cut is the end.
    pub one_life: bool,
    /// Looks at every event what a cut would decide about.
    pub dry: bool,
    /// At this event the card is taken out.
    pub visit: Option<(u64, Visit)>,
}

/// What comes into the slot then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Another card.
    Swap,
    /// The same one, and out again, so many times.
    Bounce(u8),
}

/// What a campaign wants of its cases.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Mean chance of a kind of fault, where it is on, to strike at an event that it can strike.
    pub faults: f64,
    /// Mean number of cuts that are drawn for a run beside the one at its end; those beyond its end
    /// do not happen.
    pub cuts: f64,
    /// Mean number of requests.
    pub operations: u32,
    /// Cards to choose from.
    pub cards: usize,
    /// Only this one.
    pub card: Option<usize>,
}

/// What may go wrong by chance in a random run: faults that end, so that the run goes on after
/// them.
pub const STRIKES: [(Point, Strike); 23] = [
    (Point::Command, Strike::Lost),
    (Point::Response, Strike::Lost),
    (Point::Response, Strike::Crc),
    (Point::Response, Strike::EndBit),
    (Point::Response, Strike::Index),
    (Point::Response, Strike::Status(1 << 19)),
    (Point::ReadBlock, Strike::Crc),
    (Point::ReadBlock, Strike::EndBit),
    (Point::ReadBlock, Strike::Late(3_000_000)),
    (Point::WriteBlock, Strike::Crc),
    (Point::WriteBlock, Strike::NoStatus),
    (Point::Busy, Strike::Late(20_000_000)),
    (Point::Interrupt, Strike::Lost),
    (Point::Interrupt, Strike::Spurious(2)),
    (Point::Interrupt, Strike::Late(200_000)),
    (Point::Dma, Strike::Fail),
    (Point::AutoCommand, Strike::Lost),
    (Point::AutoCommand, Strike::Crc),
    (Point::Reset, Strike::Late(50_000)),
    (Point::ReadBlock, Strike::CrcAndEnd),
    (Point::WriteBlock, Strike::CrcAndEnd),
    (Point::Busy, Strike::Hidden),
    (Point::Medium, Strike::Fail),
];

/// Events of a run per request, roughly: where cuts are placed.
const EVENTS: u64 = 9;

impl Case {
    /// How the queue of an SD card is used here.
    #[must_use]
    pub fn sd_queue(&self) -> SdQueue {
        let mut random = Stream::new(self.seed, "sd queue");
        let mut one_of = |values: [u8; 2]| if random.chance(0.5) { values[0] } else { values[1] };
        let (sequential, writes, self_test) = (one_of([0, 1]) == 1, one_of([1, 4]), one_of([0, 3]).into());
        SdQueue::DEFAULT.any(true).sequential(sequential).writes(writes).self_test(self_test)
    }

    /// The run of this seed.
    #[must_use]
    pub fn draw(seed: u64, wishes: &Wishes) -> Case {
        let random = &mut Stream::new(seed, "case");
        let card = wishes.card.unwrap_or_else(|| random.below(wishes.cards as u64) as usize);
        let mut setup = Setup::draw(random, card);
        let other = &mut Stream::new(seed, "supervisor");
        setup.supervisor = other.chance(0.85);
        let mix = Mix {
            read: 1 + random.below(8),
            write: 1 + random.below(8),
            durable: if random.chance(0.5) { 1 + random.below(2) } else { 0 },
            flush: if random.chance(0.7) { 1 } else { 0 },
            other: if random.chance(0.3) { 1 } else { 0 },
            alone: if random.chance(0.2) { 0.3 } else { 0.0 },
            dropped: if random.chance(0.2) { 0.05 } else { 0.0 },
            most: [1, 2, 8, LONGEST][random.below(4) as usize].min(setup.window),
        };
        let count = wishes.operations / 2 + random.below(u64::from(wishes.operations.max(1))) as u32;
        let mut operations: Vec<Operation> =
            (0..count).map(|_| Operation::draw(random, &mix, setup.window)).collect();
        Self::scatter(&mut operations, card, &mut Stream::new(seed, "areas"));
        let mut cuts = Vec::new();
        let events = u64::from(count) * EVENTS;
        let mut wanted = wishes.cuts;
        while random.chance(wanted) {
            let luck = Keeps::Luck(random.bits());
            let keeps = [Keeps::Nothing, Keeps::Everything, luck, luck][random.below(4) as usize];
            cuts.push(Cut { at: 1 + random.below(events), keeps });
            wanted -= 1.0;
        }
        cuts.sort_by_key(|cut| cut.at);
        let mut luck = Self::luck(random, other, wishes.faults);
        Self::fail_flushes(&mut luck, &mut Stream::new(seed, "flushes"), wishes.faults);
        Case {
            seed,
            setup,
            operations,
            cuts,
            luck,
            one_life: false,
            dry: false,
            visit: Self::visit(other, &setup, events, wishes.faults),
        }
    }

    /// In some runs with an eMMC some of the reads and writes go to its other partitions.
    fn scatter(operations: &mut [Operation], card: usize, random: &mut Stream) {
        let areas = areas(card);
        if areas.is_empty() || !random.chance(0.4) {
            return;
        }
        // Often one after the other, now and then one alone between those of the user area.
        let (share, stays) = ([0.05, 0.2, 0.7][random.below(3) as usize], 0.6);
        let mut area = 0;
        for operation in operations {
            if !(area > 0 && random.chance(stays)) {
                let there = areas[random.below(areas.len() as u64) as usize];
                area = if random.chance(share) { there } else { 0 };
            }
            operation.asked = match operation.asked {
                _ if area == 0 => continue,
                Asked::Write { .. } => Asked::Write { durable: false },
                Asked::Read => Asked::Read,
                _ => continue,
            };
            operation.area = area;
        }
    }

    /// The partitions that requests go to; 0, the user area, is not among them.
    #[must_use]
    pub fn areas(&self) -> Vec<u8> {
        let mut areas: Vec<u8> = self.operations.iter().map(|operation| operation.area).collect();
        areas.sort_unstable();
        areas.dedup();
        areas.retain(|area| *area > 0);
        areas
    }

    /// Some of the things that can go wrong, each with a share of its own; one run in five goes
    /// well.
    fn luck(random: &mut Stream, other: &mut Stream, faults: f64) -> Luck {
        if faults <= 0.0 || random.chance(0.2) {
            return Luck::Good;
        }
        let mut chances = Vec::new();
        for (point, strike) in STRIKES {
            if random.chance(0.3) {
                chances.push((point, strike, faults * random.exponential()));
            }
        }
        // Supply that is lost costs seconds and all that was not flushed: more seldom than the
        // others.
        if other.chance(0.2) {
            chances.push((Point::Response, Strike::BrownOut, 0.05 * faults * other.exponential()));
        }
        Luck::Chances(random.bits(), chances)
    }

    /// In some runs with faults the card fails flushes, beside what else goes wrong.
    fn fail_flushes(luck: &mut Luck, random: &mut Stream, faults: f64) {
        if let Luck::Chances(_, chances) = luck
            && random.chance(0.1)
        {
            let share = (20.0 * faults * random.exponential()).min(1.0);
            chances.push((Point::Cache, Strike::Fail, share));
        }
    }

    /// Now and then a person takes a card out that can be.
    fn visit(random: &mut Stream, setup: &Setup, events: u64, faults: f64) -> Option<(u64, Visit)> {
        if faults <= 0.0 || !random.chance(0.1) {
            return None;
        }
        let visit = match random.below(3) {
            // A soldered card is swapped without a word to the host.
            _ if !setup.is_removable() => Visit::Swap,
            0 => Visit::Swap,
            bounces => Visit::Bounce(4 * bounces as u8 + 1 + random.below(2) as u8),
        };
        Some((1 + random.below(events), visit))
    }
}

impl Operation {
    fn draw(random: &mut Stream, mix: &Mix, window: u32) -> Operation {
        let sum = mix.read + mix.write + mix.durable + mix.flush + mix.other;
        let mut pick = random.below(sum);
        let mut is = |share: u64| {
            let hit = pick < share;
            pick = pick.wrapping_sub(share);
            hit
        };
        let asked = match () {
            () if is(mix.read) => Asked::Read,
            () if is(mix.write) => Asked::Write { durable: false },
            () if is(mix.durable) => Asked::Write { durable: true },
            () if is(mix.flush) => Asked::Flush,
            () => [Asked::Erase, Asked::Discard, Asked::Zero][random.below(3) as usize],
        };
        let blocks = if random.chance(0.5) { 1 } else { 1 + random.below(u64::from(mix.most)) as u32 };
        let at = random.below(u64::from(window - blocks + 1)) as u32;
        let (at, blocks) = if asked == Asked::Flush { (0, 0) } else { (at, blocks) };
        let dropped_after = if random.chance(mix.dropped) { 1 + random.below(40) as u16 } else { 0 };
        Operation {
            asked,
            area: 0,
            at,
            blocks,
            alone: random.chance(mix.alone),
            dropped_after,
            by_slot: random.chance(0.3),
            rest_us: 0,
        }
    }
}
