//! Reads the files of blktrace: records of 48 bytes in the byte order of the machine that wrote
//! them, each followed by the number of bytes that it declares.

use super::programs::Names;
use super::{Event, Moment, Op, Reading, Record, What};
use crate::fio::{ParseError, Place};
use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::sync::Arc;

/// Size in bytes of the fixed part of a record. The record may declare further bytes after this
/// part.
pub(super) const RECORD_BYTES: usize = 48;
/// Magic number "eat" at the start of each record, with the version in the lowest byte.
pub(super) const MAGIC: u32 = 0x6561_7407;

/// Categories of an event: bits in the upper half of a record's action.
pub(super) mod category {
    pub const READ: u32 = 1 << 16;
    pub const WRITE: u32 = 1 << 17;
    pub const FLUSH: u32 = 1 << 18;
    pub const SYNC: u32 = 1 << 19;
    pub const QUEUE: u32 = 1 << 20;
    pub const ISSUE: u32 = 1 << 22;
    pub const COMPLETE: u32 = 1 << 23;
    pub const COMMAND: u32 = 1 << 25;
    pub const NOTIFY: u32 = 1 << 26;
    pub const DISCARD: u32 = 1 << 29;
    pub const FUA: u32 = 1 << 31;
}

/// Kinds of events: numbers in the lowest byte of a record's action.
pub(super) mod event {
    pub const QUEUE: u32 = 1;
    pub const GET_REQUEST: u32 = 4;
    pub const ISSUE: u32 = 7;
    pub const COMPLETE: u32 = 8;
    pub const INSERT: u32 = 12;
}

/// Returns whether a file that begins with `head` was written by blktrace.
pub(super) fn is_one(head: &[u8]) -> bool {
    let first = head.first_chunk().copied().unwrap_or_default();
    [u32::from_le_bytes(first), u32::from_be_bytes(first)].iter().any(|magic| magic >> 8 == MAGIC >> 8)
}

/// File of blktrace, read record by record.
pub(super) struct Blktrace {
    name: String,
    input: Box<dyn BufRead>,
    big: Option<bool>,
    /// Offset in the file of the next record.
    at: u64,
    moment: Moment,
    device: Option<String>,
    names: Names,
    /// Name of each process that the trace has named so far, by the process's number.
    programs: HashMap<u32, Arc<str>>,
    over: bool,
}

impl Blktrace {
    /// Makes a reader of a file. `name`: its name in errors. `input`: its content. `reading`: which
    /// device and which times to take from it.
    pub(super) fn new(name: String, input: Box<dyn BufRead>, reading: &Reading) -> Self {
        let device = reading.device.clone();
        let (names, programs, big) = Default::default();
        Blktrace { name, input, big, at: 0, moment: reading.moment, device, names, programs, over: false }
    }

    fn place(&self) -> Place {
        Place::Whole(format!("{}: byte {}", self.name, self.at))
    }

    fn wrong(&self, why: String) -> ParseError {
        ParseError::new(&self.place(), why)
    }

    /// Reads the next record. Returns `None` at the end of the file, `Some(None)` for a record that
    /// is not used, otherwise the record's event.
    fn record(&mut self) -> Result<Option<Option<Event>>, ParseError> {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        let got = Read::take(&mut self.input, RECORD_BYTES as u64).read_to_end(&mut bytes);
        got.map_err(|error| self.wrong(error.to_string()))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let Ok(raw) = <[u8; RECORD_BYTES]>::try_from(&bytes[..]) else {
            return Err(self.wrong(format!("truncated record: {} of {RECORD_BYTES} bytes", bytes.len())));
        };
        let first = raw.first_chunk().copied().unwrap_or_default();
        let big = *self.big.get_or_insert(u32::from_be_bytes(first) >> 8 == MAGIC >> 8);
        let field = |at: usize, bytes: usize| {
            let part = raw[at..at + bytes].iter();
            let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
            if big { part.fold(0, push) } else { part.rev().fold(0, push) }
        };
        let magic = field(0, 4) as u32;
        if magic != MAGIC {
            return Err(self.wrong(format!("magic {magic:#010x}: expected {MAGIC:#010x} (version 7)")));
        }
        let (at_ns, sector, length) = (field(8, 8), field(16, 8), field(24, 4));
        let (action, process, device) = (field(28, 4) as u32, field(32, 4) as u32, field(36, 4) as u32);
        let behind = field(46, 2);
        let place = self.place();
        let mut said = Vec::new();
        let skipped = Read::take(&mut self.input, behind).read_to_end(&mut said);
        let skipped = skipped.map_err(|error| self.wrong(error.to_string()))? as u64;
        if skipped < behind {
            return Err(self.wrong(format!("truncated record: {skipped} of {behind} bytes behind it")));
        }
        self.at += RECORD_BYTES as u64 + behind;
        if action == category::NOTIFY {
            let name = said.split(|byte| *byte == 0).next().unwrap_or_default();
            if let Some(program) = self.names.of(&String::from_utf8_lossy(name)) {
                self.programs.insert(process, program);
            }
        }
        let letter = match self.moment {
            Moment::Queued => event::QUEUE,
            Moment::Issued => event::ISSUE,
            Moment::Completed => event::COMPLETE,
        };
        let code = action & 0xff;
        let ends = code == event::COMPLETE && code != letter;
        let passes = action & (category::NOTIFY | category::COMMAND) != 0;
        let other =
            self.device.as_ref().is_some_and(|d| *d != format!("{},{}", device >> 20, device & 0xf_ffff));
        if passes || other || (code != letter && !ends) {
            return Ok(Some(None));
        }
        let offset = match length {
            0 => 0,
            _ => match sector.checked_mul(512) {
                Some(offset) => offset,
                None => {
                    return Err(ParseError::new(&place, format!("sector {sector}: expected at most 2^55")));
                }
            },
        };
        if ends {
            return Ok(Some(Some(Event {
                at_ns,
                place,
                what: What::Ends { device, offset, bytes: length },
            })));
        }
        let has = |bit: u32| action & bit != 0;
        let op = match () {
            () if length == 0 && has(category::FLUSH) => Op::Flush,
            () if length == 0 => return Ok(Some(None)),
            () if has(category::DISCARD) => Op::Discard,
            () if has(category::WRITE) => Op::Write,
            () => Op::Read,
        };
        let record = Record {
            at_ns,
            op,
            durable: op == Op::Write && has(category::FUA),
            flush_first: op != Op::Flush && has(category::FLUSH),
            device,
            offset,
            bytes: length,
            process,
            program: self.programs.get(&process).filter(|_| code != event::COMPLETE).cloned(),
            took_ns: None,
        };
        Ok(Some(Some(Event { at_ns, place, what: What::Begins(record) })))
    }
}

impl Iterator for Blktrace {
    type Item = Result<Event, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.over {
            match self.record() {
                Ok(Some(Some(event))) => return Some(Ok(event)),
                Ok(Some(None)) => {}
                Ok(None) => self.over = true,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
