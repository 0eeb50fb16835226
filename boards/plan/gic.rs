//! The interrupt controller of Arm's machines: a GIC of version 1 or 2. The board module has its
//! addresses.

use crate::arm::{read, write};
use crate::board::{self, GIC_CPU, GIC_DISTRIBUTOR};
use crate::plan::firmware::{Source, serve};

const GIC_PRIORITY_MASK: usize = GIC_CPU + 0x04;
const GIC_ACKNOWLEDGE: usize = GIC_CPU + 0x0c;
const GIC_END: usize = GIC_CPU + 0x10;
/// Interrupt numbers from here on mean that no interrupt is pending.
const GIC_SPURIOUS: u32 = 1020;
const GIC_ENABLE: usize = GIC_DISTRIBUTOR + 0x100;
const GIC_PRIORITY: usize = GIC_DISTRIBUTOR + 0x400;
const GIC_TARGET: usize = GIC_DISTRIBUTOR + 0x800;

/// Switches on the interrupt controller.
pub fn start() {
    write(GIC_PRIORITY_MASK, 0xf0);
    write(GIC_CPU, 1);
    write(GIC_DISTRIBUTOR, 1);
}

/// Enables an interrupt.
pub fn listen(irq: u32) {
    let (word, shift) = (irq as usize / 4 * 4, 8 * (irq % 4));
    write(GIC_PRIORITY + word, read(GIC_PRIORITY + word) & !(0xff << shift) | 0xa0 << shift);
    write(GIC_TARGET + word, read(GIC_TARGET + word) & !(0xff << shift) | 1 << shift);
    write(GIC_ENABLE + irq as usize / 32 * 4, 1 << (irq % 32));
}

/// Interrupt handler. An interrupt that is not the alarm's is the controller's, since no others are
/// enabled.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    let id = read(GIC_ACKNOWLEDGE);
    match id & 0x3ff {
        GIC_SPURIOUS.. => return,
        board::ALARM_IRQ => {
            board::silence_alarm();
            serve(Source::Alarm);
        }
        _ => serve(Source::Card),
    }
    write(GIC_END, id);
}
