//! FIFO: the order in which Linux's software queue dispatches its requests, by the number of a tag
//! or first in, first out. Shows latency percentiles of eight readers, and the loads that the
//! reviewer of the published patch requested.

use super::{Amount, Row, each, mib_per_s, workers};
use crate::platform::Platform;
use crate::runner::{Outcome, RunError, Setting};

/// Percentile, and its published latencies in us: first with Linux's software queue in tag order,
/// then without the queue.
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

/// IOPS that were published for the experiment: smallest, mean and largest. The first value of each
/// is with Linux's software queue in tag order, the second is without the queue.
const IOPS: [(&str, f64, f64); 3] =
    [("iops min", 3175.0, 7300.0), ("iops avg", 5981.67, 7544.62), ("iops max", 8554.0, 7736.0)];

/// Number of runs in tag order, on the board and card for which the experiment was designed, whose
/// mean is shown for a percentile. All other figures are from one run.
const RUNS: u64 = 5;
/// Percentiles for which the table also shows the range over several runs. With Linux's queue in
/// tag order they differ from run to run, since chance decides which request gets a low tag and
/// which one waits longest.
const RANGED: [f64; 4] = [1.0, 95.0, 99.9, 99.99];

/// AndroBench results that were published five days later in the discussion of the published patch.
/// Each entry has the name of the case, `rw=`, request size, threads and unit; then the rates with
/// the queue in tag order, without the queue, and with the queue in FIFO order.
const ANDROBENCH: [(Bench, [f64; 3]); 4] = [
    (("seq read", "read", "1m", 1, "MB/s"), [138.2, 143.7, 146.4]),
    (("seq write", "write", "1m", 1, "MB/s"), [58.2, 51.4, 56.2]),
    (("rand read", "randread", "4k", 8, "IOPS"), [4764.0, 5485.0, 6786.0]),
    (("rand write", "randwrite", "4k", 8, "IOPS"), [2900.0, 1887.0, 2982.0]),
];
type Bench = (&'static str, &'static str, &'static str, u32, &'static str);
/// Chooses one end of a range: returns the smaller or the larger of two values.
type End = fn(f64, f64) -> f64;

/// Text that is printed below the table of the experiment `fifo`, which compares tag order with
/// first in, first out in Linux's software queue.
pub const NOTE: &str = "\
card B: another card, fitted to the mean without the queue. No one card has both published columns: tag order
cannot slow a server that is never idle, and in the thread it costs 60 us a request. So on either card the model has
FIFO order before no queue, where the thread has tag order behind it. The thread's rare 9.5 ms without the queue
(99.99 %) is in no card of the model.
In tag order percentiles are means of five runs; the range stands below those that hang on chance.
AndroBench: the thread's own figures of five days later, by a file system with encryption whose writes wait for
it; neither is in the model.
";

/// Second card of the experiment. Its model is fitted to the mean rate that was published for Linux
/// without its software queue.
const CARD_B: &str = "fifo-emmc-b-hs200";

/// The experiment's board with an SDHCI in place of its own controller, so that unmodified Linux
/// can run on it; and the second card, fitted for this board.
pub const SDHCI: (&str, &str) = ("fifo-sdhci", "fifo-emmc-b");

/// Returns the published job with this `rw=` as a job file; each of its eight threads transfers
/// `io_mib` MiB.
pub fn job(rw: &str, io_mib: u64) -> String {
    format!(
        "[{rw}]\nrw={rw}\nbs=4K\nnumjobs=8\nsize=1G\nio_size={io_mib}M\nnrfiles=1\ndirect=1\nthread\ngroup_reporting\n"
    )
}

/// Boards of the experiment: a model of the board of the publication, and the same with a busy CPU.
pub const BOARDS: [&str; 2] = ["fifo-allwinner", "fifo-allwinner-busy"];

