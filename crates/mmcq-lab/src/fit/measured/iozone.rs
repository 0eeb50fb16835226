//! Reads tables of `iozone -a`: one line for each record size, one column for each test, rates in
//! KiB/s.

use super::{Figure, Load, What, in_words, job};
use crate::fio::Dir;
use std::sync::Arc;

/// Tests that measure the card: the name that iozone's two header lines give, fio's name for such a
/// job, and its direction.
const TESTS: [(&str, &str, Dir); 6] = [
    ("write", "write", Dir::Write),
    ("rewrite", "write", Dir::Write),
    ("read", "read", Dir::Read),
    ("reread", "read", Dir::Read),
    ("random read", "randread", Dir::Read),
    ("random write", "randwrite", Dir::Write),
];

/// Returns the number, from 0, of the line with the table's header; `None`: the text has no such
/// table.
pub(super) fn header(text: &str) -> Option<usize> {
    text.lines().position(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| ["kb", "kB", "KB"].contains(&word)) && words.next() == Some("reclen")
    })
}

/// Words in the upper of iozone's two header lines. They stand above the columns directly before
/// `fwrite`, the first column of stdio.
const ABOVE: [&str; 4] = ["random", "bkwd", "record", "stride"];
/// iozone's tests that are not read: they do not measure the card, or fio has no such job.
const OTHERS: [&str; 7] =
    ["bkwd read", "record rewrite", "stride read", "fwrite", "frewrite", "fread", "freread"];
/// Parts of lines by which iozone says that its figures are no rates in KiB/s.
const NO_RATES: [(&str, &str); 2] = [("operations per second", "-O"), ("microseconds per operation", "-N")];

/// iozone's test whose rates a column has: fio's name for such a job, direction, and iozone's name.
type Test = (&'static str, Dir, String);

/// Returns the test of each column; `None` for a test that is not read. `above` has the words of
/// the line before the header.
fn tests(names: &[&str], above: &[&str]) -> Result<Vec<Option<Test>>, String> {
    let above = if above.iter().all(|word| ABOVE.contains(word)) { above } else { &[] };
    let ends = names.iter().position(|name| name.starts_with('f')).unwrap_or(names.len());
    let Some(from) = ends.checked_sub(above.len()) else {
        return Err(format!("{} words above {ends} columns; expected one above each at most", above.len()));
    };
    let mut tests = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let upper = at.checked_sub(from).and_then(|at| above.get(at));
        let full = upper.map_or_else(|| (*name).to_owned(), |upper| format!("{upper} {name}"));
        if tests.iter().flatten().any(|(.., known): &Test| *known == full) {
            return Err(format!(
                "column {full}: twice; expected iozone's line above, which tells them apart"
            ));
        }
        let known = TESTS.iter().find(|(test, ..)| *test == full);
        if known.is_none() && !OTHERS.contains(&full.as_str()) {
            return Err(format!(
                "column {full}: unknown; expected write, rewrite, read, reread, random read or random write"
            ));
        }
        tests.push(known.map(|(_, word, dir)| (*word, *dir, full)));
    }
    Ok(tests)
}

pub(super) fn read(name: &str, text: &str, header: usize) -> Result<Vec<Load>, String> {
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines[..header].iter().enumerate() {
        let line = line.to_lowercase();
        if let Some((what, option)) = NO_RATES.iter().find(|(what, _)| line.contains(what)) {
            let at = at + 1;
            return Err(format!(
                "{name}:{at}: {what} (iozone {option}); expected a table of KiB/s, without it"
            ));
        }
    }
    let words = |at: usize| -> Vec<&str> {
        lines.get(at).map_or(Vec::new(), |line| line.split_whitespace().collect())
    };
    let names = words(header);
    let above = header.checked_sub(1).map_or(Vec::new(), words);
    let tests = tests(&names[2..], &above).map_err(|what| format!("{name}:{}: {what}", header + 1))?;
    let mut loads: Vec<Load> = Vec::new();
    for at in header + 1..lines.len() {
        let cells = words(at);
        if cells.is_empty() {
            continue;
        }
        let place = format!("{name}:{}", at + 1);
        let numbers: Option<Vec<u64>> = cells.iter().map(|cell| cell.parse().ok()).collect();
        // Lines after the table are not rows.
        let Some(numbers) = numbers else { break };
        let [kib, record_kib, rates @ ..] = &numbers[..] else { break };
        if rates.len() > tests.len() || *record_kib == 0 || kib < record_kib {
            return Err(format!(
                "{place}: {} figures for {} tests; expected size and record size in KiB, then a rate for each test",
                rates.len(),
                tests.len()
            ));
        }
        for (rate, test) in rates.iter().zip(&tests) {
            let Some((word, dir, full)) = test else { continue };
            if *rate == 0 {
                return Err(format!("{place}: {full} of 0; expected KiB/s"));
            }
            let (size, record) = (format!("{kib}k"), format!("{record_kib}k"));
            let options =
                [("rw", *word), ("bs", &record), ("size", &size), ("direct", "1"), ("ioengine", "psync")];
            let job =
                job("iozone", &place, options.into_iter().map(|(option, value)| (option, Some(value))))?;
            let figure = Figure {
                place: place.clone(),
                name: in_words(&job, *dir),
                what: What::Rate,
                dir: *dir,
                sections: (0, 1),
                block_bytes: record_kib * 1024,
                measured: *rate as f64 / 1024.0,
            };
            // The model cannot tell write from rewrite or read from reread, so these share a load.
            match loads.iter_mut().find(|load| load.jobs[0].given == job.given) {
                Some(load) => load.figures.push(figure),
                None => loads.push(Load {
                    jobs: vec![job],
                    trace: Arc::default(),
                    changes: Vec::new(),
                    setting: None,
                    seed: None,
                    figures: vec![figure],
                }),
            }
        }
    }
    Ok(loads)
}
