//! Power, clock, lines, reset: steps that never block.

use super::Mshc;
use super::layout::*;
use super::regs::*;
use crate::host::{BusOp, Dma, Regs, Step, Width};

/// Longest time that a reset or a change of the clock takes.
const LIMIT_NS: u64 = 100_000_000;
const POLL_NS: u64 = 100_000;
/// Stages of the longest operation, with one to see the end.
const STAGES_MAX: u32 = 8;

/// What an operation is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The supply.
    Ramp,
    /// The resets to clear themselves.
    Reset,
    /// The DMA's request to fall, and the FIFO to be empty again (DesignWare).
    Requests,
    Fifo,
    /// The clock to stop, to be divided, to run.
    ClockOff,
    ClockDivider,
    ClockOn,
}

/// What the bus settings are, and how far an operation has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    width: Width,
    divider: u32,
    running: bool,
    powered: bool,
    stage: Option<Stage>,
    until_ns: u64,
    /// The change of the clock waits for the end of data.
    waits: bool,
}

impl Bus {
    pub(super) const fn new() -> Self {
        Bus {
            width: Width::W1,
            divider: DIVIDER_MAX,
            running: false,
            powered: false,
            stage: None,
            until_ns: 0,
            waits: false,
        }
    }
}

impl<L: MshcLayout, R: Regs, D: Dma, const DESCRIPTORS: usize> Mshc<L, R, D, DESCRIPTORS> {
    pub(super) fn step_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            self.bus.stage = None;
            if !self.begin(op, now_ns) {
                return Step::Failed;
            }
        }
        for _ in 0..STAGES_MAX {
            let Some(stage) = self.bus.stage else { return Step::Done };
            if !self.is_over(stage, now_ns) {
                if stage == Stage::Ramp {
                    return Step::Wait(self.bus.until_ns);
                }
                if now_ns >= self.bus.until_ns || self.is_gone() {
                    self.bus.stage = None;
                    return Step::Failed;
                }
                return Step::Wait(now_ns.saturating_add(POLL_NS).min(self.bus.until_ns));
            }
            self.bus.stage = None;
            match stage {
                Stage::Ramp => self.reset(now_ns),
                Stage::Reset if L::DESIGN_WARE => self.enter(Stage::Requests, now_ns),
                Stage::Requests => {
                    self.regs.write32(L::AT.control, CONTROL_FIFO_RESET);
                    self.enter(Stage::Fifo, now_ns);
                }
                Stage::Reset | Stage::Fifo => {
                    self.restore();
                    self.change_clock(Stage::ClockOff, now_ns);
                }
                Stage::ClockOff if self.bus.running => self.change_clock(Stage::ClockDivider, now_ns),
                Stage::ClockDivider => self.change_clock(Stage::ClockOn, now_ns),
                Stage::ClockOff | Stage::ClockOn => {
                    // A change of the clock looks like the end of a command.
                    self.regs.write32(L::AT.raw, u32::MAX);
                }
            }
        }
        Step::Done
    }

    /// The first writes of an operation.
    fn begin(&mut self, op: BusOp, now_ns: u64) -> bool {
        match op {
            BusOp::PowerOff => {
                self.bus = Bus::new();
                self.switch_power(false);
                self.reset(now_ns);
            }
            BusOp::PowerOn => {
                self.bus = Bus::new();
                self.switch_power(true);
                self.bus.stage = Some(Stage::Ramp);
                self.bus.until_ns = now_ns.saturating_add(self.config.power_up_ns);
            }
            BusOp::Clock(0) => {
                self.bus.running = false;
                self.bus.waits = true;
                self.change_clock(Stage::ClockOff, now_ns);
            }
            BusOp::Clock(hz) => {
                let Some(divider) = divide(self.config.source_hz, hz.min(self.caps.clock_hz.1)) else {
                    return false;
                };
                self.bus.waits = true;
                self.bus.running = true;
                self.bus.divider = divider;
                self.change_clock(Stage::ClockOff, now_ns);
            }
            BusOp::Width(width) if width > self.caps.width => return false,
            BusOp::Width(width) => {
                self.bus.width = width;
                self.write_width();
            }
            BusOp::Timing(timing) => return self.caps.can(timing),
            BusOp::Signal18(on) => return !on,
            BusOp::TuneStart => return false,
            BusOp::TuneAbort => {}
            BusOp::ResetLines | BusOp::ResetAll => self.reset(now_ns),
        }
        true
    }

    fn enter(&mut self, stage: Stage, now_ns: u64) {
        self.bus.stage = Some(stage);
        self.bus.until_ns = now_ns.saturating_add(LIMIT_NS);
    }

    fn is_over(&self, stage: Stage, now_ns: u64) -> bool {
        let clear = |offset: u16, bits: u32| self.regs.read32(offset) & bits == 0;
        match stage {
            Stage::Ramp => now_ns >= self.bus.until_ns,
            Stage::Reset => {
                clear(L::AT.control, CONTROL_RESETS) && (!L::DESIGN_WARE || clear(L::AT.dma_mode, DMA_RESET))
            }
            Stage::Requests => clear(L::AT.status, STATUS_DMA_REQUEST),
            Stage::Fifo => clear(L::AT.control, CONTROL_RESETS),
            Stage::ClockOff | Stage::ClockDivider | Stage::ClockOn => clear(L::AT.command, COMMAND_START),
        }
    }

    /// The whole controller: lines, FIFO, DMA.
    fn reset(&mut self, now_ns: u64) {
        self.active = None;
        self.bus.waits = false;
        self.regs.write32(L::AT.mask, 0);
        self.regs.write32(L::AT.control, CONTROL_RESETS);
        self.regs.write32(L::AT.dma_mode, DMA_RESET);
        self.enter(Stage::Reset, now_ns);
    }

    /// Writes what a reset has cleared, all but the clock.
    fn restore(&mut self) {
        self.mask = None;
        self.dirty = false;
        self.regs.write32(L::AT.dma_mode, 0);
        self.regs.write32(L::AT.dma_enable, 0);
        self.regs.write32(L::AT.dma_status, DMA_LATCHED);
        self.regs.write32(L::AT.timeout, u32::MAX);
        self.regs.write32(L::AT.threshold, self.threshold);
        if L::DESIGN_WARE {
            self.regs.write32(DW_POWER, u32::from(self.bus.powered));
            self.regs.write32(DW_SOURCE, 0);
        } else {
            self.regs.write32(SMHC_DEBUG, SMHC_DEBUG_VALUE);
            self.regs.write32(SMHC_FUNCTION, SMHC_FUNCTION_VALUE);
        }
        self.write_width();
        self.set_mask(0);
        self.regs.write32(L::AT.raw, u32::MAX);
        self.regs.write32(L::AT.control, CONTROL_INTERRUPTS);
    }

    fn switch_power(&mut self, on: bool) {
        self.bus.powered = on;
        if L::DESIGN_WARE {
            self.regs.write32(DW_POWER, u32::from(on));
        }
    }

    fn write_width(&self) {
        let value = match self.bus.width {
            Width::W1 => 0,
            Width::W4 => 1,
            Width::W8 if L::DESIGN_WARE => 1 << 16,
            Width::W8 => 2,
        };
        self.regs.write32(L::AT.width, value);
    }

    /// One change of the clock registers, and the command by which it takes effect.
    fn change_clock(&mut self, stage: Stage, now_ns: u64) {
        let on = stage == Stage::ClockOn;
        if L::DESIGN_WARE {
            match stage {
                Stage::ClockDivider => self.regs.write32(DW_DIVIDER, self.bus.divider),
                _ => self.regs.write32(DW_CLOCK_ENABLE, u32::from(on)),
            }
        } else {
            let quiet = if self.config.mask_dat0 { CLOCK_MASKS_DAT0 } else { 0 };
            self.regs.write32(SMHC_CLOCK, quiet | self.bus.divider | if on { CLOCK_ON } else { 0 });
        }
        // After a reset a card that still programs must not hold the clock up.
        let waits = if self.bus.waits { COMMAND_WAITS } else { 0 };
        self.regs.write32(L::AT.command, COMMAND_START | COMMAND_UPDATE_CLOCK | waits);
        self.enter(stage, now_ns);
    }
}

/// The divider for the fastest clock not above `hz`; `None` if it cannot be that slow.
fn divide(source_hz: u32, hz: u32) -> Option<u32> {
    if source_hz <= hz {
        return Some(0);
    }
    let divider = source_hz.div_ceil(hz.max(1)).div_ceil(2);
    (hz != 0 && divider <= DIVIDER_MAX).then_some(divider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_is_never_clocked_faster_than_asked() {
        assert_eq!(divide(24_000_000, 400_000), Some(30));
        assert_eq!(divide(50_000_000, 50_000_000), Some(0));
        assert_eq!(divide(50_000_000, 25_000_000), Some(1));
        assert_eq!(divide(50_000_000, 24_999_999), Some(2));
        assert_eq!(divide(u32::MAX, 400_000), None);
        assert_eq!(divide(24_000_000, 0), None);
    }
}
