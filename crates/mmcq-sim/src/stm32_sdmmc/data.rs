//! The data path from start to end, with aborts, timeouts and busy [58.5.4].

use super::bits::{clkcr, cmd, dctrl, sta};
use super::{NEVER, Stm32Sdmmc, Timer, Version};
use crate::card::Flow;
use crate::lines::Block;
use crate::wire::Beat;

/// Clocks after the end of the activity before at which DTIMER begins.
const TIMER_CLK: u64 = 2;
/// The largest block of SDIO multibyte mode.
const BYTES_MAX: u32 = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    /// Wait_R: the response to the command is still under way.
    Answer,
    /// Wait_R: gap; at its end the card is asked for a block.
    ReadGap,
    /// Receive: a word is on the lines.
    ReadWord,
    /// Receive: a whole block for the IDMA is on the lines.
    ReadBlock,
    /// Receive: no room in the FIFO; the clock is stopped.
    ReadHeld,
    /// Receive: CRC and end bit.
    ReadTail,
    /// R_W: read wait; the card waits.
    ReadWait,
    /// Wait_R, with DTHOLD.
    ReadHold,
    /// Wait_R: all data are received, and words are still in the FIFO.
    Drain,
    /// Receive: all data are received and the last block was bad; words are still in the FIFO.
    DrainBad,
    /// Wait_R: nothing will come from the card.
    Silence,
    /// Wait_S: the FIFO has no data.
    WaitS,
    /// Wait_S: the gap before a block.
    WriteGap,
    /// Send: a word is on the lines.
    WriteWord,
    /// Send: no data in the FIFO; the clock is stopped.
    WriteHeld,
    /// Send: CRC and end bit, or a whole block of the IDMA.
    WriteTail,
    /// Busy: the CRC status.
    Status,
    /// Busy: no CRC status will come.
    NoStatus,
    /// Busy: the card holds DAT0 low, before the first block or after one.
    Busy,
    /// Wait_S, with DTHOLD; the CPU must reset the FIFO.
    WriteHold,
    /// An error happened: the path stays in its state until an abort.
    Failed,
    /// Busy after a response.
    Command,
    /// An abort was requested: the FIFO must become empty, and DAT0 high.
    Aborting,
}

#[derive(Debug, Default)]
pub(super) struct DatLines {
    pub(super) state: State,
    /// The block on the lines.
    pub block: Block,
    /// Bytes of blocks that are not over.
    pub(super) left: usize,
    /// Bytes that the CPU must still write to the FIFO.
    pub to_give: usize,
    /// Time in ns from which DTIMER counts.
    pub(super) waits_since: u64,
    /// Whether DTIMER expired in the busy after a response.
    timed_out: bool,
    /// Whether an abort came in the busy after a response.
    aborted: bool,
    /// Whether open-ended data still need a stop command: DAT1 carries no interrupt before its end.
    pub stop_owed: bool,
}

impl DatLines {
    /// Returns DPSMACT.
    pub fn active(&self) -> bool {
        self.state != State::Idle
    }

    /// Returns whether the path is active for data, not for the busy after a response.
    pub fn moves_data(&self) -> bool {
        !matches!(self.state, State::Idle | State::Command)
    }

    /// Returns whether the clock is stopped because the FIFO has no room or no data.
    pub fn held(&self) -> bool {
        matches!(self.state, State::ReadHeld | State::WriteHeld)
    }

    /// Returns whether it is in a read wait that stops the clock.
    pub fn waits_without_clock(&self, dctrl: u32) -> bool {
        self.state == State::ReadWait && dctrl & dctrl::WAIT_MODE != 0
    }

    /// Returns whether DAT1 carries no interrupt in 4-bit mode.
    pub fn hides_interrupt(&self) -> bool {
        self.moves_data() && self.state != State::ReadWait || self.stop_owed
    }

    /// Returns whether it continues as soon as DAT0 is high.
    pub fn waits_for_card(&self) -> bool {
        matches!(self.state, State::Busy | State::Aborting)
    }

