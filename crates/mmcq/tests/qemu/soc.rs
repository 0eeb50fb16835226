//! Tests on machines for which this project has no bootable image, or whose card is behind a
//! controller that no image uses. The driver runs in the test process, with the profile of that
//! controller, and receives the interrupt from the machine's interrupt controller. The CPU of the
//! machine sleeps.
//!
//! A machine whose QEMU is not installed is left out, and a line says so. If `CI` is set, the QEMU
//! of the Arm machines must be installed, as that of the PC. The machines are in `socs.rs`.

use crate::engine::{self, Driver, Stack};
use crate::machine::{Machine, SDHC_BYTES, SDSC_BYTES};
use crate::one_thread::{OneThread, TIMER};
use crate::registers::QtestRegs;
use crate::socs::{ICICLE, NPCM750, SABRELITE, Soc, machine};
use mmcq::card;
use mmcq::engine::{Config, Error};
use mmcq::host::Regs;
use mmcq::host::Width;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table, TransferMode, Usdhc, profiles};

/// Offset of the Software Reset register, with which the test resets the whole controller [SDHC
/// 2.2.16].
const SOFTWARE_RESET: u16 = 0x2f;

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
