//! Small runs aimed at what chance seldom hits: an answer that comes just as the data end, a lost
//! answer that would have told how a write went, a stop that completes twice, a bad block in a
//! piece of a write, a supply that is lost between a write and its flush, or between a write's data
//! and its status.

use super::case::{BusyBy, Case, Luck, Operation, Setup};
use super::machine::TRANSFERS;
use super::run::{Bench, CARDS, Outcome, POINTS, run};
use super::score::Score;
use super::spread::spread;
use super::workloads::workload;
use mmcq::engine::RecoveryStep;
use mmcq_sim::checker::{Asked, Fault, Violation};
use mmcq_sim::faults::{Point, Shot, Strike};

/// Names, in the order of [`CAMPAIGNS`].
pub const NAMES: [&str; 6] =
    ["late answers", "lost answers", "double stops", "bad pieces", "brown-outs", "told early"];
/// A campaign: threads, and what is told of its progress.
pub type Campaign = fn(usize, &(dyn Fn(u64) + Sync)) -> Score;
/// All of this file.
pub const CAMPAIGNS: [Campaign; 6] =
    [late_answers, lost_answers, double_stops, bad_pieces, brown_outs, told_early];

/// All of them, one after the other.
pub fn aimed(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let mut total = Score::default();
    for campaign in CAMPAIGNS {
        total.merge(campaign(jobs, &|_| {}));
        progress(1);
    }
    total
}

const WRITE: Asked = Asked::Write { durable: false };
/// Machines with an SD card, and with an eMMC.
const MADE: [&str; 2] = ["sdhc-16g-hs", "emmc-hs200"];
/// The price of a register access: what a driver does at once takes a while, in which something may
/// come.
const ACCESS_NS: u8 = 150;

fn machine(name: &str) -> Setup {
    let card = CARDS.iter().position(|card| *card == name).unwrap_or(0);
    Setup { card, depth: 1, access_ns: ACCESS_NS, ..Setup::PLAIN }
}

fn case(setup: Setup, list: &[(Asked, u32, u32)], luck: Luck) -> Case {
    let one = |&(asked, at, blocks): &(Asked, u32, u32)| Operation::plain(asked, at, blocks);
    Case {
        seed: 1,
        setup,
        operations: list.iter().map(one).collect(),
        cuts: Vec::new(),
        luck,
        one_life: true,
        dry: false,
        visit: None,
    }
}

/// Events of this point before the first request, and in all.
fn events(clean: &Outcome, point: Point) -> (u64, u64) {
    let place = POINTS.iter().position(|known| *known == point).unwrap_or(0);
    (clean.before.1[place], clean.points[place])
}

/// No request failed by this.
fn all_well(mut outcome: Outcome) -> Outcome {
    if outcome.violation.is_none() && outcome.errors > 0 {
        let text = format!("{} requests failed, and what went wrong was nothing of theirs", outcome.errors);
        outcome.violation = Some(Violation::new(Fault::Untrue, text));
    }
    outcome
}

/// Responses of one load that may be late, at most.
const RESPONSES_MAX: u64 = 12;
/// The latest answer: later than the end of every transfer here, sooner than every deadline.
const LATEST_NS: u64 = 4_000_000;
/// Answers are tried from so much before the end of the data to so much after it, in such steps.
const AROUND_NS: (u64, u64, usize) = (500, 1_500, 50);
/// A run is later for the answer's sake, and not by the way its register accesses fell.
const LATER_NS: u64 = 2 * ACCESS_NS as u64;

