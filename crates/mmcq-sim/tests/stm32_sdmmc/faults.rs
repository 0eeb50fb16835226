//! Tests of faults, and that the stack recovers from them in bounded time.

use super::{Chip, Rig, buffer};
use crate::timed::{self, filled};
use mmcq::card;
use mmcq::engine::{DmaBuf, Kind};
use mmcq::host::{BusOp, Timing, Width};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;

/// Longest time of any request in ns, whatever happens.
const LIMIT_NS: u64 = 30_000_000_000;

const ONCE: [(Point, Strike); 16] = [
    (Point::Command, Strike::Lost),
    (Point::Response, Strike::Lost),
    (Point::Response, Strike::Crc),
    (Point::Response, Strike::EndBit),
    (Point::Response, Strike::Index),
    (Point::Response, Strike::Status(1 << 23)),
    (Point::ReadBlock, Strike::Crc),
    (Point::ReadBlock, Strike::EndBit),
    (Point::ReadBlock, Strike::Lost),
    (Point::ReadBlock, Strike::Late(400_000_000)),
    (Point::WriteBlock, Strike::Crc),
    (Point::WriteBlock, Strike::Lost),
    (Point::WriteBlock, Strike::NoStatus),
    (Point::Dma, Strike::Fail),
    (Point::Dma, Strike::Never),
    (Point::Interrupt, Strike::Lost),
];

/// Writes and reads back with one fault at the nth event, and checks that both succeed in the end.
fn gets_over<const PIECES: usize>(chip: Chip) {
    for (point, strike) in ONCE {
        for nth in 1..=6 {
            for blocks in [1u32, 40] {
                let what = format!("{strike:?} at {point:?} {nth}, {blocks} blocks");
                let (rig, _) = Rig::up::<PIECES>("sdhc-16g-hs", chip);
                let faults = rig.faults(Plan::none().shot(point, nth, strike));
                let begin_ns = rig.time.now();
                let write = Kind::Write { lba: 3000, blocks };
                let done = rig.finish(rig.submit(write, filled(blocks as usize, 0x5a)));
                assert!(done.result.is_ok(), "{what}: {:?}", done.result);
                let read = Kind::Read { lba: 3000, blocks };
                let done = rig.finish(rig.submit(read, buffer(blocks as usize)));
                assert!(done.result.is_ok(), "{what}: {:?}", done.result);
                assert!(done.buf.iter().all(|&byte| byte == 0x5a), "{what}: other data than written");
                assert!(rig.time.now() - begin_ns < LIMIT_NS, "{what}: {} ns", rig.time.now() - begin_ns);
                timed::checked(&rig.memory, &rig.model);
                let lost = point == Point::Interrupt && !faults.struck().is_empty();
                let hangs = strike == Strike::Never && !faults.struck().is_empty();
                let missed = rig.stats().lost_interrupts;
                assert!(missed == u64::from(lost) || hangs, "{what}: {missed} interrupts missed");
            }
        }
    }
}

#[test]
fn an_h7_gets_over_what_happens_once() {
    gets_over::<1>(Chip::of(Stm32SdmmcConfig::H7));
}

#[test]
fn a_u5_gets_over_what_happens_once() {
    gets_over::<64>(Chip::of(Stm32SdmmcConfig::U5));
}

#[test]
fn an_n6_gets_over_what_happens_once() {
    gets_over::<64>(Chip::of(Stm32SdmmcConfig::N6));
}

/// Checks recovery on a board whose clock tree cannot reset the controller: CMDSTOP alone ends a
/// failed transfer.
#[test]
fn a_board_without_a_reset_gets_over_it_too() {
    let chip = Chip { resets: false, ..Chip::of(Stm32SdmmcConfig::H7) };
    for (point, strike) in ONCE {
        if strike == Strike::Never {
            continue;
        }
        let (rig, _) = Rig::up::<1>("sdhc-16g-hs", chip);
        rig.faults(Plan::none().shot(point, 1, strike));
        let done = rig.finish(rig.submit(Kind::Write { lba: 3000, blocks: 9 }, filled(9, 3)));
        assert!(done.result.is_ok(), "{strike:?} at {point:?}: {:?}", done.result);
        let done = rig.finish(rig.submit(Kind::Read { lba: 3000, blocks: 9 }, buffer(9)));
        assert!(done.result.is_ok(), "{strike:?} at {point:?}: {:?}", done.result);
        timed::checked(&rig.memory, &rig.model);
    }
}

