//! Options of a job that determine its random offsets.

/// Option `random_generator=`: generator of random offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomGenerator {
    /// Tausworthe generator with 32 bits; the default.
    Tausworthe,
    /// Tausworthe generator with 64 bits.
    Tausworthe64,
    /// Linear feedback shift register, which returns every block exactly one time without a random
    /// map.
    Lfsr,
}

/// Zone of a file: its share of the random offsets, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Percentage of the random offsets that are in this zone.
    pub percent: u8,
    /// Size of the zone: in percent of the file for [`Distribution::Zoned`], in bytes for
    /// [`Distribution::ZonedBytes`].
    pub size: u64,
}

/// Option `random_distribution=`: how often the offsets draw each block of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform: each block of the file is drawn equally often.
    Uniform,
    /// Zipf's law: the block of rank k is drawn in proportion to 1 / k^theta.
    Zipf {
        /// Exponent of Zipf's law.
        theta: f64,
        /// Place of the most frequent block, 0 (start of the file) to 1 (end); `None`: a random
        /// place.
        center: Option<f64>,
    },
    /// Pareto's law: a few blocks get most of the draws.
    Pareto {
        /// Parameter of Pareto's law, between 0 and 1.
        h: f64,
        /// Place of the most frequent block, 0 (start of the file) to 1 (end); `None`: a random
        /// place.
        center: Option<f64>,
    },
    /// Normal distribution around the middle of the file, or around `center`.
    Normal {
        /// Standard deviation of the distribution, in percent of the file.
        percent: f64,
        /// Place of the most frequent block, 0 (start of the file) to 1 (end); `None`: the middle.
        center: Option<f64>,
    },
    /// Zones of the file that get different shares of the offsets; their sizes are in percent of
    /// the file.
    Zoned(Vec<Zone>),
    /// Zones of the file that get different shares of the offsets; their sizes are in bytes.
    ZonedBytes(Vec<Zone>),
}
