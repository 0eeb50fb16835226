//! A machine for one life: from power-on to the next power cut.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::case::{BusyBy, SLOTS, Setup};
use super::wire::Wire;
use crate::alone::Alone;
use mmcq::engine::{self, Acknowledge, FlushBy};
use mmcq::host::Width;
use mmcq::host::mshc::{self, Descriptors, DesignWareLayout, Mshc as MshcDriver, MshcLayout, SmhcLayout};
use mmcq::host::rtsx::{self, Buffers};
use mmcq::host::sdhci::{
    self, Adma3, ChainList, Cqhci, CqhciConfig, CqhciQuirks, Table, TaskList, TransferMode,
};
use mmcq::host::spi::{Spi, SpiConfig, SpiMemory};
use mmcq::sched::Profile;
use mmcq::task::{Platform, RequestFuture, Timer};
use mmcq_sim::card::{AtStake, Card, Kept, Stage};
use mmcq_sim::faults::Faults;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::mshc::{Mshc, MshcConfig, Port as MshcPort};
use mmcq_sim::rtsx::{Port as ReaderPort, Rtsx, RtsxConfig};
use mmcq_sim::sdhci::{Busy, CqhciConfig as QueueEngine, Mistakes, Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::SpiSlot;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::thread::LocalKey;

/// Descriptors in the driver's table.
const DESCRIPTORS: usize = 129;

/// The driver.
pub type Driver = sdhci::Sdhci<Port, ShadowMemory, DESCRIPTORS>;
/// Pieces of memory in a task of the queue engine.
const PIECES: usize = 16;

/// That of a controller with a queue engine.
pub type QueueDriver = Cqhci<Port, ShadowMemory, DESCRIPTORS, PIECES>;
/// Transfers in a chain.
const CHAINED: usize = 8;
/// That of a controller that executes chains.
pub type ChainDriver = Adma3<Port, ShadowMemory, DESCRIPTORS, CHAINED, PIECES>;
/// That of a reader.
pub type ReaderDriver = rtsx::Rtsx<ReaderPort, ShadowMemory>;
/// That of a mobile storage host.
pub type HostDriver<L> = MshcDriver<L, MshcPort, ShadowMemory, (), DESCRIPTORS>;
/// The engine's handle.
pub type Stack<B> = mmcq::task::Stack<B, SLOTS>;
/// A request as a future.
pub type Request<'a, B> = RequestFuture<'a, B, SLOTS>;

/// A model that counts what its driver must not do.
pub trait Model: Controller {
    /// How often the driver did such, and what was first.
    fn wrongs(&self) -> (u64, String);
}

impl Model for Sdhci {
    fn wrongs(&self) -> (u64, String) {
        let first = self.first_violation().map(|(at_ns, what)| format!("at {at_ns} ns: {what}"));
        (self.protocol_violations(), first.unwrap_or_default())
    }
}

impl Model for Rtsx {
    fn wrongs(&self) -> (u64, String) {
        (self.protocol_violations(), "what its model forbids".to_owned())
    }
}

impl Model for Mshc {
    fn wrongs(&self) -> (u64, String) {
        (self.protocol_violations(), "what its model forbids".to_owned())
    }
}

impl Model for SpiSlot {
    fn wrongs(&self) -> (u64, String) {
        (self.protocol_violations(), "what a card in SPI mode cannot bear".to_owned())
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    /// Tables of machines that are gone: a driver wants one for ever, and a campaign has many
    /// drivers.
    static TABLES: Pool<Table<DESCRIPTORS>> = const { RefCell::new(Vec::new()) };
    /// The same of queue engines.
    static LISTS: Pool<TaskList<PIECES>> = const { RefCell::new(Vec::new()) };
    /// The same of chains.
    static CHAINS: Pool<ChainList<CHAINED, PIECES>> = const { RefCell::new(Vec::new()) };
    /// The same of readers.
    static BUFFERS: Pool<Buffers> = const { RefCell::new(Vec::new()) };
    /// The same of mobile storage hosts.
    static LINKS: Pool<Descriptors<DESCRIPTORS>> = const { RefCell::new(Vec::new()) };
    /// The same of SPI buses.
    static WIRES: Pool<SpiMemory> = const { RefCell::new(Vec::new()) };
}

type Pool<T> = RefCell<Vec<NonNull<T>>>;

/// Memory of a driver that goes back to its pool.
struct Lease<T: 'static>(NonNull<T>, &'static LocalKey<Pool<T>>);

impl<T> Lease<T> {
    fn new(pool: &'static LocalKey<Pool<T>>, new: fn() -> T) -> Self {
        let free = pool.with_borrow_mut(Vec::pop);
        Lease(free.unwrap_or_else(|| NonNull::from(Box::leak(Box::new(new())))), pool)
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.1.with_borrow_mut(|pool| pool.push(self.0));
    }
}

/// The machine asks the engine for its deadline itself.
const TIMER: Timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |_| {} };

