//! Starts a phase (a command, with its data or busy): checks it, and writes the registers.

use super::config::BLOCK_BYTES_MAX;
use super::layout::*;
use super::regs::*;
use super::tune::MshcBoard;
use super::{BY_CPU, Descriptors, Mshc};
use crate::host::pio::Cursor;
use crate::host::{Auto, Data, Direction, Dma, Phase, Regs, Segment, StartError};
use crate::spec::command::{Command, Resp};
use core::ptr::NonNull;

/// Status bits that report an error of a command.
pub(super) const COMMAND_ERRORS: u32 = INT_RESPONSE | INT_RESPONSE_CRC | INT_NO_RESPONSE | INT_LOCKED;
/// Tuning blocks in one second: the timeout of a tuning block is 5 ms.
const TUNING_BLOCKS_A_SECOND: u32 = 200;
/// Status bits that report an error of data from the card. For data to the card, a missing start
/// bit is not an error.
pub(super) const READ_ERRORS: u32 = INT_DATA_CRC | INT_DATA_TIMEOUT | INT_FIFO | INT_START_BIT | INT_END_BIT;

/// The phase that is in progress: a command with its response, data and busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) resp: Resp,
    pub(super) work: Work,
    /// Whether the controller sends CMD12 after the last block.
    pub(super) stops: bool,
    /// Whether the driver must read the command's R1 before the R1 of CMD12 replaces it.
    pub(super) hears: bool,
    pub(super) heard: Option<u32>,
    /// Raw status bits that were set since the start of the phase.
    pub(super) seen: u32,
    /// DMA status bits that were set since the start of the phase (the command with its data).
    pub(super) dma_seen: u32,
    /// How often the driver has acknowledged events of the phase (the command with its data) in
    /// progress. It wraps.
    pub(super) acknowledged: u32,
    /// Bytes that the CPU has not transferred yet.
    pub(super) left_bytes: u32,
    pub(super) cursor: Cursor,
    /// Whether the driver has already waited for the end of busy.
    pub(super) waited: bool,
    /// Whether all words of the tuning block matched the pattern so far.
    pub(super) right: bool,
}

/// How a phase (a command with its data) transfers the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The phase is a command without data.
    Command,
    /// The DMA transfers the data, in this direction.
    Dma(Direction),
    /// The CPU transfers the data, in this direction.
    Cpu(Direction),
    /// The CPU compares a tuning block; the number is its length in bytes.
    Tune(u32),
    /// The command is CMD11: after its response the card pulls the lines low.
    Voltage,
}

impl Active {
    /// Returns a value that changes with each event of the command in progress: how often the
    /// driver has acknowledged its events, and the number of bytes that are still to be
    /// transferred.
    pub(super) fn progress(&self) -> (u32, u32) {
        (self.acknowledged, self.left_bytes)
    }

    /// Makes the state of a command that has just started, without any event so far.
    pub(super) fn new(resp: Resp, work: Work) -> Self {
        Active {
            resp,
            work,
            stops: false,
            hears: false,
            heard: None,
            seen: 0,
            dma_seen: 0,
            acknowledged: 0,
            left_bytes: 0,
            cursor: Cursor::default(),
            waited: false,
            right: true,
        }
    }

    /// Returns the bits of the raw interrupt status register that must all be set before the phase
    /// (a command with its data) has ended.
    pub(super) fn needs(&self) -> u32 {
        let data = match self.work {
            // For CMD11 the controller reports no end of the command.
            Work::Voltage => return INT_VOLTAGE,
            Work::Command => 0,
            _ => INT_DATA,
        };
        INT_COMMAND | data | if self.stops { INT_AUTO_STOP } else { 0 }
    }

    /// Returns whether the card may be busy after this command: it was a write, or has an R1b.
    pub(super) fn may_be_busy(&self) -> bool {
        let write = matches!(self.work, Work::Dma(Direction::Write) | Work::Cpu(Direction::Write));
        write || self.resp == Resp::R1b
    }

    /// Returns the status bits that are errors of the data of the command in progress.
    pub(super) fn data_errors(&self) -> u32 {
        match self.work {
            Work::Command | Work::Voltage => 0,
            Work::Dma(Direction::Read) => READ_ERRORS | INT_STARVED,
            Work::Dma(Direction::Write) => READ_ERRORS & !INT_START_BIT | INT_STARVED,
            // When the CPU transfers data, the controller stops the card's clock while the FIFO is
            // full or empty, so INT_STARVED is no error.
            Work::Cpu(Direction::Read) | Work::Tune(_) => READ_ERRORS,
            Work::Cpu(Direction::Write) => READ_ERRORS & !INT_START_BIT,
        }
    }

