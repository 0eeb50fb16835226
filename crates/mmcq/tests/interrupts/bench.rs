//! A stack with a scripted controller, memory whose buffers are counted, and an executor that polls
//! a task only when its waker was called.

use crate::io_card::IoHost;
use crate::lock::{self, Handler, Interrupted, What};
use crate::one_thread::NOW_NS;
use crate::support::TestHost;
use crate::support::guard::Guarded;
use mmcq::engine::{Claim, Config, DmaBuf};
use mmcq::host::Host;
use mmcq::task::Timer;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

thread_local!(static ALARM: Cell<Option<u64>> = const { Cell::new(None) });

const TIMER: Timer = Timer {
    now_ns: || {
        NOW_NS.set(NOW_NS.get() + 100);
        NOW_NS.get()
    },
    set_alarm: |at_ns| {
        assert!(lock::held(), "the alarm is set without the lock");
        ALARM.set(at_ns);
    },
};

/// Delay of a late alarm in nanoseconds: longer than the time limit of a command, shorter than the
/// longest busy of a card.
pub const LATE_NS: u64 = 100_000_000;

/// A controller that reports when its next interrupt comes.
pub trait Wired: Host {
    fn next_irq_ns(&self) -> Option<u64>;
    fn mapped(&self) -> usize;
}

impl Wired for TestHost {
    fn next_irq_ns(&self) -> Option<u64> {
        self.world.borrow().running().then_some(0)
    }
    fn mapped(&self) -> usize {
        self.world.borrow().mapped()
    }
}

impl Wired for IoHost {
    fn next_irq_ns(&self) -> Option<u64> {
        let (ends_ns, asks) = self.due();
        if asks { Some(0) } else { ends_ns }
    }
    fn mapped(&self) -> usize {
        self.world.borrow().mapped()
    }
}

pub type Stack<H> = mmcq::task::Stack<(Interrupted, H), 4>;

pub struct Bench<H: Wired> {
    pub stack: Stack<H>,
    /// All memory that the bench has given to requests.
    memory: RefCell<Vec<Guarded>>,
    /// Claims of all buffers that the bench has made.
    claims: RefCell<Vec<Claim>>,
    back: RefCell<Vec<NonNull<u8>>>,
}

impl<H: Wired> Handler for Bench<H> {
    fn interrupt(&self, what: What) {
        match what {
            What::Turn => {
                self.jump(self.next_irq_ns());
                self.stack.turn();
            }
            What::Late => {
                NOW_NS.set(NOW_NS.get() + LATE_NS);
                self.stack.poll();
            }
        }
    }
}

impl<H: Wired> Bench<H> {
    pub fn new(host: H) -> Self {
        NOW_NS.set(0);
        ALARM.set(None);
        let stack = Stack::new(Interrupted::default(), TIMER, host, Config::DEFAULT);
        Bench { stack, memory: RefCell::default(), claims: RefCell::default(), back: RefCell::default() }
    }

    fn next_irq_ns(&self) -> Option<u64> {
        lock::unseen(|| self.stack.with(|engine| engine.host().and_then(|host| host.next_irq_ns())))
    }

    fn jump(&self, to_ns: Option<u64>) {
        NOW_NS.set(NOW_NS.get().max(to_ns.unwrap_or(0)));
    }

    /// Makes a buffer whose memory is freed with the bench.
    pub fn buffer(&self, bytes: u32, fill: u8) -> DmaBuf {
        let room = Guarded::filled(bytes as usize, fill);
        let at = room.at();
        self.memory.borrow_mut().push(room);
        // SAFETY: the room stays where it is as long as the bench, and no other code uses it.
        let buf = unsafe { DmaBuf::from_raw(at, bytes) };
        self.claims.borrow_mut().push(buf.claim());
        buf
    }

    /// Takes back the next of the bench's buffers whose request was dropped; `None`: there is none.
    pub fn reclaimed(&self) -> Option<DmaBuf> {
        self.claims.borrow().iter().find_map(|&claim| self.stack.with(|engine| engine.reclaim(claim)))
    }

