//! Overtaking: which younger requests were sent to the card before a request, and by which rule.

use super::export::{Completed, is_flush};
use std::fmt::Write;

/// Returns, for each request, how many younger requests were sent to the card before it.
pub fn younger_first(completed: &[Completed]) -> Vec<u32> {
    let mut by_age: Vec<usize> = (0..completed.len()).collect();
    by_age.sort_by_key(|&at| completed[at].came_ns);
    let mut rank = vec![0; completed.len()];
    // Requests that arrived at the same time have the same rank, so none of them is younger.
    let mut last = None;
    for (nth, &at) in by_age.iter().enumerate() {
        let same = last.filter(|&before: &usize| completed[before].came_ns == completed[at].came_ns);
        rank[at] = same.map_or(nth, |before| rank[before]);
        last = Some(at);
    }
    let mut by_start: Vec<usize> = (0..completed.len()).collect();
    by_start.sort_by_key(|&at| completed[at].went_ns);
    let mut gone = Gone { counts: vec![0; completed.len() + 1], all: 0 };
    let mut first = vec![0; completed.len()];
    for together in by_start.chunk_by(|&a, &b| completed[a].went_ns == completed[b].went_ns) {
        for &at in together {
            first[at] = gone.all - gone.up_to(rank[at]);
        }
        together.iter().for_each(|&at| gone.add(rank[at]));
    }
    first
}

/// Number of requests that have gone, for each rank, stored as sums over ranges of ranks (Fenwick
/// tree).
struct Gone {
    counts: Vec<u32>,
    all: u32,
}

