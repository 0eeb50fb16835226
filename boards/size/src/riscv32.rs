//! A 32-bit RISC-V core in machine mode: interrupt mask `mstatus.MIE`, the CLINT's 10 MHz timer as
//! the clock, a PLIC.

use crate::board::{read, write};
use core::arch::asm;

/// Registers of the timer: its time, and the time at which it interrupts, lower words first.
const MTIME: usize = 0x0200_bff8;
const MTIMECMP: usize = 0x0200_4000;
/// Registers of the interrupt controller for machine mode of the first core: priorities, enabled
/// sources, threshold, claim and completion.
const PLIC: usize = 0x0c00_0000;
const PLIC_ENABLE: usize = PLIC + 0x2000;
const PLIC_THRESHOLD: usize = PLIC + 0x20_0000;
const PLIC_CLAIM: usize = PLIC + 0x20_0004;
/// Number of the controller's interrupt.
const IRQ: u32 = 31;
const MSTATUS_MIE: usize = 1 << 3;
/// Bits of `mie`: timer and external interrupts.
const MIE_TIMER_AND_EXTERNAL: usize = 1 << 7 | 1 << 11;
/// Value of `mcause` for the timer's interrupt.
const TIMER_RANG: usize = 1 << 31 | 7;
/// Number of ticks in a millisecond, and the nanoseconds of a tick.
const TICK: u64 = 10_000;
const TICK_NS: u64 = 100;

core::arch::global_asm!(
    ".section .start, \"ax\", %progbits",
    ".global start",
    "start:",
    "la sp, stack_top",
    "la t0, trap",
    "csrw mtvec, t0",
    "la t0, bss_start",
    "la t1, bss_end",
    "1: bgeu t0, t1, 2f",
    "sw zero, 0(t0)",
    "addi t0, t0, 4",
    "j 1b",
    "2: la t0, data_start",
    "la t1, data_end",
    "la t2, data_load",
    "3: bgeu t0, t1, 4f",
    "lw t3, 0(t2)",
    "sw t3, 0(t0)",
    "addi t0, t0, 4",
    "addi t2, t2, 4",
    "j 3b",
    "4: call main",
    "5: j 5b",
    // Saves all registers that compiled code may change.
    ".balign 4",
    "trap:",
    "addi sp, sp, -64",
    "sw ra, 0(sp)",
    "sw t0, 4(sp)",
    "sw t1, 8(sp)",
    "sw t2, 12(sp)",
    "sw t3, 16(sp)",
    "sw t4, 20(sp)",
    "sw t5, 24(sp)",
    "sw t6, 28(sp)",
    "sw a0, 32(sp)",
    "sw a1, 36(sp)",
    "sw a2, 40(sp)",
    "sw a3, 44(sp)",
    "sw a4, 48(sp)",
    "sw a5, 52(sp)",
    "sw a6, 56(sp)",
    "sw a7, 60(sp)",
    "csrr a0, mcause",
    "call trapped",
    "lw ra, 0(sp)",
    "lw t0, 4(sp)",
    "lw t1, 8(sp)",
    "lw t2, 12(sp)",
    "lw t3, 16(sp)",
    "lw t4, 20(sp)",
    "lw t5, 24(sp)",
    "lw t6, 28(sp)",
    "lw a0, 32(sp)",
    "lw a1, 36(sp)",
    "lw a2, 40(sp)",
    "lw a3, 44(sp)",
    "lw a4, 48(sp)",
    "lw a5, 52(sp)",
    "lw a6, 56(sp)",
    "lw a7, 60(sp)",
    "addi sp, sp, 64",
    "mret",
);

// SAFETY: each image has `controller_interrupt` with this type.
unsafe extern "C" {
    /// Function of the image, which is called when the controller interrupts.
    fn controller_interrupt();
}

/// Handles a trap; exceptions end in an endless loop.
#[unsafe(no_mangle)]
extern "C" fn trapped(cause: usize) {
    if cause == TIMER_RANG {
        ring_at(u64::MAX);
        return;
    }
    if cause >> 31 == 0 {
        loop {
            core::hint::spin_loop();
        }
    }
    let source = read(PLIC_CLAIM);
    if source == IRQ {
        // SAFETY: interrupts are off, as the image expects.
        unsafe { controller_interrupt() };
    }
    write(PLIC_CLAIM, source);
}

/// Calls `f` with interrupts off, and restores the interrupt mask.
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: usize;
    // SAFETY: reads mstatus and clears MIE; memory accesses do not move across, since the asm may
    // touch memory.
    unsafe { asm!("csrrci {0}, mstatus, 8", out(reg) before, options(nostack, preserves_flags)) };
    let result = f();
    // SAFETY: restores MIE.
    unsafe { asm!("csrs mstatus, {0}", in(reg) before & MSTATUS_MIE, options(nostack, preserves_flags)) };
    result
}

fn ring_at(ticks: u64) {
    // The upper word is first set to its largest value, so that no early time shows while the lower
    // word is written.
    write(MTIMECMP + 4, u32::MAX);
    write(MTIMECMP, ticks as u32);
    write(MTIMECMP + 4, (ticks >> 32) as u32);
}

fn ticks() -> u64 {
    let (before, low, high) = (read(MTIME + 4), read(MTIME), read(MTIME + 4));
    let low = if before == high { low } else { read(MTIME) };
    u64::from(high) << 32 | u64::from(low)
}

/// Sleeps until an interrupt is pending, even a masked one. The timer interrupts after a
/// millisecond at the latest.
pub fn wait_for_interrupt() {
    ring_at(ticks().wrapping_add(TICK));
    // SAFETY: WFI only takes time.
    unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
}

/// Starts the clock and enables the controller's interrupt.
pub fn start_clock() {
    ring_at(u64::MAX);
    write(PLIC + 4 * IRQ as usize, 1);
    write(PLIC_ENABLE, 1 << IRQ);
    write(PLIC_THRESHOLD, 0);
    // SAFETY: the trap handler serves both interrupts.
    unsafe {
        asm!("csrs mie, {0}", "csrsi mstatus, 8", in(reg) MIE_TIMER_AND_EXTERNAL, options(nostack));
    }
}

/// Returns the nanoseconds since the machine started.
pub fn now_ns() -> u64 {
    ticks().wrapping_mul(TICK_NS)
}
