//! DMA between the ring buffer and memory, along a scatter-gather (SG) table.

use super::bits::{dma, int, window};
use super::{Rtsx, Timer};
use crate::faults::{Point, Strike};
use crate::slot::Core;
use std::collections::VecDeque;

/// Largest length in bytes of one SG entry.
const MAX_PIECE_BYTES: u32 = 512 << 10;

/// Bit of an SG entry: the entry is valid.
const VALID: u32 = 1;
/// Bit of an SG entry: the entry is the last of the table.
const END: u32 = 1 << 1;
/// Mask of the type field of an SG entry.
const KIND: u32 = 0x30;
/// Type of an SG entry: the entry moves data.
const TRANS_DATA: u32 = 0x20;
/// Reserved bits of an SG entry.
const RESERVED: u32 = 0xfc8;

#[derive(Debug, Default)]
pub(super) struct Dma {
    ring: VecDeque<u8>,
    table: Option<Table>,
    /// Number of bytes that the DMA still has to move in this transfer; `None`: the DMA is not
    /// enabled.
    left: Option<u32>,
    /// Number of bytes of the burst that the DMA moves now, until the burst's timer fires; `None`:
    /// no burst.
    moving: Option<usize>,
    /// Whether the DMA has moved all bytes of a write, and the end of the transfer is not reported
    /// yet.
    moved_all: bool,
}

/// The SG table in use, and the part of its present entry that the DMA has not moved yet.
#[derive(Debug)]
struct Table {
    to_memory: bool,
    next: u64,
    address: u64,
    left: u32,
    last: bool,
    /// Fault: whether the DMA never begins to move data with this table.
    hangs: bool,
}

/// Error: the DMA cannot use the table or the memory.
struct Bad;

impl Dma {
    pub fn has_table(&self) -> bool {
        self.table.is_some()
    }

    pub fn armed(&self) -> bool {
        self.left.is_some()
    }

    pub fn ring_bytes(&self) -> usize {
        self.ring.len()
    }

    pub fn ring_is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Adds a block from the card to the ring buffer.
    pub fn push(&mut self, bytes: &[u8]) {
        self.ring.extend(bytes);
    }

    /// Fills `bytes` from the ring buffer. Returns false, and takes nothing, if the ring buffer
    /// holds fewer bytes.
    pub fn pull(&mut self, bytes: &mut [u8]) -> bool {
        let n = bytes.len();
        if self.ring.len() < n {
            return false;
        }
        let (front, back) = self.ring.as_slices();
        let first = front.len().min(n);
        bytes[..first].copy_from_slice(&front[..first]);
        bytes[first..].copy_from_slice(&back[..n - first]);
        self.ring.drain(..n);
        true
    }
}

impl Rtsx {
    /// Returns the number of free bytes in the ring buffer. Bytes that are on their way from memory
    /// use room already.
    pub(super) fn ring_room(&self) -> usize {
        let coming = self.dma.moving.filter(|_| self.dma.table.as_ref().is_some_and(|t| !t.to_memory));
        (self.config.ring_bytes as usize).saturating_sub(self.dma.ring.len() + coming.unwrap_or(0))
    }

    pub(super) fn flush_ring(&mut self) {
        self.dma.ring.clear();
    }

    pub(super) fn dma_control(&self) -> u8 {
        let value = self.regs.at(dma::CTL) & !(dma::ENABLE | dma::BUSY | dma::RESET);
        value
            | if self.dma.armed() { dma::ENABLE } else { 0 }
            | if self.dma.armed() && self.dma.has_table() { dma::BUSY } else { 0 }
    }

    pub(super) fn set_dma_control(&mut self, mask: u8, data: u8, now: u64) {
        let new = self.dma_control() & !mask | data & mask;
        self.regs.put(dma::CTL, new & !dma::RESET);
        if mask & data & dma::RESET != 0 {
            self.dma.left = None;
            self.forget_table();
        } else if mask & data & dma::ENABLE != 0 {
            let count = self.regs.word(dma::COUNT);
            if self.dma.armed() || count == 0 {
                return self.slot.violation();
            }
            self.dma.left = Some(count);
            self.dma_goes_on(now);
        } else if new & dma::ENABLE == 0 && self.dma.armed() {
            self.dma.left = None;
            self.stop_moving();
        }
    }

    fn stop_moving(&mut self) {
        self.dma.moving = None;
        self.stop_timer(Timer::Dma);
    }

    pub(super) fn forget_table(&mut self) {
        self.dma.moved_all = false;
        self.dma.table = None;
        self.stop_moving();
    }

    pub(super) fn trigger_dma(&mut self, now: u64) {
        let hangs = self.strike(Point::Dma, now) == Some(Strike::Never);
        self.dma.table = Some(Table {
            to_memory: self.window.table_control & window::TO_MEMORY != 0,
            next: self.window.table_address.into(),
            address: 0,
            left: 0,
            last: false,
            hangs,
        });
        self.dma_goes_on(now);
    }