    /// Records that a buffer has come back.
    pub fn back(&self, buf: DmaBuf) {
        self.back.borrow_mut().push(buf.as_non_null());
    }

    /// Does what the hardware does next: an interrupt, or the alarm. Returns false if neither will
    /// ever come.
    pub fn idle(&self) -> bool {
        let irq_ns = self.next_irq_ns();
        let alarm_ns = ALARM.get();
        match (irq_ns, alarm_ns) {
            (Some(irq_ns), alarm_ns)
                if alarm_ns.is_none_or(|alarm_ns| irq_ns <= alarm_ns.max(NOW_NS.get())) =>
            {
                self.jump(Some(irq_ns));
                self.stack.on_irq();
            }
            (_, Some(alarm_ns)) => {
                self.jump(Some(alarm_ns));
                ALARM.set(None);
                self.stack.poll();
            }
            (_, None) => return false,
        }
        true
    }

    /// Raises the controller's interrupt. Returns false if no interrupt is due.
    pub fn irq(&self) -> bool {
        let Some(irq_ns) = self.next_irq_ns() else { return false };
        self.jump(Some(irq_ns));
        self.stack.on_irq();
        true
    }

    /// Runs tasks to their ends. Each task is polled only when it was woken.
    pub fn drive(&self, mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
        let flags: Vec<Arc<Woken>> = tasks.iter().map(|_| Woken::new()).collect();
        let mut left = tasks.len();
        for _ in 0..100_000 {
            if left == 0 {
                return;
            }
            let mut ran = false;
            for (task, flag) in tasks.iter_mut().zip(&flags) {
                if flag.take() {
                    ran = true;
                    let waker = Waker::from(flag.clone());
                    left -= usize::from(task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
                }
            }
            // The interrupt may come while nothing seems left to do.
            let woken = || flags.iter().any(|flag| flag.is_set());
            assert!(ran || self.idle() || woken(), "a task waits, and nothing will ever happen");
        }
        panic!("no end");
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let mut output = None;
        self.drive(vec![Box::pin(async { output = Some(future.await) })]);
        output.expect("driven to its end")
    }

    /// Runs the stack until it is idle when all clients have ended, and checks that no buffer is
    /// missing. Returns how many buffers of dropped futures were lost because other requests needed
    /// their slots.
    pub fn end(&self) -> u64 {
        for _ in 0..1_000 {
            if self.stack.with(|engine| engine.is_idle() && engine.next_deadline_ns().is_none()) {
                break;
            }
            assert!(self.idle(), "never at rest");
        }
        while let Some(buf) = self.reclaimed() {
            self.back(buf);
        }
        self.stack.with(|engine| {
            assert_eq!((engine.slots_in_use(), engine.host().map_or(0, |host| host.mapped())), (0, 0));
        });
        let mut given: Vec<NonNull<u8>> = self.memory.borrow().iter().map(Guarded::at).collect();
        let mut back = self.back.borrow().clone();
        given.sort();
        back.sort();
        let leaked = self.stack.with(|engine| engine.stats().leaked);
        let (count, came) = (given.len() as u64, back.len() as u64);
        back.dedup();
        assert!(back.len() as u64 == came, "a buffer came back twice");
        given.retain(|at| back.binary_search(at).is_err());
        assert!(
            given.len() as u64 == leaked,
            "of {count} buffers {came} came back and {leaked} are known as leaked"
        );
        leaked
    }
}

/// A flag that a task's waker sets.
pub struct Woken(AtomicBool);

impl Woken {
    pub fn new() -> Arc<Self> {
        Arc::new(Woken(AtomicBool::new(true)))
    }

    pub fn take(&self) -> bool {
        self.0.swap(false, Relaxed)
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        assert!(!lock::held(), "a waker is called under the lock");
        self.0.store(true, Relaxed);
    }
}

/// Polls a future one time with this waker. Returns its output; `None` if it is pending.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
