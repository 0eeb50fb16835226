//! Random runs with requests of up to 1 MiB, and with erases of more than one piece: what the engine
//! splits, and what has more than one segment of memory or one descriptor.

use super::case::{Case, Chip, Host, LARGEST, LONGEST, Operation, Wishes};
use super::run::CARDS;
use super::score::Score;
use super::spread::{Share, until};
use super::{hosts, streams};
use mmcq::host::sdhci::OpenWrites;
use mmcq_sim::checker::Asked;
use mmcq_sim::world::Stream;

/// Mean requests of a run: one of them moves as many blocks as a run of the other campaigns.
const OPERATIONS: u32 = 60;
/// Faults and cuts as [`Wishes`] have them.
const OFTEN: [(f64, f64); 3] = [(0.0, 0.5), (0.000_2, 0.5), (0.002, 1.0)];
/// So many of a run's requests are large.
const SHARES: [f64; 3] = [0.01, 0.1, 0.4];
/// ... and so many are erased, discarded or zeroed instead of what they were.
const ERASES: [f64; 3] = [0.02, 0.1, 0.3];
/// Sectors that requests go to: several erase groups of the cards here.
const WINDOW: u32 = 8192;

/// Runs until there were enough requests, or enough is broken. `progress` hears of requests.
pub fn large(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// The run of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let random = &mut Stream::new(seed, "large");
    let (faults, cuts) = OFTEN[random.below(OFTEN.len() as u64) as usize];
    let wishes = Wishes { faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: None };
    let mut case = match host(random) {
        Host::Sdhci => Case::draw(seed, &wishes),
        open @ (Host::Open(_) | Host::Reader) => streams::draw_on(open, seed),
        other => hosts::draw_on(other, seed, &wishes),
    };
    case.operations.truncate(2 * OPERATIONS as usize);
    grow(&mut case, random);
    case
}

/// Which controller: an SDHCI in a third of the runs. A byte of an SPI bus is an event: none of that
/// here.
fn host(random: &mut Stream) -> Host {
    match random.below(12) {
        0 => Host::Smhc,
        1 => Host::DesignWare,
        2 => Host::Sdmmc(Chip::H7),
        3 => Host::Sdmmc(Chip::U5),
        4 => Host::Sdmmc(Chip::N6),
        5 => Host::Open(OpenWrites::Gap),
        6 => Host::Open(OpenWrites::Carrier),
        7 => Host::Reader,
        _ => Host::Sdhci,
    }
}

/// Makes some requests large, and spreads all of them over the window. All go to the user area: others
/// are shorter than the window.
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

/// How many blocks a large request has: what moves data has memory for so many at most.
fn large_blocks(operation: &Operation, random: &mut Stream) -> u32 {
    let most = match operation.asked {
        Asked::Erase | Asked::Discard => WINDOW,
        _ => LARGEST,
    };
    // Often as long as it can be, and often a power of two.
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
        // No request leaves the window.
        let inside = |o: &Operation| o.at + o.blocks <= WINDOW;
        assert!(cases.iter().all(|case| case.operations.iter().all(inside)));
    }
}
