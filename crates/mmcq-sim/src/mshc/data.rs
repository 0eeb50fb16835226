//! The data path, from the start of data to their end: aborts, timeouts, busy.

use super::bits::{cmd, int};
use super::{Mshc, NEVER, Timer};
use crate::card::Flow;
use crate::lines::Block;
use crate::wire::Beat;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    /// The response to the data command is still under way.
    Answer,
    /// Gap before a block of a read; at its end the controller asks the card for the block.
    ReadGap,
    /// A word of a read by the CPU is on the lines.
    ReadWord,
    /// A block of a read by the internal DMA is on the lines.
    ReadBlock,
    /// A read block waits for room in the FIFO; the clock is stopped inside the block.
    ReadHeld,
    /// A read waits for the room that a block must have before it starts; the clock is stopped
    /// between two blocks.
    ReadWaits,
    /// CRC16 and end bit of a read block are on the lines.
    ReadTail,
    /// The controller waits for data that the card will not send.
    Silence,
    /// A stop command has ended a read, and the internal DMA empties the FIFO.
    Drain,
    /// Gap before a block of a write.
    WriteGap,
    /// A word of a write is on the lines.
    WriteWord,
    /// A write waits for data in the FIFO; the clock is stopped.
    WriteHeld,
    /// CRC16 and end bit of a written block, or a whole block of the internal DMA, are on the
    /// lines.
    WriteTail,
    /// The card's CRC status is on the lines.
    Status,
    /// The controller waits for a CRC status that will not come.
    NoStatus,
    /// The card holds DAT0 low (busy) before a block.
    Busy,
}

#[derive(Debug, Default)]
pub(super) struct DatLines {
    pub(super) state: State,
    /// The block that is on the lines.
    pub block: Block,
    /// Whether the internal DMA transfers the data.
    pub(super) dma: bool,
    /// Number of bytes in blocks that have not ended; `None`: until a stop command.
    pub(super) left: Option<usize>,
    /// Number of bytes that the CPU or memory still has to write to the FIFO.
    pub to_give: usize,
    /// Time in ns from which the controller counts its data timeout.
    pub(super) waits_since: u64,
    /// Data of the write that the card had open before this command; `None`: no write was open. A
    /// command that has no data itself may carry further blocks of this write.
    pub(super) carried: Option<Flow>,
    /// Whether the data are a tuning block.
    pub(super) tunes: bool,
    /// Whether an automatic CMD12 follows the data.
    stops: bool,
    /// Whether a block of the data had a wrong CRC.
    pub(super) failed: bool,
}

impl DatLines {
    pub fn active(&self) -> bool {
        self.state != State::Idle
    }

    /// Returns whether the clock is stopped because the FIFO has no room or no data.
    pub fn held(&self) -> bool {
        matches!(self.state, State::ReadHeld | State::ReadWaits | State::WriteHeld)
    }

    /// Returns whether the data path waits only until the card releases DAT0.
    pub fn waits_for_card(&self) -> bool {
        self.state == State::Busy
    }

    /// Returns whether the card will send or receive more data.
    pub fn flows(&self) -> bool {
        !matches!(self.state, State::Idle | State::Drain)
    }

    /// Returns whether a block is on the DAT lines, also while the clock is stopped inside the
    /// block.
    fn moving(&self) -> bool {
        use State::{ReadBlock, ReadHeld, ReadTail, ReadWord, WriteHeld, WriteTail, WriteWord};
        matches!(self.state, ReadWord | ReadBlock | ReadTail | WriteWord | WriteTail)
            || matches!(self.state, ReadHeld | WriteHeld) && self.block.at > 0
    }

    /// Counts a block that has ended. Returns true if it was the last one.
    pub(super) fn block_over(&mut self) -> bool {
        let Block { size, at, .. } = &mut self.block;
        *at = 0;
        let Some(left) = &mut self.left else { return false };
        *left = left.saturating_sub(*size);
        // The last block may be shorter than the others.
        if *left > 0 && *left < *size {
            *size = *left;
        }
        *left == 0
    }
}

