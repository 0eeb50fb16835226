//! Tests how closely the parts of the engine depend on each other: the methods of `Engine`, the
//! files that have them, the circles of their calls, and the callers of the engine's loop
//! (`engine/turn.rs`). The numbers in this file may decrease, but must not increase.
//!
//! The test reads source text: a method is a function in an `impl` of `Engine`, a call is a
//! method's name after `self.`, `Self::` or `engine.`.

#![allow(clippy::unwrap_used, reason = "a test says so by failing")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const METHODS_MAX: usize = 348;
const FILES_MAX: usize = 27;
/// Largest allowed number of methods in a circle of calls.
const CIRCLE_MAX: usize = 8;

/// A method of `Engine`.
#[derive(Debug)]
struct Method {
    file: String,
    calls: BTreeSet<String>,
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// Returns the source text without comments, and without its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the text between the first brace and the brace that closes it.
fn braced(text: &str) -> &str {
    let start = text.find('{').unwrap_or(text.len());
    let mut depth = 0;
    for (at, c) in text[start..].char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return &text[start..start + at];
        }
    }
    &text[start..]
}

/// Returns the name that this text begins with.
fn name(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn calls(body: &str) -> BTreeSet<String> {
    let body: String = body.split_whitespace().collect::<Vec<_>>().join(" ").replace("self .", "self.");
    ["self.", "Self::", "engine."]
        .iter()
        .flat_map(|start| body.split(start).skip(1).map(|after| name(after).to_owned()).collect::<Vec<_>>())
        .collect()
}

fn methods_in(file: &str, text: &str, methods: &mut BTreeMap<String, Method>) {
    let text = code(text);
    for (at, _) in text.match_indices("\nimpl<") {
        let block = &text[at + 1..];
        let head = block.split('{').next().unwrap_or_default();
        if !head.contains(" Engine<") || head.contains(" for ") {
            continue;
        }
        let block = braced(block);
        for (at, _) in block.match_indices("fn ") {
            let function = &block[at + 3..];
            let is_start = block[..at].ends_with([' ', '\n']);
            if is_start && function.split(';').next().is_some_and(|head| head.contains('{')) {
                let method = Method { file: file.to_owned(), calls: calls(braced(function)) };
                methods.insert(name(function).to_owned(), method);
            }
        }
    }
}

fn engine() -> BTreeMap<String, Method> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine"), &mut files);
    let mut methods = BTreeMap::new();
    for path in files {
        methods_in(&path.to_string_lossy(), &fs::read_to_string(&path).unwrap(), &mut methods);
    }
    methods
}

/// Returns all methods that this method calls, directly or through other methods.
fn reached<'a>(methods: &'a BTreeMap<String, Method>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for call in &methods[at].calls {
            if let Some((call, _)) = methods.get_key_value(call)
                && found.insert(call.as_str())
            {
                open.push(call);
            }
        }
    }
    found
}

/// Returns the largest set of methods that all call each other, directly or through other methods.
fn largest_circle(methods: &BTreeMap<String, Method>) -> Vec<&str> {
    let reached: BTreeMap<_, _> =
        methods.keys().map(|name| (name.as_str(), reached(methods, name))).collect();
    let circle = |name: &str| -> Vec<&str> {
        reached[name].iter().copied().filter(|&other| reached[other].contains(name)).collect()
    };
    reached.keys().map(|name| circle(name)).max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn the_reader_finds_circles() {
    let text = "\nimpl<H> Engine<H> {\n    fn a(&self) {\n        self.b(|x| { x })\n    }\n    // self.a()\n    fn b(&self) {\n        \
                self\n            .c()\n    }\n    fn c(&self) { Self::a; self.field.d() }\n    fn d(&self) {}\n}\nimpl<H> Other<H> \
                {\n    fn e(&self) {}\n}\n";
    let mut methods = BTreeMap::new();
    methods_in("x.rs", text, &mut methods);
    assert_eq!(methods.keys().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert_eq!(largest_circle(&methods), ["a", "b", "c"]);
}

#[test]
fn the_engine_is_not_more_of_one_object() {
    let methods = engine();
    let files: BTreeSet<_> = methods.values().map(|method| &method.file).collect();
    assert!(methods.len() > 60 && files.len() > 2, "the reader found {methods:?}");
    assert!(methods.len() <= METHODS_MAX, "{} methods", methods.len());
    assert!(files.len() <= FILES_MAX, "in {} files", files.len());
    let circle = largest_circle(&methods);
    assert!(circle.len() <= CIRCLE_MAX, "{} methods call each other: {circle:?}", circle.len());
}

/// Tests that only the engine's loop (`engine/turn.rs`) chooses the next request and begins
/// recovery. Any other part of the engine only notes that the bus may be free, or what has failed,
/// and returns.
#[test]
fn the_loop_alone_looks_what_is_next_and_begins_recovery() {
    let methods = engine();
    for called in ["dispatch", "go_on", "take_turns", "recover"] {
        assert!(methods.contains_key(called), "{called}");
        let callers = methods.iter().filter(|(_, method)| method.calls.contains(called));
        for (caller, method) in callers {
            assert!(method.file.ends_with("engine/turn.rs"), "{caller} of {} calls {called}", method.file);
        }
    }
}
