//! Reports in fio 3.33's formats: for people ([`normal`]), JSON ([`json`]) and semicolons
//! ([`terse`]).
//!
//! Time and version come from the caller, so that equal runs give equal bytes.

pub mod json;
mod normal;
mod number;
mod replayed;
mod terse;

use super::job::{Dir, Job, Worker};
use super::stats::{DirStats, DiskUtil, Running, Stats};
pub use normal::normal;
pub use replayed::{Fact, Figures, Program, Replayed};
use std::sync::Arc;
pub use terse::terse;

/// Version of fio whose report formats these are; programs that read reports check it.
pub const FORMAT_VERSION: &str = "fio-3.33";

/// Entry of a report: a worker, or all workers of a group together.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Job of the worker, or of the first worker of the group.
    pub job: Arc<Job>,
    /// Number of workers in the entry.
    pub jobs: u32,
    /// Number of the report group that the entry belongs to.
    pub group: u32,
    /// Number that the report shows as the entry's process ID.
    pub pid: u32,
    /// Measurements of all workers that this entry of the report stands for.
    pub stats: Stats,
}

/// Times and names that a report shows in addition to the measurements.
#[derive(Clone, Debug)]
pub struct Context {
    /// Version that is shown as fio's; [`FORMAT_VERSION`] unless a reader needs another.
    pub version: String,
    /// Time of the report in ms since 1970 (UTC).
    pub timestamp_ms: u64,
    /// Length of the run in ns.
    pub elapsed_ns: u64,
    /// Options of `[global]` as written in the job file.
    pub global_options: Vec<(String, String)>,
    /// Facts about what ran, in parts of the report that fio does not have; `None`: the report has
    /// fio's parts alone.
    pub origin: Option<Origin>,
}

/// What ran: program version, board, card, changes and load, so that a saved report is enough to
/// run it again.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Version of the laboratory's program.
    pub version: String,
    /// Name of the board.
    pub platform: String,
    /// Name of the card.
    pub card: String,
    /// Name of the stack's setting.
    pub setting: String,
    /// Name of the scheduler; empty: not known.
    pub scheduler: String,
    /// Seed of all random numbers of the models. fio's random numbers come from fio's own seeds.
    pub seed: u64,
    /// Values of board, card or jobs that the user changed: `KEY=VALUE`.
    pub changes: Vec<String>,
    /// Counters of the run: name and value. Shares are from 0 to 1.
    pub counters: Vec<(String, f64)>,
    /// Phases in which the time of the run was spent: name and nanoseconds. Their sum is the length
    /// of the run.
    pub phases: Vec<(String, u64)>,
    /// For a replay: the trace and how it is replayed.
    pub replay: Replayed,
    /// Measurements of the programs in a replayed trace that names its programs; otherwise empty.
    pub programs: Vec<Program>,
    /// The jobs as lines of a job file, as they were before any of their values were changed.
    pub job_file: Vec<String>,
    /// Lines about directions in which a request starved, one for each such direction of a job.
    pub starved: Vec<String>,
}

/// Returns one line about what ran: version, board, card, setting, seed, changes.
pub fn title(platform: &str, card: &str, setting: &str, seed: u64, changes: &[String]) -> String {
    let set: String = changes.iter().map(|change| format!(", {change}")).collect();
    let version = env!("CARGO_PKG_VERSION");
    format!("mmcq {version}: platform {platform}, card {card}, setting {setting}, seed {seed}{set}")
}

/// Name of the first of the counters that say how late requests started.
const LATE: &str = "late_mean_us";

impl Origin {
    /// Returns one line about what ran: version, board, card, setting, seed, changes.
    pub fn title(&self) -> String {
        title(&self.platform, &self.card, &self.setting, self.seed, &self.changes)
    }

