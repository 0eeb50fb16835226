//! STREAM: a multi-block transfer stays open while requests are sequential, by a patch for Linux's
//! driver of a card reader that was published in 2021. The loads are consecutive samples of 10 MiB,
//! one thread with 8 KiB to 1 MiB, and the loop of GNOME Disks.

use super::{Amount, Row, disks, each, mib_per_s, workers};
use crate::platform::Platform;
use crate::runner::{Outcome, RunError, Setting};

/// A row of the table of the experiment STREAM: a load, and its published values.
struct Cell {
    name: &'static str,
    rw: &'static str,
    bs: &'static str,
    /// Amount in MiB that the published job transfers.
    full_mib: u64,
    /// Amount in MiB that the job transfers without `--full`: enough for the steady state.
    share_mib: u64,
    unit: &'static str,
    /// Published values of Linux without and with the patch that keeps transfers open, if there are
    /// some.
    published: Option<(f64, f64)>,
    /// Whether parameters of the card or the board were fitted to the published value of Linux
    /// without the patch.
    fitted: bool,
}

/// Distance in MiB between two samples of GNOME Disks. 100 samples span the whole card.
const SAMPLE_GAP_MIB: u64 = 1211;
const SAMPLE_MIB: u64 = 10;

const fn cell(name: &'static str, rw: &'static str, bs: &'static str, mib: (u64, u64)) -> Cell {
    Cell { name, rw, bs, full_mib: mib.0, share_mib: mib.1, unit: "MiB/s", published: None, fitted: false }
}

const fn published(cell: Cell, before: f64, after: f64) -> Cell {
    Cell { published: Some((before, after)), fitted: true, ..cell }
}

const CELLS: [Cell; 10] = [
    Cell { unit: "MB/s", ..cell("seq read", "read", "10M", (1000, 300)) },
    Cell { unit: "MB/s", ..cell("seq write", "write", "10M", (1000, 300)) },
    published(cell("rand read 1M", "randread", "1M", (1024, 128)), 85.1, 86.6),
    // Garbage collection occurs every 15 MiB, so 256 MiB give a mean.
    published(cell("rand write 1M", "randwrite", "1M", (1024, 256)), 38.4, 39.3),
    published(cell("rand read 8k", "randread", "8k", (1024, 16)), 16.5, 12.4),
    published(cell("rand read 16k", "randread", "16k", (1024, 32)), 23.3, 20.0),
    published(cell("rand write 8k", "randwrite", "8k", (100, 16)), 4060.0 / 1024.0, 4215.0 / 1024.0),
    Cell {
        fitted: false,
        ..published(cell("rand write 16k", "randwrite", "16k", (100, 32)), 7201.0 / 1024.0, 6499.0 / 1024.0)
    },
    cell("seq read 64k", "read", "64k", (256, 32)),
    cell("seq write 64k", "write", "64k", (256, 32)),
];

/// Latencies in us of the 1 MiB loads in fio's report: row of the table, figure, and the published
/// values of Linux without and with the patch that keeps transfers open.
const LATENCIES: [(&str, Figure, Option<f64>, Option<f64>); 11] = [
    ("rand read 1M", Figure::Mean, Some(11_735.0), Some(11_543.0)),
    ("rand read 1M", Figure::Percentile(50.0), Some(11_731.0), Some(11_469.0)),
    ("rand read 1M", Figure::Percentile(99.0), Some(11_863.0), None),
    ("rand read 1M", Figure::Percentile(99.9), Some(15_664.0), None),
    ("rand read 1M", Figure::Most, Some(34_579.0), None),
    ("rand write 1M", Figure::Mean, Some(25_990.0), None),
    ("rand write 1M", Figure::Percentile(50.0), Some(23_462.0), Some(20_000.0)),
    ("rand write 1M", Figure::Percentile(95.0), Some(56_361.0), Some(75_000.0)),
    ("rand write 1M", Figure::Percentile(99.0), Some(59_507.0), Some(78_000.0)),
    ("rand write 1M", Figure::Percentile(99.9), Some(86_500.0), None),
    ("rand write 1M", Figure::Percentile(99.95), None, Some(120_000.0)),
];

/// Figure of the latencies in fio's report, such as a percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Mean,
    Percentile(f64),
    Most,
}

impl Figure {
    fn name(self) -> String {
        match self {
            Figure::Mean => "mean".to_owned(),
            Figure::Percentile(percent) => format!("p{percent}"),
            Figure::Most => "most".to_owned(),
        }
    }

    /// Returns this figure of a run in us, for the direction of its job.
    fn of_us(self, outcome: &Outcome) -> f64 {
        let dirs = &outcome.group().dirs;
        let dir = dirs.iter().max_by_key(|dir| dir.clat.ns.samples).unwrap_or(&dirs[0]);
        let ns = match self {
            Figure::Mean => dir.clat.ns.mean,
            Figure::Percentile(percent) => {
                dir.clat.histogram.percentiles(&[percent]).first().map_or(0.0, |ns| *ns as f64)
            }
            Figure::Most => dir.clat.ns.max as f64,
        };
        ns / 1e3
    }
}

