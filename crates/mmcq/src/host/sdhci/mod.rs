//! SDHCI 3.0 to 4.2: the SD Association's standard host controller.
//!
// Read first: `regs.rs` (the register map), then `phase.rs` (how a phase starts), `events.rs` (how
// a phase ends), `concurrent.rs` (a command during data), `early.rs` (the response of a transfer
// before the transfer ends) and `bus.rs` (clock, power, timing, reset). `config.rs` has the
// settings that a board gives, `profiles.rs` the settings of known boards; [`Sdhci::new`] reads the
// rest from the controller. `cqhci/` drives the command queue engine, and `adma3/` executes lists
// of transfers, on controllers that have them.
//!
//! One interrupt ends a data transfer: during data only Transfer Complete and errors are signalled.
//! The driver does not write a register again that already has the right value. So a 4 KiB transfer
//! takes four register writes to start and three register accesses to end.

mod adma3;
mod bus;
mod capabilities;
mod clock;
mod concurrent;
mod config;
mod cqhci;
mod early;
mod events;
mod phase;
mod port;
pub mod profiles;
pub mod regs;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod usdhc;

use crate::host::dma::{at_a_line, is_whole};
use crate::host::{
    BusOp, BusyDetect, Caps, Cause, Direction, Dma, DmaError, Events, FastEnd, Host, Phase, Regs, Segment,
    StartError, Step,
};
use crate::spec::command::Command;
pub use adma3::{Adma3, ChainList};
use bus::Bus;
use capabilities::{ByCpu, Model};
use concurrent::Concurrent;
use config::Lasting;
pub use config::{SdhciConfig, SdhciInitError, SdhciQuirks, TransferMode};
use core::ptr::NonNull;
pub use cqhci::{Cqhci, CqhciConfig, CqhciQuirks, TaskList};
use events::{ALL_BITS, NEVER};
use phase::{Active, Automatic, Transfer};
use port::Port;
use regs::*;
pub use streams::{OpenWrites, StreamConfig, Streams};
pub use table::Table;
pub use usdhc::Usdhc;

/// Flag in [`Segment::bus`]: the CPU transfers the segment, so it is not mapped for DMA. The flag
/// is bit 0, which is 0 in every DMA address. A part of a segment begins at a multiple of 4 bytes,
/// so it has the flag too.
const BY_CPU: u64 = 1;

/// The driver of an SDHCI with registers `R`, memory access `D`, and memory for `DESCRIPTORS` ADMA2
/// descriptors (0: no ADMA2).
///
/// [`new`](Sdhci::new) writes no register; [`BusOp::ResetAll`] and [`BusOp::PowerOn`] initialise
/// the controller.
pub struct Sdhci<R: Regs, D: Dma, const DESCRIPTORS: usize> {
    port: Port<R>,
    dma: D,
    table: &'static mut Table<DESCRIPTORS>,
    table_bus: u64,
    config: Lasting,
    model: Model,
    caps: Caps,
    active: Option<Active>,
    /// Interrupt status (all its bits) with which the command in progress ends without an error.
    /// Set only for a command that has an R1 and whose data the CPU does not transfer; otherwise
    /// [`NEVER`].
    fast_end: u32,
    /// Whether [`SdhciQuirks::R1_WITH_TC`] is used; false once the controller has shown that it
    /// lacks the quirk.
    r1_with_tc: bool,
    /// Which automatic command (CMD23 or CMD12) the controller sends in the phase in progress.
    auto: Automatic,
    /// State of a second command, sent while the data of another command are transferred; kept
    /// until its end is handled. `None`: there is no second command.
    concurrent: Option<Concurrent>,
    /// Mask of the interrupt status bits that belong to the phase (the command that is executed,
    /// with its data and busy). While another command is sent during the phase's data, the mask
    /// lacks the bits of the CMD line.
    own_bits: u32,
    transfer: Transfer,
    bus: Bus,
    /// Whether CMD and DAT are known to be idle and the interrupt status has no stale bits, because
    /// the last phase ended without an error.
    idle: bool,
    /// Whether the last command that the engine started wrote data, or made the card busy. The
    /// response to the next command then shows whether the card has executed it without an error.
    programs: bool,
    shadow: Shadow,
}

/// Marks that no timeout was computed yet; no transfer has this timeout.
const UNKNOWN_NS: u64 = 0;

