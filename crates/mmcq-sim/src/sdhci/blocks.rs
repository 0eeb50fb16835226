//! Blocks of a transfer on the DAT lines, in both directions.

use super::bits::int;
use super::data::State;
use super::dma::Moved;
use super::{Busy, NEVER, Sdhci, Timer};
use crate::card::{Flow, ReadBlock};
use crate::faults::{Point, Strike};
use crate::probe::Signal;
use crate::slot::Core;
use crate::wire::{BLOCK_GAP_CLK, CRC_STATUS_CLK, block_clk};

impl Sdhci {
    pub(super) fn next_read(&mut self, now: u64) {
        let gap = self.data_beat(now).plus(BLOCK_GAP_CLK);
        let at = gap.ns();
        // The card must see commands and blocks in the order of their times. So the model asks for
        // the block now only if no command ends in the gap before it.
        if at > now && self.slot.alarm_ns(Timer::Command as usize) <= at {
            self.dat.state = State::ReadGap;
            self.set_timer(Timer::Data, at);
        } else {
            self.ask_for_block(now);
        }
    }

    pub(super) fn ask_for_block(&mut self, now: u64) {
        let before = self.data_beat(now);
        let free = before.plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        let Some(Flow::Read { block_size }) = self.dat.flow else { return self.silence(free_ns) };
        let n = usize::from(block_size);
        let mut bytes = std::mem::take(&mut self.dat.bytes);
        if bytes.len() < n.max(self.dat.block) {
            bytes.resize(n.max(self.dat.block), 0);
        }
        let reply = self.slot.with_card(free_ns, |card, now| card.read_block(&mut bytes[..n], now));
        self.dat.bytes = bytes;
        let Some(ReadBlock::At { mut start_ns, crc_ok }) = reply else { return self.silence(free_ns) };
        let strike = self.strike(if self.dat.tuning { Point::Tuning } else { Point::ReadBlock }, now);
        match strike {
            Some(Strike::Lost | Strike::Never) => return self.silence(free_ns),
            Some(Strike::Late(ns)) => start_ns = start_ns.max(free_ns).saturating_add(ns),
            Some(Strike::Flip(bit)) => self.dat.flip(bit),
            _ => {}
        }
        self.dat.strike = strike;
        let start = free.not_before(start_ns);
        let end = start.plus(block_clk(block_size.into(), self.slot.bus.width, self.slot.bus.ddr));
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.slot.stats.access_ns += start_ns - free_ns;
        self.slot.stats.data_ns += (free_ns - before.ns()) + (end_ns - start_ns);
        self.dat.good = crc_ok && n == self.dat.block;
        self.dat.start_ns = start_ns;
        self.dat.beat = Some(end);
        self.dat.state = State::ReadBlock;
        self.watch(free_ns, start_ns);
        self.set_timer(Timer::Data, end_ns);
        self.queue_block_begins(now);
    }

    pub(super) fn read_block_ended(&mut self, now: u64) {
        self.stop_timer(Timer::DataTimeout);
        let strike = self.dat.strike.take();
        let damaged = matches!(strike, Some(Strike::Crc | Strike::CrcAndEnd)) || self.data_are_damaged();
        let good = self.dat.good && !damaged && self.slot.card().is_some();
        self.count_block(good, now);
        if self.dat.tuning {
            self.dat.tuning_struck |= strike == Some(Strike::Fail);
            return self.tuning_round(now);
        }
        if !good {
            let end = if strike == Some(Strike::CrcAndEnd) { int::TRANSFER_COMPLETE } else { 0 };
            return self.data_error(int::DATA_CRC | end, now);
        }
        if strike == Some(Strike::EndBit) {
            return self.data_error(int::DATA_END_BIT, now);
        }
        self.one_block_less();
        self.dat.offset = 0;
        if self.dat.dma {
            self.dat.state = State::ReadHeld;
            self.dat.held_since = now;
        } else {
            let n = self.dat.block;
            self.pio.push(&self.dat.bytes[..n]);
            self.dat.offset = n;
            self.offer_block(now);
        }
        self.read_goes_on(now);
    }

