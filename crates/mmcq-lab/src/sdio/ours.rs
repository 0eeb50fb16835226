//! Our engine with the Type-A driver, polled from the interrupt, which stays where the core's
//! policy says so.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::Stack;
use super::host::Priced;
use super::machine::{Handler, Machine};
use mmcq::advance::{Advice, Class, Context as From, Wait, WaitStrategy};
use mmcq::host::s3c_sdi::regs::FIFO_HALF;
use mmcq::task::{IrqTask, Lock};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// For what the interrupt handler may wait instead of leaving, if it is expected to be cheaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// For nothing.
    Never,
    /// For the next words in the FIFO.
    Fifo,
    /// And for commands, short data, and the beginning of others.
    Commands,
}

/// A driver that looks instead of being interrupted: when it does so next.
#[derive(Default)]
pub struct Looks {
    at_ns: Cell<Option<u64>>,
    waker: Cell<Option<Waker>>,
}

impl Looks {
    /// Waits until then.
    pub async fn until(&self, at_ns: u64) {
        self.at_ns.set(Some(at_ns));
        poll_fn(|context| {
            if self.at_ns.get().is_none() {
                return Poll::Ready(());
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Wakes the task that waits, if its time has come.
    fn come(&self, now_ns: u64) {
        if self.at_ns.get().is_some_and(|at_ns| at_ns <= now_ns) {
            self.at_ns.set(None);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }
}

/// The engine under the machine.
pub struct Ours<'a> {
    /// The engine.
    pub stack: &'a Stack,
    /// Its driver.
    pub host: Priced,
    /// What it may wait for.
    pub stay: Stay,
    /// Packets that the driver has received and no thread has worked on.
    pub received: Rc<Cell<u64>>,
    /// What decides.
    pub advance: WaitStrategy,
    /// When the driver looks, if it does.
    pub looks: Rc<Looks>,
    /// What is waited for, and since when.
    since: Option<(Wait, u64)>,
    alarm_ns: Option<u64>,
}

impl<'a> Ours<'a> {
    /// An engine that knows nothing of its card yet.
    pub fn new(
        stack: &'a Stack,
        host: Priced,
        stay: Stay,
        advance: WaitStrategy,
        received: Rc<Cell<u64>>,
    ) -> Self {
        Ours { stack, host, stay, received, advance, looks: Rc::default(), since: None, alarm_ns: None }
    }

    /// What the controller works on; `begun`: the phase has been waited for before.
    fn awaited(&self, begun: bool) -> Option<Wait> {
        let phase = self.host.phase()?;
        Some(match phase.data {
            Some(_) if self.host.by_dma() => Wait::of(&phase),
            Some(_) if begun => Wait::fifo(FIFO_HALF),
            _ => Wait::first(&phase, FIFO_HALF),
        })
    }

    fn chooses(&self, wait: &Wait, spent_ns: u64) -> Advice {
        let allowed = match self.stay {
            Stay::Never => false,
            Stay::Fifo => wait.class == Class::Fifo,
            Stay::Commands => true,
        };
        if !allowed {
            return Advice::Leave(From::Interrupt);
        }
        self.advance.choose(wait, From::Interrupt, spent_ns)
    }

    fn turn(&mut self, m: &mut Machine, entry_ns: u64) {
        let (called_ns, mut entry_ns) = (m.time.now(), entry_ns);
        let look_ns = self.advance.costs().look_ns.into();
        loop {
            if let Some((wait, since_ns)) = self.since.take() {
                self.advance.saw(&wait, m.time.now().saturating_sub(since_ns + entry_ns));
            }
            let phases = self.host.phases();
            advance(self.stack);
            for _ in 0..self.received.take() {
                m.packet();
            }
            let Some(wait) = self.awaited(phases == self.host.phases()) else { break };
            self.since = Some((wait, m.time.now()));
            let Advice::Spin { at_most_ns } = self.chooses(&wait, m.time.now() - called_ns) else { break };
            if !m.spin(at_most_ns, look_ns) {
                self.advance.gave_up(&wait, at_most_ns);
                break;
            }
            entry_ns = 0;
        }
        self.alarm_ns = self.stack.with(|engine| engine.next_deadline_ns());
    }
}

impl Handler for Ours<'_> {
    fn irq(&mut self, m: &mut Machine) {
        // The entry is not the phase's time.
        let entry_ns = self.host.costs().irq_in_ns;
        self.turn(m, entry_ns);
    }

    /// Nothing is deferred.
    fn tasklet(&mut self, _: &mut Machine) {}

    /// There is no thread.
    fn thread(&mut self, _: &mut Machine) {}

    fn alarm_ns(&self) -> Option<u64> {
        let looks_ns = self.looks.at_ns.get();
        self.alarm_ns.into_iter().chain(looks_ns).min()
    }

    fn alarm(&mut self, m: &mut Machine) {
        self.stack.poll();
        self.looks.come(m.time.now());
        for _ in 0..self.received.take() {
            m.packet();
        }
        self.alarm_ns = self.stack.with(|engine| engine.next_deadline_ns());
    }
}

/// What the interrupt does of ours; not inlined, so that its instructions can be counted.
#[inline(never)]
fn advance(stack: &Stack) {
    stack.on_irq();
}

/// The lock of a task that its wakers share: they may be sent, though nobody here sends them.
pub(super) struct Alone(());

impl Alone {
    /// Of a machine that one thread has.
    pub(super) fn new() -> Self {
        Alone(())
    }
}

// SAFETY: a machine has one thread, and nothing comes back to the task from inside of a closure.
unsafe impl Lock for Alone {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// Polls its task when woken: in the interrupt.
pub(super) struct InIrq(pub &'static IrqTask<Alone>);

impl Wake for InIrq {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        self.0.poll(&waker);
    }
}

/// Everything of one machine has one thread, so its futures may be called `Send`.
pub struct Here<F>(pub F);

// SAFETY: it is made, polled and dropped on the same thread: `scope` holds it in its frame.
unsafe impl<F> Send for Here<F> {}

impl<F: Future> Future for Here<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned with the whole.
        unsafe { self.map_unchecked_mut(|here| &mut here.0) }.poll(context)
    }
}
