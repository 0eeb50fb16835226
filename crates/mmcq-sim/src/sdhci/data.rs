//! A transfer on the DAT lines, from its command to its end: busy, timeouts, block gaps, tuning
//! [SDHC 2.2.9, 2.2.18, 3.7].

use super::bits::{host2, int, mode, present};
use super::command::{Auto, Issue};
use super::dma::Moved;
use super::{Busy, NEVER, Sdhci, Timer};
use crate::card::Flow;
use crate::faults::{Strike, flip};
use crate::probe::Signal;
use crate::wire::{BLOCK_GAP_CLK, Beat};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The lines are idle. Command Inhibit (DAT) is clear only in this state.
    #[default]
    Idle,
    /// A command that will use the DAT lines is under way.
    Reserved,
    /// Gap before a block of a read; at its end the controller asks the card for the block.
    ReadGap,
    ReadBlock,
    /// The buffer has no room for the next block, or memory has not taken the last one. The clock
    /// is stopped.
    ReadHeld,
    /// All blocks have come; the host must still read the buffer.
    Drain,
    /// The data of the next block of a write are missing.
    WriteHeld,
    WriteBlock,
    /// The CRC status of a written block, and then busy until the next block can start.
    WriteStatus,
    /// The host has stopped the transfer between two blocks.
    Gap,
    /// The controller waits for data that the card will not send.
    Silence,
    /// The automatic CMD12 is under way.
    Stop,
    /// An abort command has ended the transfer; its response has not come yet.
    Cut,
    Busy,
    /// An error occurred; only a reset ends this state.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct DatLines {
    pub(super) state: State,
    pub read: bool,
    /// Number of bytes in a block, as the host expects it.
    pub(super) block: usize,
    /// Number of blocks that are still to go over the lines; `None`: there is no block count.
    pub(super) left: Option<u32>,
    /// Number of blocks of the command queue engine's last task; `None` before the first task.
    total: Option<u32>,
    /// Whether the 32-bit block count is in use, instead of the 16-bit one.
    pub(super) wide_count: bool,
    pub(super) counted: bool,
    pub(super) dma: bool,
    pub(super) auto_stop: bool,
    pub(super) tuning: bool,
    pub(super) rounds: u8,
    /// Whether a fault struck a block of the tuning procedure. Then the procedure finds no sampling
    /// point.
    pub(super) tuning_struck: bool,
    /// Fault that strikes the present block; `None`: no fault.
    pub(super) strike: Option<Strike>,
    /// Data that the card's reply to the command announced.
    pub(super) flow: Option<Flow>,
    /// Clock edge at which the lines were last in use.
    pub(super) beat: Option<Beat>,
    pub(super) bytes: Vec<u8>,
    /// Number of bytes of the present block that DMA has already moved: to memory in a read, from
    /// memory in a write.
    pub offset: usize,
    pub(super) good: bool,
    pub(super) start_ns: u64,
    pub(super) held_since: u64,
}

impl DatLines {
    /// Returns whether the bit Command Inhibit (DAT) is set.
    pub fn active(&self) -> bool {
        self.state != State::Idle
    }

    /// Returns whether a block is on the lines.
    pub fn moving(&self) -> bool {
        matches!(self.state, State::ReadBlock | State::WriteBlock)
    }

    /// Returns whether data are under way, so that DAT1 carries no card interrupt in 4-bit mode.
    pub fn hides_interrupt(&self) -> bool {
        use State::{Busy, Cut, Drain, Failed, Idle, Reserved, Stop};
        !matches!(self.state, Idle | Reserved | Drain | Stop | Cut | Busy | Failed)
    }

    /// Returns whether the transfer belongs to the tuning procedure.
    pub fn tuning(&self) -> bool {
        self.tuning && self.active()
    }

    pub fn tuning_begins(&mut self) {
        self.rounds = 0;
        self.tuning_struck = false;
    }

    /// Flips one bit of the present block; bit 0 is the first on the wire.
    pub fn flip(&mut self, bit: u32) {
        flip(self.block_bytes(), bit);
    }

    /// Returns the bytes of the block that is on the lines or in the controller now.
    pub fn block_bytes(&mut self) -> &mut [u8] {
        let n = self.block.min(self.bytes.len());
        &mut self.bytes[..n]
    }

