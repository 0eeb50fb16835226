//! Tests the names of functions: a function whose name is a question changes nothing, and the name
//! of a command begins with a verb.

use std::path::{Path, PathBuf};

/// A function in the source tree.
struct Function {
    place: String,
    name: String,
    /// The text of the parameters.
    parameters: String,
}

impl Function {
    /// Returns whether the function may change the value that it is called on.
    fn changes(&self) -> bool {
        let first = self.parameters.split(',').next().unwrap_or_default();
        let first: String = first.split_whitespace().collect::<Vec<_>>().join(" ");
        first.starts_with('&') && first.ends_with("mut self") || first.contains("&mut Self")
    }

    /// Returns whether the name is a question, such as `is_idle`.
    fn asks(&self) -> bool {
        ["is_", "has_", "are_", "may_", "can_", "was_", "were_", "does_", "must_"]
            .iter()
            .any(|question| self.name.starts_with(question))
    }
}

/// Adds each Rust file below this folder to `found`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the text after the generic parameters, if it begins with such parameters.
fn behind_generics(text: &str) -> &str {
    if !text.starts_with('<') {
        return text;
    }
    let (mut depth, mut last) = (0, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
        last = letter;
    }
    ""
}

/// Returns the functions of a file, without functions in comments.
fn functions(path: &Path) -> Vec<Function> {
    let text = std::fs::read_to_string(path).unwrap();
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let begins = code[..at].chars().next_back().is_none_or(|before| before.is_whitespace());
        let behind = &code[at + 3..];
        let end = behind.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(0);
        let Some(inside) = behind_generics(&behind[end..]).strip_prefix('(') else { continue };
        if begins && end > 0 {
            found.push(Function {
                place: format!("{}:{}", path.display(), code[..at].matches('\n').count() + 1),
                name: behind[..end].to_owned(),
                parameters: inside.split(')').next().unwrap_or_default().trim_start().to_owned(),
            });
        }
    }
    found
}

/// Returns the functions of all crates of the source tree, including their tests.
fn all() -> Vec<Function> {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut paths);
    paths.iter().flat_map(|path| functions(path)).collect()
}

#[test]
fn what_asks_changes_nothing() {
    let functions = all();
    let questions = functions.iter().filter(|function| function.asks()).count();
    let commands = functions.iter().filter(|function| function.changes()).count();
    assert!(questions > 200 && commands > 2000, "{questions} questions, {commands} commands found");
    let wrong: Vec<_> = functions
        .iter()
        .filter(|function| function.asks() && function.changes())
        .map(|function| format!("{}: {}", function.place, function.name))
        .collect();
    assert!(wrong.is_empty(), "{} questions may change what they ask: {wrong:#?}", wrong.len());
}

/// First words of names of commands that end in `s` and are no verbs in the third person.
const NOUNS: [&str; 13] = [
    "always", "as", "blocks", "bus", "bytes", "costs", "lines", "pins", "progress", "quirks", "runs",
    "status", "tuples",
];

/// Parts of a name that make the name a sentence about a state, instead of a command.
const CLAUSES: [&str; 4] = ["_is_", "_are_", "_begins_", "_goes_"];

#[test]
fn a_command_says_what_it_does() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
    paths.retain(|path| !path.components().any(|part| part.as_os_str() == "tests"));
    let commands: Vec<_> =
        paths.iter().flat_map(|path| functions(path)).filter(|function| function.changes()).collect();
    assert!(commands.len() > 1000, "{} commands found", commands.len());
    let wrong: Vec<_> = commands
        .iter()
        .filter(|function| {
            let first = function.name.split('_').next().unwrap_or_default();
            let third = first.ends_with('s') && !first.ends_with("ss") && !NOUNS.contains(&first);
            let name = format!("{}_", function.name);
            third && !name.ends_with("_mut_") || CLAUSES.iter().any(|clause| name.contains(clause))
        })
        .map(|function| format!("{}: {}", function.place, function.name))
        .collect();
    assert!(wrong.is_empty(), "{} names tell what is so, not what to do: {wrong:#?}", wrong.len());
}

/// Words with which a comment must not begin, because they mean nothing to a reader who has not
/// read the code.
const PRONOUNS: [&str; 16] = [
    "It", "Its", "They", "Their", "Them", "This", "These", "That", "Those", "What", "Such", "So", "One",
    "There", "He", "She",
];

#[test]
fn comments_begin_with_what_a_thing_does_or_is() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    files(&source.join("engine"), &mut paths);
    files(&source.join("sched"), &mut paths);
    let (mut comments, mut wrong) = (0, Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut inside = false;
        for (nth, line) in text.lines().enumerate() {
            let comment = line.trim_start().strip_prefix("///");
            let goes_on = std::mem::replace(&mut inside, comment.is_some());
            let Some(comment) = comment.filter(|_| !goes_on) else { continue };
            comments += 1;
            let comment = comment.trim_start();
            let word = comment.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
            if PRONOUNS.contains(&word) || comment.starts_with("The same") {
                wrong.push(format!("{}:{}: {comment}", path.display(), nth + 1));
            }
        }
    }
    assert!(comments > 1500, "{comments} comments found");
    assert!(wrong.is_empty(), "{} comments begin with a pronoun: {wrong:#?}", wrong.len());
}
