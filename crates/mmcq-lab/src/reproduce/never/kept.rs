//! File with the results of cells (each a board, a card and a load), one JSON object per line. With
//! this file a sweep can run in parts, and continue after an interruption.

use super::{Cell, Figures, Measured};
use crate::runner::Setting;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

/// Error about the file of results.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The file of results cannot be read or written.
    #[error("{0}")]
    File(#[from] io::Error),
    /// A line of the file does not have the form in which a sweep writes lines.
    #[error("line {line}: {what}")]
    Line {
        /// Number of the line in the file, from 1.
        line: usize,
        /// Description of what a line of the file of results must contain, for the error message.
        what: &'static str,
    },
}

/// Results of earlier runs (rates of boards, cards and loads) in a file, which is open so that new
/// results are appended.
pub struct Kept {
    file: Mutex<File>,
    seed: u64,
    known: Vec<(String, u64, Map<String, Value>)>,
}

impl Kept {
    /// Opens the file of results, and reads its results with this seed. An incomplete last line is
    /// cut off.
    pub fn open(path: &Path, seed: u64) -> Result<Self, KeptError> {
        let file = File::options().read(true).append(true).create(true).open(path)?;
        let text = io::read_to_string(&file)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let mut known = Vec::new();
        for (line, text) in (1..).zip(text[..whole].lines()) {
            let bad = |what| KeptError::Line { line, what };
            let value: Value = serde_json::from_str(text).map_err(|_| bad("expected a JSON object"))?;
            let cell = value["cell"].as_str().ok_or(bad("expected cell"))?;
            let times = value["times"].as_u64().ok_or(bad("expected times"))?;
            let figures = value["figures"].as_object().ok_or(bad("expected figures"))?;
            if value["seed"].as_u64().ok_or(bad("expected seed"))? == seed {
                known.push((cell.to_owned(), times, figures.clone()));
            }
        }
        Ok(Kept { file: Mutex::new(file), seed, known })
    }

    /// Returns the newest stored result of a cell. `None`: the file has no result of this cell, or
    /// the result lacks a figure that the cell needs.
    pub fn find(&self, cell: &Cell) -> Option<Measured> {
        let name = cell.to_string();
        let (_, times, found) = self.known.iter().rfind(|known| known.0 == name)?;
        let figure = |setting: Setting| {
            let four: Vec<f64> =
                found.get(setting.name())?.as_array()?.iter().filter_map(Value::as_f64).collect();
            let &[mib_per_s, p99_us, mean_us, starved_us] = &four[..] else { return None };
            Some((setting, Figures { mib_per_s, p99_us, mean_us, starved_us }))
        };
        let figures: Option<Vec<_>> = cell.settings().map(figure).collect();
        Some(Measured { cell: *cell, times: *times, figures: figures? })
    }

    /// Appends the results of one cell (a board, a card and a load) to the file.
    pub fn add(&self, one: &Measured) -> io::Result<()> {
        let four = |f: &Figures| json!([f.mib_per_s, f.p99_us, f.mean_us, f.starved_us]);
        let figures = one.figures.iter().map(|(setting, f)| (setting.name().to_owned(), four(f)));
        let figures: Map<String, Value> = figures.collect();
        let cell = one.cell.to_string();
        let line = json!({ "cell": cell, "seed": self.seed, "times": one.times, "figures": figures });
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes())
    }
}
