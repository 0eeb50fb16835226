//! Tests of futures that are dropped or forgotten at every poll, of sequential code in the
//! interrupt, and of lent memory.

use crate::support;
use mmcq::block::{BlockDevice, Bounced};
use mmcq::engine::{Acknowledge, Config, DmaBuf, Error, Kind, Request};
use mmcq::host::Cause;
use mmcq::spec::command::send_status;
use mmcq::task::{IrqTask, Lock, Stack, Timer};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use support::{TestHost, World, buffer, reclaimed, target};

/// A lock for one context. It panics if it is taken twice, since a real lock would hang then.
struct OneContext(Cell<bool>);

impl OneContext {
    const fn new() -> Self {
        OneContext(Cell::new(false))
    }
}

// SAFETY: the tests have one thread each; nested use panics.
unsafe impl Lock for OneContext {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        assert!(!self.0.replace(true), "the lock is taken twice");
        HELD.set(true);
        let result = f();
        HELD.set(false);
        self.0.set(false);
        result
    }
}

thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });
thread_local!(static HELD: Cell<bool> = const { Cell::new(false) });
const TIMER: Timer = Timer {
    now_ns: || {
        NOW.set(NOW.get() + 1_000);
        NOW.get()
    },
    // Without the lock an older alarm could replace a newer one.
    set_alarm: |_| assert!(HELD.get(), "the alarm is set without the lock"),
};

type TestStack<const N: usize> = Stack<(OneContext, TestHost), N>;

fn stack<const N: usize>(world: &Rc<RefCell<World>>) -> TestStack<N> {
    let stack = Stack::new(OneContext::new(), TIMER, TestHost::new(world), Config::DEFAULT);
    stack.with(|e| e.set_card_params(Some(target(256))));
    stack
}

fn settle<const N: usize>(stack: &TestStack<N>) {
    for _ in 0..100 {
        stack.turn();
    }
}

async fn several(device: BlockDevice<'_, (OneContext, TestHost), 4>) {
    for round in 0..4 {
        let (done, buf) = device.write(8 * round, buffer(8, round as u8 + 1)).await;
        assert_eq!(done, Ok(8));
        let (done, buf) = device.read(8 * round, buf).await;
        assert_eq!(done, Ok(8));
        assert!(buf.iter().all(|&b| b == round as u8 + 1));
        device.flush().await.unwrap();
    }
}

/// Polls the future of `several` and handles the controller's interrupt, up to `polls` times, and
/// then passes a future that is still pending to `end`. Returns whether the future has ended, and
/// afterwards the number of slots in use and the number of reclaimed buffers.
fn interrupted(
    polls: usize,
    end: impl FnOnce(std::pin::Pin<Box<dyn Future<Output = ()>>>),
) -> (bool, usize, usize) {
    let world = World::new(256);
    // Leaked on purpose: where the future is forgotten, its borrow lasts for ever.
    let stack: &'static TestStack<4> = Box::leak(Box::new(stack::<4>(&world)));
    let mut context = Context::from_waker(Waker::noop());
    let mut future: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(several(BlockDevice::new(stack)));
    let mut finished = false;
    for _ in 0..polls {
        if future.as_mut().poll(&mut context).is_ready() {
            finished = true;
            break;
        }
        stack.on_irq();
    }
    if finished {
        drop(future)
    } else {
        end(future)
    }
    settle(stack);
    let mut lost = 0;
    while reclaimed(|claim| stack.with(|e| e.reclaim(claim))).is_some() {
        lost += 1;
    }
    assert!(world.borrow().mapped() <= stack.with(|e| e.slots_in_use()));
    (finished, stack.with(|e| e.slots_in_use()), lost)
}

#[test]
fn a_future_may_be_dropped_at_every_poll() {
    for polls in 0..100 {
        let (finished, in_use, reclaimed) = interrupted(polls, drop);
        assert_eq!(in_use, 0, "after {polls} polls");
        assert!(reclaimed <= 1);
        if finished {
            assert!(polls > 12);
            return;
        }
    }
    panic!("never finished");
}

