//! Tests that safe code cannot get memory that the controller still uses, memory of another client,
//! or a second access to the engine.

mod support;

use mmcq::block::{BlockDevice, Bounced};
use mmcq::engine::{Config, DmaBuf, Engine, Error, FlushBy, Handshake, Kind, Request};
use mmcq::host::Direction;
use mmcq::sched::{Choice, Fifo, Policy, Waiting};
use mmcq::spec::command::sd::Extension;
use mmcq::task::{Lock, Timer};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use support::{TestHost, World, buffer, target};

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    /// Number of closures of the lock that are running.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    /// Whether a closure of the lock has run inside of another one.
    static NESTED: Cell<bool> = const { Cell::new(false) };
    /// The function that callbacks call.
    static BACK: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls the stack from inside a callback, at most two calls deep.
fn come_back() {
    let Some(back) = BACK.with_borrow(Option::clone) else { return };
    if DEPTH.get() < 2 {
        DEPTH.set(DEPTH.get() + 1);
        back();
        DEPTH.set(DEPTH.get() - 1);
    }
}

struct Watched;

// SAFETY: the test has one thread, and nothing interrupts it.
unsafe impl Lock for Watched {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        come_back();
        NESTED.set(NESTED.get() | (INSIDE.get() > 0));
        INSIDE.set(INSIDE.get() + 1);
        let result = f();
        INSIDE.set(INSIDE.get() - 1);
        come_back();
        result
    }
}

const TIMER: Timer = Timer {
    now_ns: || {
        come_back();
        NOW_NS.set(NOW_NS.get() + 1_000_000);
        NOW_NS.get()
    },
    set_alarm: |_| come_back(),
};

/// A scheduler that calls the stack from inside its own functions.
struct Returns;

impl Policy for Returns {
    fn arrived(&mut self, _: &Waiting, _: u64) {
        come_back();
    }
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, offered: I, _: u64) -> Choice {
        come_back();
        {
            let mut offered = offered;
            offered.next().map(|waiting| Choice::Go(waiting.index)).unwrap_or(Choice::IdleUntil(0))
        }
    }
    fn sent(&mut self, _: &Waiting, _: u64) {
        come_back();
    }
    fn done(&mut self, _: &Waiting, _: u64) {
        come_back();
    }
    fn cancelled(&mut self, _: &Waiting) {
        come_back();
    }
}

type Stack<P = Fifo> = mmcq::task::Stack<(Watched, TestHost, P), 4>;

fn stack(world: &Rc<RefCell<World>>) -> &'static Stack {
    let stack =
        Box::leak(Box::new(Stack::with_policy(Watched, TIMER, TestHost::new(world), Config::DEFAULT, Fifo)));
    stack.with(|engine| engine.set_card_params(Some(target(256))));
    stack
}

fn read(lba: u64) -> Request {
    Request::new(Kind::Read { lba, blocks: 1 }, buffer(1, 0))
}

#[test]
fn a_page_stays_with_the_engine_while_the_controller_writes_to_it() {
    let world = World::new(256);
    world.borrow_mut().register = Some(Box::new(|direction, page| {
        if direction == Direction::Read {
            page.fill(0xab);
        }
    }));
    let mut e: Engine<TestHost, 4> = Engine::new(TestHost::new(&world), Config::DEFAULT);
    let at = Extension { io: false, function: 2, page: 1, offset: 261 };
    let flush = FlushBy::SdCache { at, timeout_ns: 20_000_000 };
    e.set_card_params(Some(target(256).flush(flush)));
    e.enable_extended_ops();
    let page = buffer(1, 0);
    let claim = page.claim();
    e.set_page(page).unwrap();
    e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), 1_000).map_err(|(e, _)| e).unwrap();
    let mut now_ns = 2_000;
    while !(world.borrow().log.last().is_some_and(|s| s.index == 48) && world.borrow().running()) {
        let _ = e.on_irq(now_ns);
        let _ = e.poll(now_ns);
        now_ns += 1_000_000;
    }
    let refused = e.set_page(buffer(1, 7)).expect_err("CMD48 moves data into the page");
    assert_eq!(refused[0], 7, "the new one comes back");
    for _ in 0..200 {
        now_ns += 1_000_000;
        let _ = e.on_irq(now_ns);
        let _ = e.poll(now_ns);
    }
    assert_eq!(e.set_page(DmaBuf::EMPTY).unwrap().claim(), claim);
}

