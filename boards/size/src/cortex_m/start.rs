//! Reset and the vector table.

use super::{IRQ, tick};

core::arch::global_asm!(
    ".section .start, \"ax\", %progbits",
    ".global start",
    ".thumb_func",
    "start:",
    "ldr r0, =bss_start",
    "ldr r1, =bss_end",
    "movs r2, #0",
    "1: cmp r0, r1",
    "bhs 2f",
    "str r2, [r0]",
    "adds r0, #4",
    "b 1b",
    "2: ldr r0, =data_start",
    "ldr r1, =data_end",
    "ldr r2, =data_load",
    "3: cmp r0, r1",
    "bhs 4f",
    "ldr r3, [r2]",
    "str r3, [r0]",
    "adds r0, #4",
    "adds r2, #4",
    "b 3b",
    "4: bl main",
    "5: b 5b",
    ".pool",
);

// SAFETY: signatures of the assembly above, the linker script's symbol, and each image's
// `controller_interrupt`.
unsafe extern "C" {
    fn start();
    fn stack_top();
    /// The image's own; called when the controller interrupts.
    fn controller_interrupt();
}

extern "C" fn stuck() {
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn systick() {
    tick();
}

/// An entry of the vector table; unsafe to call, and only the core calls it.
type Vector = Option<unsafe extern "C" fn()>;

#[used]
#[unsafe(link_section = ".vectors")]
static VECTORS: [Vector; 16 + 32] = {
    let mut table: [Vector; 16 + 32] = [Some(stuck); 16 + 32];
    table[0] = Some(stack_top);
    table[1] = Some(start);
    table[15] = Some(systick);
    table[16 + IRQ as usize] = Some(controller_interrupt);
    table
};
