//! Texts of a picture: which load, board and card it shows, and the units of its columns.

use super::{Axis, Row};
use serde_json::Value;

/// Columns that say what ran, in the order in which a title names them.
const WHERE: [&str; 4] = ["platform", "card", "setting", "seed"];
/// Endings of column names, each with the unit that it stands for. The first ending that fits a
/// name counts.
const UNITS: [(&str, &str); 10] = [
    ("mib_s", "MiB/s"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_ns", "ns"),
    ("_hz", "Hz"),
    ("_kib", "KiB"),
    ("iops", "requests/s"),
    ("_share", "share from 0 to 1"),
    ("job.iodepth", "requests"),
    ("job.bs", "bytes"),
];

/// Returns the name of a column with its unit, if the name says a unit.
pub fn with_unit(name: &str) -> String {
    let unit = UNITS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit);
    let unit = unit.or_else(|| (name == "run_s").then_some("s"));
    unit.map_or_else(|| name.to_owned(), |unit| format!("{name}, {unit}"))
}

/// Returns a text such as `card emmc-queue` for each of board, card, setting and seed that no axis
/// changes. The values come from `row`: those that no axis changes are equal in all rows.
pub fn fixed(axes: &[String], row: Option<&Row>) -> Vec<String> {
    let Some(row) = row else { return Vec::new() };
    let value = |name: &str| match row.iter().find(|(known, _)| known == name).map(|(_, value)| value) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let fixed = WHERE.into_iter().filter(|name| !axes.iter().any(|axis| axis == name));
    fixed.filter_map(|name| Some(format!("{name} {}", value(name)?))).collect()
}

/// Returns the lines above a picture. The first is `what` of `load`, such as "Rate of a.fio":
/// `what` names the figure that the picture shows. The texts of `fixed` follow, separated by
/// commas, in lines of at most `letters` letters.
pub fn title(what: &str, load: &str, fixed: &[String], letters: usize) -> Vec<String> {
    let mut lines = vec![format!("{what} of {load}")];
    let mut line = String::new();
    for part in fixed {
        if !line.is_empty() && line.chars().count() + part.chars().count() + 2 > letters {
            lines.push(std::mem::take(&mut line));
        }
        line += if line.is_empty() { "" } else { ", " };
        line += part;
    }
    lines.extend(Some(line).filter(|line| !line.is_empty()));
    lines
}

/// Returns the names of these axes, such as `card` or `job.bs`.
pub fn names(axes: &[Axis]) -> Vec<String> {
    axes.iter().map(|axis| axis.key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_says_load_board_and_card_and_a_name_its_unit() {
        let row: Row = vec![
            ("setting".into(), "mmcq".into()),
            ("platform".into(), "generic".into()),
            ("card".into(), "sdxc-128g-uhs".into()),
            ("seed".into(), 3.into()),
        ];
        let axes = ["seed".to_owned()];
        let all = fixed(&axes, Some(&row));
        assert_eq!(all, ["platform generic", "card sdxc-128g-uhs", "setting mmcq"]);
        assert_eq!(
            title("Rate", "a.fio", &all, 40),
            ["Rate of a.fio", "platform generic, card sdxc-128g-uhs", "setting mmcq"]
        );
        assert_eq!(title("Rate", "a.fio", &fixed(&axes, None), 40), ["Rate of a.fio"]);
        let named = ["cost.wake_us", "run_mib_s", "setting", "job.iodepth", "run_s", "lat_p99_us"];
        let units = ["us", "MiB/s", "", "requests", "s", "us"];
        for (name, unit) in named.into_iter().zip(units) {
            let expected = if unit.is_empty() { name.to_owned() } else { format!("{name}, {unit}") };
            assert_eq!(with_unit(name), expected);
        }
    }
}
