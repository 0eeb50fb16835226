//! Operations on the bus that never block: supply, clock, data lines, voltage, reset.

use super::regs::*;
use super::tune::Stm32Board;
use super::{Failed, Stm32Sdmmc};
use crate::host::search::{Found, Search};
use crate::host::{BusOp, Caps, Dma, Regs, Step, Timing, Width};

/// Longest wait, in nanoseconds, for the end of a command, for an idle data path, or for the end of
/// the voltage switch.
const LIMIT_NS: u64 = 100_000_000;
const POLL_NS: u64 = 100_000;
/// Shortest time for which the lines are low at power-on, and time for which they are then high
/// before the clock starts, in nanoseconds.
const CYCLE_NS: u64 = 1_000_000;
/// Largest number of stages that one call checks. An operation has at most two stages, and one more
/// check finds that none is left.
const STAGES_MAX: u32 = 4;
/// Argument bits of a CMD52 that writes I/O Abort [SDIO 6.9]: function 0, address 6.
const IO_ABORT: u32 = 1 << 31 | 6 << 9;

/// The event that a bus operation (power, clock, width, voltage or reset) waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The end of the pause in which the controller holds the lines low, as a part of a power
    /// cycle.
    Cycle,
    /// The end of the time for which the lines are high without a clock.
    Off,
    /// Waits for the end of a command that is still in progress.
    Command,
    /// The data path becomes idle, after the driver has stopped it.
    Abort,
    /// The end of the switch of the signal lines to 1.8 V.
    Switch,
}

/// Whether the controller detects the card interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listens {
    No,
    /// The driver enables the detection as soon as the controller's data path is idle.
    Soon,
    /// The controller detects the card interrupt, until the card is switched off.
    Yes,
}

/// The bus settings, and the progress of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    /// Value of the clock register (bus width, timing and other bits) without its divider.
    lines: u32,
    /// Divider field of the clock register.
    divider: u32,
    /// Frequency of the card's clock in hertz, 0 while the clock is stopped.
    clock_hz: u32,
    stage: Option<Stage>,
    until_ns: u64,
    /// Whether CMD11 was sent, and the lines have not switched to 1.8 V yet.
    switches: bool,
    /// Whether the card interrupt is unmasked in the mask register.
    hears_card: bool,
    /// Whether the controller detects the card interrupt (bit of the data control register). It
    /// stays enabled while the interrupt is masked, because the data control register must not be
    /// written during data.
    listens: Listens,
    search: Option<Search>,
}

impl Bus {
    pub(super) const fn new() -> Self {
        Bus {
            lines: CLOCK_FLOW_CONTROL,
            divider: CLOCK_DIVIDER_MAX,
            clock_hz: 0,
            stage: None,
            until_ns: 0,
            switches: false,
            hears_card: false,
            listens: Listens::No,
            search: None,
        }
    }

    pub(super) const fn clock_hz(&self) -> u32 {
        self.clock_hz
    }

    /// Returns the bits of the data control register that stay the same for all commands.
    pub(super) const fn data_control(&self) -> u32 {
        if matches!(self.listens, Listens::No) { 0 } else { DATA_SDIO }
    }

    /// Returns whether the card interrupt is unmasked.
    pub(super) const fn hears_card(&self) -> bool {
        self.hears_card
    }

    pub(super) fn hear_card(&mut self, on: bool) {
        self.hears_card = on;
        if on && self.listens == Listens::No {
            self.listens = Listens::Soon;
        }
    }

    /// Records that the data control register was written with
    /// [`data_control`](Self::data_control).
    pub(super) fn wrote_data_control(&mut self) {
        if self.listens == Listens::Soon {
            self.listens = Listens::Yes;
        }
    }

    /// Returns whether the engine has requested the card interrupt, but the data control register
    /// does not enable it yet. That register can be written only while the data path is idle.
    pub(super) fn listens_soon(&self) -> bool {
        self.listens == Listens::Soon
    }

