//! Parameters: every value of a board and of a card that can be set, with its unit, kind, range and
//! source.

mod meaning;

use crate::board::{self, BoardError};
use crate::platform::{self, ControllerConfig, Files, Platform};
use serde::Serialize;
use toml::{Table, Value};

/// Value of a board or card, as `--set KEY=VALUE` changes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Param {
    /// Key of the value, as for `--set`.
    pub key: String,
    /// Value as in the file of board or card. `None`: the file has none, and the model has a
    /// default.
    pub value: Option<Value>,
    /// Unit of the value, taken from the key's name; empty if the name has none.
    pub unit: &'static str,
    /// Kind of the value's source. A value with a source has one of spec, prior, fit, val or
    /// measured, as explained at [`Kind`](crate::platform::Kind). A value without a source has
    /// board (it is in the board's file) or default (it is the model's own). Otherwise empty.
    pub kind: String,
    /// Smallest and largest value that the source allows; `None`: the file has no range for it.
    pub range: Option<[f64; 2]>,
    /// Lower and upper end of the 95 % interval that `mmcq fit` found; `None`: the file has none.
    pub interval: Option<[f64; 2]>,
    /// Source of the value in words.
    pub source: String,
    /// What the value means, in words; empty: no text is known.
    pub meaning: &'static str,
}

