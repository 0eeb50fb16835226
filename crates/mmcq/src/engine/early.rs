//! The R1 of a transfer while its data still move.
//!
//! A write is complete when the card's next status shows that it was programmed: as a rule the R1
//! of the next transfer. That R1 is there long before the transfer's end. Where a write waits for
//! it and nothing else is queued, its submitter may be waiting too, and what it sends next would
//! come too late to follow the running transfer at once. Where few requests are in the engine, a
//! write would take a transfer longer than a read: of four that is a quarter. So the engine asks
//! the host for the R1 then ([`Host::early_r1`]); a host without it tells at the end, as ever.
//! Among many it is not worth an interrupt.

use super::Engine;
use super::slot::NONE;
use crate::host::Host;
use crate::sched::Profile;
use crate::spec::response::R1;

/// Most requests that are few.
const FEW: u32 = 4;
/// Bits that a status says of earlier writes, and says once.
const TOLD: u32 = R1::DEFERRED | R1::EXCEPTION_EVENT;

/// Bits taken from the R1 of the transfer in progress.
#[derive(Debug)]
pub(super) struct Early {
    told: u32,
}

impl Early {
    pub const NONE: Early = Early { told: 0 };

    /// Another phase begins.
    pub fn begin(&mut self) {
        self.told = 0;
    }

    /// Returns the R1 at the transfer's end, without what it has said already.
    pub fn take_new_bits(&mut self, status: u32) -> u32 {
        status & !core::mem::take(&mut self.told)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// The engine asks hosts for early responses.
    pub(super) const EARLY: bool = H::EARLY_R1 && P::RECOVERS;

    /// A transfer is in progress. Its R1 settles what was written before, if nothing else is there
    /// to be sent, or few requests are there.
    #[inline]
    pub(super) fn try_early(&mut self, now_ns: u64) {
        let waits = Self::EARLY && self.slots.is_settling();
        if waits && (self.slots.head() == NONE || self.are_few(self.batch.count())) {
            self.take_early(now_ns);
        }
    }

    /// Are few requests here, beside a transfer of so many?
    #[inline(always)]
    pub(super) fn are_few(&self, moving: u8) -> bool {
        u32::from(self.slots.mapped()) <= FEW * u32::from(moving)
    }

    /// True if the R1 was there.
    #[inline(never)]
    pub(super) fn take_early(&mut self, now_ns: u64) -> bool {
        let moving = self.moves_data();
        if self.lane.has_control() || !moving || !self.slots.is_settling() {
            return false;
        }
        let Some(status) = self.bus.host_mut().early_r1() else { return false };
        self.settle(status);
        self.lane.early_mut().told = status & TOLD;
        self.note_results(now_ns);
        true
    }

    /// The R1 at the end of a transfer.
    pub(super) fn settle_at_end(&mut self, status: u32) {
        let status = if Self::EARLY { self.lane.early_mut().take_new_bits(status) } else { status };
        self.settle(status);
    }
}
