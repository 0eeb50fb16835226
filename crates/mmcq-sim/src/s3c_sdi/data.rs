//! The DAT lines: a transfer from the write to the data control register (DCON) to its end.

use super::bits::{dcon, dsta};
use super::{NEVER, S3cSdi, Timer};
use crate::card::Flow;
use crate::lines::Block;
use crate::wire::Beat;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    /// The data control register (DCON) was written; the next command starts the transfer.
    Armed,
    /// The command that starts the transfer is under way.
    Reserved,
    /// Gap before a block of a read; at its end the controller asks the card for the block.
    ReadGap,
    /// A word of a read is on the lines.
    ReadWord,
    /// A read waits for room in the FIFO; the clock is stopped.
    ReadHeld,
    /// CRC16 and end bit of a read block are on the lines.
    ReadTail,
    /// A write waits for data in the FIFO; the clock is stopped.
    WriteHeld,
    WriteGap,
    /// A word of a write is on the lines.
    WriteWord,
    /// CRC16 and end bit of a written block are on the lines.
    WriteTail,
    /// CRC status of a written block, and then busy.
    WriteStatus,
    /// The controller waits for data that the card will not send.
    Silence,
}

#[derive(Debug, Default)]
pub(super) struct DatLines {
    pub state: State,
    /// The block that is on the lines.
    pub block: Block,
    /// Number of blocks of the transfer that have not been on the lines yet.
    pub(super) left: u32,
    /// Whether the FIFO has received all bytes of the last block.
    pub last: bool,
}

impl DatLines {
    /// Returns whether a transfer is under way, from the write to the data control register (DCON)
    /// to its end.
    pub fn active(&self) -> bool {
        self.state != State::Idle
    }

    /// Returns whether data use the lines, or will use them after the command under way. In this
    /// time the controller detects no SDIO interrupt.
    pub fn busy(&self) -> bool {
        !matches!(self.state, State::Idle | State::Armed)
    }

    /// Returns whether the clock is stopped because the FIFO has no room or no data.
    pub fn held(&self) -> bool {
        matches!(self.state, State::ReadHeld | State::WriteHeld)
    }

    /// Returns whether bits are on the data lines.
    pub fn moving(&self) -> bool {
        use State::{ReadHeld, ReadTail, ReadWord, WriteHeld, WriteTail, WriteWord};
        match self.state {
            ReadWord | ReadTail | WriteWord | WriteTail => true,
            ReadHeld | WriteHeld => self.block.at > 0 && self.block.at < self.block.size,
            _ => false,
        }
    }

    /// Returns bits 1:0 of the data status register (DSTA): bit 0 is set while data are received,
    /// bit 1 while data are sent.
    pub fn on_bits(&self) -> u32 {
        match (self.state, self.block.read) {
            (State::Idle | State::Armed, _) => 0,
            (_, true) => dsta::RX_ON,
            (_, false) => dsta::TX_ON,
        }
    }
}

impl S3cSdi {
    /// Writes the data control register DCON. A start arms a transfer; a write without a start
    /// stops the present one.
    pub(super) fn set_data_control(&mut self, value: u32, now: u64) {
        let mode = value >> dcon::MODE_SHIFT & 3;
        self.regs.dcon = value & !dcon::START;
        if value & dcon::START == 0 || mode < 2 {
            // A start without a direction only watches busy on the real controller. The model
            // counts it as a mistake of the driver.
            if value & dcon::START != 0 {
                self.slot.violation();
            }
            return self.stop_data(now);
        }
        let read = mode == 2;
        let after = if read { dcon::RX_AFTER_COMMAND } else { dcon::TX_AFTER_RESPONSE };
        let fits = value & after != 0 && value & dcon::BLOCK_MODE != 0 && value & dcon::SIZE == dcon::WORDS;
        if self.dat.busy() || !fits || value & dcon::BLOCKS == 0 {
            return self.slot.violation();
        }
        self.dat.state = State::Armed;
        self.dat.block.read = read;
        self.dat.left = value & dcon::BLOCKS;
        self.dat.last = false;
        self.dat.block.at = 0;
        self.refresh_bus(now);
        self.dma_moves(now);
    }