#[test]
fn a_forgotten_future_costs_a_slot_and_nothing_else() {
    for polls in 0..100 {
        let (finished, in_use, _) = interrupted(polls, std::mem::forget);
        assert!(in_use <= 1, "after {polls} polls");
        if finished {
            return;
        }
    }
    panic!("never finished");
}

/// Returns a waker that polls the task at once, as the last step of an interrupt.
fn irq_waker(task: &IrqTask<OneContext>) -> Waker {
    // SAFETY (of all three): called with the pointer that `irq_waker` was given.
    unsafe fn clone(p: *const ()) -> RawWaker {
        RawWaker::new(p, &TABLE)
    }
    unsafe fn wake(p: *const ()) {
        // SAFETY: the test keeps the task alive while its waker is around.
        let task = unsafe { &*p.cast::<IrqTask<OneContext>>() };
        // SAFETY: as above.
        task.poll(&unsafe { Waker::from_raw(RawWaker::new(p, &TABLE)) });
    }
    unsafe fn nothing(_: *const ()) {}
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, nothing);
    // SAFETY: the table's functions do what the contract of `RawWaker` asks; nothing is owned.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(task).cast(), &TABLE)) }
}

/// Marks a future as `Send`, since the test has only one thread.
struct OneThread<F>(F);
// SAFETY: everything of a test runs on its own thread.
unsafe impl<F> Send for OneThread<F> {}
impl<F: Future> Future for OneThread<F> {
    type Output = F::Output;
    fn poll(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned with the whole.
        unsafe { self.map_unchecked_mut(|s| &mut s.0) }.poll(context)
    }
}

#[test]
fn straight_line_code_runs_in_the_interrupt() {
    let world = World::new(256);
    let stack = stack::<4>(&world);
    let task = IrqTask::new(OneContext::new());
    let waker = irq_waker(&task);
    let rounds = AtomicU32::new(0);
    let chain = OneThread(async {
        loop {
            stack.command(send_status(1), 1_000_000).await.unwrap();
            stack.command(send_status(2), 1_000_000).await.unwrap();
            rounds.fetch_add(1, Relaxed);
        }
    });
    task.scope(chain, &waker, || {
        for _ in 0..10 {
            // One interrupt ends a command and starts the next one, in the same call.
            let before = world.borrow().log.len();
            stack.on_irq();
            assert_eq!(world.borrow().log.len(), before + 1);
        }
    });
    assert_eq!(rounds.load(Relaxed), 5);
    assert_eq!(stack.with(|e| e.slots_in_use()), 1, "one command was under way");
    settle(&stack);
    assert_eq!(stack.with(|e| e.slots_in_use()), 0);
}

#[test]
fn a_task_that_panics_is_over() {
    let task = IrqTask::new(OneContext::new());
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        task.scope(async { panic!("planted") }, Waker::noop(), || ());
    }));
    assert!(result.is_err());
    assert!(task.is_finished());
}

#[test]
fn lent_memory_comes_back_even_when_the_caller_panics() {
    let world = World::new(256);
    let stack = stack::<4>(&world);
    let device = BlockDevice::new(&stack);
    #[repr(align(4))]
    struct Aligned([u8; 1024]);
    device.write_blocking(4, &Aligned([7; 1024]).0, |_| ()).unwrap();
    let mut aligned = Aligned([0; 1024]);
    let memory = &mut aligned.0;
    assert_eq!(device.read_blocking(4, memory, |_| ()), Ok(2));
    assert_eq!(*memory, [7; 1024]);
    assert_eq!(
        device.read_blocking(4, &mut memory[..600], |_| ()),
        Err(Error::Buffer { needed: 1024, given: 600 })
    );

    world.borrow_mut().silent = true;
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        device.read_blocking(4, memory, |_| panic!("planted"))
    }));
    assert!(result.is_err());
    assert_eq!((world.borrow().mapped(), stack.with(|e| e.slots_in_use())), (0, 0));
    assert!(world.borrow().resets >= 1, "the controller was stopped before the memory went");
}

