//! Tests of callbacks that call the stack again: the driver's registers and memory, the timer, the
//! lock, the policy and the wakers call every public function of their own stack. Data and answers
//! must still be right.

use crate::{cases, timed};
use mmcq::advance::{Costs, WaitStrategy};
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::{Abilities, Config, DmaBuf, Error, Handshake, Kind, Request, SlotId, StaysOpen};
use mmcq::host::sdhci::{self, Table, TransferMode};
use mmcq::host::{BusOp, Direction, Dma, DmaError, Regs};
use mmcq::sched::{Choice, Policy, SdTaskQueue, Waiting};
use mmcq::spec::command;
use mmcq::task::{Lock, Timer};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use timed::blocks as buffer;
use timed::erased::{Erased, Scheduled, constants};

type Driver = sdhci::Sdhci<Returning<Port>, Returning<ShadowMemory>, 129>;
type Stack = mmcq::task::Stack<(Watched, Erased<{ constants::<Driver>() }>, Scheduled), 16>;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    /// Number of closures under the lock that are running now.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The stack that callbacks call, and which of its functions they call.
    static BACK: Cell<Option<(&'static Stack, Way)>> = const { Cell::new(None) };
    /// Number of calls by callbacks while the engine was in use, for each callback.
    static CAME: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Calls the stack from the callback `from`. A callback that runs inside of such a call also calls
/// the stack; a callback inside of that second call does not.
fn come_back(from: &'static str) {
    let Some((stack, way)) = BACK.get() else { return };
    if DEPTH.get() >= 2 {
        return;
    }
    DEPTH.set(DEPTH.get() + 1);
    if INSIDE.get() > 0 {
        CAME.with_borrow_mut(|came| *came.entry(from).or_default() += 1);
        (way.1)(stack);
    } else if DEPTH.get() == 1 {
        // The engine is not in use, so these calls do what they always do, and their callbacks call
        // the stack in turn.
        stack.turn();
        assert!(stack.with(|engine| !engine.is_nested()));
        CAME.with_borrow_mut(|came| *came.entry("from outside").or_default() += 1);
    }
    DEPTH.set(DEPTH.get() - 1);
}

struct Watched;

// SAFETY: the test has one thread, and nothing interrupts it.
unsafe impl Lock for Watched {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        come_back("lock");
        INSIDE.set(INSIDE.get() + 1);
        let result = f();
        INSIDE.set(INSIDE.get() - 1);
        come_back("lock");
        result
    }
}

const TIMER: Timer = Timer {
    now_ns: || {
        come_back("now_ns");
        NOW_NS.get()
    },
    set_alarm: |_| come_back("set_alarm"),
};

struct Returns;

impl Policy for Returns {
    fn arrived(&mut self, _: &Waiting, _: u64) {
        come_back("policy");
    }
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut offered: I, _: u64) -> Choice {
        come_back("policy");
        offered.next().map_or(Choice::IdleUntil(0), |waiting| Choice::Go(waiting.index))
    }
    fn sent(&mut self, _: &Waiting, _: u64) {
        come_back("policy");
    }
    fn done(&mut self, _: &Waiting, _: u64) {
        come_back("policy");
    }
    fn cancelled(&mut self, _: &Waiting) {
        come_back("policy");
    }
}

/// Registers or memory that call the stack before and after each use.
struct Returning<T>(T);

impl<T> Returning<T> {
    fn around<R>(&self, name: &'static str, f: impl FnOnce(&T) -> R) -> R {
        come_back(name);
        let result = f(&self.0);
        come_back(name);
        result
    }
}

impl<T: Regs> Regs for Returning<T> {
    fn read8(&self, offset: u16) -> u8 {
        self.around("registers", |regs| regs.read8(offset))
    }
    fn read16(&self, offset: u16) -> u16 {
        self.around("registers", |regs| regs.read16(offset))
    }
    fn read32(&self, offset: u16) -> u32 {
        self.around("registers", |regs| regs.read32(offset))
    }
    fn write8(&self, offset: u16, value: u8) {
        self.around("registers", |regs| regs.write8(offset, value));
    }
    fn write16(&self, offset: u16, value: u16) {
        self.around("registers", |regs| regs.write16(offset, value));
    }
    fn write32(&self, offset: u16, value: u32) {
        self.around("registers", |regs| regs.write32(offset, value));
    }
}

