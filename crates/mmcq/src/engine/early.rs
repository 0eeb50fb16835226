//! The R1 of a transfer, read before the end of its data.
//!
//! A write is complete when the card's next status shows that it was programmed: usually the R1 of
//! the next transfer. The controller receives that R1 long before the transfer's end. In two cases
//! the engine asks the host for that R1 early, at the cost of an interrupt
//! ([`Host::early_r1`](crate::host::Host::early_r1)):
//!
//! - A write waits for the R1, and no request is queued. Its client may wait for the result before
//!   it submits the next request, which would then come too late to follow the running transfer at
//!   once.
//! - Few requests are in the engine. A write would then complete one transfer later than a read;
//!   with four requests that is a quarter more time.
//!
//! A host without this ability delivers the R1 at the end, as usual.

use super::slot::Slots;
use crate::spec::response::R1;

/// Factor: the engine has few requests if it has at most this many for each request of the transfer
/// in progress.
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

    /// Clears the record of handled bits, since another phase begins.
    pub fn begin(&mut self) {
        self.told = 0;
    }

    /// Notes which bits of this R1 were handled.
    pub fn note_told(&mut self, status: u32) {
        self.told = status & TOLD;
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
