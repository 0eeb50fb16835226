//! Starts a command with its data (a phase): checks it and writes its lists.

use super::list::{Extent, List};
use super::regs::*;
use super::{Buffers, Condition, Rtsx};
use crate::host::{Auto, Data, Direction, Dma, Phase, Regs, Segment, StartError};
use crate::spec::command::{Command, Resp};
use crate::spec::response::Response;
use core::ptr::NonNull;

const VOLTAGE_SWITCH: u8 = 11;
const STOP_TRANSMISSION: u8 = 12;
/// Largest block size of a data transfer, in bytes.
pub(super) const BLOCK_BYTES_MAX: u16 = 2048;
/// Value of SD_CFG2 for a transfer without a command.
const CFG2_DATA_ONLY: u8 = CFG2_NO_CRC7 | CFG2_NO_CHECK_CRC7 | CFG2_LENGTH_0;

/// The command in progress, with its data and busy, which a list of the chip executes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) command: Command,
    pub(super) work: Work,
    /// Interrupts of the list in progress that were set so far.
    pub(super) seen: u32,
    /// The response, if it was received with an earlier list.
    pub(super) response: Option<Response>,
}

/// What the chip does in the command list in progress. A phase (a command with or without data) may
/// need more than one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The list sends a command and receives its response.
    Command,
    /// The list sends the command of a write and receives its response; the next list sends these
    /// data.
    CommandOfWrite(Data),
    /// The list sends a command, receives its response, and reads data from the card.
    Read,
    /// The list transfers data without a command.
    Data,
    /// The list reads a tuning block.
    Tuning,
}

impl Work {
    /// Returns the interrupt bits that must have been set before the end of the command list counts
    /// as a success.
    pub(super) const fn needs(self) -> u32 {
        match self {
            Work::Read | Work::Data => INT_COMMAND | INT_DATA,
            Work::Command | Work::CommandOfWrite(_) | Work::Tuning => INT_COMMAND,
        }
    }

    /// Returns whether the chip receives a response while it does this part of a command and its
    /// data.
    pub(super) const fn answered(self) -> bool {
        matches!(self, Work::Command | Work::CommandOfWrite(_) | Work::Read)
    }
}

/// Returns the size of the data in bytes and the number of blocks; `None` if the chip cannot
/// transfer them.
fn size(data: &Data) -> Option<(u32, u16)> {
    let blocks = u16::try_from(data.blocks).ok().filter(|&blocks| blocks != 0)?;
    if data.block_size == 0 || data.block_size > BLOCK_BYTES_MAX {
        return None;
    }
    let bytes = u32::from(blocks).checked_mul(data.block_size.into())?;
    (bytes <= super::list::SEGMENT_BYTES).then_some((bytes, blocks))
}

/// Returns response length and checks as bits of SD_CFG2. `data`: data follow the command. If none
/// follow an R1b, the list waits for the end of busy.
pub(super) fn response_type(resp: Resp, data: bool) -> u8 {
    match resp {
        Resp::None => CFG2_LENGTH_0 | CFG2_NO_CHECK_CRC7,
        Resp::R1b if !data => CFG2_LENGTH_6 | CFG2_WAIT_BUSY_END,
        Resp::R1 | Resp::R1b | Resp::R5 | Resp::R6 | Resp::R7 => CFG2_LENGTH_6,
        Resp::R2 => CFG2_LENGTH_17,
        Resp::R3 | Resp::R4 => CFG2_LENGTH_6 | CFG2_NO_CHECK_CRC7,
    }
}

