//! Interrupt controllers of a Raspberry Pi 2 or 3: one for each core, and one for the devices
//! behind it.

use crate::arm::{read, write};
use crate::board::{self, ALARM_IRQ};
use crate::plan::firmware::{Source, serve};

/// Register of the first core's timer interrupts, and the bit of its virtual timer.
const TIMERS: usize = 0x4000_0040;
const VIRTUAL_TIMER: u32 = 1 << 3;
/// Register that shows the source of the first core's interrupt.
const SOURCE: usize = 0x4000_0060;
const DEVICES: u32 = 1 << 8;
/// Register that enables interrupts of devices 32 and higher.
const ENABLE_2: usize = 0x3f00_b214;

/// Does nothing: the interrupt controllers need no start.
pub fn start() {}

/// Enables an interrupt.
pub fn listen(irq: u32) {
    match irq {
        ALARM_IRQ => write(TIMERS, VIRTUAL_TIMER),
        _ => write(ENABLE_2, 1 << (irq % 32)),
    }
}

/// Interrupt handler of the first core.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    let source = read(SOURCE);
    if source & VIRTUAL_TIMER != 0 {
        board::silence_alarm();
        serve(Source::Alarm);
    }
    if source & DEVICES != 0 {
        serve(Source::Card);
    }
}
