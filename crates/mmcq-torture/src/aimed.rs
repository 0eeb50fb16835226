//! Small campaigns aimed at cases that random faults seldom hit:
//!
//! - a response that comes just when the data end;
//! - the loss of a response that would have reported the status of a write;
//! - a CMD12 that the controller completes twice;
//! - a bad block in a write that the engine sends in pieces;
//! - a power loss between a write and its flush, or between a write's data and its status.

use super::case::{BusyBy, Case, Luck, Operation, Setup};
use super::machine::TRANSFERS;
use super::run::{Bench, CARDS, Outcome, POINTS, run};
use super::score::Score;
use super::spread::spread;
use super::workloads::workload;
use mmcq::engine::RecoveryStep;
use mmcq_sim::checker::{Asked, Fault, Violation};
use mmcq_sim::faults::{Point, Shot, Strike};

/// Names of the campaigns, in the order of [`CAMPAIGNS`].
pub const NAMES: [&str; 6] =
    ["late answers", "lost answers", "double stops", "bad pieces", "brown-outs", "told early"];
/// Type of an aimed campaign: a function that takes the number of threads and a callback for its
/// progress, and returns what it has counted.
pub type Campaign = fn(usize, &(dyn Fn(u64) + Sync)) -> Score;
/// All aimed campaigns, each of which causes one situation that random faults seldom cause.
pub const CAMPAIGNS: [Campaign; 6] =
    [late_answers, lost_answers, double_stops, bad_pieces, brown_outs, told_early];

/// Executes all aimed campaigns ([`CAMPAIGNS`]), one after the other. `jobs`: number of threads.
pub fn aimed(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let mut total = Score::default();
    for campaign in CAMPAIGNS {
        total.merge(campaign(jobs, &|_| {}));
        progress(1);
    }
    total
}

const WRITE: Asked = Asked::Write { durable: false };
/// Names of the two cards that the machines use: an SD card and an eMMC.
const MADE: [&str; 2] = ["sdhc-16g-hs", "emmc-hs200"];
/// Time in ns that a register access takes. So the driver's work takes time, in which events can
/// happen.
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
        acts: Vec::new(),
    }
}

/// Returns two counts of the events of this kind ([`Point`]) in `clean`, a run without faults:
/// before the first request, and in the whole run.
fn events(clean: &Outcome, point: Point) -> (u64, u64) {
    let place = POINTS.iter().position(|known| *known == point).unwrap_or(0);
    (clean.before.1[place], clean.points[place])
}

/// Makes the outcome a failure if any request failed: the faults of this campaign must not fail a
/// request.
fn all_well(mut outcome: Outcome) -> Outcome {
    if outcome.violation.is_none() && outcome.errors > 0 {
        let text = format!("{} requests failed, and what went wrong was nothing of theirs", outcome.errors);
        outcome.violation = Some(Violation::new(Fault::Untrue, text));
    }
    outcome
}

/// Largest number of responses of one workload that the campaign delays, each in runs of its own.
const RESPONSES_MAX: u64 = 12;
/// Largest delay of a response in ns: longer than every transfer of this campaign, and shorter than
/// every deadline of the stack.
const LATEST_NS: u64 = 4_000_000;
/// Delays that are tried around the end of the data: from 500 ns before it to 1500 ns after it, in
/// steps of 50 ns.
const AROUND_NS: (u64, u64, usize) = (500, 1_500, 50);
/// Extra time in ns from which a request counts as delayed by the late response. A smaller
/// difference can come from the timing of register accesses.
const LATER_NS: u64 = 2 * ACCESS_NS as u64;

/// Delays a response beyond the end of the data, by a little more each time, so that the response
/// comes at each moment of the driver's work after the data.
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

/// Returns the shortest delay in ns of a read's response that makes the run longer by more than
/// [`LATER_NS`] than the run without a delay (`clean`). A response with a shorter delay still comes
/// before the end of the read's data. `late` makes the case for a delay.
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

/// Makes the outcome a failure if recovery began: the driver must not take a late response for a
/// lost one.
fn only_late(mut outcome: Outcome) -> Outcome {
    if outcome.violation.is_none() && outcome.steps.0[RecoveryStep::Classify as usize] > 0 {
        let text = "something was recovered from, and an answer was only late";
        outcome.violation = Some(Violation::new(Fault::Untrue, text));
    }
    outcome
}

/// Faults of a response; each of them strikes the response to a read.
const DAMAGES: [Strike; 4] = [Strike::Crc, Strike::Lost, Strike::EndBit, Strike::Index];
/// Bit CARD_ECC_FAILED of R1 [SD 4.10.1].
const ECC_FAILED: u32 = 1 << 21;

/// Damages the response to a read by which the card would have reported the status of the write
/// before the read.
///
/// In one case the read's own block is bad, and the card reports ECC_FAILED when the host asks for
/// its status: the write has not failed. In the other case the write has failed, and the card does
/// not report this a second time. In both cases the stack must repeat the write, with success.
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

/// Delays in ns after the response to CMD12 at which a faulty controller raises a second Transfer
/// Complete. They are shorter than the driver needs to begin a new transfer.
const TELLS_NS: [u16; 3] = [100, 300, 500];

/// Makes the controller raise a second Transfer Complete after a CMD12, although no request waits
/// for it. This interrupt must not end the next transfer.
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

/// Numbers of blocks, from the beginning of a write, that the cases damage: three, four or five.
/// After the third damaged block the engine sends the write in pieces; after each further one the
/// pieces are smaller.
const DAMAGED: std::ops::RangeInclusive<u64> = 3..=5;
/// Number of blocks in the write that is damaged.
const WRITTEN: u32 = 8;

/// Makes a block bad in a write that the engine sends in pieces. The response to the next piece
/// reports the error, which belongs to the request of the bad block. The cases run on `jobs`
/// threads; `progress` is called with the number of machines that have been done since its last
/// call.
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

/// Makes the card's supply voltage dip at each response of a workload with a cache, flushes and
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

/// Faults that destroy the response with the status of a write. The write was reported complete
/// before, when its data were transferred.
const UNTOLD: [Strike; 3] = [Strike::Lost, Strike::Crc, Strike::BrownOut];

/// Loses the response that reports the status of a write, or the card's power. The write was
/// already reported complete, when its data were transferred. The next flush must fail.
///
/// On a card without a cache the power stays on. There the checker cannot distinguish a write that
/// was lost on its way to the medium from one that is on the medium.
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
