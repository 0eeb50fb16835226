//! A controller that no reset stops: it may read and write the memory of its last transfer for
//! ever.
//!
//! None of that memory is unmapped or given back. Requests that own their memory are answered, and
//! the memory is leaked. Memory that is lent for a blocking call stays with its slot: the call
//! returns only when a later reset succeeds. The engine tries again each second.

use super::super::Error;
use super::super::extras::Memory;
use super::super::record::Record;
use super::super::slot::{Slots, State};
use super::super::timers::{Timers, later};

/// Time in ns between two tries to stop a controller that still uses memory of requests.
pub(super) const AGAIN_NS: u64 = 1_000_000_000;

impl<const N: usize> Slots<N> {
    /// Ends the requests whose memory a controller could still access because it could not be
    /// stopped: it has stopped now.
    pub fn let_go_of_kept(&mut self, timers: &mut Timers) {
        if !timers.take_kept() {
            return;
        }
        for index in 0..N as u8 {
            if self.at(index).state() == State::Kept {
                self.end_with(index, Err(Error::Dead));
            }
        }
    }

    /// Keeps the memory of the requests in progress from its owners: the controller still uses it.
    pub fn keep_memory(&mut self, timers: &mut Timers, record: &mut Record, now_ns: u64) {
        for index in 0..N as u8 {
            let slot = self.at_mut(index);
            let moves = slot.segment().len > 0 && matches!(slot.state(), State::Active | State::Kept);
            if !moves {
                continue;
            }
            if slot.buf().owned() {
                slot.leak_buffer();
                record.memory_leaked();
                self.take_mapped(index);
            } else {
                slot.retain_lent();
                timers.keep_until(later(now_ns, AGAIN_NS));
            }
        }
    }
}

impl Memory {
    /// Gives up the memory of a step, which the controller still uses. `slots`: it belongs to the
    /// slot of the request in progress, and is not the engine's page.
    pub fn keep_mapped(&mut self, record: &mut Record, slots: bool) {
        if self.take_mapped().is_some() && !slots {
            self.lose_page();
            record.memory_leaked();
        }
    }
}
