//! Tests of what Cargo does not check: that every file of tests belongs to a test program, since
//! Cargo compiles no file only because it exists, and that the examples have a queue of timers that
//! works where they wait.

use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// Returns the files in the folder of `all.rs`, and the folders with a `main.rs`, that neither
/// `all.rs` nor the manifest names.
fn forgotten(krate: &Path) -> Vec<String> {
    let tests = krate.join("tests");
    let all = read_to_string(tests.join("all.rs")).unwrap();
    let manifest = read_to_string(krate.join("Cargo.toml")).unwrap();
    let mut forgotten = Vec::new();
    for entry in read_dir(&tests).unwrap() {
        let path = entry.unwrap().path();
        let is_program = path.join("main.rs").exists();
        if !is_program && path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let file = if is_program { format!("{stem}/main.rs") } else { format!("{stem}.rs") };
        let in_all =
            all.lines().any(|line| line == format!("mod {stem};") || line == format!("#[path = \"{file}\"]"));
        if !in_all && !manifest.contains(&format!("path = \"tests/{file}\"")) {
            forgotten.push(format!("{} is in no program: name it in all.rs", path.display()));
        }
    }
    forgotten
}

#[test]
fn each_file_of_tests_is_in_a_program() {
    let mut crates = 0;
    for entry in read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap() {
        let krate = entry.unwrap().path();
        if krate.join("tests/all.rs").exists() {
            crates += 1;
            assert_eq!(forgotten(&krate), Vec::<String>::new());
        }
    }
    assert!(crates >= 4, "{crates} crates");
}

/// Returns the names of embassy-time's timers that this program uses.
fn timers(source: &str) -> Vec<&str> {
    let imported = source.lines().filter(|line| line.contains("embassy_time::"));
    let words = imported.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words
        .filter(|word| ["Timer", "Ticker", "Delay", "with_timeout", "with_deadline"].contains(word))
        .collect()
}

/// Tests that an example with `block_on` and timers of embassy-time has a queue of timers that takes
/// any waker: the queue without a feature panics outside of embassy's executor.
#[test]
fn an_example_that_waits_outside_of_an_executor_has_a_queue_for_its_timers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut with_timers = 0;
    for of in ["examples", "examples/boards"] {
        for entry in read_dir(root.join(of)).unwrap() {
            let folder = entry.unwrap().path();
            let Ok(source) = read_to_string(folder.join("src/main.rs")) else { continue };
            let timers = timers(&source);
            if timers.is_empty() || !source.contains(".block_on(") {
                continue;
            }
            with_timers += 1;
            let manifest = read_to_string(folder.join("Cargo.toml")).unwrap();
            let mut lines = manifest.lines().filter(|line| line.starts_with("embassy-time = "));
            let queue = lines.any(|line| line.contains("generic-queue-"));
            assert!(queue, "{}: generic-queue-8 of embassy-time is missing; {timers:?}", folder.display());
        }
    }
    assert!(with_timers >= 1, "no example was found");
}
