//! Host command lists: entries that read, write or check an internal register (READ, WRITE, CHECK),
//! executed one after the other.

use super::bits::{int, sd};
use super::internal::short;
use super::{NEVER, Rtsx, Timer};
use crate::faults::{Point, Strike};
use crate::slot::Core;

/// Interval in ns at which a CHECK of line levels samples again: no event reports that a level has
/// changed.
const LOOK_AGAIN_NS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fetch,
    Run,
    /// A CHECK entry waits until its bits have the expected value.
    Check,
    /// The chip is reporting the end of the list; true stands for success.
    End(bool),
}

/// The host command list that is being executed, or the last one.
#[derive(Debug)]
pub(super) struct List {
    address: u32,
    bytes: usize,
    write_back: bool,
    entries: Vec<u32>,
    next: usize,
    /// Bytes that READ and CHECK entries have returned.
    results: Vec<u8>,
    stage: Stage,
}

/// An entry of a list, decoded.
struct Entry {
    kind: u32,
    register: u16,
    mask: u8,
    data: u8,
}

impl Entry {
    fn new(word: u32) -> Self {
        Entry {
            kind: word >> 30,
            register: (word >> 16) as u16 & 0x3fff,
            mask: (word >> 8) as u8,
            data: word as u8,
        }
    }
}

impl Rtsx {
    pub(super) fn start_list(&mut self, bytes: usize, write_back: bool, now: u64) {
        self.list = Some(List {
            address: self.window.list_address,
            bytes,
            write_back,
            entries: Vec::new(),
            next: 0,
            results: Vec::new(),
            stage: Stage::Fetch,
        });
        let hangs = self.strike(Point::Dma, now) == Some(Strike::Never);
        let at = now.saturating_add(self.config.round_ns / 2);
        self.set_timer(Timer::List, if hangs { NEVER } else { at });
    }

    pub(super) fn stop_list(&mut self) {
        self.list = None;
        self.stop_timer(Timer::List);
        self.stop_timer(Timer::CheckTimeout);
    }

    pub(super) fn list_event(&mut self, now: u64) {
        match self.list.as_ref().map(|list| list.stage) {
            Some(Stage::Fetch) => self.fetch_list(now),
            Some(Stage::Run) => self.next_entry(now),
            Some(Stage::End(good)) => self.report_list(good, now),
            // Every event calls `check_again` for a waiting CHECK.
            Some(Stage::Check) | None => {}
        }
    }

    fn fetch_list(&mut self, now: u64) {
        let Some(list) = &mut self.list else { return };
        let mut raw = vec![0; list.bytes];
        if self.memory.device_read(list.address.into(), &mut raw).is_err() {
            return self.end_list(false, now);
        }
        list.entries = raw.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        list.stage = Stage::Run;
        self.go_on(now);
    }

    /// Schedules the next entry of the list, or ends the list after its last entry.
    fn go_on(&mut self, now: u64) {
        let Some(list) = &self.list else { return };
        if list.next >= list.entries.len() {
            self.end_list(true, now);
        } else {
            self.set_timer(Timer::List, now.saturating_add(self.config.entry_ns));
        }
    }

    fn next_entry(&mut self, now: u64) {
        let Some(list) = &self.list else { return };
        let Some(entry) = list.entries.get(list.next).copied().map(Entry::new) else { return };
        match entry.kind {
            0 => {
                let byte = self.get(entry.register, now);
                self.returned(byte, now);
            }
            1 => {
                if let Some(list) = &mut self.list {
                    list.next += 1;
                }
                self.set(entry.register, entry.mask, entry.data, now);
                // The write may have caused a transfer to fail, which also ends this list.
                if self.list.as_ref().is_some_and(|list| list.stage == Stage::Run) {
                    self.go_on(now);
                }
            }
            2 => {
                if let Some(list) = &mut self.list {
                    list.stage = Stage::Check;
                }
                self.set_timer(Timer::CheckTimeout, now.saturating_add(self.config.check_timeout_ns));
                self.check_again(now);
            }
            _ => {
                self.slot.violation();
                self.end_list(false, now);
            }
        }
    }

    /// Ends a READ or CHECK entry with this byte as its result.
    fn returned(&mut self, byte: u8, now: u64) {
        if let Some(list) = &mut self.list {
            list.results.push(byte);
            list.next += 1;
            list.stage = Stage::Run;
        }
        self.go_on(now);
    }

    /// Tests again, after an event, the CHECK entry of the list, which waits until bits of a
    /// register have a value.
    pub(super) fn check_again(&mut self, now: u64) {
        let Some(list) = self.list.as_ref().filter(|list| list.stage == Stage::Check) else { return };
        let Some(entry) = list.entries.get(list.next).copied().map(Entry::new) else { return };
        let byte = self.get(entry.register, now);
        if byte & entry.mask == entry.data {
            self.stop_timer(Timer::CheckTimeout);
            self.returned(byte, now);
        } else if entry.register == short(sd::BUS_STAT) {
            self.set_timer(Timer::List, now.saturating_add(LOOK_AGAIN_NS));
        }
    }

    pub(super) fn check_timed_out(&mut self, now: u64) {
        if self.list.as_ref().is_some_and(|list| list.stage == Stage::Check) {
            self.end_list(false, now);
        }
    }

    fn end_list(&mut self, good: bool, now: u64) {
        if let Some(list) = &mut self.list {
            list.stage = Stage::End(good);
            self.stop_timer(Timer::CheckTimeout);
            let rest = self.config.round_ns - self.config.round_ns / 2;
            self.set_timer(Timer::List, now.saturating_add(rest));
        }
    }

    /// Handles a failed transfer: the present list fails too. Without a list only the interrupt bit
    /// TRANS_FAIL is set.
    pub(super) fn fail_list(&mut self, now: u64) {
        match self.list.as_ref().map(|list| list.stage) {
            Some(Stage::Fetch | Stage::Run | Stage::Check) => self.end_list(false, now),
            Some(Stage::End(_)) | None => self.raise(int::TRANS_FAIL, now),
        }
    }

    fn report_list(&mut self, good: bool, now: u64) {
        let Some(list) = self.list.take() else { return };
        if list.write_back && !list.results.is_empty() {
            // The chip cannot see that this posted write failed; the memory model has recorded it.
            let _ = self.memory.device_write(list.address.into(), &list.results);
        }
        self.raise(int::CMD_DONE | if good { int::TRANS_OK } else { int::TRANS_FAIL }, now);
    }
}
