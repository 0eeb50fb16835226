//! Prints a run's requests in the form of bcc's tools: one line for each request in the columns of
//! `biosnoop -Q`, or latencies in powers of two as in `biolatency`.

use super::export::Completed;
use super::passed::{self, Rules, younger_first};
use crate::system::{How, Io};
use mmcq::host::Direction;
use std::fmt::Write;

/// Length in characters of the longest bar of a histogram.
const STARS: u64 = 40;

/// Returns one line for each request, sorted by its end. `names` are the names of the jobs. Two
/// columns follow after biosnoop's: the time in the driver's queue, which is a part of the latency
/// (LAT), and the number of younger requests that were sent to the card first.
pub fn lines(completed: &[Completed], names: &[String]) -> String {
    let mut out = format!(
        "{:<11} {:<14} {:<7} {:<9} {:<1} {:<10} {:<7} {:>7} {:>7} {:>7} {:>7}\n",
        "TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)", "DRV(ms)", "YOUNGER"
    );
    for (one, younger) in completed.iter().zip(younger_first(completed)) {
        let Io { job, blocks, .. } = one.io;
        let lba = place(&one.io).map_or("-".to_owned(), |lba| lba.to_string());
        let name = names.get(job as usize).map_or("-", String::as_str);
        let name: String = name.chars().take(14).collect();
        let ms = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / 1e6;
        let (pid, bytes) = (job + 1, u64::from(blocks) * 512);
        let failed = if one.ok { "" } else { "  failed" };
        let _ = writeln!(
            out,
            "{:<11.6} {name:<14} {pid:<7} {:<9} {:<1} {lba:<10} {bytes:<7} {:>7.3} {:>7.3} {:>7.3} {younger:>7}{failed}",
            one.done_ns as f64 / 1e9,
            "mmcblk0",
            kind(&one.io),
            ms(one.came_ns, one.driver_ns),
            ms(one.driver_ns, one.done_ns),
            ms(one.driver_ns, one.went_ns),
        );
    }
    out
}

/// Returns the requests as JSON, one object per line, with times in ns.
pub fn json_lines(completed: &[Completed], names: &[String]) -> String {
    let line = |(one, younger): (&Completed, u32)| {
        let Io { job, blocks, .. } = one.io;
        let row = serde_json::json!({
            "at_ns": one.done_ns,
            "job": names.get(job as usize),
            "pid": job + 1,
            "kind": kind(&one.io).to_string(),
            "sector": place(&one.io),
            "bytes": u64::from(blocks) * 512,
            "queued_ns": one.driver_ns.saturating_sub(one.came_ns),
            "served_ns": one.done_ns.saturating_sub(one.driver_ns),
            "driver_queue_ns": one.went_ns.saturating_sub(one.driver_ns),
            "younger_first": younger,
            "ok": one.ok,
        });
        format!("{row}\n")
    };
    completed.iter().zip(younger_first(completed)).map(line).collect()
}

/// Returns the address on the card of an I/O's first block; `None` for a flush.
fn place(io: &Io) -> Option<u64> {
    (io.blocks > 0).then_some(io.lba)
}

/// Returns biosnoop's letter for the kind of an I/O: read, write, discard, flush.
fn kind(io: &Io) -> char {
    match (io.direction, io.how, io.blocks) {
        (_, _, 0) => 'F',
        (_, How::Discard, _) => 'D',
        (Direction::Read, ..) => 'R',
        (Direction::Write, ..) => 'W',
    }
}

/// Returns one line for each of the `count` slowest requests in `completed`, the slowest first.
/// `names`: the programs' names, by job number.
pub fn slowest(completed: &[Completed], names: &[String], count: usize, rules: Rules) -> String {
    let mut out = String::new();
    for passed in passed::slowest(completed, count, rules) {
        let Completed { io, done_ns, .. } = passed.request;
        let name = names.get(io.job as usize).map_or("-", String::as_str);
        let at = done_ns as f64 / 1e9;
        let lba = place(&io).map_or("-".to_owned(), |lba| lba.to_string());
        let _ = writeln!(out, "{at:.6} {name} {} {lba}: {}", kind(&io), passed.line(rules));
    }
    out
}

/// Returns a histogram for each kind of request, of the times in us from submission to completion.
pub fn histogram(completed: &[Completed]) -> String {
    let mut out = String::new();
    for (kind, name) in [('R', "read"), ('W', "write"), ('D', "discard"), ('F', "flush")] {
        let of_kind = completed.iter().filter(|one| self::kind(&one.io) == kind);
        let mut counts: Vec<u64> = Vec::new();
        for one in of_kind {
            let bucket = bucket(one.done_ns.saturating_sub(one.came_ns) / 1000);
            counts.resize(counts.len().max(bucket + 1), 0);
            counts[bucket] += 1;
        }
        if !counts.is_empty() {
            let space = if out.is_empty() { "" } else { "\n" };
            let _ = write!(out, "{space}{name}\n{}", bars(&counts));
        }
    }
    out
}

/// Returns the number of the histogram's bucket for a time in us. Bucket 0 has 0 and 1 us; bucket n
/// has the times from 2^n us to just below twice that.
fn bucket(us: u64) -> usize {
    us.max(1).ilog2() as usize
}

fn bars(counts: &[u64]) -> String {
    let mut out = format!("{:>14}{:<15} : count     distribution\n", "usecs", "");
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    for (at, count) in counts.iter().enumerate() {
        let (low, high) = (if at == 0 { 0 } else { 1u64 << at }, (2u64 << at) - 1);
        let stars = "*".repeat((count * STARS / most) as usize);
        let _ = writeln!(out, "{low:>14} -> {high:<11} : {count:<8} |{stars:<40}|");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_without_a_gap() {
        for (us, expected) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (1023, 9), (1024, 10)]
        {
            assert_eq!(bucket(us), expected, "{us}");
        }
        let text = bars(&[3, 0, 6]);
        let rows: Vec<&str> =
            text.lines().skip(1).map(|row| row.split(" : ").next().unwrap().trim()).collect();
        assert_eq!(rows, ["0 -> 1", "2 -> 3", "4 -> 7"]);
        assert_eq!(text.matches('*').count(), 20 + 40);
    }
}
