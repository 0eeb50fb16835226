//! Tests of calls that wait on their own thread: when the calls may sleep, and that they do not
//! sleep when their result has come already.

use crate::support;
use mmcq::block::BlockDevice;
use mmcq::engine::{Completion, Config, Error, Kind, Request};
use mmcq::spec::command::send_status;
use mmcq::task::{Idle, Lock, Timer};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use support::{TestHost, World, buffer, target};

struct OneThread;
// SAFETY: each test has one thread, and its closures do not nest.
unsafe impl Lock for OneThread {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    static ALARM_NS: Cell<Option<u64>> = const { Cell::new(None) };
}

type Stack = mmcq::task::Stack<(OneThread, TestHost), 4>;

/// Lock that lets these tests run one at a time: they count sleeps, and calls of other threads may
/// end a sleep too early.
static ALONE: Mutex<()> = Mutex::new(());

struct Machine {
    _alone: MutexGuard<'static, ()>,
    world: Rc<RefCell<World>>,
    stack: Stack,
}

#[repr(align(4))]
struct Aligned([u8; 1024]);

impl Machine {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        NOW_NS.set(0);
        ALARM_NS.set(None);
        let world = World::new(256);
        let timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |at_ns| ALARM_NS.set(at_ns) };
        let stack = Stack::new(OneThread, timer, TestHost::new(&world), Config::DEFAULT);
        stack.with(|engine| engine.set_card_params(Some(target(256))));
        Machine { _alone: alone, world, stack }
    }

    /// Acts as the instruction `wfi` with interrupts masked: time passes until the controller's
    /// interrupt if a phase is running, otherwise until the alarm. Panics if neither would ever
    /// come.
    fn wait_for_interrupt(&self) {
        NOW_NS.set(NOW_NS.get() + 1_000);
        if !self.world.borrow().running() {
            let alarm_ns = ALARM_NS.get().expect("asleep for ever: nothing runs, and no alarm is set");
            NOW_NS.set(NOW_NS.get().max(alarm_ns));
        }
    }

    /// Makes each kind of blocking call with this `idle`.
    fn each_way(&self, mut idle: impl FnMut(&Idle)) {
        let disk = BlockDevice::new(&self.stack);
        let mut memory = Aligned([7; 1024]);
        assert_eq!(disk.write_blocking(4, &memory.0, &mut idle), Ok(2));
        assert_eq!(disk.flush_blocking(&mut idle), Ok(()));
        memory.0.fill(0);
        assert_eq!(disk.read_blocking(4, &mut memory.0, &mut idle), Ok(2));
        assert_eq!(memory.0, [7; 1024]);
        let read = Request::new(Kind::Read { lba: 4, blocks: 2 }, buffer(2, 0));
        let Completion { result, buf, .. } = self.stack.blocking(read, &mut idle);
        assert!(result.is_ok() && buf.iter().all(|&byte| byte == 7));
        let twice = async {
            self.stack.command(send_status(1), 1_000_000).await?;
            self.stack.pause(50_000).await?;
            self.stack.command(send_status(1), 1_000_000).await
        };
        assert!(self.stack.block_on(twice, &mut idle).is_ok());
    }
}

#[test]
fn with_interrupts_masked_no_call_sleeps_on_its_result() {
    let machine = Machine::new();
    let mut sleeps = 0;
    machine.each_way(|idle| {
        assert!(idle.may_sleep(), "no other context moves the stack");
        machine.wait_for_interrupt();
        sleeps += 1;
    });
    assert!((8..40).contains(&sleeps), "{sleeps}");
}

/// Tests the interrupt handler that completes the request after the call has polled its future and
/// before the call sleeps.
#[test]
fn an_interrupt_handler_that_ends_the_request_forbids_the_sleep() {
    let machine = Machine::new();
    let mut forbidden = 0;
    machine.each_way(|idle| {
        assert!(idle.may_sleep(), "nothing has happened yet");
        machine.wait_for_interrupt();
        machine.stack.turn();
        // A call that is not over yet gets another interrupt, or has a deadline.
        let due_ns = machine.stack.with(|engine| engine.next_deadline_ns());
        let over = !machine.world.borrow().running() && due_ns.is_none();
        assert!(!over || !idle.may_sleep(), "asleep for ever");
        forbidden += u32::from(!idle.may_sleep());
    });
    assert!(forbidden >= 5, "{forbidden}");
}

/// Tests a second future that `idle` polls, such as the supervisor of a card: its waker must end
/// the sleep as that of the call's own future does.
#[test]
fn a_future_polled_in_idle_ends_the_sleep_too() {
    let machine = Machine::new();
    let stack = &machine.stack;
    let mut beside = pin!(stack.command(send_status(1), 1_000_000));
    let kept = Cell::new(false);
    let (mut looks, mut sleeps) = (0, 0);
    // Pending until `idle` has seen the end of `beside`.
    let main = poll_fn(|_| if kept.get() { Poll::Ready(()) } else { Poll::Pending });
    stack.block_on(main, |idle| {
        looks += 1;
        let mut context = Context::from_waker(Idle::waker());
        if !kept.get() && beside.as_mut().poll(&mut context).is_ready() {
            kept.set(true);
        } else if idle.may_sleep() {
            sleeps += 1;
            machine.wait_for_interrupt();
            stack.on_irq();
            assert!(!idle.may_sleep(), "the command is over, and this thread would sleep");
        }
    });
    assert_eq!((looks, sleeps), (2, 1));
}

#[test]
fn calls_inside_a_call_forbid_its_sleep_and_no_more() {
    let machine = Machine::new();
    let outer = machine.stack.command(send_status(1), 1_000_000);
    let mut nested = 0;
    let result = machine.stack.block_on(outer, |idle| {
        let inner = machine.stack.command(send_status(1), 1_000_000);
        let inner = machine.stack.block_on(inner, |inner| {
            assert!(!idle.may_sleep(), "the outer call cannot know whose wake-up it was");
            assert!(inner.may_sleep());
            machine.wait_for_interrupt();
        });
        assert!(inner.is_ok() && !idle.may_sleep());
        nested += 1;
    });
    assert!(result.is_ok());
    assert_eq!(nested, 1);
}

#[test]
fn a_refused_call_never_sleeps() {
    let machine = Machine::new();
    let disk = BlockDevice::new(&machine.stack);
    let mut memory = Aligned([0; 1024]);
    let refused = disk.read_blocking(256, &mut memory.0, |_| panic!("asleep over a refused request"));
    assert_eq!(refused, Err(Error::OutOfRange { lba: 256, sectors: 256 }));
}
