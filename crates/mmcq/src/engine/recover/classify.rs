//! Kinds of failures, and the trace of recovery.

use super::super::Error;
use super::super::outcome::not_written;
use crate::host::{Cause, Direction, Stage};
use crate::spec::response::R1;

/// The steps of recovery from a failure. Their numbers are for statistics; docs/recovery.md has the
/// order in which recovery takes them.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryStep {
    /// Decides of which kind the failure is, such as damage on the bus or a refusal of the card.
    Classify,
    /// Counts those pieces of the request as done that were sent before the failure and have
    /// certainly succeeded.
    Salvage,
    /// Resets the lines, and reads the card's state (CMD13).
    Status,
    /// Sends CMD12, which stops the card's transfer.
    Stop,
    /// Tries the transfer again in the same bus mode, at last block by block.
    Retry,
    /// Requests a new tuning from the supervisor.
    Retune,
    /// Requests a slower bus timing from the supervisor.
    Slower,
    /// Resets the whole controller.
    Reset,
    /// Initialises the card again.
    Reinit,
    /// Switches the card's power off and on.
    PowerCycle,
    /// Gives the card up: every request is answered with an error.
    Dead,
}

impl RecoveryStep {
    /// Number of steps that recovery knows, from the weakest to the strongest.
    pub const COUNT: usize = 11;

    /// All steps of recovery, from the weakest to the strongest, in the order of
    /// [`Stats::recovery_steps`](crate::engine::Stats::recovery_steps).
    pub const ALL: [RecoveryStep; Self::COUNT] = [
        RecoveryStep::Classify,
        RecoveryStep::Salvage,
        RecoveryStep::Status,
        RecoveryStep::Stop,
        RecoveryStep::Retry,
        RecoveryStep::Retune,
        RecoveryStep::Slower,
        RecoveryStep::Reset,
        RecoveryStep::Reinit,
        RecoveryStep::PowerCycle,
        RecoveryStep::Dead,
    ];
}

/// A step of recovery that was taken.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryEvent {
    /// When the step was taken, in nanoseconds.
    pub at_ns: u64,
    /// The card's status since this failure: the OR of all R1 that have come while it is being
    /// handled.
    pub status: u32,
    /// The step of recovery that the engine took for this failure.
    pub step: RecoveryStep,
}

/// The last steps that recovery has taken, with their times.
#[derive(Debug)]
pub(in super::super) struct Trace {
    // Separate arrays, since an array of structures would take a quarter more memory.
    at_ns: [u64; Trace::LENGTH],
    status: [u32; Trace::LENGTH],
    step: [RecoveryStep; Trace::LENGTH],
    /// Number of recovery steps since the engine was made, modulo 2^32.
    count: u32,
}

impl Trace {
    /// Number of the last steps of recovery that are stored; fewer on small cores, which have
    /// little memory.
    const LENGTH: usize = if cfg!(target_pointer_width = "64") { 16 } else { 8 };

    pub const fn new() -> Self {
        let (at_ns, status) = ([0; Self::LENGTH], [0; Self::LENGTH]);
        Trace { at_ns, status, step: [RecoveryStep::Classify; Self::LENGTH], count: 0 }
    }

    pub fn push(&mut self, event: RecoveryEvent) {
        let place = self.count as usize % Self::LENGTH;
        (self.at_ns[place], self.status[place], self.step[place]) = (event.at_ns, event.status, event.step);
        self.count = self.count.wrapping_add(1);
    }

    /// Returns the stored steps of recovery, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = RecoveryEvent> + '_ {
        let (kept, count) = ((self.count).min(Self::LENGTH as u32), self.count);
        (0..kept).map(move |n| {
            let place = count.wrapping_sub(kept - n) as usize % Self::LENGTH;
            RecoveryEvent { at_ns: self.at_ns[place], status: self.status[place], step: self.step[place] }
        })
    }
}

/// Classes of failures, which decide what recovery tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The card has refused the command, and would refuse it again.
    Refused,
    /// The card and the bus work, but the card reports that it cannot read or write the blocks.
    Medium,
    /// A token of the command or its response is damaged (the card may have executed it), or
    /// missing.
    Command {
        /// Whether the command or its response arrived damaged (wrong CRC, end bit or index), and
        /// not only failed to arrive: then a better sampling point may help.
        damaged: bool,
    },
    /// A data block is damaged or missing.
    Data {
        /// Whether a block is damaged: then a better sampling point may help.
        damaged: bool,
    },
    /// The controller itself failed, or is silent.
    Controller,
    /// No further try can help; for example, the card is gone, or the host does not support the
    /// operation.
    Hopeless,
}

