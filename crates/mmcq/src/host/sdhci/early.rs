//! Reads the response of a phase before the phase ends.
//!
//! The controller sets Command Complete when it has received the response. A data transfer usually
//! runs without this interrupt. If the engine asks for the response before it has arrived, the
//! driver enables the interrupt [SDHC 2.2.17, 2.2.19].

use super::Sdhci;
use super::phase::{Automatic, Work};
use super::regs::*;
use crate::host::{Dma, Regs};
use crate::spec::command::Resp;
use crate::spec::response::R1;

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    /// Returns the R1 of the transfer in progress. `None` if the transfer has no R1 or has ended,
    /// or if the response has not arrived; its arrival then raises an interrupt.
    pub(super) fn response_so_far(&mut self) -> Option<u32> {
        let mut active = self.active?;
        let of_data = active.work.has_data() && active.work != Work::Tuning;
        if active.resp != Resp::R1 || !of_data || self.concurrent.is_some() {
            return None;
        }
        if active.seen & INT_COMMAND == 0 {
            let status = self.port.read32(INT_STATUS);
            if (status | active.seen) & (ERRORS | INT_TRANSFER) != 0 {
                // An error or the end of the data has come, which interrupts in any case.
                return None;
            }
            if status & INT_COMMAND == 0 {
                self.set_signal(self.shadow.signal | INT_COMMAND);
                return None;
            }
            self.port.write32(INT_STATUS, INT_COMMAND);
            active.seen |= INT_COMMAND;
            self.active = Some(active);
        }
        if active.alone && active.work == Work::Adma {
            // Only Transfer Complete is missing, so the fast path can handle the end.
            self.fast_end = INT_TRANSFER;
        }
        let counted = match self.auto {
            Automatic::TellingCount => self.port.read32(RESPONSE_3) & R1::DEFERRED,
            _ => 0,
        };
        Some(self.port.read32(RESPONSE_0) | counted)
    }
}
