//! Writes fitted values into files for `--card` and `--platform`.

use super::report::{Fit, Value};
use crate::board;
use crate::platform::{CARD, Files};
use toml::{Table, Value as Toml};
use toml_edit::{Array, DocumentMut, InlineTable, Item};

/// Name of the table in a file that has the confidence intervals of its fitted values.
const INTERVAL: &str = "interval";
/// Name of the table that has the ranges of a file's values. If `--free` allowed a fitted value
/// outside of its range, the range is removed from the file.
const RANGE: &str = "range";

/// Returns whether the fitted value lies between the two ends of a range.
fn holds(ends: &[f64], value: &Value) -> bool {
    matches!(*ends, [least, most] if (least..=most).contains(&value.after))
}

/// Returns text about the uncertainty of these fitted values. It becomes a part of `source`, which
/// says in the card's or board's file where a table's values come from.
fn said(values: &[&Value]) -> String {
    let one = |value: &&Value| {
        let name = value.key.rsplit('.').next().unwrap_or(&value.key);
        match value.unbounded() {
            Some([least, most]) if value.is_of_the_jobs() => {
                format!("{name} +-{:.1} %", 100.0 * ((most / least).sqrt() - 1.0))
            }
            _ => format!("{name} not determined"),
        }
    };
    values.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the interval of a value with four digits, for `mmcq compare`. `None`: the jobs do not
/// determine the value well enough.
fn interval(value: &Value) -> Option<[f64; 2]> {
    let [least, most] = value.interval.filter(|_| value.is_of_the_jobs())?.map(|end| {
        let digits = 10_f64.powi(3 - end.abs().log10().floor() as i32);
        value.within((end * digits).round() / digits)
    });
    // Rounding must not leave out the value itself.
    let (least, most) = (least.min(value.after), most.max(value.after));
    (0.0 <= least && least < most).then_some([least, most])
}

/// Returns the text of the file of the card `name` with the fitted values of the card, and with
/// `changes`, the values (`KEY=VALUE`) that the user had set. In each table with a fitted value,
/// the text of `source` then names the fit and `figures`, the description of the measured figures.
/// That text begins with `fit` if the figures determined a value of the table, otherwise with the
/// old source.
///
/// # Errors The card's file cannot be read; the error is one line.
pub fn card(name: &str, changes: &[String], fit: &Fit, figures: &str) -> Result<String, String> {
    let own: Vec<&Value> = fit.values.iter().filter(|value| value.key.starts_with(CARD)).collect();
    let mut all: Vec<String> = changes.to_vec();
    all.extend(
        own.iter().map(|value| {
            format!("{}={}", value.key.strip_prefix(CARD).unwrap_or(&value.key), value.written())
        }),
    );
    let text = board::card_text_with(name, &all).map_err(|error| error.to_string())?;
    let mut document: DocumentMut = text.parse().map_err(|error| format!("card {name}: {error}"))?;
    let mut tables: Vec<Vec<&str>> = Vec::new();
    for value in &own {
        let mut steps: Vec<&str> = value.key.split('.').skip(1).collect();
        steps.pop();
        if !tables.contains(&steps) {
            tables.push(steps);
        }
    }
    for steps in tables {
        let of_table: Vec<&Value> = own.iter().copied().filter(|value| inside(value, &steps)).collect();
        let mut place = document.as_item_mut();
        for step in &steps {
            place = &mut place[*step];
        }
        let before = place.get("source").and_then(|source| source.as_str()).unwrap_or("?").to_owned();
        let fitted = format!("{} by mmcq fit, to {figures}", said(&of_table));
        let source = match of_table.iter().any(|value| value.is_of_the_jobs()) {
            true => format!("fit: {fitted}; the rest: {before}"),
            false => format!("{before}; {fitted}"),
        };
        place["source"] = toml_edit::value(source);
        for value in &of_table {
            let name = value.key.rsplit('.').next().unwrap_or(&value.key);
            set_interval(place, name, interval(value));
            let range = place.get_mut(RANGE).and_then(Item::as_table_like_mut);
            if let Some(range) = range {
                let ends = range.get(name).and_then(Item::as_array).map(|ends| {
                    ends.iter()
                        .filter_map(|end| end.as_float().or(end.as_integer().map(|n| n as f64)))
                        .collect()
                });
                if !ends.is_none_or(|ends: Vec<f64>| holds(&ends, value)) {
                    range.remove(name);
                }
            }
        }
    }
    Ok(document.to_string())
}

/// Sets the interval in which the value `name` of this table lies; `None` removes an interval that
/// the table has for it.
fn set_interval(table: &mut Item, name: &str, interval: Option<[f64; 2]>) {
    let known = table.get_mut(INTERVAL).and_then(Item::as_table_like_mut);
    match (interval, known) {
        (Some(ends), Some(known)) => {
            known.insert(name, toml_edit::value(ends.into_iter().collect::<Array>()));
        }
        (Some(ends), None) => {
            let mut inline = InlineTable::new();
            inline.insert(name, ends.into_iter().collect::<Array>().into());
            table[INTERVAL] = toml_edit::value(inline);
        }
        (None, Some(known)) => {
            known.remove(name);
        }
        (None, None) => {}
    }
}

fn inside(value: &Value, steps: &[&str]) -> bool {
    let path: Vec<&str> = value.key.split('.').skip(1).collect();
    path.split_last().is_some_and(|(_, table)| table == steps)
}

/// Returns the text of the whole board file with the fitted values of the board. `name` is the
/// board, `changes` its values that were changed before the fit. `figures` names what was measured,
/// and becomes a part of each fitted value's source.
///
/// # Errors
/// The board's file cannot be read, or refuses a value; the error is one line.
pub fn platform(name: &str, changes: &[String], fit: &Fit, figures: &str) -> Result<String, String> {
    let own: Vec<&Value> = fit.values.iter().filter(|value| !value.key.starts_with(CARD)).collect();
    let mut all: Vec<String> = changes.to_vec();
    all.extend(own.iter().map(|value| format!("{}={}", value.key, value.written())));
    let (_, mut table) = Files::default().load_with(name, &all).map_err(|error| error.to_string())?;
    for value in own {
        let Some(quantity) = find(&mut table, &value.key) else { continue };
        if quantity.contains_key("kind") {
            let before = quantity.get("source").and_then(Toml::as_str).unwrap_or("?").to_owned();
            quantity.remove(INTERVAL);
            let ends = quantity.get(RANGE).and_then(Toml::as_array).map(|ends| {
                ends.iter().filter_map(|end| end.as_float().or(end.as_integer().map(|n| n as f64))).collect()
            });
            if !ends.is_none_or(|ends: Vec<f64>| holds(&ends, value)) {
                quantity.remove(RANGE);
            }
            if let Some(ends) = interval(value) {
                quantity.insert(INTERVAL.to_owned(), ends.map(Toml::Float).to_vec().into());
            }
            if !value.is_of_the_jobs() {
                // The fit did not determine this value, so its old source stays.
                let source = format!("{before}; {} by mmcq fit, to {figures}", said(&[value]));
                quantity.insert("source".to_owned(), Toml::String(source));
                continue;
            }
            quantity.insert("kind".to_owned(), Toml::String("fit".to_owned()));
            let source = format!("{} by mmcq fit, to {figures}", said(&[value]));
            quantity.insert("source".to_owned(), Toml::String(source));
        }
    }
    toml::to_string(&table).map_err(|error| format!("platform {name}: {error}"))
}

fn find<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Table> {
    let mut place = table;
    for step in key.split('.') {
        place = place.get_mut(step)?.as_table_mut()?;
    }
    Some(place)
}
