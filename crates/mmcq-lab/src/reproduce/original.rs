//! Unmodified Linux next to its models: results of a kernel that ran a published job on the
//! laboratory's controller and card (`mmcq guest --json`).

use super::{Row, fifo, hsq};
use crate::guest::{Load, MODULE, Report};
use crate::runner::Setting;
use std::fmt::Write;

/// Prefix that the name of a setting has in rows of unmodified Linux.
const PREFIX: &str = "original ";

/// Parses the text of a file of guest reports, one report per line. The error is one line.
pub fn reports(text: &str) -> Result<Vec<Report>, String> {
    let read = |(number, text)| {
        serde_json::from_str::<Report>(text).map_err(|error| format!("line {number}: {error}"))
    };
    (1..).zip(text.lines()).map(read).collect()
}

/// Returns the published figure of unmodified Linux that belongs to a row of the model's table, in
/// the row's unit. `load`: the published results of one load. `None`: `load` has no figure for this
/// row.
fn found(row: &Row, load: &Load, card: &str) -> Option<f64> {
    if let Some(rw) = hsq::load_of(&row.cell).filter(|_| load.jobs == 20) {
        let is_its = rw == load.load;
        return match row.unit.as_str() {
            "MiB/s" => is_its.then_some(load.mib_per_s),
            "4K each" => is_its.then_some(load.merged),
            _ => None,
        };
    }
    if load.load != "randread" || load.jobs != 8 || fifo::card_of(&row.cell) != card {
        return None;
    }
    let what = row.cell.strip_prefix("rand read ")?;
    let what = what.split_once(',').map_or(what, |(what, _)| what);
    match what.strip_prefix('p') {
        Some(percent) => load.percentiles_us.get(percent.trim_end_matches(".0")).copied(),
        None => (what == "iops avg").then_some(load.mib_per_s * 256.0),
    }
}

/// Returns the name of the simulated setting with which a report of unmodified Linux is compared;
/// `mmcq` for a report of the kernel module `mmcq.ko`.
pub(super) fn simulated(report: &Report) -> &str {
    if report.setting == MODULE { Setting::Mmcq.name() } else { &report.setting }
}

/// Makes rows with rates that were measured in a guest, from `reports` of runs on `board`: for each
/// of `rows`, which has a simulated rate, one of unmodified Linux in the same load, or of `mmcq.ko`
/// if the row is of this stack. Copies the published value of the row into the new one. A row
/// without such a run has none.
pub fn rows(rows: &[Row], reports: &[Report], board: &str) -> Vec<Row> {
    let of = |row: &Row| {
        // Linux counts only the requests that its own block layer merged, not those that mmcq
        // merged.
        let counted = |report: &Report| report.setting != MODULE || row.unit != "4K each";
        let its = |report: &&Report| {
            report.platform == board && simulated(report) == row.setting && counted(report)
        };
        let mut loads =
            reports.iter().filter(its).flat_map(|r| r.loads.iter().map(move |load| (load, &r.card)));
        let model = loads.find_map(|(load, card)| found(row, load, card))?;
        let setting = format!("{PREFIX}{}", row.setting);
        Some(Row { setting, model, fitted: false, ..row.clone() })
    };
    rows.iter().filter_map(of).collect()
}

