//! Test rig: a stack, its controller and its threads, which loom runs in many orders.

extern crate std;

use super::super::*;
use crate::engine::CardParams;
use crate::host::{BlockSizes, BusyDetect, Caps, DmaError, Done, Events, Segment, StartError, Step};
use crate::host::{Direction, Timing, Width};
use crate::spec::response::Response;
use core::future::Future;
use core::pin::pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};
use loom::cell::UnsafeCell as Watched;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::boxed::Box;
use std::cell::RefCell;
use std::println;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Wake;
use std::vec;

/// Runs `f` in every interleaving with up to three preemptions, and prints how many there were.
pub(super) fn permuted(name: &str, f: impl Fn() + Sync + Send + 'static) {
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(3));
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        ALARM.set(Some(Arc::new(Watched::new(None))));
        RINGS.set(None);
        f();
    });
    println!("{name}: {} interleavings", count.load(Relaxed));
}

pub(super) struct LoomLock(Mutex<()>);

impl LoomLock {
    pub fn new() -> Self {
        LoomLock(Mutex::new(()))
    }
}

// SAFETY: the lock is a mutex; a nested call of `with` is a deadlock that loom finds.
unsafe impl Lock for LoomLock {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _held = self.0.lock().unwrap();
        f()
    }
}

/// An interrupt line, or a sleeping thread: raised (the flag is true) or not.
pub(super) struct Signal(Mutex<bool>, Condvar);

impl Signal {
    pub fn new() -> Arc<Self> {
        Arc::new(Signal(Mutex::new(false), Condvar::new()))
    }

    pub fn raise(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    /// Clears the signal, because its cause is over.
    fn lower(&self) {
        *self.0.lock().unwrap() = false;
    }

    /// Waits until the signal is raised; the signal stays raised.
    pub fn level(&self) {
        let mut raised = self.0.lock().unwrap();
        while !*raised {
            raised = self.1.wait(raised).unwrap();
        }
    }

    pub fn wait(&self) {
        let mut raised = self.0.lock().unwrap();
        while !*raised {
            raised = self.1.wait(raised).unwrap();
        }
        *raised = false;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }
}

/// The threads that sleep in blocking calls.
pub(super) struct Sleepers(Mutex<()>, Condvar);

impl Sleepers {
    pub fn new() -> Arc<Self> {
        Arc::new(Sleepers(Mutex::new(()), Condvar::new()))
    }

    fn notify(&self) {
        let _held = self.0.lock().unwrap();
        self.1.notify_all();
    }

    /// Sleeps on a condition variable while [`Idle`] allows it, as the contract of [`Idle`]
    /// requires.
    pub fn idle(&self, idle: &Idle) {
        let mut held = self.0.lock().unwrap();
        while idle.may_sleep() {
            held = self.1.wait(held).unwrap();
        }
        idle.skip_turn();
    }
}

/// Runs a future on this thread. A lost waker is a deadlock, which loom reports.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let signal = Signal::new();
    let waker = Waker::from(signal.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        signal.wait();
    }
}

// All threads of loom run on one thread of the system, so all of them share these values.
std::thread_local! {
    /// The register of the alarm: the time in ns at which the alarm fires; inner `None`: no alarm
    /// is set. Setting it without the engine's lock is a data race, which loom finds.
    static ALARM: RefCell<Option<Arc<Watched<Option<u64>>>>> = const { RefCell::new(None) };
    /// The signal that is raised for an alarm that is due at once.
    pub(super) static RINGS: RefCell<Option<Arc<Signal>>> = const { RefCell::new(None) };
}

/// Returns the time in the alarm's registers, after setting it to `set` if that is given.
fn alarm_ns(set: Option<Option<u64>>) -> Option<u64> {
    let alarm = ALARM.with_borrow(|alarm| alarm.clone()).unwrap();
    alarm.with_mut(|at_ns| {
        // SAFETY: loom watches the cell.
        let at_ns = unsafe { &mut *at_ns };
        *at_ns = set.unwrap_or(*at_ns);
        *at_ns
    })
}

