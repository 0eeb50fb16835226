//! Options for the draws of random offsets.

/// `random_generator=`: generator of random offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomGenerator {
    /// 32 bits, the default.
    Tausworthe,
    /// 64 bits.
    Tausworthe64,
    /// A shift register that reaches every block once, without a map.
    Lfsr,
}

/// A zone of a file: its share of the draws, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Percent of the draws.
    pub percent: u8,
    /// Size in percent of the file, or in bytes.
    pub size: u64,
}

/// `random_distribution=`: how often each block is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Each block equally often.
    Uniform,
    /// Zipf's law.
    Zipf {
        /// Its exponent.
        theta: f64,
        /// Place of the most frequent block, 0 to 1 of the file.
        center: Option<f64>,
    },
    /// Pareto's law.
    Pareto {
        /// Its parameter, between 0 and 1.
        h: f64,
        /// Place of the most frequent block, 0 to 1 of the file.
        center: Option<f64>,
    },
    /// The normal distribution.
    Normal {
        /// Its deviation in percent of the file.
        percent: f64,
        /// Place of the most frequent block, 0 to 1 of the file.
        center: Option<f64>,
    },
    /// Zones in percent of the file.
    Zoned(Vec<Zone>),
    /// Zones in bytes.
    ZonedBytes(Vec<Zone>),
}