    /// Returns the bytes of the present block as they pass the lines. A card may send another block
    /// length than the host expects.
    pub fn on_wire(&self) -> &[u8] {
        let n = match self.flow {
            Some(Flow::Read { block_size }) if self.read => usize::from(block_size),
            _ => self.block,
        };
        &self.bytes[..n.min(self.bytes.len())]
    }

    /// Returns the number of bytes of the present block that DMA has not moved to or from memory
    /// yet; `None` if it has moved all.
    pub fn rest(&self) -> Option<usize> {
        (self.offset < self.block).then(|| self.block - self.offset)
    }

    /// Returns whether DMA has another block to move after the present one. True if the number of
    /// blocks is not limited. In a write the number of remaining blocks still includes the present
    /// one.
    pub fn more_blocks(&self) -> bool {
        self.left.is_none_or(|left| left > u32::from(!self.read))
    }

    /// Returns whether the present task of the command queue engine has not completed any block
    /// yet.
    pub fn is_first(&self) -> bool {
        self.left == self.total
    }

    /// Reserves the DAT lines for a task of this number of blocks (`read`: the card sends them).
    /// With 0 blocks, for the busy of a direct command.
    pub fn reserve_task(&mut self, read: bool, blocks: u32) {
        self.state = State::Reserved;
        self.tuning = false;
        self.read = read;
        self.block = 512;
        (self.left, self.total) = (Some(blocks), Some(blocks));
        self.wide_count = false;
        self.counted = false;
        self.dma = true;
        self.auto_stop = false;
    }

    pub fn endless(&self) -> bool {
        self.left.is_none()
    }

    pub fn present_bits(&self) -> u32 {
        let transfer = match (self.state, self.read) {
            (State::Idle | State::Reserved | State::Busy | State::Failed | State::Cut, _) => 0,
            (_, true) => present::READ_ACTIVE,
            (_, false) => present::WRITE_ACTIVE,
        };
        let line = match self.state {
            State::Idle => 0,
            State::Drain | State::Failed | State::Gap => present::DAT_INHIBIT,
            _ => present::DAT_INHIBIT | present::DAT_ACTIVE,
        };
        transfer | line
    }
}

impl Sdhci {
    /// Reserves the DAT lines for a command that was just written and will use them.
    pub(super) fn reserve_data(&mut self, issue: &Issue) {
        self.dat.state = State::Reserved;
        self.dat.tuning = false;
        if !issue.data {
            self.dat.dma = true;
            return;
        }
        let tuning = self.regs.host2 & host2::EXECUTE_TUNING != 0 && matches!(issue.index, 19 | 21);
        let counted = issue.mode & mode::MULTI != 0 && issue.mode & mode::BLOCK_COUNT != 0;
        let wide_count = self.regs.version4() && self.config.spec >= 4 && self.regs.block_count == 0;
        let dat = &mut self.dat;
        dat.read = issue.mode & mode::READ != 0;
        dat.block = usize::from(self.regs.block_size & 0xfff);
        dat.left = if issue.mode & mode::MULTI == 0 {
            Some(1)
        } else if !counted {
            None
        } else if wide_count {
            Some(self.regs.argument2)
        } else {
            Some(self.regs.block_count.into())
        };
        dat.wide_count = wide_count;
        dat.counted = counted;
        dat.dma = issue.mode & mode::DMA != 0;
        dat.auto_stop = issue.auto == Auto::Stop;
        dat.tuning = tuning;
        if self.dat.block > 512 << (self.config.capabilities >> 16 & 3) {
            self.violation("a block longer than the controller's buffer [SDHC 2.2.2]");
        }
    }

    /// Starts the data of a command after its response, at the edge `beat` or later.
    pub(super) fn start_data(&mut self, flow: Flow, beat: Beat, now: u64) {
        if self.dat.state != State::Reserved {
            return;
        }
        // A command whose reply announces no data may carry blocks of a write that the card still
        // has open.
        let flow = match (flow, self.dat.flow) {
            (Flow::None, Some(_)) if self.config.mistakes.carried_data_stay => {
                self.dat.flow = None;
                return self.silence(now);
            }
            (Flow::None, Some(Flow::Write { .. })) if self.config.mistakes.carried_data_lost => {
                return self.complete(now);
            }
            (Flow::None, Some(open @ Flow::Write { .. })) if !self.dat.read => open,
            (flow, _) => flow,
        };
        self.dat.flow = Some(flow);
        self.dat.beat = Some(beat);
        if self.dat.block == 0 || self.dat.left == Some(0) {
            self.violation("a transfer without blocks, or of empty ones [SDHC 2.2.2, 2.2.3]");
            return self.complete(now);
        }
        if self.dat.dma {
            self.pio.clear();
            self.dma_begin();
        } else {
            let blocks = self.dat.left.map_or(u64::MAX, u64::from);
            self.pio.begin(self.dat.block, self.config.buffer_blocks, !self.dat.read, blocks);
        }
        if self.dat.read {
            self.next_read(now);
        } else {
            self.offer_block(now);
            self.next_write(now);
        }
    }

