//! Tests that a module of the core names only modules of its own layer or of lower layers.

use crate::imports;
use std::collections::BTreeSet;
use std::path::Path;

/// The layers, the lowest first. A module may name only the modules in the rows above its own row
/// (lower layers).
///
/// The engine waits for nothing, so the module that advises how to wait (`advance`) is in a higher
/// layer.
const LAYERS: &[&[&str]] = &[
    &["diagnostics", "setters"],
    &["spec"],
    &["host"],
    &["sched"],
    &["engine"],
    &["advance"],
    &["task"],
    &["card"],
    &["sdio", "block", "direct"],
    &["board"],
    &["rpmb"],
];

#[test]
fn layers_do_not_look_up() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let imports = imports::of_crate(&source);
    assert!(imports.0.len() > 200, "only {} imports found", imports.0.len());
    let up = imports::looks_up(&imports, LAYERS);
    assert!(up.is_empty(), "{} places look up:\n{}", up.len(), up.join("\n"));
}

#[test]
fn the_reader_finds_paths_in_code_alone() {
    let text = r###"
//! [`x`](crate::comment)
use crate::{one::Two, three::{self, Four}, five};
fn f<'a>(c: &'a str) -> bool {
    let _ = ("crate::text", r#"crate::"raw"#, '"', '\'', '}');
    /* crate::block */ crate::six::g::<'a>(c) || not_crate::no()
}
#[cfg(all(test, loom))]
mod permuted;
#[cfg(not(test))]
use crate::seven::Eight;
#[cfg(test)]
mod tests { use crate::test::Only; fn g() { if true {} } }
use super::super::nine;
use super::near;
macro_rules! m { () => { $crate::ten::f(); $crate::a_macro!(); } }
"###;
    let code = imports::code(text);
    let top = BTreeSet::from(["nine".to_owned()]);
    let found = imports::paths(&code, 2, &top);
    let names: Vec<(usize, &str)> = found.iter().map(|(line, name)| (*line, name.as_str())).collect();
    let expected =
        [(3, "one"), (3, "three"), (3, "five"), (6, "six"), (11, "seven"), (14, "nine"), (16, "ten")];
    assert_eq!(names, expected);
}
