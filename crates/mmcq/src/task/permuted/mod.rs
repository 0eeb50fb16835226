//! Tests of calls from several threads and interrupts under loom, a tool that runs every
//! interleaving; here those with at most three preemptions.
//!
//! In these tests a thread stands for an interrupt handler. It may run at any moment, also at the
//! same time as the thread that it interrupts, as on a machine with several cores. Run by
//! `tools/loom.sh`.

extern crate std;

mod rig;
mod sleep;

use super::blocking::Quiesce;
use super::*;
use crate::spec::command::send_status;
use core::future::Future;
use core::pin::{Pin, pin};
use core::ptr::NonNull;
use core::task::{Context, Poll};
use loom::cell::UnsafeCell as Watched;
use loom::sync::Mutex;
use loom::thread;
use rig::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Wake;
use std::vec;
use std::vec::Vec;

#[test]
fn loom_a_thread_waits_and_the_interrupt_completes() {
    permuted("one request", || {
        let rig = Rig::<2>::new(false);
        let irq = rig.interrupts(1);
        reads(&rig.stack, 7);
        assert_eq!(rig.moved(), 1);
        irq.join().unwrap();
        rig.end();
    });
}

/// Tests a slot that is used again: the second request gets the slot of the first while the
/// interrupt may still be looking for the first one's waker.
#[test]
fn loom_a_slot_is_used_again() {
    permuted("two requests, one slot", || {
        let rig = Rig::<1>::new(false);
        let irq = rig.interrupts(2);
        reads(&rig.stack, 7);
        reads(&rig.stack, 9);
        assert_eq!(rig.moved(), 2);
        irq.join().unwrap();
        rig.end();
    });
}

#[test]
fn loom_two_threads_share_one_queue() {
    permuted("two threads", || {
        let rig = Rig::<2>::new(false);
        let irq = rig.interrupts(2);
        let stack = rig.stack.clone();
        let other = thread::spawn(move || reads(&stack, 100));
        reads(&rig.stack, 7);
        other.join().unwrap();
        irq.join().unwrap();
        assert_eq!(rig.moved(), 2);
        rig.end();
    });
}

/// Tests two interrupt handlers that run at the same time: the controller's and the alarm's, for
/// example.
#[test]
fn loom_two_interrupts_at_once() {
    permuted("two interrupts", || {
        let rig = Rig::<2>::new(false);
        let irq = rig.interrupts(1);
        let stack = rig.stack.clone();
        let alarm = thread::spawn(move || stack.poll());
        reads(&rig.stack, 7);
        irq.join().unwrap();
        alarm.join().unwrap();
        rig.end();
    });
}

#[test]
fn loom_a_deferred_completion_is_asked_for() {
    permuted("deferred completion", || {
        let rig = Rig::<2>::new(true);
        let rings = Signal::new();
        RINGS.set(Some(rings.clone()));
        let irq = rig.interrupts(1);
        let stack = rig.stack.clone();
        let alarm = thread::spawn(move || {
            rings.wait();
            stack.poll();
        });
        reads(&rig.stack, 7);
        irq.join().unwrap();
        alarm.join().unwrap();
        rig.end();
    });
}

#[test]
fn loom_a_waker_is_replaced_while_its_request_completes() {
    permuted("replaced waker", || {
        let rig = Rig::<2>::new(false);
        let irq = rig.interrupts(1);
        let (buf, at) = buffer();
        let mut op = pin!(rig.stack.request(read(7, buf)));
        let first = op.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let done = match first {
            Poll::Ready(done) => done,
            Poll::Pending => block_on(op),
        };
        assert!(done.result.is_ok() && done.buf.as_non_null() == at);
        irq.join().unwrap();
        rig.end();
    });
}

#[test]
fn loom_a_future_is_dropped_while_its_request_completes() {
    permuted("dropped future", || {
        let rig = Rig::<2>::new(false);
        let irq = rig.interrupts(1);
        let (buf, at) = buffer();
        let claim = buf.claim();
        let mut back = vec![];
        {
            let mut op = pin!(rig.stack.request(read(7, buf)));
            if let Poll::Ready(done) = op.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                back.extend([done.buf]);
            }
        }
        irq.join().unwrap();
        assert_eq!(rig.moved(), 1);
        back.extend(rig.stack.with(|engine| engine.reclaim(claim)));
        let back: Vec<_> = back.iter().map(|buf| (buf.as_non_null(), buf.len_bytes())).collect();
        assert_eq!(back, [(at, 512)]);
        assert!(rig.stack.with(|engine| engine.reclaim(claim)).is_none(), "the buffer came back twice");
        rig.end();
    });
}