    /// Returns the lines about what ran: four about the run, and one about each direction in which
    /// a request starved. A replay adds a line about the trace, a line about late requests (except
    /// in a closed loop), and a table of the trace's programs.
    fn line(&self) -> String {
        let counted = |name: &str| self.counters.iter().find(|(known, _)| known == name).map_or(0.0, |c| c.1);
        let counts = ["transfers", "commands", "interrupts", "context_switches"];
        let counts = counts.map(|name| format!("{} {}", counted(name), name.replace('_', " "))).join(", ");
        let flushes = match counted("flushes") {
            0.0 => String::new(),
            flushes => format!("{flushes} flushes, "),
        };
        let idle = 100.0 * counted("cpu_idle_share");
        let first = format!(
            "{}\n\
             counted: {} I/Os, {flushes}{counts}\n\
             CPU {idle:.1} % idle of {} cores; {} I/Os failed; scheduler {}\n\
             times are virtual, from 1970 on; what a submission costs is in clat, so slat is 0\n",
            self.title(),
            counted("ios"),
            counted("cores"),
            counted("failed"),
            self.scheduler,
        );
        let starved = self.starved.iter().map(|line| format!("starved: {line}\n"));
        let first = first + &starved.collect::<String>();
        if self.replay.facts.is_empty() {
            return first;
        }
        let facts: Vec<String> =
            self.replay.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let [mean, median, most, max] =
            ["mean", "p50", "p99", "max"].map(|part| counted(&format!("late_{part}_us")));
        let replay = format!("{first}replay: {}\n", facts.join(", "));
        // A closed loop has no times with which lateness could be compared.
        if !self.counters.iter().any(|(name, _)| name == LATE) {
            return replay + &replayed::lines(&self.programs);
        }
        format!(
            "{replay}late against the trace (usec): \
             mean {mean:.1}, median {median:.1}, 99.00th {most:.1}, max {max:.1}\n{}",
            replayed::lines(&self.programs)
        )
    }
}

/// Numbers of threads and processes that fio would have started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Number of workers of jobs with the option `thread`.
    pub threads: u32,
    /// Number of workers of jobs without the option `thread`.
    pub processes: u32,
    /// Number of workers whose `iodepth` is limited to 1 by their I/O engine.
    pub capped: u32,
}

/// fio's note for each worker whose I/O engine blocks and whose `iodepth` is above 1.
pub const CAPPED: &str =
    "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1";

impl Started {
    fn add(&mut self, job: &Job) {
        let kind = if job.thread { &mut self.threads } else { &mut self.processes };
        *kind += 1;
        self.capped += u32::from(job.depth() < job.iodepth);
    }

    /// Returns fio's start-up text with its notes, such as `Starting 8 threads`.
    fn lines(&self) -> String {
        let some = |count: u32, one: &str, more: &str| {
            (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { more }))
        };
        let kinds = [some(self.threads, "thread", "threads"), some(self.processes, "process", "processes")];
        let kinds: Vec<String> = kinds.into_iter().flatten().collect();
        let notes = format!("{CAPPED}\n").repeat(self.capped as usize);
        format!("Starting {}\n{notes}", kinds.join(" and "))
    }
}

/// All results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Facts about the run as a whole: versions, date, length, options, and what ran.
    pub context: Context,
    /// Numbers of threads and of processes that were started.
    pub started: Started,
    /// Entries in the order of the workers: each is one worker, or all workers of a group together.
    pub entries: Vec<Entry>,
    /// Use of the disks during the run.
    pub disks: Vec<DiskUtil>,
}

/// Sums of a "run status group" for one direction. Rates are bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupDir {
    /// Number of bytes that all entries of the group transferred.
    pub bytes: u64,
    /// Run time in ms of the entry of the group that ran shortest.
    pub min_run_ms: u64,
    /// Run time in ms of the job (or group of jobs) that ran longest; 0: nothing was transferred.
    pub max_run_ms: u64,
    /// Rate in bytes per second of the slowest entry of the group.
    pub min_bw: u64,
    /// Rate in bytes per second of the fastest entry of the group.
    pub max_bw: u64,
    /// Rate in bytes per second of all entries of the group together.
    pub aggregate_bw: u64,
}