    /// Masks the card interrupt until the engine unmasks it again.
    pub(super) fn card_was_heard(&mut self) {
        self.hears_card = false;
    }

    /// Records that CMD11 is sent. Returns true if the lines can switch to 1.8 V.
    pub(super) fn begin_switch(&mut self, caps: &Caps) -> bool {
        self.switches = caps.signal18 && !caps.signal18_fixed;
        self.switches
    }

    pub(super) const fn search(&self) -> Option<&Search> {
        self.search.as_ref()
    }

    /// Records whether a tap of the delay block was good; returns what the search does next.
    pub(super) fn tried(&mut self, good: bool) -> Found {
        let found = self.search.as_mut().map_or(Found::None, |search| search.tried(good));
        if !matches!(found, Found::Next(_)) {
            self.search = None;
        }
        found
    }

    const fn clock_register(&self) -> u32 {
        self.lines | self.divider | if self.clock_hz == 0 { CLOCK_SAVES } else { 0 }
    }
}

impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Stm32Sdmmc<R, D, S, PIECES> {
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
                if matches!(stage, Stage::Cycle | Stage::Off) {
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
                Stage::Cycle => {
                    self.write_power(POWER_OFF);
                    self.enter(Stage::Off, now_ns, CYCLE_NS);
                }
                Stage::Off => self.write_power(POWER_ON),
                Stage::Command => self.abort(now_ns),
                Stage::Abort => self.silence(),
                Stage::Switch => {
                    self.bus.switches = false;
                    self.write_power(POWER_ON);
                    self.regs.write32(CLEAR, STATIC);
                }
            }
        }
        Step::Done
    }

    /// Writes the first registers of an operation; returns false if the operation is not supported.
    fn begin(&mut self, op: BusOp, now_ns: u64) -> bool {
        match op {
            BusOp::PowerOff => {
                self.begin_anew();
                let state = if self.stays_on() { POWER_ON } else { POWER_OFF };
                self.write_power(state);
            }
            BusOp::PowerOn => {
                self.begin_anew();
                self.write_clock();
                if self.stays_on() {
                    self.write_power(POWER_ON);
                } else {
                    self.write_power(POWER_CYCLE);
                    self.enter(Stage::Cycle, now_ns, self.config.power_up_ns.max(CYCLE_NS));
                }
            }
            // The controller has already stopped the clock for the voltage switch.
            BusOp::Clock(0) if self.bus.switches => self.bus.clock_hz = 0,
            BusOp::Clock(0) => {
                self.bus.clock_hz = 0;
                self.write_clock();
            }
            BusOp::Clock(hz) => {
                let double = self.bus.lines & CLOCK_DDR != 0;
                let Some((divider, clock_hz)) =
                    divide(self.config.kernel_hz, hz.min(self.caps.clock_hz.1), double)
                else {
                    return false;
                };
                (self.bus.divider, self.bus.clock_hz) = (divider, clock_hz);
                self.write_clock();
            }
            BusOp::Width(width) if width > self.caps.width => return false,
            BusOp::Width(width) => {
                let lines = match width {
                    Width::W1 => 0,
                    Width::W4 => 1,
                    Width::W8 => 2,
                };
                // A single data line has no double data rate, so clear DDR; the timing that follows
                // sets it again.
                let changed = if lines == 0 { CLOCK_DDR } else { 0 } | 3 << CLOCK_WIDTH_SHIFT;
                self.bus.lines = self.bus.lines & !changed | lines << CLOCK_WIDTH_SHIFT;
                self.write_clock();
            }
            BusOp::Timing(timing) => return self.set_timing(timing),
            BusOp::Signal18(true) if !self.caps.signal18 => return false,
            BusOp::Signal18(true) if self.bus.switches => {
                self.write_power(POWER_ON | POWER_SWITCH_ENABLE | POWER_SWITCH);
                self.enter(Stage::Switch, now_ns, LIMIT_NS);
            }
            BusOp::Signal18(_) => {}
            BusOp::TuneStart => {
                let taps = self.board.taps();
                if taps == 0 || !self.board.lock() {
                    return false;
                }
                self.bus.search = Some(Search::new(taps, true));
                self.board.select(0);
                self.bus.lines |= CLOCK_FEEDBACK;
                self.write_clock();
            }
            BusOp::TuneAbort => {
                self.bus.search = None;
                self.bus.lines &= !CLOCK_FEEDBACK;
                self.write_clock();
            }
            BusOp::ResetLines => self.reset_lines(now_ns),
            BusOp::ResetAll => {
                if self.board.reset() {
                    self.active = None;
                    self.failed = None;
                    self.mask = None;
                    self.bus.switches = false;
                    self.write_clock();
                    self.write_power(POWER_ON);
                    self.silence();
                } else {
                    // Without a reset of the controller, the driver writes the registers instead.
                    self.reset_lines(now_ns);
                    self.write_clock();
                }
            }
        }
        true
    }

    fn enter(&mut self, stage: Stage, now_ns: u64, limit_ns: u64) {
        self.bus.stage = Some(stage);
        self.bus.until_ns = now_ns.saturating_add(limit_ns);
    }

    fn is_over(&self, stage: Stage, now_ns: u64) -> bool {
        let status = || self.regs.read32(STATUS);
        match stage {
            Stage::Cycle | Stage::Off => now_ns >= self.bus.until_ns,
            Stage::Command => status() & COMMAND_ACTIVE == 0,
            // The controller shows a command as active only after some clocks, so wait for the end
            // flag.
            Stage::Abort => {
                let status = status();
                let ended = status & (RESPONSE_END | COMMAND_CRC_FAIL | COMMAND_TIMEOUT) != 0;
                ended && status & (COMMAND_ACTIVE | DATA_ACTIVE) == 0
            }
            Stage::Switch => {
                let status = status();
                status != u32::MAX && status & SWITCH_END != 0
            }
        }
    }

    /// Returns whether the power register still shows the power-on state. Only a reset leads out of
    /// this state. The board has then not reset the controller, so the driver cannot switch the
    /// power off.
    fn stays_on(&self) -> bool {
        let power = self.regs.read32(POWER);
        power != u32::MAX && power & POWER_STATE == POWER_ON
    }

    /// Resets the controller if the board can. Makes the data path idle, and brings the driver back
    /// to its state after power-on.
    fn begin_anew(&mut self) {
        self.board.reset();
        self.bus = Bus::new();
        self.active = None;
        self.failed = None;
        self.mask = None;
        self.silence();
    }

    /// Makes the data path idle: switches DMA off, empties the FIFO and masks the interrupts.
    fn silence(&mut self) {
        self.failed = None;
        self.regs.write32(DMA_CONTROL, 0);
        self.regs.write32(DATA_CONTROL, self.bus.data_control() | DATA_FIFO_RESET);
        self.regs.write32(DATA_CONTROL, self.bus.data_control());
        self.bus.wrote_data_control();
        self.regs.write32(CLEAR, STATIC);
        self.set_mask(0);
        self.unmap_bounce();
    }

    fn reset_lines(&mut self, now_ns: u64) {
        if let Some(active) = self.active.take()
            && (active.work.moves() || active.work == super::phase::Work::TuneEnds)
        {
            self.failed = Some(active.end);
        }
        self.set_mask(0);
        self.enter(Stage::Command, now_ns, LIMIT_NS);
    }

    /// Stops the data path if it is active.
    fn abort(&mut self, now_ns: u64) {
        let works = self.regs.read32(STATUS) & DATA_ACTIVE != 0;
        match self.failed.or(works.then_some(Failed::Card)) {
            None => self.silence(),
            Some(end) => {
                self.regs.write32(CLEAR, STATIC);
                let (arg, index) = match end {
                    Failed::Card => (0, 12),
                    Failed::Function(function) => (IO_ABORT | u32::from(function), 52),
                };
                self.send(arg, index | COMMAND_SHORT | COMMAND_STOP);
                self.enter(Stage::Abort, now_ns, LIMIT_NS);
            }
        }
    }

    fn set_timing(&mut self, timing: Timing) -> bool {
        if !self.caps.can(timing) && timing != Timing::Legacy {
            return false;
        }
        let bits = match timing {
            Timing::Ddr50 | Timing::Ddr52 => CLOCK_DDR | CLOCK_FAST,
            Timing::Sdr50 | Timing::Sdr104 | Timing::Hs200 => CLOCK_FAST,
            _ => 0,
        };
        let fast = matches!(timing, Timing::Sdr104 | Timing::Hs200 | Timing::Sdr50);
        let keep = if fast { CLOCK_DDR | CLOCK_FAST } else { CLOCK_DDR | CLOCK_FAST | CLOCK_FEEDBACK };
        self.bus.lines = self.bus.lines & !keep | bits;
        if bits & CLOCK_DDR != 0 && self.bus.divider == 0 {
            // With DDR the card's clock is at most half of the kernel clock.
            self.bus.divider = 1;
            self.bus.clock_hz /= 2;
        }
        self.write_clock();
        true
    }

    fn write_clock(&self) {
        let config = &self.config;
        let edge = if config.falling_edge { CLOCK_FALLING } else { 0 };
        // With the delay block, the receive clock is the fed-back clock; so CKIN is selected only
        // without it.
        let back = if config.clock_in && self.bus.lines & CLOCK_FEEDBACK == 0 { CLOCK_IN } else { 0 };
        self.regs.write32(CLOCK, self.bus.clock_register() | edge | back);
    }

    /// Writes the state of the supply. The polarity bit can only be set while the supply is off.
    pub(super) fn write_power(&self, state: u32) {
        let polarity = if self.config.direction_high { POWER_DIRECTION } else { 0 };
        self.regs.write32(POWER, state | polarity);
    }
}