/// A task of an executor with one thread: the task and its future exist as long as its wakers.
struct Task(#[expect(dead_code, reason = "it is there to be dropped")] Mutex<Option<Box<dyn Any + Send>>>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// A future that uses the stack when it is dropped.
struct Uses(usize);

impl Drop for Uses {
    fn drop(&mut self) {
        // SAFETY: the stack lives for ever.
        let stack = unsafe { &*(self.0 as *const Stack) };
        assert!(!stack.with(|engine| engine.is_nested()), "dropped under the lock");
    }
}

#[test]
fn no_waker_is_dropped_under_the_lock() {
    let task = |stack: &'static Stack| -> Waker {
        Arc::new(Task(Mutex::new(Some(Box::new(Uses(std::ptr::from_ref(stack) as usize)))))).into()
    };
    let first_poll = |stack: &'static Stack| {
        let mut op = Box::pin(stack.request(read(1)));
        // The slot's clone is the last.
        assert!(op.as_mut().poll(&mut Context::from_waker(&task(stack))).is_pending());
        op
    };
    // Replaced by another task's.
    let stack_of = || stack(&World::new(256));
    let mut op = first_poll(stack_of());
    assert!(op.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Dropped with its request, which the controller has.
    drop(first_poll(stack_of()));
    // Done before the task is polled again.
    let s = stack_of();
    let mut op = first_poll(s);
    s.with(|engine| {
        let _ = (engine.on_irq(NOW_NS.get()), engine.poll(NOW_NS.get()));
    });
    assert!(op.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    // Cancelled by its number.
    let s = stack_of();
    let _op = first_poll(s);
    s.with(|engine| engine.id_of(0).map(|id| engine.cancel(id)));
    // The supervisor's and the card interrupt's.
    let s = stack_of();
    drop(s.with(|engine| engine.set_service_waker(Some(task(s)))));
    drop(s.with(|engine| engine.set_service_waker(None)));
    drop(s.with(|engine| engine.set_card_irq_waker(Some(task(s)))));
    drop(s.with(|engine| engine.set_card_irq_waker(None)));
    assert!(!NESTED.get(), "the lock was taken inside itself");
}

#[test]
fn lent_memory_stays_with_a_controller_that_cannot_be_stopped() {
    let world = World::new(256);
    let stack = stack(&world);
    world.borrow_mut().silent = true;
    world.borrow_mut().fails_resets = (true, true);
    let mut words = [0u64; 64];
    // SAFETY: any bytes are bytes.
    let (_, memory, _) = unsafe { words.align_to_mut::<u8>() };
    let mut idles = 0;
    let result = BlockDevice::new(stack).read_blocking(0, memory, |_| {
        idles += 1;
        // Long after the engine has given up: the next reset helps.
        if idles == 20_000 {
            assert!(world.borrow().running() && world.borrow().mapped() == 1, "still mapped, still moving");
            let now_ns = stack.now_ns();
            let next_ns = stack.with(|engine| {
                engine.suspend();
                engine.resume(now_ns);
                engine.next_deadline_ns()
            });
            assert!(next_ns.is_some_and(|at| at <= now_ns + 1_000_000_000), "it is tried again: {next_ns:?}");
            world.borrow_mut().fails_resets = (false, false);
        }
    });
    assert!(!world.borrow().running(), "returned {result:?} with the phase still on the controller");
    assert_eq!(result, Err(Error::Dead));
    assert!(idles >= 20_000);
    assert_eq!((world.borrow().mapped(), stack.with(|engine| engine.slots_in_use())), (0, 0));
}

/// Tests a future that is dropped inside another call of its stack, where its request cannot be
/// cancelled: the next call cancels it, or the next request that finds no free slot.
#[test]
fn a_future_that_is_dropped_inside_another_call_keeps_no_slot() {
    let world = World::new(256);
    let stack = stack(&world);
    let mut cx = Context::from_waker(Waker::noop());
    for (is_done, by_request) in [(false, false), (true, false), (true, true)] {
        let mut ops = [0; 4].map(|_| stack.request(read(0)));
        for op in &mut ops {
            assert!(pin!(op).poll(&mut cx).is_pending());
        }
        let turns = || (0..20).for_each(|_| stack.turn());
        if is_done {
            turns();
        }
        stack.with(|_| drop(ops));
        if by_request {
            let mut op = pin!(stack.request(read(9)));
            // The first look finds no slot, and gives those up that were dropped.
            for _ in 0..2 {
                assert!(op.as_mut().poll(&mut cx).is_pending(), "a slot for it");
                turns();
            }
            assert!(op.poll(&mut cx).is_ready());
        } else {
            stack.with(|_| ());
            turns();
        }
        while one_reclaimed(stack) {}
        assert_eq!(
            stack.with(|engine| engine.slots_in_use()),
            0,
            "done {is_done}, by a request {by_request}"
        );
    }
}

/// Tests a future that is dropped inside another call of its stack, when that call then ends the
/// request and puts a new request into its slot: the new request continues.
#[test]
fn a_slot_used_again_in_the_call_that_drops_a_future_keeps_its_new_request() {
    let stack = stack(&World::new(256));
    let mut cx = Context::from_waker(Waker::noop());
    for drop_first in [true, false] {
        let mut first = Box::pin(stack.request(read(0)));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let mut behind = Box::pin(stack.request(read(64)));
        assert!(behind.as_mut().poll(&mut cx).is_pending());
        let new = stack.with(|engine| {
            let old = (0..4).rev().find_map(|index| engine.id_of(index)).unwrap();
            let late = if drop_first {
                drop(behind);
                None
            } else {
                Some(behind)
            };
            assert!(engine.cancel(old).is_some());
            let new = engine.submit(read(9), NOW_NS.get()).map_err(|(error, _)| error).unwrap();
            assert_eq!((old.index(), old == new), (new.index(), false));
            drop(late);
            new
        });
        (0..20).for_each(|_| stack.turn());
        let done = stack.with(|engine| engine.take(new));
        assert!(done.is_some_and(|done| done.result.is_ok()), "dropped before: {drop_first}");
        drop(first);
    }
}

/// Takes back one of the test's buffers whose request was dropped. Returns false if there is none.
fn one_reclaimed(stack: &Stack) -> bool {
    support::reclaimed(|claim| stack.with(|engine| engine.reclaim(claim))).is_some()
}

/// Tests a claim of memory without bytes, which `split_at_mut(0)` makes at the address of another
/// buffer: it takes back no buffer.
#[test]
fn a_claim_of_no_memory_takes_no_buffer() {
    let stack = stack(&World::new(256));
    let memory = Box::leak(Box::new([0u64; 64])).as_mut_slice();
    // SAFETY: bytes of words.
    let (_, memory, _) = unsafe { memory.align_to_mut::<u8>() };
    let (none, all) = memory.split_at_mut(0);
    let (none, all) =
        (mmcq::engine::DmaBuf::from_static(none).claim(), mmcq::engine::DmaBuf::from_static(all));
    let own = all.claim();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let op = pin!(stack.request(Request::new(Kind::Read { lba: 0, blocks: 1 }, all)));
        assert!(op.poll(&mut cx).is_pending());
    }
    (0..20).for_each(|_| stack.turn());
    assert!(stack.with(|engine| engine.reclaim(none)).is_none());
    assert!(stack.with(|engine| engine.reclaim(own)).is_some());
}

