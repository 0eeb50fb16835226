//! Random runs on a controller that is neither an SDHCI nor leaves transfers open: a mobile storage
//! host, Allwinner's or DesignWare's, and ST's SDMMC.
//!
//! Cards do not come and go: Allwinner's and ST's tell nothing of that.

use super::case::{BusyBy, Case, Chip, Host, Luck, Wishes};
use super::run::{CARDS, EVERY_CARD};
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Runs as the others have them.
const WISHES: Wishes =
    Wishes { faults: 0.002, cuts: 1.0, operations: OPERATIONS, cards: CARDS.len(), card: None };
/// A card that goes to 1.8 V is among the others in so many cases.
const FAST_CARD: (&str, f64) = ("sdxc-64g-a2", 0.2);
/// The end of a write's data tells the end of its busy in so many cases of ST's SDMMC.
const TELLS_BUSY: f64 = 0.75;
/// What else goes wrong: a voltage switch, a block of a tuning.
const STRIKES: [(Point, Strike); 3] =
    [(Point::Voltage, Strike::Fail), (Point::Tuning, Strike::Crc), (Point::Reset, Strike::Never)];

/// Runs until there were enough requests, or enough is broken. `progress` hears of requests.
pub fn hosts(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// The same on ST's SDMMC.
pub fn sdmmc(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw_sdmmc)
}

/// The run of this seed on a mobile storage host.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "hosts");
    let host = [Host::Smhc, Host::DesignWare][random.below(2) as usize];
    on(host, seed, random, &WISHES)
}

/// The run of this seed on ST's SDMMC.
#[must_use]
pub fn draw_sdmmc(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "sdmmc");
    let chip = [Chip::H7, Chip::U5, Chip::N6][random.below(3) as usize];
    on(Host::Sdmmc(chip), seed, random, &WISHES)
}

/// The run of this seed on this controller, one of those here.
pub(super) fn draw_on(host: Host, seed: u64, wishes: &Wishes) -> Case {
    on(host, seed, &mut Stream::new(seed, "hosts"), wishes)
}

fn on(host: Host, seed: u64, random: &mut Stream, wishes: &Wishes) -> Case {
    let fast = random.chance(FAST_CARD.1);
    let card = EVERY_CARD.iter().position(|card| fast && *card == FAST_CARD.0);
    let mut case = Case::draw(seed, &Wishes { card, ..*wishes });
    (case.setup.host, case.setup.scheduler) = (host, 0);
    case.visit = None;
    if let Luck::Chances(_, chances) = &mut case.luck {
        chances.extend(STRIKES.map(|(point, strike)| (point, strike, wishes.faults)));
    }
    if matches!(host, Host::Sdmmc(_)) {
        case.setup.busy = if random.chance(TELLS_BUSY) { BusyBy::Interrupt } else { BusyBy::Status };
    }
    case
}
