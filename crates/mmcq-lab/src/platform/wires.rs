//! Limits of a board's wires, which its file gives the driver like a device tree: `[driver] width`,
//! `max_clock_hz` and `max_timing`.

use super::{ControllerConfig, PlatformError, error};
use mmcq::host::{Caps, Timing, Width};
use toml::{Table, Value};

/// Bus timings by speed, from the slowest, with their names for `driver.max_timing`.
const LADDER: [(&str, &[Timing]); 7] = [
    ("legacy", &[]),
    ("high-speed", &[Timing::HighSpeed]),
    ("ddr", &[Timing::Ddr50, Timing::Ddr52]),
    ("sdr50", &[Timing::Sdr50]),
    ("hs200", &[Timing::Sdr104, Timing::Hs200]),
    ("hs400", &[Timing::Hs400]),
    ("hs400es", &[Timing::Hs400Es]),
];

/// Keys of the section `[driver]` that concern the wires.
pub(super) const KEYS: [&str; 3] = ["width", "max_clock_hz", "max_timing"];

/// Limits of a board's wires; `None`: the board's file does not limit this value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wires {
    /// Number of data lines between host and card; `None`: the board's file does not limit it.
    pub width: Option<Width>,
    /// Fastest bus clock in Hz that the wires allow.
    pub max_clock_hz: Option<u32>,
    /// Index in [`LADDER`] of the fastest timing that the wires allow.
    max_timing: Option<usize>,
}

impl Wires {
    /// Takes the keys about the wires out of the section `[driver]` of a board's file.
    pub(super) fn read(
        place: &dyn Fn(&str) -> String,
        section: &mut Table,
        controller: &ControllerConfig,
    ) -> Result<Self, PlatformError> {
        let reader = matches!(controller, ControllerConfig::Rtsx(_));
        if let Some(key) = KEYS.into_iter().find(|key| reader && section.contains_key(*key)) {
            let why = "a reader's driver knows its wires; expected a controller of kind sdhci or mshc";
            return Err(PlatformError::new(format!("{}: {why}", place(&format!("driver.{key}")))));
        }
        let width = match section.remove("width") {
            Some(Value::Integer(1)) => Some(Width::W1),
            Some(Value::Integer(4)) => Some(Width::W4),
            Some(Value::Integer(8)) => Some(Width::W8),
            Some(other) => return Err(error(&place("driver.width"), &other, "1, 4 or 8")),
            None => None,
        };
        let max_clock_hz = match section.remove("max_clock_hz") {
            Some(Value::Integer(hz)) if (400_000..=1_000_000_000).contains(&hz) => Some(hz as u32),
            Some(other) => {
                return Err(error(&place("driver.max_clock_hz"), &other, "400000 to 1000000000"));
            }
            None => None,
        };
        let max_timing = match section.remove("max_timing") {
            Some(value) => {
                let found = LADDER.iter().position(|(name, _)| Some(*name) == value.as_str());
                let known = LADDER.map(|(name, _)| format!("\"{name}\"")).join(", ");
                Some(found.ok_or_else(|| error(&place("driver.max_timing"), &value, &known))?)
            }
            None => None,
        };
        Ok(Wires { width, max_clock_hz, max_timing })
    }

    /// Returns whether the wires can carry this timing.
    pub fn carry(&self, timing: Timing) -> bool {
        let at = LADDER.iter().position(|(_, timings)| timings.contains(&timing));
        self.max_timing.is_none_or(|most| at.is_none_or(|at| at <= most))
    }

    /// Takes the two capability registers of a standard controller (`low` and `high` word), clears
    /// the timings that the wires cannot carry, and returns both as one number. `None`: the board's
    /// file does not limit the timing.
    pub fn capabilities(&self, low: u32, high: u32) -> Option<u64> {
        self.max_timing?;
        let mut all = u64::from(high) << 32 | u64::from(low);
        // High Speed, and in the upper register SDR50, SDR104 and DDR50 [SDHC 2.2.25].
        for (bit, timing) in
            [(21, Timing::HighSpeed), (32, Timing::Sdr50), (33, Timing::Sdr104), (34, Timing::Ddr50)]
        {
            if !self.carry(timing) {
                all &= !(1 << bit);
            }
        }
        Some(all)
    }

    /// Returns those timings in the list that the wires can carry, as [`Caps::timing_bit`]s.
    pub fn timings(&self, timings: &[Timing]) -> u16 {
        let carried = timings.iter().filter(|timing| self.carry(**timing));
        carried.fold(0, |bits, timing| bits | Caps::timing_bit(*timing))
    }
}
