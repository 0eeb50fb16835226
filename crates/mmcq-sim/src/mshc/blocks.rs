//! Blocks on the DAT lines in both directions. The CPU gets them word by word, the internal DMA as
//! a whole.

use super::bits::{int, read_room};
use super::data::State;
use super::{Mshc, NEVER, Timer};
use crate::card::Flow;
use crate::faults::{Point, Strike};
use crate::lines::TAIL_CLK;
use crate::slot::Core;
use crate::wire::{BLOCK_GAP_CLK, CRC_STATUS_CLK};

/// Number of clocks after which a missing CRC status will not come any more.
const NO_STATUS_CLK: u64 = 8;

impl Mshc {
    pub(super) fn data_event(&mut self, now: u64) {
        match self.dat.state {
            State::ReadGap => self.ask_for_block(now),
            State::ReadWord => self.word_came(now),
            State::ReadBlock | State::ReadTail => self.read_block_ended(now),
            State::WriteGap => self.write_block_begins(now),
            State::WriteWord => self.word_went(now),
            State::WriteTail => self.written_block_ended(now),
            State::Status => self.write_status_ended(now),
            State::NoStatus => self.data_over(int::END_BIT, now),
            State::Busy => self.wait_to_send(now),
            _ => {}
        }
    }

    /// Continues a transfer that waits for room or data in the FIFO. The CPU or the internal DMA
    /// has just read from the FIFO or written to it.
    pub(super) fn fifo_moved(&mut self, now: u64) {
        match self.dat.state {
            State::Drain if self.fifo.is_empty() => self.abort_is_over(now),
            State::ReadHeld if self.fifo.room() >= 4 => {
                if self.dat.dma {
                    self.end_hold(now);
                    self.next_read(now);
                } else {
                    self.words_go_on(now);
                }
            }
            State::ReadWaits if self.has_read_room() => {
                self.end_hold(now);
                self.next_read(now);
            }
            State::WriteHeld if self.dat.block.at == 0 => self.wait_to_send(now),
            State::WriteHeld if self.fifo.len() >= self.dat.block.word() => {
                self.end_hold(now);
                self.send_word(0, now);
            }
            _ => {}
        }
        self.command_may_go(now);
    }

    /// Starts the next block of a read.
    pub(super) fn next_read(&mut self, now: u64) {
        let since_ns = self.dat.waits_since;
        self.watch(since_ns, NEVER);
        self.dat.block.not_before(&self.slot, now);
        self.after_clocks(BLOCK_GAP_CLK, State::ReadGap, now);
    }

    /// Returns whether the FIFO has the room that a read block must have before it starts. An empty
    /// FIFO always has enough.
    fn has_read_room(&self) -> bool {
        let set = self.regs.read_room;
        let bytes = (set >> read_room::BYTES_SHIFT & 0xfff) as usize;
        let all = 4 * usize::from(self.config.fifo_words);
        set & read_room::ON == 0 || self.fifo.room() >= bytes.min(all)
    }

    /// Stops the clock in the middle of a block, at the time `at_ns`, until the FIFO has room.
    fn hold_block(&mut self, at_ns: u64) {
        // A fast clock that stops and starts again is not sampled in the data eye: the block is
        // lost.
        self.dat.block.good &= !self.is_fast();
        self.hold(State::ReadHeld, at_ns);
    }

    /// Adds the block that has ended to the register that counts bytes on the data lines.
    fn count_line_bytes(&mut self) {
        self.regs.line_bytes = self.regs.line_bytes.wrapping_add(self.dat.block.size as u32);
    }

    pub(super) fn silence(&mut self) {
        self.dat.state = State::Silence;
    }

    fn ask_for_block(&mut self, now: u64) {
        if !matches!(self.dat.block.flow, Some(Flow::Read { .. })) {
            return self.silence();
        }
        if self.dat.dma && !self.descriptor(now) && self.fifo.room() < self.dat.block.size {
            return self.hold(State::ReadHeld, now);
        }
        if !self.has_read_room() {
            return self.hold(State::ReadWaits, now);
        }
        let Some(told) = self.dat.block.ask(&mut self.slot, now) else { return self.silence() };
        let strike = self.strike(if self.dat.tunes { Point::Tuning } else { Point::ReadBlock }, now);
        let Some(start_ns) = self.dat.block.comes(&mut self.slot, told, strike, now) else {
            return self.silence();
        };
        let since_ns = self.dat.waits_since;
        self.watch(since_ns, start_ns);
        if self.dat.dma {
            let clocks = 1 + self.slot.byte_clocks(self.dat.block.size) + TAIL_CLK;
            return self.after_clocks(clocks, State::ReadBlock, now);
        }
        if self.fifo.room() < 4 {
            return self.hold_block(start_ns);
        }
        let clocks = 1 + self.slot.byte_clocks(self.dat.block.word());
        self.after_clocks(clocks, State::ReadWord, now);
    }