#[test]
fn lent_memory_is_handed_to_its_owner_alone() {
    let world = World::new(256);
    let stack = stack::<4>(&world);
    #[repr(align(4))]
    struct Aligned([u8; 512]);
    let mut memory = Aligned([0; 512]);
    let stolen = Cell::new(None);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        BlockDevice::new(&stack).read_blocking(0, &mut memory.0, |_| {
            // As an interrupt handler would.
            stack.turn();
            let taken = stack.with(|e| e.id_of(0).and_then(|id| e.take(id)));
            if let Some(completion) = taken {
                stolen.set(Some(completion.buf.len_bytes()));
                panic!("no other call completes this one");
            }
        })
    }));
    assert!(result.is_err());
    assert_eq!(stolen.get(), Some(0), "the completion is there, the memory is not");
}

#[test]
fn any_memory_goes_through_a_bounce_buffer() {
    let world = World::new(256);
    let stack = stack::<4>(&world);
    let mut device = Bounced::new(BlockDevice::new(&stack), buffer(4, 0)).unwrap();
    let data: Vec<u8> = (0..10 * 512 + 1).map(|i| (i % 251) as u8).collect();
    // Odd on purpose.
    let unaligned = &data[1..];
    assert_eq!(stack.block_on(device.write(7, unaligned), |_| ()), Ok(10));
    let mut back = vec![0; 10 * 512 + 1];
    assert_eq!(stack.block_on(device.read(7, &mut back[1..]), |_| ()), Ok(10));
    assert_eq!(&back[1..], unaligned);

    // A bad block in the second piece.
    world.borrow_mut().bad.insert(12, Cause::Crc);
    let partial = stack.block_on(device.read(7, &mut back[1..]), |_| ()).unwrap_err();
    assert_eq!(partial.blocks_done, 5, "all before the bad block");

    // A future is dropped while the controller has the bounce buffer: the buffer comes back.
    {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(device.read(60, &mut back[1..513])).poll(&mut context).is_pending());
    }
    settle(&stack);
    assert_eq!(stack.block_on(device.read(60, &mut back[1..513]), |_| ()), Ok(1));
}

#[test]
fn a_part_of_a_buffer_is_moved_and_all_of_it_comes_back() {
    let world = World::new(256);
    let stack = stack::<4>(&world);
    let device = BlockDevice::new(&stack);
    let mut buf = buffer(8, 0);
    for (at, byte) in buf.iter_mut().enumerate() {
        *byte = (at / 512) as u8 + 1;
    }
    let claim = buf.claim();
    let (result, buf) = stack.block_on(device.write_part(10, buf, 2..5), |_| ());
    assert_eq!((result, buf.len_bytes(), buf.claim()), (Ok(3), 4096, claim));
    let on_card = |lba: usize| world.borrow().medium[lba * 512];
    assert_eq!([9, 10, 11, 12, 13].map(on_card), [0, 3, 4, 5, 0]);

    let (result, buf) = stack.block_on(device.read_part(11, buf, 7..8), |_| ());
    assert_eq!(result, Ok(1));
    let blocks: Vec<u8> = buf.chunks(512).map(|block| block[511]).collect();
    assert_eq!(blocks, [1, 2, 3, 4, 5, 6, 7, 4]);

    // A refused buffer comes back with its full length.
    let refused = [
        (6..9, Error::Buffer { needed: 9 * 512, given: 4096 }),
        (0..u32::MAX, { Error::Buffer { needed: u32::MAX, given: 4096 } }),
    ];
    let mut buf = buf;
    for (part, error) in refused {
        let (result, back) = stack.block_on(device.write_part(0, buf, part), |_| ());
        assert_eq!(result.map_err(|error| error.error), Err(error));
        buf = back;
    }
    for part in [3..3, Range { start: 5, end: 4 }, 8..8] {
        let (result, back) = stack.block_on(device.read_part(0, buf, part.clone()), |_| ());
        assert!(matches!(result.unwrap_err().error, Error::OutOfRange { .. }), "{part:?}");
        buf = back;
    }
    let (result, buf) = stack.block_on(device.write_part(254, buf, 5..8), |_| ());
    assert!(matches!(result.unwrap_err().error, Error::OutOfRange { lba: 254, .. }));
    assert_eq!((buf.len_bytes(), buf.claim()), (4096, claim));

    // The buffer of a dropped future also comes back with its full length.
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(device.read_part(0, buf, 4..8)).poll(&mut context).is_pending());
    settle(&stack);
    let buf = stack.with(|engine| engine.reclaim(claim)).unwrap();
    assert_eq!((buf.len_bytes(), buf.claim()), (4096, claim));
}

