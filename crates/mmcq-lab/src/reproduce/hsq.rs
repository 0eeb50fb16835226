//! HSQ: how much Linux's software queue gains with a card without a hardware queue.
//!
//! The published figures are means of five runs. On the experiment's own board the model has five
//! runs, too, or one longer run where this gives the same mean. On other boards it has two runs.

use super::{Amount, Row, each, mib_per_s, workers};
use crate::guest::Report;
use crate::platform::Platform;
use crate::runner::{Outcome, RunError, Setting};

/// Number of runs of each load. A number in the table is the mean over these runs, as in the
/// published benchmark of the software queue; some lines have fewer runs.
const RUNS: u64 = 5;

/// Amount in MiB that each of the 20 jobs transfers in the steady state.
const SHARE_MIB: u64 = 4;

/// Amount in MiB that each of the 20 jobs writes. The first writes fill the card's cache, and only
/// then the rate is that of the drain to the flash. In a run of 80 MiB in all this beginning
/// changes the mean of five runs by 0.6 %. So one run of 400 MiB replaces the five.
const WRITE_MIB: u64 = 5 * SHARE_MIB;

/// Amount in MiB of each job that reads. Readers of one file need long until their positions, and
/// so the merging of their requests, are steady. Over 32 MiB the mean is 1 % too low; over 256 MiB
/// it is within 0.3 % of the mean over the whole GiB. So one long run replaces five short ones.
const READ_MIB: u64 = 256;

/// Cell of the table, `rw=`, and published rates in MiB/s without and with the software queue.
const CELLS: [(&str, &str, f64, f64); 4] = [
    ("seq read", "read", 59.66, 60.68),
    ("rand read", "randread", 27.04, 31.36),
    ("seq write", "write", 69.68, 71.66),
    ("rand write", "randwrite", 35.96, 68.76),
];

/// Names of lines of the table, and the time in us per 4 KiB of unmodified Linux on this controller
/// and card, without and with the queue. Linux 6.1 ran with its own `sdhci` and `mmc_hsq` in a
/// virtual machine, in virtual time. An instruction took 1 ns, a register read 150 ns, a register
/// write 40 ns, waking a thread 20 us, and an interrupt 1.5 us to arrive. The costs in the board's
/// file are derived from these runs.
const LINUX_ITSELF: [(&str, f64, f64); 2] = [("rand read", 144.0, 117.6), ("rand write", 110.0, 56.4)];

/// Comparison of the model of Linux with unmodified Linux, for one load and one setting.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// Name of the load, such as `rand read`, as in the table of published values.
    pub cell: &'static str,
    /// Setting of the model: `none` or `hsq-tag`.
    pub setting: Setting,
    /// Times in us per 4 KiB: of unmodified Linux on the laboratory's controller, of the model of
    /// Linux, and as published.
    pub us: [f64; 3],
}

impl Meeting {
    /// Returns by how many percent the model of Linux needs more time than unmodified Linux.
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.us[1] / self.us[0] - 1.0)
    }

    /// Returns by how many percent unmodified Linux on the laboratory's controller is slower than
    /// the published value. A CPU cost in the model of Linux cannot explain this difference, since
    /// the model has no part in it.
    pub fn residual_percent(&self) -> f64 {
        100.0 * (self.us[0] / self.us[2] - 1.0)
    }
}

/// Returns a comparison with unmodified Linux for each load and setting. `rows` are rows of the
/// table for the board on which the published experiment was made.
pub fn meetings(rows: &[Row]) -> Vec<Meeting> {
    let us = |rate: f64| 4096.0 / f64::from(1 << 20) / rate * 1e6;
    let both = LINUX_ITSELF
        .iter()
        .flat_map(|&(cell, none, queue)| [(cell, Setting::None, none), (cell, Setting::HsqTag, queue)]);
    both.filter_map(|(cell, setting, linux_us)| {
        let row = rows.iter().find(|row| row.cell == cell && row.setting == setting.name())?;
        Some(Meeting { cell, setting, us: [linux_us, us(row.model), us(row.published?)] })
    })
    .collect()
}

/// Returns the text below the table. It says how the model of Linux differs from unmodified Linux,
/// and how unmodified Linux differs from the published values.
pub fn note(rows: &[Row]) -> String {
    let meetings = meetings(rows);
    if meetings.is_empty() {
        return String::new();
    }
    let mut text = "
us for 4 KiB                paper | Linux itself  residual | stand-in  error
"
    .to_owned();
    for meeting in meetings {
        let [linux, model, paper] = meeting.us;
        let cell = format!("{}, {}", meeting.cell, meeting.setting.name());
        let (residual, error) = (meeting.residual_percent(), meeting.error_percent());
        text +=
            &format!("{cell:26}{paper:7.1} | {linux:12.1}  {residual:+7.1}% | {model:8.1}  {error:+4.1}%\n");
    }
    text + "Linux itself: an unmodified Linux 6.1 with its own mmc_hsq on this controller and card, in virtual time; the stand-in's costs are priced after it.\n\
            residual: what no price explains: the board's own instructions and caches, which the model does not have.\n"
}

/// Boards of the experiment: a model of the board of the publication, and variants with another CPU
/// or host.
pub const BOARDS: [&str; 4] = ["hsq-sprd", "hsq-sprd-busy", "hsq-defer", "hsq-nobusy"];

