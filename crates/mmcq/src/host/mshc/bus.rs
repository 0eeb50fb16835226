//! Operations on the bus that never block: supply, clock, data lines, voltage, reset.

use super::Mshc;
use super::layout::*;
use super::regs::*;
use super::tune::MshcBoard;
use crate::host::search::Search;
use crate::host::{BusOp, Dma, Regs, Step, Timing, Width};

/// Longest time that a reset or a change of the clock takes, in nanoseconds.
const LIMIT_NS: u64 = 100_000_000;
const POLL_NS: u64 = 100_000;
/// Largest number of stages of an operation on the bus that one call checks. An operation has at
/// most seven stages, and one more check finds that none is left.
const STAGES_MAX: u32 = 8;

/// Stage of an operation on the bus: the event that the operation waits for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for the supply to rise.
    Ramp,
    /// Waits for the reset bits to read 0.
    Reset,
    /// DesignWare, after a reset: waits until the FIFO requests no DMA.
    Requests,
    /// DesignWare, after `Requests`: waits until the bit that resets the FIFO reads 0.
    Fifo,
    /// First stage of a clock change: waits until the controller has switched the card's clock off.
    ClockOff,
    /// Second stage of a clock change: waits until the new divider has taken effect.
    ClockDivider,
    /// Third stage of a clock change: waits until the controller has switched the card's clock on.
    ClockOn,
}

/// The bus settings, and the progress of a change of these settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    width: Width,
    /// Requested card clock, in hertz.
    asked_hz: u32,
    /// Divider n of the clock: card clock = source / 2n; with 0 it is the source itself.
    divider: u32,
    running: bool,
    /// Whether data are transferred on both clock edges (DDR).
    ddr: bool,
    signal18: bool,
    /// Whether the timing needs a sampling point found by tuning.
    fast: bool,
    pub(super) search: Option<Search>,
    /// Selected sampling tap; `None` selects the sampling point that needs no tuning.
    pub(super) tap: Option<u8>,
    /// Whether the voltage switch is in progress: the card has answered CMD11, and the clock was
    /// not enabled again since then.
    switches: bool,
    powered: bool,
    stage: Option<Stage>,
    until_ns: u64,
    /// Whether the controller delays the change of the clock until earlier data have ended.
    waits: bool,
}

impl Bus {
    pub(super) const fn new() -> Self {
        Bus {
            width: Width::W1,
            asked_hz: 0,
            divider: DIVIDER_MAX,
            running: false,
            ddr: false,
            signal18: false,
            fast: false,
            search: None,
            tap: None,
            switches: false,
            powered: false,
            stage: None,
            until_ns: 0,
            waits: false,
        }
    }

    /// Begins the voltage switch after CMD11, once the card holds the lines low. The clock must
    /// then stop and start again.
    pub(super) fn begin_switch(&mut self) {
        self.switches = true;
    }

    #[cfg(test)]
    pub(super) fn set_fast(&mut self) {
        self.fast = true;
    }

