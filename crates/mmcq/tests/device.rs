//! Tests of durable writes, other partitions and long commands, on a controller that logs each
//! phase. The tests of erases are in erase.rs.

use crate::{equipped, support};
use equipped::*;
use mmcq::engine::{Abilities, CardParams, Config, DmaBuf, Engine, Erase, Error, Kind, Request};
use mmcq::host::{BusyDetect, Cause};
use mmcq::spec::command::emmc;
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target};

#[test]
fn nothing_extra_is_accepted_by_an_engine_without_it() {
    let world = World::new(BLOCKS);
    let mut e: TestEngine = Engine::new(TestHost::new(&world), Config::DEFAULT);
    e.set_card_params(Some(target(BLOCKS)));
    e.set_abilities(Abilities::NONE.erase(TRIMS));
    let refused = e.submit(erase(0, 16, Erase::Trim), 0).unwrap_err();
    assert_eq!(refused.0, Error::Unsupported);
    let id = e.submit(write(0, 8, 1).durable(), 0).unwrap();
    run(&mut e, 0);
    assert_eq!(ended(&mut e, id), Err(Error::Unsupported), "never emulated by ignoring");
    assert_eq!(commands(&world), []);
    assert_eq!(world.borrow().mapped(), 0);
}

#[test]
fn without_a_cache_a_durable_write_is_a_settled_one() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |_| {});
    let id = e.submit(write(0, 8, 1).durable(), 0).unwrap();
    run(&mut e, 0);
    assert_eq!(ended(&mut e, id), Ok(4096));
    assert_eq!(indices(&world), [25, 13]);
}

#[test]
fn a_reliable_write_goes_past_the_cache() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| (t.flush, t.reliable_blocks) = (CACHE, u32::MAX));
    let one = e.submit(write(40, 1, 1).durable(), 0).unwrap();
    let more = e.submit(write(0, 8, 2).durable(), 0).unwrap();
    run(&mut e, 0);
    assert_eq!((ended(&mut e, one), ended(&mut e, more)), (Ok(512), Ok(4096)));
    // A single block also goes by CMD23 and CMD25, and no flush follows.
    let expected = [(23, 1 << 31 | 1), (25, 40), (23, 1 << 31 | 8), (25, 0), (13, 1 << 16)];
    assert_eq!(commands(&world), expected);
    assert!(world.borrow().medium[..4096].iter().all(|&byte| byte == 2));
}

#[test]
fn the_old_reliable_write_has_one_block_or_a_whole_unit() {
    for (lba, blocks, flushes) in [(3, 1, 0), (16, 8, 0), (4, 8, 1), (0, 16, 1)] {
        let world = World::new(BLOCKS);
        let mut e = engine(&world, |t| (t.flush, t.reliable_blocks) = (CACHE, 8));
        let id = e.submit(write(lba, blocks, 1).durable(), 0).unwrap();
        run(&mut e, 0);
        assert_eq!(ended(&mut e, id), Ok(blocks * 512));
        let counted = commands(&world).iter().filter(|&&command| command == FLUSH).count();
        assert_eq!(counted, flushes, "{lba}+{blocks}");
        assert_eq!(e.stats().durable_flushes, flushes as u64);
    }
}

#[test]
fn without_reliable_writes_the_flush_is_inside_the_request() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.flush = CACHE);
    let id = e.submit(write(0, 8, 1).durable(), 0).unwrap();
    let other = e.submit(write(8, 8, 2), 0).unwrap();
    let mut now = 0;
    while e.take(id).is_none() {
        assert!(!indices(&world).contains(&6) || !e.is_idle(), "complete before its flush has ended");
        now += 1_000;
        let _ = e.on_irq(now);
        let _ = e.poll(now);
        assert!(now < 1_000_000_000);
    }
    let log = commands(&world);
    let flush = log.iter().position(|&command| command == FLUSH).expect("no flush");
    assert_eq!(log[..flush].iter().filter(|&&(index, _)| index == 25).count(), 2, "not merged: {log:?}");
    assert_eq!(log[flush + 1].0, 13, "its status is read");
    run(&mut e, now);
    assert_eq!(ended(&mut e, other), Ok(4096));
}

