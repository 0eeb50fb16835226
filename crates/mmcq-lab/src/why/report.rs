//! Facts about a run, as a table or as JSON, one object per line.

use super::{Phases, Why, mib_per_s};
use crate::runner::served::reason;
use crate::runner::{Counters, Keeping};
use mmcq::engine::{Close, Count};
use mmcq::spec::command;
use mmcq_sim::card::flash::Times;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A fact about a run: a number, and the same number per request, per MiB or as a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Heading in the report under which the fact is listed.
    pub group: &'static str,
    /// Name of the fact.
    pub name: String,
    /// Value of the fact in `unit`.
    pub value: f64,
    /// Unit of the number; empty for a count.
    pub unit: &'static str,
    /// The fact's value divided by other quantities of the run, such as the number of requests or
    /// of MiB. Each result has its unit.
    pub rates: Vec<(f64, &'static str)>,
}

/// Group of facts about starts of transfers that mmcq's engine held back for the rest (tail) of a
/// batch.
const OF_HOLDS: &str = "held for the tail";
/// Group of facts that say why open transfers were closed.
const OF_CLOSES: &str = "closed because";
/// Group of reasons why requests were not merged.
const OF_MERGING: &str = "not merged because";
/// Group of reasons why consecutive requests (each begins where the one before ended) did not
/// continue the transfer of the request before.
const OF_GOING_ON: &str = "not continued because";
/// Group of facts about how long a request stays in each place, such as a queue.
const OF_PLACES: &str = "a request";
const EACH_REQUEST: &str = "each request";
const EACH_MIB: &str = "each MiB";
const OF_REQUESTS: &str = "% of requests";
const OF_TIME: &str = "%";

/// Collects the facts of one run: the lines of the report `why`, each with a value and its unit.
struct Facts<'a> {
    c: &'a Counters,
    facts: Vec<Fact>,
}

