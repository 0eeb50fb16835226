//! Grids of runs: which points there are, what a row says of one, and how a file of rows that was
//! broken off is gone on with.

#[cfg(feature = "parquet")]
pub mod columns;
pub mod grid;
pub mod heat;
pub mod kept;
pub mod listed;
pub mod plan;
pub mod row;

pub use grid::{Axis, Grid};
pub use plan::{Done, Sweep};
pub use row::{Format, Row};

pub use mmcq_sim::parallel::Shard;

use crate::board::{self, BoardError};
use crate::platform::{self, JOB, Platform};

/// FNV-1a, 64 bits: the same on every machine and in every version of Rust.
pub fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// All of a board, its card and the changed job options that a run depends on, as text. `priced`:
/// with the prices of software, which the physical limit does not depend on.
///
/// # Errors
/// The board or the card cannot be read, or a change is wrong.
pub fn configuration(
    platform: &str,
    card: Option<&str>,
    changes: &[String],
    priced: bool,
) -> Result<String, BoardError> {
    let (of_jobs, of_board): (Vec<String>, Vec<String>) =
        changes.iter().cloned().partition(|change| change.starts_with(JOB));
    let board = Platform::load_with(platform, &of_board)?;
    let mut table = platform::table_with(platform, &of_board)?;
    table.remove("description");
    if !priced {
        platform::QUANTITIES.iter().for_each(|section| drop(table.remove(*section)));
    }
    let card = board::card_table(card.unwrap_or(&board.card), &board.card_changes)?;
    Ok(format!("{table}\n{card}\n{}", of_jobs.join("\n")))
}
