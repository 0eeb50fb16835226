//! Executes the cases of the test of open transfers, and checks their data.

use super::StreamTest;
use super::case::{BETWEEN, CASES, GUARD, StreamCase};
use super::content::{SEED, blocks_of, fill, holder, is_block, mixed, sum_of};
use super::result::{StreamOutcome, StreamResult, StreamTimes, StreamVerdict};
use crate::block::BlockDevice;
use crate::engine::{BLOCK_BYTES, Count, DmaBuf, Error, StaysOpen};
use crate::host::Direction;
use crate::task::{Platform, Stack};

/// A test of open transfers that is under way: its stack, its buffer, and what it has found so far.
pub(super) struct Bench<'a, B: Platform, const N: usize, P> {
    stack: &'a Stack<B, N>,
    disk: BlockDevice<'a, B, N>,
    test: StreamTest,
    buf: DmaBuf,
    pause: P,
    /// Identifier of the last run of the test, counted up. Each block that the run wrote contains
    /// it.
    version: u32,
    /// Number of the run that wrote the guard blocks. They follow the blocks of the present run,
    /// which must not change them.
    guarded: u32,
    /// Whether the engine has stopped keeping transfers open, after failures.
    lost: bool,
}

/// A wrong block, and the block whose data it has.
#[derive(Clone, Copy, Debug)]
struct Wrong {
    lba: u64,
    holds: Option<u64>,
}

/// What a series of requests has shown: its times, the checksum of its data, and the first wrong
/// block.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    times: StreamTimes,
    /// Checksum of all data that were read.
    sum: u64,
    /// Number of requests whose first block differs from the last block of the request before. Only
    /// these test anything: with equal blocks, a lost or repeated block would not change the
    /// checksum.
    telling: u32,
    /// The first wrong block. After a run of writes: a block that reads back with other data than
    /// were written. In a run of reads: a block with data that a test has written to another block.
    wrong: Option<Wrong>,
}

/// A request that has failed, with its first block.
type Broken = (u64, Error);

impl<'a, B: Platform, const N: usize, P: AsyncFnMut(u64)> Bench<'a, B, N, P> {
    pub(super) fn new(stack: &'a Stack<B, N>, test: StreamTest, buf: DmaBuf, pause: P) -> Self {
        let disk = BlockDevice::new(stack);
        Bench { stack, disk, test, buf, pause, version: 0, guarded: 0, lost: false }
    }

    pub(super) fn into_buffer(self) -> DmaBuf {
        self.buf
    }

    /// Executes all cases that fit the test's blocks and the buffer, and calls `report` with the
    /// result of each.
    pub(super) async fn run_cases(
        &mut self,
        report: &mut impl FnMut(&StreamResult),
    ) -> Result<StreamVerdict, Error> {
        let (lba, blocks) = (self.test.lba, u64::from(self.test.blocks));
        let able = self.stack.with(|engine| engine.caps().continue_data);
        let sectors = self.disk.geometry().ok_or(Error::NoCard)?.blocks;
        if !able {
            return Err(Error::Unsupported);
        }
        if lba.checked_add(blocks).is_none_or(|end| end > sectors) {
            return Err(Error::OutOfRange { lba, sectors });
        }
        let mut verdict = StreamVerdict::default();
        for case in CASES {
            let case = StreamCase { direction: self.test.direction, ..case };
            let room = case.all_blocks() + GUARD <= self.test.blocks;
            if self.lost || !room || case.part() * BLOCK_BYTES > self.buf.len_bytes() {
                verdict.left_out += 1;
                continue;
            }
            let result = self.run_case(case).await?;
            verdict.count(result.outcome);
            report(&result);
        }
        Ok(verdict)
    }

