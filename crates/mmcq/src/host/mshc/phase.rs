//! The start of a phase.

use super::config::BLOCK_BYTES_MAX;
use super::layout::*;
use super::regs::*;
use super::tune::MshcBoard;
use super::{BY_CPU, Descriptors, Mshc};
use crate::host::pio::Cursor;
use crate::host::{Auto, Data, Direction, Dma, Phase, Regs, Segment, StartError};
use crate::spec::command::{Command, Resp};
use core::ptr::NonNull;

/// Errors of a command.
pub(super) const COMMAND_ERRORS: u32 = INT_RESPONSE | INT_RESPONSE_CRC | INT_NO_RESPONSE | INT_LOCKED;
/// Tuning blocks that fit in a second: 5 ms for each.
const TUNING_BLOCKS_A_SECOND: u32 = 200;
/// Errors of data from the card. (For data to the card, a missing start bit is not an error.)
pub(super) const READ_ERRORS: u32 = INT_DATA_CRC | INT_DATA_TIMEOUT | INT_FIFO | INT_START_BIT | INT_END_BIT;

/// The phase that the controller works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) resp: Resp,
    pub(super) work: Work,
    /// Whether the controller itself sends CMD12 after it.
    pub(super) stops: bool,
    /// Whether the command's R1 has to be read before CMD12's comes; and its value.
    pub(super) hears: bool,
    pub(super) heard: Option<u32>,
    /// Raw status bits that have come.
    pub(super) seen: u32,
    /// DMA status bits that have come.
    pub(super) dma_seen: u32,
    /// Bytes that the CPU still has to transfer, and its position.
    pub(super) left_bytes: u32,
    pub(super) cursor: Cursor,
    /// Whether the driver has waited for the end of busy.
    pub(super) waited: bool,
    /// Whether all words of a tuning block were right so far.
    pub(super) right: bool,
}

/// What a phase does besides its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// No data.
    Command,
    /// The DMA transfers the data.
    Dma(Direction),
    /// The CPU transfers the data.
    Cpu(Direction),
    /// The CPU compares a tuning block of this many bytes.
    Tune(u32),
    /// The command is CMD11: the lines go low.
    Voltage,
}

impl Active {
    /// Makes a phase of which nothing has come yet.
    pub(super) fn new(resp: Resp, work: Work) -> Self {
        Active {
            resp,
            work,
            stops: false,
            hears: false,
            heard: None,
            seen: 0,
            dma_seen: 0,
            left_bytes: 0,
            cursor: Cursor::default(),
            waited: false,
            right: true,
        }
    }

    /// Returns the raw status bits that must come before the phase is over.
    pub(super) fn needs(&self) -> u32 {
        let data = match self.work {
            // No end of the command is told.
            Work::Voltage => return INT_VOLTAGE,
            Work::Command => 0,
            _ => INT_DATA,
        };
        INT_COMMAND | data | if self.stops { INT_AUTO_STOP } else { 0 }
    }

    /// Returns whether the card may be busy after it.
    pub(super) fn may_be_busy(&self) -> bool {
        let write = matches!(self.work, Work::Dma(Direction::Write) | Work::Cpu(Direction::Write));
        write || self.resp == Resp::R1b
    }

    /// Returns the error bits of its data.
    pub(super) fn data_errors(&self) -> u32 {
        match self.work {
            Work::Command | Work::Voltage => 0,
            Work::Dma(Direction::Read) => READ_ERRORS | INT_STARVED,
            Work::Dma(Direction::Write) => READ_ERRORS & !INT_START_BIT | INT_STARVED,
            // The clock waits for the CPU.
            Work::Cpu(Direction::Read) | Work::Tune(_) => READ_ERRORS,
            Work::Cpu(Direction::Write) => READ_ERRORS & !INT_START_BIT,
        }
    }

