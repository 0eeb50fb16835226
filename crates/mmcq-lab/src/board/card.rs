//! Reads cards by name or from a file, with changed values.

use super::{BoardError, card_with};
use crate::platform::{CARD, Platform};
use crate::sdio;
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::card::{Card, CardProfile, Medium};
use mmcq_sim::cards;
use std::borrow::Cow;
use toml_edit::{DocumentMut, Item, Table, Value};

/// Keys of the table `[flash.spread]`, which describes rare long delays of reads and writes. A
/// card's file may leave out all of them.
pub const SPREAD: [&str; 10] = [
    "flash.spread.seed",
    "flash.spread.read_retry_share",
    "flash.spread.read_retry_us",
    "flash.spread.read_retry_again",
    "flash.spread.gc_share",
    "flash.spread.gc_stall_ms",
    "flash.spread.gc_again",
    "flash.spread.slc_mib",
    "flash.spread.slc_mib_s",
    "flash.spread.slc_free_mib_s",
];

/// Returns the names of the built-in cards, without the I/O card.
pub fn card_names() -> impl Iterator<Item = &'static str> {
    cards::CARDS.iter().map(|(name, _)| *name).filter(|name| *name != sdio::CARD_NAME)
}

/// Returns the profile of the board's own card, or of the card named by `card` instead. The changes
/// `--set card.KEY=VALUE`, which the board keeps, are applied.
pub fn profile(platform: &Platform, card: Option<&str>) -> Result<CardProfile, BoardError> {
    let (name, changes) = (card.unwrap_or(&platform.card), &platform.card_changes);
    platform.profiles.get_or(name, changes, || changed(name, changes))
}

/// Reads a card's profile by name, or from a file whose name ends in `.toml`.
pub fn card_profile(name: &str) -> Result<CardProfile, BoardError> {
    changed(name, &[])
}

/// Returns a card's file as a table, with the given changes: `key=value`, without the prefix
/// `card.`.
pub fn card_table(name: &str, changes: &[String]) -> Result<toml::Table, BoardError> {
    // The profile is parsed first, so that errors in the file are reported by its parser.
    changed(name, changes)?;
    read_table(name, changes)
}

/// Returns the file of the board's own card as a table, or that of the card named by `card`
/// instead. The changes `--set card.KEY=VALUE`, which the board keeps, are applied.
pub fn table(platform: &Platform, card: Option<&str>) -> Result<toml::Table, BoardError> {
    profile(platform, card)?;
    read_table(card.unwrap_or(&platform.card), &platform.card_changes)
}

fn read_table(name: &str, changes: &[String]) -> Result<toml::Table, BoardError> {
    #[cfg(test)]
    crate::counted::parsed();
    Ok(with(&card_text(name)?, changes)?.parse().unwrap_or_default())
}

/// Builds a card for the slot of a virtual machine, whose guest has the driver. The card is a
/// storage card as in [`card_with`], or a card with functions, which cannot have an image.
pub fn slot_card(
    platform: &Platform,
    card: Option<&str>,
    medium: Option<Medium>,
) -> Result<Box<dyn Card>, BoardError> {
    if let Some(name) = card
        && let text = card_text(name)?
        && has_functions(&text)
    {
        let profile = IoProfile::from_toml(&with(&text, &platform.card_changes)?, name)?;
        return match medium {
            Some(_) => Err(BoardError::IoImage { name: name.to_owned() }),
            None => Ok(Box::new(profile.build().0)),
        };
    }
    let (profile, medium) = card_with(platform, card, medium)?;
    Ok(profile.build(medium)?)
}

/// Returns the text of a card's file with the given changes: `key=value`, without the prefix
/// `card.`. Comments stay in the text.
pub fn card_text_with(name: &str, changes: &[String]) -> Result<String, BoardError> {
    changed(name, changes)?;
    with(&card_text(name)?, changes)
}

fn has_functions(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("io"))
}

