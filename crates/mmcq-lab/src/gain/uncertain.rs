//! Values of a board and a card that are not known exactly, and how far each may be off.

use crate::params::{self, Param};
use crate::platform::CARD;

/// Tables of a board's or card's file whose values decide how fast a stack is. Registers, labels,
/// and values that only bring-up or an erase uses are not among them.
const TABLES: [&str; 8] = [
    "cost.",
    "share.",
    "own.",
    "card.flash.read.",
    "card.flash.write.",
    "card.flash.cache.",
    "card.queue.",
    "card.packed.",
];
/// Keys whose values are read from registers of a real card, so that they are known exactly.
const REGISTERS: [&str; 3] = ["card.queue.depth", "card.packed.writes", "card.packed.reads"];
/// Endings of the keys of sizes. Sizes are powers of two, so the usual ends of a size are its half
/// and its double.
const SIZES: [&str; 2] = ["_kib", "_mib"];

/// Origin of the two ends between which an uncertain value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The user gave the range on the command line.
    Given,
    /// The ends are the 95 % interval of the value, which `mmcq fit` has written into the file.
    Interval,
    /// The file has a range of its own for the value.
    Range,
    /// The file has no range: the two ends follow from the kind of the value (such as measured or
    /// prior).
    Usual,
}

impl Basis {
    /// Returns the words for reports that say where the range of the value comes from.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Given => "--range",
            Basis::Interval => "interval of the fit",
            Basis::Range => "range of the file",
            Basis::Usual => "usual of its kind",
        }
    }
}

/// A value of a board or a card (such as a time) that is not known exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Uncertain {
    /// Key of the uncertain value, such as `cost.wake_us`: the option `--set` changes it by this
    /// key.
    pub key: String,
    /// Unit, which follows from the key's name.
    pub unit: &'static str,
    /// Kind of the value, such as `prior` or `fit`; empty: its file has none.
    pub kind: String,
    /// Value that the model uses: the one in the file of the board or card.
    pub value: f64,
    /// Lowest and highest number that the value may have. No run is done with an end that equals
    /// the value.
    pub ends: [f64; 2],
    /// Where the low and the high end come from, such as the command line or a fit.
    pub basis: Basis,
    whole: bool,
}

impl Uncertain {
    /// Returns whether the value has no measurement: it is a prior, or its file does not name a
    /// source.
    pub fn is_prior(&self) -> bool {
        matches!(self.kind.as_str(), "prior" | "")
    }

    /// Returns the last part of the value's key.
    pub fn short(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }

    /// Returns the change `key=value` that gives this key the number `value`.
    pub fn change(&self, value: f64) -> String {
        match self.whole {
            true => format!("{}={value:.0}", self.key),
            false => format!("{}={value:?}", self.key),
        }
    }
}

/// Range that the user gave for a value: `KEY=LEAST..MOST`.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    text: String,
    key: String,
    ends: [f64; 2],
}

impl std::str::FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |what: &str| format!("{what}; expected KEY=LEAST..MOST, the least below the most");
        let (key, ends) = text.split_once('=').ok_or_else(|| fault("no range"))?;
        let (least, most) = ends.split_once("..").ok_or_else(|| fault("no range"))?;
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        let ends = number(least).zip(number(most)).ok_or_else(|| fault("no numbers"))?;
        match ends {
            (least, _) if least < 0.0 => Err(fault("below 0")),
            (least, most) if least >= most => Err(fault(&format!("{least} is not below {most}"))),
            (least, most) => Ok(Given { text: text.to_owned(), key: key.to_owned(), ends: [least, most] }),
        }
    }
}

/// Returns the range [lower end, upper end] in which `value` may lie if its file gives none. The
/// range depends on the kind of the value (such as `prior` or `fit`), and is wider for sizes.
/// `whole`: the value is a whole number. `None`: the value counts as exact.
fn usual(param: &Param, value: f64, whole: bool) -> Option<[f64; 2]> {
    let by = |factor: f64| [value / factor, value * factor];
    let is_size = SIZES.iter().any(|end| param.key.ends_with(end));
    let ends = match param.kind.as_str() {
        "prior" | "" => by(2.0),
        "fit" | "val" if is_size => by(2.0),
        "fit" | "val" => by(1.1),
        "measured" if !whole => by(1.05),
        _ => return None,
    };
    // A count changes at least to the next whole numbers.
    Some(match whole && !is_size {
        true => [ends[0].ceil().min(value - 1.0).max(1.0), ends[1].floor().max(value + 1.0)],
        false if whole => [ends[0].round().max(1.0), ends[1].round()],
        false => ends,
    })
}