#[test]
fn a_full_queue_gives_the_buffer_back() {
    let world = World::new(256);
    let stack = stack::<4>(&world);
    let mut context = Context::from_waker(Waker::noop());
    let mut first: Vec<_> = (0..4).map(|_| Box::pin(stack.command(send_status(1), 1_000))).collect();
    assert!(first.iter_mut().all(|command| command.as_mut().poll(&mut context).is_pending()));
    let request = Request::new(Kind::Read { lba: 0, blocks: 1 }, buffer(1, 0));
    let Poll::Ready(done) = pin!(stack.request(request)).poll(&mut context) else {
        panic!("must be refused")
    };
    assert_eq!((done.result, done.buf.len_bytes()), (Err(Error::Full), 512));
    let unaligned = DmaBuf::from_static(&mut Box::leak(vec![0; 513].into_boxed_slice())[1..]);
    settle(&stack);
    assert!(first.iter_mut().all(|command| command.as_mut().poll(&mut context).is_ready()));
    let (result, buf) = stack.block_on(BlockDevice::new(&stack).read(0, unaligned), |_| ());
    assert!(matches!(result.unwrap_err().error, Error::Dma(_)));
    assert_eq!(buf.len_bytes(), 512);
    assert_eq!(stack.with(|e| e.caps().align), 4);
}

