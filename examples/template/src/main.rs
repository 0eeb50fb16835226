//! Reads the first block of the card. What your board must change is in `board.rs`.
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
    // A product tells of the error, and of what it has read. Both are to be seen by a debugger
    // here: `result` is kept for it.
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
    let mut tries = 20;
    let _card = loop {
        let (card, back) = stack.block_on(bring_up(stack, scratch, Options::DEFAULT), sleep);
        scratch = back;
        match card {
            // The slot tells of its card when the contact is quiet: some milliseconds after power.
            Err(Error::NoCard) if tries > 0 => tries -= 1,
            found => break found?,
        }
        board::pause_ms(50);
    };
    // A product keeps its card from here on: `mmcq::card::supervise` is a future that is polled
    // beside all else.
    BlockDevice::new(stack).read_blocking(0, &mut block.0, sleep).map(drop)
}

/// Until the next interrupt: the controller's, or the tick a millisecond later at most.
fn sleep(idle: &Idle) {
    // No handler may run between the question and `wfi`. One that is pending ends it all the same.
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