/// Returns the values of a board and its card that are not known exactly, in the order of `mmcq
/// params`. A value in `set` counts as known. A value in `given` counts as uncertain, whatever its
/// kind.
///
/// # Errors
/// The board or the card cannot be read; or the key of a range does not exist, fits several
/// parameters, or is that of a parameter whose value is not a number. The error is one line.
pub fn uncertain(
    platform: &str,
    card: Option<&str>,
    set: &[String],
    given: &[Given],
) -> Result<Vec<Uncertain>, String> {
    let mut all = params::all(platform, card, set).map_err(|error| error.to_string())?;
    doubt_rest_of_fit(&mut all);
    for range in given {
        let named: Vec<&Param> = all.iter().filter(|param| param.is_named(&range.key)).collect();
        let fault = |what: &str| format!("--range {}: {what}", range.text);
        match named[..] {
            [] => {
                let nearest = params::nearest(&all, &range.key);
                return Err(fault(&format!(
                    "no such key; the nearest is {nearest}; `mmcq params` lists all"
                )));
            }
            [one] if one.number().is_none() => {
                return Err(fault(&format!("{} is no number; expected a key with one", one.key)));
            }
            [_] => {}
            [one, other, ..] => {
                return Err(fault(&format!("{} or {}; expected one of them", one.key, other.key)));
            }
        }
    }
    let is_set = |param: &Param| {
        set.iter().any(|change| change.split_once('=').is_some_and(|(key, _)| param.is_named(key)))
    };
    let found = all.iter().filter_map(|param| {
        let value = param.number()?;
        let whole = matches!(param.value, Some(toml::Value::Integer(_))) && param.key.starts_with(CARD);
        let range = given.iter().rev().find(|range| param.is_named(&range.key));
        let (ends, basis) = match range {
            Some(range) => (range.ends, Basis::Given),
            None if is_set(param) || !TABLES.iter().any(|table| param.key.starts_with(table)) => return None,
            None if REGISTERS.contains(&param.key.as_str()) => return None,
            None => match (param.interval, param.range) {
                (Some(ends), _) => (ends, Basis::Interval),
                (None, Some(ends)) => (ends, Basis::Range),
                (None, None) if value > 0.0 => (usual(param, value, is_count(param, whole))?, Basis::Usual),
                (None, None) => return None,
            },
        };
        let most = if param.key.starts_with("share.") { 1.0 } else { f64::MAX };
        let ends = ends.map(|end| end.min(most));
        let whole = is_count(param, whole) && ends.iter().all(|end| end.fract() == 0.0);
        let (unit, key, kind) = (param.unit, param.key.clone(), param.kind.clone());
        Some(Uncertain { key, unit, kind, value, ends, basis, whole })
    });
    Ok(found.collect())
}

/// Changes the kind of some values of a card from fit to prior (a value that comes from no
/// measurement): values in a fitted table that have no interval. The table's source names the fit
/// as the source of all its values, but the fit did not determine these.
fn doubt_rest_of_fit(all: &mut [Param]) {
    let table = |key: &str| key.rsplit_once('.').map(|(table, _)| table.to_owned());
    let fitted = all.iter().filter(|param| param.interval.is_some() && param.key.starts_with(CARD));
    let fitted: Vec<_> = fitted.map(|param| table(&param.key)).collect();
    for param in all.iter_mut().filter(|param| param.interval.is_none() && param.kind == "fit") {
        if fitted.contains(&table(&param.key)) {
            param.kind = "prior".to_owned();
        }
    }
}

