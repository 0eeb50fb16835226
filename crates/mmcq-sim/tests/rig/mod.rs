//! A rig: the stack over an SDHCI model, with a supervisor, and a card that falls ill when the test
//! says so.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

use crate::timed;
use crate::timed::erased::{Erased, constants};
pub use crate::timed::filled as buffer;
use crate::timed::one_thread::NOW_NS;
use mmcq::card::{self, Card as Found, Event, Options};
use mmcq::engine::{Completion, Config, DmaBuf, Kind, RecoveryStep, Request, SlotId, Stats};
use mmcq::host::Step;
use mmcq::host::sdhci::{self, Table};
use mmcq::host::surroundings::{Surrounded, Surroundings};
use mmcq_sim::card::{BusState, Card, Quirks, ReadBlock, Reply, WriteBlock};
use mmcq_sim::faults::{Faults, Plan};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub type Driver = Surrounded<sdhci::Sdhci<Port, ShadowMemory, 129>, Supply>;
pub type Stack = timed::On<Erased<{ constants::<Driver>() }>>;

/// The faults of the card in the rig, and what the card and its supply have seen.
#[derive(Default)]
pub struct Ills {
    /// Whether the card loses its supply for a moment at its next command.
    pub brown_out: bool,
    /// Number of the command at which the card loses its supply for a moment.
    pub brown_out_at: Option<u64>,
    /// Number of commands that the controller has sent so far.
    pub commands: u64,
    /// Numbers of the commands that the card does not receive.
    pub deaf_at: Vec<u64>,
    /// Numbers of the commands that the card executes without an answer.
    pub mute_at: Vec<u64>,
    /// Whether the card answers nothing until its supply has been off.
    pub mute: bool,
    /// Whether the card never answers again.
    pub mute_for_ever: bool,
    /// Clock frequency in Hz above which read blocks are damaged; `None`: no limit.
    pub reads_up_to_hz: Option<u32>,
    /// Whether read blocks are damaged until the supervisor tunes.
    pub detuned: bool,
    /// First byte of the 512-byte blocks that are damaged each time they are read.
    pub bad_byte: Option<u8>,
    /// Whether the busy after the next block lasts until the supply has been off.
    pub stuck_busy: bool,
    pub is_stuck: bool,
    /// A card that takes the place of this one before the next command.
    pub swap: Option<Box<dyn Card>>,
    /// The data commands that the card received: index and argument.
    pub heard: Vec<(u8, u32)>,
    /// Whether the board switches the card's supply, which the controller cannot.
    pub board_switches: bool,
    /// Whether the board has switched the card's supply off.
    pub supply_off: bool,
    /// Number of times that the board has switched the card's supply on.
    pub switched_on: u32,
}

/// The switch of the card's supply on the board.
pub struct Supply(Rc<RefCell<Ills>>);

impl Surroundings for Supply {
    fn supply(&mut self, on: bool, _: bool, _: u64) -> Step {
        let mut ills = self.0.borrow_mut();
        if ills.board_switches {
            ills.supply_off = !on;
            ills.switched_on += u32::from(on);
            ills.brown_out |= on;
            (ills.mute, ills.is_stuck) = (false, false);
        }
        Step::Done
    }
}

struct Sick {
    card: Box<dyn Card>,
    ills: Rc<RefCell<Ills>>,
    bus: BusState,
}

impl Card for Sick {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        if !bus.powered {
            let mut ills = self.ills.borrow_mut();
            (ills.mute, ills.is_stuck) = (false, false);
        }
        self.bus = *bus;
        self.card.bus_changed(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        let mut ills = self.ills.borrow_mut();
        ills.commands += 1;
        if let Some(other) = ills.swap.take() {
            self.card = other;
            self.card.bus_changed(&self.bus, now_ns);
        }
        if ills.supply_off {
            return Reply::SILENT;
        }
        let at = ills.commands;
        if std::mem::take(&mut ills.brown_out) | ills.brown_out_at.take_if(|nth| *nth == at).is_some() {
            self.card.power_cut(now_ns);
            self.card.bus_changed(&self.bus, now_ns);
        }
        let nth = ills.commands;
        if ills.mute || ills.mute_for_ever || ills.deaf_at.contains(&nth) {
            return Reply::SILENT;
        }
        if ills.is_stuck {
            // The card shows the state `prg`, and answers no command except CMD13.
            return if index == 13 { Reply::short(13, 7 << 9) } else { Reply::SILENT };
        }
        if matches!(index, 19 | 21) {
            ills.detuned = false;
        }
        if matches!(index, 17 | 18 | 24 | 25) {
            ills.heard.push((index, arg));
        }
        let reply = self.card.command(index, arg, now_ns);
        if ills.mute_at.contains(&nth) { Reply::SILENT } else { reply }
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        let block = self.card.read_block(buffer, now_ns);
        let ills = self.ills.borrow();
        let slow = ills.reads_up_to_hz.is_none_or(|hz| self.bus.clock_hz <= hz);
        let well =
            slow && !ills.detuned && ills.bad_byte.is_none_or(|bad| buffer.len() != 512 || buffer[0] != bad);
        match block {
            ReadBlock::At { start_ns, crc_ok } => ReadBlock::At { start_ns, crc_ok: crc_ok && well },
            never => never,
        }
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        let mut block = self.card.write_block(data, crc_ok, now_ns);
        let mut ills = self.ills.borrow_mut();
        if std::mem::take(&mut ills.stuck_busy) {
            ills.is_stuck = true;
            block.busy_until_ns = now_ns + 1_000_000_000_000_000;
        }
        block
    }