    /// Returns whether bits are on the lines.
    fn moving(&self) -> bool {
        use State::{ReadBlock, ReadHeld, ReadTail, ReadWord, WriteHeld, WriteTail, WriteWord};
        matches!(self.state, ReadWord | ReadBlock | ReadTail | WriteWord | WriteTail)
            || matches!(self.state, ReadHeld | WriteHeld) && self.block.at > 0
    }

    /// Resets the data path with the controller.
    pub fn forget(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        block.forget();
        *self = DatLines { block, ..DatLines::default() };
    }
}

impl Stm32Sdmmc {
    /// Starts the data path, from the command path.
    pub(super) fn enable_data(&mut self, flow: Flow, beat: Beat, now: u64) {
        let control = self.regs.dctrl;
        let mode = control >> dctrl::MODE_SHIFT & 3;
        let log2 = control >> dctrl::BLOCK_SHIFT & 0xf;
        if self.dat.active() || mode == dctrl::MODE_STREAM || log2 == 15 {
            return self.slot.violation();
        }
        let length = self.regs.length;
        let block = if mode == dctrl::MODE_BYTES { length.min(BYTES_MAX) } else { 1 << log2 };
        // What is no whole block is not transferred [58.10.9].
        let whole = if mode == dctrl::MODE_BYTES { block } else { length - length % block };
        let odd = self.slot.bus.ddr && !block.is_multiple_of(2);
        if whole != length || odd {
            self.slot.violation();
        }
        self.fifo.clear();
        let dat = &mut self.dat;
        dat.block.read = control & dctrl::READ != 0;
        dat.block.size = block as usize;
        dat.left = if odd { 0 } else { whole as usize };
        dat.block.at = 0;
        dat.to_give = dat.left;
        dat.block.flow = Some(flow);
        dat.block.beat = Some(beat);
        dat.waits_since = now;
        dat.block.strike = None;
        dat.block.good = true;
        self.count_data();
        if self.by_idma() {
            self.idma_begins(now);
        }
        if self.dat.left == 0 {
            return self.finish(sta::DATA_END, now);
        }
        if self.dat.block.read {
            self.dat.state = State::Answer;
            self.watch(now, NEVER);
        } else if self.slot.busy_until_ns > now {
            self.busy_begins(now);
        } else {
            self.wait_to_send(now);
        }
    }

    /// Ends the response of a data command, which came or will not come: blocks may come now.
    pub(super) fn answer_is_over(&mut self, beat: Beat, now: u64) {
        if self.dat.state == State::Answer {
            self.dat.block.beat = Some(beat);
            self.next_read(now);
        }
    }

    /// Updates DCOUNT.
    pub(super) fn count_data(&mut self) {
        self.regs.count = self.dat.left.saturating_sub(self.dat.block.at) as u32;
    }

    /// Makes the path idle again.
    pub(super) fn finish(&mut self, flags: u32, now: u64) {
        self.end_hold(now);
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
        let mode = self.regs.dctrl >> dctrl::MODE_SHIFT & 3;
        self.dat.stop_owed = mode == dctrl::MODE_STOPPED && flags & sta::DATA_END != 0;
        // An error of the IDMA that nothing has told of yet comes with the end.
        let failed = std::mem::take(&mut self.idma.failed) && self.by_idma();
        self.regs.status |= flags | if failed { sta::IDMA_ERROR } else { 0 };
        self.regs.dctrl &= !(dctrl::FIFO_RESET | dctrl::WAIT_STOP);
        self.dat.state = State::Idle;
        self.command_may_go(now);
    }

    /// Stops the path by an error until an abort.
    pub(super) fn fail(&mut self, flags: u32, now: u64) {
        self.cut_block(now);
        self.end_hold(now);
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
        self.regs.status |= flags;
        self.dat.state = State::Failed;
        if self.by_idma() {
            self.fifo.clear();
        }
        self.command_may_go(now);
    }

