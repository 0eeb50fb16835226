//! Queues: how much a card's command queue gains if software or the controller drives it.
//!
//! The boards are:
//!
//! - a phone, for which MediaTek published rates without and with its software queue (AndroBench: 4
//!   KiB by eight threads, then long sequential requests);
//! - a PC's controller with a command queue engine, with all lanes (ways to drive the card) for
//!   each load;
//! - a card slot with an A2 card, whose class promises 4000 random reads and 2000 random writes a
//!   second;
//! - an eMMC 5.0 without a queue that supports packed commands;
//! - a controller that executes lists of transfers. Rates were published for drivers that executed
//!   only the last transfer of each list, so they are not shown.

use super::{Amount, Row, each, mib_per_s, workers};
use crate::platform::Platform;
use crate::runner::{Outcome, RunError, Setting};

/// Boards on which the experiment about command queues runs; each has its own tables.
pub const BOARDS: [&str; 5] = ["cmdq-mt6761", "intel-jsl", "sdcq-a2", "generic", "adma3-sprd"];

/// Name of the card on the fourth of [`BOARDS`]. The card supports packed commands.
const PACKED_CARD: &str = "emmc-packed";

/// Lane (way to drive the card): its name in these tables, and its setting.
type Lane = (&'static str, Setting);

const SINGLE: Lane = ("single", Setting::Mmcq);
const TASKS: Lane = ("tasks", Setting::Tasks);
const ENGINE: Lane = ("cqe", Setting::Cqe);
const AUTO: Lane = ("auto", Setting::Auto);
const PACKED: Lane = ("packed", Setting::Packed);
const CHAINS: Lane = ("adma3", Setting::Adma3);

/// Returns the ways to send transfers to the card (lanes, such as the card's queue or packed
/// commands) that are compared on this board.
fn lanes_of(name: &str) -> &'static [Lane] {
    match name {
        "generic" => &[SINGLE, PACKED],
        "adma3-sprd" => &[SINGLE, CHAINS],
        "intel-jsl" => &[SINGLE, TASKS, ENGINE, AUTO],
        _ => &[SINGLE, TASKS],
    }
}

/// Published rates of AndroBench on a phone: cell, `rw=`, request size, threads, and rates in MB/s
/// without and with the queue.
const PHONE: [(&str, &str, &str, u32, f64, f64); 4] = [
    ("rand read", "randread", "4k", 8, 25.0, 62.0),
    ("rand write", "randwrite", "4k", 8, 34.0, 35.0),
    ("seq read", "read", "1m", 1, 270.0, 272.0),
    ("seq write", "write", "1m", 1, 142.0, 142.0),
];

/// Rates that the card's class A2 guarantees: name of the load, value of `rw=`, and requests of 4
/// KiB per second.
const A2: [(&str, &str, f64); 2] = [("rand read", "randread", 4000.0), ("rand write", "randwrite", 2000.0)];

/// Loads that run on each lane (way to drive the card): cell, `rw=`, request size, depth.
const LOADS: [(&str, &str, &str, u32); 8] = [
    ("rand read, depth 1", "randread", "4k", 1),
    ("rand read, depth 3", "randread", "4k", 3),
    ("rand read, depth 8", "randread", "4k", 8),
    ("rand read, depth 32", "randread", "4k", 32),
    ("rand write, depth 32", "randwrite", "4k", 32),
    ("70/30, depth 32", "randrw", "4k", 32),
    ("seq read 4k, depth 32", "read", "4k", 32),
    ("seq read 64k, depth 8", "read", "64k", 8),
];

/// Returns a job file with one thread that has `depth` requests of the size `bs` under way and
/// transfers `mib` MiB in all. `rw`: kind of the accesses, as in fio.
fn deep(rw: &str, bs: &str, depth: u32, mib: u64) -> String {
    let mix = if rw == "randrw" { "rwmixread=70\n" } else { "" };
    format!(
        "[t]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=libaio\niodepth={depth}\nrw={rw}\n{mix}bs={bs}\nsize=1G\nio_size={mib}m\n"
    )
}

/// Returns a job file with `threads` threads, each of which has one request under way. `rw` and
/// `bs` are fio's options of the same name; each thread transfers `mib` MiB.
fn threads(rw: &str, bs: &str, threads: u32, mib: u64) -> String {
    format!(
        "[t]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=psync\nnumjobs={threads}\nrw={rw}\nbs={bs}\nsize=1G\nio_size={mib}m\ngroup_reporting\n"
    )
}

fn mb_per_s(outcome: &Outcome) -> f64 {
    mib_per_s(outcome) * f64::from(1 << 20) / 1e6
}

fn iops(outcome: &Outcome) -> f64 {
    outcome.counters.ios as f64 / (outcome.counters.elapsed_ns.max(1) as f64 / 1e9)
}

fn row(cell: String, setting: &str, unit: &str, model: f64) -> Row {
    let (setting, unit) = (setting.to_owned(), unit.to_owned());
    Row { cell, setting, unit, published: None, fitted: false, model, limit: None }
}

