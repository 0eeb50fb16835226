//! Tests of I/O functions after a call that was dropped: its transfer on the card affects neither
//! the function's next transfer nor a command of another function.

use crate::{io_card, io_drive};
use io_card::World;
use io_drive::{Stack, memory, poll_once, run, settle, stack, step};
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::host::Cause;
use mmcq::sdio::{At, Chain, Function};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

const ABORT: (u8, u8, u32, bool) = (52, 0, 6, true);

fn brought_up(world: &Rc<RefCell<World>>) -> (Stack<4>, IoCard) {
    let stack = stack::<4>(world);
    let (card, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    (stack, card.unwrap())
}

/// Polls a call `polls` times, and drops it. Returns true if the call had ended before.
fn dropped_after(polls: u32, stack: &Stack<4>, call: impl Future) -> bool {
    let mut call = pin!(call);
    for _ in 0..polls {
        if poll_once(call.as_mut()).is_some() {
            return true;
        }
        step(stack);
    }
    false
}

/// The handle that makes the next transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Same,
    /// Another handle, which existed before.
    Other,
    /// A new handle: the driver was dropped with its handle, and its successor has made another
    /// one.
    New,
}

/// Tests a failed transfer, which the card continues until it is aborted: it is aborted before the
/// next transfer of any handle, because the next transfer would get its data.
#[test]
fn a_failed_transfer_is_aborted_before_the_next_of_any_handle() {
    for whose in [Next::Same, Next::Other, Next::New] {
        let (mut dropped, mut ended) = (0, false);
        for polls in 0..100 {
            let world = World::new(2);
            let (stack, card) = brought_up(&world);
            let first = Function::new(&stack, &card, 2).unwrap();
            let other = Function::new(&stack, &card, 2).unwrap();
            run(&stack, first.enable()).unwrap();
            let nth = world.borrow().data_phases + 1;
            world.borrow_mut().faults.insert(nth, Cause::Crc);
            let from = world.borrow().log.len();
            ended = dropped_after(polls, &stack, first.read(At::From(0), 1200, memory(1200), Chain::Last));
            settle(&stack);
            world.borrow_mut().faults.clear();
            let second = match whose {
                Next::Same => first,
                Next::Other => other,
                Next::New => Function::new(&stack, &card, 2).unwrap(),
            };
            for _ in 0..2 {
                let (result, _) = run(&stack, second.read(At::From(0), 4, memory(4), Chain::Last));
                assert_eq!(result, Ok(()));
            }
            let accesses = world.borrow().accesses(from);
            let moves: Vec<_> = (0..accesses.len()).filter(|&at| accesses[at].0 == 53).collect();
            if let [.., last, next, second] = moves[..] {
                dropped += 1;
                assert!(accesses[last..next].contains(&ABORT), "{whose:?} after {polls} polls: {accesses:?}");
                assert_eq!(second, next + 1, "once is enough: {accesses:?}");
            }
            if ended {
                break;
            }
        }
        assert!(ended && dropped > 2, "{dropped} were dropped after the command");
    }
}

/// Tests futures that are dropped during a command that follows a transfer: the abort of a dropped
/// transfer, the abort after a failure, or the read of the flags after a lost command. That
/// command's slot has the transfer's buffer, so no buffer is lost.
#[test]
fn a_future_that_is_dropped_while_it_aborts_loses_no_buffer() {
    let (mut first_aborts, mut aborts_after) = (0, 0);
    for owes in [false, true] {
        for polls in 1..100 {
            let world = World::new(2);
            let (stack, card) = brought_up(&world);
            let function = Function::new(&stack, &card, 2).unwrap();
            run(&stack, function.enable()).unwrap();
            if owes {
                let _ = dropped_after(1, &stack, function.read(At::From(0), 1200, memory(1200), Chain::Last));
                settle(&stack);
            }
            let nth = world.borrow().data_phases + 1;
            world.borrow_mut().faults.insert(nth, Cause::Crc);
            let buf = memory(1200);
            let claim = buf.claim();
            let from = world.borrow().log.len();
            let ended = dropped_after(polls, &stack, function.read(At::From(0), 1200, buf, Chain::Last));
            let accesses = world.borrow().accesses(from);
            settle(&stack);
            if ended {
                assert!(polls > 3, "{polls} polls are no transfer and no abort");
                break;
            }
            match accesses.last() {
                Some(&ABORT) if accesses.len() == 1 => first_aborts += 1,
                Some(&ABORT) => aborts_after += 1,
                _ => {}
            }
            let back = stack.with(|engine| engine.reclaim(claim));
            assert!(back.is_some_and(|buf| buf.len() == 1200), "lost after {polls} polls: {accesses:?}");
        }
    }
    assert!(first_aborts > 0 && aborts_after > 1, "{first_aborts} and {aborts_after}");
}

