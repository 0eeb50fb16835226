//! QEMU's machine vexpress-a9: one Cortex-A9 with its interrupt controller, Arm's timer and UART,
//! and the board's system registers.
//!
//! MMU and caches are off: CPU and controllers see the same memory. The engine's lock switches
//! interrupts off.

pub use crate::arm::sleep_until;
use crate::arm::{read, write};
pub use crate::armv7::{exit, interrupts_off};
use crate::gic;
use crate::pl011;
pub use crate::pl011::say;
use core::cell::UnsafeCell;

/// Address of the PL181, the SD controller.
pub const MCI: usize = 0x1000_5000;
/// Frequency in hertz of MCLK and PCLK, the clocks of the PL181.
pub const MCI_HZ: u32 = 24_000_000;
/// Address of the UART.
pub const UART: usize = 0x1000_9000;
/// Addresses of the SP804 timer's registers: load, control, interrupt clear. The timer counts
/// microseconds down.
const TIMER: usize = 0x1001_1000;
const TIMER_CONTROL: usize = TIMER + 0x08;
const TIMER_CLEAR: usize = TIMER + 0x0c;
/// Value of the timer's control register: enabled, with interrupt, 32 bits, one shot.
const TIMER_ONCE: u32 = 0xa3;
/// Address of a 24 MHz counter that is always on.
const COUNTER: usize = 0x1000_005c;
/// Address of the interrupt controller's CPU interface.
pub const GIC_CPU: usize = 0x1e00_0100;
/// Address of the interrupt controller's distributor.
pub const GIC_DISTRIBUTOR: usize = 0x1e00_1000;
/// Number of the timer's interrupt.
pub const ALARM_IRQ: u32 = 32 + 2;
/// Number of the first of the PL181's two interrupts.
const MCI_IRQ: u32 = 32 + 9;

/// A value that only one context uses at a time.
struct Alone<T>(UnsafeCell<T>);

// SAFETY: only `with` accesses the value, with interrupts off, on the only core.
unsafe impl<T: Send> Sync for Alone<T> {}

impl<T> Alone<T> {
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: interrupts are off on the only core, and no closure below calls this function
        // again.
        interrupts_off(|| f(unsafe { &mut *self.0.get() }))
    }
}

/// Switches on UART, interrupt controller and the core's interrupts.
pub fn start() {
    pl011::start();
    gic::start();
    gic::listen(ALARM_IRQ);
    gic::listen(MCI_IRQ);
    // SAFETY: the vector table is in place, and the handler serves both interrupts.
    unsafe { core::arch::asm!("cpsie i", options(nostack, preserves_flags)) };
}

/// Clears the alarm's interrupt after it has come.
pub fn silence_alarm() {
    write(TIMER_CLEAR, 1);
}

/// Upper half of the 64-bit count, and last value of the 32-bit counter.
static CLOCK: Alone<(u32, u32)> = Alone(UnsafeCell::new((0, 0)));

/// Returns the nanoseconds since the machine started. Must be called at intervals shorter than 178
/// s, in which the 32-bit counter overflows once.
pub fn now_ns() -> u64 {
    let ticks = CLOCK.with(|(high, last)| {
        let low = read(COUNTER);
        if low < *last {
            *high += 1;
        }
        *last = low;
        u64::from(*high) << 32 | u64::from(low)
    });
    // A tick of 24 MHz is 125 / 3 ns.
    ticks / 3 * 125 + ticks % 3 * 125 / 3
}

/// Sets the time at which the alarm interrupts; `None` switches the alarm off.
pub fn set_alarm(at_ns: Option<u64>) {
    interrupts_off(|| {
        write(TIMER_CONTROL, 0);
        if let Some(at_ns) = at_ns {
            let us = at_ns.saturating_sub(now_ns()).div_ceil(1_000).clamp(1, u32::MAX.into());
            write(TIMER, us as u32);
            write(TIMER_CONTROL, TIMER_ONCE);
        }
    });
}
