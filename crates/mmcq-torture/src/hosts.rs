//! Random cases on controllers that are not SDHCI and leave no transfers open: a mobile storage
//! host (Allwinner's or DesignWare's) and ST's SDMMC.
//!
//! Cards are not removed or inserted, since Allwinner's and ST's controllers do not report it.

use super::case::{BusyBy, Case, Chip, Host, Luck, Wishes};
use super::run::{CARDS, EVERY_CARD};
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Probability of a fault, mean number of power cuts and of requests in a case, and the cards.
const WISHES: Wishes =
    Wishes { faults: 0.002, cuts: 1.0, operations: OPERATIONS, cards: CARDS.len(), card: None };
/// Name of a card that switches to 1.8 V, and the share of the cases that use it.
const FAST_CARD: (&str, f64) = ("sdxc-64g-a2", 0.2);
/// Share of the cases with ST's SDMMC that use the interrupt for the end of busy.
const TELLS_BUSY: f64 = 0.75;
/// Share of the cases in which the driver also gets calls that the engine does not make
/// ([`Meddled`](super::meddled::Meddled)). They come in groups; the second value is the largest
/// number of the engine's calls between two groups.
const MEDDLED: (f64, u64) = (0.3, 200);
/// Faults that strike in the random cases on mobile storage hosts and ST's SDMMC, in addition to
/// those of all random cases: a failed voltage switch, a tuning block with a wrong CRC, a reset
/// that never ends.
const STRIKES: [(Point, Strike); 3] =
    [(Point::Voltage, Strike::Fail), (Point::Tuning, Strike::Crc), (Point::Reset, Strike::Never)];

/// Executes random cases on a mobile storage host until the share's work is done, or until too many
/// cases have shown that mmcq broke a guarantee. Calls `progress` with the number of requests of
/// each case.
pub fn hosts(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Executes random cases on ST's SDMMC until the share's work is done, or until too many cases have
/// shown that mmcq broke a guarantee. Calls `progress` with the number of requests of each case.
pub fn sdmmc(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw_sdmmc)
}

/// Draws the random case of this seed, with DesignWare's Mobile Storage Host or Allwinner's SMHC.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "hosts");
    let host = [Host::Smhc, Host::DesignWare][random.below(2) as usize];
    on(host, seed, random, &WISHES)
}

/// Draws the random case of this seed on ST's SDMMC.
#[must_use]
pub fn draw_sdmmc(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "sdmmc");
    let chip = [Chip::H7, Chip::U5, Chip::N6][random.below(3) as usize];
    on(Host::Sdmmc(chip), seed, random, &WISHES)
}

/// Draws the random case of this seed on this controller.
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
    case.setup.meddles = meddles(seed);
    if matches!(host, Host::Sdmmc(_)) {
        case.setup.busy = if random.chance(TELLS_BUSY) { BusyBy::Interrupt } else { BusyBy::Status };
    }
    case
}

/// Draws the number of the engine's calls of the driver between two groups of inserted calls (see
/// `Meddled`). 0: no calls are inserted.
pub(super) fn meddles(seed: u64) -> u16 {
    let random = &mut Stream::new(seed, "meddles");
    if random.chance(MEDDLED.0) { 1 + random.below(MEDDLED.1) as u16 } else { 0 }
}
