//! Writes the sections of a run's page, from the most important ones to the details.

use super::chart::{self, Axes, Bar, COLOURS, Line, css, short};
use super::live::Live;
use super::{Compared, Measured, frame};
use crate::fio::hist;
use crate::fio::job::{BlockSize, Dir, Job};
use crate::fio::report::{Figures, Origin, Program, Report, json};
use crate::fio::stats::{DirStats, Latency, Stats};
use crate::params::{Param, priors};
use crate::runner::{Counters, Setting, allowed_mib_per_s};
use crate::trace::time;
use crate::why::{Phases, mib_per_s};
use maud::{Markup, html};

/// Percentiles that the table of latencies shows.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];
const DIRECTIONS: [&str; 2] = ["reads", "writes"];
/// Column titles for the parts into which a run's time is split (the phases), each with a
/// description for readers who do not know the bus.
const PHASES: [(&str, &str); Phases::COUNT] = [
    ("wire, commands", "commands and responses move on the bus"),
    ("wire, data", "blocks of data move on the bus"),
    ("card, access", "the bus waits while the card fetches data"),
    ("card, busy", "the bus waits while the card programs data"),
    ("card, fetching", "the card's queue fetches data, and nothing in it is ready"),
    ("controller held", "the controller has no room, or no data"),
    ("CPU", "software: the bus is quiet although a request waits"),
    ("waiting", "the program that reads and writes has no request under way"),
];

/// Returns the page of a run.
///
/// - `title` names the load.
/// - `command` is the command that runs it again.
/// - `report` is the run's report.
/// - `live` is a playground, a form in which the reader changes the load and runs it in the
///   browser; `None`: the page has none.
///
/// # Errors
/// A picture cannot be drawn.
pub fn html(
    compared: &Compared,
    report: &Report,
    title: &str,
    command: &str,
    live: Option<&Live>,
) -> Result<String, String> {
    let mut all = Stats::default();
    report.entries.iter().for_each(|entry| all.sum(&entry.stats));
    let origin = report.context.origin.clone().unwrap_or_default();
    let body = html! {
        (rates(compared)?)
        (phases(compared)?)
        (latencies(&all)?)
        (programs(&origin))
        (over_time(compared)?)
        (scope(compared))
        @if let Some(live) = live { (live.section()) }
        (again(report, &origin, command))
        (params(&compared.params))
    };
    Ok(frame::page(title, &top(compared, &all, report, &origin), &body, &json::json(report, false), live))
}

/// Returns a sentence that says what a job of the run does.
fn load(job: &Job) -> String {
    let uses = [job.rw.read, job.rw.write];
    let used = Dir::ALL.into_iter().filter(|dir| uses[dir.index()]);
    let sizes: Vec<String> = used.clone().map(|dir| blocks(&job.bs[dir.index()])).collect();
    let blocks = match &sizes[..] {
        [read, write] if read != write => format!("{read} and {write}"),
        _ => sizes.first().cloned().unwrap_or_default(),
    };
    let jobs = if job.numjobs == 1 { "1 job".to_owned() } else { format!("{} jobs", job.numjobs) };
    let lasts = match job.runtime_ns.filter(|_| job.time_based) {
        Some(ns) => format!(", again and again for {}", time(ns)),
        None => String::new(),
    };
    let pace: String = used.filter_map(|dir| rate_limit(job, dir)).chain(pauses_of(job)).collect();
    format!("{} of {blocks}, {} at a time, {jobs}{pace}{lasts}", job.rw.word(), job.depth())
}

/// Returns the size of a job's blocks, or their smallest and largest size.
fn blocks(bs: &BlockSize) -> String {
    let in_kib = |bytes: u64| bytes.is_multiple_of(1024);
    let size =
        |bytes: u64| if in_kib(bytes) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} bytes") };
    match (bs.min, bs.max) {
        (least, most) if least == most => size(most),
        (least, most) if in_kib(least) && in_kib(most) => format!("{} to {}", least / 1024, size(most)),
        (least, most) => format!("{} to {}", size(least), size(most)),
    }
}

