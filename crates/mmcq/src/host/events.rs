//! Reports of a driver to the engine: how a phase (a command with its data and busy) ended, and
//! other events of the controller.

use crate::spec::response::Response;

/// Why a command, its data or its busy failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The response, the data or the end of busy did not arrive in time.
    Timeout,
    /// The CRC of the response or of the data is wrong.
    Crc,
    /// The end bit of the response or of the data was not 1.
    EndBit,
    /// The response carried the index of another command.
    Index,
    /// The DMA found a bad descriptor, or the memory bus reported an error.
    Dma,
    /// The card draws too much current.
    Power,
    /// The response had error bits that the controller itself checked [SDHC 4.x response error].
    Response,
    /// The controller's registers read as all ones: the controller is off the bus, and accesses no
    /// memory.
    Gone,
    /// The card's data line is low all the time (SPI mode), which no card does. The line is not
    /// connected or shorted, or its port is not set up.
    LineLow,
    /// Any other error that the controller reports.
    Other,
}

/// Part of a [`Phase`](super::Phase) in which a fault happened: command, data and so on.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The command or its response failed.
    Command,
    /// The data failed, or the busy after them.
    Data,
    /// An automatic CMD12 failed.
    Stop,
    /// An automatic CMD23 failed.
    Count,
    /// The busy after an R1b response failed.
    Busy,
}

/// Why a [`Phase`](super::Phase) (a command with its data and busy) has failed: cause, stage, and
/// response.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Cause of the failure.
    pub cause: Cause,
    /// The part of the work that failed: the command, the data or the busy.
    pub stage: Stage,
    /// The command's response, if the controller received it.
    pub response: Option<Response>,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (party, what) = explain(self.cause, self.stage);
        write!(f, "{party} {what}")
    }
}

/// Explains a failed command in words: returns which device failed and how, as the subject of a
/// sentence and its predicate.
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

/// The end of a phase (a command with its data and busy) without a fault. The engine checks the R1
/// itself: a driver returns what the card sent, error bits included, and reports a fault only for
/// errors that the controller detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The command's response, error bits included.
    pub response: Response,
    /// The R1 of the CMD12 that the controller has sent itself after the data; `None`: it sent
    /// none.
    pub stop: Option<u32>,
    /// After a tuning command: whether the controller has found its sampling point.
    pub tuned: bool,
}

/// The end of a phase (a command with its data and busy) that has an R1 and no fault, in the short
/// form of [`Host::ack_fast`](super::Host::ack_fast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastEnd {
    /// The command's R1.
    pub status: u32,
    /// The R1 of the CMD12 that the controller has sent itself after the data; 0: it sent none.
    pub stop: u32,
}

impl FastEnd {
    /// Converts this short form of a successful end to the full [`Events`]. `stopped`: the
    /// controller sent CMD12 by itself at the end of the phase (the command with its data), so
    /// `stop` has its response.
    pub fn events(self, stopped: bool) -> Events {
        let stop = stopped.then_some(self.stop);
        let done = Done { response: Response::short(self.status), stop, tuned: false };
        Events { phase: Some(Ok(done)), ..Events::default() }
    }
}

/// Events that [`Host::ack`](super::Host::ack) returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    /// Result of the work in progress (a command with its data and busy), if that has ended;
    /// `None`: it has not ended.
    pub phase: Option<Result<Done, Fault>>,
    /// Whether a function on the card requests attention (DAT1 low). The driver masks the card
    /// interrupt until [`Host::card_irq`](super::Host::card_irq) enables it again.
    pub card_irq: bool,
    /// Whether the state of the card slot has changed: a card was inserted, a card was removed, or
    /// both. [`Host::present`](super::Host::present) tells whether a card is in the slot now.
    pub presence: bool,
    /// Whether the controller requests a new tuning [SDHC 2.2.18 re-tuning event].
    pub retune: bool,
    /// Whether the driver has acknowledged an interrupt of its controller. True shows on a shared
    /// interrupt line that this controller interrupted, even if no other field reports an event
    /// (for example after a part of a PIO transfer). The driver for SPI reports the end of each
    /// exchange: the port handles the interrupts within one.
    pub acknowledged: bool,
}

impl Events {
    /// Returns the successful end of a phase in its short form, if these events are nothing else.
    #[inline]
    pub(crate) fn in_short(self) -> Result<FastEnd, Events> {
        match self {
            Events { phase: Some(Ok(done)), card_irq: false, presence: false, retune: false, .. } => {
                Ok(FastEnd { status: done.response.words[0], stop: done.stop.unwrap_or(0) })
            }
            events => Err(events),
        }
    }
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
