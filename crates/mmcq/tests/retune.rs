//! Tests of when the engine requests a new tuning, and when no tuning may run.

use crate::{bench, support};
use bench::{BLOCKS, Bench, MS, kept};
use mmcq::engine::{
    Config, DmaBuf, Engine, Error, Handshake, Kind, PartitionAccess, RecoveryStep, Request, ServiceRequest,
};
use mmcq::host::{BusOp, Cause, Phase, Stage, Timing};
use mmcq::sched::Fifo;
use mmcq::spec::command::send_status;
use mmcq::spec::response::R1;
use std::task::Waker;
use support::{TestHost, World, buffer, target};

/// Returns an engine with a supervisor, and a card in a bus mode that needs tuning.
fn tuned() -> Bench {
    let mut b = kept();
    b.e.enable_extended_ops();
    let id = b.submit(Request::new(Kind::Bus(BusOp::Timing(Timing::Hs200)), DmaBuf::EMPTY));
    assert!(b.finish(id).result.is_ok());
    b
}

fn data_commands(b: &Bench) -> usize {
    b.world.borrow().transfers().len()
}

/// Tests an incident that has had its tuning, and then a reset of the controller that loses the
/// sampling point: the tuning is repeated.
#[test]
fn a_tuning_that_a_reset_has_lost_is_made_again_in_the_same_incident() {
    let mut b = tuned();
    for nth in [1, 3, 5, 7] {
        b.fault(nth, Cause::Crc, Stage::Data, false);
    }
    let id = b.read(0, 1);
    assert_eq!(b.help(), ServiceRequest::Retune);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    // The next failure leads to a reset of the lines, which hangs.
    b.world.borrow_mut().fails_resets = (true, false);
    let before = data_commands(&b);
    assert_eq!(b.help(), ServiceRequest::Retune, "{:?}", b.steps());
    assert_eq!(
        (b.taken(RecoveryStep::Reset), data_commands(&b)),
        (1, before),
        "no data at a point that is lost"
    );
    b.world.borrow_mut().fails_resets = (false, false);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.taken(RecoveryStep::Slower) + b.taken(RecoveryStep::Reinit), 0);
}

/// Tests resets that lose the tuning each time: the number of resets in an incident is bounded.
#[test]
fn resets_that_lose_each_tuning_come_to_an_end() {
    let mut b = tuned();
    b.world.borrow_mut().bad.insert(0, Cause::Crc);
    b.world.borrow_mut().fails_resets = (true, false);
    let id = b.read(0, 1);
    let mut tunings = 0;
    for _ in 0..100_000 {
        if let Some(help) = b.e.take_service_request() {
            tunings += u32::from(help == ServiceRequest::Retune);
            b.e.service_done(Ok(target(BLOCKS)), b.now);
        }
        if let Some(done) = b.e.take(id) {
            assert!(done.result.is_err());
            assert!((2..=30).contains(&tunings), "{tunings}");
            return;
        }
        b.step();
    }
    panic!("never answered: {tunings} tunings, {:?}", b.steps());
}

/// Tests a card in its replay-protected area: no CMD21 is sent to it.
#[test]
fn nothing_is_tuned_in_another_partition() {
    for damaged_at in 1..6 {
        let mut b = tuned();
        let frames: support::Frames = Box::new(|_, _| {});
        b.world.borrow_mut().rpmb = Some(frames);
        let visit = PartitionAccess {
            config: 3,
            switch_ns: 10 * MS,
            lba: 0,
            out: 1,
            reliable: true,
            ask: true,
            back: 1,
        };
        // From here on the card does not even answer CMD13.
        for nth in damaged_at..damaged_at + 5 {
            b.fault(nth, Cause::Crc, Stage::Command, true);
        }
        let _ = b.submit(Request::new(Kind::PartitionAccess(visit), buffer(3, 0)));
        for _ in 0..100_000 {
            let area = b.world.borrow().area;
            match b.e.take_service_request() {
                Some(ServiceRequest::Retune) => {
                    assert_eq!(area, 0, "damage from {damaged_at} on: {:?}", b.steps())
                }
                None if !b.e.is_idle() => {
                    b.step();
                    continue;
                }
                _ => {}
            }
            b.world.borrow_mut().area = 0;
            break;
        }
    }
}

/// Tests a supervisor that is dropped in the middle of a tuning: it can send nothing any more, so
/// the engine itself ends the tuning.
#[test]
fn a_supervisor_that_goes_in_the_middle_of_a_tuning_leaves_no_controller_in_it() {
    let mut b = tuned();
    for nth in [1, 3, 5] {
        b.fault(nth, Cause::Crc, Stage::Data, false);
    }
    let id = b.read(0, 1);
    assert_eq!(b.help(), ServiceRequest::Retune);
    let start = Request::new(Kind::Bus(BusOp::TuneStart), DmaBuf::EMPTY).urgent();
    let start = b.submit(start);
    assert!(b.finish(start).result.is_ok() && b.world.borrow().tuning);
    let _ = b.e.set_service_waker(None);
    // The scripted host takes no data in the middle of a tuning.
    assert!(b.finish(id).result.is_ok(), "{:?}", b.steps());
    assert!(!b.world.borrow().tuning);
    assert_eq!(b.taken(RecoveryStep::Reset), 1);
    let next = b.write(0, 1, 1);
    assert!(b.finish(next).result.is_ok());
}

/// Tests a write of two pieces on a controller that asks for a tuning at the end of the first one:
/// the status of that piece is read before the supervisor's commands, which would clear its error.
#[test]
fn the_status_of_a_piece_is_read_before_the_supervisor_sends_anything() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps = support::caps().max_blocks(8);
    let mut e = Engine::with_policy(TestHost::new(&world), Config::DEFAULT, Fifo);
    e.set_card_params(Some(target(BLOCKS)));
    let _ = e.set_service_waker(Some(Waker::noop().clone()));
    let mut b = Bench { world, e, now: 1_000 };
    let id = b.submit(Request::new(Kind::Bus(BusOp::Timing(Timing::Hs200)), DmaBuf::EMPTY));
    assert!(b.finish(id).result.is_ok());
    let id = b.write(0, 16, 1);
    b.world.borrow_mut().retune = true;
    b.step();
    assert_eq!(data_commands(&b), 1);
    b.world.borrow_mut().next_status = R1::ERROR;
    assert_eq!(b.help(), ServiceRequest::Retune);
    let kind = Kind::Raw { prefix: None, phase: Phase::of(send_status(1)), timeout_ns: 20 * MS };
    let question = b.submit(Request::new(kind, DmaBuf::EMPTY).urgent());
    let answer = b.finish(question).result.unwrap().response;
    assert_eq!(answer.words[0] & R1::ERROR, 0, "the engine has read it before");
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    assert!(matches!(b.finish(id).result, Err(Error::Program(_))), "{:?}", b.commands());
}