/// The news of a response comes later than the end of the data, by a little more each time: at each
/// moment of what the driver does about that end.
fn late_answers(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let list = [(WRITE, 0, 2), (Asked::Read, 0, 2), (Asked::Read, 1, 1), (WRITE, 2, 1)];
    let machines: Vec<Setup> =
        TRANSFERS.iter().flat_map(|&transfer| MADE.map(|name| Setup { transfer, ..machine(name) })).collect();
    spread(jobs, &|index, bench, score| {
        let Some(&setup) = machines.get((index / RESPONSES_MAX) as usize) else { return false };
        let clean = run(&case(setup, &list, Luck::Good), bench, None);
        let (before, all) = events(&clean, Point::Response);
        let nth = before + 1 + index % RESPONSES_MAX;
        if nth > all {
            return true;
        }
        let late = |ns| {
            let shot = Shot { point: Point::Response, nth, strike: Strike::Late(ns) };
            case(setup, &list, Luck::Shots(vec![shot]))
        };
        let last_ns = end_of_data(&clean, bench, &late);
        let (from, to) = (last_ns.saturating_sub(AROUND_NS.0), last_ns + AROUND_NS.1);
        for ns in (from.max(1)..to).step_by(AROUND_NS.2) {
            let case = late(ns);
            let outcome = only_late(all_well(run(&case, bench, None)));
            if !score.add(&case, &outcome) {
                break;
            }
        }
        progress(1);
        true
    })
}

/// So late an answer is what its request waited for in the end.
fn end_of_data(clean: &Outcome, bench: &mut Bench, late: &dyn Fn(u64) -> Case) -> u64 {
    let (mut sooner, mut later) = (0, LATEST_NS);
    while later - sooner > 1 {
        let middle = sooner.midpoint(later);
        match run(&late(middle), bench, None).work_ns > clean.work_ns + LATER_NS {
            true => later = middle,
            false => sooner = middle,
        }
    }
    later
}

/// Nothing was lost, so nothing is recovered from.
fn only_late(mut outcome: Outcome) -> Outcome {
    if outcome.violation.is_none() && outcome.steps.0[RecoveryStep::Classify as usize] > 0 {
        let text = "something was recovered from, and an answer was only late";
        outcome.violation = Some(Violation::new(Fault::Untrue, text));
    }
    outcome
}

/// What is wrong with the answer to a read.
const DAMAGES: [Strike; 4] = [Strike::Crc, Strike::Lost, Strike::EndBit, Strike::Index];
/// CARD_ECC_FAILED [SD 4.10.1].
const ECC_FAILED: u32 = 1 << 21;

/// The answer to a read, which tells how the write before it went, is damaged. Either the read's
/// own block is bad, and the card says ECC_FAILED when it is asked: the write has not failed. Or
/// the write has failed indeed, and the card will never say so. Both times it is written once more,
/// and well.
fn lost_answers(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let read = Asked::Read;
    let list = [(WRITE, 0, 1), (read, 4, 1), (WRITE, 1, 1), (read, 5, 1), (WRITE, 2, 1), (read, 6, 1)];
    spread(jobs, &|index, bench, score| {
        let Some(&name) = MADE.get(index as usize) else { return false };
        let setup = Setup { depth: 4, merge: false, cache: false, ..machine(name) };
        let clean = run(&case(setup, &list, Luck::Good), bench, None);
        let (responses, blocks) = (events(&clean, Point::Response).0, events(&clean, Point::Medium).0);
        for (place, _) in (0..).zip(list).filter(|(_, (asked, ..))| *asked == read) {
            for damage in DAMAGES {
                let answer = Shot { point: Point::Response, nth: responses + 1 + place, strike: damage };
                let status = Shot { nth: answer.nth + 1, strike: Strike::Status(ECC_FAILED), ..answer };
                let medium = Shot { point: Point::Medium, nth: blocks + place, strike: Strike::Fail };
                for other in [status, medium] {
                    let case = case(setup, &list, Luck::Shots(vec![answer, other]));
                    score.add(&case, &all_well(run(&case, bench, None)));
                }
            }
        }
        progress(1);
        true
    })
}

/// Times after the answer to CMD12 at which such a controller says Transfer Complete once more:
/// before the driver can begin anything new.
const TELLS_NS: [u16; 3] = [100, 300, 500];