#[test]
fn a_failed_flush_fails_the_durable_write() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.flush = CACHE);
    let id = e.submit(write(0, 8, 1).durable(), 0).unwrap();
    world.borrow_mut().strike = Some((6, 0, Cause::Timeout));
    world.borrow_mut().strikes = u32::MAX;
    run(&mut e, 0);
    world.borrow_mut().strike = None;
    let done = e.take(id).unwrap();
    assert!(matches!(done.result, Err(Error::Host(_))), "{:?}", done.result);
    assert_eq!(done.done_bytes, 0);
    world.borrow_mut().strike = None;
    assert_eq!(world.borrow().mapped(), 0);
    // The next write without `durable` sends no CMD23 and no flush.
    let before = world.borrow().log.len();
    let next = e.submit(write(0, 8, 1), 1 << 40).unwrap();
    run(&mut e, 1 << 40);
    assert_eq!(ended(&mut e, next), Ok(4096));
    assert_eq!(indices(&world)[before..], [25, 13]);
}

/// Tests an error of the cache that the response to the flush command shows: the card reports only
/// one time, in the next response, what its cache could not write [eMMC 6.13].
#[test]
fn an_error_in_the_answer_to_a_flush_is_told() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Response, BusyDetect::Level, BusyDetect::Status] {
        let flush = || Request::new(Kind::Flush, DmaBuf::EMPTY);
        let world = World::new(BLOCKS);
        world.borrow_mut().caps.busy = busy;
        let mut e = engine(&world, |t| t.flush = CACHE);
        let id = e.submit(write(0, 8, 1), 0).unwrap();
        run(&mut e, 0);
        assert_eq!(ended(&mut e, id), Ok(4096));
        let id = e.submit(flush(), 1 << 30).unwrap();
        assert_eq!(indices(&world).last(), Some(&6), "the flush is on the line");
        world.borrow_mut().next_status = R1::ERROR;
        run(&mut e, 1 << 30);
        assert_eq!(world.borrow().next_status, 0);
        let told = ended(&mut e, id);
        assert!(matches!(told, Err(Error::Program(status)) if status & R1::ERROR != 0), "{busy:?}: {told:?}");
        let id = e.submit(flush(), 1 << 40).unwrap();
        run(&mut e, 1 << 40);
        assert_eq!(ended(&mut e, id), Ok(0), "told once");
        // A durable write also gets an error that the response to its own flush shows.
        let id = e.submit(write(0, 8, 2).durable(), 1 << 41).unwrap();
        let mut now = 1 << 41;
        while indices(&world).last() != Some(&6) {
            now += 1_000;
            let _ = (e.on_irq(now), e.poll(now));
        }
        world.borrow_mut().next_status = R1::ERROR;
        run(&mut e, now);
        let told = ended(&mut e, id);
        assert!(matches!(told, Err(Error::Program(status)) if status & R1::ERROR != 0), "{busy:?}: {told:?}");
    }
}

/// Tests that an error in the response to a flush fails every durable write whose data were in the
/// cache: the error may belong to any of them, and a second flush would succeed although the data
/// are lost.
#[test]
fn an_error_of_a_flush_fails_each_durable_write_whose_data_the_cache_had() {
    let mut most = 0;
    for busy in [BusyDetect::Interrupt, BusyDetect::Response, BusyDetect::Level, BusyDetect::Status] {
        most = most.max(fail_flush(busy));
    }
    assert!(most > 1, "several were in the cache: {most}");
}

/// Fails the flush of three durable writes that are submitted together. Returns how many of them
/// were in the cache and failed.
fn fail_flush(busy: BusyDetect) -> usize {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.busy = busy;
    let mut e = engine(&world, |t| t.flush = CACHE);
    let writes = [0u32, 16, 32].map(|lba| (lba, e.submit(write(lba.into(), 8, 1).durable(), 0).unwrap()));
    let mut now = 0;
    while !indices(&world).contains(&6) {
        now += 1_000;
        let _ = (e.on_irq(now), e.poll(now));
        assert!(now < 1 << 30, "no flush comes");
    }
    let sent: Vec<_> =
        world.borrow().log.iter().filter(|seen| seen.index == 25).map(|seen| seen.arg).collect();
    let done = writes.map(|(_, id)| e.take(id).is_some());
    world.borrow_mut().next_status = R1::ERROR;
    run(&mut e, now);
    let mut failed = 0;
    for ((lba, id), _) in writes.into_iter().zip(done).filter(|(_, done)| !done) {
        let done = e.take(id).unwrap();
        let told = matches!(done.result, Err(Error::Program(_))) && done.done_bytes == 0;
        assert_eq!(told, sent.contains(&lba), "{busy:?}, {lba}: {:?}", done.result);
        failed += usize::from(told);
    }
    let id = e.submit(write(0, 8, 2).durable(), 1 << 40).unwrap();
    run(&mut e, 1 << 40);
    assert_eq!(ended(&mut e, id), Ok(4096), "told once");
    failed
}

