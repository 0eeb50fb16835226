//! What the machines have in common: memory is one for CPU and controllers, with the MMU off, and
//! reports go by semihosting.

pub use crate::arm::sleep_until;
pub use crate::cpu::{barrier, exit, interrupts_off, now_ns, set_alarm, silence_alarm};
use crate::cpu::{interrupts_on, write_line};
use crate::irq;
use crate::table::MACHINE;
use core::fmt::{self, Write};

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

/// A line, and the zero at its end.
struct Line {
    bytes: [u8; 160],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // What is too long is cut: the last byte stays 0.
        let room = self.bytes.len() - 1 - self.used;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.used..self.used + text.len()].copy_from_slice(text);
        self.used += text.len();
        Ok(())
    }
}

/// One line of the report.
pub fn say(line: fmt::Arguments<'_>) {
    let mut buffer = Line { bytes: [0; _], used: 0 };
    // A line cannot fail.
    let _ = buffer.write_fmt(format_args!("{line}\n"));
    write_line(&mut buffer.bytes);
}
