//! Flush of an SD card's cache by the extension register of its performance function
//! [SD 4.17, 5.8.2].
//!
//! Bit 0 of the register starts a flush and reads as 1 until the flush is over; the busy after
//! CMD49 may end before.

use super::card::Card;
use super::extras::Place;
use super::{BLOCK_BYTES, Breach, Engine, Error};
use crate::host::{Data, Direction, Host};
use crate::sched::Profile;
use crate::spec::command::sd::{self, Extension};
use crate::spec::response::R1;

/// Time between two polls of the register, in nanoseconds.
const ASK_NS: u64 = 1_000_000;

impl Card {
    pub fn flush_limit_ns(&self) -> u64 {
        match self.target().map(|t| t.flush) {
            Some(super::FlushBy::SdCache { timeout_ns, .. }) => timeout_ns,
            _ => 0,
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    pub(super) fn begin_register_flush(&mut self, at: Extension, now_ns: u64) {
        self.services.memory_mut().start_timing(now_ns);
        if let Some(first) = self.services.memory_mut().page_mut().first_mut() {
            *first = 1;
        }
        let started = self.page(Place::FlushStart, sd::write_extr_single(at, 1), Direction::Write, now_ns);
        if let Err(error) = started {
            self.end_control(Err(error));
        }
    }

    /// Transfers one block to or from the engine's page.
    fn page(
        &mut self,
        place: Place,
        command: crate::spec::command::Command,
        direction: Direction,
        now_ns: u64,
    ) -> Result<(), Error> {
        let given = self.services.memory().page().len_bytes();
        if given < BLOCK_BYTES {
            return Err(Error::Buffer { needed: BLOCK_BYTES, given });
        }
        let segment = self.services.memory().page().segment(BLOCK_BYTES);
        let data = Data { direction, block_size: BLOCK_BYTES as u16, blocks: 1 };
        self.data(place, command, data, segment, now_ns)
    }

    pub(super) fn register_flush_reached(&mut self, place: Place, status: u32, now_ns: u64) {
        self.services.memory_mut().unmap_data(self.bus.host_mut());
        if status & R1::ERRORS & !R1::SWITCH_ERROR != 0 {
            let result = self.flush_failed(status & !R1::SWITCH_ERROR);
            return self.end_control(result);
        }
        match place {
            Place::FlushStart => self.ask_flushed(now_ns),
            _ => {
                let over = self.services.memory().page().first().is_some_and(|byte| byte & 1 == 0);
                let waited_ns = self.services.memory().took_ns(now_ns);
                if over {
                    let result = self.flush_ended();
                    self.end_control(result);
                } else if waited_ns >= self.card.flush_limit_ns() {
                    let error = Error::Protocol(Breach::FlushNeverEnds);
                    self.end_control(Err(error));
                } else {
                    self.pause_at(Place::FlushAsk, ASK_NS, now_ns);
                }
            }
        }
    }

    pub(super) fn ask_flushed(&mut self, now_ns: u64) {
        let Some(super::FlushBy::SdCache { at, .. }) = self.card.target().map(|t| t.flush) else {
            return self.end_control(Err(Error::NoCard));
        };
        let asked = self.page(Place::FlushAsk, sd::read_extr_single(at, 1), Direction::Read, now_ns);
        if let Err(error) = asked {
            self.end_control(Err(error));
        }
    }
}