/// Reads a card's profile by name or from a file, with the given changes.
fn changed(name: &str, changes: &[String]) -> Result<CardProfile, BoardError> {
    let text = card_text(name)?;
    #[cfg(test)]
    crate::counted::parsed();
    if name.ends_with(".toml") {
        ranges_hold(name, &text)?;
    }
    let profile = match CardProfile::from_toml(&text, name) {
        Err(_) if has_functions(&text) => {
            let description = IoProfile::from_toml(&text, name)?.description().to_owned();
            return Err(BoardError::Io { name: name.to_owned(), description });
        }
        read => read?,
    };
    match changes {
        [] => Ok(profile),
        changes => Ok(CardProfile::from_toml(&with(&text, changes)?, &format!("{name} with --set"))?),
    }
}

/// Checks that each range and each interval in a card's file contains its value.
fn ranges_hold(name: &str, text: &str) -> Result<(), BoardError> {
    fn walk(name: &str, above: &str, table: &toml::Table) -> Result<(), BoardError> {
        let number = |value: &toml::Value| value.as_float().or(value.as_integer().map(|n| n as f64));
        for part in ["range", "interval"] {
            for (key, ends) in table.get(part).and_then(toml::Value::as_table).into_iter().flatten() {
                let Some(value) = table.get(key).and_then(number) else {
                    let key = format!("{name}: {CARD}{above}{key}");
                    let what = format!("the card's file has a {part} for it, and no value; expected both");
                    return Err(BoardError::Range { key, what });
                };
                let found: Vec<f64> = ends.as_array().into_iter().flatten().filter_map(number).collect();
                // The parser of profiles names the line of ends that are wrong by themselves.
                let [least, most] = found[..] else { continue };
                if least < most && !(least..=most).contains(&value) {
                    let key = format!("{name}: `{above}{key} = {value}`");
                    let what = format!("its {part} is {least} to {most}; expected one that holds it");
                    return Err(BoardError::Range { key, what });
                }
            }
        }
        let own = |key: &str| ["range", "interval"].contains(&key);
        let parts = table.iter().filter_map(|(key, value)| Some((key, value.as_table()?)));
        let mut parts = parts.filter(|(key, _)| !own(key));
        parts.try_for_each(|(key, part)| walk(name, &format!("{above}{key}."), part))
    }
    // A file that is not valid TOML is reported by the parser of profiles.
    text.parse().map_or(Ok(()), |table: toml::Table| walk(name, "", &table))
}

/// Returns the text of a card's file.
pub fn card_text(name: &str) -> Result<Cow<'static, str>, BoardError> {
    if let Some(text) = cards::named(name) {
        return Ok(Cow::Borrowed(text));
    }
    if name.ends_with(".toml") {
        let text = std::fs::read_to_string(name);
        return text.map(Cow::Owned).map_err(|source| BoardError::CardFile { name: name.to_owned(), source });
    }
    let known = card_names().collect::<Vec<_>>().join(", ");
    Err(BoardError::NoCard { name: name.to_owned(), known })
}

/// Returns the text of a card's file with changed values. All other lines stay where they are, so
/// that an error names the right line.
fn with(text: &str, changes: &[String]) -> Result<String, BoardError> {
    if changes.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse().unwrap_or_default();
    for change in changes {
        let fault = |what: String| BoardError::Change { change: change.clone(), what };
        let (path, value) =
            change.split_once('=').ok_or_else(|| fault("expected card.KEY=VALUE".to_owned()))?;
        let steps = find(&document, path).map_err(fault)?;
        let Some((key, tables)) = steps.split_last() else { continue };
        let mut place: &mut Table = &mut document;
        for step in tables {
            let inner = place.entry(step).or_insert(Item::Table(Table::new()));
            place =
                inner.as_table_mut().ok_or_else(|| fault(format!("{step} is one value and has no parts")))?;
        }
        // A value without quotes that is not valid TOML is a string.
        let value: Value = value.parse().unwrap_or_else(|_| Value::from(value));
        place.insert(key, Item::Value(value));
    }
    Ok(document.to_string())
}