// SAFETY: the memory inside keeps the contract of `Dma`.
unsafe impl<T: Dma> Dma for Returning<T> {
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError> {
        self.around("map", |dma| dma.map(ptr, len, direction))
    }
    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction) {
        self.around("unmap", |dma| dma.unmap(bus, ptr, len, direction));
    }
    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize) {
        self.around("sync", |dma| dma.sync(bus, ptr, len));
    }
    fn isolate(&self) -> bool {
        self.around("isolate", |dma| dma.isolate())
    }
    fn line_bytes(&self) -> u32 {
        self.0.line_bytes()
    }
}

/// Returns a waker that calls the stack when it is cloned, woken or dropped.
fn returning() -> Waker {
    fn clone(_: *const ()) -> RawWaker {
        come_back("waker");
        RawWaker::new(std::ptr::null(), &TABLE)
    }
    static TABLE: RawWakerVTable =
        RawWakerVTable::new(clone, |_| come_back("waker"), |_| come_back("waker"), |_| come_back("waker"));
    // SAFETY: the functions of the table use no data.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

fn once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn read() -> Request {
    Request::new(Kind::Read { lba: 3, blocks: 1 }, buffer(1))
}

thread_local!(static ID: Cell<Option<SlotId>> = const { Cell::new(None) });

/// A call of the stack while the engine is in use: its name, and a function that makes the call and
/// checks the answer.
type Way = (&'static str, fn(&'static Stack));

const REENTERED: Error = Error::Reentered;

