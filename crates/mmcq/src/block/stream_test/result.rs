//! Results of a test of open transfers: of each case, and of all cases together.

use super::case::StreamCase;
use crate::engine::{BLOCK_BYTES, Error};
use core::fmt;

/// The times of one run. A run sends all requests of a test case once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTimes {
    /// Time that the client has waited for its requests and for the flush after writes, in
    /// nanoseconds.
    pub all_ns: u64,
    /// Longest time of a request, in nanoseconds.
    pub worst_ns: u64,
}

/// Result of one case of the test of open transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamOutcome {
    /// The data are right, and requests have continued an open transfer (a CMD18 or CMD25 that was
    /// not ended).
    Right,
    /// The data are right. No request has continued an open transfer: the driver closes each
    /// transfer for such memory or such requests.
    NotKept,
    /// The data of both runs are the same. But the card has the same data in too many blocks, so
    /// the test could not have found an error.
    Unproven,
    /// The engine has repeated requests: the controller could not begin or continue an open
    /// transfer.
    Repeated {
        /// Number of transfers that have failed or never ended.
        faults: u32,
    },
    /// The data that were read, or read back, are not the data that should be there.
    Wrong {
        /// The first wrong block; `None`: not known, because a test of reads compares checksums.
        lba: Option<u64>,
        /// Number of the block whose data were found in the wrong block: another block that this
        /// test has written. If it is the number of the wrong block itself, this block has data of
        /// an earlier write. `None`: the data are not of this test.
        holds: Option<u64>,
    },
    /// A request has failed.
    Failed {
        /// First block of the request.
        lba: u64,
        /// Why the request failed.
        error: Error,
    },
    /// The data differ although each transfer was closed: the card or the bus is not reliable, and
    /// the case says nothing about open transfers.
    Unsteady,
}

impl fmt::Display for StreamOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StreamOutcome::Right => f.write_str("right"),
            StreamOutcome::NotKept => f.write_str("right, not kept open"),
            StreamOutcome::Unproven => f.write_str("unproven: the card has the same data everywhere"),
            StreamOutcome::Repeated { faults } => {
                write!(f, "FAILED: requests were repeated after {faults} failures")
            }
            StreamOutcome::Wrong { lba: None, .. } => f.write_str("FAILED: wrong data"),
            StreamOutcome::Wrong { lba: Some(lba), holds: None } => {
                write!(f, "FAILED: wrong data in block {lba}")
            }
            StreamOutcome::Wrong { lba: Some(lba), holds: Some(other) } if other == lba => {
                write!(f, "FAILED: block {lba} has older data")
            }
            StreamOutcome::Wrong { lba: Some(lba), holds: Some(other) } => {
                write!(f, "FAILED: block {lba} has the data of block {other}")
            }
            StreamOutcome::Failed { lba, error } => write!(f, "FAILED: from block {lba} on: {error}"),
            StreamOutcome::Unsteady => f.write_str("FAILED: the data differ with closed transfers too"),
        }
    }
}

/// The result of one case of the test of open transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamResult {
    /// The case that was executed.
    pub case: StreamCase,
    /// Times of the run in which each transfer was closed at the end of its request.
    pub closed: StreamTimes,
    /// Times of the run in which transfers were kept open.
    pub open: StreamTimes,
    /// Number of transfers that continued the one before, without a new command.
    pub continued: u32,
    /// What the case has shown.
    pub outcome: StreamOutcome,
}

impl StreamResult {
    /// Returns the rate of a run in KiB/s; 0 for a run that has failed.
    pub fn kib_s(&self, times: StreamTimes) -> u64 {
        let bytes = u64::from(self.case.all_blocks()) * u64::from(BLOCK_BYTES);
        bytes.saturating_mul(1_000_000_000).checked_div(times.all_ns).unwrap_or(0) / 1024
    }
}

impl fmt::Display for StreamResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamResult { case, closed, open, continued, outcome } = self;
        write!(
            f,
            "{case}: closed {} KiB/s, worst {} us; open {} KiB/s, worst {} us; {continued} of {} continued; {outcome}",
            self.kib_s(*closed),
            closed.worst_ns / 1000,
            self.kib_s(*open),
            open.worst_ns / 1000,
            case.requests,
        )
    }
}

/// The verdict of a test of open transfers ([`StreamCase`](super::StreamCase)): the number of cases
/// with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamVerdict {
    /// Cases in which requests have continued open transfers, with the right data.
    pub right: u16,
    /// Number of cases with the right data in which no transfer stayed open from one request to the
    /// next.
    pub not_kept: u16,
    /// Number of cases that cannot show an error, because the card has the same data everywhere.
    pub unproven: u16,
    /// Number of cases that have failed.
    pub failed: u16,
    /// Number of cases that were left out: the range of blocks or the buffer is too small for them,
    /// or the engine keeps no transfer open any more after an earlier failure.
    pub left_out: u16,
}

impl StreamVerdict {
    /// Returns whether the test has shown that open transfers of the tested kind (reads or writes)
    /// are safe: at least one case was right, and none failed or was without proof. Then a board
    /// may enable them.
    pub const fn may_be_switched_on(&self) -> bool {
        self.right > 0 && self.failed == 0 && self.unproven == 0
    }

    pub(super) fn count(&mut self, outcome: StreamOutcome) {
        let counter = match outcome {
            StreamOutcome::Right => &mut self.right,
            StreamOutcome::NotKept => &mut self.not_kept,
            StreamOutcome::Unproven => &mut self.unproven,
            _ => &mut self.failed,
        };
        *counter += 1;
    }
}

impl fmt::Display for StreamVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamVerdict { right, not_kept, unproven, failed, left_out } = self;
        let verdict = match () {
            () if *failed > 0 => "do not switch on",
            () if self.may_be_switched_on() => "may be switched on",
            () => "not shown",
        };
        write!(
            f,
            "{verdict}: {right} cases right, {not_kept} not kept open, {unproven} unproven, {failed} failed, {left_out} left out"
        )
    }
}
