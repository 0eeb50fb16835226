//! Runs a stack with the model of an I/O card in virtual time, from one event to the next, by calls
//! or by simulated interrupts.

#![allow(dead_code, reason = "each test binary uses its own part")]

use crate::io_card::{IoHost, World};
use crate::one_thread::{NOW_NS, OneThread, TIMER};
use mmcq::engine::{Claim, Config, DmaBuf};
use mmcq::task::IrqTask;
use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

pub type Stack<const N: usize> = mmcq::task::Stack<(OneThread, IoHost), N>;

pub fn stack<const N: usize>(world: &Rc<RefCell<World>>) -> Stack<N> {
    Stack::new(OneThread, TIMER, IoHost::new(world), Config::DEFAULT)
}

/// Advances the time to the next event, and handles that event. Returns false if there will never
/// be one.
pub fn step<const N: usize>(stack: &Stack<N>) -> bool {
    let (running_ns, asks) = stack.with(|engine| engine.host().unwrap().due());
    let deadline_ns = stack.with(|engine| engine.next_deadline_ns());
    let irq_ns = if asks { Some(NOW_NS.get()) } else { running_ns };
    let Some(next_ns) = irq_ns.into_iter().chain(deadline_ns).min() else { return false };
    NOW_NS.set(NOW_NS.get().max(next_ns));
    if irq_ns.is_some_and(|at| at <= NOW_NS.get()) {
        stack.on_irq();
    } else {
        stack.poll();
    }
    true
}

pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Runs a future to its end, and returns its output.
pub fn run<F: Future, const N: usize>(stack: &Stack<N>, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = poll_once(future.as_mut()) {
            return output;
        }
        assert!(step(stack), "nothing will ever happen");
    }
}

/// Runs the stack until nothing is under way.
pub fn settle<const N: usize>(stack: &Stack<N>) {
    for _ in 0..1000 {
        if stack.with(|engine| engine.is_idle() && engine.next_deadline_ns().is_none()) {
            return;
        }
        step(stack);
    }
    panic!("never idle");
}

thread_local! {
    /// Claims of all buffers that this test has made.
    static CLAIMS: RefCell<Vec<Claim>> = const { RefCell::new(Vec::new()) };
}

/// Takes back the next of this test's buffers whose request was dropped; `None`: there is none.
pub fn reclaimed(mut reclaim: impl FnMut(Claim) -> Option<DmaBuf>) -> Option<DmaBuf> {
    CLAIMS.with_borrow(|claims| claims.iter().find_map(|&claim| reclaim(claim)))
}

pub fn memory(bytes: usize) -> DmaBuf {
    // Eight bytes at a time, so that it is aligned.
    let words: &'static mut [u64] = Box::leak(vec![0u64; bytes.div_ceil(8)].into_boxed_slice());
    // SAFETY: any bytes are valid, and the memory lives for ever.
    let buf =
        DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) });
    CLAIMS.with_borrow_mut(|claims| claims.push(buf.claim()));
    buf
}

/// Returns a waker that polls its task when it is woken, as the last step of an interrupt.
pub fn irq_waker(task: &IrqTask<OneThread>) -> Waker {
    // SAFETY (of all three): called with the pointer that `irq_waker` was given.
    unsafe fn clone(task: *const ()) -> RawWaker {
        RawWaker::new(task, &TABLE)
    }
    unsafe fn wake(task: *const ()) {
        // SAFETY: the waker's maker keeps the task alive while it is around.
        let it = unsafe { &*task.cast::<IrqTask<OneThread>>() };
        // SAFETY: as above.
        it.poll(&unsafe { Waker::from_raw(RawWaker::new(task, &TABLE)) });
    }
    unsafe fn nothing(_: *const ()) {}
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, nothing);
    // SAFETY: the table's functions do what the contract of `RawWaker` asks; nothing is owned.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(task).cast(), &TABLE)) }
}

/// Marks a future as `Send`, since the test has only one thread.
pub struct Here<F>(pub F);
// SAFETY: as said.
unsafe impl<F> Send for Here<F> {}
impl<F: Future> Future for Here<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned with the whole.
        unsafe { self.map_unchecked_mut(|here| &mut here.0) }.poll(context)
    }
}

/// Returns a packet with its header, as in the function's FIFO.
pub fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    let header = ((payload.len() as u32 + 4) | (u32::from(kind) << 24)).to_le_bytes();
    [&header[..], payload].concat()
}
