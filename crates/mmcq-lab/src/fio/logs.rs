//! The log files of `write_bw_log`, `write_lat_log`, `write_iops_log` and `write_iolog`.
//!
//! A line is `msec, value, direction (0 read, 1 write), bytes[, offset], priority`. Without
//! `log_avg_msec` there is one line for each transfer. With it there is one line for each window
//! and direction, with the mean; its bytes and offset are 0. At the end of a job, the logs of
//! latencies also have a line for the last, shorter window, as in fio. The logs of rates have only
//! whole windows.
//!
//! The I/O log has fio's version 3: microseconds, file, action, offset, bytes. Its times are those
//! at which transfers and flushes began.

use super::job::{Dir, Job};
use super::state::{How, Io, Sync};
use std::fmt::Write;

#[derive(Clone, Copy, Debug)]
struct Entry {
    ms: u64,
    value: u64,
    dir: Dir,
    bytes: u64,
    offset: u64,
}

/// Sum over a time window of the transfers in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    amount: u128,
    count: u64,
}

#[derive(Debug)]
struct Log {
    suffix: &'static str,
    prefix: String,
    /// Whether a window's value is the amount per second; otherwise it is the mean of the amounts.
    rate: bool,
    entries: Vec<Entry>,
    sums: [Sum; 2],
}

/// A line of the I/O log: time in us at which the transfer or flush began, and what it is. `None`:
/// it has not ended, so the time is not known.
type Line = (Option<u64>, Logged);