    fn busy(&self, now_ns: u64) -> bool {
        self.ills.borrow().is_stuck || self.card.busy(now_ns)
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        self.card.switching_voltage(now_ns)
    }

    fn peek(&mut self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.card.peek(at, buffer)
    }

    fn touched(&self, each: &mut dyn FnMut(u8, std::ops::Range<u64>)) {
        self.card.touched(each);
    }
}

/// Returns the model of a card, by the name of its profile file.
pub fn card(name: &str) -> Box<dyn Card> {
    quirky(name, |_| {})
}

/// Returns the model of a card, with a quirk added to its profile.
pub fn quirky(name: &str, quirk: impl FnOnce(&mut Quirks)) -> Box<dyn Card> {
    let mut profile = timed::profile(name);
    quirk(profile.quirks_mut());
    timed::card(&profile)
}

type Supervisor = Pin<Box<dyn Future<Output = (Event, DmaBuf)>>>;

pub struct Rig {
    pub time: Time,
    pub model: Rc<RefCell<Sdhci>>,
    pub memory: ShadowMemory,
    pub stack: &'static Stack,
    pub ills: Rc<RefCell<Ills>>,
    supervisor: RefCell<Option<Supervisor>>,
    /// The waker with which the supervisor is polled.
    pub waker: RefCell<Waker>,
    pub events: RefCell<Vec<Event>>,
    pub found: Found,
    options: Options,
}

impl Rig {
    /// Returns a rig whose card is in `tran`, with a supervisor.
    pub fn new(name: &str) -> Rig {
        Rig::with(name, Options::DEFAULT)
    }

    /// Returns a rig whose card was brought up with these options, with a supervisor.
    pub fn with(name: &str, options: Options) -> Rig {
        let rig = Rig::alone(name, options);
        rig.keep();
        rig
    }

    /// Returns a rig without a supervisor.
    pub fn alone(name: &str, options: Options) -> Rig {
        Rig::built(card(name), name.contains("emmc") || name == "hbg4a2", SdhciConfig::GENERIC_4_20, options)
    }

    /// Returns a rig with this card (an eMMC or not) and this controller.
    pub fn built(card: Box<dyn Card>, emmc: bool, config: SdhciConfig, options: Options) -> Rig {
        Rig::within(MemoryConfig::BITS32, card, emmc, config, options)
    }

    /// Returns a rig whose controller can reach this memory.
    pub fn within(
        sees: MemoryConfig,
        card: Box<dyn Card>,
        emmc: bool,
        config: SdhciConfig,
        options: Options,
    ) -> Rig {
        Rig::running(Config::DEFAULT, sees, card, emmc, config, options)
    }

