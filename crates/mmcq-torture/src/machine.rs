//! A machine for one life: from power-on to the next power cut.

use super::case::SLOTS;
use mmcq::engine::FlushBy;
use mmcq::host::sdhci::TransferMode;
use mmcq::task::{Platform, RequestFuture, Timer};
use mmcq_sim::card::{AtStake, Card, Kept, Stage};
use mmcq_sim::faults::Faults;
use mmcq_sim::memory::ShadowMemory;
use mmcq_sim::port::{Port, RegisterFile};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The engine's handle.
pub type Stack<B> = mmcq::task::Stack<B, SLOTS>;
/// A request as a future.
pub type Request<'a, B> = RequestFuture<'a, B, SLOTS>;

/// A model that counts what its driver must not do.
pub trait Model: Controller {
    /// How often the driver did such, and what was first.
    fn wrongs(&self) -> (u64, String) {
        (self.protocol_violations(), "what its model forbids".to_owned())
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// The machine asks the engine for its deadline itself.
pub const TIMER: Timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |_| {} };

/// Calls of the interrupt handler in a row, until the line counts as stuck: by PIO each block is
/// one.
const CALLS_MAX: u32 = 4096;

/// What a step of the machine came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The controller did something by itself.
    Event,
    /// The interrupt handler was called, or time went on to the deadline that the stack has set.
    Called,
    /// Nothing will ever happen again.
    Quiet,
    /// The driver left the interrupt asserted.
    Storm,
}

/// Controller, memory, driver and engine; the card is in the slot.
pub struct Machine<B: Platform> {
    /// The engine.
    pub stack: Stack<B>,
    /// The controller.
    pub model: Rc<RefCell<dyn Model>>,
    /// DMA memory.
    pub memory: ShadowMemory,
    time: Time,
    /// What the driver has mapped for itself.
    mapped: usize,
    /// Writes are complete before their status: as was asked, or since a transfer may be left open.
    early: bool,
    /// Dropped after the driver that holds them.
    _tables: Box<dyn Any>,
}

/// A controller at power-on, with its card in the slot and the memory that its DMA sees.
pub struct Powered<M> {
    /// The controller.
    pub model: Rc<RefCell<M>>,
    /// DMA memory.
    pub memory: ShadowMemory,
    /// The time of the code that runs.
    pub time: Time,
}

impl<M: Model + 'static> Powered<M> {
    /// What `build` makes of memory and card, when it is so late.
    pub fn new(
        memory: ShadowMemory,
        mut card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
        build: impl FnOnce(ShadowMemory, Option<Box<dyn Card>>) -> M,
    ) -> Self {
        let time = Time::new();
        time.set(now_ns);
        NOW_NS.set(now_ns);
        card.set_faults(faults.clone());
        let model = Rc::new(RefCell::new(build(memory.clone(), Some(card))));
        model.borrow_mut().set_faults(faults.clone());
        model.borrow_mut().advance(now_ns);
        Powered { model, memory, time }
    }

    /// With its engine. `early`: writes are complete before their status; `tables`: what goes back to
    /// its pools behind the driver.
    pub fn machine<B: Platform>(self, stack: Stack<B>, early: bool, tables: impl Any) -> Machine<B> {
        let Powered { model, memory, time } = self;
        let mapped = memory.live_mappings();
        Machine { stack, model, memory, time, mapped, early, _tables: Box::new(tables) }
    }
}

impl<M: RegisterFile> Powered<M> {
    /// The registers, at this price of an access.
    pub fn port(&self, access_ns: u8) -> Port<M> {
        let access_ns = u64::from(access_ns);
        Port::new(self.model.clone(), self.time.clone(), access_ns, access_ns)
    }
}

impl<B: Platform> Machine<B> {
    /// Mappings beyond the driver's table and those of buffers that were given up: to a controller
    /// that no reset stops, which may use them for ever.
    pub fn mappings_left(&self) -> usize {
        let given_up = self.stack.with(|engine| engine.stats().leaked);
        self.memory.live_mappings().saturating_sub(self.mapped + given_up as usize)
    }

    /// Now.
    pub fn now(&self) -> u64 {
        self.time.now()
    }

    /// The next thing that happens.
    pub fn step(&self) -> Step {
        if self.model.borrow().irq() {
            NOW_NS.set(self.time.now());
            for _ in 0..CALLS_MAX {
                self.stack.on_irq();
                if !self.model.borrow().irq() {
                    return Step::Called;
                }
            }
            return Step::Storm;
        }
        let deadline = self.stack.with(|engine| engine.next_deadline_ns());
        let event = self.model.borrow().next_event_ns();
        match (event, deadline) {
            (None, None) => Step::Quiet,
            (Some(event), deadline) if deadline.is_none_or(|at| event <= at) => {
                let reached = self.model.borrow_mut().advance(event);
                self.reach(reached);
                Step::Event
            }
            (_, deadline) => {
                let at = deadline.unwrap_or(0).max(self.time.now());
                let reached = self.model.borrow_mut().advance(at);
                self.reach(reached);
                if reached >= at {
                    self.stack.poll();
                }
                Step::Called
            }
        }
    }

