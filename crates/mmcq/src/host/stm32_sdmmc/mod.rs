//! ST's SDMMC, versions 2 and 3: the controller of STM32 H7, H5, U5, L4+, L5, N6 and MP1.
//!
// Read first: `regs.rs` (the register map), then `phase.rs` (how a phase starts), `events.rs` (how
// it ends), `bus.rs` (power, clock, voltage, reset), `tune.rs` (the delay block) and `table.rs` (the
// list of pieces). `config.rs` has what a board must say.
//!
//! No hardware and no foreign model has judged this driver: the project's own register model has.
//!
//! # Data
//! The internal DMA moves them: one piece, or a list of them ([`Pieces`]) where the controller has
//! one (MP1, N6). What it cannot (a length that is not whole words, or not whole cache lines), the
//! CPU moves through the FIFO. The clock stops where the FIFO would run over or empty.
//!
//! # Busy
//! The end of busy interrupts, after a response and after data. Its timer is that of data. There is
//! no automatic CMD12 or CMD23.
//!
//! # After an error
//! Only a command that is marked as an end brings a data path back that has failed. So
//! [`BusOp::ResetLines`] sends CMD12 then (after a CMD53: CMD52, which writes I/O Abort). A card in
//! `tran` does not answer that, and says ILLEGAL_COMMAND in its next R1.
//!
//! # Power
//! Only a reset of the controller switches a card's power off again: [`Stm32Board::reset`].

mod bus;
mod config;
mod events;
mod phase;
mod regs;
mod table;
#[cfg(test)]
mod tests;
mod tune;

use crate::host::dma::at_a_line;
use crate::host::{
    BusOp, Caps, Direction, Dma, DmaError, Events, Host, Phase, Regs, Segment, StartError, Step,
};
use bus::Bus;
pub use config::{Stm32SdmmcConfig, Stm32SdmmcInitError};
use core::ptr::NonNull;
use phase::Active;
use regs::*;
pub use table::Pieces;
pub use tune::Stm32Board;

/// In [`Segment::bus`]: the CPU moves it. Bus addresses have 32 bits, so it is none of theirs.
const BY_CPU: u64 = 1 << 63;

/// A controller behind registers `R`, memory seen through `D`, on a board `S`.
///
/// With `PIECES` of 1 a transfer is one piece of memory. More need a controller with a list.
/// Nothing is written by [`new`](Stm32Sdmmc::new); [`BusOp::PowerOn`] brings the controller up.
pub struct Stm32Sdmmc<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> {
    regs: R,
    dma: D,
    board: S,
    list: &'static mut Pieces<PIECES>,
    list_bus: u32,
    config: Stm32SdmmcConfig,
    caps: Caps,
    active: Option<Active>,
    bus: Bus,
    /// A phase with data has failed, and no reset has followed.
    failed: Option<Failed>,
    /// The mask as it was written last.
    mask: Option<u32>,
}

/// What ends the data path of a phase that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// CMD12.
    Card,
    /// CMD52, which writes this function's number to I/O Abort.
    Function(u8),
}

impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Stm32Sdmmc<R, D, S, PIECES> {
    /// A driver for the controller at `regs`, which is read only; maps the list, once and for good.
    pub fn new(
        regs: R,
        dma: D,
        board: S,
        list: &'static mut Pieces<PIECES>,
        config: Stm32SdmmcConfig,
    ) -> Result<Self, Stm32SdmmcInitError> {
        let caps = config.caps(PIECES, board.taps() != 0)?;
        if regs.read32(STATUS) == u32::MAX {
            return Err(Stm32SdmmcInitError::Gone);
        }
        let place = NonNull::from(&mut *list).cast();
        let bytes = Pieces::<PIECES>::BYTES;
        let mut list_bus = 0;
        if PIECES > 1 {
            let bus = dma.map(place, bytes, Direction::Write).map_err(Stm32SdmmcInitError::List)?;
            match config.reach(bus, bytes as u64) {
                Some(bus) if bus.is_multiple_of(4) => list_bus = bus,
                reached => {
                    dma.unmap(bus, place, bytes, Direction::Write);
                    let error = if reached.is_some() { DmaError::Alignment } else { DmaError::Unreachable };
                    return Err(Stm32SdmmcInitError::List(error));
                }
            }
        }
        Ok(Stm32Sdmmc {
            regs,
            dma,
            board,
            list,
            list_bus,
            config,
            caps,
            active: None,
            bus: Bus::new(),
            failed: None,
            mask: None,
        })
    }

    /// The registers, for code that looks on (vendor registers, models).
    ///
    /// # Safety
    /// Nothing that the driver owns is written, nor read where reading changes it: a controller
    /// goes where its registers send it.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub unsafe fn regs(&self) -> &R {
        &self.regs
    }

    /// Writes the interrupt mask if it differs from what is there; the card's interrupt as it is
    /// wanted.
    fn set_mask(&mut self, mask: u32) {
        let mask = mask | if self.bus.hears_card() { CARD_INTERRUPT } else { 0 };
        if self.mask != Some(mask) {
            self.regs.write32(MASK, mask);
            self.mask = Some(mask);
        }
    }

    fn is_gone(&self) -> bool {
        self.regs.read32(STATUS) == u32::MAX && self.regs.read32(POWER) == u32::MAX
    }

    /// Does the CPU move a buffer of this length?
    fn by_cpu(&self, len: u32) -> bool {
        len & (self.dma.line_bytes().max(4) - 1) != 0
    }
}

impl Stm32SdmmcConfig {
    /// An address with so many bytes behind it, if the DMA reaches them all.
    fn reach(&self, bus: u64, bytes: u64) -> Option<u32> {
        let last = bus.checked_add(bytes.saturating_sub(1))?;
        let (from, to) = (u64::from(self.dma_window.0), u64::from(self.dma_window.1));
        u32::try_from(bus).ok().filter(|_| bus >= from && last <= to)
    }
}

// SAFETY: the registers and the list get addresses of the mapped segments alone, for no more bytes
// than they have, or the phase is refused; the CPU moves what `Cursor` finds inside segments that
// are not mapped for DMA. `active` is taken when the end is reported: of a read, when the data path
// has emptied its FIFO. A reset is `Done` when the data path is idle and the DMA is off, or the whole
// controller was reset. The list is `'static`, and written only when no phase is active.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Host for Stm32Sdmmc<R, D, S, PIECES> {
    const CARD_IRQ: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        segment.bus = BY_CPU;
        if self.by_cpu(segment.len) {
            return Ok(());
        }
        let len = segment.len as usize;
        if !at_a_line(segment.ptr.addr().get(), direction, self.dma.line_bytes()) {
            return Err(DmaError::Alignment);
        }
        let bus = self.dma.map(segment.ptr, len, direction)?;
        let reached = self.config.reach(bus, segment.len.into());
        if reached.is_some() && bus.is_multiple_of(4) {
            segment.bus = bus;
            return Ok(());
        }
        self.dma.unmap(bus, segment.ptr, len, direction);
        Err(if reached.is_some() { DmaError::Alignment } else { DmaError::Unreachable })
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        if segment.bus & BY_CPU == 0 {
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

    /// As it was sampled behind the last response.
    fn dat0_busy(&self) -> bool {
        let status = self.regs.read32(STATUS);
        status != u32::MAX && status & BUSY != 0
    }

    /// The slot's switch is not the controller's; a missing card does not answer.
    fn present(&self) -> bool {
        true
    }

    fn card_irq(&mut self, on: bool) {
        self.bus.hear_card(on);
        self.regs.write32(DATA_CONTROL, self.bus.data_control());
        if on {
            self.regs.write32(CLEAR, CARD_INTERRUPT);
        }
        let mask = self.mask.unwrap_or(0) & !CARD_INTERRUPT;
        self.set_mask(mask);
    }
}
