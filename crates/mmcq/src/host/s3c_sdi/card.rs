//! The card interrupt: an edge that gets lost, made a level again.

use super::S3cSdi;
use super::regs::*;
use crate::host::{Dma, Regs};

impl<R: Regs, D: Dma> S3cSdi<R, D> {
    pub(super) fn mask_card(&mut self) {
        self.card_irq = false;
        self.enable(self.events);
    }

    pub(super) fn unmask_card(&mut self) {
        // An edge from while it was masked is old; the level tells what is true now. In this order,
        // so that an edge in between is seen by one of them.
        self.regs.write32(DSTA, DSTA_SDIO);
        self.card_irq = true;
        self.enable(self.events);
        self.ring();
    }

    /// Calls for an `ack` if the card asks for attention and no phase will end: an empty FIFO is
    /// half empty.
    pub(super) fn ring(&mut self) {
        if self.card_irq && self.active.is_none() && self.dat1_low() {
            self.enable(self.events | INT_TX_HALF);
        }
    }

    /// After a phase, when DAT1 is the interrupt's again: does the card ask? If so, it is masked.
    pub(super) fn level_asks(&mut self) -> bool {
        self.card_irq && self.dat1_low() && self.take_card_interrupt()
    }

    /// Was an edge seen? If so, the card interrupt is masked.
    pub(super) fn edge_asks(&mut self) -> bool {
        if !self.card_irq {
            return false;
        }
        let status = self.regs.read32(DSTA);
        status != u32::MAX && status & DSTA_SDIO != 0 && self.take_card_interrupt()
    }

    fn take_card_interrupt(&mut self) -> bool {
        self.mask_card();
        true
    }

    fn dat1_low(&self) -> bool {
        self.regs.read32(DAT1) & DAT1_HIGH == 0
    }
}
