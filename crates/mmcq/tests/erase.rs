//! Tests of erases in pieces, and of zeroes, on a controller that logs each phase.

use crate::{equipped, support};
use equipped::*;
use mmcq::engine::{Config, DmaBuf, Erase, Erasing, Error, Irreversible, Kind, Request};
use mmcq::host::{Cause, Stage};
use mmcq::spec::command::emmc;
use mmcq::spec::response::R1;
use support::{World, buffer};

#[test]
fn an_erase_goes_in_pieces_with_others_in_between() {
    let world = World::new(BLOCKS);
    let config = Config::DEFAULT.erase_budget_ns(250_000_000);
    let mut e = engine_of(&world, config, |t| t.erase = TRIMS);
    world.borrow_mut().medium.fill(9);
    let id = e.submit(erase(8, 200, Erase::Trim), 0).unwrap();
    let apart = e.submit(write(1000, 8, 1), 0).unwrap();
    let inside = e.submit(write(160, 8, 2), 0).unwrap();
    run(&mut e, 0);
    assert_eq!(ended(&mut e, id), Ok(200 * 512));
    assert_eq!((ended(&mut e, apart), ended(&mut e, inside)), (Ok(4096), Ok(4096)));
    let log = commands(&world);
    let erases: Vec<_> =
        log.iter().filter(|(index, _)| matches!(index, 35 | 36)).map(|&(_, at)| at).collect();
    // Two units of 100 ms at first, up to the end of the second; then more, as they took less.
    assert_eq!(erases, [8, 31, 32, 95, 96, 207]);
    let position = |wanted: (u8, u32)| log.iter().position(|&command| command == wanted).unwrap();
    assert!(position((25, 1000)) < position((35, 32)), "a waiting request goes after one piece: {log:?}");
    assert!(position((25, 160)) > position((36, 207)), "what overlaps the rest stays behind it: {log:?}");
    assert!(log.iter().all(|&(index, arg)| index != 38 || arg == 1), "trim");
    let world = world.borrow();
    let at = |lba: usize| world.medium[lba * 512];
    assert_eq!(
        (at(7), at(8), at(159), at(160), at(167), at(168), at(207), at(208)),
        (9, 0, 0, 2, 2, 0, 0, 9)
    );
}

#[test]
fn a_barrier_waits_for_the_whole_erase() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| (t.erase, t.flush) = (TRIMS, CACHE));
    e.submit(erase(0, 64, Erase::Trim), 0).unwrap();
    e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), 0).unwrap();
    e.submit(write(1000, 8, 1), 0).unwrap();
    run(&mut e, 0);
    let log = commands(&world);
    let flush = log.iter().position(|&command| command == FLUSH).unwrap();
    let last_erase = log.iter().rposition(|&(index, _)| index == 38).unwrap();
    let write = log.iter().position(|&(index, _)| index == 25).unwrap();
    assert!(last_erase < flush && flush < write, "{log:?}");
}

#[test]
fn an_erase_is_never_tried_again() {
    for struck in [35, 36, 38] {
        let world = World::new(BLOCKS);
        let mut e = engine(&world, |t| t.erase = TRIMS);
        world.borrow_mut().strike = Some((struck, 0, Cause::Crc));
        let id = e.submit(erase(0, 32, Erase::Discard), 0).unwrap();
        run(&mut e, 0);
        assert!(matches!(ended(&mut e, id), Err(Error::Host(_))));
        assert_eq!(indices(&world).iter().filter(|&&index| index == struck).count(), 1);
        // The card is in `tran` again for the next request.
        assert!(indices(&world).ends_with(&[struck, 13]), "{:?}", indices(&world));
    }
}

/// Tests ERASE_RESET in the response to any command: it belongs to an erase that never began and
/// has its error already, so no other request fails.
#[test]
fn an_erase_that_was_broken_off_is_no_lost_write() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| (t.erase, t.flush) = (TRIMS, CACHE));
    world.borrow_mut().strike = Some((38, 0, Cause::Crc));
    let broken_off = e.submit(erase(0, 16, Erase::Trim), 0).unwrap();
    let mut now = run(&mut e, 0);
    assert!(matches!(ended(&mut e, broken_off), Err(Error::Host(_))));
    let read = Request::new(Kind::Read { lba: 100, blocks: 1 }, buffer(1, 0));
    let others =
        [read, write(200, 1, 1), erase(64, 16, Erase::Trim), Request::new(Kind::Flush, DmaBuf::EMPTY)];
    for other in others {
        let what = format!("{:?}", other.kind);
        world.borrow_mut().next_status = R1::ERASE_RESET;
        let id = e.submit(other, now).unwrap();
        now = run(&mut e, now);
        assert!(ended(&mut e, id).is_ok(), "{what}");
        let flush = e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), now).unwrap();
        now = run(&mut e, now);
        assert_eq!(ended(&mut e, flush), Ok(0), "after {what}");
    }
}

