//! An executor for a few tasks. It uses the mock clock of `embassy-time`, which also advances a
//! simulated world.

// Each test file uses only a part of this module.
#![allow(dead_code)]

use crate::world::{Stack, World, move_to};
use embassy_time::{Duration, MockDriver};
use mmcq_sim::world::Device;
use sdio::{
    BlockReadCommand, BlockWriteCommand, BusWidth, ByteReadCommand, ByteWriteCommand, ControlCommand, MmcBus,
    MmcError,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

/// A time of the mock clock, which advances only when [`drive`] moves it.
pub use embassy_time::Instant as MockTime;

pub type Forever<'a> = Pin<Box<dyn Future<Output = std::convert::Infallible> + 'a>>;

/// Returns a lock that allows one test at a time, because a process has only one mock clock.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    MockDriver::get().reset();
    guard
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Runs `main` to its end, and `tasks` concurrently. Each future is polled only when it was woken.
/// Time passes when no task has anything to do.
pub fn drive<'a, const T: usize, R>(
    world: &World,
    stack: &Stack,
    mut tasks: [Forever<'a>; T],
    main: impl Future<Output = R>,
) -> R {
    const TURNS_MAX: u32 = 20_000_000;
    let flags: Vec<_> = (0..=T).map(|_| Arc::new(Flag(AtomicBool::new(true)))).collect();
    let wakers: Vec<Waker> = flags.iter().map(|flag| Waker::from(flag.clone())).collect();
    let mut main = pin!(main);
    for _ in 0..TURNS_MAX {
        if world.model.borrow().irq() {
            stack.on_irq();
        }
        for (i, task) in tasks.iter_mut().enumerate() {
            if flags[i].0.swap(false, SeqCst) {
                let Poll::Pending = task.as_mut().poll(&mut Context::from_waker(&wakers[i]));
            }
        }
        if flags[T].0.swap(false, SeqCst)
            && let Poll::Ready(result) = main.as_mut().poll(&mut Context::from_waker(&wakers[T]))
        {
            return result;
        }
        if flags.iter().any(|flag| flag.0.load(SeqCst)) || world.model.borrow().irq() {
            continue;
        }
        let tick = Duration::from_ticks(1);
        MockDriver::get().advance(tick);
        let until_ns = MockTime::now().as_micros() * 1000;
        while !world.model.borrow().irq() && world.time.now() < until_ns {
            move_to(&world.model, &world.time, until_ns);
        }
    }
    panic!("no end after {TURNS_MAX} turns");
}

/// Runs two futures concurrently to their ends.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut from_a, mut from_b) = (None, None);
    poll_fn(move |context| {
        if from_a.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(context)
        {
            from_a = Some(output);
        }
        if from_b.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(context)
        {
            from_b = Some(output);
        }
        if from_a.is_none() || from_b.is_none() {
            return Poll::Pending;
        }
        Poll::Ready((from_a.take().unwrap(), from_b.take().unwrap()))
    })
    .await
}

/// A bus whose reads never end while `hang` is set. It records its settings: initialised or not,
/// and the clock.
pub struct Hanging<B> {
    bus: B,
    pub hang: Rc<Cell<bool>>,
    /// Whether the bus has no card interrupt.
    pub deaf: Rc<Cell<bool>>,
    pub asked: Rc<RefCell<Vec<(bool, u32)>>>,
}

impl<B> Hanging<B> {
    pub fn new(bus: B) -> Self {
        Hanging { bus, hang: Rc::default(), deaf: Rc::default(), asked: Rc::default() }
    }
}

impl<B: MmcBus> MmcBus for Hanging<B> {
    async fn send_command<'a, C: ControlCommand + 'a>(&mut self, cmd: C) -> Result<C::Resp<'a>, MmcError> {
        self.bus.send_command(cmd).await
    }
    async fn read_blocks<'a, C: BlockReadCommand + 'a>(
        &mut self,
        cmd: C,
        auto_stop: bool,
    ) -> Result<C::Resp<'a>, MmcError> {
        if self.hang.get() {
            std::future::pending::<()>().await;
        }
        self.bus.read_blocks(cmd, auto_stop).await
    }
    async fn write_blocks<'a, C: BlockWriteCommand + 'a>(
        &mut self,
        cmd: C,
        auto_stop: bool,
    ) -> Result<C::Resp<'a>, MmcError> {
        self.bus.write_blocks(cmd, auto_stop).await
    }
    async fn read_bytes<'a, C: ByteReadCommand + 'a>(&mut self, cmd: C) -> Result<C::Resp<'a>, MmcError> {
        self.bus.read_bytes(cmd).await
    }
    async fn write_bytes<'a, C: ByteWriteCommand + 'a>(&mut self, cmd: C) -> Result<C::Resp<'a>, MmcError> {
        self.bus.write_bytes(cmd).await
    }
    async fn init_idle(&mut self, hz: u32) -> Result<(), MmcError> {
        self.asked.borrow_mut().push((true, hz));
        self.bus.init_idle(hz).await
    }
    async fn wait_for_event(&mut self) -> Result<(), MmcError> {
        if self.deaf.get() { Err(MmcError::Unsupported) } else { self.bus.wait_for_event().await }
    }
    fn set_bus(&mut self, width: BusWidth, hz: u32) -> Result<(), MmcError> {
        self.asked.borrow_mut().push((false, hz));
        self.bus.set_bus(width, hz)
    }
    fn supports_mmc(&self) -> bool {
        true
    }
    fn supports_bus_width(&self) -> BusWidth {
        self.bus.supports_bus_width()
    }
    fn supports_frequency(&self) -> u32 {
        self.bus.supports_frequency()
    }
}
