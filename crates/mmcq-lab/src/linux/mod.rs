//! Settings that stand for Linux: its scheduler, tags, workers and software queue, with their
//! costs, in front of the same engine and driver.
//!
//! They live here, in the laboratory, so that historic behaviour never enters the core.

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

/// What the controller finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A transfer, well or not.
    Transfer {
        /// Well.
        ok: bool,
    },
    /// A status poll, with the card's R1.
    Status(u32),
    /// The command of a flush, well or not. The card may be busy with it.
    Flush {
        /// Well.
        ok: bool,
    },
}

/// The way to the controller, one thing at a time. Costs of starting and of acknowledging are
/// charged inside.
pub trait Port {
    /// Starts a request.
    fn transfer(&mut self, sys: &mut System, request: &Request);

    /// Asks the card for its status (CMD13).
    fn status(&mut self, sys: &mut System);

    /// Starts a flush of the card's cache (CMD6). A port without one never has to.
    fn flush(&mut self, sys: &mut System) {
        let _ = sys;
    }

    /// Takes an interrupt.
    fn irq(&mut self, sys: &mut System) -> Option<Ended>;

    /// The controller would refuse a transfer now, because the card is busy.
    fn busy(&self) -> bool;

    /// The work item of the host driver runs, if it has one
    /// ([`Step::HostWork`](crate::system::Step::HostWork)).
    fn work(&mut self, sys: &mut System) -> Option<Ended> {
        let _ = sys;
        None
    }

    /// A timer that the port has set went off.
    fn timer(&mut self, sys: &mut System, number: u64) -> Option<Ended> {
        let _ = (sys, number);
        None
    }
}

/// R1: READY_FOR_DATA, and the state field says `tran` [eMMC 6.13].
fn ready(status: u32) -> bool {
    status & (1 << 8) != 0 && (status >> 9) & 0xf == 4
}
