//! Random cases in corners that other campaigns do not test: a card above 2 TB, erased memory that
//! reads as ones, secure erases, a card that sleeps, memory that is copied, writes that fail after
//! their answer, and write protection during use.
//!
//! The seed decides the corner: seeds that follow each other have different corners.

use super::case::{
    BusyBy, Case, Chip, Host, LONGEST, Luck, Operation, Place, Refuses, Unused, Visit, Wishes,
};
use super::machine::Keeps;
use super::run::{CARDS, EVERY_CARD};
use super::score::Score;
use super::spread::{Share, until};
use super::swarm::OPERATIONS;
use mmcq_sim::card::quirk::Discarded;
use mmcq_sim::checker::Asked;
use mmcq_sim::faults::{Point, Strike};
use mmcq_sim::world::Stream;

/// Pairs of probabilities from which each case draws one: of a fault ([`Wishes::faults`]) and of a
/// power cut ([`Wishes::cuts`]).
const OFTEN: [(f64, f64); 3] = [(0.0, 0.5), (0.000_5, 0.5), (0.002, 1.0)];
/// Number of sectors in an erase group of the eMMCs.
const GROUP: u32 = 1024;
/// Number of sectors that secure erases use: several erase groups.
const GROUPS: u32 = 4 * GROUP;
/// Number of sectors in three mebibytes, of which the second mebibyte is write-protected.
const THREE_MIB: u32 = 3 * 2048;
/// Number of requests in a case that examines thousands of sectors after each cut.
const FEW: u32 = 80;
/// Share of a case's requests that become an erase, discard or zero; each case draws one value.
const ERASES: [f64; 3] = [0.05, 0.2, 0.5];
/// Share of a case's requests that come after a pause; each case draws one value.
const RESTS: [f64; 3] = [0.05, 0.2, 0.6];
/// Longest pause in microseconds; each case draws one value. After 5 ms without a request the card
/// goes to rest (a low-power state).
const REST_US: [u32; 3] = [6_000, 20_000, 200_000];

/// A corner: a situation that other campaigns do not test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// A card above 2 TB, whose addresses have 38 bits.
    Sduc,
    /// Erased memory reads as ones.
    Ones,
    /// Erases are secure: secure erase, or secure trim.
    Secure,
    /// An unused card sleeps, or its clock is stopped.
    Rest,
    /// Requests have memory that the controller cannot use, so that it is copied.
    Bounce,
    /// Writes are reported complete when their data are transferred, and fail later.
    Early,
    /// A part of the card is write-protected, or the whole card for some time.
    Protected,
}

impl Corner {
    /// All corners (special kinds of cards and uses that other campaigns do not test). A case's
    /// seed modulo the length of this list selects its corner.
    pub const ALL: [Corner; 7] = [
        Corner::Sduc,
        Corner::Ones,
        Corner::Secure,
        Corner::Rest,
        Corner::Bounce,
        Corner::Early,
        Corner::Protected,
    ];

    /// Returns which of the special situations ([`Corner`]) the case of this seed tests.
    #[must_use]
    pub fn of(seed: u64) -> Corner {
        Corner::ALL[(seed % Corner::ALL.len() as u64) as usize]
    }

    /// Returns the names of the cards that the corner uses.
    fn cards(self) -> &'static [&'static str] {
        match self {
            Corner::Sduc => &["sduc-4t"],
            Corner::Secure => &["emmc-hs200", "hbg4a2", "emmc-4g-old"],
            Corner::Ones => &["sdhc-16g-hs", "emmc-hs200", "hbg4a2", "emmc-4g-old", "sdsc-1g", "sduc-4t"],
            // An SD card cannot sleep; its clock is stopped.
            Corner::Rest => &["sdhc-16g-hs", "emmc-hs200", "hbg4a2", "emmc-4g-old", "emmc-queue"],
            Corner::Bounce | Corner::Early | Corner::Protected => &CARDS,
        }
    }
}

/// Executes random cases of the corners until the share's work is done, or until too many cases
/// have shown that mmcq broke a guarantee. Calls `progress` with the number of requests of each
/// case.
pub fn corners(share: &Share, progress: &(dyn Fn(u64) + Sync)) -> Score {
    until(share, progress, &draw)
}