impl Class {
    pub fn of(error: Error) -> Class {
        match error {
            Error::Host(fault) => {
                let damaged = matches!(fault.cause, Cause::Crc | Cause::EndBit | Cause::Index);
                match (fault.cause, fault.stage) {
                    (Cause::Gone, _) => Class::Hopeless,
                    (Cause::Dma | Cause::Power | Cause::Other, _) => Class::Controller,
                    (_, Stage::Data | Stage::Busy) => Class::Data { damaged },
                    _ => Class::Command { damaged },
                }
            }
            Error::Card(status) | Error::Program(status) => match status {
                // The bit belongs to the read before, which went ahead beyond the end of the card:
                // no request is out of range.
                _ if status & (R1::OWN | R1::WP_VIOLATION) == R1::OUT_OF_RANGE => {
                    Class::Command { damaged: false }
                }
                _ if status & (R1::OWN | R1::WP_VIOLATION) != 0 => Class::Refused,
                _ => Class::Medium,
            },
            Error::Locked | Error::Protected => Class::Refused,
            Error::Silent => Class::Controller,
            _ => Class::Hopeless,
        }
    }

    pub fn damaged(self) -> bool {
        matches!(self, Class::Command { damaged: true } | Class::Data { damaged: true })
    }

    /// Returns the number of tries in the same bus mode beyond the first.
    pub fn retries(self) -> u8 {
        match self {
            Class::Refused | Class::Hopeless => 0,
            Class::Command { .. } => 5,
            Class::Medium | Class::Data { .. } | Class::Controller => 2,
        }
    }
}

/// Returns the error that the card's status shows, which says more about a failed data transfer
/// than the controller's own report; `None`: the status shows no error.
pub(super) fn by_status(status: u32, direction: Direction) -> Option<Error> {
    const TELLING: u32 = R1::WP_VIOLATION | R1::CARD_ECC_FAILED | R1::CC_ERROR | R1::ERROR;
    (status & TELLING != 0).then_some(match direction {
        Direction::Read => Error::Card(status),
        Direction::Write => not_written(status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Fault;

    #[test]
    fn the_trace_keeps_the_last_steps_in_order() {
        let mut trace = Trace::new();
        assert_eq!(trace.iter().count(), 0);
        for at_ns in 0..40 {
            trace.push(RecoveryEvent { at_ns, status: 0, step: RecoveryStep::Stop });
            let kept = trace.iter().count() as u64;
            assert_eq!(kept, (at_ns + 1).min(16));
            assert!(trace.iter().map(|e| e.at_ns).eq(at_ns + 1 - kept..=at_ns));
        }
    }

    #[test]
    fn failures_are_told_apart() {
        let fault = |cause, stage| Error::Host(Fault { cause, stage, response: None });
        for (error, class) in [
            (fault(Cause::Crc, Stage::Command), Class::Command { damaged: true }),
            (fault(Cause::Timeout, Stage::Count), Class::Command { damaged: false }),
            (fault(Cause::EndBit, Stage::Data), Class::Data { damaged: true }),
            (fault(Cause::Timeout, Stage::Busy), Class::Data { damaged: false }),
            (fault(Cause::Dma, Stage::Data), Class::Controller),
            (fault(Cause::Gone, Stage::Command), Class::Hopeless),
            (Error::Card(R1::OUT_OF_RANGE), Class::Command { damaged: false }),
            (Error::Card(R1::OUT_OF_RANGE | R1::ERASE_PARAM), Class::Refused),
            (Error::Card(R1::ADDRESS_ERROR), Class::Refused),
            (Error::Program(R1::WP_VIOLATION), Class::Refused),
            (Error::Card(R1::CARD_ECC_FAILED), Class::Medium),
            (Error::Protected, Class::Refused),
            (Error::Silent, Class::Controller),
            (Error::Unsupported, Class::Hopeless),
        ] {
            assert_eq!(Class::of(error), class, "{error:?}");
        }
    }
}
