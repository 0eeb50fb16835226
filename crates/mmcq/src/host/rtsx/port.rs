//! Access to one 8-bit register of the chip by the CPU (HAIMR).

use super::regs::*;
use crate::host::{Cause, Regs};

/// Largest number of polls for one access. The chip takes a fraction of a microsecond, about as
/// long as one read by the CPU.
const POLLS: u32 = 64;

/// The registers that the CPU accesses directly.
pub(super) struct Port<R> {
    pub(super) regs: R,
}

/// Returns the HAIMR word that starts a write: it sets the bits under `mask` of the chip's register
/// `register` to those of `value`.
pub(super) const fn write_word(register: u16, mask: u8, value: u8) -> u32 {
    HAIMR_BUSY | HAIMR_WRITE | (register as u32 & 0x3fff) << 16 | (mask as u32) << 8 | (value & mask) as u32
}

/// Returns the HAIMR word that starts a read of `register`, an address inside the chip.
pub(super) const fn read_word(register: u16) -> u32 {
    HAIMR_BUSY | (register as u32 & 0x3fff) << 16
}

impl<R: Regs> Port<R> {
    /// Starts an access to an internal register: writes `word` (address, mask, data and direction)
    /// to HAIMR.
    pub(super) fn begin(&self, word: u32) {
        self.regs.write32(HAIMR, word);
    }

    /// Polls at most `polls` times for the end of an access. Returns the byte that was read (or
    /// written); `None` if the access has not ended.
    pub(super) fn look(&self, polls: u32) -> Option<Result<u8, Cause>> {
        for _ in 0..polls {
            let word = self.regs.read32(HAIMR);
            if word == u32::MAX {
                return Some(Err(Cause::Gone));
            }
            if word & HAIMR_BUSY == 0 {
                return Some(Ok(word as u8));
            }
        }
        None
    }

    /// Reads an 8-bit register of the chip.
    pub(super) fn fetch(&self, register: u16) -> Result<u8, Cause> {
        self.begin(read_word(register));
        self.look(POLLS).unwrap_or(Err(Cause::Other))
    }
}
