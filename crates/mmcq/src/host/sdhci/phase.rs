//! How a phase starts.

use super::config::{Quirks, TransferMode};
use super::regs::*;
use super::{Sdhci, Table};
use crate::host::pio::Cursor;
use crate::host::{Auto, BusyDetect, Data, Direction, Dma, Phase, Regs, Segment, StartError};
use crate::spec::command::{Command, Resp};
use core::ptr::NonNull;

/// A command that stops a transfer.
const STOP_TRANSMISSION: u8 = 12;
/// A command that begins the voltage switch.
const VOLTAGE_SWITCH: u8 = 11;
/// The distance of SDMA's stops; see [`BOUNDARY_512K`].
pub(super) const BOUNDARY_BYTES: u64 = 512 * 1024;

/// The phase that the controller works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) resp: Resp,
    pub(super) auto: Auto,
    pub(super) data: Option<Direction>,
    pub(super) tuning: bool,
    /// No other phase was in progress when this one started.
    pub(super) alone: bool,
    /// Status bits that must have come before the phase is over.
    pub(super) needs: u32,
    /// Status bits that have come.
    pub(super) seen: u32,
    /// Where SDMA starts again after its next stop.
    pub(super) sdma_next: u64,
    pub(super) pio: Pio,
}

/// What is left to move through the buffer port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pio {
    pub(super) blocks: u32,
    pub(super) block_bytes: u32,
    pub(super) cursor: Cursor,
}

