//! A machine for one life, which is the time from power-on to the next power cut.

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

/// Handle of mmcq's engine.
pub type Stack<B> = mmcq::task::Stack<B, SLOTS>;
/// A request to the engine as a future.
pub type Request<'a, B> = RequestFuture<'a, B, SLOTS>;

/// A controller model that counts what its driver did and must not do.
pub trait Model: Controller {
    /// Returns the number of forbidden actions of the driver, and a text about the first.
    fn wrongs(&self) -> (u64, String) {
        (self.protocol_violations(), "what its model forbids".to_owned())
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// Timer of the stack. It sets no alarm: the machine reads the engine's deadline itself.
pub const TIMER: Timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |_| {} };

/// Calls of the interrupt handler in a row after which the interrupt counts as stuck. With PIO each
/// block is one call.
const CALLS_MAX: u32 = 4096;

/// Result of one step of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The controller had an event of its own.
    Event,
    /// The interrupt handler was called, or time advanced to the deadline that the stack has set.
    Called,
    /// There is nothing left that could ever happen.
    Quiet,
    /// The driver left its interrupt asserted.
    Storm,
}

/// Controller, memory, driver and engine, with the card in the slot.
pub struct Machine<B: Platform> {
    /// The engine with its driver.
    pub stack: Stack<B>,
    /// The controller's model.
    pub model: Rc<RefCell<dyn Model>>,
    /// Memory that DMA can reach.
    pub memory: ShadowMemory,
    time: Time,
    /// Number of mappings that the driver has made for itself.
    mapped: usize,
    /// Whether writes are reported complete before their status: because the case asks for it, or
    /// because the driver may leave a transfer open.
    early: bool,
    /// Memory that the driver uses; it must be dropped after the driver.
    _tables: Box<dyn Any>,
}

/// A controller at power-on, with its card in the slot and the memory that its DMA can reach.
pub struct Powered<M> {
    /// The controller's model.
    pub model: Rc<RefCell<M>>,
    /// Memory that DMA can reach.
    pub memory: ShadowMemory,
    /// Virtual time, as the code under test sees it.
    pub time: Time,
}

impl<M: Model + 'static> Powered<M> {
    /// Powers on the controller that `build` makes of memory and card.
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

    /// Adds the engine. `early`: writes are reported complete before their status. `tables`: memory
    /// of the driver, which goes back to its pools after the driver is dropped.
    pub fn machine<B: Platform>(self, stack: Stack<B>, early: bool, tables: impl Any) -> Machine<B> {
        let Powered { model, memory, time } = self;
        let mapped = memory.live_mappings();
        Machine { stack, model, memory, time, mapped, early, _tables: Box::new(tables) }
    }
}

impl<M: RegisterFile> Powered<M> {
    /// Returns the register port, with this time in ns for each access.
    pub fn port(&self, access_ns: u8) -> Port<M> {
        let access_ns = u64::from(access_ns);
        Port::new(self.model.clone(), self.time.clone(), access_ns, access_ns)
    }
}

impl<B: Platform> Machine<B> {
    /// Returns the number of mappings that should not exist: all but the driver's own table and the
    /// buffers given up. A buffer is given up to a controller that no reset stops, which may use it
    /// for ever.
    pub fn mappings_left(&self) -> usize {
        let given_up = self.stack.with(|engine| engine.stats().leaked);
        self.memory.live_mappings().saturating_sub(self.mapped + given_up as usize)
    }

    /// Returns the virtual time in ns.
    pub fn now(&self) -> u64 {
        self.time.now()
    }

    /// Lets the next thing happen: an interrupt, an event of the controller, or the stack's
    /// deadline.
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

    /// Advances time to `until_ns`. If an interrupt, event or deadline comes before, it only
    /// returns whether `until_ns` is already reached.
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

    /// Returns whether a completed write is durable: the card has no cache or the cache is off, and
    /// no write is reported complete before its status.
    pub fn write_through(&self) -> bool {
        !self.early
            && self
                .stack
                .with(|engine| engine.card_params().is_none_or(|target| target.flush == FlushBy::Status))
    }

    /// Returns the capacity of the card in sectors.
    pub fn sectors(&self) -> u64 {
        self.stack.with(|engine| engine.card_params().map_or(0, |target| target.sectors))
    }

    /// Returns a text about the first thing that controller, driver or memory did wrong, or `None`.
    /// `lenient`: the driver's commands are not checked.
    pub fn misbehaviour(&self, lenient: bool) -> Option<String> {
        if let Some(text) = self.memory.violations().into_iter().next() {
            return Some(text);
        }
        let model = self.model.borrow();
        let (violations, first) = model.wrongs();
        (violations > 0 && !lenient)
            .then(|| format!("the driver broke the controller's rules {violations} times, first {first}"))
    }

    /// Cuts the power and returns the card. `keeps` decides what is left of the writes that were
    /// under way or in the card's cache.
    pub fn cut(self, keeps: Keeps) -> Option<Box<dyn Card>> {
        let now_ns = self.now();
        let mut model = self.model.borrow_mut();
        let mut card = model.remove(now_ns).or_else(|| model.removed())?;
        let at_stake = if let Keeps::Choice(_) = keeps { card.at_stake(now_ns) } else { Vec::new() };
        card.cut(now_ns, &mut |what| keeps.of(what, &at_stake));
        Some(card)
    }
}

/// What a power cut leaves of the sectors at stake (those whose writes are not yet on the medium).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The content before the writes.
    Nothing,
    /// All writes.
    Everything,
    /// Choice number n for every sector, as [`Keeps::choices`] counts them.
    Choice(u64),
    /// One of the possible results for each sector, at random from this seed.
    Luck(u64),
}

/// Returns all results that a power cut can have for a sector at stake.
fn ways(what: &AtStake) -> &'static [Kept] {
    match what.stage {
        Stage::InFlight if !what.reliable => &[Kept::Old, Kept::New, Kept::Torn, Kept::Mixed],
        _ => &[Kept::Old, Kept::New],
    }
}

/// Returns the number of results for a sector with these versions.
fn product<'a>(versions: impl Iterator<Item = &'a AtStake>) -> u64 {
    versions.fold(1, |product, what| product.saturating_mul(ways(what).len() as u64))
}

fn same_sector(one: &AtStake, other: &AtStake) -> bool {
    (one.partition, one.sector) == (other.partition, other.sector)
}

impl Keeps {
    /// Returns the largest number of results that a cut can have for one sector. Results of
    /// different sectors are independent, and the checker examines each sector alone. So the
    /// results of all sectors are tried side by side: no combination of them could show more.
    #[must_use]
    pub fn choices(at_stake: &[AtStake]) -> u64 {
        let of_sector = |what| product(at_stake.iter().filter(|other| same_sector(what, other)));
        at_stake.iter().map(of_sector).max().unwrap_or(1)
    }

    /// Returns what is left of `what`, one of the writes at stake.
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