/// Returns the limit of the job's rate in a direction, if it has one.
fn rate_limit(job: &Job, dir: Dir) -> Option<String> {
    let which =
        if job.rw.read && job.rw.write { format!(" of {}", DIRECTIONS[dir.index()]) } else { String::new() };
    let bytes = job.rate_bytes[dir.index()].map(|bytes| {
        let mib_per_s = bytes as f64 / f64::from(1 << 20);
        format!(", at most {} MiB/s{which}", short(mib_per_s))
    });
    let ios = || job.rate_iops[dir.index()].map(|ios| format!(", at most {ios} requests/s{which}"));
    bytes.or_else(ios)
}

/// Returns the job's pauses and flushes, each in words.
fn pauses_of(job: &Job) -> Vec<String> {
    let mut pauses = Vec::new();
    let each = |count: u32, what: &str| match count {
        1 => format!("each {what}"),
        _ => format!("each {count} {what}s"),
    };
    if job.thinktime_ns > 0 {
        pauses.push(format!(
            ", a pause of {} after {}",
            time(job.thinktime_ns),
            each(job.thinktime_blocks, "request")
        ));
    }
    for count in [job.fsync, job.fdatasync].into_iter().filter(|count| *count > 0 && job.rw.write) {
        pauses.push(format!(", a flush after {}", each(count, "write")));
    }
    if job.sync && job.rw.write {
        pauses.push(", each write durable before it ends".to_owned());
    }
    if job.flushes_at_end() {
        pauses.push(", a flush at the end".to_owned());
    }
    pauses
}

fn top(compared: &Compared, all: &Stats, report: &Report, origin: &Origin) -> Markup {
    let why = &compared.why;
    let c = &why.counters;
    // The longest time stands beside the 99 %, which does not show a request that starves.
    let times = Dir::ALL.into_iter().filter_map(|dir| {
        let (clat, which) = (&all.dirs[dir.index()].clat, DIRECTIONS[dir.index()]);
        let ns = *clat.histogram.percentiles(&[99.0]).first()?;
        let p99 = (format!("99 % of {which} within"), time(ns.min(clat.ns.max)));
        Some([p99, (format!("longest of the {which}"), time(clat.ns.max))])
    });
    let mut figures = vec![
        ("this run".to_owned(), format!("{:.2} MiB/s", mib_per_s(c))),
        (format!("{} allow", allowing(compared)), format!("{:.2} MiB/s", why.limit_mib_per_s())),
        ("share of that".to_owned(), format!("{:.1} %", why.share_percent())),
    ];
    figures.extend(times.flatten());
    html! {
        p.soft {
            "A storage load ran on a model of a card reader and a memory card, in simulated time. Board "
            b { (origin.platform) } ", card " b { (origin.card) } ", software " b { (origin.setting) } " ("
            (compared.setting.meaning()) ")."
        }
        @if !origin.replay.told.is_empty() {
            p.soft { (origin.replay.told.join(" ")) " " (pauses(compared)) }
        } @else if let Some(entry) = report.entries.first() {
            // Each of a job's threads has an entry of its own.
            @let others = report.entries.iter().any(|other| other.job.name != entry.job.name);
            p.soft { "The load: " (load(&entry.job)) @if others { "; and other jobs" } "." }
        }
        section.verdict aria-label="Verdict" {
            p { (why.conclusion()) "." }
            dl.figures { @for (name, value) in figures { div { dt { (name) } dd { (value) } } } }
            @for line in starved(all) { p { b { (line) } } }
            @if c.failed > 0 { p { b { (c.failed) " requests failed." } } }
        }
    }
}

/// Returns a sentence that says which share of a replay's time is the trace's own pauses.
fn pauses(compared: &Compared) -> String {
    let c = &compared.why.counters;
    let waiting = Phases::of(c).named().into_iter().find(|(name, _)| *name == "waiting");
    let share = 100.0 * waiting.map_or(0, |(_, ns)| ns) as f64 / c.elapsed_ns.max(1) as f64;
    let pace = if share < PAUSES_PERCENT { "" } else { PACE };
    format!("In this replay nothing was under way for {share:.1} % of the time{pace}.")
}

/// Share of the time, in percent, in which no request is under way. From this share on, the page
/// says that the pauses of the trace determine the rate of the replay.
const PAUSES_PERCENT: f64 = 5.0;
const PACE: &str =
    ": its rate, and the share of what bus and card allow, are the pace of the trace; compare latencies";

