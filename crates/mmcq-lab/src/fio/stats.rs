//! Measurements of a worker, and their sums over a group.

use super::hist::Histogram;
use super::job::Dir;
use super::programs::{self, Programs};

/// Least, greatest, mean and deviation of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Running {
    /// Number of samples.
    pub samples: u64,
    /// Least; 0 without samples.
    pub min: u64,
    /// Greatest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Sum of squared distances from the mean.
    pub squares: f64,
}

impl Running {
    /// Adds one sample.
    pub fn add(&mut self, value: u64) {
        self.min = if self.samples == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.samples += 1;
        let delta = value as f64 - self.mean;
        self.mean += delta / self.samples as f64;
        self.squares += delta * (value as f64 - self.mean);
    }

    /// Returns the deviation of the samples.
    pub fn stddev(&self) -> f64 {
        if self.samples > 1 { (self.squares / (self.samples - 1) as f64).sqrt() } else { 0.0 }
    }

    /// Adds another series, as if one had seen all samples: for latencies.
    pub fn pool(&mut self, other: &Running) {
        if other.samples == 0 {
            return;
        }
        if self.samples == 0 {
            *self = *other;
            return;
        }
        let (n, m) = (self.samples as f64, other.samples as f64);
        let delta = other.mean - self.mean;
        self.mean = (self.mean * n + other.mean * m) / (n + m);
        self.squares += other.squares + delta * delta * (n * m) / (n + m);
        self.samples += other.samples;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Adds another series of rates, as fio groups bandwidth: least, greatest, mean and squares are
    /// each added.
    pub fn add_rates(&mut self, other: &Running) {
        if other.samples == 0 {
            return;
        }
        self.samples += other.samples;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.squares += other.squares;
    }
}

/// One kind of latency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Its series in nanoseconds.
    pub ns: Running,
    /// Its histogram.
    pub histogram: Histogram,
}

impl Latency {
    /// Adds one latency.
    pub fn add(&mut self, ns: u64) {
        self.ns.add(ns);
        self.histogram.add(ns);
    }

    /// Adds a latency that may last hours: the histogram counts it in microseconds, up to 4.7
    /// hours.
    pub fn add_long(&mut self, ns: u64) {
        self.ns.add(ns);
        self.histogram.add(ns / 1000);
    }

    /// Adds another's latencies.
    pub fn pool(&mut self, other: &Latency) {
        self.ns.pool(&other.ns);
        self.histogram.merge(&other.histogram);
    }
}

/// One direction of one worker or group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirStats {
    /// Bytes transferred.
    pub io_bytes: u64,
    /// Transfers ended, failed ones too.
    pub total_ios: u64,
    /// Transfers that ended early.
    pub short_ios: u64,
    /// Transfers given up.
    pub drop_ios: u64,
    /// Time in this direction's phases.
    pub runtime_ns: u64,
    /// Submission latency; only I/O engines that do not block have one.
    pub slat: Latency,
    /// From submission to completion.
    pub clat: Latency,
    /// From submission to completion, with the submission latency.
    pub lat: Latency,
    /// KiB a second in each window.
    pub bw_kib: Running,
    /// Transfers a second in each window.
    pub iops: Running,
}

impl DirStats {
    /// Returns the time in this direction in whole milliseconds, at least 1 when anything was
    /// transferred: the base of every rate.
    pub fn runtime_ms(&self) -> u64 {
        let ms = (self.runtime_ns + 500_000) / 1_000_000;
        if ms == 0 && self.io_bytes > 0 { 1 } else { ms }
    }

    fn transfer(&mut self, bytes: u64, slat_ns: Option<u64>, clat_ns: u64, lat_ns: u64) {
        self.io_bytes += bytes;
        self.total_ios += 1;
        if let Some(ns) = slat_ns {
            self.slat.add(ns);
        }
        self.clat.add(clat_ns);
        self.lat.add(lat_ns);
    }

    fn sum(&mut self, other: &DirStats) {
        self.io_bytes += other.io_bytes;
        self.total_ios += other.total_ios;
        self.short_ios += other.short_ios;
        self.drop_ios += other.drop_ios;
        // The group takes as long as its slowest worker.
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.slat.pool(&other.slat);
        self.clat.pool(&other.clat);
        self.lat.pool(&other.lat);
        self.bw_kib.add_rates(&other.bw_kib);
        self.iops.add_rates(&other.iops);
    }
}

/// CPU time that the model charged to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In the program.
    pub user_ns: u64,
    /// In the system.
    pub system_ns: u64,
    /// Context switches.
    pub context_switches: u64,
    /// Page faults with input or output.
    pub major_faults: u64,
    /// Page faults without.
    pub minor_faults: u64,
}

/// An error that a worker met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerError {
    /// Error number as in `errno.h`.
    pub errno: u32,
    /// What happened, one line.
    pub text: String,
}

