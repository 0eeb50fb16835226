//! Tests that each name of a public type means only one type, so that a reader of a message or of a
//! signature need not know the module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Adds each public type in the files below this folder to `found`, with its places; tests are left
/// out. Adds the names of the `#[non_exhaustive]` types to `open`.
fn types(folder: &Path, found: &mut BTreeMap<String, Vec<String>>, open: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" && name != "permuted" {
                types(&path, found, open);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let (mut chosen, mut may_grow) = (false, false);
            for (line, code) in text.lines().enumerate() {
                // An attribute holds for what follows it.
                let attribute = code.trim_start();
                let grows = may_grow;
                may_grow = attribute == "#[non_exhaustive]" || may_grow && attribute.starts_with('#');
                // One of several by a feature: the same name is meant.
                let by_feature = std::mem::replace(&mut chosen, code.starts_with("#[cfg(not("));
                let Some(rest) = code.trim_start().strip_prefix("pub ") else { continue };
                let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
                let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
                let Some(rest) = kinds.iter().find_map(|kind| rest.strip_prefix(kind)) else { continue };
                if grows {
                    open.insert(
                        rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned(),
                    );
                }
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
    types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found, &mut BTreeSet::new());
    assert!(found.len() > 200, "only {} types found", found.len());
    let twice: Vec<_> = found.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "{} names stand for several types: {twice:#?}", twice.len());
}

/// Types that the stack makes and a program only reads, and `Request`, which `Request::new` makes.
const ONLY_READ: [&str; 17] = [
    "ChainStats",
    "Event",
    "Exception",
    "Extensions",
    "Geometry",
    "Health",
    "Holds",
    "Layout",
    "Output",
    "PackStats",
    "PollOutcome",
    "RecoveryEvent",
    "Refusal",
    "Request",
    "Span",
    "Stats",
    "TaskStats",
];

/// Types that a program or a driver fills in. They have a setter for each field, so that a new
/// field breaks no code: literals of these types do not work outside of the core.
///
/// The list leaves out the reports of a driver (`Done`, `Events`, `Fault`), which code makes with
/// all fields or from `default()`. It also leaves out decoded registers of a card (`Csd`, `Card`),
/// commands and addresses, which get no new fields.
const FILLED_IN: [(&str, &str); 22] = [
    ("Abilities", "engine/config.rs"),
    ("Caps", "host/caps.rs"),
    ("CardParams", "engine/config.rs"),
    ("ChainCaps", "host/chain.rs"),
    ("Config", "engine/config.rs"),
    ("Costs", "advance.rs"),
    ("CqhciConfig", "host/sdhci/cqhci/config.rs"),
    ("Erasing", "engine/erase.rs"),
    ("MshcConfig", "host/mshc/config.rs"),
    ("OpenTransfers", "host/mshc/streams/mod.rs"),
    ("Options", "card/mod.rs"),
    ("Pl181Config", "host/pl181/config.rs"),
    ("QueueCaps", "host/queue.rs"),
    ("QueueSettings", "host/queue.rs"),
    ("RtsxConfig", "host/rtsx/config.rs"),
    ("S3cSdiConfig", "host/s3c_sdi/config.rs"),
    ("SdQueue", "card/sd_queue.rs"),
    ("SdhciConfig", "host/sdhci/config.rs"),
    ("StreamConfig", "host/sdhci/streams/mod.rs"),
    ("SpiConfig", "host/spi/config.rs"),
    ("Stm32SdmmcConfig", "host/stm32_sdmmc/config.rs"),
    ("Upkeep", "card/upkeep.rs"),
];

/// Returns the public fields of a struct.
fn fields<'t>(text: &'t str, name: &str) -> BTreeSet<&'t str> {
    let Some((_, rest)) = text.split_once(&format!("pub struct {name} {{")) else { return BTreeSet::new() };
    let inside = rest.split_once("\n}\n").map_or("", |(inside, _)| inside);
    inside.lines().filter_map(|line| Some(line.trim().strip_prefix("pub ")?.split_once(':')?.0)).collect()
}

#[test]
fn what_a_program_fills_in_has_a_setter_for_each_field() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut open) = (BTreeMap::new(), BTreeSet::new());
    types(&source, &mut found, &mut open);
    for (name, file) in FILLED_IN {
        assert!(open.contains(name), "{name}: not #[non_exhaustive]");
        let text = std::fs::read_to_string(source.join(file)).unwrap();
        let fields = fields(&text, name);
        let begin = format!("setters!({name} {{");
        let rest = text.split_once(&begin).unwrap_or_else(|| panic!("{file}: no {begin}")).1;
        let setters: BTreeSet<&str> = rest
            .split_once("});")
            .unwrap()
            .0
            .split(',')
            .filter_map(|field| Some(field.split_once(": ")?.0.trim()))
            .collect();
        assert!(fields.len() > 1, "{name}: {fields:?}");
        assert_eq!(fields, setters, "{name}: fields, setters");
    }
    for (name, places) in &found {
        if ["Config", "Caps", "Settings", "Options", "Stats"].iter().any(|end| name.ends_with(end)) {
            let text = std::fs::read_to_string(places[0].rsplit_once(':').unwrap().0).unwrap();
            let known = FILLED_IN.iter().any(|filled| filled.0 == name) || ONLY_READ.contains(&name.as_str());
            assert!(known || fields(&text, name).is_empty(), "{name} is in no list of this test");
        }
    }
}

/// An enumeration that drivers make and that has a fixed set of variants: the engine handles each
/// one, so a new variant is a new rule for every driver.
const OF_DRIVERS: &str = "StartError";

#[test]
fn a_new_field_or_error_breaks_no_program() {
    let (mut found, mut open) = (BTreeMap::new(), BTreeSet::new());
    types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found, &mut open);
    let closed: Vec<_> = ONLY_READ.into_iter().filter(|name| !open.contains(*name)).collect();
    assert!(closed.is_empty(), "not #[non_exhaustive]: {closed:?}");
    let enums = |place: &String| {
        let (file, line) = place.rsplit_once(':').unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap().contains("pub enum ")
    };
    let errors = found.iter().filter(|(name, places)| name.ends_with("Error") && places.iter().any(enums));
    let closed: Vec<_> =
        errors.filter(|(name, _)| !open.contains(*name) && name.as_str() != OF_DRIVERS).collect();
    assert!(closed.is_empty(), "errors that a program can match without a rest: {closed:#?}");
}
