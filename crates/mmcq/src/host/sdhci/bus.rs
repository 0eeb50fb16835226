//! Operations on the bus that never block: reset, power, clock, width, timing, voltage, tuning.

use super::Sdhci;
use super::capabilities::{Model, VERSION_4_10};
use super::config::{SdhciQuirks, TransferMode};
use super::events::{NEVER, OF_PHASE};
use super::regs::*;
use super::{Shadow, UNKNOWN_NS, capabilities};
use crate::host::{BusOp, Dma, Regs, Step, Timing, Width};

/// Longest duration of a software reset, in nanoseconds.
const RESET_NS: u64 = 100_000_000;
const RESET_POLL_NS: u64 = 10_000;
/// Longest wait for Internal Clock Stable, in nanoseconds [SDHC 2.2.14].
const CLOCK_NS: u64 = 150_000_000;
const CLOCK_POLL_NS: u64 = 10_000;
/// Wait before the driver reads 1.8V Signaling Enable again, in nanoseconds [SDHC 3.6.1].
const VOLTAGE_NS: u64 = 5_000_000;
/// Largest number of steps that one call executes without a wait. An operation of a controller with
/// all quirks has one step more, which the next call executes.
const STEPS: usize = 8;

/// The bus settings, and the progress of the operation on the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    wait: Wait,
    deadline_ns: u64,
    /// Value of Host Control 1.
    control: u8,
    /// Value of Host Control 2 without its tuning bits.
    control_2: u16,
    /// Value of the SDHCI's Power Control register.
    power: u8,
    /// Bits of Clock Control that select the frequency: the register's value without its enable
    /// bits.
    divider: u16,
    /// SD clock in hertz, 0 while it is stopped.
    pub(super) clock_hz: u32,
    pub(super) card_irq: bool,
    pub(super) timeout_masked: bool,
}

/// The event that a bus operation (such as a reset or a change of the clock) waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    /// The controller has cleared the reset bits `bits`; then the driver sets the bits `then`, if
    /// there are any.
    Reset {
        bits: u8,
        then: u8,
    },
    Stable {
        pll: bool,
    },
    /// Waits until the internal clock is stable. Then the driver begins the resets in `bits`, which
    /// need the clock.
    Clocked {
        bits: u8,
        then: u8,
    },
    Voltage,
}

impl Bus {
    /// Returns the value of Host Control 1.
    pub(super) fn control(&self) -> u8 {
        self.control
    }

    pub(super) fn new(model: &Model) -> Self {
        Bus {
            wait: Wait::Nothing,
            deadline_ns: 0,
            control: dma_select(model),
            control_2: static_control_2(model),
            power: 0,
            divider: 0,
            clock_hz: 0,
            card_irq: false,
            timeout_masked: false,
        }
    }
}

fn dma_select(model: &Model) -> u8 {
    match model.mode {
        TransferMode::Adma2 if model.wide && !model.v4 => CONTROL_ADMA2_64,
        TransferMode::Adma2 => CONTROL_ADMA2,
        _ => 0,
    }
}

