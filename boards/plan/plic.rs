//! The interrupt controller of RISC-V machines, at the place that QEMU's have it: the first
//! context, machine mode of hart 0.

use crate::cpu::{read, write};
use crate::plan::firmware::{Source, serve};

const PLIC: usize = 0x0c00_0000;
const ENABLE: usize = PLIC + 0x2000;
const THRESHOLD: usize = PLIC + 0x20_0000;
/// Read: takes the interrupt, 0 is none. Written: it is over.
const CLAIM: usize = PLIC + 0x20_0004;

/// Listens to an interrupt.
pub fn listen(irq: u32) {
    write(THRESHOLD, 0);
    write(PLIC + 4 * irq as usize, 1);
    let word = ENABLE + irq as usize / 32 * 4;
    write(word, read(word) | 1 << (irq % 32));
}

/// Serves a device; there are no others than the card's.
#[inline]
pub fn serve_device() {
    let irq = read(CLAIM);
    if irq != 0 {
        serve(Source::Card);
        write(CLAIM, irq);
    }
}