impl Facts<'_> {
    fn add(
        &mut self,
        group: &'static str,
        name: &str,
        value: f64,
        unit: &'static str,
        rates: &[(f64, &'static str)],
    ) {
        self.facts.push(Fact { group, name: name.to_owned(), value, unit, rates: rates.to_vec() });
    }

    fn each_request(&self, value: f64) -> (f64, &'static str) {
        (value / self.c.ios.max(1) as f64, EACH_REQUEST)
    }

    fn share(&self, count: impl Into<u64>) -> (f64, &'static str) {
        (100.0 * count.into() as f64 / self.c.ios.max(1) as f64, OF_REQUESTS)
    }

    /// Adds a fact about something that took time: how often it happened, and the mean time in
    /// microseconds. Adds nothing if it never happened.
    fn times(&mut self, group: &'static str, name: &str, times: Times) {
        if times.count > 0 {
            let us = times.ns as f64 / 1e3 / times.count as f64;
            let rates = [self.each_request(times.count as f64), (us, "us each")];
            self.add(group, name, times.count as f64, "", &rates);
        }
    }

    fn count(&mut self, group: &'static str, name: &str, count: impl Into<u64>) {
        let count = count.into();
        let rate = self.each_request(count as f64);
        self.add(group, name, count as f64, "", &[rate]);
    }
}

/// Returns all facts about a run, in the order of the report.
pub fn facts(why: &Why) -> Vec<Fact> {
    let c = &why.counters;
    let mut all = Facts { c, facts: Vec::new() };
    let unit = why.rate.unit();
    let share = (why.share_percent(), "% of the limit");
    all.add("rate", "this run", why.told(mib_per_s(c)), unit, &[share]);
    all.add("rate", "physical limit", why.told(why.limit_mib_per_s()), unit, &[]);
    queue(&mut all);
    flash(&mut all);
    for (name, mean_ns, longest_ns) in why.requests.iter().flat_map(|requests| requests.spans) {
        let longest = (longest_ns as f64 / 1e3, "us at most");
        all.add(OF_PLACES, name, mean_ns / 1e3, "us", &[longest]);
    }
    commands(&mut all);
    all.count("CPU", "interrupts", c.cpu.interrupts);
    all.count("CPU", "context switches", c.cpu.switches);
    let phases = Phases::of(c).named();
    all.add("time", "in all", c.elapsed_ns as f64 / 1e6, "ms", &[(100.0, OF_TIME)]);
    for (name, ns) in phases {
        let percent = 100.0 * ns as f64 / c.elapsed_ns.max(1) as f64;
        let us = ns as f64 / 1e3 / c.ios.max(1) as f64;
        all.add("time", name, ns as f64 / 1e6, "ms", &[(percent, OF_TIME), (us, "us each request")]);
    }
    all.facts
}

/// Adds facts about flushes, and about what makes the latencies of the flash vary.
fn flash(all: &mut Facts<'_>) {
    let (c, work) = (all.c, all.c.work);
    if c.flushes > 0 || work.flushes.count > 0 {
        all.count("flushes", "asked for by the jobs", c.flushes);
        all.times("flushes", "done by the card", work.flushes);
    }
    all.times("flash", "reads repeated", work.retries);
    all.times("flash", "writes that met garbage collection", work.collections);
    if work.beyond_slc_bytes > 0 {
        let mib = work.beyond_slc_bytes as f64 / f64::from(1 << 20);
        all.add("flash", "written beyond the SLC cache", mib, "MiB", &[]);
    }
}

/// Adds facts about how requests were merged, continued and sent.
fn queue(all: &mut Facts<'_>) {
    let c = all.c;
    let out = transfers(c);
    let kib = c.bytes as f64 / 1024.0 / out.max(1) as f64;
    all.add("queue", "requests in", c.ios as f64, "", &[]);
    all.add("queue", "transfers out", out as f64, "", &[(kib, "KiB each")]);
    let Some(engine) = c.stack.engine else {
        // Linux merges requests in its scheduler, and splits those that are longer than its largest
        // request.
        for (name, count) in [("merged", c.stack.merged()), ("continued", c.stack.continued)] {
            let share = all.share(count);
            all.add("queue", name, count as f64, "", &[share]);
        }
        return chances(all);
    };
    for (name, count) in [
        ("merged", engine.merged),
        ("continued", engine.continued),
        ("continuations that failed", engine.not_continued),
    ] {
        let share = all.share(count);
        all.add("queue", name, count as f64, "", &[share]);
    }
    chances(all);
    let closed: Count = engine.closed.iter().sum();
    all.count("queue", "open transfers closed", closed);
    for (close, count) in Close::ALL.into_iter().zip(engine.closed).filter(|(_, count)| *count > 0) {
        all.count(OF_CLOSES, reason(close), count);
    }
    let holds = c.stack.holds;
    all.count("queue", OF_HOLDS, holds.count);
    all.count(OF_HOLDS, "the tail came", holds.came);
    for (name, ns) in [("time held", holds.waited_ns), ("gained", holds.gained_ns)] {
        let us = ns as f64 / 1e3;
        let rate = all.each_request(us);
        all.add(OF_HOLDS, name, us, "us", &[rate]);
    }
    all.count("queue", "questions to a busy card", engine.busy_polls);
    all.count("queue", "CMD13 for a write's status", engine.status_asked);
}

/// Adds the numbers of requests that were not merged, one for each reason. Also adds the number of
/// requests that begin where the request before had ended: each of these could have continued the
/// transfer of that request.
fn chances(all: &mut Facts<'_>) {
    let (c, seen) = (all.c, all.c.chances);
    let reasons = seen.reasons(c.stack.merged());
    all.count("queue", "not merged", reasons.iter().map(|(_, count)| count).sum::<u64>());
    for (name, count) in reasons.into_iter().filter(|(_, count)| *count > 0) {
        let share = all.share(count);
        all.add(OF_MERGING, name, count as f64, "", &[share]);
    }
    let share = all.share(seen.goes_on);
    all.add("queue", "went on where the last one ended", seen.goes_on as f64, "", &[share]);
    let closed = seen.goes_on.saturating_sub(c.stack.merged() + c.stack.continued);
    if closed > 0 {
        let share = all.share(closed);
        let pause_us = seen.pause_ns as f64 / 1e3 / seen.pauses.max(1) as f64;
        all.add(OF_GOING_ON, not_continued(c), closed as f64, "", &[share, (pause_us, "us pause")]);
    }
}

/// Returns the reason why a request that begins where the one before ended had to begin a new
/// transfer.
fn not_continued(c: &Counters) -> &'static str {
    match c.stack.keeping {
        Keeping::Cannot => "the host cannot go on without a command",
        Keeping::Closes => "each transfer is closed at once",
        Keeping::Holds => "the transfer had been closed by then",
    }
}

