//! Blocks on the DAT lines, word by word, both ways.

use super::bits::dsta;
use super::data::State;
use super::{NEVER, S3cSdi, Timer};
use crate::card::{Flow, ReadBlock};
use crate::faults::{Point, Strike, flip};
use crate::slot::Core;
use crate::wire::{BLOCK_GAP_CLK, CRC_STATUS_CLK};

/// CRC16 and end bit.
const TAIL_CLK: u64 = 17;

impl S3cSdi {
    /// The next word or the next block, if there is room for it.
    pub(super) fn read_goes_on(&mut self, now: u64) {
        if self.fifo.is_full() {
            return self.hold(State::ReadHeld, now);
        }
        self.end_hold(now);
        if self.dat.at == 0 {
            self.after_clocks(BLOCK_GAP_CLK, State::ReadGap, now);
        } else {
            let clocks = self.byte_clocks(self.dat.word());
            self.after_clocks(clocks, State::ReadWord, now);
        }
    }

    pub(super) fn ask_for_block(&mut self, now: u64) {
        let Some(Flow::Read { block_size }) = self.dat.flow else { return self.silence(now) };
        let sent = usize::from(block_size);
        let mut bytes = std::mem::take(&mut self.dat.bytes);
        bytes.clear();
        // Behind the end of a shorter block the lines are high.
        bytes.resize(sent.max(self.dat.block), 0xff);
        let reply = self.slot.with_card(now, |card, now| card.read_block(&mut bytes[..sent], now));
        self.dat.bytes = bytes;
        let Some(ReadBlock::At { mut start_ns, crc_ok }) = reply else { return self.silence(now) };
        self.dat.strike = self.strike(Point::ReadBlock, now);
        match self.dat.strike {
            Some(Strike::Lost | Strike::Never) => return self.silence(now),
            Some(Strike::Late(ns)) => start_ns = start_ns.max(now).saturating_add(ns),
            Some(Strike::Flip(bit)) => flip(&mut self.dat.bytes, bit),
            _ => {}
        }
        let start = self.data_beat(now).not_before(start_ns);
        let start_ns = start.ns();
        self.slot.stats.access_ns += start_ns.saturating_sub(now);
        self.dat.good = crc_ok && sent == self.dat.block;
        self.dat.start_ns = start_ns;
        self.dat.shown = false;
        self.dat.beat = Some(start);
        let clocks = 1 + self.byte_clocks(self.dat.word());
        self.after_clocks(clocks, State::ReadWord, now);
        self.watch(now, start_ns);
    }

    pub(super) fn word_came(&mut self, now: u64) {
        let (from, to) = (self.dat.at, self.dat.at + self.dat.word());
        self.fifo.push(&self.dat.bytes[from..to]);
        self.dat.at = to;
        if to < self.dat.block {
            self.read_goes_on(now);
        } else {
            self.dat.last = self.dat.left == 1;
            self.after_clocks(TAIL_CLK, State::ReadTail, now);
        }
        self.dma_moves(now);
    }

    pub(super) fn read_block_ended(&mut self, now: u64) {
        let damaged = self.dat.strike.take() == Some(Strike::Crc);
        let good = self.dat.good && !damaged && self.slot.card().is_some();
        self.count_block(good, now);
        self.show_block(good, false, now);
        if !good {
            return self.data_error(dsta::DATA_CRC, now);
        }
        self.dat.left = self.dat.left.saturating_sub(1);
        if self.dat.left == 0 {
            return self.blocks_are_over(now);
        }
        self.dat.at = 0;
        self.read_goes_on(now);
    }

    /// The next word or the next block, if the FIFO has it.
    pub(super) fn write_goes_on(&mut self, now: u64) {
        if self.fifo.is_empty() {
            return self.hold(State::WriteHeld, now);
        }
        self.end_hold(now);
        if self.dat.at > 0 {
            return self.send_word(0, now);
        }
        let free = self.data_beat(now).plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        if self.slot.busy_until_ns == NEVER {
            return self.silence(free_ns);
        }
        let start = free.not_before(self.slot.busy_until_ns);
        let start_ns = start.ns();
        self.slot.busy_from(free_ns, start_ns);
        self.dat.beat = Some(start);
        self.dat.state = State::WriteGap;
        self.set_timer(Timer::Data, start_ns);
        self.watch(free_ns, start_ns);
    }

    pub(super) fn write_block_begins(&mut self, now: u64) {
        self.dat.start_ns = now;
        self.dat.shown = false;
        self.dat.bytes.clear();
        self.send_word(1, now);
    }

    /// The next word goes out, after so many clocks.
    fn send_word(&mut self, before_clk: u64, now: u64) {
        let wanted = self.dat.word();
        let Some((word, _)) = self.fifo.pop() else { return self.hold(State::WriteHeld, now) };
        self.dat.bytes.extend_from_slice(&word[..wanted]);
        self.dat.at += wanted;
        let clocks = before_clk + self.byte_clocks(wanted);
        self.after_clocks(clocks, State::WriteWord, now);
        self.dma_moves(now);
    }

    pub(super) fn word_went(&mut self, now: u64) {
        if self.dat.at < self.dat.block {
            self.write_goes_on(now);
        } else {
            self.after_clocks(TAIL_CLK, State::WriteTail, now);
        }
    }

    pub(super) fn written_block_ended(&mut self, now: u64) {
        let strike = self.strike(Point::WriteBlock, now);
        let damaged = strike == Some(Strike::Crc);
        if let Some(Strike::Flip(bit)) = strike {
            flip(&mut self.dat.bytes, bit);
        }
        let flow = self.dat.flow.filter(|_| strike != Some(Strike::Lost));
        let reply = self.slot.give_block(flow, &self.dat.bytes, !damaged, now);
        self.show_block(!damaged, false, now);
        let Some((good, busy_until)) = self.slot.seen_status(reply, strike) else {
            self.count_block(false, now);
            return self.silence(now);
        };
        self.count_block(good, now);
        self.dat.good = good;
        if busy_until > now {
            self.slot.busy_until_ns = self.slot.busy_until_ns.max(busy_until);
        }
        self.slot.show_status(self.data_beat(now), good, busy_until);
        let token = self.data_beat(now).plus(CRC_STATUS_CLK);
        let token_ns = token.ns();
        self.slot.stats.data_ns += token_ns - now;
        let until = if good { self.slot.busy_until_ns.max(token_ns) } else { token_ns };
        self.slot.busy_from(token_ns, until);
        self.dat.beat = Some(token);
        self.dat.state = State::WriteStatus;
        self.set_timer(Timer::Data, until);
        self.watch(token_ns, until);
    }

    pub(super) fn write_status_ended(&mut self, now: u64) {
        if !self.dat.good {
            return self.data_error(dsta::CRC_STATUS, now);
        }
        self.dat.beat = Some(self.data_beat(now).not_before(now));
        self.dat.left = self.dat.left.saturating_sub(1);
        if self.dat.left == 0 {
            return self.blocks_are_over(now);
        }
        self.dat.at = 0;
        self.write_goes_on(now);
    }
}
