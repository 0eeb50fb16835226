//! The error of a setting that is refused.

use core::fmt;

/// Error: a setting of a scheduler was given a value outside of the allowed range.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the refused setting, such as `fair.weight`.
    pub key: &'static str,
    /// The value of the setting that was refused.
    pub value: u64,
    /// Smallest allowed value.
    pub min: u64,
    /// Largest allowed value.
    pub max: u64,
}

impl ConfigError {
    /// Returns `value` if it is in `min..=max`, otherwise the error.
    pub(super) const fn check(key: &'static str, value: u64, min: u64, max: u64) -> Result<u64, Self> {
        if value < min || value > max { Err(ConfigError { key, value, min, max }) } else { Ok(value) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, expected {}..={}", self.key, self.value, self.min, self.max)
    }
}

impl core::error::Error for ConfigError {}
