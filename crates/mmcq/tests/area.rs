//! Tests that each request reaches its own partition of an eMMC, whatever fails, stops, or is given
//! up between two partition accesses.

use crate::support;
use mmcq::engine::{
    Config, DmaBuf, Engine, Error, FlushBy, Handshake, Kind, RecoveryStep, Request, ServiceRequest, SlotId,
};
use mmcq::host::{Auto, Cause, Phase, Stage};
use mmcq::spec::command::{self, emmc};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 64;
const BOOT_BYTES: usize = BLOCKS as usize * 512;

type TestEngine = Engine<TestHost, 16>;

fn card() -> (Rc<RefCell<World>>, TestEngine) {
    let world = World::new(BLOCKS);
    world.borrow_mut().medium.fill(1);
    world.borrow_mut().areas.insert(1, vec![7; BOOT_BYTES]);
    let mut engine = Engine::new(TestHost::new(&world), Config::DEFAULT);
    engine.set_card_params(Some(target(BLOCKS)));
    engine.enable_extended_ops();
    (world, engine)
}

fn visit_of(config: u8, lba: u32, out: u16, back: u16) -> Kind {
    support::partition_access(config, lba, out, back)
}

/// Submits a write of eight blocks of boot area 1.
fn boot(engine: &mut TestEngine, lba: u32, fill: u8, now: u64) -> SlotId {
    engine.submit(Request::new(visit_of(0x49, lba, 8, 0), buffer(8, fill)), now).unwrap()
}

/// Submits a write of eight blocks of the user area.
fn user(engine: &mut TestEngine, lba: u64, fill: u8, now: u64) -> SlotId {
    engine.submit(Request::new(Kind::Write { lba, blocks: 8 }, buffer(8, fill)), now).unwrap()
}

/// Runs the engine by interrupts and alarms, with a supervisor that answers each request for help,
/// until nothing is left to do. Calls `at` after each interrupt. Returns the time.
fn run(engine: &mut TestEngine, mut now: u64, mut at: impl FnMut(&mut TestEngine, u64)) -> u64 {
    for _ in 0..100_000 {
        now += 1_000;
        let _ = engine.on_irq(now);
        at(engine, now);
        let asked = engine.take_service_request();
        if asked == Some(ServiceRequest::Reinit) || asked == Some(ServiceRequest::PowerCycle) {
            engine.host().world.borrow_mut().area = 0;
        }
        if asked.is_some() {
            let target = *engine.card_params().expect("help for a card");
            engine.service_done(Ok(target), now);
        }
        if engine.is_idle() {
            let _ = engine.poll(now);
            return now;
        }
        if !engine.host().world.borrow().running() {
            now = now.max(engine.next_deadline_ns().unwrap_or(0));
            let _ = engine.poll(now);
        }
    }
    panic!("the engine does not come to rest");
}

fn taken(engine: &mut TestEngine, id: SlotId) -> Result<u32, Error> {
    engine.take(id).expect("not finished").result.map(|output| output.bytes)
}

/// Checks the medium of a partition: each block has the value `before`, or that of one of these
/// writes; after a write that is done, the value of that write.
fn expect(medium: &[u8], before: u8, writes: &[(usize, u8, bool)], what: &str) {
    for (block, bytes) in medium.chunks(512).enumerate() {
        let mut allowed = vec![before];
        for &(_, fill, done) in writes.iter().filter(|w| (w.0..w.0 + 8).contains(&block)) {
            if done { allowed = vec![fill] } else { allowed.push(fill) }
        }
        assert!(allowed.contains(&bytes[0]), "{what}: block {block} holds {}, not {allowed:?}", bytes[0]);
    }
}

#[test]
fn a_user_write_after_a_cancelled_visit_goes_to_the_user_area() {
    let (world, mut e) = card();
    let _ = e.set_service_waker(Some(Waker::noop().clone()));
    boot(&mut e, 0, 8, 0);
    let second = boot(&mut e, 8, 9, 0);
    // The controller asks for a new tuning in the middle of the first visit.
    let mut now = 0;
    for _ in 0..200 {
        now += 1_000;
        let moving = world.borrow().log.last().is_some_and(|seen| seen.index == 25);
        if moving && world.borrow().running() {
            world.borrow_mut().retune = true;
        }
        if world.borrow().running() {
            let _ = e.on_irq(now);
        } else {
            let _ = e.poll(now);
        }
    }
    assert!(e.cancel(second).is_some());
    assert_eq!(e.take_service_request(), Some(ServiceRequest::Retune));
    assert_eq!(world.borrow().area, 0, "a card that is tuned is in its user area");
    let target = *e.card_params().unwrap();
    e.service_done(Ok(target), now);
    let write = user(&mut e, 0, 0x5a, now);
    run(&mut e, now, |_, _| {});
    assert_eq!(taken(&mut e, write), Ok(4096));
    assert_eq!((world.borrow().medium[0], world.borrow().areas[&1][0]), (0x5a, 8));
}