/// Returns one sentence for each direction in which a request starved: the longest took more than
/// 20 times as long as the 99th percentile.
fn starved(all: &Stats) -> Vec<String> {
    let mut lines = Vec::new();
    for dir in Dir::ALL {
        let clat = &all.dirs[dir.index()].clat;
        let p99 = clat.histogram.percentiles(&[99.0]).first().copied().unwrap_or(u64::MAX);
        if clat.ns.max > p99.saturating_mul(20) {
            let (which, longest) = (DIRECTIONS[dir.index()], time(clat.ns.max));
            lines.push(format!("Of the {which} one or more starved: the longest took {longest}."));
        }
    }
    lines
}

/// Returns the index, among the settings compared, of the page's own setting; `None`: it is not
/// among them.
fn mine(compared: &Compared) -> Option<usize> {
    compared.settings.iter().position(|one| one.setting == compared.setting)
}

fn name(one: &Measured) -> String {
    one.setting.name().to_owned()
}

/// Returns in words what limits the rate: bus and card; also the load's own pace (pauses, or a
/// limit of its rate), if even the run at the physical limit waits for it.
fn allowing(compared: &Compared) -> &'static str {
    compared.why.pace_percent().map_or("bus and card", |_| "bus, card and the load's own pace")
}

fn rates(compared: &Compared) -> Result<Markup, String> {
    let limit = compared.why.limit_mib_per_s();
    let colour = |one: &Measured| match one.setting {
        setting if setting == compared.setting => COLOURS[0],
        _ => COLOURS[6],
    };
    let shown = compared.settings.iter().filter(|one| one.setting != Setting::Limit);
    let bars: Vec<Bar> = shown
        .map(|one| Bar { label: name(one), parts: vec![(mib_per_s(&one.counters), colour(one))] })
        .collect();
    let axes = Axes { title: "Rate in each setting against the limit", x: "MiB/s", y: "" };
    let svg = chart::bars(&axes, &bars, Some(limit))?;
    let rows: Vec<Vec<String>> =
        compared.settings.iter().map(|one| rate_row(one, &compared.why.limit)).collect();
    let heads = ["setting", "MiB/s", "of limit", "transfers", "interrupts", "switches", "what it is"];
    Ok(html! {
        h2 { "How fast, and how fast it could be" }
        p {
            "The same load under other software, on the same board and card. The line is what "
            (allowing(compared)) " allow if software took no time."
            @if let Some(share) = compared.why.pace_percent() {
                " It says nothing of what the card can do: the load itself leaves the bus without work for "
                (format!("{share:.1}")) " % of the time."
            }
        }
        div.pair {
            (frame::figure(&svg, &format!("Blue: this page's setting. Line: the limit of {}, {limit:.2} MiB/s.", allowing(compared))))
            @if !compared.refused.is_empty() {
                div {
                    p { "Not run:" }
                    ul { @for (setting, error) in &compared.refused { li { (setting.name()) ": " (error) } } }
                }
            }
        }
        (frame::table(
            "Rates; transfers, interrupts and context switches for each request",
            &heads, &rows, mine(compared),
        ))
    })
}

fn rate_row(one: &Measured, limit: &Counters) -> Vec<String> {
    let c = &one.counters;
    let each = |count: u64| format!("{:.2}", count as f64 / c.ios.max(1) as f64);
    let rate = mib_per_s(c);
    let share = 100.0 * (rate / allowed_mib_per_s(limit, c).max(f64::MIN_POSITIVE));
    vec![
        name(one),
        format!("{rate:.2}"),
        format!("{share:.1} %"),
        each(c.transfers),
        each(c.cpu.interrupts),
        each(c.cpu.switches),
        one.setting.meaning().to_owned(),
    ]
}

/// Returns the time in us that a run spent in each phase (such as data on the wire, busy, CPU) for
/// `bytes_each` bytes, the mean size of a request. The comparison is for equal amounts of data
/// because the run that gives the physical limit merges requests.
fn per_request_us(one: &Measured, bytes_each: f64) -> [f64; Phases::COUNT] {
    let c = &one.counters;
    Phases::of(c).named().map(|(_, ns)| ns as f64 / 1e3 / c.bytes.max(1) as f64 * bytes_each)
}

