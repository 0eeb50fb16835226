//! What the machines have in common: memory is one for CPU and controllers, with the MMU off, and
//! reports go by semihosting.

pub use crate::arm::sleep_until;
use crate::cpu::interrupts_on;
pub use crate::cpu::{barrier, exit, interrupts_off, now_ns, set_alarm, silence_alarm};
use crate::irq;
pub use crate::lines::say;
use crate::table::MACHINE;

/// The interrupt controller: distributor and CPU interface.
#[cfg(not(feature = "raspi3b"))]
pub const GIC_DISTRIBUTOR: usize = MACHINE.gic[0];
/// See above.
#[cfg(not(feature = "raspi3b"))]
pub const GIC_CPU: usize = MACHINE.gic[1];
/// The core's own virtual timer, or the global timer of a Cortex-A9: both are this one.
pub const ALARM_IRQ: u32 = 16 + 11;

/// Takes interrupt controller and core into use.
pub fn start() {
    irq::start();
    irq::listen(ALARM_IRQ);
    irq::listen(MACHINE.irq);
    interrupts_on();
}
