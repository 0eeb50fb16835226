//! Writes the comparison of stacks (`mmcq compare`) as text, as JSON and as a page.

use super::answer::{Answer, Cell, Decides, Gain};
use super::uncertain::Uncertain;
use crate::page::chart::{self, Axes, Bar, COLOURS, short};
use crate::page::listed::{Part, listed};
use crate::runner::Setting;
use crate::table::{self, Table};
use serde_json::{Value, json};
use std::fmt::Write;

/// Largest number of uncertain values in the data of a page for each setting and load: those that
/// change the result most. This keeps the page small.
const ON_PAGE: usize = 3;
/// Mark behind the name of the value of board or card that has the largest effect on a gain (how
/// much faster one setting is than another), if this value is a prior: assumed, not measured.
const MARK: &str = "*";

fn signed(percent: f64) -> String {
    let text = format!("{percent:+.1}");
    if text == "-0.0" { "+0.0".to_owned() } else { text }
}

/// Returns as text the interval of a setting's gain over the first setting, such as
/// `+8.1 to +13.0 %`.
fn between(gain: &Gain) -> String {
    format!("{} to {} %", signed(gain.ends[0]), signed(gain.ends[1]))
}

/// Returns the text of the table's column "decided by": the uncertain value that changes the
/// setting's gain over the first setting most. The text is the last part of the value's key, with a
/// mark if the value is only assumed (`prior`); "-": no value changes the gain.
fn decided(answer: &Answer, gain: &Gain) -> String {
    let named = |decides: Decides<'_>| {
        let mark = if decides.is_prior() { MARK } else { "" };
        format!("{}{mark}", decides.short())
    };
    gain.decides(answer).map_or_else(|| "-".to_owned(), named)
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Headings of the table of a load, which has one line for each compared stack (setting).
const HEADS: [&str; 9] =
    ["setting", "IOPS", "MiB/s", "gain", "interval", "decided by", "p99 us", "CPU %", "CPU us"];

impl Answer {
    /// Returns the rows of the table of one cell (one load at one queue depth), one row for each
    /// setting.
    fn rows(&self, cell: &Cell) -> Vec<[String; 9]> {
        let row = |(at, gain): (usize, &Gain)| {
            let is_first = at == 0;
            let unless = |text: String, not: bool| if not { String::new() } else { text };
            [
                gain.setting.name().to_owned(),
                format!("{:.0}", gain.point.iops),
                format!("{:.2}", gain.point.mib_s),
                unless(format!("{} %", signed(gain.percent)), is_first),
                unless(between(gain), is_first || !self.has_intervals),
                unless(decided(self, gain), is_first || !self.has_intervals),
                format!("{:.0}", gain.point.p99_ns as f64 / 1e3),
                format!("{:.1}", 100.0 * gain.point.cpu_share),
                format!("{:.1}", gain.point.cpu_ns as f64 / 1e3),
            ]
        };
        cell.gains.iter().enumerate().map(row).collect()
    }

    /// Returns the settings that ran with at least one load of this comparison.
    fn settings(&self) -> Vec<Setting> {
        let mut all: Vec<Setting> = Vec::new();
        for gain in self.cells.iter().flat_map(|cell| &cell.gains) {
            if !all.contains(&gain.setting) {
                all.push(gain.setting);
            }
        }
        all
    }

    /// Returns the values that change by how much mmcq is faster in any load, each with its largest
    /// effect in percent, the largest effect first.
    fn deciding(&self) -> Vec<(&Uncertain, f64)> {
        let mut widest: Vec<(usize, f64)> = Vec::new();
        let gains = self.cells.iter().flat_map(|cell| &cell.gains);
        for effect in gains.flat_map(|gain| &gain.effects) {
            match widest.iter_mut().find(|(value, _)| *value == effect.value) {
                Some((_, width)) => *width = width.max(effect.width_percent),
                None => widest.push((effect.value, effect.width_percent)),
            }
        }
        widest.sort_by(|a, b| b.1.total_cmp(&a.1));
        widest.into_iter().map(|(value, width)| (&self.values[value], width)).collect()
    }

    /// Returns a line about board, card and seed of the runs.
    fn place(&self) -> String {
        let set = if self.set.is_empty() { String::new() } else { format!(", {}", self.set.join(", ")) };
        format!("board {}, card {}, seed {}{set}", self.platform, self.card, self.seed)
    }

    /// Returns the text that says how the uncertainty intervals of the gains were computed.
    fn how(&self) -> String {
        if !self.has_intervals {
            return format!("No intervals: all values as they are, {} runs.", self.runs);
        }
        format!(
            "An interval has the lowest and the highest gain of {} runs in which each of {} values stood at its low and at its high end, one at a time. \
             It is widened by as much as Linux itself differed from its stand-in, where both ran. \
             Decided by: the value that moves the gain most, or the stand-in; {MARK} is a prior, which nobody has measured.",
            self.runs,
            self.values.len()
        )
    }

