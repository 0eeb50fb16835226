//! Reads a trace in columns, by a map such as `time=1,op=4,offset=5,bytes=6,unit=100ns`.
//!
//! A column is named by its number from 1, or by its name in the first line. `sector` and `sectors`
//! replace `offset` and `bytes` and are in units of 512 bytes. `process`, `device` and `took` are
//! optional. `read`, `write`, `flush` and `discard` set the word in column `op` for that operation.

use super::devices::Devices;
use super::lines::Lines;
use super::programs::Names;
use super::words::{letters, time_ns};
use super::{Event, Format, Op, Reading, Record, What};
use crate::fio::{ParseError, Place};

/// Returns the content of each column of a known format, in the syntax of the option `--columns`;
/// `None`: the format has no fixed columns.
pub(super) fn preset(format: Format) -> Option<&'static str> {
    match format {
        Format::Msr => Some("time=1,device=3,op=4,offset=5,bytes=6,took=7,unit=100ns"),
        Format::Spc => Some("device=1,sector=2,bytes=3,op=4,time=5,unit=s"),
        Format::Mqsim => Some("time=1,device=2,sector=3,sectors=4,op=5,unit=ns,write=0,read=1"),
        Format::Pixel => Some("process=1,device=2,op=3,sector=4,sectors=5,time=6,unit=s"),
        _ => None,
    }
}

/// Returns whether a file with this first line has this format.
pub(super) fn is_one(format: Format, line: &str) -> bool {
    let cells: Vec<&str> = Separator::of(line).cells(line);
    let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
    let number = |at: usize| time_ns(cell(at), 1).is_some();
    let word = |at: usize, words: &[&str]| words.iter().any(|word| cell(at).eq_ignore_ascii_case(word));
    match format {
        Format::Msr => cells.len() == 7 && number(0) && word(3, &["Read", "Write"]) && number(4),
        Format::Spc => cells.len() >= 5 && number(0) && number(2) && word(3, &["r", "w"]) && number(4),
        Format::Mqsim => cells.len() == 5 && (0..5).all(number) && word(4, &["0", "1"]),
        Format::Pixel => cells.len() == 6 && word(2, &["rw_flag"]) && word(5, &["timestamp"]),
        _ => false,
    }
}

/// Character or spaces between two cells of a line.
#[derive(Clone, Copy)]
enum Separator {
    Char(char),
    Space,
}

impl Separator {
    fn of(line: &str) -> Self {
        let found = [',', ';', '\t'].into_iter().find(|c| line.contains(*c));
        found.map_or(Separator::Space, Separator::Char)
    }

    fn cells(self, line: &str) -> Vec<&str> {
        match self {
            Separator::Char(c) => line.split(c).map(|cell| cell.trim().trim_matches('"')).collect(),
            Separator::Space => line.split_whitespace().collect(),
        }
    }
}

