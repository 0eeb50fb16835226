//! The interrupt controller (PLIC) of QEMU's RISC-V machines, for their first context: machine mode
//! of hart 0.

use crate::cpu::{read, write};
use crate::plan::firmware::{Source, serve};

const PLIC: usize = 0x0c00_0000;
const ENABLE: usize = PLIC + 0x2000;
const THRESHOLD: usize = PLIC + 0x20_0000;
/// Claim register. Reading it takes the next interrupt (0 is none), writing its number ends the
/// interrupt.
const CLAIM: usize = PLIC + 0x20_0004;

/// Enables an interrupt.
pub fn listen(irq: u32) {
    write(THRESHOLD, 0);
    write(PLIC + 4 * irq as usize, 1);
    let word = ENABLE + irq as usize / 32 * 4;
    write(word, read(word) | 1 << (irq % 32));
}

/// Serves the interrupt of a device; only the controller's is enabled.
#[inline]
pub fn serve_device() {
    let irq = read(CLAIM);
    if irq != 0 {
        serve(Source::Card);
        write(CLAIM, irq);
    }
}
