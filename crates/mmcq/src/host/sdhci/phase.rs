//! Starts a phase (a command with its data): checks whether the controller can execute it, and
//! writes the registers.

use super::capabilities::ByCpu;
use super::config::{SdhciQuirks, TransferMode};
use super::events::NEVER;
use super::regs::*;
use super::table::piece;
use super::{BY_CPU, Sdhci, Table, UNKNOWN_NS};
use crate::host::pio::Cursor;
use crate::host::{Auto, BusyDetect, Data, Direction, Dma, Phase, Regs, Segment, StartError};
use crate::spec::command::{Command, Resp};
use core::ptr::NonNull;

/// Command index of STOP_TRANSMISSION, CMD12.
const STOP_TRANSMISSION: u8 = 12;
/// Distance of the boundaries at which SDMA stops, in bytes; see [`BOUNDARY_512K`].
pub(super) const BOUNDARY_BYTES: u64 = 512 * 1024;
/// Block length of a memory card's transfers, in bytes.
const BLOCK_BYTES: u32 = 512;

/// The phase that the controller executes now: one command with its response, data and busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) resp: Resp,
    pub(super) work: Work,
    /// Whether no other phase (a command with its data) was in progress when this one started.
    pub(super) alone: bool,
    /// Interrupt status bits that were set since the start of the phase.
    pub(super) seen: u32,
}

/// Returns whether the command is CMD18 or CMD25, even for a single block.
#[cold]
#[inline(never)]
fn takes_several(index: u8) -> bool {
    matches!(index, 18 | 25)
}

/// Returns whether the command itself makes the card busy on DAT0. DAT0 must be high before such a
/// command: otherwise the controller reports the end of busy only after the longest busy has
/// passed. CMD12 is exempt, since it may be sent during data or busy.
fn busy_follows(command: &Command) -> bool {
    command.resp == Resp::R1b && command.index != STOP_TRANSMISSION
}

/// Which automatic command the controller sends with a phase's command: none, a CMD23 (block count)
/// or a CMD12 (stop). For `Stop` and `TellingCount` the driver also reads the response to the
/// automatic command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Automatic {
    Nothing,
    Count,
    Stop,
    /// CMD23 after a write, or after busy. Its response may report errors of that write. The card
    /// reports them only once, so the response to the next command lacks them.
    TellingCount,
}

impl Active {
    /// A phase of one command with an R1 response, without data.
    const SHORT: Active = Active { resp: Resp::R1, work: Work::Command, alone: true, seen: 0 };
}

/// How a phase (a command with its data and busy) transfers data, or what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The command has no data.
    Command,
    /// The controller waits for the end of busy.
    Busy,
    /// The controller transfers the data without help, by ADMA2.
    Adma,
    /// The controller transfers the data by SDMA; the driver lets it continue at each boundary.
    Sdma,
    /// The CPU transfers the data through the buffer port.
    Pio(Direction),
    /// The controller receives a tuning block, whose data stay in the controller.
    Tuning,
}

impl Work {
    /// Returns the interrupt status bits of which all must be set when the command, with its data
    /// and busy, has ended.
    pub(super) const fn needs(self) -> u32 {
        match self {
            Work::Command => INT_COMMAND,
            Work::Busy | Work::Adma | Work::Sdma | Work::Pio(_) => INT_COMMAND | INT_TRANSFER,
            Work::Tuning => INT_BUFFER_READ,
        }
    }

    /// Returns the interrupts that the driver enables for the command in progress and its data.
    const fn signal(self) -> u32 {
        match self {
            Work::Command => INT_COMMAND,
            Work::Busy | Work::Adma => INT_TRANSFER,
            Work::Sdma => INT_TRANSFER | INT_DMA,
            Work::Pio(Direction::Read) => INT_TRANSFER | INT_BUFFER_READ,
            Work::Pio(Direction::Write) => INT_TRANSFER | INT_BUFFER_WRITE,
            Work::Tuning => INT_BUFFER_READ,
        }
    }

    pub(super) const fn has_data(self) -> bool {
        !matches!(self, Work::Command | Work::Busy)
    }
}

