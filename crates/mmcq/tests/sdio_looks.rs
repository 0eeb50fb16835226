//! Tests of the card interrupt on controllers without it: the card is polled, and the time between
//! polls depends on their results.

use crate::erased::{Erased, constants};
use crate::{io_card, one_thread};
use io_card::{IoHost, World};
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::{CARD_IRQ_STEP_NS, Config, DmaBuf};
use mmcq::host::regs::Mmio;
use mmcq::host::{Host, pl181};
use mmcq::sdio::{CardInterrupt, IoError};
use one_thread::{NOW_NS, OneThread, TIMER};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Driver = Erased<{ constants::<IoHost<false>>() }>;
type Stack = mmcq::task::Stack<(OneThread, Driver), 16>;
type Irq<'a> = CardInterrupt<'a, (OneThread, Driver), 16>;

const MS: u64 = 1_000_000;
const INT_PENDING: u32 = 5;
const SHORTEST_NS: u64 = Config::DEFAULT.card_irq_looks_ns.0;
const LONGEST_NS: u64 = Config::DEFAULT.card_irq_looks_ns.1;

/// Advances the time to the next interrupt or alarm, and handles it. Returns false if neither will
/// ever come.
fn step(stack: &Stack) -> bool {
    let (running_ns, deadline_ns) = stack
        .with(|engine| (engine.host().unwrap().get::<IoHost<false>>().due().0, engine.next_deadline_ns()));
    let Some(next_ns) = running_ns.into_iter().chain(deadline_ns).min() else { return false };
    NOW_NS.set(NOW_NS.get().max(next_ns));
    if running_ns.is_some_and(|at_ns| at_ns <= NOW_NS.get()) {
        stack.on_irq()
    } else {
        stack.poll()
    }
    true
}

fn run<F: Future>(stack: &Stack, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        assert!(step(stack), "nothing will ever happen");
    }
}

/// Polls the future and advances the time until `until_ns`. Returns true if the future has ended
/// before.
fn run_until<F: Future>(stack: &Stack, future: F, until_ns: u64) -> bool {
    let mut future = pin!(future);
    while NOW_NS.get() < until_ns {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        assert!(step(stack), "nothing will ever happen");
    }
    false
}

fn brought_up() -> (Rc<RefCell<World>>, Stack, IoCard) {
    let world = World::new(2);
    let stack = Stack::new(OneThread, TIMER, Erased::new(IoHost::<false>::new(&world)), Config::DEFAULT);
    let scratch = DmaBuf::from_static(Box::leak(Box::new([0; 512])));
    let card = run(&stack, bring_up_io(&stack, scratch, Options::DEFAULT)).0.unwrap();
    (world, stack, card)
}

/// Returns the times at which the card was polled, from `from_ns` on.
fn looks_ns(world: &Rc<RefCell<World>>, from_ns: u64) -> Vec<u64> {
    let asks = |arg: u32| arg >> 31 == 0 && arg >> 28 & 7 == 0 && arg >> 9 & 0x1_ffff == INT_PENDING;
    let world = world.borrow();
    let looks = world.log.iter().filter(|(_, command)| command.index == 52 && asks(command.arg));
    looks.map(|&(at_ns, _)| at_ns).filter(|&at_ns| at_ns >= from_ns).collect()
}

