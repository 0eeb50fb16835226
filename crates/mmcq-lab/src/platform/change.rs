//! Changes one value of a board, as given on the command line (`--set`).

use super::{COSTS_OPTIONAL, KEYS, PlatformError, unit, unknown};
use toml::{Table, Value};

/// Prefix of a change that concerns the card in the slot.
pub const CARD: &str = "card.";
/// Prefix of a change that sets an option of every job.
pub const JOB: &str = "job.";

/// Applies a change `key=value` to a board's table. In the sections `quantities`, the value becomes
/// a table with kind `prior` and source `--set`; it keeps the range of the value that it replaces.
pub(crate) fn set(table: &mut Table, change: &str, quantities: &[&str]) -> Result<(), PlatformError> {
    let fault = |what: &str| PlatformError::new(format!("--set {change}: {what}"));
    let (path, text) = change.split_once('=').ok_or_else(|| fault("expected KEY=VALUE"))?;
    if path == "extends" {
        return Err(fault("a board's file extends another, and no change does; expected --platform NAME"));
    }
    let (section, key) = match path.rsplit_once('.') {
        Some((section, key)) => (Some(section), key),
        None if !table.contains_key(path) && !KEYS.contains(&path) => {
            let has = |section: &Value| section.as_table().is_some_and(|section| section.contains_key(path));
            let whole = match table.iter().find(|(_, value)| has(value)) {
                Some((section, _)) => format!("expected {section}.{path}"),
                None => format!(
                    "{path} is no key of a board; one of a card begins with card., an option of the jobs with job.: \
                     `mmcq params` lists those of board and card"
                ),
            };
            return Err(fault(&whole));
        }
        None => (None, path),
    };
    let mut place = table;
    for step in section.into_iter().flat_map(|section| section.split('.')) {
        place = match place.entry(step).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => inner,
            _ => {
                let message = format!("{step} is one value and has no parts; `mmcq params` lists all keys");
                return Err(fault(&message));
            }
        };
    }
    let quantity = section.is_some_and(|section| quantities.contains(&section));
    let value = match value(text) {
        value @ (Value::Integer(_) | Value::Float(_)) if quantity => {
            let mut quantity = Table::new();
            quantity.insert("value".to_owned(), value);
            quantity.insert("kind".to_owned(), Value::String("prior".to_owned()));
            quantity.insert("source".to_owned(), Value::String("--set".to_owned()));
            Value::Table(quantity)
        }
        _ if quantity => return Err(fault("expected a number")),
        value => value,
    };
    let name = unit(key).map(|(name, _)| name);
    let optional = section == Some("cost") && name.is_some_and(|name| COSTS_OPTIONAL.contains(&name));
    let same = |old: &str| old == key || name.is_some() && unit(old).map(|(known, _)| known) == name;
    if quantity && !optional && !place.keys().any(|old| same(old)) {
        let known: Vec<&str> = place.keys().map(String::as_str).collect();
        let error = unknown(&format!("--set {change}"), key, &known);
        return Err(PlatformError::new(format!("{error} (in {})", section.unwrap_or("the file"))));
    }
    let mut value = value;
    let before = place.iter().find(|(old, _)| same(old)).and_then(|(_, value)| value.get("range")).cloned();
    if let (Some(range), Value::Table(value)) = (before, &mut value) {
        value.insert("range".to_owned(), range);
    }
    place.retain(|old, _| !same(old));
    place.insert(key.to_owned(), value);
    Ok(())
}

/// Parses a value; a text without quotes is a string.
fn value(text: &str) -> Value {
    let parsed = format!("v = {text}").parse::<Table>();
    let value = parsed.ok().and_then(|mut table| table.remove("v"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}