#[test]
fn memory_of_a_controller_that_cannot_be_stopped_is_neither_unmapped_nor_given_back() {
    let world = World::new(256);
    let stack = stack(&world);
    world.borrow_mut().silent = true;
    world.borrow_mut().fails_resets = (true, true);
    let done = stack.blocking(read(0), |_| ());
    assert_eq!((done.result, done.buf.len_bytes()), (Err(Error::Dead), 0));
    assert_eq!((world.borrow().mapped(), stack.with(|engine| engine.stats().leaked)), (1, 1));
}

#[test]
fn a_copying_client_gets_its_own_buffer_back() {
    let stack = stack(&World::new(256));
    let device = BlockDevice::new(stack);
    let mut cx = Context::from_waker(Waker::noop());
    let turns = || (0..20).for_each(|_| stack.turn());
    // Another client drops a write of secrets.
    let other = buffer(1, 0x5e);
    let others = other.claim();
    assert!(pin!(device.write(0, other)).poll(&mut cx).is_pending());
    turns();
    let mut copying = Bounced::new(device, buffer(64, 0)).unwrap();
    let mut memory = [0u8; 512];
    assert!(pin!(copying.read(8, &mut memory)).poll(&mut cx).is_pending());
    turns();
    {
        let mut again = pin!(copying.read(8, &mut memory));
        assert!(again.as_mut().poll(&mut cx).is_pending());
        turns();
        assert!(matches!(again.as_mut().poll(&mut cx), Poll::Ready(Ok(1))));
    }
    let left = stack.with(|engine| engine.reclaim(others)).map(|buf| (buf.len_bytes(), buf[0]));
    assert_eq!(left, Some((512, 0x5e)));
}