#[test]
fn groups_are_not_erased_in_part() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.erase = TRIMS);
    let unaligned = e.submit(erase(8, 16, Erase::Erase), 0).unwrap_err();
    assert_eq!(unaligned.0, Error::Unaligned { group_blocks: 16 });
    let beyond = e.submit(erase(BLOCKS - 16, 32, Erase::Trim), 0).unwrap_err();
    assert_eq!(beyond.0, Error::OutOfRange { lba: BLOCKS - 16, sectors: BLOCKS });
    assert_eq!(commands(&world), []);
}

#[test]
fn a_secure_trim_has_two_rounds_and_inand_its_argument_twice() {
    let sure = Irreversible::i_know_that_this_cannot_be_undone();
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.erase = TRIMS);
    e.submit(erase(0, 8, Erase::SecureTrim(sure)), 0).unwrap();
    run(&mut e, 0);
    let expected = [
        (35, 0),
        (36, 7),
        (38, 0x8000_0001),
        (13, 1 << 16),
        (35, 0),
        (36, 7),
        (38, 0x8000_8000),
        (13, 1 << 16),
    ];
    assert_eq!(commands(&world), expected);

    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.erase = TRIMS.argument_byte(113));
    e.submit(erase(0, 8, Erase::SecureTrim(sure)), 0).unwrap();
    e.submit(erase(16, 16, Erase::Erase), 0).unwrap();
    run(&mut e, 0);
    let switches: Vec<_> = commands(&world).into_iter().filter(|&(index, _)| index == 6).collect();
    let switch = |value| (6, emmc::switch(emmc::SwitchMode::WriteByte, 113, value, 0).arg);
    assert_eq!(switches, [switch(0x81), switch(0x88), switch(0)]);
}

#[test]
fn sd_cards_erase_by_their_own_commands_and_long_addresses() {
    let world = World::new(BLOCKS);
    let sd = TRIMS.kinds(0b101).emmc(false).group_blocks(1).trim_ms(0);
    let mut e = engine(&world, |t| (t.erase, t.extended_address) = (sd, true));
    e.submit(erase(5, 100, Erase::Discard), 0).unwrap();
    run(&mut e, 0);
    // A discard of any size takes the same fixed time, so it is one piece.
    assert_eq!(commands(&world), [(22, 0), (32, 5), (22, 0), (33, 104), (38, 1), (13, 1 << 16)]);
}

#[test]
fn zeroes_are_erased_where_that_is_exact() {
    let world = World::new(BLOCKS);
    world.borrow_mut().medium.fill(9);
    let mut e = engine(&world, |t| t.erase = TRIMS);
    let zero = Request::new(Kind::Zero { lba: 3, blocks: 5 }, DmaBuf::EMPTY);
    let id = e.submit(zero, 0).unwrap();
    run(&mut e, 0);
    assert_eq!(ended(&mut e, id), Ok(5 * 512));
    assert_eq!(indices(&world), [35, 36, 38, 13]);
    assert_eq!(world.borrow().medium.iter().filter(|&&byte| byte == 0).count(), 5 * 512);
}

#[test]
fn zeroes_are_written_again_and_again_where_it_is_not() {
    for erase in [Erasing::NONE, TRIMS.zeros(false), TRIMS.kinds(1)] {
        let world = World::new(BLOCKS);
        world.borrow_mut().medium.fill(9);
        let mut e = engine(&world, |t| t.erase = erase);
        let zero = Request::new(Kind::Zero { lba: 3, blocks: 21 }, buffer(8, 0));
        let id = e.submit(zero, 0).unwrap();
        run(&mut e, 0);
        let done = e.take(id).unwrap();
        assert_eq!(done.result.unwrap().bytes, 21 * 512);
        assert_eq!(done.buf.len_bytes(), 8 * 512);
        let pieces: Vec<_> = world.borrow().transfers().iter().map(|seen| (seen.arg, seen.blocks)).collect();
        assert_eq!(pieces, [(3, 8), (11, 8), (19, 5)]);
        assert_eq!(world.borrow().medium.iter().filter(|&&byte| byte == 0).count(), 21 * 512);
        assert_eq!(world.borrow().mapped(), 0);
        let none = e.submit(Request::new(Kind::Zero { lba: 3, blocks: 21 }, DmaBuf::EMPTY), 0).unwrap_err();
        assert_eq!(none.0, Error::Buffer { needed: 512, given: 0 });
    }
}

