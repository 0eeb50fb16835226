//! Controllers that execute several transfers from one list.
//!
//! A *chain* is a list of reads and writes in memory. The controller sends each command, transfers
//! its data and waits for its busy, one after the other, and signals the end of the last. Read
//! first: [`ChainHost`].

use super::{DmaError, Fault, Phase, Segment, StartError};
use core::fmt;

/// The limits of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainCaps {
    /// Most transfers in a chain.
    pub entries: u8,
    /// Most segments of memory in a transfer.
    pub max_segments: u16,
    /// Most bytes in a transfer.
    pub max_bytes: u32,
}

impl ChainCaps {
    /// No chains: a driver sets its own values, and takes the rest from here.
    pub const NONE: ChainCaps = ChainCaps { entries: 0, max_segments: 0, max_bytes: 0 };
}

setters!(ChainCaps { entries: u8, max_segments: u16, max_bytes: u32 });

/// Why a controller never executes chains.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainError {
    /// The controller does not declare it: its capabilities, bits 63:32.
    Capabilities(u32),
    /// The controller is older than version 4.10, or not in that version's mode: Specification
    /// Version Number.
    Version(u8),
    /// The driver does not transfer data by ADMA2, or the end of busy does not interrupt.
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

/// A chain that failed. After the next reset of the lines nothing of it is executed any more; until
/// then the controller has its memory.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// The fault, and where in the transfer it happened. The response is the last R1 that the
    /// controller had: of the transfer that failed, or of the CMD23 before it. `None`: no response
    /// came, or it cannot be relied on.
    pub fault: Fault,
    /// Number of transfers before the failed one that have ended, busy included. `None`: not known,
    /// and none of them counts as ended.
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
    /// End of the chain: all its transfers have ended well, or one has failed.
    pub end: Option<Result<(), ChainFault>>,
    /// As [`Events::card_irq`](super::Events::card_irq).
    pub card_irq: bool,
    /// As [`Events::presence`](super::Events::presence).
    pub presence: bool,
    /// As [`Events::retune`](super::Events::retune).
    pub retune: bool,
}

/// A [`Host`](super::Host) that executes chains. No method blocks.
///
/// While a chain is executed, and after its failure until a reset of the lines, no phase can be
/// started. The controller checks each R1 for errors, of automatic commands too, and stops there.
///
/// # Safety
/// A driver promises for a transfer's memory what [`Host`](super::Host) promises for a phase's. It
/// *has* the memory from the [`describe_transfer`](Self::describe_transfer) that returned `Ok` with
/// it. It has released it when
/// - [`ack_chain`](Self::ack_chain) reports the chain's end as `Ok`, or
/// - the chain was not started, and another one is [begun](Self::begin_chain), or
/// - one of the ends of [`Host`](super::Host) that need no `Ok` of a phase: a reset, a controller
///   that is [gone](super::Cause::Gone), or isolation.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait ChainHost {
    /// Returns the limits of a chain, or the reason why there are never chains.
    fn chain_caps(&mut self) -> Result<ChainCaps, ChainError>;

    /// Begins the next chain, without transfers. Returns false if one is being executed.
    fn begin_chain(&mut self) -> bool;

    /// Describes the next transfer of the chain: a command with data that ends by itself
    /// ([`Auto::Count`](super::Auto::Count) or [`Auto::Stop`](super::Auto::Stop)). `segments` are
    /// mapped, in order, and hold the blocks.
    ///
    /// # Errors
    /// [`StartError::Unsupported`]: the phase is no such transfer, its memory has too many
    /// segments, or the chain is full. The chain is unchanged.
    fn describe_transfer(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError>;

    /// Starts the chain. `timeout_ns`: as in [`Host::start`](super::Host::start), for each of its
    /// transfers.
    ///
    /// # Errors
    /// As [`Host::start`](super::Host::start).
    fn start_chain(&mut self, timeout_ns: u64) -> Result<(), StartError>;

    /// Acknowledges all events of the controller, and returns them. Called from the interrupt, and
    /// before a deadline counts as missed.
    fn ack_chain(&mut self) -> ChainEvents;

    /// Returns how many transfers have ended ([`ChainFault::passed`]). Called when a deadline has
    /// passed.
    fn passed(&mut self) -> Option<u8>;
}