fn static_control_2(model: &Model) -> u16 {
    let v4 = if model.v4 { CONTROL_2_V4 } else { 0 };
    v4 | if model.v4 && model.wide { CONTROL_2_64BIT } else { 0 }
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    pub(super) fn step_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            self.bus.wait = Wait::Nothing;
            if !self.begin(op, now_ns) {
                return Step::Failed;
            }
        }
        for _ in 0..STEPS {
            let (over, poll_ns) = match self.bus.wait {
                Wait::Nothing => return Step::Done,
                Wait::Reset { bits, .. } => (self.port.read8(RESET) & bits == 0, RESET_POLL_NS),
                Wait::Stable { .. } | Wait::Clocked { .. } => {
                    let clock = self.port.read16(CLOCK);
                    (clock != u16::MAX && clock & CLOCK_STABLE != 0, CLOCK_POLL_NS)
                }
                Wait::Voltage => (now_ns >= self.bus.deadline_ns, VOLTAGE_NS),
            };
            if !over {
                if now_ns >= self.bus.deadline_ns {
                    self.bus.wait = Wait::Nothing;
                    return Step::Failed;
                }
                return Step::Wait(now_ns.saturating_add(poll_ns).min(self.bus.deadline_ns));
            }
            if !self.go_on(now_ns) {
                self.bus.wait = Wait::Nothing;
                return Step::Failed;
            }
        }
        Step::Wait(now_ns)
    }

    /// Writes the first registers of an operation; returns false if the controller does not support
    /// the operation.
    fn begin(&mut self, op: BusOp, now_ns: u64) -> bool {
        match op {
            BusOp::ResetAll => {
                self.forget();
                self.shadow = Shadow::default();
                self.reset(RESET_ALL, 0, now_ns);
            }
            BusOp::ResetLines => self.reset_lines(now_ns),
            BusOp::PowerOff => self.power_off(),
            BusOp::PowerOn => return self.power_on(),
            BusOp::Clock(0) => {
                self.bus.clock_hz = 0;
                self.port.write16(CLOCK, 0);
            }
            BusOp::Clock(hz) => return self.set_clock(hz, now_ns),
            BusOp::Width(width) => {
                if width > self.caps.width {
                    return false;
                }
                let bits = match width {
                    Width::W1 => 0,
                    Width::W4 => CONTROL_4BIT,
                    Width::W8 => CONTROL_8BIT,
                };
                self.bus.control = self.bus.control & !(CONTROL_4BIT | CONTROL_8BIT) | bits;
                self.port.write8(CONTROL, self.bus.control);
                self.reset_after_change(now_ns);
            }
            BusOp::Timing(timing) => {
                if !self.set_timing(timing) {
                    return false;
                }
                self.reset_after_change(now_ns);
            }
            BusOp::Signal18(on) => {
                if if on { !self.caps.signal18 } else { self.caps.signal18_fixed } {
                    return false;
                }
                self.bus.control_2 = self.bus.control_2 & !CONTROL_2_1V8 | if on { CONTROL_2_1V8 } else { 0 };
                self.write_control_2(0);
                self.wait(Wait::Voltage, VOLTAGE_NS, now_ns);
            }
            BusOp::TuneStart => {
                self.idle = false;
                self.write_control_2(CONTROL_2_TUNE);
            }
            BusOp::TuneAbort => {
                self.port.write16(CONTROL_2, self.bus.control_2);
                self.reset_lines(now_ns);
            }
        }
        true
    }

    /// Executes the next step of an operation when its wait has ended; returns false if the
    /// operation has failed.
    fn go_on(&mut self, now_ns: u64) -> bool {
        match self.bus.wait {
            Wait::Nothing => {}
            Wait::Reset { bits, then: 0 } => {
                self.bus.wait = Wait::Nothing;
                if bits & RESET_ALL != 0 {
                    self.restore();
                    if self.bus.control_2 & CONTROL_2_1V8 != 0 {
                        // The card gets no clock before its lines have the new voltage.
                        self.wait(Wait::Voltage, VOLTAGE_NS, now_ns);
                    } else if self.bus.clock_hz != 0 {
                        self.start_clock(now_ns);
                    }
                } else {
                    self.port.write32(INT_STATUS, OF_PHASE);
                }
            }
            Wait::Reset { then, .. } => self.reset(then, 0, now_ns),
            Wait::Stable { pll: false } if self.model.v4 && self.model.version >= VERSION_4_10 => {
                self.port.write16(CLOCK, self.bus.divider | CLOCK_INTERNAL | CLOCK_PLL);
                self.wait(Wait::Stable { pll: true }, CLOCK_NS, now_ns);
            }
            Wait::Stable { pll } => {
                self.bus.wait = Wait::Nothing;
                let pll = if pll { CLOCK_PLL } else { 0 };
                self.port.write16(CLOCK, self.bus.divider | CLOCK_INTERNAL | pll | CLOCK_CARD);
                self.reset_after_change(now_ns);
            }
            Wait::Clocked { bits, then } => self.write_reset(bits, then, now_ns),
            Wait::Voltage => {
                self.bus.wait = Wait::Nothing;
                if self.bus.clock_hz != 0 {
                    self.start_clock(now_ns);
                }
                let read = self.port.read16(CONTROL_2);
                return read & CONTROL_2_1V8 == self.bus.control_2 & CONTROL_2_1V8;
            }
        }
        true
    }

    #[inline(never)]
    fn wait(&mut self, wait: Wait, limit_ns: u64, now_ns: u64) {
        self.bus.wait = wait;
        self.bus.deadline_ns = now_ns.saturating_add(limit_ns);
    }

    /// Clears what the driver knows of a command in progress, and of the state of the bus lines.
    fn forget(&mut self) {
        (self.active, self.fast_end) = (None, NEVER);
        self.forget_concurrent();
        self.idle = false;
    }

    fn reset(&mut self, bits: u8, then: u8, now_ns: u64) {
        if self.config.quirks.has(SdhciQuirks::CLOCK_BEFORE_RESET) {
            let clock = self.port.read16(CLOCK) & !CLOCK_STABLE;
            self.port.write16(CLOCK, if clock & CLOCK_INTERNAL != 0 { clock } else { CLOCK_INTERNAL });
            return self.wait(Wait::Clocked { bits, then }, CLOCK_NS, now_ns);
        }
        self.write_reset(bits, then, now_ns);
    }

    /// Resets CMD and DAT after a change of the bus, for controllers with
    /// [`SdhciQuirks::RESET_ON_IOS`], which hang otherwise.
    fn reset_after_change(&mut self, now_ns: u64) {
        if self.config.quirks.has(SdhciQuirks::RESET_ON_IOS) && self.bus.clock_hz != 0 {
            self.reset_lines(now_ns);
        }
    }

    fn write_reset(&mut self, bits: u8, then: u8, now_ns: u64) {
        self.port.write8(RESET, bits);
        self.wait(Wait::Reset { bits, then }, RESET_NS, now_ns);
    }

    fn reset_lines(&mut self, now_ns: u64) {
        self.forget();
        if self.config.quirks.has(SdhciQuirks::RESET_CMD_DATA_TOGETHER) {
            self.reset(RESET_CMD | RESET_DAT, 0, now_ns);
        } else {
            self.reset(RESET_CMD, RESET_DAT, now_ns);
        }
    }

    /// Writes the registers that a reset of the whole controller has cleared, except Clock Control,
    /// which the driver writes after these.
    fn restore(&mut self) {
        self.shadow.timeout_ns = UNKNOWN_NS;
        self.write_power();
        self.port.write8(CONTROL, self.bus.control);
        self.port.write16(CONTROL_2, self.bus.control_2);
        self.enable_interrupts();
    }

    pub(super) fn enable_interrupts(&mut self) {
        let (card, masked) = (
            if self.bus.card_irq { INT_CARD } else { 0 },
            if self.bus.timeout_masked { ERROR_DATA_TIMEOUT } else { 0 },
        );
        let retune = if self.model.version >= capabilities::VERSION_3_00 { INT_RETUNE } else { 0 };
        self.shadow.enable = INT_COMMAND
            | INT_TRANSFER
            | INT_DMA
            | INT_BUFFER_READ
            | INT_BUFFER_WRITE
            | self.model.errors & !masked
            | self.presence_enable()
            | retune
            | card;
        self.port.write32(INT_ENABLE, self.shadow.enable);
        self.shadow.base_signal =
            self.model.errors & !masked | INT_CARD | INT_RETUNE | INT_INSERT | INT_REMOVE;
        self.shadow.signal = 0;
        self.set_signal(self.shadow.base_signal);
    }

    fn write_power(&self) {
        if self.bus.power == 0 {
            return self.port.write8(POWER, 0);
        }
        // Write the voltage first, then the power bit: some controllers lose the voltage if both
        // are set in one write.
        self.port.write8(POWER, self.bus.power & !POWER_ON);
        self.port.write8(POWER, self.bus.power);
    }

    fn power_off(&mut self) {
        self.supply(0);
    }

    /// Writes `power` to Power Control, and puts the bus into its initial state.
    #[inline(never)]
    fn supply(&mut self, power: u8) {
        self.forget();
        self.port.write16(CLOCK, 0);
        self.bus = Bus { card_irq: self.bus.card_irq, power, ..Bus::new(&self.model) };
        self.restore();
    }

    fn power_on(&mut self) -> bool {
        self.supply(self.model.voltage | POWER_ON);
        // The controller clears SD Bus Power if no card is in the slot.
        self.config.quirks.has(SdhciQuirks::EXTERNAL_POWER) || self.port.read8(POWER) & POWER_ON != 0
    }

    fn set_clock(&mut self, hz: u32, now_ns: u64) -> bool {
        let Some((divider, actual_hz)) = self.model.clocks.divide(hz.min(self.caps.clock_hz.1)) else {
            return false;
        };
        self.shadow.timeout_ns = UNKNOWN_NS;
        self.bus.divider = divider;
        self.bus.clock_hz = actual_hz;
        self.start_clock(now_ns);
        true
    }

    fn start_clock(&mut self, now_ns: u64) {
        self.port.write16(CLOCK, 0);
        self.port.write16(CLOCK, self.bus.divider | CLOCK_INTERNAL);
        self.wait(Wait::Stable { pll: false }, CLOCK_NS, now_ns);
    }

    /// Writes High Speed Enable and UHS Mode Select, with the SD clock stopped if they change.
    /// Returns false if the controller does not support the timing.
    fn set_timing(&mut self, timing: Timing) -> bool {
        if !self.caps.can(timing) {
            return false;
        }
        let mode = match timing {
            Timing::Legacy | Timing::HighSpeed | Timing::Sdr12 => UHS_SDR12,
            Timing::Sdr25 => UHS_SDR25,
            Timing::Sdr50 => UHS_SDR50,
            Timing::Sdr104 | Timing::Hs200 => UHS_SDR104,
            Timing::Ddr50 | Timing::Ddr52 => UHS_DDR50,
            Timing::Hs400 => u16::from(self.config.hs400_mode) & UHS_MASK,
            Timing::Hs400Es => u16::from(self.config.hs400es_mode) & UHS_MASK,
        };
        let slow = matches!(timing, Timing::Legacy | Timing::Sdr12);
        let fast =
            if slow || self.config.quirks.has(SdhciQuirks::NO_HISPD_BIT) { 0 } else { CONTROL_HIGH_SPEED };
        let control = self.bus.control & !CONTROL_HIGH_SPEED | fast;
        let control_2 = self.bus.control_2 & !UHS_MASK | mode;
        if control == self.bus.control && control_2 == self.bus.control_2 {
            return true;
        }
        let clock = self.port.read16(CLOCK);
        let gated = clock & CLOCK_CARD != 0;
        if gated {
            self.port.write16(CLOCK, clock & !CLOCK_CARD);
        }
        if control != self.bus.control {
            self.bus.control = control;
            self.port.write8(CONTROL, control);
        }
        if control_2 != self.bus.control_2 {
            self.bus.control_2 = control_2;
            self.write_control_2(0);
        }
        if gated {
            self.port.write16(CLOCK, clock);
        }
        true
    }

    /// Selects ADMA3 in Host Control 1, until the supply changes.
    pub(super) fn select_adma3(&mut self) {
        if self.bus.control & CONTROL_ADMA3 != CONTROL_ADMA3 {
            self.bus.control |= CONTROL_ADMA3;
            self.port.write8(CONTROL, self.bus.control);
        }
    }

    /// Writes Host Control 2 with the bits `more` set and the tuning bits unchanged.
    fn write_control_2(&self, more: u16) {
        let tuning = self.port.read16(CONTROL_2) & (CONTROL_2_TUNE | CONTROL_2_TUNED);
        self.port.write16(CONTROL_2, self.bus.control_2 | tuning | more);
    }
}