fn gaps_ns(looks_ns: &[u64]) -> Vec<u64> {
    looks_ns.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn attention_is_found_by_asking() {
    let (world, stack, card) = brought_up();
    let mut irq: Irq<'_> = CardInterrupt::new(&stack, &card);
    run(&stack, irq.enable(2)).unwrap();
    let began_ns = NOW_NS.get();
    assert!(!run_until(&stack, irq.wait(), began_ns + 35 * MS), "nothing asks");
    world.borrow_mut().asserts = 4;
    let asserted_ns = NOW_NS.get();
    run(&stack, irq.wait()).unwrap();
    let late_ns = NOW_NS.get() - asserted_ns;
    println!("found after {late_ns} ns");
    assert!(late_ns <= LONGEST_NS + MS, "{late_ns}");
    // The interrupt stays pending until it is acknowledged. Then a poll finds it again.
    run(&stack, irq.wait()).unwrap();
    irq.ack();
    run(&stack, irq.wait()).unwrap();
    world.borrow_mut().asserts = 0;
    irq.ack();
    let quiet_ns = NOW_NS.get();
    assert!(!run_until(&stack, irq.wait(), quiet_ns + 30 * MS), "nothing asks any more");
    // If no function may interrupt, the engine does not poll the card.
    run(&stack, irq.disable(2)).unwrap();
    assert_eq!(stack.with(|engine| engine.next_deadline_ns()), None);
}

#[test]
fn looks_come_oftener_while_the_card_asks_and_fade_when_it_does_not() {
    let (world, stack, card) = brought_up();
    let mut irq: Irq<'_> = CardInterrupt::new(&stack, &card);
    run(&stack, irq.enable(2)).unwrap();
    let idle_ns = NOW_NS.get();
    assert!(!run_until(&stack, irq.wait(), idle_ns + 100 * MS));
    let idle = gaps_ns(&looks_ns(&world, idle_ns));
    assert!(idle.iter().all(|&gap| (LONGEST_NS..LONGEST_NS + MS).contains(&gap)), "{idle:?}");

    world.borrow_mut().asserts = 4;
    let busy_ns = NOW_NS.get();
    for _ in 0..20 {
        run(&stack, irq.wait()).unwrap();
        irq.ack();
    }
    let busy = gaps_ns(&looks_ns(&world, busy_ns));
    println!("gaps while it asks: {busy:?}");
    assert!(busy.iter().all(|&gap| gap >= SHORTEST_NS), "{busy:?}");
    assert!(busy[10..].iter().all(|&gap| gap < SHORTEST_NS + MS / 10), "{busy:?}");

    world.borrow_mut().asserts = 0;
    let quiet_ns = NOW_NS.get();
    assert!(!run_until(&stack, irq.wait(), quiet_ns + 200 * MS));
    let quiet = gaps_ns(&looks_ns(&world, quiet_ns));
    println!("gaps when it does not: {quiet:?}");
    assert!(quiet.iter().all(|&gap| gap < LONGEST_NS + MS / 10), "{quiet:?}");
    assert!(quiet.windows(2).all(|two| two[1] <= two[0] + CARD_IRQ_STEP_NS + MS / 10), "{quiet:?}");
    assert!(quiet.last().is_some_and(|&gap| gap >= LONGEST_NS), "{quiet:?}");
}

#[test]
fn a_waiter_that_is_dropped_loses_nothing() {
    let (world, stack, card) = brought_up();
    let mut irq: Irq<'_> = CardInterrupt::new(&stack, &card);
    run(&stack, irq.enable(2)).unwrap();
    world.borrow_mut().asserts = 4;
    for patience in 0..12 {
        // Dropped after `patience` events, also in the middle of a poll.
        {
            let mut wait = pin!(irq.wait());
            for _ in 0..patience {
                if wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() || !step(&stack) {
                    break;
                }
            }
        }
        let began_ns = NOW_NS.get();
        run(&stack, irq.wait()).unwrap();
        assert!(NOW_NS.get() - began_ns <= LONGEST_NS + MS, "{patience}");
        irq.ack();
    }
}

#[test]
fn a_card_that_cannot_be_asked_is_an_error_and_not_a_wait_for_ever() {
    let (world, stack, card) = brought_up();
    let mut irq: Irq<'_> = CardInterrupt::new(&stack, &card);
    run(&stack, irq.enable(2)).unwrap();
    world.borrow_mut().absent = true;
    let result: Result<(), IoError> = run(&stack, irq.wait());
    assert!(result.is_err());
}

#[test]
fn drivers_say_whether_they_hear_the_card() {
    // Drivers that do not implement the card interrupt must not declare it.
    const { assert!(!<pl181::Pl181<Mmio> as Host>::CARD_IRQ) };
    const { assert!(!<mmcq::host::rtsx::Rtsx<Mmio, NoDma> as Host>::CARD_IRQ) };
    const { assert!(<mmcq::host::sdhci::Sdhci<Mmio, NoDma, 8> as Host>::CARD_IRQ) };
    const { assert!(<mmcq::host::s3c_sdi::S3cSdi<Mmio, NoDma> as Host>::CARD_IRQ) };
}

struct NoDma;

// SAFETY: no memory is ever mapped.
unsafe impl mmcq::host::Dma for NoDma {
    fn map(
        &self,
        _: std::ptr::NonNull<u8>,
        _: usize,
        _: mmcq::host::Direction,
    ) -> Result<u64, mmcq::host::DmaError> {
        Err(mmcq::host::DmaError::Unreachable)
    }
    fn unmap(&self, _: u64, _: std::ptr::NonNull<u8>, _: usize, _: mmcq::host::Direction) {}
    fn sync(&self, _: u64, _: std::ptr::NonNull<u8>, _: usize) {}
}
