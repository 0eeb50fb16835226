//! Divider of the SD clock, and timeout counter [SDHC 2.2.14, 2.2.15].

use super::capabilities::VERSION_3_00;
use super::config::{SdhciConfig, SdhciInitError, SdhciQuirks};
use super::regs::*;

const NS_IN_S: u64 = 1_000_000_000;
/// Largest divider value of version 3, which divides the base clock by 2046.
const DIVIDER_MAX: u32 = 0x3ff;

/// The clocks of one controller, in hertz.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    base: u32,
    /// Programmable clock: base clock times multiplier, or 0 if the controller has none.
    programmable: u32,
    /// Frequency of the timeout clock in hertz; 0 if not known.
    timeout: u32,
    /// Whether dividers have 10 bits (from version 3.00 on).
    wide: bool,
}

impl Clocks {
    pub(super) fn new(
        version: u8,
        low: u32,
        high: u32,
        config: &SdhciConfig,
    ) -> Result<Self, SdhciInitError> {
        let wide = version >= VERSION_3_00;
        let mhz = (low >> 8) & if wide { 0xff } else { 0x3f };
        let base = config.base_clock_hz.unwrap_or(mhz * 1_000_000);
        if base == 0 {
            return Err(SdhciInitError::NoBaseClock);
        }
        let unit = if low & CAP_TIMEOUT_MHZ != 0 { 1_000_000 } else { 1_000 };
        let multiplier = if wide && !config.quirks.has(SdhciQuirks::NO_CLOCK_MULTIPLIER) {
            (high >> 16) & 0xff
        } else {
            0
        };
        Ok(Clocks {
            base,
            programmable: if multiplier == 0 { 0 } else { base.saturating_mul(multiplier + 1) },
            timeout: config.timeout_clock_hz.unwrap_or((low & 0x3f) * unit),
            wide,
        })
    }

    /// Returns the slowest SD clock that the controller can make, and the fastest one up to
    /// `limit_hz`, in hertz.
    pub(super) fn range(&self, limit_hz: u32) -> (u32, u32) {
        let slowest = self.base.div_ceil(if self.wide { 2 * DIVIDER_MAX } else { 256 });
        (slowest, self.base.max(self.programmable).min(limit_hz))
    }