/// Returns how many requests were not merged, and the most frequent reason, in one line; `None`:
/// all were merged.
fn unmerged(why: &Why) -> Option<String> {
    let c = &why.counters;
    let (name, count) = c.chances.reasons(c.stack.merged()).into_iter().max_by_key(|(_, count)| *count)?;
    let all: u64 = c.chances.reasons(c.stack.merged()).iter().map(|(_, count)| count).sum();
    (count > 0)
        .then(|| format!("not merged: {all} of {} requests, {count} of them because {name}", c.chances.all()))
}

/// Adds the number of commands of each opcode.
fn commands(all: &mut Facts<'_>) {
    let c = all.c;
    let mib = (c.bytes as f64 / f64::from(1 << 20)).max(f64::MIN_POSITIVE);
    let mut add = |name: &str, count: u64| {
        let rates = [all.each_request(count as f64), (count as f64 / mib, EACH_MIB)];
        all.add("commands", name, count as f64, "", &rates);
    };
    add("in all", c.bus.command_count());
    for (index, &count) in (0u8..).zip(&c.bus.commands).filter(|(_, count)| **count > 0) {
        add(&format!("CMD{index} {}", command::name(index, false, c.emmc)), count);
    }
}

/// Returns the number of data commands of a run, plus the number of continuations of an open
/// transfer, for which the host sends no command.
pub(super) fn transfers(c: &Counters) -> u64 {
    c.transfers + c.stack.continued
}