/// Tests that an error in the response to a flush is not forgotten if the status after it is lost
/// and the flush is sent again.
#[test]
fn an_error_in_the_answer_to_a_flush_outlasts_a_second_try() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.flush = CACHE);
    let id = e.submit(write(0, 8, 1).durable(), 0).unwrap();
    let mut now = 0;
    while indices(&world).last() != Some(&6) {
        now += 1_000;
        let _ = (e.on_irq(now), e.poll(now));
    }
    world.borrow_mut().next_status = R1::ERROR;
    world.borrow_mut().strike = Some((13, 0, Cause::Timeout));
    run(&mut e, now);
    assert_eq!(indices(&world).iter().filter(|&&index| index == 6).count(), 2);
    assert!(matches!(ended(&mut e, id), Err(Error::Program(status)) if status & R1::ERROR != 0));
}

/// Tests that an error in a status of a busy card is not forgotten if the next CMD13 is lost.
#[test]
fn an_error_of_a_busy_card_outlasts_the_question_that_is_lost_after_it() {
    let flush = || Request::new(Kind::Flush, DmaBuf::EMPTY);
    for (durable, busy) in [false, true]
        .into_iter()
        .flat_map(|durable| [BusyDetect::Status, BusyDetect::Response].map(|b| (durable, b)))
    {
        let world = World::new(BLOCKS);
        world.borrow_mut().caps.busy = busy;
        let mut e = engine(&world, |t| t.flush = CACHE);
        let early = e.submit(write(0, 8, 1), 0).unwrap();
        run(&mut e, 0);
        assert_eq!(ended(&mut e, early), Ok(4096));
        let id = match durable {
            false => e.submit(flush(), 1 << 30).unwrap(),
            true => e.submit(write(16, 8, 1).durable(), 1 << 30).unwrap(),
        };
        let mut now = 1 << 30;
        let is_asked = |world: &World| matches!(world.log.as_slice(), [.., flush, ask] if (flush.index, ask.index) == (6, 13));
        while !is_asked(&world.borrow()) {
            now += 1_000;
            let _ = (e.on_irq(now), e.poll(now));
        }
        // The test's card adds these bits to those of `tran`, which gives the state `prg`.
        world.borrow_mut().next_status = 7 << 9 | R1::ERROR;
        world.borrow_mut().strike = Some((13, 1, Cause::Crc));
        run(&mut e, now);
        assert_eq!(world.borrow().strike, None, "{busy:?}: the question was lost");
        let told = ended(&mut e, id);
        assert!(told.is_err(), "{busy:?}, {durable}: {told:?}");
        let id = e.submit(flush(), 1 << 40).unwrap();
        run(&mut e, 1 << 40);
        assert_eq!(ended(&mut e, id).is_err(), durable, "{busy:?}: each client is told once");
        assert_eq!(e.slots_in_use(), 0);
    }
}

/// Tests a write in pieces while the program takes the card away and gives it back (a suspend, for
/// example): the pieces in the lost cache are written again.
#[test]
fn a_write_in_pieces_is_answered_although_the_card_was_taken_away_and_given_back() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.max_blocks = 8;
    let mut e = engine(&world, |t| t.flush = CACHE);
    let id = e.submit(write(0, 24, 1), 0).unwrap();
    e.halt();
    for turn in 1..20 {
        let _ = (e.on_irq(turn * 1_000), e.poll(turn * 1_000));
    }
    assert!(e.is_quiet() && !e.is_idle(), "a piece is done, and the rest waits");
    let card = *e.card_params().unwrap();
    e.set_card_params(None);
    e.set_card_params(Some(card));
    e.enable_extended_ops();
    e.resume(1 << 30);
    run(&mut e, 1 << 30);
    assert_eq!(ended(&mut e, id), Ok(24 * 512));
    assert_eq!(world.borrow().medium[..24 * 512], [1; 24 * 512]);
    assert_eq!(e.slots_in_use(), 0);
}