pub(super) const TIMER: Timer = Timer {
    now_ns: || 0,
    set_alarm: |at_ns| {
        alarm_ns(Some(at_ns));
        if at_ns == Some(0) {
            RINGS.with_borrow(|rings| rings.iter().for_each(|rings| rings.raise()));
        }
    },
};

/// A controller in which each command ends at the next interrupt.
pub(super) struct LoomHost {
    caps: Caps,
    running: Option<Phase>,
    /// Number of phases (commands with their data) that have ended.
    pub ended: Arc<AtomicU32>,
    pub line: Arc<Signal>,
    /// Whether the interrupt line falls when its cause is cleared; otherwise the interrupt
    /// controller stores the interrupt.
    pub level: bool,
    /// The memory that the controller's DMA touches. Other code may touch it only while no transfer
    /// runs.
    pub memory: Arc<Watched<u32>>,
    /// Number of card interrupts that are still to come.
    pub asks: u32,
    /// Whether the controller may report the next card interrupt to the engine.
    listens: bool,
}

// SAFETY: loom watches the cell.
unsafe impl Send for LoomHost {}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.

unsafe impl Host for LoomHost {
    const CARD_IRQ: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn map(&mut self, _: &mut Segment, _: Direction) -> Result<(), DmaError> {
        Ok(())
    }
    fn unmap(&mut self, _: &Segment, _: Direction) {}
    fn start(&mut self, phase: &Phase, _: &[Segment], _: u64) -> Result<(), StartError> {
        assert!(self.running.is_none(), "two phases at a time");
        self.running = Some(*phase);
        self.line.raise();
        Ok(())
    }
    fn ack(&mut self, _: &[Segment]) -> Events {
        let mut events = Events::default();
        if let Some(phase) = self.running.take() {
            if phase.data.is_some() {
                self.memory.with_mut(|memory| {
                    // SAFETY: loom watches the cell.
                    unsafe { *memory += 1 }
                });
            }
            self.ended.fetch_add(1, Relaxed);
            if self.level {
                self.line.lower();
            }
            events.phase = Some(Ok(Done { response: Response::short(4 << 9 | 1 << 8), ..Done::default() }));
        }
        if self.listens && self.asks > 0 {
            self.listens = false;
            events.card_irq = true;
        }
        events
    }
    fn set_bus(&mut self, op: BusOp, _: bool, _: u64) -> Step {
        if matches!(op, BusOp::ResetLines | BusOp::ResetAll) {
            self.running = None;
        }
        Step::Done
    }
    fn dat0_busy(&self) -> bool {
        false
    }
    fn present(&self) -> bool {
        true
    }
    fn card_irq(&mut self, on: bool) {
        self.listens = on;
        if on && self.asks > 0 {
            self.line.raise();
        }
    }
}

pub(super) type Stack<const N: usize> = crate::task::Stack<(LoomLock, LoomHost), N>;

pub(super) struct Rig<const N: usize> {
    pub stack: Arc<Stack<N>>,
    pub line: Arc<Signal>,
    pub ended: Arc<AtomicU32>,
    pub memory: Arc<Watched<u32>>,
}

impl<const N: usize> Rig<N> {
    pub fn new(defer_completion: bool) -> Self {
        let (line, ended) = (Signal::new(), Arc::new(AtomicU32::new(0)));
        let memory = Arc::new(Watched::new(0));
        let caps = Caps {
            auto_stop: true,
            auto_count: false,
            no_count: false,
            continue_data: false,
            open_until_stopped: false,
            busy: BusyDetect::Interrupt,
            max_busy_ns: 1_000_000_000,
            max_segments: 16,
            max_segment_bytes: 65_536,
            max_block_bytes: 512,
            block_sizes: BlockSizes::Any,
            max_blocks: 1024,
            max_bytes: 524_288,
            align: 4,
            max_odd_bytes: u32::MAX,
            dma_bits: 32,
            defer_completion,
            clock_hz: (400_000, 50_000_000),
            width: Width::W4,
            timings: Caps::timing_bit(Timing::Legacy),
            signal18: false,
            signal18_fixed: false,
            fixed: true,
            concurrent_command: false,
        };
        let host = LoomHost {
            caps,
            running: None,
            ended: ended.clone(),
            line: line.clone(),
            level: false,
            memory: memory.clone(),
            asks: 0,
            listens: false,
        };
        let stack = Stack::new(LoomLock::new(), TIMER, host, Config::DEFAULT);
        let target = CardParams { count: false, write_timeout_ns: 250_000_000, ..CardParams::sd(1, 1024) };
        stack.with(|engine| engine.set_card_params(Some(target)));
        Rig { stack: Arc::new(stack), line, ended, memory }
    }

