//! A 64-bit Arm core in exception level 1: interrupt mask DAIF, the core's virtual timer as the
//! clock, a GIC of version 2. The loader has turned address translation and caches on, as UEFI or
//! U-Boot do.

use crate::board::{read, write};
use core::arch::asm;

const GIC_DISTRIBUTOR: usize = 0x0800_0000;
const GIC_ENABLE: usize = GIC_DISTRIBUTOR + 0x100;
const GIC_TARGET: usize = GIC_DISTRIBUTOR + 0x800;
const GIC_CPU: usize = 0x0801_0000;
const GIC_PRIORITY_MASK: usize = GIC_CPU + 0x04;
const GIC_ACKNOWLEDGE: usize = GIC_CPU + 0x0c;
const GIC_END: usize = GIC_CPU + 0x10;
/// Interrupt numbers from here on mean that no interrupt is pending.
const GIC_SPURIOUS: u32 = 1020;
/// Number of the timer's interrupt.
const TIMER_IRQ: u32 = 27;
/// Number of the controller's interrupt.
const IRQ: u32 = 36;
const SECOND_NS: u64 = 1_000_000_000;

core::arch::global_asm!(
    include_str!("../../plan/frame-aarch64.s"),
    ".section .start, \"ax\", %progbits",
    ".global start",
    "start:",
    "ldr x0, =stack_top",
    "mov sp, x0",
    // Compiled code uses the vector registers.
    "mov x0, #3 << 20",
    "msr cpacr_el1, x0",
    "ldr x0, =vectors",
    "msr vbar_el1, x0",
    "isb",
    "ldr x0, =bss_start",
    "ldr x1, =bss_end",
    "1: cmp x0, x1",
    "b.hs 2f",
    "str wzr, [x0], #4",
    "b 1b",
    "2: ldr x0, =data_start",
    "ldr x1, =data_end",
    "ldr x2, =data_load",
    "3: cmp x0, x1",
    "b.hs 4f",
    "ldr w3, [x2], #4",
    "str w3, [x0], #4",
    "b 3b",
    "4: bl main",
    "5: b 5b",
    ".pool",
    // Only IRQs with this level's own stack are expected.
    ".balign 2048",
    "vectors:",
    ".fill 5 * 32, 4, 0x14000000",
    "b 6f",
    ".fill 11 * 32 - 1, 4, 0x14000000",
    // Saves all registers that compiled code may change.
    "6: save_frame",
    "bl interrupted",
    "restore_frame",
    "eret",
);

// SAFETY: each image has `controller_interrupt` with this type.
unsafe extern "C" {
    /// Function of the image, which is called when the controller interrupts.
    fn controller_interrupt();
}

#[unsafe(no_mangle)]
extern "C" fn interrupted() {
    let id = read(GIC_ACKNOWLEDGE);
    match id & 0x3ff {
        GIC_SPURIOUS.. => return,
        TIMER_IRQ => control_timer(false),
        // SAFETY: interrupts are off, as the image expects.
        _ => unsafe { controller_interrupt() },
    }
    write(GIC_END, id);
}

/// Calls `f` with interrupts off, and restores the interrupt mask.
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: u64;
    // SAFETY: reads the masks and sets that of IRQ; memory accesses do not move across, since the
    // asm may touch memory.
    unsafe { asm!("mrs {0}, daif", "msr daifset, #2", out(reg) before, options(nostack, preserves_flags)) };
    let result = f();
    // SAFETY: restores the interrupt masks.
    unsafe { asm!("msr daif, {0}", in(reg) before, options(nostack, preserves_flags)) };
    result
}

fn control_timer(on: bool) {
    // SAFETY: writes the timer's control register.
    unsafe { asm!("msr cntv_ctl_el0, {0}", in(reg) u64::from(on), options(nomem, nostack, preserves_flags)) };
}

/// Returns the ticks since the machine started, and the ticks in a second.
fn ticks() -> (u64, u64) {
    let (ticks, hz): (u64, u64);
    // SAFETY: reads the counter and its frequency.
    unsafe {
        asm!("mrs {0}, cntvct_el0", "mrs {1}, cntfrq_el0", out(reg) ticks, out(reg) hz,
            options(nomem, nostack, preserves_flags));
    }
    (ticks, hz.max(1))
}

/// Sleeps until an interrupt is pending, even a masked one. The timer interrupts after a
/// millisecond at the latest.
pub fn wait_for_interrupt() {
    let (now, hz) = ticks();
    // SAFETY: sets the tick at which the timer interrupts; WFI only takes time.
    unsafe { asm!("msr cntv_cval_el0, {0}", in(reg) now.wrapping_add(hz / 1_000), options(nomem, nostack)) };
    control_timer(true);
    // SAFETY: the instructions only take time and order memory accesses.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}

/// Starts the clock and enables the controller's interrupt.
pub fn start_clock() {
    let (word, shift) = (IRQ as usize / 4 * 4, 8 * (IRQ % 4));
    write(GIC_TARGET + word, read(GIC_TARGET + word) & !(0xff << shift) | 1 << shift);
    for irq in [TIMER_IRQ, IRQ] {
        write(GIC_ENABLE + irq as usize / 32 * 4, 1 << (irq % 32));
    }
    write(GIC_PRIORITY_MASK, 0xf0);
    write(GIC_CPU, 1);
    write(GIC_DISTRIBUTOR, 1);
    // SAFETY: the vectors are in place, and the handler serves both interrupts.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Returns the nanoseconds since the machine started.
pub fn now_ns() -> u64 {
    let (ticks, hz) = ticks();
    let part = (ticks % hz).wrapping_mul(SECOND_NS).checked_div(hz).unwrap_or(0);
    (ticks / hz).wrapping_mul(SECOND_NS).wrapping_add(part)
}
