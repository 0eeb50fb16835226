//! Starts a command with its data (a phase): checks it and writes the registers.

use super::regs::*;
use super::table::{BOUNCE_BYTES, Pieces};
use super::tune::Stm32Board;
use super::{BOUNCED, Failed, Stm32Sdmmc};
use crate::host::{Auto, Data, Direction, Dma, Phase, Regs, Segment, StartError};
use crate::spec::command::{Command, Resp};

/// Card clocks for a command, N_CR and a response. They are added to the data timeout, whose timer
/// may start with the command.
const COMMAND_CLOCKS: u64 = 48 + 64 + 136;

/// Status flags that report an error of a command.
pub(super) const COMMAND_ERRORS: u32 = COMMAND_CRC_FAIL | COMMAND_TIMEOUT;
/// Status flags that report an error of data.
pub(super) const DATA_ERRORS: u32 = DATA_CRC_FAIL | DATA_TIMEOUT | TX_UNDERRUN | RX_OVERRUN | DMA_ERROR;

/// The phase (a command with its data or busy) that the controller executes now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) index: u8,
    pub(super) resp: Resp,
    pub(super) work: Work,
    /// Status flags that were set since the command in progress started.
    pub(super) seen: u32,
    /// Whether the card was busy when the driver last read the status.
    pub(super) busy: bool,
    /// Length in bytes of the data of the phase (the command) in progress.
    pub(super) bytes: u32,
    /// The command that must stop the data path if the phase (a command with its data) fails.
    pub(super) end: Failed,
}

/// How the data of the command in progress are transferred, or what else the command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The phase (a command, perhaps with data and busy) has no data.
    Command,
    /// The command is CMD11, after which the controller stops the clock.
    Switch,
    /// The DMA transfers the data to or from the caller's memory.
    Dma(Direction),
    /// The data go through the bounce buffer.
    Bounce(Direction),
    /// The command reads a tuning block, which stays in the bounce buffer.
    Tune,
    /// The tuning block was bad, and a CMD12 resets the data path.
    TuneEnds,
}

impl Work {
    /// Returns whether the data path is active.
    pub(super) const fn moves(self) -> bool {
        matches!(self, Work::Dma(_) | Work::Bounce(_) | Work::Tune)
    }

    const fn writes(self) -> bool {
        matches!(self, Work::Dma(Direction::Write) | Work::Bounce(Direction::Write))
    }
}

impl Active {
    /// Returns the flag of a command that ended without an error.
    pub(super) const fn command_good(&self) -> u32 {
        if matches!(self.resp, Resp::None) { COMMAND_SENT } else { RESPONSE_END }
    }

    /// Returns whether the card may be busy after the command and its data.
    pub(super) const fn may_be_busy(&self) -> bool {
        matches!(self.resp, Resp::R1b) || self.work.writes()
    }

    /// Returns the flags that must be set before the phase (the command with its data) has ended,
    /// except the end of busy.
    pub(super) const fn needs(&self) -> u32 {
        let more = match self.work {
            Work::Command | Work::TuneEnds => 0,
            Work::Switch => CLOCK_STOPPED,
            Work::Dma(_) | Work::Bounce(_) | Work::Tune => DATA_END,
        };
        self.command_good() | more
    }

    /// Returns the flags that must raise the interrupt, because the command in progress waits for
    /// them.
    pub(super) const fn wanted(&self) -> u32 {
        if matches!(self.work, Work::TuneEnds) {
            return DATA_ABORTED | RESPONSE_END | COMMAND_ERRORS;
        }
        let missing = self.needs() & !self.seen;
        if missing == 0 {
            return if self.busy { BUSY_END | DATA_TIMEOUT } else { 0 };
        }
        let errors = COMMAND_ERRORS | if self.work.moves() { DATA_ERRORS } else { 0 };
        // The response is read together with the data, so it needs no interrupt of its own.
        let next = if missing & !self.command_good() != 0 { missing & !self.command_good() } else { missing };
        errors | next
    }
}

impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Stm32Sdmmc<R, D, S, PIECES> {
    pub(super) fn start_phase(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(), StartError> {
        if phase.auto != Auto::None || phase.tuning && (phase.data.is_none() || self.bus.search().is_none()) {
            return Err(StartError::Unsupported);
        }
        let bytes = match &phase.data {
            Some(data) => check(data, segments, phase.tuning)?,
            None => 0,
        };
        if let Some(active) = &self.active {
            let data = active.work.moves() && phase.data.is_some();
            return Err(if data { StartError::DataLine } else { StartError::CommandLine });
        }
        let status = self.regs.read32(STATUS);
        if status & COMMAND_ACTIVE != 0 {
            return Err(StartError::CommandLine);
        }
        if phase.data.is_some() && (self.failed.is_some() || status & DATA_ACTIVE != 0) {
            return Err(StartError::DataLine);
        }
        let work = match &phase.data {
            None if phase.command.index == 11 && self.bus.begin_switch(&self.caps) => Work::Switch,
            None => Work::Command,
            Some(_) if phase.tuning => Work::Tune,
            Some(data) if segments.iter().any(|segment| segment.bus & BOUNCED != 0) => {
                Work::Bounce(data.direction)
            }
            Some(data) => Work::Dma(data.direction),
        };
        let mut command = command_bits(&phase.command);
        // The timer is written before data control [RM0456 31.10.7]. It is set without data, too: a
        // card may be busy when the controller samples DAT0, and then the data timer runs. If it
        // expires during such a busy, only an abort makes the data path idle again. So it gets its
        // longest time, and the engine's deadline ends the phase.
        if status & DATA_ACTIVE == 0 {
            let clocks = if phase.data.is_some() { self.timeout_clocks(timeout_ns) } else { u32::MAX };
            self.regs.write32(DATA_TIMER, clocks);
        }
        if let Some(data) = &phase.data {
            self.program_data(&phase.command, data, work, segments, bytes)?;
            command |= COMMAND_DATA;
        }
        if work == Work::Switch {
            self.write_power(POWER_ON | POWER_SWITCH_ENABLE);
        }
        let active = Active {
            index: phase.command.index,
            resp: phase.command.resp,
            work,
            seen: 0,
            busy: false,
            bytes,
            end: if phase.command.index == 53 {
                Failed::Function((phase.command.arg >> 28 & 7) as u8)
            } else {
                Failed::Card
            },
        };
        // Flags that are set now belong to an earlier phase.
        self.regs.write32(CLEAR, STATIC);
        self.set_mask(active.wanted());
        self.active = Some(active);
        self.send(phase.command.arg, command);
        Ok(())
    }

    /// Writes argument and command register, which sends the command.
    pub(super) fn send(&self, arg: u32, command: u32) {
        self.regs.write32(ARGUMENT, arg);
        self.regs.write32(COMMAND, COMMAND_ENABLE | command);
    }

    /// Writes the registers for the data of a command: the DMA's list or the bounce buffer, data
    /// length and data control. An error if the memory cannot be used.
    fn program_data(
        &mut self,
        command: &Command,
        data: &Data,
        work: Work,
        segments: &[Segment],
        bytes: u32,
    ) -> Result<(), StartError> {
        let mut control = DMA_ENABLE;
        let base = if matches!(work, Work::Dma(_)) {
            let chunk = if PIECES > 1 { self.config.piece_bytes } else { u32::MAX };
            let first = self.list.build(segments, bytes, chunk).ok_or(StartError::Unsupported)?;
            if PIECES > 1 {
                self.dma.sync(self.list_bus.into(), self.list.list(), Pieces::<PIECES>::LIST_BYTES);
                control |= DMA_BY_LIST;
                self.regs.write32(DMA_LIST, self.list_bus);
                self.regs.write32(DMA_NEXT, first.next);
                self.regs.write32(DMA_SIZE, first.size);
            }
            first.base
        } else {
            self.map_bounce(segments, bytes, data.direction).ok_or(StartError::Unsupported)?
        };
        self.regs.write32(DMA_BASE, base);
        self.regs.write32(DMA_CONTROL, control);
        self.regs.write32(DATA_LENGTH, bytes);
        let read = if data.direction == Direction::Read { DATA_READ } else { 0 };
        // In block mode CMD53 has bit 27 set; in byte mode a block may have any length.
        let size = if command.index == 53 && command.arg >> 27 & 1 == 0 {
            DATA_BYTES
        } else {
            u32::from(data.block_size).trailing_zeros() << DATA_BLOCK_SHIFT
        };
        self.regs.write32(DATA_CONTROL, self.bus.data_control() | read | size);
        self.bus.wrote_data_control();
        Ok(())
    }

    fn timeout_clocks(&self, timeout_ns: u64) -> u32 {
        let clocks = timeout_ns.saturating_mul(self.bus.clock_hz().into()).div_ceil(1_000_000_000);
        u32::try_from(clocks.saturating_add(COMMAND_CLOCKS)).unwrap_or(u32::MAX)
    }
}

/// Returns the length of the data in bytes, or an error if the controller cannot transfer them.
/// `tuning`: the data are a tuning block. Writes no register.
fn check(data: &Data, segments: &[Segment], tuning: bool) -> Result<u32, StartError> {
    let block = u32::from(data.block_size);
    let bytes = block.checked_mul(data.blocks).ok_or(StartError::Unsupported)?;
    let held = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
    let bounced = segments.iter().filter(|segment| segment.bus & BOUNCED != 0).count();
    // The CPU must not access memory that is mapped for DMA, so either all segments use the bounce
    // buffer or none.
    let mixed = bounced != 0 && bounced != segments.len();
    // The DMA transfers words, and a word of the FIFO cannot hold bytes of two blocks.
    let torn = !block.is_multiple_of(4) && (data.blocks > 1 || bounced == 0);
    let long = (tuning || bounced != 0) && bytes > BOUNCE_BYTES;
    // A block length that is no power of two occurs only in CMD53's byte mode, with a single block.
    let odd = !block.is_power_of_two() && data.blocks > 1;
    let short = !tuning && (bytes > held || mixed || torn);
    let write = tuning && data.direction == Direction::Write;
    let wrong = odd || short || long || write;
    if bytes == 0 || bytes > DATA_BYTES_MAX || data.block_size > DATA_BLOCK_BYTES_MAX || wrong {
        return Err(StartError::Unsupported);
    }
    Ok(bytes)
}

fn command_bits(command: &Command) -> u32 {
    let resp = match command.resp {
        Resp::None => 0,
        Resp::R2 => COMMAND_LONG,
        // R3 and R4 have no CRC [SD 4.9.4], [SDIO 3.3].
        Resp::R3 | Resp::R4 => COMMAND_SHORT_PLAIN,
        _ => COMMAND_SHORT,
    };
    let ends = command.index == 12 || command.index == 52 && aborts(command.arg);
    resp | u32::from(command.index & 0x3f) | if ends { COMMAND_STOP } else { 0 }
}

/// Returns whether the argument of a CMD52 writes to I/O Abort, address 6 of function 0 [SDIO 6.9].
fn aborts(arg: u32) -> bool {
    arg >> 28 == 8 && arg >> 9 & 0x1_ffff == 6
}
