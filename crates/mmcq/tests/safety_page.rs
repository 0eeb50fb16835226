//! Tests that docs/safety.md lists every place with `unsafe` in the source of each crate, and how
//! many times the keyword is used there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Rooms = BTreeMap<String, usize>;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/safety.md")).unwrap()
}

/// Returns how many times the keyword `unsafe` is in a line of code. The word in a comment or a
/// message does not count.
fn keywords(line: &str) -> usize {
    let code = line.split("//").next().unwrap_or("");
    let mut found = 0;
    for (at, _) in code.match_indices("unsafe") {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let (before, after) = (&code[..at], &code[at + "unsafe".len()..]);
        let whole = !before.ends_with(is_word) && !after.starts_with(is_word);
        let follows = ["{", "fn ", "impl", "extern ", "trait ", "("];
        let after = after.trim_start();
        found +=
            usize::from(whole && (after.is_empty() || follows.iter().any(|next| after.starts_with(next))));
    }
    found
}

/// Counts the keyword `unsafe` in each file below `folder`, and adds the numbers to `rooms`.
fn count(folder: &Path, root: &Path, rooms: &mut Rooms) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if name.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "permuted" | "target")) {
            continue;
        }
        if path.is_dir() {
            count(&path, root, rooms);
        } else if name.ends_with(".rs") {
            let found = std::fs::read_to_string(&path).unwrap().lines().map(keywords).sum();
            if found > 0 {
                rooms.insert(name, found);
            }
        }
    }
}

/// Returns the part of the page under this heading.
fn section<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) =
        page.split_once(&format!("\n### {name}\n")).unwrap_or_else(|| panic!("no part on {name}"));
    rest.split_once("\n### ").map_or(rest, |(part, _)| part)
}

fn folders(of: &str) -> Vec<String> {
    let entries = std::fs::read_dir(repository().join(of)).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_lists_every_room_with_unsafe_as_often_as_it_has_it() {
    let page = page();
    let crates = folders("crates");
    assert!(crates.len() >= 6, "{crates:?}");
    for name in crates {
        let source = repository().join("crates").join(&name).join("src");
        let mut rooms = BTreeMap::new();
        count(&source, &source, &mut rooms);
        let part = section(&page, &name);
        let mut listed = BTreeMap::new();
        for line in part.lines() {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            if let [_, room, number, reason, _] = cells[..]
                && let Ok(number) = number.parse::<usize>()
            {
                assert!(!reason.is_empty(), "{name}: {room} has no reason");
                listed.insert(room.to_owned(), number);
            }
        }
        assert_eq!(listed, rooms, "{name}");
        let together = format!("Together: {}.", rooms.values().sum::<usize>());
        assert!(part.contains(&together), "{name}: not \"{together}\"");
    }
}

/// Tests that each crate forbids `unsafe` by default, so that a place that the page does not list
/// cannot use it.
#[test]
fn every_root_denies_unsafe_code() {
    for name in folders("crates") {
        for root in ["lib.rs", "main.rs"] {
            let path = repository().join("crates").join(&name).join("src").join(root);
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            assert!(text.contains("deny(unsafe_code)"), "{name}: {root} does not deny it");
        }
    }
}

#[test]
fn the_page_has_a_line_for_every_program_with_unsafe() {
    let page = page();
    let part = section(&page, "Programs and images");
    let mut places: Vec<_> = folders("boards").iter().map(|name| format!("boards/{name}")).collect();
    places.extend(folders("examples").iter().map(|name| format!("examples/{name}")));
    places.extend(folders("crates").iter().map(|name| format!("crates/{name}/examples")));
    places.push("playground".to_owned());
    for place in places {
        let folder = repository().join(&place);
        let mut rooms = BTreeMap::new();
        if folder.is_dir() {
            count(&folder, &folder, &mut rooms);
        }
        let lines = part.lines().filter(|line| line.starts_with(&format!("- {place}: "))).count();
        assert_eq!(lines, usize::from(!rooms.is_empty()), "{place} has {rooms:?}");
    }
    // The playground is built for browsers: what it has of the keyword is named one by one.
    let mut rooms = BTreeMap::new();
    count(&repository().join("playground"), &repository().join("playground"), &mut rooms);
    assert_eq!(rooms, Rooms::from([("src/lib.rs".to_owned(), 2)]));
    assert!(part.contains("- playground: two names that JavaScript calls"));
}