    /// Returns the clock edge at which the lines were last in use.
    pub(super) fn data_beat(&self, now: u64) -> Beat {
        self.dat.beat.unwrap_or_else(|| self.slot.beat(now))
    }

    /// Returns the timeout in ns for data and for the end of busy [SDHC 2.2.15].
    fn timeout_ns(&self) -> u64 {
        let hz = match self.config.timeout_hz() {
            0 => self.slot.bus.clock_hz.max(1),
            hz => hz,
        };
        let clocks = 1u64 << (13 + u32::from(self.regs.timeout).min(14));
        Beat::new(0, hz).plus(clocks).ns()
    }

    /// Sets the timer of the data timeout, which counts from `from_ns`. `until_ns` is the time of
    /// the event that the controller waits for. If this event comes before the timeout, the timer
    /// stays off.
    pub(super) fn watch(&mut self, from_ns: u64, until_ns: u64) {
        if until_ns <= from_ns {
            return self.stop_timer(Timer::DataTimeout);
        }
        let limit = from_ns.saturating_add(self.timeout_ns());
        self.set_timer(Timer::DataTimeout, if limit < until_ns { limit } else { NEVER });
    }

    pub(super) fn silence(&mut self, from_ns: u64) {
        self.dat.state = State::Silence;
        self.watch(from_ns, NEVER);
    }

    pub(super) fn data_event(&mut self, now: u64) {
        match self.dat.state {
            State::ReadGap => self.ask_for_block(now),
            State::ReadBlock => self.read_block_ended(now),
            State::WriteBlock => self.written_block_ended(now),
            State::WriteStatus => self.write_status_ended(now),
            State::Busy => self.complete(now),
            _ => {}
        }
    }

    /// Ends the transfer after its last block: sends the automatic CMD12, or raises Transfer
    /// Complete.
    pub(super) fn blocks_are_over(&mut self, now: u64) {
        if self.dat.dma && self.dma_finish(now) != Moved::All {
            return;
        }
        if self.dat.auto_stop {
            self.dat.state = State::Stop;
            let beat = self.data_beat(now).plus(BLOCK_GAP_CLK);
            self.send_stop(beat);
        } else {
            self.complete(now);
        }
    }

    /// Waits for the end of busy after the response to an automatic CMD12.
    pub(super) fn stop_ended(&mut self, now: u64) {
        if self.dat.state == State::Stop {
            self.wait_for_busy(now);
        }
    }

    /// Waits for the end of busy after the response to a command with an R1b.
    pub(super) fn start_busy(&mut self, now: u64) {
        // The abort command may come just after the transfer has ended; then the lines are idle.
        if matches!(self.dat.state, State::Idle | State::Reserved | State::Cut) {
            self.wait_for_busy(now);
        }
    }

    fn wait_for_busy(&mut self, now: u64) {
        let until = self.slot.busy_until_ns;
        if until <= now || self.config.busy == Busy::Ignored {
            return self.complete(now);
        }
        self.slot.busy_from(now, until);
        self.dat.state = State::Busy;
        self.watch(now, until);
        self.set_timer(Timer::Data, until);
    }

    /// Completes a transfer that an abort command has cut off, if the response to the abort command
    /// is an R1 (no busy).
    pub(super) fn abort_without_busy(&mut self, now: u64) {
        if self.dat.state == State::Cut {
            self.complete(now);
        }
    }

    /// Cuts off the block on the lines, at the time at which the card receives an abort command.
    pub(super) fn cut_data(&mut self, now: u64) {
        if matches!(self.dat.state, State::Idle | State::Reserved) {
            return;
        }
        self.show_cut(now);
        self.stop_data_timers();
        self.pio.clear();
        self.dma.stop();
        self.dat.beat = Some(self.slot.beat(now));
        self.dat.state = State::Cut;
    }

