//! Tests of executors that poll at any time and with any waker: no result is lost, and none is
//! delivered twice.

use crate::bench::{Bench, Woken, poll_once};
use crate::fuzz;
use crate::lock::{self, Interrupted, Plan, What};
use crate::support::{TestHost, World, caps, target};
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::engine::{Completion, Error, Kind, Request};
use mmcq::host::BusyDetect;
use mmcq::task::RequestFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

const BLOCKS: u64 = 24;
/// Number of blocks that each task uses.
const SHARE: u64 = 8;
const EVENTS_MAX: u32 = 400;

type Request_<'a> = Pin<Box<RequestFuture<'a, (Interrupted, TestHost), 4>>>;

/// A task that makes one request after the other in its own part of the card.
struct Task<'a> {
    bench: &'a Bench<TestHost>,
    base: u64,
    /// The content of the task's blocks; `None` after a write that was cancelled while under way,
    /// so that a block has its old or its new content.
    blocks: Vec<Option<u8>>,
    op: Option<(Request_<'a>, Kind, u8)>,
    /// The flag of the waker that was used last; earlier wakers need not be woken.
    flag: Arc<Woken>,
    done: u32,
    next_fill: u8,
}

impl<'a> Task<'a> {
    fn begin(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let at = u.int_in_range(0..=SHARE - 1)?;
        let blocks = u.int_in_range(1..=SHARE - at)? as u32;
        let lba = self.base + at;
        self.next_fill = self.next_fill.wrapping_add(1).max(1);
        let (kind, bytes) = match u.int_in_range(0..=4)? {
            0 | 1 => (Kind::Read { lba, blocks }, blocks * 512),
            2 | 3 => (Kind::Write { lba, blocks }, blocks * 512),
            _ => (Kind::Flush, 8),
        };
        let fill = if matches!(kind, Kind::Write { .. }) { self.next_fill } else { 0xee };
        let buf = self.bench.buffer(bytes, fill);
        self.op = Some((Box::pin(self.bench.stack.request(Request::new(kind, buf))), kind, fill));
        self.flag = Woken::new();
        Ok(())
    }

    fn span(&mut self, lba: u64, blocks: u32) -> &mut [Option<u8>] {
        let at = (lba - self.base) as usize;
        &mut self.blocks[at..at + blocks as usize]
    }

    /// Polls the request, with a new waker if `fresh`. If the request has ended, checks its result.
    fn poll(&mut self, fresh: bool) {
        if fresh {
            self.flag = Woken::new();
        }
        self.flag.take();
        let waker = Waker::from(self.flag.clone());
        let Some((op, kind, fill)) = &mut self.op else { return };
        let (kind, fill) = (*kind, *fill);
        let Some(done) = poll_once(op.as_mut(), &waker) else { return };
        assert!(poll_once(op.as_mut(), &waker).is_none(), "delivered twice");
        self.op = None;
        self.done += 1;
        self.judge(kind, fill, done);
    }

    fn judge(&mut self, kind: Kind, fill: u8, done: Completion) {
        if done.result == Err(Error::Full) {
            // Cancelled requests have all the slots, so this request was refused.
            return self.bench.back(done.buf);
        }
        assert!(done.result.is_ok(), "{kind:?}: {:?}", done.result);
        match kind {
            Kind::Read { lba, blocks } => {
                for (block, expected) in done.buf.chunks(512).zip(self.span(lba, blocks)) {
                    let wrong = expected.is_some_and(|expected| block[0] != expected);
                    assert!(!wrong && block.iter().all(|&byte| byte == block[0]), "{kind:?}: {expected:?}");
                }
            }
            Kind::Write { lba, blocks } => self.span(lba, blocks).fill(Some(fill)),
            _ => {}
        }
        self.bench.back(done.buf);
    }

    /// Drops the request's future. If the future was never polled, its buffer is dropped with it.
    fn drop_op(&mut self) {
        self.poll(false);
        if let Some((op, kind, _)) = self.op.take() {
            drop(op);
            if let Kind::Write { lba, blocks } = kind {
                self.span(lba, blocks).fill(None);
            }
        }
    }
}

fn strange(u: &mut Unstructured<'_>, events: &mut u64) -> Result<()> {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps = caps()
        .defer_completion(u.arbitrary()?)
        .continue_data(u.arbitrary()?)
        .auto_stop(u.arbitrary()?)
        .auto_count(u.arbitrary()?)
        .busy(*u.choose(&[BusyDetect::Interrupt, BusyDetect::Status, BusyDetect::Level])?);
    world.borrow_mut().busy_polls = u.int_in_range(0..=2)?;
    let bench = Rc::new(Bench::new(TestHost::new(&world)));
    bench.stack.with(|engine| engine.set_card_params(Some(target(BLOCKS))));
    let (first, second) = (u.int_in_range(0..=300)?, Some(u.int_in_range(0..=30)?));
    lock::arm(bench.clone(), Plan { what: What::Turn, first, second });
    let task = |number| Task {
        bench: &bench,
        base: number * SHARE,
        blocks: vec![Some(0); SHARE as usize],
        op: None,
        flag: Woken::new(),
        done: 0,
        next_fill: 50 * number as u8,
    };
    let mut tasks: Vec<Task> = (0..=u.int_in_range(1..=2)?).map(task).collect();
    for task in &mut tasks {
        task.begin(u)?;
    }
    // The number of events is bounded. The card stays busy for a number of polls, and the engine
    // polls it at ever longer intervals, so a run without this bound would take very long.
    for _ in 0..EVENTS_MAX {
        if u.is_empty() {
            break;
        }
        *events += 1;
        // A client that cancels requests takes their buffers back at once. If it did not, new
        // requests would take the slots of these buffers, and the buffers would be lost.
        while let Some(buf) = bench.reclaimed() {
            bench.back(buf);
        }
        let which = u.choose_index(tasks.len())?;
        let task = &mut tasks[which];
        match u.int_in_range(0..=9)? {
            // Spurious, most of them.
            0..=2 => task.poll(false),
            3 => task.poll(true),
            4 => task.drop_op(),
            5 => bench.stack.on_irq(),
            6 => bench.stack.poll(),
            _ => drop(bench.idle()),
        }
        if tasks[which].op.is_none() {
            tasks[which].begin(u)?;
        }
    }
    // From here on an ordinary executor: a task that is not woken is not polled.
    for _ in 0..10_000 {
        if tasks.iter().all(|task| task.op.is_none()) {
            break;
        }
        let mut ran = false;
        for task in tasks.iter_mut().filter(|task| task.op.is_some()) {
            if task.flag.take() {
                ran = true;
                task.poll(false);
            }
        }
        let woken = || tasks.iter().any(|task| task.op.is_some() && task.flag.is_set());
        assert!(ran || bench.idle() || woken(), "a task waits, and nothing will ever happen");
    }
    assert!(tasks.iter().all(|task| task.op.is_none()), "no end");
    for task in &tasks {
        for (at, block) in (0..).zip(&task.blocks) {
            let from = (task.base + at) as usize * 512;
            let medium = world.borrow().medium[from];
            assert!(block.is_none_or(|block| block == medium), "block {at} of the card has other data");
        }
    }
    drop(tasks);
    lock::disarm();
    bench.end();
    Ok(())
}

#[test]
fn fuzz_strange_executors() {
    let mut events = 0u64;
    fuzz::fuzz("fuzz_strange_executors", 500, |u| {
        lock::disarm();
        strange(u, &mut events)
    });
    println!("fuzz_strange_executors: {events} events");
}
