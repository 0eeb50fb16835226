//! Operations on the bus that never block: clock, width, reset.

use super::S3cSdi;
use super::config::DmaUse;
use super::regs::*;
use crate::host::{BusOp, Dma, Regs, Step, Width};

/// Longest duration of a reset, in nanoseconds: a few SD clocks, of which the slowest takes
/// microseconds.
const RESET_NS: u64 = 1_000_000;
const RESET_POLL_NS: u64 = 10_000;

/// The bus settings, and the progress of a reset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    pub(super) width: Width,
    /// Value of the prescaler register.
    prescaler: u32,
    /// Whether the SD clock is enabled.
    running: bool,
    /// Time by which the reset in progress must be complete, in nanoseconds; `None` without a
    /// reset.
    reset_until_ns: Option<u64>,
}

impl Bus {
    pub(super) fn new() -> Self {
        Bus { width: Width::W1, prescaler: DIVISOR_MAX - 1, running: false, reset_until_ns: None }
    }

    fn con(&self) -> u32 {
        CON_SDIO | if self.running { CON_CLOCK } else { 0 }
    }
}

impl<R: Regs, D: Dma> S3cSdi<R, D> {
    pub(super) fn step_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            self.bus.reset_until_ns = None;
            if !self.begin(op, now_ns) {
                return Step::Failed;
            }
        }
        let Some(until_ns) = self.bus.reset_until_ns else { return Step::Done };
        let resets = self.regs.read32(CON) & CON_RESET != 0;
        if resets || self.dma_runs() {
            if now_ns >= until_ns {
                self.bus.reset_until_ns = None;
                return Step::Failed;
            }
            if resets && !first {
                // Some chips do not clear the reset bit by themselves, so the driver writes it as
                // 0.
                self.regs.write32(CON, self.bus.con());
            }
            return Step::Wait(now_ns.saturating_add(RESET_POLL_NS).min(until_ns));
        }
        self.bus.reset_until_ns = None;
        self.restore();
        Step::Done
    }

    /// Writes the first registers of an operation; returns false if the operation is not supported.
    fn begin(&mut self, op: BusOp, now_ns: u64) -> bool {
        match op {
            BusOp::ResetLines | BusOp::ResetAll => self.reset(now_ns),
            BusOp::PowerOff | BusOp::PowerOn => {
                self.bus = Bus::new();
                self.reset(now_ns);
            }
            BusOp::Clock(0) => {
                self.bus.running = false;
                self.regs.write32(CON, self.bus.con());
            }
            BusOp::Clock(hz) => return self.set_clock(hz),
            BusOp::Width(width) => {
                if width > self.caps.width {
                    return false;
                }
                self.bus.width = width;
            }
            // High speed needs no setting of the controller except its clock.
            BusOp::Timing(timing) => return self.caps.can(timing),
            BusOp::Signal18(on) => return !on,
            BusOp::TuneStart => return false,
            BusOp::TuneAbort => {}
        }
        true
    }

    /// Resets the whole controller, since no smaller reset certainly clears the data circuits.
    fn reset(&mut self, now_ns: u64) {
        self.active = None;
        self.idle = false;
        self.stop_dma();
        self.regs.write32(CON, self.bus.con() | CON_RESET);
        self.bus.reset_until_ns = Some(now_ns.saturating_add(RESET_NS));
    }

    /// Requests the board's DMA controller to stop. The DMA controller may continue for a while:
    /// see [`dma_runs`](Self::dma_runs).
    pub(super) fn stop_dma(&self) {
        if self.config.dma != DmaUse::Never {
            self.regs.write32(DMA_START, 0);
        }
    }

    /// Returns whether the board's DMA controller is running. Resets of the SD controller do not
    /// stop it.
    pub(super) fn dma_runs(&self) -> bool {
        self.config.dma != DmaUse::Never && self.regs.read32(DMA_START) & 1 != 0
    }

    /// Writes the registers that a reset has cleared, the clock enable last.
    fn restore(&mut self) {
        self.imsk = None;
        self.block_bytes = None;
        self.regs.write32(PRE, self.bus.prescaler);
        self.regs.write32(TIMER, TIMER_MAX);
        self.regs.write32(DCON, 0);
        self.armed = false;
        self.forget_status();
        self.enable(0);
        self.regs.write32(CON, self.bus.con());
        self.idle = true;
        // The reset has dropped an edge of DAT1, if there was one, so check the level.
        self.ring();
    }

    fn set_clock(&mut self, hz: u32) -> bool {
        let divisor = self.config.pclk_hz.div_ceil(hz.min(self.caps.clock_hz.1).max(1));
        if divisor > DIVISOR_MAX {
            return false;
        }
        if self.bus.running {
            self.bus.running = false;
            self.regs.write32(CON, self.bus.con());
        }
        self.bus.prescaler = divisor.saturating_sub(1);
        self.bus.running = true;
        self.regs.write32(PRE, self.bus.prescaler);
        self.regs.write32(CON, self.bus.con());
        true
    }
}
