//! Tests of supervisors that begin and end, and of help that fails: each request for help reaches a
//! supervisor, and no memory is returned too early.

use crate::{bench, support};
use bench::{BLOCKS, Bench, MS, SLOTS, bench, kept};
use mmcq::engine::{Error, Handshake, Kind, RecoveryStep, Request, ServiceRequest, SlotId};
use mmcq::host::{Auto, Cause, Data, Direction, Phase, Stage};
use mmcq::spec::command;
use std::task::Waker;
use support::{buffer, target};

/// Returns a bench with a supervisor, and the slot of a write whose card has left the state `tran`,
/// so that the engine will request a new initialisation.
fn lost() -> (Bench, SlotId) {
    let mut b = kept();
    let id = b.write(0, 8, 5);
    b.fault(1, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().stuck_state = Some(0);
    (b, id)
}

/// Returns a read of EXT_CSD as a supervisor makes it.
fn register() -> Request {
    let data = Data { direction: Direction::Read, block_size: 512, blocks: 1 };
    let command = command::emmc::send_ext_csd();
    let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: false };
    Request::new(Kind::Raw { prefix: None, phase, timeout_ns: 150 * MS }, buffer(1, 0)).urgent()
}

/// Tests a supervisor that gives up in the middle of its read of a register, with no other help:
/// the memory is returned only when the controller has released it.
#[test]
fn help_that_fails_takes_no_memory_from_the_controller() {
    let (mut b, id) = lost();
    assert_eq!(b.help(), ServiceRequest::Reinit);
    let spoken = b.submit(register());
    assert!(b.world.borrow().running());
    b.e.service_done(Err(Error::Silent), b.now);
    assert_eq!(b.e.take_service_request(), Some(ServiceRequest::PowerCycle));
    b.e.service_done(Err(Error::Silent), b.now);
    let _ = b.e.poll(b.now);
    assert!(b.world.borrow().running(), "nothing has ended it");
    assert!(b.e.take(spoken).is_none() && b.world.borrow().mapped() > 0, "the controller has its memory");
    assert!(b.finish(spoken).result.is_ok());
    assert!(b.finish(id).result.is_err());
    assert_eq!((b.taken(RecoveryStep::Dead), b.world.borrow().mapped()), (1, 0));
}

/// Tests a supervisor's task that is cancelled and started again: the second supervisor gets the
/// request for help that the first one had taken.
#[test]
fn a_supervisor_that_comes_hears_what_another_left() {
    for (away_ns, talk_ns) in [(0, 0), (0, 1_000 * MS), (90 * MS, 0), (90 * MS, 1_000 * MS)] {
        let (mut b, id) = lost();
        assert_eq!(b.help(), ServiceRequest::Reinit);
        let _ = b.e.set_service_waker(None);
        if away_ns != 0 {
            let _ = b.e.poll(b.now);
            b.now += away_ns;
        }
        let came_ns = b.now;
        let _ = b.e.set_service_waker(Some(Waker::noop().clone()));
        assert_eq!(b.help(), ServiceRequest::Reinit, "away for {away_ns}");
        assert!(b.now - came_ns < MS);
        b.world.borrow_mut().stuck_state = None;
        let until_ns = b.now + talk_ns;
        while b.now < until_ns && b.e.next_deadline_ns().is_some_and(|at| at <= until_ns) {
            b.step();
        }
        b.now = until_ns;
        b.e.service_done(Ok(target(BLOCKS)), b.now);
        assert!(b.finish(id).result.is_ok(), "away for {away_ns}, talks for {talk_ns}: {:?}", b.steps());
    }
}

#[test]
fn a_card_that_came_is_brought_up_although_the_supervisor_changed() {
    let mut b = kept();
    b.world.borrow_mut().remove();
    let _ = b.e.on_irq(b.now);
    b.world.borrow_mut().insert();
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.help(), ServiceRequest::Inserted);
    let _ = b.e.set_service_waker(None);
    let came_ns = b.now;
    let _ = b.e.set_service_waker(Some(Waker::noop().clone()));
    assert_eq!(b.help(), ServiceRequest::Inserted);
    assert!(b.now - came_ns < MS);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    let id = b.read(0, 1);
    assert!(b.finish(id).result.is_ok());
}

