//! Compares two saved reports of `mmcq`. Runs are deterministic, so differences are exact. Figures
//! that are equal are counted, not listed.

use crate::page::chart::{self, Axes, Bar, COLOURS};
use crate::page::frame;
use crate::rate::Rate;
use maud::html;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A number that both compared reports have.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Group of figures that this one belongs to, such as the run, a job, the phases, or the
    /// counters.
    pub group: String,
    /// Name of the figure.
    pub name: String,
    /// Unit of the figure; empty for a count.
    pub unit: &'static str,
    /// Value of the figure in the first report.
    pub a: f64,
    /// Value of the figure in the second report.
    pub b: f64,
}

impl Figure {
    /// Returns the change from the first to the second value in percent; `None`: the first value is
    /// 0.
    pub fn percent(&self) -> Option<f64> {
        (self.a != 0.0).then(|| 100.0 * (self.b / self.a - 1.0))
    }

    /// Returns `better` or `worse`, for the second value compared with the first. Empty: the values
    /// are equal, or neither can be said of this figure, such as of a number of requests.
    fn judged(&self) -> &'static str {
        let is_rate = self.name == "rate" || self.name == "IOPS";
        let is_cost = self.name.starts_with("latency, ") || self.group == TIME || self.group == OF_COUNTS;
        match (is_rate, is_cost) {
            (false, false) => "",
            _ if self.a == self.b => "",
            _ if (self.b > self.a) == is_rate => "better",
            _ => "worse",
        }
    }

    /// Returns whether text and page list the figure. They list all figures except most
    /// percentiles.
    fn is_listed(&self) -> bool {
        let percentile = self.name.strip_prefix("latency, ").and_then(|name| name.strip_suffix(" %"));
        percentile.is_none_or(|percent| PERCENTILES.contains(&percent))
    }
}

/// Name of the group of figures that says in which phases the run's time was spent. These times are
/// divided by the number of requests.
const TIME: &str = "run time for each request";
/// Name of the group of counters that are divided by the number of requests.
const OF_COUNTS: &str = "counted for each request";
/// Percentiles that text and page list; JSON has all.
const PERCENTILES: [&str; 5] = ["50", "90", "95", "99", "99.9"];
/// Counters that are compared per request, since their sums depend on the number of requests.
const OF_EACH: [&str; 6] =
    ["transfers", "commands", "interrupts", "context_switches", "register_reads", "register_writes"];

/// Names of the fields of a report that say what ran.
const ORIGINS: [&str; 6] = ["platform", "card", "setting", "seed", "set", "replay"];
/// Options of the reports' first job that are shown beside the fields in [`ORIGINS`].
const OPTIONS: [&str; 6] = ["filename", "rw", "bs", "size", "iodepth", "runtime"];
/// Largest number of field names in the line about further fields that differ; the others are only
/// counted.
const NAMED: usize = 12;

/// Comparison of two reports.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Fields about what ran that differ between the reports: name, first value, second value.
    pub origins: Vec<[String; 3]>,
    /// Fields about what ran that are equal in both reports: name, value.
    pub both: Vec<(String, String)>,
    /// All figures that both reports have, including equal ones.
    pub figures: Vec<Figure>,
    /// Names of the counters and jobs that only one of the reports has. A job of one report
    /// corresponds to the job of the other with the same name and position.
    pub alone: Vec<String>,
    /// All other fields that differ: path in the JSON, first value, second value.
    pub others: Vec<[String; 3]>,
    /// Unit in which the comparison shows rates.
    pub unit: Rate,
}

