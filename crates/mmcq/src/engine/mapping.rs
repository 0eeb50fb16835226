//! Mappings of memory for the controller: waiting requests are mapped ahead, and lose the mapping
//! to the request whose turn it is.
//!
//! There may be fewer mappings (bounce memory, addresses of an IOMMU) than requests. Waiting
//! requests may then use all of them, so that a request of the recovery, which all others wait for,
//! gets none. A request that is mapped before its turn may therefore lose the mapping again.
//!
//! If a request has its turn and finds no free mapping, the engine requests a call of `poll`, in
//! which memory may be unmapped. There the requests that have ended are unmapped first. Then all
//! queued requests lose their mappings, and the request whose turn it is gets one.

use super::Error;
use super::slot::{Slots, State};
use crate::host::Host;

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

    /// Maps the memory of the queued request in slot `index` for DMA, if fewer than `most` requests
    /// are mapped.
    pub fn prepare<H: Host>(&mut self, host: &mut H, most: u8, index: u8) -> Result<(), Error> {
        if self.mapped() >= most {
            self.leave_unmapped(true);
            return Ok(());
        }
        let result = self.map(host, index);
        self.leave_unmapped(result.is_err());
        result
    }

    /// Maps the memory of waiting requests for DMA, oldest first, until `most` requests are mapped.
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
