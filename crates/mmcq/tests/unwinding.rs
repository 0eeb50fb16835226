//! Tests of calls that unwind: functions of the platform or of the program panic in the middle of a
//! call, and safe code may catch the panic.

#[path = "support/one_thread.rs"]
mod one_thread;
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use mmcq::block::BlockDevice;
use mmcq::engine::{Config, Kind, Request};
use mmcq::sched::{Choice, Fifo, Policy, Waiting};
use mmcq::task::{Stack, Timer};
use std::cell::Cell;
use support::{TestHost, World, buffer, target};

thread_local! {
    /// Number of calls of the platform's functions until one panics.
    static CALLS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
}

fn may_panic() {
    let left = CALLS_LEFT.get();
    CALLS_LEFT.set(if left == 0 { u32::MAX } else { left.saturating_sub(u32::from(left != u32::MAX)) });
    assert!(left != 0, "the platform's own trouble");
}

/// A timer whose clock advances by a millisecond at each read.
const RUNNING: Timer = Timer {
    now_ns: || {
        one_thread::NOW_NS.set(one_thread::NOW_NS.get() + 1_000_000);
        (one_thread::TIMER.now_ns)()
    },
    set_alarm: |_| {},
};

/// A scheduler that may panic.
struct Panics;

impl Policy for Panics {
    fn arrived(&mut self, _: &Waiting, _: u64) {
        may_panic();
    }
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut offered: I, _: u64) -> Choice {
        offered.next().map_or(Choice::IdleUntil(0), |waiting| Choice::Go(waiting.index))
    }
    fn sent(&mut self, _: &Waiting, _: u64) {
        may_panic();
    }
    fn done(&mut self, _: &Waiting, _: u64) {
        may_panic();
    }
}

fn read(lba: u64) -> Request {
    Request::new(Kind::Read { lba, blocks: 1 }, buffer(1, 0))
}

/// Tests panics at any place of a submission with lent memory: in the timer, in the policy, or in a
/// function that the driver calls. When the call ends, no controller uses the memory, and no slot
/// refers to it.
#[test]
fn a_call_that_unwinds_out_of_its_submission_leaves_no_memory_behind() {
    let timer = Timer {
        now_ns: || {
            may_panic();
            (RUNNING.now_ns)()
        },
        set_alarm: |_| may_panic(),
    };
    let mut unwound = 0;
    for calls in 0..8 {
        let world = World::new(256);
        let host = TestHost::new(&world);
        let stack =
            Stack::<(_, _, _), 4>::with_policy(one_thread::OneThread, timer, host, Config::DEFAULT, Panics);
        let stack: &'static Stack<(_, _, _), 4> = Box::leak(Box::new(stack));
        stack.with(|engine| engine.set_card_params(Some(target(256))));
        world.borrow_mut().called = Some(may_panic);
        let mut words = [0u64; 64];
        // SAFETY: bytes of words.
        let (_, memory, _) = unsafe { words.align_to_mut::<u8>() };
        CALLS_LEFT.set(calls);
        let lends = std::panic::AssertUnwindSafe(|| {
            BlockDevice::new(stack).read_blocking(0, memory, |_| CALLS_LEFT.set(u32::MAX))
        });
        unwound += u32::from(std::panic::catch_unwind(lends).is_err());
        CALLS_LEFT.set(u32::MAX);
        assert!(!world.borrow().running(), "after {calls} calls: the controller still has the memory");
        assert_eq!(stack.with(|engine| engine.slots_in_use()), 0, "after {calls} calls");
        let next = stack.blocking(read(9), |_| ());
        assert!(next.result.is_ok(), "after {calls} calls: {:?}", next.result);
    }
    assert!(unwound >= 5, "{unwound}");
}