/// Parses a unit of time such as `100ns`. Returns the unit in nanoseconds.
pub fn unit_ns(text: &str) -> Option<u64> {
    let units = [("ns", 1), ("100ns", 100), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    units.iter().find(|(name, _)| *name == text).map(|(_, ns)| *ns)
}

/// Names of the quantities that the user can assign to columns of the file.
const COLUMNS: [&str; 9] =
    ["time", "op", "offset", "sector", "bytes", "sectors", "process", "device", "took"];

/// Map of the columns as the user gave it: for each column its number or name in the file, and
/// further settings.
struct Map {
    columns: [Option<String>; COLUMNS.len()],
    unit_ns: u64,
    words: Vec<(String, Op)>,
}

impl Map {
    fn parse(text: &str, unit_given_ns: Option<u64>) -> Result<Self, String> {
        let mut map = Map { columns: Default::default(), unit_ns: 1, words: Vec::new() };
        let mut unit_of_map = None;
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty()) else {
                return Err(format!("{part}: expected KEY=VALUE"));
            };
            let op = match key {
                "read" => Op::Read,
                "write" => Op::Write,
                "flush" => Op::Flush,
                "discard" => Op::Discard,
                "unit" => {
                    let unit = unit_ns(value);
                    let unit =
                        unit.ok_or_else(|| format!("unit={value}: expected s, ms, us, 100ns or ns"))?;
                    if unit_of_map.replace(unit).is_some() {
                        return Err("unit is given twice".to_owned());
                    }
                    continue;
                }
                _ => {
                    let Some(at) = COLUMNS.iter().position(|name| *name == key) else {
                        let names = COLUMNS.join(", ");
                        return Err(format!("{key}: expected {names}, unit, read, write, flush or discard"));
                    };
                    if map.columns[at].replace(value.to_owned()).is_some() {
                        return Err(format!("{key} is given twice"));
                    }
                    continue;
                }
            };
            map.words.push((value.to_owned(), op));
        }
        if unit_of_map.is_some() && unit_given_ns.is_some() {
            return Err("unit= and --time-unit; expected one of them".to_owned());
        }
        map.unit_ns = unit_of_map.or(unit_given_ns).unwrap_or(map.unit_ns);
        let has =
            |name: &str| COLUMNS.iter().zip(&map.columns).any(|(n, column)| *n == name && column.is_some());
        for needed in [&["op"][..], &["offset", "sector"], &["bytes", "sectors"]] {
            if !needed.iter().any(|name| has(name)) {
                return Err(format!("expected {}=COLUMN", needed.join(" or ")));
            }
        }
        for [one, other] in [["offset", "sector"], ["bytes", "sectors"]] {
            if has(one) && has(other) {
                return Err(format!("{one} and {other}; expected one of them"));
            }
        }
        Ok(map)
    }

    /// Finds the columns that the user has named, by their name or by a number from 1. Returns for
    /// each kind of column its number in a line, from 0. `names` are the cells of the file's first
    /// line.
    fn resolve(&self, names: &[&str]) -> Result<[Option<usize>; COLUMNS.len()], String> {
        let mut columns = [None; COLUMNS.len()];
        for (at, given) in self.columns.iter().enumerate() {
            let Some(given) = given else { continue };
            let by_number = given.parse::<usize>().ok().filter(|n| (1..=names.len()).contains(n));
            let found = by_number.map(|n| n - 1).or_else(|| names.iter().position(|name| name == given));
            columns[at] = Some(found.ok_or_else(|| {
                format!(
                    "{}={given}: no such column; the first line has {}: {}",
                    COLUMNS[at],
                    names.len(),
                    names.join(", ")
                )
            })?);
        }
        Ok(columns)
    }
}

/// Trace as text in columns, read line by line.
pub(super) struct Csv {
    lines: Lines,
    separator: Separator,
    map: Map,
    columns: [Option<usize>; COLUMNS.len()],
    devices: Devices,
    processes: Devices,
    names: Names,
    /// First line of the file, if it is a row and not a line of names.
    first: Option<String>,
}

impl Csv {
    /// Makes a reader of these lines, whose columns `map` names, and reads the first line that is
    /// no comment.
    pub(super) fn new(mut lines: Lines, map: &str, reading: &Reading) -> Result<Self, ParseError> {
        let of_map = |why: String| ParseError::new(&Place::Whole("--columns".to_owned()), why);
        let map = Map::parse(map, reading.unit_ns).map_err(of_map)?;
        let mut first = lines.next().transpose()?.unwrap_or_default();
        while first.starts_with('#') {
            first = lines.next().transpose()?.unwrap_or_default();
        }
        let separator = Separator::of(&first);
        let names = separator.cells(&first);
        let columns = map.resolve(&names).map_err(|why| lines.wrong(why))?;
        if columns[0].is_none() && reading.needs_times {
            return Err(of_map(
                "no time, and the replay needs it; expected time=COLUMN, or --mode closed".to_owned(),
            ));
        }
        // If columns are given by name, the first line has the names; otherwise it is a row.
        let [_, _, offset, sector, ..] = columns;
        let is_row = offset.or(sector).is_some_and(|at| names[at].parse::<u64>().is_ok());
        Ok(Csv {
            first: is_row.then(|| first.clone()),
            lines,
            separator,
            map,
            columns,
            devices: Devices::new(reading.device.clone()),
            processes: Devices::new(None),
            names: Names::default(),
        })
    }

