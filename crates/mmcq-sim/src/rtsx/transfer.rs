//! A transfer from START to its end: its modes, what a START needs, and how a transfer ends.

use super::bits::{card, dma, sd};
use super::{NEVER, Rtsx, Timer};
use crate::card::{Answer, Flow};
use crate::faults::Strike;
use crate::wire::Beat;

/// Data of a transfer, which follow a command or come without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    None,
    Read,
    Write,
    Tuning,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Step {
    #[default]
    Idle,
    /// The command is on the line.
    Token,
    /// The response is on the line. `None`: no response comes, and the line is silent until the
    /// chip gives up.
    Response(Option<Answer>),
    ReadBlock,
    /// The ring buffer has no room for the next block; the clock is stopped.
    ReadHeld,
    /// All blocks have come; the DMA must still empty the ring buffer.
    Drain,
    /// The ring buffer does not hold the next block of a write yet.
    WriteHeld,
    WriteBlock,
    /// The CRC status of a written block, and then busy until the next block or the end.
    WriteStatus,
    /// The chip waits for a CRC status that will not come.
    NoStatus,
    /// The card is busy after a command without data.
    Busy,
    /// The chip waits for data that the card will not send.
    Silence,
}

/// The read or write that the card has begun and not ended. The chip knows it from the card's
/// replies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub flow: Flow,
    /// Whether data were already transferred since the transfer was opened.
    pub moved: bool,
}

#[derive(Debug)]
pub(super) struct Transfer {
    pub step: Step,
    pub data: Data,
    /// Value of CFG2 at the START of the transfer.
    pub config2: u8,
    /// Whether the block goes through the ping-pong buffer, not the ring buffer.
    pub ping_pong: bool,
    /// Whether the card does not receive the command: because of a fault, or because the slot's
    /// pins are off or not assigned to it.
    pub deaf: bool,
    pub index: u8,
    pub arg: u32,
    /// Number of bytes in a block.
    pub block: usize,
    /// Number of blocks left to move on the lines.
    pub left: u32,
    pub open: Option<Open>,
    /// Clock edge at which the lines were last in use.
    pub beat: Option<Beat>,
    /// Earliest time in ns at which the next command can start.
    pub free_ns: u64,
    pub bytes: Vec<u8>,
    pub good: bool,
    /// Fault that strikes the response, or the block on the lines.
    pub strike: Option<Strike>,
    pub start_ns: u64,
    pub held_since: u64,
    /// Levels of DAT3 to DAT0 and CMD when the SD clock last sampled them.
    pub lines: u8,
}

impl Default for Transfer {
    fn default() -> Self {
        Transfer {
            step: Step::Idle,
            data: Data::None,
            config2: 0,
            ping_pong: false,
            deaf: false,
            index: 0,
            arg: 0,
            block: 0,
            left: 0,
            open: None,
            beat: None,
            free_ns: 0,
            bytes: Vec::new(),
            good: false,
            strike: None,
            start_ns: 0,
            held_since: 0,
            lines: sd::LINES,
        }
    }
}

impl Transfer {
    pub fn running(&self) -> bool {
        self.step != Step::Idle
    }

    /// Returns whether a command or a block is on the lines.
    pub fn on_the_lines(&self) -> bool {
        matches!(self.step, Step::Token | Step::Response(_) | Step::ReadBlock | Step::WriteBlock)
    }
}

/// What a transfer mode does: whether it sends a command, which data it moves, and whether the
/// ping-pong buffer is used.
struct Plan {
    command: bool,
    data: Data,
    single: bool,
}

impl Plan {
    fn new(mode: u8) -> Option<Plan> {
        let (command, data, single) = match mode {
            0x0 => (true, Data::Write, true),
            0x1 => (false, Data::Write, false),
            0x5 => (false, Data::Read, false),
            0x8 => (true, Data::None, false),
            0xa => (true, Data::Write, false),
            0xc => (true, Data::Read, true),
            0xe => (true, Data::Read, false),
            0xf => (true, Data::Tuning, false),
            // The effect of AUTO_*_1 and AUTO_*_4 is not known.
            _ => return None,
        };
        Some(Plan { command, data, single })
    }
}

impl Rtsx {
    /// Writes the register TRANSFER. With `start` the transfer begins.
    pub(super) fn set_transfer(&mut self, value: u8, start: bool, now: u64) {
        if self.sd.running() {
            if start {
                self.slot.violation();
            }
            return;
        }
        let kept = self.regs.at(sd::TRANSFER) & sd::ERR;
        self.regs.put(sd::TRANSFER, value & 0x0f | sd::IDLE | kept);
        if !start {
            return;
        }
        if kept != 0 {
            return self.slot.violation();
        }
        self.regs.put(sd::STAT1, 0);
        self.regs.put(sd::STAT2, 0);
        match Plan::new(value & 0x0f) {
            Some(plan) => self.start_transfer(&plan, now),
            None => {
                self.slot.violation();
                self.fail_transfer(0, 0, now);
            }
        }
    }

