//! Finds the effect of each schedule event on a program, and the kernel's messages about it.

use super::Report;

/// Length in us of the shortest gap that `tools/guest-time/probe.c` and `boards/pc` report. A gap
/// lasts from the start of a request to the end of the next request that succeeds, which may be the
/// same one.
const GAP_US: u64 = 1000;

/// Effect of one event of the schedule on the guest's requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovered {
    /// The line of the [schedule](mmcq_sim::schedule) that describes the event, such as a fault of
    /// the card.
    pub line: String,
    /// Length in us of the longest gap that the event caused: from the start of a request to the
    /// end of the first request that succeeded, which is the same or a later one. For an event with
    /// a length, the gap counts from the event's end on. `None`: no gap was longer than 1 ms.
    pub us: Option<u64>,
    /// Whether no request of the guest succeeded between this event of the schedule of faults and
    /// the next one.
    pub outlasted: bool,
    /// Number of requests of the guest that failed from this event of the schedule to the next one.
    pub errors: u64,
    /// Messages of the guest's kernel from the event to the next event.
    pub kernel: Vec<String>,
}

/// Parses `probe: gap FROM TO`, a line that the guest's program prints for a gap (times in us).
fn gap(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.strip_prefix("probe: gap ")?.split_once(' ')?;
    Some((from.parse().ok()?, to.trim().parse().ok()?))
}

/// Returns the time in us that follows `prefix` at the start of a line, and the rest of the line.
fn at<'a>(line: &'a str, prefix: &str) -> Option<(u64, &'a str)> {
    let (at_us, rest) = line.strip_prefix(prefix)?.split_once(' ')?;
    Some((at_us.parse().ok()?, rest))
}

/// Returns the effect of each event of the report's schedule, from its start to the start of the
/// next event.
pub fn recovered(report: &Report) -> Vec<Recovered> {
    let us =
        |word: Option<&str>| word.and_then(|ms| ms.parse::<f64>().ok()).map_or(0, |ms| (ms * 1e3) as u64);
    let begins = report.schedule.iter().map(|line| us(line.split(' ').next()));
    let nexts = begins.clone().skip(1).chain([u64::MAX]);
    let each = report.schedule.iter().zip(begins).zip(nexts);
    each.map(|((line, begin_us), next_us)| {
        let during = begin_us..next_us;
        let end_us = begin_us + us(line.split(' ').nth(2));
        let lasts = end_us > begin_us;
        let gaps = report.output.iter().filter_map(|line| gap(line));
        let gaps = gaps.filter(|(from, to)| *to >= begin_us && *from < next_us && *to > end_us);
        // A request that is not slow yet when the next event begins counts for that event.
        let gaps = gaps.filter(|(from, to)| *to < next_us || from + GAP_US <= next_us);
        let felt =
            gaps.map(|(from, to)| (to.saturating_sub(if lasts { end_us.max(from) } else { from }), to));
        let longest = felt.max();
        let errors = report.output.iter().filter_map(|line| at(line, "probe: error "));
        let kernel = report.output.iter().filter_map(|line| at(line, "kernel: "));
        Recovered {
            line: line.clone(),
            us: longest.map(|(us, _)| us),
            outlasted: longest.is_some_and(|(_, to)| to >= next_us),
            errors: errors.filter(|(at_us, _)| during.contains(at_us)).count() as u64,
            kernel: kernel
                .filter(|(at_us, _)| during.contains(at_us))
                .map(|(_, text)| text.to_owned())
                .collect(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Counters;
    use super::*;

    fn report(schedule: &[&str], output: &[&str]) -> Report {
        let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        Report {
            platform: String::new(),
            card: String::new(),
            setting: "none".to_owned(),
            cpus: 1,
            instruction_ns: 1,
            wake_ns: 0,
            irq_ns: 0,
            register_read_ns: 0,
            register_write_ns: 0,
            schedule: owned(schedule),
            begin: Vec::new(),
            output: owned(output),
            loads: Vec::new(),
            counters: Counters::default(),
        }
    }

    #[test]
    fn a_line_has_what_was_felt_before_the_next() {
        let report = report(
            &["1 resp_crc", "2 rd_crc", "3 cut 1", "10 out 500"],
            &[
                "probe: gap 900 1700",
                "kernel: 1100 mmc0: one",
                "probe: error 10100 EIO",
                "probe: error 11000 ENODEV",
                "probe: gap 3500 810000",
                "kernel: 10200 mmc0: card removed",
                "kernel: 700000 mmc1: new",
                "other",
            ],
        );
        let all = recovered(&report);
        let felt: Vec<_> = all.iter().map(|one| (one.us, one.errors, one.kernel.len())).collect();
        assert_eq!(felt, [(Some(800), 0, 1), (None, 0, 0), (Some(806_000), 0, 0), (Some(300_000), 2, 2)]);
        assert_eq!(all.iter().map(|one| one.outlasted).collect::<Vec<_>>(), [false, false, true, false]);
        assert_eq!(all[0].kernel, ["mmc0: one"]);
    }

    /// Checks that a request that is under way when an event begins does not count as delayed by
    /// the event before.
    #[test]
    fn a_request_that_a_line_meets_is_not_that_of_the_line_before() {
        let report = report(&["300 resp_lost", "600 rd_crc"], &["probe: gap 599853 600927"]);
        let felt: Vec<_> = recovered(&report).iter().map(|one| (one.us, one.outlasted)).collect();
        assert_eq!(felt, [(None, false), (Some(1074), false)]);
    }
}
