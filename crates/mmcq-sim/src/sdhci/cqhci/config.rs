//! Parameters of a command queue engine.

use serde::{Deserialize, Serialize};

/// Parameters of a command queue engine: the table `command_queue` inside a controller's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CqhciConfig {
    /// Offset of the engine's registers from the controller's first register.
    pub offset: u16,
    /// Frequency in hertz of the clock that counts coalescing and polling times.
    pub timer_hz: u32,
    /// Whether transfer descriptors with 128-bit task descriptors have 12 bytes instead of 16.
    #[serde(default)]
    pub short_descriptors: bool,
    /// Mistake: whether the register CQTCN (completed tasks) shows cleared tasks as complete until
    /// the driver disables the engine.
    #[serde(default)]
    pub stale_completions: bool,
    /// Whether the engine's bit of the controller's interrupt status is set by each event, and
    /// stays set until the driver clears it. Without it the bit is the level of the engine's
    /// interrupt.
    #[serde(default)]
    pub latched_status: bool,
    /// Mistake: wrong value that the version register shows; `None`: the register shows the right
    /// value.
    #[serde(default)]
    pub version: Option<u32>,
    /// Mistake: wrong value that the capabilities register shows; `None`: the register shows the
    /// right value.
    #[serde(default)]
    pub capabilities: Option<u32>,
    /// Bits of the configuration register CQCFG that stay 0 whatever the driver writes.
    #[serde(default)]
    pub no_configuration: u32,
}

impl CqhciConfig {
    /// The engine of Intel's controllers: timer clock of 192 MHz, registers at 200h.
    pub const INTEL: CqhciConfig = CqhciConfig {
        offset: 0x200,
        timer_hz: 192_000_000,
        short_descriptors: true,
        stale_completions: false,
        latched_status: false,
        version: None,
        capabilities: None,
        no_configuration: 0,
    };

    /// Checks all values. The error for a value that no controller can have is one line with the
    /// key, the value and what was expected.
    pub(in crate::sdhci) fn check(&self) -> Result<(), String> {
        if self.offset < 0x100 || !self.offset.is_multiple_of(0x80) || self.offset > 0xff00 {
            return Err(format!(
                "sdhci: command_queue.offset = {:#x}: expected a multiple of 0x80 from 0x100 to 0xff00",
                self.offset
            ));
        }
        if self.timer().is_none() {
            return Err(format!(
                "sdhci: command_queue.timer_hz = {}: expected 1 to 1023 of 1 kHz, 10 kHz, 100 kHz, 1 MHz or \
                 10 MHz",
                self.timer_hz
            ));
        }
        Ok(())
    }

    /// Returns the fields ITCFVAL and ITCFMUL for the timer clock: a number and the largest unit
    /// that give exactly this clock; `None` if there are none.
    fn timer(&self) -> Option<(u32, u32)> {
        let units = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
        let says = |&(_, unit): &(u32, u32)| {
            self.timer_hz.is_multiple_of(unit) && (1..1024).contains(&(self.timer_hz / unit))
        };
        (0..).zip(units).find(says).map(|(code, unit)| (self.timer_hz / unit, code))
    }

    /// Returns the value of the capabilities register CQCAP.
    pub(super) fn capabilities(&self) -> u32 {
        let truth = self.timer().map_or(0, |(value, code)| code << 12 | value);
        self.capabilities.unwrap_or(truth)
    }

    /// Returns how long this number of clocks of the command queue engine's timer (`timer_hz`)
    /// takes, in ns.
    pub(super) fn clocks_ns(&self, clocks: u32) -> u64 {
        u64::from(clocks) * 1_000_000_000 / u64::from(self.timer_hz.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_said_as_dumps_of_chips_say_it() {
        let cap = |timer_hz| CqhciConfig { timer_hz, ..CqhciConfig::INTEL }.capabilities();
        assert_eq!((cap(192_000_000), cap(200_000_000), cap(24_000_000)), (0x30c0, 0x30c8, 0x20f0));
        assert_eq!(CqhciConfig::INTEL.clocks_ns(4096), 21_333);
    }

    #[test]
    fn senseless_values_are_refused_by_name() {
        let error = |config: CqhciConfig| config.check().unwrap_err();
        assert!(error(CqhciConfig { offset: 0x80, ..CqhciConfig::INTEL }).contains("offset = 0x80"));
        assert!(error(CqhciConfig { offset: 0x210, ..CqhciConfig::INTEL }).contains("offset = 0x210"));
        assert!(error(CqhciConfig { timer_hz: 1, ..CqhciConfig::INTEL }).contains("timer_hz = 1:"));
        assert_eq!(CqhciConfig::INTEL.check(), Ok(()));
    }
}
