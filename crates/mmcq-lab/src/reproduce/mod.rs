//! Reproductions of published tables. Four public discussions (threads) about Linux published
//! measurements: HSQ, FIFO, STREAM and SDIO. A reproduction shows published value, model and error
//! side by side, with the physical limit, and marks cells to which parameters were fitted.

mod disks;
pub mod fair;
pub mod fifo;
pub mod hsq;
pub mod listed;
pub mod never;
pub mod original;
pub mod queues;
pub mod sdio;
pub mod spread;
pub mod stream;
pub mod stream_sweep;

use crate::fio::{self, Worker as FioWorker};
use crate::platform::Platform;
use crate::runner::{Outcome, Run, RunError, Setting, run};
use crate::table::Table;
use mmcq_sim::parallel;
use serde::{Deserialize, Serialize};

/// A row of a reproduction: one number of its table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the case that this number of the table belongs to. On a board that is not the
    /// experiment's own: `cell @board`.
    pub cell: String,
    /// Name of the setting: which stack ran, and how it was configured.
    pub setting: String,
    /// Unit of the row's numbers.
    pub unit: String,
    /// Published value; `None`: nothing was published for this row.
    pub published: Option<f64>,
    /// Whether parameters of the model were fitted to the published value.
    pub fitted: bool,
    /// Value that the model of the experiment gives.
    pub model: f64,
    /// Physical limit: the value that wire and card allow without a host; `None`: it was not
    /// computed for this number.
    pub limit: Option<f64>,
}

impl Row {
    /// Returns the model's difference from the published value in percent; `None`: no value was
    /// published.
    pub fn error_percent(&self) -> Option<f64> {
        self.published.filter(|p| *p > 0.0).map(|p| (self.model / p - 1.0) * 100.0)
    }

    /// Returns the model's value in percent of the physical limit; `None`: the row has no limit.
    pub fn share_percent(&self) -> Option<f64> {
        self.limit.filter(|l| *l > 0.0).map(|l| self.model / l * 100.0)
    }
}

/// How much work a reproduction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Whether the jobs have their published sizes; false: they are shorter.
    pub full: bool,
    /// Seed of the first run.
    pub seed: u64,
    /// Number of threads that run the jobs.
    pub threads: usize,
}

impl Default for Amount {
    fn default() -> Self {
        Amount { full: false, seed: 1, threads: parallel::cores() }
    }
}

/// Returns the rows as JSON, one object per line.
pub fn json_lines(rows: &[Row]) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(row)?);
        text.push('\n');
    }
    Ok(text)
}

/// Returns the rows as a table: one line for each load, one group of columns for each setting (a
/// stack with its context). A star marks a published value to which parameters were fitted.
pub fn table(rows: &[Row]) -> Table {
    fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
        all.fold(Vec::new(), |mut known, next| {
            if !known.contains(&next) {
                known.push(next);
            }
            known
        })
    }
    let lines: Vec<(&str, &str)> = distinct(rows.iter().map(|r| (r.cell.as_str(), r.unit.as_str())));
    let settings: Vec<&str> = distinct(rows.iter().map(|r| r.setting.as_str()));
    let mut table = Table::default();
    let mut column = |group: &str, head: &str, cell: &dyn Fn(&(&str, &str)) -> String| {
        table.add(group, head, lines.iter().map(cell).collect());
    };
    column("", "cell", &|line| line.0.to_owned());
    column("", "unit", &|line| line.1.to_owned());
    column("", "limit", &|line| {
        let row = rows.iter().find(|r| (r.cell.as_str(), r.unit.as_str()) == *line && r.limit.is_some());
        row.and_then(|r| r.limit).map_or(String::new(), number)
    });
    for setting in settings {
        let of = |line: &(&str, &str), f: &dyn Fn(&Row) -> String| {
            let row =
                rows.iter().find(|r| r.setting == setting && (r.cell.as_str(), r.unit.as_str()) == *line);
            row.map_or(String::new(), f)
        };
        column(setting, "paper", &|line| {
            let star = |row: &Row| if row.fitted { "*" } else { "" };
            of(line, &|row| row.published.map_or(String::new(), |p| number(p) + star(row)))
        });
        column(setting, "model", &|line| of(line, &|row| number(row.model)));
        column(setting, "error", &|line| {
            of(line, &|row| row.error_percent().map_or(String::new(), |e| format!("{e:+.1}%")))
        });
        column(setting, "limit", &|line| {
            of(line, &|row| row.share_percent().map_or(String::new(), |s| format!("{s:.1}%")))
        });
    }
    table
}

fn number(value: f64) -> String {
    let digits = if value.abs() < 1_000.0 && value.fract() != 0.0 { 2 } else { 0 };
    format!("{value:.digits$}")
}

/// Returns the workers of a built-in job, given as the text of a job file.
fn workers(text: &str) -> Result<Vec<FioWorker>, RunError> {
    let file = fio::parse_text("built-in job", text.as_bytes(), &fio::System)?;
    Ok(fio::expand(&file.jobs)?)
}

/// Returns the rate in MiB/s of all data of a run, from the first submission to the last
/// completion.
fn mib_per_s(outcome: &Outcome) -> f64 {
    let c = &outcome.counters;
    c.bytes as f64 / f64::from(1 << 20) / (c.elapsed_ns.max(1) as f64 / 1e9)
}

/// Runs, in `threads` threads, each of these pairs of setting (a stack with its context) and seed
/// on a machine of its own. Returns the results in the order of the pairs.
fn each(
    platform: &Platform,
    card: Option<&str>,
    workers: &[FioWorker],
    runs: &[(Setting, u64)],
    threads: usize,
) -> Result<Vec<Outcome>, RunError> {
    let results = parallel::each(runs.len(), threads, |n| {
        let (setting, seed) = runs[n];
        run(&Run { workers, platform, card, setting, seed }, None, &mut |_, _| ())
    });
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            cell: "rand read".to_owned(),
            setting: "none".to_owned(),
            unit: "MiB/s".to_owned(),
            published: Some(27.04),
            fitted: true,
            model: 27.12,
            limit: Some(34.71),
        }
    }

    #[test]
    fn a_line_of_json_has_exactly_the_promised_keys() {
        let text = json_lines(&[row(), Row { published: None, limit: None, ..row() }]).unwrap();
        let keys = ["cell", "setting", "unit", "published", "fitted", "model", "limit"];
        for line in text.lines() {
            let value: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            assert!(value.keys().eq(keys.iter()), "{line}");
        }
        assert!(text.contains("\"published\":null"));
    }

    #[test]
    fn the_table_is_aligned() {
        let ours = |model| Row { setting: "mmcq".to_owned(), published: None, fitted: false, model, ..row() };
        let other = |row: Row| Row { cell: "a longer cell".to_owned(), ..row };
        let text = table(&[row(), ours(31.4), other(row()), other(ours(123.4))]).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let bars = |line: &str| line.match_indices('|').map(|(at, _)| at).collect::<Vec<_>>();
        assert!(lines.iter().all(|line| bars(line) == bars(lines[1])), "{text}");
        assert!(lines[0].contains("| none") && lines[0].contains("| mmcq"), "{text}");
        for part in ["27.04*", "+0.3%", "78.1%", "123.40"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
