//! Flush of an SD card's cache by the extension register of its performance function
//! [SD 4.17, 5.8.2].
//!
//! Bit 0 of the register starts a flush and reads as 1 until the flush is over; the busy after
//! CMD49 may end before.

use super::card::Card;
use super::extras::{Memory, Next, Place};
use super::{BLOCK_BYTES, Breach, Error, FlushBy};
use crate::host::{Data, Direction};
use crate::spec::command::Command;
use crate::spec::command::sd::{self, Extension};
use crate::spec::response::R1;

/// Time between two reads of the flush bit while a flush lasts, in nanoseconds.
const ASK_NS: u64 = 1_000_000;

impl Card {
    pub fn flush_limit_ns(&self) -> u64 {
        match self.target().map(|t| t.flush) {
            Some(FlushBy::SdCache { timeout_ns, .. }) => timeout_ns,
            _ => 0,
        }
    }
}

impl Memory {
    /// Begins a flush of the card's cache: by CMD49 writes 1 to the extension register `at`, by
    /// which an SD card flushes its cache.
    pub fn begin_register_flush(&mut self, at: Extension, now_ns: u64) -> Next {
        self.start_timing(now_ns);
        if let Some(first) = self.page_mut().first_mut() {
            *first = 1;
        }
        self.transfer_page(Place::FlushStart, sd::write_extr_single(at, 1), Direction::Write)
    }

    /// Returns the command that transfers one block between an extension register of the card and
    /// the engine's own memory block (page).
    fn transfer_page(&self, place: Place, command: Command, direction: Direction) -> Next {
        let given = self.page().len_bytes();
        if given < BLOCK_BYTES {
            return Next::fail(Error::Buffer { needed: BLOCK_BYTES, given });
        }
        let segment = self.page().segment(BLOCK_BYTES);
        let data = Data { direction, block_size: BLOCK_BYTES as u16, blocks: 1 };
        Next::Data { place, command, data, segment, changes: false }
    }

    /// Continues the flush by register after one of its commands, to which the card answered with
    /// this status. Afterwards asks the card whether the flush has ended, or ends the flush.
    pub fn register_flush_reached(&self, place: Place, status: u32, card: &Card, now_ns: u64) -> Next {
        let bad = status & !R1::SWITCH_ERROR;
        if bad & R1::ERRORS != 0 {
            return Next::Flushed(bad);
        }
        if place == Place::FlushStart {
            return self.ask_flushed(card);
        }
        let over = self.page().first().is_some_and(|byte| byte & 1 == 0);
        if over {
            Next::Flushed(0)
        } else if self.took_ns(now_ns) >= card.flush_limit_ns() {
            Next::fail(Error::Protocol(Breach::FlushNeverEnds))
        } else {
            Next::Pause(Place::FlushAsk, ASK_NS)
        }
    }

    /// Returns the step that reads the flush bit of the card's extension register, which shows
    /// whether the flush is over.
    pub fn ask_flushed(&self, card: &Card) -> Next {
        let Some(FlushBy::SdCache { at, .. }) = card.target().map(|t| t.flush) else {
            return Next::fail(Error::NoCard);
        };
        self.transfer_page(Place::FlushAsk, sd::read_extr_single(at, 1), Direction::Read)
    }
}
