//! Measurements of a worker, and their sum over a group of workers.

use super::hist::Histogram;
use super::job::Dir;
use super::programs::{self, Programs};
use super::spans::Spans;

/// Smallest value, largest value, mean and standard deviation of a series of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Running {
    /// Number of samples in the series so far.
    pub samples: u64,
    /// Smallest sample of the series; 0 without samples.
    pub min: u64,
    /// Largest sample of the series.
    pub max: u64,
    /// Mean of the samples of the series.
    pub mean: f64,
    /// Sum of the squared distances of the samples from their mean.
    pub squares: f64,
}

impl Running {
    /// Adds a sample to the series.
    pub fn add(&mut self, value: u64) {
        self.min = if self.samples == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.samples += 1;
        let delta = value as f64 - self.mean;
        self.mean += delta / self.samples as f64;
        self.squares += delta * (value as f64 - self.mean);
    }

    /// Returns the standard deviation of the samples of the series.
    pub fn stddev(&self) -> f64 {
        if self.samples > 1 { (self.squares / (self.samples - 1) as f64).sqrt() } else { 0.0 }
    }

    /// Adds the samples of another series of latencies to this series.
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

    /// Adds another series of rates, as fio adds up the bandwidths of a group: smallest, largest,
    /// mean and squares are each added.
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

/// Latencies of one kind of request, such as reads: a series of values and a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Number, smallest, largest, mean and deviation of the latencies in ns.
    pub ns: Running,
    /// Histogram of the latencies.
    pub histogram: Histogram,
}

impl Latency {
    /// Adds a latency in ns to the series and the histogram.
    pub fn add(&mut self, ns: u64) {
        self.ns.add(ns);
        self.histogram.add(ns);
    }

    /// Adds a latency, given in ns, that may last hours. The histogram counts it in microseconds,
    /// so its largest value is about 2^34 us, 4.8 hours.
    pub fn add_long(&mut self, ns: u64) {
        self.ns.add(ns);
        self.histogram.add(ns / 1000);
    }

    /// Adds all latencies of `other` to these.
    pub fn pool(&mut self, other: &Latency) {
        self.ns.pool(&other.ns);
        self.histogram.merge(&other.histogram);
    }
}

/// Measurements of one direction (read or write), of one worker or group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirStats {
    /// Number of bytes that were transferred in this direction.
    pub io_bytes: u64,
    /// Number of transfers that ended, including those that ended with an error.
    pub total_ios: u64,
    /// Number of transfers that ended before all their bytes were transferred.
    pub short_ios: u64,
    /// Number of dropped transfers: a field of fio's reports, which is always 0 here.
    pub drop_ios: u64,
    /// Total time in ns of those parts of the run in which this direction transferred data.
    pub runtime_ns: u64,
    /// Spans in which any worker of a group transferred data in this direction. If jobs ran one
    /// after the other, each has a span here, while [`DirStats::runtime_ns`] is only that of the
    /// slowest.
    pub active: Spans,
    /// Latency of the submission call alone. Only I/O engines that do not block have one.
    pub slat: Latency,
    /// Latency from submission to completion (`clat`).
    pub clat: Latency,
    /// Latency from the start of submission to completion: the sum of `slat` and `clat`.
    pub lat: Latency,
    /// Time in ns for which the transfers were under way, summed: each until it was complete, even
    /// if the worker collected it later.
    pub under_way_ns: u64,
    /// Rate in KiB per second, with a sample for each time window.
    pub bw_kib: Running,
    /// Number of transfers per second, with a sample for each time window.
    pub iops: Running,
}

impl DirStats {
    /// Returns `runtime_ns` in whole milliseconds, at least 1 if anything was transferred. All
    /// rates are computed with it.
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
        // The time of a group is that of its slowest worker.
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.active.join(&other.active);
        self.slat.pool(&other.slat);
        self.clat.pool(&other.clat);
        self.lat.pool(&other.lat);
        self.under_way_ns += other.under_way_ns;
        self.bw_kib.add_rates(&other.bw_kib);
        self.iops.add_rates(&other.iops);
    }
}

/// CPU time that the model charged to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// CPU time in ns that the worker spent in the program.
    pub user_ns: u64,
    /// CPU time in ns that the worker spent in the operating system.
    pub system_ns: u64,
    /// Number of context switches of the worker.
    pub context_switches: u64,
    /// Number of page faults that needed I/O: a field of fio's reports, which is always 0 here.
    pub major_faults: u64,
    /// Number of page faults that needed no I/O: a field of fio's reports, which is always 0 here.
    pub minor_faults: u64,
}

/// An error that ended a transfer or the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerError {
    /// Number of the error, as in `errno.h`.
    pub errno: u32,
    /// Description of the error, one line.
    pub text: String,
}

