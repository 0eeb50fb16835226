//! Records for which requests the memory is mapped for DMA, and whether the memory of waiting
//! requests must still be mapped.

use super::{Slot, Slots};

impl Slot {
    /// Returns whether the controller can reach the request's memory.
    #[inline(always)]
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }
}

impl<const N: usize> Slots<N> {
    /// Returns the number of slots whose request has its memory mapped for DMA.
    #[inline(always)]
    pub fn mapped(&self) -> u8 {
        self.mapped
    }

    /// Notes that the request's memory has been mapped.
    #[inline(always)]
    pub fn note_mapped(&mut self, index: u8) {
        self.at_mut(index).mapped = true;
        self.mapped = self.mapped.wrapping_add(1);
    }

    /// Notes that the memory of the request in slot `index` is about to be unmapped, or is lost.
    /// Returns false if it was not mapped.
    #[inline(always)]
    pub fn take_mapped(&mut self, index: u8) -> bool {
        let slot = self.at_mut(index);
        let mapped = slot.mapped;
        if mapped {
            slot.mapped = false;
            self.mapped = self.mapped.wrapping_sub(1);
        }
        mapped
    }

    /// Returns whether the memory of some queued request is perhaps not mapped for DMA.
    #[inline(always)]
    pub fn have_unmapped(&self) -> bool {
        self.unmapped
    }

    /// If `left` is true, notes that a queued request was left without a DMA mapping, since the
    /// engine maps only a limited number of requests before their turn, or the mapping failed.
    #[inline(always)]
    pub fn leave_unmapped(&mut self, left: bool) {
        self.unmapped |= left;
    }

    /// Records that the memory of every queued request is mapped for DMA.
    pub fn mark_all_mapped(&mut self) {
        self.unmapped = false;
    }

    /// Sets whether the request whose turn has come has found no free mapping. The engine clears
    /// the flag when that request is about to try again.
    pub fn set_cramped(&mut self, cramped: bool) {
        self.cramped = cramped;
    }

    /// Returns whether the request whose turn has come has to wait until mappings of other requests
    /// are freed.
    #[inline(always)]
    pub fn are_cramped(&self) -> bool {
        self.cramped
    }
}
