//! Power states, clock, bus settings and voltage switch of an SDMMC.

use super::bits::{clkcr, power, sta};
use super::config::PHASES;
use super::{NEVER, Stm32Sdmmc, Timer};
use crate::card::BusState;
use crate::probe::Signal;

/// Number of clocks that the controller waits after power-on [58.6.7].
const POWER_UP_CLK: u64 = 74;
/// Number of clocks after the last activity until power save stops the clock [58.5.4].
const SAVE_CLK: u64 = 8;
/// Number of clocks from the response to CMD11 until the clock stops; the manual says "some"
/// [58.8].
const STOP_CLK: u64 = 8;
/// Number of clocks for which the controller stops the clock in a voltage switch [58.8].
const HOLD_CLK: u64 = 1 << 12;
/// Number of clocks from the restart of the clock in a voltage switch until the controller samples
/// the lines [58.8].
const CHECK_CLK: u64 = 1 << 9;
/// Clock in Hz above which the receive clock must be tuned; without tuning, data are lost.
const UNTUNED_HZ: u32 = 52_000_000;
/// Error of the sampling point, from 0 (perfect) to 100 (wrong), with the internal receive clock,
/// above [`UNTUNED_HZ`].
const UNTUNED_ERROR: u8 = 50;

/// Step of the voltage switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Switch {
    #[default]
    None,
    /// The card has responded to CMD11; the clock stops soon.
    Answered,
    /// The clock is stopped (CKSTOP); software must continue the switch.
    Stopped,
    /// The clock stays stopped during a voltage switch, for the time that the card needs.
    Holding,
    /// The clock runs again; the controller samples the lines soon.
    Checking,
}

/// State of the clock to the card (SDMMC_CK), and what the board's circuits give: the card's
/// supply, the signal voltage, and the phase of the receive clock.
#[derive(Debug)]
pub(super) struct Clock {
    pub supply: bool,
    pub signal18: bool,
    /// Number of the phase of the receive clock that the delay block gives.
    pub phase: u8,
    /// Whether the 74 clocks after power-on are over.
    pub enabled: bool,
    /// Whether power save has stopped the clock.
    saved: bool,
    switch: Switch,
}

impl Clock {
    pub fn new() -> Self {
        Clock { supply: true, signal18: false, phase: 0, enabled: false, saved: false, switch: Switch::None }
    }

    /// Resets the part of the clock that belongs to the controller.
    pub fn reset(&mut self) {
        *self = Clock { enabled: false, saved: false, switch: Switch::None, ..*self };
    }

    /// Returns whether no command can be sent: the clock is stopped, or the card is not ready for
    /// one.
    pub fn forbids_commands(&self) -> bool {
        !self.enabled || self.saved || self.switch != Switch::None
    }
}

impl Stm32Sdmmc {
    /// Writes `value` to the register POWER: power state, and steps of the voltage switch.
    pub(super) fn set_power(&mut self, value: u32, now: u64) {
        let old = self.regs.power;
        let state = match (old & power::STATE, value & power::STATE) {
            (power::ON, power::ON) => power::ON,
            // Only a reset ends the power-on state.
            (power::ON, _) => {
                self.slot.violation();
                power::ON
            }
            (_, state @ (power::OFF | power::CYCLE | power::ON)) => state,
            (old, _) => {
                self.slot.violation();
                old
            }
        };
        let polarity = if old & power::STATE == power::OFF { value } else { old } & power::DIRPOL;
        let enable = if self.cmd.active() { old } else { value } & power::VSWITCHEN;
        if (polarity | enable) != value & (power::DIRPOL | power::VSWITCHEN) {
            self.slot.violation();
        }
        self.regs.power = state | polarity | enable | value & power::VSWITCH;
        if state == power::ON && old & power::STATE != power::ON {
            self.power_up_begins(now);
        }
        if enable == 0 {
            self.clock.switch = Switch::None;
            self.set_timer(Timer::Voltage, NEVER);
        }
        if value & !old & power::VSWITCH != 0 {
            self.switch_voltage(now);
        }
        self.refresh_bus(now);
        self.command_may_go(now);
    }

    fn power_up_begins(&mut self, now: u64) {
        self.clock.enabled = false;
        let hz = self.frequency();
        let end_ns = crate::wire::Beat::new(now, hz).plus(POWER_UP_CLK).ns();
        self.set_timer(Timer::PowerUp, if hz == 0 { NEVER } else { end_ns });
    }

    pub(super) fn powered_up(&mut self, now: u64) {
        self.clock.enabled = true;
        self.command_may_go(now);
    }

    /// Writes `value` to the clock control register (CLKCR). The write is refused while a command
    /// or data are active.
    pub(super) fn set_clock(&mut self, value: u32, now: u64) {
        let value = value & clkcr::ALL;
        if self.cmd.active() || self.dat.active() {
            if value != self.regs.clkcr {
                self.slot.violation();
            }
            return;
        }
        let wide = value >> clkcr::WIDTH_SHIFT & 3;
        let whole = value & clkcr::DIVIDER == 0;
        if wide == 3 || value & clkcr::DDR != 0 && (wide == 0 || whole) {
            self.slot.violation();
        }
        self.regs.clkcr = value;
        self.refresh_bus(now);
        if self.regs.power & power::STATE == power::ON && !self.clock.enabled {
            self.power_up_begins(now);
        }
    }

