//! The card interrupt: the controller detects an edge of DAT1, which may get lost, so the driver
//! also reads the level.

use super::S3cSdi;
use super::regs::*;
use crate::host::{Dma, Regs};

impl<R: Regs, D: Dma> S3cSdi<R, D> {
    pub(super) fn mask_card(&mut self) {
        self.card_irq = false;
        self.enable(self.events);
    }

    pub(super) fn unmask_card(&mut self) {
        // An edge from the time when the interrupt was masked is outdated, and the level shows the
        // present state. Clear the edge first, so that a new edge is seen either by the flag or by
        // the level.
        self.regs.write32(DSTA, DSTA_SDIO);
        self.card_irq = true;
        self.enable(self.events);
        self.ring();
    }

    /// Causes an interrupt if the card requests attention while no command is in progress. The
    /// driver enables the half-empty interrupt of the FIFO, which an empty FIFO asserts at once.
    pub(super) fn ring(&mut self) {
        if self.card_irq && self.active.is_none() && self.dat1_low() {
            self.enable(self.events | INT_TX_HALF);
        }
    }

    /// Checks after a command and its data, when DAT1 carries the card interrupt again, whether the
    /// card requests attention. If so, masks the card interrupt and returns true.
    pub(super) fn level_asks(&mut self) -> bool {
        self.card_irq && self.dat1_low() && self.take_card_interrupt()
    }

    /// Returns whether the controller has detected an edge of DAT1. If so, masks the card
    /// interrupt.
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