/// Tests failures of each phase and of each pair of phases, whether the card has executed the phase
/// or not, with and without a supervisor. The second partition access may be cancelled at any time,
/// and the controller may request a new tuning at any time.
#[test]
fn data_are_in_their_own_partition_whatever_fails() {
    let mut cases = 0;
    for supervisor in [true, false] {
        for first in 0..14usize {
            for gap in 0..8usize {
                for executed in [0, 1, 2, 3u32] {
                    for moment in 0..8u64 {
                        one_case(supervisor, (first, first + gap), executed, moment);
                        cases += 1;
                    }
                }
            }
        }
    }
    assert_eq!(cases, 2 * 14 * 8 * 4 * 8);
}

fn one_case(supervisor: bool, (first, second): (usize, usize), executed: u32, moment: u64) {
    let what =
        format!("supervisor {supervisor}, faults {first} {second}, executed {executed}, moment {moment}");
    let (world, mut e) = card();
    if supervisor {
        let _ = e.set_service_waker(Some(Waker::noop().clone()));
    }
    for (nth, bit) in [(first, 1), (second, 2)] {
        let fault = (Cause::Timeout, Stage::Command, executed & bit != 0);
        world.borrow_mut().faults.insert(nth, fault);
    }
    let one = boot(&mut e, 0, 8, 0);
    let two = boot(&mut e, 8, 9, 0);
    let three = user(&mut e, 0, 2, 0);
    let mut at = 0;
    let end = run(&mut e, 0, |e, _| {
        at += 1;
        if at == moment {
            e.abandon(two);
            e.host().world.borrow_mut().retune = true;
        }
    });
    let dead = e.submit(Request::new(Kind::Flush, buffer(1, 0)), end).is_err();
    let four = (!dead).then(|| user(&mut e, 16, 3, end));
    run(&mut e, end, |_, _| {});
    let one = taken(&mut e, one).is_ok();
    let three = taken(&mut e, three).is_ok();
    let four = four.is_some_and(|four| taken(&mut e, four).is_ok());
    let two = e.take(two).is_some_and(|done| done.result.is_ok());
    let world = world.borrow();
    expect(&world.medium, 1, &[(0, 2, three), (16, 3, four)], &what);
    expect(&world.areas[&1], 7, &[(0, 8, one), (8, 9, two)], &what);
    assert!(dead || world.area == 0, "{what}");
}

#[test]
fn a_card_that_does_not_come_back_is_initialised_again() {
    let (world, mut e) = card();
    let _ = e.set_service_waker(Some(Waker::noop().clone()));
    world.borrow_mut().strike = Some((6, 1, Cause::Timeout));
    world.borrow_mut().strikes = 2;
    let there = boot(&mut e, 0, 8, 0);
    let after = user(&mut e, 0, 2, 0);
    run(&mut e, 0, |_, _| {});
    assert_eq!((taken(&mut e, there), taken(&mut e, after)), (Ok(4096), Ok(4096)));
    assert_eq!(e.stats().recovery_steps[mmcq::engine::RecoveryStep::Reinit as usize], 1);
    assert_eq!((world.borrow().medium[0], world.borrow().areas[&1][0]), (2, 8));
}

/// Tests a switch back to the user area that the card refuses: the card stays in its partition, and
/// the engine sends the switch once more.
#[test]
fn a_refused_way_back_is_gone_again() {
    let (world, mut e) = card();
    boot(&mut e, 0, 8, 0);
    let mut struck = false;
    run(&mut e, 0, |e, _| {
        let mut world = e.host().world.borrow_mut();
        if !struck && world.log.iter().filter(|seen| seen.index == 6).count() == 2 && world.running() {
            (struck, world.next_status) = (true, R1::SWITCH_ERROR);
        }
    });
    let switches = world.borrow().log.iter().filter(|seen| seen.index == 6).count();
    assert_eq!((struck, switches, world.borrow().area), (true, 3, 0));
}