/// Tests a flush that is tried again for a durable write: the write's data are not sent again,
/// because they would replace the data of a later write of the same block that is complete by then.
#[test]
fn a_flush_of_a_durable_write_is_tried_again_without_its_data() {
    // The fault hits the status after the flush, or the flush itself: it gets no response.
    for strike in [(13, 1), (6, 0)] {
        let world = World::new(BLOCKS);
        let mut e = engine(&world, |t| t.flush = CACHE);
        let durable = e.submit(write(0, 1, 1).durable(), 0).unwrap();
        let later = e.submit(write(0, 1, 2), 0).unwrap();
        world.borrow_mut().strike = Some((strike.0, strike.1, Cause::Timeout));
        run(&mut e, 0);
        assert_eq!(ended(&mut e, later), Ok(512));
        assert_eq!(ended(&mut e, durable), Ok(512));
        assert_eq!(world.borrow().medium[0], 2, "{:?}", commands(&world));
        assert_eq!(world.borrow().transfers().len(), 2);
    }
}

#[test]
fn a_late_error_of_a_durable_piece_is_its_own() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.max_blocks = 8;
    let mut e = engine(&world, |t| t.flush = CACHE);
    let id = e.submit(write(0, 24, 1).durable(), 0).unwrap();
    let _ = e.on_irq(1_000);
    world.borrow_mut().next_status = R1::CC_ERROR;
    run(&mut e, 1_000);
    assert!(matches!(ended(&mut e, id), Err(Error::Program(status)) if status & R1::CC_ERROR != 0));
    let flush = e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), 1 << 40).unwrap();
    run(&mut e, 1 << 40);
    assert_eq!(ended(&mut e, flush), Ok(0), "told once");
}

#[test]
fn a_long_durable_write_goes_in_pieces_and_is_flushed_once() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.max_blocks = 8;
    let mut e = engine(&world, |t| t.flush = CACHE);
    let mut buf = buffer(20, 0);
    for (n, block) in buf.chunks_mut(512).enumerate() {
        block.fill(n as u8 + 1);
    }
    let id = e.submit(Request::new(Kind::Write { lba: 100, blocks: 20 }, buf).durable(), 0).unwrap();
    run(&mut e, 0);
    assert_eq!(ended(&mut e, id), Ok(20 * 512));
    let blocks: Vec<_> = world.borrow().transfers().iter().map(|seen| (seen.arg, seen.blocks)).collect();
    assert_eq!(blocks, [(100, 8), (108, 8), (116, 4)]);
    assert_eq!(commands(&world).iter().filter(|&&command| command == FLUSH).count(), 1);
    let world = world.borrow();
    assert!(
        (0..20).all(|n| world.medium[(100 + n) * 512..(101 + n) * 512].iter().all(|&b| b == n as u8 + 1))
    );
}

#[test]
fn write_violations_are_protection() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |_| {});
    let id = e.submit(write(0, 8, 1), 0).unwrap();
    let _ = e.on_irq(1_000);
    world.borrow_mut().next_status = R1::WP_VIOLATION;
    run(&mut e, 1_000);
    assert_eq!(ended(&mut e, id), Err(Error::Protected));
    let mut e = engine(&world, |t| (t.protected, t.erase) = (true, TRIMS));
    assert_eq!(e.submit(write(0, 8, 1), 0).unwrap_err().0, Error::Protected);
    assert_eq!(e.submit(erase(0, 8, Erase::Trim), 0).unwrap_err().0, Error::Protected);
}

#[test]
fn a_cache_is_flushed_only_after_a_write() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |t| t.flush = CACHE);
    let flushes = |world: &Rc<RefCell<World>>| commands(world).iter().filter(|&&c| c == FLUSH).count();
    let flush = |e: &mut TestEngine, now| {
        let id = e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), now).unwrap();
        run(e, now);
        ended(e, id).unwrap();
    };
    flush(&mut e, 0);
    flush(&mut e, 1 << 30);
    assert_eq!(flushes(&world), 0, "nothing was written since the cache was switched on");
    e.submit(write(0, 8, 1), 1 << 31).unwrap();
    flush(&mut e, 1 << 31);
    assert_eq!(flushes(&world), 1);
}

fn visit(area: u8, lba: u32, out: u16, back: u16) -> Kind {
    let config = 0x48 | area;
    support::partition_access(config, lba, out, back)
}

fn switch_to(area: u8) -> (u8, u32) {
    (6, emmc::switch(emmc::SwitchMode::WriteByte, 179, 0x48 | area, 0).arg)
}

