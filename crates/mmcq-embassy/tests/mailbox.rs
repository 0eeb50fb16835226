//! Tests of the mailbox between an engine and a foreign bus: wakers that call the mailbox again,
//! and whether data stay in the mailbox.

use crate::{tasks, world};
use aligned::{A4, Aligned};
use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up_sd};
use mmcq::engine::{Config, DmaBuf};
use mmcq::task::{Stack, Timer};
use mmcq_embassy::{Bus, BusHost, CriticalSection, Mailbox};
use sdio::MmcError;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use tasks::Hanging;
use world::{World, now_ns};

const TIMER: Timer = Timer { now_ns, set_alarm: |_| {} };

fn memory(blocks: usize, fill: u8) -> DmaBuf {
    DmaBuf::from_static(Box::leak(vec![fill; blocks * 512].into_boxed_slice()))
}

fn over<'m, 'b>(host: BusHost<'m, 'b>) -> Stack<(CriticalSection, BusHost<'m, 'b>), 8> {
    Stack::new(CriticalSection, TIMER, host, Config::DEFAULT)
}

/// A waker whose functions read the state of the mailbox and try to take the mailbox's waker.
#[derive(Clone, Copy)]
struct Visitor {
    mailbox: &'static Mailbox<'static>,
    below: &'static world::Stack,
}

type Above = Stack<(CriticalSection, BusHost<'static, 'static>), 8>;

thread_local! {
    /// The stack that wakes the runner.
    static ABOVE: Cell<Option<&'static Above>> = const { Cell::new(None) };
    /// How many times the stack has woken the runner from inside one of its own calls, and how many
    /// times in all.
    static NESTED: Cell<[u32; 2]> = const { Cell::new([0; 2]) };
    static VISITOR: Cell<Option<Visitor>> = const { Cell::new(None) };
    /// Number of calls of clone, wake and drop.
    static CALLS: Cell<[u32; 3]> = const { Cell::new([0; 3]) };
}

fn visit(function: usize) {
    CALLS.set({
        let mut calls = CALLS.get();
        calls[function] += 1;
        calls
    });
    let Some(Visitor { mailbox, below }) = VISITOR.get() else { return };
    assert!(format!("{mailbox:?}").starts_with("Mailbox"));
    let taken = mailbox.connect(Bus::new(below, DmaBuf::EMPTY));
    assert!(matches!(taken, Err(MmcError::Busy)));
}

const VISITS: RawWakerVTable = RawWakerVTable::new(
    |data| {
        visit(0);
        RawWaker::new(data, &VISITS)
    },
    |_| {
        come_back();
        visit(1);
        visit(2);
    },
    |_| {
        come_back();
        visit(1);
    },
    |_| visit(2),
);

/// Calls the stack as a waker does that polls its task at once.
fn come_back() {
    let Some(above) = ABOVE.get() else { return };
    let nested = above.with(|engine| engine.is_nested());
    let [inside, all] = NESTED.get();
    NESTED.set([inside + u32::from(nested), all + 1]);
}

/// Returns two different wakers, so that one can replace the other.
fn visiting_wakers() -> [Waker; 2] {
    static NAMES: [u8; 2] = [0; 2];
    // SAFETY: the functions fulfil the contract of a waker; there is nothing to count or to free.
    [0, 1].map(|at| unsafe { Waker::from_raw(RawWaker::new((&raw const NAMES[at]).cast(), &VISITS)) })
}

#[test]
fn a_waker_may_come_back_into_the_mailbox() {
    let _alone = tasks::exclusive();
    let world = World::new("sdhc-16g-hs");
    let below = world.stack();
    let buffer = Box::leak(Box::new(Aligned::<A4, _>([0u8; 4096])));
    let mailbox: &'static Mailbox<'static> = Box::leak(Box::new(Mailbox::new(buffer)));
    let (host, mut runner) = mailbox.connect(Bus::new(below, memory(8, 0))).unwrap();
    let stack = over(host);
    let wakers = visiting_wakers();
    VISITOR.set(Some(Visitor { mailbox, below }));
    {
        let mut run = pin!(runner.run(&stack));
        let mut turns = 0;
        let mut step = || {
            turns += 1;
            below.turn();
            let _: Poll<_> = run.as_mut().poll(&mut Context::from_waker(&wakers[turns / 3 % 2]));
        };
        stack.block_on(bring_up_sd(&stack, memory(1, 0), Options::DEFAULT), |_| step()).0.unwrap();
    }
    assert!(CALLS.get().iter().all(|&calls| calls > 10), "clone, wake, drop: {:?}", CALLS.get());
    // The runner's future was dropped, and with it the waker of its task.
    let [cloned, _, dropped] = CALLS.get();
    assert_eq!(cloned, dropped, "a waker stays behind");
    VISITOR.set(None);
}

