//! Our engine with the Type-A driver, polled from the interrupt; and who decides to stay in it.

use super::Stack;
use super::host::Priced;
use super::machine::{Handler, Machine};
use super::policy::{Class, Learned};
use crate::board::Alone;
use mmcq::host::s3c_sdi::regs::FIFO_HALF;
use mmcq::task::IrqTask;
use std::cell::Cell;
use std::future::Future;
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

/// How often the controller is looked at by whoever waits, if its register costs nothing.
const LOOK_NS: u64 = 250;

/// The engine under the machine.
pub struct Ours<'a> {
    /// The engine.
    pub stack: &'a Stack,
    /// Its driver.
    pub host: Priced,
    /// What it may wait for.
    pub stay: Stay,
    /// CPU time of leaving the interrupt and coming back.
    pub price_ns: u64,
    /// Packets that the driver has received and nobody has worked on.
    pub received: Rc<Cell<u64>>,
    /// What it knows of phases.
    pub learned: Learned,
    /// When the wait in progress began, and for what.
    since: Option<(Class, u64)>,
    alarm_ns: Option<u64>,
}

impl<'a> Ours<'a> {
    /// An engine that knows nothing yet.
    pub fn new(stack: &'a Stack, host: Priced, stay: Stay, price_ns: u64, received: Rc<Cell<u64>>) -> Self {
        let (learned, since, alarm_ns) = (Learned::default(), None, None);
        Ours { stack, host, stay, price_ns, received, learned, since, alarm_ns }
    }

    /// What the controller works on; `begun`: the phase has been waited for before.
    fn class(&self, begun: bool) -> Option<Class> {
        let phase = self.host.phase()?;
        let bytes = phase.data.map_or(0, |data| u32::from(data.block_size) * data.blocks);
        Some(match bytes {
            0 => Class::Command,
            _ if bytes < FIFO_HALF => Class::Short,
            _ if begun => Class::Fifo,
            _ => Class::First,
        })
    }

    fn may_stay(&self, class: Class) -> bool {
        let allowed = match self.stay {
            Stay::Never => false,
            Stay::Fifo => class == Class::Fifo,
            Stay::Commands => true,
        };
        allowed && self.learned.stays(class, self.price_ns)
    }

    /// Waits for the controller, for some time. True: it has something.
    fn wait(&self, m: &Machine) -> bool {
        let look_ns = self.host.costs().register_ns.max(LOOK_NS);
        m.spin(Learned::patience_ns(self.price_ns), look_ns)
    }

    fn turn(&mut self, m: &mut Machine, entry_ns: u64) {
        let mut entry_ns = entry_ns;
        loop {
            if let Some((class, since_ns)) = self.since.take() {
                self.learned.saw(class, m.time.now().saturating_sub(since_ns + entry_ns));
            }
            let phases = self.host.phases();
            advance(self.stack);
            for _ in 0..self.received.take() {
                m.packet();
            }
            let Some(class) = self.class(phases == self.host.phases()) else { break };
            self.since = Some((class, m.time.now()));
            if !self.may_stay(class) || !self.wait(m) {
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
        self.alarm_ns
    }

    fn alarm(&mut self, _: &mut Machine) {
        self.stack.poll();
        self.alarm_ns = self.stack.with(|engine| engine.next_deadline_ns());
    }
}

/// What the interrupt does of ours; not inlined, so that its instructions can be counted.
#[inline(never)]
fn advance(stack: &Stack) {
    stack.on_irq();
}

/// Polls its task when woken: in the interrupt.
pub struct InIrq(pub &'static IrqTask<Alone>);

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