/// All that one worker or group measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// `[read, write]`
    pub dirs: [DirStats; 2],
    /// Discards.
    pub discards: DirStats,
    /// Lateness of requests against the times of a script; its histogram is in microseconds.
    pub late: Latency,
    /// Flushes: how many, and their latency.
    pub sync: Latency,
    /// Outstanding transfers at each submission: 1, 2.., 4.., 8.., 16.., 32.., 64 and more.
    pub depth: [u64; 7],
    /// Number of submissions by their number of transfers: 0, 1-4, 5-8, 9-16, 17-32, 33-64, more.
    pub submit: [u64; 7],
    /// Number of times that completions were taken, by their number, in the same classes.
    pub complete: [u64; 7],
    /// Submissions made.
    pub submits: u64,
    /// Completions taken.
    pub completes: u64,
    /// Latencies below 2, 4, 10, 20, 50, 100, 250, 500, 750 and 1000 ns.
    pub lat_ns: [u64; 10],
    /// Latencies below the same limits in microseconds.
    pub lat_us: [u64; 10],
    /// Latencies below the same limits in milliseconds, with two more classes: below 2000, and all
    /// above.
    pub lat_ms: [u64; 12],
    /// CPU time.
    pub cpu: Cpu,
    /// From the worker's start to its end.
    pub job_runtime_ns: u64,
    /// The first error.
    pub error: Option<WorkerError>,
    /// Number of all errors, after which the job continued or not.
    pub total_errors: u64,
    /// Requests of a script by the program that made them, if the trace has names.
    pub programs: Programs,
}

const LATENCY_STEPS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

impl Stats {
    /// Counts a transfer's completion latency in the distribution.
    fn mark_latency(&mut self, ns: u64) {
        let step = |value: u64| LATENCY_STEPS.iter().position(|limit| value < *limit);
        let (us, ms) = (ns / 1_000, ns / 1_000_000);
        if let Some(i) = step(ns) {
            self.lat_ns[i] += 1;
        } else if let Some(i) = step(us) {
            self.lat_us[i] += 1;
        } else {
            let i = step(ms).unwrap_or(if ms < 2000 { 10 } else { 11 });
            self.lat_ms[i] += 1;
        }
    }

    /// Counts a completed transfer.
    pub fn transfer(&mut self, dir: Dir, bytes: u64, slat_ns: Option<u64>, clat_ns: u64, lat_ns: u64) {
        self.dirs[dir.index()].transfer(bytes, slat_ns, clat_ns, lat_ns);
        self.mark_latency(clat_ns);
    }

    /// Counts a completed discard.
    pub fn discard(&mut self, bytes: u64, slat_ns: Option<u64>, clat_ns: u64, lat_ns: u64) {
        self.discards.transfer(bytes, slat_ns, clat_ns, lat_ns);
        self.mark_latency(clat_ns);
    }

    /// Counts the depth that a submission reached.
    pub fn mark_depth(&mut self, outstanding: u32) {
        let i = outstanding.max(1).ilog2().min(6);
        self.depth[i as usize] += 1;
    }

    /// Counts one submission of `transfers` at once.
    pub fn mark_submit(&mut self, transfers: u32) {
        self.submit[batch(transfers)] += 1;
        self.submits += 1;
    }

    /// Counts `transfers` completions taken at once.
    pub fn mark_complete(&mut self, transfers: u32) {
        self.complete[batch(transfers)] += 1;
        self.completes += 1;
    }

    /// Adds a worker to a group, as `group_reporting` does.
    pub fn sum(&mut self, other: &Stats) {
        for (mine, theirs) in self.dirs.iter_mut().zip(&other.dirs) {
            mine.sum(theirs);
        }
        self.discards.sum(&other.discards);
        self.late.pool(&other.late);
        self.sync.pool(&other.sync);
        add(&mut self.depth, &other.depth);
        add(&mut self.submit, &other.submit);
        add(&mut self.complete, &other.complete);
        self.submits += other.submits;
        self.completes += other.completes;
        add(&mut self.lat_ns, &other.lat_ns);
        add(&mut self.lat_us, &other.lat_us);
        add(&mut self.lat_ms, &other.lat_ms);
        self.cpu.user_ns += other.cpu.user_ns;
        self.cpu.system_ns += other.cpu.system_ns;
        self.cpu.context_switches += other.cpu.context_switches;
        self.cpu.major_faults += other.cpu.major_faults;
        self.cpu.minor_faults += other.cpu.minor_faults;
        // Shares of CPU time are shares of all workers' time together.
        self.job_runtime_ns += other.job_runtime_ns;
        self.total_errors += other.total_errors;
        programs::pool(&mut self.programs, &other.programs);
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
    }

    /// Returns the number of all reads, writes and discards, without flushes.
    pub fn transfers(&self) -> u64 {
        self.dirs.iter().chain([&self.discards]).map(|d| d.total_ios).sum()
    }
}

