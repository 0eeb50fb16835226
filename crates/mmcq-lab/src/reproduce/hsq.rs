//! HSQ: what a software queue brings to a card without a hardware one. Average of five runs, as published.

use super::{Amount, Row, mib_per_s, one, workers};
use crate::platform::Platform;
use crate::runner::{RunError, Setting};

/// Runs of which the mean is taken, as the publication does.
const RUNS: u64 = 5;

/// Cell, `rw=`, published without and with the queue, in MiB/s.
const CELLS: [(&str, &str, f64, f64); 4] = [
    ("seq read", "read", 59.66, 60.68),
    ("rand read", "randread", 27.04, 31.36),
    ("seq write", "write", 69.68, 71.66),
    ("rand write", "randwrite", 35.96, 68.76),
];

/// The experiment's board, and the same with another CPU or host.
pub const BOARDS: [&str; 4] = ["hsq-sprd", "hsq-sprd-busy", "hsq-defer", "hsq-nobusy"];

/// The published job. `io_size` in MiB for each of the 20 jobs; `None`: all of it.
pub fn job(rw: &str, io_mib: Option<u64>) -> String {
    let part = io_mib.map_or(String::new(), |mib| format!("io_size={mib}M\n"));
    format!(
        "[test_{rw}]\nfilename=/dev/mmcblk0p30\ndirect=1\niodepth=20\nrw={rw}\nbs=4K\nsize=1G\n{part}group_reporting\nnumjobs=20\n"
    )
}

/// Runs the experiment on one board.
pub fn board(name: &str, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(name).map_err(crate::board::BoardError::from)?;
    let own_board = name == BOARDS[0];
    let mut rows = Vec::new();
    for (cell, rw, before, after) in CELLS {
        let workers = workers(&job(rw, (!amount.full).then_some(if rw == "read" { 16 } else { 4 })))?;
        let cell = if own_board { cell.to_owned() } else { format!("{cell} @{name}") };
        let mean = |setting: Setting, progress: &mut dyn FnMut(&str)| {
            progress(&format!("{cell}, {}", setting.name()));
            let (mut rate, mut merge) = (0.0, 0.0);
            for k in 0..RUNS {
                let outcome = one(&platform, None, &workers, setting, amount.seed + k)?;
                rate += mib_per_s(&outcome) / RUNS as f64;
                merge += outcome.counters.merge() / RUNS as f64;
            }
            Ok::<_, RunError>((rate, merge))
        };
        let (limit, _) = mean(Setting::Limit, progress)?;
        for setting in [Setting::None, Setting::HsqTag, Setting::HsqFifo, Setting::Mmcq, Setting::MmcqOwn] {
            let (model, merge) = mean(setting, progress)?;
            let published = match setting {
                Setting::None => Some(before),
                Setting::HsqTag => Some(after),
                _ => None,
            };
            let row = |cell: String, unit: &str, published, model, limit| Row {
                cell,
                setting: setting.name().to_owned(),
                unit: unit.to_owned(),
                published,
                fitted: own_board && published.is_some() && setting == Setting::None,
                model,
                limit,
            };
            rows.push(row(cell.clone(), "MiB/s", published.filter(|_| own_board), model, Some(limit)));
            if own_board && !rw.starts_with("rand") {
                rows.push(row(format!("{cell}, merging"), "4K/transfer", None, merge, None));
            }
        }
    }
    // Rates of a cell together, then its merging.
    rows.sort_by_key(|row| {
        CELLS.iter().position(|c| row.cell.starts_with(c.0)).map(|at| (at, row.cell.contains("merging")))
    });
    Ok(rows)
}
