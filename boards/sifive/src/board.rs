//! QEMU's sifive_u: hart 0, its timer and interrupt controller. Reports go by semihosting.

use crate::cpu::{self, interrupts_on};
pub use crate::cpu::{exit, interrupts_off, now_ns, set_alarm, sleep_until};
pub use crate::lines::say;
use crate::plan::alone::Once;
use crate::plic;

/// Ticks of the timer in a second.
pub const TIME_HZ: u64 = 1_000_000;
/// The third SPI controller, which has the card.
const SPI_IRQ: u32 = 6;

/// Takes the core's interrupts into use.
pub fn start() {
    plic::listen(SPI_IRQ);
    interrupts_on();
}

static COMMAND_LINE: Once<[u8; 256]> = Once::new([0; _]);

/// What QEMU's `-append` says. Empty the second time.
pub fn command_line() -> &'static str {
    COMMAND_LINE.take().map_or("", |line| cpu::command_line(line))
}