fn phases(compared: &Compared) -> Result<Markup, String> {
    let c = &compared.why.counters;
    let bytes_each = c.bytes as f64 / c.ios.max(1) as f64;
    let each: Vec<[f64; Phases::COUNT]> =
        compared.settings.iter().map(|one| per_request_us(one, bytes_each)).collect();
    let bars: Vec<Bar> = compared
        .settings
        .iter()
        .zip(&each)
        .map(|(one, us)| Bar { label: name(one), parts: us.iter().copied().zip(COLOURS).collect() })
        .collect();
    let axes = Axes { title: "Time of a request in each setting, by phase", x: "us for each request", y: "" };
    let svg = chart::bars(&axes, &bars, None)?;
    let names: Vec<(&str, String)> = PHASES.iter().zip(COLOURS).map(|((n, _), c)| (*n, css(c))).collect();
    let heads: Vec<&str> =
        ["phase"].into_iter().chain(compared.settings.iter().map(|one| one.setting.name())).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, (name, _)) in PHASES.iter().enumerate() {
        let cells = each.iter().map(|us| format!("{:.2}", us[at]));
        rows.push([(*name).to_owned()].into_iter().chain(cells).collect());
    }
    let sums = each.iter().map(|us| format!("{:.2}", us.iter().sum::<f64>()));
    rows.push(["in all".to_owned()].into_iter().chain(sums).collect());
    Ok(html! {
        h2 { "Where the time goes" }
        p { "Every moment of the run is in one phase. The bars are the run's time divided by its requests, so shorter is "
            "faster. Requests overlap: the latency of one is longer." }
        (frame::legend(&names))
        div.pair {
            (frame::figure(&svg, "Time for each request by phase."))
            dl { @for (name, what) in PHASES { dt { b { (name) } } dd { (what) } } }
        }
        (frame::table("Microseconds for each request, by phase and setting", &heads, &rows, None))
    })
}

/// Returns the share of requests that were complete within a time, as points of a line; the x axis
/// is the logarithm of the time.
fn distribution(dir: &DirStats) -> Vec<(f64, f64)> {
    let total = dir.clat.histogram.total().max(1) as f64;
    let mut below = 0;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (bucket, count) in dir.clat.histogram.filled() {
        let x = (hist::middle_ns(bucket).max(1) as f64).log10();
        if points.is_empty() {
            points.push((x, 0.0));
        }
        below += count;
        points.push((x, 100.0 * below as f64 / total));
    }
    points
}

fn latencies(all: &Stats) -> Result<Markup, String> {
    let used: Vec<Dir> = Dir::ALL.into_iter().filter(|dir| all.dirs[dir.index()].total_ios > 0).collect();
    let lines = used
        .iter()
        .map(|dir| Line { points: distribution(&all.dirs[dir.index()]), colour: COLOURS[dir.index()] });
    let lines: Vec<Line> = lines.collect();
    let axes = Axes { title: "Distribution of latencies", x: "latency", y: "% of requests" };
    let svg = chart::lines(&axes, &lines, &|x| rounded_time(10_f64.powf(x)))?;
    let mut heads = vec!["latency".to_owned()];
    let mut columns: Vec<Vec<String>> = Vec::new();
    let mut add = |head: &str, count: u64, latency: &Latency| {
        heads.push(head.to_owned());
        let ns = &latency.ns;
        let inner = latency.histogram.percentiles(&PERCENTILES);
        let mut column = vec![count.to_string(), time(ns.min), time(ns.mean as u64)];
        // The middle of a bucket may be above the longest time.
        column.extend(inner.into_iter().map(|inner_ns| time(inner_ns.min(ns.max))));
        column.push(time(ns.max));
        columns.push(column);
    };
    for dir in &used {
        let stats = &all.dirs[dir.index()];
        add(DIRECTIONS[dir.index()], stats.total_ios, &stats.clat);
    }
    if all.sync.ns.samples > 0 {
        add("flushes", all.sync.ns.samples, &all.sync);
    }
    let labels = ["requests", "least", "mean"].map(str::to_owned).into_iter();
    let labels = labels.chain(PERCENTILES.map(|p| format!("{p} %"))).chain(["longest".to_owned()]);
    let rows: Vec<Vec<String>> = labels
        .enumerate()
        .map(|(at, label)| {
            let cells = columns.iter().map(|column| column.get(at).cloned().unwrap_or_default());
            [label].into_iter().chain(cells).collect()
        })
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let names: Vec<(&str, String)> =
        used.iter().map(|dir| (DIRECTIONS[dir.index()], css(COLOURS[dir.index()]))).collect();
    Ok(html! {
        h2 { "How long a request takes" }
        @if columns.is_empty() { p { "No request read or wrote." } }
        @else {
            div.pair {
                div {
                    (frame::legend(&names))
                    (frame::figure(&svg, "Share of the requests that were complete within this time."))
                }
                (frame::table("From submission to completion: so many are complete within", &heads, &rows, None))
            }
        }
    })
}

