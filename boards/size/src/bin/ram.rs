//! Writes the sizes of types as text into a separate section, `.mmcq_sizes`, which is never loaded.
//! A line has a name and a number of bytes.
#![no_std]
#![no_main]

use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up};
use mmcq::engine::{DmaBuf, Engine};
use mmcq::host::sdhci::Table;
use size::late::Late;
use size::{DESCRIPTORS, Driver, Stack};

static STACK: Late<Stack<8>> = Late::new();

/// Writes the size of a type under a name.
macro_rules! note {
    ($name:literal, $bytes:expr) => {
        // SAFETY: emits bytes into a section that is not loaded, and no instruction.
        unsafe {
            core::arch::asm!(
                ".pushsection .mmcq_sizes, \"\", %progbits",
                concat!(".ascii \"", $name, " {bytes}\\n\""),
                ".popsection",
                bytes = const $bytes,
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

fn bring_up_future<F>(_: F) {
    note!("bring_up", size_of::<F>());
}

fn read_future<F>(_: F) {
    note!("read", size_of::<F>());
}

/// Writes the sizes of all types.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    note!("engine1", size_of::<Engine<Driver, 1, mmcq::sched::Prompt>>());
    note!("engine8", size_of::<Engine<Driver, 8, mmcq::sched::Prompt>>());
    note!("engine32", size_of::<Engine<Driver, 32, mmcq::sched::Prompt>>());
    note!("shared8", size_of::<Stack<8>>());
    note!("driver", size_of::<Driver>());
    note!("table", size_of::<Table<DESCRIPTORS>>());
    let made = size::stack(size::CONFIG).and_then(Result::ok).and_then(|stack| STACK.set(stack));
    if let Some(stack) = made {
        bring_up_future(bring_up(stack, DmaBuf::EMPTY, Options::DEFAULT));
        read_future(BlockDevice::new(stack).read(0, DmaBuf::EMPTY));
    }
}

/// Does nothing, since this image has no interrupts.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {}
