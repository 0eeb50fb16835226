//! Clock, bus settings and voltage switch of a mobile storage host.

use super::bits::{NEW_TIMING, clock, cmd, ctrl, delay, int};
use super::{Mshc, MshcConfig, NEVER, Timer};
use crate::card::BusState;
use crate::faults::{Point, Strike};
use crate::probe::Signal;
use crate::slot::Core;

/// Clock in Hz above which the sampling phase must be tuned; without tuning, data are lost.
const UNTUNED_HZ: u32 = 52_000_000;
/// Number of clocks after the response to CMD11 at which the controller samples the lines.
const LOW_CLK: u64 = 8;
/// Interval in ns at which the controller samples the lines after the clock runs again.
const LOOK_NS: u64 = 100_000;
/// Largest number of samples that the controller takes of the lines after the clock runs again.
const LOOKS: u8 = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Switch {
    #[default]
    None,
    /// CMD11 got its response: the card must now pull the lines low.
    Answered,
    /// In a voltage switch, the card has pulled the lines low: software must stop the clock and
    /// start it again.
    Low,
    /// The clock runs again: the card must release the lines. The value is the number of samples of
    /// the lines that the controller still takes.
    Rising(u8),
}

/// State of the clock to the card, and what the board's circuits give: the card's supply, the
/// signal voltage, and the sampling phase.
#[derive(Debug)]
pub(super) struct Clock {
    pub supply: bool,
    pub signal18: bool,
    /// Sampling phase in degrees.
    pub phase: u16,
    /// Divider of 8 bits that the last update command has set.
    divider: u32,
    /// Whether the last update command has started the clock.
    on: bool,
    /// Fault: whether an update command never ends.
    pub hangs: bool,
    switch: Switch,
}

impl Clock {
    pub fn new() -> Self {
        Clock {
            supply: true,
            signal18: false,
            phase: 0,
            divider: 0,
            on: false,
            hangs: false,
            switch: Switch::None,
        }
    }

    /// Resets the clock, as a reset of the controller does.
    pub fn reset(&mut self, config: &MshcConfig) {
        self.on &= config.is_smhc();
        (self.hangs, self.switch) = (false, Switch::None);
    }
}

impl Mshc {
    /// Executes an update command: the clock registers take effect.
    pub(super) fn update_clock(&mut self, command: u32, now: u64) {
        let enable = self.regs.enable & clock::ENABLE != 0;
        if enable && !self.clock.on && self.strike(Point::Clock, now) == Some(Strike::Never) {
            self.clock.hangs = true;
            return;
        }
        let switching = !matches!(self.clock.switch, Switch::None | Switch::Rising(_));
        if switching != (command & cmd::VOLTAGE != 0) {
            // Each update between CMD11 and the running clock must have the bit of the voltage
            // switch, and no other update may have it.
            self.slot.violation();
        }
        let source = if self.config.is_smhc() { 0 } else { self.regs.source & 3 };
        let divider = self.regs.divider >> (8 * source) & clock::DIVIDER;
        if self.clock.on && enable && divider != self.clock.divider {
            // A change of the divider while the clock runs sends glitches to the card.
            self.slot.violation();
        }
        (self.clock.divider, self.clock.on) = (divider, enable);
        self.refresh_bus(now);
        if command & cmd::VOLTAGE != 0 && enable {
            self.clock.switch = Switch::Rising(LOOKS);
            self.set_timer(Timer::Voltage, now + LOOK_NS);
        }
    }

    fn clock_hz(&self) -> u32 {
        match (self.clock.on, self.clock.divider) {
            (false, _) => 0,
            (true, 0) => self.config.source_hz,
            (true, divider) => self.config.source_hz / (2 * divider),
        }
    }

