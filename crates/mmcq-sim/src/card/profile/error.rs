//! What can be wrong with a profile: one line each.

use super::super::medium::MediumError;

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not the expected TOML.
    #[error("{name}:{line}: {message}")]
    Toml {
        /// The profile.
        name: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// A key has a value that the card cannot have.
    #[error("{name}:{line}: `{key} = {value}`: expected {expected}")]
    Value {
        /// The profile.
        name: String,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// A capacity that the card's registers cannot say.
    #[error("{name}: a capacity of {bytes} bytes: expected {expected}")]
    Capacity {
        /// The profile.
        name: String,
        /// What was asked for.
        bytes: u64,
        /// What the registers can say.
        expected: String,
    },
    /// The medium has fewer bytes than the card claims.
    #[error(
        "{name}: the card claims {capacity} bytes, but the medium has only {bytes}; expected at least as many"
    )]
    MediumTooSmall {
        /// The profile.
        name: String,
        /// Claim of the registers.
        capacity: u64,
        /// Size of the medium.
        bytes: u64,
    },
    /// Built as another kind of card than it is.
    #[error("{name}: {wanted} was asked for, but the profile is {is}")]
    OtherKind {
        /// The profile.
        name: String,
        /// Asked for.
        wanted: &'static str,
        /// What it is.
        is: &'static str,
    },
    /// A partition's memory could not be made.
    #[error(transparent)]
    Medium(#[from] MediumError),
}
