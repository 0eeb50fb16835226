//! ST's SDMMC, versions 2 and 3: the controller of STM32 H7, H5, U5, L4+, L5, N6 and MP1.
//!
// Read first: `regs.rs` (the register map), then `phase.rs` (how a phase starts), `events.rs` (how
// a phase ends), `bus.rs` (supply, clock, voltage, reset), `tune.rs` (the delay block) and
// `table.rs` (the list of pieces). `streams.rs` keeps writes open. `config.rs` has the settings that a board gives.
//!
//! This driver was tested only on the project's own register model, not on hardware or on another
//! project's model.
//!
//! # Data
//! The internal DMA transfers data: one segment, or a list of them ([`Pieces`]) if the controller
//! supports lists (MP1, N6). Data whose length is not a multiple of a word or of a cache line go
//! through a bounce buffer of 512 bytes; longer data of this kind are refused. The CPU never uses
//! the FIFO, because the FIFO raises no interrupt for the last words of a read. The controller
//! stops the card's clock before the FIFO overruns or runs empty.
//!
//! # Busy
//! The end of busy raises an interrupt after a response. After data it does so only if the board
//! has set [`Stm32SdmmcConfig::busy_after_data`]; otherwise the engine reads the card's status.
//! Busy and data share one timer. The controller has no automatic CMD12 or CMD23.
//!
//! # After an error
//! Only a command with the flag CMDSTOP resets a data path that has failed. So
//! [`BusOp::ResetLines`] then sends CMD12 (after a CMD53: CMD52, which writes I/O Abort). A card in
//! `tran` does not respond to CMD12, and reports ILLEGAL_COMMAND in its next R1.
//!
//! # Power
//! Only a reset of the controller ([`Stm32Board::reset`]) can switch a card's supply off again.

mod bus;
mod config;
mod events;
mod phase;
mod regs;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod tune;

use crate::host::dma::{at_a_line, map_whole};
use crate::host::{
    BusOp, Caps, Direction, Dma, DmaError, Events, Host, Phase, Regs, Segment, StartError, Step,
};
use bus::Bus;
pub use config::{Stm32SdmmcConfig, Stm32SdmmcInitError};
use core::ptr::NonNull;
use phase::Active;
use regs::*;
pub use streams::OpenStm32Sdmmc;
use table::BOUNCE_BYTES;
pub use table::Pieces;
pub use tune::Stm32Board;

/// Flag in [`Segment::bus`]: the segment goes through the bounce buffer. Bus addresses have 32
/// bits, so no address uses this bit.
const BOUNCED: u64 = 1 << 63;

/// The driver of a controller with registers `R`, memory access `D` and board `S`.
///
/// With `PIECES` of 1 a transfer has one segment of memory. A larger number needs a controller that
/// supports lists. [`new`](Stm32Sdmmc::new) writes only registers of the DMA, to check that they
/// exist; [`BusOp::PowerOn`] initialises the controller.
pub struct Stm32Sdmmc<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> {
    regs: R,
    dma: D,
    board: S,
    list: &'static mut Pieces<PIECES>,
    list_bus: u32,
    /// Bus address and direction of the bounce buffer while it is mapped.
    bounce: Option<(u64, Direction)>,
    config: Stm32SdmmcConfig,
    caps: Caps,
    active: Option<Active>,
    bus: Bus,
    /// How the data path must be reset because a command with data has failed; `None` if it needs
    /// no reset.
    failed: Option<Failed>,
    /// Last value written to the interrupt mask; `None` before the first write.
    mask: Option<u32>,
}

/// The command that the driver sends to reset the controller's data path after a failed phase (a
/// command with its data).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// The abort of a failed transfer of a memory card: CMD12.
    Card,
    /// CMD52, which writes this function's number to I/O Abort of an I/O card.
    Function(u8),
}

impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Stm32Sdmmc<R, D, S, PIECES> {
    /// Makes a driver for the controller at `regs`, which must be idle. Maps the list for DMA for
    /// the lifetime of the program.
    pub fn new(
        regs: R,
        dma: D,
        board: S,
        list: &'static mut Pieces<PIECES>,
        config: Stm32SdmmcConfig,
    ) -> Result<Self, Stm32SdmmcInitError> {
        let mut caps = config.caps(PIECES, board.taps() != 0)?;
        caps.align = caps.align.max(dma.line_bytes());
        if regs.read32(STATUS) == u32::MAX {
            return Err(Stm32SdmmcInitError::Gone);
        }
        // Checked now, so that no phase fails later because the buffer is out of reach.
        let place = list.bounce();
        if !at_a_line(place.addr().get(), Direction::Read, dma.line_bytes()) {
            return Err(Stm32SdmmcInitError::List(DmaError::Alignment));
        }
        let bus = mapped(&dma, &config, place, BOUNCE_BYTES, Direction::Read);
        let bus = bus.map_err(Stm32SdmmcInitError::List)?;
        dma.unmap(bus.into(), place, BOUNCE_BYTES as usize, Direction::Read);
        let holds = |register, value| {
            regs.write32(register, value);
            regs.read32(register) == value
        };
        if !holds(DMA_BASE, bus) {
            return Err(Stm32SdmmcInitError::NoDma);
        }
        if PIECES > 1 && !holds(DMA_LIST, bus) {
            return Err(Stm32SdmmcInitError::NoList);
        }
        if PIECES > 1 && !holds(DMA_SIZE, config.piece_bytes) {
            return Err(Stm32SdmmcInitError::Piece(config.piece_bytes));
        }
        let mut list_bus = 0;
        if PIECES > 1 {
            let bytes = Pieces::<PIECES>::LIST_BYTES as u32;
            let bus = mapped(&dma, &config, list.list(), bytes, Direction::Write);
            list_bus = bus.map_err(Stm32SdmmcInitError::List)?;
        }
        Ok(Stm32Sdmmc {
            regs,
            dma,
            board,
            list,
            list_bus,
            bounce: None,
            config,
            caps,
            active: None,
            bus: Bus::new(),
            failed: None,
            mask: None,
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

    /// Enables the interrupts in `mask`, and the card interrupt if the engine has unmasked it. The
    /// register is written only if its value changes.
    fn set_mask(&mut self, mask: u32) {
        let mask = mask | if self.bus.hears_card() { CARD_INTERRUPT } else { 0 };
        if self.mask != Some(mask) {
            self.regs.write32(MASK, mask);
            self.mask = Some(mask);
        }
    }

    /// Enables the detection of the card interrupt when no data are in progress. During data a
    /// write to the data control register would be lost, or abort the data.
    fn listen(&mut self) {
        let works = self.active.is_some() || self.failed.is_some();
        if self.bus.listens_soon() && !works && self.regs.read32(STATUS) & DATA_ACTIVE == 0 {
            self.regs.write32(DATA_CONTROL, self.bus.data_control());
            self.bus.wrote_data_control();
        }
    }

    fn is_gone(&self) -> bool {
        self.regs.read32(STATUS) == u32::MAX && self.regs.read32(POWER) == u32::MAX
    }

    /// Returns whether the CPU transfers a segment of `len` bytes through the bounce buffer. For
    /// such a segment the driver does not call [`Dma::map`].
    pub fn moves_by_cpu(&self, len: u32) -> bool {
        len & (self.dma.line_bytes().max(4) - 1) != 0
    }

    /// Maps the bounce buffer; before a write, fills it with the data. Returns the bus address;
    /// `None` if the DMA cannot reach the buffer.
    fn map_bounce(&mut self, segments: &[Segment], bytes: u32, direction: Direction) -> Option<u32> {
        if direction == Direction::Write {
            self.list.fill_bounce(segments, bytes);
        }
        let bus = mapped(&self.dma, &self.config, self.list.bounce(), BOUNCE_BYTES, direction).ok()?;
        self.bounce = Some((bus.into(), direction));
        Some(bus)
    }

    /// Unmaps the bounce buffer, after the DMA was switched off.
    fn unmap_bounce(&mut self) {
        if let Some((bus, direction)) = self.bounce.take() {
            self.dma.unmap(bus, self.list.bounce(), BOUNCE_BYTES as usize, direction);
        }
    }
}

/// Maps `bytes` bytes at `place` for DMA, and returns their bus address. If the DMA cannot reach
/// the memory, or its bus address is not a multiple of 4, unmaps it and returns an error.
fn mapped<D: Dma>(
    dma: &D,
    config: &Stm32SdmmcConfig,
    place: NonNull<u8>,
    bytes: u32,
    direction: Direction,
) -> Result<u32, DmaError> {
    let bus = map_whole(dma, place, bytes as usize, direction)?;
    match config.reach(bus, bytes.into()) {
        Some(bus) if bus.is_multiple_of(4) => Ok(bus),
        reached => {
            dma.unmap(bus, place, bytes as usize, direction);
            Err(if reached.is_some() { DmaError::Alignment } else { DmaError::Unreachable })
        }
    }
}

impl Stm32SdmmcConfig {
    /// Returns `bus` as a 32-bit address if the DMA reaches `bytes` bytes from there; `None`
    /// otherwise.
    fn reach(&self, bus: u64, bytes: u64) -> Option<u32> {
        let last = bus.checked_add(bytes.saturating_sub(1))?;
        let (from, to) = (u64::from(self.dma_window.0), u64::from(self.dma_window.1));
        u32::try_from(bus).ok().filter(|_| bus >= from && last <= to)
    }
}

// SAFETY: registers and list get only addresses of the mapped segments, for no more bytes than the
// segments have; otherwise the phase is refused. Or they get the address of the bounce buffer, for
// which the CPU copies only memory inside segments that are not mapped for DMA. `active` is cleared
// when the end is reported; for a read, after the data path has emptied its FIFO. A reset is `Done`
// when the data path is idle and the DMA is off, or the whole controller was reset. List and bounce
// buffer are `'static`, and written only when no phase is active.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Host for Stm32Sdmmc<R, D, S, PIECES> {
    const CARD_IRQ: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        segment.bus = BOUNCED;
        if self.moves_by_cpu(segment.len) {
            return Ok(());
        }
        if !at_a_line(segment.ptr.addr().get(), direction, self.dma.line_bytes()) {
            return Err(DmaError::Alignment);
        }
        segment.bus = mapped(&self.dma, &self.config, segment.ptr, segment.len, direction)?.into();
        Ok(())
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        if segment.bus & BOUNCED == 0 {
            self.dma.unmap(segment.bus, segment.ptr, segment.len as usize, direction);
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.start_phase(phase, segments, timeout_ns)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.take_events(segments)
    }

    fn isolate(&mut self) -> bool {
        self.is_gone() || self.board.reset() || self.dma.isolate()
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.step_bus(op, first, now_ns)
    }

    /// Returns whether DAT0 was low when the controller sampled it after the last response.
    fn dat0_busy(&self) -> bool {
        let status = self.regs.read32(STATUS);
        status != u32::MAX && status & BUSY != 0
    }

    /// Returns true, because the controller has no card detection. A missing card shows by its
    /// missing response.
    fn present(&self) -> bool {
        true
    }

    fn card_irq(&mut self, on: bool) {
        self.bus.hear_card(on);
        self.listen();
        if on {
            self.regs.write32(CLEAR, CARD_INTERRUPT);
        }
        let mask = self.mask.unwrap_or(0) & !CARD_INTERRUPT;
        self.set_mask(mask);
    }
}
