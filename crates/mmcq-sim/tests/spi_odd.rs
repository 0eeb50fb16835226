//! Tests of cards on an SPI bus as users have them: faults that public reports describe with other
//! stacks, tried on this one.

use crate::cases;
use crate::spi_rig::Rig;
use mmcq::block::BlockDevice;
use mmcq::engine::RecoveryStep;
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::Habits;

/// Checks that a card with these habits works, with every delay of its response.
fn works(habits: Habits) {
    for response_bytes in [1, 4, 8] {
        let habits = Habits { response_bytes, ..habits };
        let rig = Rig::new("sdhc-16g-hs", habits);
        let found = rig.bring_up().unwrap_or_else(|error| panic!("{habits:?}: {error}"));
        assert_eq!(rig.load(found, 3, 30).unwrap_or_else(|error| panic!("{habits:?}: {error}")), []);
        assert_eq!(rig.line.slot.borrow().protocol_violations(), 0, "{habits:?}");
    }
}

/// Checks a card that is busy after its answer to CMD55: the next command waits until the line is
/// high again.
#[test]
fn a_card_that_is_busy_after_cmd55() {
    for busy_after_prefix in [1, 3, 4, 5, 40, 200] {
        works(Habits { busy_after_prefix, ..Habits::USUAL });
    }
}

/// Checks that a lost CMD59 is sent again. CMD0 switches checksums off and CMD59 switches them on;
/// without CMD59 a damaged block would be programmed.
#[test]
fn checksums_are_on_although_one_cmd59_was_lost() {
    let mut struck = 0;
    for strike in [Strike::Lost, Strike::Crc] {
        for point in [Point::Command, Point::Response] {
            for nth in 1..=8 {
                let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
                let faults = rig.faults(Plan::none().shot(point, nth, strike));
                if rig.bring_up().is_err() {
                    continue;
                }
                struck += faults.strikes();
                rig.faults(Plan::none().shot(Point::WriteBlock, 1, Strike::Crc));
                let data = crate::timed::filled(1, 0x5a);
                let (wrote, _) = rig.drive(BlockDevice::new(&rig.stack).write(9, data)).unwrap();
                assert_eq!(wrote, Ok(1), "{strike:?} at {nth} of {point:?}");
                let good = rig.peek(9).iter().all(|&byte| byte == 0x5a);
                assert!(good, "{strike:?} at {nth} of {point:?}: a damaged block was programmed");
            }
        }
    }
    assert!(struck > 20, "{struck}");
}

/// Checks that a card that refuses its first CMD59 accepts the second; a card that does not know
/// CMD59 works without checksums.
#[test]
fn checksums_are_on_although_the_first_cmd59_was_refused() {
    let rig = Rig::new("sdhc-16g-hs", Habits { refuses_first_crc: true, ..Habits::USUAL });
    rig.bring_up().unwrap();
    rig.faults(Plan::none().shot(Point::WriteBlock, 1, Strike::Crc));
    let (wrote, _) = rig.drive(BlockDevice::new(&rig.stack).write(9, crate::timed::filled(1, 0x5a))).unwrap();
    assert_eq!(wrote, Ok(1));
    assert!(rig.peek(9).iter().all(|&byte| byte == 0x5a), "a damaged block was programmed");
}

/// Checks that a second bring-up switches checksums on again.
#[test]
fn checksums_are_on_after_a_second_bring_up() {
    let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
    for round in 1..4 {
        rig.bring_up().unwrap();
        rig.faults(Plan::none().shot(Point::WriteBlock, 1, Strike::Crc));
        let data = crate::timed::filled(1, round);
        let (wrote, _) = rig.drive(BlockDevice::new(&rig.stack).write(9, data)).unwrap();
        assert_eq!(wrote, Ok(1), "{round}");
        assert!(rig.peek(9).iter().all(|&byte| byte == round), "{round}");
    }
}

/// Checks a card that notices a high chip select only at the next clock, and starts to count bits
/// anew at that clock.
#[test]
fn a_card_that_sees_chip_select_with_a_clock() {
    works(Habits { deselect_by_clock: true, ..Habits::USUAL });
    // One clock too many or too few causes no more restarts than with other cards.
    let restarts = |deselect_by_clock| {
        let mut restarts = 0;
        for nth in cases::some(4, (1..1_500).step_by(23)) {
            for clocks in [1, -1, 3] {
                let rig = Rig::new("sdhc-16g-hs", Habits { deselect_by_clock, ..Habits::USUAL });
                let found = rig.bring_up().unwrap();
                rig.faults(Plan::none().shot(Point::Exchange, nth, Strike::Astray(clocks)));
                let failed = rig.load(found, nth, 6).unwrap_or_else(|error| panic!("{nth}: {error}"));
                assert_eq!(failed, [], "{clocks} clocks at {nth}");
                let steps = rig.stack.with(|engine| engine.stats().recovery_steps);
                restarts += steps[RecoveryStep::Reinit as usize];
            }
        }
        restarts
    };
    assert_eq!((restarts(false), restarts(true)), (0, 0));
}

/// Checks that CMD0 is repeated if its first answers are missing or wrong.
#[test]
fn cmd0_is_sent_until_its_answer_is_right() {
    for (point, strike) in [
        (Point::Command, Strike::Lost),
        (Point::Response, Strike::Lost),
        (Point::Response, Strike::Crc),
        (Point::Exchange, Strike::Flip(9)),
    ] {
        for nth in 1..=20 {
            let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
            rig.faults(Plan::none().shot(point, nth, strike));
            rig.bring_up().unwrap_or_else(|error| panic!("{strike:?} at {nth}: {error}"));
        }
    }
}

/// Checks a card without CMD25: the stack learns this only from the R1 of CMD25, and then writes
/// block by block.
#[test]
fn a_card_without_cmd25_is_written_block_by_block() {
    let rig = Rig::new("quirks/no-multiple-write", Habits::USUAL);
    let found = rig.bring_up().unwrap();
    assert_eq!(rig.load(found, 5, 40).unwrap(), []);
    let sent = rig.line.slot.borrow().stats().commands[25];
    assert!(sent <= 3, "{sent} of CMD25");
}
