//! Bus settings of the card reader: power, PLL, dividers, phases, signalling voltage, width.

use super::bits::{card, clk, sd};
use super::{NEVER, Rtsx, Timer};
use crate::card::BusState;

/// Clock in Hz above which SD30 mode needs a chip that supports SDR104.
const SDR50_HZ: u32 = 100_000_000;

/// State of the chip's clocks and pads that no register shows: the PLL, the phases, and the
/// voltages.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Value N at which the PLL runs or to which it locks; `None`: the PLL is off.
    n: Option<u8>,
    locked: bool,
    /// Phases at which the chip sends and samples; `None`: the phase is in reset.
    phases: [Option<u8>; 2],
    /// Whether the pads signal at 1.8 V.
    at_18v: bool,
    /// Time in ns at which the weak power switch was turned on; `None`: it is off.
    partial_since_ns: Option<u64>,
}

impl Rtsx {
    pub(super) fn set_power(&mut self, old: u8, new: u8, now: u64) {
        self.regs.put(card::PWR_CTL, new);
        match new & card::POWER_MASK {
            card::POWER_OFF => self.clock.partial_since_ns = None,
            0 if old & card::POWER_MASK != 0 => {
                let charged = self
                    .clock
                    .partial_since_ns
                    .take()
                    .is_some_and(|at| now >= at.saturating_add(self.needs.partial_ns));
                if !charged {
                    self.slot.violation();
                }
            }
            0 => {}
            partial => {
                if partial != self.needs.partial {
                    self.slot.violation();
                }
                self.clock.partial_since_ns = self.clock.partial_since_ns.or(Some(now));
            }
        }
        if new & card::POWER_MASK != 0 {
            // A card without power stops what it was doing.
            self.slot.busy_until_ns = 0;
            self.sd.open = None;
        }
        self.refresh_bus(now);
    }

    /// Handles the removal of the card: the chip switches power, outputs and clock off.
    pub(super) fn take_supply_away(&mut self, now: u64) {
        let power = self.regs.at(card::PWR_CTL) | card::POWER_OFF;
        self.regs.put(card::PWR_CTL, power);
        self.clock.partial_since_ns = None;
        let (oe, enable) = (self.regs.at(card::OE), self.regs.at(card::CLK_EN));
        self.regs.put(card::OE, oe & !card::SD_OE);
        self.regs.put(card::CLK_EN, enable & !card::SD_CLK_EN);
        // That the clock stops during a transfer is no mistake of the driver here.
        self.slot.bus.clock_hz = 0;
        self.refresh_bus(now);
    }

    /// Returns whether the clock gates let the SD clock through to the card. The bit of BUS_STAT
    /// that stops the clock for a short time does not count.
    fn gates_open(&self) -> bool {
        self.regs.at(card::CLK_EN) & card::SD_CLK_EN != 0 && self.regs.at(clk::CLK_CTL) & clk::CHANGE_CLK == 0
    }

    /// Updates the bus after a write to the bits CHANGE_CLK or SD_CLK_EN. To let the clock through
    /// before the PLL has locked is a mistake of the driver.
    pub(super) fn clock_gate_changed(&mut self, now: u64) {
        if self.gates_open() && !self.clock.locked {
            self.slot.violation();
        }
        self.refresh_bus(now);
    }

    /// Applies a change of the register `name` from `old` to `new`: a divider, the PLL control, or
    /// the phase of the sending or sampling clock. To change it while the card gets the clock is a
    /// mistake of the driver.
    pub(super) fn clock_changed(&mut self, name: u16, old: u8, new: u8, now: u64) {
        if self.gates_open() {
            self.slot.violation();
        }
        match name {
            clk::SSC_CTL1 if new & !old & clk::SSC_RSTB != 0 => {
                let n = self.regs.at(clk::SSC_DIV_N_0);
                self.clock.locked = false;
                if (80..=208).contains(&n) {
                    self.clock.n = Some(n);
                    self.set_timer(Timer::Pll, now.saturating_add(self.config.pll_ns));
                } else {
                    self.slot.violation();
                }
            }
            clk::SSC_CTL1 if new & clk::SSC_RSTB == 0 => {
                self.clock.locked = false;
                self.clock.n = None;
                self.stop_timer(Timer::Pll);
            }
            clk::CLK_DIV if !(1..=4).contains(&(new >> 4 & 7)) => self.slot.violation(),
            clk::VPTX | clk::VPRX => {
                let phase = &mut self.clock.phases[usize::from(name == clk::VPRX)];
                if new & clk::PHASE_NOT_RESET == 0 {
                    *phase = None;
                } else if old & clk::PHASE_NOT_RESET == 0 {
                    *phase = Some(new & 0x1f);
                }
            }
            _ => {}
        }
        self.refresh_bus(now);
    }

