//! Reads blkparse's default output. A line has device, CPU, number, time, process, event, letters
//! of the operation, and place.

use super::devices::Devices;
use super::lines::Lines;
use super::programs::Names;
use super::words::{letters, sectors, time_ns};
use super::{Event, Op, Reading, Record, What};
use crate::fio::ParseError;

/// Trace as text in blkparse's format, read line by line.
pub(super) struct Blkparse {
    lines: Lines,
    devices: Devices,
    names: Names,
    letter: &'static str,
    over: bool,
}

/// Returns whether a line has blkparse's format.
pub(super) fn is_one(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut next = || words.next().unwrap_or_default();
    let device = next();
    let is_device =
        device.split_once(',').is_some_and(|(a, b)| [a, b].iter().all(|n| n.parse::<u32>().is_ok()));
    let numbers = next().parse::<u32>().is_ok() && next().parse::<u64>().is_ok();
    is_device && numbers && time_ns(next(), 1_000_000_000).is_some() && next().parse::<u32>().is_ok()
}

impl Blkparse {
    /// Makes a reader of these lines with the options `reading`.
    pub(super) fn new(lines: Lines, reading: &Reading) -> Self {
        let devices = Devices::new(reading.device.clone());
        let names = Names::default();
        Blkparse { lines, devices, names, letter: reading.moment.letter(), over: false }
    }

    fn event(&mut self, line: &str) -> Result<Option<(u64, What)>, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, _, _, time, process, action, ref rest @ ..] = words[..] else {
            return Err("expected device, CPU, number, time, process and event".to_owned());
        };
        let ends = action == "C" && self.letter != "C";
        if action != self.letter && !ends {
            return Ok(None);
        }
        let at_ns = time_ns(time, 1_000_000_000).ok_or_else(|| format!("{time}: expected seconds"))?;
        let process = process.parse().map_err(|_| format!("{process}: expected the number of a process"))?;
        let Some((op, flush_first, durable)) = rest.first().and_then(|text| letters(text)) else {
            return Ok(None);
        };
        let (offset, bytes) = match rest {
            [_, at, "+", count, ..] => {
                let number =
                    |text: &str| sectors(text).ok_or_else(|| format!("{text}: expected a number of blocks"));
                (number(at)?, number(count)?)
            }
            // Commands that bypass the block layer have no place, so they are ignored.
            _ if op != Op::Flush && !flush_first => return Ok(None),
            _ => (0, 0),
        };
        let Some(device) = self.devices.number(device) else { return Ok(None) };
        if ends {
            return Ok(Some((at_ns, What::Ends { device, offset, bytes })));
        }
        // In a completion, an error number follows in brackets.
        let program = match line.trim_end().strip_suffix(']').and_then(|text| text.rsplit_once(" [")) {
            Some((_, name)) if action != "C" => self.names.of(name),
            _ => None,
        };
        let (op, flush_first) = if bytes == 0 { (Op::Flush, false) } else { (op, flush_first) };
        let record = Record {
            at_ns,
            op,
            durable,
            flush_first,
            device,
            offset,
            bytes,
            process,
            program,
            took_ns: None,
        };
        Ok(Some((at_ns, What::Begins(record))))
    }
}

impl Iterator for Blkparse {
    type Item = Result<Event, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.over {
            let line = match self.lines.next()? {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            // All lines from here on are sums.
            self.over = line.starts_with("CPU") || line.starts_with("Total (");
            if self.over || line.starts_with('#') {
                continue;
            }
            // Among the events, blkparse says such as `Input file sda.blktrace.0 added`.
            if !line.trim_start().starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            let event = self.event(&line);
            if let Some(told) = self.lines.told(event) {
                return Some(told);
            }
        }
        None
    }
}
