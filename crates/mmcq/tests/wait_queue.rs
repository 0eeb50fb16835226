//! Tests of requests that find all slots of the engine in use: they wait for a slot in the order in
//! which they came, each at most for the time limit of the queue, and no request is lost.

use crate::support::{TestHost, World, buffer, target};
use mmcq::block::{BlockDevice, BlockError};
use mmcq::engine::{Config, DmaBuf, Error, Kind, Request};
use mmcq::spec::command::send_status;
use mmcq::task::{Lock, Stack, Timer, WaitQueue};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::mem::forget;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// A lock that excludes nothing, since each test has one thread without interrupts.
#[derive(Default)]
struct OneContext;

// SAFETY: the tests have one thread each.
unsafe impl Lock for OneContext {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        HELD.set(HELD.get() + 1);
        let result = f();
        HELD.set(HELD.get() - 1);
        result
    }
}

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
    static NOW_NS: Cell<u64> = const { Cell::new(1_000) };
    static ALARM_NS: Cell<Option<u64>> = const { Cell::new(None) };
}

const TIMER: Timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |at_ns| ALARM_NS.set(at_ns) };
const LIMIT_NS: u64 = 30_000_000;

type Waits<const W: usize> = WaitQueue<OneContext, W>;
type TestStack<L> = Stack<(L, TestHost), 4>;

fn stack<L: Lock>(lock: L, world: &Rc<RefCell<World>>) -> TestStack<L> {
    ALARM_NS.set(None);
    let stack = Stack::new(lock, TIMER, TestHost::new(world), Config::DEFAULT);
    stack.with(|engine| engine.set_card_params(Some(target(256))));
    stack
}

fn waiting<const W: usize>(world: &Rc<RefCell<World>>) -> TestStack<Waits<W>> {
    stack(Waits::new(OneContext, LIMIT_NS), world)
}

/// A waker that records its calls, and panics if a lock is held while it is woken or dropped.
#[derive(Default)]
struct Flag {
    woken: AtomicBool,
    calls: AtomicU32,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        assert_eq!(HELD.get(), 0, "woken with the lock held");
        self.woken.store(true, SeqCst);
        self.calls.fetch_add(1, SeqCst);
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        assert_eq!(HELD.get(), 0, "dropped with the lock held");
    }
}

struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    flag: Arc<Flag>,
    output: Option<T>,
}

impl<'a, T> Task<'a, T> {
    fn new(future: impl Future<Output = T> + 'a) -> Self {
        let flag = Arc::new(Flag { woken: AtomicBool::new(true), calls: AtomicU32::new(0) });
        Task { future: Box::pin(future), flag, output: None }
    }

    /// Polls the future if its waker was woken. Returns true if the future was polled.
    fn poll(&mut self) -> bool {
        if self.output.is_some() || !self.flag.woken.swap(false, SeqCst) {
            return false;
        }
        let waker = Waker::from(self.flag.clone());
        if let Poll::Ready(output) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.output = Some(output);
        }
        true
    }
}

/// Runs all tasks to their ends; each is polled only when it was woken. When nothing else happens,
/// the time advances to the alarm.
fn run<L: Lock, T>(stack: &TestStack<L>, world: &Rc<RefCell<World>>, tasks: &mut [Task<'_, T>]) {
    for _ in 0..100_000 {
        if tasks.iter_mut().filter_map(|task| task.poll().then_some(())).count() != 0 {
            continue;
        }
        if tasks.iter().all(|task| task.output.is_some()) {
            return;
        }
        if world.borrow().running() && !world.borrow().silent {
            stack.on_irq();
            continue;
        }
        let at_ns = ALARM_NS.get().expect("a task waits, and nothing is left that could wake it");
        NOW_NS.set(NOW_NS.get().max(at_ns));
        stack.poll();
    }
    panic!("never over");
}

async fn written<L: Lock>(
    device: &BlockDevice<'_, (L, TestHost), 4>,
    lba: u64,
) -> (Result<u32, BlockError>, u32) {
    let (result, buf) = device.write(lba, buffer(1, lba as u8 + 1)).await;
    (result, buf.len_bytes())
}

/// Submits 12 writes of one block at the same time to an engine with 4 slots. Returns how many of
/// them succeeded; the others were refused.
fn twelve<L: Lock>(lock: L) -> usize {
    let world = World::new(256);
    let stack = stack(lock, &world);
    let device = BlockDevice::new(&stack);
    let mut tasks: Vec<_> = (0..12).map(|lba| Task::new(written(&device, lba))).collect();
    run(&stack, &world, &mut tasks);
    let mut done = 0;
    for task in &tasks {
        match task.output.unwrap() {
            (Ok(1), 512) => done += 1,
            (Err(BlockError { error: Error::Full, blocks_done: 0, .. }), 512) => {}
            other => panic!("{other:?}"),
        }
    }
    for lba in 0..done {
        assert_eq!(world.borrow().medium[lba * 512], lba as u8 + 1);
    }
    assert_eq!(stack.with(|engine| engine.slots_in_use()), 0);
    done
}

#[test]
fn more_requests_than_slots_are_all_done() {
    assert_eq!(twelve(OneContext), 4, "without a queue");
    assert_eq!(twelve(Waits::<3>::new(OneContext, LIMIT_NS)), 7, "three may wait");
    assert_eq!(twelve(Waits::<8>::new(OneContext, 0)), 4, "none may wait");
    assert_eq!(twelve(Waits::<8>::new(OneContext, LIMIT_NS)), 12);
}

/// Fills all slots with commands that are complete. Each command keeps its slot until the returned
/// future is polled or dropped.
fn taken<L: Lock>(stack: &TestStack<L>) -> Vec<Pin<Box<impl Future + '_>>> {
    let mut context = Context::from_waker(Waker::noop());
    let mut all = Vec::new();
    for _ in 0..4 {
        let mut future = Box::pin(stack.command(send_status(1), 1_000_000));
        assert!(future.as_mut().poll(&mut context).is_pending());
        all.push(future);
    }
    for _ in 0..8 {
        stack.on_irq();
    }
    all
}

