//! Tests of a lost cache: the next flush or durable write reports the loss, only one time, and not
//! before the cache is lost.

use crate::{bench, support};
use bench::{BLOCKS, Bench, bench, kept};
use mmcq::engine::{
    Abilities, CardParams, Completion, DmaBuf, Error, FlushBy, Handshake, Kind, Request, ServiceRequest,
    SlotId,
};
use mmcq::host::{Auto, BusOp, Cause, Phase, Stage};
use mmcq::spec::command;
use support::{buffer, target};

const CACHE: FlushBy = FlushBy::EmmcCache { timeout_ns: 500_000_000 };

fn cached() -> CardParams {
    target(BLOCKS).flush(CACHE)
}

/// Prepares a card with a cache, and a complete write that was not flushed.
fn unflushed(mut b: Bench) -> Bench {
    b.e.set_card_params(Some(cached()));
    b.e.enable_extended_ops();
    let written = b.write(0, 8, 7);
    assert!(b.finish(written).result.is_ok());
    b
}

fn durable(b: &mut Bench) -> SlotId {
    b.submit(Request::new(Kind::Write { lba: 32, blocks: 8 }, buffer(8, 2)).durable())
}

fn flush(b: &mut Bench) -> Completion {
    let id = b.submit(Request::new(Kind::Flush, DmaBuf::EMPTY));
    b.finish(id)
}

fn reset_card() -> Kind {
    let phase = Phase { command: command::go_idle_state(), data: None, auto: Auto::None, tuning: false };
    Kind::Raw { prefix: None, phase, timeout_ns: 1_000_000 }
}

/// Tests a silent card that still has its cache: until the card is reset nothing is lost, so no
/// loss is reported.
#[test]
fn a_durable_write_that_comes_before_the_reset_is_told_after_it() {
    let mut b = unflushed(kept());
    b.fault(1, Cause::Timeout, Stage::Command, false);
    b.world.borrow_mut().stuck_state = Some(0);
    let read = b.read(0, 8);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    b.world.borrow_mut().stuck_state = None;
    let early = durable(&mut b);
    assert!(b.e.take(early).is_none(), "told before the supervisor has reset the card");
    b.e.service_done(Ok(cached()), b.now);
    assert!(b.finish(read).result.is_ok());
    assert_eq!(b.finish(early).result, Err(Error::CacheLost));
    assert!(b.world.borrow().medium[32 * 512..40 * 512].iter().all(|&byte| byte != 2), "and was written");
    assert!(flush(&mut b).result.is_ok(), "told twice");
}

/// Tests a durable write that is submitted between the loss and the command that shows the loss: it
/// reports the loss.
#[test]
fn a_durable_write_that_finds_the_card_reset_tells_what_was_lost_before_it() {
    let mut b = unflushed(kept());
    b.fault(1, Cause::Timeout, Stage::Command, false);
    b.world.borrow_mut().stuck_state = Some(0);
    let late = durable(&mut b);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    b.world.borrow_mut().stuck_state = None;
    b.e.service_done(Ok(cached()), b.now);
    assert_eq!(b.finish(late).result, Err(Error::CacheLost));
    assert!(flush(&mut b).result.is_ok(), "told twice");
}

/// Tests resets of the card that a client sends, also with a lost response: the cache is lost, and
/// the next flush reports it.
#[test]
fn a_reset_of_the_card_loses_its_cache_and_the_next_flush_tells() {
    for (kind, fails) in [(reset_card(), false), (reset_card(), true), (Kind::Bus(BusOp::PowerOff), false)] {
        let mut b = unflushed(bench());
        if fails {
            b.fault(1, Cause::Timeout, Stage::Command, true);
        }
        let reset = b.submit(Request::new(kind, DmaBuf::EMPTY));
        assert_eq!(b.finish(reset).result.is_err(), fails);
        assert_eq!(flush(&mut b).result, Err(Error::CacheLost), "{kind:?}");
        assert!(flush(&mut b).result.is_ok());
    }
}

/// Tests a durable write that would report a loss, and that its client cancels: the next flush
/// reports the loss.
#[test]
fn a_message_to_a_write_whose_client_has_gone_is_told_by_the_next_flush() {
    let mut b = unflushed(kept());
    b.e.set_card_params(None);
    b.e.set_card_params(Some(cached()));
    let given_up = durable(&mut b);
    while b.e.next_deadline_ns().is_some_and(|at| at > b.now) || b.world.borrow().running() {
        b.step();
    }
    let _ = b.e.cancel(given_up);
    assert_eq!(flush(&mut b).result, Err(Error::CacheLost));
    assert!(flush(&mut b).result.is_ok());
}

/// Tests a reliable write, which goes past the cache: after it no loss is possible.
#[test]
fn a_reliable_write_alone_leaves_nothing_that_could_be_lost() {
    let mut b = kept();
    b.e.set_card_params(Some(cached()));
    b.e.set_abilities(Abilities::NONE.reliable_blocks(8));
    b.e.enable_extended_ops();
    let first = durable(&mut b);
    assert!(b.finish(first).result.is_ok());
    b.fault(1, Cause::Timeout, Stage::Command, false);
    b.world.borrow_mut().stuck_state = Some(0);
    let second = durable(&mut b);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    b.world.borrow_mut().stuck_state = None;
    b.e.service_done(Ok(cached()), b.now);
    assert!(b.finish(second).result.is_ok());
    assert!(flush(&mut b).result.is_ok());
}