/// Text that is printed below the table of STREAM.
pub const NOTE: &str = "\
latency: completion latency of the 1 MiB loads; their medians follow from the rates. The model's tail is what the
card does; from where the thread's is (reads: 15.7 ms at 99.9 %, 34.6 at most), it does not say, and the model has
no rare delay for it. Percentiles beyond 99 % need the whole job (--full).
";

/// Name of a card that reads ahead beyond the count of CMD23.
const CARD_AHEAD: &str = "pro-plus-128-ahead";
/// Names of the rows of the table on which the card's read-ahead has an effect.
const CELLS_AHEAD: [&str; 2] = ["rand read 8k", "rand read 16k"];

/// Names of the boards of the experiment STREAM: only the model of the board that the publication
/// used.
pub const BOARDS: [&str; 1] = ["stream-rtsx"];

impl Cell {
    /// Returns the published fio job of this case of the experiment, or a shorter one unless
    /// `full`.
    fn job(&self, full: bool) -> String {
        let mib = if full { self.full_mib } else { self.share_mib };
        let amount = if self.bs == "10M" {
            format!("rw={}:{SAMPLE_GAP_MIB}M\nnumber_ios={}\n", self.rw, mib / SAMPLE_MIB)
        } else {
            // Small random writes stay within their 100 MiB of the card.
            let size = if self.full_mib < 256 { format!("{}M", self.full_mib) } else { "1G".to_owned() };
            format!("rw={}\nsize={size}\nio_size={mib}M\n", self.rw)
        };
        let name = self.name.replace(' ', "_");
        format!("[{name}]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=psync\nbs={}\n{amount}", self.bs)
    }

    fn rate(&self, outcome: &Outcome) -> f64 {
        let mib = mib_per_s(outcome);
        if self.unit == "MB/s" { mib * 1.048_576 } else { mib }
    }
}

/// Returns rows with the latencies of one cell (board, card and load) in a setting. Only cells
/// whose latencies were published in the discussion STREAM have rows.
fn latency_rows(cell: &Cell, setting: Setting, outcome: &Outcome) -> Vec<Row> {
    let of_cell = LATENCIES.iter().filter(|(name, ..)| *name == cell.name);
    let row = |&(name, figure, before, after): &(&str, Figure, Option<f64>, Option<f64>)| Row {
        cell: format!("latency: {name} {}", figure.name()),
        setting: setting.name().to_owned(),
        unit: "us".to_owned(),
        published: match setting {
            Setting::Close => before,
            Setting::Patch => after,
            _ => None,
        },
        fitted: false,
        model: figure.of_us(outcome),
        limit: None,
    };
    of_cell.map(row).collect()
}

/// Runs the experiment on the board `name`, and returns the rows of the table. `progress` is called
/// with the name of each load before it runs.
pub fn board(name: &str, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(name).map_err(crate::board::BoardError::from)?;
    let own_board = name == BOARDS[0];
    let at = |cell: &str| if own_board { cell.to_owned() } else { format!("{cell} @{name}") };
    let mut rows = Vec::new();
    let (mut extra, mut latencies) = (Vec::new(), Vec::new());
    let on_card = CELLS.iter().map(|cell| (cell, None));
    let ahead = CELLS.iter().filter(|cell| CELLS_AHEAD.contains(&cell.name));
    for (cell, card) in on_card.chain(ahead.map(|cell| (cell, Some(CARD_AHEAD)))) {
        let label = match card {
            Some(_) => at(&format!("{}, card reads ahead", cell.name)),
            None => at(cell.name),
        };
        progress(&label);
        let settings: &[Setting] = match card {
            Some(_) => &[Setting::Limit, Setting::Mmcq, Setting::MmcqOwn],
            None => &[Setting::Limit, Setting::Close, Setting::Patch, Setting::Mmcq, Setting::MmcqOwn],
        };
        let runs: Vec<(Setting, u64)> = settings.iter().map(|&setting| (setting, amount.seed)).collect();
        let outcomes = each(&platform, card, &workers(&cell.job(amount.full))?, &runs, amount.threads)?;
        let limit = outcomes.first().map(|outcome| cell.rate(outcome));
        for (&setting, outcome) in settings.iter().zip(&outcomes).skip(1) {
            let published = cell.published.filter(|_| own_board).and_then(|(before, after)| match setting {
                Setting::Close => Some(before),
                Setting::Patch => Some(after),
                _ => None,
            });
            rows.push(Row {
                cell: label.clone(),
                setting: setting.name().to_owned(),
                unit: cell.unit.to_owned(),
                published,
                fitted: cell.fitted && published.is_some() && setting == Setting::Close,
                model: cell.rate(outcome),
                limit,
            });
            if card.is_none() {
                latencies.extend(latency_rows(cell, setting, outcome));
            }
            let c = &outcome.counters;
            extra.push(Row {
                cell: format!("commands: {label}"),
                setting: setting.name().to_owned(),
                unit: "each I/O".to_owned(),
                published: None,
                fitted: false,
                model: c.bus.command_count() as f64 / c.ios.max(1) as f64,
                limit: None,
            });
        }
    }
    if own_board {
        rows.extend(latencies);
        progress("GNOME Disks' loop");
        rows.extend(disks::rows(&platform, amount)?);
    }
    rows.extend(extra);
    Ok(rows)
}
