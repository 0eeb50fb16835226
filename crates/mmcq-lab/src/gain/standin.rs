//! Differences between the stand-ins (the laboratory's models of Linux's stacks) and unmodified
//! Linux.
//!
//! Unmodified Linux ran some loads of the kinds below on the model of one board with a queue engine
//! (docs/original.md, docs/laboratory.md). On other boards a stand-in may differ by as much.

use crate::runner::Setting;

/// Kind of a load. How far a stand-in (our model of a Linux driver) differs from unmodified Linux
/// depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The load only reads.
    Reads,
    /// The load writes without flushes.
    Writes,
    /// The load writes, and flushes its writes.
    Flushes,
}

/// Measured results of unmodified Linux and, after them, of its model in the laboratory (the
/// stand-in), by setting, kind of load, and depth or number of jobs. They are requests per second;
/// for reads, multiples of the rate with the setting `none`.
const MEASURED: [(Setting, Kind, u32, [f64; 2]); 13] = [
    (Setting::None, Kind::Flushes, 1, [1461.0, 1383.0]),
    (Setting::None, Kind::Flushes, 8, [3475.0, 3710.0]),
    (Setting::None, Kind::Flushes, 32, [6319.0, 7048.0]),
    (Setting::HsqTag, Kind::Flushes, 1, [1584.0, 1495.0]),
    (Setting::HsqTag, Kind::Flushes, 8, [4155.0, 3245.0]),
    (Setting::HsqTag, Kind::Flushes, 32, [4540.0, 3269.0]),
    (Setting::LinuxCqe, Kind::Flushes, 1, [1748.0, 1616.0]),
    (Setting::LinuxCqe, Kind::Flushes, 8, [5040.0, 4834.0]),
    (Setting::LinuxCqe, Kind::Flushes, 32, [11871.0, 11350.0]),
    (Setting::LinuxCqe, Kind::Reads, 1, [1.03, 1.03]),
    (Setting::LinuxCqe, Kind::Reads, 8, [3.33, 3.43]),
    (Setting::LinuxCqe, Kind::Reads, 32, [3.39, 3.76]),
    // A write takes 111 us on unmodified Linux and 135 us in the stand-in.
    (Setting::LinuxCqe, Kind::Writes, 1, [9009.0, 7407.0]),
];

/// Returns the rate of unmodified Linux divided by the rate of our model of it (the stand-in) with
/// this setting, at the nearest depth that was measured; 1 if none was measured. `under_way`:
/// number of requests that the load has under way at once.
pub fn ratio(setting: Setting, kind: Kind, under_way: u32) -> f64 {
    let away = |known: u32| {
        let octaves = f64::from(under_way.max(1)) / f64::from(known);
        octaves.log2().abs()
    };
    let known = MEASURED.iter().filter(|(of, what, ..)| *of == setting && *what == kind);
    let nearest = known.min_by(|a, b| away(a.2).total_cmp(&away(b.2)));
    nearest.map_or(1.0, |(.., [linux, model])| linux / model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_depth_counts() {
        let at = |depth| ratio(Setting::HsqTag, Kind::Flushes, depth);
        assert_eq!((at(20), at(64)), (4540.0 / 3269.0, 4540.0 / 3269.0));
        assert_eq!((at(6), at(1)), (4155.0 / 3245.0, 1584.0 / 1495.0));
        assert_eq!(ratio(Setting::Mmcq, Kind::Flushes, 8), 1.0);
        assert_eq!(ratio(Setting::None, Kind::Reads, 8), 1.0);
    }
}