    /// Returns whether the timing needs a sampling point found by tuning (clock above 52 MHz).
    pub(super) const fn is_fast(&self) -> bool {
        self.fast
    }
}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
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
                    self.bus.switches &= stage == Stage::ClockOff;
                    if self.config.mask_dat0 && !L::DESIGN_WARE {
                        // Stop masking DAT0: other commands must see the card's busy.
                        self.regs.write32(SMHC_CLOCK, self.clock_register(stage == Stage::ClockOn));
                    }
                    // The command that updates the clock sets the status bits of a completed
                    // command, so clear them.
                    self.regs.write32(L::AT.raw, u32::MAX);
                }
            }
        }
        Step::Done
    }

    /// Writes the first registers of an operation; returns false if the operation is not supported.
    fn begin(&mut self, op: BusOp, now_ns: u64) -> bool {
        match op {
            BusOp::PowerOff => {
                self.bus = Bus::new();
                self.select(None);
                self.switch_power(false);
                self.reset(now_ns);
            }
            BusOp::PowerOn => {
                self.bus = Bus::new();
                self.select(None);
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
                let Some(divider) = self.divider(hz) else { return false };
                self.bus.waits = true;
                self.bus.running = true;
                (self.bus.asked_hz, self.bus.divider) = (hz, divider);
                self.change_clock(Stage::ClockOff, now_ns);
            }
            BusOp::Width(width) if width > self.caps.width => return false,
            BusOp::Width(width) => {
                self.bus.width = width;
                self.write_width();
            }
            BusOp::Timing(timing) if !self.caps.can(timing) => return false,
            BusOp::Timing(timing) => self.set_timing(timing, now_ns),
            BusOp::Signal18(on) if on && !self.caps.signal18 => return false,
            BusOp::Signal18(on) => {
                self.bus.signal18 = on;
                self.write_uhs();
            }
            BusOp::TuneStart => return self.start_search(),
            BusOp::TuneAbort => {
                self.bus.search = None;
                self.select(None);
            }
            BusOp::ResetLines => self.reset(now_ns),
            BusOp::ResetAll => {
                self.bus.search = None;
                self.reset(now_ns);
            }
        }
        true
    }

    fn set_timing(&mut self, timing: Timing, now_ns: u64) {
        self.bus.ddr = matches!(timing, Timing::Ddr50 | Timing::Ddr52);
        self.bus.fast = matches!(timing, Timing::Sdr50 | Timing::Sdr104 | Timing::Hs200);
        if !self.bus.fast && self.bus.tap.is_some() {
            self.select(None);
        }
        self.write_uhs();
        let divider = self.divider(self.bus.asked_hz);
        if let Some(divider) = divider.filter(|divider| self.bus.running && *divider != self.bus.divider) {
            self.bus.waits = true;
            self.bus.divider = divider;
            self.change_clock(Stage::ClockOff, now_ns);
        }
    }

    fn divider(&self, hz: u32) -> Option<u32> {
        divide(self.config.source_hz, hz.min(self.caps.clock_hz.1), self.bus.ddr)
    }

    /// Returns the frequency in hertz that the divider gives the card's clock, whether the clock
    /// runs or not.
    pub(super) fn card_hz(&self) -> u32 {
        let half = self.bus.divider.saturating_mul(2).max(1);
        self.config.source_hz / half
    }

    /// Returns the value of the control register without the bits that belong to a single command
    /// or its data.
    pub(super) fn control(&self) -> u32 {
        CONTROL_INTERRUPTS | if self.bus.ddr && !L::DESIGN_WARE { CONTROL_DDR } else { 0 }
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

    /// Resets the whole controller: command and data circuits, FIFO, DMA.
    fn reset(&mut self, now_ns: u64) {
        self.active = None;
        (self.bus.waits, self.bus.switches) = (false, false);
        self.regs.write32(L::AT.mask, 0);
        self.regs.write32(L::AT.control, CONTROL_RESETS);
        self.regs.write32(L::AT.dma_mode, DMA_RESET);
        self.enter(Stage::Reset, now_ns);
    }

    /// Writes all registers that a reset has cleared, except the clock registers.
    fn restore(&mut self) {
        self.mask = None;
        self.dirty = false;
        self.regs.write32(L::AT.dma_mode, 0);
        self.regs.write32(L::AT.dma_enable, 0);
        self.regs.write32(L::AT.dma_status, DMA_LATCHED);
        self.regs.write32(L::AT.timeout, u32::MAX);
        self.regs.write32(L::AT.threshold, self.fifo.threshold);
        if self.fifo.read_room {
            self.regs.write32(L::AT.read_room, 0);
        }
        self.read_room = 0;
        if L::DESIGN_WARE {
            self.regs.write32(DW_POWER, u32::from(self.bus.powered));
            self.regs.write32(DW_SOURCE, 0);
        } else {
            self.regs.write32(SMHC_DEBUG, SMHC_DEBUG_VALUE);
            self.regs.write32(SMHC_FUNCTION, SMHC_FUNCTION_VALUE);
            if self.config.new_timing {
                self.regs.write32(SMHC_TIMING, self.regs.read32(SMHC_TIMING) | TIMING_NEW);
            }
            self.write_delay();
        }
        self.write_width();
        self.set_mask(0);
        self.regs.write32(L::AT.raw, u32::MAX);
        self.write_uhs();
    }

    /// Writes signal voltage and DDR to DesignWare's UHS register. On an SMHC, DDR is in the
    /// control register and the board switches the voltage.
    fn write_uhs(&self) {
        if L::DESIGN_WARE {
            let low = if self.bus.signal18 { UHS_18 } else { 0 };
            self.regs.write32(DW_UHS, low | if self.bus.ddr { UHS_DDR } else { 0 });
        }
        self.regs.write32(L::AT.control, self.control());
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

    /// Returns the value of SMHC's clock register, with the clock enabled if `on`.
    const fn clock_register(&self, on: bool) -> u32 {
        self.bus.divider | if on { CLOCK_ON } else { 0 }
    }

    /// Writes the clock registers for this stage of a clock change, and sends the command that puts
    /// the change into effect.
    fn change_clock(&mut self, stage: Stage, now_ns: u64) {
        let on = stage == Stage::ClockOn;
        if L::DESIGN_WARE {
            match stage {
                Stage::ClockDivider => self.regs.write32(DW_DIVIDER, self.bus.divider),
                _ => self.regs.write32(DW_CLOCK_ENABLE, u32::from(on)),
            }
        } else {
            let quiet = if self.config.mask_dat0 { CLOCK_MASKS_DAT0 } else { 0 };
            self.regs.write32(SMHC_CLOCK, quiet | self.clock_register(on));
        }
        // After a reset, a card that is still programming must not delay the clock change. After
        // CMD11, the card holds DAT0 low until the clock is enabled. So in both cases the clock
        // change does not wait for DAT0.
        let how = match (self.bus.switches, self.bus.waits) {
            (true, _) => COMMAND_VOLTAGE,
            (false, true) => COMMAND_WAITS,
            (false, false) => 0,
        };
        self.regs.write32(L::AT.command, COMMAND_START | COMMAND_UPDATE_CLOCK | how);
        self.enter(stage, now_ns);
    }
}

/// Returns the divider n for the fastest clock not above `hz`: the source divided by 2n, or
/// undivided for n = 0, which DDR does not allow. `None` if the clock cannot be that slow.
fn divide(source_hz: u32, hz: u32, ddr: bool) -> Option<u32> {
    let least = u32::from(ddr);
    if hz != 0 && source_hz <= hz {
        return Some(least);
    }
    let divider = source_hz.div_ceil(hz.max(1)).div_ceil(2).max(least);
    (hz != 0 && divider <= DIVIDER_MAX).then_some(divider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_is_never_clocked_faster_than_asked() {
        let plain = |source_hz, hz| divide(source_hz, hz, false);
        assert_eq!(plain(24_000_000, 400_000), Some(30));
        assert_eq!(plain(50_000_000, 50_000_000), Some(0));
        assert_eq!(plain(50_000_000, 25_000_000), Some(1));
        assert_eq!(plain(50_000_000, 24_999_999), Some(2));
        assert_eq!(plain(u32::MAX, 400_000), None);
        assert_eq!(plain(24_000_000, 0), None);
        assert_eq!(divide(100_000_000, 52_000_000, true), Some(1));
        assert_eq!(divide(50_000_000, 52_000_000, true), Some(1));
        assert_eq!(divide(200_000_000, 52_000_000, true), Some(2));
        assert_eq!(divide(0, 0, true), None);
    }
}
