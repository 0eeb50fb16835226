//! Conclusion of the analysis of a run in one line: what costs most, compared with the physical
//! limit.

use super::report::transfers;
use super::{Phases, Why, mib_per_s};
use crate::runner::Counters;

/// Rate of a run, in percent of its limit, from which on no other stack could make the run
/// noticeably faster.
const ENOUGH_PERCENT: f64 = 97.0;
/// Smallest gain in percent, with two requests under way instead of one, for which the conclusion
/// says that the second request helps.
const HELPS_PERCENT: f64 = 2.0;

/// Ratio of two numbers of requests per transfer: that of the run to that at the limit. Below this
/// ratio the conclusion says that the run loses time since its requests were merged less.
const MERGES_LESS: f64 = 0.9;
/// Parts of a run's time, as `mmcq why` names them, that grow with the number of transfers, not
/// with their length. With less merging there are more transfers.
const EACH_TRANSFER: [&str; 3] = ["wire, commands", "card, access", "card, busy"];
/// Name under which the conclusion shows the time that a run loses since its requests were merged
/// less than at the limit.
const MERGING: &str = "merging";

/// Returns the mean number of requests in one transfer of a run.
pub fn requests_per_transfer(c: &Counters) -> f64 {
    c.ios as f64 / transfers(c).max(1) as f64
}

/// Returns the part of the run's time (such as "waiting") that is longest in comparison with the
/// limit, and how much longer, in us per request.
fn largest_loss(why: &Why) -> (&'static str, f64) {
    let (run, limit) = (&why.counters, &why.limit);
    let each = run.bytes as f64 / run.ios.max(1) as f64;
    let of = |ns: u64, bytes: u64| ns as f64 / bytes.max(1) as f64 * each / 1e3;
    let (spent, needed) = (Phases::of(run).named(), Phases::of(limit).named());
    let losses = spent.into_iter().zip(needed);
    let losses = losses.map(|((name, ns), (_, least))| (name, of(ns, run.bytes) - of(least, limit.bytes)));
    let mut losses: Vec<(&str, f64)> = losses.collect();
    if requests_per_transfer(run) < MERGES_LESS * requests_per_transfer(limit) {
        let (repeated, others): (Vec<_>, Vec<_>) =
            losses.into_iter().partition(|(name, _)| EACH_TRANSFER.contains(name));
        losses = others;
        losses.push((MERGING, repeated.into_iter().map(|(_, us)| us).sum()));
    }
    losses.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("CPU", 0.0))
}

/// Returns whether the largest loss is the time in which the bus waits for the job.
pub(super) fn waits(why: &Why) -> bool {
    why.share_percent() < ENOUGH_PERCENT && largest_loss(why).0 == "waiting"
}

pub(super) fn line(why: &Why) -> String {
    let share = why.share_percent();
    let c = &why.counters;
    let pace = why.pace_percent().map(|_| {
        let free = 100.0 * (1.0 - c.bus_share()).max(0.0);
        format!(
            "the job's own pace is the limit (its rates, think times or pauses), and the bus is free for \
             {free:.1} % of the time"
        )
    });
    if share >= ENOUGH_PERCENT {
        return match pace {
            Some(pace) => format!("{share:.1} % of the limit: {pace}"),
            None => format!("{share:.1} % of what wire and card allow: nothing worth naming is lost"),
        };
    }
    match pace {
        Some(pace) => format!("{}; {pace}", loss(why, share)),
        None => loss(why, share),
    }
}

/// Returns a sentence about what takes the most additional time in a run that is slower than its
/// physical limit. `share`: rate of the run in percent of the limit.
fn loss(why: &Why, share: f64) -> String {
    let c = &why.counters;
    let (name, us) = largest_loss(why);
    let lost = format!("{share:.1} % of the limit; most of the loss");
    match name {
        "waiting" => {
            let who = if why.deeper.is_some() { "the submitter thinks" } else { "the jobs think" };
            format!("{lost}: {who} {us:.0} us for each request while the bus has no work{}", depth(why))
        }
        "CPU" => {
            let each = requests_per_transfer(c);
            let per = |count: u64| count as f64 / transfers(c).max(1) as f64;
            format!(
                "{lost}: software takes {:.0} us for each transfer while the bus is quiet ({:.2} interrupts, {:.2} context switches each)",
                us * each,
                per(c.cpu.interrupts),
                per(c.cpu.switches),
            )
        }
        "wire, commands" => {
            let each = |c: &Counters| c.bus.command_count() as f64 / c.ios.max(1) as f64;
            let (run, limit) = (each(c), each(&why.limit));
            format!("{lost}: {run:.2} commands for each request, where the limit needs {limit:.2}")
        }
        MERGING => format!(
            "{lost}: merging, {us:.0} us of commands, access and busy more for each request \
             ({:.2} requests a transfer, {:.2} at the limit)",
            requests_per_transfer(c),
            requests_per_transfer(&why.limit)
        ),
        other => format!("{lost}: {other}, {us:.0} us for each request"),
    }
}

/// Returns a text that says whether two requests under way instead of one hide the time that the
/// job itself needs; empty if such a run was not made.
fn depth(why: &Why) -> String {
    let Some(deeper) = &why.deeper else { return String::new() };
    let (now, then) = (mib_per_s(&why.counters), mib_per_s(deeper));
    let gain = 100.0 * (then / now.max(f64::MIN_POSITIVE) - 1.0);
    let (then, unit) = (why.told(then), why.rate.unit());
    if gain >= HELPS_PERCENT {
        format!("; depth 2 hides it: {then:.2} {unit}, {gain:+.1} %")
    } else {
        format!("; depth 2 does not help: {then:.2} {unit}, {gain:+.1} %")
    }
}
