//! plant BUGS TREE: copies the files that standard input names into TREE, and puts the bugs of the
//! file BUGS into its core. Names end in a zero byte, as from `git ls-files -z`, and begin where
//! the program was called.
//!
//! One build has all bugs. They are switched on one at a time by `mmcq::plant::choose`, in a module
//! that is made here. What has not changed since the last time is not written again, so that cargo
//! builds what is new alone.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

const CORE: &str = "crates/mmcq/src/";
const ROOT: &str = "crates/mmcq/src/lib.rs";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bugs {
    /// What is changed for all bugs together.
    always: Vec<Change>,
    bug: Vec<Bug>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bug {
    name: String,
    what: String,
    found_by: Option<String>,
    change: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    find: String,
    with: String,
}

/// Where `wanted` stands in `text`, in bytes. White space counts for nothing.
fn places(text: &str, wanted: &str) -> Vec<(usize, usize)> {
    let dense = |text: &str| -> (Vec<u8>, Vec<usize>) {
        text.bytes()
            .enumerate()
            .filter(|(_, byte)| !byte.is_ascii_whitespace())
            .map(|(at, byte)| (byte, at))
            .unzip()
    };
    let ((text, at), (wanted, _)) = (dense(text), dense(wanted));
    if wanted.is_empty() {
        return Vec::new();
    }
    let found = text.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted);
    found.map(|(first, _)| (at[first], at[first + wanted.len() - 1] + 1)).collect()
}

/// Makes one change in the one file that has its text.
fn make(
    change: &Change,
    name: &str,
    condition: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), String> {
    let mut found = Vec::new();
    for (path, content) in files.iter().filter(|(path, _)| path.starts_with(CORE) && path.ends_with(".rs")) {
        let text = std::str::from_utf8(content).map_err(|_| format!("{path}: not UTF-8"))?;
        found.extend(places(text, &change.find).into_iter().map(|place| (path.clone(), place)));
    }
    let [(path, (from, to))] = &found[..] else {
        let (at, text) =
            (found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), change.find.trim());
        return Err(format!(
            "{name}: expected this text once in {CORE}, found it {} times {at:?}:\n{text}",
            at.len()
        ));
    };
    if !change.with.contains(condition) {
        return Err(format!(
            "{name}: expected {condition} in what comes in place of\n{}",
            change.find.trim()
        ));
    }
    let is = if condition == "ANY" {
        "crate::plant::any()".to_owned()
    } else {
        format!("crate::plant::is(crate::plant::Bug::{name})")
    };
    let with = change.with.trim().replace(condition, &is);
    if let Some(content) = files.get_mut(path) {
        content.splice(from..to, with.bytes());
    }
    Ok(())
}

/// The module of the core that switches the bugs on.
fn module(bugs: &[Bug]) -> String {
    let (mut variants, mut names, mut campaigns) = (String::new(), String::new(), String::new());
    for bug in bugs {
        let _ = write!(variants, "    /// {}\n    {},\n", bug.what, bug.name);
        let _ = write!(names, "Bug::{}, ", bug.name);
        if let Some(campaign) = &bug.found_by {
            let _ = writeln!(campaigns, "            Bug::{} => Some({campaign:?}),", bug.name);
        }
    }
    format!(
        "//! Bugs on purpose. One of them is switched on at a time, for the thread that calls `choose`.
extern crate std;
use core::cell::Cell;

/// A bug that is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {{
{variants}}}

impl Bug {{
    /// All of them.
    pub const ALL: [Bug; {}] = [{names}];

    /// The campaign that finds it soonest, if that is not the one at random.
    pub fn found_by(self) -> Option<&'static str> {{
        match self {{
{campaigns}            _ => None,
        }}
    }}
}}

std::thread_local!(static CHOSEN: Cell<Option<Bug>> = const {{ Cell::new(None) }});

/// Switches this bug on in place of the one before; `None`: none.
pub fn choose(bug: Option<Bug>) {{
    CHOSEN.set(bug);
}}

/// What is switched on.
pub fn chosen() -> Option<Bug> {{
    CHOSEN.get()
}}

#[inline(always)]
pub(crate) fn is(bug: Bug) -> bool {{
    CHOSEN.get() == Some(bug)
}}

#[inline(always)]
pub(crate) fn any() -> bool {{
    CHOSEN.get().is_some()
}}
",
        bugs.len()
    )
}

/// Removes what is below `folder` and not among `files`.
fn sweep(tree: &Path, folder: &str, files: &BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    for entry in fs::read_dir(tree.join(folder))? {
        let entry = entry?;
        let name = format!("{folder}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            sweep(tree, &format!("{name}/"), files)?;
        } else if !files.contains_key(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bugs, tree] = &arguments[..] else {
        return Err("expected: plant BUGS TREE, and names of files on standard input".to_owned());
    };
    let text = fs::read_to_string(bugs).map_err(|error| format!("{bugs}: {error}"))?;
    let all: Bugs = toml::from_str(&text).map_err(|error| format!("{bugs}: {error}"))?;
    let distinct: BTreeSet<&str> = all.bug.iter().map(|bug| bug.name.as_str()).collect();
    if distinct.len() != all.bug.len() {
        return Err(format!("{bugs}: two bugs have one name"));
    }

    let mut names = String::new();
    std::io::stdin().read_to_string(&mut names).map_err(|error| format!("standard input: {error}"))?;
    let mut files = BTreeMap::new();
    for name in names.split_terminator('\0') {
        let content = fs::read(name).map_err(|error| format!("{name}: {error}"))?;
        files.insert(name.to_owned(), content);
    }
    for change in &all.always {
        make(change, "always", "ANY", &mut files)?;
    }
    for bug in &all.bug {
        for change in &bug.change {
            make(change, &bug.name, "PLANTED", &mut files)?;
        }
    }
    let root = files.get_mut(ROOT).ok_or_else(|| format!("{ROOT}: expected among the files"))?;
    root.extend_from_slice(b"\npub mod plant;\n");
    files.insert(format!("{CORE}plant.rs"), module(&all.bug).into_bytes());

    let tree = Path::new(tree);
    for (name, content) in &files {
        let path = tree.join(name);
        if fs::read(&path).is_ok_and(|there| there == *content) {
            continue;
        }
        let folder = path.parent().unwrap_or(tree);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    sweep(tree, "", &files).map_err(|error| format!("{}: {error}", tree.display()))?;
    eprintln!("plant: {} bugs are in", all.bug.len());
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plant: {error}");
            ExitCode::from(2)
        }
    }
}