impl Gone {
    fn add(&mut self, rank: usize) {
        self.all += 1;
        let mut at = rank + 1;
        while at < self.counts.len() {
            self.counts[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the sum of the counts of all entries up to this index.
    fn up_to(&self, rank: usize) -> u32 {
        let (mut at, mut sum) = (rank + 1, 0);
        while at > 0 {
            sum += self.counts[at];
            at &= at - 1;
        }
        sum
    }
}

/// A request, with the numbers of younger requests that overtook it: in the scheduler, in the
/// driver's queue, and because of a flush.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Request that younger requests overtook.
    pub request: Completed,
    /// Number of younger requests that left the scheduler before the overtaken one.
    pub in_scheduler: u32,
    /// Number of younger requests that the driver received after this one but sent to the card
    /// first.
    pub in_driver: u32,
    /// Number of younger requests that went before the overtaken request because of a flush. The
    /// flush is the overtaken request itself, or one for which it waited.
    pub at_flush: u32,
}

/// Returns the `count` slowest requests, by the time from submission to completion, the slowest
/// first.
pub fn slowest(completed: &[Completed], count: usize, rules: Rules) -> Vec<Passed> {
    let all_ns = |one: &Completed| one.done_ns.saturating_sub(one.came_ns);
    let mut worst: Vec<&Completed> = completed.iter().collect();
    worst.sort_by_key(|one| (std::cmp::Reverse(all_ns(one)), one.came_ns));
    let passed = |request: &Completed| {
        let younger = |other: &&Completed| other.came_ns > request.came_ns && other.went_ns < request.went_ns;
        let flush_ns = rules.flush.and_then(|_| flush_before(completed, request)).unwrap_or(0);
        let mut passed = Passed { request: *request, in_scheduler: 0, in_driver: 0, at_flush: 0 };
        for other in completed.iter().filter(younger) {
            *match (other.went_ns < flush_ns, other.driver_ns >= request.driver_ns) {
                (true, _) => &mut passed.at_flush,
                (false, true) => &mut passed.in_driver,
                (false, false) => &mut passed.in_scheduler,
            } += 1;
        }
        passed
    };
    worst.into_iter().take(count).map(passed).collect()
}

/// Returns the start in ns of the flush for which a request waited; `None`: it waited for none. The
/// flush is the request itself, or the last flush that arrived before the request and ended before
/// the request was sent.
fn flush_before(completed: &[Completed], request: &Completed) -> Option<u64> {
    if is_flush(&request.io) {
        return Some(request.went_ns);
    }
    let before = |other: &&Completed| {
        is_flush(&other.io) && other.came_ns <= request.came_ns && other.done_ns <= request.went_ns
    };
    completed.iter().filter(before).map(|flush| flush.went_ns).max()
}

/// Rules by which a younger request may overtake an older one: may start or be complete before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Rule by which a younger request may overtake in the scheduler.
    pub scheduler: &'static str,
    /// Rule by which a younger request may overtake in the driver's queue.
    pub driver: &'static str,
    /// Rule by which younger requests go before a flush; `None`: flushes have no rule of their own.
    pub flush: Option<&'static str>,
}

impl Passed {
    /// Returns a line of text about a request that younger requests overtook: its times, and how
    /// many went first and why. The line has no line end.
    pub fn line(&self, rules: Rules) -> String {
        let Completed { came_ns, driver_ns, went_ns, done_ns, .. } = self.request;
        let ms = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / 1e6;
        let mut line = format!(
            "{:.3} ms: {:.3} in the scheduler, {:.3} in the driver's queue, {:.3} at the card",
            ms(came_ns, done_ns),
            ms(came_ns, driver_ns),
            ms(driver_ns, went_ns),
            ms(went_ns, done_ns),
        );
        let younger = self.in_scheduler + self.in_driver + self.at_flush;
        let _ = write!(line, "; {younger} younger ones went first");
        let at_flush = (self.at_flush, rules.flush.unwrap_or_default());
        for (count, rule) in [at_flush, (self.in_driver, rules.driver), (self.in_scheduler, rules.scheduler)]
        {
            if count > 0 {
                let _ = write!(line, ", {count} because {rule}");
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{How, Io};
    use mmcq::host::Direction;

    fn one([came_ns, driver_ns, went_ns]: [u64; 3]) -> Completed {
        let (direction, how) = (Direction::Read, How::Plain);
        let io = Io { job: 0, core: 0, direction, how, lba: 0, sync: true, blocks: 8, buffer: 0, skip: 0 };
        Completed { io, came_ns, driver_ns, went_ns, done_ns: went_ns + 10, ok: true }
    }

    #[test]
    fn younger_ones_are_counted_where_they_passed() {
        // Request 1 waits in the scheduler while 2 leaves it, and then in the driver's queue while
        // 3 is sent. Requests 4 and 5 arrive and are sent together.
        let all = [[0, 20, 60], [5, 10, 30], [25, 40, 50], [70, 70, 80], [70, 70, 80]].map(one);
        assert_eq!(younger_first(&all), [2, 0, 0, 0, 0]);
        let rules = Rules { scheduler: "it is near", driver: "it is lucky", flush: Some("it is flushed") };
        let worst = slowest(&all, 2, rules);
        assert_eq!((worst[0].request.came_ns, worst[0].in_scheduler, worst[0].in_driver), (0, 1, 1));
        assert_eq!((worst[1].request.came_ns, worst[1].in_scheduler, worst[1].in_driver), (5, 0, 0));
        let line = worst[0].line(rules);
        assert!(line.contains("2 younger ones went first, 1 because it is lucky"), "{line}");
        assert!(line.ends_with("1 because it is near"), "{line}");
    }

    #[test]
    fn what_a_flush_lets_go_first_is_told_apart() {
        let flush = |times: [u64; 3]| {
            let mut flush = one(times);
            flush.io.blocks = 0;
            flush
        };
        // The flush lets two younger writes go first. Write 2 waits for the end of the flush, and
        // is overtaken by one of these writes and by a read after the flush.
        let all = [flush([0, 0, 50]), one([5, 5, 70]), one([4, 4, 30]), one([6, 6, 40]), one([60, 60, 65])];
        let rules = Rules { scheduler: "it is near", driver: "it is lucky", flush: Some("it is flushed") };
        let counts = |rules| {
            let found = slowest(&all, 2, rules);
            found.iter().map(|one| (one.at_flush, one.in_driver)).collect::<Vec<_>>()
        };
        assert_eq!(counts(rules), [(1, 1), (2, 0)]);
        assert_eq!(counts(Rules { flush: None, ..rules }), [(0, 2), (0, 2)]);
        assert!(slowest(&all, 2, rules)[1].line(rules).ends_with("2 because it is flushed"));
    }

    #[test]
    fn the_quick_count_is_the_plain_one() {
        // 200 requests in a fixed, mixed order.
        let at = |n: u64, by: u64| n * by % 211;
        let all: Vec<Completed> = (1..200).map(|n| one([at(n, 17), at(n, 17), 300 + at(n, 29)])).collect();
        let plain = all
            .iter()
            .map(|r| all.iter().filter(|s| s.came_ns > r.came_ns && s.went_ns < r.went_ns).count() as u32);
        assert_eq!(younger_first(&all), plain.collect::<Vec<u32>>());
    }
}
