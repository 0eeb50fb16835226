//! Blocks on the DAT lines in both directions. The CPU gets them word by word, the IDMA as a whole.

use super::bits::{cmd, dctrl, sta};
use super::data::State;
use super::idma::Moved;
use super::{NEVER, Stm32Sdmmc, Timer};
use crate::faults::{Point, Strike};
use crate::lines::TAIL_CLK;
use crate::slot::Core;
use crate::wire::{BLOCK_GAP_CLK, CRC_STATUS_CLK};

/// Number of clocks after which a missing CRC status will not come any more [58.5.4].
const NO_STATUS_CLK: u64 = 8;

impl Stm32Sdmmc {
    pub(super) fn data_event(&mut self, now: u64) {
        match self.dat.state {
            State::ReadGap => self.ask_for_block(now),
            State::ReadWord => self.word_came(now),
            State::ReadBlock | State::ReadTail => self.read_block_ended(now),
            State::WriteGap => self.write_block_begins(now),
            State::WriteWord => self.word_went(now),
            State::WriteTail => self.written_block_ended(now),
            State::Status => self.write_status_ended(now),
            State::NoStatus => self.fail(sta::DATA_TIMEOUT, now),
            State::Busy => self.data_busy_ended(now),
            State::Aborting => self.abort_goes_on(now),
            _ => {}
        }
    }

    /// Continues a transfer that waits for room or data in the FIFO. The CPU has just read a word
    /// from the FIFO or written one.
    pub(super) fn fifo_moved(&mut self, now: u64) {
        match self.dat.state {
            State::ReadHeld if self.fifo.half_empty() => self.words_go_on(now),
            State::Drain if self.fifo.is_empty() => self.finish(sta::DATA_END, now),
            State::DrainBad if self.fifo.is_empty() => self.finish(sta::DATA_CRC, now),
            State::ReadHold => self.hold_goes_on(now),
            State::WaitS => self.wait_to_send(now),
            State::WriteHeld if self.may_send() => {
                self.end_hold(now);
                self.send_word(0, now);
            }
            _ => {}
        }
        self.command_may_go(now);
    }

    /// Starts the next block of a read, or first waits if the driver has set the bit DTHOLD.
    pub(super) fn next_read(&mut self, now: u64) {
        self.watch(self.dat.waits_since, NEVER);
        if self.regs.command & cmd::HOLD != 0 {
            // The data timeout does not count while data are held.
            self.set_timer(Timer::DataTimeout, NEVER);
            self.dat.state = State::ReadHold;
            return self.hold_goes_on(now);
        }
        self.dat.block.not_before(&self.slot, now);
        self.after_clocks(BLOCK_GAP_CLK, State::ReadGap, now);
    }

    fn silence(&mut self) {
        self.dat.state = State::Silence;
        self.watch(self.dat.waits_since, NEVER);
    }

    fn ask_for_block(&mut self, now: u64) {
        let Some(told) = self.dat.block.ask(&mut self.slot, now) else { return self.silence() };
        let strike = self.strike(Point::ReadBlock, now);
        let Some(start_ns) = self.dat.block.comes(&mut self.slot, told, strike, now) else {
            return self.silence();
        };
        self.watch(self.dat.waits_since, start_ns);
        if self.by_idma() {
            let clocks = 1 + self.slot.byte_clocks(self.dat.block.size) + TAIL_CLK;
            return self.after_clocks(clocks, State::ReadBlock, now);
        }
        if self.fifo.is_full() && self.flow_control() {
            return self.hold(State::ReadHeld, start_ns);
        }
        let clocks = 1 + self.slot.byte_clocks(self.dat.block.word());
        self.after_clocks(clocks, State::ReadWord, now);
    }

    /// Starts the next word of a block, if the FIFO has room for it.
    fn words_go_on(&mut self, now: u64) {
        if self.fifo.is_full() && self.flow_control() {
            return self.hold(State::ReadHeld, now);
        }
        self.end_hold(now);
        let clocks = u64::from(self.dat.block.at == 0) + self.slot.byte_clocks(self.dat.block.word());
        self.after_clocks(clocks, State::ReadWord, now);
    }

    fn word_came(&mut self, now: u64) {
        self.set_timer(Timer::DataTimeout, NEVER);
        let (from, to) = (self.dat.block.at, self.dat.block.at + self.dat.block.word());
        if !self.fifo.push(&self.dat.block.bytes[from..to]) {
            return self.fail(sta::OVERRUN, now);
        }
        self.dat.block.at = to;
        self.count_data();
        if to < self.dat.block.size {
            self.words_go_on(now);
        } else {
            self.after_clocks(TAIL_CLK, State::ReadTail, now);
        }
    }

    fn read_block_ended(&mut self, now: u64) {
        let damaged = matches!(self.dat.block.strike.take(), Some(Strike::Crc | Strike::EndBit));
        let good = self.dat.block.good && !damaged && self.slot.card().is_some();
        self.dat.block.came(&mut self.slot, good, now);
        self.dat.left -= self.dat.block.size;
        self.dat.block.at = 0;
        self.dat.waits_since = now;
        self.count_data();
        if self.by_idma() && !self.block_to_memory(now) {
            return;
        }
        let last = self.dat.left == 0;
        match (good, last) {
            (false, false) => return self.fail(sta::DATA_CRC, now),
            (false, true) if self.fifo.is_empty() => return self.finish(sta::DATA_CRC, now),
            (true, true) if self.fifo.is_empty() => return self.finish(sta::DATA_END, now),
            (_, true) => {
                self.dat.state = if good { State::Drain } else { State::DrainBad };
                return;
            }
            (true, false) => {}
        }
        self.interrupt_in_gap(now);
        if self.regs.dctrl & dctrl::WAIT_START != 0 {
            self.regs.status |= sta::BLOCK_END;
            self.set_timer(Timer::DataTimeout, NEVER);
            self.dat.block.stands(now);
            self.dat.state = State::ReadWait;
            return;
        }
        self.next_read(now);
    }

