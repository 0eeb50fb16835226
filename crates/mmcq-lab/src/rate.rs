//! Units in which a rate is shown.

use std::str::FromStr;

/// A unit of rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// 1048576 bytes a second.
    #[default]
    MibPerSecond,
    /// 1000000 bytes a second.
    MbPerSecond,
    /// Requests a second.
    Iops,
}

impl Rate {
    /// Returns its name.
    pub fn unit(self) -> &'static str {
        match self {
            Rate::MibPerSecond => "MiB/s",
            Rate::MbPerSecond => "MB/s",
            Rate::Iops => "IOPS",
        }
    }

    /// Converts a rate to this unit: MiB per second, of this number of requests with this number of
    /// bytes.
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
