//! The platform's DMA engine: it feeds and empties the FIFO word by word, as fast as the lines go.

use super::S3cSdi;
use super::bits::dcon;

/// Bit 31 of the length: from memory to the card.
const TO_CARD: u32 = 1 << 31;

#[derive(Debug, Default)]
pub(super) struct Dma {
    /// 110h.
    pub address: u32,
    /// 114h.
    pub length: u32,
    pub running: bool,
    at: u64,
    left: u32,
}

impl S3cSdi {
    /// 118h was written.
    pub(super) fn dma_start(&mut self, value: u32, now: u64) {
        let wanted = value & 1 != 0 && self.config.dma;
        if wanted && self.dma.running {
            return self.violation();
        }
        self.dma.running = wanted;
        self.dma.at = self.dma.address.into();
        self.dma.left = self.dma.length & !TO_CARD;
        if wanted {
            self.dma_moves(now);
        }
    }

    /// Moves what can be moved between memory and FIFO.
    pub(super) fn dma_moves(&mut self, now: u64) {
        if !self.dma.running || self.regs.dcon & dcon::DMA == 0 || !self.dat.active() {
            return;
        }
        if (self.dma.length & TO_CARD != 0) == self.dat.read {
            self.violation();
            self.dma.running = false;
            return;
        }
        while self.dma.left > 0 && if self.dat.read { !self.fifo.is_empty() } else { !self.fifo.is_full() } {
            let mut word = [0; 4];
            let mut bytes = (self.dma.left as usize).min(4);
            let moved = if self.dat.read {
                let Some((from, count)) = self.fifo.pop() else { break };
                bytes = bytes.min(count);
                self.memory.device_write(self.dma.at, &from[..bytes])
            } else {
                let fetched = self.memory.device_read(self.dma.at, &mut word[..bytes]);
                self.fifo.push(&word[..bytes]);
                fetched
            };
            if moved.is_err() {
                self.dma.running = false;
                break;
            }
            self.dma.at += bytes as u64;
            self.dma.left -= bytes as u32;
        }
        if self.dma.left == 0 {
            self.dma.running = false;
        }
        self.fifo_moved(now);
    }
}
