//! Tests that each published crate has the metadata that its pages on the registry and on docs.rs
//! need.

use std::fs::{read, read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The registry's categories that the crates of this project use; the registry refuses a category
/// that is not on its list.
const CATEGORIES: &[&str] = &[
    "asynchronous",
    "command-line-utilities",
    "development-tools::ffi",
    "development-tools::profiling",
    "development-tools::testing",
    "embedded",
    "emulators",
    "hardware-support",
    "no-std",
    "no-std::no-alloc",
    "os::linux-apis",
    "simulation",
];

struct Package {
    name: String,
    folder: PathBuf,
    manifest: String,
}

impl Package {
    /// Returns the strings of the list `key` in the manifest.
    fn list(&self, key: &str) -> Vec<&str> {
        let begin = format!("{key} = [");
        let line = self.manifest.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or("");
        line.split('"').skip(1).step_by(2).collect()
    }
}

/// Returns the crates without `publish = false`.
fn published() -> Vec<Package> {
    let mut packages = Vec::new();
    for entry in read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = read_to_string(folder.join("Cargo.toml")).unwrap();
        if !manifest.lines().any(|line| line == "publish = false") {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            packages.push(Package { name, folder, manifest });
        }
    }
    assert_eq!(packages.len(), 7);
    packages
}

/// Returns whether the registry accepts this word as a keyword.
fn is_keyword(word: &str) -> bool {
    word.len() <= 20
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c))
}

#[test]
fn categories_and_keywords_are_what_a_registry_takes() {
    for package in published() {
        let (categories, keywords) = (package.list("categories"), package.list("keywords"));
        assert!((1..=5).contains(&categories.len()), "{}: {categories:?}", package.name);
        assert!((1..=5).contains(&keywords.len()), "{}: {keywords:?}", package.name);
        let unknown: Vec<_> = categories.iter().filter(|slug| !CATEGORIES.contains(slug)).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", package.name);
        let odd: Vec<_> = keywords.iter().filter(|word| !is_keyword(word)).collect();
        assert!(odd.is_empty(), "{}: {odd:?}", package.name);
    }
}

#[test]
fn each_package_has_its_readme_and_its_licences() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for package in published() {
        assert!(package.folder.join("README.md").exists(), "{}: no README.md", package.name);
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let theirs = read(package.folder.join(licence)).unwrap_or_default();
            assert!(theirs == read(root.join(licence)).unwrap(), "{}: {licence}", package.name);
        }
        let include = package.list("include");
        assert!(include.is_empty() || include.contains(&"/LICENSE-*"), "{}: {include:?}", package.name);
    }
}

#[test]
fn docs_rs_knows_the_targets_of_each_crate() {
    for package in published() {
        let (_, of_docs_rs) =
            package.manifest.split_once("[package.metadata.docs.rs]\n").expect(&package.name);
        let part = of_docs_rs.split("\n[").next().unwrap();
        assert!(part.contains("targets = [\""), "{}: {part}", package.name);
    }
}

#[test]
fn each_front_page_leads_to_the_other_crates() {
    let packages = published();
    for package in &packages {
        let source = read_to_string(package.folder.join("src/lib.rs")).unwrap();
        let page: String = source.lines().filter(|line| line.starts_with("//!")).collect();
        for other in packages.iter().filter(|other| other.name != package.name) {
            let link = format!("(https://docs.rs/{})", other.name);
            assert!(page.contains(&link), "{} does not lead to {}", package.name, other.name);
        }
    }
}
