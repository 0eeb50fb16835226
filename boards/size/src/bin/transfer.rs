//! A card that other code, such as a boot loader, has brought up: only the engine and the driver,
//! without bring-up.
#![no_std]
#![no_main]

use mmcq::block::BlockDevice;
use mmcq::engine::CardParams;
use size::late::{Late, Once};
use size::{Lean, Stack, board};

static STACK: Late<Stack<8, Lean>> = Late::new();
static BLOCK: Once<[u8; 512]> = Once::new([0; _]);

const TARGET: CardParams = CardParams::sd(1, 1 << 21);

/// Main function of the image: reads block 0 and writes it back.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let _ = copy();
}

fn copy() -> Option<()> {
    let stack = STACK.set(size::stack(size::CONFIG)?.ok()?)?;
    stack.with(|engine| engine.set_card_params(Some(core::hint::black_box(TARGET))));
    let device = BlockDevice::new(stack);
    let block = BLOCK.take()?;
    device.read_blocking(0, block, board::idle).ok()?;
    device.write_blocking(0, block, board::idle).ok()?;
    device.flush_blocking(board::idle).ok()
}

/// Interrupt handler of the controller.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {
    if let Some(stack) = STACK.get() {
        stack.on_irq();
    }
}
