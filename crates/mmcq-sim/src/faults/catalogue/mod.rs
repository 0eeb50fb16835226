//! Catalogue of the failures that are known to happen to cards and controllers: what fails, what
//! the stack must do, and how the failure is injected.
//!
//! The catalogue has a hundred and fifteen entries in nine chapters, A to I. [`by_id`] finds an
//! [`Entry`] by its id, [`by_injection`] finds an [`Injection`] by its name. A failure that a plan
//! of faults can cause has a [`Point`] (the kind of event at which it happens) and a [`Strike`]
//! (what goes wrong); [`Injection::plan`] makes it happen at the nth event of that kind. Other
//! failures need a special card, a campaign that cuts the power, or a separate test: [`Means`] says
//! which.

mod busy;
mod command_queue;
mod controller;
mod hostile;
mod link;
mod medium;
mod presence;
mod queue;
mod spi;

use super::{Plan, Point, Shot, Strike};

/// A known failure: what fails, what the stack must do then, and how the failure can be caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Chapter and number of the entry: `A1` to `I10`.
    pub id: &'static str,
    /// Description of what fails.
    pub failure: &'static str,
    /// What the stack does about the failure.
    pub response: &'static str,
    /// Faults that the simulation injects to cause the failure; at least one.
    pub injections: &'static [Injection],
}

/// A way to cause a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// Name of the injection, unique in the catalogue, such as `resp_crc`.
    pub name: &'static str,
    /// How the failure is caused.
    pub means: Means,
}

/// How an injection causes its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A fault that strikes one event of this kind.
    Once(Point, Strike),
    /// A fault that strikes every event of this kind, from a given one on.
    From(Point, Strike),
    /// A special card (`cards/quirks`) or controller (`controllers`); the value is the name of its
    /// profile.
    Profile(&'static str),
    /// A card whose profile gets these lines in its `[quirk]` table. Any card can be used for this.
    Quirk(&'static str),
    /// An action on the whole machine, in the random runs of a campaign: a power cut, another card in
    /// the slot, or a clock whose counter is about to overflow.
    Campaign,
    /// No injection is needed: the model checks every access.
    Always,
    /// A separate test: of an interface, of a parser, or of the order of calls.
    Test,
}

/// Letter and subject of each chapter of the catalogue of failures.
pub const CHAPTERS: [(char, &str); 9] = [
    ('A', "Link"),
    ('B', "Busy and time"),
    ('C', "Presence and power"),
    ('D', "Medium and capacity"),
    ('E', "Controller"),
    ('F', "Queue and software"),
    ('G', "Hostile cards, functions and clients"),
    ('H', "Command queue: what the models do, and what its driver owes"),
    ('I', "SPI mode: what the model does, and what its driver owes"),
];

const ENTRIES: [&[Entry]; 9] = [
    link::ENTRIES,
    busy::ENTRIES,
    presence::ENTRIES,
    medium::ENTRIES,
    controller::ENTRIES,
    queue::ENTRIES,
    hostile::ENTRIES,
    command_queue::ENTRIES,
    spi::ENTRIES,
];

/// Returns all entries, A1 first.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.into_iter().flatten()
}

/// Returns the entry with this id; `None` if there is none.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.id == id)
}

/// Returns the injection with this name, and its entry; `None` if there is none.
#[must_use]
pub fn by_injection(name: &str) -> Option<(&'static Entry, &'static Injection)> {
    entries().find_map(|entry| Some((entry, entry.injections.iter().find(|i| i.name == name)?)))
}

impl Entry {
    /// Returns the faults of which each alone causes this failure. Each strikes the nth event of its
    /// kind ([`Point`]), counted from 1. They must be tried one at a time. The list is empty if no
    /// single fault causes the failure.
    #[must_use]
    pub fn shots(&self, nth: u64) -> Vec<Shot> {
        self.injections.iter().filter_map(|injection| injection.shot(nth)).collect()
    }

    /// Returns the plans of faults of which each alone causes this failure, with the names of their
    /// injections. A plan strikes the nth event (from 1) of its kind ([`Point`]), or that event and
    /// all later ones. They must be tried one at a time.
    #[must_use]
    pub fn plans(&self, nth: u64) -> Vec<(&'static str, Plan)> {
        self.injections.iter().filter_map(|i| Some((i.name, i.plan(nth)?))).collect()
    }

    /// Returns whether a plan of faults can cause this failure.
    #[must_use]
    pub fn strikes(&self) -> bool {
        self.injections.iter().any(|injection| injection.aim().is_some())
    }
}

impl Injection {
    /// Returns the kind of event that this injection strikes, and the fault that strikes it; `None`
    /// if the injection is no fault of a plan.
    #[must_use]
    pub fn aim(&self) -> Option<(Point, Strike)> {
        match self.means {
            Means::Once(point, strike) | Means::From(point, strike) => Some((point, strike)),
            _ => None,
        }
    }

