//! Tests that no test reads a real clock, waits for a fixed time, or needs a free core: such a test
//! would fail on a busy machine, and be slow on a free one. A test waits for an event (a line, the
//! end of a pipe, an exit), moves a virtual clock, or counts.
//!
//! The checked text is the test code of all crates: their `tests` and `examples`, the code under
//! `cfg(test)` in their sources, and scripts in strings of that code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Actions that are forbidden in test code, each with the words in the code that show it.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    (
        "the clock on the wall",
        &[
            "Instant::now",
            "time::Instant",
            ".elapsed",
            "SystemTime",
            "UNIX_EPOCH",
            "clock_gettime",
            "gettimeofday",
            "perf_counter",
            "time.time",
            "time.monotonic",
        ],
    ),
    (
        "a wait of a fixed time",
        &[
            "thread::sleep",
            "thread::sleep_ms",
            "thread::sleep_until",
            "park_timeout",
            "recv_timeout",
            "recv_deadline",
            "wait_timeout",
            "wait_timeout_ms",
            "wait_timeout_while",
            "connect_timeout",
            "set_read_timeout",
            "set_write_timeout",
            "time.sleep",
            "settimeout",
            "usleep",
            "nanosleep",
            "clock_nanosleep",
            "setitimer",
        ],
    ),
    ("a look whether something has happened by now", &["try_wait"]),
    ("the cores of this machine", &["available_parallelism", "num_cpus", "nproc", "cpu_count"]),
];

/// Programs that wait in a shell script for the time in their first argument.
const OF_THE_SHELL: [&str; 2] = ["sleep", "timeout"];

/// Exceptions: a file, a forbidden word that the file may have, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 7] = [
    ("crates/mmcq/tests/support/watchdog.rs", "recv_timeout", "it ends what hangs, and no test waits for it"),
    ("crates/mmcq-lab/tests/exec.rs", "time.sleep", "of a program whose clock is the card's"),
    ("crates/mmcq-lab/tests/exec.rs", "time.monotonic", "of a program whose clock is the card's"),
    ("crates/mmcq-lab/tests/programs.rs", "time.monotonic", "of a program whose clock is the card's"),
    ("crates/mmcq-lab/tests/programs.rs", "clock_gettime", "of a program whose clock is the card's"),
    ("crates/mmcq-lab/tests/exec_calls.rs", "clock_gettime", "of a program whose clock is the card's"),
    ("crates/mmcq-lab/tests/exec_calls.rs", "usleep", "of a program whose clock is the card's"),
];

/// Script files that tests run.
const SCRIPTS: [&str; 1] = ["tools/sqlite-cuts.py"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns all files below a folder; none if the folder does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the lines of a file that are compiled only for tests, with their numbers (the first line
/// is 1), and the names of such modules that have files of their own.
fn tested(text: &str) -> (Vec<(usize, &str)>, Vec<&str>) {
    let (mut found, mut modules) = (Vec::new(), Vec::new());
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((_, line)) = lines.next() {
        let attribute = line.trim_start();
        if !attribute.starts_with("#[cfg(") || !has(&attribute.replace("not(test", ""), "test") {
            continue;
        }
        while lines.next_if(|(_, line)| line.trim_start().starts_with("#[")).is_some() {}
        let Some((number, item)) = lines.next() else { break };
        found.push((number, item));
        modules.extend(item.trim().strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')));
        if !item.ends_with([';', '}', ',']) {
            let end = format!("{}}}", &line[..line.len() - attribute.len()]);
            let mut is_over = false;
            found.extend(
                lines.by_ref().take_while(|(_, line)| !std::mem::replace(&mut is_over, *line == end)),
            );
        }
    }
    (found, modules)
}

/// Returns whether `word` is a whole word of the text.
fn has(text: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        (!before.ends_with(in_word) || word.starts_with('.')) && !after.starts_with(in_word)
    })
}

/// Returns whether this line of a shell script waits by this program.
fn waits(line: &str, program: &str) -> bool {
    line.match_indices(program).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + program.len()..]);
        let begins = !before.ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
        let time = after.strip_prefix(' ').unwrap_or_default();
        begins && (time.starts_with(|c: char| c.is_ascii_digit() || c == '$') || time.starts_with("infinity"))
    })
}