impl Mshc {
    /// Begins the data of a command; `command`: value of the command register. Returns false if the
    /// controller refuses them, since the data path is still busy or the block size is 0.
    pub(super) fn data_begin(&mut self, command: u32, now: u64) -> bool {
        let (block, bytes) = (self.regs.block_size as usize, self.regs.byte_count as usize);
        if self.dat.active() || block == 0 {
            self.slot.violation();
            return false;
        }
        if bytes > block && !bytes.is_multiple_of(block) {
            self.slot.violation();
        }
        if self.half_clock_is_missing() {
            self.slot.violation();
        }
        let read = command & cmd::WRITE == 0;
        if !self.fifo.is_empty() {
            self.slot.violation();
        }
        self.set_timer(Timer::Dma, NEVER);
        let (open, by_dma) = (bytes == 0, self.by_dma());
        let dat = &mut self.dat;
        dat.state = State::Answer;
        dat.block.read = read;
        dat.dma = by_dma;
        dat.block.size = if open { block } else { block.min(bytes) };
        dat.left = (!open).then_some(bytes);
        dat.block.at = 0;
        dat.to_give = match (read, open) {
            (true, _) => 0,
            (false, true) => usize::MAX,
            (false, false) => bytes,
        };
        dat.carried = dat.block.flow.filter(|flow| !read && matches!(flow, Flow::Write { .. }));
        dat.block.flow = None;
        dat.block.beat = None;
        dat.block.strike = None;
        dat.block.good = true;
        dat.failed = false;
        dat.tunes = matches!(command & cmd::INDEX, 19 | 21);
        dat.stops = command & cmd::AUTO_STOP != 0 && !open;
        self.regs.line_bytes = 0;
        self.regs.fifo_bytes = 0;
        self.idmac.begin();
        if !read && by_dma {
            self.dma_fills(4 * usize::from(self.config.fifo_words), now);
        }
        true
    }

    /// Handles the end of the response to a data command, or of the wait for it, at the clock edge
    /// `beat`. `errors`: the error bits of the response; 0 if it was good. From now on blocks may
    /// come.
    pub(super) fn answer_is_over(&mut self, errors: u32, beat: Beat, now: u64) {
        if self.dat.state != State::Answer {
            return;
        }
        self.dat.block.beat = Some(beat);
        self.dat.waits_since = now;
        let none = errors & int::RESPONSE_TIMEOUT != 0;
        if none || errors != 0 && !self.dat.block.read {
            return self.path_ends(now);
        }
        let carries = self.dat.carried.is_some() && self.dat.block.flow == Some(Flow::None);
        if self.dat.block.read {
            self.next_read(now);
        } else if self.config.carries_nothing && carries {
            self.silence();
        } else if self.slot.busy_until_ns > now {
            self.busy_begins(now);
        } else {
            self.wait_to_send(now);
        }
    }

    /// Ends a transfer: makes the data path idle, and stops its timers.
    fn path_ends(&mut self, now: u64) {
        self.end_hold(now);
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
        self.dat.state = State::Idle;
        self.dat.to_give = 0;
        self.command_may_go(now);
    }

    /// Ends the data of a command. `error`: interrupt bits of the error; 0: the data are good so
    /// far.
    pub(super) fn data_over(&mut self, error: u32, now: u64) {
        self.cut_block(now);
        self.regs.raw |= error | int::DATA_OVER;
        self.path_ends(now);
        if !self.dat.block.read {
            // Without a busy after the last block, bit 13 must not be set together with data over:
            // Linux's driver would take it for an error.
            let until_ns = self.slot.busy_until_ns;
            if until_ns > now {
                self.set_timer(Timer::Busy, until_ns);
                self.slot.busy_from(now, until_ns);
            }
            self.dma_ends();
        } else if self.dat.dma {
            let at_ns = now + u64::from(self.config.memory_ns);
            self.set_timer(Timer::Dma, at_ns);
        }
        if error == 0 && !self.dat.failed && self.dat.stops {
            self.stop_is_due(now);
        }
    }

    /// Sets the interrupt bit BUSY_CLEAR at the end of the busy after a write.
    pub(super) fn busy_cleared(&mut self, now: u64) {
        if self.slot.busy_until_ns > now {
            // A stop command has prolonged the busy.
            let until_ns = self.slot.busy_until_ns;
            return self.set_timer(Timer::Busy, until_ns);
        }
        self.regs.raw |= int::BUSY_CLEAR;
    }

    /// Writes the last data of a read to memory.
    pub(super) fn last_block_arrives(&mut self, now: u64) {
        if self.dat.state == State::Drain {
            self.dma_drains(now);
            return self.fifo_moved(now);
        }
        if !self.dat.active() && self.dat.block.read && self.dat.dma {
            self.dma_drains(now);
            self.dma_ends();
        }
    }