const WAYS: &[Way] = &[
    ("on_irq, poll, turn", |stack| {
        stack.on_irq();
        // The stack cannot check the controller now, so it must assume that the interrupt was the
        // controller's.
        assert!(stack.on_shared_irq());
        stack.poll();
        stack.turn();
        assert_eq!(stack.now_ns(), NOW_NS.get());
    }),
    ("futures", |stack| {
        assert!(matches!(once(stack.request(read())), Poll::Ready(done) if done.result == Err(REENTERED)));
        assert_eq!(once(stack.command(command::send_status(1), 1_000_000)), Poll::Ready(Err(REENTERED)));
        let raw = once(stack.raw(None, command::send_status(1), None, DmaBuf::EMPTY, 1_000_000));
        assert!(matches!(raw, Poll::Ready((Err(REENTERED), _))));
        assert_eq!(once(stack.bus(BusOp::PowerOff)), Poll::Ready(Err(REENTERED)));
        assert_eq!(once(stack.pause(1_000)), Poll::Ready(Err(REENTERED)));
        let advance = WaitStrategy::new(Costs::UNKNOWN);
        let spun = once(stack.request_with(&advance, read()));
        assert!(matches!(spun, Poll::Ready(done) if done.result == Err(REENTERED)));
    }),
    ("blocking", |stack| {
        assert_eq!(stack.blocking(read(), |_| ()).result, Err(REENTERED));
        assert_eq!(stack.block_on(async { 7 }, |_| ()), 7);
        let device = BlockDevice::new(stack);
        assert_eq!(device.read_blocking(3, &mut [0; 512], |_| ()), Err(REENTERED));
        assert_eq!(device.write_blocking(3, &[0; 512], |_| ()), Err(REENTERED));
        assert_eq!(device.flush_blocking(|_| ()), Err(REENTERED));
    }),
    ("requests", |stack| {
        let id = ID.get().expect("a slot was in use");
        stack.with(|engine| {
            assert!(engine.is_nested());
            assert!(matches!(engine.submit(read(), 1), Err((REENTERED, _))));
            assert_eq!((engine.on_irq(1).completed, engine.poll(1).completed), (0, 0));
            assert!(
                engine.take(id).is_none()
                    && engine.take_back(id).is_none()
                    && engine.cancel(id).is_none()
                    && engine.id_of(0).is_none()
                    && engine.finished() == 0
            );
            engine.abandon(id);
            assert!(engine.reclaim(buffer(1).claim()).is_none());
            assert!(engine.set_waker(id, Waker::noop().clone()).is_some());
            assert!(engine.take_waker(0).is_none() && !engine.will_wake(id, Waker::noop()));
        });
    }),
    ("switches", |stack| {
        stack.with(|engine| {
            engine.set_card_params(None);
            engine.enable_extended_ops();
            engine.set_abilities(Abilities::NONE);
            assert!(engine.set_page(buffer(1)).is_err());
            assert!(!engine.set_task_queue(32) && engine.task_stats().is_none());
            let queue = SdTaskQueue { depth: 32, sequential: false, writes: 1 };
            assert!(!engine.set_sd_task_queue(queue));
            engine.always_use_task_queue(true);
            assert!(!engine.set_packed(63, 63) && engine.pack_stats().is_none());
            assert!(!engine.set_chains(16) && engine.chain_stats().is_none());
            engine.set_concurrent_commands(false);
            engine.suspend();
            engine.halt();
            engine.abort(1);
            engine.presence_changed(1);
            engine.resume(1);
            engine.unmask_card_irq();
            engine.mask_card_irq();
            engine.service_done(Err(Error::Dead), 1);
        });
    }),
    ("takes", |stack| {
        stack.with(|engine| {
            assert!(!engine.take_card_irq() && !engine.take_retune() && !engine.take_continue_lost());
            assert_eq!(engine.set_stays_open(StaysOpen::Always), StaysOpen::Never);
            assert!(engine.take_service_request().is_none() && !engine.dismiss_supervisor());
            assert!(engine.set_service_waker(Some(Waker::noop().clone())).is_some());
            assert!(engine.set_card_irq_waker(Some(Waker::noop().clone())).is_some());
            assert!(engine.take_service_waker().is_none() && engine.take_card_irq_waker().is_none());
            assert!(engine.policy_mut().is_none());
            // SAFETY: no host is returned.
            assert!(unsafe { engine.host_mut() }.is_none());
        });
    }),
    ("questions", |stack| {
        stack.with(|engine| {
            assert_eq!((engine.next_deadline_ns(), engine.slots_in_use()), (Some(0), 16));
            assert_eq!(engine.losses(), 0);
            assert_eq!(engine.card_number(), mmcq::engine::CardNumber::ANY);
            assert!(engine.card_params().is_none() && engine.host().is_none() && engine.policy().is_none());
            assert!(!engine.is_idle() && !engine.is_quiet() && engine.awaited().is_none());
            assert!(engine.last_phase().is_none() && engine.incidents().count() == 0);
            assert!(engine.held_until_ns().is_none() && engine.holds().count == 0);
            assert_eq!((engine.bus().clock_hz, engine.stats().leaked, engine.caps().max_blocks), (0, 0, 0));
            let _ = (engine.abilities(), engine.present(), engine.dat0_busy(), engine.dat_levels());
            let _ = (engine.supply_ma(), engine.write_protected(), engine.retune_ns());
        });
    }),
];

/// A stack over the model of a controller, moved from interrupt to interrupt.
struct Rig {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    stack: &'static Stack,
}

impl Rig {
    fn new(transfer: TransferMode) -> Rig {
        let (time, memory) = (Time::new(), ShadowMemory::new(MemoryConfig::BITS32));
        let card = timed::card(&timed::profile("sdhc-16g-hs"));
        let model = Rc::new(RefCell::new(Sdhci::new(SdhciConfig::GENERIC_4_20, memory.clone(), Some(card))));
        let port = Returning(Port::new(model.clone(), time.clone(), 0, 0));
        let table = Box::leak(Box::new(Table::<129>::new()));
        let config = sdhci::SdhciConfig::new().transfer(transfer);
        let host = sdhci::Sdhci::new(port, Returning(memory.clone()), table, config).unwrap();
        NOW_NS.set(0);
        let (host, policy) = (Erased::new(host), Scheduled::new(Returns));
        let stack = Box::leak(Box::new(Stack::with_policy(Watched, TIMER, host, Config::DEFAULT, policy)));
        Rig { time, model, memory, stack }
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = returning();
        for _ in 0..100_000 {
            NOW_NS.set(self.time.now());
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            if !self.model.borrow().irq() {
                let deadline = self.stack.with(|engine| engine.next_deadline_ns());
                let next = self.model.borrow().next_event_ns();
                let until = deadline.into_iter().chain(next).min().unwrap_or(0).max(self.time.now());
                let reached = self.model.borrow_mut().advance(until);
                self.time.set(reached.max(self.time.now()));
            }
            NOW_NS.set(self.time.now());
            self.stack.turn();
        }
        panic!("no end");
    }
}

