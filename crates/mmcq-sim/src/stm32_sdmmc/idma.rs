//! Internal DMA (IDMA): one buffer, two buffers in turn, or a linked list [58.5.6].

use super::bits::{idma, sta};
use super::{Buffers, Stm32Sdmmc};
use crate::faults::{Point, Strike};
use crate::slot::Core;

/// Size in bytes of a list item: link address register, buffer address, buffer size.
const ITEM_BYTES: usize = 12;

#[derive(Debug, Default)]
pub(super) struct Idma {
    at: u64,
    /// Number of bytes of the buffer in use that the IDMA has not moved yet. `None` for the last
    /// buffer, whose end is the end of the data (register DLEN, data length).
    left: Option<u32>,
    /// Whether an error has stopped the IDMA.
    pub failed: bool,
    /// Fault: whether a memory access never ends.
    hangs: bool,
}

/// What the internal DMA (IDMA) did when it was to move bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    All,
    /// An error occurred after this number of bytes.
    Failed(usize),
    /// The IDMA never continues (a fault).
    Hangs,
}

/// Error: the IDMA cannot access the address.
struct Bad;

impl Stm32Sdmmc {
    /// Prepares the controller's internal DMA (IDMA) for the data of a new command.
    pub(super) fn idma_begins(&mut self, now: u64) {
        let control = self.regs.idma_control;
        let second = usize::from(control & idma::SECOND != 0);
        let size = self.regs.buffer_size;
        let (at, left) = match self.config.buffers {
            _ if control & idma::MODE == 0 => (self.regs.base[0], None),
            Buffers::Double => (self.regs.base[second], Some(size)),
            Buffers::List if self.regs.item & idma::MORE != 0 => (self.regs.base[0], Some(size)),
            Buffers::List => (self.regs.base[0], None),
        };
        self.idma = Idma { at: at.into(), left, failed: left == Some(0), hangs: false };
        self.idma_is_struck(now);
    }

    fn idma_is_struck(&mut self, now: u64) {
        match self.strike(Point::Dma, now) {
            Some(Strike::Fail) => self.idma.failed = true,
            Some(Strike::Never) => self.idma.hangs = true,
            _ => {}
        }
    }

    /// Moves the bytes of a block by IDMA: from `bytes` to memory if `to_memory`, otherwise from
    /// memory to `bytes`. Returns how far this went.
    pub(super) fn idma_moves(&mut self, bytes: &mut [u8], to_memory: bool, now: u64) -> Moved {
        let mut done = 0;
        while done < bytes.len() {
            if self.idma.hangs {
                return Moved::Hangs;
            }
            if !self.idma.failed && self.idma.left == Some(0) && self.next_item(now).is_err() {
                self.idma.failed = true;
            }
            if self.idma.failed {
                return Moved::Failed(done);
            }
            if self.idma.hangs {
                continue;
            }
            let rest = bytes.len() - done;
            let piece = self.idma.left.map_or(rest, |left| rest.min(left as usize));
            let part = &mut bytes[done..done + piece];
            let reached = reaches(self.config.window, self.idma.at, piece);
            let moved = match (reached, to_memory) {
                (false, _) => Err(crate::memory::BusError),
                (true, true) => self.memory.device_write(self.idma.at, part),
                (true, false) => self.memory.device_read(self.idma.at, part),
            };
            if moved.is_err() {
                self.idma.failed = true;
                return Moved::Failed(done);
            }
            done += piece;
            self.idma.at += piece as u64;
            if let Some(left) = &mut self.idma.left {
                *left -= piece as u32;
                if *left == 0 {
                    self.buffer_ends();
                }
            }
        }
        Moved::All
    }

    /// Ends a buffer that is not the last, and sets the flag "buffer transfer complete" (IDMABTC).
    /// If the IDMA has two buffers, it uses the other of the two next.
    fn buffer_ends(&mut self) {
        self.regs.status |= sta::IDMA_BUFFER;
        if self.config.buffers == Buffers::Double {
            self.regs.idma_control ^= idma::SECOND;
            let second = usize::from(self.regs.idma_control & idma::SECOND != 0);
            self.idma.at = self.regs.base[second].into();
            self.idma.left = Some(self.regs.buffer_size);
        }
    }

    /// Loads the next item of the linked list into the registers.
    fn next_item(&mut self, now: u64) -> Result<(), Bad> {
        self.idma_is_struck(now);
        let place = u64::from(self.regs.list) + u64::from(self.regs.item & idma::OFFSET);
        let mut raw = [0; ITEM_BYTES];
        self.slot.stats.descriptors += 1;
        if !reaches(self.config.window, place, ITEM_BYTES) {
            return Err(Bad);
        }
        self.memory.device_read(place, &mut raw).map_err(|_| Bad)?;
        let word = |i: usize| u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
        let (item, base, size) = (word(0), word(4), word(8));
        if item & idma::READY == 0 {
            return Err(Bad);
        }
        let mask = self.config.size_mask;
        let cut = item & idma::MORE != 0 && size & !mask != 0;
        if base & 3 != 0 || cut {
            self.slot.violation();
        }
        if self.regs.item & idma::NEW_SIZE != 0 {
            self.regs.buffer_size = size & mask;
        }
        self.regs.item = item;
        self.regs.base[0] = base & !3;
        self.idma.at = (base & !3).into();
        self.idma.left = (item & idma::MORE != 0).then_some(self.regs.buffer_size);
        if self.idma.left == Some(0) { Err(Bad) } else { Ok(()) }
    }
}

/// Returns whether the IDMA can access all of these bytes. `window`: first and last address that it
/// can access; `None`: all.
fn reaches(window: Option<[u32; 2]>, at: u64, bytes: usize) -> bool {
    let last = at + bytes as u64 - 1;
    window.is_none_or(|[from, to]| at >= from.into() && last <= to.into()) && last <= u32::MAX.into()
}
