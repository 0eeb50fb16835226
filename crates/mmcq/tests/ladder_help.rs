//! Tests of the recovery ladder with and without the help of a supervisor: one that leaves, one that
//! promises help and gives none, and the order in which help is asked for.

use crate::{bench, support};
use bench::{BLOCKS, Bench, MS, SLOTS, bench, kept};
use mmcq::engine::{DmaBuf, Error, Handshake, Kind, RecoveryStep, Request, ServiceRequest};
use mmcq::host::{Auto, Cause, Phase, Stage};
use mmcq::spec::command::{self, Command, Resp};
use support::{buffer, target};

#[test]
fn a_supervisor_that_is_dismissed_hears_of_it_however_late() {
    let mut b = kept();
    b.world.borrow_mut().retune = true;
    let id = b.read(0, 1);
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.help(), ServiceRequest::Retune);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    b.now += 60_000 * MS;
    b.e.halt();
    assert!(b.e.dismiss_supervisor());
    // Something else moves the engine before the supervisor is polled.
    let _ = b.e.poll(b.now);
    assert_eq!(b.e.take_service_request(), Some(ServiceRequest::Dismissed));
}

/// Tests that one slot is kept free for the supervisor's requests only as long as there is a
/// supervisor.
#[test]
fn a_supervisor_that_has_gone_keeps_no_slot() {
    let mut b = kept();
    let fill = |b: &mut Bench| {
        (0..64)
            .map_while(|_| {
                let read = Request::new(Kind::Read { lba: 0, blocks: 1 }, buffer(1, 0));
                b.e.submit(read, b.now).ok()
            })
            .collect::<Vec<_>>()
    };
    let ids = fill(&mut b);
    assert_eq!(ids.len(), SLOTS - 1);
    for id in ids {
        assert!(b.finish(id).result.is_ok());
    }
    let _ = b.e.set_service_waker(None);
    assert_eq!(fill(&mut b).len(), SLOTS);
}

/// Tests a supervisor that is dropped while the engine waits for its help, whether it has taken the
/// request for help or not: the engine does not wait any longer.
#[test]
fn a_supervisor_that_goes_while_help_is_asked_for_is_not_waited_for() {
    for heard in [true, false] {
        let mut b = kept();
        let id = b.write(0, 8, 5);
        b.fault(1, Cause::Timeout, Stage::Data, false);
        b.world.borrow_mut().stuck_state = Some(0);
        if heard {
            assert_eq!(b.help(), ServiceRequest::Reinit);
        } else {
            while b.taken(RecoveryStep::Reinit) == 0 {
                b.step();
            }
        }
        let gone_ns = b.now;
        let _ = b.e.set_service_waker(None);
        assert_eq!(b.finish(id).result, Err(Error::Dead));
        assert!(b.now - gone_ns < 150 * MS, "{} ms, heard: {heard}", (b.now - gone_ns) / MS);
    }
}

/// Tests a request that its client takes back while the supervisor works for it: the next failure is
/// a new incident, and not the continuation of the old one.
#[test]
fn an_incident_whose_request_has_gone_is_over() {
    let mut b = kept();
    for _ in 0..3 {
        b.fault(1, Cause::Timeout, Stage::Data, false);
        let id = b.read(0, 8);
        b.world.borrow_mut().stuck_state = Some(0);
        assert_eq!(b.help(), ServiceRequest::Reinit);
        assert!(b.e.cancel(id).is_some());
        b.world.borrow_mut().stuck_state = None;
        b.e.service_done(Ok(target(BLOCKS)), b.now);
    }
    assert_eq!(b.taken(RecoveryStep::PowerCycle), 0);
}

