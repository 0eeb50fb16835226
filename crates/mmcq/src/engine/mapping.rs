//! Memory for the controller: what waits is mapped ahead, and gives way to the request whose turn
//! it is.
//!
//! Room for mappings (bounce memory, addresses of an IOMMU) may be less than the queue wants. Then
//! what waits may hold all of it, and a part of the recovery that every request waits for gets
//! none. So a mapping that is ahead of its turn is a loan: a request whose turn it is, and which
//! finds no room, asks for a `poll`. There, in a context that may unmap, all that is queued gives
//! its mapping back, and the request is mapped. What has ended gives way first.

use super::phases::Stage;
use super::slot::State;
use super::{Engine, Error};
use crate::host::{DmaError, Host};
use crate::sched::Profile;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Maps a queued request if there is room ahead.
    pub(super) fn prepare(&mut self, index: u8) -> Result<(), Error> {
        if self.slots.mapped() >= self.config.prepared {
            self.slots.leave_unmapped(true);
            return Ok(());
        }
        let result = self.map(index);
        self.slots.leave_unmapped(result.is_err());
        result
    }

    /// Maps what waits unmapped, oldest first, as far as there is room.
    pub(super) fn prepare_more(&mut self) {
        for _ in 0..N {
            if self.slots.mapped() >= self.config.prepared {
                return;
            }
            let waiting = self.slots.queue().find(|&i| {
                let slot = self.slots.at(i);
                !slot.is_mapped() && slot.direction().is_some()
            });
            match waiting {
                Some(index) if self.map(index).is_ok() => {}
                Some(_) => return,
                None => {
                    self.slots.mark_all_mapped();
                    return;
                }
            }
        }
    }

    /// Maps the memory of a request, if it has any and is not mapped yet.
    pub(super) fn map(&mut self, index: u8) -> Result<(), Error> {
        let slot = self.slots.at_mut(index);
        let Some(direction) = slot.direction() else { return Ok(()) };
        if slot.is_mapped() {
            return Ok(());
        }
        self.bus.host_mut().map(slot.segment_to_map(), direction).map_err(Error::Dma)?;
        self.slots.note_mapped(index);
        Ok(())
    }

    /// Unmaps the memory of a request, if it is mapped.
    pub(super) fn unmap(&mut self, index: u8) {
        if let Some(direction) = self.slots.at(index).direction()
            && self.slots.take_mapped(index)
        {
            self.bus.host_mut().unmap(self.slots.at(index).segment(), direction);
        }
    }

    /// Maps a request whose turn it is. `Ok(false)`: there is no room yet, and something else is
    /// done first; then the turn comes again.
    pub(super) fn map_in_turn(&mut self, index: u8, now_ns: u64) -> Result<bool, Error> {
        match self.map(index) {
            Err(Error::Dma(DmaError::Exhausted)) if P::RECOVERS && self.free_other_mapping(index, now_ns) => {
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    /// Looks for a mapping that comes free without this request, and begins what that takes: the
    /// next `poll`, or a question for the status that writes wait for. False: there is none.
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
            self.close_fast();
            self.timers.wake_now();
        } else if self.slots.is_settling() && self.lane.is_idle() && self.free_lines() {
            self.ask_status(Stage::Status, now_ns);
            return true;
        }
        cramped
    }

    /// Unmaps what is queued. In `poll` alone: not every context may unmap.
    #[cold]
    #[inline(never)]
    pub(super) fn give_back_ahead(&mut self) {
        self.slots.set_cramped(false);
        self.slots.leave_unmapped(true);
        self.slots.clear_lone();
        for index in 0..N as u8 {
            if self.slots.at(index).state() == State::Queued {
                self.unmap(index);
            }
        }
    }
}
