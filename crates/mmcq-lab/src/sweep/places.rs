//! Stores what many points (combinations of values) of a sweep have in common: a board with its
//! card and the jobs on it, read once.

use super::{Load, hash_on};
use crate::board::{self, BoardError};
use crate::known::Known;
use crate::platform::{Files, JOB, Platform, QUANTITIES};
use crate::scene::{Loaded, Scene};
use std::convert::Infallible;
use std::sync::Arc;
use toml::Table;

/// Key by which a shared [`Place`] is found: board, card, and the changes of both and of the jobs.
type Key = (String, Option<String>, Vec<String>);

/// Boards, cards and files that several points of a grid have in common, so that all threads share
/// them.
#[derive(Debug, Default)]
pub(super) struct Places {
    files: Files,
    cards: Known<(String, Vec<String>), Arc<str>>,
    known: Known<Key, Arc<Place>>,
}

/// What points of the grid share if they differ only in setting and seed: board, card and jobs.
#[derive(Debug)]
pub(super) struct Place {
    /// Board and jobs, loaded, or the reason why they cannot be loaded.
    pub loaded: Result<Loaded, String>,
    /// Hashes that identify everything on which a run depends, or an error.
    pub configuration: Result<Configuration, String>,
}

/// Hashes over all values of board, card and job options that a run depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    /// Hash over all values of board, card and jobs that a run depends on.
    pub whole: u64,
    /// Hash over all values that a run depends on, without the CPU costs of software: the physical
    /// limit does not depend on these costs.
    pub unpriced: u64,
}

impl Places {
    /// Returns the loaded board and jobs, and their hashes, for this board, card and list of
    /// changes. They are loaded once, and then stored for all points of the sweep that have the
    /// same three.
    pub fn of(&self, scene: &Scene, load: &Load) -> Arc<Place> {
        let key = (scene.platform.clone(), scene.card.clone(), scene.set.clone());
        let made = self.known.get_or(key, |_| Ok::<_, Infallible>(Arc::new(self.read(scene, load))));
        let Ok(place) = made;
        place
    }

    fn read(&self, scene: &Scene, load: &Load) -> Place {
        let (of_jobs, of_board): (Vec<String>, Vec<String>) =
            scene.set.iter().cloned().partition(|change| change.starts_with(JOB));
        let read = self.files.load_with(&scene.platform, &of_board);
        let configuration = match &read {
            Ok((board, table)) => self.configuration(board, table.clone(), scene.card.as_deref(), &of_jobs),
            Err(error) => Err(error.clone().into()),
        };
        let board = |_: &[String]| read.map(|(board, _)| board);
        let loaded = match load {
            Load::Jobs(file) => scene.load_on(file, &scene.set, board),
            Load::Trace { workers, .. } => scene.load_workers_on(workers, &scene.set, board),
        };
        Place {
            loaded: loaded.map_err(|error| error.to_string()),
            configuration: configuration.map_err(|error| error.to_string()),
        }
    }

    fn configuration(
        &self,
        board: &Platform,
        mut table: Table,
        card: Option<&str>,
        of_jobs: &[String],
    ) -> Result<Configuration, BoardError> {
        let name = card.unwrap_or(&board.card).to_owned();
        let card = self.cards.get_or((name, board.card_changes.clone()), |(name, _)| {
            board::table(board, Some(name)).map(|table| table.to_string().into())
        })?;
        let of_jobs = of_jobs.join("\n");
        let hash = |table: &Table| hash_on(super::NOTHING, &[&format!("{table}\n{card}\n{of_jobs}")]);
        table.remove("description");
        let whole = hash(&table);
        QUANTITIES.iter().for_each(|section| drop(table.remove(*section)));
        Ok(Configuration { whole, unpriced: hash(&table) })
    }
}
