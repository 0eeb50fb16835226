//! DMA of the board, which moves words between the FIFO and memory.
//!
//! The DMA belongs to the board and not to the controller. Data on the lines end without waiting
//! for it, and a reset of the controller does not stop it.

use super::bits::dcon;
use super::{NEVER, S3cSdi, Timer};

/// Bit 31 of the length register: the DMA goes from memory to the card.
const TO_CARD: u32 = 1 << 31;

#[derive(Debug, Default)]
pub(super) struct Dma {
    /// Register 110h: bus address of the data.
    pub address: u32,
    /// Register 114h: length in bytes, and direction.
    pub length: u32,
    pub running: bool,
    at: u64,
    left: u32,
}

impl S3cSdi {
    /// Starts or stops the DMA, after a write to register 118h.
    pub(super) fn dma_start(&mut self, value: u32, now: u64) {
        let wanted = value & 1 != 0 && self.config.dma;
        if wanted && self.dma.running {
            return self.slot.violation();
        }
        self.set_timer(Timer::Dma, NEVER);
        self.dma.running = wanted;
        self.dma.at = self.dma.address.into();
        self.dma.left = self.dma.length & !TO_CARD;
        if wanted {
            self.dma_moves(now);
        }
    }

    /// Schedules the move of the next word, if a word can be moved.
    pub(super) fn dma_moves(&mut self, now: u64) {
        if self.dma_can_move() && self.slot.alarm_ns(Timer::Dma as usize) == NEVER {
            self.set_timer(Timer::Dma, now + u64::from(self.config.dma_word_ns));
        }
    }

    fn dma_can_move(&mut self) -> bool {
        let asked = self.regs.dcon & dcon::DMA != 0 && (self.dat.block.read || self.dat.active());
        if !self.dma.running || !asked {
            return false;
        }
        if (self.dma.length & TO_CARD != 0) == self.dat.block.read {
            self.slot.violation();
            self.dma.running = false;
            return false;
        }
        if self.dma.left == 0 {
            self.dma.running = false;
        }
        self.dma.running && if self.dat.block.read { !self.fifo.is_empty() } else { !self.fifo.is_full() }
    }

    /// Moves a word between FIFO and memory.
    pub(super) fn dma_event(&mut self, now: u64) {
        if !self.dma_can_move() {
            return;
        }
        let mut word = [0; 4];
        let mut bytes = (self.dma.left as usize).min(4);
        let moved = if self.dat.block.read {
            let Some((from, count)) = self.fifo.pop() else { return };
            bytes = bytes.min(count);
            self.memory.device_write(self.dma.at, &from[..bytes])
        } else {
            let fetched = self.memory.device_read(self.dma.at, &mut word[..bytes]);
            self.fifo.push(&word[..bytes]);
            fetched
        };
        self.dma.at += bytes as u64;
        self.dma.left -= bytes as u32;
        if moved.is_err() || self.dma.left == 0 {
            self.dma.running = false;
        }
        self.fifo_moved(now);
        self.dma_moves(now);
    }
}
