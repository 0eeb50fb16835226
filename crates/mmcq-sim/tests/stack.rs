//! Tests of the whole stack on the models: every card profile, every transfer mode, bring-up and
//! data, in virtual time.

use crate::{machine, timed};
use machine::{Rig, buffer};
use mmcq::card::{self, Family};
use mmcq::engine::{Error, Kind, Request, SlotId};
use mmcq::host::sdhci::{self, SdhciQuirks, TransferMode};
use mmcq::host::{Caps, Timing, Width};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::sdhci::{Busy, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::world::Device;

#[test]
fn every_profile_comes_up_at_its_best_speed() {
    let generic = SdhciConfig::GENERIC_4_20;
    for (card, timing, width, is_sd) in [
        ("sdsc-1g", Timing::HighSpeed, Width::W4, true),
        ("sdhc-16g-hs", Timing::HighSpeed, Width::W4, true),
        ("sdxc-128g-uhs", Timing::Sdr104, Width::W4, true),
        ("sdxc-64g-a2", Timing::Sdr104, Width::W4, true),
        ("hbg4a2", Timing::Hs400Es, Width::W8, false),
        ("emmc-51-full", Timing::Hs400Es, Width::W8, false),
        ("emmc-hs200", Timing::Hs200, Width::W8, false),
        ("emmc-4g-old", Timing::Ddr52, Width::W8, false),
    ] {
        let driver = if is_sd { sdhci::SdhciConfig::new() } else { sdhci::SdhciConfig::emmc_18() };
        let rig = Rig::new(card, SdhciConfig { uhs_at_33v: !is_sd, ..generic }, driver);
        let found = rig.bring_up(card::Options::DEFAULT).unwrap_or_else(|error| panic!("{card}: {error}"));
        assert_eq!(matches!(found.family, Family::Sd(_)), is_sd, "{card}");
        assert_eq!((found.timing, found.width), (timing, width), "{card}");
        rig.mixed_load(found.params.sectors, 60);
        rig.checked();
    }
}

/// Checks cards that misbehave in ways that do not concern plain reads and writes.
#[test]
fn misbehaving_cards_work_where_they_can() {
    let generic = SdhciConfig::GENERIC_4_20;
    for (card, is_sd) in [
        ("sd-cache-broken", true),
        ("power-off-never-ready", true),
        ("ddr50-tuning-fails", true),
        ("discard-corrupts", true),
        ("last-block-locks-up", true),
        ("command-queue-broken", true),
        ("cmd23-slow", false),
        ("secure-erase-corrupts", false),
        ("trim-corrupts", false),
        ("flush-needs-write", false),
        ("hpi-breaks", false),
        ("wrong-date", false),
        ("secure-erase-2s", false),
        ("inand-cmd38", false),
    ] {
        let driver = if is_sd { sdhci::SdhciConfig::new() } else { sdhci::SdhciConfig::emmc_18() };
        let card = format!("quirks/{card}");
        let rig = Rig::new(&card, SdhciConfig { uhs_at_33v: !is_sd, ..generic }, driver);
        let found = rig.bring_up(card::Options::DEFAULT).unwrap_or_else(|error| panic!("{card}: {error}"));
        rig.mixed_load(found.params.sectors, 20);
        rig.checked();
        let violations = rig.model.borrow_mut().card_mut().map(|card| card.violations().len());
        assert_eq!(violations, Some(0), "{card}");
    }
}

#[test]
fn a_card_that_is_busy_for_ever_ends_the_request() {
    for strike in [Strike::Never, Strike::Late(500_000_000), Strike::Hidden, Strike::BrownOut] {
        let rig = Rig::new("sdhc-16g-hs", SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
        rig.bring_up(card::Options::DEFAULT).unwrap();
        let faults = Faults::new(Plan::none().shot(Point::Busy, 1, strike));
        rig.model.borrow_mut().card_mut().unwrap().set_faults(faults.clone());
        let begin_ns = rig.time.now();
        let kind = Kind::Write { lba: 8, blocks: 1 };
        let id = rig.stack.with(|e| e.submit(Request::new(kind, buffer(1)), begin_ns)).unwrap();
        while rig.stack.with(|e| e.take(id)).is_none() {
            rig.turn();
            assert!(rig.time.now() - begin_ns < 60_000_000_000, "{strike:?}");
        }
        assert_eq!(faults.struck().len(), 1, "{strike:?}");
    }
}

#[test]
fn every_transfer_mode_moves_the_same_data() {
    for mode in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        for model in [SdhciConfig::GENERIC_4_20, SdhciConfig::GENERIC_3_00] {
            let driver = sdhci::SdhciConfig::new().transfer(mode);
            let rig = Rig::new("sdhc-16g-hs", model, driver);
            let found = rig.bring_up(card::Options::DEFAULT).unwrap();
            rig.mixed_load(found.params.sectors, 60);
            rig.checked();
        }
    }
}

#[test]
fn a_host_without_busy_detection_loses_nothing() {
    for quirks in [SdhciQuirks::NO_BUSY_IRQ, SdhciQuirks::NO_BUSY_IRQ.with(SdhciQuirks::NO_DAT0_LEVEL)] {
        let model = SdhciConfig { busy: Busy::Ignored, ..SdhciConfig::GENERIC_4_20 };
        let driver = sdhci::SdhciConfig::new().quirks(quirks);
        let rig = Rig::new("sdhc-16g-hs", model, driver);
        let found = rig.bring_up(card::Options::DEFAULT).unwrap();
        rig.mixed_load(found.params.sectors, 60);
        assert!(rig.stack.with(|engine| engine.stats().busy_polls) > 0);
        rig.checked();
    }
}

#[test]
fn a_host_that_must_defer_completes_in_poll() {
    let driver = sdhci::SdhciConfig::new().quirks(SdhciQuirks::DEFER_COMPLETION);
    let rig = Rig::new("sdhc-16g-hs", SdhciConfig::GENERIC_4_20, driver);
    let found = rig.bring_up(card::Options::DEFAULT).unwrap();
    assert!(rig.stack.with(|engine| engine.caps().defer_completion));
    rig.mixed_load(found.params.sectors, 60);
    rig.checked();
}

#[test]
fn a_host_that_defers_reads_completes_writes_in_the_interrupt() {
    let driver = sdhci::SdhciConfig::new().quirks(SdhciQuirks::DEFER_READS);
    let rig = Rig::new("sdhc-16g-hs", SdhciConfig::GENERIC_4_20, driver);
    let found = rig.bring_up(card::Options::DEFAULT).unwrap();
    assert!(rig.stack.with(|engine| engine.caps().defer_completion));
    rig.mixed_load(found.params.sectors, 60);
    rig.checked();
}

#[test]
fn a_speed_that_fails_ends_in_a_slower_card() {
    let model = SdhciConfig { tuning_fails: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::new("sdxc-128g-uhs", model, sdhci::SdhciConfig::new());
    let found = rig.bring_up(card::Options::DEFAULT).unwrap();
    assert!(!matches!(found.timing, Timing::Sdr104 | Timing::Sdr50), "{:?} needs tuning", found.timing);
    rig.mixed_load(found.params.sectors, 20);

    let model = SdhciConfig { signal18_fails: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::new("sdxc-128g-uhs", model, sdhci::SdhciConfig::new());
    let found = rig.bring_up(card::Options::DEFAULT).unwrap();
    assert_eq!(found.timing, Timing::HighSpeed);
    rig.mixed_load(found.params.sectors, 20);
}

#[test]
fn emmc_speeds_can_be_left_out_one_by_one() {
    let mut without = 0;
    for timing in [Timing::Hs400Es, Timing::Hs400, Timing::Hs200, Timing::Ddr52, Timing::HighSpeed] {
        let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
        let rig = Rig::new("hbg4a2", model, sdhci::SdhciConfig::emmc_18());
        let found = rig.bring_up(card::Options::DEFAULT.without(without)).unwrap();
        assert_eq!(found.timing, timing);
        rig.mixed_load(found.params.sectors, 20);
        rig.checked();
        without |= Caps::timing_bit(timing);
    }
}

/// Checks one fault at a time, in the middle of a queue of eight requests: every request gets one
/// answer, and it is a success.
#[test]
fn no_client_is_told_of_a_single_mishap() {
    let mishaps = [
        ("lost interrupt", Point::Interrupt, Strike::Lost),
        ("late interrupt", Point::Interrupt, Strike::Late(500_000)),
        ("interrupts for nothing", Point::Interrupt, Strike::Spurious(20)),
        ("lost command", Point::Command, Strike::Lost),
        ("lost response", Point::Response, Strike::Lost),
        ("response CRC", Point::Response, Strike::Crc),
        ("response end bit", Point::Response, Strike::EndBit),
        ("response index", Point::Response, Strike::Index),
        ("late response", Point::Response, Strike::Late(5_000_000)),
        ("read CRC", Point::ReadBlock, Strike::Crc),
        ("read CRC with the end", Point::ReadBlock, Strike::CrcAndEnd),
        ("read end bit", Point::ReadBlock, Strike::EndBit),
        ("read lost", Point::ReadBlock, Strike::Lost),
        ("read late", Point::ReadBlock, Strike::Late(10_000_000)),
        ("write CRC", Point::WriteBlock, Strike::Crc),
        ("write CRC with the end", Point::WriteBlock, Strike::CrcAndEnd),
        ("write end bit", Point::WriteBlock, Strike::EndBit),
        ("write without status", Point::WriteBlock, Strike::NoStatus),
        ("write lost", Point::WriteBlock, Strike::Lost),
        ("descriptor", Point::Dma, Strike::Fail),
    ];
    for (name, point, strike) in mishaps {
        let rig = Rig::new("sdhc-16g-hs", SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
        let found = rig.bring_up(card::Options::DEFAULT).unwrap();
        let write = name.starts_with("write");
        let now = rig.time.now();
        let ids: Vec<SlotId> = (0..8u64)
            .map(|i| {
                let (lba, blocks) = (1000 * i, 8);
                let kind = if write { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
                rig.stack.with(|e| e.submit(Request::new(kind, buffer(8)), now)).unwrap()
            })
            .collect();
        rig.turn();
        // The second request is on the bus now.
        rig.model.borrow_mut().set_faults(Faults::new(Plan::none().next(point, &[strike])));
        let mut results = vec![None; ids.len()];
        for _ in 0..10_000 {
            if results.iter().all(Option::is_some) {
                break;
            }
            rig.turn();
            for (id, result) in ids.iter().zip(&mut results) {
                if let Some(done) = rig.stack.with(|e| e.take(*id)) {
                    assert!(result.replace(done.result.is_ok()).is_none(), "{name}: completed twice");
                }
            }
        }
        let failed = results.iter().filter(|r| **r == Some(false)).count();
        assert!(results.iter().all(Option::is_some), "{name}: {results:?}");
        assert_eq!(failed, 0, "{name}: {results:?}");
        rig.mixed_load_after(found.params.sectors);
        rig.checked();
    }
}

#[test]
fn a_slot_for_one_family_takes_no_other() {
    let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = |card| Rig::new(card, model, sdhci::SdhciConfig::emmc_18());
    let (sd, emmc) = (rig("sdxc-128g-uhs"), rig("hbg4a2"));
    let options = card::Options::DEFAULT;
    assert!(sd.drive(card::bring_up_sd(&sd.stack, buffer(1), options)).0.is_ok());
    assert!(sd.drive(card::bring_up_emmc(&sd.stack, buffer(1), options)).0.is_err());
    let found = emmc.drive(card::bring_up_emmc(&emmc.stack, buffer(1), options)).0.unwrap();
    assert_eq!(found.timing, Timing::Hs400Es);
    assert_eq!(emmc.drive(card::bring_up_sd(&emmc.stack, buffer(1), options)).0, Err(Error::NoCard));
}

/// Checks byte-addressed cards of 2 GiB: after a reset their blocks have 1024 bytes, which counts
/// wherever the bus is not DDR.
#[test]
fn a_card_of_2_gib_reads_and_writes_blocks_of_512_bytes() {
    for (name, without) in [
        ("sdsc-1g", 0),
        ("emmc-4g-old", 0),
        ("emmc-4g-old", Caps::timing_bit(Timing::Ddr52)),
        ("emmc-4g-old", Caps::timing_bit(Timing::Ddr52) | Caps::timing_bit(Timing::HighSpeed)),
    ] {
        let profile = timed::profile(name).with_capacity_bytes(2 << 30).unwrap();
        let (model, driver) = (SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
        let rig = Rig::with_card(timed::card(&profile), model, driver, 0).unwrap();
        let found = rig.bring_up(card::Options::DEFAULT.without(without)).unwrap();
        assert!(!found.params.block_addressed && found.params.sectors == 4 << 20, "{name}");
        rig.mixed_load(found.params.sectors, 20);
        let violations = rig.model.borrow_mut().card_mut().map(|card| card.violations().len());
        assert_eq!(violations, Some(0), "{name}");
        rig.checked();
    }
}

#[test]
fn an_empty_slot_is_no_card() {
    let rig = Rig::new("sdsc-1g", SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    rig.model.borrow_mut().remove(0);
    let debounced = SdhciConfig::GENERIC_4_20.debounce_ns;
    rig.time.set(rig.model.borrow_mut().advance(debounced));
    assert_eq!(rig.bring_up(card::Options::DEFAULT), Err(Error::NoCard));
    // From here on the controller tells of a card that comes.
    assert!(!rig.model.borrow().irq());
    let card = timed::card(&timed::profile("sdsc-1g"));
    rig.model.borrow_mut().insert(card, rig.time.now());
    let debounced = rig.time.now() + SdhciConfig::GENERIC_4_20.debounce_ns;
    rig.time.set(rig.model.borrow_mut().advance(debounced));
    assert!(rig.model.borrow().irq(), "no interrupt tells of the card");
}

/// Checks that two random writes in flight need no CMD13: the R1 of a write, which comes before its
/// data, shows that the previous write is complete.
#[test]
fn two_random_writes_in_flight_ask_for_no_status() {
    for mode in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        let driver = sdhci::SdhciConfig::new().transfer(mode);
        let rig = Rig::new("sdhc-16g-hs", SdhciConfig::GENERIC_4_20, driver);
        let found = rig.bring_up(card::Options::DEFAULT).unwrap();
        let before = rig.stack.with(|engine| *engine.stats());
        let mut flying = Vec::new();
        for n in 0..100u64 {
            let kind = Kind::Write { lba: n * 977 % 4096 * 8 % found.params.sectors, blocks: 8 };
            let now_ns = rig.time.now();
            flying.push(rig.stack.with(|e| e.submit(Request::new(kind, buffer(8)), now_ns)).unwrap());
            while flying.len() > 1 {
                rig.turn();
                flying.retain(|&id| match rig.stack.with(|e| e.take(id)) {
                    Some(done) => done.result.is_err(),
                    None => true,
                });
            }
        }
        let after = rig.stack.with(|engine| *engine.stats());
        assert!(after.status_asked - before.status_asked <= 1, "{mode:?}: {after:?}");
        // With PIO each block has an interrupt, which only moves the phase on.
        assert_eq!(after.spurious, before.spurious, "{mode:?}: {after:?}");
        rig.checked();
    }
}
