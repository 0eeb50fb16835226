//! Tests of what the engine does about its controller: one that asks for tuning, and one that
//! cannot be reset.

use crate::{bench, support};
use bench::{BLOCKS, MS, bench, kept};
use mmcq::engine::{Error, Handshake, RecoveryStep, ServiceRequest};
use mmcq::host::{Cause, Stage};
use support::target;

#[test]
fn a_tuning_that_the_controller_asks_for_holds_the_queue_until_it_comes() {
    let mut b = kept();
    b.world.borrow_mut().retune = true;
    let first = b.read(0, 1);
    assert_eq!(b.help(), ServiceRequest::Retune);
    assert!(b.finish(first).result.is_ok());
    let sent = b.commands().len();
    let id = b.read(8, 1);
    let began = b.now;
    assert_eq!(b.commands().len(), sent, "nothing is started");
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    assert!(b.finish(id).result.is_ok());
    assert!(b.now - began < MS);
    // The engine does not wait for a supervisor that takes this request and does not begin: nothing
    // is wrong.
    b.world.borrow_mut().retune = true;
    let (first, id) = (b.read(0, 1), b.read(64, 1));
    let began = b.now;
    assert_eq!(b.help(), ServiceRequest::Retune);
    assert!(b.finish(first).result.is_ok() && b.finish(id).result.is_ok());
    assert!((100 * MS..110 * MS).contains(&(b.now - began)), "{} ns", b.now - began);
    assert_eq!(b.taken(RecoveryStep::Dead), 0);
}

#[test]
fn lines_that_cannot_be_reset_cost_a_reset_of_the_controller() {
    let mut b = bench();
    b.world.borrow_mut().fails_resets = (true, false);
    b.fault(1, Cause::Crc, Stage::Data, true);
    let id = b.read(0, 1);
    assert!(b.finish(id).result.is_ok());
    assert_eq!((b.taken(RecoveryStep::Reset), b.world.borrow().resets_of_all), (1, 1));
}

#[test]
fn a_controller_that_cannot_be_reset_keeps_its_buffer_and_no_other() {
    let mut b = bench();
    b.world.borrow_mut().fails_resets = (true, true);
    b.fault(1, Cause::Crc, Stage::Data, true);
    let id = b.read(0, 8);
    let waiting = [b.read(64, 8), b.write(128, 8, 1)];
    let done = b.finish(id);
    assert_eq!((done.result, done.buf.len_bytes()), (Err(Error::Dead), 0), "it may be written to still");
    for id in waiting {
        let done = b.finish(id);
        assert_eq!((done.result, done.buf.len_bytes()), (Err(Error::Dead), 8 * 512));
    }
    assert_eq!(b.e.stats().leaked, 1);
    assert!(b.now < MS);
}
