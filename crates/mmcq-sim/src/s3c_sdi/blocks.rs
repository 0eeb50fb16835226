//! Blocks on the DAT lines, word by word, in both directions.

use super::bits::dsta;
use super::data::State;
use super::{NEVER, S3cSdi, Timer};
use crate::faults::{Point, Strike};
use crate::lines::TAIL_CLK;
use crate::slot::Core;
use crate::wire::{BLOCK_GAP_CLK, CRC_STATUS_CLK};

impl S3cSdi {
    /// Starts the next word or block of a read, if the FIFO has room for it.
    pub(super) fn read_goes_on(&mut self, now: u64) {
        if self.fifo.is_full() {
            return self.hold(State::ReadHeld, now);
        }
        self.end_hold(now);
        if self.dat.block.at == 0 {
            self.after_clocks(BLOCK_GAP_CLK, State::ReadGap, now);
        } else {
            let clocks = self.slot.byte_clocks(self.dat.block.word());
            self.after_clocks(clocks, State::ReadWord, now);
        }
    }

    pub(super) fn ask_for_block(&mut self, now: u64) {
        let Some(told) = self.dat.block.ask(&mut self.slot, now) else { return self.silence(now) };
        let strike = self.strike(Point::ReadBlock, now);
        let Some(start_ns) = self.dat.block.comes(&mut self.slot, told, strike, now) else {
            return self.silence(now);
        };
        let clocks = 1 + self.slot.byte_clocks(self.dat.block.word());
        self.after_clocks(clocks, State::ReadWord, now);
        self.watch(now, start_ns);
    }

    pub(super) fn word_came(&mut self, now: u64) {
        let (from, to) = (self.dat.block.at, self.dat.block.at + self.dat.block.word());
        self.fifo.push(&self.dat.block.bytes[from..to]);
        self.dat.block.at = to;
        if to < self.dat.block.size {
            self.read_goes_on(now);
        } else {
            self.dat.last = self.dat.left == 1;
            self.after_clocks(TAIL_CLK, State::ReadTail, now);
        }
        self.dma_moves(now);
    }

    pub(super) fn read_block_ended(&mut self, now: u64) {
        let damaged = self.dat.block.strike.take() == Some(Strike::Crc);
        let good = self.dat.block.good && !damaged && self.slot.card().is_some();
        self.dat.block.came(&mut self.slot, good, now);
        if !good {
            return self.data_error(dsta::DATA_CRC, now);
        }
        self.dat.left = self.dat.left.saturating_sub(1);
        if self.dat.left == 0 {
            return self.blocks_are_over(now);
        }
        self.dat.block.at = 0;
        self.read_goes_on(now);
    }

    /// Starts the next word or block of a write, if the FIFO holds it.
    pub(super) fn write_goes_on(&mut self, now: u64) {
        if self.fifo.is_empty() {
            return self.hold(State::WriteHeld, now);
        }
        self.end_hold(now);
        if self.dat.block.at > 0 {
            return self.send_word(0, now);
        }
        let free = self.dat.block.beat(&self.slot, now).plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        if self.slot.busy_until_ns == NEVER {
            return self.silence(free_ns);
        }
        let start = free.not_before(self.slot.busy_until_ns);
        let start_ns = start.ns();
        self.slot.busy_from(free_ns, start_ns);
        self.dat.block.beat = Some(start);
        self.dat.state = State::WriteGap;
        self.set_timer(Timer::Data, start_ns);
        self.watch(free_ns, start_ns);
    }

    pub(super) fn write_block_begins(&mut self, now: u64) {
        self.dat.block.begins(now);
        self.dat.block.bytes.clear();
        self.send_word(1, now);
    }

    /// Sends the next word after `before_clk` clocks.
    fn send_word(&mut self, before_clk: u64, now: u64) {
        let wanted = self.dat.block.word();
        let Some((word, _)) = self.fifo.pop() else { return self.hold(State::WriteHeld, now) };
        self.dat.block.bytes.extend_from_slice(&word[..wanted]);
        self.dat.block.at += wanted;
        let clocks = before_clk + self.slot.byte_clocks(wanted);
        self.after_clocks(clocks, State::WriteWord, now);
        self.dma_moves(now);
    }

    pub(super) fn word_went(&mut self, now: u64) {
        if self.dat.block.at < self.dat.block.size {
            self.write_goes_on(now);
        } else {
            self.after_clocks(TAIL_CLK, State::WriteTail, now);
        }
    }

    pub(super) fn written_block_ended(&mut self, now: u64) {
        let strike = self.strike(Point::WriteBlock, now);
        let damaged = strike == Some(Strike::Crc);
        let Some(good) = self.dat.block.went(&mut self.slot, strike, damaged, now) else {
            return self.silence(now);
        };
        let token = self.dat.block.beat(&self.slot, now).plus(CRC_STATUS_CLK);
        let token_ns = token.ns();
        self.slot.stats.data_ns += token_ns - now;
        let until = if good { self.slot.busy_until_ns.max(token_ns) } else { token_ns };
        self.slot.busy_from(token_ns, until);
        self.dat.block.beat = Some(token);
        self.dat.state = State::WriteStatus;
        self.set_timer(Timer::Data, until);
        self.watch(token_ns, until);
    }

    pub(super) fn write_status_ended(&mut self, now: u64) {
        if !self.dat.block.good {
            return self.data_error(dsta::CRC_STATUS, now);
        }
        self.dat.block.not_before(&self.slot, now);
        self.dat.left = self.dat.left.saturating_sub(1);
        if self.dat.left == 0 {
            return self.blocks_are_over(now);
        }
        self.dat.block.at = 0;
        self.write_goes_on(now);
    }
}
