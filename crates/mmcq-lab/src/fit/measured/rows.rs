//! Reads rows as `mmcq sweep` writes them, and a user's tables in that form.
//!
//! The column `direction` and one of `mib_s`, `mb_s` and `iops` are required. Other measured columns
//! are optional. The axes are `job.OPTION`, keys of the board or the card, `setting` and `seed`. The
//! column `set` has changes that all points share. All rows of a file are of one board with one
//! card.

use super::{Figure, Load, Wanted, What, in_words, job};
use crate::fio::{Dir, Job, options};
use crate::platform::JOB;
use crate::sweep::row;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Columns of a row that a fit ignores: they have no figure to fit, and do not say which jobs,
/// board and card ran.
const BESIDE: [&str; 5] = ["point", "version", "job_hash", "config_hash", "name"];
/// Column with a rate in units of 10^6 bytes in a second; a sweep does not write it.
const MB_S: &str = "mb_s";
/// Columns that must be the same in all rows, since a fit has one board with one card.
const SAME: [&str; 2] = ["platform", "card"];

/// Returns whether the text consists of rows of a sweep.
pub(super) fn are(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    match first.starts_with('{') {
        true => {
            serde_json::from_str::<Map<String, Value>>(first).is_ok_and(|row| row.contains_key("direction"))
        }
        false => first.split(',').any(|name| name.trim_matches('"') == "direction"),
    }
}

/// Number of a line, from 1, and the values of this line by column name.
type Row = (usize, Map<String, Value>);

/// Returns the rows of a text in JSON lines or CSV. `name` names the text in errors.
fn rows(name: &str, text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    if text.starts_with('{') {
        let row = |(at, line): (usize, &str)| {
            let row =
                serde_json::from_str(line).map_err(|error| format!("{name}:{}: not JSON: {error}", at + 1));
            row.map(|row| (at + 1, row))
        };
        return lines.map(row).collect();
    }
    let mut lines = lines.map(|(at, line)| (at + 1, cells(line)));
    let names = lines.next().map_or(Vec::new(), |(_, names)| names);
    let row = |(at, cells): (usize, Vec<String>)| {
        if cells.len() != names.len() {
            return Err(format!(
                "{name}:{at}: {} cells; expected {}, as line 1 has",
                cells.len(),
                names.len()
            ));
        }
        let value = |text: &str| if text.is_empty() { Value::Null } else { row::value(text) };
        Ok((at, names.iter().cloned().zip(cells.iter().map(|cell| value(cell))).collect()))
    };
    lines.map(row).collect()
}

/// Returns the cells of a CSV line.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

/// Splits the text of the column `set` into changes `key=value`. A change begins at each word
/// (words are separated by blanks) that has a `=`; a word without `=` belongs to the value before
/// it.
fn set(text: &str) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match changes.last_mut() {
            Some(last) if !word.contains('=') => *last = format!("{last} {word}"),
            _ => changes.push(word.to_owned()),
        }
    }
    changes.retain(|change| change.contains('='));
    changes
}

