//! Reports of a driver: how a phase ended, and other events of the controller.

use crate::spec::response::Response;

/// What went wrong in a phase.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No response, no data or no end of busy in time.
    Timeout,
    /// CRC error.
    Crc,
    /// The end bit was not 1.
    EndBit,
    /// The response had another command's index.
    Index,
    /// DMA: bad descriptor or bus error.
    Dma,
    /// The card draws too much current.
    Power,
    /// The response had error bits that the controller checked itself [SDHC 4.x response error].
    Response,
    /// The controller reads as all ones: it is off the bus, and accesses no memory.
    Gone,
    /// The card's data line is low all the time (SPI mode), which no card does. It is not
    /// connected, or shorted, or its port is not set up.
    LineLow,
    /// Anything else that the controller calls an error.
    Other,
}

/// Part of a phase in which a fault happened.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The command or its response.
    Command,
    /// The data, or the busy after it.
    Data,
    /// An automatic CMD12.
    Stop,
    /// An automatic CMD23.
    Count,
    /// Busy after an R1b response.
    Busy,
}

/// A failed phase.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The fault.
    pub cause: Cause,
    /// The part of the phase.
    pub stage: Stage,
    /// The command's response, if it came.
    pub response: Option<Response>,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (party, what) = explain(self.cause, self.stage);
        write!(f, "{party} {what}")
    }
}

/// Returns who failed in a phase, and how: the subject of a sentence, and the rest of it.
pub(super) const fn explain(cause: Cause, stage: Stage) -> (&'static str, &'static str) {
    let of_card = match stage {
        Stage::Command => "the card's answer",
        Stage::Data => "the card's data, or the busy after them,",
        Stage::Stop => "the card's answer to the automatic CMD12",
        Stage::Count => "the card's answer to the automatic CMD23",
        Stage::Busy => "the end of the card's busy",
    };
    match cause {
        Cause::Timeout => (of_card, "did not come in time"),
        Cause::Crc => (of_card, "had a bad CRC"),
        Cause::EndBit => (of_card, "had a bad end bit"),
        Cause::Index => (of_card, "named another command"),
        Cause::Response => (of_card, "had error bits"),
        Cause::Dma => ("the controller's DMA", "failed"),
        Cause::Power => ("the card", "draws too much current"),
        Cause::Gone => ("the controller", "is off the bus: it reads as all ones"),
        Cause::LineLow => ("the card's line", "is low all the time: not wired, or its port is not set up"),
        Cause::Other => ("the controller", "reports an error that it does not name"),
    }
}

impl core::error::Error for Fault {}

/// A phase that ended well. The engine checks an R1 itself: a driver returns what the card sent,
/// error bits included, and reports a fault only for what the controller found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The command's response.
    pub response: Response,
    /// The R1 of an automatic CMD12.
    pub stop: Option<u32>,
    /// Whether the controller has found its sampling point, in tuning.
    pub tuned: bool,
}

/// A phase with an R1 that ended well, in short form: see
/// [`Host::ack_fast`](super::Host::ack_fast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastEnd {
    /// The command's R1.
    pub status: u32,
    /// The R1 of an automatic CMD12; 0 without one.
    pub stop: u32,
}

impl FastEnd {
    /// Returns the same end in full. `stopped`: the phase had an automatic CMD12.
    pub fn events(self, stopped: bool) -> Events {
        let stop = stopped.then_some(self.stop);
        let done = Done { response: Response::short(self.status), stop, tuned: false };
        Events { phase: Some(Ok(done)), ..Events::default() }
    }
}

/// Events that [`Host::ack`](super::Host::ack) returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    /// End of the phase in progress.
    pub phase: Option<Result<Done, Fault>>,
    /// Whether a function on the card requests attention. The card interrupt is masked until
    /// [`Host::card_irq`](super::Host::card_irq) unmasks it.
    pub card_irq: bool,
    /// Whether a card was inserted or removed.
    pub presence: bool,
    /// Whether the controller requests a new tuning [SDHC 2.2.18 re-tuning event].
    pub retune: bool,
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_fault_names_who_failed_and_where() {
        let said = |cause, stage| Fault { cause, stage, response: None }.to_string();
        assert_eq!(said(Cause::Timeout, Stage::Command), "the card's answer did not come in time");
        assert_eq!(said(Cause::Crc, Stage::Stop), "the card's answer to the automatic CMD12 had a bad CRC");
        assert_eq!(said(Cause::Timeout, Stage::Busy), "the end of the card's busy did not come in time");
        assert_eq!(said(Cause::Dma, Stage::Data), "the controller's DMA failed");
    }
}
