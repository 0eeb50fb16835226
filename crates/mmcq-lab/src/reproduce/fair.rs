//! Fair: two clients share a card; one writes sequentially, one reads at random places. Shows the
//! reader's latency and the writer's rate with each scheduler.
//!
//! No values were published for this. The experiment examines a remark of the maintainer in the
//! discussion STREAM: that BFQ suits these cards.

use super::{Amount, Row};
use crate::fio::stats::Stats;
use crate::platform::Platform;
use crate::runner::{Run, RunError, Setting, run};

/// Boards of the experiment: the eMMC of HSQ, and the reader of STREAM with an SD card.
pub const BOARDS: [&str; 2] = ["hsq-sprd", "stream-rtsx"];

/// Name of each column of the table, with the changes of the board for it. The reader is client 1.
const SCHEDULERS: [(&str, &[&str]); 6] = [
    ("fifo", &["stack.scheduler=fifo"]),
    ("reads-first", &["stack.scheduler=reads-first"]),
    ("deadline", &["stack.scheduler=deadline"]),
    ("fair", &["stack.scheduler=fair"]),
    ("fair 4:1", &["stack.scheduler=fair", "stack.weights=[4, 1]"]),
    ("fair 1:4", &["stack.scheduler=fair", "stack.weights=[1, 4]"]),
];

/// Returns the jobs of the two clients as a job file; they run for this number of seconds.
pub fn jobs(seconds: u64) -> String {
    format!(
        "[global]\ndirect=1\nioengine=libaio\nfilename=/dev/mmcblk0\nsize=1G\ntime_based\nruntime={seconds}\n\
         [writer]\nrw=write\nbs=64k\niodepth=16\n[reader]\nrw=randread\nbs=4k\niodepth=1\noffset=2G\n"
    )
}

/// Runs the experiment about several clients that share a card on the board `name`, with each
/// scheduler, and returns the rows of the table. `amount`: how much data the jobs transfer;
/// `progress` gets the name of each part that begins.
pub fn board(name: &str, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let workers = super::workers(&jobs(if amount.full { 30 } else { 3 }))?;
    let mut rows = Vec::new();
    for (column, changes) in SCHEDULERS {
        progress(&format!("{column} @{name}"));
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        let platform = Platform::load_with(name, &changes).map_err(crate::board::BoardError::from)?;
        let (workers, platform, card) = (&workers[..], &platform, None);
        let setting = Setting::Mmcq;
        let one = Run { workers, platform, card, setting, seed: amount.seed };
        let outcome = run(&one, None, &mut |_, _| ())?;
        let [writer, reader] = &outcome.stats[..] else { continue };
        let rate = |stats: &Stats, direction: usize| {
            let bytes = stats.dirs[direction].io_bytes as f64;
            bytes / (1 << 20) as f64 / (outcome.counters.elapsed_ns as f64 / 1e9)
        };
        let percentile = |percent: f64| {
            let ns = reader.dirs[0].clat.histogram.percentiles(&[percent]);
            ns.first().map_or(0.0, |ns| *ns as f64 / 1e3)
        };
        let mut row = |cell: &str, unit: &str, model| {
            let (cell, setting, unit) = (format!("{cell} @{name}"), column.to_owned(), unit.to_owned());
            rows.push(Row { cell, setting, unit, published: None, fitted: false, model, limit: None });
        };
        for percent in [50.0, 99.0, 99.9] {
            row(&format!("reader p{percent}"), "us", percentile(percent));
        }
        row("reader", "MiB/s", rate(reader, 0));
        row("writer", "MiB/s", rate(writer, 1));
    }
    Ok(rows)
}
