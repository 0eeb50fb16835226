//! Stores the files of boards and cards that were read, so that many boards can use them.

use super::{CARD, Platform, PlatformError, QUANTITIES, set, tree};
use crate::known::Known;
use mmcq_sim::card::CardProfile;
use std::sync::Arc;
use toml::Table;

/// Card profiles that were read, by the card's name and its changes. All clones share one store.
#[derive(Clone, Debug, Default)]
pub struct Profiles(Arc<Known<(String, Vec<String>), CardProfile>>);

impl Profiles {
    /// Returns the profile of this card with these changes. If it is not stored yet, `read` reads
    /// it.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn get_or<E>(
        &self,
        name: &str,
        changes: &[String],
        read: impl FnOnce() -> Result<CardProfile, E>,
    ) -> Result<CardProfile, E> {
        self.0.get_or((name.to_owned(), changes.to_vec()), |_| read())
    }
}

/// Files of boards and their cards, each read and parsed only once.
#[derive(Debug, Default)]
pub struct Files {
    boards: Known<String, Arc<Table>>,
    profiles: Profiles,
}

impl Files {
    /// Loads a board as [`Platform::load_with`] does, and also returns the table that it was read
    /// from.
    ///
    /// # Errors
    /// The board's file cannot be read, or a change is wrong.
    pub fn load_with(&self, name: &str, changes: &[String]) -> Result<(Platform, Table), PlatformError> {
        let whole = self.boards.get_or(name.to_owned(), |name| tree(name, None, 0).map(Arc::new))?;
        let table = changed(Table::clone(&whole), changes)?;
        let mut platform = Platform::read(name, table.clone())?;
        let of_card = changes.iter().filter_map(|change| change.strip_prefix(CARD));
        platform.card_changes = of_card.map(str::to_owned).collect();
        platform.profiles = self.profiles.clone();
        Ok((platform, table))
    }
}

/// Returns the board's table after those changes that concern the board, not the card.
fn changed(mut table: Table, changes: &[String]) -> Result<Table, PlatformError> {
    for change in changes.iter().filter(|change| !change.starts_with(CARD)) {
        set(&mut table, change, &QUANTITIES)?;
    }
    Ok(table)
}
