//! Models of Linux's block stack: its scheduler, tags, workers and software queue, with their CPU
//! costs, in front of mmcq's engine and driver.
//!
//! They are part of the laboratory only, so that the behaviour of old Linux versions never enters
//! the core.

pub mod cqe;
pub mod elevator;
pub mod hsq;
pub mod port;
pub mod raw;
pub mod reader;
mod split;
pub mod tags;
pub mod worker;

#[cfg(test)]
mod standin;

use crate::system::System;
use elevator::Request;

/// An operation that the controller has finished, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A transfer of a request's data.
    Transfer {
        /// Whether the transfer succeeded.
        ok: bool,
    },
    /// A status poll (CMD13); the field is the card status from R1.
    Status(u32),
    /// The command that starts a flush (CMD6). The card may still be busy with the flush.
    Flush {
        /// Whether the command succeeded.
        ok: bool,
    },
}

/// Port to the controller, for one operation at a time. Its methods charge the CPU costs of
/// starting an operation and of acknowledging its interrupt.
pub trait Port {
    /// Starts the transfer of a request.
    fn transfer(&mut self, sys: &mut System, request: &Request);

    /// Starts a poll of the card's status (CMD13).
    fn status(&mut self, sys: &mut System);

    /// Starts a flush of the card's cache (CMD6). Never called on a port without flushes.
    fn flush(&mut self, sys: &mut System) {
        let _ = sys;
    }

    /// Handles an interrupt of the controller. Returns the operation that has finished; `None`:
    /// none has.
    fn irq(&mut self, sys: &mut System) -> Option<Ended>;

    /// Returns whether the controller would refuse a transfer now, because the card is busy.
    fn busy(&self) -> bool;

    /// Runs the work item of the host driver, if the driver has one
    /// ([`Step::HostWork`](crate::system::Step::HostWork)). Returns the operation that has
    /// finished, if any.
    fn work(&mut self, sys: &mut System) -> Option<Ended> {
        let _ = sys;
        None
    }

    /// Handles a timer of the port that has expired; `number` is the number of the timer. Returns
    /// the operation that has finished; `None`: none has.
    fn timer(&mut self, sys: &mut System, number: u64) -> Option<Ended> {
        let _ = (sys, number);
        None
    }
}

/// Returns whether this card status (R1) has READY_FOR_DATA and the state `tran` [eMMC 6.13].
fn ready(status: u32) -> bool {
    status & (1 << 8) != 0 && (status >> 9) & 0xf == 4
}