    pub(super) fn pll_locked(&mut self, now: u64) {
        self.clock.locked = true;
        self.refresh_bus(now);
    }

    pub(super) fn set_signal(&mut self, at_18v: bool, now: u64) {
        if !at_18v {
            self.stop_timer(Timer::Signal18);
            self.clock.at_18v = false;
        } else if !self.clock.at_18v && self.slot.alarm_ns(Timer::Signal18 as usize) == NEVER {
            self.set_timer(Timer::Signal18, now.saturating_add(self.config.signal18_settle_ns));
        }
        self.refresh_bus(now);
    }

    pub(super) fn signal_settled(&mut self, now: u64) {
        self.clock.at_18v = true;
        self.refresh_bus(now);
    }

    /// Returns the frequency in Hz that the SD clock has when its gates are open; 0 while the PLL
    /// is not locked.
    fn sd_hz(&self) -> u32 {
        let Some(n) = self.clock.n.filter(|_| self.clock.locked) else { return 0 };
        let divider = match self.regs.at(clk::CLK_DIV) >> 4 & 7 {
            1 => 1,
            2 => 2,
            3 => 4,
            _ => 8,
        };
        let config1 = self.regs.at(sd::CFG1);
        let halves = if config1 & 0x0c == sd::MODE_SD30 { 1 } else { 2 };
        let slow = match config1 & 0xc0 {
            0x80 => 128,
            0xc0 => 256,
            _ => 1,
        };
        self.config.base_hz.saturating_mul(u32::from(n) + 2) / (divider * halves * slow)
    }

    fn sample_error(&self, clock_hz: u32) -> u8 {
        if self.regs.at(sd::CFG1) & 0x0c != sd::MODE_SD30 {
            return 0;
        }
        if clock_hz > SDR50_HZ && !self.config.sdr104 || !self.drive_fits() {
            return 100;
        }
        let tx_phase = if clock_hz > SDR50_HZ { self.config.tx_phase } else { self.config.slow_tx_phase };
        let error = |phase: Option<u8>, middle| phase.map_or(100, |p| self.config.phase_error(p, middle));
        let [tx, rx] = self.clock.phases;
        error(tx, tx_phase).max(error(rx, self.config.rx_phase))
    }

    /// Informs the card if the state of the bus has changed.
    pub(super) fn refresh_bus(&mut self, now: u64) {
        let config1 = self.regs.at(sd::CFG1);
        let stopped = self.regs.at(sd::BUS_STAT) & sd::FORCE_STOP != 0;
        let clock_hz = if self.gates_open() && !stopped { self.sd_hz() } else { 0 };
        let bus = BusState {
            powered: self.regs.at(card::PWR_CTL) & card::POWER_MASK == 0,
            clock_hz,
            width: match config1 & 3 {
                1 => 4,
                2 => 8,
                _ => 1,
            },
            ddr: config1 & 0x0c == sd::MODE_DDR && self.config.ddr,
            signal18: self.clock.at_18v,
            strobe: false,
            reset: false,
            sample_error: self.sample_error(clock_hz),
        };
        if bus != self.slot.bus {
            // A change of the clock damages what is on the lines.
            if self.sd.on_the_lines() && bus.clock_hz != self.slot.bus.clock_hz {
                self.slot.violation();
            }
            self.slot.bus = bus;
            self.slot.with_card(now, |card, now| card.bus_changed(&bus, now));
        }
    }

    /// Returns whether this chip supports the mode in CFG1 at the present signalling voltage.
    pub(super) fn mode_possible(&self) -> bool {
        match self.regs.at(sd::CFG1) & 0x0c {
            0 => true,
            sd::MODE_DDR => self.config.ddr,
            sd::MODE_SD30 => {
                self.slot.bus.signal18 && (self.slot.bus.clock_hz <= SDR50_HZ || self.config.sdr104)
            }
            _ => false,
        }
    }

    /// Samples the line levels for BUS_STAT, if the SD clock runs.
    pub(super) fn sample_lines(&mut self, now: u64) {
        let toggles = self.regs.at(sd::BUS_STAT) & sd::TOGGLE != 0 || self.sd.running();
        if !toggles || self.slot.bus.clock_hz == 0 {
            return;
        }
        let busy = self.slot.busy_until_ns > now;
        let lines = self.slot.with_card(now, |card, now| {
            let low = card.lines_low(now) | u8::from(card.busy(now) || busy);
            (card.switching_voltage(now), low)
        });
        self.sd.lines = match lines {
            _ if !self.pads_work() => 0,
            Some((true, _)) => 0,
            // Bit 0 is CMD, bits 1 to 4 are DAT0 to DAT3.
            Some((false, low)) => sd::LINES & !(low << 1),
            None => sd::LINES,
        };
    }
}
