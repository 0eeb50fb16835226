//! Which slots are mapped, and whether what waits wants to be.

use super::{Slot, Slots};

impl Slot {
    /// The controller can reach its memory.
    #[inline(always)]
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }
}

impl<const N: usize> Slots<N> {
    /// How many are mapped.
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

    /// Notes that the request's memory is about to be unmapped, or is lost. False: it was not
    /// mapped.
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

    /// May something that is queued be unmapped?
    #[inline(always)]
    pub fn have_unmapped(&self) -> bool {
        self.unmapped
    }

    /// Notes that a request was left unmapped, if it was: there is no room to map it ahead of its
    /// turn.
    #[inline(always)]
    pub fn leave_unmapped(&mut self, left: bool) {
        self.unmapped |= left;
    }

    /// Notes that all that is queued is mapped.
    pub fn mark_all_mapped(&mut self) {
        self.unmapped = false;
    }

    /// The request whose turn it is finds no mapping, or is about to try again.
    pub fn set_cramped(&mut self, cramped: bool) {
        self.cramped = cramped;
    }

    /// Does it wait for what is mapped ahead to be given back?
    #[inline(always)]
    pub fn are_cramped(&self) -> bool {
        self.cramped
    }
}
