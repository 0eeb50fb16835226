//! The same program as `reader`, with all steps of recovery and the supervisor of the card.
#![no_std]
#![no_main]

use core::future::Future;
use core::pin::pin;
use core::task::Context;
use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up, supervise};
use mmcq::task::Idle;
use size::late::{Late, Once};
use size::{Stack, board};

static STACK: Late<Stack<8>> = Late::new();
static BLOCK: Once<[u8; 512]> = Once::new([0; _]);

/// Main function of the image: reads block 0 and writes it back, with a supervisor for the card.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let _ = copy();
}

/// Makes the stack in its own stack frame, from which it is moved to its static place.
#[inline(never)]
fn made() -> Option<&'static Stack<8>> {
    STACK.set(size::stack(size::CONFIG)?.ok()?)
}

fn copy() -> Option<()> {
    let stack = made()?;
    let (card, scratch) = stack.block_on(bring_up(stack, size::scratch()?, Options::DEFAULT), board::idle);
    let mut supervisor = pin!(supervise(stack, scratch, Options::DEFAULT, card.ok()?));
    let mut kept = true;
    // One copy of the closure is enough for all callers.
    let idle: &mut dyn FnMut(&Idle) = &mut |idle| {
        if kept {
            // The waker of this context ends the sleep, so that the future is polled again.
            let mut context = Context::from_waker(Idle::waker());
            kept = supervisor.as_mut().poll(&mut context).is_pending();
        }
        board::idle(idle);
    };
    let device = BlockDevice::new(stack);
    let block = BLOCK.take()?;
    device.read_blocking(0, block, &mut *idle).ok()?;
    device.write_blocking(0, block, &mut *idle).ok()?;
    device.flush_blocking(&mut *idle).ok()
}

/// Interrupt handler of the controller.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {
    if let Some(stack) = STACK.get() {
        stack.on_irq();
    }
}
