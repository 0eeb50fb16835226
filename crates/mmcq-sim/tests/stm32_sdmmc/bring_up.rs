//! Tests that every kind of card comes up, at the speed that chip and board allow.

use super::{Chip, Rig, buffer};
use crate::timed;
use mmcq::card::{self, Family};
use mmcq::engine::Error;
use mmcq::host::{Timing, Width};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;

const CARDS: [(&str, Timing, Width); 8] = [
    ("sdsc-1g", Timing::HighSpeed, Width::W4),
    ("sdhc-16g-hs", Timing::HighSpeed, Width::W4),
    ("sdxc-128g-uhs", Timing::Sdr104, Width::W4),
    ("pro-plus-128", Timing::Sdr104, Width::W4),
    ("hbg4a2", Timing::Hs200, Width::W8),
    ("emmc-51-full", Timing::Hs200, Width::W8),
    ("emmc-hs200", Timing::Hs200, Width::W8),
    ("emmc-4g-old", Timing::Ddr52, Width::W8),
];

fn every_card_comes_up<const PIECES: usize>(chip: Chip) {
    for (name, timing, width) in CARDS {
        let (rig, found) = Rig::up::<PIECES>(name, chip);
        assert_eq!((found.timing, found.width), (timing, width), "{name}");
        assert_eq!(matches!(found.family, Family::Sd(_)), width == Width::W4, "{name}");
        rig.mixed_load(found.params.sectors, 60);
        rig.checked();
    }
}

#[test]
fn every_card_comes_up_on_an_h7_with_one_buffer() {
    every_card_comes_up::<1>(Chip::of(Stm32SdmmcConfig::H7));
}

#[test]
fn every_card_comes_up_on_a_u5_with_a_list() {
    every_card_comes_up::<64>(Chip::of(Stm32SdmmcConfig::U5));
}

#[test]
fn every_card_comes_up_on_an_n6_with_a_list() {
    every_card_comes_up::<64>(Chip::of(Stm32SdmmcConfig::N6));
}

/// Checks a slot without card detection: if it is empty, no card responds to any command. A card
/// that has responded once is there, and the error says what failed.
#[test]
fn a_slot_in_which_no_card_responds_has_no_card() {
    let empty = || Rig::new::<1>(None, Chip::of(Stm32SdmmcConfig::H7));
    let rig = empty();
    assert_eq!(rig.bring_up(card::Options::DEFAULT), Err(Error::NoCard));
    assert!(rig.time.now() < 1_500_000_000, "{} ns", rig.time.now());
    let options = card::Options::DEFAULT;
    let rig = empty();
    assert_eq!(rig.drive(card::bring_up_sd(&rig.stack, buffer(1), options)).0, Err(Error::NoCard));
    let rig = empty();
    assert_eq!(rig.drive(card::bring_up_emmc(&rig.stack, buffer(1), options)).0, Err(Error::NoCard));
    let card = timed::card(&timed::profile("sdhc-16g-hs"));
    let rig = Rig::new::<1>(Some(card), Chip::of(Stm32SdmmcConfig::H7));
    rig.faults(Plan::none().from(Point::Command, 6, Strike::Lost));
    let failed = rig.bring_up(options).unwrap_err();
    assert!(matches!(failed, Error::Host(_)), "{failed}");
}

/// Checks that the bits for a level shifter stay set in POWER and CLKCR, through power cycles and
/// resets.
#[test]
fn a_board_with_a_level_shifter_has_its_pins_and_its_clock() {
    use mmcq::host::Regs;
    const POWER: u16 = 0x00;
    const CLOCK: u16 = 0x04;
    let plain = Chip::of(Stm32SdmmcConfig::H7);
    let driver = plain.driver.direction_high(true).falling_edge(true).clock_in(true);
    for (driver, polarity, edge, received) in [(plain.driver, 0, 0, 0), (driver, 1, 1, 1)] {
        let (rig, found) = Rig::up::<1>("sdhc-16g-hs", Chip { driver, ..plain });
        for _ in 0..2 {
            let (power, clock) = (rig.port.read32(POWER), rig.port.read32(CLOCK));
            assert_eq!((power & 3, power >> 4 & 1), (3, polarity));
            assert_eq!((clock >> 16 & 1, clock >> 20 & 3), (edge, received));
            rig.mixed_load(found.params.sectors, 20);
            rig.bring_up(card::Options::DEFAULT).unwrap();
        }
        rig.checked();
    }
    // With the delay block, sampling uses the clock that the block returns.
    let (rig, found) = Rig::up::<1>("sdxc-128g-uhs", Chip { driver, ..plain });
    assert_eq!((found.timing, rig.port.read32(CLOCK) >> 20 & 3), (Timing::Sdr104, 2));
}