fn add<const N: usize>(mine: &mut [u64; N], theirs: &[u64; N]) {
    for (a, b) in mine.iter_mut().zip(theirs) {
        *a += b;
    }
}

fn batch(transfers: u32) -> usize {
    [0, 4, 8, 16, 32, 64].iter().position(|limit| transfers <= *limit).unwrap_or(6)
}

/// Use of one disk during the run, supplied by the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUtil {
    /// Its name.
    pub name: String,
    /// Transfers after merging, `[read, write]`.
    pub ios: [u64; 2],
    /// Requests that were merged into another.
    pub merges: [u64; 2],
    /// Milliseconds that requests took, summed.
    pub ticks_ms: [u64; 2],
    /// Milliseconds waited, all requests together.
    pub in_queue_ms: u64,
    /// Share of time that it was busy, percent.
    pub util_percent: f64,
}

/// Cuts virtual time into windows and adds one rate sample for each window with work, as fio's
/// averages do.
#[derive(Clone, Debug)]
pub struct Windows {
    window_ns: u64,
    end_ns: u64,
    amount: u64,
}

impl Windows {
    /// Makes windows of `window_ms` from `start_ns` on.
    pub fn new(start_ns: u64, window_ms: u64) -> Self {
        let window_ns = window_ms.max(1).saturating_mul(1_000_000);
        Windows { window_ns, end_ns: start_ns.saturating_add(window_ns), amount: 0 }
    }

    /// Closes the windows that ended at or before `now_ns`, into `series`; `scale` amounts are one
    /// unit.
    pub fn advance(&mut self, now_ns: u64, scale: u64, series: &mut Running) {
        if now_ns < self.end_ns {
            return;
        }
        if self.amount > 0 {
            let per_second = u128::from(self.amount) * 1_000_000_000 / u128::from(self.window_ns);
            series.add(u64::try_from(per_second / u128::from(scale)).unwrap_or(u64::MAX));
            self.amount = 0;
        }
        let passed = (now_ns - self.end_ns) / self.window_ns + 1;
        self.end_ns = self.end_ns.saturating_add(passed.saturating_mul(self.window_ns));
    }

    /// Counts work at the present time.
    pub fn add(&mut self, amount: u64) {
        self.amount += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[u64]) -> Running {
        let mut r = Running::default();
        values.iter().for_each(|v| r.add(*v));
        r
    }

    #[test]
    fn deviation_and_pooling() {
        let all = series(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!((all.min, all.max, all.mean), (2, 9, 5.0));
        assert!((all.stddev() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        let mut pooled = series(&[2, 4, 4]);
        pooled.pool(&series(&[4, 5, 5, 7, 9]));
        assert_eq!((pooled.samples, pooled.min, pooled.max), (8, 2, 9));
        assert!((pooled.stddev() - all.stddev()).abs() < 1e-12);
        assert_eq!(series(&[3]).stddev(), 0.0);
    }

    #[test]
    fn rates_of_a_group_are_sums() {
        let mut group = series(&[100, 200]);
        group.add_rates(&series(&[10, 30]));
        assert_eq!((group.samples, group.min, group.max, group.mean), (4, 110, 230, 170.0));
        assert!((group.stddev() - ((5000.0f64 + 200.0) / 3.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn latency_distribution() {
        let mut s = Stats::default();
        for ns in
            [0, 1, 2, 999, 1_000, 1_999, 2_000, 999_999, 1_000_000, 999_999_999, 1_000_000_000, 2_000_000_000]
        {
            s.mark_latency(ns);
        }
        assert_eq!(s.lat_ns, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(s.lat_us, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(s.lat_ms, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn windows_without_work_give_no_sample() {
        let mut w = Windows::new(0, 500);
        let mut r = Running::default();
        w.add(512 * 1024);
        w.advance(499_999_999, 1024, &mut r);
        assert_eq!(r.samples, 0);
        w.advance(500_000_000, 1024, &mut r);
        assert_eq!((r.samples, r.max), (1, 1024));
        w.advance(2_000_000_000, 1024, &mut r);
        assert_eq!(r.samples, 1);
        w.add(1024);
        w.advance(2_500_000_000, 1024, &mut r);
        assert_eq!((r.samples, r.min), (2, 2));
    }

    #[test]
    fn depth_and_batches() {
        let mut s = Stats::default();
        for depth in [1, 2, 3, 4, 8, 16, 32, 63, 64, 500] {
            s.mark_depth(depth);
        }
        assert_eq!(s.depth, [1, 2, 1, 1, 1, 2, 2]);
        for n in [0, 1, 4, 5, 64, 65] {
            s.mark_submit(n);
        }
        assert_eq!(s.submit, [1, 2, 1, 0, 0, 1, 1]);
    }
}