#[test]
fn a_visit_goes_there_and_back() {
    let world = World::new(BLOCKS);
    world.borrow_mut().areas.insert(1, vec![7; 64 * 512]);
    let mut e = engine(&world, |_| {});
    e.submit(write(0, 8, 1), 0).unwrap();
    let there = e.submit(Request::new(visit(1, 4, 0, 8), buffer(8, 0)), 0).unwrap();
    e.submit(write(8, 8, 2), 0).unwrap();
    run(&mut e, 0);
    let done = e.take(there).unwrap();
    assert_eq!(done.result.unwrap().bytes, 4096);
    assert!(done.buf.iter().all(|&byte| byte == 7));
    let status = (13, 1 << 16);
    let expected =
        [(25, 0), status, switch_to(1), status, (23, 8), (18, 4), switch_to(0), status, (25, 8), status];
    assert_eq!(commands(&world), expected);
    assert_eq!((world.borrow().area, world.borrow().mapped()), (0, 0));
}

/// Tests partition accesses that no card can execute: they are refused before any command is sent.
#[test]
fn a_visit_that_cannot_be_is_refused_at_once() {
    let refused = |card: CardParams, visit: Kind, buf: DmaBuf| {
        let world = World::new(BLOCKS);
        world.borrow_mut().areas.insert(1, vec![7; 64 * 512]);
        let mut e = engine(&world, |_| {});
        e.set_card_params(Some(card));
        let refused = e.submit(Request::new(visit, buf), 0).err().map(|(error, _)| error);
        assert!(refused.is_none() || commands(&world).is_empty());
        refused
    };
    let (emmc, bytes) = (target(BLOCKS), 1 << 23);
    let by_bytes = emmc.block_addressed(false);
    // On an SD card CMD6 is another command, after which the card sends data.
    let sd = emmc.emmc(false);
    assert_eq!(refused(sd, visit(1, 0, 0, 8), buffer(8, 0)), Some(Error::Unsupported));
    assert_eq!(refused(emmc, visit(0, 0, 0, 8), buffer(8, 0)), Some(Error::Unsupported));
    let short = Some(Error::Buffer { needed: 4096, given: 512 });
    assert_eq!(refused(emmc, visit(1, 0, 8, 0), buffer(1, 0)), short);
    // With byte addresses of 32 bits, block 2^23 would have the address of block 0.
    for lba in [bytes - 7, bytes, u32::MAX] {
        let outside = Some(Error::OutOfRange { lba: lba.into(), sectors: bytes.into() });
        assert_eq!(refused(by_bytes, visit(1, lba, 8, 0), buffer(8, 1)), outside);
        assert_eq!(refused(by_bytes, visit(1, lba, 0, 8), buffer(8, 1)), outside);
        assert_eq!(refused(emmc, visit(1, lba, 8, 0), buffer(8, 1)), None);
    }
    assert_eq!(refused(by_bytes, visit(1, bytes - 8, 8, 0), buffer(8, 1)), None);
}

#[test]
fn visits_in_a_row_stay_there() {
    let world = World::new(BLOCKS);
    world.borrow_mut().areas.insert(4, vec![0; 64 * 512]);
    let mut e = engine(&world, |_| {});
    e.submit(write(0, 8, 1), 0).unwrap();
    for lba in [0, 8, 16] {
        e.submit(Request::new(visit(4, lba, 8, 0), buffer(8, lba as u8 + 1)), 0).unwrap();
    }
    run(&mut e, 0);
    let switches: Vec<_> = commands(&world).into_iter().filter(|&(index, _)| index == 6).collect();
    assert_eq!(switches, [switch_to(4), switch_to(0)]);
    assert_eq!(world.borrow().areas[&4][16 * 512], 17);
}

#[test]
fn a_failed_visit_comes_home() {
    for struck in [6, 23, 18] {
        let world = World::new(BLOCKS);
        world.borrow_mut().areas.insert(1, vec![7; 64 * 512]);
        let mut e = engine(&world, |_| {});
        world.borrow_mut().strike = Some((struck, 0, Cause::Timeout));
        let there = e.submit(Request::new(visit(1, 4, 0, 8), buffer(8, 0)), 0).unwrap();
        let after = e.submit(write(8, 8, 2), 0).unwrap();
        run(&mut e, 0);
        assert!(matches!(ended(&mut e, there), Err(Error::Host(_))), "CMD{struck}");
        assert_eq!(ended(&mut e, after), Ok(4096), "CMD{struck}");
        assert_eq!((world.borrow().area, world.borrow().mapped()), (0, 0), "CMD{struck}");
        assert_eq!(world.borrow().medium[8 * 512], 2);
    }
}

