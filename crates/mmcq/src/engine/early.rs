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

/// The engine reads the R1 of a transfer before the end of its data if the engine has few requests:
/// at most this many times the requests of the transfer itself.
const FEW: u32 = 4;
/// Status bits about earlier writes, which the card reports only one time.
const TOLD: u32 = R1::DEFERRED | R1::EXCEPTION_EVENT;

/// The error bits of an early R1 that the engine has handled while the transfer still runs. The R1
/// at the end of the transfer has the same bits again, and they must not be handled twice.
#[derive(Debug)]
pub(super) struct Early {
    told: u32,
}

impl Early {
    pub const NONE: Early = Early { told: 0 };

    /// Forgets which bits of an R1 were handled, since another command begins.
    pub fn begin(&mut self) {
        self.told = 0;
    }

    /// Stores the error bits of an R1 (`status`) that the engine has read early and handled, so
    /// that they are not handled again when the same R1 arrives at the transfer's end.
    pub fn note_told(&mut self, status: u32) {
        self.told = status & TOLD;
    }

    /// Returns the R1 `status` of the end of a transfer without the error bits that the engine has
    /// handled already, when it read the same R1 during the data.
    pub fn take_new_bits(&mut self, status: u32) -> u32 {
        status & !core::mem::take(&mut self.told)
    }
}

impl<const N: usize> Slots<N> {
    /// Returns whether so few requests are in the engine, compared with the `moving` requests of
    /// the transfer in progress, that the engine should read this transfer's R1 before its end.
    #[inline(always)]
    pub fn are_few(&self, moving: u8) -> bool {
        u32::from(self.mapped()) <= FEW * u32::from(moving)
    }
}