#[test]
fn what_a_real_driver_calls_may_come_back_in_by_every_public_function() {
    for transfer in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        // One of the three ways to move data has all calls, each other one a share.
        let share = if transfer == TransferMode::Adma2 { 1 } else { 3 };
        for &way in cases::some(share, WAYS) {
            let rig = Rig::new(transfer);
            let stack = rig.stack;
            // The calls need the ID of some request; which one does not matter.
            let status = || Request::new(Kind::Pause { ns: 1 }, DmaBuf::EMPTY);
            let id = stack.with(|engine| engine.submit(status(), 0)).unwrap();
            stack.with(|engine| engine.cancel(id));
            ID.set(Some(id));
            BACK.set(Some((stack, way)));
            let (found, _) = rig.drive(card::bring_up(stack, buffer(1), card::Options::DEFAULT));
            let found = found.unwrap_or_else(|error| panic!("{transfer:?}, {}: {error}", way.0));
            let device = BlockDevice::new(stack);
            for (lba, blocks) in [(0, 1), (100, 8), (1_000, 64)] {
                let mut buf = buffer(blocks);
                buf.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 512 * 7 + n) as u8 ^ lba as u8);
                let expected = buf.to_vec();
                let what = || format!("{transfer:?}, {}: {blocks} blocks at {lba}", way.0);
                let (result, _) = rig.drive(device.write(lba, buf));
                assert_eq!(result.ok(), Some(blocks as u32), "{}", what());
                rig.drive(device.flush()).unwrap();
                let (result, read) = rig.drive(device.read(lba, buffer(blocks)));
                assert_eq!(result.ok(), Some(blocks as u32), "{}", what());
                assert!(read[..] == expected[..], "{}: other data", what());
            }
            BACK.set(None);
            assert!(stack.with(|engine| engine.is_idle() && engine.card_params() == Some(&found.params)));
            assert_eq!(stack.with(|engine| engine.slots_in_use()), 0);
            assert_eq!(rig.memory.violations(), Vec::<String>::new());
            assert_eq!(rig.model.borrow().protocol_violations(), 0);
            assert!(rig.memory.live_mappings() <= 1, "only the descriptor table stays mapped");
        }
    }
    let came = CAME.take();
    for from in ["registers", "map", "unmap", "sync", "now_ns", "set_alarm", "policy", "lock", "from outside"]
    {
        let calls = came.get(from).copied().unwrap_or(0);
        assert!(calls >= 50, "{from}: {calls} calls came back in, of {came:?}");
    }
}

/// Checks that the table of calls in this file has every public function of the stack and of what
/// `with` passes to its closure.
#[test]
fn the_table_has_every_public_function() {
    let source =
        |name| std::fs::read_to_string(format!("{}/../mmcq/src/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let files = ["task.rs", "task/blocking.rs", "task/spin.rs", "task/entry.rs"];
    let all = files.map(source).join("\n");
    let mut names = 0;
    for line in all.lines().map(str::trim_start).filter(|line| line.starts_with("pub ")) {
        let Some((_, name)) = line.split_once("fn ") else { continue };
        let name = name.split(['(', '<']).next().unwrap();
        if matches!(name, "new" | "with_policy" | "write_to") {
            continue;
        }
        names += 1;
        assert!(include_str!("reentry.rs").contains(&format!(".{name}(")), "{name} is not in the table");
    }
    assert!(names > 50, "{names}");
}