    /// Returns one line for each reason why a setting did not run, with the names of the settings.
    fn refused(&self) -> Vec<String> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        let ran = self.settings();
        for cell in &self.cells {
            for (setting, why) in &cell.refused {
                let name = match ran.contains(setting) {
                    true => format!("{} ({})", setting.name(), cell.title),
                    false => setting.name().to_owned(),
                };
                let why = why.replace(&format!(", setting {}", setting.name()), "");
                match all.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, names)) if names.contains(&name) => {}
                    Some((_, names)) => names.push(name),
                    None => all.push((why, vec![name])),
                }
            }
        }
        all.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect()
    }

    fn table(&self, cell: &Cell) -> Table {
        let rows = self.rows(cell);
        let mut table = Table::default();
        for (column, head) in HEADS.iter().enumerate() {
            table.add("", head, rows.iter().map(|row| row[column].clone()).collect());
        }
        table
    }

    /// Returns a table of the uncertain values of board and card that change a gain (how much
    /// faster one setting is than another).
    fn values_table(&self) -> Table {
        let all = self.deciding();
        let mut table = Table::default();
        let mut add = |head: &str, cell: fn(&Uncertain) -> String| {
            table.add("", head, all.iter().map(|(value, _)| cell(value)).collect());
        };
        add("value", |value| format!("{}{}", value.key, if value.is_prior() { MARK } else { "" }));
        add("kind", |value| if value.kind.is_empty() { "-".to_owned() } else { value.kind.clone() });
        add("is", |value| number(value.value));
        add("from", |value| number(value.ends[0]));
        add("to", |value| number(value.ends[1]));
        add("ends are", |value| value.basis.name().to_owned());
        table.add("", "moves, %", all.iter().map(|(_, width)| format!("{width:.1}")).collect());
        table
    }

    /// Returns the answer as readable text.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.place());
        for line in table::folded(&self.how(), 0) {
            let _ = writeln!(out, "{line}");
        }
        for cell in &self.cells {
            let _ = write!(out, "\n{}\n{}", cell.title, indented(&self.table(cell).text()));
        }
        out.push('\n');
        for setting in self.settings() {
            let _ = writeln!(out, "{:<14} {}", setting.name(), setting.meaning());
        }
        for line in self.refused() {
            let _ = writeln!(out, "not run: {line}");
        }
        if !self.deciding().is_empty() {
            let _ = write!(out, "\nWhat moves a gain, and by how much the one that it moves most\n");
            out += &indented(&self.values_table().text());
        }
        for line in &self.left {
            let _ = writeln!(out, "not moved: {line}");
        }
        out
    }

    /// Returns the answer as JSON, one object per line: what ran; by how much each setting is
    /// faster or slower than the first one (its gain); how this gain changes with each value of
    /// board or card; the range in which each of these values was changed; and what did not run.
    pub fn json_lines(&self) -> String {
        self.lines_with(usize::MAX)
    }

    /// Returns the answer as JSON lines. For each gain, at most `most` lines say how the gain
    /// changes with a value of board or card.
    fn lines_with(&self, most: usize) -> String {
        let mut lines = vec![json!({
            "what": "question", "version": env!("CARGO_PKG_VERSION"), "platform": self.platform, "card": self.card,
            "seed": self.seed, "set": self.set, "runs": self.runs, "values": self.values.len(),
        })];
        for cell in &self.cells {
            for gain in &cell.gains {
                lines.push(self.gain_line(cell, gain));
                lines.extend(gain.effects.iter().take(most).map(|effect| {
                    let value = &self.values[effect.value];
                    json!({
                        "what": "effect", "load": cell.title, "setting": gain.setting.name(), "key": value.key,
                        "is_prior": value.is_prior(), "low": value.ends[0], "high": value.ends[1],
                        "gain_at_low_percent": effect.percent[0], "gain_at_high_percent": effect.percent[1],
                        "mib_s_at_low": effect.mib_s[0], "mib_s_at_high": effect.mib_s[1],
                        "width_percent": effect.width_percent,
                    })
                }));
            }
        }
        lines.extend(self.values.iter().map(|value| {
            json!({
                "what": "value", "key": value.key, "unit": value.unit, "kind": value.kind,
                "is_prior": value.is_prior(), "value": value.value, "low": value.ends[0], "high": value.ends[1],
                "ends_are": value.basis.name(),
            })
        }));
        lines.extend(self.refused().into_iter().map(|why| json!({"what": "not run", "why": why})));
        lines.extend(self.left.iter().map(|why| json!({"what": "not moved", "why": why})));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn gain_line(&self, cell: &Cell, gain: &Gain) -> Value {
        let first = cell.gains.first().map_or(Setting::None, |first| first.setting);
        let interval = |ends: [f64; 2]| self.has_intervals.then_some(ends);
        let [low, high] = interval(gain.ends).map_or([None; 2], |ends| ends.map(Some));
        let [mib_s_low, mib_s_high] = interval(gain.mib_s).map_or([None; 2], |ends| ends.map(Some));
        let decides = gain.decides(self);
        json!({
            "what": "gain", "load": cell.title, "durable": cell.is_durable, "depth": cell.depth,
            "setting": gain.setting.name(), "stands_for": gain.setting.meaning(), "against": first.name(),
            "iops": gain.point.iops, "mib_s": gain.point.mib_s, "mib_s_low": mib_s_low, "mib_s_high": mib_s_high,
            "gain_percent": gain.percent, "low_percent": low, "high_percent": high,
            "decided_by": decides.as_ref().map(Decides::key), "stand_in_percent": gain.stand_in_percent, "hangs_on_priors": gain.hangs_on_priors(self),
            "p99_us": gain.point.p99_ns as f64 / 1e3, "cpu_share": gain.point.cpu_share,
            "cpu_us_per_io": gain.point.cpu_ns as f64 / 1e3,
        })
    }

    /// Returns the answer as an HTML page. `command`, which the page shows, writes all data.
    ///
    /// # Errors
    /// A picture cannot be drawn.
    pub fn html(&self, command: &str) -> Result<String, String> {
        let mut parts = Vec::new();
        for cell in &self.cells {
            let bars: Vec<Bar> = cell
                .gains
                .iter()
                .map(|gain| Bar {
                    label: gain.setting.name().to_owned(),
                    parts: vec![(gain.point.iops, COLOURS[usize::from(!gain.setting.is_linux())])],
                })
                .collect();
            let axes = Axes { title: &cell.title, x: "requests a second", y: "" };
            let svg = chart::bars(&axes, &bars, None)?;
            let said = "Blue is Linux, orange this stack; longer is faster.".to_owned();
            let (heading, table) = (cell.title.clone(), Some(self.table(cell)));
            parts.push(Part { heading, picture: Some((svg, said)), table, lines: String::new() });
        }
        let mut settings = Table::default();
        let all = self.settings();
        settings.add("", "setting", all.iter().map(|setting| setting.name().to_owned()).collect());
        settings.add("", "stands for", all.iter().map(|setting| setting.meaning().to_owned()).collect());
        let notes: String = self.refused().iter().map(|line| format!("not run: {line}\n")).collect();
        let heading = "The settings".to_owned();
        parts.push(Part { heading, picture: None, table: Some(settings), lines: notes });
        let heading = "What moves a gain, and by how much the one that it moves most".to_owned();
        let left: String = self.left.iter().map(|line| format!("not moved: {line}\n")).collect();
        parts.push(Part { heading, picture: None, table: Some(self.values_table()), lines: left });
        let intro = format!(
            "What other card stacks bring on a board with its card, simulated: {}. The gain is that of the rate against the first setting. {}",
            self.place(),
            self.how()
        );
        let title = format!("What other stacks bring: {} on {}", self.card, self.platform);
        Ok(listed(&title, &intro, &self.verdict(), &parts, command, &self.lines_with(ON_PAGE)))
    }

    /// Returns a sentence for each load that compares the best setting of Linux with the best
    /// setting of mmcq.
    fn verdict(&self) -> Vec<String> {
        let sentence = |cell: &Cell, gain: &Gain| {
            let interval = match (self.has_intervals, gain.decides(self)) {
                (true, Some(decides)) => {
                    let prior = if decides.is_prior() { ", a prior" } else { "" };
                    format!(" ({}), decided by {}{prior}", between(gain), decides.key())
                }
                (true, None) => " (no value moves it)".to_owned(),
                (false, _) => String::new(),
            };
            let (rate, percent) = (short(gain.point.iops), signed(gain.percent));
            format!(
                "{}: {} {percent} %{interval}; {rate} requests a second.",
                cell.title,
                gain.setting.name()
            )
        };
        let best = |cell: &Cell, is_linux: bool| {
            let own = cell.gains.iter().skip(1).filter(|gain| gain.setting.is_linux() == is_linux);
            own.max_by(|a, b| a.percent.total_cmp(&b.percent)).map(|gain| sentence(cell, gain))
        };
        self.cells.iter().flat_map(|cell| [best(cell, true), best(cell, false)]).flatten().collect()
    }
}

/// Returns the text of a table indented, to stand below its title. An empty line is removed: the
/// line of group names in a table without groups.
fn indented(text: &str) -> String {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| format!("  {line}").trim_end().to_owned() + "\n")
        .collect()
}
