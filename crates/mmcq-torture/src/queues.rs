//! Random cases with a card's command queue, with packed commands, or with chains that the
//! controller executes. Requests are announced to the card and may end in any order. A failed task
//! ends all tasks in the queue.

use super::case::{BusyBy, Case, Luck, Wishes};
use super::places::QUEUED;
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use super::usage;
use mmcq::host::sdhci::TransferMode;
use mmcq_sim::card::TaskOrder;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Pairs of probabilities from which each case draws one: of a fault ([`Wishes::faults`]) and of a
/// power cut ([`Wishes::cuts`]).
const OFTEN: [(f64, f64); 3] = [(0.0, 0.2), (0.000_5, 0.5), (0.002, 1.0)];
/// Faults of the card's queue, in addition to all others.
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
/// Faults of the controller's command queue engine, in addition to those of the card's queue.
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
/// Faults of chains, which the controller executes, in addition to all others.
const CHAINS: [(Point, Strike); 3] =
    [(Point::List, Strike::Lost), (Point::List, Strike::Fail), (Point::Interrupt, Strike::Lost)];
/// Largest numbers of requests under way at a time; each case draws one value. A queue needs
/// several requests.
const DEPTHS: [u8; 4] = [4, 8, 16, 32];
/// Sizes in sectors of the window that requests use: small, so that requests overlap, or large, so
/// that they do not.
const WINDOWS: [u32; 3] = [16, 256, 4096];

/// Orders in which the card makes tasks ready. A card promises no order, and some of these are
/// unlikely.
const ORDERS: [Option<TaskOrder>; 5] =
    [None, None, Some(TaskOrder::ReadsFirst), Some(TaskOrder::NewestFirst), Some(TaskOrder::StarvesOne)];

/// Executes random cases with a card's command queue, packed commands or chains until the share's
/// number of requests is reached, or until too many promises are broken. Calls `progress` with the
/// number of requests of each case.
pub fn queues(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Draws the random case of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    usage::with(draw_plain(seed))
}

/// Draws the case of this seed. Leaves out what [`usage::with`] may add: several clients, other
/// settings of the engine, and calls that concern the whole stack.
#[must_use]
pub fn draw_plain(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "queues");
    let mut card = QUEUED.start + random.below(QUEUED.len() as u64) as usize;
    let own = &mut Stream::new(seed, "chains");
    let chains = own.chance(0.25);
    if chains {
        // Chains need only the controller, so any card can be used.
        card = own.below(QUEUED.end as u64) as usize;
    }
    let (faults, cuts) = OFTEN[random.below(OFTEN.len() as u64) as usize];
    let wishes = Wishes { faults, cuts, operations: OPERATIONS, cards: QUEUED.end, card: Some(card) };
    let mut case = Case::draw(seed, &wishes);
    case.setup.queue = true;
    case.setup.engine = random.below(6).min(3) as u8;
    if case.setup.is_removable() {
        // The controller's command queue engine works only with an eMMC.
        case.setup.engine = 0;
    }
    if chains {
        let queue = card >= CARDS.len() && own.chance(0.3);
        (case.setup.chains, case.setup.queue, case.setup.engine) = (true, queue, 0);
    }
    if case.setup.engine > 0 || chains {
        // A controller that executes tasks or chains notices the end of busy by itself.
        (case.setup.busy, case.setup.old_host) = (BusyBy::Interrupt, false);
        if random.chance(0.9) {
            // Without ADMA2 the controller could execute neither tasks nor chains.
            case.setup.transfer = TransferMode::Adma2;
        }
    }
    case.setup.tasks = ORDERS[Stream::new(seed, "tasks").below(ORDERS.len() as u64) as usize];
    case.setup.exception_alone = Stream::new(seed, "exception alone").chance(0.3);
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
    // The boot areas of the cards in `CARDS` may have fewer sectors than a larger window.
    if window > case.setup.window && card >= CARDS.len() {
        // Requests that were drawn for the smaller window are distributed over the larger one.
        for operation in case.operations.iter_mut().filter(|operation| operation.area == 0) {
            let places = u64::from((window - operation.blocks).max(1));
            operation.at = random.below(places) as u32;
        }
        case.setup.window = window;
    }
    case
}
