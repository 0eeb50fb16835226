//! Mappings of memory for the controller: waiting requests are mapped ahead, and lose the mapping
//! to the request whose turn it is.
//!
//! There may be fewer mappings (bounce memory, addresses of an IOMMU) than the queue wants. Then
//! waiting requests may use all of them, and a part of the recovery that every request waits for
//! gets none. A request that is mapped before its turn may therefore lose the mapping again. A
//! request whose turn it is, and which finds no mapping, asks for a `poll`. In `poll`, a context
//! that may unmap, all queued requests lose their mappings, and the request is mapped. Requests
//! that have ended are unmapped first.

use super::phases::Stage;
use super::slot::{Slots, State};
use super::{Engine, Error};
use crate::host::{DmaError, Host};
use crate::sched::Profile;

impl<const N: usize> Slots<N> {
    /// Maps the memory of a request, if it has any and is not mapped yet.
    pub fn map<H: Host>(&mut self, host: &mut H, index: u8) -> Result<(), Error> {
        let slot = self.at_mut(index);
        let Some(direction) = slot.direction() else { return Ok(()) };
        if slot.is_mapped() {
            return Ok(());
        }
        host.map(slot.segment_to_map(), direction).map_err(Error::Dma)?;
        self.note_mapped(index);
        Ok(())
    }

    /// Unmaps the memory of a request, if it is mapped.
    pub fn unmap<H: Host>(&mut self, host: &mut H, index: u8) {
        if let Some(direction) = self.at(index).direction()
            && self.take_mapped(index)
        {
            host.unmap(self.at(index).segment(), direction);
        }
    }

    /// Maps a queued request, if a mapping for requests ahead of their turn is free.
    pub fn prepare<H: Host>(&mut self, host: &mut H, most: u8, index: u8) -> Result<(), Error> {
        if self.mapped() >= most {
            self.leave_unmapped(true);
            return Ok(());
        }
        let result = self.map(host, index);
        self.leave_unmapped(result.is_err());
        result
    }

    /// Maps waiting requests, oldest first, while mappings are free.
    pub fn prepare_more<H: Host>(&mut self, host: &mut H, most: u8) {
        for _ in 0..N {
            if self.mapped() >= most {
                return;
            }
            let waiting = self.queue().find(|&i| {
                let slot = self.at(i);
                !slot.is_mapped() && slot.direction().is_some()
            });
            match waiting {
                Some(index) if self.map(host, index).is_ok() => {}
                Some(_) => return,
                None => {
                    self.mark_all_mapped();
                    return;
                }
            }
        }
    }

    /// Unmaps all queued requests. Called only in `poll`: not every context may unmap.
    #[cold]
    #[inline(never)]
    pub fn give_back_ahead<H: Host>(&mut self, host: &mut H) {
        self.set_cramped(false);
        self.leave_unmapped(true);
        self.clear_lone();
        for index in 0..N as u8 {
            if self.at(index).state() == State::Queued {
                self.unmap(host, index);
            }
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Maps a request whose turn it is. `Ok(false)`: no mapping is free yet, and something else is
    /// done first; then the request gets its turn again.
    pub(super) fn map_in_turn(&mut self, index: u8, now_ns: u64) -> Result<bool, Error> {
        match self.slots.map(self.bus.host_mut(), index) {
            Err(Error::Dma(DmaError::Exhausted)) if P::RECOVERS && self.free_other_mapping(index, now_ns) => {
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    /// Finds a mapping that becomes free without this request, and begins what is needed for that:
    /// the next `poll`, or a read of the status that writes wait for. Returns false if there is
    /// none.
    #[cold]
    #[inline(never)]
    pub(super) fn free_other_mapping(&mut self, index: u8, now_ns: u64) -> bool {
        let gives = |at: u8| {
            let slot = self.slots.at(at);
            at != index && slot.is_mapped() && matches!(slot.state(), State::Queued | State::Ended)
        };
        let cramped = (0..N as u8).any(gives);
        self.slots.set_cramped(cramped);
        if cramped {
            self.blockers.close_fast();
            self.timers.wake_now();
        } else if self.slots.is_settling() && self.lane.is_idle() && self.lane.free_lines(&mut self.bus) {
            self.ask_status(Stage::Status, now_ns);
            return true;
        }
        cramped
    }
}