    /// Fails the data because the FIFO ran over, or empty, after the IDMA failed.
    pub(super) fn fail_by_idma(&mut self, flag: u32, now: u64) {
        // Version 3 shows neither of the two, and so not the IDMA's own flag before the end.
        let shown = self.config.version == Version::V2;
        if shown {
            self.idma.failed = false;
        }
        self.fail(if shown { flag | sta::IDMA_ERROR } else { 0 }, now);
    }

    /// Aborts the data, from the command path, at the end of a command with CMDSTOP.
    pub(super) fn abort(&mut self, now: u64) {
        match self.dat.state {
            // All has been moved: that ends as it would.
            State::Idle | State::Drain | State::DrainBad => {}
            State::Status | State::Busy if self.dat.left == 0 => {}
            State::Command => {
                self.dat.aborted = true;
                if !self.regs.busy {
                    self.finish(sta::ABORTED, now);
                }
            }
            _ => {
                self.cut_block(now);
                self.end_hold(now);
                self.set_timer(Timer::Data, NEVER);
                self.set_timer(Timer::DataTimeout, NEVER);
                self.dat.state = State::Aborting;
                if self.by_idma() {
                    self.fifo.clear();
                }
                self.abort_goes_on(now);
            }
        }
    }

    pub(super) fn abort_goes_on(&mut self, now: u64) {
        if !self.by_idma() && self.regs.dctrl & dctrl::FIFO_RESET == 0 {
            return;
        }
        let until = self.slot.busy_until_ns;
        if !self.dat.block.read && until > now {
            self.set_timer(Timer::Data, until);
            return self.watch(now, until);
        }
        self.finish(sta::ABORTED, now);
    }

    /// Handles a write of FIFORST.
    pub(super) fn fifo_was_reset(&mut self, now: u64) {
        match self.dat.state {
            State::Aborting => {
                self.fifo.clear();
                self.abort_goes_on(now);
            }
            State::Failed => self.fifo.clear(),
            State::DrainBad => {
                self.fifo.clear();
                self.finish(sta::DATA_CRC, now);
            }
            State::ReadHold => self.hold_goes_on(now),
            State::WriteHold => self.finish(sta::HOLD, now),
            // Without an error or a hold it does nothing.
            _ => {}
        }
    }

    /// Handles a write of DTHOLD.
    pub(super) fn hold_changed(&mut self, now: u64) {
        let hold = self.regs.command & cmd::HOLD != 0;
        match self.dat.state {
            State::WaitS | State::WriteGap if hold => {
                self.set_timer(Timer::Data, NEVER);
                self.wait_to_send(now);
            }
            State::ReadGap | State::Silence if hold => {
                self.set_timer(Timer::Data, NEVER);
                self.next_read(now);
            }
            State::ReadHold if !hold => self.next_read(now),
            _ => {}
        }
    }

    /// Ends a held read when the FIFO is empty and the CPU has reset it.
    pub(super) fn hold_goes_on(&mut self, now: u64) {
        let reset = self.by_idma() || self.regs.dctrl & dctrl::FIFO_RESET != 0;
        if self.fifo.is_empty() && reset {
            self.finish(sta::HOLD, now);
        }
    }

    /// Handles a write of RWSTOP.
    pub(super) fn read_wait_ends(&mut self, now: u64) {
        if self.dat.state == State::ReadWait {
            self.regs.dctrl &= !(dctrl::WAIT_STOP | dctrl::WAIT_START);
            self.end_hold(now);
            self.dat.waits_since = now;
            self.next_read(now);
        }
    }

    /// Waits because the card holds DAT0 low, before the first block or after one.
    pub(super) fn busy_begins(&mut self, now: u64) {
        let until = self.slot.busy_until_ns;
        self.busy_from(now, until);
        self.dat.state = State::Busy;
        self.set_timer(Timer::Data, until.max(now));
        self.watch(now, until);
    }