/// All measurements of one worker or group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Measurements of the directions, `[read, write]`.
    pub dirs: [DirStats; 2],
    /// Measurements of the discards of the worker or group.
    pub discards: DirStats,
    /// Lateness of a script's requests, compared with their ideal times; the histogram is in
    /// microseconds.
    pub late: Latency,
    /// Number and latencies of the flushes of the worker or group.
    pub sync: Latency,
    /// Number of submissions, in classes by how many transfers of the job were in flight then: 1,
    /// 2-3, 4-7, 8-15, 16-31, 32-63, 64 and more.
    pub depth: [u64; 7],
    /// Number of submission calls, in classes by how many transfers each submitted: 0, 1-4, 5-8,
    /// 9-16, 17-32, 33-64, more.
    pub submit: [u64; 7],
    /// Number of calls that collected completions, in classes by how many each collected: 0, 1-4,
    /// 5-8, 9-16, 17-32, 33-64, more.
    pub complete: [u64; 7],
    /// Number of calls that submitted transfers.
    pub submits: u64,
    /// Number of calls that collected completions.
    pub completes: u64,
    /// Number of transfers by completion latency. The classes end at 2, 4, 10, 20, 50, 100, 250,
    /// 500, 750 and 1000 ns.
    pub lat_ns: [u64; 10],
    /// Number of transfers by completion latency. The classes end at 2, 4, 10, 20, 50, 100, 250,
    /// 500, 750 and 1000 us.
    pub lat_us: [u64; 10],
    /// Number of transfers by completion latency. The classes end at 2, 4, 10, 20, 50, 100, 250,
    /// 500, 750, 1000 and 2000 ms; the last class has no end.
    pub lat_ms: [u64; 12],
    /// CPU time and context switches of the worker or group.
    pub cpu: Cpu,
    /// Time in ns from the worker's start, or from the end of its ramp time, to the end of its last
    /// transfer or flush. Of a group: the sum over its workers.
    pub job_runtime_ns: u64,
    /// The first error of the worker; `None`: no error.
    pub error: Option<WorkerError>,
    /// Number of all errors, including those after which the job continued.
    pub total_errors: u64,
    /// Measurements for each program that made requests, if the trace names programs.
    pub programs: Programs,
}

const LATENCY_STEPS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

impl Stats {
    /// Counts the completion latency of a transfer in the classes `lat_ns`, `lat_us` and `lat_ms`.
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

    /// Adds a completed transfer of `bytes` with its latencies in ns to the measurements of its
    /// direction: of the submission (`slat_ns`; `None`: the I/O engine has no such time), from
    /// there to the completion (`clat_ns`), and of both together (`lat_ns`).
    pub fn transfer(&mut self, dir: Dir, bytes: u64, slat_ns: Option<u64>, clat_ns: u64, lat_ns: u64) {
        self.dirs[dir.index()].transfer(bytes, slat_ns, clat_ns, lat_ns);
        self.mark_latency(clat_ns);
    }

    /// Adds a completed discard of `bytes` bytes to the measurements, with its latencies in ns: of
    /// the submission (`slat_ns`; `None`: the I/O engine has no such time), from there to the
    /// completion (`clat_ns`), and of both together (`lat_ns`).
    pub fn discard(&mut self, bytes: u64, slat_ns: Option<u64>, clat_ns: u64, lat_ns: u64) {
        self.discards.transfer(bytes, slat_ns, clat_ns, lat_ns);
        self.mark_latency(clat_ns);
    }

    /// Counts a submission in the class of `outstanding`, the number of transfers that are then
    /// under way.
    pub fn mark_depth(&mut self, outstanding: u32) {
        self.mark_depths(outstanding, 1);
    }

    /// Counts this number of submissions in the class of `outstanding`, the number of transfers
    /// that are then under way.
    pub fn mark_depths(&mut self, outstanding: u32, count: u32) {
        let i = outstanding.max(1).ilog2().min(6);
        self.depth[i as usize] += u64::from(count);
    }

    /// Counts a call that submitted this number of transfers at once.
    pub fn mark_submit(&mut self, transfers: u32) {
        self.submit[batch(transfers)] += 1;
        self.submits += 1;
    }

    /// Counts one call by which the worker collected this number (`transfers`) of completions.
    pub fn mark_complete(&mut self, transfers: u32) {
        self.complete[batch(transfers)] += 1;
        self.completes += 1;
    }

    /// Adds the measurements of a worker to a group, as `group_reporting` does.
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
        // A group's share of CPU time refers to the sum of its workers' times.
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

/// Use of a disk during the run, computed by the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUtil {
    /// Name of the disk.
    pub name: String,
    /// Number of requests of the disk after merging, `[read, write]`.
    pub ios: [u64; 2],
    /// Number of requests that were merged into another request, `[read, write]`.
    pub merges: [u64; 2],
    /// Sum in ms of the times of all requests from arrival to completion, `[read, write]`.
    pub ticks_ms: [u64; 2],
    /// Sum in ms of the times of all requests of both directions, from arrival to completion.
    pub in_queue_ms: u64,
    /// Share of the run's time, in percent, in which the disk had work.
    pub util_percent: f64,
}

/// Time windows of equal length in virtual time. Each window with work gives one sample of a rate,
/// as for fio's averages.
#[derive(Clone, Debug)]
pub struct Windows {
    window_ns: u64,
    end_ns: u64,
    amount: u64,
}

impl Windows {
    /// Makes windows of `window_ms` that begin at `start_ns`.
    pub fn new(start_ns: u64, window_ms: u64) -> Self {
        let window_ns = window_ms.max(1).saturating_mul(1_000_000);
        Windows { window_ns, end_ns: start_ns.saturating_add(window_ns), amount: 0 }
    }

    /// Ends the window of time over which the rate is measured, if its end is not after `now_ns`.
    /// Adds its rate per second to `series`; a window without work adds none. `scale`: amount of
    /// work in one unit of the rate, such as 1024 bytes for KiB.
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

    /// Adds an amount of work (such as bytes) to the present window.
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
