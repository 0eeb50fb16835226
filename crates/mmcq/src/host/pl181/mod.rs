//! ARM's PrimeCell MCI (PL180 and PL181), and controllers derived from it.
//!
// Read first: `regs.rs` (the register map), then `phase.rs` (how a phase starts), `events.rs` (how
// a phase continues and ends) and `bus.rs` (clock, supply, lines). `config.rs` has the settings
// that a board gives.
//!
//! Command path and data path are two state machines. The command path sends 48 bits and receives
//! 48 or 136 bits. The data path transfers `DATA_LENGTH` bytes in blocks of a power of two, through
//! a FIFO that the CPU reads and writes. The controller has no flow control: if the CPU is too
//! late, the FIFO overruns (or runs empty in a write), which is an error. For a read the data path
//! starts before the command, for a write after the response. A phase has at most 65535 bytes. The
//! controller does not detect busy.
//!
//! The controller has two interrupt lines. The driver uses the first (MCIINTR0) and masks the
//! second.

mod bus;
mod config;
mod events;
mod phase;
pub mod regs;
#[cfg(test)]
mod tests;

use crate::host::{BusOp, Caps, Direction, DmaError, Events, Host, Phase, Regs, Segment, StartError, Step};
use bus::Bus;
pub use config::{Pl181Config, Pl181InitError};
use phase::{Active, Transfer};
use regs::*;

/// The driver of a controller with registers `R`. The registers include the identification
/// registers at FE0h, unless [`Pl181Config::fifo_words`] is given.
///
/// [`new`](Pl181::new) writes no register; [`BusOp::ResetAll`] and [`BusOp::PowerOn`] initialise
/// the controller.
pub struct Pl181<R: Regs> {
    regs: R,
    config: Pl181Config,
    caps: Caps,
    fifo_words: u16,
    gap_reads: u32,
    active: Option<Active>,
    transfer: Transfer,
    bus: Bus,
    /// Last value written to MCIMask0; `None` before the first write.
    mask: Option<u32>,
}

impl<R: Regs> Pl181<R> {
    /// Makes a driver for the controller at `regs`; reads the identification, and writes no
    /// register.
    pub fn new(regs: R, config: Pl181Config) -> Result<Self, Pl181InitError> {
        if config.mclk_hz == 0 {
            return Err(Pl181InitError::NoClock);
        }
        if regs.read32(STATUS) == u32::MAX {
            return Err(Pl181InitError::Gone);
        }
        let id = match config.fifo_words {
            Some(_) => 0,
            None => [0, 1, 2, 3]
                .into_iter()
                .fold(0, |id, n| id | (regs.read32(PERIPHERAL_ID_0 + 4 * n) & 0xff) << (8 * n)),
        };
        Ok(Pl181 {
            fifo_words: config.fifo(id)?,
            gap_reads: config.gap_reads(),
            caps: config.caps(),
            regs,
            config,
            active: None,
            transfer: Transfer::default(),
            bus: Bus::default(),
            mask: None,
        })
    }

    /// Returns the registers, for other code that accesses them (vendor registers, models).
    ///
    /// # Safety
    /// The caller writes no register that the driver uses, because the driver relies on the state
    /// that it has set. The caller also reads no register whose value a read changes.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub unsafe fn regs(&self) -> &R {
        &self.regs
    }

    /// Returns the number of words in the FIFO.
    pub fn fifo_words(&self) -> u16 {
        self.fifo_words
    }

    /// Writes the interrupt mask if its value changes.
    fn set_mask(&mut self, mask: u32) {
        if self.mask != Some(mask) {
            self.regs.write32(MASK_0, mask);
            self.mask = Some(mask);
        }
    }

    /// Waits for the time that a register needs between two writes, by reading MCIMask0.
    /// `passed` is the number of register accesses since the first write.
    fn rest(&self, passed: u32) {
        for _ in passed..self.gap_reads {
            self.regs.read32(MASK_0);
        }
    }
}

// SAFETY: the driver uses no DMA. The CPU accesses only memory inside the segments, by `Cursor`, in
// `ack`, while the phase is active.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<R: Regs> Host for Pl181<R> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        segment.bus = 0;
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, _: Direction) {}

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.start_phase(phase, segments, timeout_ns)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.take_events(segments)
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.step_bus(op, first, now_ns)
    }

    /// Returns false, because the controller does not show the level of DAT0.
    fn dat0_busy(&self) -> bool {
        false
    }

    /// Returns true, because the controller has no card detection. A missing card shows by its
    /// missing response.
    fn present(&self) -> bool {
        true
    }
}