/// Finds the path of a key in a card's file. `path` is a whole path, or a single name that stands
/// at only one place in the file.
fn find(document: &DocumentMut, path: &str) -> Result<Vec<String>, String> {
    let given: Vec<String> = path.split('.').map(str::to_owned).collect();
    if given.iter().any(String::is_empty) {
        return Err("expected card.KEY=VALUE".to_owned());
    }
    let [name] = &given[..] else { return Ok(given) };
    let mut all = Vec::new();
    leaves(document, &mut Vec::new(), &mut all);
    let mut found = all.iter().filter(|steps| steps.last() == Some(name));
    match (found.next(), found.next()) {
        (Some(steps), None) => Ok(steps.clone()),
        (Some(one), Some(other)) => Err(format!(
            "{name} is in two tables; expected card.{} or card.{}",
            one.join("."),
            other.join(".")
        )),
        _ => {
            if let Some(key) = SPREAD.into_iter().find(|key| key.rsplit('.').next() == Some(name)) {
                return Err(format!(
                    "the card's file has no such table; expected it with its table: card.{key}"
                ));
            }
            let near = |steps: &Vec<String>| steps.last().map_or(0.0, |last| strsim::jaro(last, name));
            let nearest = all.iter().max_by(|a, b| near(a).total_cmp(&near(b)));
            let nearest =
                nearest.map_or(String::new(), |steps| format!("the nearest is card.{}; ", steps.join(".")));
            Err(format!(
                "the card's file has no such key; {nearest}`mmcq params` lists all; a key that the file leaves out is given with its table, as \
                 card.flash.read.read_ahead_kib"
            ))
        }
    }
}

/// Collects the paths of all values in a table.
fn leaves(table: &Table, above: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    for (key, item) in table {
        above.push(key.to_owned());
        match item.as_table() {
            Some(inner) => leaves(inner, above, all),
            None => all.push(above.clone()),
        }
        above.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(changes: &[&str]) -> Result<CardProfile, String> {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        changed("emmc-hs200", &changes).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_found_by_its_name_or_its_path() {
        assert_eq!(set(&["read_first_us=1"]).unwrap().flash().read_first_ns, 1_000);
        assert_eq!(set(&["flash.read.read_first_us=2.5"]).unwrap().flash().read_first_ns, 2_500);
        assert_eq!(set(&["emmc.fastest=hs52"]).unwrap().capacity_bytes(), set(&[]).unwrap().capacity_bytes());
        let both = set(&["capacity_mib=4096", "flash.write.gc_ms=3"]);
        assert!(both.unwrap_err().contains("gc_"), "a garbage collection needs its other keys");
    }

    #[test]
    fn a_range_holds_its_value() {
        for (name, text) in cards::CARDS {
            ranges_hold(name, text).unwrap();
        }
        for part in ["range", "interval"] {
            let fault = |ends: &str| {
                let text = format!("[flash.write]\n{part} = {{ {ends} }}\ndrain_mib_s = 50\n");
                ranges_hold("mine.toml", &text).unwrap_err().to_string()
            };
            let expected = format!(
                "mine.toml: `flash.write.drain_mib_s = 50`: its {part} is 30 to 40; expected one that holds it"
            );
            assert_eq!(fault("drain_mib_s = [30, 40]"), expected);
            let other = format!("card.flash.write.other: the card's file has a {part} for it, and no value");
            assert!(fault("other = [1, 2]").contains(&other));
        }
    }

    #[test]
    fn faults_name_the_key_and_the_line() {
        let fault = |change: &str| set(&[change]).unwrap_err();
        assert!(fault("read_frist_us=1").starts_with(
            "--set card.read_frist_us=1: the card's file has no such key; the nearest is card.flash.read.read_first_us;"
        ));
        assert!(
            fault("source=x").contains("is in two tables; expected card.identity.source or card.emmc.source")
        );
        let given = "--set card.slc_mib=1: the card's file has no such table; expected it with its table: card.flash.spread.slc_mib";
        assert_eq!(fault("slc_mib=1"), given);
        assert!(fault("emmc.fastest.x=1").contains("fastest is one value and has no parts"));
        assert!(fault("flash.read.read_frist_us=1").starts_with("emmc-hs200 with --set:"));
        // The error names the line of the unchanged file.
        assert_eq!(
            fault("drain_mib_s=-1"),
            "emmc-hs200 with --set:40: `drain_mib_s = -1`: expected a rate from 0.001 to 1000000 MiB/s"
        );
        assert!(fault("read_first_us").contains("expected card.KEY=VALUE"));
        assert!(fault("=3").contains("expected card.KEY=VALUE"));
    }
}
