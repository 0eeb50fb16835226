//! The card interrupt: the controller sees an edge that may get lost, and the driver makes a level
//! of it.

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

    /// Causes an interrupt if the card requests attention and no phase will end: an empty FIFO is
    /// half empty.
    pub(super) fn ring(&mut self) {
        if self.card_irq && self.active.is_none() && self.dat1_low() {
            self.enable(self.events | INT_TX_HALF);
        }
    }

    /// Checks after a phase, when DAT1 carries the interrupt again, whether the card requests
    /// attention. If so, masks it.
    pub(super) fn level_asks(&mut self) -> bool {
        self.card_irq && self.dat1_low() && self.take_card_interrupt()
    }

    /// Returns whether an edge was seen. If so, masks the card interrupt.
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
