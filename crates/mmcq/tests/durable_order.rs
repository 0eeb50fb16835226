//! Tests of durable writes of the same blocks whose flush fails, or whose card loses its cache: at
//! the end the blocks have the data of the younger write.

use crate::support;
use mmcq::engine::{
    Abilities, Config, DmaBuf, Engine, Error, FlushBy, Handshake, Kind, Request, ServiceRequest, SlotId,
};
use mmcq::host::{BusyDetect, Cause, Stage};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 64;
/// A controller that takes each of the writes at once.
const WHOLE: u32 = 64;
const CACHE: FlushBy = FlushBy::EmmcCache { timeout_ns: 500_000_000 };

type TestEngine = Engine<TestHost, 16>;

fn write(engine: &mut TestEngine, lba: u64, blocks: u32, fill: u8, durable: bool) -> SlotId {
    let request = Request::new(Kind::Write { lba, blocks }, buffer(blocks, fill));
    engine.submit(if durable { request.durable() } else { request }, 0).unwrap()
}

/// Runs the engine by interrupts and alarms, with a supervisor. If `lost_at` is given, the card
/// loses its state after this number of phases, and the content of its cache at its new
/// initialisation.
fn run(engine: &mut TestEngine, world: &Rc<RefCell<World>>, mut lost_at: Option<usize>) {
    let mut now = 0;
    let mut flushed = world.borrow().medium.clone();
    let (mut flushes, mut loses, mut told) = (0, false, 0);
    for _ in 0..100_000 {
        now += 1_000;
        if lost_at.is_some_and(|nth| world.borrow().log.len() >= nth) {
            // The status then shows `idle`, as after a brown-out.
            (lost_at, world.borrow_mut().stuck_state) = (None, Some(0));
            loses = true;
        }
        let _ = engine.on_irq(now);
        while !world.borrow().running() && told + 1 < world.borrow().log.len() {
            // A reliable write goes past the cache.
            let log = world.borrow().log[told..told + 2].to_vec();
            told += 1;
            if log[0].index == 23 && log[0].arg >> 31 != 0 && log[1].index == 25 {
                let bytes = log[1].arg as usize * 512..(log[1].arg + log[1].blocks) as usize * 512;
                flushed[bytes.clone()].copy_from_slice(&world.borrow().medium[bytes]);
            }
        }
        let seen = world.borrow().log.iter().filter(|seen| seen.index == 6).count();
        if seen > flushes && !world.borrow().running() {
            (flushes, flushed) = (seen, world.borrow().medium.clone());
        }
        if let Some(help) = engine.take_service_request() {
            if loses && help == ServiceRequest::Reinit {
                world.borrow_mut().medium.clone_from(&flushed);
            }
            world.borrow_mut().stuck_state = None;
            let target = *engine.card_params().unwrap();
            engine.service_done(Ok(target), now);
        }
        if engine.is_idle() {
            let _ = engine.poll(now);
            return;
        }
        if !world.borrow().running() {
            now = now.max(engine.next_deadline_ns().unwrap_or(0));
            let _ = engine.poll(now);
        }
    }
    panic!("the engine does not come to rest");
}

/// Runs two pairs of writes. The controller takes `piece` blocks at a time.
fn case(busy: BusyDetect, piece: u32, faults: &[(usize, bool)], lost_at: Option<usize>) {
    case_of(busy, piece, faults, lost_at, true);
    case_of(busy, piece, faults, lost_at, false);
}

fn case_of(
    busy: BusyDetect,
    piece: u32,
    faults: &[(usize, bool)],
    lost_at: Option<usize>,
    younger_durable: bool,
) {
    let what = format!(
        "{busy:?}, {piece} blocks, faults {faults:?}, card lost at {lost_at:?}, younger durable {younger_durable}"
    );
    let world = World::new(BLOCKS);
    (world.borrow_mut().caps.busy, world.borrow_mut().busy_polls) = (busy, 1);
    world.borrow_mut().caps.max_blocks = piece;
    let mut e: TestEngine = Engine::new(TestHost::new(&world), Config::DEFAULT);
    e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
    e.enable_extended_ops();
    let _ = e.set_service_waker(Some(Waker::noop().clone()));
    for &(nth, executed) in faults {
        world.borrow_mut().faults.insert(nth, (Cause::Timeout, Stage::Command, executed));
    }
    if let Some(nth) = lost_at {
        world.borrow_mut().faults.insert(nth, (Cause::Timeout, Stage::Command, false));
    }
    // The writes of a pair come one after the other, so that both wait for a flush at the same
    // time. A younger write that is not durable waits for none.
    let pairs = [(8, 1, 1), (0, 16, 2), (20, 4, 3), (22, 1, 4)]
        .map(|(lba, blocks, fill)| write(&mut e, lba, blocks, fill, younger_durable || fill % 2 == 1));
    let (older, younger) = ([pairs[0], pairs[2]], [pairs[1], pairs[3]]);
    run(&mut e, &world, lost_at);
    let mut lost = false;
    let mut done = |e: &mut TestEngine, id| {
        let result = e.take(id).unwrap().result;
        lost |= matches!(result, Err(Error::CacheLost));
        result.is_ok()
    };
    let older = older.map(|id| done(&mut e, id));
    let mut younger = younger.map(|id| done(&mut e, id));
    if !younger_durable {
        let flush = e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), 0).unwrap();
        run(&mut e, &world, None);
        // A loss that a durable write or the flush reports may include the younger writes.
        let kept = done(&mut e, flush) && !lost;
        younger = younger.map(|ok| ok && kept);
    }
    let world = world.borrow();
    for (at, fill, ok, before) in [(8, 2, younger[0], older[0]), (22, 4, younger[1], older[1])] {
        let found = world.medium[at * 512];
        assert!(
            !ok || found == fill,
            "{what}: block {at} holds {found}, the younger {ok}, the older {before}"
        );
    }
    assert!(!older[1] || world.medium[20 * 512] == 3, "{what}: what no other request wrote");
    assert_eq!(world.mapped(), 0, "{what}");
}