    /// Starts the interrupt handler of another core as a thread, which runs until `phases` commands
    /// have ended.
    pub fn interrupts(&self, phases: u32) -> thread::JoinHandle<()> {
        let (stack, line, ended) = (self.stack.clone(), self.line.clone(), self.ended.clone());
        thread::spawn(move || {
            while ended.load(Relaxed) < phases {
                line.wait();
                stack.on_irq();
            }
        })
    }

    /// Starts a thread that acts as the interrupt handler, on a machine whose interrupt line falls
    /// as soon as its cause is handled. After each interrupt the handler notifies the threads that
    /// sleep. The thread ends after `phases` commands.
    pub fn notifies(&self, phases: u32, sleepers: &Arc<Sleepers>) -> thread::JoinHandle<()> {
        // SAFETY: the driver stays in its place.
        self.stack.with(|engine| unsafe { engine.host_mut() }.unwrap().level = true);
        let (stack, line, ended) = (self.stack.clone(), self.line.clone(), self.ended.clone());
        let sleepers = sleepers.clone();
        thread::spawn(move || {
            while ended.load(Relaxed) < phases {
                line.level();
                stack.on_irq();
                sleepers.notify();
            }
        })
    }

    /// Returns how many times the controller has moved data. The caller makes sure that no data are
    /// being moved during the call.
    pub fn moved(&self) -> u32 {
        // SAFETY: loom watches the cell.
        self.memory.with(|memory| unsafe { *memory })
    }

    /// Checks, after all threads have ended, that no slot is in use, that the engine is idle, and
    /// that the board's alarm is set for the time that the engine wants, and not later than its
    /// next deadline.
    pub fn end(&self) {
        self.stack.with(|engine| {
            assert_eq!(engine.slots_in_use(), 0, "a slot leaked");
            assert!(engine.is_idle());
            let alarm_ns = alarm_ns(None).unwrap_or(u64::MAX);
            assert_eq!(Some(alarm_ns), engine.alarm_ns(), "an old alarm replaced a new one");
            assert!(engine.next_deadline_ns().is_none_or(|next_ns| alarm_ns <= next_ns), "the alarm is late");
        });
    }
}

pub(super) fn buffer() -> (DmaBuf, NonNull<u8>) {
    let buf = DmaBuf::from_static(Box::leak(vec![0u64; 64].into_boxed_slice()).as_bytes());
    let at = buf.as_non_null();
    (buf, at)
}

pub(super) trait AsBytes {
    fn as_bytes(&mut self) -> &mut [u8];
}

impl AsBytes for [u64] {
    fn as_bytes(&mut self) -> &mut [u8] {
        // SAFETY: the same memory, of which any bytes are valid.
        unsafe { core::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), 8 * self.len()) }
    }
}

pub(super) fn read(lba: u64, buf: DmaBuf) -> Request {
    Request::new(Kind::Read { lba, blocks: 1 }, buf)
}

/// Reads a block, and checks that its own buffer comes back.
pub(super) fn reads<const N: usize>(stack: &Stack<N>, lba: u64) {
    let (buf, at) = buffer();
    let done = block_on(stack.request(read(lba, buf)));
    assert_eq!(done.result.map(|output| output.bytes), Ok(512));
    assert_eq!((done.buf.as_non_null(), done.buf.len_bytes()), (at, 512), "another buffer came back");
}