impl Report {
    /// Makes the report from the workers' results. Workers of one group whose jobs have
    /// `group_reporting` become one entry.
    pub fn new(context: Context, results: Vec<(Worker, Stats)>, disks: Vec<DiskUtil>) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut open: Option<u32> = None;
        let mut started = Started::default();
        for (worker, stats) in results {
            started.add(&worker.job);
            let grouped = worker.job.group_reporting;
            match entries.last_mut() {
                Some(last) if grouped && open == Some(worker.group) => {
                    last.jobs += 1;
                    last.stats.sum(&stats);
                }
                _ => entries.push(Entry {
                    jobs: 1,
                    group: worker.group,
                    pid: worker.thread_number,
                    job: worker.job,
                    stats,
                }),
            }
            open = grouped.then_some(worker.group);
        }
        Report { context, started, entries, disks }
    }

    /// Returns the numbers of the report groups, in order.
    pub fn groups(&self) -> Vec<u32> {
        let mut groups: Vec<u32> = self.entries.iter().map(|e| e.group).collect();
        groups.dedup();
        groups
    }

    /// Returns the sums of one direction of a report group; with `dir` as `None`, the sums of the
    /// group's discards.
    pub fn group(&self, group: u32, dir: Option<Dir>) -> GroupDir {
        let mut sum = GroupDir { min_bw: u64::MAX, ..GroupDir::default() };
        for entry in self.entries.iter().filter(|e| e.group == group) {
            let stats = dir.map_or(&entry.stats.discards, |dir| &entry.stats.dirs[dir.index()]);
            let ms = stats.runtime_ms();
            if ms == 0 {
                continue;
            }
            sum.min_run_ms = if sum.max_run_ms == 0 { ms } else { sum.min_run_ms.min(ms) };
            sum.max_run_ms = sum.max_run_ms.max(ms);
            sum.bytes += stats.io_bytes;
            sum.min_bw = sum.min_bw.min(rate(stats.io_bytes, ms));
            sum.max_bw = sum.max_bw.max(rate(stats.io_bytes, ms));
        }
        sum.aggregate_bw = rate(sum.bytes, sum.max_run_ms);
        sum
    }
}

/// Returns the rate per second of `amount` in `ms` milliseconds; 0 if `ms` is 0.
fn rate(amount: u64, ms: u64) -> u64 {
    let rate = (u128::from(amount) * 1000).checked_div(u128::from(ms));
    rate.map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Returns the mean share in percent that one entry has in the bandwidth of its group.
fn share_of_group(bw_kib: &Running, group: &GroupDir) -> f64 {
    if group.aggregate_bw <= 1024 {
        return 100.0;
    }
    (bw_kib.mean.trunc() * 100.0 / (group.aggregate_bw as f64 / 1024.0)).min(100.0)
}

/// Returns the shares of `counts` in `total` in percent. A count above zero is shown as at least
/// `least`.
fn shares<const N: usize>(counts: &[u64; N], total: u64, least: f64) -> [f64; N] {
    counts.map(|count| match count {
        0 => 0.0,
        _ if total == 0 => 0.0,
        _ => (count as f64 / total as f64 * 100.0).max(least),
    })
}

/// Returns the user and the system time of the CPU, in percent of the workers' run time.
fn cpu_percent(stats: &Stats) -> (f64, f64) {
    let share = |ns: u64| {
        if stats.job_runtime_ns == 0 { 0.0 } else { ns as f64 * 100.0 / stats.job_runtime_ns as f64 }
    };
    (share(stats.cpu.user_ns), share(stats.cpu.system_ns))
}

/// Returns the percentiles that the terse format shows: those of `clat`, or of `lat` if the job
/// wants only these.
fn main_percentiles(job: &Job, stats: &DirStats) -> Vec<u64> {
    let latency = if job.clat_percentiles || !job.lat_percentiles { &stats.clat } else { &stats.lat };
    latency.histogram.percentiles(&job.percentile_list)
}

/// Returns the time `timestamp_ms`, in milliseconds since 1970, as a date such as `Sat Nov 21
/// 22:02:12 2026`, in UTC.
fn date(timestamp_ms: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = timestamp_ms / 1000;
    let days = seconds / 86400;
    // Years are counted from March 1st, in eras of 400 years, so that the leap day is last in a
    // year.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (week, name) = (DAYS[(days % 7) as usize], MONTHS[(month - 1) as usize]);
    format!("{week} {name} {day:2} {h:02}:{m:02}:{s:02} {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(951_782_400_000), "Tue Feb 29 00:00:00 2000");
        assert_eq!(date(1_795_296_509_242), "Sat Nov 21 21:28:29 2026");
        assert_eq!(date(4_107_542_399_000), "Sun Feb 28 23:59:59 2100");
    }

    #[test]
    fn what_took_no_time_has_no_rate() {
        assert_eq!((rate(4096, 0), rate(0, 0)), (0, 0));
        assert_eq!((rate(4096, 1), rate(4096, 2_000)), (4_096_000, 2_048));
        assert_eq!(rate(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn small_shares_are_still_seen() {
        assert_eq!(shares(&[0, 1, 999_999], 1_000_000, 0.1), [0.0, 0.1, 99.9999]);
        assert_eq!(shares(&[1], 0, 0.1), [0.0]);
    }
}