#[test]
fn a_card_that_does_not_come_home_is_not_written_to() {
    let world = World::new(BLOCKS);
    world.borrow_mut().areas.insert(1, vec![7; 64 * 512]);
    let mut e = engine(&world, |_| {});
    world.borrow_mut().strike = Some((6, 1, Cause::Timeout));
    // The first switch back and its repetition fail.
    world.borrow_mut().strikes = 2;
    let there = e.submit(Request::new(visit(1, 4, 0, 8), buffer(8, 0)), 0).unwrap();
    run(&mut e, 0);
    assert_eq!(ended(&mut e, there), Ok(4096), "the visit itself went well");
    // Without a supervisor the card is not initialised again: the engine cannot do that.
    run(&mut e, 1 << 40);
    assert_eq!(e.submit(write(8, 8, 2), 1 << 40).unwrap_err().0, Error::Dead);
    assert_eq!(world.borrow().areas[&1], vec![7; 64 * 512]);
}

#[test]
fn an_order_is_judged_after_its_busy() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |_| {});
    let command = emmc::switch(emmc::SwitchMode::WriteByte, 164, 1, 0);
    // The command may last longer than the controller's timer, so the engine asks for the status.
    let id =
        e.submit(Request::new(Kind::LongCommand { command, timeout_ns: 1 << 40 }, DmaBuf::EMPTY), 0).unwrap();
    run(&mut e, 0);
    assert_eq!(ended(&mut e, id), Ok(0));
    assert_eq!(indices(&world), [6, 13]);
    let id = e
        .submit(Request::new(Kind::LongCommand { command, timeout_ns: 1_000 }, DmaBuf::EMPTY), 1 << 41)
        .unwrap();
    let _ = e.on_irq((1 << 41) + 1_000);
    world.borrow_mut().next_status = R1::SWITCH_ERROR;
    run(&mut e, (1 << 41) + 1_000);
    assert!(matches!(ended(&mut e, id), Err(Error::Card(status)) if status & R1::SWITCH_ERROR != 0));
}

#[test]
fn an_error_that_is_shown_twice_is_one() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, |_| {});
    let command = emmc::switch(emmc::SwitchMode::WriteByte, 164, 1, 0);
    let id =
        e.submit(Request::new(Kind::LongCommand { command, timeout_ns: 1_000 }, DmaBuf::EMPTY), 0).unwrap();
    for at_ns in [1_000, 2_000] {
        world.borrow_mut().next_status = R1::SWITCH_ERROR;
        let _ = e.on_irq(at_ns);
    }
    assert!(matches!(ended(&mut e, id), Err(Error::Card(status)) if status & R1::SWITCH_ERROR != 0));
    assert_eq!(indices(&world), [6, 13]);
}

/// Tests that the engine waits for the end of busy after each block of another partition. The
/// scripted card refuses data while it is busy.
#[test]
fn the_busy_after_a_block_of_another_partition_is_waited_for() {
    let world = World::new(BLOCKS);
    world.borrow_mut().areas.insert(4, vec![0; 64 * 512]);
    (world.borrow_mut().caps.busy, world.borrow_mut().busy_polls) = (BusyDetect::Status, 3);
    let mut e = engine(&world, |_| {});
    let ids = [0, 8].map(|lba| e.submit(Request::new(visit(4, lba, 8, 0), buffer(8, 9)), 0).unwrap());
    run(&mut e, 0);
    for id in ids {
        assert_eq!(ended(&mut e, id), Ok(4096));
    }
    let polls = indices(&world).into_iter().filter(|&index| index == 13).count();
    assert!(polls >= 2 * 3, "{polls}");
}

#[test]
fn a_visit_is_no_longer_than_the_host_can_move() {
    let world = World::new(BLOCKS);
    world.borrow_mut().areas.insert(1, vec![7; 64 * 512]);
    world.borrow_mut().caps.max_blocks = 8;
    let mut e = engine(&world, |_| {});
    for (out, back, well) in [(0, 9, false), (9, 0, false), (0, 8, true), (8, 0, true)] {
        let there = e.submit(Request::new(visit(1, 0, out, back), buffer(9, 0)), 0).unwrap();
        run(&mut e, 0);
        let result = ended(&mut e, there);
        assert_eq!(result.is_ok(), well, "{out} {back}: {result:?}");
        assert!(well || result == Err(Error::Unsupported));
    }
}
