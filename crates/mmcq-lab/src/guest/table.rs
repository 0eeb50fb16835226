//! Writes tables that compare reports of guests.

use super::{Report, recovered};
use std::fmt::Write;

/// Largest number of lines with kernel messages in one cell of a table.
const SAID_MAX: usize = 2;

/// Returns the tables of these reports: one of their loads, if there are any, and one of the events
/// at the card.
pub fn table(reports: &[Report]) -> String {
    let mut text = String::new();
    if reports.iter().any(|report| !report.loads.is_empty()) {
        loads(&mut text, reports);
    }
    let scheduled: Vec<&Report> = reports.iter().filter(|report| !report.schedule.is_empty()).collect();
    if let Some(first) = scheduled.first() {
        recoveries(&mut text, &scheduled, first);
    }
    text
}

/// Writes the table of the loads; each number is per request.
fn loads(text: &mut String, reports: &[Report]) {
    let _ = writeln!(
        text,
        "| load | by | us | instructions | register accesses | interrupts | commands | switches |\n\
         |---|---|---:|---:|---:|---:|---:|---:|"
    );
    for report in reports {
        for load in &report.loads {
            let Some(counted) = &load.counters else { continue };
            let each = |count: u64| count as f64 / load.requests.max(1) as f64;
            let _ = writeln!(
                text,
                "| {}, depth {} | {} | {:.1} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} |",
                load.load,
                load.depth,
                report.setting,
                load.us(),
                each(counted.instructions),
                each(counted.register_reads + counted.register_writes),
                each(counted.interrupts),
                each(counted.commands),
                each(load.switches),
            );
        }
    }
}

/// Returns a time in us as text with a unit and a suitable number of digits; `None`: `under 1 ms`.
fn time(us: Option<u64>) -> String {
    match us {
        None => "under 1 ms".to_owned(),
        Some(us @ 0..10_000) => format!("{:.1} ms", us as f64 / 1e3),
        Some(us @ 10_000..1_000_000) => format!("{:.0} ms", us as f64 / 1e3),
        Some(us) => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// Returns the first [`SAID_MAX`] of the lines that differ from each other.
fn shorter(lines: &[String]) -> Vec<&str> {
    let mut said: Vec<&str> = Vec::new();
    for line in lines {
        if said.len() < SAID_MAX && !said.contains(&line.as_str()) {
            said.push(line);
        }
    }
    said
}

/// Writes a table with the effect of each event of the schedule (faults at given times), for all
/// reports that have the same schedule as the report `first`. The kernel messages about an event
/// are those of the first of these reports that has some.
fn recoveries(text: &mut String, reports: &[&Report], first: &Report) {
    let same: Vec<&&Report> = reports.iter().filter(|report| report.schedule == first.schedule).collect();
    *text += "| at ms, what |";
    for report in &same {
        let _ = write!(text, " {} | errors |", report.setting);
    }
    *text += " the kernel says |\n|---|";
    *text += &"---:|---:|".repeat(same.len());
    *text += "---|\n";
    let all: Vec<_> = same.iter().map(|report| recovered(report)).collect();
    for (at, line) in first.schedule.iter().enumerate() {
        let _ = write!(text, "| {line} |");
        for recovered in all.iter().filter_map(|one| one.get(at)) {
            let time =
                if recovered.outlasted { "none before the next".to_owned() } else { time(recovered.us) };
            let _ = write!(text, " {time} | {} |", recovered.errors);
        }
        let said =
            all.iter().filter_map(|one| one.get(at)).map(|one| &one.kernel).find(|said| !said.is_empty());
        let said = said.map_or_else(String::new, |said| shorter(said).join("; "));
        let _ = writeln!(text, " {} |", said.replace('|', "/"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_digits_that_they_deserve() {
        let all = [None, Some(700), Some(9_960), Some(123_456), Some(10_020_000)].map(time);
        assert_eq!(all, ["under 1 ms", "0.7 ms", "10.0 ms", "123 ms", "10.02 s"]);
    }
}