/// Calls of the interrupt handler in a row, until the line counts as stuck: by PIO each block is
/// one.
const CALLS_MAX: u32 = 4096;

/// The clock of an SPI bus.
const SPI_HZ: u32 = 25_000_000;

/// Where SDMA stops.
const BOUNDARY: u64 = 512 * 1024;

/// What a step of the machine came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The controller did something by itself.
    Event,
    /// The stack was called.
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
    /// Dropped after the driver that holds it.
    _table: Box<dyn Any>,
}

fn memory_of(setup: &Setup) -> ShadowMemory {
    let first = if setup.near_boundary { BOUNDARY - 4096 } else { 0 };
    let base = MemoryConfig::BITS32.base + first;
    ShadowMemory::new(MemoryConfig { base, ..MemoryConfig::BITS32 })
}

fn engine_config(setup: &Setup) -> engine::Config {
    engine::Config::DEFAULT
        .merge_blocks(if setup.merge { engine::Config::DEFAULT.merge_blocks } else { 1 })
        .acknowledge(if setup.early { Acknowledge::Transferred } else { Acknowledge::Programmed })
}

/// A controller with its driver, not yet the engine's.
struct Parts {
    model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    time: Time,
    driver: Driver,
    table: Lease<Table<DESCRIPTORS>>,
}

impl Parts {
    fn new(
        (model, driver): (SdhciConfig, sdhci::SdhciConfig),
        memory: ShadowMemory,
        access_ns: u8,
        mut card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let time = Time::new();
        time.set(now_ns);
        card.set_faults(faults.clone());
        let model = Rc::new(RefCell::new(Sdhci::new(model, memory.clone(), Some(card))));
        model.borrow_mut().set_faults(faults.clone());
        model.borrow_mut().advance(now_ns);
        let access_ns = u64::from(access_ns);
        let port = Port::new(model.clone(), time.clone(), access_ns, access_ns);
        let table = Lease::new(&TABLES, Table::new);
        // SAFETY: leaked memory, and the lease has no other owner until the driver is gone.
        let words = unsafe { &mut *table.0.as_ptr() };
        let driver =
            sdhci::Sdhci::new(port, memory.clone(), words, driver).map_err(|error| error.to_string())?;
        NOW_NS.set(now_ns);
        Ok(Parts { model, memory, time, driver, table })
    }
}

impl<P: Profile> Machine<(Alone, Driver, P)> {
    /// An SDHCI; power-on at this time.
    pub fn sdhci(
        setup: &Setup,
        profile: P,
        emmc: bool,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let configs = configs(setup, emmc);
        let parts = Parts::new(configs, memory_of(setup), setup.access_ns, card, faults, now_ns)?;
        let Parts { model, memory, time, driver, table } = parts;
        let stack = Stack::with_policy(Alone, TIMER, driver, engine_config(setup), profile);
        Ok(Machine { stack, model, memory, time, mapped: 1, early: setup.early, _table: Box::new(table) })
    }
}

