//! Reset code and vectors of an ARMv8-A core in exception level 1, in which QEMU starts it.

core::arch::global_asm!(
    include_str!("../../plan/frame-aarch64.s"),
    ".section .text.start, \"ax\"",
    ".global start",
    "start:",
    "msr daifset, #0xf",
    // Compiled code uses the vector registers.
    "mov x0, #3 << 20",
    "msr cpacr_el1, x0",
    "ldr x0, =vectors",
    "msr vbar_el1, x0",
    // 32-bit addresses, mapped to themselves: the first GiB has devices, the second has cached
    // memory; the core reads the page table through its caches.
    "ldr x0, =page_root",
    "msr ttbr0_el1, x0",
    "mov x0, #0xff00",
    "msr mair_el1, x0",
    "ldr x0, =0x803520",
    "msr tcr_el1, x0",
    "tlbi vmalle1",
    "ic iallu",
    "dsb sy",
    "isb",
    // Switches on address translation, data cache and instruction cache.
    "mrs x0, sctlr_el1",
    "mov x1, #0x1005",
    "orr x0, x0, x1",
    "msr sctlr_el1, x0",
    "isb",
    "ldr x0, =stack_top",
    "mov sp, x0",
    "ldr x0, =bss_start",
    "ldr x1, =bss_end",
    "1: cmp x0, x1",
    "b.hs 2f",
    "stp xzr, xzr, [x0], #16",
    "b 1b",
    "2: bl main",
    "3: b 3b",
    ".pool",
    ".section .data",
    ".balign 64",
    // Page table entries for blocks of 1 GiB: device memory, never executed; normal memory, shared.
    "page_root: .quad 0x0060000000000401, 0x40000705, 0, 0",
    include_str!("../../plan/vectors-aarch64.s"),
);
