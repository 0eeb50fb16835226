//! Checks that all tests start the program in a temporary folder: jobs write logs into the current
//! folder, and tests must leave nothing in the source tree.

use std::path::Path;

/// Number of lines after a start of the program within which the folder must be set.
const NEAR: usize = 3;

#[test]
fn every_test_runs_the_program_in_a_folder_of_its_own() {
    // The text is split, so that the search does not find this line.
    let start = concat!("Command::new(env!(\"CARGO_BIN", "_EXE_mmcq\"))");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (mut found, mut wrong) = (0, Vec::new());
    for folder in [tests.clone(), tests.join("serve")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.contains(start)) {
                found += 1;
                let says = lines[at..].iter().take(NEAR).find_map(|line| line.split_once("current_dir("));
                if says.is_none_or(|(_, place)| place.starts_with("tree()")) {
                    wrong.push(format!("{}:{}", path.display(), at + 1));
                }
            }
        }
    }
    assert!(found > 20, "only {found} starts found");
    assert!(wrong.is_empty(), "run in the source tree:\n{}", wrong.join("\n"));
}
