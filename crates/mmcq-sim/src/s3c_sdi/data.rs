//! The DAT lines: a transfer from DCON to its end.

use super::bits::{dcon, dsta};
use super::{NEVER, S3cSdi, Timer};
use crate::card::Flow;
use crate::faults::Strike;
use crate::probe::Signal;
use crate::wire::{BLOCK_GAP_CLK, Beat};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    /// DCON is written; the next command belongs to it.
    Armed,
    /// That command is on its way.
    Reserved,
    /// The card is asked for a block when the gap is over.
    ReadGap,
    /// A word comes in.
    ReadWord,
    /// No room: the clock stands.
    ReadHeld,
    /// CRC and end bit.
    ReadTail,
    /// No data: the clock stands.
    WriteHeld,
    WriteGap,
    /// A word goes out.
    WriteWord,
    /// CRC and end bit.
    WriteTail,
    /// CRC status and busy.
    WriteStatus,
    /// Something is due from the card, and will not come.
    Silence,
}

#[derive(Debug, Default)]
pub(super) struct DatLines {
    pub state: State,
    pub read: bool,
    /// Bytes in a block, as the host sees it.
    pub(super) block: usize,
    /// Blocks still to go.
    pub(super) left: u32,
    /// Bytes of the present block that are over.
    pub(super) at: usize,
    /// All bytes of the last block are in the FIFO.
    pub last: bool,
    pub(super) flow: Option<Flow>,
    /// The last thing on the lines ended, or ends, here.
    pub(super) beat: Option<Beat>,
    pub(super) bytes: Vec<u8>,
    pub(super) good: bool,
    /// What is wrong with the block on the lines.
    pub(super) strike: Option<Strike>,
    pub(super) start_ns: u64,
    pub(super) held_since: u64,
    /// The probe has seen the block.
    pub(super) shown: bool,
}

impl DatLines {
    /// From DCON to the end.
    pub fn active(&self) -> bool {
        self.state != State::Idle
    }

    /// Something happens, or will happen, on the lines: no interrupt is seen.
    pub fn busy(&self) -> bool {
        !matches!(self.state, State::Idle | State::Armed)
    }

    /// The clock stands because the FIFO has no room or no data.
    pub fn held(&self) -> bool {
        matches!(self.state, State::ReadHeld | State::WriteHeld)
    }

    /// Bits are on the lines.
    pub fn moving(&self) -> bool {
        use State::{ReadHeld, ReadTail, ReadWord, WriteHeld, WriteTail, WriteWord};
        match self.state {
            ReadWord | ReadTail | WriteWord | WriteTail => true,
            ReadHeld | WriteHeld => self.at > 0 && self.at < self.block,
            _ => false,
        }
    }

    /// Bits 1:0 of DSTA.
    pub fn on_bits(&self) -> u32 {
        match (self.state, self.read) {
            (State::Idle | State::Armed, _) => 0,
            (_, true) => dsta::RX_ON,
            (_, false) => dsta::TX_ON,
        }
    }

    /// Bytes of the next word.
    pub(super) fn word(&self) -> usize {
        (self.block - self.at).min(4)
    }
}

