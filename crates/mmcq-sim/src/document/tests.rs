//! What this module reads, beside what `toml` reads of the same text.

use super::*;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One key of each kind that the profiles have.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct All {
    small: Option<u8>,
    large: Option<u64>,
    signed: Option<i32>,
    real: Option<Spanned<f64>>,
    truth: Option<bool>,
    text: Option<Spanned<String>>,
    mark: Option<char>,
    pair: Option<(u8, u8)>,
    list: Option<Vec<Spanned<u16>>>,
    named: Option<BTreeMap<String, i64>>,
    inner: Option<Spanned<Inner>>,
    each: Option<Vec<Inner>>,
    kind: Option<Kind>,
    wrapped: Option<Wrapped>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Inner {
    must: u8,
    #[serde(default)]
    may: f64,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Wrapped(u8);

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Plain,
    Number(u8),
    Pair(u8, u8),
    Fields { a: u8 },
}

/// Reads a text by both, and returns what this module says of it.
fn by_both(text: &str) -> Result<All, Error> {
    let (ours, theirs) = (read::<All>(text), toml::from_str::<All>(text));
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{text}"),
        (Err(ours), Err(theirs)) => assert_eq!(*ours, syntax(theirs, text), "{text}"),
        _ => panic!("{text}: {ours:?}, by toml {theirs:?}"),
    }
    ours
}

#[test]
fn reads_what_toml_reads_with_the_same_spans() {
    for text in [
        "",
        "small = 255\nlarge = 0x7fff_ffff\nsigned = -17 # c",
        "large = 18446744073709551615",
        "real = 1_0.5e3",
        "real = inf",
        "real = -3",
        "truth = true\ntext = \"a\\tb\"\nmark = 'x'",
        "pair = [1, 2]\nlist = [1, 2,\n 3]",
        "[named]\nb = 2\na = 1",
        "inner = { must = 1, other = [1, { b = 2 }], may = 2 }",
        "[[each]]\nmust = 1\n[[each]]\nmust = 2\nmay = 0.5",
        "kind = \"plain\"",
        "kind = { number = 3 }",
        "kind = { pair = [3, 4] }",
        "[kind.fields]\na = 1",
        "wrapped = 7",
    ] {
        by_both(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn says_what_toml_says_of_a_fault_and_where() {
    for text in [
        "small = 256",
        "small = -1",
        "small = 1.5",
        "small = \"1\"",
        "small = [1]",
        "small = { a = 1 }",
        "small = 1979-05-27",
        "real = \"1\"",
        "real = 1e999",
        "truth = 1",
        "text = 1",
        "mark = \"xy\"",
        "pair = 3",
        "pair = [1]",
        "list = [1, 70000]",
        "list = { a = 1 }",
        "named = 3",
        "[named]\na = \"1\"",
        "inner = {}",
        "[inner]\nmust = 1\nmay = \"x\"",
        "[[each]]\nmust = 1\n[[each]]\nmay = 2",
        "kind = \"plane\"",
        "kind = 3",
        "kind = {}",
        "kind = { number = 3, pair = [1, 2] }",
        "kind = { number = \"x\" }",
        "kind = { pair = [1, \"x\"] }",
        "kind = { pair = [1] }",
        "kind = { pair = [1, 2, 3] }",
        "kind = { fields = { a = 1, b = 2 } }",
        "kind = { fields = {} }",
        "wrapped = true",
        "unknown = 1",
        "small = 1\nsmall = 2",
        "small",
        "small = ",
        "small = 1\n[inner\n",
    ] {
        let error = by_both(text).expect_err(text);
        assert!(!error.message().is_empty() && error.line(text) <= 3, "{text}: {error:?}");
    }
}

#[test]
fn a_fault_is_in_the_line_where_its_bytes_begin() {
    let text = "small = 1\n\n# c\nunknown = 2";
    let error = by_both(text).unwrap_err();
    assert_eq!((error.line(text), &text[error.span().unwrap()]), (4, "unknown"));
    assert_eq!(
        syntax(&toml::from_str::<All>("a = 1\na = 2").unwrap_err(), "a = 1\na = 2").to_string(),
        "duplicate key `a`"
    );
}

#[test]
fn an_integer_that_no_type_holds_is_too_large() {
    let error = read::<All>("large = 18446744073709551616").unwrap_err();
    assert_eq!((error.message(), error.span()), ("integer number overflowed", Some(8..28)));
}

#[test]
fn a_table_is_not_read_from_an_array() {
    let error = read::<All>("inner = [1, 2]").unwrap_err();
    assert_eq!(
        (error.message(), error.span()),
        ("invalid type: sequence, expected struct Inner", Some(8..14))
    );
}
