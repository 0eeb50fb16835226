//! Tests of the whole stack on QEMU's controller: bring-up, queue, mapping ahead, barriers. Only
//! the interrupt and deadlines advance the stack.

use crate::image::{BLOCK, Random};
use crate::machine::{DESCRIPTORS, Machine, Options, SDHC_BYTES, SDSC_BYTES};
use crate::memory::QtestDma;
use crate::one_thread::{NOW_NS, OneThread, TIMER};
use crate::registers::QtestRegs;
use mmcq::block::BlockDevice;
use mmcq::card::{self, Card, Family};
use mmcq::engine::{Config, DmaBuf, Kind, Request, SlotId};
use mmcq::host::sdhci::{Sdhci, TransferMode};
use mmcq::host::{Host, Regs};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The driver on registers that are those of an SDHCI, or that present another controller as an
/// SDHCI.
pub type Driver<R> = Sdhci<R, QtestDma, DESCRIPTORS>;
/// The stack with this driver.
pub type Stack<R = QtestRegs> = mmcq::task::Stack<(OneThread, Driver<R>), 16>;

/// Longest time without any event, in nanoseconds.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Sleeps until the interrupt or the engine's deadline, and calls the stack for the one that came.
/// Never polls the controller without an interrupt.
pub fn turn<H: Host>(machine: &Machine, stack: &mmcq::task::Stack<(OneThread, H), 16>) {
    let now = machine.now_ns();
    NOW_NS.set(now);
    let deadline = stack.with(|engine| engine.next_deadline_ns());
    let patience = deadline.map_or(PATIENCE_NS, |at| at.saturating_sub(now));
    if machine.irq() || (patience > 0 && machine.wait_irq(patience)) {
        NOW_NS.set(machine.now_ns());
        stack.on_irq();
    } else {
        assert!(deadline.is_some(), "neither interrupt nor deadline");
        NOW_NS.set(machine.now_ns());
        stack.poll();
    }
}

/// Runs a future to its end, and returns its output.
pub fn drive<H: Host, F: Future>(
    machine: &Machine,
    stack: &mmcq::task::Stack<(OneThread, H), 16>,
    future: F,
) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        NOW_NS.set(machine.now_ns());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        turn(machine, stack);
    }
}

/// Returns a buffer of this number of blocks.
pub fn buffer(blocks: usize) -> DmaBuf {
    DmaBuf::from_static(Box::leak(vec![0u32; blocks * BLOCK / 4].into_boxed_slice()).as_bytes())
}

/// Views words as bytes: a buffer made of words is aligned.
trait AsBytes {
    fn as_bytes(&'static mut self) -> &'static mut [u8];
}

impl AsBytes for [u32] {
    fn as_bytes(&'static mut self) -> &'static mut [u8] {
        // SAFETY: any bytes are a `u32` and the other way round; the length is that of the same
        // memory.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len() * 4) }
    }
}

fn stack(machine: &Machine, mode: TransferMode) -> (Stack, Card) {
    let stack = Stack::new(OneThread, TIMER, machine.host(mode), Config::DEFAULT);
    let (card, _) = drive(machine, &stack, card::bring_up(&stack, buffer(1), card::Options::DEFAULT));
    (stack, card.unwrap_or_else(|error| panic!("{mode:?}: bring-up: {error}")))
}

/// Executes random reads and writes of 1 to 256 blocks, up to 16 at a time, and compares the data
/// with a model of the card's content, and at the end with the image file.
pub fn mixed_load<R: Regs>(machine: &Machine, stack: &Stack<R>, blocks_on_card: u64, rounds: usize) {
    // A window across the middle; SDHC images are sparse, and this is where block and byte
    // addresses differ most.
    const WINDOW: u64 = 2048;
    let base = blocks_on_card / 2 - WINDOW / 2;
    let mut model = machine.image().read(base as u32, WINDOW as u32);
    let mut random = Random(1);
    let mut pending: Vec<(SlotId, Option<Vec<u8>>)> = Vec::new();
    for round in 0..rounds {
        let blocks = match random.below(4) {
            0 => 1,
            1 => 256,
            _ => 1 + random.below(255) as usize,
        };
        let at = random.below(WINDOW as u32 - blocks as u32 + 1) as usize;
        let lba = base + at as u64;
        let range = at * BLOCK..(at + blocks) * BLOCK;
        let mut buf = buffer(blocks);
        let blocks = blocks as u32;
        let (kind, expected) = if random.below(2) == 0 {
            buf.copy_from_slice(&random.bytes(blocks as usize * BLOCK));
            model[range].copy_from_slice(&buf);
            (Kind::Write { lba, blocks }, None)
        } else {
            (Kind::Read { lba, blocks }, Some(model[range].to_vec()))
        };
        let id = stack.with(|engine| engine.submit(Request::new(kind, buf), machine.now_ns())).unwrap();
        pending.push((id, expected));
        while pending.len() > 15 || (round + 1 == rounds && !pending.is_empty()) {
            turn(machine, stack);
            pending.retain(|(id, expected)| {
                let Some(done) = stack.with(|engine| engine.take(*id)) else { return true };
                done.result.unwrap();
                if let Some(expected) = expected {
                    assert!(done.buf[..] == expected[..], "a read brings something else than was written");
                }
                false
            });
        }
    }
    drive(machine, stack, BlockDevice::new(stack).flush()).unwrap();
    let image = machine.image().read(base as u32, WINDOW as u32);
    assert!(image == model, "the image differs from what was written");
}

fn judge(options: &Options, modes: &[TransferMode], rounds: usize) {
    let Some(machine) = crate::machine(options) else { return };
    for &mode in modes {
        let (stack, card) = stack(&machine, mode);
        assert_eq!(card.params.sectors, options.image_bytes / BLOCK as u64);
        assert!(matches!(card.family, Family::Sd(_)));
        let before = stack.with(|engine| *engine.stats());
        mixed_load(&machine, &stack, card.params.sectors, rounds);
        let stats = stack.with(|engine| *engine.stats());
        assert_eq!(stats.lost_interrupts, 0, "{mode:?}: an interrupt was missing");
        assert_eq!(stats.faults - before.faults, 0);
        println!(
            "{mode:?}: {} requests, {} transfers, {} merged, {} phases, {} interrupts",
            stats.requests - before.requests,
            stats.transfers,
            stats.merged,
            stats.phases - before.phases,
            stats.interrupts - before.interrupts,
        );
    }
}

#[test]
fn the_queue_moves_data_on_sdhc_by_adma2_and_sdma() {
    let options = Options { image_bytes: SDHC_BYTES, ..Options::default() };
    judge(&options, &[TransferMode::Adma2, TransferMode::Sdma], 150);
}

#[test]
fn the_queue_moves_data_on_sdsc_by_adma2_and_pio() {
    let options = Options { image_bytes: SDSC_BYTES, ..Options::default() };
    judge(&options, &[TransferMode::Adma2], 150);
    judge(&options, &[TransferMode::Pio], 6);
}

#[test]
fn the_queue_moves_data_on_a_controller_of_version_3() {
    judge(&Options::version_3(), &[TransferMode::Adma2], 150);
}
