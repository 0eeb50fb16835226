//! Tests of the driver strength of an eMMC: HS_TIMING bits 7:4, with the types that DRIVER_STRENGTH
//! offers [eMMC 7.4, 185, 197].

use super::heard::{Heard, Log};
use super::machine::{Rig, buffer, storage_card};
use super::rig;
use mmcq::card::{self, Card as Found, Family, Options, Strength};
use mmcq::host::{Caps, Timing, Width, sdhci};
use mmcq::spec::ext_csd::ExtCsd;
use mmcq_sim::sdhci::SdhciConfig;
use std::cell::RefCell;
use std::rc::Rc;

const HS_TIMING: u32 = 185;

/// Returns the values that CMD6 wrote to HS_TIMING, in order.
fn timings(log: &Rc<RefCell<Log>>) -> Vec<u32> {
    let written = log.borrow().arguments(6);
    written.into_iter().filter(|arg| arg >> 16 & 0xff == HS_TIMING).map(|arg| arg >> 8 & 0xff).collect()
}

fn selected(found: &Found) -> u8 {
    match found.family {
        Family::Emmc(emmc) => emmc.strength,
        Family::Sd(_) => panic!("an SD card"),
    }
}

/// Brings the device up and uses it. Returns the values written to HS_TIMING, and the value that
/// the device reports.
fn told(name: &str, options: Options) -> (Found, Vec<u32>, u8) {
    let (card, log) = Heard::around(storage_card(name), None);
    let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::with_card(card, model, sdhci::SdhciConfig::emmc_18(), 0).unwrap();
    let (found, scratch) = rig.drive(card::bring_up(&rig.stack, buffer(1), options));
    let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
    let reported = ExtCsd::parse(scratch.first_chunk().unwrap()).unwrap().hs_timing();
    rig.mixed_load(found.params.sectors, 20);
    rig.checked();
    (found, timings(&log), reported)
}

fn without(timings: &[Timing]) -> Options {
    let without = timings.iter().fold(0, |bits, &timing| bits | Caps::timing_bit(timing));
    Options::DEFAULT.without(without)
}

/// Checks that each write of HS_TIMING selects the board's strength, on the way to each timing and
/// in the timings that bring-up falls back to.
#[test]
fn each_write_of_hs_timing_carries_the_strength_of_the_board() {
    use Timing::{Ddr52, HighSpeed, Hs200, Hs400, Hs400Es};
    for (options, timing, values) in [
        (Options::DEFAULT, Hs400Es, &[1, 3][..]),
        (without(&[Hs400Es]), Hs400, &[2, 1, 3]),
        (without(&[Hs400Es, Hs400]), Hs200, &[2]),
        (without(&[Hs400Es, Hs400, Hs200]), Ddr52, &[1]),
        (without(&[Hs400Es, Hs400, Hs200, Ddr52]), HighSpeed, &[1]),
        (Options::DEFAULT.max_width(Width::W4), Hs200, &[2]),
    ] {
        let all = [Strength::Ohm50, Strength::Ohm33, Strength::Ohm66, Strength::Ohm100, Strength::Ohm40];
        for (kind, strength) in (0u32..).zip(all) {
            let (found, written, reported) = told("emmc-51-full", options.strength(strength));
            let expected: Vec<u32> = values.iter().map(|value| kind << 4 | value).collect();
            assert_eq!((found.timing, written), (timing, expected), "{strength:?}");
            assert_eq!(u32::from(reported) >> 4, kind, "{timing:?}: the device has selected another");
            assert_eq!(u32::from(selected(&found)), kind, "{timing:?}");
        }
    }
}

#[test]
fn a_strength_that_the_device_does_not_offer_is_not_asked_for() {
    // One device offers types 0 to 3; the other offers only type 0, which every device has.
    for (name, strength, kind) in [
        ("emmc-hs200", Strength::Ohm40, 0),
        ("emmc-hs200", Strength::Ohm100, 3),
        ("emmc-4g-old", Strength::Ohm33, 0),
    ] {
        let (found, written, reported) = told(name, Options::DEFAULT.strength(strength));
        assert_eq!((selected(&found), reported >> 4), (kind, kind), "{name}, {strength:?}");
        assert!(written.iter().all(|value| value >> 4 == u32::from(kind)), "{name}: {written:?}");
    }
    // Legacy timing writes no HS_TIMING, so it selects no strength.
    let slow = without(&[Timing::Hs400Es, Timing::Hs400, Timing::Hs200, Timing::Ddr52, Timing::HighSpeed]);
    let (found, written, reported) = told("emmc-51-full", slow.strength(Strength::Ohm33));
    assert_eq!((found.timing, selected(&found), reported, written), (Timing::Legacy, 0, 0, vec![]));
}

/// Checks that the strength stays when the supervisor tunes (from HS400 through high speed and
/// HS200), chooses a slower timing, or initialises the device again.
#[test]
fn the_strength_outlasts_tuning_and_another_initialisation() {
    for (name, no) in [("emmc-hs200", &[][..]), ("emmc-51-full", &[Timing::Hs400Es])] {
        let options = without(no).strength(Strength::Ohm66);
        let (card, log) = Heard::around(storage_card(name), None);
        let rig = rig::Rig::built(card, true, SdhciConfig::GENERIC_4_20, options);
        rig.keep();
        let bring_up = timings(&log);
        let tuned = |log: &Rc<RefCell<Log>>| log.borrow().arguments(21).len();
        let blocks = tuned(&log);
        rig.ills.borrow_mut().detuned = true;
        rig.one(rig.read(0, 8)).result.unwrap();
        assert!(tuned(&log) > blocks, "{name}: not tuned again");
        let after_tuning = timings(&log);
        let hs400 = rig.found.timing == Timing::Hs400;
        assert_eq!(after_tuning.len() - bring_up.len(), if hs400 { 4 } else { 0 }, "{name}");
        rig.ills.borrow_mut().brown_out = true;
        rig.one(rig.read(0, 8)).result.unwrap();
        let all = timings(&log);
        assert!(all.len() > after_tuning.len(), "{name}: not initialised again");
        assert!(all.iter().all(|value| value >> 4 == Strength::Ohm66 as u32), "{name}: {all:x?}");
        rig.checked();
    }
}
