//! Tests of the bit Use Tuning for SDR50 [SDHC 2.2.25].

use super::heard::{Heard, Log};
use super::machine::{Rig, storage_card};
use mmcq::card::{Card, Options};
use mmcq::host::sdhci;
use mmcq::host::{Caps, Timing};
use mmcq_sim::sdhci::SdhciConfig;
use std::cell::RefCell;
use std::rc::Rc;

const USE_TUNING: u32 = 1 << 13;

/// Brings up a UHS card without SDR104, on a controller that asks for tuning in SDR50 or does not.
fn found(asks: bool, deaf_to: Option<u8>) -> (Rig, Card, Rc<RefCell<Log>>) {
    let generic = SdhciConfig::GENERIC_4_20;
    let capabilities1 = generic.capabilities1 & !USE_TUNING | if asks { USE_TUNING } else { 0 };
    let (card, log) = Heard::around(storage_card("sdxc-128g-uhs"), deaf_to);
    let model = SdhciConfig { capabilities1, ..generic };
    let rig = Rig::with_card(card, model, sdhci::SdhciConfig::new(), 0).unwrap();
    let without = Caps::timing_bit(Timing::Sdr104);
    let found = rig.bring_up(Options::DEFAULT.without(without)).unwrap();
    (rig, found, log)
}

#[test]
fn a_controller_that_asks_for_no_tuning_uses_sdr50_without_cmd19() {
    // CMD19 is not sent, so it does not matter whether the card knows it.
    for deaf_to in [None, Some(19)] {
        let (rig, found, log) = found(false, deaf_to);
        assert_eq!((found.timing, found.clock_hz), (Timing::Sdr50, 100_000_000));
        assert_eq!(log.borrow().arguments(19), []);
        rig.mixed_load(found.params.sectors, 40);
        rig.checked();
    }
}

#[test]
fn a_controller_that_asks_for_tuning_in_sdr50_gets_it() {
    let (rig, found, log) = found(true, None);
    assert_eq!(found.timing, Timing::Sdr50);
    assert!(!log.borrow().arguments(19).is_empty());
    rig.mixed_load(found.params.sectors, 40);
    rig.checked();
}

#[test]
fn without_the_tuning_that_the_controller_asks_for_sdr50_is_left_out() {
    let (rig, found, _) = found(true, Some(19));
    assert_eq!(found.timing, Timing::Ddr50);
    rig.mixed_load(found.params.sectors, 40);
    rig.checked();
}
