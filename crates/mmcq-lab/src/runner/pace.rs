//! Bytes transferred over the time of a run. With them a run of any length is compared with its
//! physical limit, which is a run of the same jobs with [`Setting::Limit`](super::Setting::Limit).
//!
//! Two runs of one job differ at their start and end. The run that gives the limit fills the card's
//! cache with its first batch, and drains half of it during the last one. A run with another
//! setting does this in smaller steps. So rates over whole runs compare starts and ends, and a
//! short run might seem faster than its limit. Instead, a run is compared with the time at which
//! the limit's run had transferred as many bytes.
//!
//! Some settings report a write before the card has programmed it. The last write of such a run may
//! end earlier than in the run that gives the limit. So the limit is never set below the rate of
//! the run itself.

use super::Counters;

/// Smallest number of stored points of a long curve. When twice as many are stored, every second
/// point is dropped.
const POINTS: usize = 1024;

/// Bytes transferred over the time of a run, to compare it with another run. A run that gives the
/// physical limit has one curve for each lane (way to drive the card).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    curves: Vec<Curve>,
}

/// Bytes transferred over the time of one run. The number of points is limited, however long the
/// run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Curve {
    /// Points of the curve: number of bytes transferred so far, and time in ns from the start of
    /// the run.
    points: Vec<(u64, u64)>,
    /// Distance of two neighbouring points that are stored of the curve (bytes over time), in
    /// bytes.
    step: u64,
    last: (u64, u64),
}

impl Pace {
    /// Records that `bytes` in total have been transferred `after_ns` after the start of the run.
    pub(super) fn moved(&mut self, bytes: u64, after_ns: u64) {
        if self.curves.is_empty() {
            self.curves.push(Curve::default());
        }
        if let Some(curve) = self.curves.last_mut() {
            curve.moved(bytes, after_ns);
        }
    }

    /// Adds the curves of a run of the same job on another lane (way to drive the card).
    pub(super) fn join(&mut self, other: Pace) {
        self.curves.extend(other.curves);
    }

    /// Returns the time in ns at which `bytes` had been transferred on the fastest lane (way to
    /// drive the card). `None`: on each lane the run ended with fewer bytes.
    fn after_ns(&self, bytes: u64) -> Option<f64> {
        self.curves.iter().filter_map(|curve| curve.after_ns(bytes)).min_by(f64::total_cmp)
    }
}

impl Curve {
    fn moved(&mut self, bytes: u64, after_ns: u64) {
        self.last = (bytes, after_ns);
        if bytes < self.points.last().map_or(0, |point| point.0).saturating_add(self.step) {
            return;
        }
        self.points.push(self.last);
        if self.points.len() >= 2 * POINTS {
            let mut kept = false;
            self.points.retain(|_| {
                kept = !kept;
                kept
            });
            self.step = bytes / POINTS as u64;
        }
    }

    fn after_ns(&self, bytes: u64) -> Option<f64> {
        let next = self.points.partition_point(|point| point.0 < bytes);
        let to = *self.points.get(next).or(Some(&self.last)).filter(|point| point.0 >= bytes)?;
        let from = next.checked_sub(1).and_then(|at| self.points.get(at)).copied().unwrap_or_default();
        let share = (bytes - from.0) as f64 / (to.0 - from.0).max(1) as f64;
        Some(from.1 as f64 + share * to.1.saturating_sub(from.1) as f64)
    }
}

/// Returns the rate in MiB/s that a limit allows a run: as many bytes as the run transferred, in
/// the time that the limit's run needed for them. It is never below the rate of the run itself.
pub fn allowed_mib_per_s(limit: &Counters, run: &Counters) -> f64 {
    let rate = |bytes: u64, ns: f64| bytes as f64 / f64::from(1 << 20) / (ns.max(1.0) / 1e9);
    let whole = || rate(limit.bytes, limit.elapsed_ns as f64);
    let allowed = match limit.pace.after_ns(run.bytes) {
        Some(ns) if run.bytes > 0 => rate(run.bytes, ns),
        // The limit's run was shorter, so it is continued at its own rate.
        _ => whole().max(limit.steady.mib_per_s().unwrap_or(0.0)),
    };
    allowed.max(rate(run.bytes, run.elapsed_ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(points: &[(u64, u64)]) -> Counters {
        let mut pace = Pace::default();
        points.iter().for_each(|&(bytes, ns)| pace.moved(bytes, ns));
        let &(bytes, elapsed_ns) = points.last().unwrap();
        Counters { bytes, elapsed_ns, pace, ..Counters::default() }
    }

    const MIB: u64 = 1 << 20;
    const S: u64 = 1_000_000_000;

    #[test]
    fn a_run_is_compared_with_the_time_in_which_its_limit_moved_as_much() {
        // 1 MiB at once, then 1 MiB per second, and a last second without transfers.
        let limit = run(&[(MIB, S / 10), (2 * MIB, S), (3 * MIB, 2 * S), (3 * MIB, 3 * S)]);
        let allowed = |bytes, ns| allowed_mib_per_s(&limit, &run(&[(bytes, ns)]));
        assert_eq!(allowed(MIB, S), 10.0);
        assert_eq!(allowed(MIB / 2, S), 10.0);
        assert_eq!(allowed(3 * MIB, 4 * S), 1.5);
        // A run that is longer than the limit's is compared with the limit's whole run.
        assert_eq!(allowed(9 * MIB, 9 * S), 1.0);
        // The limit is never below the run itself.
        assert_eq!(allowed(3 * MIB, S), 3.0);
    }

    #[test]
    fn a_long_run_keeps_few_points_and_each_time() {
        let points: Vec<(u64, u64)> = (1..=100_000).map(|n| (n * 4096, n * 1_000)).collect();
        let long = run(&points);
        assert!(long.pace.curves[0].points.len() < 2 * POINTS, "{}", long.pace.curves[0].points.len());
        for n in [1, 77, 4_096, 50_001, 100_000u64] {
            let found = long.pace.after_ns(n * 4096).unwrap();
            assert!((found - (n * 1_000) as f64).abs() < 1.0, "{n}: {found}");
        }
        assert!(long.pace.after_ns(100_001 * 4096).is_none());
    }
}
