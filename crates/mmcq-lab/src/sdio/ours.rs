//! mmcq's engine with the driver of the experiment's Bluetooth function (SDIO Type-A). The
//! interrupt handler polls the driver's future. [`mmcq::advance`] decides how long the handler
//! stays in the interrupt.

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

/// Events for which the interrupt handler may wait, instead of leaving and being called again by
/// the next interrupt. It waits only if that is expected to cost less CPU time than to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// The handler waits for no event of the controller: it always leaves the interrupt.
    Never,
    /// The handler stays in the interrupt until the FIFO has the next words of a packet.
    Fifo,
    /// As [`Stay::Fifo`]; and the handler also waits in the interrupt for the end of commands, for
    /// the end of short data, and for the start of longer data.
    Commands,
}

/// Timer of a driver that polls for packets instead of using the interrupt: the time of its next
/// poll.
#[derive(Default)]
pub struct Looks {
    at_ns: Cell<Option<u64>>,
    waker: Cell<Option<Waker>>,
}

impl Looks {
    /// Waits until the virtual time `at_ns`, at which the driver polls.
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

    /// Wakes the task that waits for its next poll, if the time of this poll has come.
    fn come(&self, now_ns: u64) {
        if self.at_ns.get().is_some_and(|at_ns| at_ns <= now_ns) {
            self.at_ns.set(None);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }
}

/// mmcq's engine as the simulation calls it: the handler of the controller's interrupt.
pub struct Ours<'a> {
    /// mmcq's engine on this machine.
    pub stack: &'a Stack,
    /// Host driver below the engine.
    pub host: Priced,
    /// Events for which the interrupt handler may wait inside the interrupt, instead of returning
    /// and being called again.
    pub stay: Stay,
    /// Number of packets that the driver has received, but whose CPU work is not charged to the
    /// machine yet.
    pub received: Rc<Cell<u64>>,
    /// Policy that decides whether the handler waits or leaves the interrupt.
    pub advance: WaitStrategy,
    /// Times of the driver's polls for packets, if the driver polls.
    pub looks: Rc<Looks>,
    /// Event of the controller for which the engine waits, and since which time in ns; `None`: it
    /// waits for no event.
    since: Option<(Wait, u64)>,
    alarm_ns: Option<u64>,
}

impl<'a> Ours<'a> {
    /// Makes the interrupt handler that calls mmcq's engine, for a stack that has brought its card
    /// up.
    pub fn new(
        stack: &'a Stack,
        host: Priced,
        stay: Stay,
        advance: WaitStrategy,
        received: Rc<Cell<u64>>,
    ) -> Self {
        Ours { stack, host, stay, received, advance, looks: Rc::default(), since: None, alarm_ns: None }
    }

    /// Returns the event of the controller for which the engine waits; `None` if no phase (a
    /// command with its data) is in progress. `begun`: the engine has already waited in this phase,
    /// so a part of its data may have been transferred.
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
        // The time of the interrupt entry must not count as time of the phase.
        let entry_ns = self.host.costs().irq_in_ns;
        self.turn(m, entry_ns);
    }

    /// Does nothing, since the engine never raises a tasklet.
    fn tasklet(&mut self, _: &mut Machine) {}

    /// Does nothing, since the engine has no thread.
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

/// Calls the engine in the interrupt. Not inlined, so that its instructions can be counted.
#[inline(never)]
fn advance(stack: &Stack) {
    stack.on_irq();
}

/// Lock of a task that the task's wakers share. Its type allows wakers to move to another thread,
/// which never happens here.
pub(super) struct Alone(());

impl Alone {
    /// Makes the lock. It locks nothing: the caller must use the controller, the card and the stack
    /// on one thread only.
    pub(super) fn new() -> Self {
        Alone(())
    }
}

// SAFETY: the machine has one thread, and no closure calls back into the task.
unsafe impl Lock for Alone {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// Waker that polls its task immediately, inside of the interrupt.
pub(super) struct InIrq(pub &'static IrqTask<Alone>);

impl Wake for InIrq {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        self.0.poll(&waker);
    }
}

/// Wrapper that makes a future `Send`. This is right because the simulated machine with all its
/// threads runs on one thread of the computer.
pub struct Here<F>(pub F);

// SAFETY: the future is made, polled and dropped on one thread: `scope` holds it in its frame.
unsafe impl<F> Send for Here<F> {}

impl<F: Future> Future for Here<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned together with the wrapper.
        unsafe { self.map_unchecked_mut(|here| &mut here.0) }.poll(context)
    }
}