#[test]
fn only_visits_go_to_another_partition() {
    let (world, mut e) = card();
    let switch = |access, value| emmc::switch(access, 179, value, 0);
    let phase = |command| Phase { command, data: None, auto: Auto::None, tuning: false };
    let raw = |prefix, command| Kind::Raw { prefix, phase: phase(command), timeout_ns: 1_000_000 };
    let there = switch(emmc::SwitchMode::WriteByte, 1);
    for kind in [
        raw(None, there),
        raw(None, switch(emmc::SwitchMode::SetBits, 1)),
        raw(Some(there), command::send_status(1)),
        Kind::Io { phase: phase(there), timeout_ns: 1_000_000, chain: false },
        Kind::LongCommand { command: there, timeout_ns: 1_000_000 },
    ] {
        let refused = e.submit(Request::new(kind, buffer(1, 0)), 0).unwrap_err();
        assert_eq!(refused.0, Error::Unsupported, "{kind:?}");
    }
    assert!(world.borrow().log.is_empty());
    // Other bytes, other bits, and the command set are the caller's.
    let boots =
        Kind::LongCommand { command: switch(emmc::SwitchMode::WriteByte, 0x50), timeout_ns: 1_000_000 };
    for kind in
        [boots, raw(None, switch(emmc::SwitchMode::CommandSet, 1)), raw(None, command::send_status(1))]
    {
        assert!(e.submit(Request::new(kind, buffer(1, 0)), 0).is_ok(), "{kind:?}");
    }
}

/// Tests a partition access that was submitted before a long command made the device boot from
/// another area: the access keeps the new boot bits of PARTITION_CONFIG.
#[test]
fn a_visit_keeps_the_boot_bits_that_an_order_has_written() {
    let (world, mut e) = card();
    let command = emmc::switch(emmc::SwitchMode::WriteByte, 179, 0x50, 0);
    boot(&mut e, 0, 8, 0);
    e.submit(Request::new(Kind::LongCommand { command, timeout_ns: 1_000_000 }, buffer(1, 0)), 0).unwrap();
    boot(&mut e, 0, 9, 0);
    run(&mut e, 0, |_, _| {});
    let bytes: Vec<_> =
        world.borrow().log.iter().filter(|seen| seen.index == 6).map(|s| s.arg >> 8 & 0xff).collect();
    assert_eq!(bytes, [0x49, 0x48, 0x50, 0x51, 0x50]);
}

/// Tests that no partition access undoes what a long command has written to PARTITION_CONFIG. The
/// engine does not know that byte before the first access, nor after a lost response.
#[test]
fn no_visit_undoes_an_order_whose_end_or_beginning_is_not_known() {
    use emmc::SwitchMode::{ClearBits, SetBits, WriteByte};
    for lost in [false, true] {
        for (mode, value, expected) in
            [(SetBits, 0x10, 0x58), (ClearBits, 0x08, 0x40), (WriteByte, 0x50, 0x50)]
        {
            for visits_before in [false, true] {
                let (world, mut e) = card();
                world.borrow_mut().boots = 0x48;
                world.borrow_mut().areas.insert(2, vec![7; BOOT_BYTES]);
                let mut now = 0;
                if visits_before {
                    boot(&mut e, 0, 8, now);
                    now = run(&mut e, now, |_, _| {});
                }
                let command = emmc::switch(mode, 179, value, 0);
                let at = world.borrow().log.len() + 1;
                if lost {
                    world.borrow_mut().faults.insert(at, (Cause::Timeout, Stage::Command, true));
                }
                let order = Kind::LongCommand { command, timeout_ns: 1_000_000 };
                let ordered = e.submit(Request::new(order, DmaBuf::EMPTY), now).unwrap();
                now = run(&mut e, now, |_, _| {});
                assert_eq!(taken(&mut e, ordered).is_err(), lost);
                // All of them were planned before.
                let first = boot(&mut e, 0, 9, now);
                let other = e.submit(Request::new(visit_of(0x4a, 0, 8, 0), buffer(8, 10)), now).unwrap();
                let ids = [first, other, boot(&mut e, 8, 11, now), user(&mut e, 0, 12, now)];
                run(&mut e, now, |_, _| {});
                for id in ids {
                    assert_eq!(taken(&mut e, id), Ok(4096));
                }
                let what = format!("{mode:?}, lost {lost}, visits before {visits_before}");
                let world = world.borrow();
                assert_eq!((world.boots, world.area), (expected, 0), "{what}");
                let found = [&world.areas[&1][..512], &world.areas[&2][..512], &world.medium[..512]];
                assert_eq!(found.map(|block| block[0]), [9, 10, 12], "{what}");
                assert_eq!(world.areas[&1][8 * 512], 11, "{what}");
            }
        }
    }
}

/// How to flush the cache of the tests' card: the cache serves all partitions except RPMB [eMMC
/// 6.6.31].
const CACHE: FlushBy = FlushBy::EmmcCache { timeout_ns: 500_000_000 };

fn flush(engine: &mut TestEngine, now: u64) -> SlotId {
    engine.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), now).unwrap()
}