/// How the data of one phase go.
#[derive(Clone, Copy)]
enum Path {
    Adma,
    Sdma(u64),
    Pio,
    Tuning,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    pub(super) fn start_phase(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(), StartError> {
        let busy = phase.command.resp == Resp::R1b && self.model.busy == BusyDetect::Interrupt;
        // First the lines: a table that the controller may still read must not be written.
        if !self.idle || self.active.is_some() {
            self.check_lines(&phase.command, phase.data.is_some())?;
        }
        let work = match &phase.data {
            Some(data) => Some((data, self.path(phase, data, segments)?)),
            None if phase.auto != Auto::None || phase.tuning => return Err(StartError::Unsupported),
            None => None,
        };
        if !self.idle {
            // Forgets late events of whatever was before.
            self.port.write32(INT_STATUS, super::events::OF_PHASE);
        }
        if work.is_some() || busy {
            self.set_timeout(timeout_ns);
        }
        let mut active = Active {
            resp: phase.command.resp,
            auto: phase.auto,
            data: None,
            tuning: phase.tuning,
            alone: self.active.is_none(),
            needs: if busy { INT_COMMAND | INT_TRANSFER } else { INT_COMMAND },
            seen: 0,
            sdma_next: 0,
            pio: Pio::default(),
        };
        let mut signal = if busy { INT_TRANSFER } else { INT_COMMAND };
        let mut mode = 0;
        if let Some((data, path)) = work {
            (mode, signal) = self.program_data(&mut active, phase, data, path);
        }
        self.set_signal(self.base_signal() | signal);
        self.idle = false;
        self.switching = phase.command.index == VOLTAGE_SWITCH;
        self.active = Some(active);
        self.port.write32(ARGUMENT, phase.command.arg);
        self.port.write_pair(TRANSFER_MODE, mode, self.command_bits(&phase.command, phase.data.is_some()));
        Ok(())
    }

    /// What is always signalled; the enables decide which of them happen.
    pub(super) fn base_signal(&self) -> u32 {
        let masked = if self.bus.timeout_masked { ERROR_DATA_TIMEOUT } else { 0 };
        self.model.errors & !masked | INT_CARD | INT_RETUNE | INT_INSERT | INT_REMOVE
    }

    /// Checks what the standard says of data and builds the descriptors; no register is touched.
    fn path(&mut self, phase: &Phase, data: &Data, segments: &[Segment]) -> Result<Path, StartError> {
        let bytes = data.blocks.checked_mul(data.block_size.into()).ok_or(StartError::Unsupported)?;
        let auto = match phase.auto {
            Auto::None => true,
            Auto::Stop => self.caps.auto_stop,
            Auto::Count(_) => self.caps.auto_count,
        };
        if bytes == 0
            || data.block_size > self.model.max_block_bytes
            || data.blocks > self.caps.max_blocks
            || !auto
        {
            return Err(StartError::Unsupported);
        }
        if phase.tuning {
            return Ok(Path::Tuning);
        }
        let narrow = segments.iter().filter(|segment| self.by_pio(segment.len)).count();
        if narrow != 0 {
            let held = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
            // Memory that is mapped for DMA must not be touched by the CPU, so it is all or nothing.
            let fits = narrow == segments.len() && held >= bytes;
            return if fits { Ok(Path::Pio) } else { Err(StartError::Unsupported) };
        }
        match (self.model.mode, segments) {
            (TransferMode::Adma2, _) => {
                let table_bytes = self.table.build(self.model.form, segments, bytes);
                let table_bytes = table_bytes.ok_or(StartError::Unsupported)?;
                let place: NonNull<Table<DESCRIPTORS>> = NonNull::from(&mut *self.table);
                self.dma.sync(self.table_bus, place.cast(), table_bytes);
                Ok(Path::Adma)
            }
            (TransferMode::Sdma, [segment]) if segment.len >= bytes => Ok(Path::Sdma(segment.bus)),
            _ => Err(StartError::Unsupported),
        }
    }

    /// Writes what a data transfer needs; gives the transfer mode and the interrupts that lead to its end.
    fn program_data(&mut self, active: &mut Active, phase: &Phase, data: &Data, path: Path) -> (u16, u32) {
        active.data = Some(data.direction);
        active.needs = INT_COMMAND | INT_TRANSFER;
        let read = data.direction == Direction::Read;
        let mut mode = if read { MODE_READ } else { 0 };
        if data.blocks > 1 || matches!(phase.command.index, 18 | 25) {
            mode |= MODE_MULTI | MODE_BLOCK_COUNT;
        }
        let mut signal = INT_TRANSFER;
        match path {
            Path::Adma => {
                mode |= MODE_DMA;
                let high = (self.table_bus >> 32) as u32;
                if self.model.wide && self.shadow.adma_high != Some(high) {
                    self.port.write32(ADMA_ADDRESS_HIGH, high);
                    self.shadow.adma_high = Some(high);
                }
                self.port.write32(ADMA_ADDRESS, self.table_bus as u32);
            }
            Path::Sdma(bus) => {
                mode |= MODE_DMA;
                signal |= INT_DMA;
                self.set_sdma(bus);
                active.sdma_next = (bus | (BOUNDARY_BYTES - 1)).wrapping_add(1);
            }
            Path::Pio => {
                signal |= if read { INT_BUFFER_READ } else { INT_BUFFER_WRITE };
                active.pio = Pio {
                    blocks: data.blocks,
                    block_bytes: data.block_size.into(),
                    cursor: Cursor::default(),
                };
            }
            Path::Tuning => {
                signal = INT_BUFFER_READ;
                active.needs = INT_BUFFER_READ;
            }
        }
        self.port.write_pair(BLOCK_SIZE, data.block_size | BOUNDARY_512K, data.blocks as u16);
        match phase.auto {
            Auto::None => {}
            Auto::Stop => mode |= MODE_AUTO_CMD12,
            Auto::Count(argument) => {
                mode |= MODE_AUTO_CMD23;
                self.port.write32(ARGUMENT_2, argument);
            }
        }
        (mode, signal)
    }

    /// SDMA's address; writing it (its last byte) also lets a stopped transfer go on.
    pub(super) fn set_sdma(&self, bus: u64) {
        if !self.model.v4 {
            return self.port.write32(SDMA_ADDRESS, bus as u32);
        }
        self.port.write32(ADMA_ADDRESS, bus as u32);
        if self.model.wide {
            self.port.write32(ADMA_ADDRESS_HIGH, (bus >> 32) as u32);
        }
    }

    fn command_bits(&self, command: &Command, data: bool) -> u16 {
        let resp = match command.resp {
            Resp::None => 0,
            Resp::R2 => COMMAND_136 | COMMAND_CRC,
            Resp::R3 | Resp::R4 => COMMAND_48,
            Resp::R1b if self.model.busy == BusyDetect::Interrupt => {
                COMMAND_48_BUSY | COMMAND_CRC | COMMAND_INDEX
            }
            Resp::R1 | Resp::R1b | Resp::R5 | Resp::R6 | Resp::R7 => COMMAND_48 | COMMAND_CRC | COMMAND_INDEX,
        };
        let data = if data { COMMAND_DATA } else { 0 };
        let stop = if command.index == STOP_TRANSMISSION { COMMAND_ABORT } else { 0 };
        u16::from(command.index & 0x3f) << COMMAND_INDEX_SHIFT | resp | data | stop
    }

    /// Are the lines free for this command? Beside a phase with data or busy only commands that leave DAT alone may go.
    fn check_lines(&self, command: &Command, data: bool) -> Result<(), StartError> {
        let state = self.port.read32(PRESENT);
        if state & PRESENT_CMD_INHIBIT != 0 {
            return Err(StartError::CommandLine);
        }
        let needs_dat = data || command.resp == Resp::R1b && command.index != STOP_TRANSMISSION;
        let held = state & PRESENT_DAT0 == 0 && !self.config.quirks.has(Quirks::NO_DAT0_LEVEL);
        if needs_dat && (self.active.is_some() || state & PRESENT_DAT_INHIBIT != 0 || data && held) {
            return Err(StartError::DataLine);
        }
        match self.active {
            Some(active) if active.needs & INT_TRANSFER == 0 => Err(StartError::CommandLine),
            _ => Ok(()),
        }
    }

    /// The data timeout counter; computed only when the time asked for is another one.
    fn set_timeout(&mut self, timeout_ns: u64) {
        if self.shadow.timeout_ns == Some(timeout_ns) {
            return;
        }
        let quirks = self.config.quirks;
        let clock = quirks.has(Quirks::TIMEOUT_USES_SD_CLOCK).then_some(self.bus.clock_hz);
        let (mut count, too_short) = self.model.clocks.timeout(timeout_ns, clock);
        if quirks.has(Quirks::BROKEN_TIMEOUT_VALUE) {
            count = TIMEOUT_MAX;
        }
        self.shadow.timeout_ns = Some(timeout_ns);
        self.bus.timeout_masked = too_short && quirks.has(Quirks::MASK_LONG_TIMEOUT);
        let masked = if self.bus.timeout_masked { ERROR_DATA_TIMEOUT } else { 0 };
        self.set_enable((self.shadow.enable | ERROR_DATA_TIMEOUT) & !masked);
        if self.shadow.timeout != Some(count) {
            self.port.write8(TIMEOUT, count);
            self.shadow.timeout = Some(count);
        }
    }
}
