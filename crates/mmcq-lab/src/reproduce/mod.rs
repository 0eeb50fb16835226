//! Published tables, run again: published value, model and error side by side, with the physical limit, and which cells were fitted.

pub mod fifo;
pub mod hsq;

use crate::fio::{self, Worker as FioWorker};
use crate::platform::Platform;
use crate::runner::{Outcome, Run, RunError, Setting, run};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// One number of a reproduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which cell of the table; on another board than the experiment's: `cell @board`.
    pub cell: String,
    /// Which stack.
    pub setting: String,
    /// Unit of the numbers.
    pub unit: String,
    /// What was published.
    pub published: Option<f64>,
    /// Parameters were fitted to it.
    pub fitted: bool,
    /// What the model says.
    pub model: f64,
    /// What wire and card allow, without any host.
    pub limit: Option<f64>,
}

impl Row {
    /// Model against published, in percent.
    pub fn error_percent(&self) -> Option<f64> {
        self.published.filter(|p| *p > 0.0).map(|p| (self.model / p - 1.0) * 100.0)
    }

    /// Share of the limit, in percent.
    pub fn share_percent(&self) -> Option<f64> {
        self.limit.filter(|l| *l > 0.0).map(|l| self.model / l * 100.0)
    }
}

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The exact sizes of the published jobs.
    pub full: bool,
    /// Seed of the first run.
    pub seed: u64,
}

impl Default for Amount {
    fn default() -> Self {
        Amount { full: false, seed: 1 }
    }
}

/// The rows as one JSON object a line.
pub fn json_lines(rows: &[Row]) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(row)?);
        text.push('\n');
    }
    Ok(text)
}

/// The rows as an aligned table.
pub fn table(rows: &[Row]) -> String {
    let number = |value: f64| {
        let digits = if value.abs() < 10_000.0 && value.fract() != 0.0 { 2 } else { 0 };
        format!("{value:.digits$}")
    };
    let cells: Vec<[String; 8]> = rows
        .iter()
        .map(|row| {
            let percent = |value: Option<f64>, sign: bool| match value {
                Some(value) if sign => format!("{value:+.1} %"),
                Some(value) => format!("{value:.1} %"),
                None => String::new(),
            };
            let published = row.published.map_or(String::new(), number);
            let fitted = if row.fitted { "fit" } else { "" };
            [
                row.cell.clone(),
                row.setting.clone(),
                row.unit.clone(),
                published,
                number(row.model),
                percent(row.error_percent(), true),
                fitted.to_owned(),
                percent(row.share_percent(), false),
            ]
        })
        .collect();
    let heads = ["cell", "setting", "unit", "published", "model", "error", "", "of limit"];
    let width =
        |column: usize| cells.iter().map(|c| c[column].len()).chain([heads[column].len()]).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    let mut line = |columns: [&str; 8]| {
        let mut out = String::new();
        for (i, column) in columns.iter().enumerate() {
            // Names to the left, numbers to the right.
            let _ = if i < 3 || i == 6 {
                write!(out, "{column:<w$}  ", w = widths[i])
            } else {
                write!(out, "{column:>w$}  ", w = widths[i])
            };
        }
        text.push_str(out.trim_end());
        text.push('\n');
    };
    line(heads);
    let mut last = "";
    for (row, c) in rows.iter().zip(&cells) {
        if !last.is_empty() && last != row.cell {
            line([""; 8]);
        }
        last = &row.cell;
        line([&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7]]);
    }
    text
}

/// Workers of a job that is part of the program.
fn workers(text: &str) -> Result<Vec<FioWorker>, RunError> {
    let file = fio::parse_text("built-in job", text.as_bytes(), &fio::System)?;
    Ok(fio::expand(&file.jobs)?)
}

/// MiB a second of everything that was moved, from the first submission to the last completion.
fn mib_per_s(outcome: &Outcome) -> f64 {
    let c = &outcome.counters;
    c.bytes as f64 / f64::from(1 << 20) / (c.elapsed_ns.max(1) as f64 / 1e9)
}

fn one(
    platform: &Platform,
    card: Option<&str>,
    workers: &[FioWorker],
    setting: Setting,
    seed: u64,
) -> Result<Outcome, RunError> {
    run(&Run { workers, platform, card, setting, seed }, None, &mut |_, _| ())
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
        let text = table(&[row(), Row { model: 131.5, ..row() }]);
        let ends: Vec<_> = text.lines().map(|l| l.len()).collect();
        assert!(ends.iter().all(|&e| e == ends[0]), "{text}");
        assert!(text.contains("+0.3 %") && text.contains("fit") && text.contains("78.1 %"), "{text}");
    }
}
