//! SDI: the SD controller in Samsung's S3C24xx SoCs (register layout of the S3C2440).
//!
// Read first: `regs.rs` (the register map), then `phase.rs` (how a phase starts), `events.rs` (how
// a phase ends), `fifo.rs` (transfers by the CPU), `bus.rs` (clock, reset) and `card.rs` (the card
// interrupt).
//!
//! # Data
//! The FIFO has 64 bytes. [`ack`](Host::ack) transfers the words that the FIFO holds, or has space
//! for, at most 16, and returns. `ack` runs in the context that calls it, the interrupt or a
//! tasklet. While the FIFO is full or empty, the controller stops the SD clock, so a late `ack`
//! loses no data. With [`DmaUse::From`] the board's DMA controller transfers large buffers instead.
//! That DMA controller uses one segment of memory, so [`Caps::max_segments`] is 1 then.
//!
//! The controller reports the end of data on the bus. The driver reports the end when the FIFO is
//! empty and the DMA has stopped. Until then it enables the interrupt *transmit FIFO half empty*
//! and polls again, a bounded number of times. On a chip that raises no interrupt in this case, the
//! platform code calls [`Engine::on_irq`](crate::engine::Engine::on_irq) at the DMA's own end.
//!
//! # Accesses
//! Number of register accesses of a phase from start to end, without the words of the FIFO:
//!
//! | phase | to start | to end | sum |
//! |---|---|---|---|
//! | CMD52 | 2 | 3 | 5 |
//! | CMD53, 4 bytes from the card | 3 | 6 | 9 |
//! | CMD53, 2 KiB from the card | 3 | 6, and 1 at each half full: at most 64 | at most 73 |
//! | CMD53, 2 KiB to the card | 4 | 6, and 1 at each half empty: at most 71 | at most 81 |
//! | CMD53, 2 KiB by DMA | 6 | 7 | 13 |
//!
//! Each of these conditions costs one further access:
//!
//! - the phase is of another kind than the last one (interrupt enables),
//! - the phase is the first command after data (the data circuits are disarmed),
//! - the block size is new,
//! - the data are not whole words (the FIFO is emptied),
//! - the card interrupt is enabled (DAT1 is read).
//!
//! A phase takes one interrupt if it is a command without data, or has up to 31 bytes from the
//! card, or up to 60 bytes to the card.
//!
//! # Card interrupt
//! The controller detects the falling edge of DAT1 only while it is idle. So the driver itself
//! reads the level (a GPIO, [`regs::DAT1`]):
//!
//! - after each phase,
//! - when the engine enables the card interrupt (during a phase: at the end of the phase),
//! - after a reset,
//! - in each `ack` while no phase is in progress.
//!
//! A low level while no phase is in progress must be reported although no edge will follow. The
//! driver then enables the interrupt *transmit FIFO half empty*, which an empty FIFO asserts at
//! once, so that the next `ack` reports the card interrupt. On a chip that raises no interrupt in
//! this case, the platform code calls [`Engine::on_irq`](crate::engine::Engine::on_irq) once after
//! each [`unmask_card_irq`](crate::engine::Engine::unmask_card_irq); that is always allowed.
//!
//! # Limitations
//! The end of data to the card includes the card's busy. The controller does not detect the busy of
//! an R1b without data, and does not show the level of DAT0: [`BusyDetect::Status`]. The controller
//! has no card detection, no 1.8 V and no automatic commands. The driver always sets the
//! controller's timer to its longest time; the engine checks shorter deadlines.

mod bus;
mod card;
mod config;
mod events;
mod fifo;
mod phase;
pub mod regs;
#[cfg(test)]
mod tests;

use crate::host::dma::{at_a_line, map_whole};
use crate::host::{
    BlockSizes, BusOp, BusyDetect, Caps, Direction, Dma, DmaError, Events, Host, Phase, Regs, Segment,
    StartError, Step, Timing, Width,
};
use bus::Bus;
pub use config::{DmaUse, S3cSdiConfig, S3cSdiInitError};
use fifo::Transfer;
use phase::Active;
use regs::*;

/// Flag in [`Segment::bus`]: the segment is mapped for DMA. Bus addresses have 32 bits, so no
/// address uses this bit.
const MAPPED: u64 = 1 << 63;
/// Largest block of a command with data, in bytes.
const BLOCK_BYTES_MAX: u16 = 2048;

/// The driver of a controller with registers `R` and memory access `D`.
///
/// `R` has the controller's registers at their own offsets, the level of DAT1 at [`regs::DAT1`],
/// and the board's DMA controller (unless [`DmaUse::Never`]) at [`regs::DMA_ADDRESS`].
/// [`new`](S3cSdi::new) writes no register; [`BusOp::PowerOn`] initialises the controller.
pub struct S3cSdi<R: Regs, D: Dma> {
    regs: R,
    dma: D,
    config: S3cSdiConfig,
    caps: Caps,
    active: Option<Active>,
    transfer: Transfer,
    bus: Bus,
    /// True: the status has no stale bits and the FIFO is empty, because the last command (with its
    /// data) ended without an error, or the controller was reset.
    idle: bool,
    /// Whether the engine has enabled the card interrupt.
    card_irq: bool,
    /// Enabled interrupts, except the card interrupt.
    events: u32,
    /// Last value written to the interrupt mask register (SDIIntMsk); `None` if unknown.
    imsk: Option<u32>,
    /// Last value written to the block size register (SDIBSize), in bytes; `None` if unknown.
    block_bytes: Option<u32>,
    /// Whether the data control register (SDIDatCon) still holds a transfer, which the next command
    /// would start.
    armed: bool,
}