    fn op(&self, word: &str) -> Option<(Op, bool, bool)> {
        if let Some((_, op)) = self.map.words.iter().find(|(known, _)| known == word) {
            return Some((*op, false, false));
        }
        match word.to_ascii_lowercase().as_str() {
            "read" => Some((Op::Read, false, false)),
            "write" => Some((Op::Write, false, false)),
            "flush" | "sync" => Some((Op::Flush, false, false)),
            "discard" | "trim" | "unmap" => Some((Op::Discard, false, false)),
            _ => letters(&word.to_ascii_uppercase()),
        }
    }

    fn record(&mut self, line: &str) -> Result<Option<Record>, String> {
        let cells = self.separator.cells(line);
        // Traces of the Pixel format have a line that separates the preparation from the use.
        if cells.len() == 1 && cells[0] == "preconditioning_ended" {
            return Ok(None);
        }
        let [time, op, offset, sector, bytes, sectors, process, device, took] = self.columns;
        let cell = |at: Option<usize>| {
            let at = at.unwrap_or(usize::MAX);
            let missing = || format!("{} columns: expected at least {}", cells.len(), at.saturating_add(1));
            cells.get(at).copied().ok_or_else(missing)
        };
        let size = |whole: Option<usize>, blocks: Option<usize>| {
            let (text, unit) = if whole.is_some() { (cell(whole)?, 1) } else { (cell(blocks)?, 512) };
            let value = text.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
            value.ok_or_else(|| format!("{text}: expected a whole number"))
        };
        let moment = |at: Option<usize>| {
            let text = cell(at)?;
            time_ns(text, self.map.unit_ns)
                .ok_or_else(|| format!("{text}: expected a time, as a decimal number"))
        };
        let word = cell(op)?;
        let (op, flush_first, durable) = self
            .op(word)
            .ok_or_else(|| format!("{word}: expected read, write, flush or discard, or Linux's letters"))?;
        let at_ns = if time.is_some() { moment(time)? } else { 0 };
        let (offset, bytes) = match op {
            Op::Flush => (0, 0),
            _ => (size(offset, sector)?, size(bytes, sectors)?),
        };
        let took_ns = took.map(|_| moment(took)).transpose()?;
        let device = if device.is_some() { cell(device)? } else { "" };
        let process = if process.is_some() { cell(process)? } else { "" };
        let Some(device) = self.devices.number(device) else { return Ok(None) };
        let number = process.rsplit('-').next().and_then(|number| number.parse().ok());
        let program = match process.rsplit_once('-') {
            Some((name, _)) if number.is_some() => self.names.of(name),
            _ if number.is_some() => None,
            _ => self.names.of(process),
        };
        let process = number.or_else(|| self.processes.number(process)).unwrap_or(0);
        let record =
            Record { at_ns, op, durable, flush_first, device, offset, bytes, process, program, took_ns };
        Ok(Some(record))
    }
}

impl Iterator for Csv {
    type Item = Result<Event, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.first.take() {
                Some(first) => first,
                None => match self.lines.next()? {
                    Ok(line) => line,
                    Err(error) => return Some(Err(error)),
                },
            };
            if line.starts_with('#') {
                continue;
            }
            let record = self.record(&line);
            let event = record.map(|record| record.map(|record| (record.at_ns, What::Begins(record))));
            if let Some(told) = self.lines.told(event) {
                return Some(told);
            }
        }
    }
}
