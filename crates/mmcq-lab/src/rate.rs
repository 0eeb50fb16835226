//! Units in which a rate is shown.

use std::str::FromStr;

/// A unit in which rates are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// MiB/s: 1048576 bytes per second.
    #[default]
    MibPerSecond,
    /// MB/s: 1000000 bytes per second.
    MbPerSecond,
    /// IOPS: requests per second.
    Iops,
}

impl Rate {
    /// Returns the name of the unit.
    pub fn unit(self) -> &'static str {
        match self {
            Rate::MibPerSecond => "MiB/s",
            Rate::MbPerSecond => "MB/s",
            Rate::Iops => "IOPS",
        }
    }

    /// Converts a rate of `mib_per_s` MiB/s to this unit. The rate was measured over `requests`
    /// requests with `bytes` bytes together.
    pub fn of(self, mib_per_s: f64, requests: f64, bytes: f64) -> f64 {
        let bytes_per_s = mib_per_s * f64::from(1 << 20);
        match self {
            Rate::MibPerSecond => mib_per_s,
            Rate::MbPerSecond => bytes_per_s / 1e6,
            Rate::Iops => bytes_per_s * requests / bytes.max(1.0),
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Rate::MibPerSecond, Rate::MbPerSecond, Rate::Iops];
        let found = all.into_iter().find(|rate| rate.unit().eq_ignore_ascii_case(text));
        found.ok_or_else(|| "expected MiB/s, MB/s or IOPS".to_owned())
    }
}
