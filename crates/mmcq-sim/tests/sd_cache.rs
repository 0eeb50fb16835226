//! Tests that the write cache of an SD card is never on without the engine knowing: otherwise the
//! engine would acknowledge a flush without sending it to the card.

use crate::rig;
use mmcq::card::Options;
use mmcq::card::extension;
use mmcq::engine::{FlushBy, Kind, Request};
use mmcq::host::{Auto, Data, Direction, Phase};
use mmcq::spec::command::sd::{self, Extension};
use rig::{Rig, buffer};
use std::future::Future;
use std::task::{Context, Waker};

const MS: u64 = 1_000_000;
/// Offset of the register that enables the cache, in the performance enhancement register set.
const CACHE_ENABLE: u16 = 260;

/// Returns a rig whose card has a cache, and the place of its cache enable register.
fn rig() -> (Rig, Extension) {
    let rig = Rig::alone("sdxc-64g-a2", Options::DEFAULT);
    let set = rig.drive(extension::extensions(rig.stack, &rig.found, buffer(1, 0))).0.unwrap().performance;
    let set = set.unwrap();
    let offset = set.offset + CACHE_ENABLE;
    (rig, Extension { offset, ..set })
}

/// Returns whether the cache is on, read from the card's register.
fn is_on(rig: &Rig, register: Extension) -> bool {
    let data = Some(Data { direction: Direction::Read, block_size: 512, blocks: 1 });
    let phase = Phase { command: sd::read_extr_single(register, 1), data, auto: Auto::None, tuning: false };
    let read = Kind::Raw { prefix: None, phase, timeout_ns: 150 * MS };
    // A card that waits for the rest of a data transfer does not answer; its cache is unchanged.
    let done = rig.one(rig.submit(Request::new(read, buffer(1, 0))));
    done.result.is_ok() && done.buf[0] & 1 != 0
}

/// Returns whether the cache is on, and whether the engine knows how to flush it.
fn told(rig: &Rig, register: Extension) -> (bool, bool) {
    let flush = rig.stack.with(|engine| engine.card_params().map(|target| target.flush));
    (is_on(rig, register), matches!(flush, Some(FlushBy::SdCache { .. })))
}

#[test]
fn a_call_that_is_dropped_leaves_no_cache_that_no_flush_reaches() {
    let (mut ended, mut on) = (false, 0);
    for turns in 0..1_000 {
        let (rig, register) = rig();
        let mut call = Box::pin(extension::enable_cache(rig.stack, &rig.found, buffer(1, 0)));
        let mut context = Context::from_waker(Waker::noop());
        let mut polled = || call.as_mut().poll(&mut context).is_ready();
        ended = polled();
        for _ in 0..turns {
            if ended {
                break;
            }
            rig.turn();
            ended = polled();
        }
        drop(call);
        rig.until(rig.time.now() + 2_000 * MS);
        let (is_on, known) = told(&rig, register);
        assert!(known || !is_on, "dropped after {turns} turns: on, and no flush tells the card");
        on += u32::from(is_on && !ended);
        if ended {
            break;
        }
    }
    assert!(ended && on > 0, "{on}");
}

#[test]
fn an_answer_that_is_lost_leaves_no_cache_that_no_flush_reaches() {
    let mut on = 0;
    for lost in 1..=40 {
        let (rig, register) = rig();
        let before = rig.ills.borrow().commands;
        rig.ills.borrow_mut().mute_at = vec![before + lost];
        let result = rig.drive(extension::enable_cache(rig.stack, &rig.found, buffer(1, 0)));
        rig.ills.borrow_mut().mute_at.clear();
        let (is_on, known) = told(&rig, register);
        assert!(known || !is_on, "without answer {lost}: on, and no flush tells the card");
        // A call that failed may have switched the cache on as well.
        on += u32::from(is_on);
        assert!(is_on || result.is_err(), "without answer {lost}: a success, and it is off");
    }
    assert!(on > 0);
}

#[test]
fn a_card_that_was_initialised_again_has_no_cache_that_no_flush_reaches() {
    for lost in 1..=160 {
        let (rig, register) = rig();
        rig.drive(extension::enable_cache(rig.stack, &rig.found, buffer(1, 0))).unwrap();
        rig.keep();
        let before = rig.ills.borrow().commands;
        rig.ills.borrow_mut().brown_out = true;
        rig.ills.borrow_mut().mute_at = vec![before + lost];
        let read = rig.one(rig.read(0, 8));
        if read.result.is_err() {
            continue;
        }
        rig.ills.borrow_mut().mute_at.clear();
        let (is_on, known) = told(&rig, register);
        assert!(known || !is_on, "without answer {lost}: on, and no flush tells the card");
    }
}

/// Checks a second call with another page: the engine keeps one page, so the first call's page goes
/// back to its owner.
#[test]
fn a_second_call_gives_the_first_page_back() {
    let (rig, _) = rig();
    let (first, second) = (buffer(1, 1), buffer(1, 2));
    let claim = first.claim();
    let none = rig.drive(extension::enable_cache(rig.stack, &rig.found, first)).unwrap();
    assert_eq!(none.len_bytes(), 0);
    let before = rig.drive(extension::enable_cache(rig.stack, &rig.found, second)).unwrap();
    assert_eq!((before.claim(), before.len_bytes()), (claim, 512));
}
