//! The Bluetooth Type-A driver of the crate: an `async fn` that the interrupt polls.

use super::card::{BLOCK_BYTES, Card, description};
use super::{TIMER, drive};
use mmcq::engine::{Config, DmaBuf};
use mmcq::sdio::bluetooth::TypeA;
use mmcq::sdio::{CardInterrupt, Function, IoError};
use mmcq::task::{IrqTask, Lock, Stack};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// A lock that does nothing, for one thread: the cost of a platform's lock is not part of the
/// measurement.
#[derive(Clone, Copy)]
pub struct OneThread;

// SAFETY: one thread; the stack never nests `with`.
unsafe impl Lock for OneThread {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// A lock that counts how many times it is taken.
#[derive(Clone, Copy)]
pub struct Counted;

pub static LOCKED: AtomicU64 = AtomicU64::new(0);

// SAFETY: as above.
unsafe impl Lock for Counted {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        LOCKED.fetch_add(1, Relaxed);
        f()
    }
}

async fn receive<L: Lock>(
    stack: &Stack<(L, Card), 4>,
    mut buf: DmaBuf,
    fast: bool,
    packets: &AtomicU64,
) -> Result<(), IoError> {
    let card = description();
    let function = Function::new(stack, &card, 1)?;
    let mut irq = CardInterrupt::new(stack, &card);
    if !fast {
        irq.enable(2).await?;
    }
    let bluetooth = TypeA::open(function, &mut irq, BLOCK_BYTES).await?;
    loop {
        let received;
        (received, buf) = bluetooth.receive(&mut irq, buf).await;
        received?;
        packets.store(packets.load(Relaxed) + 1, Relaxed);
    }
}

/// Returns a waker that polls `task` when it is woken.
fn waker<L: Lock>(task: &IrqTask<L>) -> Waker {
    struct Table<L>(L);
    impl<L: Lock> Table<L> {
        const TABLE: RawWakerVTable = RawWakerVTable::new(Self::clone, Self::wake, Self::wake, Self::nothing);
        // SAFETY (of all three): called with the pointer that `waker` was given.
        unsafe fn clone(task: *const ()) -> RawWaker {
            RawWaker::new(task, &Self::TABLE)
        }
        unsafe fn wake(task: *const ()) {
            // SAFETY: the task outlives its wakers.
            let it = unsafe { &*task.cast::<IrqTask<L>>() };
            // SAFETY: as above.
            it.poll(&unsafe { Waker::from_raw(RawWaker::new(task, &Self::TABLE)) });
        }
        unsafe fn nothing(_: *const ()) {}
    }
    // SAFETY: the table's functions do what the contract of `RawWaker` asks; nothing is owned.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(task).cast(), &Table::<L>::TABLE)) }
}

pub fn run<L: Lock + Sync + Send + Copy>(lock: L, buf: DmaBuf, fast: bool, count: u64, which: Option<u64>) {
    let stack = Stack::new(lock, TIMER, Card::new(), Config::DEFAULT);
    let packets = AtomicU64::new(0);
    let task = IrqTask::new(lock);
    let driver = async {
        if let Err(error) = receive(&stack, buf, fast, &packets).await {
            panic!("the driver ends: {error}");
        }
    };
    task.scope(driver, &waker(&task), || {
        drive(&mut || stack.on_irq(), &|| packets.load(Relaxed), fast, count, which);
    });
}
