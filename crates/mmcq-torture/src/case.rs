//! A case: a machine, a list of requests, and what goes wrong. A case can be repeated, and made
//! shorter.

use super::machine::Keeps;
pub use super::setup::{BusyBy, Chip, Defer, Host, Place, Refuses, Setup, Unused};
use super::usage::{Act, GivesUp};
use mmcq::card::SdQueue;
use mmcq::sched::Origin;
use mmcq_sim::checker::Asked;
use mmcq_sim::faults::{Plan, Point, Shot, Strike};
use mmcq_sim::world::Stream;
use std::fmt;

/// Number of slots of the engine, which is the largest number of requests under way.
pub const SLOTS: usize = 32;
/// Number of blocks in the longest request of most campaigns.
pub const LONGEST: u32 = 64;
/// Number of blocks in the longest request of the campaign of [large](super::large) requests: 1
/// MiB.
pub const LARGEST: u32 = 2048;

/// One request of a case, with its time and with how its client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Kind of the request: read, write, flush, erase, discard or zero.
    pub asked: Asked,
    /// Number of the partition on an eMMC, as in PARTITION_CONFIG; 0 is the user area. Other
    /// partitions get only reads and writes.
    pub area: u8,
    /// First sector of the request, counted from the beginning of the case's window of sectors.
    pub at: u32,
    /// Number of sectors of the request.
    pub blocks: u32,
    /// Whether the request is submitted only after all earlier requests are answered.
    pub alone: bool,
    /// Number of events of the run after the submission at which the client drops the request's
    /// future; 0: never.
    pub dropped_after: u16,
    /// Whether the client waits for the answer by the slot's name
    /// ([`SlotId`](mmcq::engine::SlotId)), and not by a future.
    pub by_slot: bool,
    /// Client that sends the request; and for a write, whether this client waits for its result.
    pub origin: Origin,
    /// How the client gives the request up after `dropped_after` events.
    pub gives_up: GivesUp,
    /// Pause in microseconds before the request, in which no request is submitted; 0: no pause.
    pub rest_us: u32,
}

impl Operation {
    /// Returns a request to the user area, without any further option.
    pub const fn plain(asked: Asked, at: u32, blocks: u32) -> Operation {
        Operation {
            asked,
            area: 0,
            at,
            blocks,
            alone: false,
            dropped_after: 0,
            by_slot: false,
            origin: Origin::DEFAULT,
            gives_up: GivesUp::Drops,
            rest_us: 0,
        }
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
        if self.origin != Origin::DEFAULT {
            write!(f, ", of client {}", self.origin.client)?;
        }
        if self.origin.sync {
            f.write_str(" that waits")?;
        }
        match (self.dropped_after, self.gives_up) {
            (0, _) => Ok(()),
            (events, GivesUp::Drops) => write!(f, ", dropped after {events} events"),
            (events, GivesUp::TakesBack) => write!(f, ", taken back after {events} events"),
            (events, GivesUp::Cancels) => write!(f, ", cancelled after {events} events"),
        }
    }
}

/// Returns the numbers of the partitions, apart from the user area, that requests may use on this
/// card. `card`: index of the card in [`EVERY_CARD`](super::run::EVERY_CARD).
#[must_use]
pub fn areas(card: usize) -> &'static [u8] {
    match super::run::EVERY_CARD[card] {
        "emmc-hs200" => &[1, 2, 4, 5],
        name if name.starts_with("sd") => &[],
        _ => &[1, 2],
    }
}

/// Shares of the kinds of requests in a case, and of requests that run alone or are dropped.
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

/// A power cut at a given event of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the controller event, counted from 1 at the begin of the run, at which the power
    /// is cut.
    pub at: u64,
    /// What the cut leaves of writes that are under way or in the card's cache.
    pub keeps: Keeps,
}

/// Which faults of the controller and the card strike in a case. Each fault has a [`Point`]: the
/// kind of event in the models that it can strike.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Luck {
    /// No fault strikes.
    #[default]
    Good,
    /// Faults that strike at random: each with its own probability at each event of its [`Point`].
    /// The first field is the seed.
    Chances(u64, Vec<(Point, Strike, f64)>),
    /// Faults that each strike once, at the event of their [`Point`] that has a given number.
    Shots(Vec<Shot>),
    /// A fault that strikes at the event of its [`Point`] that has a given number, and at every
    /// later event of that kind.
    Always(Shot),
    /// Two faults. The first strikes once, at its event. From then on the second strikes: at the
    /// event of its own [`Point`] that has a given number, and at every later event of that kind.
    Brought(Shot, Shot),
}

impl Luck {
    /// Returns these faults as a [`Plan`], the form in which the models take them.
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

/// A case: everything that decides how its run (the execution of the case) goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Seed of the case. The data of its writes depend on it.
    pub seed: u64,
    /// Settings of the machine.
    pub setup: Setup,
    /// Requests, in the order in which they are submitted.
    pub operations: Vec<Operation>,
    /// Power cuts in order. One more cut comes at the end of the run.
    pub cuts: Vec<Cut>,
    /// Faults of the controller and the card.
    pub luck: Luck,
    /// Whether the run ends with the first power cut; false: the card gets power again, and the run
    /// goes on.
    pub one_life: bool,
    /// Whether the run also records two things: at every event, what a power cut could do to the
    /// sectors ([`Outcome::stakes`](super::run::Outcome::stakes)); and during recovery, how many
    /// events of each [`Point`] there were ([`Outcome::marks`](super::run::Outcome::marks)).
    pub dry: bool,
    /// Number of the event at which something happens to the card (removal, write protection), and
    /// what happens; `None`: nothing happens to it.
    pub visit: Option<(u64, Visit)>,
    /// Events at which the program does something with the whole stack, such as suspending it, in
    /// order.
    pub acts: Vec<(u64, Act)>,
}