/// Runs the comparison of queues on one of [`BOARDS`], and returns the rows of its table.
pub fn board(name: &str, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(name).map_err(crate::board::BoardError::from)?;
    match name {
        "cmdq-mt6761" => phone(&platform, amount, progress),
        "sdcq-a2" => {
            let mut rows = promise(&platform, amount, progress)?;
            rows.extend(lanes(&platform, amount, progress)?);
            Ok(rows)
        }
        _ => lanes(&platform, amount, progress),
    }
}

/// Runs a published benchmark of a phone, and returns rows with its published rates. The setting
/// `none` is fitted to the rates without the queue; all other rates are predicted.
fn phone(platform: &Platform, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let mut rows = Vec::new();
    let settings: Vec<(&str, Setting)> =
        [("none", Setting::None)].into_iter().chain([SINGLE, TASKS]).collect();
    for (cell, rw, bs, jobs, without, with) in PHONE {
        let cell = format!("{cell} @{}", platform.name);
        progress(&cell);
        let mib = if jobs == 1 { 128 } else { 16 } * if amount.full { 8 } else { 1 };
        let runs: Vec<(Setting, u64)> = settings.iter().map(|&(_, setting)| (setting, amount.seed)).collect();
        let outcomes = each(platform, None, &workers(&threads(rw, bs, jobs, mib))?, &runs, amount.threads)?;
        for (&(name, setting), outcome) in settings.iter().zip(&outcomes) {
            let published = match setting {
                Setting::None => Some(without),
                Setting::Tasks => Some(with),
                _ => None,
            };
            let fitted = setting == Setting::None;
            rows.push(Row { published, fitted, ..row(cell.clone(), name, "MB/s", mb_per_s(outcome)) });
        }
    }
    Ok(rows)
}

/// Returns rows that compare what the card's performance class A2 guarantees with the rates of the
/// card with its queue.
fn promise(
    platform: &Platform,
    amount: Amount,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, RunError> {
    let mut rows = Vec::new();
    for (cell, rw, promised) in A2 {
        let cell = format!("A2 promise, {cell} @{}", platform.name);
        progress(&cell);
        let lanes = lanes_of(&platform.name);
        let runs: Vec<(Setting, u64)> = lanes.iter().map(|&(_, setting)| (setting, amount.seed)).collect();
        let outcomes = each(platform, None, &workers(&deep(rw, "4k", 32, 32))?, &runs, amount.threads)?;
        for ((name, setting), outcome) in lanes.iter().copied().zip(&outcomes) {
            let published = (setting == Setting::Tasks).then_some(promised);
            rows.push(Row { published, ..row(cell.clone(), name, "IOPS", iops(outcome)) });
        }
    }
    Ok(rows)
}

/// Runs each load with each way to send transfers (lane), and with Linux's setting `none`. The rows
/// have the rate and its limit, then the 99.9th percentile of the latency, interrupts and CPU time.
fn lanes(platform: &Platform, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let (mut rates, mut others) = (Vec::new(), Vec::new());
    let card = (platform.name == BOARDS[3]).then_some(PACKED_CARD);
    for (load, rw, bs, depth) in LOADS {
        let cell = format!("{load} @{}", platform.name);
        progress(&cell);
        let mib = if bs == "4k" { 16 } else { 64 } * if amount.full { 8 } else { 1 };
        let settings: Vec<(&str, Setting)> = lanes_of(&platform.name)
            .iter()
            .copied()
            .chain([("none", Setting::None), ("limit", Setting::Limit)])
            .collect();
        let runs: Vec<(Setting, u64)> = settings.iter().map(|&(_, setting)| (setting, amount.seed)).collect();
        let outcomes = each(platform, card, &workers(&deep(rw, bs, depth, mib))?, &runs, amount.threads)?;
        let limit = outcomes.last().map(mib_per_s);
        for (&(name, setting), outcome) in settings.iter().zip(&outcomes) {
            if setting == Setting::Limit {
                continue;
            }
            let counters = &outcome.counters;
            rates.push(Row { limit, ..row(cell.clone(), name, "MiB/s", mib_per_s(outcome)) });
            let reads = outcome.group();
            let direction = usize::from(rw == "randwrite");
            let tail = reads.dirs[direction].clat.histogram.percentiles(&[99.9]);
            let tail_us = tail.first().map_or(0.0, |ns| *ns as f64 / 1e3);
            others.push(row(format!("{load}, p99.9 @{}", platform.name), name, "us", tail_us));
            let each = counters.cpu.interrupts as f64 / counters.ios.max(1) as f64;
            others.push(row(format!("{load}, interrupts @{}", platform.name), name, "each", each));
            let busy_us = counters.cpu.busy_ns as f64 / 1e3 / counters.ios.max(1) as f64;
            others.push(row(format!("{load}, CPU @{}", platform.name), name, "us each", busy_us));
        }
    }
    rates.extend(others);
    Ok(rates)
}

/// Splits the rows into tables: one for each board and unit.
pub fn parts(rows: &[Row]) -> Vec<Vec<Row>> {
    let mut parts: Vec<Vec<Row>> = Vec::new();
    let kind = |row: &Row| (row.cell.split_once(" @").map(|(_, board)| board.to_owned()), row.unit.clone());
    for row in rows {
        match parts.iter_mut().find(|part| kind(&part[0]) == kind(row)) {
            Some(part) => part.push(row.clone()),
            None => parts.push(vec![row.clone()]),
        }
    }
    parts
}