/// Returns the label of a time on an axis, with two digits and a unit. `ns`: the time.
fn rounded_time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{value:.*} {unit}", usize::from(value < 10.0))
}

fn over_time(compared: &Compared) -> Result<Markup, String> {
    let series = &compared.series;
    let middle_s = |from_ns: u64, length_ns: u64| (from_ns as f64 + length_ns as f64 / 2.0) / 1e9;
    let rate = |direction: usize| -> Vec<(f64, f64)> {
        let of = |bytes: u64, length_ns: u64| bytes as f64 / f64::from(1 << 20) / (length_ns as f64 / 1e9);
        let steps = series.timed().filter(|(_, length_ns, _)| *length_ns > 0);
        steps
            .map(|(from, length, step)| (middle_s(from, length), of(step.bytes[direction], length)))
            .collect()
    };
    let used = |direction: &usize| series.steps.iter().any(|step| step.bytes[*direction] > 0);
    let lines: Vec<Line> = [0, 1]
        .into_iter()
        .filter(used)
        .map(|direction| Line { points: rate(direction), colour: COLOURS[direction] })
        .collect();
    let name_x = |s: f64| short(s);
    let rates = Axes { title: "Rate over time", x: "seconds of the run", y: "MiB/s" };
    let rates = chart::lines(&rates, &lines, &name_x)?;
    let timed = series.timed().filter(|(_, length_ns, _)| *length_ns > 0);
    let points = timed
        .map(|(from, length, step)| (middle_s(from, length), step.depth_ns as f64 / length as f64))
        .collect();
    let axes = Axes { title: "Requests under way over time", x: "seconds of the run", y: "requests" };
    let depth = chart::lines(&axes, &[Line { points, colour: COLOURS[4] }], &name_x)?;
    let names: Vec<(&str, String)> =
        [0, 1].into_iter().filter(used).map(|d| (DIRECTIONS[d], css(COLOURS[d]))).collect();
    Ok(html! {
        h2 { "Over the time of the run" }
        (frame::legend(&names))
        div.pair {
            (frame::figure(&rates, &format!("Rate, in steps of {} of simulated time.", time(series.step_ns))))
            (frame::figure(&depth, "Requests that the software has and that are not complete, on average."))
        }
    })
}

/// Returns the section with the programs of a trace and the latencies of their requests.
fn programs(origin: &Origin) -> Markup {
    let row = |program: &Program, kind: &str, figures: &Figures| {
        let [median, _, most, tail] = figures.percentiles_us;
        let times = [figures.mean_us, median, most, tail, figures.max_us];
        let head = [program.name.clone(), kind.to_owned(), figures.ios.to_string()];
        head.into_iter().chain(times.map(|us| time((us * 1e3) as u64))).collect()
    };
    let rows: Vec<Vec<String>> = origin
        .programs
        .iter()
        .flat_map(|program| program.figures().into_iter().map(move |(kind, f)| row(program, kind, &f)))
        .collect();
    let heads = ["program", "kind", "requests", "mean", "50 %", "99 %", "99.9 %", "longest"];
    html! {
        @if !rows.is_empty() {
            h2 { "The programs of the trace" }
            (frame::table("Requests of each program, from submission to completion", &heads, &rows, None))
        }
    }
}