    /// Continues the internal DMA after a write to the control register, or to the DMA's mode or
    /// poll demand register.
    pub(super) fn dma_goes_on(&mut self, now: u64) {
        if !self.dat.dma || !self.by_dma() {
            return;
        }
        if self.dat.state == State::Drain && self.timer_ns(Timer::Dma) != NEVER {
            return;
        }
        if !self.dat.active() {
            if !self.fifo.is_empty() && self.timer_ns(Timer::Dma) == NEVER {
                self.last_block_arrives(now);
            }
            return;
        }
        if self.dat.block.read {
            self.dma_drains(now);
        } else {
            self.dma_fills(4 * usize::from(self.config.fifo_words), now);
        }
        self.fifo_moved(now);
    }

    /// Returns whether the internal DMA has data of a command that has not ended.
    pub(super) fn dma_works(&self) -> bool {
        self.dat.dma && self.dat.active()
    }

    /// Aborts the data because of a stop command.
    pub(super) fn abort_data(&mut self, now: u64) {
        if !self.dat.active() || self.dat.state == State::Drain {
            return;
        }
        self.cut_block(now);
        if self.dat.block.read && self.dat.dma {
            self.set_timer(Timer::Data, NEVER);
            self.set_timer(Timer::DataTimeout, NEVER);
            self.dat.state = State::Drain;
            let at_ns = now + u64::from(self.config.memory_ns);
            return self.set_timer(Timer::Dma, at_ns);
        }
        self.abort_is_over(now);
    }

    /// Ends the data after a stop command has aborted them and the FIFO is empty.
    pub(super) fn abort_is_over(&mut self, now: u64) {
        let drained = self.dat.state == State::Drain;
        self.regs.raw |= int::DATA_OVER;
        self.path_ends(now);
        if drained {
            self.dma_ends();
        }
    }

    /// Resets the data path, as a reset of the controller does.
    pub(super) fn forget_data(&mut self, now: u64) {
        self.cut_block(now);
        self.end_hold(now);
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
        self.set_timer(Timer::Dma, NEVER);
        let (mut block, read) = (std::mem::take(&mut self.dat.block), self.dat.block.read);
        block.forget();
        block.read = read;
        self.dat = DatLines { block, ..DatLines::default() };
    }

    /// Waits before a block while the card holds DAT0 low.
    pub(super) fn busy_begins(&mut self, now: u64) {
        let until_ns = self.slot.busy_until_ns;
        self.slot.busy_from(now, until_ns);
        self.dat.state = State::Busy;
        // No timeout limits this busy.
        self.set_timer(Timer::Data, until_ns.max(now));
    }

    /// Reports the data timeout: no block came, or neither the CPU nor the DMA emptied or filled
    /// the FIFO in time.
    pub(super) fn data_timeout(&mut self, now: u64) {
        if self.dat.held() {
            self.regs.raw |= int::STARVED;
        } else if self.dat.active() {
            self.data_over(int::DATA_TIMEOUT, now);
        }
    }

    /// Changes to the state `state` this number of clocks after the last use of the lines.
    pub(super) fn after_clocks(&mut self, clocks: u64, state: State, now: u64) {
        let end_ns = self.dat.block.pass(&self.slot, clocks, now);
        self.dat.state = state;
        self.set_timer(Timer::Data, end_ns);
    }

    /// Sets the timer of the data timeout, which counts from `from_ns`. `until_ns` is the time of
    /// the event that the controller waits for. If this event comes before the timeout, the timer
    /// stays off.
    pub(super) fn watch(&mut self, from_ns: u64, until_ns: u64) {
        let clocks = u64::from(self.regs.timeout >> 8).max(1);
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
        self.watch(now, NEVER);
    }

    /// Ends a hold of the data: starts the bus clock again. Does nothing if there is no hold.
    pub(super) fn end_hold(&mut self, now: u64) {
        if !self.dat.held() {
            return;
        }
        self.set_timer(Timer::DataTimeout, NEVER);
        let since_ns = self.dat.block.runs(&mut self.slot, now);
        // The timeout counts clocks of the card, which have stopped meanwhile.
        self.dat.waits_since += now.saturating_sub(since_ns);
    }

    /// Cuts off the block that is on the lines.
    pub(super) fn cut_block(&mut self, now: u64) {
        if self.dat.moving() {
            self.dat.block.cut(&mut self.slot, now);
        }
    }
}