/// Change of the card during a run: it is taken out, or write-protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The card is replaced by another card.
    Swap,
    /// The card is replaced by another card (of another size if `other` is set). After `back`
    /// events the first card is in the slot again; 0: never.
    Swaps {
        /// Number of events after which the first card is in the slot again; 0: never.
        back: u16,
        /// Whether the card that replaces the first card has another size.
        other: bool,
    },
    /// The same card goes out and in again (bouncing contacts); the field is the number of times.
    Bounce(u8),
    /// The card stays in the slot, and its CSD write-protects it for this number of events of the
    /// controller.
    Protect(u32),
}

/// What a campaign of tests demands of its random cases: how many faults, power cuts and requests,
/// and which cards.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Mean probability that a kind of fault which a case has chosen strikes at an event of its
    /// [`Point`] (the kind of event that it can strike).
    pub faults: f64,
    /// Mean number of power cuts in a case, without the cut at its end. A cut that is drawn beyond
    /// the end of the run does not happen.
    pub cuts: f64,
    /// Mean number of requests in a case.
    pub operations: u32,
    /// Number of cards from which cases choose: the first ones of
    /// [`EVERY_CARD`](super::run::EVERY_CARD).
    pub cards: usize,
    /// Number of the card that all cases use; `None`: any card.
    pub card: Option<usize>,
}

/// Faults that may strike in a random case, each with the kind of event that it strikes
/// ([`Point`]). None of them lasts for ever, so the run can continue.
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

/// Approximate number of controller events for each request of a run; the place of a power cut is
/// drawn from this estimate.
const EVENTS: u64 = 9;

impl Case {
    /// Returns how the stack uses the command queue of an SD card in this case.
    #[must_use]
    pub fn sd_queue(&self) -> SdQueue {
        let mut random = Stream::new(self.seed, "sd queue");
        let mut one_of = |values: [u8; 2]| if random.chance(0.5) { values[0] } else { values[1] };
        let (sequential, writes, self_test) = (one_of([0, 1]) == 1, one_of([1, 4]), one_of([0, 3]).into());
        SdQueue::DEFAULT.any(true).sequential(sequential).writes(writes).self_test(self_test)
    }

    /// Draws the random case of this seed.
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
            acts: Vec::new(),
        }
    }

    /// Makes some of the reads and writes in `operations` go to other partitions, in some of the
    /// cases with an eMMC. `card`: the card's index in the list of cards.
    fn scatter(operations: &mut [Operation], card: usize, random: &mut Stream) {
        let areas = areas(card);
        if areas.is_empty() || !random.chance(0.4) {
            return;
        }
        // Often several such requests follow each other; sometimes a single one is between requests
        // to the user area.
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

    /// Returns the numbers of the partitions that the requests use, without the user area (0).
    #[must_use]
    pub fn areas(&self) -> Vec<u8> {
        let mut areas: Vec<u8> = self.operations.iter().map(|operation| operation.area).collect();
        areas.sort_unstable();
        areas.dedup();
        areas.retain(|area| *area > 0);
        areas
    }

    /// Returns whether the card of this case refuses writes at some time.
    #[must_use]
    pub fn protects(&self) -> bool {
        self.setup.refuses != Refuses::Nothing || matches!(self.visit, Some((_, Visit::Protect(_))))
    }

    /// Draws which faults can strike, each with its own probability; `faults` is the mean of these
    /// probabilities. One case in five has no faults.
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
        // A dip of the supply costs seconds, and all data that were not flushed. So it is rarer
        // than other faults.
        if other.chance(0.2) {
            chances.push((Point::Response, Strike::BrownOut, 0.05 * faults * other.exponential()));
        }
        Luck::Chances(random.bits(), chances)
    }

    /// Adds failing flushes of the card's cache to some cases, beside their other faults. `faults`:
    /// mean probability of a fault at an event that it can strike.
    fn fail_flushes(luck: &mut Luck, random: &mut Stream, faults: f64) {
        if let Luck::Chances(_, chances) = luck
            && random.chance(0.1)
        {
            let share = (20.0 * faults * random.exponential()).min(1.0);
            chances.push((Point::Cache, Strike::Fail, share));
        }
    }

    /// Draws the controller event, from 1 to `events`, at which the card is replaced, or is taken
    /// out and put back several times. Returns `None` in nine of ten cases, and always if `faults`
    /// is 0. A soldered card is only replaced, which the host cannot notice by itself.
    fn visit(random: &mut Stream, setup: &Setup, events: u64, faults: f64) -> Option<(u64, Visit)> {
        if faults <= 0.0 || !random.chance(0.1) {
            return None;
        }
        let visit = match random.below(3) {
            // A soldered card is replaced without a report to the host.
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
            origin: Origin::DEFAULT,
            gives_up: GivesUp::Drops,
            rest_us: 0,
        }
    }
}