/// Tests a card that erases for longer than it declared: it reports this by its status, and the
/// engine polls it until it is ready.
#[test]
fn an_erase_that_outlasts_its_declared_time_is_waited_for() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.erase = TRIMS);
    // CMD38 gets its response, and then the controller's timeout ends during busy.
    world.borrow_mut().faults.insert(3, (Cause::Timeout, Stage::Busy, true));
    world.borrow_mut().stuck_state = Some(PROGRAMS);
    let id = e.submit(erase(0, 16, Erase::Discard), 0).unwrap();
    let late = e.submit(write(200, 1, 7), 0).unwrap();
    let mut now = until(&mut e, 0, 4_000_000_000);
    world.borrow_mut().stuck_state = None;
    now = run(&mut e, now);
    assert_eq!((ended(&mut e, id), ended(&mut e, late)), (Ok(16 * 512), Ok(512)));
    assert!(now < 4_100_000_000, "{now}");
    assert_eq!(world.borrow().resets, 1, "of the lines");
    assert_eq!(indices(&world).iter().filter(|&&index| index == 38).count(), 1);
}

/// Tests an erase that never ends: it is aborted only one time, and the requests after it continue.
#[test]
fn an_erase_that_never_ends_is_broken_off_once() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.erase = TRIMS);
    world.borrow_mut().faults.insert(3, (Cause::Timeout, Stage::Busy, true));
    world.borrow_mut().stuck_state = Some(PROGRAMS);
    let id = e.submit(erase(0, 16, Erase::Discard), 0).unwrap();
    let now = until(&mut e, 0, 59_000_000_000);
    assert_eq!(world.borrow().resets, 1, "of the lines: it is given a minute");
    run(&mut e, now);
    assert!(ended(&mut e, id).is_err());
    assert_eq!(indices(&world).iter().filter(|&&index| index == 38).count(), 1);
}

/// Runs the engine as `run` does, up to the time `end`, even if requests are left.
fn until(e: &mut TestEngine, mut now: u64, end: u64) -> u64 {
    while now < end {
        now += 1_000;
        let _ = e.on_irq(now);
        if !e.host().world.borrow().running() {
            now = e.next_deadline_ns().map_or(end, |at| now.max(at)).min(end);
            let _ = e.poll(now);
        }
    }
    now
}

/// The state `prg` in a card status.
const PROGRAMS: u32 = 7 << 9;

/// Tests the flush of a durable erase whose responses are lost: one lost response is asked for
/// again, and an erase whose flush never works ends with an error, in bounded time.
#[test]
fn the_flush_of_a_durable_erase_is_no_piece_of_it() {
    for (lost, ends_well) in [(1, true), (u32::MAX, false)] {
        let world = World::new(BLOCKS);
        let mut e = engine(&world, |t| (t.erase, t.flush) = (TRIMS, CACHE));
        world.borrow_mut().strike = Some((6, 0, Cause::Timeout));
        world.borrow_mut().strikes = lost;
        let id = e.submit(erase(0, 32, Erase::Trim).durable(), 0).unwrap();
        let now = run(&mut e, 0);
        let result = ended(&mut e, id);
        assert_eq!(result.is_ok(), ends_well, "{result:?}");
        assert_eq!(result.unwrap_or(32 * 512), 32 * 512);
        let log = commands(&world);
        assert_eq!(log.iter().filter(|&&(index, _)| index == 38).count(), 1);
        let flushes = log.iter().filter(|&&command| command == FLUSH).count();
        assert!((2..10).contains(&flushes), "{log:?}");
        assert!(now < 20_000_000_000, "{now}");
    }
}

/// Tests that many short discards do not make the pieces of another kind of erase longer than the
/// time that other requests may wait.
#[test]
fn short_pieces_and_other_kinds_do_not_tell_how_long_a_piece_may_be() {
    let world = World::new(BLOCKS);
    let mut e = engine_of(&world, Config::DEFAULT.erase_budget_ns(250_000_000), |t| t.erase = TRIMS);
    let mut now = 0;
    for n in 0..20 {
        let id = e.submit(erase(8 * n, 8, Erase::Discard), now).unwrap();
        now = run(&mut e, now);
        assert!(ended(&mut e, id).is_ok());
    }
    for how in [Erase::Discard, Erase::Erase] {
        world.borrow_mut().log.clear();
        e.submit(erase(0, 1024, how), now).unwrap();
        now = run(&mut e, now);
        let (_, last) = commands(&world).into_iter().find(|&(index, _)| index == 36).unwrap();
        assert_eq!(last, 31, "{how:?}: two units of 100 ms");
    }
}
