//! Machines of QEMU with an SD controller of their own: what differs between them, and how one
//! starts. The CPU of the machine sleeps, and the interrupt controller reports to the test.

use crate::machine::Machine;
use crate::qtest::Qemu;
use std::io::Write;

/// A machine of QEMU, with the properties in which the machines differ.
#[derive(Debug)]
pub struct Soc {
    /// Name of the machine in QEMU.
    pub name: &'static str,
    /// Name of QEMU's program.
    pub program: &'static str,
    /// Guest physical address of the controller's registers.
    pub registers: u64,
    /// Path in QEMU's device tree of the interrupt controller that receives the controller's
    /// interrupt.
    pub interrupts: &'static str,
    /// Number of the interrupt controller's input to which the SD controller's interrupt leads.
    pub line: u8,
    /// Guest physical address of the begin of memory.
    pub memory: u64,
    /// Size of memory that the machine must have, in MiB.
    pub memory_mib: u64,
    /// QEMU's option that loads a program.
    pub begins: &'static str,
    /// A program in machine code that sleeps for ever.
    pub sleep: &'static [u8],
    /// Whether the machine puts a card of its own into the slot.
    pub own_card: bool,
}

/// An Arm program (A32 instructions) that sleeps for ever: `wfi`, and a jump back to it.
const ARM_SLEEPS: &[u8] = &[0x03, 0xf0, 0x20, 0xe3, 0xfd, 0xff, 0xff, 0xea];
const RISCV_SLEEPS: &[u8] = &[0x73, 0x00, 0x50, 0x10, 0x6f, 0xf0, 0xdf, 0xff];

/// The board of Nuvoton's NPCM750.
pub const NPCM750: Soc = Soc {
    name: "npcm750-evb",
    program: "qemu-system-arm",
    registers: 0xf084_2000,
    interrupts: "/machine/soc/a9mpcore",
    line: 26,
    memory: 0,
    memory_mib: 512,
    begins: "-bios",
    sleep: ARM_SLEEPS,
    own_card: false,
};

/// The board SABRE Lite with an i.MX 6Q: its fourth uSDHC has the slot of the microSD card.
pub const SABRELITE: Soc = Soc {
    name: "sabrelite",
    program: "qemu-system-arm",
    registers: 0x0219_c000,
    interrupts: "/machine/soc/a9mpcore",
    line: 25,
    memory: 0x1000_0000,
    memory_mib: 64,
    begins: "-kernel",
    sleep: ARM_SLEEPS,
    own_card: false,
};

/// The board PolarFire Icicle: the registers of the SDHCI begin 0x200 bytes after those of
/// Cadence's controller.
pub const ICICLE: Soc = Soc {
    name: "microchip-icicle-kit",
    program: "qemu-system-riscv64",
    registers: 0x2000_8200,
    interrupts: "/machine/unattached/device[8]",
    line: 88,
    memory: 0x8000_0000,
    memory_mib: 2048,
    begins: "-bios",
    sleep: RISCV_SLEEPS,
    own_card: true,
};

/// Starts the machine with a card of `image_bytes` bytes, or without a card. Returns `None` if QEMU
/// is not installed and that is no failure: without the variable `CI`, or on a machine that is not
/// Arm.
pub fn machine(soc: &Soc, image_bytes: Option<u64>) -> Option<Machine> {
    let qemu = match Qemu::named(soc.program) {
        Ok(qemu) => qemu,
        Err(error) => {
            let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
            assert!(!ci || soc.program != "qemu-system-arm", "{error}; CI is set");
            let _ = writeln!(std::io::stderr(), "{} is left out: {error}", soc.name);
            return None;
        }
    };
    Some(Machine::start_soc(&qemu, soc, image_bytes).unwrap_or_else(|error| panic!("{}: {error}", soc.name)))
}
