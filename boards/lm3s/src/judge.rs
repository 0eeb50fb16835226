//! Executes the test plan of `boards/plan/pattern.rs` in 64 KiB of memory. A step is done in pieces
//! of eight blocks. To find the step that wrote a block last, the plan is generated once more.

use crate::Stack;
use crate::board::say;
use crate::plan::pattern::{self, STEP_BLOCKS, Step, WINDOW_BLOCKS, WINDOWS};
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error, Kind, Request};

/// Number of blocks in a piece.
pub const PIECE: u32 = 8;
/// Number of bytes in a piece.
pub const PIECE_BYTES: usize = (PIECE * BLOCK_BYTES) as usize;
/// Number of steps that are under way at the same time.
pub const DEPTH: usize = 4;
const BLOCK: usize = BLOCK_BYTES as usize;

/// Results of the steps so far.
pub struct Judge {
    /// Number of blocks on the card.
    pub card_blocks: u64,
    /// Number of blocks with a wrong content.
    pub wrong: u32,
}

/// For each block of a step, or of a part of a window, the step that wrote it last; 0: no step.
type Writers = [u16; STEP_BLOCKS as usize];

/// Returns which earlier step wrote each of this step's blocks last.
fn writers_of(step: &Step) -> Writers {
    let mut writers = [0; STEP_BLOCKS as usize];
    for before in pattern::steps().take_while(|before| before.number < step.number) {
        if before.read || before.window != step.window {
            continue;
        }
        let from = before.at.max(step.at);
        let to = (before.at + before.blocks).min(step.at + step.blocks);
        for at in from..to {
            writers[(at - step.at) as usize] = before.number as u16;
        }
    }
    writers
}

impl Judge {
    /// Does all steps, and then reads every window once more.
    pub async fn whole_plan(&mut self, stack: &Stack, buffers: &mut [DmaBuf; DEPTH]) -> Result<(), Error> {
        let mut steps = pattern::steps();
        let mut done = [0; 4];
        while let Some(first) = steps.next() {
            let alone = first.number <= pattern::SINGLE;
            let mut next = || if alone { None } else { steps.next() };
            let group = [Some(first), next(), next(), next()];
            self.run(stack, buffers, &group).await?;
            for step in group.iter().flatten() {
                let kind = if step.read { 2 } else { 0 };
                done[kind] += 1;
                done[kind + 1] += step.blocks;
            }
        }
        let [writes, written, reads, read] = done;
        say(format_args!("steps: {writes} writes of {written} blocks, {reads} reads of {read} blocks"));
        for window in 0..WINDOWS {
            for at in (0..WINDOW_BLOCKS).step_by(STEP_BLOCKS as usize) {
                let step = Step { number: pattern::STEPS + 1, read: true, window, at, blocks: STEP_BLOCKS };
                self.run(stack, buffers, &[Some(step), None, None, None]).await?;
            }
        }
        say(format_args!("read back: {} blocks, {} wrong", WINDOWS * WINDOW_BLOCKS, self.wrong));
        Ok(())
    }

    /// Executes the steps of `group` in pieces of [`PIECE`] blocks: at a time, one piece of each
    /// step is under way.
    async fn run(
        &mut self,
        stack: &Stack,
        buffers: &mut [DmaBuf; DEPTH],
        group: &[Option<Step>; DEPTH],
    ) -> Result<(), Error> {
        let mut writers: [Writers; DEPTH] = [[0; STEP_BLOCKS as usize]; DEPTH];
        for (step, writers) in group.iter().zip(&mut writers) {
            if let Some(step) = step.filter(|step| step.read) {
                *writers = writers_of(&step);
            }
        }
        for from in (0..STEP_BLOCKS).step_by(PIECE as usize) {
            let mut ops = [const { None }; DEPTH];
            for ((step, buffer), op) in group.iter().zip(&mut *buffers).zip(&mut ops) {
                let Some(step) = step.filter(|step| step.blocks > from) else { continue };
                let blocks = (step.blocks - from).min(PIECE);
                let lba = self.lba(&step) + u64::from(from);
                let mut buf = core::mem::replace(buffer, DmaBuf::EMPTY);
                for (lba, block) in (lba..).zip(buf.chunks_exact_mut(BLOCK).take(blocks as usize)) {
                    if step.read { block.fill(0x5a) } else { pattern::fill(block, lba, step.number) }
                }
                let kind = if step.read { Kind::Read { lba, blocks } } else { Kind::Write { lba, blocks } };
                *op = Some(stack.request(Request::new(kind, buf)));
            }
            let mut result = Ok(());
            poll_fn(|context| {
                for (buffer, op) in buffers.iter_mut().zip(&mut ops) {
                    let Some(running) = op else { continue };
                    let Poll::Ready(done) = Pin::new(running).poll(context) else { continue };
                    *op = None;
                    *buffer = done.buf;
                    result = result.and(done.result.map(|_| ()));
                }
                if ops.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            result?;
            for ((step, buffer), writers) in group.iter().zip(&*buffers).zip(&writers) {
                let Some(step) = step.filter(|step| step.read && step.blocks > from) else { continue };
                let blocks = (step.blocks - from).min(PIECE) as usize;
                let lba = self.lba(&step) + u64::from(from);
                let writers = &writers[from as usize..];
                for ((lba, block), &writer) in
                    (lba..).zip(buffer.chunks_exact(BLOCK).take(blocks)).zip(writers)
                {
                    if !pattern::holds(block, lba, writer.into()) {
                        self.wrong += 1;
                        say(format_args!(
                            "step {}: block {lba} is not as step {writer} left it",
                            step.number
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn lba(&self, step: &Step) -> u64 {
        pattern::window_start(step.window, self.card_blocks) + u64::from(step.at)
    }
}