/// A transfer or flush in the I/O log: index of the file, action, offset and length in bytes.
type Logged = (usize, &'static str, u64, u64);

/// Returns a transfer as the I/O log has it.
fn logged(io: &Io) -> Logged {
    let word = match (io.dir, io.how) {
        (_, How::Discard) => "trim",
        (Dir::Read, _) => "read",
        (Dir::Write, _) => "write",
    };
    (io.file, word, io.offset, io.bytes)
}

/// Returns a flush as the I/O log has it.
fn logged_flush(sync: &Sync) -> Logged {
    (sync.file, if sync.data_only { "datasync" } else { "sync" }, 0, 0)
}

/// All log files of one worker.
#[derive(Debug)]
pub struct Logs {
    avg_ms: u64,
    with_offset: bool,
    window_end_ms: u64,
    bw: Option<Log>,
    iops: Option<Log>,
    slat_clat_lat: Option<[Log; 3]>,
    io: Option<(String, Vec<Line>)>,
    /// Index of the first line of the I/O log that may have no time.
    open_from: usize,
}

impl Logs {
    /// Returns whether the job requests any log.
    pub fn wanted(job: &Job) -> bool {
        [&job.write_bw_log, &job.write_iops_log, &job.write_lat_log, &job.write_iolog]
            .iter()
            .any(|log| log.is_some())
    }

    /// Returns the names of all log files that the job may write. `thread_number`: number of the
    /// worker, which is a part of the names.
    pub fn names(job: &Job, thread_number: u32) -> Vec<String> {
        let logs = Logs::new(job);
        let rates = logs.rates().map(|log| log.name(thread_number));
        rates.chain(logs.io.iter().map(|(name, _)| io_name(name, thread_number))).collect()
    }

    /// Makes the log files that the job requests, still empty.
    pub fn new(job: &Job) -> Self {
        let log = |prefix: &Option<String>, suffix, rate| {
            prefix.as_ref().map(|prefix| {
                let prefix = if prefix.is_empty() { job.name.clone() } else { prefix.clone() };
                Log { suffix, prefix, rate, entries: Vec::new(), sums: [Sum::default(); 2] }
            })
        };
        let latencies = (
            log(&job.write_lat_log, "slat", false),
            log(&job.write_lat_log, "clat", false),
            log(&job.write_lat_log, "lat", false),
        );
        Logs {
            avg_ms: job.log_avg_msec,
            with_offset: job.log_offset,
            window_end_ms: job.log_avg_msec,
            bw: log(&job.write_bw_log, "bw", true),
            iops: log(&job.write_iops_log, "iops", true),
            slat_clat_lat: match latencies {
                (Some(slat), Some(clat), Some(lat)) => Some([slat, clat, lat]),
                _ => None,
            },
            io: job.write_iolog.as_ref().map(|name| (name.clone(), Vec::new())),
            open_from: 0,
        }
    }

    /// Adds a line to the I/O log: the worker issues this transfer.
    pub(super) fn issued(&mut self, io: &Io) {
        self.add(None, logged(io));
    }

    /// Adds a line to the I/O log: the worker issues this flush.
    pub(super) fn flushes(&mut self, sync: &Sync) {
        self.add(None, logged_flush(sync));
    }

    /// Records in the I/O log that this transfer began at `at_ns`, in ns.
    pub(super) fn began(&mut self, at_ns: u64, io: &Io) {
        self.time(at_ns, logged(io));
    }

    /// Records in the I/O log that this flush began at `at_ns`, in ns.
    pub(super) fn flushed(&mut self, at_ns: u64, sync: &Sync) {
        self.time(at_ns, logged_flush(sync));
    }

    fn add(&mut self, us: Option<u64>, what: Logged) {
        if let Some((_, list)) = &mut self.io {
            list.push((us, what));
        }
    }

    /// Gives the time in ns to the first line of this transfer or flush that has none. A line that
    /// was written before the end of the ramp time is not there, and is added.
    fn time(&mut self, at_ns: u64, what: Logged) {
        let Some((_, list)) = &mut self.io else { return };
        let us = Some(at_ns / 1000);
        self.open_from += list[self.open_from..].iter().take_while(|(us, _)| us.is_some()).count();
        match list[self.open_from..].iter_mut().find(|line| line.0.is_none() && line.1 == what) {
            Some(line) => line.0 = us,
            None => list.push((us, what)),
        }
    }

    /// Records in the logs a transfer of `bytes` bytes that the log dates to the time `at_ns`.
    /// `latencies_ns`: latency of the submission, of the completion, and of both together.
    pub(super) fn transfer(&mut self, at_ns: u64, io: &Io, bytes: u64, latencies_ns: [Option<u64>; 3]) {
        let ms = at_ns / 1_000_000;
        if self.avg_ms > 0 {
            self.close_windows(ms);
        }
        let single = self.avg_ms == 0;
        let [_, clat_ns, _] = latencies_ns;
        let per_second = u128::from(bytes) * 1_000_000 / u128::from(clat_ns.unwrap_or(1).max(1));
        // For a single transfer, fio logs the bandwidth in units of 1000 bytes, and the rate as 1.
        let bw = if single { u64::try_from(per_second).unwrap_or(u64::MAX) } else { bytes };
        for (log, value) in [(&mut self.bw, bw), (&mut self.iops, 1)] {
            if let Some(log) = log {
                log.note(single, Entry { ms, value, dir: io.dir, bytes, offset: io.offset });
            }
        }
        for (log, ns) in self.slat_clat_lat.iter_mut().flatten().zip(latencies_ns) {
            if let Some(value) = ns {
                log.note(single, Entry { ms, value, dir: io.dir, bytes, offset: io.offset });
            }
        }
    }

    fn close_windows(&mut self, ms: u64) {
        if ms < self.window_end_ms {
            return;
        }
        let (end_ms, avg_ms) = (self.window_end_ms, self.avg_ms);
        let logs = self.bw.iter_mut().chain(&mut self.iops).chain(self.slat_clat_lat.iter_mut().flatten());
        for log in logs {
            log.close_window(end_ms, avg_ms);
        }
        let passed = (ms - end_ms) / avg_ms + 1;
        self.window_end_ms = end_ms.saturating_add(passed.saturating_mul(avg_ms));
    }

    /// Ends the logs at the time `at_ns`. As in fio, the logs of latencies have a last window,
    /// which may be shorter. The logs of rates have only whole windows.
    pub(super) fn end(&mut self, at_ns: u64) {
        for log in self.slat_clat_lat.iter_mut().flatten().filter(|_| self.avg_ms > 0) {
            log.close_window(at_ns / 1_000_000, self.avg_ms);
        }
    }

    /// Returns the log files as name and text. `thread_number`: number of the worker, which is a
    /// part of the names. `file_names`: names of the worker's files.
    pub fn files(&self, thread_number: u32, file_names: &[String]) -> Vec<(String, String)> {
        let logs = self.rates().filter(|log| !log.entries.is_empty());
        let mut files: Vec<(String, String)> =
            logs.map(|log| (log.name(thread_number), log.text(self.with_offset))).collect();
        if let Some((name, list)) = &self.io {
            let mut text = String::from("fio version 3 iolog\n");
            let named = |index: usize| file_names.get(index).map_or("?", String::as_str);
            for what in ["add", "open"] {
                for name in file_names {
                    let _ = writeln!(text, "0 {name} {what}");
                }
            }
            // Each line was added when the worker issued its transfer or flush.
            let mut list: Vec<(u64, Logged)> =
                list.iter().filter_map(|(us, what)| us.map(|us| (us, *what))).collect();
            list.sort_by_key(|(us, _)| *us);
            for (us, (file, word, offset, bytes)) in &list {
                let _ = writeln!(text, "{us} {} {word} {offset} {bytes}", named(*file));
            }
            let end_us = list.last().map_or(0, |(us, _)| *us);
            for name in file_names {
                let _ = writeln!(text, "{end_us} {name} close");
            }
            files.push((io_name(name, thread_number), text));
        }
        files
    }

    /// Returns all logs of the worker except the I/O log: bandwidth, IOPS and latencies.
    fn rates(&self) -> impl Iterator<Item = &Log> {
        self.bw.iter().chain(&self.iops).chain(self.slat_clat_lat.iter().flatten())
    }
}

/// Returns the name of a worker's I/O log: `name`, with the worker's number `thread_number` at its
/// end if it is not 1.
fn io_name(name: &str, thread_number: u32) -> String {
    if thread_number == 1 { name.to_owned() } else { format!("{name}.{thread_number}") }
}

impl Log {
    fn name(&self, thread_number: u32) -> String {
        format!("{}_{}.{thread_number}.log", self.prefix, self.suffix)
    }

    fn note(&mut self, single: bool, entry: Entry) {
        if single {
            self.entries.push(entry);
        } else {
            let sum = &mut self.sums[entry.dir.index()];
            sum.amount += u128::from(entry.value);
            sum.count += 1;
        }
    }

    fn close_window(&mut self, end_ms: u64, window_ms: u64) {
        for (dir, sum) in Dir::ALL.into_iter().zip(&mut self.sums) {
            let Sum { amount, count } = std::mem::take(sum);
            if count == 0 {
                continue;
            }
            // Bandwidth is in KiB per second.
            let unit = if self.suffix == "bw" { 1024 } else { 1 };
            let value = if self.rate {
                amount * 1000 / u128::from(window_ms) / unit
            } else {
                amount / u128::from(count)
            };
            let value = u64::try_from(value).unwrap_or(u64::MAX);
            self.entries.push(Entry { ms: end_ms, value, dir, bytes: 0, offset: 0 });
        }
    }

    fn text(&self, with_offset: bool) -> String {
        let mut text = String::new();
        for Entry { ms, value, dir, bytes, offset } in &self.entries {
            let _ = write!(text, "{ms}, {value}, {}, {bytes}, ", dir.index());
            if with_offset {
                let _ = write!(text, "{offset}, ");
            }
            text.push_str("0\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::error::Place;
    use crate::fio::state::How;

    fn read(offset: u64) -> Io {
        Io {
            dir: Dir::Read,
            how: How::Plain,
            file: 0,
            offset,
            bytes: 4096,
            stamp: None,
            check: false,
            entry: 0,
        }
    }

    #[test]
    fn one_line_a_transfer() {
        let mut job = Job::new("a", Place::Argument(1));
        job.write_bw_log = Some("p".to_string());
        job.write_lat_log = Some(String::new());
        job.write_iolog = Some("x".to_string());
        let mut logs = Logs::new(&job);
        logs.began(10_400_000, &read(8192));
        logs.flushed(10_300_000, &Sync { file: 0, data_only: true, entry: 0 });
        logs.transfer(10_500_000, &read(8192), 4096, [None, Some(13_289), Some(14_111)]);
        let files = logs.files(1, &["f".to_string()]);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["p_bw.1.log", "a_clat.1.log", "a_lat.1.log", "x"]);
        // The first two lines are those of fio 3.33 for these latencies.
        assert_eq!(files[0].1, "10, 308224, 0, 4096, 0\n");
        assert_eq!(files[1].1, "10, 13289, 0, 4096, 0\n");
        assert_eq!(
            files[3].1,
            "fio version 3 iolog\n0 f add\n0 f open\n10300 f datasync 0 0\n10400 f read 8192 4096\n10400 f close\n"
        );
    }

    #[test]
    fn transfers_are_logged_in_the_order_in_which_they_are_issued() {
        let mut job = Job::new("a", Place::Argument(1));
        job.write_iolog = Some("x".to_string());
        let mut logs = Logs::new(&job);
        let sync = Sync { file: 0, data_only: false, entry: 0 };
        [8192, 0, 4096].iter().for_each(|offset| logs.issued(&read(*offset)));
        logs.flushes(&sync);
        // All in one microsecond, and ended in another order.
        [(10_400, 4096), (10_300, 0)].iter().for_each(|(ns, offset)| logs.began(*ns, &read(*offset)));
        logs.flushed(10_500, &sync);
        logs.began(10_200, &read(8192));
        logs.issued(&read(12288));
        let lines = "10 f read 8192 4096\n10 f read 0 4096\n10 f read 4096 4096\n10 f sync 0 0\n10 f close\n";
        let text = &logs.files(1, &["f".to_string()])[0].1;
        assert_eq!(*text, format!("fio version 3 iolog\n0 f add\n0 f open\n{lines}"));
    }

    #[test]
    fn windows_average() {
        let mut job = Job::new("a", Place::Argument(1));
        (job.write_bw_log, job.write_iops_log) = (Some("p".to_string()), Some("p".to_string()));
        job.write_lat_log = Some("p".to_string());
        (job.log_avg_msec, job.log_offset) = (500, true);
        let mut logs = Logs::new(&job);
        for i in 0..100 {
            logs.transfer(i * 10_000_000, &read(0), 4096, [None, Some(100 + i), Some(200)]);
        }
        logs.transfer(1_000_000_000, &read(0), 4096, [None, Some(1), Some(3)]);
        logs.transfer(1_099_000_000, &read(0), 4096, [None, Some(2), Some(5)]);
        // The last window is shorter: as in fio, only latencies have it, at the job's end.
        logs.end(1_099_500_000);
        let files = logs.files(2, &[]);
        assert_eq!(files[0], ("p_bw.2.log".into(), "500, 400, 0, 0, 0, 0\n1000, 400, 0, 0, 0, 0\n".into()));
        assert_eq!(files[1], ("p_iops.2.log".into(), "500, 100, 0, 0, 0, 0\n1000, 100, 0, 0, 0, 0\n".into()));
        let lines = "500, 124, 0, 0, 0, 0\n1000, 174, 0, 0, 0, 0\n1099, 1, 0, 0, 0, 0\n";
        assert_eq!(files[2], ("p_clat.2.log".into(), lines.into()));
        let lines = "500, 200, 0, 0, 0, 0\n1000, 200, 0, 0, 0, 0\n1099, 4, 0, 0, 0, 0\n";
        assert_eq!(files[3], ("p_lat.2.log".into(), lines.into()));
    }
}