#[test]
fn a_wait_is_over_at_its_limit() {
    let world = World::new(256);
    let stack = waiting::<8>(&world);
    let holders = taken(&stack);
    let device = BlockDevice::new(&stack);
    let begun_ns = NOW_NS.get();
    let mut tasks: Vec<_> = (0..3).map(|lba| Task::new(written(&device, lba))).collect();
    run(&stack, &world, &mut tasks);
    assert_eq!(NOW_NS.get() - begun_ns, LIMIT_NS);
    for task in &mut tasks {
        let full = BlockError { error: Error::Full, blocks_done: 0 };
        assert_eq!(task.output.take(), Some((Err(full), 512)));
        assert!(task.flag.calls.load(SeqCst) <= 2, "{} calls", task.flag.calls.load(SeqCst));
    }
    assert_eq!(world.borrow().medium[0], 0);
    drop(holders);
    let mut tasks = [Task::new(written(&device, 9))];
    run(&stack, &world, &mut tasks);
    assert_eq!(tasks[0].output, Some((Ok(1), 512)));
}

/// Tests tasks that each submit the next write at once: no such write passes a write of another
/// task that waits already.
#[test]
fn slots_go_to_those_that_came_first() {
    let world = World::new(256);
    let stack = waiting::<8>(&world);
    let device = BlockDevice::new(&stack);
    let order = RefCell::new(Vec::new());
    let (device, order) = (&device, &order);
    let greedy = |first: u64| async move {
        for lba in first..first + 10 {
            assert_eq!(written(device, lba).await.0, Ok(1));
            order.borrow_mut().push(lba);
        }
    };
    let mut tasks: Vec<_> = (0..8).map(|task| Task::new(greedy(16 * task))).collect();
    run(&stack, &world, &mut tasks);
    // No task is more than two writes ahead of another.
    let mut counts = [0; 8];
    for lba in order.borrow().iter() {
        counts[*lba as usize / 16] += 1;
        let least = counts.iter().min().unwrap();
        assert!(counts.iter().all(|count| count - least <= 2), "{counts:?} in {order:?}");
    }
}

#[test]
fn a_dropped_future_leaves_the_queue() {
    let world = World::new(256);
    let stack = waiting::<1>(&world);
    let holders = taken(&stack);
    let device = BlockDevice::new(&stack);
    let mut first = Task::new(written(&device, 0));
    let mut second = Task::new(written(&device, 1));
    assert!(first.poll() && first.output.is_none());
    assert!(second.poll() && second.output.is_some(), "one may wait");
    drop(first);
    let mut third = [Task::new(written(&device, 2))];
    assert!(third[0].poll() && third[0].output.is_none());
    drop(holders);
    run(&stack, &world, &mut third);
    assert_eq!(third[0].output, Some((Ok(1), 512)));
}

/// Tests a waiting future that is dropped inside another call of the stack: the next poll, for
/// which an alarm is set, frees its place in the queue. No waker is dropped inside of the call.
#[test]
fn a_future_may_be_dropped_inside_a_call() {
    let world = World::new(256);
    let stack = waiting::<1>(&world);
    let holders = taken(&stack);
    let device = BlockDevice::new(&stack);
    let mut first = Task::new(written(&device, 0));
    assert!(first.poll() && first.output.is_none());
    stack.with(|_| drop(first.future));
    assert_eq!(ALARM_NS.get(), Some(0));
    drop(first.flag);
    stack.poll();
    let mut second = [Task::new(written(&device, 1))];
    assert!(second[0].poll() && second[0].output.is_none());
    drop(holders);
    run(&stack, &world, &mut second);
    assert_eq!(second[0].output, Some((Ok(1), 512)));
}