fn number(value: f64, unit: &str) -> String {
    match unit {
        "" => format!("{value:.0}"),
        OF_TIME => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the facts as an aligned table, with the conclusion below.
pub fn text(why: &Why) -> String {
    let facts = facts(why);
    let label = |fact: &Fact| {
        let indent = if is_part(fact) { "  " } else { "" };
        format!("{indent}{}", fact.name)
    };
    let widest = |f: &dyn Fn(&Fact) -> usize| facts.iter().map(f).max().unwrap_or(0);
    let group_width = widest(&|fact| heading(fact).len());
    let name_width = widest(&|fact| label(fact).len());
    let value_width = widest(&|fact| number(fact.value, fact.unit).len());
    let unit_width = widest(&|fact| fact.unit.len());
    let rate = |fact: &Fact, n: usize| {
        fact.rates.get(n).map_or((String::new(), ""), |(value, unit)| (number(*value, unit), *unit))
    };
    let rate_widths = [0, 1].map(|n| widest(&|f| rate(f, n).0.len()));
    // Units of a group stand below one another; a unit of another group takes no room.
    let unit_of = |head: &str, n: usize| widest(&|f| if heading(f) == head { rate(f, n).1.len() } else { 0 });
    let mut out = format!("{}\n", why.title);
    let mut last = "";
    for fact in &facts {
        let head = if heading(fact) == last { "" } else { heading(fact) };
        if !head.is_empty() {
            out.push('\n');
        }
        last = heading(fact);
        let mut line = format!(
            "{head:group_width$}  {:name_width$}  {:>value_width$} {:unit_width$}",
            label(fact),
            number(fact.value, fact.unit),
            fact.unit,
        );
        for (n, value_width) in rate_widths.into_iter().enumerate() {
            let (value, unit) = rate(fact, n);
            let unit_width = unit_of(heading(fact), n);
            let _ = write!(line, "  {value:>value_width$} {unit:unit_width$}");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push('\n');
    for line in remarks(why) {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Returns whether a line of the report (a fact) is a detail about the queue. The table shows such
/// lines indented, below the line with their total.
fn is_part(fact: &Fact) -> bool {
    [OF_CLOSES, OF_HOLDS, OF_MERGING, OF_GOING_ON].contains(&fact.group)
}

/// Returns the heading of a fact in the table.
fn heading(fact: &Fact) -> &'static str {
    if is_part(fact) { "queue" } else { fact.group }
}

/// Returns one line about the holds of the run (delays of a start, to wait for more requests): how
/// often, how long, and how much time they have gained. `None`: no start was delayed.
fn held(why: &Why) -> Option<String> {
    let holds = why.counters.stack.holds;
    let us = |ns: u64| ns as f64 / 1e3;
    (holds.count > 0).then(|| {
        format!(
            "held for the tail: {} times, {:.0} us, gained {:.0} us; the tail came {} times",
            holds.count,
            us(holds.waited_ns),
            us(holds.gained_ns),
            holds.came
        )
    })
}

/// Returns a line if the run at the physical limit used the card's command queue, packed commands
/// or chains of the controller; `None`: it made one transfer at a time.
fn limit_by(why: &Why) -> Option<String> {
    let stack = why.limit.stack;
    let by = [
        (stack.tasks.is_some(), "the card's command queue"),
        (stack.packs.is_some(), "packed commands"),
        (stack.chains.is_some(), "chains of the controller"),
    ];
    by.into_iter().find(|(is_it, _)| *is_it).map(|(_, by)| format!("the physical limit goes by {by}"))
}

/// Returns the remarks about a run, one sentence each, in this order:
///
/// - what the run at the physical limit uses, if it makes more than one transfer at a time;
/// - that the host claimed to continue data in an open transfer, and could not;
/// - how long starts of transfers were held back;
/// - how many requests were not merged;
/// - the slowest request;
/// - requests that starved;
/// - the number of values of board and card that no measurement supports;
/// - the conclusion.
///
/// Only the conclusion is always present.
fn remarks(why: &Why) -> Vec<String> {
    let lost = why.counters.stack.continue_lost;
    let broken = "the host claims to continue data and cannot: transfers are closed each time since then";
    let slowest = why.requests.as_ref().map(|requests| format!("slowest: {}", requests.slowest));
    let said = limit_by(why).into_iter().chain(lost.then(|| broken.to_owned()));
    let said = said.chain(held(why)).chain(unmerged(why));
    let starved = why.requests.iter().filter_map(|requests| requests.starved.clone());
    let priors = (why.priors > 0).then(|| {
        format!(
            "{} values of this board and card are priors, without a measurement: `mmcq params prior` lists \
             them, `mmcq compare` says which decide",
            why.priors
        )
    });
    said.chain(slowest).chain(starved).chain(priors).chain([why.conclusion()]).collect()
}

/// Returns the facts and the remarks as JSON, one object per line.
pub fn json_lines(why: &Why) -> String {
    let said = |group: &str, name: &str, text: &str| json!({ "group": group, "name": name, "value": text, "unit": "" });
    let mut lines = vec![said("run", "title", &why.title)];
    for fact in facts(why) {
        let mut object = Map::new();
        object.insert("group".to_owned(), fact.group.into());
        object.insert("name".to_owned(), fact.name.into());
        let value = if fact.unit.is_empty() { Value::from(fact.value as u64) } else { fact.value.into() };
        object.insert("value".to_owned(), value);
        object.insert("unit".to_owned(), fact.unit.into());
        for (value, unit) in fact.rates {
            object.insert(unit.replace('%', "percent").replace(' ', "_"), value.into());
        }
        lines.push(Value::Object(object));
    }
    lines.extend(remarks(why).iter().map(|text| said("remark", "remark", text)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}