pub(super) fn read(name: &str, text: &str, wanted: Wanted<'_>) -> Result<Vec<Load>, String> {
    let measures = row::measures();
    let mut loads: Vec<Load> = Vec::new();
    let mut of_all: [Option<(usize, String)>; 2] = [None, None];
    for (line, row) in rows(name, text)? {
        let place = format!("{name}:{line}");
        let text = |key: &str| row.get(key).map(plain).unwrap_or_default();
        if !text("error").is_empty() {
            return Err(format!("{place}: a point that was not run: {}", text("error")));
        }
        for (key, known) in SAME.into_iter().zip(&mut of_all) {
            let (first, own) = known.get_or_insert_with(|| (line, text(key)));
            if *own != text(key) {
                let what = format!("{place}: {key} {}, and line {first} has {own}", text(key));
                return Err(format!("{what}; expected rows of one {key}"));
            }
        }
        let (mut of_job, mut changes) = (Vec::new(), Vec::new());
        for change in set(&text("set")) {
            match change.strip_prefix(JOB).and_then(|change| change.split_once('=')) {
                Some((option, value)) => of_job.push((option.to_owned(), value.to_owned())),
                None => changes.push(change),
            }
        }
        let (mut setting, mut seed) = (None, None);
        for (key, value) in &row {
            let plain = plain(value);
            if SAME.contains(&key.as_str()) || key == "set" {
                continue;
            }
            let measured = measures.iter().any(|known| known == key) || key == MB_S;
            if measured || BESIDE.contains(&key.as_str()) || plain.is_empty() {
                continue;
            }
            match key.as_str() {
                "setting" => setting = Some(plain),
                "seed" => {
                    let number =
                        plain.parse().map_err(|_| format!("{place}: seed {plain}: expected a number"))?;
                    seed = Some(number);
                }
                key if key.starts_with(JOB) => of_job.push((key[JOB.len()..].to_owned(), plain)),
                key if key.contains('.') => changes.push(format!("{key}={plain}")),
                _ => {
                    return Err(format!(
                        "{place}: column {key}: unknown; expected job.OPTION, a key of `mmcq params`, setting, seed, \
                         direction or what `mmcq sweep` measures"
                    ));
                }
            }
        }
        let jobs = jobs(&place, &of_job, wanted)?;
        let dir = match text("direction").as_str() {
            "read" => Dir::Read,
            "write" => Dir::Write,
            other => return Err(format!("{place}: direction {other}: expected read or write")),
        };
        let figures = figures(&place, &row, &jobs, dir, wanted)?;
        let same = |load: &&mut Load| {
            (&load.changes, &load.setting, load.seed) == (&changes, &setting, seed)
                && load.jobs.len() == jobs.len()
                && load.jobs.iter().zip(&jobs).all(|(a, b)| (&a.name, &a.given) == (&b.name, &b.given))
        };
        match loads.iter_mut().find(same) {
            Some(load) => load.figures.extend(figures),
            None => loads.push(Load { jobs, trace: Arc::default(), changes, setting, seed, figures }),
        }
    }
    Ok(loads)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the jobs of a row: the jobs given by the caller, with the row's options applied last.
/// Without given jobs, returns one job with only the row's options.
fn jobs(place: &str, of_job: &[(String, String)], wanted: Wanted<'_>) -> Result<Vec<Job>, String> {
    let given = of_job.iter().map(|(option, value)| (option.as_str(), Some(value.as_str())));
    let Some(file) = wanted.job else {
        if !of_job.iter().any(|(option, _)| ["rw", "readwrite"].contains(&option.as_str())) {
            return Err(format!("{place}: no job; expected --job JOB.fio, or a column job.rw"));
        }
        return Ok(vec![job("row", place, given)?]);
    };
    let mut jobs = file.jobs.clone();
    for job in &mut jobs {
        let at = crate::fio::Place::Whole(place.to_owned());
        for (option, value) in given.clone() {
            options::apply(job, option, value, &at).map_err(|error| error.to_string())?;
            job.given.extend(value.map(|value| (option.to_owned(), value.to_owned())));
        }
        job.check().map_err(|error| format!("{place}: {}", error.message))?;
    }
    Ok(jobs)
}

/// Returns the measured rate in MiB/s, from the first column that has one.
fn rate(place: &str, row: &Map<String, Value>, jobs: &[Job], dir: Dir) -> Result<f64, String> {
    let number = |key: &str| row.get(key).and_then(Value::as_f64).filter(|value| *value > 0.0);
    let mib_s = number("mib_s").or_else(|| number(MB_S).map(|mb_s| mb_s * 1e6 / f64::from(1 << 20)));
    if let Some(mib_s) = mib_s {
        return Ok(mib_s);
    }
    let iops = number("iops").ok_or_else(|| {
        format!("{place}: no mib_s, {MB_S} or iops; expected one of them, a number above 0")
    })?;
    let mut sizes = jobs.iter().map(|job| &job.bs[dir.index()]);
    let first = sizes.next().ok_or_else(|| format!("{place}: no job"))?;
    if first.min != first.max || !first.split.is_empty() || sizes.any(|size| size != first) {
        return Err(format!("{place}: iops of blocks of several sizes; expected mib_s or {MB_S}"));
    }
    Ok(iops * first.max as f64 / f64::from(1 << 20))
}

fn figures(
    place: &str,
    row: &Map<String, Value>,
    jobs: &[Job],
    dir: Dir,
    wanted: Wanted<'_>,
) -> Result<Vec<Figure>, String> {
    let first = jobs.first().ok_or_else(|| format!("{place}: no job"))?;
    let number = |key: &str| -> Result<f64, String> {
        let value = row.get(key).and_then(Value::as_f64).filter(|value| *value > 0.0);
        value.ok_or_else(|| format!("{place}: no {key}; expected a number above 0"))
    };
    let figure = |what, measured| Figure {
        place: place.to_owned(),
        name: in_words(first, dir),
        what,
        dir,
        sections: (0, jobs.len()),
        block_bytes: first.bs[dir.index()].max,
        measured,
    };
    let mut figures = vec![figure(What::Rate, rate(place, row, jobs, dir)?)];
    for percent in wanted.percentiles {
        figures.push(figure(What::Percentile(*percent), number(&format!("lat_p{percent}_us"))?));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_given_in_any_unit() {
        let rate = |(option, sizes), columns: Value| {
            let options = [("rw", Some("randread")), (option, Some(sizes))];
            let jobs = [job("row", "own.csv:2", options.into_iter()).unwrap()];
            rate("own.csv:2", columns.as_object().unwrap(), &jobs, Dir::Read)
        };
        let near = |columns| assert!((rate(("bs", "4k"), columns).unwrap() - 10.0).abs() < 1e-9);
        near(serde_json::json!({ "mib_s": 10, "iops": 7 }));
        near(serde_json::json!({ "mb_s": 10.48576 }));
        near(serde_json::json!({ "iops": 2560 }));
        let refused = |sizes, columns, why: &str| {
            let said = rate(sizes, columns).unwrap_err();
            assert!(said.starts_with("own.csv:2: ") && said.contains(why), "{said}");
        };
        refused(("bs", "4k"), serde_json::json!({ "iops": 0 }), "no mib_s, mb_s or iops");
        refused(("bsrange", "4k-64k"), serde_json::json!({ "iops": 2560 }), "blocks of several sizes");
    }
}
