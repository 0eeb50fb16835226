//! QEMU's machine sifive_u: hart 0 with its timer and interrupt controller. Reports are printed by
//! semihosting.

use crate::cpu::{self, interrupts_on};
pub use crate::cpu::{exit, interrupts_off, now_ns, set_alarm, sleep_until};
pub use crate::lines::say;
use crate::plan::alone::Once;
use crate::plic;

/// Ticks of the timer in a second.
pub const TIME_HZ: u64 = 1_000_000;
/// Number of the interrupt of the third SPI controller, to which the card is connected.
const SPI_IRQ: u32 = 6;

/// Enables the core's interrupts.
pub fn start() {
    plic::listen(SPI_IRQ);
    interrupts_on();
}

static COMMAND_LINE: Once<[u8; 256]> = Once::new([0; _]);

/// Returns the text of QEMU's option `-append`; at a second call it is empty.
pub fn command_line() -> &'static str {
    COMMAND_LINE.take().map_or("", |line| cpu::command_line(line))
}