/// Returns the JSON of a report, from JSON text or from an HTML page.
///
/// # Errors
/// The text is neither, or another version wrote it; the error is one line.
pub fn read(text: &str) -> Result<Value, String> {
    let data = match text.split_once(frame::DATA) {
        Some((_, rest)) => rest.split_once(frame::DATA_END).map_or(rest, |(data, _)| data),
        None => text,
    };
    let expected = "expected JSON of `mmcq run --output-format json`, or a page of `mmcq report`";
    let report: Value =
        serde_json::from_str(data).map_err(|error| format!("no report: {error}; {expected}"))?;
    let own = env!("CARGO_PKG_VERSION");
    match report["mmcq"]["version"].as_str() {
        None if report["fio version"].is_string() => Err(format!("a report of fio itself; {expected}")),
        None => Err(format!("no report; {expected}")),
        Some(version) if version != own => Err(format!(
            "a report of mmcq {version}; this is {own}, whose models and figures differ; expected a run by this version"
        )),
        Some(_) if !report["mmcq"]["phases_ns"].is_object() || !report["jobs"].is_array() => {
            Err(format!("a part of a report; {expected}"))
        }
        Some(_) => Ok(report),
    }
}

/// Compares two reports that [`read`] returned.
pub fn compare(a: &Value, b: &Value) -> Comparison {
    compare_in(a, b, Rate::default())
}

/// Compares two reports as [`compare`] does, and shows rates in the given unit.
pub fn compare_in(a: &Value, b: &Value, unit: Rate) -> Comparison {
    let mut all = Comparison { unit, ..Comparison::default() };
    let ran = |report: &Value, name: &str| match &report["mmcq"][name] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    for name in ORIGINS {
        let [first, second] = [a, b].map(|report| ran(report, name));
        all.ran(name, first, second);
    }
    for option in OPTIONS {
        let [first, second] = [a, b].map(|report| &report["jobs"][0]["job options"][option]);
        if let (Some(first), Some(second)) = (first.as_str(), second.as_str()) {
            all.ran(&format!("job.{option}"), first.to_owned(), second.to_owned());
        }
    }
    let rate = |report: &Value| {
        let counted = |name: &str| report["mmcq"]["counters"][name].as_f64().unwrap_or_default();
        let mib_per_s = counted("bytes") / f64::from(1 << 20) / (counted("elapsed_ns").max(1.0) / 1e9);
        unit.of(mib_per_s, counted("ios"), counted("bytes"))
    };
    all.add("run", "rate", unit.unit(), rate(a), rate(b));
    let each = |report: &Value, ns: f64| {
        ns / 1e3 / report["mmcq"]["counters"]["ios"].as_f64().unwrap_or_default().max(1.0)
    };
    let [first, second] = [a, b].map(|report| &report["mmcq"]["phases_ns"]);
    for name in names(first, second) {
        let [first, second] = [first, second].map(|phases| phases[name].as_f64().unwrap_or_default());
        all.add(TIME, name, "us", each(a, first), each(b, second));
    }
    for name in OF_EACH {
        let [first, second] = [a, b].map(|report| report["mmcq"]["counters"][name].as_f64());
        if let (Some(first), Some(second)) = (first, second) {
            let name = name.replace('_', " ");
            all.add(OF_COUNTS, &name, "", each(a, first * 1e3), each(b, second * 1e3));
        }
    }
    all.jobs(a, b);
    let [first, second] = [a, b].map(|report| &report["mmcq"]["counters"]);
    for name in names(first, second) {
        match (first[name].as_f64(), second[name].as_f64()) {
            (Some(x), Some(y)) => all.add("counters", name, "", x, y),
            _ => all.alone.push(format!("counter {name}")),
        }
    }
    all.leaves("", a, b, (a, b));
    all
}

/// Returns the names in two objects: those of the first, and then those that only the second has.
fn names<'v>(a: &'v Value, b: &'v Value) -> impl Iterator<Item = &'v str> {
    let of = |value: &'v Value| value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    of(a).chain(of(b).filter(|name| a.get(name).is_none()))
}

