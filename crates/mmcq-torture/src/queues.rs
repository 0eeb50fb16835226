//! Random runs through the command queue of a card, in packed commands, or in chains that the
//! controller executes: what is announced ends in another order than it came, and a failure of one
//! task ends the queue of all.

use super::case::{BusyBy, Case, Luck, Wishes};
use super::run::{CARDS, EVERY_CARD};
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use mmcq::host::sdhci::TransferMode;
use mmcq_sim::card::TaskOrder;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Faults and cuts as [`Wishes`] have them.
const OFTEN: [(f64, f64); 3] = [(0.0, 0.2), (0.000_5, 0.5), (0.002, 1.0)];
/// What goes wrong with the card's queue, beside all else.
const STRIKES: [(Point, Strike); 9] = [
    (Point::Task, Strike::Lost),
    (Point::Task, Strike::Never),
    (Point::Task, Strike::Spurious(1)),
    (Point::Task, Strike::Late(5_000_000)),
    (Point::Discard, Strike::Fail),
    (Point::Stop, Strike::Lost),
    (Point::Pack, Strike::Fail),
    (Point::Pack, Strike::Astray(1)),
    (Point::Pack, Strike::Astray(-1)),
];
/// The same with the controller's engine.
const ENGINES: [(Point, Strike); 8] = [
    (Point::Doorbell, Strike::Lost),
    (Point::TaskEnd, Strike::Spurious(1)),
    (Point::Halt, Strike::Never),
    (Point::Halt, Strike::Late(400_000_000)),
    (Point::Clear, Strike::Spurious(1)),
    (Point::Enable, Strike::Status(8)),
    (Point::Blame, Strike::Lost),
    (Point::Interrupt, Strike::Lost),
];
/// The same with chains.
const CHAINS: [(Point, Strike); 3] =
    [(Point::List, Strike::Lost), (Point::List, Strike::Fail), (Point::Interrupt, Strike::Lost)];
/// Requests under way at most: without several there is nothing to announce.
const DEPTHS: [u8; 4] = [4, 8, 16, 32];
/// Sectors that requests go to: few, so that they meet, and many, so that they do not.
const WINDOWS: [u32; 3] = [16, 256, 4096];

/// A card promises no order: some of them have none that one would think of.
const ORDERS: [Option<TaskOrder>; 5] =
    [None, None, Some(TaskOrder::ReadsFirst), Some(TaskOrder::NewestFirst), Some(TaskOrder::StarvesOne)];

/// Runs until there were enough requests, or enough is broken. `progress` hears of requests.
pub fn queues(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// The run of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "queues");
    let mut card = CARDS.len() + random.below((EVERY_CARD.len() - CARDS.len()) as u64) as usize;
    let own = &mut Stream::new(seed, "chains");
    let chains = own.chance(0.25);
    if chains {
        // They are the controller's business, and any card's.
        card = own.below(EVERY_CARD.len() as u64) as usize;
    }
    let (faults, cuts) = OFTEN[random.below(OFTEN.len() as u64) as usize];
    let wishes = Wishes { faults, cuts, operations: OPERATIONS, cards: EVERY_CARD.len(), card: Some(card) };
    let mut case = Case::draw(seed, &wishes);
    case.setup.queue = true;
    case.setup.engine = random.below(6).min(3) as u8;
    if case.setup.is_removable() {
        // The controller's engine is for eMMC.
        case.setup.engine = 0;
    }
    if chains {
        let queue = card >= CARDS.len() && own.chance(0.3);
        (case.setup.chains, case.setup.queue, case.setup.engine) = (true, queue, 0);
    }
    if case.setup.engine > 0 || chains {
        // An engine sees the end of busy by itself.
        (case.setup.busy, case.setup.old_host) = (BusyBy::Interrupt, false);
        if random.chance(0.9) {
            // Without descriptors it is of no use.
            case.setup.transfer = TransferMode::Adma2;
        }
    }
    case.setup.tasks = ORDERS[Stream::new(seed, "tasks").below(ORDERS.len() as u64) as usize];
    if let Luck::Chances(_, chances) = &mut case.luck {
        chances.extend(STRIKES.map(|(point, strike)| (point, strike, faults)));
        if chains {
            chances.extend(CHAINS.map(|(point, strike)| (point, strike, faults)));
        }
        if case.setup.engine > 0 {
            chances.extend(ENGINES.map(|(point, strike)| (point, strike, faults)));
        }
    }
    case.setup.depth = DEPTHS[random.below(DEPTHS.len() as u64) as usize];
    let window = WINDOWS[random.below(WINDOWS.len() as u64) as usize];
    // Boot areas of the other cards may have fewer sectors.
    if window > case.setup.window && card >= CARDS.len() {
        // Requests that were drawn for a smaller one are spread over this.
        for operation in case.operations.iter_mut().filter(|operation| operation.area == 0) {
            let places = u64::from((window - operation.blocks).max(1));
            operation.at = random.below(places) as u32;
        }
        case.setup.window = window;
    }
    case
}
