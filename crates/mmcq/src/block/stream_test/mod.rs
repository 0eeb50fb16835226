//! A test of open transfers on this machine's controller and card.
//!
//! An *open transfer* does not end with its request: the next request continues it if it begins at
//! the following block. Whether a controller can do that is known only after a trial.
//! [`stream_test`] runs each case of a list twice, with each transfer closed and with transfers
//! kept open, and compares the data. The cases are requests of each size from 4 to 512 KiB, so a
//! driver meets each of its boundaries in memory. Other cases have pauses, requests for other
//! blocks in between, memory that does not begin at a boundary, and more blocks than a block count
//! register can hold.
//!
//! - *Reads* write nothing. The data of the two runs must be the same. If the card has the same
//!   data everywhere, a lost or repeated block cannot be seen, and the case is
//!   [`Unproven`](StreamOutcome::Unproven).
//! - *Writes* overwrite the blocks that the caller names. Each block gets its own number and the
//!   number of its run. Then all are read back by closed transfers, and the blocks behind them must
//!   be unchanged. The memory of a write is overwritten as soon as the write is complete.
//!
//! A driver may keep transfers open in several ways ([`StreamConfig`]). Switch on only one of them
//! for a test: after two failures in a row the engine keeps no transfer open in any way.
//!
//! [`StreamConfig`]: crate::host::sdhci::StreamConfig

mod bench;
mod case;
mod content;
mod result;

use crate::engine::{DmaBuf, Error, StaysOpen};
use crate::host::Direction;
use crate::task::{Platform, Stack};
use bench::Bench;
pub use case::StreamCase;
pub use result::{StreamOutcome, StreamResult, StreamTimes, StreamVerdict};

/// Settings of a [`stream_test`]: its blocks, and whether it reads or writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTest {
    direction: Direction,
    lba: u64,
    blocks: u32,
}

impl StreamTest {
    /// Number of blocks that all cases need: more than a block count register can hold.
    pub const BLOCKS: u32 = 67_000;

    /// Makes a test of reads of the `blocks` blocks from `lba` on, which writes nothing. Cases that
    /// need more blocks are left out.
    pub const fn reads(lba: u64, blocks: u32) -> Self {
        StreamTest { direction: Direction::Read, lba, blocks }
    }

    /// Makes a test of writes to the `blocks` blocks from `lba` on. *The content of these blocks is
    /// lost.* Cases that need more blocks are left out.
    pub const fn writes(lba: u64, blocks: u32) -> Self {
        StreamTest { direction: Direction::Write, lba, blocks }
    }
}

/// Tests whether open transfers give the right data on this controller with this card, and how fast
/// they are. In an open transfer, a request continues the multi-block read or write of the request
/// before, without a new command. `report` gets the result of each case. The data of requests go
/// through `buf`. Cases that need a larger buffer are left out; a buffer of 512 KiB that is aligned
/// to its size is enough for all boundaries. `pause` waits for a number of nanoseconds, and does
/// not use the stack.
///
/// No other client should use the card during the test. The card has been brought up before. The
/// call sets [`Config::stays_open`](crate::engine::Config::stays_open), and restores it at the end
/// or when it is dropped.
///
/// # Errors
/// [`Error::Unsupported`]: the driver keeps no transfer open. [`Error::OutOfRange`]: the blocks are
/// not all on the card. Other errors: requests fail although each transfer is closed, or the card
/// is gone; the results of the cases before have been reported.
pub async fn stream_test<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    test: StreamTest,
    buf: DmaBuf,
    pause: impl AsyncFnMut(u64),
    mut report: impl FnMut(&StreamResult),
) -> (Result<StreamVerdict, Error>, DmaBuf) {
    let before = stack.with(|engine| engine.set_stays_open(StaysOpen::Never));
    let _setting = Setting { stack, before };
    let mut bench = Bench::new(stack, test, buf, pause);
    let verdict = bench.run_cases(&mut report).await;
    (verdict, bench.into_buffer())
}

/// Guard of a test: when it is dropped, the engine gets back the rule for keeping transfers open
/// that it had before the test.
struct Setting<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    before: StaysOpen,
}

impl<B: Platform, const N: usize> Drop for Setting<'_, B, N> {
    fn drop(&mut self) {
        self.stack.with(|engine| engine.set_stays_open(self.before));
    }
}