    /// Returns the interrupts to enable: errors, and the last expected event. When the last one has
    /// come, the others have too.
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
        // Late bits belong to no phase.
        self.regs.write32(L::AT.raw, u32::MAX);
        self.set_mask(active.wanted());
        self.active = Some(active);
        self.send(phase.command.arg, command);
        Ok(())
    }

    /// Returns an error if the lines are in use, or what failed before has not been reset.
    pub(super) fn check_lines(&self, data: bool) -> Result<(), StartError> {
        if self.active.is_some() {
            return Err(StartError::CommandLine);
        }
        let last = self.regs.read32(L::AT.command);
        if last != u32::MAX && last & COMMAND_START != 0 {
            // It was not even taken.
            return Err(StartError::CommandLine);
        }
        // An SMHC lets the card go first; DesignWare's databook wants that looked at.
        if data && (self.dirty || L::DESIGN_WARE && self.dat0_low()) {
            return Err(StartError::DataLine);
        }
        Ok(())
    }

    /// Sends a command.
    pub(super) fn send(&self, argument: u32, command: u32) {
        let hold = if L::DESIGN_WARE && self.config.hold { COMMAND_HOLD } else { 0 };
        self.regs.write32(L::AT.argument, argument);
        self.regs.write32(L::AT.command, COMMAND_START | command | hold);
    }

    /// Writes the registers for a data transfer, all but mask, argument and command.
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
            // A block that does not come is not to take the time of a whole tuning [SD 4.2.4.5].
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

    /// Starts the DMA at the first descriptor, with these interrupts.
    pub(super) fn point_dma(&mut self, interrupts: u32) {
        let control = self.control() | CONTROL_DMA | if L::DESIGN_WARE { CONTROL_INTERNAL_DMA } else { 0 };
        self.regs.write32(L::AT.control, control);
        // Words that the CPU left, or never took, are not the DMA's.
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

    /// Writes the space in the FIFO that a read waits for.
    pub(super) fn set_read_room(&mut self, data: &Data) {
        let room = self.read_room(data);
        if room != self.read_room {
            self.regs.write32(L::AT.read_room, room);
            self.read_room = room;
        }
    }

    /// Returns the space in the FIFO that a read waits for. At a fast clock a block cannot stop in
    /// its middle, so there must be space for all of it.
    fn read_room(&self, data: &Data) -> u32 {
        let block = u32::from(data.block_size);
        let waits = data.direction == Direction::Read && self.bus.is_fast() && block <= self.fifo.bytes;
        if waits && self.fifo.read_room { block << READ_ROOM_SHIFT | READ_ROOM_ON } else { 0 }
    }

    /// Returns the bytes of a tuning block, or an error if it is not one.
    fn check_tuning(&self, data: &Data, stops: bool) -> Result<u32, StartError> {
        let bytes = u32::from(data.block_size);
        let one = data.direction == Direction::Read && data.blocks == 1 && matches!(bytes, 64 | 128);
        let good = one && !stops && self.bus.search.is_some();
        if good { Ok(bytes) } else { Err(StartError::Unsupported) }
    }
}

/// Returns the bytes of these data, or an error; writes no register.
pub(super) fn check(data: &Data, segments: &[Segment]) -> Result<u32, StartError> {
    let block = u32::from(data.block_size);
    let bytes = block.checked_mul(data.blocks).ok_or(StartError::Unsupported)?;
    let held = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
    let by_cpu = segments.iter().filter(|segment| segment.bus & BY_CPU != 0).count();
    // Memory that is mapped for DMA must not be touched by the CPU, so it is all or nothing.
    let mixed = by_cpu != 0 && by_cpu != segments.len();
    // The FIFO is filled by words, and a word does not hold bytes of two blocks.
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
        // No CRC there [SD 4.9.4], [SDIO 3.3].
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

/// Returns whether this is a write to I/O Abort, address 6 of function 0 [SDIO 6.9].
fn aborts(arg: u32) -> bool {
    arg >> 28 == 8 && arg >> 9 & 0x1_ffff == 6
}