/// Returns whether the comparison already shows this field of the reports, as a figure or on a line
/// of its own.
fn is_shown(path: &str, of: (&Value, &Value)) -> bool {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let moved = |at: &str, way: &str| {
        let at = at.parse::<usize>().unwrap_or(usize::MAX);
        [of.0, of.1].iter().any(|report| report["jobs"][at][way]["total_ios"].as_f64() > Some(0.0))
    };
    // A percentile that only one of the reports has is no figure.
    let both = |way: &str, times: &str, name: &str| {
        let at = parts.get(1).and_then(|at| at.parse::<usize>().ok()).unwrap_or(usize::MAX);
        let has = |report: &Value| report["jobs"][at][way][times]["percentile"][name].is_number();
        has(of.0) && has(of.1)
    };
    const LATENCY: [&str; 4] = ["min", "mean", "stddev", "max"];
    match parts[..] {
        ["mmcq", "counters" | "phases_ns" | "job_file", ..] => true,
        ["mmcq", name, ..] => ORIGINS.contains(&name),
        ["jobs", "0", "job options", name] => OPTIONS.contains(&name),
        ["jobs", _, "jobname"] => true,
        ["jobs", at, "sync", "total_ios"] => moved(at, "sync"),
        ["jobs", at, "sync", "lat_ns", name] => moved(at, "sync") && LATENCY.contains(&name),
        ["jobs", at, "sync", "lat_ns", "percentile", name] => {
            moved(at, "sync") && both("sync", "lat_ns", name)
        }
        ["jobs", at, way, "bw_bytes" | "iops" | "total_ios"] => moved(at, way),
        ["jobs", at, way, "clat_ns", name] => moved(at, way) && LATENCY.contains(&name),
        ["jobs", at, way, "clat_ns", "percentile", name] => moved(at, way) && both(way, "clat_ns", name),
        _ => false,
    }
}

impl Comparison {
    fn ran(&mut self, name: &str, first: String, second: String) {
        if first != second {
            self.origins.push([name.to_owned(), first, second]);
        } else if first != "-" && first != "[]" {
            self.both.push((name.to_owned(), first));
        }
    }

    /// Adds to the comparison the differing fields below a path of the JSON. Fields that are
    /// already shown as a figure or on a line of their own are left out.
    fn leaves(&mut self, path: &str, a: &Value, b: &Value, of: (&Value, &Value)) {
        match (a, b) {
            _ if a == b => {}
            (Value::Object(first), Value::Object(second)) => {
                let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
                for name in names {
                    self.leaves(&format!("{path}/{name}"), &a[name.as_str()], &b[name.as_str()], of);
                }
            }
            (Value::Array(first), Value::Array(second)) => {
                for at in 0..first.len().max(second.len()) {
                    self.leaves(&format!("{path}/{at}"), &a[at], &b[at], of);
                }
            }
            _ if is_shown(path, of) => {}
            _ => self.others.push([path[1..].to_owned(), a.to_string(), b.to_string()]),
        }
    }

    /// Returns one line that counts and names the differing fields that have no line of their own
    /// in the comparison; `None`: there are no such fields.
    fn further(&self) -> Option<String> {
        let count = self.others.len();
        let names: Vec<&str> = self.others.iter().take(NAMED).map(|[name, ..]| name.as_str()).collect();
        let more = if count > NAMED { ", ... (--json has all)" } else { "" };
        let what = if count == 1 { "field differs" } else { "fields differ" };
        (count > 0).then(|| format!("{count} further {what}: {}{more}", names.join(", ")))
    }

    fn add(&mut self, group: &str, name: &str, unit: &'static str, a: f64, b: f64) {
        self.figures.push(Figure { group: group.to_owned(), name: name.to_owned(), unit, a, b });
    }

