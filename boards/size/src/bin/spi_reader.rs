//! A complete card reader for an SD card in SPI mode, on a port with a FIFO: Arm's SSI, by
//! interrupts.
#![no_std]
#![no_main]

use mmcq::engine::Config;
use mmcq::host::spi::Spi;
use size::{BlockDevice, Lean, Options, TIMER, board, late, ssi};

type Stack = mmcq::task::Stack<(board::InterruptsOff, Spi<ssi::Ssi>, Lean), 8>;

static STACK: late::Late<Stack> = late::Late::new();
static BLOCK: late::Once<[u8; 512]> = late::Once::new([0; _]);

/// Main function of the image: reads block 0 and writes it back.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let _ = copy();
}

/// Makes the stack in its own stack frame, from which it is moved to its static place.
#[inline(never)]
fn made() -> Option<&'static Stack> {
    let host = ssi::driver()?;
    STACK.set(Stack::with_policy(board::InterruptsOff, TIMER, host, Config::DEFAULT, Lean::default()))
}

fn copy() -> Option<()> {
    let stack = made()?;
    let bring_up = mmcq::card::bring_up_sd(stack, size::scratch()?, Options::DEFAULT);
    let (card, _) = stack.block_on(bring_up, board::idle);
    card.ok()?;
    let device = BlockDevice::new(stack);
    let block = BLOCK.take()?;
    device.read_blocking(0, block, board::idle).ok()?;
    device.write_blocking(0, block, board::idle).ok()?;
    device.flush_blocking(board::idle).ok()
}

/// Interrupt handler of the port.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {
    if let Some(stack) = STACK.get() {
        stack.on_irq();
    }
}