/// Draws the random case of this seed.
#[must_use]
pub fn draw(seed: u64) -> Case {
    let corner = Corner::of(seed);
    let random = &mut Stream::new(seed, "corners");
    let (faults, cuts) = OFTEN[random.below(OFTEN.len() as u64) as usize];
    let name = *one_of(corner.cards(), random);
    let card = EVERY_CARD.iter().position(|card| *card == name);
    let wishes = Wishes { faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card };
    let mut case = Case::draw(seed, &wishes);
    if corner != Corner::Bounce && random.chance(0.4) {
        go_to(&mut case, *one_of(&HOSTS, random), random);
    }
    match corner {
        Corner::Sduc => {
            // Sectors with numbers above 32 bits, or on both sides of that border.
            case.setup.place = *one_of(&[Place::Middle, Place::Middle, Place::End, Place::Start], random);
            erase(&mut case, random);
        }
        Corner::Ones => {
            case.setup.ones = true;
            let kinds = [Discarded::Erased, Discarded::Ones, Discarded::Old, Discarded::Mixed];
            case.setup.discarded = *one_of(&kinds, random);
            erase(&mut case, random);
        }
        Corner::Secure => {
            case.setup.secure = true;
            case.operations.truncate(FEW as usize);
            erase(&mut case, random);
            spread(&mut case, GROUPS, random);
            case.operations.iter_mut().for_each(|operation| whole_groups(operation, random));
        }
        Corner::Rest => {
            case.setup.unused = *one_of(&[Unused::Sleeps, Unused::Sleeps, Unused::ClockOff], random);
            case.setup.supervisor = true;
            rest(&mut case.operations, random);
        }
        Corner::Bounce => {
            case.setup.bounce = true;
            case.setup.scheduler = 0;
        }
        Corner::Early => {
            case.setup.early = true;
            // An unreadable sector may cost a controller the response to the read, and with it the
            // report about earlier writes. Then a flush fails although nothing is lost.
            for cut in &mut case.cuts {
                if let Keeps::Luck(luck) = cut.keeps {
                    cut.keeps = if luck & 1 == 0 { Keeps::Nothing } else { Keeps::Everything };
                }
            }
            if let Luck::Chances(_, chances) = &mut case.luck {
                chances.retain(|(point, strike, _)| (*point, *strike) != (Point::Medium, Strike::Fail));
                chances.push((Point::Medium, Strike::Fail, 2.0 * faults * random.exponential()));
            }
        }
        Corner::Protected => protect(&mut case, random),
    }
    case
}

/// Controllers that some cases use instead of an SDHCI.
const HOSTS: [Host; 5] =
    [Host::Smhc, Host::DesignWare, Host::Sdmmc(Chip::H7), Host::Sdmmc(Chip::U5), Host::Sdmmc(Chip::N6)];

fn one_of<'a, T>(all: &'a [T], random: &mut Stream) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

/// Gives the case another controller, as the campaigns of [hosts](super::hosts) do.
fn go_to(case: &mut Case, host: Host, random: &mut Stream) {
    (case.setup.host, case.setup.scheduler, case.visit) = (host, 0, None);
    if matches!(host, Host::Sdmmc(_)) {
        case.setup.busy = if random.chance(0.75) { BusyBy::Interrupt } else { BusyBy::Status };
    }
}

/// Turns some reads and writes of the case into erases, discards or zeroes.
fn erase(case: &mut Case, random: &mut Stream) {
    let share = *one_of(&ERASES, random);
    for operation in &mut case.operations {
        if operation.asked != Asked::Flush && operation.area == 0 && random.chance(share) {
            operation.asked = *one_of(&[Asked::Erase, Asked::Discard, Asked::Zero], random);
        }
    }
}