    /// Adds to this comparison the figures of those jobs that have the same name and position in
    /// both reports.
    fn jobs(&mut self, a: &Value, b: &Value) {
        let of = |report: &Value| report["jobs"].as_array().cloned().unwrap_or_default();
        let name = |job: &Value| job["jobname"].as_str().unwrap_or("-").to_owned();
        let (first, second) = (of(a), of(b));
        for at in 0..first.len().max(second.len()) {
            match (first.get(at), second.get(at)) {
                (Some(x), Some(y)) if name(x) == name(y) => {
                    for direction in ["read", "write", "trim"] {
                        let group = match first.len() {
                            1 => direction.to_owned(),
                            _ => format!("{} ({}), {direction}", name(x), at + 1),
                        };
                        self.direction(&group, &x[direction], &y[direction]);
                    }
                    let sync = [x, y].map(|job| &job["sync"]);
                    let [first, second] = sync.map(|sync| sync["total_ios"].as_f64().unwrap_or_default());
                    if first + second > 0.0 {
                        let group = match of(a).len() {
                            1 => "sync".to_owned(),
                            _ => format!("{} ({}), sync", name(x), at + 1),
                        };
                        self.add(&group, "requests", "", first, second);
                        self.latencies(&group, &sync[0]["lat_ns"], &sync[1]["lat_ns"]);
                    }
                }
                (x, y) => {
                    self.alone.extend([x, y].into_iter().flatten().map(|job| format!("job {}", name(job))))
                }
            }
        }
    }

    fn direction(&mut self, group: &str, a: &Value, b: &Value) {
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        if [a, b].iter().all(|side| number(&side["total_ios"]) == 0.0) {
            return;
        }
        let mib = f64::from(1 << 20);
        let unit = self.unit;
        let rate = |side: &Value| {
            let (requests, bytes) = (number(&side["total_ios"]), number(&side["io_bytes"]));
            unit.of(number(&side["bw_bytes"]) / mib, requests, bytes)
        };
        // Requests per second have their own line.
        if unit != Rate::Iops {
            self.add(group, "rate", unit.unit(), rate(a), rate(b));
        }
        self.add(group, "IOPS", "", number(&a["iops"]), number(&b["iops"]));
        self.add(group, "requests", "", number(&a["total_ios"]), number(&b["total_ios"]));
        self.latencies(group, &a["clat_ns"], &b["clat_ns"]);
    }

    fn latencies(&mut self, group: &str, first: &Value, second: &Value) {
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        for part in ["min", "mean", "stddev", "max"] {
            let [x, y] = [first, second].map(|ns| number(&ns[part]) / 1e3);
            self.add(group, &format!("latency, {part}"), "us", x, y);
        }
        for (percent, ns) in first["percentile"].as_object().into_iter().flatten() {
            if let Some(other) = second["percentile"][percent].as_f64() {
                let shown = percent.trim_end_matches('0').trim_end_matches('.');
                // fio's percentiles are upper ends of buckets, which may be above the longest time.
                let us = |ns: f64, side: &Value| ns.min(side["max"].as_f64().unwrap_or(ns)) / 1e3;
                let [x, y] = [us(number(ns), first), us(other, second)];
                self.add(group, &format!("latency, {shown} %"), "us", x, y);
            }
        }
    }

