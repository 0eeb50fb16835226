//! Free values of a fit: which values may change, and within which bounds.

use crate::params::{self, Param};
use crate::platform::CARD;
use toml::Value;

/// Values that the fit may change without `--free`, if the card's file has them. Sizes are not
/// among them, nor garbage collection, for which few jobs are long enough.
const USUAL: [&str; 14] = [
    "flash.read.read_first_us",
    "flash.read.read_next_4k_us",
    "flash.read.read_second_page_us",
    "flash.read.read_gap_ns",
    "flash.read.prefetch_us",
    "flash.read.prefetch_mib_s",
    "flash.write.write_first_us",
    "flash.write.write_next_4k_us",
    "flash.write.drain_mib_s",
    "flash.write.close_us",
    "flash.write.reopen_us",
    "flash.write.scatter_us",
    "flash.cache.program_us",
    "flash.cache.flush_us",
];
/// Factor by which a value without a range in its file may become larger or smaller in the fit.
const FACTOR: f64 = 16.0;
/// Lower bound as a share of the start value, for ranges that begin at 0: the solver needs
/// logarithms.
const LEAST_SHARE: f64 = 1e-3;
/// Sizes that must be powers of two, each with its smallest and largest value.
const POWERS: [(&str, u64, u64); 2] = [("program_kib", 4, 4096), ("page_kib", 1, 1024)];
/// A value that the fit may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Free {
    /// Key of the value, as in `--set`.
    pub key: String,
    /// Unit of the value, which follows from the ending of its key.
    pub unit: &'static str,
    /// Value from which the fit starts.
    pub before: f64,
    /// Lower and upper bound of the value during the fit.
    pub bounds: [f64; 2],
    /// The only values that are allowed, such as powers of two; empty: all values within the
    /// bounds.
    pub steps: Vec<f64>,
    /// Kind of origin of the value in its file before the fit, such as `prior` for an assumed
    /// value.
    pub kind: String,
    /// Whether the value must be a whole number.
    pub(super) whole: bool,
}

impl Free {
    /// Returns whether the value is in the card's file; false: in the board's file.
    pub fn of_card(&self) -> bool {
        self.key.starts_with(CARD)
    }

    /// Returns the change `key=value` that gives this key the number `value`.
    pub fn change(&self, value: f64) -> String {
        format!("{}={}", self.key, self.shown(value))
    }

    /// Returns the number `value` as text for a file of a board or card.
    pub fn shown(&self, value: f64) -> String {
        if self.whole {
            return format!("{}", value.round());
        }
        // Six digits are more than any figure has, and keep the file readable.
        let digits = 5 - value.abs().max(1e-12).log10().floor() as i32;
        let text = format!("{value:.*}", digits.clamp(0, 12) as usize);
        match text.contains('.') {
            true => {
                let short = text.trim_end_matches('0');
                format!("{short}{}", if short.ends_with('.') { "0" } else { "" })
            }
            false => text + ".0",
        }
    }
}

