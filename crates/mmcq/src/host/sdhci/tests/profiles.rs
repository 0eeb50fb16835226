//! Tests of the profiles: what each profile requires, and which error results on another
//! controller.

use super::*;
use crate::host::sdhci::{Usdhc, profiles};

fn all() -> [(&'static str, SdhciConfig); 16] {
    const HZ: u32 = 100_000_000;
    [
        ("ZYNQ", profiles::ZYNQ.clock(HZ)),
        ("ZYNQMP", profiles::ZYNQMP.clock(HZ)),
        ("VERSAL", profiles::VERSAL.clock(HZ)),
        ("BCM2835_EMMC", profiles::BCM2835_EMMC.clock(HZ)),
        ("BCM2711_EMMC2", profiles::BCM2711_EMMC2.clock(HZ)),
        ("BCM2712", profiles::BCM2712.clock(HZ)),
        ("ASPEED", profiles::ASPEED.clock(HZ)),
        ("NPCM7XX", profiles::NPCM7XX),
        ("CADENCE_SD4HC", profiles::CADENCE_SD4HC),
        ("DWCMSHC", profiles::DWCMSHC.clock(HZ)),
        ("AM654", profiles::AM654),
        ("SPRD", profiles::SPRD.clock(HZ)),
        ("INTEL", profiles::INTEL),
        ("PCI", profiles::PCI),
        ("USDHC", profiles::USDHC.clock(HZ)),
        ("USDHC_IMX6", profiles::USDHC_IMX6.clock(HZ)),
    ]
}

fn dma() -> &'static FakeDma {
    Box::leak(Box::default())
}

#[test]
fn registers_of_ones_are_named_whatever_the_profile() {
    for (name, config) in all() {
        let regs = Fake::new(2, CAPS);
        *regs.bytes.borrow_mut() = [0xff; 256];
        let made = Driver::new(regs, dma(), Box::leak(Box::new(Table::new())), config);
        assert_eq!(made.err(), Some(SdhciInitError::Gone), "{name}");
    }
}

/// Tests controllers whose capabilities have no base clock, or a wrong one: without a configured
/// clock the error names it.
#[test]
fn a_clock_that_is_missing_is_named() {
    for profile in [profiles::ZYNQ, profiles::BCM2835_EMMC, profiles::ASPEED, profiles::DWCMSHC] {
        let error = build(2, CAPS, profile.clock(0), dma()).err().unwrap();
        assert_eq!(error, SdhciInitError::NoBaseClock);
    }
    let error = build(2, CAPS & !0xff00, profiles::PCI, dma()).err().unwrap();
    assert_eq!(error, SdhciInitError::NoBaseClock);
    let text = std::format!("{error}");
    assert!(text.contains("base_clock_hz") && text.contains("15:8"), "{text}");
}

#[test]
fn each_profile_drives_a_controller_that_follows_the_standard() {
    for (name, config) in all() {
        let mut host = ready_with(2, CAPS, config);
        let pio = host.transfer_mode() == TransferMode::Pio;
        assert_eq!(pio, name == "BCM2835_EMMC", "{name}");
        let mut memory = vec![0; 512];
        let segments = [if pio { near(&mut memory) } else { far(0x8000, 512) }];
        host.start(&read(1), &segments, 100_000_000).unwrap();
        let status = INT_COMMAND | INT_TRANSFER | if pio { INT_BUFFER_READ } else { 0 };
        if pio {
            host.port.regs.set(PRESENT, 4, host.port.regs.get(PRESENT, 4) | PRESENT_BUFFER_READ);
        }
        assert!(report(&mut host, status, &segments).phase.unwrap().is_ok(), "{name}");
    }
}

/// Tests a controller that is no uSDHC through [`Usdhc`]: its clock never becomes stable, so the
/// change of the clock fails.
#[test]
fn a_controller_that_is_no_usdhc_fails_at_its_clock() {
    let table = Box::leak(Box::new(Table::new()));
    let config = profiles::USDHC.clock(198_000_000);
    let mut host: Sdhci<_, _, 8> = Sdhci::new(Usdhc::new(Fake::new(2, CAPS)), dma(), table, config).unwrap();
    for op in [BusOp::ResetAll, BusOp::PowerOn] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
    let (mut now_ns, mut step) = (0, host.set_bus(BusOp::Clock(400_000), true, 0));
    while let Step::Wait(at_ns) = step {
        assert!(at_ns > now_ns && at_ns <= 150_000_000);
        now_ns = at_ns;
        step = host.set_bus(BusOp::Clock(400_000), false, now_ns);
    }
    assert_eq!((step, now_ns), (Step::Failed, 150_000_000));
}

/// Tests controllers whose status never shows a card, and whose SD Bus Power then stays 0: the
/// driver finds a card present, switches it on and waits for no insertion.
#[test]
fn a_controller_without_card_detection_has_a_card() {
    for profile in [profiles::BCM2835_EMMC, profiles::BCM2711_EMMC2] {
        let mut host = ready_with(2, CAPS, profile.clock(100_000_000));
        host.port.regs.set(PRESENT, 4, host.port.regs.get(PRESENT, 4) & !PRESENT_INSERTED);
        assert!(host.present() && !host.write_protected());
        assert_eq!(host.set_bus(BusOp::PowerOn, true, 0), Step::Done);
        assert_eq!(host.port.regs.get(INT_ENABLE, 4) & (INT_INSERT | INT_REMOVE), 0);
    }
}
