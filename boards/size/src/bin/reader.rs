//! A whole reader: finds an SD card or an eMMC device, brings it to its best speed, reads, writes and
//! flushes.
#![no_std]
#![no_main]

use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up};
use size::late::{Late, Once};
use size::{Stack, board};

static STACK: Late<Stack<8>> = Late::new();
static BLOCK: Once<[u8; 512]> = Once::new([0; _]);

/// The program: block 0 is read and written back.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let _ = copy();
}

/// On a stack frame of its own: the stack is made there before it is moved to where it stays.
#[inline(never)]
fn made() -> Option<&'static Stack<8>> {
    STACK.set(size::stack(size::CONFIG)?.ok()?)
}

fn copy() -> Option<()> {
    let stack = made()?;
    let (card, _) = stack.block_on(bring_up(stack, size::scratch()?, Options::DEFAULT), board::idle);
    card.ok()?;
    let device = BlockDevice::new(stack);
    let block = BLOCK.take()?;
    device.read_blocking(0, block, board::idle).ok()?;
    device.write_blocking(0, block, board::idle).ok()?;
    device.flush_blocking(board::idle).ok()
}

/// The controller's interrupt.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {
    if let Some(stack) = STACK.get() {
        stack.on_irq();
    }
}