/// Tests that the stack wakes the runner only after its lock was released: a task that is woken and
/// polled under the lock could not use the stack.
#[test]
fn the_runner_is_woken_when_the_stack_is_free() {
    let _alone = tasks::exclusive();
    let world = World::new("sdhc-16g-hs");
    let below = world.stack();
    let buffer = Box::leak(Box::new(Aligned::<A4, _>([0u8; 4096])));
    let mailbox: &'static Mailbox<'static> = Box::leak(Box::new(Mailbox::new(buffer)));
    let (host, mut runner) = mailbox.connect(Bus::new(below, memory(8, 0))).unwrap();
    let stack: &'static Above = Box::leak(Box::new(over(host)));
    let [waker, _] = visiting_wakers();
    ABOVE.set(Some(stack));
    {
        let mut run = pin!(runner.run(stack));
        let mut step = || {
            below.turn();
            let _: Poll<_> = run.as_mut().poll(&mut Context::from_waker(&waker));
        };
        stack.block_on(bring_up_sd(stack, memory(1, 0), Options::DEFAULT), |_| step()).0.unwrap();
        let device = BlockDevice::new(stack);
        assert!(stack.block_on(device.read(5, memory(8, 0)), |_| step()).0.is_ok());
    }
    ABOVE.set(None);
    let [inside, all] = NESTED.get();
    assert!(inside == 0 && all > 10, "{inside} of {all}");
}

/// A case of the test: what happens on the foreign bus after the card's bring-up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Run {
    Nothing,
    Reads,
    Writes,
    /// A call is dropped before the runner has seen its work.
    WritesUnseen,
    /// The bus never ends a read, and all futures are dropped.
    ReadsWithoutEnd,
    /// The runner's task is dropped after the bus has begun a phase.
    RunnerGoesFirst,
}

fn step(below: &world::Stack, run: &mut Option<tasks::Forever>) {
    below.turn();
    if let Some(run) = run {
        let Poll::Pending = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}

#[test]
fn the_buffer_keeps_no_data() {
    use Run::*;
    for what in [Nothing, Reads, Writes, WritesUnseen, ReadsWithoutEnd, RunnerGoesFirst] {
        let _alone = tasks::exclusive();
        let world = World::new("sdhc-16g-hs");
        let below = world.stack();
        let mut buffer = Aligned::<A4, _>([0u8; 4096]);
        {
            let mailbox = Mailbox::new(&mut buffer);
            let bus = Hanging::new(Bus::new(below, memory(8, 0)));
            let hang = bus.hang.clone();
            let (host, mut runner) = mailbox.connect(bus).unwrap();
            let stack = over(host);
            let mut run: Option<tasks::Forever> = Some(Box::pin(async { runner.run(&stack).await }));
            let step = |run: &mut Option<tasks::Forever>| step(below, run);
            let up = bring_up_sd(&stack, memory(1, 0), Options::DEFAULT);
            stack.block_on(up, |_| step(&mut run)).0.unwrap();
            let device = BlockDevice::new(&stack);
            match what {
                Nothing => {}
                Reads => {
                    let read = stack.block_on(device.read(5, memory(8, 0)), |_| step(&mut run));
                    assert!(read.0.is_ok() && read.1.iter().any(|&byte| byte != 0), "{what:?}");
                }
                Writes => {
                    let written = stack.block_on(device.write(5, memory(8, 0x5a)), |_| step(&mut run));
                    assert!(written.0.is_ok(), "{what:?}");
                }
                WritesUnseen | RunnerGoesFirst => {
                    let mut write = pin!(device.write(5, memory(8, 0x5a)));
                    assert!(write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                    if what == RunnerGoesFirst {
                        step(&mut run);
                        run = None;
                    }
                }
                ReadsWithoutEnd => {
                    hang.set(true);
                    let mut read = pin!(device.read(5, memory(8, 0)));
                    for _ in 0..5 {
                        let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        step(&mut run);
                    }
                }
            }
            drop(run);
        }
        let left = buffer.iter().filter(|&&byte| byte != 0).count();
        assert_eq!(left, 0, "{what:?}: bytes of the data that are left");
    }
}

#[test]
fn a_mailbox_is_free_when_both_halves_have_gone() {
    let _alone = tasks::exclusive();
    let world = World::new("sdhc-16g-hs");
    let below = world.stack();
    let mut buffer = Aligned::<A4, _>([0u8; 512]);
    let mailbox = Mailbox::new(&mut buffer);
    let connect = || mailbox.connect(Bus::new(below, DmaBuf::EMPTY));
    for host_goes_first in [true, false] {
        let (host, runner) = connect().unwrap();
        assert!(matches!(connect(), Err(MmcError::Busy)));
        if host_goes_first {
            drop(host);
            assert!(matches!(connect(), Err(MmcError::Busy)));
            drop(runner);
        } else {
            drop(runner);
            assert!(matches!(connect(), Err(MmcError::Busy)));
            drop(host);
        }
    }
    assert!(connect().is_ok());
}