thread_local! {
    /// The time to which the platform's alarm was set last.
    static ALARM_NS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Tests calls of the engine by `with` (the card-detect interrupt of a GPIO, a platform's resume),
/// after which the program does not call `poll`: the alarm is set for what they have begun.
#[test]
fn what_a_program_begins_by_itself_has_its_alarm() {
    let timer = Timer { now_ns: || 1_000, set_alarm: |at_ns| ALARM_NS.set(at_ns) };
    let stack_of = |world: &Rc<RefCell<World>>| -> Stack<(OneContext, TestHost), 4> {
        let stack = Stack::new(OneContext::new(), timer, TestHost::new(world), Config::DEFAULT);
        stack.with(|engine| engine.set_card_params(Some(target(256))));
        stack
    };
    let due_ns = |stack: &Stack<(OneContext, TestHost), 4>| stack.with(|engine| engine.next_deadline_ns());
    let stack = stack_of(&World::new(256));
    stack.with(|engine| engine.presence_changed(1_000));
    assert!(ALARM_NS.get().is_some(), "the line is looked at again when it has been quiet");
    assert_eq!(ALARM_NS.get(), due_ns(&stack));
    ALARM_NS.set(None);

    let stack = stack_of(&World::new(256));
    stack.with(|engine| engine.halt());
    let mut op = pin!(stack.request(Request::new(Kind::Read { lba: 0, blocks: 1 }, buffer(1, 0))));
    assert!(op.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(ALARM_NS.get(), None, "nothing is begun");
    stack.with(|engine| engine.resume(1_000));
    assert!(ALARM_NS.get().is_some(), "a phase is on the controller, and no deadline would find it silent");
    assert_eq!(ALARM_NS.get(), due_ns(&stack));
}

/// Tests calls of the engine in random order: afterwards the alarm is never later than the engine's
/// next deadline.
#[test]
fn no_verb_leaves_a_deadline_without_an_alarm() {
    let timer = Timer { now_ns: || NOW.get(), set_alarm: |at_ns| ALARM_NS.set(at_ns) };
    let mut waited = 0u32;
    for seed in 1..=200u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |most: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) % most
        };
        ALARM_NS.set(None);
        let stack: Stack<(OneContext, TestHost), 4> =
            Stack::new(OneContext::new(), timer, TestHost::new(&World::new(256)), Config::DEFAULT);
        stack.with(|engine| engine.set_card_params(Some(target(256))));
        let mut ids = Vec::new();
        for _ in 0..60 {
            NOW.set(NOW.get() + 1 + below(2_000_000));
            let now_ns = NOW.get();
            let verb = below(12);
            match verb {
                0..=2 => {
                    let (lba, blocks) = (below(250), 1 + below(2) as u32);
                    let kind = match below(4) {
                        0 => Kind::Read { lba, blocks },
                        1 => Kind::Write { lba, blocks },
                        2 => Kind::Flush,
                        _ => Kind::Pause { ns: 5_000_000 },
                    };
                    let mut request = Request::new(kind, buffer(blocks, 0));
                    request.urgent = below(8) == 0;
                    ids.extend(stack.with(|engine| engine.submit(request, now_ns)).ok());
                }
                3 => stack.with(|engine| engine.halt()),
                4 | 5 => stack.with(|engine| engine.resume(now_ns)),
                6 => stack.with(|engine| engine.suspend()),
                7 if below(4) == 0 => stack.with(|engine| engine.abort(now_ns)),
                7 => stack.with(|engine| engine.presence_changed(now_ns)),
                8 if !ids.is_empty() => {
                    let id = ids.swap_remove(below(ids.len() as u64) as usize);
                    let _ = stack.with(|engine| engine.cancel(id));
                }
                9 => {
                    let _ = stack.with(|engine| engine.on_irq(now_ns));
                }
                10 => {
                    let _ = stack.with(|engine| engine.poll(now_ns));
                }
                // What the platform does: its interrupts, and its alarm when it rings.
                _ => stack.on_irq(),
            }
            if ALARM_NS.get().is_some_and(|at_ns| at_ns <= NOW.get()) {
                stack.poll();
            }
            ids.retain(|&id| stack.with(|engine| engine.take(id)).is_none());
            if let Some(due_ns) = stack.with(|engine| engine.next_deadline_ns()) {
                waited += 1;
                let alarm_ns = ALARM_NS.get();
                assert!(
                    alarm_ns.is_some_and(|at_ns| at_ns <= due_ns),
                    "seed {seed}, verb {verb}: {alarm_ns:?}, due {due_ns}"
                );
            }
        }
    }
    assert!(waited > 2_000, "{waited}");
}

/// Tests [`Geometry::volatile_cache`](mmcq::block::Geometry::volatile_cache), by which a file
/// system decides whether it needs flushes.
#[test]
fn a_flush_is_needed_where_writes_are_complete_when_they_are_transferred() {
    for (continues, acknowledge, needed) in [
        (false, Acknowledge::Programmed, false),
        (true, Acknowledge::Programmed, true),
        (false, Acknowledge::Transferred, true),
    ] {
        let world = World::new(256);
        world.borrow_mut().caps.continue_data = continues;
        let config = Config::DEFAULT.acknowledge(acknowledge);
        let stack: TestStack<4> = Stack::new(OneContext::new(), TIMER, TestHost::new(&world), config);
        stack.with(|e| e.set_card_params(Some(target(256))));
        assert_eq!(BlockDevice::new(&stack).geometry().map(|card| card.volatile_cache), Some(needed));
    }
}
