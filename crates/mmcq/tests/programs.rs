//! Tests that every file of tests belongs to a test program: Cargo compiles no file only because it
//! exists.

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
