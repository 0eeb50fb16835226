//! The interrupts of a Raspberry Pi 2 or 3: a controller for each core, and behind it one for the
//! devices.

use crate::arm::{read, write};
use crate::board::{self, ALARM_IRQ};
use crate::plan::firmware::{Source, serve};

/// Interrupts of the first core's timers, and the bit of its virtual one.
const TIMERS: usize = 0x4000_0040;
const VIRTUAL_TIMER: u32 = 1 << 3;
/// What the first core is interrupted by.
const SOURCE: usize = 0x4000_0060;
const DEVICES: u32 = 1 << 8;
/// Devices from 32 on that interrupt.
const ENABLE_2: usize = 0x3f00_b214;

/// There is nothing to switch on.
pub fn start() {}

/// Listens to an interrupt.
pub fn listen(irq: u32) {
    match irq {
        ALARM_IRQ => write(TIMERS, VIRTUAL_TIMER),
        _ => write(ENABLE_2, 1 << (irq % 32)),
    }
}

/// The interrupt handler.
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