    /// Lets time pass up to then, unless something happens before: then false.
    pub fn rests_until(&self, until_ns: u64) -> bool {
        let deadline = self.stack.with(|engine| engine.next_deadline_ns());
        let event = self.model.borrow().next_event_ns();
        if self.model.borrow().irq() || event.into_iter().chain(deadline).any(|at| at <= until_ns) {
            return self.time.now() >= until_ns;
        }
        let reached = self.model.borrow_mut().advance(until_ns);
        self.reach(reached);
        true
    }

    fn reach(&self, now_ns: u64) {
        self.time.set(self.time.now().max(now_ns));
        NOW_NS.set(self.time.now());
    }

    /// What is complete is durable: the card's cache is off, or there is none, and no write is
    /// complete before its status.
    pub fn write_through(&self) -> bool {
        !self.early
            && self
                .stack
                .with(|engine| engine.card_params().is_none_or(|target| target.flush == FlushBy::Status))
    }

    /// Sectors of the card.
    pub fn sectors(&self) -> u64 {
        self.stack.with(|engine| engine.card_params().map_or(0, |target| target.sectors))
    }

    /// What controller, driver and memory did that they must not; `lenient`: of the driver's
    /// commands nothing is said.
    pub fn misbehaviour(&self, lenient: bool) -> Option<String> {
        if let Some(text) = self.memory.violations().into_iter().next() {
            return Some(text);
        }
        let model = self.model.borrow();
        let (violations, first) = model.wrongs();
        (violations > 0 && !lenient)
            .then(|| format!("the driver broke the controller's rules {violations} times, first {first}"))
    }

    /// The power goes; what is left is the card. `keeps` decides about what was under way or in its
    /// cache.
    pub fn cut(self, keeps: Keeps) -> Option<Box<dyn Card>> {
        let now_ns = self.now();
        let mut model = self.model.borrow_mut();
        let mut card = model.remove(now_ns).or_else(|| model.removed())?;
        let at_stake = if let Keeps::Choice(_) = keeps { card.at_stake(now_ns) } else { Vec::new() };
        card.cut(now_ns, &mut |what| keeps.of(what, &at_stake));
        Some(card)
    }
}

/// What a power cut leaves of the sectors at stake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// What was there before.
    Nothing,
    /// All of it.
    Everything,
    /// The nth way of every sector, as [`Keeps::choices`] counts them.
    Choice(u64),
    /// Any of the four, by luck.
    Luck(u64),
}

/// All that may be left of a sector at stake.
fn ways(what: &AtStake) -> &'static [Kept] {
    match what.stage {
        Stage::InFlight if !what.reliable => &[Kept::Old, Kept::New, Kept::Torn, Kept::Mixed],
        _ => &[Kept::Old, Kept::New],
    }
}

/// How many ways a sector has whose versions are these.
fn product<'a>(versions: impl Iterator<Item = &'a AtStake>) -> u64 {
    versions.fold(1, |product, what| product.saturating_mul(ways(what).len() as u64))
}

fn same_sector(one: &AtStake, other: &AtStake) -> bool {
    (one.partition, one.sector) == (other.partition, other.sector)
}

impl Keeps {
    /// In how many ways a cut can decide about a sector, at most. What is left of one sector does
    /// not depend on what is left of another, and the judge looks at one at a time: so the ways of
    /// all sectors are tried side by side, and no combination of them could show more.
    #[must_use]
    pub fn choices(at_stake: &[AtStake]) -> u64 {
        let of_sector = |what| product(at_stake.iter().filter(|other| same_sector(what, other)));
        at_stake.iter().map(of_sector).max().unwrap_or(1)
    }

    /// What is left of this one of those at stake.
    pub fn of(self, what: &AtStake, at_stake: &[AtStake]) -> Kept {
        let ways = ways(what);
        match self {
            Keeps::Nothing => Kept::Old,
            Keeps::Everything => Kept::New,
            Keeps::Choice(choice) => {
                let before = at_stake.iter().take_while(|other| other.seq != what.seq);
                let digit = choice / product(before.filter(|other| same_sector(what, other)));
                ways[digit as usize % ways.len()]
            }
            Keeps::Luck(seed) => {
                let mixed = (what.seq ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let luck = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
                ways[luck as usize % ways.len()]
            }
        }
    }
}

/// The transfer modes, for lists.
pub const TRANSFERS: [TransferMode; 3] = [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio];
