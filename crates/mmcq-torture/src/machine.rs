//! A simulated board with its card, which exists from a power-on to the next power cut.

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

/// The stack of a machine: a handle of mmcq's engine.
pub type Stack<B> = mmcq::task::Stack<B, SLOTS>;
/// Future of a request to the stack.
pub type Request<'a, B> = RequestFuture<'a, B, SLOTS>;

/// A controller model that counts the driver's forbidden actions.
pub trait Model: Controller {
    /// Returns the number of forbidden actions of the driver, and a description of the first.
    fn wrongs(&self) -> (u64, String) {
        (self.protocol_violations(), "what its model forbids".to_owned())
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    /// Time in ns by which the stack's clock is ahead of the time of the simulated board.
    static AHEAD_NS: Cell<u64> = const { Cell::new(0) };
}

/// Timer of the stack. It sets no alarm, since the simulated machine reads the engine's deadline
/// itself.
pub const TIMER: Timer = Timer { now_ns: stack_ns, set_alarm: |_| {} };

/// Returns the time of the stack's clock in ns.
pub(super) fn stack_ns() -> u64 {
    NOW_NS.get() + AHEAD_NS.get()
}

/// Number of interrupt handler calls in a row after which the interrupt counts as stuck. With PIO
/// each block needs one call.
const CALLS_MAX: u32 = 4096;

/// What happened in one step of the simulated board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The controller model has processed one of its own events, such as the end of a block.
    Event,
    /// The interrupt handler was called, or the time has advanced to the stack's deadline.
    Called,
    /// The simulated board has no further event, and the stack waits for none: nothing can happen.
    Quiet,
    /// The driver did not clear its interrupt, which stays asserted.
    Storm,
}

/// A machine: controller, memory, driver and engine, with the card in the slot.
pub struct Machine<B: Platform> {
    /// Handle of the engine, which contains the driver of the controller.
    pub stack: Stack<B>,
    /// Model of the controller.
    pub model: Rc<RefCell<dyn Model>>,
    /// Simulated memory of the machine, which the controller model accesses by DMA.
    pub memory: ShadowMemory,
    time: Time,
    /// Number of DMA mappings that the driver has made for its own tables and buffers.
    mapped: usize,
    /// Whether writes are reported complete before their status. True if the case wants this, or if
    /// the driver may leave a transfer open.
    early: bool,
    /// Memory that the driver uses. It must be dropped after the driver.
    _tables: Box<dyn Any>,
}

/// A controller after power-on, with its card and the memory for its DMA.
pub struct Powered<M> {
    /// Model of the controller.
    pub model: Rc<RefCell<M>>,
    /// Simulated memory of the machine, which the controller model accesses by DMA.
    pub memory: ShadowMemory,
    /// Virtual time of the code under test.
    pub time: Time,
}

impl<M: Model + 'static> Powered<M> {
    /// Powers on the controller that `build` makes from memory and card.
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
        AHEAD_NS.set(0);
        card.set_faults(faults.clone());
        let model = Rc::new(RefCell::new(build(memory.clone(), Some(card))));
        model.borrow_mut().set_faults(faults.clone());
        model.borrow_mut().advance(now_ns);
        Powered { model, memory, time }
    }

    /// Adds the engine (`stack`) to controller and card. With `early`, the engine completes a write
    /// before the card's status has been read. `tables` is memory of the driver; it returns to its
    /// pool after the driver is dropped.
    pub fn machine<B: Platform>(self, stack: Stack<B>, early: bool, tables: impl Any) -> Machine<B> {
        let Powered { model, memory, time } = self;
        let mapped = memory.live_mappings();
        Machine { stack, model, memory, time, mapped, early, _tables: Box::new(tables) }
    }
}

impl<M: RegisterFile> Powered<M> {
    /// Returns the register port; each access takes this time in ns.
    pub fn port(&self, access_ns: u8) -> Port<M> {
        let access_ns = u64::from(access_ns);
        Port::new(self.model.clone(), self.time.clone(), access_ns, access_ns)
    }
}

impl<B: Platform> Machine<B> {
    /// Returns the number of DMA mappings that should not exist any more. Mappings of the driver's
    /// own tables do not count. Buffers that were given up do not count either: a buffer is given
    /// up if a controller that no reset stops may use it for ever.
    pub fn mappings_left(&self) -> usize {
        let given_up = self.stack.with(|engine| engine.stats().leaked);
        self.memory.live_mappings().saturating_sub(self.mapped + given_up as usize)
    }

    /// Returns the virtual time in ns.
    pub fn now(&self) -> u64 {
        self.time.now()
    }

    /// Returns the time of the stack's clock in ns.
    pub fn stack_ns(&self) -> u64 {
        stack_ns()
    }