/// Tests a supervisor that has brought up another card, and whose report comes after that card was
/// taken out too: it does not apply to any later card.
#[test]
fn what_was_meant_for_a_card_that_went_reaches_no_other() {
    let mut b = kept();
    b.world.borrow_mut().remove();
    let _ = b.e.on_irq(b.now);
    b.world.borrow_mut().insert();
    let _ = b.e.on_irq(b.now);
    b.e.set_card_params(Some(target(BLOCKS)));
    let ids = [b.write(0, 8, 5), b.read(64, 1)];
    assert_eq!(b.help(), ServiceRequest::Inserted);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    for id in ids {
        assert_eq!(b.finish(id).result, Err(Error::Removed));
    }
    assert!(b.world.borrow().transfers().is_empty(), "{:?}", b.commands());
    let id = b.read(0, 1);
    assert!(b.finish(id).result.is_ok());
}

/// Tests a supervisor that starts when all slots are in use: the youngest waiting request ends and
/// gives its slot to the supervisor, and the card is not given up.
#[test]
fn a_supervisor_that_finds_all_slots_taken_gets_one() {
    let mut b = bench();
    let ids: Vec<_> = (0..SLOTS as u64).map(|i| b.write(16 * i, 8, 5)).collect();
    let _ = b.e.set_service_waker(Some(Waker::noop().clone()));
    b.fault(1, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().stuck_state = Some(0);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    let _ = b.e.poll(b.now);
    assert_eq!(b.e.take(ids[SLOTS - 1]).map(|done| done.result), Some(Err(Error::Full)));
    let spoken = b.submit(register());
    assert!(b.finish(spoken).result.is_ok());
    b.world.borrow_mut().stuck_state = None;
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    for &id in &ids[..SLOTS - 1] {
        assert!(b.finish(id).result.is_ok());
    }
}

/// Tests a supervisor that starts when all slots are in use and no request is untouched: all waiting
/// writes were in the transfer that failed, and may be partly on the card. One of them ends with
/// that failure, and not with an error that says that nothing was begun.
#[test]
fn a_write_that_was_begun_is_not_ended_as_one_that_was_not() {
    for (failed, executed) in [(Cause::Crc, true), (Cause::Timeout, false)] {
        let mut b = bench();
        let ids: Vec<_> = (0..SLOTS as u64).map(|i| b.write(8 * i, 8, 5)).collect();
        let _ = b.e.set_service_waker(Some(Waker::noop().clone()));
        // The first write is sent alone, the others in one transfer.
        b.fault(2, failed, Stage::Data, executed);
        b.world.borrow_mut().stuck_state = Some(0);
        assert_eq!(b.help(), ServiceRequest::Reinit, "{:?}", b.commands());
        let _ = b.e.poll(b.now);
        let ended = b.e.take(ids[SLOTS - 1]).expect("the supervisor gets a slot").result;
        assert!(matches!(ended, Err(Error::Host(fault)) if fault.cause == failed), "{ended:?}");
        let spoken = b.submit(register());
        assert!(b.finish(spoken).result.is_ok());
        b.world.borrow_mut().stuck_state = None;
        b.e.service_done(Ok(target(BLOCKS)), b.now);
        for &id in &ids[..SLOTS - 1] {
            assert!(b.finish(id).result.is_ok());
        }
    }
}

/// Tests a chore of a card without a fault while no slot is free: the engine does not request the
/// chore then.
#[test]
fn a_chore_waits_for_a_slot() {
    let mut b = bench();
    let ids: Vec<_> = (0..SLOTS as u64).map(|i| b.read(16 * i, 8)).collect();
    let _ = b.e.set_service_waker(Some(Waker::noop().clone()));
    b.world.borrow_mut().retune = true;
    b.step();
    assert_eq!(b.e.take_service_request(), None);
    let first = b.finish(ids[0]);
    assert!(first.result.is_ok());
    assert_eq!(b.help(), ServiceRequest::Retune);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    for &id in &ids[1..] {
        assert!(b.finish(id).result.is_ok());
    }
}