    /// Starts the next burst, if the DMA can move any bytes.
    pub(super) fn dma_goes_on(&mut self, now: u64) {
        let (Some(table), Some(left), None) = (&self.dma.table, self.dma.left, self.dma.moving) else {
            return;
        };
        if table.hangs {
            return;
        }
        let control = self.regs.at(dma::CTL);
        if table.to_memory != (control & dma::FROM_CARD != 0) {
            self.slot.violation();
            return self.dma_failed(now);
        }
        let burst = (128u32 << (control >> 4 & 3)).min(self.config.ring_bytes).min(left);
        let possible = if table.to_memory { self.dma.ring_bytes() } else { self.ring_room() };
        if burst == 0 || possible < burst as usize {
            return;
        }
        self.dma.moving = Some(burst as usize);
        let time_ns = u64::from(burst) * 1_000 / u64::from(self.config.dma_mb_s.max(1));
        self.set_timer(Timer::Dma, now.saturating_add(time_ns));
    }

    /// Moves the bytes of a burst at its end. Then starts the next burst, or ends the DMA.
    pub(super) fn dma_event(&mut self, now: u64) {
        let (Some(n), Some(left)) = (self.dma.moving.take(), self.dma.left) else { return };
        let Some(mut table) = self.dma.table.take() else { return };
        let to_memory = table.to_memory;
        let result = self.move_burst(&mut table, n);
        let left = left.saturating_sub(n as u32);
        let over = left == 0;
        // The table must end with the last byte.
        let matched = !over || table.left == 0 && table.last;
        self.dma.table = Some(table);
        if result.is_err() || !matched {
            return self.dma_failed(now);
        }
        self.dma.left = Some(left);
        if over {
            self.dma.left = None;
            self.dma.table = None;
            let done = self.regs.at(dma::IRQSTAT0) | dma::DONE;
            self.regs.put(dma::IRQSTAT0, done);
            if to_memory {
                self.raise(int::DATA_DONE | int::TRANS_OK, now);
            } else {
                self.dma.moved_all = true;
            }
        }
        self.ring_moved(now);
        self.dma_goes_on(now);
    }

    /// Reports the end of the DMA of a write, at the end of its transfer. Linux's driver takes the
    /// report for the end of the write, and sends the next command.
    pub(super) fn write_ended(&mut self, now: u64) {
        if std::mem::take(&mut self.dma.moved_all) {
            self.raise(int::DATA_DONE | int::TRANS_OK, now);
        }
    }

    fn dma_failed(&mut self, now: u64) {
        self.dma.left = None;
        self.forget_table();
        if self.sd.running() {
            self.fail_transfer(0, 0, now);
        } else {
            self.fail_list(now);
        }
    }

    /// Copies `n` bytes between the ring buffer and the memory that the SG table describes, in the
    /// direction of the table, and advances the position in the table.
    fn move_burst(&mut self, table: &mut Table, n: usize) -> Result<(), Bad> {
        let mut bytes = vec![0; n];
        if table.to_memory && !self.dma.pull(&mut bytes) {
            return Err(Bad);
        }
        let mut at = 0;
        while at < n {
            if table.left == 0 {
                self.next_piece(table)?;
            }
            let piece = (n - at).min(table.left as usize);
            let part = &mut bytes[at..at + piece];
            let result = if table.to_memory {
                self.memory.device_write(table.address, part)
            } else {
                self.memory.device_read(table.address, part)
            };
            result.map_err(|_| Bad)?;
            at += piece;
            table.address = table.address.wrapping_add(piece as u64);
            table.left -= piece as u32;
        }
        if !table.to_memory {
            self.dma.push(&bytes);
        }
        Ok(())
    }

    /// Reads the next entry of the SG table into `table`. An error if the table has no further
    /// entry, or the entry is not valid.
    fn next_piece(&mut self, table: &mut Table) -> Result<(), Bad> {
        if table.last {
            return Err(Bad);
        }
        let mut raw = [0; 8];
        self.slot.stats.descriptors += 1;
        self.memory.device_read(table.next, &mut raw).map_err(|_| Bad)?;
        let entry = u64::from_le_bytes(raw);
        let (low, address) = (entry as u32, entry >> 32);
        let bytes = low >> 12;
        let sound = low & VALID != 0
            && low & KIND == TRANS_DATA
            && low & RESERVED == 0
            && (1..=MAX_PIECE_BYTES).contains(&bytes)
            && address.is_multiple_of(4);
        if !sound {
            return Err(Bad);
        }
        table.next += 8;
        table.address = address;
        table.left = bytes;
        table.last = low & END != 0;
        Ok(())
    }
}
