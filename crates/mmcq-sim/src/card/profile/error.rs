//! Errors about a profile: one line each.

use super::super::medium::MediumError;

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The text is not the expected TOML.
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
        /// Values that would be right.
        expected: String,
    },
    /// A capacity that the card's registers cannot express.
    #[error("{name}: a capacity of {bytes} bytes: expected {expected}")]
    Capacity {
        /// The profile.
        name: String,
        /// What was asked for.
        bytes: u64,
        /// Capacities that the registers can express.
        expected: String,
    },
    /// The medium has fewer bytes than the card claims.
    #[error(
        "{name}: the card claims {capacity} bytes, but the medium has only {bytes}; expected at least as many"
    )]
    MediumTooSmall {
        /// The profile.
        name: String,
        /// Capacity in the registers.
        capacity: u64,
        /// Size of the medium.
        bytes: u64,
    },
    /// The profile is of another kind of card than requested.
    #[error("{name}: {wanted} was asked for, but the profile is {is}")]
    OtherKind {
        /// The profile.
        name: String,
        /// Requested kind.
        wanted: &'static str,
        /// Kind of the profile.
        is: &'static str,
    },
    /// The memory of a partition cannot be made.
    #[error(transparent)]
    Medium(#[from] MediumError),
}
