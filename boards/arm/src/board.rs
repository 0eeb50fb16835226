//! QEMU's vexpress-a9: one Cortex-A9 with its interrupt controller, ARM's timer, UART and system registers.
//!
//! MMU and caches are off: CPU and controllers see the same memory. The lock is "interrupts off".

use core::cell::UnsafeCell;
use core::fmt::{self, Write};

/// The PL181.
pub const MCI: usize = 0x1000_5000;
/// MCLK and PCLK of the motherboard's.
pub const MCI_HZ: u32 = 24_000_000;
const UART: usize = 0x1000_9000;
/// UARTFR: the transmit FIFO is full.
const UART_FLAGS: usize = UART + 0x18;
const UART_TX_FULL: u32 = 1 << 5;
const UART_CONTROL: usize = UART + 0x30;
const UART_ON: u32 = 0x301;
/// SP804: load, control, interrupt clear; it counts microseconds down.
const TIMER: usize = 0x1001_1000;
const TIMER_CONTROL: usize = TIMER + 0x08;
const TIMER_CLEAR: usize = TIMER + 0x0c;
/// Enabled, with interrupt, 32 bits, once.
const TIMER_ONCE: u32 = 0xa3;
/// A counter of 24 MHz that is always on.
const COUNTER: usize = 0x1000_005c;
/// The interrupt controller: CPU interface and distributor.
const GIC_CPU: usize = 0x1e00_0100;
const GIC_PRIORITY_MASK: usize = GIC_CPU + 0x04;
const GIC_ACKNOWLEDGE: usize = GIC_CPU + 0x0c;
const GIC_END: usize = GIC_CPU + 0x10;
const GIC_DISTRIBUTOR: usize = 0x1e00_1000;
const GIC_ENABLE: usize = GIC_DISTRIBUTOR + 0x100;
const GIC_PRIORITY: usize = GIC_DISTRIBUTOR + 0x400;
const GIC_TARGET: usize = GIC_DISTRIBUTOR + 0x800;
/// The timer's interrupt, and the first of the PL181's two.
pub const TIMER_IRQ: u32 = 32 + 2;
/// See above.
pub const MCI_IRQ: u32 = 32 + 9;

fn read(address: usize) -> u32 {
    // SAFETY: a register of this board, listed above.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

fn write(address: usize, value: u32) {
    // SAFETY: as in `read`.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

/// Runs `f` with interrupts off; they come back as they were.
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: u32;
    // SAFETY: reads CPSR and sets its I bit; memory accesses do not move across, since the asm may touch
    // memory.
    unsafe {
        core::arch::asm!("mrs {0}, cpsr", "cpsid i", out(reg) before, options(nostack, preserves_flags))
    };
    let result = f();
    // SAFETY: puts the I bit (and what else its byte holds, which has not changed) back.
    unsafe { core::arch::asm!("msr cpsr_c, {0}", in(reg) before, options(nostack, preserves_flags)) };
    result
}

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
    write(UART_CONTROL, UART_ON);
    for irq in [TIMER_IRQ, MCI_IRQ] {
        let (word, shift) = (irq as usize / 4 * 4, 8 * (irq % 4));
        write(GIC_PRIORITY + word, read(GIC_PRIORITY + word) & !(0xff << shift) | 0xa0 << shift);
        write(GIC_TARGET + word, read(GIC_TARGET + word) & !(0xff << shift) | 1 << shift);
        write(GIC_ENABLE + irq as usize / 32 * 4, 1 << (irq % 32));
    }
    write(GIC_PRIORITY_MASK, 0xf0);
    write(GIC_CPU, 1);
    write(GIC_DISTRIBUTOR, 1);
    // SAFETY: the vector table stands, and the handler copes with any interrupt that is enabled above.
    unsafe { core::arch::asm!("cpsie i", options(nostack, preserves_flags)) };
}

/// Calls `f` with the number of the interrupt that is pending, and ends it.
pub fn dispatch(f: impl FnOnce(u32)) {
    let id = read(GIC_ACKNOWLEDGE);
    if id & 0x3ff == TIMER_IRQ {
        write(TIMER_CLEAR, 1);
    }
    f(id & 0x3ff);
    write(GIC_END, id);
}

/// Sleeps until `ready`, which an interrupt makes true.
pub fn sleep_until(mut ready: impl FnMut() -> bool) {
    loop {
        let go_on = interrupts_off(|| {
            let go_on = ready();
            if !go_on {
                // SAFETY: wakes for an interrupt that is pending although it is masked.
                unsafe { core::arch::asm!("dsb", "wfi", options(nostack, preserves_flags)) };
            }
            go_on
        });
        if go_on {
            return;
        }
    }
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

struct Uart;

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while read(UART_FLAGS) & UART_TX_FULL != 0 {}
            write(UART, byte.into());
        }
        Ok(())
    }
}

/// One line to the UART.
pub fn say(line: fmt::Arguments<'_>) {
    // The UART cannot fail.
    let _ = Uart.write_fmt(format_args!("{line}\n"));
}

/// Ends QEMU with this status, by semihosting.
pub fn exit(status: u32) -> ! {
    const SYS_EXIT_EXTENDED: u32 = 0x20;
    const APPLICATION_EXIT: u32 = 0x2_0026;
    let block = [APPLICATION_EXIT, status];
    loop {
        // SAFETY: the call reads two words at r1.
        unsafe {
            core::arch::asm!(
                "svc #0x123456",
                inout("r0") SYS_EXIT_EXTENDED => _,
                in("r1") block.as_ptr(),
                out("lr") _
            );
        }
    }
}