    fn sample_error(&self, hz: u32) -> u8 {
        if hz <= UNTUNED_HZ {
            return 0;
        }
        let set = self.regs.sample_delay;
        let steps = if set & delay::BY_SOFTWARE != 0 { set & delay::STEPS } else { 0 };
        let delay_ps = u64::from(steps) * u64::from(self.config.delay_step_ps);
        let degrees = u64::from(self.clock.phase) + delay_ps * u64::from(hz) * 360 / 1_000_000_000_000;
        let apart = (degrees % 360).abs_diff(u64::from(self.config.best_phase));
        (apart.min(360 - apart) * 100 / 180) as u8
    }

    /// Returns whether the present divider makes double data rate impossible. Double data rate
    /// needs twice the card's clock on eight lines; in SMHC's new timing mode on any number of
    /// lines.
    pub(super) fn half_clock_is_missing(&self) -> bool {
        let all = self.config.is_smhc() && self.regs.timing & NEW_TIMING != 0;
        self.slot.bus.ddr && self.clock.divider == 0 && (all || self.slot.bus.width == 8)
    }

    /// Returns whether the clock is so fast that a block is lost if the clock stops inside it.
    pub(super) fn is_fast(&self) -> bool {
        self.slot.bus.clock_hz > UNTUNED_HZ
    }

    /// Informs the card about supply, clock, width, data rate and voltage of the bus, as the
    /// registers and the board set them.
    pub(super) fn refresh_bus(&mut self, now: u64) {
        let hz = self.clock_hz();
        let r = &self.regs;
        let (powered, width, ddr, signal18) = if self.config.is_smhc() {
            let width = [1, 4, 8, 8][(r.width & 3) as usize];
            (self.clock.supply, width, r.control & ctrl::DDR != 0, self.clock.signal18)
        } else {
            let width = match (r.width >> 16 & 1, r.width & 1) {
                (1, _) => 8,
                (0, 1) => 4,
                _ => 1,
            };
            let supply = self.clock.supply && r.power & 1 != 0;
            (supply, width, r.uhs >> 16 & 1 != 0, r.uhs & 1 != 0 || self.clock.signal18)
        };
        let signal18 = self.config.signal18_fixed || signal18 && self.config.signal18;
        let bus = BusState {
            powered,
            clock_hz: hz,
            width,
            ddr: ddr && width > 1,
            signal18,
            reset: r.card_reset & 1 == 0,
            sample_error: self.sample_error(hz),
            ..self.slot.bus
        };
        if bus == self.slot.bus {
            return;
        }
        self.slot.bus = bus;
        let low = self.slot.card().is_some_and(|card| card.switching_voltage(self.slot.card_ns(now)));
        self.slot.show(&Signal::Bus { at_ns: now, bus, low });
        self.slot.with_card(now, |card, now| card.bus_changed(&bus, now));
        self.command_may_go(now);
    }

    /// Begins the voltage switch after a good response to CMD11: the controller samples the lines
    /// [`LOW_CLK`] clocks later.
    pub(super) fn voltage_command_answered(&mut self, now: u64) {
        if self.regs.enable & clock::LOW_POWER != 0 {
            // In low power mode the clock would stop by itself, which the card takes for a step of
            // the switch.
            self.slot.violation();
        }
        self.clock.switch = Switch::Answered;
        let at_ns = self.slot.beat(now).plus(LOW_CLK).ns();
        self.set_timer(Timer::Voltage, at_ns);
    }

    pub(super) fn voltage_event(&mut self, now: u64) {
        let at = self.slot.card_ns(now);
        let low = self.slot.card().is_some_and(|card| card.lines_low(at) & 0xf != 0);
        match self.clock.switch {
            Switch::None | Switch::Low => {}
            Switch::Answered => {
                self.clock.switch = if low { Switch::Low } else { Switch::None };
                self.set_timer(Timer::Voltage, NEVER);
                if low {
                    self.regs.raw |= int::STARVED;
                }
            }
            Switch::Rising(0) => self.clock.switch = Switch::None,
            Switch::Rising(looks) if low => {
                self.clock.switch = Switch::Rising(looks - 1);
                self.set_timer(Timer::Voltage, now + LOOK_NS);
            }
            Switch::Rising(_) => {
                self.clock.switch = Switch::None;
                self.regs.raw |= int::STARVED;
            }
        }
    }
}
