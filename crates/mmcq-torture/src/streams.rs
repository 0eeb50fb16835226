//! Random cases on controllers that leave transfers open: a card reader, an SDHCI, a DesignWare or
//! ST's SDMMC.
//! The next request continues an open transfer, and a write is answered before the card sees the
//! end of the transfer. Clients pause for longer than the engine keeps a transfer open. Cards are
//! removed and inserted.
//!
//! Faults of the medium and dips of the supply strike in some cases: in an open transfer, a write can
//! fail after its answer, and the next flush reports it. False bits in the card's status are left
//! out, since they would report a failure that there was not.

use super::case::{BusyBy, Case, Host, Luck, Operation, Wishes};
use super::hosts::meddles;
use super::machine::Keeps;
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use super::usage;
use mmcq::host::sdhci::{OpenWrites, TransferMode};
use mmcq_sim::checker::Asked;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Names of the cards that a card reader and an SPI bus support.
const CARDS_HERE: [&str; 2] = ["sdhc-16g-hs", "sdsc-1g"];
/// Value of [`Wishes::faults`], a probability, in this campaign.
pub(super) const FAULTS: f64 = 0.002;
const CUTS: f64 = 1.0;
/// Probability that a case has failures of the medium; also the probability that it has dips of the
/// supply. Each case draws both.
const LATE: f64 = 0.2;
/// Time in ns that a register access takes. The driver of such a controller polls registers until
/// the controller is done, so time must advance with each access.
pub(super) const ACCESS_NS: u8 = 150;
/// Size in sectors of the window (the part of the card to which the requests go): large enough for
/// many consecutive requests.
const WINDOW: u32 = 256;
/// Probability that a request starts at the sector after the request before it; each case draws one
/// value.
const GOES_ON: [f64; 3] = [0.3, 0.8, 0.97];
/// Probability of a pause before a request; each case draws one value. [`REST_US`] has the longest
/// pauses, of which each case draws one too.
const RESTS: [f64; 3] = [0.0, 0.1, 0.6];
const REST_US: [u32; 4] = [100, 2_000, 50_000, 200_000];

/// Executes random cases until they have had the number of requests that `share` asks for, or until
/// the stack has broken too many guarantees about data. Calls `progress` with the number of
/// requests of each case. Returns the score of all cases.
pub fn streams(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Draws the random case of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let mut case = usage::with(draw_plain(seed));
    late(&mut case);
    case
}

/// Draws the case of this seed, in which the program uses its stack in the plainest way.
#[must_use]
pub fn draw_plain(seed: u64) -> Case {
    draw_on(host(&mut Stream::new(seed, "streams host")), seed)
}

/// Draws the random case of this seed on this controller.
pub(super) fn draw_on(host: Host, seed: u64) -> Case {
    let random = &mut Stream::new(seed, "streams");
    let name = CARDS_HERE[random.below(CARDS_HERE.len() as u64) as usize];
    // Only the reader and an SPI bus do not take any card. No eMMC has an SPI mode, nor fits a reader's slot.
    let any = !matches!(host, Host::Reader | Host::Spi);
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
    // No sector is torn, since a torn sector is unreadable. It costs the reader the response to the
    // read, and with it the report about earlier writes.
    for cut in &mut case.cuts {
        if let Keeps::Luck(luck) = cut.keeps {
            cut.keeps = if luck & 1 == 0 { Keeps::Nothing } else { Keeps::Everything };
        }
    }
    if matches!(host, Host::OpenDesignWare | Host::OpenSdmmc) {
        case.setup.meddles = meddles(seed);
    }
    if host == Host::OpenSdmmc {
        // The controller does not report a removed card, and keeps writes open only if the end of
        // busy interrupts.
        (case.visit, case.setup.busy) = (None, BusyBy::Interrupt);
    }
    if matches!(host, Host::Open(_)) {
        in_pages(&mut case.operations, random);
    }
    go_on(&mut case.operations, random);
    rest(&mut case.operations, random);
    case
}

/// Adds two kinds of faults to some cases, at random: errors of the card's medium, and dips of its
/// supply. With them a write in an open transfer can fail after it was reported complete.
fn late(case: &mut Case) {
    let random = &mut Stream::new(case.seed, "late faults");
    let (medium, dips) = (random.chance(LATE), random.chance(LATE));
    if let Luck::Chances(_, chances) = &mut case.luck {
        let mut add = |on: bool, point, strike, share: f64| {
            if on {
                chances.push((point, strike, share * FAULTS * random.exponential()));
            }
        };
        add(medium, Point::Medium, Strike::Fail, 1.0);
        add(dips, Point::Response, Strike::BrownOut, 0.1);
    }
}

/// Draws the controller: in 2 of 5 cases an SDHCI, otherwise a DesignWare, ST's SDMMC or the card
/// reader.
fn host(random: &mut Stream) -> Host {
    match random.below(5) {
        0 => Host::Open(OpenWrites::Gap),
        1 => Host::Open(OpenWrites::Carrier),
        2 => Host::OpenDesignWare,
        3 => Host::OpenSdmmc,
        _ => Host::Reader,
    }
}

/// Makes most requests whole flash pages. On an SDHCI a request that is not whole pages ends an
/// open transfer.
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
        // Other partitions have no durable writes, and each transfer to them ends with its request.
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

    /// Checks that cards are removed or inserted in some cases, and that some cases have pauses
    /// that are longer than the engine keeps a transfer open.
    #[test]
    fn cards_come_and_go_and_clients_rest_longer_than_a_transfer_is_held() {
        let cases: Vec<Case> = (0..400).map(draw).collect();
        assert!(cases.iter().filter(|case| case.visit.is_some()).count() > 10);
        let hold_us = mmcq::engine::Config::DEFAULT.hold_ns / 1_000;
        let long = |case: &&Case| case.operations.iter().any(|o| u64::from(o.rest_us) > hold_us && o.alone);
        assert!(cases.iter().filter(long).count() > 10);
    }
}