/// Tests requests that are cancelled while the interrupt may be completing them: the buffer comes
/// back at once or by `reclaim`, never by both.
#[test]
fn loom_a_request_is_cancelled_while_it_completes() {
    permuted("cancelled request", || {
        let rig = Rig::<2>::new(false);
        let irq = rig.interrupts(1);
        let (first, second) = (buffer(), buffer());
        let claims = [first.0.claim(), second.0.claim()];
        let ids = rig.stack.submit(read(7, first.0)).and_then(|id| {
            // The second request waits behind the first.
            Ok((id, rig.stack.submit(read(100, second.0))?))
        });
        let Ok((first_id, second_id)) = ids else { panic!("refused") };
        let mut back = vec![];
        for id in [second_id, first_id] {
            back.extend(rig.stack.with(|engine| engine.cancel(id)).map(|buf| buf.as_non_null()));
        }
        irq.join().unwrap();
        // The second request may have been started by the interrupt that ended the first.
        if rig.ended.load(Relaxed) < 2 && rig.stack.with(|engine| !engine.is_idle()) {
            rig.stack.on_irq();
        }
        let lost = claims.iter().filter_map(|&claim| rig.stack.with(|engine| engine.reclaim(claim)));
        back.extend(lost.map(|buf| buf.as_non_null()));
        back.sort();
        let mut expected = vec![first.1, second.1];
        expected.sort();
        assert_eq!(back, expected);
        rig.end();
    });
}

#[test]
fn loom_a_card_interrupt_finds_its_waiter() {
    permuted("card interrupt", || {
        let rig = Rig::<1>::new(false);
        let (stack, line) = (rig.stack.clone(), rig.line.clone());
        let card = thread::spawn(move || {
            stack.with(|engine| {
                // SAFETY: a setting of the test.
                unsafe { engine.host_mut() }.unwrap().asks = 2;
                engine.unmask_card_irq();
            });
            for _ in 0..2 {
                line.wait();
                stack.on_irq();
            }
        });
        let mut interrupt = crate::sdio::CardInterrupt::of(
            &*rig.stack,
            crate::engine::CardNumber::ANY,
            crate::card::quirk::Quirks::NONE,
        );
        for _ in 0..2 {
            block_on(interrupt.wait()).unwrap();
            rig.stack.with(|engine| {
                assert!(engine.take_card_irq(), "reported, and then not there");
                // SAFETY: a setting of the test.
                unsafe { engine.host_mut() }.unwrap().asks -= 1;
                engine.unmask_card_irq();
            });
        }
        card.join().unwrap();
        rig.end();
    });
}

/// Tests that a future that is dropped while it waits does not lose the card interrupt: the next
/// future gets it.
#[test]
fn loom_a_dropped_waiter_loses_no_card_interrupt() {
    permuted("dropped waiter", || {
        let rig = Rig::<1>::new(false);
        let (stack, line) = (rig.stack.clone(), rig.line.clone());
        let card = thread::spawn(move || {
            stack.with(|engine| {
                // SAFETY: a setting of the test.
                unsafe { engine.host_mut() }.unwrap().asks = 1;
                engine.unmask_card_irq();
            });
            line.wait();
            stack.on_irq();
        });
        let mut interrupt = crate::sdio::CardInterrupt::of(
            &*rig.stack,
            crate::engine::CardNumber::ANY,
            crate::card::quirk::Quirks::NONE,
        );
        let _ = pin!(interrupt.wait()).poll(&mut Context::from_waker(Waker::noop()));
        block_on(interrupt.wait()).unwrap();
        card.join().unwrap();
        rig.end();
    });
}

