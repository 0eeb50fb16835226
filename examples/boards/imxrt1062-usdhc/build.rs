//! Memory layout for the linker: a Teensy 4.1 has 8 MiB of flash. Data and stack are in OCRAM,
//! which the controller's DMA can access.

use imxrt_rt::{Family, Memory, RuntimeBuilder};

fn main() {
    RuntimeBuilder::from_flexspi(Family::Imxrt1060, 8 * 1024 * 1024)
        .data(Memory::Ocram)
        .bss(Memory::Ocram)
        .uninit(Memory::Ocram)
        .stack(Memory::Ocram)
        .build()
        .expect("the memory map of the linker script");
}
