//! The interface of controllers that execute several transfers from one list.
//!
//! A *chain* is a list of reads and writes in memory. For one transfer after the other, the
//! controller sends the command, transfers the data and waits for the end of busy. The controller
//! signals the end of the last transfer. Read first: [`ChainHost`].

use super::{DmaError, Fault, Phase, Segment, StartError};
use core::fmt;

/// Limits of the chains (lists of transfers) that a controller can execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainCaps {
    /// Largest number of transfers that the controller executes one after the other as one chain,
    /// with one interrupt at the end.
    pub entries: u8,
    /// Largest number of memory segments in a transfer of a chain.
    pub max_segments: u16,
    /// Largest number of bytes in a transfer of a chain.
    pub max_bytes: u32,
}

impl ChainCaps {
    /// All limits 0: no chains are possible. A driver sets its own limits and leaves the other
    /// fields at 0.
    pub const NONE: ChainCaps = ChainCaps { entries: 0, max_segments: 0, max_bytes: 0 };
}

setters!(ChainCaps { entries: u8, max_segments: u16, max_bytes: u32 });

/// Why a controller can never execute chains.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainError {
    /// The controller does not declare in its capabilities that it executes chains (lists of
    /// transfers); the value is bits 63:32 of its capabilities register.
    Capabilities(u32),
    /// The controller is older than version 4.10, or is not in version 4 mode; the value is the
    /// Specification Version Number.
    Version(u8),
    /// Chains are not possible, because the driver does not transfer data by ADMA2, or because the
    /// end of busy raises no interrupt.
    Transfer,
    /// The memory of the list cannot be used for DMA.
    List(DmaError),
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainError::Capabilities(seen) => {
                write!(f, "chains: capabilities 63:32 are {seen:#010x}, expected bit 27 (ADMA3)")
            }
            ChainError::Version(seen) => {
                write!(
                    f,
                    "chains: specification version is {seen}, expected 4 (4.10) or more, in its own mode"
                )
            }
            ChainError::Transfer => f.write_str(
                "chains: need ADMA2 and the interrupt at the end of busy, and the driver uses others",
            ),
            ChainError::List(why) => write!(f, "chains: list cannot be used for DMA: {why}"),
        }
    }
}

impl core::error::Error for ChainError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            ChainError::List(why) => Some(why),
            _ => None,
        }
    }
}

/// A failed chain. From the next reset of the lines on, the controller executes nothing of the
/// chain; until then it may access the chain's memory.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// The fault, and the stage of the transfer in which it happened. The response is the last R1
    /// that the controller received: of the failed transfer, or of the CMD23 before it. Its field
    /// `response` is `None` if the controller received none, or if the response is not reliable.
    pub fault: Fault,
    /// Number of transfers before the failed one that have ended, busy included. `None` if not
    /// known; then no transfer counts as ended.
    pub passed: Option<u8>,
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.passed {
            Some(passed) => write!(f, "{} of transfer {passed} of a chain", self.fault),
            None => write!(f, "{} of a chain, at a transfer that is not known", self.fault),
        }
    }
}

impl core::error::Error for ChainFault {}

/// Events that [`ChainHost::ack_chain`] returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChainEvents {
    /// Result of the chain (the list of transfers), if it has ended: `Ok` if all transfers ended
    /// without a fault, `Err` if one failed. `None`: it has not ended.
    pub end: Option<Result<(), ChainFault>>,
    /// Whether a function requests attention: see [`Events::card_irq`](super::Events::card_irq).
    pub card_irq: bool,
    /// Whether the state of the card slot has changed: see
    /// [`Events::presence`](super::Events::presence).
    pub presence: bool,
    /// Whether the controller requests a new tuning: see [`Events::retune`](super::Events::retune).
    pub retune: bool,
}

/// A [`Host`](super::Host) that executes chains. No method blocks.
///
/// While a chain is executed, and after its failure until a reset of the lines, no phase can be
/// started. The controller checks each R1 for errors, also those of automatic commands, and stops
/// at an error.
///
/// # Safety
/// A driver promises for a transfer's memory what [`Host`](super::Host) promises for a phase's. The
/// driver *has* the memory from the [`describe_transfer`](Self::describe_transfer) that returned
/// `Ok` with it. The driver has released the memory when
/// - [`ack_chain`](Self::ack_chain) reports the chain's end as `Ok`, or
/// - the chain was not started, and another one is [begun](Self::begin_chain), or
/// - one of the conditions is met that [`Host`](super::Host) lists beside the end of a phase: a
///   reset, a controller that is [gone](super::Cause::Gone), or isolation.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait ChainHost {
    /// Returns the limits of a chain (a list of transfers that the controller executes), or the
    /// reason why the controller can never execute chains.
    fn chain_caps(&mut self) -> Result<ChainCaps, ChainError>;

    /// Begins to describe the next chain, without transfers. Returns false if a chain is being
    /// executed.
    fn begin_chain(&mut self) -> bool;

    /// Describes the next transfer of the chain (the list of transfers): a command with data that
    /// ends by itself ([`Auto::Count`](super::Auto::Count) or [`Auto::Stop`](super::Auto::Stop)).
    /// `segments` are mapped, in order, and hold the blocks.
    ///
    /// # Errors
    /// [`StartError::Unsupported`]: the phase is no such transfer, its memory has too many
    /// segments, or the chain is full. The chain is unchanged.
    fn describe_transfer(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError>;

    /// Starts the chain. `timeout_ns` is the longest time that the card may take for data and busy
    /// of each transfer, as in [`Host::start`](super::Host::start).
    ///
    /// # Errors
    /// The errors of [`Host::start`](super::Host::start).
    fn start_chain(&mut self, timeout_ns: u64) -> Result<(), StartError>;

    /// Acknowledges all events of the controller, and returns them. Called from the interrupt, and
    /// before the engine treats a deadline as missed.
    fn ack_chain(&mut self) -> ChainEvents;

    /// Returns how many transfers of the chain have ended, as in [`ChainFault::passed`]; `None` if
    /// not known. The engine calls it when a deadline has passed.
    fn passed(&mut self) -> Option<u8>;
}