/// Tests two calls of one function at the same time: neither treats the other's transfer as failed.
#[test]
fn a_transfer_that_goes_on_is_not_aborted_by_another() {
    let world = World::new(2);
    let (stack, card) = brought_up(&world);
    let function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    let from = world.borrow().log.len();
    let mut read = pin!(function.read(At::From(0), 1200, memory(1200), Chain::Last));
    let mut write = pin!(function.write(At::From(0x2000), 1200, memory(1200), Chain::Last));
    let (mut got, mut sent) = (None, None);
    while got.is_none() || sent.is_none() {
        got = got.or_else(|| poll_once(read.as_mut()));
        sent = sent.or_else(|| poll_once(write.as_mut()));
        assert!(step(&stack) || got.is_some() && sent.is_some());
    }
    assert_eq!((got.unwrap().0, sent.unwrap().0), (Ok(()), Ok(())));
    let accesses = world.borrow().accesses(from);
    assert!(!accesses.contains(&ABORT), "{accesses:?}");
}

/// Tests a card that was brought up again: it continues no transfer, so no abort is due.
#[test]
fn a_new_card_inherits_no_abort() {
    let world = World::new(2);
    let (stack, card) = brought_up(&world);
    let function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    assert!(!dropped_after(1, &stack, function.read(At::From(0), 1200, memory(1200), Chain::Last)));
    settle(&stack);
    let (card, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    let function = Function::new(&stack, &card.unwrap(), 2).unwrap();
    run(&stack, function.enable()).unwrap();
    let from = world.borrow().log.len();
    assert_eq!(run(&stack, function.read(At::From(0), 4, memory(4), Chain::Last)).0, Ok(()));
    assert_eq!(world.borrow().accesses(from), [(53, 2, 0, false)]);
}

/// Tests a card that was brought up again and has lost its block size: an earlier handle uses byte
/// mode until it sets the size again.
#[test]
fn a_new_card_knows_no_block_size() {
    let world = World::new(2);
    let (stack, card) = brought_up(&world);
    let mut function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    run(&stack, function.set_block_size(64)).unwrap();
    assert_eq!((function.block_bytes(), function.split().block_bytes), (64, 64));
    let (card, _) = run(&stack, bring_up_io(&stack, memory(512), Options::DEFAULT));
    assert_eq!((function.block_bytes(), function.split().block_bytes), (0, 0));
    let mut new = Function::new(&stack, &card.unwrap(), 2).unwrap();
    run(&stack, new.enable()).unwrap();
    assert_eq!(run(&stack, function.read(At::From(0), 256, memory(256), Chain::Last)).0, Ok(()));
    run(&stack, new.set_block_size(128)).unwrap();
    assert_eq!((function.block_bytes(), new.block_bytes()), (0, 128));
    run(&stack, function.set_block_size(128)).unwrap();
    assert_eq!(function.block_bytes(), 128);
    assert_eq!(run(&stack, function.read(At::From(0), 256, memory(256), Chain::Last)).0, Ok(()));
}

/// Tests a response that reports that the command before it was lost: the present command was
/// executed and must not fail, because a byte read from a FIFO would be lost.
#[test]
fn a_command_is_not_refused_for_what_became_of_the_one_before() {
    let world = World::new(3);
    let (stack, card) = brought_up(&world);
    let function = Function::new(&stack, &card, 2).unwrap();
    run(&stack, function.enable()).unwrap();
    for flag in [0x8000, 0x4000] {
        world.borrow_mut().flags = flag;
        let written = run(&stack, function.write_read_u8(9, 0x42, Chain::Last));
        assert_eq!(written, Ok(0x42), "{flag:#x}");
        world.borrow_mut().fifos.entry((2, 7)).or_default().extend([1, 2, 3, 4]);
        world.borrow_mut().flags = flag;
        let (result, buf) = run(&stack, function.read(At::Fifo(7), 4, memory(4), Chain::Last));
        assert_eq!((result, &buf[..]), (Ok(()), &[1, 2, 3, 4][..]), "{flag:#x}");
    }
}
