//! The R1 of a transfer, read before the end of its data.
//!
//! A write is complete when the card's next status shows that it was programmed: usually the R1 of
//! the next transfer. The controller receives that R1 long before the transfer's end. Two cases
//! make it worth an interrupt. First, a write waits for it and nothing else is queued: its
//! submitter may be waiting too, and the next request would come too late to follow the running
//! transfer at once. Second, few requests are in the engine: a write would then complete one
//! transfer later than a read, which with four requests is a quarter more time. In these cases the
//! engine asks the host for the R1 ([`Host::early_r1`]); a host without it delivers the R1 at the
//! end, as usual.

use super::Engine;
use super::slot::{NONE, Slots};
use crate::host::{Direction, Host};
use crate::sched::Profile;
use crate::spec::response::R1;

/// Factor: requests in the engine count as few up to this many for each request of the transfer in
/// progress.
const FEW: u32 = 4;
/// Status bits about earlier writes, which the card reports only one time.
const TOLD: u32 = R1::DEFERRED | R1::EXCEPTION_EVENT;

/// The bits of R1 that were already handled for the transfer in progress.
#[derive(Debug)]
pub(super) struct Early {
    told: u32,
}

impl Early {
    pub const NONE: Early = Early { told: 0 };

    /// Clears the bits: another phase begins.
    pub fn begin(&mut self) {
        self.told = 0;
    }

    /// Returns the R1 at the transfer's end, without the bits that were taken before.
    pub fn take_new_bits(&mut self, status: u32) -> u32 {
        status & !core::mem::take(&mut self.told)
    }
}

impl<const N: usize> Slots<N> {
    /// Returns whether few requests are in the engine, compared with the `moving` requests of the
    /// transfer in progress.
    #[inline(always)]
    pub fn are_few(&self, moving: u8) -> bool {
        u32::from(self.mapped()) <= FEW * u32::from(moving)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Whether the engine asks hosts for early R1 responses.
    pub(super) const EARLY: bool = H::EARLY_R1 && P::RECOVERS;

    /// Asks the host for the R1 of the transfer in progress, if earlier writes wait for it and few
    /// or no other requests wait to be sent.
    #[inline]
    pub(super) fn try_early(&mut self, now_ns: u64) {
        let waits = Self::EARLY && self.slots.is_settling();
        if waits && (self.slots.head() == NONE || self.slots.are_few(self.batch.count())) {
            self.take_early(now_ns);
        }
    }

    /// Takes the early R1. Returns true if it was there.
    #[inline(never)]
    pub(super) fn take_early(&mut self, now_ns: u64) -> bool {
        let moving = self.lane.moves_data(&self.bus);
        if self.lane.has_control() || !moving || !self.slots.is_settling() {
            return false;
        }
        let Some(status) = self.bus.host_mut().early_r1() else { return false };
        if status & R1::WP_VIOLATION != 0 && self.batch.direction() == Direction::Write {
            // The error may belong to the write in progress; the end of its data shows that.
            return false;
        }
        self.settle(status);
        self.lane.early_mut().told = status & TOLD;
        self.order.note_results(&self.slots, now_ns);
        true
    }

    /// Completes earlier writes by the R1 at the end of a transfer.
    pub(super) fn settle_at_end(&mut self, status: u32) {
        let status = if Self::EARLY { self.lane.early_mut().take_new_bits(status) } else { status };
        self.settle(status);
    }
}
