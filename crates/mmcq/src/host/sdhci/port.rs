//! Register access in the widths that the controller supports.

use super::config::SdhciQuirks;
use crate::host::Regs;

/// The controller's registers, accessed in the widths that the access quirks require.
pub(super) struct Port<R> {
    pub(super) regs: R,
    only_32: bool,
    split: bool,
}

impl<R: Regs> Port<R> {
    pub(super) fn new(regs: R, quirks: SdhciQuirks) -> Self {
        Port {
            regs,
            only_32: quirks.has(SdhciQuirks::ACCESS_32BIT),
            split: quirks.has(SdhciQuirks::ACCESS_16BIT),
        }
    }

    pub(super) fn read8(&self, offset: u16) -> u8 {
        if self.only_32 {
            return (self.regs.read32(offset & !3) >> (8 * (offset & 3))) as u8;
        }
        self.regs.read8(offset)
    }

    pub(super) fn read16(&self, offset: u16) -> u16 {
        if self.only_32 {
            return (self.regs.read32(offset & !3) >> (8 * (offset & 2))) as u16;
        }
        self.regs.read16(offset)
    }

    #[inline]
    pub(super) fn read32(&self, offset: u16) -> u32 {
        self.regs.read32(offset)
    }

    pub(super) fn write8(&self, offset: u16, value: u8) {
        if self.only_32 {
            return self.merge(offset, 0xff, value.into());
        }
        self.regs.write8(offset, value);
    }

    pub(super) fn write16(&self, offset: u16, value: u16) {
        if self.only_32 {
            return self.merge(offset, 0xffff, value.into());
        }
        self.regs.write16(offset, value);
    }

    #[inline]
    pub(super) fn write32(&self, offset: u16, value: u32) {
        self.regs.write32(offset, value);
    }

    /// Returns whether two adjacent 16-bit registers may be written by one 32-bit access.
    pub(super) fn joins(&self) -> bool {
        !self.split
    }

    /// Writes two adjacent 16-bit registers; if they need two accesses, the lower first.
    #[inline]
    pub(super) fn write_pair(&self, offset: u16, low: u16, high: u16) {
        if self.split {
            return self.write_halves(offset, low, high);
        }
        self.regs.write32(offset, u32::from(low) | u32::from(high) << 16);
    }

    #[cold]
    fn write_halves(&self, offset: u16, low: u16, high: u16) {
        self.regs.write16(offset, low);
        self.regs.write16(offset + 2, high);
    }

    /// Writes the last `count` (1 to 4) bytes of a block, which are the low bytes of `word`, into
    /// the buffer port at `offset`, each in its byte lane. A controller that counts bytes must not
    /// get more bytes than the block has.
    pub(super) fn write_lanes(&self, offset: u16, word: u32, count: u32) {
        match count {
            _ if self.only_32 => self.regs.write32(offset, word),
            1 => self.regs.write8(offset, word as u8),
            2 => self.regs.write16(offset, word as u16),
            3 => {
                self.regs.write16(offset, word as u16);
                self.regs.write8(offset + 2, (word >> 16) as u8);
            }
            _ => self.regs.write32(offset, word),
        }
    }

    /// Writes the bits `mask` of the register at `offset` (1 or 2 bytes) with `value`, on a
    /// controller that allows only 32-bit accesses. The other bits of the word are written back as
    /// read; no other register in the same word is disturbed by that.
    fn merge(&self, offset: u16, mask: u32, value: u32) {
        let shift = 8 * (offset & 3);
        let old = self.regs.read32(offset & !3);
        self.regs.write32(offset & !3, old & !(mask << shift) | value << shift);
    }
}
