//! Errors about a profile; the text of each error is one line.

use super::super::medium::MediumError;

/// Reasons why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The text is not valid TOML, or has a key that is not known.
    #[error("{name}:{line}: {message}")]
    Toml {
        /// Name of the profile.
        name: String,
        /// Number of the line, counted from 1.
        line: usize,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// A key has a value that the card cannot have.
    #[error("{name}:{line}: `{key} = {value}`: expected {expected}")]
    Value {
        /// Name of the profile.
        name: String,
        /// Number of the line, counted from 1.
        line: usize,
        /// Name of the key in the profile.
        key: String,
        /// Value that the profile gives.
        value: String,
        /// Description of the values that are allowed.
        expected: String,
    },
    /// The registers of the card cannot express this capacity.
    #[error("{name}: a capacity of {bytes} bytes: expected {expected}")]
    Capacity {
        /// Name of the profile.
        name: String,
        /// Requested capacity in bytes.
        bytes: u64,
        /// Capacities that the registers can express.
        expected: String,
    },
    /// The medium has fewer bytes than the card's registers show.
    #[error(
        "{name}: the card claims {capacity} bytes, but the medium has only {bytes}; expected at least as many"
    )]
    MediumTooSmall {
        /// Name of the profile.
        name: String,
        /// Capacity in bytes that the registers show.
        capacity: u64,
        /// Size of the medium in bytes.
        bytes: u64,
    },
    /// The profile describes another kind of card than the caller requested.
    #[error("{name}: {wanted} was asked for, but the profile is {is}")]
    OtherKind {
        /// Name of the profile.
        name: String,
        /// Requested kind of card.
        wanted: &'static str,
        /// Kind of card that the profile describes.
        is: &'static str,
    },
    /// The memory of a partition cannot be made.
    #[error(transparent)]
    Medium(#[from] MediumError),
}
