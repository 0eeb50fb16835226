//! Reset code and vector table of an ARMv7-A core, in the mode in which QEMU starts it.

use crate::board;

core::arch::global_asm!(
    ".arm",
    ".section .vectors, \"ax\", %progbits",
    ".balign 32",
    "vectors:",
    "b start",
    "b undefined",
    "b supervisor",
    "b prefetch_abort",
    "b data_abort",
    "b .",
    "b irq",
    "b .",
    ".global start",
    "start:",
    // Only the first core continues.
    "mrc p15, 0, r0, c0, c0, 5",
    "tst r0, #3",
    "bne 3f",
    // The core uses this vector table.
    "ldr r0, =vectors",
    "mcr p15, 0, r0, c12, c0, 0",
    // Stacks of interrupt mode and of supervisor mode; interrupts are still off.
    "cps #0x12",
    "ldr sp, =irq_stack_top",
    "cps #0x13",
    "ldr sp, =stack_top",
    "ldr r0, =bss_start",
    "ldr r1, =bss_end",
    "mov r2, #0",
    "1: cmp r0, r1",
    "strlo r2, [r0], #4",
    "blo 1b",
    "bl main",
    "3: wfi",
    "b 3b",
    "irq:",
    "sub lr, lr, #4",
    "push {{r0-r3, r12, lr}}",
    "bl interrupt",
    "pop {{r0-r3, r12, lr}}",
    "movs pc, lr",
    // Unexpected exceptions end the program; lr holds the address where they happened.
    "undefined: mov r0, #1",
    "b 2f",
    "supervisor: mov r0, #2",
    "b 2f",
    "prefetch_abort: mov r0, #3",
    "b 2f",
    "data_abort: mov r0, #4",
    "2: mov r1, lr",
    "ldr sp, =stack_top",
    "bl exception",
    "b .",
    ".pool",
);

/// Reports an exception that was not expected, and ends the program.
#[unsafe(no_mangle)]
extern "C" fn exception(number: u32, address: u32) -> ! {
    let names = ["reset", "undefined instruction", "supervisor call", "prefetch abort", "data abort"];
    let name = names.get(number as usize).unwrap_or(&"exception");
    board::say(format_args!("{name} near {address:#010x}"));
    board::exit(3)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    board::say(format_args!("{info}"));
    board::exit(2)
}