    fn start_transfer(&mut self, plan: &Plan, now: u64) {
        let block = usize::from(self.regs.pair(sd::BYTE_CNT));
        let blocks = u32::from(self.regs.pair(sd::BLOCK_CNT));
        let ping_pong = plan.single || self.regs.at(card::DATA_SOURCE) & 1 != 0;
        self.sd.config2 = self.regs.at(sd::CFG2);
        self.sd.data = plan.data;
        self.sd.ping_pong = ping_pong;
        self.sd.block = block;
        self.sd.left = if plan.single || plan.data == Data::Tuning { 1 } else { blocks };
        self.sd.beat = None;
        if !self.sizes_fit() {
            self.slot.violation();
            return self.fail_transfer(0, 0, now);
        }
        if matches!(plan.data, Data::Read | Data::Write) && !ping_pong && !self.dma_prepared() {
            self.slot.violation();
        }
        let continued = !plan.command && self.sd.open.is_some_and(|open| open.moved);
        if continued && !self.config.continue_data {
            return self.fail_transfer(0, 0, now);
        }
        let transfer = self.regs.at(sd::TRANSFER);
        self.regs.put(sd::TRANSFER, transfer & 0x0f | sd::START);
        if !self.slot.bus.powered || self.slot.bus.clock_hz == 0 {
            self.slot.violation();
            self.sd.step = Step::Silence;
            return;
        }
        let connected = self.connected();
        if !connected || !self.mode_possible() {
            self.slot.violation();
        }
        self.sd.deaf = !connected || !self.pads_work();
        let beat = Beat::new(now, self.slot.bus.clock_hz);
        if plan.command {
            self.send_command(beat);
        } else {
            self.start_data(beat, now);
        }
    }

    /// Returns whether byte count and block count fit the mode and the buffer.
    fn sizes_fit(&self) -> bool {
        let limit = match self.sd.data {
            Data::None => return true,
            Data::Tuning => return self.sd.block == 64,
            _ if self.sd.ping_pong => sd::PING_PONG_BYTES,
            _ => 2048.min(self.config.ring_bytes as usize),
        };
        let blocks = if self.sd.ping_pong { 1..=1 } else { 1..=0xffff };
        (1..=limit).contains(&self.sd.block) && blocks.contains(&self.sd.left)
    }

    /// Returns whether the outputs are on, the SD card is selected, and the shared pins belong to
    /// it.
    fn connected(&self) -> bool {
        self.regs.at(card::OE) & card::SD_OE != 0
            && self.regs.at(card::SELECT) & 7 == card::SELECT_SD
            && self.regs.at(card::SHARE_MODE) & 0x0f == card::SHARE_SD
    }

    /// Returns whether the driver has set up the DMA (byte count, direction, enable bit) for this
    /// transfer.
    fn dma_prepared(&self) -> bool {
        let bytes = self.sd.block as u64 * u64::from(self.sd.left);
        let from_card = self.sd.data == Data::Read;
        let direction = self.regs.at(dma::CTL) & dma::FROM_CARD != 0;
        // All bytes of a short write may be in the ring buffer already.
        let ready = if from_card {
            self.dma.armed() && self.dma.ring_is_empty()
        } else {
            self.dma.armed() || self.dma.ring_bytes() as u64 == bytes
        };
        ready && direction == from_card && u64::from(self.regs.word(dma::COUNT)) == bytes
    }

    pub(super) fn sd_event(&mut self, now: u64) {
        match self.sd.step {
            Step::Token => self.token_ended(now),
            Step::Response(answer) => self.response_ended(answer, now),
            Step::ReadBlock => self.read_block_ended(now),
            Step::WriteBlock => self.written_block_ended(now),
            Step::WriteStatus => self.write_status_ended(now),
            Step::NoStatus => self.fail_transfer(sd::CRC_TIMEOUT, 0, now),
            Step::Busy => self.finish_transfer(now),
            Step::Idle | Step::ReadHeld | Step::Drain | Step::WriteHeld | Step::Silence => {}
        }
    }

    pub(super) fn silence(&mut self) {
        self.sd.step = Step::Silence;
        self.stop_timer(Timer::Sd);
    }

    /// Ends the transfer without an error; if the driver has requested it, only after the card
    /// releases DAT0.
    pub(super) fn finish_after_busy(&mut self, now: u64) {
        let until = self.slot.busy_until_ns;
        if self.sd.config2 & sd::WAIT_BUSY_END == 0 || until <= now {
            return self.finish_transfer(now);
        }
        if until == NEVER {
            return self.silence();
        }
        self.slot.busy_from(now, until);
        self.sd.step = Step::Busy;
        self.set_timer(Timer::Sd, until);
    }

    pub(super) fn finish_transfer(&mut self, now: u64) {
        self.leave(sd::END, now);
        self.write_ended(now);
    }

    pub(super) fn fail_transfer(&mut self, stat1: u8, stat2: u8, now: u64) {
        let old = self.regs.at(sd::STAT1);
        self.regs.put(sd::STAT1, old | stat1);
        self.regs.put(sd::STAT2, stat2);
        self.leave(sd::ERR, now);
        self.fail_list(now);
    }

    fn leave(&mut self, how: u8, now: u64) {
        self.stop_timer(Timer::Sd);
        self.sample_lines(now);
        self.sd.step = Step::Idle;
        let mode = self.regs.at(sd::TRANSFER) & 0x0f;
        self.regs.put(sd::TRANSFER, mode | sd::IDLE | how);
    }

    /// Handles a write to CARD_STOP: it ends the present transfer in any state.
    pub(super) fn stop_transfer(&mut self, now: u64) {
        if self.sd.running() {
            self.leave(0, now);
        }
    }
}