    /// Executes a case: first, each transfer is ended at once; then transfers stay open. Returns
    /// the results of both.
    async fn run_case(&mut self, case: StreamCase) -> Result<StreamResult, Error> {
        let write = case.direction == Direction::Write;
        let closed = self.run(&case).await.map_err(|(_, error)| error)?;
        let mut steady = !write || closed.wrong.is_none();
        if write {
            self.guard(&case).await?;
            steady &= self.wrong_block(&case).await?.is_none();
        }
        let before = self.counts();
        self.stack.with(|engine| engine.set_stays_open(StaysOpen::Always));
        let run = self.run(&case).await;
        self.stack.with(|engine| engine.set_stays_open(StaysOpen::Never));
        let after = self.counts();
        let continued = after.0.wrapping_sub(before.0) as u32;
        let faults = after.1.wrapping_sub(before.1) as u32;
        self.lost = self.stack.with(|engine| engine.take_continue_lost());
        let (open, outcome) = match run {
            Err((_, error @ (Error::NoCard | Error::Removed | Error::Changed))) => return Err(error),
            Err((lba, error)) => (StreamTimes::default(), StreamOutcome::Failed { lba, error }),
            Ok(run) => {
                let wrong = if write {
                    let found = self.wrong_block(&case).await?;
                    run.wrong.or(found).map(|wrong| (Some(wrong.lba), wrong.holds))
                } else if run.sum != closed.sum {
                    // A card whose data change by themselves shows nothing.
                    steady = self.run(&case).await.is_ok_and(|again| again.sum == closed.sum);
                    Some((run.wrong.map(|wrong| wrong.lba), run.wrong.and_then(|wrong| wrong.holds)))
                } else {
                    None
                };
                let outcome = match wrong {
                    Some((lba, holds)) => StreamOutcome::Wrong { lba, holds },
                    None if faults > 0 || self.lost => StreamOutcome::Repeated { faults },
                    None if continued == 0 => StreamOutcome::NotKept,
                    None if !write && 2 * run.telling < case.requests - 1 => StreamOutcome::Unproven,
                    None => StreamOutcome::Right,
                };
                (run.times, outcome)
            }
        };
        let outcome = if steady { outcome } else { StreamOutcome::Unsteady };
        Ok(StreamResult { case, closed: closed.times, open, continued, outcome })
    }

    /// Returns two counters of the engine: continued transfers, and phases that have failed or
    /// never ended.
    fn counts(&self) -> (Count, Count) {
        self.stack.with(|engine| {
            let stats = engine.stats();
            (stats.continued, stats.faults.wrapping_add(stats.not_continued))
        })
    }

    /// Executes the requests of a case, and a flush after writes. Returns their times, the checksum
    /// of the data that were read, and the first wrong block.
    async fn run(&mut self, case: &StreamCase) -> Result<Run, Broken> {
        let mut run = Run { sum: SEED, ..Run::default() };
        let write = case.direction == Direction::Write;
        let (mut lba, mut last) = (self.test.lba, 0);
        self.version += 1;
        for number in 0..case.requests {
            let blocks = if number == 0 { case.first_blocks } else { case.blocks };
            if case.pause_ns > 0 {
                (self.pause)(case.pause_ns).await;
            }
            let shift = u32::from(case.shifted);
            if write {
                fill(&mut self.buf, lba, shift, blocks, self.version);
            }
            let ns = self.moved(case.direction, lba, shift, blocks).await?;
            run.times.all_ns += ns;
            run.times.worst_ns = run.times.worst_ns.max(ns);
            if write {
                // Data that the controller has not read yet are lost now.
                fill(&mut self.buf, 0, shift, blocks, 0);
            } else {
                last = run.add(blocks_of(&self.buf, shift, blocks).zip(lba..), number, last);
            }
            if case.between && number % BETWEEN == BETWEEN - 1 {
                let other = if write { lba } else { self.test.lba };
                self.moved(Direction::Read, other, 0, 1).await?;
                let block = blocks_of(&self.buf, 0, 1).next().unwrap_or(&[]);
                if write && run.wrong.is_none() && !is_block(block, lba, self.version) {
                    run.wrong = Some(Wrong { lba, holds: holder(block, self.version) });
                }
            }
            lba += u64::from(blocks);
        }
        if write {
            let began_ns = self.stack.now_ns();
            self.disk.flush().await.map_err(|error| (lba, error))?;
            run.times.all_ns += self.stack.now_ns() - began_ns;
        }
        Ok(run)
    }

