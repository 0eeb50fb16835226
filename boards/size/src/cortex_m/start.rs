//! Reset code and vector table of a Cortex-M core.

use super::{IRQ, tick};

core::arch::global_asm!(include_str!("../../../plan/reset-cortex-m.s"));

// SAFETY: signatures of the assembly above, the linker script's symbol, and each image's
// `controller_interrupt`.
unsafe extern "C" {
    fn start();
    fn stack_top();
    /// Function of the image, which is called when the controller interrupts.
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

/// An entry of the vector table. Calling it is unsafe, and only the core calls it.
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