/// Units, each with the ending of a key's name that stands for it.
const UNITS: [(&str, &str); 12] = [
    ("_mib_s", "MiB/s"),
    ("_per_s", "1/s"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_hz", "Hz"),
    ("_kib", "KiB"),
    ("_mib", "MiB"),
    ("_bytes", "byte"),
    ("_blocks", "block"),
    ("_instructions", "instruction"),
];
/// Name of the tables in a card's file that have the ranges of values, as their source gives them.
const RANGE: &str = "range";
/// Name of the tables in a card's file that have the intervals of values, as a fit found them.
const INTERVAL: &str = "interval";
/// Kinds of sources. The text of each source in a card's file begins with one of them.
const KINDS: [&str; 5] = ["spec", "prior", "fit", "val", "measured"];
/// Keys of the settings that a board's file may leave out.
const SWITCHES: [&str; 16] = [
    "busy",
    "defer_completion",
    "cpu.cores",
    "driver.timings",
    "driver.continue_data",
    "driver.width",
    "driver.max_clock_hz",
    "driver.max_timing",
    "stack.advance",
    "stack.streams",
    "stack.hold_us",
    "stack.owed_us",
    "stack.merging",
    "stack.acknowledge",
    "stack.scheduler",
    "stack.weights",
];

/// Beginnings of the keys of values on which times and rates of a run depend.
const OF_TIMES: [&str; 5] = ["cost.", "share.", "card.flash.", "card.queue.", "card.packed."];

/// Returns the keys of the priors (values that come from no measurement) on which times and rates
/// of a run may depend. Priors that are 0 or no number are left out.
pub fn priors(all: &[Param]) -> Vec<&str> {
    let counts = |param: &&Param| {
        let number = param.value.as_ref().and_then(|v| v.as_float().or(v.as_integer().map(|n| n as f64)));
        param.kind == "prior"
            && number.is_some_and(|number| number != 0.0)
            && OF_TIMES.iter().any(|begin| param.key.starts_with(begin))
            && !param.key.starts_with("card.flash.erase.")
    };
    all.iter().filter(counts).map(|param| param.key.as_str()).collect()
}

/// Returns every value of a board and of its card, after the given changes.
///
/// # Errors
/// The board or the card cannot be read, or a change is wrong.
pub fn all(platform: &str, card: Option<&str>, changes: &[String]) -> Result<Vec<Param>, BoardError> {
    let (board, table) = Files::default().load_with(platform, changes)?;
    let mut params = Vec::new();
    for (key, value) in &table {
        match key.as_str() {
            "description" | "extends" => {}
            "controller" => params.extend(controller(&board, value)),
            _ => walk(key.clone(), value, "", &mut params),
        }
    }
    let missing = platform::COSTS_OPTIONAL.iter().filter(|name| !board.costs.has(name));
    params.extend(missing.map(|name| Param::without_value(format!("cost.{name}_us"))));
    for key in SWITCHES {
        if !params.iter().any(|param| param.key == key) {
            params.push(Param::without_value(key.to_owned()));
        }
    }
    params.sort_by(|a, b| a.key.cmp(&b.key));
    let mut of_card = Vec::new();
    for (key, value) in &board::card_table(card.unwrap_or(&board.card), &board.card_changes)? {
        if key != "description" {
            walk(format!("{}{key}", platform::CARD), value, "", &mut of_card);
            ranges(&format!("{}{key}", platform::CARD), value, &mut of_card)?;
        }
    }
    let spread = board::SPREAD.map(|key| format!("{}{key}", platform::CARD));
    let missing = spread.into_iter().filter(|key| !of_card.iter().any(|param| param.key == *key));
    let missing: Vec<String> = missing.collect();
    of_card.extend(missing.into_iter().map(Param::without_value));
    params.extend(of_card);
    Ok(params)
}

impl Param {
    fn of(key: String, value: &Value, source: &str) -> Self {
        let (first, rest) = source.split_once([':', ';']).unwrap_or((source, ""));
        let (kind, source) = if KINDS.contains(&first) { (first, rest.trim_start()) } else { ("", source) };
        Param {
            unit: unit(&key),
            meaning: meaning::of(&key),
            key,
            value: Some(value.clone()),
            kind: kind.to_owned(),
            range: None,
            interval: None,
            source: source.to_owned(),
        }
    }

    fn without_value(key: String) -> Self {
        let kind = "default".to_owned();
        let (unit, meaning, source) = (unit(&key), meaning::of(&key), String::new());
        Param { key, value: None, unit, kind, range: None, interval: None, source, meaning }
    }

    /// Returns the parameter's value if it is a number.
    pub fn number(&self) -> Option<f64> {
        match self.value.as_ref()? {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns whether `wanted` names this value. There are three ways: the whole key; for a key of
    /// the card, also `card.` and the last part of the key, as in `--set`; or the beginning of the
    /// key and a `*`.
    pub fn is_named(&self, wanted: &str) -> bool {
        if let Some(begin) = wanted.strip_suffix('*') {
            return self.key.starts_with(begin);
        }
        let short = wanted.strip_prefix(platform::CARD).filter(|name| !name.contains('.'));
        let last = self.key.strip_prefix(platform::CARD).and_then(|path| path.rsplit('.').next());
        wanted == self.key || short.is_some() && short == last
    }
}

/// Returns the key in `all` that is most similar to `key`, which is not one of them.
pub fn nearest<'a>(all: &'a [Param], key: &str) -> &'a str {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let near = |param: &Param| strsim::jaro(&last(&param.key), &last(key));
    let nearest = all.iter().max_by(|a, b| near(a).total_cmp(&near(b)));
    nearest.map_or("", |param| param.key.as_str())
}

fn unit(key: &str) -> &'static str {
    UNITS.iter().find(|(end, _)| key.ends_with(end)).map_or("", |(_, unit)| *unit)
}

/// Collects the values of a table. Each value gets the source of the innermost group that names a
/// source.
fn walk(key: String, value: &Value, source: &str, params: &mut Vec<Param>) {
    let Value::Table(table) = value else {
        return params.push(Param::of(key, value, source));
    };
    if let Some(param) = quantity(&key, table) {
        return params.push(param);
    }
    let source = table.get("source").and_then(Value::as_str).unwrap_or(source);
    let own = ["source", RANGE, INTERVAL];
    for (name, value) in table.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
        walk(format!("{key}.{name}"), value, source, params);
    }
}