/// Returns a table in Markdown. Each row has four values: published, of unmodified Linux, of its
/// model, and of mmcq. It also has the differences between the first three.
///
/// If `as_long` has the row, the model's value is from there: its runs had as many requests as
/// those of unmodified Linux.
pub fn table(rows: &[Row], originals: &[Row], as_long: &[Row]) -> String {
    let mut out = String::from(
        "| cell | unit | published | original | residual | stand-in | off by | `mmcq` | `mmcq-own` |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for original in originals {
        let setting = original.setting.trim_start_matches(PREFIX);
        let of = |setting: &str| {
            let is =
                |row: &&Row| row.cell == original.cell && row.unit == original.unit && row.setting == setting;
            let found = if setting.starts_with("mmcq") { None } else { as_long.iter().find(is) };
            found.or_else(|| rows.iter().find(is)).map(|row| row.model)
        };
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        let percent = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:+.1} %"));
        let stand_in = of(setting);
        let error = stand_in.map(|value| 100.0 * (value / original.model - 1.0));
        let _ = writeln!(
            out,
            "| {}, {setting} | {} | {} | {:.2} | {} | {} | {} | {} | {} |",
            original.cell,
            original.unit,
            number(original.published),
            original.model,
            percent(original.error_percent()),
            number(stand_in),
            percent(error),
            number(of("mmcq")),
            number(of("mmcq-own")),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn row(cell: &str, unit: &str, setting: &str, published: Option<f64>, model: f64) -> Row {
        let (cell, unit, setting) = (cell.to_owned(), unit.to_owned(), setting.to_owned());
        Row { cell, setting, unit, published, fitted: true, model, limit: None }
    }

    fn load(rw: &str, jobs: u32) -> Load {
        Load {
            load: rw.to_owned(),
            bytes: 4096,
            depth: 1,
            jobs,
            requests: 1,
            reaps: "all".to_owned(),
            mib_per_s: 32.0,
            latency_us: 1.0,
            merged: 2.5,
            elapsed_us: 1.0,
            switches: 0,
            percentiles_us: BTreeMap::from([("99".to_owned(), 2500.0), ("99.5".to_owned(), 3000.0)]),
            counters: None,
        }
    }

    fn report(platform: &str, setting: &str, loads: Vec<Load>) -> Report {
        Report {
            platform: platform.to_owned(),
            card: String::new(),
            setting: setting.to_owned(),
            cpus: 2,
            instruction_ns: 1,
            wake_ns: 1,
            irq_ns: 1,
            register_read_ns: 1,
            register_write_ns: 1,
            schedule: Vec::new(),
            begin: Vec::new(),
            output: Vec::new(),
            loads,
            counters: crate::guest::Counters::default(),
        }
    }

    #[test]
    fn the_original_stands_beside_the_publication_and_its_stand_in() {
        let model = [
            row("rand read", "MiB/s", "hsq-tag", Some(31.36), 33.6),
            row("rand read", "MiB/s", "mmcq", None, 34.0),
            row("seq read, merging", "4K each", "hsq-tag", None, 4.0),
            row("seq read, merging", "4K each", "mmcq", None, 10.0),
            row("rand read @hsq-defer", "MiB/s", "hsq-tag", None, 4.0),
        ];
        let reports = [
            report("hsq-sprd", "hsq-tag", vec![load("randread", 1), load("randread", 20), load("read", 20)]),
            report("generic", "none", vec![load("randread", 20)]),
            report("hsq-sprd", "mmcq.ko", vec![load("randread", 20), load("read", 20)]),
        ];
        let text = serde_json::to_string(&reports[0]).unwrap();
        assert_eq!(super::reports(&text).unwrap(), reports[..1]);
        let originals = rows(&model, &reports, "hsq-sprd");
        assert_eq!(originals.len(), 3, "{originals:?}");
        let text = table(&model, &originals, &[]);
        assert!(
            text.contains(
                "| rand read, hsq-tag | MiB/s | 31.36 | 32.00 | +2.0 % | 33.60 | +5.0 % | 34.00 |  |"
            ),
            "{text}"
        );
        assert!(
            text.contains("| seq read, merging, hsq-tag | 4K each |  | 2.50 |  | 4.00 | +60.0 % |"),
            "{text}"
        );
        // The table has `mmcq.ko` in Linux, and the simulator's difference from it.
        assert!(
            text.contains("| rand read, mmcq | MiB/s |  | 32.00 |  | 34.00 | +6.2 % | 34.00 |  |"),
            "{text}"
        );
        let as_long = [row("seq read, merging", "4K each", "hsq-tag", None, 3.0)];
        let text = table(&model, &originals, &as_long);
        assert!(text.contains("| 2.50 |  | 3.00 | +20.0 % |"), "{text}");
    }

    #[test]
    fn percentiles_are_those_of_the_cell_s_card() {
        let model = [
            row("rand read p99", "us", "none", Some(1450.0), 1400.0),
            row("rand read p99.5", "us", "none", None, 1.0),
            row("rand read p99, card B", "us", "none", None, 1.0),
            row("rand read iops avg", "IOPS", "none", None, 1.0),
        ];
        let reports = [report("fifo-sdhci", "none", vec![load("randread", 8)])];
        let values: Vec<f64> = rows(&model, &reports, "fifo-sdhci").iter().map(|row| row.model).collect();
        assert_eq!(values, [2500.0, 3000.0, 8192.0]);
    }
}
