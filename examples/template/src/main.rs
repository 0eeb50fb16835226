//! Reads the first block of the card. Change `board.rs` for your board.
#![no_std]
#![no_main]

mod board;

use core::panic::PanicInfo;
use cortex_m_rt::entry;
use mmcq::block::{Block, BlockDevice};
use mmcq::board::Buffer;
use mmcq::card::{Options, bring_up};
use mmcq::engine::Error;
use mmcq::task::Idle;

static SCRATCH: Buffer<1> = Buffer::new();

#[entry]
fn main() -> ! {
    let mut block = Block([0; 512]);
    // A product would report the error, and use the data. `result` keeps both, so that a debugger
    // can show them.
    let result = first_block(&mut block);
    core::hint::black_box(&result);
    loop {
        cortex_m::asm::wfi();
    }
}

#[inline(never)]
fn first_block(block: &mut Block) -> Result<(), Error> {
    let stack = board::start().ok_or(Error::Unsupported)?;
    let mut scratch = SCRATCH.take().ok_or(Error::Full)?;
    let mut tries = 5;
    let _card = loop {
        let (card, back) = stack.block_on(bring_up(stack, scratch, Options::DEFAULT), sleep);
        scratch = back;
        match card {
            // The slot reports its card when the contact is stable, some milliseconds after
            // power-on.
            Err(Error::NoCard) if tries > 0 => tries -= 1,
            found => break found?,
        }
        board::pause_ms(50);
    };
    // A product would supervise its card from here on: `mmcq::card::supervise` is a future that is
    // polled together with all others.
    BlockDevice::new(stack).read_blocking(0, &mut block.0, sleep).map(drop)
}

/// Sleeps until the next interrupt: the controller's, or the tick after a millisecond at the
/// latest.
fn sleep(idle: &Idle) {
    // No handler may be executed between the check and `wfi`. A pending interrupt ends `wfi` in
    // spite of the mask.
    critical_section::with(|_| {
        if idle.may_sleep() {
            cortex_m::asm::wfi();
        }
    });
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}
