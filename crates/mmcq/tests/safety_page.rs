//! docs/safety.md lists every room of the core with `unsafe`, and how often: as the source has it.

use std::collections::BTreeMap;
use std::path::Path;

/// The keyword outside of comments, in each file below `folder`.
fn count(folder: &Path, root: &Path, rooms: &mut BTreeMap<String, usize>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if name.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "permuted")) {
            continue;
        }
        if path.is_dir() {
            count(&path, root, rooms);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
            let words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
            let found = words.filter(|word| *word == "unsafe").count();
            if found > 0 {
                rooms.insert(name, found);
            }
        }
    }
}

#[test]
fn the_page_lists_every_room_with_unsafe_as_often_as_it_has_it() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut rooms = BTreeMap::new();
    count(&here.join("src"), &here.join("src"), &mut rooms);
    let page = std::fs::read_to_string(here.join("../../docs/safety.md")).unwrap();
    let mut listed = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if let [_, room, number, reason, _] = cells[..]
            && let Ok(number) = number.parse::<usize>()
        {
            assert!(!reason.is_empty(), "{room} has no reason");
            listed.insert(room.to_owned(), number);
        }
    }
    assert_eq!(listed, rooms);
    assert!(page.contains(&format!("Together: {}.", rooms.values().sum::<usize>())));
}
