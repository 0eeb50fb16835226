//! Reads the block events of Linux's tracefs, as text: `block_bio_queue`, `block_rq_issue` and
//! `block_rq_complete`; other lines are skipped.

use super::devices::Devices;
use super::lines::Lines;
use super::programs::Names;
use super::words::{letters, sectors, time_ns};
use super::{Event, Moment, Op, Reading, Record, What};
use crate::fio::ParseError;

/// Trace as text of tracefs, read line by line.
pub(super) struct Ftrace {
    lines: Lines,
    devices: Devices,
    names: Names,
    moment: Moment,
}

/// Returns the name and the number of the process at the start of a line such as `kworker/0:1-123
/// ( 45) [000] d..1`.
fn process(text: &str) -> Option<(&str, u32)> {
    let name = text.rsplit_once('[')?.0.trim_end();
    let name = match name.strip_suffix(')') {
        Some(group) => group.rsplit_once('(')?.0.trim_end(),
        None => name,
    };
    let (name, number) = name.rsplit_once('-')?;
    Some((name, number.parse().ok()?))
}

impl Ftrace {
    /// Makes a reader of these lines with the options `reading`.
    pub(super) fn new(lines: Lines, reading: &Reading) -> Self {
        let devices = Devices::new(reading.device.clone());
        Ftrace { lines, devices, names: Names::default(), moment: reading.moment }
    }

    fn event(&mut self, line: &str) -> Result<Option<(u64, What)>, String> {
        let wanted = match self.moment {
            Moment::Queued => "block_bio_queue",
            Moment::Issued => "block_rq_issue",
            Moment::Completed => "block_rq_complete",
        };
        let Some((head, event)) = line.split_once(": block_") else { return Ok(None) };
        let Some((name, rest)) = event.split_once(": ") else { return Ok(None) };
        let begins = wanted.strip_prefix("block_") == Some(name);
        let ends = name == "rq_complete" && !begins;
        if !begins && !ends {
            return Ok(None);
        }
        let (before, time) = head.rsplit_once(' ').ok_or("expected a time before the event")?;
        let at_ns = time_ns(time, 1_000_000_000).ok_or_else(|| format!("{time}: expected seconds"))?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [device, flags, ..] = words[..] else { return Err("expected device and letters".to_owned()) };
        let Some((op, flush_first, durable)) = letters(flags) else { return Ok(None) };
        let Some(plus) = words.iter().position(|word| *word == "+").filter(|at| *at > 2) else {
            return Err("expected first block, +, and count".to_owned());
        };
        let number = |at: usize| {
            let word = words.get(at).copied().unwrap_or_default();
            // The kernel prints u64::MAX as the place of a flush.
            if word == "18446744073709551615" {
                Ok(0)
            } else {
                sectors(word).ok_or_else(|| format!("{word}: expected a number of blocks"))
            }
        };
        let (offset, bytes) = (number(plus - 1)?, number(plus + 1)?);
        let Some(device) = self.devices.number(device) else { return Ok(None) };
        if ends {
            return Ok(Some((at_ns, What::Ends { device, offset, bytes })));
        }
        let (name, process) = process(before).ok_or("expected name-process and [cpu] before the time")?;
        // A completion is reported in the context of any process, so its name is not used.
        let program = if self.moment == Moment::Completed { None } else { self.names.of(name) };
        let (op, flush_first) = match bytes {
            0 if op == Op::Flush || flush_first => (Op::Flush, false),
            // Commands that bypass the block layer have no length.
            0 => return Ok(None),
            _ => (op, flush_first),
        };
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

impl Iterator for Ftrace {
    type Item = Result<Event, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.lines.next()? {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            if line.starts_with('#') {
                continue;
            }
            let event = self.event(&line);
            if let Some(told) = self.lines.told(event) {
                return Some(told);
            }
        }
    }
}
