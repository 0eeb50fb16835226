//! ADMA3 (Advanced DMA 3): the controller executes a list of commands with their data, one after
//! the other [SDHC 4.10, 1.13.5].
//!
//! An integrated descriptor points to a command descriptor: four pairs of words that hold what the
//! driver would write to the registers. The ADMA2 table of the data follows it in memory. Register
//! 78h shows the integrated descriptor in use, and after the list the address behind it. Transfer
//! Complete comes only at the end of the list. An error stops the list at the present entry.

use super::Sdhci;
use super::bits::{host2, int};
use crate::faults::{Point, Strike};
use crate::slot::Core;

/// Capability bit of ADMA3, in register 44h.
pub(super) const ADMA3: u32 = 1 << 27;
/// Bit Valid in the attributes of a descriptor.
const VALID: u32 = 1;
/// Bit End in the attributes of a descriptor.
const END: u32 = 1 << 1;
/// Mask of the field Act (kind of the descriptor) in the attributes of a descriptor.
const ACT: u32 = 0x38;
/// Value of the field Act: command descriptor.
const COMMAND: u32 = 0x08;
/// Value of the field Act: integrated descriptor.
const INTEGRATED: u32 = 0x38;
/// Value of register 54h (ADMA Error Status): the ADMA engine fetches a descriptor.
const ST_FDS: u8 = 1;
/// Length of a command descriptor in bytes.
const COMMAND_BYTES: u64 = 32;

/// The ADMA3 list that the controller executes.
#[derive(Debug, Default)]
pub(super) struct List {
    /// Address in register 78h: the integrated descriptor in use.
    pointer: u64,
    running: bool,
    /// Whether the present entry is the last of the list.
    last: bool,
}

impl List {
    /// Stops the list at the present entry.
    pub fn stops(&mut self) {
        self.running = false;
    }

    /// Returns the lower or the upper word of the 64-bit register 78h.
    pub fn shows(&self, upper: bool) -> u32 {
        (self.pointer >> if upper { 32 } else { 0 }) as u32
    }
}

impl Sdhci {
    /// Returns whether the controller supports ADMA3.
    pub(super) fn has_list(&self) -> bool {
        self.config.spec >= 4 && self.config.capabilities1 & ADMA3 != 0
    }

    /// Writes one word of the 64-bit register 78h: the upper one if `upper`. Only the bits in
    /// `mask` get those of `value`. The write of the register's highest byte in use starts the
    /// list: byte 3 with 32-bit addresses, byte 7 with 64-bit ones.
    pub(super) fn set_list(&mut self, upper: bool, value: u32, mask: u32, now: u64) {
        if self.list.running {
            return self.violation("a list is started while one is at work [SDHC 1.13.5]");
        }
        let shift = if upper { 32 } else { 0 };
        let old = self.list.shows(upper);
        let new = u64::from(old & !mask | value & mask) << shift;
        self.list.pointer = self.list.pointer & !(0xffff_ffff << shift) | new;
        if upper == (self.regs.host2 & host2::ADDRESS_64 != 0) && mask & 0xff00_0000 != 0 {
            if !self.regs.version4() || self.regs.host1 >> 3 & 3 != 3 {
                return self.violation("ADMA3 is started and not selected [SDHC 2.2.10]");
            }
            self.list.running = true;
            self.next_of_list(now);
        }
    }

    fn next_of_list(&mut self, now: u64) {
        let strike = self.strike(Point::List, now);
        let entry = if strike == Some(Strike::Fail) { None } else { self.fetch_entry() };
        let Some((address, last)) = entry else { return self.list_failed(now) };
        self.list.last = last || strike == Some(Strike::Lost);
        let Some(words) = self.fetch_command(address) else { return self.list_failed(now) };
        let [count, block, argument, command] = words;
        self.regs.argument2 = count;
        self.regs.block_size = block as u16 & 0x7fff;
        self.regs.block_count = (block >> 16) as u16;
        self.regs.argument = argument;
        self.regs.mode = command as u16 & 0x1ff;
        self.regs.command = (command >> 16) as u16 & 0x3fff;
        self.regs.adma_address = address.wrapping_add(COMMAND_BYTES);
        self.issue(now);
    }

    /// Reads an integrated descriptor. Returns the address in it and whether it is the last one;
    /// `None` for an error.
    fn fetch_entry(&mut self) -> Option<(u64, bool)> {
        let mut raw = [0u8; 16];
        let size = self.entry_bytes();
        self.slot.stats.descriptors += 1;
        self.memory.device_read(self.list.pointer, &mut raw[..size]).ok()?;
        let word = |i: usize| u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
        let high = if size > 8 { u64::from(word(8)) << 32 } else { 0 };
        let good = word(0) & (VALID | ACT) == VALID | INTEGRATED;
        good.then_some((u64::from(word(4)) | high, word(0) & END != 0))
    }

    fn entry_bytes(&self) -> usize {
        if self.regs.host2 & host2::ADDRESS_64 != 0 { 16 } else { 8 }
    }

    fn fetch_command(&mut self, address: u64) -> Option<[u32; 4]> {
        let mut raw = [0u8; COMMAND_BYTES as usize];
        self.memory.device_read(address, &mut raw).ok()?;
        let mut words = [0; 4];
        for (place, (pair, word)) in raw.chunks_exact(8).zip(&mut words).enumerate() {
            let head = u32::from_le_bytes(pair[..4].try_into().ok()?);
            let end = if place == 3 { END } else { 0 };
            if head & (VALID | END | ACT) != VALID | COMMAND | end {
                return None;
            }
            *word = u32::from_le_bytes(pair[4..].try_into().ok()?);
        }
        Some(words)
    }

    fn list_failed(&mut self, now: u64) {
        self.list.stops();
        self.regs.adma_error = ST_FDS;
        self.raise(int::ADMA, now);
    }

    /// Continues with the next entry of the list after the present one has ended, including its
    /// automatic command and the card's busy. Returns true if an entry was in progress.
    pub(super) fn list_goes_on(&mut self, now: u64) -> bool {
        if !self.list.running {
            return false;
        }
        self.list.pointer = self.list.pointer.wrapping_add(self.entry_bytes() as u64);
        if std::mem::take(&mut self.list.last) {
            self.list.stops();
            self.raise(int::TRANSFER_COMPLETE, now);
        } else {
            self.next_of_list(now);
        }
        true
    }
}
