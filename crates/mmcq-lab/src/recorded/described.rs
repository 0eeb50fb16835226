//! Describes a trace: its requests by kind, their sizes, and its share of think time.

use super::{Op, Record};
use crate::fio::report::Fact;
use std::collections::BTreeMap;

/// Names of the kinds of requests, in the order in which the description of a trace lists them.
const KINDS: [&str; 4] = ["reads", "writes", "flushes", "discards"];

fn kind(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
    }
}

/// Facts about the requests of one kind (such as reads): their number and sizes, for example.
#[derive(Debug, Default)]
struct Kind {
    count: u64,
    bytes: u64,
    /// Number of requests of each size in bytes.
    sizes: BTreeMap<u64, u64>,
}

impl Kind {
    /// Returns the smallest, median and largest size of the requests in bytes; `None`: there are no
    /// requests.
    fn sizes(&self) -> Option<[u64; 3]> {
        let (least, most) = (*self.sizes.keys().next()?, *self.sizes.keys().next_back()?);
        let mut below = 0;
        let median = self.sizes.iter().find(|(_, count)| {
            below += **count;
            2 * below >= self.count
        });
        Some([least, *median?.0, most])
    }
}

/// Description of a trace, to which requests are added in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Described {
    kinds: [Kind; KINDS.len()],
    durable: u64,
    /// Number of requests that the trace marks with a flush before them (preflush).
    flush_first: u64,
    first_ns: Option<u64>,
    /// Latest end in ns of the requests so far.
    ended_ns: u64,
    /// Sum in ns of the times in which no request was under way.
    idle_ns: u64,
    ends_known: bool,
}

impl Described {
    pub(super) fn add(&mut self, record: &Record) {
        let kind = &mut self.kinds[kind(record.op)];
        kind.count += 1;
        kind.bytes += record.bytes;
        *kind.sizes.entry(record.bytes).or_default() += 1;
        self.durable += u64::from(record.durable);
        self.flush_first += u64::from(record.flush_first);
        if self.first_ns.is_none() {
            self.first_ns = Some(record.at_ns);
            self.ended_ns = record.at_ns;
        }
        self.idle_ns += record.at_ns.saturating_sub(self.ended_ns);
        let end_ns = record.at_ns.saturating_add(record.took_ns.unwrap_or(0));
        self.ended_ns = self.ended_ns.max(end_ns);
        self.ends_known |= record.took_ns.is_some();
    }

    /// Returns the share, 0 to 1, of the time from the first request to the last end in which no
    /// request was under way. `None`: the trace does not say when requests end, or that time is 0.
    pub(super) fn think_share(&self) -> Option<f64> {
        let span_ns = self.ended_ns.saturating_sub(self.first_ns?);
        (self.ends_known && span_ns > 0).then(|| self.idle_ns as f64 / span_ns as f64)
    }

    /// Returns the facts about the trace for a report, as name and value.
    pub(super) fn facts(&self) -> Vec<(String, Fact)> {
        let mut facts = Vec::new();
        for (name, kind) in KINDS.iter().zip(&self.kinds) {
            facts.push(((*name).to_owned(), Fact::Count(kind.count)));
            let Some([least, median, most]) = kind.sizes().filter(|sizes| sizes[2] > 0) else { continue };
            let sizes = [("", kind.bytes), ("min_", least), ("median_", median), ("max_", most)];
            let sizes = sizes.map(|(part, bytes)| (format!("{name}_{part}bytes"), Fact::Count(bytes)));
            facts.extend(sizes);
        }
        facts.push(("durable".to_owned(), Fact::Count(self.durable)));
        facts.push(("flush_first".to_owned(), Fact::Count(self.flush_first)));
        let share = self.think_share().map(|share| (share * 1e4).round() / 1e4);
        facts.push((
            "think_share".to_owned(),
            share.map_or_else(|| Fact::Word("unknown".to_owned()), Fact::Number),
        ));
        facts
    }

