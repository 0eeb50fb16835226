//! Reads a text line by line and counts the lines.

use super::{Event, What};
use crate::fio::{ParseError, Place};
use std::io::{BufRead, Read};

/// Length in bytes of the longest line that is read.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A text that is read line by line.
pub(super) struct Lines {
    name: String,
    input: Box<dyn BufRead>,
    number: u32,
    bytes: Vec<u8>,
}

impl Lines {
    /// Makes a reader of the text `input`; `name` names the text in errors.
    pub(super) fn new(name: String, input: Box<dyn BufRead>) -> Self {
        Lines { name, input, number: 0, bytes: Vec::new() }
    }

    /// Returns the next line of the text that is not empty, without its line end; `None`: the text
    /// has ended.
    pub(super) fn next(&mut self) -> Option<Result<String, ParseError>> {
        loop {
            self.bytes.clear();
            self.number = self.number.saturating_add(1);
            let mut input = Read::take(&mut self.input, LINE_BYTES_MAX + 1);
            match input.read_until(b'\n', &mut self.bytes) {
                Err(error) => return Some(Err(self.wrong(error.to_string()))),
                Ok(0) => return None,
                Ok(n) if n as u64 > LINE_BYTES_MAX => {
                    return Some(Err(
                        self.wrong(format!("line too long: expected at most {LINE_BYTES_MAX} bytes"))
                    ));
                }
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&self.bytes);
            // Some spreadsheets write a byte order mark before the first line.
            let line = line.trim_start_matches('\u{feff}').trim_end();
            if !line.trim_start().is_empty() {
                return Some(Ok(line.to_owned()));
            }
        }
    }

    /// Returns the place of the line that was read last.
    pub(super) fn place(&self) -> Place {
        Place::Line { file: self.name.clone(), line: self.number }
    }

    /// Makes an event of a trace from what was read in the last line: adds the line's place to its
    /// time and content, or to its error. Returns `None` if the line has no event.
    pub(super) fn told(
        &self,
        event: Result<Option<(u64, What)>, String>,
    ) -> Option<Result<Event, ParseError>> {
        let event = event.transpose()?;
        let placed = |(at_ns, what)| Event { at_ns, place: self.place(), what };
        Some(event.map(placed).map_err(|why| self.wrong(why)))
    }

    /// Returns an error about the line that was read last.
    pub(super) fn wrong(&self, why: impl Into<String>) -> ParseError {
        ParseError::new(&self.place(), why)
    }
}
