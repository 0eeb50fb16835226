//! Operations on the bus that never block: supply, clock and data lines.

use super::Pl181;
use super::regs::*;
use crate::host::{BusOp, Regs, Step, Width};

/// The bus settings as register values, and the ramp of the supply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bus {
    /// Value of the power register (MCIPower) that the driver has set.
    power: u32,
    /// Value of the clock register (MCIClock) that the driver has set.
    clock: u32,
    /// Frequency of the card's clock in hertz, 0 while the clock is stopped.
    pub(super) clock_hz: u32,
    /// Time at which the supply has risen, in nanoseconds; `None` if it is not rising.
    ramp_end_ns: Option<u64>,
}

impl<R: Regs> Pl181<R> {
    pub(super) fn step_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            self.bus.ramp_end_ns = None;
            return self.begin(op, now_ns);
        }
        match self.bus.ramp_end_ns {
            Some(end_ns) if now_ns < end_ns => Step::Wait(end_ns),
            Some(_) => {
                self.bus.ramp_end_ns = None;
                self.set_power(self.config.power & !POWER_ON | POWER_ON);
                Step::Done
            }
            None => Step::Done,
        }
    }

    fn begin(&mut self, op: BusOp, now_ns: u64) -> Step {
        match op {
            BusOp::PowerOff => self.power_off(),
            BusOp::PowerOn => {
                self.power_off();
                self.set_power(self.config.power & !POWER_ON | POWER_UP);
                let end_ns = now_ns.saturating_add(self.config.power_up_ns);
                self.bus.ramp_end_ns = Some(end_ns);
                return Step::Wait(end_ns);
            }
            BusOp::Clock(0) => {
                self.bus.clock_hz = 0;
                self.set_clock(self.bus.clock & CLOCK_WIDE);
            }
            BusOp::Clock(hz) => {
                let Some((bits, actual_hz)) = divide(self.config.mclk_hz, hz.min(self.caps.clock_hz.1))
                else {
                    return Step::Failed;
                };
                self.bus.clock_hz = actual_hz;
                self.set_clock(self.bus.clock & CLOCK_WIDE | CLOCK_ENABLE | bits);
            }
            BusOp::Width(width) if width > self.caps.width => return Step::Failed,
            BusOp::Width(Width::W1) => self.set_clock(self.bus.clock & !CLOCK_WIDE),
            BusOp::Width(_) => self.set_clock(self.bus.clock | CLOCK_WIDE),
            BusOp::Timing(timing) if !self.caps.can(timing) => return Step::Failed,
            BusOp::Signal18(true) | BusOp::TuneStart => return Step::Failed,
            BusOp::Timing(_) | BusOp::Signal18(false) | BusOp::TuneAbort => {}
            BusOp::ResetLines => self.quiet(),
            BusOp::ResetAll => {
                // The controller has no reset, so the driver writes all registers instead.
                self.quiet();
                self.regs.write32(MASK_1, 0);
                self.set_power(self.bus.power);
                self.set_clock(self.bus.clock);
            }
        }
        if self.regs.read32(STATUS) == u32::MAX { Step::Failed } else { Step::Done }
    }

    fn power_off(&mut self) {
        self.quiet();
        self.regs.write32(MASK_1, 0);
        self.bus.clock_hz = 0;
        self.set_clock(0);
        self.set_power(0);
    }

    fn set_power(&mut self, power: u32) {
        self.bus.power = power;
        self.regs.write32(POWER, power);
        self.rest(0);
    }

    fn set_clock(&mut self, clock: u32) {
        self.bus.clock = clock;
        self.regs.write32(CLOCK, clock);
        self.rest(0);
    }
}

/// Returns the bits of MCIClock for the fastest card clock that is not above `hz`, and the
/// frequency of that clock; `None` if the clock cannot be that slow. `mclk_hz`: the frequency of
/// MCLK, from which the controller derives the clock.
fn divide(mclk_hz: u32, hz: u32) -> Option<(u32, u32)> {
    if mclk_hz <= hz {
        return Some((CLOCK_BYPASS, mclk_hz));
    }
    // The divider is at least 1 anyway; `max` shows the compiler that no division can panic.
    let half = mclk_hz.div_ceil(hz.max(1)).div_ceil(2).max(1);
    (hz != 0 && half - 1 <= CLOCK_DIVIDER_MAX).then(|| (half - 1, mclk_hz / (2 * half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divided_clock_is_never_above_and_the_nearest_below() {
        for mclk in [1, 2, 24_000_000u32, 33_000_000, 48_000_000, 99_999_999, u32::MAX] {
            for hz in [1, 100_000, 400_000, 12_000_000, 24_000_000, 25_000_000, 50_000_000, u32::MAX] {
                // Every possible setting, by the controller's own rule.
                let all = (0..=255u64).map(|d| (d as u32, u64::from(mclk) / (2 * (d + 1))));
                let best = core::iter::once((CLOCK_BYPASS, u64::from(mclk)))
                    .chain(all)
                    .find(|&(bits, _)| {
                        let divisor = if bits == CLOCK_BYPASS { 1 } else { 2 * (u64::from(bits) + 1) };
                        u64::from(mclk) <= u64::from(hz) * divisor
                    })
                    .map(|(bits, out)| (bits, out as u32));
                assert_eq!(divide(mclk, hz), best, "{mclk} {hz}");
            }
        }
        assert_eq!(divide(24_000_000, 400_000), Some((29, 400_000)));
        assert_eq!(divide(24_000_000, 0), None);
    }
}