/// Runs the experiment about the order in which a software queue dispatches requests on the board
/// `name`, and returns the rows of the table. `amount`: how much data the jobs transfer; `progress`
/// gets the name of each part that begins.
pub fn board(name: &str, amount: Amount, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, RunError> {
    let platform = Platform::load(name).map_err(crate::board::BoardError::from)?;
    let own_board = name == BOARDS[0] || name == SDHCI.0;
    let card_b = if name == SDHCI.0 { SDHCI.1 } else { CARD_B };
    let at = |cell: &str| if own_board { cell.to_owned() } else { format!("{cell} @{name}") };
    let settings = [Setting::HsqTag, Setting::None, Setting::HsqFifo, Setting::Mmcq, Setting::MmcqOwn];
    let runs: Vec<(Setting, u64)> =
        settings.into_iter().chain([Setting::Limit]).map(|setting| (setting, amount.seed)).collect();
    let further: Vec<(Setting, u64)> = (1..RUNS).map(|k| (Setting::HsqTag, amount.seed + k)).collect();
    // The percentile 99.99 needs all I/Os of the job, so the job always runs in full.
    let reads = workers(&job("randread", 64))?;
    let mut rows = Vec::new();
    // The two published columns cannot come from one card (see docs/laboratory.md). So each is
    // compared with the card that was fitted to it.
    let cards = if own_board { vec![(None, ""), (Some(card_b), ", card B")] } else { vec![(None, "")] };
    for (card, suffix) in cards {
        progress(&at(&format!("rand read{suffix}")));
        let outcomes = each(&platform, card, &reads, &runs, amount.threads)?;
        let limit = outcomes.last().map(|outcome| iops(outcome)[1]);
        let mut outcomes: Vec<Vec<Outcome>> = outcomes.into_iter().map(|outcome| vec![outcome]).collect();
        if own_board && card.is_none() {
            outcomes[0].extend(each(&platform, card, &reads, &further, amount.threads)?);
        }
        let fitted_to = if card.is_some() { Setting::None } else { Setting::HsqTag };
        let mut add = |cell: String,
                       unit: &str,
                       tag: f64,
                       none: f64,
                       fitted: bool,
                       limit,
                       f: &dyn Fn(&[Outcome]) -> Option<f64>| {
            for (setting, outcomes) in settings.into_iter().zip(&outcomes) {
                let Some(model) = f(outcomes) else { continue };
                let published = published(setting, tag, none).filter(|p| own_board && *p > 0.0);
                rows.push(Row {
                    cell: at(&format!("rand read {cell}{suffix}")),
                    setting: setting.name().to_owned(),
                    unit: unit.to_owned(),
                    published,
                    fitted: fitted && published.is_some() && setting == fitted_to,
                    model,
                    limit,
                });
            }
        };
        let mean = |of: &[Outcome], f: &dyn Fn(&Outcome) -> f64| {
            Some(of.iter().map(f).sum::<f64>() / of.len() as f64)
        };
        // Returns the smallest or largest of several runs' values.
        let end = |of: &[Outcome], f: &dyn Fn(&Outcome) -> f64, which: End| {
            (of.len() > 1).then(|| of.iter().map(f).reduce(which)).flatten()
        };
        for (percent, tag, none) in PERCENTILES {
            let fitted = card.is_none() && percent == 99.99;
            let one = |outcome: &Outcome| percentile_us(outcome, percent);
            add(format!("p{percent}"), "us", tag, none, fitted, None, &|all| mean(all, &one));
            let ends: [(&str, End); 2] = [("least", f64::min), ("most", f64::max)];
            for (name, which) in ends.into_iter().filter(|_| RANGED.contains(&percent)) {
                let name = format!("p{percent}, {name} of {RUNS}");
                add(name, "us", 0.0, 0.0, false, None, &|all| end(all, &one, which));
            }
        }
        for (i, (name, tag, none)) in IOPS.into_iter().enumerate() {
            let fitted = i == 1 || (card.is_none() && i == 0);
            let one = |outcome: &Outcome| iops(outcome)[i];
            add(name.to_owned(), "IOPS", tag, none, fitted, limit.filter(|_| i == 1), &|all| mean(all, &one));
        }
    }
    if own_board {
        rows.extend(androbench(&platform, amount, progress)?);
    }
    for (cell, rw) in [("seq read", "read"), ("seq write", "write"), ("rand write", "randwrite")] {
        progress(&at(cell));
        let workers = workers(&job(rw, if amount.full { 64 } else { 8 }))?;
        let outcomes = each(&platform, None, &workers, &runs, amount.threads)?;
        for (setting, outcome) in settings.into_iter().zip(&outcomes) {
            rows.push(Row {
                cell: at(cell),
                setting: setting.name().to_owned(),
                unit: "MiB/s".to_owned(),
                published: None,
                fitted: false,
                model: mib_per_s(outcome),
                limit: outcomes.last().map(mib_per_s),
            });
        }
    }
    Ok(rows)
}

/// Runs AndroBench in the model, and returns the rows of its four figures. `progress` is called
/// with the name of each load before it runs.
fn androbench(
    platform: &Platform,
    amount: Amount,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, RunError> {
    let settings = [Setting::HsqTag, Setting::None, Setting::HsqFifo, Setting::Mmcq, Setting::MmcqOwn];
    let all = settings.map(|setting| (setting, amount.seed));
    let mut rows = Vec::new();
    for ((cell, rw, bs, threads, unit), of_orders) in ANDROBENCH {
        let cell = format!("AndroBench {cell}");
        progress(&cell);
        // AndroBench's file has 64 MiB, and each thread transfers its share of them.
        let mib = 64 / threads * if amount.full { 8 } else { 1 };
        let job = format!(
            "[a]\nfilename=androbench\nrw={rw}\nbs={bs}\nnumjobs={threads}\nsize=64M\nio_size={mib}M\ndirect=1\nthread\ngroup_reporting\n"
        );
        let outcomes = each(platform, None, &workers(&job)?, &all, amount.threads)?;
        let figure = |outcome: &Outcome| match unit {
            "IOPS" => mib_per_s(outcome) * 256.0,
            _ => mib_per_s(outcome) * f64::from(1 << 20) / 1e6,
        };
        let published = of_orders.map(Some).into_iter().chain([None, None]);
        for ((setting, outcome), published) in settings.into_iter().zip(&outcomes).zip(published) {
            let (setting, unit, model) = (setting.name().to_owned(), unit.to_owned(), figure(outcome));
            rows.push(Row {
                cell: cell.clone(),
                setting,
                unit,
                published,
                fitted: false,
                model,
                limit: None,
            });
        }
    }
    Ok(rows)
}

/// Returns the name of the card with which unmodified Linux ran the case `cell` of the experiment.
/// An empty name stands for the card in the board's file.
pub(super) fn card_of(cell: &str) -> &'static str {
    if cell.ends_with(", card B") { SDHCI.1 } else { "" }
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

/// Returns the smallest, mean and largest IOPS as fio groups them: sums over the threads.
fn iops(outcome: &Outcome) -> [f64; 3] {
    let series = &outcome.group().dirs[0].iops;
    [series.min as f64, series.mean, series.max as f64]
}
