//! The data path, from the start of data to their end: aborts, timeouts, busy [58.5.4].

use super::bits::{clkcr, cmd, dctrl, sta};
use super::{NEVER, Stm32Sdmmc, Timer, Version};
use crate::card::Flow;
use crate::lines::Block;
use crate::wire::Beat;

/// Number of clocks after the end of the last activity at which the timer DTIMER begins.
const TIMER_CLK: u64 = 2;
/// Largest block in bytes in SDIO multibyte mode.
const BYTES_MAX: u32 = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    /// State Wait_R: the response to the data command is still under way.
    Answer,
    /// State Wait_R: the gap before a block; at its end the controller asks the card for the block.
    ReadGap,
    /// State Receive: a word of 32 bits is being transferred on the data lines.
    ReadWord,
    /// State Receive: a whole block for the IDMA is on the lines.
    ReadBlock,
    /// State Receive: the FIFO has no room, and the clock is stopped.
    ReadHeld,
    /// State Receive: CRC16 and end bit of a block are on the lines.
    ReadTail,
    /// State R_W (read wait): the card waits for the host.
    ReadWait,
    /// State Wait_R, held by the bit DTHOLD.
    ReadHold,
    /// State Wait_R: all data have come, and the FIFO still holds words.
    Drain,
    /// State Receive: all data have come, the last block had an error, and the FIFO still holds
    /// words.
    DrainBad,
    /// State Wait_R: the controller waits for data that the card will not send.
    Silence,
    /// State Wait_S: the FIFO has no data.
    WaitS,
    /// State Wait_S: the gap before a block.
    WriteGap,
    /// State Send: a word is on the lines.
    WriteWord,
    /// State Send: the FIFO has no data, and the clock is stopped.
    WriteHeld,
    /// State Send: CRC16 and end bit, or a whole block of the IDMA, are on the lines.
    WriteTail,
    /// State Busy: the CRC status is on the lines.
    Status,
    /// State Busy: the controller waits for a CRC status that will not come.
    NoStatus,
    /// State Busy: the card holds DAT0 low, before the first block or after a block.
    Busy,
    /// State Wait_S, held by the bit DTHOLD; the CPU must reset the FIFO.
    WriteHold,
    /// An error occurred: the path stays in its state until an abort.
    Failed,
    /// A response with busy was received, and the path waits for the end of busy. No data are
    /// transferred.
    Command,
    /// An abort was requested: it ends when the FIFO is empty and DAT0 is high.
    Aborting,
}

#[derive(Debug, Default)]
pub(super) struct DatLines {
    pub(super) state: State,
    /// The block whose bits pass the data lines now.
    pub block: Block,
    /// Number of bytes of this transfer that belong to blocks which have not ended yet.
    pub(super) left: usize,
    /// Number of bytes that the CPU still has to write to the FIFO.
    pub to_give: usize,
    /// Time in ns from which the timer DTIMER counts.
    pub(super) waits_since: u64,
    /// Whether DTIMER has expired during busy after a response.
    timed_out: bool,
    /// Whether an abort came during busy after a response.
    aborted: bool,
    /// Whether an open-ended transfer still needs a stop command. Until its end, DAT1 carries no
    /// interrupt.
    pub stop_owed: bool,
}

impl DatLines {
    /// Returns the status bit DPSMACT: the data path is active.
    pub fn active(&self) -> bool {
        self.state != State::Idle
    }

    /// Returns whether the data path is active because of data, and not because of busy after a
    /// response.
    pub fn moves_data(&self) -> bool {
        !matches!(self.state, State::Idle | State::Command)
    }

    /// Returns whether the clock is stopped because the FIFO has no room or no data.
    pub fn held(&self) -> bool {
        matches!(self.state, State::ReadHeld | State::WriteHeld)
    }

    /// Returns whether the data path is in a read wait that stops the clock. `dctrl`: value of the
    /// data control register (DCTRL), which selects that kind of read wait.
    pub fn waits_without_clock(&self, dctrl: u32) -> bool {
        self.state == State::ReadWait && dctrl & dctrl::WAIT_MODE != 0
    }

    /// Returns whether DAT1 cannot carry an interrupt in 4-bit mode now.
    pub fn hides_interrupt(&self) -> bool {
        self.moves_data() && self.state != State::ReadWait || self.stop_owed
    }

