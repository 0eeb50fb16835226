//! Models of Linux's settings: its scheduler, tags, workers and software queue, with their costs,
//! in front of mmcq's engine and driver.
//!
//! They are in the laboratory, so that historic behaviour never enters the core.

pub mod cqe;
pub mod elevator;
pub mod hsq;
pub mod port;
pub mod raw;
pub mod reader;
pub mod tags;
pub mod worker;

#[cfg(test)]
mod standin;

use crate::system::System;
use elevator::Request;

/// An operation that the controller finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A transfer.
    Transfer {
        /// Whether it succeeded.
        ok: bool,
    },
    /// A status poll; the field is the card's R1.
    Status(u32),
    /// The command of a flush. The card may still be busy with it.
    Flush {
        /// Whether it succeeded.
        ok: bool,
    },
}

/// Port to the controller, for one operation at a time. Costs of starting and of acknowledging are
/// charged inside.
pub trait Port {
    /// Starts a request.
    fn transfer(&mut self, sys: &mut System, request: &Request);

    /// Polls the card's status (CMD13).
    fn status(&mut self, sys: &mut System);

    /// Starts a flush of the card's cache (CMD6). Never called on a port without flushes.
    fn flush(&mut self, sys: &mut System) {
        let _ = sys;
    }

    /// Handles an interrupt. Returns what has finished.
    fn irq(&mut self, sys: &mut System) -> Option<Ended>;

    /// Returns whether the controller would refuse a transfer now, because the card is busy.
    fn busy(&self) -> bool;

    /// Runs the work item of the host driver, if it has one
    /// ([`Step::HostWork`](crate::system::Step::HostWork)).
    fn work(&mut self, sys: &mut System) -> Option<Ended> {
        let _ = sys;
        None
    }

    /// Handles the expiry of a timer that the port has set.
    fn timer(&mut self, sys: &mut System, number: u64) -> Option<Ended> {
        let _ = (sys, number);
        None
    }
}

/// Returns whether R1 has READY_FOR_DATA and the state `tran` [eMMC 6.13].
fn ready(status: u32) -> bool {
    status & (1 << 8) != 0 && (status >> 9) & 0xf == 4
}
