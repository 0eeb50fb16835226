//! Blocks of a transfer on the DAT lines, in both directions.

use super::bits::sd;
use super::command::TIMEOUT_CLK;
use super::transfer::{Data, Step};
use super::{NEVER, Rtsx, Timer};
use crate::card::{Flow, ReadBlock};
use crate::faults::{Point, Strike, flip};
use crate::slot::Core;
use crate::wire::{BLOCK_GAP_CLK, Beat, CRC_STATUS_CLK, block_clk};

/// The tuning block of CMD19 [SD 4.2.4.5].
pub(super) const TUNING_BLOCK: [u8; 64] = [
    0xff, 0x0f, 0xff, 0x00, 0xff, 0xcc, 0xc3, 0xcc, 0xc3, 0x3c, 0xcc, 0xff, 0xfe, 0xff, 0xfe, 0xef, 0xff,
    0xdf, 0xff, 0xdd, 0xff, 0xfb, 0xff, 0xfb, 0xbf, 0xff, 0x7f, 0xff, 0x77, 0xf7, 0xbd, 0xef, 0xff, 0xf0,
    0xff, 0xf0, 0x0f, 0xfc, 0xcc, 0x3c, 0xcc, 0x33, 0xcc, 0xcf, 0xff, 0xef, 0xff, 0xee, 0xff, 0xfd, 0xff,
    0xfd, 0xdf, 0xff, 0xbf, 0xff, 0xbb, 0xff, 0xf7, 0xff, 0xf7, 0x7f, 0x7b, 0xde,
];

impl Rtsx {
    /// Starts the data of a transfer after the clock edge `beat`.
    pub(super) fn start_data(&mut self, beat: Beat, now: u64) {
        self.sd.beat = Some(beat);
        self.sd.held_since = now;
        if self.sd.data == Data::Write { self.next_write(now) } else { self.next_read(now) }
    }

    /// Restarts the DAT lines after they had to wait for the ring buffer.
    fn lines_stood(&mut self, now: u64) {
        self.slot.stats.held_ns += now.saturating_sub(self.sd.held_since);
        self.sd.beat = Some(self.beat(now).not_before(now));
    }

    /// Continues a transfer that waits for the ring buffer, after the DMA has moved bytes between
    /// the ring buffer and memory.
    pub(super) fn ring_moved(&mut self, now: u64) {
        match self.sd.step {
            Step::ReadHeld if self.ring_room() >= self.sd.block => {
                self.lines_stood(now);
                self.next_read(now);
            }
            Step::WriteHeld if self.dma.ring_bytes() >= self.sd.block => {
                self.lines_stood(now);
                self.next_write(now);
            }
            Step::Drain if self.dma.ring_is_empty() => self.finish_transfer(now),
            _ => {}
        }
    }

    fn next_read(&mut self, now: u64) {
        let through_ring = self.sd.data == Data::Read && !self.sd.ping_pong;
        if through_ring && self.ring_room() < self.sd.block {
            self.sd.step = Step::ReadHeld;
            self.sd.held_since = now;
            return;
        }
        let before = self.beat(now);
        let free = before.plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        let Some(Flow::Read { block_size }) = self.sd.open.map(|open| open.flow) else {
            return self.silence();
        };
        let n = usize::from(block_size);
        let mut bytes = std::mem::take(&mut self.sd.bytes);
        bytes.resize(n.max(self.sd.block).max(bytes.len()), 0);
        let reply = self.slot.with_card(free_ns, |card, now| card.read_block(&mut bytes[..n], now));
        self.sd.bytes = bytes;
        let Some(ReadBlock::At { mut start_ns, crc_ok }) = reply.filter(|_| !self.sd.deaf) else {
            return self.silence();
        };
        let tuning = self.sd.data == Data::Tuning;
        self.sd.strike = self.strike(if tuning { Point::Tuning } else { Point::ReadBlock }, now);
        match self.sd.strike {
            Some(Strike::Lost | Strike::Never) => return self.silence(),
            Some(Strike::Late(ns)) => start_ns = start_ns.max(free_ns).saturating_add(ns),
            Some(Strike::Flip(bit)) => flip(&mut self.sd.bytes[..n], bit),
            _ => {}
        }
        if start_ns == NEVER {
            return self.silence();
        }
        let start = free.not_before(start_ns);
        let end = start.plus(block_clk(block_size.into(), self.slot.bus.width, self.slot.bus.ddr));
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.slot.stats.access_ns += start_ns - free_ns;
        self.slot.stats.data_ns += (free_ns - before.ns()) + (end_ns - start_ns);
        self.sd.good = crc_ok && n == self.sd.block;
        self.sd.start_ns = start_ns;
        self.sd.beat = Some(end);
        self.sd.step = Step::ReadBlock;
        self.set_timer(Timer::Sd, end_ns);
    }