    /// Returns the interrupts to enable: all errors, and the one event that comes last of those for
    /// which the driver still waits. The driver reads the status bits of the earlier events when
    /// that interrupt comes.
    pub(super) fn wanted(&self) -> u32 {
        let missing = self.needs() & !self.seen;
        let next = match self.work {
            Work::Cpu(Direction::Read) | Work::Tune(_) => missing | INT_RX,
            Work::Cpu(Direction::Write) if self.left_bytes != 0 => missing | INT_TX,
            Work::Dma(_) if missing & INT_AUTO_STOP != 0 => {
                INT_AUTO_STOP | if self.hears { missing & INT_COMMAND } else { 0 }
            }
            Work::Dma(_) if missing & INT_DATA != 0 => INT_DATA,
            _ => missing,
        };
        COMMAND_ERRORS | self.data_errors() | next
    }
}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
    pub(super) fn start_phase(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        let stops = phase.auto == Auto::Stop;
        let no_data = (stops || phase.tuning) && phase.data.is_none();
        if !matches!(phase.auto, Auto::None | Auto::Stop) || no_data {
            return Err(StartError::Unsupported);
        }
        let bytes = match &phase.data {
            Some(data) if phase.tuning => self.check_tuning(data, stops)?,
            Some(data) => check(data, segments)?,
            None => 0,
        };
        self.check_lines(phase.data.is_some())?;
        let work = match &phase.data {
            None if phase.command.index == 11 && self.caps.signal18 && !self.caps.signal18_fixed => {
                Work::Voltage
            }
            None => Work::Command,
            Some(_) if phase.tuning => Work::Tune(bytes),
            Some(data) if segments.iter().any(|segment| segment.bus & BY_CPU != 0) => {
                Work::Cpu(data.direction)
            }
            Some(data) => Work::Dma(data.direction),
        };
        let active = Active {
            stops,
            hears: stops && !self.keeps_r1,
            left_bytes: if matches!(work, Work::Cpu(_) | Work::Tune(_)) { bytes } else { 0 },
            ..Active::new(phase.command.resp, work)
        };
        let mut command = command_bits(&phase.command);
        if work == Work::Voltage {
            command |= COMMAND_VOLTAGE;
        }
        if let Some(data) = &phase.data {
            self.program_data(data, work, segments, bytes)?;
            command |= COMMAND_DATA | COMMAND_WAITS;
            command |= if data.direction == Direction::Write { COMMAND_WRITE } else { 0 };
            command |= if stops { COMMAND_AUTO_STOP } else { 0 };
        }
        // Status bits that are set now belong to an earlier phase.
        self.regs.write32(L::AT.raw, u32::MAX);
        self.set_mask(active.wanted());
        self.active = Some(active);
        self.send(phase.command.arg, command);
        Ok(())
    }

    /// Returns an error if the CMD line is in use, or, for a phase with data (`data`), if the DAT
    /// lines are in use, or if data have failed and the controller was not reset since.
    pub(super) fn check_lines(&self, data: bool) -> Result<(), StartError> {
        if self.active.is_some() {
            return Err(StartError::CommandLine);
        }
        let last = self.regs.read32(L::AT.command);
        if last != u32::MAX && last & COMMAND_START != 0 {
            // The controller has not accepted the last command yet.
            return Err(StartError::CommandLine);
        }
        // An SMHC itself waits for the end of busy. DesignWare's databook requires that the driver
        // checks it.
        if data && (self.dirty || L::DESIGN_WARE && self.dat0_low()) {
            return Err(StartError::DataLine);
        }
        Ok(())
    }

    /// Writes the argument register, and then the command register, which sends the command.
    pub(super) fn send(&self, argument: u32, command: u32) {
        let hold = if L::DESIGN_WARE && self.config.hold { COMMAND_HOLD } else { 0 };
        self.regs.write32(L::AT.argument, argument);
        self.regs.write32(L::AT.command, COMMAND_START | command | hold);
    }

    /// Writes the registers for a transfer of `bytes` bytes to or from the segments, except
    /// interrupt mask, argument and command.
    fn program_data(
        &mut self,
        data: &Data,
        work: Work,
        segments: &[Segment],
        bytes: u32,
    ) -> Result<(), StartError> {
        if let Work::Dma(direction) = work {
            let used = self.table.build(self.form, segments, bytes).ok_or(StartError::Unsupported)?;
            self.sync_table(used);
            let received = if direction == Direction::Read { DMA_RECEIVED } else { 0 };
            self.point_dma(received | DMA_BUS_ERROR | DMA_ABNORMAL);
        } else {
            self.stale = true;
            let by_cpu = if L::DESIGN_WARE { 0 } else { CONTROL_BY_CPU };
            self.regs.write32(L::AT.control, self.control() | by_cpu);
        }
        if matches!(work, Work::Tune(_)) {
            // A tuning block that does not arrive must not use up the time of the whole tuning
            // [SD 4.2.4.5].
            let clocks = (self.card_hz() / TUNING_BLOCKS_A_SECOND).clamp(1, TIMEOUT_DATA_MAX);
            self.regs.write32(L::AT.timeout, clocks << TIMEOUT_DATA_SHIFT | TIMEOUT_RESPONSE);
        }
        self.set_read_room(data);
        self.regs.write32(L::AT.block_size, data.block_size.into());
        self.regs.write32(L::AT.byte_count, bytes);
        Ok(())
    }
}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
    /// Makes the first `used` bytes of the table visible to the controller.
    pub(super) fn sync_table(&mut self, used: usize) {
        let place: NonNull<Descriptors<DESCRIPTORS>> = NonNull::from(&mut *self.table);
        self.dma.sync(self.table_bus, place.cast(), used);
    }

    /// Starts the DMA at the first descriptor, and enables `interrupts`.
    pub(super) fn point_dma(&mut self, interrupts: u32) {
        let control = self.control() | CONTROL_DMA | if L::DESIGN_WARE { CONTROL_INTERNAL_DMA } else { 0 };
        self.regs.write32(L::AT.control, control);
        // The DMA must not transfer words that an earlier CPU transfer or open read left in the
        // FIFO.
        if !L::DESIGN_WARE || core::mem::take(&mut self.stale) {
            self.regs.write32(L::AT.control, control | CONTROL_DMA_RESET);
            self.regs.write32(L::AT.dma_mode, DMA_RESET);
        }
        self.regs.write32(L::AT.dma_status, DMA_LATCHED);
        self.regs.write32(L::AT.dma_enable, interrupts);
        self.regs.write32(L::AT.list, self.form.bus >> self.form.shift);
        self.regs.write32(L::AT.dma_mode, DMA_FIXED_BURST | DMA_ON);
        if L::DESIGN_WARE {
            self.regs.write32(DW_DMA_KICK, 1);
        }
    }

    /// Writes the card read threshold register: the free space in the FIFO that a read waits for.
    pub(super) fn set_read_room(&mut self, data: &Data) {
        let room = self.read_room(data);
        if room != self.read_room {
            self.regs.write32(L::AT.read_room, room);
            self.read_room = room;
        }
    }

    /// Returns the value of the card read threshold register. At a fast clock the controller cannot
    /// stop the clock inside of a block, so the FIFO must have space for the whole block.
    fn read_room(&self, data: &Data) -> u32 {
        let block = u32::from(data.block_size);
        let waits = data.direction == Direction::Read && self.bus.is_fast() && block <= self.fifo.bytes;
        if waits && self.fifo.read_room { block << READ_ROOM_SHIFT | READ_ROOM_ON } else { 0 }
    }

    /// Returns the length of the tuning block in bytes, or an error if the data are no tuning
    /// block. `stops`: the controller is asked to send CMD12 after the data, which a tuning block
    /// does not have.
    fn check_tuning(&self, data: &Data, stops: bool) -> Result<u32, StartError> {
        let bytes = u32::from(data.block_size);
        let one = data.direction == Direction::Read && data.blocks == 1 && matches!(bytes, 64 | 128);
        let good = one && !stops && self.bus.search.is_some();
        if good { Ok(bytes) } else { Err(StartError::Unsupported) }
    }
}

