//! Tests of a thread that spins before it sleeps: `Stack::request_with`.

use crate::support;
use mmcq::advance::{Advice, Context as From, Costs, Wait, WaitStrategy};
use mmcq::engine::{Completion, Config, DmaBuf, Error, Kind, Request};
use mmcq::host::{Auto, BusOp, Phase};
use mmcq::spec::command::send_status;
use mmcq::task::{Lock, Timer};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use support::{TestHost, World, buffer, target};

struct OneContext(Cell<bool>);

// SAFETY: the tests have one thread each; nested use panics.
unsafe impl Lock for OneContext {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        assert!(!self.0.replace(true), "the lock is taken twice");
        let result = f();
        self.0.set(false);
        result
    }
}

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    /// Time that a read of the clock takes, in nanoseconds.
    static TICK: Cell<u64> = const { Cell::new(100) };
    static READS: Cell<u32> = const { Cell::new(0) };
    static LISTENS: Cell<i32> = const { Cell::new(0) };
    static SWITCHED: Cell<u32> = const { Cell::new(0) };
}
const TIMER: Timer = Timer {
    now_ns: || {
        NOW.set(NOW.get() + TICK.get());
        READS.set(READS.get() + 1);
        NOW.get()
    },
    set_alarm: |_| {},
};
const COSTS: Costs = Costs::UNKNOWN.thread_ns(50_000).look_ns(250);

type Stack = mmcq::task::Stack<(OneContext, TestHost), 4>;

fn stack(world: &Rc<RefCell<World>>) -> Stack {
    let stack = Stack::new(OneContext(Cell::new(false)), TIMER, TestHost::new(world), Config::DEFAULT);
    stack.with(|e| e.set_card_params(Some(target(256))));
    stack.block_on(stack.bus(BusOp::Clock(10_000_000)), |_| ()).unwrap();
    stack
}

fn policy(costs: Costs) -> WaitStrategy {
    WaitStrategy::new(costs).listening_by(|on| {
        LISTENS.set(LISTENS.get() + if on { 1 } else { -1 });
        SWITCHED.set(SWITCHED.get() + 1);
        assert!((-1..=0).contains(&LISTENS.get()));
    })
}

fn status() -> Request {
    let phase = Phase { command: send_status(1), data: None, auto: Auto::None, tuning: false };
    Request::new(Kind::Raw { prefix: None, phase, timeout_ns: 1_000_000 }, DmaBuf::EMPTY)
}

#[derive(Default)]
struct Counts(AtomicU32);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Polls a future one time. Returns the result of the poll, and how many times the waker was woken
/// meanwhile.
fn once(future: impl Future<Output = Completion>) -> (Poll<Completion>, u32) {
    let counts = Arc::new(Counts::default());
    let waker = Waker::from(counts.clone());
    let polled = pin!(future).poll(&mut Context::from_waker(&waker));
    (polled, counts.0.load(Relaxed))
}

#[test]
fn a_short_command_is_over_at_the_first_poll_and_wakes_no_task() {
    let world = World::new(256);
    let (stack, advance) = (stack(&world), policy(COSTS));
    let (polled, woken) = once(stack.request_with(&advance, status()));
    assert!(matches!(polled, Poll::Ready(Completion { result: Ok(_), .. })));
    assert_eq!((woken, SWITCHED.get(), LISTENS.get()), (0, 2, 0));
    assert_eq!(advance.bus().clock_hz, 10_000_000);
    assert_eq!(stack.with(|e| e.slots_in_use()), 0);
}