/// Register values as last written; `None` after a reset or before the first write.
#[derive(Clone, Copy, Debug, Default)]
struct Shadow {
    enable: u32,
    /// Interrupt Signal Enable as last written; never 0 once the driver wrote it.
    signal: u32,
    /// Bits that are always set in Interrupt Signal Enable. Interrupt Status Enable decides which
    /// of these events the controller reports.
    base_signal: u32,
    timeout: Option<u8>,
    /// The timeout in nanoseconds that `timeout` was computed for; [`UNKNOWN_NS`] if it must be
    /// computed again.
    timeout_ns: u64,
    adma_high: Option<u32>,
    /// Largest number of blocks with which a transfer in one segment needs only the registers that
    /// differ between transfers ([`Sdhci::start_fast_data`]); 0 if not known yet.
    fast_blocks: u32,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    /// Makes a driver for the controller at `regs`. Reads version and capabilities, and maps the
    /// descriptor table for DMA for the lifetime of the program.
    pub fn new(
        regs: R,
        dma: D,
        table: &'static mut Table<DESCRIPTORS>,
        config: SdhciConfig,
    ) -> Result<Self, SdhciInitError> {
        let port = Port::new(regs, config.quirks);
        let version = port.read16(VERSION);
        if version == u16::MAX {
            return Err(SdhciInitError::Gone);
        }
        let announced = config.capabilities.unwrap_or_else(|| {
            u64::from(port.read32(CAPABILITIES)) | u64::from(port.read32(CAPABILITIES_2)) << 32
        });
        let line_bytes = dma.line_bytes();
        let model = Model::new(version as u8, announced, &config, DESCRIPTORS, line_bytes)?;
        let caps = model.caps(announced, &config, DESCRIPTORS, line_bytes);
        let mut table_bus = 0;
        if DESCRIPTORS > 0 && model.mode == TransferMode::Adma2 {
            let bytes = Table::<DESCRIPTORS>::BYTES;
            let place = NonNull::from(&mut *table).cast();
            table_bus = dma.map(place, bytes, Direction::Write).map_err(SdhciInitError::Table)?;
            let end = table_bus.checked_add(bytes as u64);
            if end.is_none_or(|end| if model.wide { end >> 32 != table_bus >> 32 } else { end > 1 << 32 }) {
                // The controller cannot reach the table; or addresses have 64 bits, and the table
                // crosses or ends at a multiple of 4 GiB. Then the address register, which at last
                // points behind the last descriptor, would change its upper half.
                dma.unmap(table_bus, place, bytes, Direction::Write);
                return Err(SdhciInitError::Table(DmaError::Unreachable));
            }
        }
        Ok(Sdhci {
            port,
            dma,
            table,
            table_bus,
            bus: Bus::new(&model),
            config: config.lasting(),
            model,
            caps,
            active: None,
            fast_end: NEVER,
            r1_with_tc: config.quirks.has(SdhciQuirks::R1_WITH_TC) && model.busy == BusyDetect::Interrupt,
            auto: Automatic::Nothing,
            concurrent: None,
            own_bits: ALL_BITS,
            transfer: Transfer::default(),
            idle: false,
            programs: false,
            shadow: Shadow::default(),
        })
    }

    /// Returns the registers, for other code that accesses them (vendor registers, models).
    ///
    /// # Safety
    /// The caller writes no register that the driver uses, because register writes decide which
    /// memory the controller accesses. The caller also reads no register whose value a read
    /// changes.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub unsafe fn regs(&self) -> &R {
        &self.port.regs
    }

    /// Returns the transfer mode that the driver has chosen: ADMA2, SDMA or PIO.
    pub fn transfer_mode(&self) -> TransferMode {
        self.model.mode
    }

    /// Returns whether the CPU transfers a segment of `len` bytes through the buffer port. For such
    /// a segment the driver does not call [`Dma::map`].
    pub fn moves_by_cpu(&self, len: u32) -> bool {
        match self.model.by_cpu {
            ByCpu::Never => false,
            ByCpu::OddLengths => len & (self.dma.line_bytes().max(4) - 1) != 0,
            ByCpu::Always => true,
        }
    }

    /// Returns whether the CPU transfers this mapped segment through the buffer port.
    fn by_pio(&self, segment: &Segment) -> bool {
        match self.model.by_cpu {
            ByCpu::Never => false,
            ByCpu::OddLengths => segment.bus & BY_CPU != 0,
            ByCpu::Always => true,
        }
    }

    /// Writes Interrupt Signal Enable if its value changes.
    #[inline]
    fn set_signal(&mut self, signal: u32) {
        if self.shadow.signal != signal {
            self.port.write32(INT_SIGNAL, signal);
            self.shadow.signal = signal;
        }
    }

    fn set_enable(&mut self, enable: u32) {
        if self.shadow.enable != enable {
            self.port.write32(INT_ENABLE, enable);
            self.shadow.enable = enable;
        }
    }

    /// Returns whether the controller is off the bus ([`Cause::Gone`]): its registers read as all
    /// ones.
    fn is_gone(&self) -> bool {
        self.port.read32(INT_STATUS) == u32::MAX && self.present_state().is_none()
    }

    /// Returns the Present State register; `None` if the controller is off the bus.
    fn present_state(&self) -> Option<u32> {
        Some(self.port.read32(PRESENT)).filter(|&state| state != u32::MAX)
    }
}

