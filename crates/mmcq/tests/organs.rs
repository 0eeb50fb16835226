//! Tests that each part of the engine's state has an owner: `Engine` has few fields, and the fields
//! of an organ (a struct that owns such a part) are private to its file.

#![allow(clippy::unwrap_used, reason = "a test says so by failing")]

use std::fs;
use std::path::Path;

/// Largest allowed number of fields of `Engine`: new state belongs to an organ.
const FIELDS_MAX: usize = 14;

/// The organs, with their files: no other file can name their fields.
const ORGANS: [(&str, &str); 28] = [
    ("Area", "area.rs"),
    ("Batch", "batch.rs"),
    ("Bus", "bus/mod.rs"),
    ("Busy", "busy.rs"),
    ("Card", "card.rs"),
    ("Concurrent", "concurrent.rs"),
    ("Durability", "durability.rs"),
    ("Early", "early.rs"),
    ("Failed", "recover/failed.rs"),
    ("Functions", "functions.rs"),
    ("Blockers", "blockers.rs"),
    ("Helping", "recover/help.rs"),
    ("Incident", "recover/mod.rs"),
    ("Supervisor", "supervisor.rs"),
    ("Lane", "lane.rs"),
    ("Memory", "extras.rs"),
    ("Order", "order.rs"),
    ("Plan", "plan.rs"),
    ("Record", "record.rs"),
    ("Round", "erase.rs"),
    ("Services", "extras.rs"),
    ("Slot", "slot.rs"),
    ("Slots", "slot.rs"),
    ("FastLimits", "fast_limits.rs"),
    ("Streams", "runs.rs"),
    ("Timers", "timers.rs"),
    ("Upkeep", "upkeep.rs"),
    ("Wire", "bus/wire.rs"),
];

/// Returns the fields of a struct as source text.
fn fields(file: &str, name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    fields_in(&text, name)
}

fn fields_in(text: &str, name: &str) -> Vec<String> {
    let start = format!("struct {name}");
    let named =
        |line: &&str| line.split_once(start.as_str()).is_some_and(|(_, rest)| rest.starts_with([' ', '<']));
    let lines = text.lines().skip_while(|line| !named(line)).skip(1).take_while(|line| *line != "}");
    let is_field = |line: &&str| !line.trim_start().starts_with("//") && line.contains(": ");
    lines.filter(is_field).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_reader_finds_fields() {
    let text = "struct Ab { x: u8 }\n/// Said: so.\npub(super) struct A<E> {\n    /// Not: this.\n    pub a: u8,\n    b: fn(u8) -> E,\n}\nfn c(d: u8) {}\n";
    assert_eq!(fields_in(text, "A"), ["pub a: u8,", "b: fn(u8) -> E,"]);
}

#[test]
fn the_engine_has_few_fields() {
    let fields = fields("mod.rs", "Engine");
    assert!(fields.len() > 8, "the reader found {fields:?}");
    assert!(fields.len() <= FIELDS_MAX, "{} fields: {fields:#?}", fields.len());
}

#[test]
fn no_other_file_names_an_organs_field() {
    for (name, file) in ORGANS {
        let fields = fields(file, name);
        assert!(!fields.is_empty(), "{file} has no {name}");
        let open: Vec<_> = fields.iter().filter(|field| field.starts_with("pub")).collect();
        assert!(open.is_empty(), "{name} in {file}: {open:?}");
    }
}

/// Returns the name and the text of each file of the engine.
fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 40, "{}", found.len());
    found
}

#[test]
fn one_function_sets_the_stage() {
    let set: Vec<_> = files()
        .iter()
        .flat_map(|(name, text)| text.lines().map(move |line| format!("{name}: {}", line.trim())))
        .filter(|line| line.contains(".stage = "))
        .collect();
    assert_eq!(set, ["lane.rs: self.stage = stage;"]);
}

/// Names of fields that hold a deadline: the time at which something is given up, or at which the
/// engine wakes.
const DEADLINES: [&str; 8] =
    ["until_ns", "due_ns", "limit_ns", "wake_ns", "deadline_ns", "presence_at_ns", "cycle_ns", "alarm_ns"];

#[test]
fn timers_alone_hold_deadlines() {
    let mut held = Vec::new();
    for (name, text) in files().iter().filter(|(name, _)| name != "timers.rs") {
        let mut in_struct = false;
        for line in text.lines() {
            in_struct = line.contains("struct ") && line.ends_with('{') || in_struct && line != "}";
            let field = line.trim().trim_start_matches("pub ");
            if in_struct && DEADLINES.iter().any(|deadline| field.starts_with(&format!("{deadline}: "))) {
                held.push(format!("{name}: {field}"));
            }
        }
    }
    assert!(held.is_empty(), "{held:?}");
}