    pub(super) fn read_block_ended(&mut self, now: u64) {
        let damaged = matches!(self.sd.strike.take(), Some(Strike::Crc | Strike::Fail));
        let good = self.sd.good && !damaged && self.slot.card().is_some();
        self.count_block(true, good, now);
        if let Some(open) = &mut self.sd.open {
            open.moved = true;
        }
        if !good && self.sd.config2 & sd::NO_CRC16_CHECK == 0 {
            return self.fail_transfer(sd::CRC16_ERR, 0, now);
        }
        let n = self.sd.block;
        let bytes = std::mem::take(&mut self.sd.bytes);
        self.sd.left = self.sd.left.saturating_sub(1);
        if self.sd.data == Data::Tuning {
            let equal = good && bytes[..n] == TUNING_BLOCK;
            self.sd.bytes = bytes;
            return if equal {
                self.finish_transfer(now)
            } else {
                self.fail_transfer(sd::TUNING_ERR, 0, now)
            };
        }
        if self.sd.ping_pong {
            self.regs.ping_pong(n).copy_from_slice(&bytes[..n]);
        } else {
            self.dma.push(&bytes[..n]);
        }
        self.sd.bytes = bytes;
        if self.sd.left > 0 {
            self.next_read(now);
        } else if self.sd.ping_pong {
            self.finish_transfer(now);
        } else {
            self.sd.step = Step::Drain;
        }
        self.dma_goes_on(now);
    }

    fn next_write(&mut self, now: u64) {
        let n = self.sd.block;
        let mut bytes = std::mem::take(&mut self.sd.bytes);
        bytes.resize(n.max(bytes.len()), 0);
        let ready = if self.sd.ping_pong {
            bytes[..n].copy_from_slice(self.regs.ping_pong(n));
            true
        } else {
            self.dma.pull(&mut bytes[..n])
        };
        self.sd.bytes = bytes;
        if !ready {
            self.sd.step = Step::WriteHeld;
            self.sd.held_since = now;
            return;
        }
        let before = self.beat(now);
        let free = before.plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        if self.slot.busy_until_ns == NEVER {
            return self.silence();
        }
        let start = free.not_before(self.slot.busy_until_ns);
        let end = start.plus(block_clk(n as u32, self.slot.bus.width, self.slot.bus.ddr));
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.slot.busy_from(free_ns, start_ns);
        self.slot.stats.data_ns += (free_ns - before.ns()) + (end_ns - start_ns);
        self.sd.start_ns = start_ns;
        self.sd.beat = Some(end);
        self.sd.step = Step::WriteBlock;
        self.set_timer(Timer::Sd, end_ns);
        self.dma_goes_on(now);
    }

    pub(super) fn written_block_ended(&mut self, now: u64) {
        let strike = self.strike(Point::WriteBlock, now);
        let damaged = strike == Some(Strike::Crc);
        let n = self.sd.block;
        if let Some(Strike::Flip(bit)) = strike {
            flip(&mut self.sd.bytes[..n], bit);
        }
        let end = self.beat(now);
        let heard = !self.sd.deaf && strike != Some(Strike::Lost);
        let flow = self.sd.open.map(|open| open.flow).filter(|_| heard);
        let reply = self.slot.give_block(flow, &self.sd.bytes[..n], !damaged, now);
        if let Some(open) = &mut self.sd.open {
            open.moved = true;
        }
        let Some((good, busy_until)) = self.slot.seen_status(reply, strike) else {
            self.count_block(false, false, now);
            if self.sd.config2 & sd::NO_STATUS_TIMEOUT != 0 {
                return self.silence();
            }
            self.sd.step = Step::NoStatus;
            return self.set_timer(Timer::Sd, end.plus(TIMEOUT_CLK).ns());
        };
        self.count_block(false, good, now);
        self.sd.good = good;
        self.slot.busy_until_ns = self.slot.busy_until_ns.max(busy_until);
        let token = end.plus(CRC_STATUS_CLK);
        self.slot.stats.data_ns += token.ns() - end.ns();
        self.sd.left = self.sd.left.saturating_sub(u32::from(good));
        self.sd.beat = Some(token);
        self.sd.step = Step::WriteStatus;
        self.set_timer(Timer::Sd, token.ns());
    }

    /// Continues or ends a write at the end of the CRC status of a block.
    pub(super) fn write_status_ended(&mut self, now: u64) {
        if !self.sd.good {
            return self.fail_transfer(sd::CRC_WRITE_ERR | sd::STATUS_BAD, 0, now);
        }
        self.regs.put(sd::STAT1, sd::STATUS_GOOD);
        if self.sd.left == 0 {
            self.finish_after_busy(now);
        } else {
            self.next_write(now);
        }
    }

    fn count_block(&mut self, read: bool, good: bool, now: u64) {
        self.slot.count_block(read, self.sd.block, good, self.sd.start_ns, now);
    }
}
