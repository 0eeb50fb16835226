//! The properties that all machines share: CPU and controllers use the same addresses for memory,
//! the MMU is off, and reports are printed by semihosting.

pub use crate::arm::sleep_until;
use crate::cpu::interrupts_on;
pub use crate::cpu::{barrier, exit, interrupts_off, now_ns, set_alarm, silence_alarm};
use crate::irq;
pub use crate::lines::say;
use crate::table::MACHINE;

/// Address of the interrupt controller's distributor.
#[cfg(not(feature = "raspi3b"))]
pub const GIC_DISTRIBUTOR: usize = MACHINE.gic[0];
/// Address of the interrupt controller's CPU interface.
#[cfg(not(feature = "raspi3b"))]
pub const GIC_CPU: usize = MACHINE.gic[1];
/// Number of the alarm's interrupt: the core's virtual timer, or the global timer of a Cortex-A9,
/// which has the same number.
pub const ALARM_IRQ: u32 = 16 + 11;

/// Switches on the interrupt controller and the core's interrupts.
pub fn start() {
    irq::start();
    irq::listen(ALARM_IRQ);
    irq::listen(MACHINE.irq);
    interrupts_on();
}