/// Tests two requests that go in one transfer, when the policy panics between them: the call with
/// the lent memory ends.
#[test]
fn a_call_that_unwinds_between_the_requests_of_a_transfer_comes_to_its_end() {
    // A call that never returns is what this is about.
    let _alive = watchdog::watch();
    let mut unwound = 0;
    for calls in 0..8 {
        let call = std::thread::spawn(move || {
            let world = World::new(256);
            let host = TestHost::new(&world);
            let stack: Stack<(_, _, _), 4> =
                Stack::with_policy(one_thread::OneThread, RUNNING, host, Config::DEFAULT, Panics);
            stack.with(|engine| engine.set_card_params(Some(target(256))));
            stack.with(|engine| engine.halt());
            stack.with(|engine| engine.submit(read(1), 1)).unwrap();
            let mut words = [0u64; 64];
            // SAFETY: bytes of words.
            let (_, memory, _) = unsafe { words.align_to_mut::<u8>() };
            let lends = std::panic::AssertUnwindSafe(|| {
                BlockDevice::new(&stack).read_blocking(0, memory, |_| {
                    CALLS_LEFT.set(calls);
                    stack.with(|engine| engine.resume(2));
                })
            });
            let unwound = std::panic::catch_unwind(lends).is_err();
            CALLS_LEFT.set(u32::MAX);
            // The other request may have been started again, or has ended.
            assert!(stack.with(|engine| engine.slots_in_use()) <= 1, "after {calls} calls");
            assert!(stack.blocking(read(9), |_| ()).result.is_ok(), "after {calls} calls");
            unwound
        });
        unwound += u32::from(call.join().unwrap());
    }
    assert!(unwound >= 4, "{unwound}");
}

/// Tests a call that unwinds on a halted engine: the abort puts its write back into the queue,
/// where it would wait for ever, so the call removes it.
#[test]
fn a_call_that_unwinds_on_a_halted_engine_comes_to_its_end() {
    for turns in 0..12 {
        let world = World::new(256);
        world.borrow_mut().caps.max_blocks = 1;
        let host = TestHost::new(&world);
        let stack: Stack<(_, _, _), 4> =
            Stack::with_policy(one_thread::OneThread, RUNNING, host, Config::DEFAULT, Fifo);
        stack.with(|engine| engine.set_card_params(Some(target(256))));
        let mut words = [0u64; 256];
        // SAFETY: bytes of words.
        let (_, memory, _) = unsafe { words.align_to_mut::<u8>() };
        let mut left = turns;
        let lends = std::panic::AssertUnwindSafe(|| {
            BlockDevice::new(&stack).write_blocking(0, memory, |_| {
                if left == 0 {
                    stack.with(|engine| engine.halt());
                    panic!("the program's own");
                }
                left -= 1;
            })
        });
        let unwound = std::panic::catch_unwind(lends).is_err();
        assert!(!world.borrow().running(), "after {turns} turns");
        assert_eq!(stack.with(|engine| engine.slots_in_use()), 0, "after {turns} turns");
        stack.with(|engine| engine.resume(1 << 40));
        let next = stack.blocking(read(9), |_| ());
        assert!(next.result.is_ok(), "after {turns} turns: {:?}", next.result);
        assert!(unwound || turns > 3);
    }
}

/// Tests a blocking call from inside another call, which is refused, when setting the alarm panics:
/// the call unwinds and waits for nothing, because it has lent no memory yet.
#[test]
fn a_nested_blocking_call_whose_alarm_panics_unwinds() {
    let timer = Timer { now_ns: one_thread::TIMER.now_ns, set_alarm: |_| may_panic() };
    let world = World::new(256);
    let host = TestHost::new(&world);
    let stack: Stack<(_, _, _), 4> =
        Stack::with_policy(one_thread::OneThread, timer, host, Config::DEFAULT, Fifo);
    CALLS_LEFT.set(u32::MAX);
    stack.with(|engine| engine.set_card_params(Some(target(256))));
    let nested = std::panic::AssertUnwindSafe(|| {
        stack.with(|_| {
            CALLS_LEFT.set(0);
            let mut words = [0u64; 64];
            // SAFETY: bytes of words.
            let (_, memory, _) = unsafe { words.align_to_mut::<u8>() };
            let device = BlockDevice::new(&stack);
            device.read_blocking(0, memory, |_| CALLS_LEFT.set(u32::MAX))
        })
    });
    assert!(std::panic::catch_unwind(nested).is_err(), "the alarm was asked for, and panicked");
    CALLS_LEFT.set(u32::MAX);
}