impl<R: Regs, D: Dma> Rtsx<R, D> {
    pub(super) fn start_phase(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        if self.active.is_some() || self.state.upset || self.bus.in_progress() {
            return Err(StartError::CommandLine);
        }
        let (work, extent) = match &phase.data {
            None if phase.auto != Auto::None || phase.tuning => None,
            None => self.list_command(&phase.command, false).map(|extent| (Work::Command, extent)),
            Some(_) if phase.tuning => self.list_tuning(phase).map(|extent| (Work::Tuning, extent)),
            Some(data) => self.list_transfer(phase, data, segments),
        }
        .ok_or(StartError::Unsupported)?;
        if self.state.unsettled {
            self.port.regs.write32(BIPR, super::events::OF_PHASE);
            self.unmask(super::events::OF_PHASE);
        }
        let toggling = phase.command.index == VOLTAGE_SWITCH;
        let stopped = match work {
            Work::Command | Work::Tuning => self.state.stopped || phase.command.index == STOP_TRANSMISSION,
            _ => false,
        };
        self.state = Condition { toggling, stopped, ..Condition::default() };
        // Set before the chip starts, so that an early failure finds the phase.
        self.active = Some(Active { command: phase.command, work, seen: 0, response: None });
        let direction = phase.data.filter(|_| work.needs() & INT_DATA != 0).map(|data| data.direction);
        self.launch(extent, direction);
        Ok(())
    }

    /// Writes the command list and the DMA table of a phase with data (a command with its data)
    /// into memory. Returns what the first command list of the phase does, and the size of that
    /// list. `None`: the chip cannot transfer the data.
    fn list_transfer(&mut self, phase: &Phase, data: &Data, segments: &[Segment]) -> Option<(Work, Extent)> {
        let (bytes, blocks) = size(data)?;
        match phase.auto {
            Auto::None => {}
            Auto::Open | Auto::Continue if self.caps.continue_data => {}
            _ => return None,
        }
        let used = self.buffers.build_table(&self.dma, segments, bytes)?;
        self.dma.sync(self.table_bus.into(), NonNull::from(&mut self.buffers.table).cast(), used);
        if phase.auto == Auto::Continue {
            return Some((Work::Data, self.list_data(data, true)?));
        }
        if data.direction == Direction::Write {
            let extent = self.list_command(&phase.command, true)?;
            return Some((Work::CommandOfWrite(*data), extent));
        }
        let config = response_type(phase.command.resp, true) | self.crc_timeout();
        let mut list = self.buffers.list();
        prepare(&mut list, &self.state);
        flush(&mut list, &self.state);
        list.command(&phase.command);
        list.blocks(data.block_size, blocks);
        list.dma(bytes, true);
        list.set(DATA_SOURCE, SOURCE_RING);
        list.set(SD_CFG2, config);
        list.transfer(MODE_READ, TRANSFER_END | TRANSFER_IDLE);
        if self.config.coherent {
            read_response(&mut list, phase.command.resp);
        }
        Some((Work::Read, list.finish()?))
    }

    /// Writes the list for a command and its response; `None` if the list is too long. `data` says
    /// that the data of a write follow in another list.
    fn list_command(&mut self, command: &Command, data: bool) -> Option<Extent> {
        let mut list = self.buffers.list();
        prepare(&mut list, &self.state);
        if data {
            flush(&mut list, &self.state);
        }
        if command.index == VOLTAGE_SWITCH {
            // The chip samples the levels of DAT only while the SD clock runs.
            list.write(SD_BUS_STAT, BUS_CLOCK_TOGGLE | BUS_CLOCK_STOP, BUS_CLOCK_TOGGLE);
        }
        list.command(command);
        list.set(SD_CFG2, response_type(command.resp, data));
        list.set(DATA_SOURCE, SOURCE_PING_PONG);
        list.transfer(MODE_COMMAND, TRANSFER_END | TRANSFER_IDLE);
        if command.index == STOP_TRANSMISSION {
            // Drop data of blocks that were not requested and that the card may have sent. Linux's
            // driver waits 50 us for them before this flush. This driver does not wait: before the
            // next data, [`flush`] drops what has arrived later.
            list.write(RING_CTL, RING_FLUSH, RING_FLUSH);
        }
        if self.config.coherent {
            read_response(&mut list, command.resp);
        }
        list.finish()
    }