    /// Writes the last part of a read block to memory, and starts the next block.
    pub(super) fn read_goes_on(&mut self, now: u64) {
        if self.dat.dma && self.dat.rest().is_some() && self.dma_move(now) != Moved::All {
            return;
        }
        let finished = self.dat.left.map_or(self.dat.dma && self.dma.ended(), |left| left == 0);
        if finished {
            self.blocks_are_over(now);
        } else if self.regs.block_gap & 1 != 0 {
            self.pause(now);
        } else if if self.dat.dma { self.dma.held() } else { !self.pio.room() } {
            if self.dat.state != State::ReadHeld {
                self.dat.held_since = now;
            }
            self.dat.state = State::ReadHeld;
        } else {
            if self.dat.state == State::ReadHeld {
                self.lines_stood(now);
            }
            self.next_read(now);
        }
    }

    /// Continues the transfer on the DAT lines, which the controller had stopped until the host
    /// read or filled its buffer.
    pub(super) fn lines_stood(&mut self, now: u64) {
        let from_ns = self.dat.held_since;
        self.slot.stats.held_ns += now.saturating_sub(from_ns);
        if self.dat.read && now > from_ns {
            self.slot.show(&Signal::ClockStopped { from_ns, until_ns: now });
        }
        self.dat.beat = Some(self.data_beat(now).not_before(now));
    }

    /// Continues a read after the host has read a whole block from the buffer.
    pub(super) fn buffer_has_room(&mut self, now: u64) {
        match self.dat.state {
            State::ReadHeld if !self.dat.dma => self.read_goes_on(now),
            State::Drain if self.pio.is_empty() => self.complete(now),
            _ => {}
        }
    }

    /// Continues a write after the host has written a whole block to the buffer.
    pub(super) fn buffer_has_data(&mut self, now: u64) {
        if self.dat.state == State::WriteHeld {
            self.lines_stood(now);
            self.next_write(now);
        }
    }

    /// Continues the transfer after SDMA has stopped at a boundary.
    pub(super) fn dma_goes_on(&mut self, now: u64) {
        match self.dat.state {
            State::ReadHeld => self.read_goes_on(now),
            State::WriteHeld => {
                self.lines_stood(now);
                self.next_write(now);
            }
            _ => {}
        }
    }

    pub(super) fn next_write(&mut self, now: u64) {
        let n = self.dat.block;
        if self.dat.bytes.len() < n {
            self.dat.bytes.resize(n, 0);
        }
        // SDMA may have fetched a part of the block before it stopped at a boundary: it continues
        // there.
        if self.dat.state != State::WriteHeld {
            self.dat.offset = 0;
            self.dat.held_since = now;
        }
        self.dat.state = State::WriteHeld;
        let ready = if self.dat.dma {
            self.dma_move(now) == Moved::All
        } else {
            let ready = self.pio.pull(&mut self.dat.bytes[..n]);
            if ready {
                self.offer_block(now);
            }
            ready
        };
        if !ready {
            return;
        }
        let before = self.data_beat(now);
        let free = before.plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        if self.slot.busy_until_ns == NEVER {
            return self.silence(free_ns);
        }
        let start = free.not_before(self.slot.busy_until_ns);
        let end = start.plus(block_clk(n as u32, self.slot.bus.width, self.slot.bus.ddr));
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.slot.busy_from(free_ns, start_ns);
        self.slot.stats.data_ns += (free_ns - before.ns()) + (end_ns - start_ns);
        self.dat.start_ns = start_ns;
        self.dat.beat = Some(end);
        self.dat.state = State::WriteBlock;
        self.watch(free_ns, start_ns);
        self.set_timer(Timer::Data, end_ns);
        self.queue_block_begins(now);
    }