    /// Returns the clock in Hz after the divider.
    fn frequency(&self) -> u32 {
        match self.regs.clkcr & clkcr::DIVIDER {
            0 => self.config.kernel_hz,
            divider => self.config.kernel_hz / (2 * divider),
        }
    }

    fn clock_hz(&self) -> u32 {
        let on = self.regs.power & power::STATE == power::ON;
        let stopped = self.clock.saved || matches!(self.clock.switch, Switch::Stopped | Switch::Holding);
        if on && !stopped { self.frequency() } else { 0 }
    }

    /// Returns whether hardware flow control is enabled.
    pub(super) fn flow_control(&self) -> bool {
        self.regs.clkcr & clkcr::FLOW_CONTROL != 0
    }

    fn sample_error(&self, hz: u32) -> u8 {
        if self.regs.clkcr >> clkcr::RECEIVE_SHIFT & 3 == clkcr::RECEIVE_TUNED {
            let apart = self.clock.phase.abs_diff(self.config.best_phase);
            let apart = apart.min(PHASES - apart);
            (u32::from(apart) * 200 / u32::from(PHASES)) as u8
        } else if hz > UNTUNED_HZ {
            UNTUNED_ERROR
        } else {
            0
        }
    }

    /// Informs the card about supply, clock, width, data rate and voltage of the bus, as the
    /// registers and the board set them.
    pub(super) fn refresh_bus(&mut self, now: u64) {
        let hz = self.clock_hz();
        let width = match self.regs.clkcr >> clkcr::WIDTH_SHIFT & 3 {
            0 => 1,
            1 => 4,
            _ => 8,
        };
        let bus = BusState {
            powered: self.clock.supply,
            clock_hz: hz,
            width,
            ddr: self.regs.clkcr & clkcr::DDR != 0 && width > 1,
            signal18: self.clock.signal18,
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
    }

    /// Applies power save: stops the clock after some idle time, and starts it for the next
    /// activity.
    pub(super) fn power_save_follows(&mut self, now: u64) {
        let active = self.cmd.active() || self.dat.active();
        let may = self.regs.clkcr & clkcr::POWER_SAVE != 0
            && self.clock.enabled
            && self.clock.switch == Switch::None
            && !active;
        if !may {
            self.set_timer(Timer::PowerSave, NEVER);
            if std::mem::take(&mut self.clock.saved) {
                self.refresh_bus(now);
            }
        } else if !self.clock.saved && self.slot.alarm_ns(Timer::PowerSave as usize) == NEVER {
            let at_ns = self.slot.beat(now).plus(SAVE_CLK).ns();
            self.set_timer(Timer::PowerSave, at_ns);
        }
    }

    pub(super) fn save_power(&mut self, now: u64) {
        self.clock.saved = true;
        self.refresh_bus(now);
    }

    /// Returns whether the bit VSWITCHEN is set. Then the next good response begins the voltage
    /// switch and stops the clock.
    pub(super) fn voltage_may_switch(&self) -> bool {
        self.regs.power & power::VSWITCHEN != 0
    }

    pub(super) fn voltage_command_answered(&mut self, now: u64) {
        self.clock.switch = Switch::Answered;
        let at_ns = self.slot.beat(now).plus(STOP_CLK).ns();
        self.set_timer(Timer::Voltage, at_ns);
    }

    /// Continues the voltage switch after a write of the bit VSWITCH: the clock stays stopped for
    /// [`HOLD_CLK`] clocks, and then runs again.
    fn switch_voltage(&mut self, now: u64) {
        if self.clock.switch != Switch::Stopped {
            return self.slot.violation();
        }
        self.clock.switch = Switch::Holding;
        let end_ns = crate::wire::Beat::new(now, self.frequency()).plus(HOLD_CLK).ns();
        self.set_timer(Timer::Voltage, end_ns);
    }

    pub(super) fn voltage_event(&mut self, now: u64) {
        match self.clock.switch {
            Switch::Answered => {
                self.clock.switch = Switch::Stopped;
                self.refresh_bus(now);
                self.regs.status |= sta::CLOCK_STOPPED;
            }
            Switch::Holding => {
                self.clock.switch = Switch::Checking;
                self.refresh_bus(now);
                let at_ns = self.slot.beat(now).plus(CHECK_CLK).ns();
                self.set_timer(Timer::Voltage, at_ns);
            }
            Switch::Checking => {
                self.clock.switch = Switch::None;
                self.regs.busy = self.lines_low(now);
                self.regs.status |= sta::SWITCH_END;
                self.command_may_go(now);
            }
            Switch::None | Switch::Stopped => {}
        }
    }

    /// Returns whether the card holds DAT0 low for another reason than busy: a voltage switch, or a
    /// line that is stuck low. DAT0 is the only data line whose level the controller's registers
    /// show.
    pub(super) fn lines_low(&self, now: u64) -> bool {
        let at = self.slot.card_ns(now);
        self.slot.card().is_some_and(|card| card.lines_low(at) & 1 != 0)
    }
}