    /// Returns sentences that describe the trace; `head` is the trace's name, and `span_ns` the
    /// length of its recording.
    pub(super) fn told(&self, head: &str, span_ns: u64) -> Vec<String> {
        let all: u64 = self.kinds.iter().map(|kind| kind.count).sum();
        let mut told = vec![format!("{head}: {all} requests in {:.3} s.", span_ns as f64 / 1e9)];
        for (name, kind) in KINDS.iter().zip(&self.kinds).filter(|(_, kind)| kind.count > 0) {
            told.push(match kind.sizes().filter(|sizes| sizes[2] > 0) {
                None => format!("{} {name}.", kind.count),
                Some([least, median, most]) => {
                    let mib = kind.bytes as f64 / f64::from(1 << 20);
                    let size = if least == most {
                        size(least)
                    } else {
                        format!("{} to {}, median {}", size(least), size(most), size(median))
                    };
                    format!("{} {name} of {size}: {mib:.2} MiB.", kind.count)
                }
            });
        }
        if self.durable > 0 {
            told.push(format!("{} of the writes are durable (FUA).", self.durable));
        }
        if self.flush_first > 0 {
            told.push(format!("A flush goes before {} of the writes.", self.flush_first));
        }
        told.push(match self.think_share() {
            Some(share) => format!(
                "In {:.1} % of the recorded time no request was under way: the programs thought.",
                100.0 * share
            ),
            None => "The trace does not say when requests end, nor what share is think time.".to_owned(),
        });
        told
    }
}

/// Returns a size in bytes as readable text.
fn size(bytes: u64) -> String {
    match bytes % 1024 {
        0 => format!("{} KiB", bytes / 1024),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_us: u64, took_us: u64, op: Op, bytes: u64) -> Record {
        let (at_ns, took_ns) = (at_us * 1000, Some(took_us * 1000));
        let (durable, flush_first, device, offset) = (false, false, 0, 0);
        let (process, program) = (1, None);
        Record { at_ns, op, durable, flush_first, device, offset, bytes, process, took_ns, program }
    }

    #[test]
    fn time_in_which_nothing_is_under_way_is_think_time() {
        let mut trace = Described::default();
        // Requests 1 and 2 overlap; a pause of 70 us follows; request 4 is inside 3; a pause of 100
        // us follows.
        for (at_us, took_us) in [(0, 20), (10, 20), (100, 100), (120, 10), (300, 100)] {
            trace.add(&record(at_us, took_us, Op::Read, 4096));
        }
        assert_eq!(trace.think_share(), Some(170.0 / 400.0));
        let mut unknown = Described::default();
        unknown.add(&Record { took_ns: None, ..record(0, 0, Op::Read, 4096) });
        unknown.add(&Record { took_ns: None, ..record(9, 0, Op::Read, 4096) });
        assert_eq!(unknown.think_share(), None);
    }

    #[test]
    fn kinds_and_sizes_are_told() {
        let mut trace = Described::default();
        trace.add(&record(0, 1, Op::Flush, 0));
        for bytes in [4096, 4096, 512, 1 << 19] {
            trace.add(&record(1, 1, Op::Read, bytes));
        }
        trace.add(&Record { durable: true, flush_first: true, ..record(2, 2, Op::Write, 8192) });
        let told = trace.told("The trace t", 2_000_000).join(" ");
        assert!(
            told.contains("6 requests in 0.002 s. 4 reads of 512 bytes to 512 KiB, median 4 KiB"),
            "{told}"
        );
        assert!(
            told.contains("1 writes of 8 KiB: 0.01 MiB. 1 flushes. 1 of the writes are durable (FUA). A flush goes before 1 "),
            "{told}"
        );
        let facts = trace.facts();
        let fact = |name: &str| facts.iter().find(|(known, _)| known == name).unwrap().1.clone();
        let sizes = ["reads_min_bytes", "reads_median_bytes", "reads_max_bytes"].map(fact);
        assert_eq!(sizes, [512, 4096, 1 << 19].map(Fact::Count));
        assert_eq!(["flushes", "durable", "flush_first"].map(fact), [1, 1, 1].map(Fact::Count));
        assert!(facts.iter().all(|(name, _)| name != "flushes_bytes"));
    }
}