    /// Drops everything on the data lines; the FIFO keeps its content.
    pub(super) fn stop_data(&mut self, now: u64) {
        let moving = self.dat.moving();
        self.end_hold(now);
        if moving {
            self.dat.block.cut(&mut self.slot, now);
        }
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
        self.dat.state = State::Idle;
        self.command_may_go(now);
    }

    /// Assigns the data transfer that the driver has prepared in the data control register to the
    /// command that starts now.
    pub(super) fn reserve_data(&mut self) {
        if self.dat.state == State::Armed {
            self.dat.state = State::Reserved;
        }
    }

    /// Starts the data of the transfer after the response, at the clock edge `beat` or later.
    /// `flow`: the card's data for this command.
    pub(super) fn start_data(&mut self, flow: Flow, beat: Beat, now: u64) {
        if self.dat.state != State::Reserved {
            return;
        }
        self.dat.block.size = (self.regs.block_bytes & 0xfff) as usize;
        self.dat.block.at = 0;
        self.dat.block.flow = Some(flow);
        self.dat.block.beat = Some(beat);
        // Only the last block may end inside a word.
        if self.dat.block.size == 0 || self.dat.left > 1 && !self.dat.block.size.is_multiple_of(4) {
            self.slot.violation();
            return self.stop_data(now);
        }
        if self.dat.block.read {
            self.read_goes_on(now);
        } else {
            self.write_goes_on(now);
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
        let limit_ns = self.slot.limit_ns(self.regs.timer.into(), from_ns, until_ns);
        self.set_timer(Timer::DataTimeout, limit_ns);
    }

    pub(super) fn silence(&mut self, from_ns: u64) {
        self.dat.state = State::Silence;
        self.watch(from_ns, NEVER);
    }

    /// Stops the clock at this time, and changes to the state `state`.
    pub(super) fn hold(&mut self, state: State, now: u64) {
        if !self.dat.held() {
            self.dat.block.stands(now);
        }
        self.dat.state = state;
    }

    /// Ends a hold of the data: starts the bus clock again. Does nothing if there is no hold.
    pub(super) fn end_hold(&mut self, now: u64) {
        if !self.dat.held() {
            return;
        }
        let since_ns = self.dat.block.runs(&mut self.slot, now);
        if now > since_ns
            && let Some(log) = &mut self.hold_log
        {
            log(since_ns, now);
        }
    }

    /// Continues a transfer that waits for room or data in the FIFO. The CPU or the DMA has just
    /// read words from the FIFO or written words to it.
    pub(super) fn fifo_moved(&mut self, now: u64) {
        match self.dat.state {
            State::ReadHeld => self.read_goes_on(now),
            State::WriteHeld => self.write_goes_on(now),
            _ => {}
        }
        self.command_may_go(now);
    }

    pub(super) fn data_event(&mut self, now: u64) {
        match self.dat.state {
            State::ReadGap => self.ask_for_block(now),
            State::ReadWord => self.word_came(now),
            State::ReadTail => self.read_block_ended(now),
            State::WriteGap => self.write_block_begins(now),
            State::WriteWord => self.word_went(now),
            State::WriteTail => self.written_block_ended(now),
            State::WriteStatus => self.write_status_ended(now),
            _ => {}
        }
    }

    /// Ends the transfer with a timeout: data, a CRC status or the end of busy did not come in
    /// time.
    pub(super) fn data_timeout(&mut self, now: u64) {
        self.data_error(dsta::TIMEOUT, now);
    }

    pub(super) fn data_error(&mut self, bits: u32, now: u64) {
        self.regs.data_status |= bits;
        self.stop_data(now);
    }

    /// Ends the transfer after its last block on the lines, even if the FIFO still holds words.
    pub(super) fn blocks_are_over(&mut self, now: u64) {
        self.regs.data_status |= dsta::FINISH;
        self.stop_data(now);
    }
}