fn scope(compared: &Compared) -> Markup {
    html! {
        h2 { "The bus, as an oscilloscope sees it" }
        @match &compared.scope {
            Err(why) => p { "No picture: " (why) "." },
            Ok(svg) => {
                p {
                    "A moment in the middle of the run, and what each part was at: commands (CMD) and data (DAT) "
                    "on the bus, the controller's interrupt, the processor's cores, and each request from its "
                    "submission to its end. The picture scrolls; each box names itself under the pointer."
                }
                div.scroll.paper tabindex="0" role="region" aria-label="The bus over time; scrolls to the right" {
                    figure.wide { (maud::PreEscaped(chart::scaled(svg, "Bus, processor and requests over time", "scope"))) }
                }
            }
        }
    }
}

fn again(report: &Report, origin: &Origin, command: &str) -> Markup {
    let mut facts = vec![
        ("program", format!("mmcq {}", origin.version)),
        ("board", origin.platform.clone()),
        ("card", origin.card.clone()),
        ("setting", origin.setting.clone()),
        ("seed", origin.seed.to_string()),
    ];
    if !origin.changes.is_empty() {
        facts.push(("changed", origin.changes.join(", ")));
    }
    let word = |list: &[(String, String)]| -> String {
        let words = list.iter().map(|(name, value)| match value.as_str() {
            "" => name.clone(),
            _ => format!("{name}={value}"),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let jobs = report.entries.iter().map(|entry| {
        let also = word(&report.context.global_options);
        vec![entry.job.name.clone(), format!("{} {also}", word(&entry.job.given)).trim().to_owned()]
    });
    let jobs: Vec<Vec<String>> = jobs.collect();
    let replay: Vec<Vec<String>> =
        origin.replay.facts.iter().map(|(name, value)| vec![name.clone(), value.to_string()]).collect();
    html! {
        h2 { "Run it again" }
        pre tabindex="0" { code { (command) } }
        (frame::facts(&facts))
        @if replay.is_empty() { (frame::table("The load, in fio's options", &["job", "options"], &jobs, None)) }
        @else { (frame::table("The recorded load", &["what", "value"], &replay, None)) }
    }
}

fn params(params: &[Param]) -> Markup {
    let value = |p: &Param| p.value.as_ref().map_or("-".to_owned(), toml::Value::to_string);
    let range = |p: &Param| p.range.map_or(String::new(), |[least, most]| format!("{least} to {most}"));
    let row = |p: &Param| {
        let cells = [value(p), p.unit.to_owned(), p.kind.clone(), range(p), p.source.clone()];
        [p.key.clone()].into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = params.iter().map(row).collect();
    let heads = ["key", "value", "unit", "kind", "range", "source"];
    html! {
        h2 { "What the model assumes" }
        p {
            "Each value of board and card, and where it comes from: spec (a standard or data sheet), measured, fit "
            "(fitted to published figures), val (checked against others), prior (a usual value), board (the board's "
            "file), default (the model's own)."
        }
        @let priors = priors(params);
        @if !priors.is_empty() {
            p {
                "Nobody has measured these " (priors.len()) " values for this board and card, and the figures of this "
                "page may hang on them: " (priors.join(", ")) ". " code { "mmcq compare --platform" } " says how far "
                "the gain of another queue does."
            }
        }
        details {
            summary { (params.len()) " values" }
            (frame::table("Values of board and card", &heads, &rows, None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::hist::Histogram;

    #[test]
    fn a_distribution_ends_at_all() {
        let mut histogram = Histogram::default();
        [100, 1_000, 1_000, 50_000].into_iter().for_each(|ns| histogram.add(ns));
        let dir = DirStats { clat: Latency { histogram, ..Latency::default() }, ..DirStats::default() };
        let points = distribution(&dir);
        let shares: Vec<f64> = points.iter().map(|point| point.1).collect();
        assert_eq!(shares, [0.0, 25.0, 75.0, 100.0]);
        assert!(points[0].0 == 2.0 && points.is_sorted_by(|a, b| a.0 <= b.0));
        assert!(distribution(&DirStats::default()).is_empty());
    }

    #[test]
    fn the_phases_are_those_of_why() {
        let names = Phases::default().named().map(|(name, _)| name);
        assert_eq!(names, PHASES.map(|(name, _)| name));
        assert_eq!([999.0, 1_500.0, 63_000.0].map(rounded_time), ["999 ns", "1.5 us", "63 us"]);
    }
}