    /// Reads or writes `blocks` blocks by one request. The data are in the buffer from its block
    /// `shift` on. Returns how long the request took, in ns.
    async fn moved(
        &mut self,
        direction: Direction,
        lba: u64,
        shift: u32,
        blocks: u32,
    ) -> Result<u64, Broken> {
        let (buf, part) = (core::mem::replace(&mut self.buf, DmaBuf::EMPTY), shift..shift + blocks);
        let began_ns = self.stack.now_ns();
        let (result, buf) = match direction {
            Direction::Read => self.disk.read_part(lba, buf, part).await,
            Direction::Write => self.disk.write_part(lba, buf, part).await,
        };
        self.buf = buf;
        result.map_err(|partial| (lba, partial.error))?;
        Ok(self.stack.now_ns() - began_ns)
    }

    /// Writes known data to the blocks directly after those of the test (the guard), to find out
    /// whether the test changes them.
    async fn guard(&mut self, case: &StreamCase) -> Result<(), Error> {
        let lba = self.test.lba + u64::from(case.all_blocks());
        self.guarded = self.version;
        fill(&mut self.buf, lba, 0, GUARD, self.version);
        self.moved(Direction::Write, lba, 0, GUARD).await.map_err(|(_, error)| error)?;
        Ok(())
    }

    /// Reads back the blocks that the last write of the test has written, and the blocks behind
    /// them, which it must not have changed. Returns the first wrong block.
    async fn wrong_block(&mut self, case: &StreamCase) -> Result<Option<Wrong>, Error> {
        let end = self.test.lba + u64::from(case.all_blocks());
        let guarded = end + u64::from(GUARD);
        let most = u64::from(self.buf.len_bytes() / BLOCK_BYTES);
        let mut lba = self.test.lba;
        while lba < guarded {
            let blocks = most.min(guarded - lba) as u32;
            self.moved(Direction::Read, lba, 0, blocks).await.map_err(|(_, error)| error)?;
            for (block, lba) in blocks_of(&self.buf, 0, blocks).zip(lba..) {
                let version = if lba < end { self.version } else { self.guarded };
                if !is_block(block, lba, version) {
                    return Ok(Some(Wrong { lba, holds: holder(block, self.version) }));
                }
            }
            lba += u64::from(blocks);
        }
        Ok(None)
    }
}

impl Run {
    /// Adds the data of request `number` to the run's checksum; `blocks` has each block's data and
    /// address. `last` is the checksum of the last block of the request before. Returns the
    /// checksum of the last block of this request.
    fn add<'m>(&mut self, blocks: impl Iterator<Item = (&'m [u8], u64)>, number: u32, mut last: u64) -> u64 {
        for (at, (block, lba)) in blocks.enumerate() {
            let sum = sum_of(block);
            self.telling += u32::from(at == 0 && number > 0 && sum != last);
            self.sum = mixed(self.sum ^ sum);
            last = sum;
            if self.wrong.is_none()
                && let Some(other) = holder(block, u32::MAX).filter(|other| *other != lba)
            {
                self.wrong = Some(Wrong { lba, holds: Some(other) });
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_equal_tell_nothing() {
        let (a, b) = ([1; 512], [2; 512]);
        let mut run = Run::default();
        let mut last = 0;
        for (number, memory) in [[&a, &b], [&b, &a], [&b, &a], [&b, &b]].into_iter().enumerate() {
            last = run.add(memory.into_iter().map(|block| &block[..]).zip(0..), number as u32, last);
        }
        assert_eq!(run.telling, 2);
    }
}