impl<P: Profile> Machine<(Alone, QueueDriver, P)> {
    /// An SDHCI with a queue engine; power-on at this time.
    pub fn queue_engine(
        setup: &Setup,
        profile: P,
        emmc: bool,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (mut model, driver) = configs(setup, emmc);
        // Tasks of 64 bits; of 128; of 128 with descriptors of 96, as Intel's, which keep ends of
        // tasks that were cleared.
        let (bits, spec) = match setup.engine {
            1 => (0, model.spec),
            2 => (3 << 27, SdhciConfig::GENERIC_4_20.spec),
            _ => (1 << 28, 2),
        };
        let short_descriptors = setup.engine > 2;
        let at =
            QueueEngine { short_descriptors, stale_completions: short_descriptors, ..QueueEngine::INTEL };
        let capabilities = model.capabilities & !(3 << 27) | bits;
        model = SdhciConfig { spec, capabilities, command_queue: Some(at), ..model };
        let parts = Parts::new((model, driver), memory_of(setup), setup.access_ns, card, faults, now_ns)?;
        let Parts { model, memory, time, driver, table } = parts;
        let list = Lease::new(&LISTS, TaskList::new);
        // SAFETY: as above.
        let words = unsafe { &mut *list.0.as_ptr() };
        let quirks = if short_descriptors { CqhciQuirks::SHORT_DESCRIPTORS } else { CqhciQuirks::NONE };
        // SAFETY: the model has its engine there.
        let config = unsafe { CqhciConfig::at(at.offset) }.quirks(quirks);
        let host = Cqhci::new(driver, words, config);
        let mapped = memory.live_mappings();
        let stack = Stack::with_policy(Alone, TIMER, host, engine_config(setup), profile);
        let tables = Box::new((table, list));
        Ok(Machine { stack, model, memory, time, mapped, early: setup.early, _table: tables })
    }
}

impl<P: Profile> Machine<(Alone, ChainDriver, P)> {
    /// An SDHCI that executes chains; power-on at this time.
    pub fn chains(
        setup: &Setup,
        profile: P,
        emmc: bool,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (model, driver) = configs(setup, emmc);
        let model = SdhciConfig { capabilities1: model.capabilities1 | 1 << 27, ..model };
        let parts = Parts::new((model, driver), memory_of(setup), setup.access_ns, card, faults, now_ns)?;
        let Parts { model, memory, time, driver, table } = parts;
        let list = Lease::new(&CHAINS, ChainList::new);
        // SAFETY: as above.
        let host = Adma3::new(driver, unsafe { &mut *list.0.as_ptr() });
        let mapped = memory.live_mappings();
        let stack = Stack::with_policy(Alone, TIMER, host, engine_config(setup), profile);
        let tables = Box::new((table, list));
        Ok(Machine { stack, model, memory, time, mapped, early: setup.early, _table: tables })
    }
}

impl Machine<(Alone, ReaderDriver)> {
    /// A reader that leaves transfers open; power-on at this time.
    pub fn reader(
        setup: &Setup,
        mut card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let time = Time::new();
        time.set(now_ns);
        let memory = memory_of(setup);
        card.set_faults(faults.clone());
        let model = Rc::new(RefCell::new(Rtsx::new(RtsxConfig::GENERIC, memory.clone(), Some(card))));
        model.borrow_mut().set_faults(faults.clone());
        model.borrow_mut().advance(now_ns);
        let access_ns = u64::from(setup.access_ns);
        let port = ReaderPort::new(model.clone(), time.clone(), access_ns, access_ns);
        let table = Lease::new(&BUFFERS, Buffers::new);
        // SAFETY: as above.
        let words = unsafe { &mut *table.0.as_ptr() };
        let driver =
            rtsx::RtsxConfig::new(rtsx::Chip::Rts5249).busy_after_data(setup.busy == BusyBy::Interrupt);
        let host = rtsx::Rtsx::new(port, memory.clone(), words, driver).map_err(|error| error.to_string())?;
        NOW_NS.set(now_ns);
        let stack = Stack::new(Alone, TIMER, host, engine_config(setup));
        Ok(Machine { stack, model, memory, time, mapped: 2, early: true, _table: Box::new(table) })
    }
}

impl Machine<(Alone, HostDriver<SmhcLayout>)> {
    /// Allwinner's mobile storage host; power-on at this time.
    pub fn smhc(setup: &Setup, card: Box<dyn Card>, faults: &Faults, now_ns: u64) -> Result<Self, String> {
        let config = MshcConfig { lines: 8, ..MshcConfig::H3 };
        Self::mshc(config, setup, card, faults, now_ns)
    }
}

impl Machine<(Alone, HostDriver<DesignWareLayout>)> {
    /// DesignWare's mobile storage host; power-on at this time.
    pub fn designware(
        setup: &Setup,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let config = MshcConfig { lines: 8, ..MshcConfig::JH7110 };
        Self::mshc(config, setup, card, faults, now_ns)
    }
}

