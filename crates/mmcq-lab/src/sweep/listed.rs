//! Writes a sweep as an HTML page.

use super::{Format, Row, told};
use crate::page::chart::{self, short};
use crate::page::listed::{Part, listed};
use crate::table::Table;
use serde_json::Value;

/// Columns of the rows that a page shows, with their headings.
const SHOWN: [(&str, &str); 12] = [
    ("run_mib_s", "run, MiB/s"),
    ("limit_mib_s", "limit, MiB/s"),
    ("limit_share", "of the limit"),
    ("direction", ""),
    ("mib_s", "MiB/s"),
    ("lat_mean_us", "mean, us"),
    ("lat_p99_us", "99 %, us"),
    ("lat_max_us", "longest, us"),
    ("interrupts_per_io", "interrupts"),
    ("context_switches_per_io", "switches"),
    ("cpu_idle_share", "CPU idle"),
    ("error", ""),
];

/// Returns the page of these rows. `axes` are the columns that vary; `drawn` is a picture of them, and
/// a sentence that says what it shows.
pub fn page(
    title: &str,
    axes: &[String],
    rows: &[Row],
    drawn: Option<(&str, &str)>,
    command: &str,
) -> String {
    let cell = |row: &Row, name: &str| match row.iter().find(|(known, _)| known == name) {
        Some((_, Value::Number(number))) if name != "point" && !axes.iter().any(|axis| axis == name) => {
            number.as_f64().map_or_else(String::new, short)
        }
        Some((_, Value::String(text))) => text.clone(),
        None | Some((_, Value::Null)) => String::new(),
        Some((_, other)) => other.to_string(),
    };
    let mut table = Table::default();
    for name in axes {
        table.add("", name, rows.iter().map(|row| cell(row, name)).collect());
    }
    for (name, said) in SHOWN {
        let head = if said.is_empty() { name } else { said };
        table.add("", head, rows.iter().map(|row| cell(row, name)).collect());
    }
    let figure = |row: &Row, name: &str| row.iter().find(|(known, _)| known == name)?.1.as_f64();
    let place = |row: &Row| {
        axes.iter().map(|name| format!("{name} {}", cell(row, name))).collect::<Vec<_>>().join(", ")
    };
    // A run has one row for each direction, but one rate for both.
    let mut rated: Vec<(&Row, f64)> = Vec::new();
    for row in rows {
        let Some(rate) = figure(row, "run_mib_s") else { continue };
        if rated.last().is_none_or(|(last, _)| figure(last, "point") != figure(row, "point")) {
            rated.push((row, rate));
        }
    }
    // If several points have the same rate, the first is named, with the count of the others.
    let ends = |best: fn(f64, f64) -> f64, word: &str| {
        let rate = format!("{:.2}", rated.iter().map(|(_, rate)| *rate).reduce(best)?);
        let mut like = rated.iter().filter(|(_, other)| format!("{other:.2}") == rate);
        let (row, _) = like.next()?;
        let more = match like.count() {
            0 => String::new(),
            1 => " and at 1 other point".to_owned(),
            count => format!(" and at {count} other points"),
        };
        Some(format!("{word}: {rate} MiB/s, at {}{more}.", place(row)))
    };
    let (most, least) = (ends(f64::max, "Fastest"), ends(f64::min, "Slowest"));
    let refused = rows.iter().filter(|row| !cell(row, "error").is_empty()).count();
    let refused = (refused > 0).then(|| format!("{refused} points cannot be run: their rows say why."));
    let verdict: Vec<String> = [most, least, refused].into_iter().flatten().collect();
    let picture = drawn.map(|(svg, said)| (chart::scaled(svg, "The grid", "paper"), said.to_owned()));
    let heading = "All points".to_owned();
    let part = Part { heading, picture, table: Some(table), lines: String::new() };
    let intro = "A storage load, simulated on models of boards and cards. A run has a row for reads and a row for \
                 writes; what changes from run to run stands first. Its rate, its limit (what wire and card allow), \
                 interrupts, switches and the CPU are of the whole run, and stand in both.";
    let fixed = told::fixed(axes, rows.first());
    let intro = match fixed.is_empty() {
        true => intro.to_owned(),
        false => format!("{intro} All runs: {}.", fixed.join(", ")),
    };
    let data: String = rows.iter().map(|row| Format::Json.line(row)).collect();
    listed(title, &intro, &verdict, &[part], command, &data)
}
