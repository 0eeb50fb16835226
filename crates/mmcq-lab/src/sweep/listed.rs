//! A sweep as a page.

use super::{Format, Row};
use crate::page::chart::{self, short};
use crate::page::listed::{Part, listed};
use crate::table::Table;
use serde_json::Value;

/// Figures that a reader looks at first, and what they are called on a page.
const SHOWN: [(&str, &str); 9] = [
    ("direction", ""),
    ("mib_s", "MiB/s"),
    ("limit_share", "of the limit"),
    ("lat_mean_us", "mean, us"),
    ("lat_p99_us", "99 %, us"),
    ("interrupts_per_io", "interrupts"),
    ("context_switches_per_io", "switches"),
    ("cpu_idle_share", "CPU idle"),
    ("error", ""),
];

/// The page of these rows; `axes` are the columns that change, `heat` a picture of them.
pub fn page(title: &str, axes: &[String], rows: &[Row], heat: Option<&str>, command: &str) -> String {
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
        let axes = axes.iter().map(|name| format!("{name} {}", cell(row, name)));
        axes.chain([cell(row, "direction")]).collect::<Vec<_>>().join(", ")
    };
    let rated = rows.iter().filter_map(|row| Some((row, figure(row, "mib_s")?)));
    // Of rows that show the same rate the first is named, and how many there are.
    let ends = |best: fn(f64, f64) -> f64, word: &str| {
        let rate = format!("{:.2}", rated.clone().map(|(_, rate)| rate).reduce(best)?);
        let mut like = rated.clone().filter(|(_, other)| format!("{other:.2}") == rate);
        let (row, _) = like.next()?;
        let more = match like.count() {
            0 => String::new(),
            1 => " and in 1 other row".to_owned(),
            count => format!(" and in {count} other rows"),
        };
        Some(format!("{word}: {rate} MiB/s, at {}{more}.", place(row)))
    };
    let (most, least) = (ends(f64::max, "Fastest"), ends(f64::min, "Slowest"));
    let refused = rows.iter().filter(|row| !cell(row, "error").is_empty()).count();
    let refused = (refused > 0).then(|| format!("{refused} points cannot be run: their rows say why."));
    let verdict: Vec<String> = [most, least, refused].into_iter().flatten().collect();
    let picture = heat.map(|svg| {
        (
            chart::scaled(svg, "The grid", "paper"),
            "Each cell is the mean of its rows; a number is its figure.".to_owned(),
        )
    });
    let heading = "All points".to_owned();
    let part = Part { heading, picture, table: Some(table), lines: String::new() };
    let intro = "A storage load, simulated on models of boards and cards. Each row is one run and direction; what \
                 changes from row to row stands first. The limit is what wire and card allow.";
    let data: String = rows.iter().map(|row| Format::Json.line(row)).collect();
    listed(title, intro, &verdict, &[part], command, &data)
}