    pub(super) fn written_block_ended(&mut self, now: u64) {
        self.stop_timer(Timer::DataTimeout);
        let strike = self.strike(Point::WriteBlock, now);
        let damaged = matches!(strike, Some(Strike::Crc | Strike::CrcAndEnd)) || self.data_are_damaged();
        if let Some(Strike::Flip(bit)) = strike {
            self.dat.flip(bit);
        }
        let n = self.dat.block;
        let flow = self.dat.flow.filter(|_| strike != Some(Strike::Lost));
        let reply = self.slot.give_block(flow, &self.dat.bytes[..n], !damaged, now);
        let end = self.data_beat(now);
        let Some((good, busy_until)) = self.slot.seen_status(reply, strike) else {
            self.count_block(false, now);
            return self.silence(now);
        };
        self.count_block(good, now);
        self.dat.good = good;
        self.dat.strike = strike;
        let token = end.plus(CRC_STATUS_CLK);
        let token_ns = token.ns();
        self.slot.show_status(end, good, busy_until);
        self.slot.stats.data_ns += token_ns - end.ns();
        if busy_until > now {
            self.slot.busy_until_ns = self.slot.busy_until_ns.max(busy_until);
        }
        if good {
            self.one_block_less();
        }
        let last = self.write_is_over();
        let waits = good && !(last && self.config.busy == Busy::Ignored);
        let until = if waits { self.slot.busy_until_ns.max(token_ns) } else { token_ns };
        self.slot.busy_from(token_ns, until);
        self.dat.beat = Some(token);
        self.dat.state = State::WriteStatus;
        self.watch(token_ns, until);
        self.set_timer(Timer::Data, until);
    }

    fn write_is_over(&self) -> bool {
        self.dat.left.map_or(self.dat.dma && self.dma.ended(), |left| left == 0)
    }

    pub(super) fn write_status_ended(&mut self, now: u64) {
        self.stop_timer(Timer::DataTimeout);
        let strike = self.dat.strike.take();
        if !self.dat.good {
            let end = if strike == Some(Strike::CrcAndEnd) { int::TRANSFER_COMPLETE } else { 0 };
            return self.data_error(int::DATA_CRC | end, now);
        }
        if strike == Some(Strike::EndBit) {
            return self.data_error(int::DATA_END_BIT, now);
        }
        self.dat.beat = Some(self.data_beat(now).not_before(now));
        if self.write_is_over() {
            self.blocks_are_over(now);
        } else if self.regs.block_gap & 1 != 0 {
            self.pause(now);
        } else {
            self.next_write(now);
        }
    }

    pub(super) fn count_block(&mut self, good: bool, now: u64) {
        let (read, start_ns) = (self.dat.read, self.dat.start_ns);
        self.slot.count_block(read, self.dat.block, good, start_ns, now);
        self.show(|dat| Signal::Block {
            read,
            data: dat.on_wire(),
            crc_ok: good,
            start_ns,
            end_ns: now,
            cut: false,
        });
    }

    fn one_block_less(&mut self) {
        self.dat.left = self.dat.left.map(|left| left.saturating_sub(1));
        if self.dat.counted && self.dat.wide_count {
            self.regs.argument2 = self.regs.argument2.saturating_sub(1);
        } else if self.dat.counted {
            self.regs.block_count = self.regs.block_count.saturating_sub(1);
        }
    }

    /// Stops the transfer at a block gap, for a request that comes while the lines wait for memory
    /// between two blocks.
    pub(super) fn stop_at_gap(&mut self, now: u64) {
        let whole = self.dat.offset == 0 || self.dat.rest().is_none();
        let stands = matches!(self.dat.state, State::WriteHeld | State::ReadHeld);
        let noticed = !self.config.mistakes.gap_unnoticed;
        if stands && whole && noticed && self.dat.dma && self.dma.held() {
            self.pause(now);
        }
    }

    /// Executes a Stop At Block Gap Request: the transfer stops between two blocks [SDHC 2.2.12].
    fn pause(&mut self, now: u64) {
        self.dat.state = State::Gap;
        self.dat.held_since = now;
        self.raise(int::BLOCK_GAP | int::TRANSFER_COMPLETE, now);
    }
}