/// Adds ranges and intervals to these parameters, as the tables named `range` and `interval` in a
/// card's file give them. `key`: the table of the file that is searched, with all tables in it;
/// `value`: its content.
fn ranges(key: &str, value: &Value, params: &mut [Param]) -> Result<(), BoardError> {
    let Value::Table(table) = value else { return Ok(()) };
    for (name, value) in table.iter().filter(|(name, _)| ![RANGE, INTERVAL].contains(&name.as_str())) {
        ranges(&format!("{key}.{name}"), value, params)?;
    }
    for part in [RANGE, INTERVAL] {
        for (name, range) in table.get(part).and_then(Value::as_table).into_iter().flatten() {
            let key = format!("{key}.{name}");
            let param = params.iter_mut().find(|param| param.key == key);
            let param = param.ok_or_else(|| {
                let what = format!("the card's file has a {part} for it, and no value; expected both");
                BoardError::Range { key: key.clone(), what }
            })?;
            let ends = range.clone().try_into().ok();
            *if part == RANGE { &mut param.range } else { &mut param.interval } = ends;
        }
    }
    Ok(())
}

/// Returns the parameter `key` from a table of the form `{ value, kind, source, range }`; `None`:
/// the table has another form.
fn quantity(key: &str, table: &Table) -> Option<Param> {
    let quantity: platform::Quantity = Value::Table(table.clone()).try_into().ok()?;
    Some(Param {
        key: key.to_owned(),
        value: table.get("value").cloned(),
        unit: unit(key),
        kind: table.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned(),
        range: quantity.range,
        interval: quantity.interval,
        source: quantity.source,
        meaning: meaning::of(key),
    })
}

/// Returns all keys of the controller's model, including the keys that the board's file leaves out.
fn controller(board: &Platform, given: &Value) -> Vec<Param> {
    let kind = board.controller.kind();
    let whole = match &board.controller {
        ControllerConfig::Sdhci(config) => Value::try_from(config),
        ControllerConfig::Rtsx(config) => Value::try_from(config),
        ControllerConfig::Mshc(config) => Value::try_from(config),
        ControllerConfig::Stm32Sdmmc(config) => Value::try_from(config),
    };
    let mut params = vec![Param::of("controller.kind".to_owned(), &Value::String(kind.to_owned()), "")];
    for (key, value) in whole.ok().as_ref().and_then(Value::as_table).into_iter().flatten() {
        let from = params.len();
        walk(format!("controller.{key}"), value, "", &mut params);
        let kind = if given.get(key).is_some() { "board" } else { "default" };
        params[from..].iter_mut().for_each(|param| param.kind = kind.to_owned());
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_listed_can_be_set() {
        for name in Platform::names() {
            for param in all(name, None, &[]).unwrap() {
                let Some(value) = &param.value else { continue };
                let change = format!("{}={value}", param.key);
                let changed =
                    all(name, None, std::slice::from_ref(&change)).unwrap_or_else(|error| panic!("{error}"));
                let same = changed.iter().find(|other| other.key == param.key).unwrap();
                assert_eq!(same.value.as_ref().map(Value::to_string), Some(value.to_string()), "{change}");
            }
        }
    }

    #[test]
    fn what_is_set_is_listed_with_its_origin() {
        let set = |change: &str| all("hsq-sprd", None, &[change.to_owned()]).unwrap();
        let one = |params: Vec<Param>, key: &str| params.into_iter().find(|p| p.key == key).unwrap();
        let wake = one(set("cost.job_wake_us=40"), "cost.job_wake_us");
        assert_eq!((wake.value, wake.source.as_str()), (Some(Value::Integer(40)), "--set"));
        assert_eq!((wake.unit, wake.kind.as_str()), ("us", "prior"));
        assert!(wake.range.is_some(), "the file's range stays");
        let read = one(set("card.read_first_us=7"), "card.flash.read.read_first_us");
        assert_eq!(read.value, Some(Value::Integer(7)));
        let base = one(set("controller.base_clock_hz=100000000"), "controller.base_clock_hz");
        assert_eq!((base.unit, base.kind.as_str()), ("Hz", "board"));
    }
}