#[test]
fn a_long_one_is_slept_for() {
    let world = World::new(256);
    let (stack, advance) = (stack(&world), policy(COSTS));
    stack.block_on(stack.bus(BusOp::Clock(400_000)), |_| ()).unwrap();
    let before = stack.with(|e| *e.stats());
    let counts = Arc::new(Counts::default());
    let waker = Waker::from(counts.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(stack.request_with(&advance, status()));
    assert!(future.as_mut().poll(&mut context).is_pending());
    let stats = stack.with(|e| *e.stats());
    assert_eq!((stats.interrupts, stats.spurious), (before.interrupts, before.spurious), "it did not look");
    // Woken by the interrupt; only then, and once.
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert_eq!(counts.0.load(Relaxed), 0);
    stack.on_irq();
    assert_eq!(counts.0.load(Relaxed), 1);
    assert!(future.as_mut().poll(&mut context).is_ready());
    assert!(future.as_mut().poll(&mut context).is_pending(), "it has nothing more to say");
}

#[test]
fn it_gives_up_in_time_and_learns_that_it_was_in_vain() {
    let world = World::new(256);
    let (stack, advance) = (stack(&world), policy(COSTS));
    world.borrow_mut().silent = true;
    let wait = Wait::of(&Phase { command: send_status(1), data: None, auto: Auto::None, tuning: false });
    advance.set_bus(stack.with(|e| e.bus()));
    let expected_ns = advance.expected_ns(&wait);
    let Advice::Spin { at_most_ns } = advance.choose(&wait, From::Thread, 0) else { panic!("too long") };
    let began_ns = NOW.get();
    let (polled, _) = once(stack.request_with(&advance, status()));
    assert!(polled.is_pending());
    let took_ns = NOW.get() - began_ns;
    assert!((at_most_ns..at_most_ns + 5_000).contains(&took_ns), "{took_ns} of {at_most_ns}");
    assert!(advance.expected_ns(&wait) > expected_ns);
    assert_eq!(LISTENS.get(), 0);
}

#[test]
fn a_clock_that_stands_does_not_keep_it_spinning() {
    let world = World::new(256);
    let (stack, advance) = (stack(&world), policy(COSTS));
    world.borrow_mut().silent = true;
    TICK.set(0);
    READS.set(0);
    assert!(once(stack.request_with(&advance, status())).0.is_pending());
    // 100 us of spinning, with a poll each 250 ns; each poll reads the clock three times.
    assert!((1_200..1_300).contains(&READS.get()), "{}", READS.get());
}

#[test]
fn data_are_slept_for_until_they_have_been_seen() {
    let world = World::new(256);
    let (stack, advance) = (stack(&world), policy(COSTS));
    stack.block_on(stack.bus(BusOp::Clock(200_000_000)), |_| ()).unwrap();
    let read = || Request::new(Kind::Read { lba: 3, blocks: 1 }, buffer(1, 0));
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(stack.request_with(&advance, read()));
    assert!(future.as_mut().poll(&mut context).is_pending());
    stack.on_irq();
    assert!(future.as_mut().poll(&mut context).is_ready());
    assert!(once(stack.request_with(&advance, read())).0.is_ready(), "the next one is not");
}

#[test]
fn the_price_is_learned_where_it_is_unknown() {
    let world = World::new(256);
    let (stack, advance) = (stack(&world), policy(COSTS.thread_ns(0)));
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(stack.request_with(&advance, status()));
    assert!(future.as_mut().poll(&mut context).is_pending());
    stack.on_irq();
    NOW.set(NOW.get() + 30_000);
    assert!(future.as_mut().poll(&mut context).is_ready());
    let price_ns = advance.price_ns(From::Thread).unwrap();
    assert!((30_000..31_000).contains(&price_ns), "{price_ns}");
    assert!(once(stack.request_with(&advance, status())).0.is_ready());
}

#[test]
fn a_refused_request_and_a_dropped_one_leave_nothing_behind() {
    let world = World::new(256);
    let (stack, advance) = (stack(&world), policy(COSTS));
    let request = Request::new(Kind::Read { lba: 300, blocks: 1 }, buffer(1, 0));
    let (polled, _) = once(stack.request_with(&advance, request));
    let Poll::Ready(done) = polled else { panic!("must be refused") };
    assert_eq!((done.result, done.buf.len_bytes()), (Err(Error::OutOfRange { lba: 300, sectors: 256 }), 512));
    world.borrow_mut().silent = true;
    assert!(once(stack.request_with(&advance, status())).0.is_pending());
    world.borrow_mut().silent = false;
    (0..10).for_each(|_| stack.turn());
    assert_eq!(stack.with(|e| e.slots_in_use()), 0);
}