/// Tests a waiting future that is polled inside another call of the stack: it keeps its place in
/// the queue. (Only a new request is refused there.)
#[test]
fn a_future_may_be_polled_inside_a_call() {
    let world = World::new(256);
    let stack = waiting::<1>(&world);
    let holders = taken(&stack);
    let mut context = Context::from_waker(Waker::noop());
    let request = Request::new(Kind::Read { lba: 0, blocks: 1 }, buffer(1, 0));
    let mut future = pin!(stack.request(request));
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert!(stack.with(|_| future.as_mut().poll(&mut context)).is_pending());
    drop(holders);
    assert!(future.as_mut().poll(&mut context).is_pending());
    for _ in 0..8 {
        stack.on_irq();
    }
    assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(done) if done.result.is_ok()));
}

#[test]
fn a_forgotten_future_holds_up_the_others_until_its_limit() {
    let world = World::new(256);
    let stack: &'static _ = Box::leak(Box::new(waiting::<4>(&world)));
    let holders = taken(stack);
    let device: &'static _ = Box::leak(Box::new(BlockDevice::new(stack)));
    let mut first = Task::new(written(device, 0));
    assert!(first.poll() && first.output.is_none());
    forget(first);
    let begun_ns = NOW_NS.get();
    NOW_NS.set(begun_ns + LIMIT_NS / 2);
    drop(holders);
    let mut second = [Task::new(written(device, 1))];
    run(stack, &world, &mut second);
    assert_eq!(second[0].output, Some((Ok(1), 512)));
    assert_eq!(NOW_NS.get() - begun_ns, LIMIT_NS);
}

#[test]
fn a_blocking_call_waits_for_a_slot() {
    let world = World::new(256);
    let stack = waiting::<1>(&world);
    let holders = taken(&stack);
    let device = BlockDevice::new(&stack);
    let mut block = mmcq::block::Block([0; 512]);
    let begun_ns = NOW_NS.get();
    let sleeps = Cell::new(0);
    // Sleeps until the alarm, like a thread that an alarm and an interrupt handler wake.
    let result = device.read_blocking(0, &mut block.0, |idle| {
        sleeps.set(sleeps.get() + 1);
        if idle.may_sleep() {
            NOW_NS.set(NOW_NS.get().max(ALARM_NS.get().expect("an alarm ends the sleep")));
        }
    });
    assert_eq!(result, Err(Error::Full));
    assert_eq!(NOW_NS.get() - begun_ns, LIMIT_NS);
    assert!(sleeps.get() < 8, "{} sleeps", sleeps.get());
    // If `idle` panics, the call leaves the queue.
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = device.read_blocking(0, &mut block.0, |_| panic!("idle"));
    }));
    assert!(panics.is_err());
    // When another thread takes its result, this thread is woken.
    let mut holders = holders.into_iter();
    let mut holder = holders.next();
    let content = mmcq::block::Block([7; 512]);
    let result = device.write_blocking(3, &content.0, |idle| {
        if let Some(mut holder) = holder.take() {
            assert!(idle.may_sleep());
            assert!(holder.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
            assert!(!idle.may_sleep());
        }
    });
    assert_eq!(result, Ok(1));
    assert_eq!(world.borrow().medium[3 * 512], 7);
}

/// Tests `Engine::submit` while all slots are in use: it is refused at once and never waits. A
/// completion that the program takes by `Engine::take` frees a slot for a waiting request.
#[test]
fn what_is_submitted_by_hand_is_refused_at_once() {
    let world = World::new(256);
    let stack = waiting::<4>(&world);
    let own = stack.with(|engine| engine.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), NOW_NS.get()));
    let own = own.map_err(|(error, _)| error).unwrap();
    let mut holders: Vec<_> = (0..3).map(|_| Box::pin(stack.command(send_status(1), 1_000_000))).collect();
    let mut context = Context::from_waker(Waker::noop());
    assert!(holders.iter_mut().all(|holder| holder.as_mut().poll(&mut context).is_pending()));
    for _ in 0..8 {
        stack.on_irq();
    }
    let refused = stack.with(|engine| {
        engine.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), NOW_NS.get()).map_err(|(error, _)| error)
    });
    assert_eq!(refused, Err(Error::Full));
    let device = BlockDevice::new(&stack);
    let mut tasks = [Task::new(written(&device, 5))];
    assert!(tasks[0].poll() && tasks[0].output.is_none());
    assert!(!tasks[0].flag.woken.load(SeqCst));
    assert!(stack.with(|engine| engine.take(own)).is_some());
    assert!(tasks[0].flag.woken.load(SeqCst));
    run(&stack, &world, &mut tasks);
    assert_eq!(tasks[0].output, Some((Ok(1), 512)));
}
