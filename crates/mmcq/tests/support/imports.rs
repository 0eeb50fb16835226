//! Finds which modules of its own crate each source file names, for the tests of layers.
//!
//! A path counts wherever code uses it: in an import, an expression, or a macro (`$crate::`). A
//! path begins with `crate::`, or with as many `super::` as lead to the root. Comments, strings and
//! everything under a `cfg` with the word `test` do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A place where a top-level module names another top-level module.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// Path of the file, relative to the source folder.
    pub file: String,
    /// Number of the line; the first line is 1.
    pub line: usize,
    pub from: String,
    pub to: String,
}

/// Returns every import between the top-level modules of the crate whose `lib.rs` is in this
/// folder, and the names of these modules.
pub fn of_crate(source: &Path) -> (Vec<Import>, BTreeSet<String>) {
    let root = code(&std::fs::read_to_string(source.join("lib.rs")).expect("the crate's root"));
    let top: BTreeSet<String> = modules(&root).into_iter().collect();
    let mut imports = Vec::new();
    for module in &top {
        follow(source, source, &top, std::slice::from_ref(module), &mut imports);
    }
    imports.retain(|import| import.to != import.from);
    (imports, top)
}

/// Reads the file of the module with this path and the files of its submodules, and adds their
/// imports. The module is declared in a file whose modules are in `folder`.
fn follow(source: &Path, folder: &Path, top: &BTreeSet<String>, path: &[String], imports: &mut Vec<Import>) {
    let name = &path[path.len() - 1];
    let below = folder.join(name);
    let own: PathBuf = [folder.join(format!("{name}.rs")), below.join("mod.rs")]
        .into_iter()
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("no file for {}", path.join("::")));
    let text = code(&std::fs::read_to_string(&own).expect("a source file"));
    let file = own.strip_prefix(source).expect("below the source").display().to_string();
    for (line, to) in paths(&text, path.len(), top) {
        assert!(top.contains(&to), "{file}:{line}: the root has no module `{to}`");
        imports.push(Import { file: file.clone(), line, from: path[0].clone(), to });
    }
    for module in modules(&text) {
        let inner: Vec<String> = path.iter().chain([&module]).cloned().collect();
        follow(source, &below, top, &inner, imports);
    }
}

/// Returns the text with spaces in place of comments, strings and code that is compiled only for
/// tests. Line breaks stay.
pub fn code(text: &str) -> String {
    let mut text: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < text.len() {
        let end = unspoken(&text, at);
        blank(&mut text[at..end]);
        at = end.max(at + 1);
    }
    let mut from = 0;
    while let Some(start) = find(&text, from, "#[cfg(") {
        let after = closing(&text, start + 1);
        let condition: String = text[start..after].iter().filter(|c| !c.is_whitespace()).collect();
        if words(&condition.replace("not(test)", "")).any(|word| word == "test") {
            let end = end_of_item(&text, after);
            blank(&mut text[start..end]);
        }
        from = after;
    }
    text.into_iter().collect()
}

/// Returns the end of the comment, string or character that begins at `at`; `at` itself if none
/// begins there.
fn unspoken(text: &[char], at: usize) -> usize {
    let is = |at: usize, what: &str| what.chars().enumerate().all(|(n, c)| text.get(at + n) == Some(&c));
    let until = |from: usize, what: &str| {
        (from..text.len()).find(|&at| is(at, what)).map_or(text.len(), |at| at + what.len())
    };
    if is(at, "//") {
        return until(at, "\n") - 1;
    } else if is(at, "/*") {
        return until(at + 2, "*/");
    } else if is(at, "'") {
        let is_char = is(at + 1, "\\") || is(at + 2, "'");
        return if is_char { until(at + 3 - usize::from(is(at + 2, "'")), "'") } else { at };
    } else if is(at, "r\"") || is(at, "r#") {
        let fence = text[at + 1..].iter().take_while(|&&c| c == '#').count();
        let quoted = is(at + 1 + fence, "\"") && (at == 0 || !in_word(text[at - 1]) || text[at - 1] == 'b');
        return if quoted { until(at + 2 + fence, &format!("\"{}", "#".repeat(fence))) } else { at };
    } else if !is(at, "\"") {
        return at;
    }
    let mut end = at + 1;
    while end < text.len() && text[end] != '"' {
        end += 1 + usize::from(text[end] == '\\');
    }
    text.len().min(end + 1)
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !in_word(c)).filter(|word| !word.is_empty())
}

fn blank(text: &mut [char]) {
    text.iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
}