    /// Returns whether the data path waits only until the card releases DAT0.
    pub fn waits_for_card(&self) -> bool {
        matches!(self.state, State::Busy | State::Aborting)
    }

    /// Returns whether bits are on the data lines.
    fn moving(&self) -> bool {
        use State::{ReadBlock, ReadHeld, ReadTail, ReadWord, WriteHeld, WriteTail, WriteWord};
        matches!(self.state, ReadWord | ReadBlock | ReadTail | WriteWord | WriteTail)
            || matches!(self.state, ReadHeld | WriteHeld) && self.block.at > 0
    }

    /// Resets the data path, as a reset of the controller does.
    pub fn forget(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        block.forget();
        *self = DatLines { block, ..DatLines::default() };
    }
}

impl Stm32Sdmmc {
    /// Starts the data path for a command. `flow`: what the card sends or expects on the DAT lines
    /// after it. `beat`: clock edge from which the lines are used.
    pub(super) fn enable_data(&mut self, flow: Flow, beat: Beat, now: u64) {
        let control = self.regs.dctrl;
        let mode = control >> dctrl::MODE_SHIFT & 3;
        let log2 = control >> dctrl::BLOCK_SHIFT & 0xf;
        if self.dat.active() || mode == dctrl::MODE_STREAM || log2 == 15 {
            return self.slot.violation();
        }
        let length = self.regs.length;
        let block = if mode == dctrl::MODE_BYTES { length.min(BYTES_MAX) } else { 1 << log2 };
        // A part that is shorter than a block is not transferred [58.10.9].
        let whole = if mode == dctrl::MODE_BYTES { block } else { length - length % block };
        let odd = self.slot.bus.ddr && !block.is_multiple_of(2);
        if whole != length || odd {
            self.slot.violation();
        }
        self.fifo.clear();
        let read = control & dctrl::READ != 0;
        // A command without data of its own may carry data of the write that the card has open.
        let flow = match (flow, self.dat.block.flow) {
            (Flow::None, Some(open @ Flow::Write { .. })) if !read => {
                if self.config.carries_nothing {
                    self.dat.state = State::Silence;
                    return;
                }
                open
            }
            (flow, _) => flow,
        };
        let dat = &mut self.dat;
        dat.block.read = read;
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

    /// Handles the end of the response to a data command, or of the wait for it. From now on blocks
    /// may come.
    pub(super) fn answer_is_over(&mut self, beat: Beat, now: u64) {
        if self.dat.state == State::Answer {
            self.dat.block.beat = Some(beat);
            self.next_read(now);
        }
    }

    /// Updates the register DCOUNT (number of bytes that are still to be transferred).
    pub(super) fn count_data(&mut self) {
        self.regs.count = self.dat.left.saturating_sub(self.dat.block.at) as u32;
    }

    /// Makes the data path idle, and sets these flags.
    pub(super) fn finish(&mut self, flags: u32, now: u64) {
        self.end_hold(now);
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
        let mode = self.regs.dctrl >> dctrl::MODE_SHIFT & 3;
        self.dat.stop_owed = mode == dctrl::MODE_STOPPED && flags & sta::DATA_END != 0;
        // An IDMA error that no flag has reported yet is reported at the end.
        let failed = std::mem::take(&mut self.idma.failed) && self.by_idma();
        self.regs.status |= flags | if failed { sta::IDMA_ERROR } else { 0 };
        self.regs.dctrl &= !(dctrl::FIFO_RESET | dctrl::WAIT_STOP);
        self.dat.state = State::Idle;
        self.command_may_go(now);
    }

    /// Stops the data path with these error flags, until an abort.
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

    /// Fails the data because of an error of the IDMA: the FIFO has run over, or has run empty.
    /// `flag` reports this.
    pub(super) fn fail_by_idma(&mut self, flag: u32, now: u64) {
        // Version 3 shows neither the overrun nor the underrun. So it shows the IDMA's own flag
        // only at the end.
        let shown = self.config.version == Version::V2;
        if shown {
            self.idma.failed = false;
        }
        self.fail(if shown { flag | sta::IDMA_ERROR } else { 0 }, now);
    }

    /// Aborts the data, at the end of a command with CMDSTOP.
    pub(super) fn abort(&mut self, now: u64) {
        match self.dat.state {
            // All data were transferred: the transfer ends normally.
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

    /// Handles a write of the bit FIFORST: empties the FIFO if the data were aborted or failed, and
    /// ends a hold of the data path (bit DTHOLD). Otherwise the bit has no effect.
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
            // Without an error or a hold FIFORST has no effect.
            _ => {}
        }
    }

    /// Begins or ends a hold of the data path, after a change of the bit DTHOLD.
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

    /// Ends a read that is held between two blocks (bit DTHOLD), if the FIFO is empty and, without
    /// IDMA, the CPU has reset it.
    pub(super) fn hold_goes_on(&mut self, now: u64) {
        let reset = self.by_idma() || self.regs.dctrl & dctrl::FIFO_RESET != 0;
        if self.fifo.is_empty() && reset {
            self.finish(sta::HOLD, now);
        }
    }

    /// Ends a read wait, after a write of the bit RWSTOP.
    pub(super) fn read_wait_ends(&mut self, now: u64) {
        if self.dat.state == State::ReadWait {
            self.regs.dctrl &= !(dctrl::WAIT_STOP | dctrl::WAIT_START);
            self.end_hold(now);
            self.dat.waits_since = now;
            self.next_read(now);
        }
    }

    /// Waits while the card holds DAT0 low, before the first block or after a block.
    pub(super) fn busy_begins(&mut self, now: u64) {
        let until = self.slot.busy_until_ns;
        self.busy_from(now, until);
        self.dat.state = State::Busy;
        self.set_timer(Timer::Data, until.max(now));
        self.watch(now, until);
    }

    /// Samples DAT0 for busy, at the end of a response and two clocks later.
    pub(super) fn sample_busy(&mut self, now: u64) {
        if self.dat.moves_data() && self.dat.state != State::Aborting {
            // The busy flags do not report the busy of data [58.10.11].
            return;
        }
        if self.lines_low(now) {
            self.regs.busy = true;
            return;
        }
        let until = self.slot.busy_until_ns;
        if until <= now || self.slot.card().is_none() {
            // At the second sample, an end of busy since the first one was already reported.
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

    /// Reports the end of busy after a response by BUSYD0END, and makes the data path idle. After a
    /// timeout of DTIMER the end is not reported, and only an abort makes the path idle.
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

    /// Reports that the timer DTIMER has expired. Data stop with an error; a busy after a response,
    /// and an abort, continue.
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

    /// Changes to the state `state` at once, and sets the timer that ends this state: `clocks`
    /// clocks after the last use of the lines.
    pub(super) fn after_clocks(&mut self, clocks: u64, state: State, now: u64) {
        let end_ns = self.dat.block.pass(&self.slot, clocks, now);
        self.dat.state = state;
        self.set_timer(Timer::Data, end_ns);
    }

    /// Sets the timer of the data timeout (DTIMER), which counts from `from_ns`. `until_ns` is the
    /// time of the event that the controller waits for. If this event comes before the timeout, the
    /// timer stays off.
    pub(super) fn watch(&mut self, from_ns: u64, until_ns: u64) {
        let clocks = TIMER_CLK + u64::from(self.regs.timer);
        let limit_ns = self.slot.limit_ns(clocks, from_ns, until_ns);
        self.set_timer(Timer::DataTimeout, limit_ns);
    }

    /// Stops the clock at this time, and changes to the state `state`.
    pub(super) fn hold(&mut self, state: State, now: u64) {
        if !self.dat.held() {
            self.dat.block.stands(now);
        }
        self.dat.state = state;
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
    }

    /// Lets the card's clock run again, if a full or empty FIFO or a read wait has stopped it.
    pub(super) fn end_hold(&mut self, now: u64) {
        let stands = self.dat.held() || self.dat.waits_without_clock(self.regs.dctrl);
        if !stands {
            return;
        }
        self.dat.block.runs(&mut self.slot, now);
    }

    /// Ends the block that is on the data lines early, before its end bit; does nothing if there is
    /// none.
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

    /// Samples the card interrupt for two clocks between two blocks, in the slower bus modes
    /// [58.6.1].
    pub(super) fn interrupt_in_gap(&mut self, now: u64) {
        let slow = self.regs.clkcr & clkcr::BUS_SPEED == 0;
        if slow && self.regs.dctrl & dctrl::SDIO != 0 && self.card_low(now) {
            self.regs.status |= sta::SDIO;
        }
    }
}