/// Returns a waker whose clone, wake and drop call the stack.
fn returning() -> Waker {
    fn clone(_: *const ()) -> RawWaker {
        come_back();
        RawWaker::new(std::ptr::null(), &TABLE)
    }
    static TABLE: RawWakerVTable =
        RawWakerVTable::new(clone, |_| come_back(), |_| come_back(), |_| come_back());
    // SAFETY: the functions use no data.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

type Way = (&'static str, Rc<dyn Fn(bool)>);

/// Returns every kind of call of a stack, with the check of its result in a nested call.
fn ways_in(stack: &'static Stack<Returns>) -> Vec<Way> {
    let device: &'static BlockDevice<'_, _, 4> = Box::leak(Box::new(BlockDevice::new(stack)));
    let cx = || Context::from_waker(Waker::noop());
    let mut ways: Vec<Way> = Vec::new();
    let mut way = |name, f: Box<dyn Fn(bool)>| ways.push((name, Rc::from(f)));
    way(
        "with",
        Box::new(move |nested| {
            stack.with(|engine| {
                assert_eq!(engine.is_nested(), nested);
                if nested {
                    assert!(
                        engine.card_params().is_none()
                            && engine.host().is_none()
                            && engine.policy().is_none()
                    );
                    assert_eq!((engine.slots_in_use(), engine.next_deadline_ns()), (4, Some(0)));
                    assert!(engine.policy_mut().is_none() && engine.take_service_request().is_none());
                }
            });
        }),
    );
    way(
        "submit",
        Box::new(move |nested| {
            let submitted = stack.with(|engine| engine.submit(read(3), NOW_NS.get()));
            match submitted {
                Err((error, request)) if nested => {
                    assert_eq!((error, request.buf.len_bytes()), (Error::Reentered, 512));
                }
                _ if nested => panic!("accepted from inside"),
                Ok(id) => drop(stack.with(|engine| engine.cancel(id))),
                Err(_) => {}
            }
        }),
    );
    way(
        "verbs",
        Box::new(move |nested| {
            if !nested {
                return;
            }
            stack.with(|engine| {
                assert!(engine.on_irq(1).next_deadline_ns == Some(0) && engine.poll(1).completed == 0);
                engine.set_card_params(None);
                engine.enable_extended_ops();
                engine.suspend();
                engine.halt();
                engine.resume(1);
                engine.abort(1);
                engine.presence_changed(1);
                engine.service_done(Err(Error::Dead), 1);
                assert!(engine.set_page(buffer(1, 0)).is_err() && engine.id_of(0).is_none());
                assert!(engine.set_service_waker(Some(Waker::noop().clone())).is_some());
                assert!(engine.set_card_irq_waker(Some(Waker::noop().clone())).is_some());
            });
        }),
    );
    way("on_irq", Box::new(move |_| stack.on_irq()));
    way("poll", Box::new(move |_| stack.poll()));
    way("turn", Box::new(move |_| stack.turn()));
    way("now_ns", Box::new(move |_| assert!(stack.now_ns() > 0)));
    way(
        "request",
        Box::new(move |nested| {
            let polled = pin!(stack.request(read(5))).poll(&mut cx());
            assert!(!nested || matches!(polled, Poll::Ready(done) if done.result == Err(Error::Reentered)));
        }),
    );
    way(
        "raw",
        Box::new(move |_| {
            let command = mmcq::spec::command::send_status(1);
            let _ = pin!(stack.command(command, 1_000_000)).poll(&mut cx());
            let _ = pin!(stack.pause(1_000)).poll(&mut cx());
        }),
    );
    way(
        "blocking",
        Box::new(move |nested| {
            if nested {
                assert_eq!(stack.blocking(read(7), |_| ()).result, Err(Error::Reentered));
            }
        }),
    );
    way(
        "read_blocking",
        Box::new(move |nested| {
            let mut memory = [0; 512];
            if nested {
                assert_eq!(device.read_blocking(9, &mut memory, |_| ()), Err(Error::Reentered));
            }
        }),
    );
    way(
        "device",
        Box::new(move |nested| {
            assert_eq!(device.geometry().is_none(), nested);
            let _ = pin!(device.write(11, buffer(1, 1))).poll(&mut cx());
            let _ = pin!(device.flush()).poll(&mut cx());
            let mut copying = Bounced::new(device.clone(), buffer(2, 0)).unwrap();
            let _ = pin!(copying.read(13, &mut [0; 512])).poll(&mut cx());
        }),
    );
    ways
}

/// Tests nested calls: every callback makes every kind of call of the stack, wherever the callback
/// is called. The callbacks are clone, wake and drop of a waker, both functions of the timer, the
/// lock (before and after), the functions that the driver calls, and the policy. No nested call
/// gets the engine, and the stack continues to work.
#[test]
fn whatever_comes_back_in_is_turned_away_where_the_engine_is_in_use() {
    let calls = Rc::new(Cell::new([0u32; 2]));
    let names: Vec<_> = ways_in(fresh()).into_iter().map(|(name, _)| name).collect();
    for (nth, name) in names.into_iter().enumerate() {
        let stack = fresh();
        let way = ways_in(stack).swap_remove(nth).1;
        let counted = calls.clone();
        let host_calls = move || {
            let nested = INSIDE.get() > 0;
            let mut counts = counted.get();
            counts[usize::from(nested)] += 1;
            counted.set(counts);
            way(nested);
        };
        BACK.set(Some(Rc::new(host_calls)));
        for lba in 0..4 {
            let mut op = pin!(stack.request(read(lba)));
            let waker = returning();
            for _ in 0..200 {
                if op.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    break;
                }
                stack.turn();
            }
            // One that is dropped on its way.
            let mut dropped = pin!(stack.request(read(100 + lba)));
            let _ = dropped.as_mut().poll(&mut Context::from_waker(&waker));
        }
        BACK.set(None);
        (0..200).for_each(|_| stack.turn());
        let done = stack.blocking(read(1), |_| ());
        assert!(done.result.is_ok(), "after {name}: {:?}", done.result);
        assert!(stack.with(|engine| engine.is_idle()), "after {name}");
    }
    let [outside, inside] = calls.get();
    assert!(outside > 1_000 && inside > 1_000, "{outside} calls from outside, {inside} from inside");
}

fn fresh() -> &'static Stack<Returns> {
    let world = World::new(256);
    world.borrow_mut().called = Some(come_back);
    let host = TestHost::new(&world);
    let stack = Box::leak(Box::new(Stack::with_policy(Watched, TIMER, host, Config::DEFAULT, Returns)));
    stack.with(|engine| engine.set_card_params(Some(target(256))));
    stack
}