    /// Writes the list for data of a transfer that is open on the card, and returns its size;
    /// `None` if the chip cannot transfer the data. `stays_open`: further data follow, so the chip
    /// does not wait for the end of busy.
    pub(super) fn list_data(&mut self, data: &Data, stays_open: bool) -> Option<Extent> {
        let (bytes, blocks) = size(data)?;
        let read = data.direction == Direction::Read;
        let wait = if !read && !stays_open && self.config.busy_after_data { CFG2_WAIT_BUSY_END } else { 0 };
        let config = CFG2_DATA_ONLY | self.crc_timeout() | wait;
        let mut list = self.buffers.list();
        prepare(&mut list, &self.state);
        list.blocks(data.block_size, blocks);
        list.dma(bytes, read);
        list.set(DATA_SOURCE, SOURCE_RING);
        list.set(SD_CFG2, config);
        list.transfer(if read { MODE_READ_DATA } else { MODE_WRITE_DATA }, TRANSFER_END | TRANSFER_IDLE);
        list.finish()
    }

    /// Returns the bit of [`SD_CFG2`] that makes a late CRC status no error; 0 in a UHS-I mode,
    /// where a late CRC status is an error.
    fn crc_timeout(&self) -> u8 {
        if self.bus.is_uhs() { 0 } else { CFG2_NO_CRC_TIMEOUT }
    }

    /// Writes the list for CMD19 and the comparison of its block, at the present sampling phase,
    /// and returns its size; `None` if its data are no tuning block.
    fn list_tuning(&mut self, phase: &Phase) -> Option<Extent> {
        let data = phase.data.filter(|data| data.block_size == 64 && data.blocks == 1)?;
        let sample = self.sweep.phase();
        let mut list = self.buffers.list();
        prepare(&mut list, &self.state);
        list.write(CLOCK_CTL, CLOCK_CHANGE, CLOCK_CHANGE);
        list.write(PHASE_SAMPLE, PHASE_NOT_RESET | PHASE_MASK, sample);
        list.write(PHASE_SAMPLE, PHASE_NOT_RESET | PHASE_MASK, sample | PHASE_NOT_RESET);
        list.write(CLOCK_CTL, CLOCK_CHANGE, 0);
        list.command(&phase.command);
        list.blocks(data.block_size, 1);
        list.set(DATA_SOURCE, SOURCE_PING_PONG);
        list.set(SD_CFG2, response_type(phase.command.resp, true));
        list.transfer(MODE_TUNING, TRANSFER_END | TRANSFER_IDLE);
        list.finish()
    }

    /// Starts the chip's list for the command in progress, and, if the command has data
    /// (`direction`: which way they go), the DMA of their scatter/gather table.
    pub(super) fn launch(&mut self, extent: Extent, direction: Option<Direction>) {
        let place: NonNull<Buffers> = NonNull::from(&mut *self.buffers);
        self.dma.sync(self.list_bus.into(), place.cast(), extent.bytes);
        let back = if self.config.coherent && extent.returned > 1 { HCB_RETURN } else { 0 };
        let regs = &self.port.regs;
        regs.write32(HCBAR, self.list_bus);
        regs.write32(HCBCTLR, HCB_START | back | extent.bytes as u32);
        if let Some(direction) = direction {
            let read = if direction == Direction::Read { HDB_READ } else { 0 };
            regs.write32(HDBAR, self.table_bus);
            regs.write32(HDBCTLR, HDB_START | HDB_TABLE | read);
        }
    }
}

/// Adds the operations that clear the state left by the last command or bus operation.
fn prepare(list: &mut List<'_>, state: &Condition) {
    if state.uncleared {
        list.write(CARD_STOP, STOP_SD | STOP_SD_CLEAR, STOP_SD | STOP_SD_CLEAR);
    }
    if state.toggling {
        list.write(SD_BUS_STAT, BUS_CLOCK_TOGGLE, 0);
    }
}

/// Adds the operation that empties the ring buffer if CMD12 has ended the last transfer. The card
/// may have sent data after that CMD12, which do not belong to the next transfer.
fn flush(list: &mut List<'_>, state: &Condition) {
    if state.stopped {
        list.write(RING_CTL, RING_FLUSH, RING_FLUSH);
    }
}

/// Adds reads of the response, in the order of its bytes on the bus, without the last byte.
fn read_response(list: &mut List<'_>, resp: Resp) {
    match resp {
        Resp::None => {}
        Resp::R2 => {
            list.read(SD_CMD0, 1);
            list.read(PING_PONG + 1, 15);
        }
        _ => list.read(SD_CMD0, 5),
    }
}