/// Distributes the requests over a larger window of the card: its first `window` sectors. All go to
/// the user area, since other partitions may be smaller.
fn spread(case: &mut Case, window: u32, random: &mut Stream) {
    case.setup.window = window;
    // At the start of the card, erase groups begin at multiples of their size in the window.
    case.setup.place = Place::Start;
    for operation in &mut case.operations {
        operation.area = 0;
        operation.at = random.below(u64::from(window - operation.blocks + 1)) as u32;
    }
}

/// Makes half of the erases cover whole erase groups.
fn whole_groups(operation: &mut Operation, random: &mut Stream) {
    if operation.asked == Asked::Erase && random.chance(0.5) {
        let groups = 1 + random.below(2) as u32;
        operation.blocks = groups * GROUP;
        operation.at = GROUP * random.below(u64::from(GROUPS / GROUP - groups + 1)) as u32;
    }
}

/// Adds pauses before some requests.
fn rest(operations: &mut [Operation], random: &mut Stream) {
    let (share, longest_us) = (*one_of(&RESTS, random), *one_of(&REST_US, random));
    for operation in operations {
        if random.chance(share) {
            operation.alone = true;
            operation.rest_us = 1 + random.below(u64::from(longest_us)) as u32;
        }
    }
}

/// Makes the card refuse writes: to a part of it, to the whole card once its flash is worn out, or
/// to the whole card for some time.
fn protect(case: &mut Case, random: &mut Stream) {
    case.visit = None;
    let events = 9 * case.operations.len() as u64;
    match random.below(3) {
        0 => {
            case.setup.refuses = Refuses::Worn;
            // The writes are long enough to use up the card's life.
            for operation in &mut case.operations {
                if matches!(operation.asked, Asked::Write { .. }) && operation.area == 0 {
                    operation.blocks = case.setup.window.min(LONGEST);
                    operation.at = random.below(u64::from(case.setup.window - operation.blocks + 1)) as u32;
                }
            }
        }
        1 => {
            case.setup.refuses = Refuses::Middle;
            case.operations.truncate(FEW as usize);
            spread(case, THREE_MIB, random);
            case.setup.place = Place::Middle;
        }
        _ => {
            let lasts = if random.chance(0.3) { u32::MAX } else { 1 + random.below(events) as u32 };
            case.visit = Some((1 + random.below(events), Visit::Protect(lasts)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_corner_has_what_it_is_named_for() {
        let cases: Vec<(Corner, Case)> = (0..700).map(|seed| (Corner::of(seed), draw(seed))).collect();
        let count = |corner: Corner, is: &dyn Fn(&Case) -> bool| {
            cases.iter().filter(|(at, case)| *at == corner && is(case)).count()
        };
        let asks = |case: &Case, asked| case.operations.iter().any(|operation| operation.asked == asked);
        assert_eq!(count(Corner::Sduc, &|case| EVERY_CARD[case.setup.card] == "sduc-4t"), 100);
        assert!(count(Corner::Ones, &|case| case.setup.ones && asks(case, Asked::Erase)) > 80);
        let whole = |o: &Operation| {
            o.asked == Asked::Erase && o.blocks.is_multiple_of(GROUP) && o.at.is_multiple_of(GROUP)
        };
        assert!(count(Corner::Secure, &|case| case.operations.iter().any(whole)) > 60);
        assert!(count(Corner::Rest, &|case| case.operations.iter().any(|o| o.rest_us > 5_000)) > 60);
        assert_eq!(count(Corner::Bounce, &|case| case.setup.bounce && case.setup.host == Host::Sdhci), 100);
        assert_eq!(count(Corner::Early, &|case| case.setup.early), 100);
        let kinds = [
            count(Corner::Protected, &|case| case.setup.refuses == Refuses::Worn),
            count(Corner::Protected, &|case| case.setup.refuses == Refuses::Middle),
            count(Corner::Protected, &|case| matches!(case.visit, Some((_, Visit::Protect(_))))),
        ];
        assert!(kinds.iter().all(|kind| *kind > 20) && kinds.iter().sum::<usize>() == 100, "{kinds:?}");
        // Every request lies inside the window.
        let inside = |case: &Case| case.operations.iter().all(|o| o.at + o.blocks <= case.setup.window);
        assert!(cases.iter().all(|(_, case)| inside(case)));
    }
}