impl<L: MshcLayout> Machine<(Alone, HostDriver<L>)> {
    fn mshc(
        config: MshcConfig,
        setup: &Setup,
        mut card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let time = Time::new();
        time.set(now_ns);
        let memory = memory_of(setup);
        card.set_faults(faults.clone());
        let model = Rc::new(RefCell::new(Mshc::new(config, memory.clone(), Some(card))));
        model.borrow_mut().set_faults(faults.clone());
        model.borrow_mut().advance(now_ns);
        let access_ns = u64::from(setup.access_ns);
        let port = MshcPort::new(model.clone(), time.clone(), access_ns, access_ns);
        let table = Lease::new(&LINKS, Descriptors::new);
        // SAFETY: as above.
        let words = unsafe { &mut *table.0.as_ptr() };
        let driver = mshc::MshcConfig::new(config.source_hz)
            .max_clock_hz(52_000_000)
            .width(Width::W8)
            .high_speed(true)
            .fixed(!setup.is_removable());
        let host =
            MshcDriver::new(port, memory.clone(), (), words, driver).map_err(|error| error.to_string())?;
        NOW_NS.set(now_ns);
        let stack = Stack::new(Alone, TIMER, host, engine_config(setup));
        Ok(Machine { stack, model, memory, time, mapped: 1, early: setup.early, _table: Box::new(table) })
    }
}

impl Machine<(Alone, Spi<Wire>)> {
    /// A card in SPI mode on a bus of its own; power-on at this time.
    pub fn spi(setup: &Setup, mut card: Box<dyn Card>, faults: &Faults, now_ns: u64) -> Result<Self, String> {
        let time = Time::new();
        time.set(now_ns);
        card.set_faults(faults.clone());
        let model = Rc::new(RefCell::new(SpiSlot::new(Some(card))));
        model.borrow_mut().set_faults(faults.clone());
        model.borrow_mut().advance(now_ns);
        let bytes = Lease::new(&WIRES, SpiMemory::new);
        // SAFETY: as above.
        let words = unsafe { &mut *bytes.0.as_ptr() };
        let host = Spi::new(Wire::new(model.clone(), time.clone()), words, SpiConfig::new(SPI_HZ));
        NOW_NS.set(now_ns);
        let stack = Stack::new(Alone, TIMER, host, engine_config(setup));
        let memory = memory_of(setup);
        Ok(Machine { stack, model, memory, time, mapped: 0, early: true, _table: Box::new(bytes) })
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

    fn of(self, what: &AtStake, at_stake: &[AtStake]) -> Kept {
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

fn configs(setup: &Setup, emmc: bool) -> (SdhciConfig, sdhci::SdhciConfig) {
    let base = if setup.old_host { SdhciConfig::GENERIC_3_00 } else { SdhciConfig::GENERIC_4_20 };
    let busy = if setup.busy == BusyBy::Interrupt { Busy::Interrupt } else { Busy::Ignored };
    let mistakes = Mistakes { stop_completes_after_ns: u64::from(setup.stop_tells_ns), ..Mistakes::NONE };
    let model = SdhciConfig { busy, uhs_at_33v: emmc, fixed: emmc, mistakes, ..base };
    let driver =
        if emmc && !setup.old_host { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
    let transfer = setup.transfer;
    let driver = driver.quirks(setup.quirks()).transfer(transfer).fixed(emmc);
    (model, driver)
}

/// The transfer modes, for lists.
pub const TRANSFERS: [TransferMode; 3] = [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_way_of_every_sector_is_among_the_choices() {
        let version = |seq, sector, stage| AtStake { partition: 0, sector, seq, stage, reliable: false };
        let at_stake = [
            version(1, 7, Stage::Cached),
            version(2, 8, Stage::Cached),
            version(3, 7, Stage::Cached),
            version(4, 7, Stage::InFlight),
            version(5, 8, Stage::InFlight),
            version(6, 9, Stage::InFlight),
        ];
        let choices = Keeps::choices(&at_stake);
        assert_eq!((choices, Keeps::choices(&[])), (2 * 2 * 4, 1));
        for (sector, ways) in [(7, 16), (8, 8), (9, 4)] {
            let of = |choice| {
                let own = at_stake.iter().filter(|what| what.sector == sector);
                own.map(|what| Keeps::Choice(choice).of(what, &at_stake)).collect::<Vec<_>>()
            };
            assert_eq!((0..choices).map(of).collect::<BTreeSet<_>>().len(), ways);
        }
    }
}