/// Returns the forbidden words in a line.
fn forbidden(line: &str) -> Vec<&'static str> {
    if line.trim_start().starts_with("//") || line.trim_start().starts_with("/*") {
        return Vec::new();
    }
    let words = FORBIDDEN.iter().flat_map(|(_, words)| *words).copied();
    let mut found: Vec<_> = words.filter(|word| has(line, word)).collect();
    found.extend(OF_THE_SHELL.into_iter().filter(|word| waits(line, word)));
    found
}

/// Returns every place in the test code of the crates with a forbidden word: file, line number,
/// word.
fn places() -> Vec<(String, usize, &'static str)> {
    let root = repository();
    let (mut whole, mut found, mut seen) = (BTreeSet::new(), Vec::new(), 0);
    let mut note = |path: &Path, lines: &[(usize, &str)]| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        seen += lines.len();
        for (number, line) in lines {
            found.extend(forbidden(line).into_iter().map(|word| (name.clone(), *number, word)));
        }
    };
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let krate = entry.unwrap().path();
        whole.extend(["tests", "examples", "benches"].iter().flat_map(|folder| files(&krate.join(folder))));
        for path in
            files(&krate.join("src")).into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"))
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let (lines, modules) = tested(&text);
            note(&path.canonicalize().unwrap(), &lines);
            let name = path.file_stem().unwrap();
            let below = path.parent().unwrap();
            let below = if ["lib", "main", "mod"].iter().any(|root| name == *root) {
                below.to_owned()
            } else {
                below.join(name)
            };
            for module in modules {
                whole.insert(below.join(module).with_extension("rs"));
                whole.extend(files(&below.join(module)));
            }
        }
    }
    whole.extend(SCRIPTS.iter().map(|script| root.join(script)));
    let code = ["rs", "c", "h", "py", "sh"];
    let whole = whole.iter().filter(|path| path.extension().is_some_and(|e| code.iter().any(|c| e == *c)));
    let whole: BTreeSet<PathBuf> = whole.filter_map(|path| path.canonicalize().ok()).collect();
    for path in whole.iter().filter(|path| !path.ends_with(file!())) {
        let text = std::fs::read_to_string(path).unwrap();
        note(path, &(1..).zip(text.lines()).collect::<Vec<_>>());
    }
    assert!(whole.len() > 300 && seen > 60_000, "only {} files and {seen} lines found", whole.len());
    found
}

#[test]
fn no_test_depends_on_the_machine_s_speed() {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (file, line, word) in places() {
        match EXCEPTIONS.iter().find(|(path, allowed, _)| (*path, *allowed) == (&file, word)) {
            Some((path, allowed, _)) => _ = used.insert((path, allowed)),
            None => wrong.push(format!("{file}:{line}: {word}")),
        }
    }
    assert!(wrong.is_empty(), "{} places:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(used.len(), EXCEPTIONS.len(), "an exception is not needed any more: {used:?}");
}

#[test]
fn the_finder_sees_tests_alone_and_words_as_a_whole() {
    let text = "
fn product() {
    std::thread::sleep(LOOK);
}
#[cfg(test)]
fn one(time: Instant) -> bool { Instant::now() > time }
#[cfg(not(test))]
use std::time::Instant;
#[cfg(all(test, loom))]
#[allow(dead_code)]
mod permuted;
#[cfg(test)]
mod tests {
    use std::time::Instant as Other;
    fn f() {
        // Instant::now()
        let (board_sleep, tick) = (sleep(until), MockInstant::now());
        sh(\"sleep 1; x-sleep 1; asleep 1; exec timeout 20 true\");
    }
}
fn more() {
    let _ = began.elapsed();
}
";
    let (lines, modules) = tested(text);
    assert_eq!(modules, ["permuted"]);
    let found: Vec<_> = lines
        .iter()
        .flat_map(|(number, line)| forbidden(line).into_iter().map(|word| (*number, word)))
        .collect();
    let expected = [(6, "Instant::now"), (14, "time::Instant"), (18, "sleep"), (18, "timeout")];
    assert_eq!(found, expected);
    assert_eq!(forbidden("    x.elapsed().as_millis() + elapsed_ns"), [".elapsed"]);
    assert_eq!(forbidden("let time = clock.time;"), [""; 0]);
}
