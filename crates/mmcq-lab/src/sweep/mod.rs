//! Sweeps over grids of runs: the points of a grid, the rows of a point, and how an interrupted
//! sweep continues.

#[cfg(feature = "parquet")]
pub mod columns;
pub mod grid;
pub mod heat;
pub mod kept;
pub mod listed;
mod load;
pub mod picture;
mod places;
pub mod plan;
pub mod row;
mod told;

pub use grid::{Axis, Grid};
pub use load::Load;
pub use plan::{Done, Sweep};
pub use row::{Format, Row};

pub use mmcq_sim::parallel::Shard;

/// FNV-1a hash of empty input.
const NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the FNV-1a hash (64 bits) of these texts. It is the same on every machine and in every
/// version of Rust.
pub fn hash(parts: &[&str]) -> u64 {
    hash_on(NOTHING, parts)
}

/// Continues the FNV-1a hash `before` over the texts `parts`.
fn hash_on(before: u64, parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(before, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
