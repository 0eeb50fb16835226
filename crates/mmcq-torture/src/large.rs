//! Random cases with requests of up to 1 MiB, and with erases that the engine splits. Such requests
//! have more than one memory segment or DMA descriptor.

use super::case::{Case, Chip, Host, LARGEST, LONGEST, Operation, Wishes};
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};
use super::{hosts, streams};
use mmcq::host::sdhci::OpenWrites;
use mmcq_sim::checker::Asked;
use mmcq_sim::world::Stream;

/// Mean number of requests in a case. One large request moves as many blocks as a whole case of
/// other campaigns.
const OPERATIONS: u32 = 60;
/// Pairs of probabilities from which each case draws one: of a fault ([`Wishes::faults`]) and of a
/// power cut ([`Wishes::cuts`]).
const OFTEN: [(f64, f64); 3] = [(0.0, 0.5), (0.000_2, 0.5), (0.002, 1.0)];
/// Share of a case's requests that are large; each case draws one value.
const SHARES: [f64; 3] = [0.01, 0.1, 0.4];
/// Share of a case's requests that become an erase, discard or zero; each case draws one value.
const ERASES: [f64; 3] = [0.02, 0.1, 0.3];
/// Size in sectors of the window (the part of the card to which the requests go): several erase
/// groups of these cards.
const WINDOW: u32 = 8192;

/// Executes random cases with large requests until the share's number of requests is reached, or
/// until too many promises are broken. Calls `progress` with the number of requests of each case.
pub fn large(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Draws the random case of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "large");
    let (faults, cuts) = OFTEN[random.below(OFTEN.len() as u64) as usize];
    let wishes = Wishes { faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: None };
    let mut case = match host(random) {
        Host::Sdhci => Case::draw(seed, &wishes),
        open @ (Host::Open(_) | Host::OpenDesignWare | Host::OpenSdmmc | Host::Reader) => {
            streams::draw_on(open, seed)
        }
        other => hosts::draw_on(other, seed, &wishes),
    };
    case.operations.truncate(2 * OPERATIONS as usize);
    grow(&mut case, random);
    case
}

/// Draws the controller: in 4 of 13 cases an SDHCI, in 2 an SDHCI that leaves transfers open, in
/// the others another one. An SPI bus is left out, since each byte on it would be an event.
fn host(random: &mut Stream) -> Host {
    match random.below(13) {
        0 => Host::Smhc,
        1 => Host::DesignWare,
        2 => Host::Sdmmc(Chip::H7),
        3 => Host::Sdmmc(Chip::U5),
        4 => Host::Sdmmc(Chip::N6),
        5 => Host::Open(OpenWrites::Gap),
        6 => Host::Open(OpenWrites::Carrier),
        7 => Host::Reader,
        8 => Host::OpenDesignWare,
        _ => Host::Sdhci,
    }
}

/// Makes some requests of a case large, and moves each request to a random place in the sectors
/// that the case uses. All go to the user area, since the other partitions are too small.
fn grow(case: &mut Case, random: &mut Stream) {
    let share = SHARES[random.below(SHARES.len() as u64) as usize];
    let erases = ERASES[random.below(ERASES.len() as u64) as usize];
    let kinds = [Asked::Erase, Asked::Discard, Asked::Zero];
    case.setup.window = WINDOW;
    for operation in &mut case.operations {
        operation.area = 0;
        if operation.asked == Asked::Flush {
            continue;
        }
        if random.chance(erases) {
            operation.asked = kinds[random.below(kinds.len() as u64) as usize];
        }
        if random.chance(share) {
            operation.blocks = large_blocks(operation, random);
        }
        operation.at = random.below(u64::from(WINDOW - operation.blocks + 1)) as u32;
    }
}

/// Draws the number of blocks of a large request. Requests with data are limited by the size of
/// their memory.
fn large_blocks(operation: &Operation, random: &mut Stream) -> u32 {
    let most = match operation.asked {
        Asked::Erase | Asked::Discard => WINDOW,
        _ => LARGEST,
    };
    // Often the request is as long as possible, and often its length is a power of two.
    match random.below(4) {
        0 => most,
        1 => LONGEST << random.below(6).min(5),
        _ => LONGEST + 1 + random.below(u64::from(most - LONGEST)) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_requests_of_1_mib_and_erases_of_all_on_every_controller() {
        let cases: Vec<Case> = (0..600).map(draw).collect();
        let mib = |case: &&Case| {
            case.operations.iter().any(|o| o.blocks == LARGEST && matches!(o.asked, Asked::Write { .. }))
        };
        let hosts =
            |host: fn(Host) -> bool| cases.iter().filter(|case| host(case.setup.host)).filter(mib).count();
        assert!(hosts(|host| host == Host::Sdhci) > 20);
        assert!(hosts(|host| host == Host::Smhc) > 2);
        assert!(hosts(|host| matches!(host, Host::Sdmmc(_))) > 5);
        assert!(hosts(|host| matches!(host, Host::Open(_))) > 3);
        let erased = |case: &&Case| case.operations.iter().any(|o| o.blocks > LARGEST);
        assert!(cases.iter().filter(erased).count() > 100);
        // Every request lies inside the window.
        let inside = |o: &Operation| o.at + o.blocks <= WINDOW;
        assert!(cases.iter().all(|case| case.operations.iter().all(inside)));
    }
}