/// A controller that ends a CMD12 by a Transfer Complete that no request waits for. It must not end
/// what begins next.
fn double_stops(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let read = Asked::Read;
    let list =
        [(read, 0, 8), (read, 8, 8), (WRITE, 0, 4), (read, 0, 4), (WRITE, 2, 3), (WRITE, 3, 1), (read, 0, 8)];
    let by = [BusyBy::Level, BusyBy::Status];
    spread(jobs, &|index, bench, score| {
        let (which, at) = (index as usize / TELLS_NS.len(), index as usize % TELLS_NS.len());
        let Some(&busy) = by.get(which / TRANSFERS.len()) else { return false };
        let setup = Setup {
            busy,
            transfer: TRANSFERS[which % TRANSFERS.len()],
            stop_tells_ns: TELLS_NS[at],
            auto_stop: false,
            auto_count: false,
            count: false,
            ..machine(MADE[0])
        };
        let case = case(setup, &list, Luck::Good);
        score.add(&case, &run(&case, bench, None));
        progress(1);
        true
    })
}

/// Damaged blocks at the beginning of a write: after the third it goes on in pieces, after more in
/// smaller ones.
const DAMAGED: std::ops::RangeInclusive<u64> = 3..=5;
/// Blocks of that write.
const WRITTEN: u32 = 8;

/// A write that goes on in pieces, and a block of one of them is bad: that shows in the answer to
/// the next piece, and is its own request's error.
fn bad_pieces(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let list = [(WRITE, 0, WRITTEN), (Asked::Read, 0, WRITTEN)];
    spread(jobs, &|index, bench, score| {
        let Some(&name) = MADE.get(index as usize) else { return false };
        let setup = Setup { cache: false, supervisor: false, ..machine(name) };
        let clean = run(&case(setup, &list, Luck::Good), bench, None);
        let (sent, stored) = (events(&clean, Point::WriteBlock).0, events(&clean, Point::Medium).0);
        for damaged in DAMAGED {
            for bad in 1..=u64::from(WRITTEN) {
                let shot = |nth| Shot { point: Point::WriteBlock, nth: sent + nth, strike: Strike::Crc };
                let mut shots: Vec<Shot> = (1..=damaged).map(shot).collect();
                shots.push(Shot { point: Point::Medium, nth: stored + bad, strike: Strike::Fail });
                let case = case(setup, &list, Luck::Shots(shots));
                score.add(&case, &run(&case, bench, None));
            }
        }
        progress(1);
        true
    })
}

/// The card loses its supply for a moment at each answer of a work with a cache, flushes and
/// durable writes.
fn brown_outs(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let loads = [7, 8].map(workload);
    spread(jobs, &|index, bench, score| {
        let Some(load) = loads.get(index as usize) else { return false };
        let clean = run(load, bench, None);
        let (before, all) = events(&clean, Point::Response);
        for nth in before + 1..=all {
            let shot = Shot { point: Point::Response, nth, strike: Strike::BrownOut };
            let case = Case { luck: Luck::Shots(vec![shot]), ..load.clone() };
            score.add(&case, &run(&case, bench, None));
        }
        progress(1);
        true
    })
}

/// What happens to an answer that is to tell how a write went which is complete.
const UNTOLD: [Strike; 3] = [Strike::Lost, Strike::Crc, Strike::BrownOut];

/// Writes are complete with their data, and then the answer that would have told how they went is
/// lost, or the supply: the next flush says so. Without a cache the judge cannot tell a write that
/// was lost on its way to the medium from one that is there, so the supply stays.
fn told_early(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let loads = [7, 8].map(workload);
    let by = [BusyBy::Interrupt, BusyBy::Level, BusyBy::Status];
    spread(jobs, &|index, bench, score| {
        let (which, cache) = (index as usize / 2, index % 2 == 0);
        let (Some(load), Some(&busy)) = (loads.get(which / by.len()), by.get(which % by.len())) else {
            return false;
        };
        let load = Case { setup: Setup { early: true, busy, cache, ..load.setup }, ..load.clone() };
        let clean = run(&load, bench, None);
        score.add(&load, &clean);
        let (before, all) = events(&clean, Point::Response);
        for nth in before + 1..=all {
            for &strike in UNTOLD.iter().filter(|&&strike| cache || strike != Strike::BrownOut) {
                let shot = Shot { point: Point::Response, nth, strike };
                let case = Case { luck: Luck::Shots(vec![shot]), ..load.clone() };
                score.add(&case, &run(&case, bench, None));
            }
        }
        progress(1);
        true
    })
}