    /// Returns the bits of Clock Control for the fastest clock not above `hz`, and the frequency of
    /// that clock; `None` if the clock cannot be that slow.
    pub(super) fn divide(&self, hz: u32) -> Option<(u16, u32)> {
        if hz == 0 {
            return None;
        }
        if self.programmable != 0 {
            // The divisor is at least 1 anyway; `max` shows the compiler that no division by zero
            // can panic.
            let divisor = self.programmable.div_ceil(hz).max(1);
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
        let half = self.base.div_ceil(hz).div_ceil(2).max(1);
        (half <= DIVIDER_MAX).then(|| (encode(half), self.base / (2 * half)))
    }

    /// Returns the longest timeout of the counter in nanoseconds; 0 if the timeout clock is not
    /// known.
    pub(super) fn max_timeout_ns(&self) -> u64 {
        // A clock in quarters of a nanosecond, rounded down. A division of 64 bits would be long
        // code.
        let quarters = (4 * NS_IN_S as u32).checked_div(self.timeout).unwrap_or(0);
        u64::from(quarters) << (11 + TIMEOUT_MAX)
    }

    /// Returns the counter value for a timeout of at least `timeout_ns`, and whether even the
    /// largest value is too short. `sd_clock_hz`, if given, replaces the timeout clock.
    pub(super) fn timeout(&self, timeout_ns: u64, sd_clock_hz: Option<u32>) -> (u8, bool) {
        let hz = sd_clock_hz.unwrap_or(self.timeout);
        if hz == 0 {
            return (TIMEOUT_MAX, true);
        }
        // The number of clocks times `NS_IN_S`, which is not divided: that is long code.
        let clocks = timeout_ns.saturating_mul(hz.into());
        match (0..=TIMEOUT_MAX).find(|n| NS_IN_S << (13 + n) >= clocks) {
            Some(n) => (n, false),
            None => (TIMEOUT_MAX, true),
        }
    }
}

/// Returns the divider as bits of Clock Control (SDCLK Frequency Select): its bits 7:0 in 15:8, its
/// bits 9:8 in 7:6.
fn encode(divider: u32) -> u16 {
    ((divider & 0xff) << 8 | (divider & 0x300) >> 2) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(version: u8, base_mhz: u32, multiplier: u32) -> Clocks {
        let timeout_1_mhz = CAP_TIMEOUT_MHZ | 1;
        Clocks::new(version, base_mhz << 8 | timeout_1_mhz, multiplier << 16, &SdhciConfig::new()).unwrap()
    }

    /// Returns the frequency, in hertz, that results from `bits`, the value of Clock Control, with
    /// the base clock `base_hz` and the clock multiplier `multiplier` of the capabilities;
    /// `version` is the specification version [SDHC 2.2.14].
    fn output_hz(version: u8, base_hz: u64, multiplier: u64, bits: u16) -> u64 {
        let value = u64::from(bits >> 8 | (bits & 0xc0) << 2);
        match (bits & CLOCK_PROGRAMMABLE != 0, version >= VERSION_3_00) {
            (true, _) => base_hz * (multiplier + 1) / (value + 1),
            (false, true) => base_hz / (2 * value).max(1),
            (false, false) => {
                assert!(value == 0 || value.is_power_of_two());
                base_hz / (2 * value).max(1)
            }
        }
    }

    #[test]
    fn divided_clock_is_never_above_and_close_below() {
        let wanted =
            [100_000, 400_000, 399_999, 1, 20_000_000, 25_000_000, 26_000_000, 52_000_000, 208_000_000];
        for (version, base, multiplier) in (0..=5u8)
            .flat_map(|v| [1u32, 10, 13, 26, 50, 52, 63].map(|b| (v, b, 0)))
            .chain([(2, 200, 0), (2, 255, 0), (3, 50, 3), (5, 10, 255)])
        {
            let clocks = clocks(version, base, multiplier);
            let (slowest, fastest) = clocks.range(u32::MAX);
            for hz in wanted.into_iter().chain([slowest, fastest, u32::MAX]) {
                let Some((bits, actual)) = clocks.divide(hz) else {
                    assert!(hz < slowest, "{version} {base} MHz x {multiplier}: {hz}");
                    continue;
                };
                let output = output_hz(version, u64::from(base) * 1_000_000, multiplier.into(), bits);
                assert_eq!(output, u64::from(actual));
                assert!(output <= u64::from(hz), "{version} {base} MHz: {hz} became {output}");
                // The coarsest divider halves the clock, so the result is more than half of what is
                // possible.
                assert!(hz > fastest || output * 2 > u64::from(hz) || output * 2 > u64::from(fastest) / 2);
            }
        }
        assert_eq!(clocks(2, 52, 0).divide(0), None);
        assert_eq!(clocks(2, 50, 0).divide(400_000), Some((0x3f00, 396_825)));
        assert_eq!(clocks(2, 200, 0).divide(100_000), Some((0xe8c0, 100_000)));
    }

    #[test]
    fn timeout_is_long_enough_and_the_shortest_such() {
        let clocks = clocks(2, 50, 0);
        assert_eq!(clocks.max_timeout_ns(), (1 << 27) * 1_000);
        assert_eq!(clocks.timeout(0, None), (0, false));
        assert_eq!(clocks.timeout(8_192_000, None), (0, false));
        assert_eq!(clocks.timeout(8_192_001, None), (1, false));
        assert_eq!(clocks.timeout(clocks.max_timeout_ns(), None), (14, false));
        assert_eq!(clocks.timeout(clocks.max_timeout_ns() + 1, None), (14, true));
        assert_eq!(clocks.timeout(u64::MAX, None), (14, true));
        assert_eq!(clocks.timeout(8_192_000, Some(2_000_000)), (1, false));
        assert_eq!(clocks.timeout(1, Some(0)), (14, true));
    }

    #[test]
    fn base_clock_must_come_from_somewhere() {
        let none = Clocks::new(2, 0, 0, &SdhciConfig::new());
        assert_eq!(none.err(), Some(SdhciInitError::NoBaseClock));
        let config = SdhciConfig { base_clock_hz: Some(100_000_000), ..SdhciConfig::new() };
        assert_eq!(Clocks::new(2, 0, 0, &config).unwrap().range(u32::MAX), (48_876, 100_000_000));
    }
}
