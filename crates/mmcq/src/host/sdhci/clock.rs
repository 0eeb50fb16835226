//! SD clock divider and timeout counter [SDHC 2.2.14, 2.2.15].

use super::capabilities::VERSION_3_00;
use super::config::{Config, InitError, Quirks};
use super::regs::*;

const NS_IN_S: u64 = 1_000_000_000;
/// Largest divider value of version 3: base / 2046.
const DIVIDER_MAX: u32 = 0x3ff;

/// The clocks of one controller, in hertz.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    base: u32,
    /// Base clock times multiplier, or 0 without a programmable clock.
    programmable: u32,
    /// 0: not known.
    timeout: u32,
    /// 10-bit dividers.
    wide: bool,
}

impl Clocks {
    pub(super) fn new(version: u8, low: u32, high: u32, config: &Config) -> Result<Self, InitError> {
        let wide = version >= VERSION_3_00;
        let mhz = (low >> 8) & if wide { 0xff } else { 0x3f };
        let base = config.base_clock_hz.unwrap_or(mhz * 1_000_000);
        if base == 0 {
            return Err(InitError::NoBaseClock);
        }
        let unit = if low & CAP_TIMEOUT_MHZ != 0 { 1_000_000 } else { 1_000 };
        let multiplier =
            if wide && !config.quirks.has(Quirks::NO_CLOCK_MULTIPLIER) { (high >> 16) & 0xff } else { 0 };
        Ok(Clocks {
            base,
            programmable: if multiplier == 0 { 0 } else { base.saturating_mul(multiplier + 1) },
            timeout: config.timeout_clock_hz.unwrap_or((low & 0x3f) * unit),
            wide,
        })
    }

    /// Slowest and fastest SD clock.
    pub(super) fn range(&self, limit_hz: u32) -> (u32, u32) {
        let slowest = self.base.div_ceil(if self.wide { 2 * DIVIDER_MAX } else { 256 });
        (slowest, self.base.max(self.programmable).min(limit_hz))
    }

    /// The bits of Clock Control for the fastest clock not above `hz`, and that clock; `None` if it cannot be that slow.
    pub(super) fn divide(&self, hz: u32) -> Option<(u16, u32)> {
        if hz == 0 {
            return None;
        }
        if self.programmable != 0 {
            let divisor = self.programmable.div_ceil(hz);
            if divisor <= DIVIDER_MAX + 1 {
                return Some((encode(divisor - 1) | CLOCK_PROGRAMMABLE, self.programmable / divisor));
            }
        }
        if self.base <= hz {
            return Some((0, self.base));
        }
        if !self.wide {
            let divisor = self.base.div_ceil(hz).checked_next_power_of_two().filter(|&d| d <= 256)?;
            return Some((encode(divisor / 2), self.base / divisor));
        }
        let half = self.base.div_ceil(hz).div_ceil(2);
        (half <= DIVIDER_MAX).then(|| (encode(half), self.base / (2 * half)))
    }

    /// The longest time that the counter can wait for; 0 if its clock is not known.
    pub(super) fn max_timeout_ns(&self) -> u64 {
        (NS_IN_S << (13 + TIMEOUT_MAX)).checked_div(self.timeout.into()).unwrap_or(0)
    }

    /// The counter value that waits at least `timeout_ns`, and whether even the largest is too short. `sd_clock_hz` replaces the timeout
    /// clock if it is given.
    pub(super) fn timeout(&self, timeout_ns: u64, sd_clock_hz: Option<u32>) -> (u8, bool) {
        let hz = sd_clock_hz.unwrap_or(self.timeout);
        if hz == 0 {
            return (TIMEOUT_MAX, true);
        }
        let cycles = timeout_ns.saturating_mul(hz.into()).div_ceil(NS_IN_S);
        match (0..=TIMEOUT_MAX).find(|n| 1u64 << (13 + n) >= cycles) {
            Some(n) => (n, false),
            None => (TIMEOUT_MAX, true),
        }
    }
}

/// SDCLK Frequency Select: 7:0 of the divider in 15:8, 9:8 in 7:6.
fn encode(divider: u32) -> u16 {
    ((divider & 0xff) << 8 | (divider & 0x300) >> 2) as u16
}