impl<R: Regs, D: Dma> S3cSdi<R, D> {
    /// Makes a driver for the controller at `regs`; reads one register, and writes none.
    pub fn new(regs: R, dma: D, config: S3cSdiConfig) -> Result<Self, S3cSdiInitError> {
        if config.width > Width::W4 {
            return Err(S3cSdiInitError::Width(config.width));
        }
        let slowest_hz = config.pclk_hz.div_ceil(DIVISOR_MAX);
        let fastest_hz = config.max_clock_hz.min(config.pclk_hz);
        if slowest_hz == 0 || fastest_hz < slowest_hz {
            let S3cSdiConfig { pclk_hz, max_clock_hz, .. } = config;
            return Err(S3cSdiInitError::Clock { pclk_hz, max_clock_hz });
        }
        if regs.read32(CON) == u32::MAX {
            return Err(S3cSdiInitError::Gone);
        }
        Ok(S3cSdi {
            regs,
            dma,
            config,
            caps: caps(&config, slowest_hz, fastest_hz),
            active: None,
            transfer: Transfer::default(),
            bus: Bus::new(),
            idle: false,
            card_irq: false,
            events: 0,
            imsk: None,
            block_bytes: None,
            armed: false,
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
        &self.regs
    }

    /// Returns whether the board's DMA controller transfers this segment.
    fn by_dma(&self, segment: &Segment, direction: Direction) -> bool {
        let line = self.dma.line_bytes();
        match self.config.dma {
            DmaUse::Never => false,
            DmaUse::From(bytes) => {
                segment.len >= bytes
                    && segment.len.is_multiple_of(4)
                    && segment.ptr.addr().get().is_multiple_of(4)
                    && segment.len != 0
                    && at_a_line(segment.ptr.addr().get(), direction, line)
                    && at_a_line(segment.len as usize, direction, line)
            }
        }
    }

    /// Enables the interrupts `events` (bits of [`IMSK`]), in addition to the card interrupt.
    fn enable(&mut self, events: u32) {
        self.events = events;
        let imsk = events | if self.card_irq { INT_SDIO } else { 0 };
        if self.imsk != Some(imsk) {
            self.regs.write32(IMSK, imsk);
            self.imsk = Some(imsk);
        }
    }
}

fn caps(config: &S3cSdiConfig, slowest_hz: u32, fastest_hz: u32) -> Caps {
    let dma = config.dma != DmaUse::Never;
    let high_speed = fastest_hz > 25_000_000;
    let max_bytes = COUNT_MAX * u32::from(BLOCK_BYTES_MAX);
    Caps {
        auto_stop: false,
        auto_count: false,
        no_count: false,
        continue_data: false,
        open_until_stopped: false,
        concurrent_command: false,
        busy: BusyDetect::Status,
        max_busy_ns: u64::from(TIMER_MAX) * 1_000_000_000 / u64::from(fastest_hz.max(1)),
        max_segments: if dma { 1 } else { u16::MAX },
        max_segment_bytes: max_bytes,
        max_block_bytes: BLOCK_BYTES_MAX,
        block_sizes: BlockSizes::Any,
        max_blocks: COUNT_MAX,
        max_bytes,
        align: 1,
        max_odd_bytes: u32::MAX,
        dma_bits: if dma { 32 } else { 0 },
        defer_completion: false,
        clock_hz: (slowest_hz, fastest_hz),
        width: config.width,
        timings: Caps::timing_bit(Timing::Legacy)
            | if high_speed { Caps::timing_bit(Timing::HighSpeed) } else { 0 },
        signal18: false,
        signal18_fixed: false,
        fixed: true,
    }
}

// SAFETY: the DMA gets only the one mapped segment, for no more bytes than it has; the CPU accesses
// only segments that are not mapped for DMA, by `Cursor`. The end of a phase, a reset that is
// `Done`, and a controller that is `Gone` are reported only after the board's DMA controller has
// stopped.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<R: Regs, D: Dma> Host for S3cSdi<R, D> {
    const CARD_IRQ: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        segment.bus = 0;
        if !self.by_dma(segment, direction) {
            return Ok(());
        }
        let len = segment.len as usize;
        let bus = map_whole(&self.dma, segment.ptr, len, direction)?;
        let reached = bus.checked_add(segment.len.into()).is_some_and(|end| end <= 1 << 32);
        if reached && bus.is_multiple_of(4) {
            segment.bus = bus | MAPPED;
            return Ok(());
        }
        self.dma.unmap(bus, segment.ptr, len, direction);
        Err(if reached { DmaError::Alignment } else { DmaError::Unreachable })
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        if segment.bus & MAPPED != 0 {
            self.dma.unmap(segment.bus & !MAPPED, segment.ptr, segment.len as usize, direction);
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], _timeout_ns: u64) -> Result<(), StartError> {
        self.start_phase(phase, segments)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.take_events(segments)
    }

    fn isolate(&mut self) -> bool {
        self.stop_dma();
        !self.dma_runs() || self.dma.isolate()
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.step_bus(op, first, now_ns)
    }

    /// Returns false, because the controller does not show the level of DAT0.
    fn dat0_busy(&self) -> bool {
        false
    }

    /// Returns true, because the controller has no card detection.
    fn present(&self) -> bool {
        true
    }

    fn card_irq(&mut self, on: bool) {
        if on { self.unmask_card() } else { self.mask_card() }
    }
}