/// Checks that tuning takes the tap in the middle of the eye, wherever the eye is.
#[test]
fn tuning_finds_the_middle_of_the_eye() {
    for best_phase in 0..12 {
        let chip = Chip::of(Stm32SdmmcConfig { best_phase, ..Stm32SdmmcConfig::H7 });
        let (rig, found) = Rig::up::<1>("sdxc-128g-uhs", chip);
        assert_eq!(found.timing, Timing::Sdr104);
        // A sixth of an eye is two taps.
        let off = rig.model.borrow().bus().sample_error;
        assert!(off <= 17, "best {best_phase}: off by {off}");
        // CMD19 is sent for twelve taps, and once more for the chosen one.
        assert_eq!(rig.model.borrow().stats().commands[19], 13);
        rig.checked();
    }
}

#[test]
fn a_speed_that_fails_ends_in_a_slower_card() {
    // The card does not switch its voltage.
    let chip = Chip::of(Stm32SdmmcConfig::H7);
    let mut card = timed::card(&timed::profile("sdxc-128g-uhs"));
    card.set_faults(Faults::new(Plan::none().next(Point::Voltage, &[Strike::Fail; 60])));
    let rig = Rig::new::<1>(Some(card), chip);
    let found = rig.bring_up(card::Options::DEFAULT).unwrap();
    assert_eq!(found.timing, Timing::HighSpeed);
    rig.mixed_load(found.params.sectors, 20);
    timed::checked(&rig.memory, &rig.model);
    // No tap is good, since the delay is stuck at the other side of the eye.
    let (rig, found) = Rig::up::<1>("sdxc-128g-uhs", Chip { stuck_at: Some(11), ..chip });
    assert_eq!(found.timing, Timing::Ddr50);
    rig.mixed_load(found.params.sectors, 20);
    rig.checked();
}

/// Checks that the board's settings limit the speed.
#[test]
fn a_board_without_more_is_slower() {
    let plain = Chip::of(Stm32SdmmcConfig::H7);
    let cases = [
        (Chip { taps: 0, ..plain }, Timing::Ddr50),
        (Chip { driver: plain.driver.signal18(false), ..plain }, Timing::HighSpeed),
        (Chip { driver: plain.driver.signal18(false).high_speed(false), ..plain }, Timing::Legacy),
    ];
    for (chip, timing) in cases {
        let (rig, found) = Rig::up::<1>("sdxc-128g-uhs", chip);
        assert_eq!(found.timing, timing);
        rig.mixed_load(found.params.sectors, 20);
        rig.checked();
    }
}

/// Checks a kernel clock that is the clock of high speed: DDR, which cannot have the kernel clock
/// itself, is not used.
#[test]
fn a_kernel_clock_as_fast_as_the_cards_leaves_ddr_alone() {
    let plain = Chip::of(Stm32SdmmcConfig { kernel_hz: 52_000_000, ..Stm32SdmmcConfig::H7 });
    for taps in [0, 12] {
        let (rig, found) = Rig::up::<1>("emmc-4g-old", Chip { taps, ..plain });
        assert_eq!((found.timing, found.clock_hz), (Timing::HighSpeed, 52_000_000));
        rig.mixed_load(found.params.sectors, 20);
        rig.checked();
    }
}

/// Checks a second bring-up: only a reset of the controller switches the power off. Without a reset
/// the card stays powered, and comes up again.
#[test]
fn a_card_comes_up_twice_with_and_without_a_reset() {
    for resets in [true, false] {
        let chip = Chip { resets, ..Chip::of(Stm32SdmmcConfig::H7) };
        let (rig, _) = Rig::up::<1>("sdhc-16g-hs", chip);
        let found = rig.bring_up(card::Options::DEFAULT).unwrap();
        rig.mixed_load(found.params.sectors, 20);
        rig.checked();
    }
}
