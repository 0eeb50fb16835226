//! A public type's name stands for one type: a reader of a message or of a signature need not know
//! the module.

use std::collections::BTreeMap;
use std::path::Path;

/// Each public type of the files below this folder, with its places. Tests are left out.
fn types(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" && name != "permuted" {
                types(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut chosen = false;
            for (line, code) in text.lines().enumerate() {
                // One of several by a feature: the same name is meant.
                let by_feature = std::mem::replace(&mut chosen, code.starts_with("#[cfg(not("));
                let Some(rest) = code.trim_start().strip_prefix("pub ") else { continue };
                let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
                let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
                let Some(rest) = kinds.iter().find_map(|kind| rest.strip_prefix(kind)) else { continue };
                if !by_feature {
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                    let place = format!("{}:{}", path.display(), line + 1);
                    found.entry(rest[..end].to_owned()).or_default().push(place);
                }
            }
        }
    }
}

#[test]
fn no_two_public_types_have_one_name() {
    let mut found = BTreeMap::new();
    types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 200, "only {} types found", found.len());
    let twice: Vec<_> = found.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "{} names stand for several types: {twice:#?}", twice.len());
}