    /// Samples DAT0, at the end of a response and two clocks later.
    pub(super) fn sample_busy(&mut self, now: u64) {
        if self.dat.moves_data() && self.dat.state != State::Aborting {
            // Busy of data is not meant [58.10.11].
            return;
        }
        if self.lines_low(now) {
            self.regs.busy = true;
            return;
        }
        let until = self.slot.busy_until_ns;
        if until <= now || self.slot.card().is_none() {
            // At the second look an end between the two has been told already.
            if self.slot.alarm_ns(Timer::Busy as usize) == NEVER {
                self.regs.busy = false;
            }
            return;
        }
        self.regs.busy = true;
        self.set_timer(Timer::Busy, until);
        if self.dat.state == State::Idle {
            self.busy_from(now, until);
            self.dat.state = State::Command;
            (self.dat.timed_out, self.dat.aborted) = (false, false);
            self.watch(now, until);
        }
    }

    /// Handles the end of busy after a response.
    pub(super) fn busy_ended(&mut self, now: u64) {
        self.regs.busy = false;
        if self.dat.state != State::Command {
            self.regs.status |= sta::BUSY_END;
            return;
        }
        if !self.dat.timed_out {
            self.regs.status |= sta::BUSY_END;
        }
        if self.dat.aborted {
            self.finish(sta::ABORTED, now);
        } else if !self.dat.timed_out {
            self.finish(0, now);
        }
    }

    /// Handles the expiry of DTIMER.
    pub(super) fn data_timeout(&mut self, now: u64) {
        match self.dat.state {
            State::Command => {
                self.regs.status |= sta::DATA_TIMEOUT;
                self.dat.timed_out = true;
            }
            State::Aborting => self.regs.status |= sta::DATA_TIMEOUT,
            State::Idle => {}
            _ => self.fail(sta::DATA_TIMEOUT, now),
        }
    }

    /// Sets the state that begins this number of clocks after the last thing on the lines.
    pub(super) fn after_clocks(&mut self, clocks: u64, state: State, now: u64) {
        let end_ns = self.dat.block.pass(&self.slot, clocks, now);
        self.dat.state = state;
        self.set_timer(Timer::Data, end_ns);
    }

    /// Starts the timeout by DTIMER, if the awaited event comes after it.
    pub(super) fn watch(&mut self, from_ns: u64, until_ns: u64) {
        let clocks = TIMER_CLK + u64::from(self.regs.timer);
        let limit_ns = self.slot.limit_ns(clocks, from_ns, until_ns);
        self.set_timer(Timer::DataTimeout, limit_ns);
    }

    /// Stops the clock.
    pub(super) fn hold(&mut self, state: State, now: u64) {
        if !self.dat.held() {
            self.dat.block.stands(now);
        }
        self.dat.state = state;
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
    }

    /// Lets the clock run again.
    pub(super) fn end_hold(&mut self, now: u64) {
        let stands = self.dat.held() || self.dat.waits_without_clock(self.regs.dctrl);
        if !stands {
            return;
        }
        self.dat.block.runs(&mut self.slot, now);
    }

    /// Cuts off what is on the lines.
    pub(super) fn cut_block(&mut self, now: u64) {
        if self.dat.moving() {
            self.dat.block.cut(&mut self.slot, now);
        }
    }

    pub(super) fn busy_from(&mut self, from_ns: u64, until_ns: u64) {
        if until_ns < NEVER / 2 {
            self.slot.busy_from(from_ns, until_ns);
        }
    }

    /// Samples the interrupt for two clocks between two blocks of the slower modes [58.6.1].
    pub(super) fn interrupt_in_gap(&mut self, now: u64) {
        let slow = self.regs.clkcr & clkcr::BUS_SPEED == 0;
        if slow && self.regs.dctrl & dctrl::SDIO != 0 && self.card_low(now) {
            self.regs.status |= sta::SDIO;
        }
    }
}