/// Returns the free values that `wanted` names. An entry is a key of `mmcq params`, with `*` at its
/// end for all keys that begin so, and with `=LEAST..MOST` for other bounds. An empty list means
/// the card's usual values.
///
/// # Errors
/// A key does not exist, stands for several values, is given twice or is not a number above 0, or
/// its value is not within the bounds; the error is one line.
pub fn free(
    platform: &str,
    card: Option<&str>,
    changes: &[String],
    wanted: &[String],
) -> Result<Vec<Free>, String> {
    let all = params::all(platform, card, changes).map_err(|error| error.to_string())?;
    // A model that takes no fraction has whole numbers. A file may have a whole number without need.
    let is_whole = |param: &Param| match param.value {
        Some(Value::Integer(value)) => [-0.5, 0.5].iter().all(|part| {
            let change = format!("{}={:?}", param.key, value as f64 + part);
            params::all(platform, card, &[changes, &[change]].concat()).is_err()
        }),
        _ => false,
    };
    let mut found: Vec<Free> = Vec::new();
    if wanted.is_empty() {
        let usual = |param: &&Param| {
            let key = param.key.strip_prefix(CARD).unwrap_or_default();
            USUAL.contains(&key) && param.number().is_some_and(|value| value > 0.0)
        };
        for param in all.iter().filter(usual) {
            found.push(Free { whole: is_whole(param), ..of(param, None, &param.key)? });
        }
        if found.is_empty() {
            return Err(
                "--free: the card has none of the usual keys; expected keys of `mmcq params`".to_owned()
            );
        }
        return Ok(found);
    }
    for text in wanted {
        let (key, bounds) = match text.split_once('=') {
            Some((key, bounds)) => (key, Some(self::bounds(text, bounds)?)),
            None => (text.as_str(), None),
        };
        let matching: Vec<&Param> = all.iter().filter(|param| param.is_named(key)).collect();
        let several = key.ends_with('*');
        match &matching[..] {
            [] => {
                let nearest = params::nearest(&all, key);
                return Err(format!(
                    "--free {text}: no such key; the nearest is {nearest}; `mmcq params` lists all"
                ));
            }
            [one, other, ..] if !several => {
                return Err(format!("--free {text}: {} or {}; expected one of them", one.key, other.key));
            }
            _ => {}
        }
        for param in matching {
            // A pattern selects only those keys whose values can be fitted.
            if several && !param.number().is_some_and(|value| value > 0.0) {
                continue;
            }
            if found.iter().any(|free| free.key == param.key) {
                return Err(format!("--free {text}: {} is given twice", param.key));
            }
            found.push(Free { whole: is_whole(param), ..of(param, bounds, text)? });
        }
    }
    Ok(found)
}

fn bounds(text: &str, bounds: &str) -> Result<[f64; 2], String> {
    let pair =
        bounds.split_once("..").and_then(|(least, most)| Some([least.parse().ok()?, most.parse().ok()?]));
    let pair = pair.filter(|[least, most]: &[f64; 2]| *least > 0.0 && least < most && most.is_finite());
    pair.ok_or_else(|| format!("--free {text}: expected KEY=LEAST..MOST, both above 0"))
}

fn of(param: &Param, given: Option<[f64; 2]>, text: &str) -> Result<Free, String> {
    let fault = |what: String| format!("--free {text}: {}: {what}", param.key);
    let Some(before) = param.number() else {
        return Err(fault(match &param.value {
            None => format!("it has no value; expected --set {}=VALUE to begin with", param.key),
            Some(value) => format!("{value} is no number; expected a key with one"),
        }));
    };
    if before <= 0.0 {
        return Err(fault(format!(
            "{before}; expected a value above 0 to begin with (--set {}=VALUE)",
            param.key
        )));
    }
    let bounds = given.or(param.range).unwrap_or([before / FACTOR, before * FACTOR]);
    let bounds = [bounds[0].max(before.min(bounds[1]) * LEAST_SHARE), bounds[1]];
    if !(bounds[0]..=bounds[1]).contains(&before) || bounds[0] >= bounds[1] {
        let [least, most] = bounds;
        return Err(fault(format!(
            "{before} is not within {least} to {most}; expected --set {}=VALUE to begin with, or other bounds \
             (--free {}=LEAST..MOST)",
            param.key, param.key
        )));
    }
    let powers = POWERS.iter().find(|(name, ..)| param.key.ends_with(name));
    let steps = powers.map_or(Vec::new(), |(_, least, most)| {
        let powers =
            std::iter::successors(Some(*least), |size| Some(size * 2)).take_while(|size| size <= most);
        powers.map(|size| size as f64).filter(|size| (bounds[0]..=bounds[1]).contains(size)).collect()
    });
    Ok(Free {
        key: param.key.clone(),
        unit: param.unit,
        before,
        bounds,
        steps,
        kind: param.kind.clone(),
        whole: false,
    })
}