    /// Makes the stack's clock jump forward by this time in ns.
    pub fn jump(&self, ns: u64) {
        AHEAD_NS.set(AHEAD_NS.get() + ns);
    }

    /// Returns the machine's time in ns of the stack's next deadline.
    fn deadline_ns(&self) -> Option<u64> {
        let deadline = self.stack.with(|engine| engine.next_deadline_ns());
        deadline.map(|at| at.saturating_sub(AHEAD_NS.get()))
    }

    /// Advances to the next event and handles it: an interrupt, an event of the controller, or the
    /// stack's deadline. Returns which of these it was.
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
        let deadline = self.deadline_ns();
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

    /// Advances the time to `until_ns`, if no interrupt, event or deadline comes before. Returns
    /// whether `until_ns` is reached.
    pub fn rests_until(&self, until_ns: u64) -> bool {
        let deadline = self.deadline_ns();
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

    /// Returns whether a complete write is durable: the card has no cache or its cache is off, and
    /// writes are reported complete only after their status.
    pub fn write_through(&self) -> bool {
        !self.early
            && self
                .stack
                .with(|engine| engine.card_params().is_none_or(|target| target.flush == FlushBy::Status))
    }

    /// Returns whether the engine has the status of all writes, nothing was lost, and the card has no
    /// cache or its cache is off.
    pub fn is_settled(&self) -> bool {
        self.stack.with(|engine| {
            let through = engine.card_params().is_some_and(|target| target.flush == FlushBy::Status);
            through && engine.is_idle() && engine.losses() == 0
        })
    }

    /// Returns the capacity of the card in sectors.
    pub fn sectors(&self) -> u64 {
        self.stack.with(|engine| engine.card_params().map_or(0, |target| target.sectors))
    }

    /// Returns a description of the first forbidden access to memory or, if there was none, of the
    /// driver's first violation of the controller's rules; `None` if there was neither. With
    /// `lenient` only accesses to memory are reported.
    pub fn misbehaviour(&self, lenient: bool) -> Option<String> {
        if let Some(text) = self.memory.violations().into_iter().next() {
            return Some(text);
        }
        let model = self.model.borrow();
        let (violations, first) = model.wrongs();
        (violations > 0 && !lenient)
            .then(|| format!("the driver broke the controller's rules {violations} times, first {first}"))
    }

    /// Cuts the power. Returns the card; `keeps` decides what is left of writes that were under way
    /// or in its cache.
    pub fn cut(self, keeps: Keeps) -> Option<Box<dyn Card>> {
        let now_ns = self.now();
        let mut model = self.model.borrow_mut();
        let mut card = model.remove(now_ns).or_else(|| model.removed())?;
        let at_stake = if let Keeps::Choice(_) = keeps { card.at_stake(now_ns) } else { Vec::new() };
        card.cut(now_ns, &mut |what| keeps.of(what, &at_stake));
        Some(card)
    }
}

/// What a power cut leaves of the sectors at stake, whose writes are not on the medium yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// No data at stake reach the medium: every sector keeps the content that it had before its
    /// writes.
    Nothing,
    /// Every sector has the content of its newest write.
    Everything,
    /// Result number n for every sector, as [`Keeps::choices`] counts the results.
    Choice(u64),
    /// What the cut leaves is drawn at random for each sector, from this seed.
    Luck(u64),
}

/// Returns the results that a power cut can have for one written version of a sector that is not in
/// the flash yet.
fn ways(what: &AtStake) -> &'static [Kept] {
    match what.stage {
        Stage::InFlight if !what.reliable => &[Kept::Old, Kept::New, Kept::Torn, Kept::Mixed],
        _ => &[Kept::Old, Kept::New],
    }
}

/// Returns the number of results that a power cut can have for a sector with these versions.
fn product<'a>(versions: impl Iterator<Item = &'a AtStake>) -> u64 {
    versions.fold(1, |product, what| product.saturating_mul(ways(what).len() as u64))
}

fn same_sector(one: &AtStake, other: &AtStake) -> bool {
    (one.partition, one.sector) == (other.partition, other.sector)
}

impl Keeps {
    /// Returns the largest number of results that a power cut can have for one sector. Sectors are
    /// independent, and the checker examines each alone. So one number is used for all sectors at
    /// the same time: no combination could show more.
    #[must_use]
    pub fn choices(at_stake: &[AtStake]) -> u64 {
        let of_sector = |what| product(at_stake.iter().filter(|other| same_sector(what, other)));
        at_stake.iter().map(of_sector).max().unwrap_or(1)
    }

    /// Returns what remains of the written version `what` of a sector after the power cut: whether
    /// the sector keeps its old content, has the new one, or is torn. `at_stake` lists all versions
    /// that the cut may lose.
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

/// The transfer modes of an SDHCI controller from which each case draws one.
pub const TRANSFERS: [TransferMode; 3] = [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio];