#[test]
fn what_was_written_to_a_boot_area_is_flushed_like_anything_else() {
    let (world, mut e) = card();
    e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
    let written = boot(&mut e, 0, 8, 0);
    let flushed = flush(&mut e, 0);
    run(&mut e, 0, |_, _| {});
    assert_eq!((taken(&mut e, written), taken(&mut e, flushed)), (Ok(4096), Ok(0)));
    let to_flush = (6, emmc::switch(emmc::SwitchMode::WriteByte, 32, 1, 0).arg);
    assert!(world.borrow().log.iter().any(|seen| (seen.index, seen.arg) == to_flush));
}

#[test]
fn what_a_cache_has_lost_of_a_boot_area_is_told() {
    for (area, told) in [(1, true), (3, false)] {
        let (world, mut e) = card();
        world.borrow_mut().areas.insert(area, vec![7; BOOT_BYTES]);
        e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
        let _ = e.set_service_waker(Some(Waker::noop().clone()));
        let there = e.submit(Request::new(visit_of(area, 0, 8, 0), buffer(8, 8)), 0).unwrap();
        let now = run(&mut e, 0, |_, _| {});
        assert_eq!(taken(&mut e, there), Ok(4096));
        // The supply is lost for a moment: a read is not answered, and the card is found in `idle`.
        let next = world.borrow().log.len() + 1;
        world.borrow_mut().faults.insert(next, (Cause::Timeout, Stage::Command, false));
        world.borrow_mut().stuck_state = Some(0);
        let read = e.submit(Request::new(Kind::Read { lba: 0, blocks: 8 }, buffer(8, 0)), now).unwrap();
        let now = run(&mut e, now, |engine, _| {
            if engine.stats().recovery_steps[RecoveryStep::Reinit as usize] > 0 {
                engine.host().world.borrow_mut().stuck_state = None;
            }
        });
        assert_eq!(taken(&mut e, read), Ok(4096));
        assert_eq!(e.stats().recovery_steps[RecoveryStep::Reinit as usize], 1);
        let flushed = flush(&mut e, now);
        run(&mut e, now, |_, _| {});
        assert_eq!(taken(&mut e, flushed), if told { Err(Error::CacheLost) } else { Ok(0) });
    }
}

#[test]
fn a_card_that_is_to_be_initialised_has_lost_nothing_until_then() {
    let (world, mut e) = card();
    e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
    let _ = e.set_service_waker(Some(Waker::noop().clone()));
    world.borrow_mut().strike = Some((6, 1, Cause::Timeout));
    world.borrow_mut().strikes = 2;
    let there = boot(&mut e, 0, 8, 0);
    let mut durable = None;
    let now = run(&mut e, 0, |e, now| {
        if durable.is_none() && e.stats().recovery_steps[RecoveryStep::Reinit as usize] > 0 {
            // Submitted between the second failure of the switch back and the supervisor's answer.
            let request = Request::new(Kind::Write { lba: 0, blocks: 8 }, buffer(8, 2)).durable();
            durable = Some(e.submit(request, now).map_err(|(error, _)| error));
        }
    });
    let durable = durable.expect("the way back has failed twice").expect("nothing is lost yet");
    assert_eq!(taken(&mut e, there), Ok(4096));
    assert_eq!(taken(&mut e, durable), Err(Error::CacheLost), "what the visit wrote is lost by then");
    let flushed = flush(&mut e, now);
    run(&mut e, now, |_, _| {});
    assert_eq!(taken(&mut e, flushed), Ok(0), "told once");
}

/// Tests a controller that reports the end of busy too early: the card's status shows that the card
/// still programs, and shows its error only one time.
#[test]
fn a_write_is_complete_when_the_card_has_programmed_it() {
    for error in [0, R1::ERROR] {
        let (world, mut e) = card();
        let write = boot(&mut e, 0, 8, 0);
        run(&mut e, 0, |e, _| {
            let mut world = e.host().world.borrow_mut();
            let written =
                matches!(world.log.as_slice(), [.., data, look] if (data.index, look.index) == (25, 13));
            if written && world.running() {
                // The test's card adds these bits to those of `tran`, which gives the state `prg`.
                (world.next_status, world.status_after_next) = (7 << 9 | error, 7 << 9);
            }
        });
        let log: Vec<u8> = world.borrow().log.iter().map(|seen| seen.index).collect();
        assert_eq!(log, [6, 13, 23, 25, 13, 13, 13, 6, 13], "asked until it is ready");
        let end = taken(&mut e, write);
        match error {
            0 => assert_eq!(end, Ok(4096)),
            _ => assert!(matches!(end, Err(Error::Card(status)) if status & R1::ERROR != 0), "{end:?}"),
        }
        assert_eq!(world.borrow().areas[&1][0], 8);
    }
}
