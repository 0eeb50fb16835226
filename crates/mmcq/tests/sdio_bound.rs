//! Tests that handles on the functions and on the interrupt of an I/O card are bound to this card.

use crate::{io_card, io_drive};
use io_card::World;
use io_drive::{Stack, memory, poll_once, run, settle, stack, step};
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::Error;
use mmcq::sdio::{At, CardInterrupt, Chain, Function, IoError};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

const CHANGED: IoError = IoError::Engine(Error::Changed);
const ABORT: (u8, u8, u32, bool) = (52, 0, 6, true);

fn up(stack: &Stack<4>) -> IoCard {
    run(stack, bring_up_io(stack, memory(512), Options::DEFAULT)).0.unwrap()
}

/// Puts a card with another product code into the slot.
fn exchange(world: &Rc<RefCell<World>>) {
    let mut world = world.borrow_mut();
    let manufacturer = [0x20, 4, 0x92, 0x02, 0x21, 0x43];
    let at = world.f0.windows(6).position(|bytes| bytes == manufacturer).unwrap();
    world.f0[at + 4] ^= 1;
}

/// Tests each call of handles that were made for the card before: it fails, sends nothing to the
/// next card, and leaves that card the abort that it is owed.
#[test]
fn handles_of_one_card_reach_no_other() {
    let world = World::new(2);
    let stack = stack::<4>(&world);
    let first = up(&stack);
    let mut old = Function::new(&stack, &first, 2).unwrap();
    let mut irq = CardInterrupt::new(&stack, &first);
    run(&stack, old.enable()).unwrap();
    run(&stack, irq.enable(2)).unwrap();

    exchange(&world);
    let second = up(&stack);
    let new = Function::new(&stack, &second, 2).unwrap();
    run(&stack, new.enable()).unwrap();
    {
        let mut read = pin!(new.read(At::From(0), 1200, memory(1200), Chain::Last));
        assert!(poll_once(read.as_mut()).is_none());
        step(&stack);
    }
    settle(&stack);

    let from = world.borrow().log.len();
    assert_eq!(run(&stack, old.read_u8(0, Chain::Last)), Err(CHANGED));
    assert_eq!(run(&stack, old.write_u8(0, 1, Chain::Last)), Err(CHANGED));
    assert_eq!(run(&stack, old.write_read_u8(0, 1, Chain::Last)), Err(CHANGED));
    assert_eq!(run(&stack, old.read_common_u8(0xf0, Chain::Last)), Err(CHANGED));
    assert_eq!(run(&stack, old.write_common_u8(0xf0, 1, Chain::Last)), Err(CHANGED));
    assert_eq!(run(&stack, old.enable()), Err(CHANGED));
    assert_eq!(run(&stack, old.disable()), Err(CHANGED));
    assert_eq!(run(&stack, old.reset()), Err(CHANGED));
    assert_eq!(run(&stack, old.set_block_size(64)), Err(CHANGED));
    assert_eq!(run(&stack, old.abort()), Err(CHANGED));
    let (read, back) = run(&stack, old.read(At::From(0), 8, memory(8), Chain::Last));
    assert_eq!((read, back.len()), (Err(CHANGED), 8));
    let (wrote, back) = run(&stack, old.write(At::From(0), 8, memory(8), Chain::Last));
    assert_eq!((wrote, back.len()), (Err(CHANGED), 8));
    assert_eq!(run(&stack, irq.enable(1)), Err(CHANGED));
    assert_eq!(run(&stack, irq.disable(2)), Err(CHANGED));
    assert_eq!(run(&stack, irq.wait()), Err(CHANGED));
    irq.ack();
    // A handle that is made with what is known of the card before is a handle on that card.
    let late = Function::new(&stack, &first, 1).unwrap();
    assert_eq!(run(&stack, late.read_u8(0x13, Chain::Last)), Err(CHANGED));
    assert_eq!(world.borrow().log.len(), from, "nothing is sent");

    let (result, _) = run(&stack, new.read(At::From(0), 4, memory(4), Chain::Last));
    assert_eq!(result, Ok(()));
    assert_eq!(world.borrow().accesses(from)[0], ABORT, "what the new card is owed");
}

/// Tests a card that has lost its state and is brought up again: it is the same card.
#[test]
fn a_card_that_is_brought_up_again_keeps_its_handles() {
    let world = World::new(2);
    let stack = stack::<4>(&world);
    let first = up(&stack);
    let old = Function::new(&stack, &first, 2).unwrap();
    run(&stack, old.enable()).unwrap();
    let again = up(&stack);
    run(&stack, old.enable()).unwrap();
    let (result, _) = run(&stack, old.write(At::From(0), 8, memory(8), Chain::Last));
    assert_eq!(result, Ok(()));
    let same = Function::new(&stack, &again, 2).unwrap();
    assert_eq!(run(&stack, same.read_u8(0, Chain::Last)), Ok(0));
}
