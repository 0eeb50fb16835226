//! FIFO: order of dispatch in the software queue, by tag or first in first out: latency percentiles of eight readers, and the rows that the reviewer asked for.

use super::{Amount, Row, mib_per_s, one, workers};
use crate::platform::Platform;
use crate::runner::{Outcome, RunError, Setting};

/// Percentile, published with the queue in tag order, and without the queue; microseconds.
const PERCENTILES: [(f64, f64, f64); 17] = [
    (1.0, 498.0, 799.0),
    (5.0, 865.0, 938.0),
    (10.0, 963.0, 963.0),
    (20.0, 1045.0, 979.0),
    (30.0, 1090.0, 996.0),
    (40.0, 1139.0, 1004.0),
    (50.0, 1172.0, 1020.0),
    (60.0, 1221.0, 1045.0),
    (70.0, 1254.0, 1074.0),
    (80.0, 1319.0, 1106.0),
    (90.0, 1401.0, 1172.0),
    (95.0, 1614.0, 1237.0),
    (99.0, 2769.0, 1450.0),
    (99.5, 3589.0, 1516.0),
    (99.9, 31589.0, 1762.0),
    (99.95, 66323.0, 2180.0),
    (99.99, 200_279.0, 9503.0),
];

/// IOPS least, mean, greatest: with the queue in tag order, and without the queue.
const IOPS: [(&str, f64, f64); 3] =
    [("iops min", 3175.0, 7300.0), ("iops avg", 5981.67, 7544.62), ("iops max", 8554.0, 7736.0)];

/// A second card, fitted to the mean of the column without the queue: the two published columns cannot come from one card (see `timing.md`).
const CARD_B: &str = "fifo-emmc-b";

/// The published job for `rw=`; `io_mib` for each of its eight threads.
pub fn job(rw: &str, io_mib: u64) -> String {
    format!(
        "[{rw}]\nrw={rw}\nbs=4K\nnumjobs=8\nsize=1G\nio_size={io_mib}M\nnrfiles=1\ndirect=1\nthread\ngroup_reporting\n"
    )
}

/// The experiment's board, and the same with a busy CPU.
pub const BOARDS: [&str; 2] = ["fifo-allwinner", "fifo-allwinner-busy"];

/// Runs the experiment on one board.
pub fn board(name: &str, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(name).map_err(crate::board::BoardError::from)?;
    let own_board = name == BOARDS[0];
    let at = |cell: &str| if own_board { cell.to_owned() } else { format!("{cell} @{name}") };
    let settings = [Setting::HsqTag, Setting::None, Setting::HsqFifo, Setting::Mmcq, Setting::MmcqOwn];
    // The tail at 99.99 % needs every I/O of the job, so it always runs whole.
    let reads = workers(&job("randread", 64))?;
    let mut rows = Vec::new();
    let mut outcomes = Vec::new();
    for setting in settings {
        progress(&format!("{}, {}", at("rand read"), setting.name()));
        outcomes.push((setting, one(&platform, None, &reads, setting, amount.seed)?));
    }
    let limit = one(&platform, None, &reads, Setting::Limit, amount.seed)?;
    for (percent, tag, none) in PERCENTILES {
        for (setting, outcome) in &outcomes {
            let published = published(*setting, tag, none).filter(|_| own_board);
            rows.push(Row {
                cell: at(&format!("rand read p{percent}")),
                setting: setting.name().to_owned(),
                unit: "us".to_owned(),
                published,
                fitted: published.is_some() && *setting == Setting::HsqTag && percent == 99.99,
                model: percentile_us(outcome, percent),
                limit: None,
            });
        }
    }
    for (i, (cell, tag, none)) in IOPS.into_iter().enumerate() {
        for (setting, outcome) in &outcomes {
            let published = published(*setting, tag, none).filter(|_| own_board);
            rows.push(Row {
                cell: at(&format!("rand read {cell}")),
                setting: setting.name().to_owned(),
                unit: "IOPS".to_owned(),
                published,
                fitted: published.is_some() && *setting == Setting::HsqTag && i < 2,
                model: iops(outcome)[i],
                limit: (i == 1).then(|| iops(&limit)[1]),
            });
        }
    }
    if own_board {
        for setting in settings {
            progress(&format!("rand read, card B, {}", setting.name()));
            let outcome = one(&platform, Some(CARD_B), &reads, setting, amount.seed)?;
            let none = setting == Setting::None;
            rows.push(Row {
                cell: "rand read iops avg, card B".to_owned(),
                setting: setting.name().to_owned(),
                unit: "IOPS".to_owned(),
                published: none.then_some(IOPS[1].2),
                fitted: none,
                model: iops(&outcome)[1],
                limit: None,
            });
        }
    }
    for (cell, rw) in [("seq read", "read"), ("seq write", "write"), ("rand write", "randwrite")] {
        let workers = workers(&job(rw, if amount.full { 64 } else { 8 }))?;
        let limit = mib_per_s(&one(&platform, None, &workers, Setting::Limit, amount.seed)?);
        for setting in settings {
            progress(&format!("{}, {}", at(cell), setting.name()));
            rows.push(Row {
                cell: at(cell),
                setting: setting.name().to_owned(),
                unit: "MiB/s".to_owned(),
                published: None,
                fitted: false,
                model: mib_per_s(&one(&platform, None, &workers, setting, amount.seed)?),
                limit: Some(limit),
            });
        }
    }
    Ok(rows)
}

fn published(setting: Setting, tag: f64, none: f64) -> Option<f64> {
    match setting {
        Setting::HsqTag => Some(tag),
        Setting::None => Some(none),
        _ => None,
    }
}

fn percentile_us(outcome: &Outcome, percent: f64) -> f64 {
    let ns = outcome.group().dirs[0].clat.histogram.percentiles(&[percent]);
    ns.first().map_or(0.0, |ns| *ns as f64 / 1e3)
}

/// Least, mean, greatest, as fio groups them: sums over the threads.
fn iops(outcome: &Outcome) -> [f64; 3] {
    let series = &outcome.group().dirs[0].iops;
    [series.min as f64, series.mean, series.max as f64]
}
