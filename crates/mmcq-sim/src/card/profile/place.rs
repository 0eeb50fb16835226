//! Finds the line and the key of a value in a profile's text, for errors, and converts times to ns.

use super::ProfileError;
use crate::document;
use toml::Spanned;

/// Longest time in ns that a profile may contain: one hour.
const LONGEST_NS: f64 = 3.6e12;

/// Text of a profile and its name, to find the line of a value.
pub(crate) struct Place<'a> {
    pub(crate) text: &'a str,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    /// Returns the key of the profile's line that contains byte `at` of the text; `None` if the
    /// line has no key.
    fn key_at(&self, at: usize) -> Option<&str> {
        let line = self.text.get(..at)?.rsplit('\n').next()?;
        let key = line.split_once('=')?.0.trim();
        Some(key).filter(|key| !key.is_empty())
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
    }

    pub(crate) fn value<T>(&self, key: &str, at: &Spanned<T>, expected: &str) -> ProfileError {
        let span = at.span();
        ProfileError::Value {
            name: self.name.into(),
            line: self.line(span.start),
            key: key.into(),
            value: self.text.get(span).unwrap_or_default().replace('\n', " "),
            expected: expected.into(),
        }
    }

    /// Returns a time of the profile in whole nanoseconds, or an error if it is out of range.
    /// `value` counts in units of `ns_per_unit`; `key` names it in the error.
    pub(crate) fn ns(&self, key: &str, value: &Spanned<f64>, ns_per_unit: f64) -> Result<u64, ProfileError> {
        let ns = value.get_ref() * ns_per_unit;
        if !(0.0..=LONGEST_NS).contains(&ns) {
            return Err(self.value(key, value, "a time from 0 to one hour"));
        }
        Ok(ns.round() as u64)
    }

    pub(crate) fn us(&self, key: &str, value: &Spanned<f64>) -> Result<u64, ProfileError> {
        self.ns(key, value, 1e3)
    }

    pub(crate) fn ms(&self, key: &str, value: &Spanned<f64>) -> Result<u64, ProfileError> {
        self.ns(key, value, 1e6)
    }

    /// Returns the error for a key that is missing in a table.
    pub(crate) fn missing<T>(&self, table: &Spanned<T>, key: &str) -> ProfileError {
        let message = format!("missing field `{key}`");
        ProfileError::Toml { name: self.name.into(), line: self.line(table.span().start), message }
    }

    /// Returns the error for a fault of the document.
    pub(crate) fn document(&self, error: &document::Error) -> ProfileError {
        let message = with_unit_hint(error.message()).replace('\n', " ");
        let key = error.span().and_then(|span| self.key_at(span.start));
        let message = match key {
            Some(key) if message.starts_with("invalid") => format!("`{key}`: {message}"),
            _ => message,
        };
        ProfileError::Toml { name: self.name.into(), line: error.line(self.text), message }
    }
}

/// Adds a hint to the text of an error about an unknown key, if the key only lacks its unit.
fn with_unit_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field")
        && let Some(key) = quoted.next()
    {
        let stem = format!("{key}_");
        let longer: Vec<&str> = quoted.filter(|known| known.starts_with(&stem)).collect();
        if let [known] = longer[..] {
            return format!("key `{key}` has no unit: expected `{known}`");
        }
    }
    message.to_owned()
}