    /// Returns the figures whose values differ between the reports.
    pub fn different(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.a != figure.b)
    }

    /// Returns whether both reports are equal: no figure and no field differs.
    pub fn is_equal(&self) -> bool {
        self.origins.is_empty()
            && self.alone.is_empty()
            && self.others.is_empty()
            && self.different().next().is_none()
    }

    /// Returns a text that says how many figures are equal in both reports.
    fn rest(&self) -> String {
        let equal = self.figures.len() - self.different().count();
        match (equal, self.is_equal()) {
            (count, true) => format!("no difference: {count} figures are equal"),
            (1, _) => "1 figure is equal".to_owned(),
            (count, _) => format!("{count} figures are equal"),
        }
    }

    /// Returns the figures that the text report and the page list, out of those that differ.
    fn listed(&self) -> impl Iterator<Item = &Figure> {
        self.different().filter(|figure| figure.is_listed())
    }

    /// Returns one line about the percentiles that are not listed; `None`: there are none.
    fn percentiles(&self) -> Option<String> {
        let count = self.different().count() - self.listed().count();
        let what = if count == 1 { "percentile differs" } else { "percentiles differ" };
        (count > 0).then(|| format!("{count} further {what} (--json has all)"))
    }

    fn cells(figure: &Figure) -> [String; 6] {
        let percent = figure.percent().map_or("-".to_owned(), |percent| format!("{percent:+.2} %"));
        let name = match figure.unit {
            "" => figure.name.clone(),
            unit => format!("{} ({unit})", figure.name),
        };
        let judged = figure.judged().to_owned();
        [name, shown(figure.a), shown(figure.b), signed(figure.b - figure.a), percent, judged]
    }

    /// Returns text about what both runs have in common: the board in one line, the jobs in
    /// another.
    fn same(&self) -> String {
        let (jobs, board): (Vec<_>, Vec<_>) = self
            .both
            .iter()
            .map(|(name, value)| (name.strip_prefix("job."), name, value))
            .partition(|all| all.0.is_some());
        let line = |head: &str, all: Vec<(Option<&str>, &String, &String)>| match all.is_empty() {
            true => String::new(),
            false => {
                let said =
                    all.iter().map(|(short, name, value)| format!("{} {value}", short.unwrap_or(name)));
                format!("{head}: {}\n", said.collect::<Vec<_>>().join(", "))
            }
        };
        line("both runs", board) + &line("their jobs", jobs)
    }

    /// Returns the comparison as a readable table.
    pub fn text(&self) -> String {
        let mut rows: Vec<[String; 6]> = Vec::new();
        let line = |name: &str| {
            let mut row = <[String; 6]>::default();
            name.clone_into(&mut row[0]);
            row
        };
        let mut last = "";
        for figure in self.listed() {
            if figure.group != last {
                rows.push(line(""));
                rows.push(line(&figure.group));
            }
            last = &figure.group;
            let [name, rest @ ..] = Self::cells(figure);
            let [a, b, difference, percent, judged] = rest;
            rows.push([format!("  {name}"), a, b, difference, percent, judged]);
        }
        if !rows.is_empty() {
            let head = ["", "A", "B", "B - A", "", "B is"].map(str::to_owned);
            rows.insert(0, head);
        }
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4, 5].map(width);
        let mut out = String::new();
        for row in &rows {
            let mut line = format!("{:<1$}", row[0], widths[0]);
            for (cell, width) in row.iter().zip(widths).skip(1) {
                line += &format!("  {cell:>width$}");
            }
            out += line.trim_end();
            out.push('\n');
        }
        // Texts of what ran may be long: they have lines of their own.
        let ran = self.origins.iter().map(|[name, a, b]| format!("{name}\n  A: {a}\n  B: {b}\n"));
        let ran: String = ran.collect();
        if !ran.is_empty() || !rows.is_empty() {
            out.insert_str(0, &(self.same() + &ran));
        }
        out.extend(self.percentiles().map(|line| line + "\n"));
        for name in &self.alone {
            out += &format!("only in one of them: {name}\n");
        }
        out.extend(self.further().map(|further| further + "\n"));
        out + &self.rest() + "\n"
    }

    /// Returns the comparison as JSON, one object per line.
    pub fn json_lines(&self) -> String {
        let origins =
            self.origins.iter().map(|[name, a, b]| json!({"group": "origin", "name": name, "a": a, "b": b}));
        let figures = self.different().map(|f| {
            json!({"group": f.group, "name": f.name, "unit": f.unit, "a": f.a, "b": f.b,
                   "difference": f.b - f.a, "percent": f.percent()})
        });
        let alone = self.alone.iter().map(|name| json!({"group": "only in one", "name": name}));
        let others =
            self.others.iter().map(|[name, a, b]| json!({"group": "further", "name": name, "a": a, "b": b}));
        let rest =
            json!({"group": "equal", "name": "figures", "a": self.figures.len() - self.different().count()});
        let lines = origins.chain(figures).chain(alone).chain(others).chain([rest]);
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Returns the comparison as an HTML page. `a` and `b` are the names of the two reports.
    /// `command`, which the page shows, writes all data.
    ///
    /// # Errors
    /// A picture cannot be drawn.
    pub fn html(&self, [a, b]: [&str; 2], command: &str) -> Result<String, String> {
        let phases: Vec<&Figure> = self.figures.iter().filter(|figure| figure.group == TIME).collect();
        let bar = |label: &str, of: fn(&Figure) -> f64| Bar {
            label: label.to_owned(),
            parts: phases.iter().map(|figure| of(figure)).zip(COLOURS).collect(),
        };
        let axes = Axes { title: "Run time by phase, A above B", x: "us of the run for each request", y: "" };
        let svg = chart::bars(&axes, &[bar("A", |f| f.a), bar("B", |f| f.b)], None)?;
        let names = phases.iter().zip(COLOURS).map(|(figure, c)| (figure.name.as_str(), chart::css(c)));
        let names: Vec<(&str, String)> = names.collect();
        let mut groups: Vec<(&str, Vec<Vec<String>>)> = Vec::new();
        for figure in self.listed() {
            let row = Self::cells(figure).to_vec();
            match groups.last_mut() {
                Some((group, rows)) if *group == figure.group => rows.push(row),
                _ => groups.push((&figure.group, vec![row])),
            }
        }
        let origins: Vec<Vec<String>> = self.origins.iter().map(|row| row.to_vec()).collect();
        let both: Vec<Vec<String>> =
            self.both.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
        let rate = self.figures.iter().find(|figure| figure.group == "run");
        let top = html! {
            p.soft {
                "Two simulated runs of a storage load, A: " b { (a) } " and B: " b { (b) } ". Runs have no noise: each "
                "difference is exact. Figures that are equal are not listed. A percentile is the middle of a bucket "
                "of fio's histogram, within 0.8 % of the time itself; a mean has no buckets."
            }
            section.verdict aria-label="Verdict" {
                @if let Some(rate) = rate {
                    p {
                        "B moves " (format!("{:.2}", rate.b)) " " (rate.unit) " where A moves " (format!("{:.2}", rate.a))
                        @if let Some(percent) = rate.percent() { " (" (format!("{percent:+.2} %")) ")" }
                        @if !rate.judged().is_empty() { ": B is " (rate.judged()) } "."
                    }
                }
                p { (self.rest()) "." }
                @if let Some(more) = self.percentiles() { p { (more) "." } }
                @if let Some(further) = self.further() { p { (further) "." } }
                @for name in &self.alone { p { "Only in one of them: " (name) "." } }
            }
        };
        let body = html! {
            @if !origins.is_empty() {
                h2 { "What is not the same" }
                (frame::table("Where the runs are not the same", &["what", "A", "B"], &origins, None))
            }
            @if !both.is_empty() {
                h2 { "What is the same" }
                (frame::table("Of both runs", &["what", "A and B"], &both, None))
            }
            h2 { "Where the time goes" }
            (frame::legend(&names))
            (frame::figure(&svg, "Run time divided by the number of requests, by phase; shorter is faster. Requests overlap, so one of them takes longer."))
            @for (group, rows) in &groups {
                h2 { (frame::capital(group)) }
                (frame::table(&format!("Differences: {group}"), &["figure", "A", "B", "B - A", "change", "B is"], rows, None))
            }
            h2 { "Compare again" }
            pre tabindex="0" { code { (command) } }
        };
        Ok(frame::page("Two runs compared", &top, &body, &self.json_lines(), None))
    }
}

/// Returns a number with three digits; a whole number with all of its digits.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let decimals = 2 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", usize::try_from(decimals.min(9)).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn signed(value: f64) -> String {
    let text = shown(value);
    if value > 0.0 { format!("+{text}") } else { text }
}

#[cfg(test)]
mod tests;
