//! Tests of controller profiles, by the name of their board, on a model that follows the standard:
//! the whole stack with each profile, and the error if a profile belongs to another controller.

use crate::machine::{Rig, bytes, storage_card};
use crate::rig::Stack;
use crate::timed::erased::Erased;
use crate::timed::one_thread::NOW_NS;
use crate::timed::{self, turn};
use mmcq::card::{self, Options};
use mmcq::engine::{Config, Error};
use mmcq::host::sdhci::{Sdhci, Table, Usdhc, profiles};
use mmcq::host::{BusOp, Width};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Mistakes, Port, SdhciConfig};
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::rc::Rc;

const BASE_HZ: u32 = 100_000_000;

/// A controller model whose capabilities register does not report the base clock.
fn model() -> SdhciConfig {
    let generic = SdhciConfig::GENERIC_3_00;
    SdhciConfig { capabilities: generic.capabilities & !0xff00, base_clock_hz: BASE_HZ, ..generic }
}

#[test]
fn every_profile_whose_clock_is_the_boards_drives_the_model() {
    for (name, profile) in [
        ("ZYNQ", profiles::ZYNQ),
        ("ZYNQMP", profiles::ZYNQMP),
        ("VERSAL", profiles::VERSAL),
        ("BCM2835_EMMC", profiles::BCM2835_EMMC),
        ("BCM2711_EMMC2", profiles::BCM2711_EMMC2),
        ("BCM2712", profiles::BCM2712),
        ("ASPEED", profiles::ASPEED),
        ("DWCMSHC", profiles::DWCMSHC),
        ("USDHC", profiles::USDHC),
        ("USDHC_IMX6", profiles::USDHC_IMX6),
    ] {
        let rig = Rig::new("sdhc-16g-hs", model(), profile.clock(BASE_HZ).width(Width::W4));
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((found.width, found.clock_hz), (Width::W4, 50_000_000), "{name}");
        rig.mixed_load(found.params.sectors, 30);
        rig.checked();
        let forgotten = Rig::with_card(storage_card("sdhc-16g-hs"), model(), profile.clock(0), 0);
        let error = forgotten.err().unwrap_or_else(|| panic!("{name}: there is a driver without a clock"));
        assert!(error.contains("base_clock_hz"), "{name}: {error}");
    }
}

#[test]
fn every_profile_whose_capabilities_tell_the_clock_drives_the_model() {
    for (name, config, card) in [
        ("NPCM7XX", profiles::NPCM7XX, "sdhc-16g-hs"),
        ("CADENCE_SD4HC", profiles::CADENCE_SD4HC, "sdhc-16g-hs"),
        ("AM654", profiles::AM654, "sdhc-16g-hs"),
        ("PCI", profiles::PCI, "sdhc-16g-hs"),
        ("SPRD", profiles::SPRD.clock(200_000_000), "emmc-51-full"),
        ("INTEL", profiles::INTEL, "emmc-51-full"),
    ] {
        let fast = card == "emmc-51-full";
        let generic = if fast { SdhciConfig::GENERIC_4_20 } else { SdhciConfig::GENERIC_3_00 };
        let rig = Rig::new(card, SdhciConfig { uhs_at_33v: fast, ..generic }, config);
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{name}: {error}"));
        rig.mixed_load(found.params.sectors, 30);
        rig.checked();
    }
}

/// Checks the profiles of controllers without card detection, on a model whose status never shows a
/// card, and whose Power Control has no function.
#[test]
fn a_controller_without_card_detection_brings_its_card_up() {
    let mistakes = Mistakes { card_unseen: true, power_unused: true, ..Mistakes::NONE };
    for (name, profile) in
        [("BCM2835_EMMC", profiles::BCM2835_EMMC), ("BCM2711_EMMC2", profiles::BCM2711_EMMC2)]
    {
        let driver = profile.clock(BASE_HZ).width(Width::W4);
        let rig = Rig::new("sdhc-16g-hs", SdhciConfig { mistakes, ..model() }, driver);
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{name}: {error}"));
        rig.mixed_load(found.params.sectors, 30);
        rig.checked();
    }
}

/// Checks the uSDHC profile on a controller that is no uSDHC: the error names the first clock
/// setting, and bring-up ends in less than a second.
#[test]
fn a_controller_that_is_no_usdhc_is_named_by_its_clock() {
    let (time, memory) = (Time::new(), ShadowMemory::new(MemoryConfig::BITS32));
    let card = storage_card("sdhc-16g-hs");
    let model = Rc::new(RefCell::new(mmcq_sim::sdhci::Sdhci::new(model(), memory.clone(), Some(card))));
    let regs = Usdhc::new(Port::new(model.clone(), time.clone(), 0, 0));
    let table = Box::leak(Box::new(Table::<129>::new()));
    let host = Sdhci::new(regs, memory, table, profiles::USDHC.clock(BASE_HZ)).unwrap();
    NOW_NS.set(0);
    let stack: Stack = crate::timed::on(Erased::new(host), Config::DEFAULT);
    let up = card::bring_up(&stack, bytes(512), Options::DEFAULT);
    let (found, _) = timed::try_drive(&time, || turn(&stack, &model, &time), up).unwrap();
    let error = found.err().unwrap();
    assert!(matches!(error, Error::Bus(BusOp::Clock(_))), "{error}");
    assert!(time.now() < 1_000_000_000, "{} ns", time.now());
}