/// Returns the divider for the fastest clock not above `hz`, and the frequency of that clock;
/// `None` if the clock cannot be that slow. With DDR (`double`) the divider is at least 2.
fn divide(kernel_hz: u32, hz: u32, double: bool) -> Option<(u32, u32)> {
    if kernel_hz <= hz && !double {
        return Some((0, kernel_hz));
    }
    // The divider is at least 1 anyway; `max` shows the compiler that no division can panic.
    let half = kernel_hz.div_ceil(hz.max(1)).div_ceil(2).max(1);
    (hz != 0 && half <= CLOCK_DIVIDER_MAX).then(|| (half, kernel_hz / (2 * half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_is_never_clocked_faster_than_asked() {
        assert_eq!(divide(200_000_000, 400_000, false), Some((250, 400_000)));
        assert_eq!(divide(50_000_000, 50_000_000, false), Some((0, 50_000_000)));
        assert_eq!(divide(50_000_000, 50_000_000, true), Some((1, 25_000_000)));
        assert_eq!(divide(100_000_000, 49_999_999, false), Some((2, 25_000_000)));
        assert_eq!(divide(u32::MAX, 400_000, false), None);
        assert_eq!(divide(24_000_000, 0, false), None);
        for kernel in [1, 3, 24_000_000u32, 133_333_333, 200_000_000] {
            for hz in [1, 400_000, 24_999_999, 50_000_000, 208_000_000] {
                for double in [false, true] {
                    let Some((divider, got)) = divide(kernel, hz, double) else { continue };
                    assert!(got <= hz && divider <= CLOCK_DIVIDER_MAX, "{kernel} {hz} {double}");
                }
            }
        }
    }
}
