//! Tests on machines for which this project has no bootable image, or whose card is behind a
//! controller that no image uses. The driver runs in the test process, with the profile of that
//! controller, and receives the interrupt from the machine's interrupt controller. The CPU of the
//! machine sleeps.
//!
//! A machine whose QEMU is not installed is left out, and a line says so. If `CI` is set, the QEMU
//! of the Arm machines must be installed, as that of the PC.

use crate::engine::{self, Driver, Stack};
use crate::machine::{Machine, SDHC_BYTES, SDSC_BYTES};
use crate::one_thread::{OneThread, TIMER};
use crate::qtest::Qemu;
use crate::registers::QtestRegs;
use mmcq::card;
use mmcq::engine::{Config, Error};
use mmcq::host::Regs;
use mmcq::host::Width;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table, TransferMode, Usdhc, profiles};
use std::io::Write;

/// A machine of QEMU, with the properties in which the machines differ.
#[derive(Debug)]
pub struct Soc {
    /// Name of the machine in QEMU.
    pub name: &'static str,
    program: &'static str,
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

const NPCM750: Soc = Soc {
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
const SABRELITE: Soc = Soc {
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
const ICICLE: Soc = Soc {
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

/// Offset of the Software Reset register, with which the test resets the whole controller [SDHC
/// 2.2.16].
const SOFTWARE_RESET: u16 = 0x2f;

/// Starts the machine with a card of `image_bytes` bytes, or without a card. Returns `None` if QEMU
/// is not installed and that is no failure.
fn machine(soc: &Soc, image_bytes: Option<u64>) -> Option<Machine> {
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

fn stack<R: Regs>(machine: &Machine, regs: R, config: SdhciConfig) -> Stack<R> {
    let table = Box::leak(Box::new(Table::new()));
    let host: Driver<R> = Sdhci::new(regs, machine.dma(), table, config).expect("the controller is taken");
    assert_eq!(host.transfer_mode(), TransferMode::Adma2);
    Stack::new(OneThread, TIMER, host, Config::DEFAULT)
}

/// Tests bring-up and a load on cards of both sizes, compared with the card's image, and then the
/// same controller without a card.
fn judge<R: Regs>(soc: &Soc, registers: impl Fn(QtestRegs) -> R, config: SdhciConfig) {
    for image_bytes in [SDSC_BYTES, SDHC_BYTES] {
        let Some(machine) = machine(soc, Some(image_bytes)) else { return };
        let stack = stack(&machine, registers(machine.registers()), config);
        let bring_up = card::bring_up_sd(&stack, engine::buffer(1), card::Options::DEFAULT);
        let (found, _) = engine::drive(&machine, &stack, bring_up);
        let found = found.unwrap_or_else(|error| panic!("{}: bring-up: {error}", soc.name));
        assert_eq!(found.params.sectors, image_bytes / 512);
        assert_eq!(found.width, Width::W4);
        engine::mixed_load(&machine, &stack, found.params.sectors, 100);
        let stats = stack.with(|engine| *engine.stats());
        assert_eq!((stats.lost_interrupts, stats.faults), (0, 0), "{}", soc.name);
        println!("{}: {} requests, {} interrupts", soc.name, stats.requests, stats.interrupts);
    }
    let Some(machine) = machine(soc, None) else { return };
    let stack = stack(&machine, registers(machine.registers()), config);
    let bring_up = card::bring_up_sd(&stack, engine::buffer(1), card::Options::DEFAULT);
    let (found, _) = engine::drive(&machine, &stack, bring_up);
    let error = found.expect_err("there is no card");
    assert!(matches!(error, Error::NoCard | Error::Removed), "{}: {error}", soc.name);
    let took_ns = machine.now_ns();
    assert!(took_ns < 5_000_000_000, "{}: {error} after {took_ns} ns", soc.name);
    println!("{}: without a card: {error}, after {} ms", soc.name, took_ns / 1_000_000);
}

#[test]
fn npcm750_evb() {
    let registers = |regs: QtestRegs| {
        // QEMU's controller says that its slot is empty until its first software reset, which a
        // boot ROM does.
        regs.write8(SOFTWARE_RESET, 1);
        regs
    };
    judge(&NPCM750, registers, profiles::NPCM7XX.width(Width::W4));
}

#[test]
fn sabrelite() {
    judge(&SABRELITE, Usdhc::new, profiles::USDHC_IMX6.clock(198_000_000).width(Width::W4));
}

#[test]
fn microchip_icicle_kit() {
    judge(&ICICLE, |regs| regs, profiles::CADENCE_SD4HC.width(Width::W4));
}