    /// Writes the read block to memory by the IDMA. Returns false if this failed; the data path is
    /// stopped then.
    fn block_to_memory(&mut self, now: u64) -> bool {
        let mut bytes = std::mem::take(&mut self.dat.block.bytes);
        let n = self.dat.block.size;
        let moved = self.idma_moves(&mut bytes[..n], true, now);
        self.dat.block.bytes = bytes;
        match moved {
            Moved::All => true,
            // The data that are left fit into the FIFO: the transfer ends, and the error flag is
            // set at its end.
            Moved::Failed(done) if n - done + self.dat.left <= self.fifo.size() => true,
            Moved::Failed(_) => {
                self.fail_by_idma(sta::OVERRUN, now);
                false
            }
            Moved::Hangs if self.flow_control() => {
                self.hold(State::ReadHeld, now);
                false
            }
            Moved::Hangs => {
                self.fail(sta::OVERRUN, now);
                false
            }
        }
    }

    /// Returns whether the FIFO holds enough data to continue the block.
    fn may_send(&self) -> bool {
        if self.flow_control() {
            self.fifo.half_full() || self.dat.to_give == 0 && !self.fifo.is_empty()
        } else {
            !self.fifo.is_empty()
        }
    }

    /// Handles the state Wait_S: starts the next block, ends the data, or begins a hold.
    pub(super) fn wait_to_send(&mut self, now: u64) {
        let hold = self.regs.command & cmd::HOLD != 0;
        if self.dat.left == 0 {
            return self.finish(if hold { sta::HOLD } else { sta::DATA_END }, now);
        }
        if hold {
            self.regs.status |= sta::BLOCK_END;
            if self.by_idma() {
                self.fifo.clear();
                return self.finish(sta::HOLD, now);
            }
            self.dat.state = State::WriteHold;
            return;
        }
        self.dat.state = State::WaitS;
        if self.by_idma() {
            let mut bytes = std::mem::take(&mut self.dat.block.bytes);
            bytes.clear();
            bytes.resize(self.dat.block.size, 0);
            let moved = self.idma_moves(&mut bytes, false, now);
            self.dat.block.bytes = bytes;
            match moved {
                Moved::All => {}
                Moved::Failed(_) => return self.fail_by_idma(sta::UNDERRUN, now),
                Moved::Hangs => return,
            }
        } else if !self.may_send() {
            return;
        }
        self.dat.block.not_before(&self.slot, now);
        self.after_clocks(BLOCK_GAP_CLK, State::WriteGap, now);
    }

    fn write_block_begins(&mut self, now: u64) {
        self.dat.block.begins(now);
        if self.by_idma() {
            let clocks = 1 + self.slot.byte_clocks(self.dat.block.size) + TAIL_CLK;
            return self.after_clocks(clocks, State::WriteTail, now);
        }
        self.dat.block.bytes.clear();
        self.send_word(1, now);
    }

    /// Sends the next word after `before_clk` clocks.
    fn send_word(&mut self, before_clk: u64, now: u64) {
        let wanted = self.dat.block.word();
        let Some(word) = self.fifo.pop() else {
            if self.flow_control() {
                return self.hold(State::WriteHeld, now);
            }
            return self.fail(sta::UNDERRUN, now);
        };
        self.dat.block.bytes.extend_from_slice(&word[..wanted]);
        self.dat.block.at += wanted;
        self.count_data();
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
        let damaged = matches!(strike, Some(Strike::Crc | Strike::EndBit));
        let status = self.dat.block.went(&mut self.slot, strike, damaged, now);
        self.dat.left -= self.dat.block.size;
        self.dat.block.at = 0;
        self.count_data();
        if status.is_none() {
            return self.after_clocks(NO_STATUS_CLK, State::NoStatus, now);
        }
        self.slot.stats.data_ns += self.slot.beat(0).plus(CRC_STATUS_CLK).ns();
        self.after_clocks(CRC_STATUS_CLK, State::Status, now);
    }

    fn write_status_ended(&mut self, now: u64) {
        if self.dat.block.good && self.dat.left == 0 && !self.config.data_end_after_busy {
            return self.finish(sta::DATA_END, now);
        }
        if self.dat.left > 0 {
            self.interrupt_in_gap(now);
        }
        if self.slot.busy_until_ns > now {
            return self.busy_begins(now);
        }
        self.data_busy_ended(now);
    }

    /// Continues or ends the data at the end of busy, before the first block or after a block.
    fn data_busy_ended(&mut self, now: u64) {
        self.set_timer(Timer::DataTimeout, NEVER);
        match (self.dat.block.good, self.dat.left) {
            (false, 0) => self.finish(sta::DATA_CRC, now),
            (false, _) => self.fail(sta::DATA_CRC, now),
            _ => self.wait_to_send(now),
        }
    }
}