    /// Shows the probe the part of a block that came before an abort command cut it off.
    fn show_cut(&mut self, now: u64) {
        let (read, from_ns) = (self.dat.read, self.dat.held_since);
        match self.dat.state {
            State::ReadBlock | State::WriteBlock if now > self.dat.start_ns => {
                self.show(|dat| Signal::Block {
                    read,
                    data: dat.on_wire(),
                    crc_ok: true,
                    start_ns: dat.start_ns,
                    end_ns: now,
                    cut: true,
                });
            }
            State::ReadHeld => self.slot.show(&Signal::ClockStopped { from_ns, until_ns: now }),
            _ => {}
        }
    }

    /// Raises Transfer Complete, unless the host must still read the buffer.
    pub(super) fn complete(&mut self, now: u64) {
        self.stop_data_timers();
        if self.dat.read && !self.dat.dma && !self.pio.is_empty() {
            self.dat.state = State::Drain;
            return;
        }
        self.dma.stop();
        if self.queue_moves() {
            return self.queue_data_ended(now);
        }
        self.dat.state = State::Idle;
        if !self.list_goes_on(now) {
            self.raise(int::TRANSFER_COMPLETE, now);
        }
    }

    /// Ends the transfer with an error, and sets the interrupt status bits `bits`. No data are
    /// transferred until a reset.
    pub(super) fn data_error(&mut self, bits: u32, now: u64) {
        let task = self.queue_moves();
        self.queue_data_failed(now);
        self.fail_data();
        self.raise(bits, now);
        if task {
            self.queue_goes_on(now);
        }
    }

    pub(super) fn fail_data(&mut self) {
        self.list.stops();
        if self.dat.active() {
            self.stop_data_timers();
            self.dma.stop();
            self.pio.clear();
            self.dat.state = State::Failed;
        }
    }

    /// Ends the transfer with a data timeout [SDHC 2.2.18]. The timeout has no effect if the driver
    /// has not enabled the status bit Data Timeout Error.
    pub(super) fn data_timeout(&mut self, now: u64) {
        if self.regs.enable & int::DATA_TIMEOUT != 0 {
            self.data_error(int::DATA_TIMEOUT, now);
        }
    }

    /// Executes a Continue Request: the transfer continues after a block gap.
    pub(super) fn continue_after_gap(&mut self, now: u64) {
        if self.dat.state == State::Gap {
            self.lines_stood(now);
            if self.dat.read {
                self.read_goes_on(now);
            } else {
                self.next_write(now);
            }
        }
    }

    /// Counts a tuning block, and ends the tuning after the last one. The controller does not pass
    /// the data of the block to the host [SDHC 2.2.25].
    pub(super) fn tuning_round(&mut self, now: u64) {
        self.dat.state = State::Idle;
        self.dma.stop();
        self.dat.rounds = self.dat.rounds.saturating_add(1);
        if self.dat.rounds >= self.config.tuning_rounds.clamp(1, 40) {
            self.regs.host2 &= !host2::EXECUTE_TUNING;
            if !self.config.tuning_fails && !self.dat.tuning_struck {
                self.regs.host2 |= host2::SAMPLING_CLOCK;
                self.hurt.drifted = false;
                self.hurt.tuned_ns = now;
            }
            self.refresh_bus(now);
        }
        self.raise(int::BUFFER_READ_READY, now);
    }

    /// Executes Software Reset For DAT Line [SDHC 2.2.16].
    pub(super) fn reset_data(&mut self) {
        self.list.stops();
        self.stop_data_timers();
        self.pio.clear();
        self.dma.stop();
        self.dat.state = State::Idle;
        self.cmd.forget_data();
        self.forget_late(!(int::COMMAND_COMPLETE | int::ERRORS_OF_COMMAND));
        self.regs.status &= !(int::TRANSFER_COMPLETE
            | int::DMA
            | int::BUFFER_READ_READY
            | int::BUFFER_WRITE_READY
            | int::BLOCK_GAP);
        self.regs.block_gap &= !3;
        if let Some(cqe) = &mut self.cqe {
            cqe.data_were_cut();
        }
    }
}