/// Returns the option `rw=` of the case of the experiment with this name, if it was measured on the
/// publication's board: a case with a rate, or one with the mean size of a transfer (", merging").
/// `None`: another case.
pub(super) fn load_of(cell: &str) -> Option<&'static str> {
    CELLS.iter().find(|(name, ..)| cell.trim_end_matches(", merging") == *name).map(|(_, rw, ..)| *rw)
}

/// Returns the published job with this `rw=` as a job file. Each of its 20 jobs transfers
/// `io_bytes`; `None`: the whole file.
pub fn job(rw: &str, io_bytes: Option<u64>) -> String {
    let part = io_bytes.map_or(String::new(), |bytes| format!("io_size={bytes}\n"));
    format!(
        "[test_{rw}]\nfilename=/dev/mmcblk0p30\ndirect=1\niodepth=20\nrw={rw}\nbs=4K\nsize=1G\n{part}group_reporting\nnumjobs=20\n"
    )
}

/// Runs the models of Linux (settings `none` and `hsq-tag`) with as many requests as unmodified
/// Linux had in `reports`. How many requests are merged into a transfer becomes steady only late in
/// a run, so only runs of equal length can be compared.
pub fn as_long(reports: &[Report], amount: Amount) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(BOARDS[0]).map_err(crate::board::BoardError::from)?;
    let mut rows = Vec::new();
    for report in reports.iter().filter(|report| report.platform == BOARDS[0]) {
        let Some(setting) = [Setting::None, Setting::HsqTag].into_iter().find(|s| s.name() == report.setting)
        else {
            continue;
        };
        for load in report.loads.iter().filter(|load| load.jobs == 20) {
            let Some((cell, rw, ..)) = CELLS.iter().find(|(_, rw, ..)| *rw == load.load) else { continue };
            let workers = workers(&job(rw, Some(load.requests / u64::from(load.jobs) * load.bytes)))?;
            let seeds: Vec<_> = (0..RUNS).map(|k| (setting, amount.seed + k)).collect();
            let outcomes = each(&platform, None, &workers, &seeds, amount.threads)?;
            let mean = |f: fn(&Outcome) -> f64| outcomes.iter().map(f).sum::<f64>() / RUNS as f64;
            let row = |cell: String, unit: &str, model| Row {
                cell,
                setting: setting.name().to_owned(),
                unit: unit.to_owned(),
                published: None,
                fitted: false,
                model,
                limit: None,
            };
            rows.push(row((*cell).to_owned(), "MiB/s", mean(mib_per_s)));
            rows.push(row(format!("{cell}, merging"), "4K each", mean(|outcome| outcome.counters.merge())));
        }
    }
    Ok(rows)
}

/// Runs the benchmark of Linux's software queue (HSQ) on the board `name`, and returns the rows of
/// the table. `amount`: how much data the jobs transfer; `progress` gets the name of each part that
/// begins.
pub fn board(name: &str, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(name).map_err(crate::board::BoardError::from)?;
    let own_board = name == BOARDS[0];
    let mut rows = Vec::new();
    for (cell, rw, before, after) in CELLS {
        let (share, runs) = match (rw, own_board) {
            ("read", true) => (READ_MIB, if amount.full { RUNS } else { 1 }),
            ("randread", true) => (SHARE_MIB, RUNS),
            (_, true) => (WRITE_MIB, if amount.full { RUNS } else { 1 }),
            // Other boards only show what a handicap costs, for which the mean of two runs is
            // enough.
            ("read", false) => (2 * SHARE_MIB, if amount.full { RUNS } else { 2 }),
            (_, false) => (SHARE_MIB, if amount.full { RUNS } else { 2 }),
        };
        let workers = workers(&job(rw, (!amount.full).then_some(share << 20)))?;
        let cell = if own_board { cell.to_owned() } else { format!("{cell} @{name}") };
        progress(&cell);
        let settings = [
            Setting::Limit,
            Setting::None,
            Setting::HsqTag,
            Setting::HsqFifo,
            Setting::Mmcq,
            Setting::MmcqOwn,
        ];
        let seeds: Vec<(Setting, u64)> =
            settings.iter().flat_map(|&s| (0..runs).map(move |k| (s, amount.seed + k))).collect();
        let outcomes = each(&platform, None, &workers, &seeds, amount.threads)?;
        let mean = |at: usize, f: fn(&Outcome) -> f64| {
            let runs = runs as usize;
            outcomes.iter().skip(at * runs).take(runs).map(f).sum::<f64>() / runs as f64
        };
        let limit = mean(0, mib_per_s);
        for (at, setting) in settings.into_iter().enumerate().skip(1) {
            let model = mean(at, mib_per_s);
            let merge = mean(at, |outcome| outcome.counters.merge());
            let at_work = mean(at, |outcome| 100.0 * outcome.counters.bus_share());
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
            let named = |what: &str| match cell.split_once(" @") {
                Some((cell, board)) => format!("{cell}, {what} @{board}"),
                None => format!("{cell}, {what}"),
            };
            if !rw.starts_with("rand") {
                rows.push(row(named("merging"), "4K each", None, merge, None));
            }
            rows.push(row(named("bus at work"), "%", None, at_work, None));
        }
    }
    // First the rates of a cell, then the figures that explain them.
    let extra =
        |row: &Row| 2 * u8::from(row.cell.contains("bus at work")) + u8::from(row.cell.contains("merging"));
    rows.sort_by_key(|row| CELLS.iter().position(|c| row.cell.starts_with(c.0)).map(|at| (at, extra(row))));
    Ok(rows)
}
