//! Compares transfers that stay open with closing each transfer, over block sizes, depths and
//! mixes. Shows whether any case becomes slower. Also counts the commands per MiB with and without
//! merging.

use super::{Amount, Row, mib_per_s, workers};
use crate::platform::Platform;
use crate::runner::{Outcome, Run, RunError, Setting, run};
use mmcq_sim::parallel;
use std::fmt::Write;

/// Grid of the sweep: values of fio's options.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    /// Values of fio's option `bs=`, each also as a number of bytes.
    pub sizes: &'a [(&'a str, u64)],
    /// Values of fio's option `iodepth=`.
    pub depths: &'a [u32],
    /// Values of fio's option `rw=`.
    pub patterns: &'a [&'a str],
}

/// Block sizes of the sweep, as text and in bytes.
const SIZES: [(&str, u64); 5] =
    [("4k", 4 << 10), ("16k", 16 << 10), ("64k", 64 << 10), ("256k", 256 << 10), ("1M", 1 << 20)];

impl Grid<'static> {
    /// All request sizes, queue depths and access patterns for which open and closed transfers are
    /// compared.
    pub const FULL: Self = Grid {
        sizes: &SIZES,
        depths: &[1, 4, 32],
        patterns: &["read", "write", "randread", "randwrite", "rw", "randrw"],
    };
    /// Part of [`Grid::FULL`] that runs in seconds even in a build without optimisation.
    pub const THIN: Self = Grid {
        sizes: &[SIZES[0], SIZES[2], SIZES[4]],
        depths: &[1, 32],
        patterns: &["read", "write", "randread", "randwrite", "rw"],
    };
}

/// Name of the experiment's board.
const BOARD: &str = "stream-rtsx";
/// Change of the board that makes mmcq close each transfer.
const STREAMS_OFF: &str = "stack.streams=off";
/// Name of a board with a host that cannot continue a transfer: each transfer needs a new command.
const BOARD_SDHCI: &str = "hsq-sprd";

/// Name, in the rows of the table, of Linux that closes each transfer after its request.
pub const CLOSE: &str = "close";
/// Name of a setting in the rows of a case: mmcq with `stack.streams=off`, which closes each
/// transfer with its request and leaves none open.
pub const OFF: &str = "streams off";
/// Name, in the rows of the table, of mmcq that leaves transfers open after their requests.
pub const OURS: &str = "mmcq";
/// Name of the gain in percent: mmcq that leaves transfers open, against mmcq that closes each
/// transfer.
pub const GAIN: &str = "mmcq to streams off";
/// Name of the last row of the table: the smallest gain of all cases. A gain says how much faster
/// mmcq is if it leaves transfers open than if it closes each.
pub const WORST: &str = "worst cell";

/// Returns the amount in MiB that a case with this `rw=` (`pattern`) and requests of `bytes` bytes
/// transfers: enough for the steady state and for the card's garbage collection, if there is any.
fn amount_mib(pattern: &str, bytes: u64) -> u64 {
    match (pattern, bytes) {
        ("read" | "randread", 0..=0xffff) => 8,
        ("read" | "randread", _) => 32,
        (_, 0..=0xffff) => 16,
        _ => 64,
    }
}

fn job(pattern: &str, size: &str, depth: u32, mib: u64) -> String {
    format!(
        "[cell]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=libaio\niodepth={depth}\nbs={size}\nrw={pattern}\nsize=1G\nio_size={mib}M\n"
    )
}

fn row(cell: &str, setting: &str, unit: &str, model: f64, limit: Option<f64>) -> Row {
    let (cell, setting, unit) = (cell.to_owned(), setting.to_owned(), unit.to_owned());
    Row { cell, setting, unit, published: None, fitted: false, model, limit }
}

fn percent_more(this: f64, than: f64) -> f64 {
    100.0 * (this / than.max(f64::MIN_POSITIVE) - 1.0)
}

