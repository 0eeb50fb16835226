//! Random runs on controllers that leave transfers open. The next request continues an open
//! transfer, and a write is answered before the card was sent the end of the transfer. Clients
//! pause between requests, for longer than the engine holds a transfer open, and cards are removed
//! and inserted.
//!
//! Two faults are left out: a brown-out, and a sector that cannot be programmed. In an open
//! transfer they strike a write after its answer, and the next flush reports them. The checker does
//! not model a write that fails after its answer.

use super::case::{Case, Host, Luck, Operation, Wishes};
use super::machine::Keeps;
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use mmcq::host::sdhci::{OpenWrites, TransferMode};
use mmcq_sim::checker::Asked;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Cards that such a reader takes, and an SPI bus.
const CARDS_HERE: [&str; 2] = ["sdhc-16g-hs", "sdsc-1g"];
/// [`Wishes::faults`] of this campaign.
pub(super) const FAULTS: f64 = 0.002;
const CUTS: f64 = 1.0;
/// Time of a register access in ns. The driver polls such a controller until it is done, so time
/// must advance with each access.
pub(super) const ACCESS_NS: u8 = 150;
/// Size in sectors of the window that requests go to: large enough for runs of consecutive
/// requests.
const WINDOW: u32 = 256;
/// Probability that a request starts where the one before it ended; a run draws one.
const GOES_ON: [f64; 3] = [0.3, 0.8, 0.97];
/// Probability of a pause before a request; a run draws one. [`REST_US`] bounds the pause.
const RESTS: [f64; 3] = [0.0, 0.1, 0.6];
const REST_US: [u32; 4] = [100, 2_000, 50_000, 200_000];

/// Runs cases until they have had the wanted number of requests, or until too many promises are
/// broken. Calls `progress` with the requests of each run.
pub fn streams(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Draws the case of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    draw_on(host(&mut Stream::new(seed, "streams host")), seed)
}

/// Draws the case of this seed on this host.
pub(super) fn draw_on(host: Host, seed: u64) -> Case {
    let random = &mut Stream::new(seed, "streams");
    let name = CARDS_HERE[random.below(CARDS_HERE.len() as u64) as usize];
    // An SDHCI takes any card; no eMMC has an SPI mode, nor fits a reader's slot.
    let any = matches!(host, Host::Open(_) | Host::OpenDesignWare);
    let card = CARDS.iter().position(|card| *card == name && !any);
    let wishes = Wishes { faults: FAULTS, cuts: CUTS, operations: OPERATIONS, cards: CARDS.len(), card };
    let mut case = Case::draw(seed, &wishes);
    case.setup.early = random.chance(0.2);
    (case.setup.host, case.setup.scheduler, case.setup.window) = (host, 0, WINDOW);
    case.setup.transfer = TransferMode::Adma2;
    case.setup.access_ns = ACCESS_NS;
    if let Luck::Chances(_, chances) = &mut case.luck {
        chances.retain(|(point, strike, _)| {
            !matches!((point, strike), (Point::Medium, _) | (_, Strike::BrownOut | Strike::Status(_)))
        });
    }
    // A sector that cannot be read costs the reader the answer to the read as well, and with it the
    // news of the writes before.
    for cut in &mut case.cuts {
        if let Keeps::Luck(luck) = cut.keeps {
            cut.keeps = if luck & 1 == 0 { Keeps::Nothing } else { Keeps::Everything };
        }
    }
    if matches!(host, Host::Open(_)) {
        in_pages(&mut case.operations, random);
    }
    go_on(&mut case.operations, random);
    rest(&mut case.operations, random);
    case
}

/// Draws the controller: the reader in two of five runs, an SDHCI in two, DesignWare's in one.
fn host(random: &mut Stream) -> Host {
    match random.below(5) {
        0 => Host::Open(OpenWrites::Gap),
        1 => Host::Open(OpenWrites::Carrier),
        2 => Host::OpenDesignWare,
        _ => Host::Reader,
    }
}

/// Makes most requests whole pages: others end an SDHCI's open transfer.
fn in_pages(operations: &mut [Operation], random: &mut Stream) {
    let share = [0.5, 0.9, 1.0][random.below(3) as usize];
    for operation in operations {
        let moves = matches!(operation.asked, Asked::Read | Asked::Write { .. });
        if moves && random.chance(share) {
            operation.blocks = operation.blocks.next_multiple_of(8);
            operation.at = operation.at.min(WINDOW - operation.blocks);
        }
    }
}

/// Adds pauses before some requests.
fn rest(operations: &mut [Operation], random: &mut Stream) {
    let share = RESTS[random.below(RESTS.len() as u64) as usize];
    let longest_us = REST_US[random.below(REST_US.len() as u64) as usize];
    for operation in operations {
        if random.chance(share) {
            operation.alone = true;
            operation.rest_us = 1 + random.below(u64::from(longest_us)) as u32;
        }
    }
}

/// Makes some requests continue where the one before ended.
fn go_on(operations: &mut [Operation], random: &mut Stream) {
    let share = GOES_ON[random.below(GOES_ON.len() as u64) as usize];
    let mut before: Option<(Asked, u32)> = None;
    for operation in operations {
        // Other partitions have no durable writes, and transfers to them end with each request.
        let moves = operation.area == 0 && matches!(operation.asked, Asked::Read | Asked::Write { .. });
        if let Some((asked, end)) = before
            && moves
            && random.chance(share)
            && end + operation.blocks <= WINDOW
        {
            (operation.asked, operation.at) = (asked, end);
        }
        before = moves.then_some((operation.asked, operation.at + operation.blocks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks for pauses longer than a transfer is held open, and long enough for a status poll
    /// between.
    #[test]
    fn cards_come_and_go_and_clients_rest_longer_than_a_transfer_is_held() {
        let cases: Vec<Case> = (0..400).map(draw).collect();
        assert!(cases.iter().filter(|case| case.visit.is_some()).count() > 10);
        let hold_us = mmcq::engine::Config::DEFAULT.hold_ns / 1_000;
        let long = |case: &&Case| case.operations.iter().any(|o| u64::from(o.rest_us) > hold_us && o.alone);
        assert!(cases.iter().filter(long).count() > 10);
    }
}
