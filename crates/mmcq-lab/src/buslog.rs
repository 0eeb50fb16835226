//! Logs of the bus with one line for each event. This module writes a log during a run, reads logs,
//! and compares two logs.

mod diff;
mod gaps;

pub use diff::{Difference, json_lines, text};
pub use gaps::{Direction, Gaps};

use mmcq_sim::stats::BusEvent;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

type Sink = Rc<RefCell<BufWriter<File>>>;

thread_local! {
    /// File into which this thread logs the bus events of the board that it runs; `None`: no log.
    static SINK: RefCell<Option<Sink>> = const { RefCell::new(None) };
}

/// Calls `run`, and writes all bus events of the board that `run` runs into this open file.
pub fn record<R>(file: File, run: impl FnOnce() -> R) -> std::io::Result<R> {
    let sink = Rc::new(RefCell::new(BufWriter::new(file)));
    SINK.with(|s| *s.borrow_mut() = Some(sink.clone()));
    let result = run();
    SINK.with(|s| *s.borrow_mut() = None);
    sink.borrow_mut().flush()?;
    Ok(result)
}

/// Returns whether the bus of the board that this thread runs is logged.
pub(crate) fn is_kept() -> bool {
    SINK.with(|sink| sink.borrow().is_some())
}

/// Writes a bus event of the board that this thread runs, if it is logged.
pub(crate) fn note(event: BusEvent) {
    SINK.with(|sink| {
        if let Some(sink) = &*sink.borrow() {
            // A write error, for example of a full disk, is reported by the later flush.
            drop(writeln!(sink.borrow_mut(), "{event:?}"));
        }
    });
}

/// Returns the events of the log at `path` that begin between `from_ns` and `until_ns`. The error
/// is one line of text.
pub fn read(path: &Path, from_ns: u64, until_ns: u64) -> Result<Vec<BusEvent>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut events = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|error| wrong(error.to_string()))?;
        let event = event(&line).ok_or_else(|| wrong(format!("line {number}: no event of the bus")))?;
        let at = begin_ns(&event);
        if (from_ns..until_ns).contains(&at) {
            events.push(event);
        }
    }
    Ok(events)
}

/// Returns the time in ns at which an event begins; for a response, the time at which it ends.
fn begin_ns(event: &BusEvent) -> u64 {
    match *event {
        BusEvent::Command { start_ns, .. } | BusEvent::Block { start_ns, .. } => start_ns,
        BusEvent::Response { end_ns, .. } => end_ns,
        BusEvent::Busy { from_ns, .. } => from_ns,
        BusEvent::Interrupt { at_ns, .. } => at_ns,
    }
}

/// Parses an event from the text that `Debug` writes.
fn event(line: &str) -> Option<BusEvent> {
    let (kind, fields) = line.trim().strip_suffix(" }")?.split_once(" { ")?;
    let field =
        |name: &str| fields.split(", ").find_map(|field| field.strip_prefix(name)?.strip_prefix(": "));
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let small = |name: &str| u32::try_from(number(name)?).ok();
    let truth = |name: &str| field(name)?.parse::<bool>().ok();
    let index = || u8::try_from(number("index")?).ok();
    Some(match kind {
        "Command" => BusEvent::Command {
            index: index()?,
            arg: small("arg")?,
            auto: truth("auto")?,
            start_ns: number("start_ns")?,
            end_ns: number("end_ns")?,
        },
        "Response" => BusEvent::Response {
            index: index()?,
            content: small("content")?,
            errors: small("errors")?,
            end_ns: number("end_ns")?,
        },
        "Block" => BusEvent::Block {
            read: truth("read")?,
            bytes: small("bytes")?,
            good: truth("good")?,
            start_ns: number("start_ns")?,
            end_ns: number("end_ns")?,
        },
        "Busy" => BusEvent::Busy { from_ns: number("from_ns")?, until_ns: number("until_ns")? },
        "Interrupt" => BusEvent::Interrupt { at_ns: number("at_ns")?, status: small("status")? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let events = [
            BusEvent::Command { index: 18, arg: u32::MAX, auto: true, start_ns: 1, end_ns: 2 },
            BusEvent::Response { index: 18, content: 2304, errors: 0, end_ns: 3 },
            BusEvent::Block { read: true, bytes: 512, good: false, start_ns: 4, end_ns: 5 },
            BusEvent::Busy { from_ns: 6, until_ns: 7 },
            BusEvent::Interrupt { at_ns: 8, status: 2 },
        ];
        let file = tempfile::NamedTempFile::new().unwrap();
        record(file.reopen().unwrap(), || events.iter().for_each(|event| note(*event))).unwrap();
        assert_eq!(read(file.path(), 0, u64::MAX).unwrap(), events);
        assert_eq!(read(file.path(), 3, 8).unwrap(), events[1..4]);
        std::fs::write(file.path(), "Busy { from_ns: 6, until_ns: 7 }\nBusy { from_ns: six }\n").unwrap();
        let error = read(file.path(), 0, u64::MAX).unwrap_err();
        assert!(error.ends_with("line 2: no event of the bus"), "{error}");
        // Without a recording, nothing happens.
        note(events[0]);
    }
}
