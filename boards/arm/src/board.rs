//! QEMU's vexpress-a9: one Cortex-A9 with its interrupt controller, ARM's timer, UART and system
//! registers.
//!
//! MMU and caches are off: CPU and controllers see the same memory. The lock is "interrupts off".

pub use crate::arm::sleep_until;
use crate::arm::{read, write};
pub use crate::armv7::{exit, interrupts_off};
use crate::gic;
use crate::pl011;
pub use crate::pl011::say;
use core::cell::UnsafeCell;

/// The PL181.
pub const MCI: usize = 0x1000_5000;
/// MCLK and PCLK of the motherboard's.
pub const MCI_HZ: u32 = 24_000_000;
/// The UART.
pub const UART: usize = 0x1000_9000;
/// SP804: load, control, interrupt clear; it counts microseconds down.
const TIMER: usize = 0x1001_1000;
const TIMER_CONTROL: usize = TIMER + 0x08;
const TIMER_CLEAR: usize = TIMER + 0x0c;
/// Enabled, with interrupt, 32 bits, once.
const TIMER_ONCE: u32 = 0xa3;
/// A counter of 24 MHz that is always on.
const COUNTER: usize = 0x1000_005c;
/// The interrupt controller: CPU interface and distributor.
pub const GIC_CPU: usize = 0x1e00_0100;
/// See above.
pub const GIC_DISTRIBUTOR: usize = 0x1e00_1000;
/// The timer's interrupt, and the first of the PL181's two.
pub const ALARM_IRQ: u32 = 32 + 2;
const MCI_IRQ: u32 = 32 + 9;

/// A value that only one context uses at a time.
struct Alone<T>(UnsafeCell<T>);

// SAFETY: only touched through `with`, with interrupts off on the one core.
unsafe impl<T: Send> Sync for Alone<T> {}

impl<T> Alone<T> {
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: interrupts are off on the one core, and no closure below comes back here.
        interrupts_off(|| f(unsafe { &mut *self.0.get() }))
    }
}

/// Takes UART, interrupt controller and core into use.
pub fn start() {
    pl011::start();
    gic::start();
    gic::listen(ALARM_IRQ);
    gic::listen(MCI_IRQ);
    // SAFETY: the vector table stands, and the handler copes with both interrupts.
    unsafe { core::arch::asm!("cpsie i", options(nostack, preserves_flags)) };
}

/// The alarm has rung.
pub fn silence_alarm() {
    write(TIMER_CLEAR, 1);
}

/// Upper half and last value of the counter.
static CLOCK: Alone<(u32, u32)> = Alone(UnsafeCell::new((0, 0)));

/// Nanoseconds since the machine started; called at least every three minutes.
pub fn now_ns() -> u64 {
    let ticks = CLOCK.with(|(high, last)| {
        let low = read(COUNTER);
        if low < *last {
            *high += 1;
        }
        *last = low;
        u64::from(*high) << 32 | u64::from(low)
    });
    // 24 MHz are 125 / 3 ns.
    ticks / 3 * 125 + ticks % 3 * 125 / 3
}

/// Asks for an interrupt at this time.
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
