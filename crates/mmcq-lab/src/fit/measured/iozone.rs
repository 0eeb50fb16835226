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

/// Test of a column: fio's name for such a job, direction, and iozone's name.
type Test = (&'static str, Dir, String);

/// Returns the test of each column; `None` for a test that does not measure the card.
fn tests(names: &[&str], above: &[&str]) -> Result<Vec<Option<Test>>, String> {
    // In its upper header line, iozone writes `random` above the second `read` and the second
    // `write`.
    let mut random = above.iter().filter(|word| **word == "random").count();
    let mut tests = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let again = names[..at].contains(name) && random > 0;
        random -= usize::from(again);
        let full = if again { format!("random {name}") } else { (*name).to_owned() };
        let known = TESTS.iter().find(|(test, ..)| *test == full);
        if known.is_none()
            && !["bkwd", "record", "stride", "fwrite", "frewrite", "fread", "freread"].contains(name)
        {
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