#[test]
fn help_is_asked_for_in_order_and_urgent_requests_pass() {
    let mut b = kept();
    let id = b.write(0, 8, 5);
    let behind = b.read(64, 8);
    b.fault(1, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().stuck_state = Some(0);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    b.world.borrow_mut().stuck_state = None;
    // An urgent request of the supervisor goes before all waiting requests.
    let log = b.world.borrow().log.len();
    let phase = Phase { command: command::go_idle_state(), data: None, auto: Auto::None, tuning: false };
    let urgent = Request::new(Kind::Raw { prefix: None, phase, timeout_ns: MS }, DmaBuf::EMPTY).urgent();
    let spoken = b.submit(urgent);
    assert!(b.finish(spoken).result.is_ok());
    assert_eq!(b.commands()[log..], [0]);
    assert!(b.e.take(id).is_none() && b.e.take(behind).is_none());
    b.e.service_done(Err(Error::Silent), b.now);
    assert_eq!(b.help(), ServiceRequest::PowerCycle);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    assert!(b.finish(id).result.is_ok() && b.finish(behind).result.is_ok());
    assert_eq!(b.world.borrow().medium[0], 5);
    assert_eq!(
        (b.taken(RecoveryStep::Reinit), b.taken(RecoveryStep::PowerCycle), b.taken(RecoveryStep::Dead)),
        (1, 1, 0)
    );
    // A report of help that the engine has not requested has no effect.
    b.e.service_done(Err(Error::Silent), b.now);
    let id = b.read(0, 1);
    assert!(b.finish(id).result.is_ok());
}

#[test]
fn without_help_everything_is_dead_in_bounded_time() {
    let mut b = bench();
    let ids: Vec<_> = (0..8).map(|i| b.write(16 * i, 8, 5)).collect();
    b.fault(1, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().stuck_state = Some(0);
    for id in ids {
        assert_eq!(b.finish(id).result, Err(Error::Dead));
    }
    assert!(b.now < 1_000 * MS);
    let phase = Phase { command: Command::new(52, 0, Resp::R5), data: None, auto: Auto::None, tuning: false };
    for kind in
        [Kind::Read { lba: 0, blocks: 1 }, Kind::Flush, Kind::Io { phase, timeout_ns: MS, chain: false }]
    {
        let refused = b.e.submit(Request::new(kind, buffer(1, 0)), b.now).unwrap_err();
        assert_eq!(refused.0, Error::Dead);
    }
    assert_eq!(b.world.borrow().mapped(), 0);
    // A new bring-up makes the engine accept requests again.
    b.world.borrow_mut().stuck_state = None;
    b.e.set_card_params(None);
    b.e.set_card_params(Some(target(BLOCKS)));
    let id = b.read(0, 1);
    assert!(b.finish(id).result.is_ok());
}

#[test]
fn a_supervisor_that_promised_help_and_gives_none_is_not_waited_for_for_ever() {
    let mut b = kept();
    let id = b.write(0, 8, 5);
    b.fault(1, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().stuck_state = Some(0);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    assert_eq!(b.finish(id).result, Err(Error::Dead));
    assert!(b.now < 12_500 * MS);
}

/// Tests a supervisor that is dismissed, and a card-detect switch that changes before the
/// supervisor is polled: the supervisor gets both requests.
#[test]
fn a_dismissal_outlasts_a_switch_that_moves() {
    let mut b = kept();
    assert!(b.e.dismiss_supervisor());
    b.world.borrow_mut().insert();
    b.e.presence_changed(b.now);
    let mut heard = Vec::new();
    for _ in 0..20 {
        b.now += 20 * MS;
        let _ = b.e.poll(b.now);
        let Some(asked) = b.e.take_service_request() else { continue };
        heard.push(asked);
        if asked != ServiceRequest::Dismissed {
            b.e.service_done(Ok(target(BLOCKS)), b.now);
        }
    }
    assert_eq!(heard.iter().filter(|&&asked| asked == ServiceRequest::Dismissed).count(), 1, "{heard:?}");
    assert!(heard.contains(&ServiceRequest::Inserted), "{heard:?}");
}
