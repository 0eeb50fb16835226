//! Reads fio's I/O logs: version 2, which has waits, and version 3, whose lines begin with a time.

use super::devices::Devices;
use super::lines::Lines;
use super::{Event, Op, Reading, Record, What};
use crate::fio::ParseError;

/// I/O log of fio, read line by line.
pub(super) struct Iolog {
    lines: Lines,
    timed: bool,
    unit_ns: u64,
    at_ns: u64,
    files: Devices,
}

impl Iolog {
    /// Makes a reader of these lines, and reads the first line, which has the version.
    pub(super) fn new(mut lines: Lines, reading: &Reading) -> Result<Self, ParseError> {
        let first = lines.next().transpose()?.unwrap_or_default();
        let timed = match first.trim() {
            "fio version 2 iolog" => false,
            "fio version 3 iolog" => true,
            other => {
                return Err(
                    lines.wrong(format!("{other}: expected `fio version 2 iolog` or `fio version 3 iolog`"))
                );
            }
        };
        let unit_ns = reading.unit_ns.unwrap_or(1000);
        Ok(Iolog { lines, timed, unit_ns, at_ns: 0, files: Devices::new(reading.device.clone()) })
    }

    /// Parses a line. Returns the line's request if it is of a file that the user wants.
    fn record(&mut self, line: &str) -> Result<Option<Record>, String> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if self.timed {
            let time = words.remove(0);
            let at_ns = time.parse::<u64>().ok().and_then(|t| t.checked_mul(self.unit_ns));
            self.at_ns = at_ns.ok_or_else(|| format!("{time}: expected a time in whole units"))?;
        }
        let (file, action, rest) = match words[..] {
            [file, action, ref rest @ ..] if rest.len() <= 2 => (file, action, rest),
            _ => return Err("expected a file, an action, offset and length".to_owned()),
        };
        let number = |at: usize| {
            let word = rest.get(at).ok_or_else(|| format!("{action}: expected offset and length"))?;
            word.parse::<u64>().map_err(|_| format!("{word}: expected a number of bytes"))
        };
        let op = match action {
            "add" | "open" | "close" => return Ok(None),
            "wait" if !self.timed => {
                let waited_ns = number(0)?.checked_mul(self.unit_ns);
                let at_ns = waited_ns.and_then(|waited| self.at_ns.checked_add(waited));
                self.at_ns = at_ns.ok_or("wait: too long")?;
                return Ok(None);
            }
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Discard,
            "sync" | "datasync" => Op::Flush,
            _ => {
                let wait = if self.timed { "" } else { ", wait" };
                return Err(format!(
                    "{action}: expected add, open, close, read, write, trim, sync, datasync{wait}"
                ));
            }
        };
        let (offset, bytes) = if op == Op::Flush { (0, 0) } else { (number(0)?, number(1)?) };
        Ok(self.files.number(file).map(|device| Record {
            at_ns: self.at_ns,
            op,
            durable: false,
            flush_first: false,
            device,
            offset,
            bytes,
            process: 0,
            program: None,
            took_ns: None,
        }))
    }
}

impl Iterator for Iolog {
    type Item = Result<Event, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.lines.next()? {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            let record = self.record(&line);
            let event = record.map(|record| record.map(|record| (record.at_ns, What::Begins(record))));
            if let Some(told) = self.lines.told(event) {
                return Some(told);
            }
        }
    }
}