/// Checks a card that stays busy: the controller's timer or the engine's deadline ends the request.
#[test]
fn a_card_that_is_busy_for_ever_ends_the_request() {
    for model in [Stm32SdmmcConfig::H7, Stm32SdmmcConfig::N6] {
        for strike in [Strike::Never, Strike::Late(700_000_000), Strike::Hidden, Strike::BrownOut] {
            let (rig, _) = Rig::up::<1>("sdhc-16g-hs", Chip::of(model));
            let faults = mmcq_sim::faults::Faults::new(Plan::none().shot(Point::Busy, 1, strike));
            rig.model.borrow_mut().card_mut().unwrap().set_faults(faults.clone());
            let begin_ns = rig.time.now();
            rig.finish(rig.submit(Kind::Write { lba: 8, blocks: 4 }, buffer(4)));
            assert!(rig.time.now() - begin_ns < LIMIT_NS, "{strike:?}");
            assert_eq!(faults.struck().len(), 1, "{strike:?}");
        }
    }
}

/// Checks a card that is removed in the middle of a transfer: each request gets an error, and
/// another card comes up.
#[test]
fn a_card_that_leaves_ends_its_requests() {
    a_card_leaves(Chip::of(Stm32SdmmcConfig::H7));
}

/// Checks a removal on a board whose clock tree cannot reset the controller: a transfer that is
/// under way must end before the controller is set up again.
#[test]
fn a_card_leaves_a_board_without_a_reset() {
    a_card_leaves(Chip { resets: false, ..Chip::of(Stm32SdmmcConfig::H7) });
}

fn a_card_leaves(chip: Chip) {
    for after_ns in [0, 20_000, 150_000, 400_000, 900_000, 3_000_000] {
        for (write, at_once) in [(false, false), (true, false), (false, true), (true, true)] {
            let (rig, _) = Rig::up::<1>("sdhc-16g-hs", chip);
            let kind =
                |lba| if write { Kind::Write { lba, blocks: 64 } } else { Kind::Read { lba, blocks: 64 } };
            let ids: Vec<_> = (0..4).map(|i| rig.submit(kind(6000 + i * 500), buffer(64))).collect();
            timed::run_to(&rig.stack, &rig.model, &rig.time, rig.time.now() + after_ns).unwrap();
            let now_ns = rig.time.now();
            let card = rig.model.borrow_mut().remove(now_ns).unwrap();
            if at_once {
                // Another card is inserted before the stack has noticed the removal.
                drop(card);
                let other = timed::card(&timed::profile("sdhc-16g-hs"));
                rig.model.borrow_mut().insert(other, now_ns);
                rig.stack.with(|engine| engine.presence_changed(now_ns));
                for id in ids {
                    rig.finish(id);
                }
            } else {
                let results: Vec<_> = ids.into_iter().map(|id| rig.finish(id).result.is_ok()).collect();
                assert!(!results[3], "{after_ns} ns, write {write}: {results:?}");
                assert!(rig.time.now() - now_ns < 4 * LIMIT_NS, "{} ns", rig.time.now() - now_ns);
                let now_ns = rig.time.now();
                rig.model.borrow_mut().insert(card, now_ns);
            }
            let found = rig.bring_up(card::Options::DEFAULT).unwrap_or_else(|error| panic!("{error}"));
            rig.mixed_load(found.params.sectors, 10);
            timed::checked(&rig.memory, &rig.model);
        }
    }
}

/// Checks that a second bring-up of a card at double data rate switches off the double rate before
/// it uses one line.
#[test]
fn a_card_at_double_rate_is_brought_up_again() {
    let chip = Chip { resets: false, ..Chip::of(Stm32SdmmcConfig::H7) };
    let (rig, found) = Rig::up::<1>("emmc-4g-old", chip);
    assert_eq!(found.timing, Timing::Ddr52);
    let steps = [BusOp::Width(Width::W1), BusOp::Timing(Timing::Legacy), BusOp::Clock(400_000)];
    for op in steps {
        let done = rig.finish(rig.submit(Kind::Bus(op), DmaBuf::EMPTY));
        assert!(done.result.is_ok(), "{op:?}: {:?}", done.result);
    }
    timed::checked(&rig.memory, &rig.model);
}