fn find(text: &[char], from: usize, what: &str) -> Option<usize> {
    let what: Vec<char> = what.chars().collect();
    (from..text.len().saturating_sub(what.len())).find(|&at| text[at..].starts_with(&what))
}

/// Returns the position after the bracket that closes the bracket at `at`.
fn closing(text: &[char], at: usize) -> usize {
    let mut depth = 0;
    for (n, c) in text.iter().enumerate().skip(at) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return n + 1;
        }
    }
    text.len()
}

/// Returns the end of an item: after its closing brace or its semicolon, or at the end of the
/// surrounding block.
fn end_of_item(text: &[char], mut at: usize) -> usize {
    while at < text.len() {
        match text[at] {
            ';' => return at + 1,
            '{' => return closing(text, at),
            '}' | ')' | ']' => return at,
            '(' | '[' => at = closing(text, at),
            _ => at += 1,
        }
    }
    at
}

/// Returns the declared modules that have files of their own.
fn modules(code: &str) -> Vec<String> {
    let declared = code.split(';').filter_map(|item| item.rsplit(['}', ']', '{']).next());
    let named = declared.filter_map(|item| {
        let words: Vec<&str> = item.split_whitespace().collect();
        match words[..] {
            ["mod", name] | [_, "mod", name] => Some(name.to_owned()),
            _ => None,
        }
    });
    named.collect()
}

/// Returns the modules at the root that a file's code names, with the lines. The file belongs to a
/// module `depth` levels below the root; `top` are the modules at the root.
pub fn paths(code: &str, depth: usize, top: &BTreeSet<String>) -> Vec<(usize, String)> {
    let up = "super::".repeat(depth);
    let mut found = Vec::new();
    let (mut number, mut before) = (1, 0);
    for (at, _) in code.match_indices(['c', 's']) {
        number += code[before..at].matches('\n').count();
        before = at;
        let (left, here) = (&code[..at], &code[at..]);
        if left.ends_with(in_word) {
            continue;
        } else if let Some(rest) = here.strip_prefix("crate::") {
            found.extend(named(rest).into_iter().map(|name| (number, name)));
        } else if let Some(rest) = here.strip_prefix(&up)
            && !left.ends_with("super::")
        {
            // In a module within the file this leads to another place, where the names are others.
            let names = named(rest).into_iter().filter(|name| top.contains(name));
            found.extend(names.map(|name| (number, name)));
        }
    }
    found
}

/// Returns the first name of a path, or of each path in a group. The name of a macro does not count
/// as a module, although all macros are at the root.
fn named(rest: &str) -> Vec<String> {
    let first = |path: &str| words(path).next().map(str::to_owned);
    if !rest.starts_with('{') {
        let called = |name: &String| rest[name.len()..].starts_with('!');
        return first(rest).into_iter().filter(|name| !called(name)).collect();
    }
    let text: Vec<char> = rest.chars().collect();
    let group: String = text[1..closing(&text, 0) - 1].iter().collect();
    let mut depth = 0;
    let outer = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    outer.filter_map(first).collect()
}

/// Returns the imports from a higher layer, or from another module of the same layer. The first
/// layer is the lowest.
pub fn looks_up((imports, top): &(Vec<Import>, BTreeSet<String>), layers: &[&[&str]]) -> Vec<String> {
    let rank: BTreeMap<&str, usize> = layers
        .iter()
        .enumerate()
        .flat_map(|(rank, names)| names.iter().map(move |&name| (name, rank)))
        .collect();
    let listed: BTreeSet<String> = rank.keys().map(|&name| name.to_owned()).collect();
    assert_eq!(&listed, top, "each module has one place in the table of layers");
    let up = imports.iter().filter(|import| rank[import.to.as_str()] >= rank[import.from.as_str()]);
    up.map(|Import { file, line, from, to }| format!("{file}:{line}: `{from}` looks up at `{to}`")).collect()
}

/// Returns the imports that are part of a circle: the named module imports the importing one,
/// directly or through others.
pub fn circles((imports, top): &(Vec<Import>, BTreeSet<String>)) -> Vec<String> {
    let reaches = |from: &str, goal: &str| {
        let (mut seen, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(at) = next.pop() {
            let names = imports.iter().filter(|import| import.from == at).map(|import| import.to.as_str());
            next.extend(names.filter(|&name| seen.insert(name)));
        }
        seen.contains(goal)
    };
    assert!(!top.is_empty(), "the crate has modules");
    let back = imports.iter().filter(|import| reaches(&import.to, &import.from));
    back.map(|Import { file, line, from, to }| {
        format!("{file}:{line}: `{from}` names `{to}`, which leads back to it")
    })
    .collect()
}