impl S3cSdi {
    /// DCON was written.
    pub(super) fn set_data_control(&mut self, value: u32, now: u64) {
        let mode = value >> dcon::MODE_SHIFT & 3;
        self.regs.dcon = value & !dcon::START;
        if value & dcon::START == 0 || mode < 2 {
            // A start without a direction would only watch busy, which a driver cannot rely on
            // here.
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
        self.dat.read = read;
        self.dat.left = value & dcon::BLOCKS;
        self.dat.last = false;
        self.dat.at = 0;
        self.refresh_bus(now);
        self.dma_moves(now);
    }

    /// Whatever was on the lines is forgotten; the FIFO keeps what it has.
    pub(super) fn stop_data(&mut self, now: u64) {
        let moving = self.dat.moving();
        self.end_hold(now);
        if moving && !self.dat.shown {
            self.show_block(true, true, now);
        }
        self.set_timer(Timer::Data, NEVER);
        self.set_timer(Timer::DataTimeout, NEVER);
        self.dat.state = State::Idle;
        self.command_may_go(now);
    }

    /// A command starts: an armed transfer is its.
    pub(super) fn reserve_data(&mut self) {
        if self.dat.state == State::Armed {
            self.dat.state = State::Reserved;
        }
    }

    /// The response is over: data may move after `beat`.
    pub(super) fn start_data(&mut self, flow: Flow, beat: Beat, now: u64) {
        if self.dat.state != State::Reserved {
            return;
        }
        self.dat.block = (self.regs.block_bytes & 0xfff) as usize;
        self.dat.at = 0;
        self.dat.flow = Some(flow);
        self.dat.beat = Some(beat);
        // Words of one block must not run over into the next.
        if self.dat.block == 0 || self.dat.left > 1 && !self.dat.block.is_multiple_of(4) {
            self.slot.violation();
            return self.stop_data(now);
        }
        if self.dat.read {
            self.read_goes_on(now);
        } else {
            self.write_goes_on(now);
        }
    }

    /// The edge at which the lines were last in use.
    pub(super) fn data_beat(&self, now: u64) -> Beat {
        self.dat.beat.unwrap_or_else(|| self.slot.beat(now))
    }

    /// So many clocks after the last thing, this happens.
    pub(super) fn after_clocks(&mut self, clocks: u64, state: State, now: u64) {
        let beat = self.data_beat(now).plus(clocks);
        self.dat.beat = Some(beat);
        self.dat.state = state;
        self.set_timer(Timer::Data, beat.ns());
    }

    /// Clocks of so many bytes.
    pub(super) fn byte_clocks(&self, bytes: usize) -> u64 {
        (bytes as u64 * 8).div_ceil(self.slot.bus.width.max(1).into())
    }

    /// Gives up when the timer has run out, if what is waited for comes later.
    pub(super) fn watch(&mut self, from_ns: u64, until_ns: u64) {
        let limit = from_ns.saturating_add(self.slot.beat(0).plus(self.regs.timer.into()).ns());
        self.set_timer(Timer::DataTimeout, if limit < until_ns { limit } else { NEVER });
    }

    pub(super) fn silence(&mut self, from_ns: u64) {
        self.dat.state = State::Silence;
        self.watch(from_ns, NEVER);
    }

    /// The clock stands from now on.
    pub(super) fn hold(&mut self, state: State, now: u64) {
        if !self.dat.held() {
            self.dat.held_since = now;
        }
        self.dat.state = state;
    }

    /// The clock runs again.
    pub(super) fn end_hold(&mut self, now: u64) {
        if !self.dat.held() {
            return;
        }
        let since_ns = self.dat.held_since;
        self.slot.held(since_ns, now);
        self.dat.beat = Some(self.data_beat(now).not_before(now));
        if now > since_ns
            && let Some(log) = &mut self.hold_log
        {
            log(since_ns, now);
        }
    }

    /// FIFO words came or went by the other side.
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

    /// The timer ran out.
    pub(super) fn data_timeout(&mut self, now: u64) {
        self.data_error(dsta::TIMEOUT, now);
    }

    pub(super) fn data_error(&mut self, bits: u32, now: u64) {
        self.regs.data_status |= bits;
        self.stop_data(now);
    }

    /// All blocks are over on the lines. Words of them may be in the FIFO yet, and nothing waits
    /// for these.
    pub(super) fn blocks_are_over(&mut self, now: u64) {
        self.regs.data_status |= dsta::FINISH;
        self.stop_data(now);
    }

    /// The probe sees the block whose lines were in use until now.
    pub(super) fn show_block(&mut self, crc_ok: bool, cut: bool, now: u64) {
        self.dat.shown = true;
        let Self { slot, dat, .. } = self;
        slot.show(&Signal::Block {
            read: dat.read,
            data: &dat.bytes[..dat.block.min(dat.bytes.len())],
            crc_ok,
            start_ns: dat.start_ns,
            end_ns: now,
            cut,
        });
    }

    pub(super) fn count_block(&mut self, good: bool, now: u64) {
        self.slot.count_block(self.dat.read, self.dat.block, good, self.dat.start_ns, now);
        // The lines' own time: gap, start bit, data, CRC16, end bit.
        let clocks = BLOCK_GAP_CLK + 1 + self.byte_clocks(self.dat.block) + 17;
        self.slot.stats.data_ns += self.slot.beat(0).plus(clocks).ns();
    }
}