/// State of a transfer by SDMA or by the CPU. Kept apart from [`Active`], which is copied for every
/// command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    /// Bus address at which SDMA continues after its next stop.
    pub(super) sdma_next: u64,
    /// Bus address after the last byte of the transfer.
    pub(super) sdma_end: u64,
    /// Number of blocks that the CPU has not yet transferred through the buffer port.
    pub(super) blocks: u32,
    pub(super) block_bytes: u32,
    pub(super) cursor: Cursor,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    /// Starts a transfer, with the timeout `timeout_ns` of the card, that differs from an earlier
    /// one only in its blocks and its memory. Returns false and does nothing if other registers
    /// must change.
    #[inline(always)]
    pub(super) fn start_fast_data(
        &mut self,
        phase: &Phase,
        data: &Data,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> bool {
        let [segment] = segments else { return false };
        let Command { index, arg, resp } = phase.command;
        let Data { direction, block_size, blocks } = *data;
        let bytes = blocks.wrapping_mul(BLOCK_BYTES);
        let whole = u32::from(block_size) == BLOCK_BYTES && resp == Resp::R1 && !phase.tuning;
        // With 0 blocks the subtraction wraps around, so the comparison fails. With no more than
        // `fast_blocks` blocks, the multiplication above cannot have overflowed.
        let fits = blocks.wrapping_sub(1) < self.shadow.fast_blocks
            && bytes <= segment.len
            && segment.bus & BY_CPU == 0;
        if !whole || !fits || !self.idle || self.shadow.timeout_ns != timeout_ns {
            return false;
        }
        let Some((bus, here)) = piece(&self.dma, self.model.form.words, segment.bus, bytes) else {
            return false;
        };
        if here != bytes {
            return false;
        }
        let (auto_mode, auto) = match phase.auto {
            Auto::None => (0, Automatic::Nothing),
            Auto::Stop if self.caps.auto_stop => (MODE_AUTO_CMD12, Automatic::Stop),
            Auto::Count(_) if self.caps.auto_count => (MODE_AUTO_CMD23, self.count()),
            _ => return false,
        };
        let write = direction == Direction::Write;
        let way = if write { 0 } else { MODE_READ };
        let several = if blocks > 1 || takes_several(index) { MODE_MULTI } else { 0 };
        let table_bytes = self.table.build_one(self.model.form, bytes, bus);
        let place: NonNull<Table<DESCRIPTORS>> = NonNull::from(&mut *self.table);
        self.dma.sync(self.table_bus, place.cast(), table_bytes);
        self.port.write32(ADMA_ADDRESS, self.table_bus as u32);
        self.port.write32(BLOCK_SIZE, u32::from(block_size | BOUNDARY_512K) | blocks << 16);
        if let Auto::Count(argument) = phase.auto {
            self.port.write32(ARGUMENT_2, argument);
        }
        self.programs = write;
        self.auto = auto;
        let mode = way | several | auto_mode | MODE_DMA | MODE_BLOCK_COUNT;
        self.set_signal(self.shadow.base_signal | INT_TRANSFER);
        let active = Active { work: Work::Adma, ..Active::SHORT };
        self.send(active, INT_COMMAND | INT_TRANSFER, arg, index, COMMAND_48 | COMMAND_DATA, mode);
        true
    }

    /// Starts a command with an R1 response and without data. Returns false and does nothing if
    /// `phase` is not such a command.
    ///
    /// Such a command interrupts by Command Complete, and a transfer by Transfer Complete alone. So
    /// a command between two transfers costs two writes of Interrupt Signal Enable. With
    /// [`SdhciQuirks::R1_WITH_TC`] the driver sends the command as if the card might be busy; it
    /// then ends with Transfer Complete, as a transfer does. If the engine finds such an end only
    /// by its deadline, the driver stops using the quirk.
    #[inline(always)]
    pub(super) fn start_short(&mut self, phase: &Phase) -> bool {
        let Command { index, arg, resp } = phase.command;
        let other = phase.auto != Auto::None || phase.tuning || resp != Resp::R1;
        if other || index == STOP_TRANSMISSION {
            return false;
        }
        if !self.idle || self.shadow.fast_blocks == 0 {
            return false;
        }
        self.programs = false;
        self.auto = Automatic::Nothing;
        let mut active = Active::SHORT;
        let (mut signal, mut ends, mut kind) = (INT_COMMAND, INT_COMMAND, COMMAND_48);
        if self.r1_with_tc {
            (active.resp, ends, kind) = (Resp::R1b, INT_COMMAND | INT_TRANSFER, COMMAND_48_BUSY);
            signal = INT_TRANSFER;
        }
        self.set_signal(self.shadow.base_signal | signal);
        self.send(active, ends, arg, index, kind, 0);
        true
    }

    /// Sends the command of a phase: writes Argument, Transfer Mode and Command as the last step of
    /// its start. `index`, `arg` and `kind` are the command's index, argument and response type,
    /// `mode` is the value of Transfer Mode. `ends` is the interrupt status at its end. CMD and DAT
    /// are idle, since no other command or data transfer is in progress.
    #[inline(always)]
    fn send(&mut self, active: Active, ends: u32, arg: u32, index: u8, kind: u16, mode: u16) {
        self.idle = false;
        self.fast_end = ends;
        self.active = Some(active);
        self.port.write32(ARGUMENT, arg);
        let command = u32::from(index & 0x3f) << COMMAND_INDEX_SHIFT;
        let kind = u32::from(kind | COMMAND_CRC | COMMAND_INDEX);
        self.port.write32(TRANSFER_MODE, (command | kind) << 16 | u32::from(mode));
    }

    /// Returns which kind of automatic CMD23 the next command uses. After a write or a busy it is
    /// the kind whose response the driver reads, since the response may report errors of that
    /// write.
    #[inline(always)]
    fn count(&self) -> Automatic {
        if self.programs { Automatic::TellingCount } else { Automatic::Count }
    }

    pub(super) fn start_phase(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(), StartError> {
        let busy_follows = busy_follows(&phase.command);
        if !self.idle || busy_follows {
            // Check the lines first: the controller may still read a table that this start would
            // overwrite.
            self.check_lines(busy_follows || phase.data.is_some())?;
        }
        let mut command = self.command_bits(&phase.command);
        let (work, mode) = match &phase.data {
            Some(data) => {
                command |= COMMAND_DATA;
                self.program_data(phase, data, segments, timeout_ns)?
            }
            None if phase.auto != Auto::None || phase.tuning => return Err(StartError::Unsupported),
            None if self.ends_with_transfer(&phase.command) => {
                self.set_timeout(timeout_ns);
                (Work::Busy, 0)
            }
            None => (Work::Command, 0),
        };
        self.set_signal(self.shadow.base_signal | work.signal());
        self.idle = false;
        let alone = self.active.is_none();
        let writes = phase.data.is_some_and(|data| data.direction == Direction::Write);
        self.auto = match phase.auto {
            Auto::Stop => Automatic::Stop,
            Auto::Count(_) => self.count(),
            Auto::None | Auto::Open | Auto::Continue => Automatic::Nothing,
        };
        self.programs = writes || phase.command.resp == Resp::R1b;
        let resp = phase.command.resp;
        let fast = resp == Resp::R1 && alone && matches!(work, Work::Adma | Work::Command);
        self.fast_end = if fast { work.needs() } else { NEVER };
        if matches!(work, Work::Adma) && self.port.joins() && !self.model.form.nop_end {
            // From here on the registers hold all values that do not differ between such transfers.
            self.shadow.fast_blocks =
                (self.model.form.chunk / BLOCK_BYTES).min(self.caps.max_blocks).min(0xffff);
        }
        self.active = Some(Active { resp, work, alone, seen: 0 });
        self.port.write32(ARGUMENT, phase.command.arg);
        self.port.write_pair(TRANSFER_MODE, mode, command);
        Ok(())
    }

    /// Writes the registers for a data transfer, except argument and command. `timeout_ns`: how
    /// long the controller waits for the card. Returns how the data are transferred, and the
    /// transfer mode.
    #[inline]
    fn program_data(
        &mut self,
        phase: &Phase,
        data: &Data,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(Work, u16), StartError> {
        let bytes = data.blocks.checked_mul(data.block_size.into()).ok_or(StartError::Unsupported)?;
        if bytes == 0 || data.block_size > self.model.max_block_bytes || data.blocks > self.caps.max_blocks {
            return Err(StartError::Unsupported);
        }
        let mut mode = match phase.auto {
            Auto::None => 0,
            Auto::Stop if self.caps.auto_stop => MODE_AUTO_CMD12,
            Auto::Count(_) if self.caps.auto_count => MODE_AUTO_CMD23,
            _ => return Err(StartError::Unsupported),
        };
        if data.direction == Direction::Read {
            mode |= MODE_READ;
        }
        if data.blocks > 1 || matches!(phase.command.index, 18 | 25) {
            mode |= MODE_MULTI;
        }
        let work = if phase.tuning {
            Work::Tuning
        } else if DESCRIPTORS > 0
            && self.model.by_cpu == ByCpu::Never
            && self.model.mode == TransferMode::Adma2
        {
            self.program_adma(segments, bytes)?
        } else {
            self.program_other(data, segments, bytes)?
        };
        // Block Count Enable is set even for a single block, as Linux's driver does: some
        // controllers end a descriptor list by it.
        mode |= match work {
            Work::Adma | Work::Sdma => MODE_DMA | MODE_BLOCK_COUNT,
            Work::Tuning => 0,
            _ => MODE_BLOCK_COUNT,
        };
        self.set_timeout(timeout_ns);
        self.port.write_pair(BLOCK_SIZE, data.block_size | BOUNDARY_512K, data.blocks as u16);
        if let Auto::Count(argument) = phase.auto {
            self.port.write32(ARGUMENT_2, argument);
        }
        Ok((work, mode))
    }

    #[inline]
    fn program_adma(&mut self, segments: &[Segment], bytes: u32) -> Result<Work, StartError> {
        let table_bytes = self.table.build(self.model.form, &self.dma, segments, bytes);
        let table_bytes = table_bytes.ok_or(StartError::Unsupported)?;
        let place: NonNull<Table<DESCRIPTORS>> = NonNull::from(&mut *self.table);
        self.dma.sync(self.table_bus, place.cast(), table_bytes);
        let high = (self.table_bus >> 32) as u32;
        if self.model.wide && self.shadow.adma_high != Some(high) {
            self.port.write32(ADMA_ADDRESS_HIGH, high);
            self.shadow.adma_high = Some(high);
        }
        // The controller advances this register while it reads the table, so it is written each
        // time.
        self.port.write32(ADMA_ADDRESS, self.table_bus as u32);
        Ok(Work::Adma)
    }

    #[inline(never)]
    fn program_other(&mut self, data: &Data, segments: &[Segment], bytes: u32) -> Result<Work, StartError> {
        let by_cpu = segments.iter().filter(|segment| self.by_pio(segment)).count();
        if by_cpu != 0 {
            let held = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
            // The CPU must not access memory that is mapped for DMA, so the CPU transfers either
            // all segments or none.
            if by_cpu != segments.len() || held < bytes {
                return Err(StartError::Unsupported);
            }
            self.transfer =
                Transfer { blocks: data.blocks, block_bytes: data.block_size.into(), ..Transfer::default() };
            return Ok(Work::Pio(data.direction));
        }
        match (self.model.mode, segments) {
            (TransferMode::Adma2, _) if DESCRIPTORS > 0 => self.program_adma(segments, bytes),
            (TransferMode::Sdma, [segment]) if segment.len >= bytes => {
                // A late DMA Interrupt of the last transfer would make the driver continue this one
                // too early.
                self.port.write32(INT_STATUS, INT_DMA);
                self.set_sdma(segment.bus);
                self.transfer.sdma_end = segment.bus.wrapping_add(bytes.into());
                self.transfer.sdma_next = (segment.bus | (BOUNDARY_BYTES - 1)).wrapping_add(1);
                Ok(Work::Sdma)
            }
            _ => Err(StartError::Unsupported),
        }
    }

    /// Writes `bus`, the bus address at which SDMA continues. The write of the address's last byte
    /// also lets a stopped transfer continue.
    pub(super) fn set_sdma(&self, bus: u64) {
        if !self.model.v4 {
            return self.port.write32(SDMA_ADDRESS, bus as u32);
        }
        self.port.write32(ADMA_ADDRESS, bus as u32);
        if self.model.wide {
            self.port.write32(ADMA_ADDRESS_HIGH, (bus >> 32) as u32);
        }
    }

    /// Returns whether the controller signals the end of this command, which has no data, by
    /// Transfer Complete.
    fn ends_with_transfer(&self, command: &Command) -> bool {
        command.resp == Resp::R1b && self.model.busy == BusyDetect::Interrupt
            || command.index == STOP_TRANSMISSION && self.config.quirks.has(SdhciQuirks::STOP_WITH_TC)
    }

    /// Returns the value of the Command register, without Data Present Select.
    pub(super) fn command_bits(&self, command: &Command) -> u16 {
        let resp = match command.resp {
            Resp::None => 0,
            Resp::R2 => COMMAND_136 | COMMAND_CRC,
            Resp::R3 | Resp::R4 => COMMAND_48,
            Resp::R1b if self.model.busy == BusyDetect::Interrupt => {
                COMMAND_48_BUSY | COMMAND_CRC | COMMAND_INDEX
            }
            Resp::R1 | Resp::R1b | Resp::R5 | Resp::R6 | Resp::R7 => COMMAND_48 | COMMAND_CRC | COMMAND_INDEX,
        };
        let stop = if command.index == STOP_TRANSMISSION { COMMAND_ABORT } else { 0 };
        u16::from(command.index & 0x3f) << COMMAND_INDEX_SHIFT | resp | stop
    }

    /// Checks whether the lines are free for a command that uses DAT (`needs_dat`) or not. During a
    /// phase with data or busy, only commands without DAT may be sent. If the lines are free,
    /// clears late events of earlier phases.
    #[cold]
    pub(super) fn check_lines(&mut self, needs_dat: bool) -> Result<(), StartError> {
        self.end_concurrent()?;
        let state = self.port.read32(PRESENT);
        if state & PRESENT_CMD_INHIBIT != 0 {
            return Err(StartError::CommandLine);
        }
        let held = state & PRESENT_DAT0 == 0 && !self.config.quirks.has(SdhciQuirks::NO_DAT0_LEVEL);
        if needs_dat && (self.active.is_some() || state & PRESENT_DAT_INHIBIT != 0 || held) {
            return Err(StartError::DataLine);
        }
        if self.active.is_some_and(|active| matches!(active.work, Work::Command | Work::Tuning)) {
            return Err(StartError::CommandLine);
        }
        self.port.write32(INT_STATUS, super::events::OF_PHASE);
        Ok(())
    }

    /// Writes the data timeout counter; computes its value only if the timeout changes.
    pub(super) fn set_timeout(&mut self, timeout_ns: u64) {
        if self.shadow.timeout_ns != timeout_ns || timeout_ns == UNKNOWN_NS {
            self.change_timeout(timeout_ns);
        }
    }

    #[cold]
    fn change_timeout(&mut self, timeout_ns: u64) {
        let quirks = self.config.quirks;
        let clock = quirks.has(SdhciQuirks::TIMEOUT_USES_SD_CLOCK).then_some(self.bus.clock_hz);
        let (mut count, too_short) = self.model.clocks.timeout(timeout_ns, clock);
        if quirks.has(SdhciQuirks::BROKEN_TIMEOUT_VALUE) {
            count = TIMEOUT_MAX;
        }
        self.shadow.timeout_ns = timeout_ns;
        self.bus.timeout_masked = too_short && quirks.has(SdhciQuirks::MASK_LONG_TIMEOUT);
        let masked = if self.bus.timeout_masked { ERROR_DATA_TIMEOUT } else { 0 };
        self.shadow.base_signal = (self.shadow.base_signal | ERROR_DATA_TIMEOUT) & !masked;
        self.set_enable((self.shadow.enable | ERROR_DATA_TIMEOUT) & !masked);
        if self.shadow.timeout != Some(count) {
            self.port.write8(TIMEOUT, count);
            self.shadow.timeout = Some(count);
        }
    }
}