#[test]
fn the_younger_of_two_durable_writes_stays_whatever_fails() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Status] {
        for first in 1..40 {
            for executed in [true, false] {
                case(busy, WHOLE, &[(first, executed)], None);
                for second in first + 1..first + 6 {
                    case(busy, WHOLE, &[(first, executed), (second, !executed)], None);
                }
            }
        }
    }
}

/// Tests writes that go in pieces. A status that is lost between two pieces is no reason to write
/// again what waits for its flush alone: a younger write of the same blocks may have followed it.
#[test]
fn the_younger_of_two_durable_writes_stays_whatever_fails_between_pieces() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Status] {
        for first in 1..50 {
            for executed in [true, false] {
                case(busy, 2, &[(first, executed)], None);
                case(busy, 2, &[(first, executed), (first + 1, !executed)], None);
            }
        }
    }
}

#[test]
fn the_younger_of_two_durable_writes_stays_when_the_cache_is_lost() {
    for nth in 1..30 {
        for piece in [WHOLE, 2] {
            case(BusyDetect::Interrupt, piece, &[], Some(nth));
            case(BusyDetect::Status, piece, &[], Some(nth));
        }
    }
}

/// Tests that one flush makes all waiting durable writes durable that were settled before it.
#[test]
fn durable_writes_that_wait_together_are_flushed_once() {
    let world = World::new(BLOCKS);
    let mut e: TestEngine = Engine::new(TestHost::new(&world), Config::DEFAULT);
    e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
    e.enable_extended_ops();
    let ids: Vec<_> = (0..3).map(|n| write(&mut e, 8 * n, 8, n as u8 + 1, true)).collect();
    run(&mut e, &world, None);
    for id in ids {
        assert!(e.take(id).unwrap().result.is_ok());
    }
    assert!(world.borrow().log.iter().filter(|seen| seen.index == 6).count() <= 2);
}

/// Tests a reliable write, which goes past the cache, after an older write of the same blocks whose
/// cache is lost: the older write is not written again over the newer data.
#[test]
fn a_reliable_write_outlasts_an_older_one_whose_cache_is_lost() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Status] {
        for lost in 1..16 {
            let world = World::new(BLOCKS);
            (world.borrow_mut().caps.busy, world.borrow_mut().busy_polls) = (busy, 1);
            let mut e: TestEngine = Engine::new(TestHost::new(&world), Config::DEFAULT);
            e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
            e.enable_extended_ops();
            e.set_abilities(Abilities::NONE.reliable_blocks(8));
            let _ = e.set_service_waker(Some(Waker::noop().clone()));
            world.borrow_mut().faults.insert(lost, (Cause::Timeout, Stage::Command, false));
            let (older, younger) = (write(&mut e, 20, 4, 3, true), write(&mut e, 22, 1, 4, true));
            run(&mut e, &world, Some(lost));
            let [older, younger] = [older, younger].map(|id| e.take(id).unwrap().result);
            // A write that reports the loss of the cache is not written.
            let told = [older, younger].iter().filter(|&&result| result == Err(Error::CacheLost)).count();
            let done = [older, younger].iter().filter(|result| result.is_ok()).count();
            assert!(done >= 1 && done + told == 2, "lost at {lost}: {older:?}, {younger:?}");
            let found = [20, 21, 22, 23].map(|at| world.borrow().medium[at * 512]);
            let what = format!("{busy:?}, lost at {lost}: {:?}", world.borrow().log);
            assert!(older.is_err() || [found[0], found[1], found[3]] == [3; 3], "{what}");
            assert!(younger.is_err() || found[2] == 4, "{what}");
        }
    }
}
