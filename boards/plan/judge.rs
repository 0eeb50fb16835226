//! Executes the test plan (the steps of `pattern.rs`) on a card, and checks every byte that is
//! read. boards/lm3s has another module for the plan, which needs less memory.

use super::pattern::{self, STEP_BLOCKS, Step, WINDOW_BLOCKS, WINDOWS};
use crate::Stack;
use crate::board::say;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;
use mmcq::block::{BlockDevice, Bounced};
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error, Kind, Request};

/// Number of bytes in the longest step.
pub const BUFFER_BYTES: usize = (STEP_BLOCKS * BLOCK_BYTES) as usize;
/// Number of steps that are under way at the same time.
pub const DEPTH: usize = 4;
const BLOCK: usize = BLOCK_BYTES as usize;

/// For each block of each window, the step that wrote it last.
pub type Writers = [[u16; WINDOW_BLOCKS as usize]; WINDOWS as usize];

/// Results of the steps so far.
pub struct Judge {
    /// Number of blocks on the card.
    pub card_blocks: u64,
    /// For each block, the step that wrote it last.
    pub writers: &'static mut Writers,
    /// Number of writes, of their blocks, of reads, and of their blocks.
    pub done: [u32; 4],
    /// Number of blocks with a wrong content.
    pub wrong: u32,
}

impl Judge {
    /// Makes the results of a card with this number of blocks, on which no step was done.
    pub fn new(card_blocks: u64, writers: &'static mut Writers) -> Self {
        Judge { card_blocks, writers, done: [0; 4], wrong: 0 }
    }

    /// Does all steps, and then reads every window once more. Calls `before` three times: before
    /// the first [`SINGLE`](pattern::SINGLE) steps, before the other steps, and before the last
    /// reads.
    pub async fn whole_plan(
        &mut self,
        stack: &Stack,
        buffers: &mut [DmaBuf; DEPTH],
        bounce: &'static mut [u8],
        borrowed: &mut [u8],
        before: impl AsyncFn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        before().await?;
        self.one_by_one(stack, bounce, borrowed).await?;
        before().await?;
        self.together(stack, buffers).await?;
        let [writes, written, reads, read] = self.done;
        say(format_args!("steps: {writes} writes of {written} blocks, {reads} reads of {read} blocks"));
        before().await?;
        let [first, ..] = buffers;
        let (verified, buf) = self.read_back(stack, core::mem::replace(first, DmaBuf::EMPTY)).await?;
        *first = buf;
        say(format_args!("read back: {verified} blocks, {} wrong", self.wrong));
        Ok(())
    }

    fn lba(&self, step: &Step) -> u64 {
        pattern::window_start(step.window, self.card_blocks) + u64::from(step.at)
    }

    fn writers_of(&mut self, step: &Step) -> &mut [u16] {
        let at = step.at as usize;
        &mut self.writers[step.window as usize][at..at + step.blocks as usize]
    }

    /// Fills the buffer with the data of a write step.
    pub fn prepare(&mut self, step: &Step, buffer: &mut [u8]) {
        for (lba, block) in (self.lba(step)..).zip(buffer.chunks_exact_mut(BLOCK).take(step.blocks as usize))
        {
            if step.read {
                block.fill(0x5a);
            } else {
                pattern::fill(block, lba, step.number);
            }
        }
    }

    /// Records a successful step, and checks the data of a read.
    pub fn book(&mut self, step: &Step, buffer: &[u8]) {
        let lba = self.lba(step);
        let kind = if step.read { 2 } else { 0 };
        self.done[kind] += 1;
        self.done[kind + 1] += step.blocks;
        if !step.read {
            return self.writers_of(step).fill(step.number as u16);
        }
        let mut wrong = 0;
        let blocks = buffer.chunks_exact(BLOCK);
        for ((lba, block), &mut writer) in (lba..).zip(blocks).zip(self.writers_of(step)) {
            if !pattern::holds(block, lba, writer.into()) {
                wrong += 1;
                say(format_args!("step {}: block {lba} is not as step {writer} left it", step.number));
            }
        }
        self.wrong += wrong;
    }

    /// Does the first [`SINGLE`](pattern::SINGLE) steps, one at a time, through the block device
    /// with a borrowed buffer.
    async fn one_by_one(
        &mut self,
        stack: &Stack,
        bounce: &'static mut [u8],
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let device = BlockDevice::new(stack);
        let mut device = Bounced::new(device, DmaBuf::from_static(bounce))?;
        for step in pattern::steps().take(pattern::SINGLE as usize) {
            let part = &mut buffer[..step.blocks as usize * BLOCK];
            self.prepare(&step, part);
            let lba = self.lba(&step);
            let result = if step.read { device.read(lba, part).await } else { device.write(lba, part).await };
            let blocks = result?;
            if blocks != step.blocks {
                say(format_args!("step {}: {blocks} blocks, expected {}", step.number, step.blocks));
                return Err(Error::Silent);
            }
            self.book(&step, part);
        }
        device.flush().await
    }

    /// Does the steps after the first [`SINGLE`](pattern::SINGLE), [`DEPTH`] at a time, as requests
    /// to the stack.
    async fn together(&mut self, stack: &Stack, buffers: &mut [DmaBuf; DEPTH]) -> Result<(), Error> {
        let mut steps = pattern::steps().skip(pattern::SINGLE as usize);
        while let Some(first) = steps.next() {
            let mut group = [Some(first), steps.next(), steps.next(), steps.next()];
            let mut ops = [const { None }; DEPTH];
            for ((step, buffer), op) in group.iter().zip(&mut *buffers).zip(&mut ops) {
                let Some(step) = step else { continue };
                let mut buf = core::mem::replace(buffer, DmaBuf::EMPTY);
                self.prepare(step, &mut buf);
                let (lba, blocks) = (self.lba(step), step.blocks);
                let kind = if step.read { Kind::Read { lba, blocks } } else { Kind::Write { lba, blocks } };
                *op = Some(stack.request(Request::new(kind, buf)));
            }
            let mut failed = None;
            poll_fn(|context| {
                for ((step, buffer), op) in group.iter_mut().zip(&mut *buffers).zip(&mut ops) {
                    let Some(running) = op else { continue };
                    let Poll::Ready(done) = Pin::new(running).poll(context) else { continue };
                    *op = None;
                    *buffer = done.buf;
                    match (done.result, step.take()) {
                        (Ok(_), Some(step)) => self.book(&step, buffer),
                        (Err(error), _) => failed = Some(error),
                        (Ok(_), None) => {}
                    }
                }
                if ops.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads every window once more. Returns the number of blocks read.
    async fn read_back(&mut self, stack: &Stack, mut buf: DmaBuf) -> Result<(u32, DmaBuf), Error> {
        let device = BlockDevice::new(stack);
        let before = self.done;
        for window in 0..WINDOWS {
            for at in (0..WINDOW_BLOCKS).step_by(STEP_BLOCKS as usize) {
                let step = Step { number: 0, read: true, window, at, blocks: STEP_BLOCKS };
                self.prepare(&step, &mut buf);
                let (result, back) = device.read(self.lba(&step), buf).await;
                buf = back;
                result?;
                self.book(&step, &buf);
            }
        }
        let verified = self.done[3] - before[3];
        self.done = before;
        Ok((verified, buf))
    }
}