/// Returns the number of bytes of these data, or an error if the controller cannot transfer them;
/// writes no register.
pub(super) fn check(data: &Data, segments: &[Segment]) -> Result<u32, StartError> {
    let block = u32::from(data.block_size);
    let bytes = block.checked_mul(data.blocks).ok_or(StartError::Unsupported)?;
    let held = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
    let by_cpu = segments.iter().filter(|segment| segment.bus & BY_CPU != 0).count();
    // The CPU must not access memory that is mapped for DMA, so either the CPU or the DMA transfers
    // all segments.
    let mixed = by_cpu != 0 && by_cpu != segments.len();
    // The FIFO is accessed in words, and a word cannot hold bytes of two blocks.
    let torn = !block.is_multiple_of(4) && (data.blocks > 1 || by_cpu == 0);
    if bytes == 0 || data.block_size > BLOCK_BYTES_MAX || bytes > held || mixed || torn {
        return Err(StartError::Unsupported);
    }
    Ok(bytes)
}

pub(super) fn command_bits(command: &Command) -> u32 {
    let resp = match command.resp {
        Resp::None => 0,
        Resp::R2 => COMMAND_RESPONSE | COMMAND_LONG | COMMAND_CRC,
        // R3 and R4 have no CRC [SD 4.9.4], [SDIO 3.3].
        Resp::R3 | Resp::R4 => COMMAND_RESPONSE,
        _ => COMMAND_RESPONSE | COMMAND_CRC,
    };
    let kind = match command.index {
        0 => COMMAND_INIT | COMMAND_ABORTS,
        12 => COMMAND_ABORTS,
        52 if aborts(command.arg) => COMMAND_ABORTS,
        _ => 0,
    };
    resp | kind | u32::from(command.index & 0x3f)
}

/// Returns whether the argument of a CMD52 writes to I/O Abort, address 6 of function 0 [SDIO 6.9].
fn aborts(arg: u32) -> bool {
    arg >> 28 == 8 && arg >> 9 & 0x1_ffff == 6
}