// SAFETY: `phase.rs` makes descriptors and SDMA addresses only from the segments, for no more bytes
// than the segments have; otherwise it refuses the phase. SDMA continues only below the segment's
// end. The CPU accesses only memory inside the segments, by `Cursor`. `active` is cleared when the
// end is reported, and a reset is `Done` when the controller has cleared its bit [SDHC 2.2.20]. The
// table is `'static`, and written only when no phase is active.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Host for Sdhci<R, D, DESCRIPTORS> {
    const CONCURRENT: bool = true;
    const CARD_IRQ: bool = true;
    const EARLY_R1: bool = true;
    const DEFERS_BY_REQUEST: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn is_prompt(&self, segment: &Segment, direction: Direction) -> bool {
        let always = self.config.quirks.has(SdhciQuirks::DEFER_COMPLETION);
        !always && (direction == Direction::Write || self.by_pio(segment))
    }

    fn retune_ns(&self) -> u64 {
        self.model.retune_ns()
    }

    #[inline(always)]
    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        segment.bus = 0;
        if self.moves_by_cpu(segment.len) {
            segment.bus = if self.model.by_cpu == ByCpu::OddLengths { BY_CPU } else { 0 };
            return Ok(());
        }
        if !at_a_line(segment.ptr.addr().get(), direction, self.dma.line_bytes()) {
            return Err(DmaError::Alignment);
        }
        let bus = self.dma.map(segment.ptr, segment.len as usize, direction)?;
        let end = bus.wrapping_add(segment.len.into());
        let within = end >= bus && (end.wrapping_sub(1) >> 32 == 0 || self.model.wide);
        // SDMA counts its address up from the first one, so the memory must be one piece.
        let listed =
            !D::IN_PIECES || self.model.mode == TransferMode::Adma2 || is_whole(&self.dma, bus, segment.len);
        if within && listed && bus.is_multiple_of(4) {
            segment.bus = bus;
            return Ok(());
        }
        let wrong = if D::IN_PIECES && !listed {
            DmaError::Scattered
        } else if within {
            DmaError::Alignment
        } else {
            DmaError::Unreachable
        };
        self.dma.unmap(bus, segment.ptr, segment.len as usize, direction);
        Err(wrong)
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        if !self.by_pio(segment) {
            self.dma.unmap(segment.bus, segment.ptr, segment.len as usize, direction);
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.start_phase(phase, segments, timeout_ns)
    }

    #[inline(always)]
    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let fast = match &phase.data {
            Some(data) => self.start_fast_data(phase, data, segments, timeout_ns),
            None => self.start_short(phase),
        };
        if fast { Ok(()) } else { self.start_phase(phase, segments, timeout_ns) }
    }

    fn start_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        self.send_concurrent(command)
    }

    fn ack_concurrent(&mut self) -> Option<Result<u32, Cause>> {
        self.take_concurrent()
    }

    fn abort_concurrent(&mut self) {
        self.reset_concurrent();
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.take_events(segments)
    }

    #[inline(always)]
    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        self.take_end(segments)
    }

    fn early_r1(&mut self) -> Option<u32> {
        self.response_so_far()
    }

    fn interrupt_lost(&mut self) {
        self.r1_with_tc = false;
    }

    fn command_hangs(&self) -> bool {
        let both = PRESENT_CMD_INHIBIT | PRESENT_DAT_INHIBIT;
        self.present_state().is_some_and(|state| state & both == PRESENT_CMD_INHIBIT)
    }

    fn isolate(&mut self) -> bool {
        self.caps.dma_bits == 0 || self.is_gone() || self.dma.isolate()
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.step_bus(op, first, now_ns)
    }

    fn dat0_busy(&self) -> bool {
        self.dat_levels() & 1 == 0
    }

    fn dat_levels(&self) -> u8 {
        let state = self.present_state().unwrap_or(PRESENT_DAT);
        (state >> PRESENT_DAT_SHIFT & 0xf) as u8
    }

    fn supply_ma(&self) -> u16 {
        let shift = match self.model.voltage {
            POWER_3V3 => 0,
            POWER_3V0 => 8,
            _ => 16,
        };
        match (self.config.supply_ma, self.port.read32(MAX_CURRENT)) {
            (0, u32::MAX) => 0,
            (0, register) => (register >> shift & 0xff) as u16 * MAX_CURRENT_STEP_MA,
            (board, _) => board,
        }
    }

    fn present(&self) -> bool {
        self.caps.fixed || self.present_state().is_some_and(|state| state & PRESENT_INSERTED != 0)
    }

    fn write_protected(&self) -> bool {
        if self.caps.fixed {
            return false;
        }
        let Some(state) = self.present_state() else { return false };
        (state & PRESENT_WRITE_ENABLED == 0) != self.config.quirks.has(SdhciQuirks::INVERTED_WRITE_PROTECT)
    }

    fn card_irq(&mut self, on: bool) {
        self.bus.card_irq = on;
        let enable = if on { self.shadow.enable | INT_CARD } else { self.shadow.enable & !INT_CARD };
        self.set_enable(enable);
    }
}