    /// Returns a rig with this configuration of the engine.
    pub fn running(
        engine: Config,
        sees: MemoryConfig,
        card: Box<dyn Card>,
        emmc: bool,
        config: SdhciConfig,
        options: Options,
    ) -> Rig {
        let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
        let config = SdhciConfig { uhs_at_33v: emmc, ..config };
        let ills = Rc::new(RefCell::new(Ills::default()));
        let sick = Sick { card, ills: ills.clone(), bus: BusState::default() };
        let time = Time::new();
        let memory = ShadowMemory::new(sees);
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(Box::new(sick)))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::<129>::new()));
        let host = sdhci::Sdhci::new(port, memory.clone(), table, driver).unwrap();
        let host = Surrounded::new(host, Supply(ills.clone()));
        NOW_NS.set(0);
        let stack: &'static Stack = Box::leak(Box::new(timed::on(Erased::new(host), engine)));
        let supervisor = RefCell::new(None);
        let events = RefCell::new(Vec::new());
        let found =
            timed::drive(stack, &model, &time, card::bring_up(stack, buffer(1, 0), options)).0.unwrap();
        let waker = RefCell::new(Waker::noop().clone());
        Rig { time, model, memory, stack, ills, supervisor, waker, events, found, options }
    }

    /// Starts a supervisor for the card; if the rig has one already, the new supervisor replaces
    /// it.
    pub fn keep(&self) {
        let card = match self.events.borrow().last() {
            Some(Event::Inserted(Ok(card)) | Event::Changed(card) | Event::Exception { card, .. }) => *card,
            _ => self.found,
        };
        let future = card::supervise(self.stack, buffer(1, 0), self.options, card);
        *self.supervisor.borrow_mut() = Some(Box::pin(future));
        self.poll_supervisor();
    }

    /// Starts a supervisor for a slot that accepts only SD cards, for the card of the bring-up.
    pub fn keep_sd(&self) {
        let future = card::supervise_sd(self.stack, buffer(1, 0), self.options, self.found);
        *self.supervisor.borrow_mut() = Some(Box::pin(future));
        self.poll_supervisor();
    }

    /// Drops the supervisor, whichever of its steps is under way.
    pub fn leave(&self) {
        *self.supervisor.borrow_mut() = None;
    }

    pub fn poll_supervisor(&self) {
        NOW_NS.set(self.time.now());
        let mut supervisor = self.supervisor.borrow_mut();
        let Some(future) = supervisor.as_mut() else { return };
        let waker = self.waker.borrow().clone();
        if let Poll::Ready((event, _)) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            *supervisor = None;
            drop(supervisor);
            self.events.borrow_mut().push(event);
            self.keep();
        }
    }

    /// Advances to the next interrupt or deadline, and lets the stack handle it.
    pub fn turn(&self) {
        timed::turn(self.stack, &self.model, &self.time).unwrap();
        self.poll_supervisor();
    }

    /// Advances stack and model until the time `at_ns`.
    pub fn until(&self, at_ns: u64) {
        for _ in 0..1_000_000 {
            let next = self.stack.with(|engine| engine.next_deadline_ns()).unwrap_or(u64::MAX);
            let event = self.model.borrow().next_event_ns().unwrap_or(u64::MAX);
            if next.min(event) > at_ns && !self.model.borrow().irq() {
                self.time.set(self.model.borrow_mut().advance(at_ns).max(self.time.now()));
                NOW_NS.set(self.time.now());
                return;
            }
            self.turn();
        }
        panic!("time does not pass");
    }

    pub fn submit(&self, request: Request) -> SlotId {
        let now = self.time.now();
        NOW_NS.set(now);
        self.stack.with(|engine| engine.submit(request, now)).map_err(|(error, _)| error).unwrap()
    }

    pub fn read(&self, lba: u64, blocks: u32) -> SlotId {
        self.submit(Request::new(Kind::Read { lba, blocks }, buffer(blocks as usize, 0xee)))
    }

    pub fn write(&self, lba: u64, blocks: u32, fill: u8) -> SlotId {
        self.submit(Request::new(Kind::Write { lba, blocks }, buffer(blocks as usize, fill)))
    }

    pub fn flush(&self) -> SlotId {
        self.submit(Request::new(Kind::Flush, DmaBuf::EMPTY))
    }

    /// Advances until these requests are answered, for at most `limit_ns`. Returns the answers.
    pub fn finish(&self, ids: &[SlotId], limit_ns: u64) -> Vec<Completion> {
        let begin = self.time.now();
        let mut done: Vec<Option<Completion>> = ids.iter().map(|_| None).collect();
        for _ in 0..1_000_000 {
            for (id, done) in ids.iter().zip(&mut done) {
                if let Some(completion) = self.stack.with(|engine| engine.take(*id)) {
                    assert!(done.replace(completion).is_none(), "completed twice");
                }
            }
            if done.iter().all(Option::is_some) {
                return done.into_iter().flatten().collect();
            }
            let waited = self.time.now() - begin;
            assert!(waited <= limit_ns, "{waited} ns, and not answered; {:?}", self.trace());
            self.turn();
        }
        panic!("never answered; {:?}", self.trace());
    }

    /// Advances until this future ends. Returns its output.
    pub fn drive<F: Future>(&self, future: F) -> F::Output {
        let turn = || {
            self.turn();
            Ok(())
        };
        timed::try_drive(&self.time, turn, future).unwrap()
    }

    pub fn one(&self, id: SlotId) -> Completion {
        self.finish(&[id], 20_000_000_000).pop().unwrap()
    }

    pub fn stats(&self) -> Stats {
        self.stack.with(|engine| *engine.stats())
    }

    pub fn taken(&self, step: RecoveryStep) -> u64 {
        self.stats().recovery_steps[step as usize]
    }

    pub fn trace(&self) -> Vec<(u64, RecoveryStep)> {
        self.stack.with(|engine| engine.incidents().map(|event| (event.at_ns, event.step)).collect())
    }

    /// Applies these faults to the controller and its bus from now on.
    pub fn faults(&self, plan: Plan) {
        self.model.borrow_mut().set_faults(Faults::new(plan));
    }

    /// Checks that nothing was done that the controller or the memory forbids.
    pub fn checked(&self) {
        timed::checked(&self.memory, &self.model);
    }
}
