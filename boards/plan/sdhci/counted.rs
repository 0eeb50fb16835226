//! Register access that counts.

use core::cell::Cell;
use mmcq::host::Regs;

/// Registers, and the number of their reads and writes.
#[derive(Debug)]
pub struct Counted<R> {
    regs: R,
    accesses: Cell<u32>,
}

impl<R> Counted<R> {
    /// Makes the access to registers, with a count of 0.
    pub fn new(regs: R) -> Self {
        Counted { regs, accesses: Cell::new(0) }
    }

    /// Returns the number of reads and writes so far.
    pub fn accesses(&self) -> u32 {
        self.accesses.get()
    }

    fn regs(&self) -> &R {
        self.accesses.set(self.accesses.get().wrapping_add(1));
        &self.regs
    }
}

impl<R: Regs> Regs for Counted<R> {
    fn read8(&self, offset: u16) -> u8 {
        self.regs().read8(offset)
    }
    fn read16(&self, offset: u16) -> u16 {
        self.regs().read16(offset)
    }
    fn read32(&self, offset: u16) -> u32 {
        self.regs().read32(offset)
    }
    fn write8(&self, offset: u16, value: u8) {
        self.regs().write8(offset, value);
    }
    fn write16(&self, offset: u16, value: u16) {
        self.regs().write16(offset, value);
    }
    fn write32(&self, offset: u16, value: u32) {
        self.regs().write32(offset, value);
    }
}