/// Returns whether a parameter is a count or a size; `whole`: its value is a whole number. (Times
/// may be whole numbers, too.)
fn is_count(param: &Param, whole: bool) -> bool {
    let is_size = SIZES.iter().any(|end| param.key.ends_with(end));
    whole && (param.unit.is_empty() || is_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(key: &str, kind: &str, value: impl Into<toml::Value>) -> Param {
        let (key, kind) = (key.to_owned(), kind.to_owned());
        let (range, interval) = (None, None);
        let (value, source) = (Some(value.into()), String::new());
        Param { key, value, unit: "", kind, range, interval, source, meaning: "" }
    }

    #[test]
    fn each_kind_has_its_usual_ends() {
        let ends = |key: &str, kind: &str, value: f64, whole| usual(&param(key, kind, value), value, whole);
        assert_eq!(ends("a_us", "prior", 30.0, false), Some([15.0, 60.0]));
        assert_eq!(ends("a_us", "", 30.0, false), Some([15.0, 60.0]));
        assert_eq!(ends("a_us", "fit", 11.0, false), Some([10.0, 11.0 * 1.1]));
        assert_eq!(ends("a_us", "measured", 2.1, false), Some([2.0, 2.1 * 1.05]));
        assert_eq!(ends("a_us", "spec", 2.1, false), None);
        // Counts vary by one, sizes to half and double.
        assert_eq!(ends("units", "fit", 3.0, true), Some([2.0, 4.0]));
        assert_eq!(ends("units", "prior", 1.0, true), Some([1.0, 2.0]));
        assert_eq!(ends("cache_kib", "fit", 512.0, true), Some([256.0, 1024.0]));
    }

    #[test]
    fn what_is_set_is_known_and_a_range_that_is_given_goes_before_all() {
        let of = |set: &[&str], given: &[&str]| {
            let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
            let given: Vec<Given> = given.iter().map(|text| text.parse().unwrap()).collect();
            uncertain("hsq-sprd", None, &set, &given)
        };
        let one = |all: &[Uncertain], key: &str| all.iter().find(|value| value.key == key).cloned();
        let all = of(&[], &[]).unwrap();
        let wake = one(&all, "cost.job_wake_us").unwrap();
        assert_eq!((wake.ends, wake.basis, wake.is_prior()), ([15.0, 25.0], Basis::Range, true));
        let read = one(&all, "card.flash.read.read_first_us").unwrap();
        assert_eq!(read.basis, Basis::Usual);
        assert!(all.iter().all(|value| value.ends[0] < value.ends[1]), "{all:?}");
        assert!(!all.iter().any(|value| value.key.contains("erase") || value.key.contains(".time.")));
        let set = of(&["cost.job_wake_us=40", "card.read_first_us=90"], &[]).unwrap();
        assert_eq!(set.len(), all.len() - 2);
        let given = of(&["card.read_first_us=90"], &["card.read_first_us=80..120"]).unwrap();
        let read = one(&given, "card.flash.read.read_first_us").unwrap();
        assert_eq!((read.value, read.ends, read.basis), (90.0, [80.0, 120.0], Basis::Given));
        assert_eq!(read.change(80.0), "card.flash.read.read_first_us=80.0");
    }

    #[test]
    fn what_a_fit_left_open_is_a_prior() {
        let fitted = |key: &str, kind: &str, interval| Param { interval, ..param(key, kind, 30.0) };
        let mut all = vec![
            fitted("card.flash.read.read_first_us", "fit", None),
            fitted("card.flash.write.drain_mib_s", "fit", Some([29.0, 31.0])),
            fitted("card.flash.write.write_first_us", "fit", None),
            fitted("cost.irq_us", "fit", Some([29.0, 31.0])),
            fitted("cost.wake_us", "fit", None),
        ];
        doubt_rest_of_fit(&mut all);
        let kinds: Vec<&str> = all.iter().map(|param| param.kind.as_str()).collect();
        assert_eq!(kinds, ["fit", "fit", "prior", "fit", "fit"]);
    }

    #[test]
    fn a_wrong_range_is_one_line() {
        let text = |text: &str| text.parse::<Given>().unwrap_err();
        let expected = "expected KEY=LEAST..MOST, the least below the most";
        assert_eq!(text("cost.irq_us=9..3"), format!("9 is not below 3; {expected}"));
        assert_eq!(text("cost.irq_us"), format!("no range; {expected}"));
        assert_eq!(text("cost.irq_us=a..3"), format!("no numbers; {expected}"));
        assert_eq!(text("cost.irq_us=-1..3"), format!("below 0; {expected}"));
        let fault = |text: &str| uncertain("hsq-sprd", None, &[], &[text.parse().unwrap()]).unwrap_err();
        assert!(fault("cost.irk_us=1..3").contains("no such key; the nearest is cost.irq_us"));
        assert!(fault("busy=1..3").contains("busy is no number"), "{}", fault("busy=1..3"));
    }
}