/// Runs the sweep. Returns for each case three rates, and by how much mmcq is faster with open
/// transfers than without them. The last row has the case in which this difference is smallest.
pub fn sweep(grid: &Grid<'_>, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let load = |changes: &[String]| Platform::load_with(BOARD, changes);
    let on = load(&[]).map_err(crate::board::BoardError::from)?;
    let off = load(&[STREAMS_OFF.to_owned()]).map_err(crate::board::BoardError::from)?;
    let settings = [(CLOSE, &on, Setting::Close), (OFF, &off, Setting::Mmcq), (OURS, &on, Setting::Mmcq)];
    let mut rows = Vec::new();
    let mut worst: Option<(f64, String)> = None;
    for &pattern in grid.patterns {
        progress(&format!("sweep: {pattern}"));
        let mut cells = Vec::new();
        for &(size, bytes) in grid.sizes {
            for &depth in grid.depths {
                let label = format!("{pattern} {size}, depth {depth}");
                cells.push((label, workers(&job(pattern, size, depth, amount_mib(pattern, bytes)))?));
            }
        }
        let outcomes = parallel::each(cells.len() * settings.len(), amount.threads, |n| {
            let (_, platform, setting) = settings[n % settings.len()];
            let workers = &cells[n / settings.len()].1;
            run(&Run { workers, platform, card: None, setting, seed: amount.seed }, None, &mut |_, _| ())
        });
        let rates = outcomes.into_iter().map(|outcome| outcome.map(|o| mib_per_s(&o)));
        let rates = rates.collect::<Result<Vec<f64>, RunError>>()?;
        for ((label, _), rates) in cells.iter().zip(rates.chunks(settings.len())) {
            for (rate, (name, ..)) in rates.iter().zip(settings) {
                rows.push(row(label, name, "MiB/s", *rate, None));
            }
            let gain = percent_more(rates[2], rates[1]);
            rows.push(row(label, GAIN, "%", gain, None));
            if worst.as_ref().is_none_or(|(least, _)| gain < *least) {
                worst = Some((gain, label.clone()));
            }
        }
    }
    rows.extend(worst.map(|(gain, label)| row(&format!("{WORST}: {label}"), GAIN, "%", gain, None)));
    Ok(rows)
}

/// Runs sequential 4 KiB requests with and without merging, on a host that needs a new command for
/// each transfer (it cannot continue the data of the last one). Returns rows with the rate and the
/// number of commands per MiB. `progress` is called with the name of each load before it runs.
pub fn merging(amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(BOARD_SDHCI).map_err(crate::board::BoardError::from)?;
    let settings = [Setting::Limit, Setting::None, Setting::HsqFifo, Setting::Mmcq, Setting::MmcqOwn];
    let apart = Platform::load_with(BOARD_SDHCI, &["stack.merging=off".to_owned()])
        .map_err(crate::board::BoardError::from)?;
    let (mut rows, mut extra) = (Vec::new(), Vec::new());
    for pattern in ["read", "write"] {
        for depth in [1, 4, 32] {
            let cell = format!("{pattern} 4k, depth {depth} @{BOARD_SDHCI}");
            progress(&cell);
            let workers = workers(&job(pattern, "4k", depth, 64))?;
            let runs = settings.map(|setting| (setting, amount.seed));
            let outcomes = super::each(&platform, None, &workers, &runs, amount.threads)?;
            let alone = super::each(&apart, None, &workers, &[(Setting::Mmcq, amount.seed)], amount.threads)?;
            let limit = outcomes.first().map(mib_per_s);
            let named = settings.iter().map(|setting| setting.name()).zip(&outcomes).skip(1);
            for (setting, outcome) in named.chain(alone.iter().map(|outcome| ("not merged", outcome))) {
                rows.push(row(&cell, setting, "MiB/s", mib_per_s(outcome), limit));
                let commands = format!("commands: {cell}");
                extra.push(row(&commands, setting, "each MiB", commands_per_mib(outcome), None));
            }
        }
    }
    rows.extend(extra);
    Ok(rows)
}

fn commands_per_mib(outcome: &Outcome) -> f64 {
    let c = &outcome.counters;
    c.bus.command_count() as f64 / (c.bytes as f64 / f64::from(1 << 20)).max(f64::MIN_POSITIVE)
}

/// Returns the sweep as an aligned table with one line for each case.
pub fn table(rows: &[Row]) -> String {
    let of = |cell: &str, setting: &str| {
        let found = rows.iter().find(|row| row.cell == cell && row.setting == setting);
        found.map(|row| row.model)
    };
    let gains: Vec<&Row> = rows.iter().filter(|row| row.setting == GAIN).collect();
    let width = gains.iter().map(|row| row.cell.len()).max().unwrap_or(0);
    let head = |text: &str| format!("  {text:>11}");
    let mut out = format!("{:width$}  unit ", "cell");
    for setting in [CLOSE, OFF, OURS] {
        out += &head(setting);
    }
    let _ = writeln!(out, "  {GAIN}");
    for row in gains {
        let rate = |setting| of(&row.cell, setting).map_or(head(""), |rate| head(&format!("{rate:.2}")));
        let unit = if of(&row.cell, OURS).is_some() { "MiB/s" } else { "" };
        let rates = [CLOSE, OFF, OURS].map(rate).concat();
        let gain = format!("{:+.2}%", row.model);
        let _ = writeln!(
            out,
            "{:width$}  {unit:5}{rates}  {gain:>gain_width$}",
            row.cell,
            gain_width = GAIN.len()
        );
    }
    out
}