    /// Starts the next word of a block, if the FIFO has room for it.
    fn words_go_on(&mut self, now: u64) {
        if self.fifo.room() < 4 {
            return self.hold_block(now);
        }
        self.end_hold(now);
        let clocks = u64::from(self.dat.block.at == 0) + self.slot.byte_clocks(self.dat.block.word());
        self.after_clocks(clocks, State::ReadWord, now);
    }

    fn word_came(&mut self, now: u64) {
        self.set_timer(Timer::DataTimeout, NEVER);
        let (from, to) = (self.dat.block.at, self.dat.block.at + self.dat.block.word());
        self.fifo.push(&self.dat.block.bytes[from..to]);
        self.dat.block.at = to;
        if to < self.dat.block.size {
            self.words_go_on(now);
        } else {
            self.after_clocks(TAIL_CLK, State::ReadTail, now);
        }
    }

    fn read_block_ended(&mut self, now: u64) {
        let strike = self.dat.block.strike.take();
        let here = self.slot.card().is_some();
        let good = self.dat.block.good
            && !matches!(strike, Some(Strike::Crc | Strike::CrcAndEnd | Strike::EndBit | Strike::Fail))
            && here;
        self.dat.block.came(&mut self.slot, good, now);
        self.count_line_bytes();
        if self.dat.dma {
            let n = self.dat.block.size.min(self.dat.block.bytes.len());
            self.fifo.push(&self.dat.block.bytes[..n]);
        }
        self.dat.waits_since = now;
        let last = self.dat.block_over();
        if strike == Some(Strike::EndBit) {
            return self.data_over(int::END_BIT, now);
        }
        if !good {
            self.regs.raw |= int::DATA_CRC;
            self.dat.failed = true;
        }
        if last {
            return self.data_over(0, now);
        }
        if self.dat.dma {
            self.dma_drains(now);
        }
        self.next_read(now);
    }

    /// Starts the next block of a write, if the FIFO holds enough data: the whole block for the
    /// internal DMA, the first word for the CPU. Otherwise stops the clock until then.
    pub(super) fn wait_to_send(&mut self, now: u64) {
        let enough = if self.dat.dma {
            let wanted = self.dat.block.size.max(4 * usize::from(self.config.fifo_words));
            self.dma_fills(wanted, now);
            self.dat.block.size
        } else {
            self.dat.block.word()
        };
        if self.fifo.len() < enough {
            if !self.dat.held() {
                self.hold(State::WriteHeld, now);
            }
            return;
        }
        self.end_hold(now);
        self.dat.block.not_before(&self.slot, now);
        self.after_clocks(BLOCK_GAP_CLK, State::WriteGap, now);
    }

    fn write_block_begins(&mut self, now: u64) {
        self.dat.block.begins(now);
        self.dat.block.bytes.clear();
        if self.dat.dma {
            let block = self.dat.block.size;
            self.fifo.pop(block, &mut self.dat.block.bytes);
            self.dma_fills(4 * usize::from(self.config.fifo_words), now);
            let clocks = 1 + self.slot.byte_clocks(block) + TAIL_CLK;
            return self.after_clocks(clocks, State::WriteTail, now);
        }
        self.send_word(1, now);
    }

    /// Sends the next word of a block after `before_clk` clocks.
    fn send_word(&mut self, before_clk: u64, now: u64) {
        let wanted = self.dat.block.word();
        if self.fifo.len() < wanted {
            return self.hold(State::WriteHeld, now);
        }
        self.fifo.pop(wanted, &mut self.dat.block.bytes);
        self.dat.block.at += wanted;
        let clocks = before_clk + self.slot.byte_clocks(wanted);
        self.after_clocks(clocks, State::WriteWord, now);
    }

    fn word_went(&mut self, now: u64) {
        if self.dat.block.at < self.dat.block.size {
            self.send_word(0, now);
        } else {
            self.after_clocks(TAIL_CLK, State::WriteTail, now);
        }
    }

    fn written_block_ended(&mut self, now: u64) {
        let strike = self.strike(Point::WriteBlock, now);
        let damaged = matches!(strike, Some(Strike::Crc | Strike::CrcAndEnd | Strike::EndBit));
        let status = self.dat.block.went(&mut self.slot, strike, damaged, now);
        self.count_line_bytes();
        if status.is_none() {
            return self.after_clocks(NO_STATUS_CLK, State::NoStatus, now);
        }
        self.slot.stats.data_ns += self.slot.beat(0).plus(CRC_STATUS_CLK).ns();
        self.after_clocks(CRC_STATUS_CLK, State::Status, now);
    }

    fn write_status_ended(&mut self, now: u64) {
        if !self.dat.block.good {
            return self.data_over(int::DATA_CRC, now);
        }
        if self.dat.block_over() {
            return self.data_over(0, now);
        }
        if self.slot.busy_until_ns > now {
            return self.busy_begins(now);
        }
        self.wait_to_send(now);
    }
}