    /// Returns the fault that causes the failure at the nth event (from 1) of its kind ([`Point`]);
    /// `None` if no single fault causes the failure.
    #[must_use]
    pub fn shot(&self, nth: u64) -> Option<Shot> {
        match self.means {
            Means::Once(point, strike) => Some(Shot { point, nth, strike }),
            _ => None,
        }
    }

    /// Returns the plan of faults that strikes the nth event (from 1) of its kind ([`Point`]), or
    /// that event and all later ones; `None` if no plan causes the failure.
    #[must_use]
    pub fn plan(&self, nth: u64) -> Option<Plan> {
        match self.means {
            Means::Once(point, strike) => Some(Plan::none().shot(point, nth, strike)),
            Means::From(point, strike) => Some(Plan::none().from(point, nth, strike)),
            _ => None,
        }
    }
}

const fn entry(
    id: &'static str,
    failure: &'static str,
    response: &'static str,
    injections: &'static [Injection],
) -> Entry {
    Entry { id, failure, response, injections }
}

const fn once(name: &'static str, point: Point, strike: Strike) -> Injection {
    Injection { name, means: Means::Once(point, strike) }
}

const fn from(name: &'static str, point: Point, strike: Strike) -> Injection {
    Injection { name, means: Means::From(point, strike) }
}

const fn profile(name: &'static str) -> Injection {
    Injection { name, means: Means::Profile(name) }
}

const fn quirk(name: &'static str, lines: &'static str) -> Injection {
    Injection { name, means: Means::Quirk(lines) }
}

const fn campaign(name: &'static str) -> Injection {
    Injection { name, means: Means::Campaign }
}

const fn always(name: &'static str) -> Injection {
    Injection { name, means: Means::Always }
}

const fn test(name: &'static str) -> Injection {
    Injection { name, means: Means::Test }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;
    use std::collections::BTreeSet;

    #[test]
    fn all_entries_in_order_each_with_a_way_to_try_it() {
        let sizes = [
            ('A', 17),
            ('B', 10),
            ('C', 11),
            ('D', 10),
            ('E', 16),
            ('F', 9),
            ('G', 11),
            ('H', 21),
            ('I', 10),
        ];
        let expected: Vec<_> =
            sizes.iter().flat_map(|&(c, n)| (1..=n).map(move |i: u32| format!("{c}{i}"))).collect();
        assert_eq!(entries().map(|entry| entry.id).collect::<Vec<_>>(), expected);
        assert_eq!(entries().count(), 115);
        assert_eq!(CHAPTERS.map(|chapter| chapter.0), sizes.map(|size| size.0));
        for entry in entries() {
            assert!(!entry.injections.is_empty(), "{}", entry.id);
            assert!(entry.failure.len() > 10 && entry.response.len() > 10, "{}", entry.id);
            assert!(
                !entry.failure.contains('|') && !entry.response.contains('|'),
                "{}: for tables",
                entry.id
            );
        }
    }

    #[test]
    fn injections_have_names_of_their_own() {
        let mut names = BTreeSet::new();
        for entry in entries() {
            for injection in entry.injections {
                assert!(names.insert(injection.name), "{}: {} twice", entry.id, injection.name);
                assert_eq!(by_injection(injection.name), Some((entry, injection)));
            }
            assert_eq!(by_id(entry.id), Some(entry));
        }
        assert_eq!(by_id("A18"), None);
        assert_eq!(by_injection("resp"), None);
    }

    #[test]
    fn profiles_of_controllers_exist_and_lines_of_quirks_are_toml() {
        for entry in entries() {
            for injection in entry.injections {
                match injection.means {
                    Means::Quirk(lines) => {
                        let table: toml::Table = lines.parse().unwrap();
                        assert!(!table.is_empty(), "{}", injection.name);
                    }
                    // In the controller's chapter the profiles are those of controllers.
                    Means::Profile(name) if entry.id.starts_with('E') => {
                        assert!(crate::sdhci::Profile::named(name).is_some_and(|p| p.is_ok()), "{name}");
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn an_entry_strikes_at_the_event_it_is_told_to() {
        let shots = by_id("A1").unwrap().shots(3);
        assert_eq!(shots, [Shot { point: Point::Response, nth: 3, strike: Strike::Crc }]);
        for entry in entries() {
            let plans = entry.plans(2);
            assert_eq!(!plans.is_empty(), entry.strikes());
            for (name, plan) in plans {
                let injection = by_injection(name).unwrap().1;
                let (point, strike) = injection.aim().unwrap();
                let faults = Faults::new(plan);
                let hits = [0; 4].map(|_| faults.strike(point));
                let last = matches!(injection.means, Means::From(..)).then_some(strike);
                assert_eq!(hits, [None, Some(strike), last, last], "{name}");
            }
        }
    }
}