#[test]
fn loom_lent_memory_is_ours_when_the_call_returns() {
    permuted("lent memory", || {
        let rig = Rig::<1>::new(false);
        let (stack, line) = (rig.stack.clone(), rig.line.clone());
        let irq = thread::spawn(move || {
            line.wait();
            stack.on_irq();
        });
        let mut memory = [0u64; 64];
        let bytes = NonNull::from(memory.as_bytes());
        let request = Request::new(Kind::Read { lba: 7, blocks: 1 }, DmaBuf::EMPTY);
        // SAFETY: `memory` outlives the call.
        let output = unsafe { rig.stack.lent(request, bytes, |_| thread::yield_now()) };
        assert_eq!(output.map(|output| output.bytes), Ok(512));
        rig.memory.with_mut(|_| ());
        irq.join().unwrap();
        assert_eq!(rig.moved(), 1);
        rig.end();
    });
}

/// Tests unwinding out of a call with lent memory while the interrupt may be ending its transfer.
#[test]
fn loom_lent_memory_is_ours_when_the_call_unwinds() {
    permuted("lent memory, unwound", || {
        let rig = Rig::<1>::new(false);
        let (stack, line) = (rig.stack.clone(), rig.line.clone());
        let irq = thread::spawn(move || {
            line.wait();
            stack.on_irq();
        });
        let mut memory = [0u64; 64];
        let bytes: NonNull<[u8]> = NonNull::from(memory.as_bytes());
        // SAFETY: the memory outlives what follows.
        let buf = unsafe { DmaBuf::lent(bytes.cast(), 512) };
        let claim = buf.claim();
        let Ok(id) = rig.stack.submit(read(7, buf)) else { panic!("refused") };
        let op = RequestFuture { stack: &rig.stack, at: At::In(id) };
        drop(Quiesce { op, memory: claim });
        rig.memory.with_mut(|_| ());
        irq.join().unwrap();
        assert!(rig.stack.with(|engine| engine.reclaim(claim)).is_none(), "lent memory was given away");
        rig.end();
    });
}

/// A waker whose call polls its task at once, in the context of the call.
struct Polls(Arc<IrqTask<LoomLock>>);

impl Wake for Polls {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        assert!(!self.0.poll(&waker), "more turns than there are reasons for");
    }
}

#[test]
fn loom_a_scope_ends_while_its_task_is_polled() {
    permuted("end of a scope", || {
        let task = Arc::new(IrqTask::new(LoomLock::new()));
        let other = {
            let task = task.clone();
            thread::spawn(move || task.poll(Waker::noop()))
        };
        let polls = Watched::new(0u32);
        // A future for which two polls at once, or one after the scope, would be a data race.
        struct Counts<'a>(&'a Watched<u32>);
        // SAFETY: loom watches the cell.
        unsafe impl Send for Counts<'_> {}
        impl Future for Counts<'_> {
            type Output = ();
            fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
                self.0.with_mut(|polls| {
                    thread::yield_now();
                    // SAFETY: loom watches the cell.
                    unsafe { *polls += 1 }
                });
                Poll::Pending
            }
        }
        task.scope(Counts(&polls), Waker::noop(), || ());
        // SAFETY: loom watches the cell.
        let polled = polls.with(|polls| unsafe { *polls });
        assert!((1..=2).contains(&polled));
        assert!(task.is_finished());
        other.join().unwrap();
    });
}

#[test]
fn loom_each_call_that_asks_for_a_poll_gets_one() {
    permuted("asked for a poll", || {
        let task = Arc::new(IrqTask::new(LoomLock::new()));
        let ready = Arc::new(Mutex::new(false));
        let waits = {
            let ready = ready.clone();
            core::future::poll_fn(move |_| match *ready.lock().unwrap() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
        };
        let other = {
            let task = task.clone();
            thread::spawn(move || {
                *ready.lock().unwrap() = true;
                task.poll(Waker::noop());
            })
        };
        task.scope(waits, Waker::noop(), || {
            other.join().unwrap();
            assert!(task.is_finished(), "asked to poll while a poll was ending, and no poll came");
        });
    });
}

#[test]
fn loom_straight_line_code_in_the_interrupt() {
    permuted("a task over the stack", || {
        let rig = Rig::<1>::new(false);
        let irq = rig.interrupts(2);
        let task = Arc::new(IrqTask::new(LoomLock::new()));
        let waker = Waker::from(Arc::new(Polls(task.clone())));
        let stack = rig.stack.clone();
        let chain = async {
            for rca in 1..=2 {
                assert!(stack.command(send_status(rca), 1_000_000).await.is_ok());
            }
        };
        task.scope(chain, &waker, || {
            irq.join().unwrap();
            assert!(task.is_finished(), "a step was lost");
        });
        rig.end();
    });
}
