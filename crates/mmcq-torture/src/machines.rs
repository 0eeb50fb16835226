//! The machines of the campaigns: each controller with its driver.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::case::{BusyBy, Chip, Setup};
use super::machine::{Machine, Model, Powered, Stack, TIMER};
use super::meddled::Meddled;
use super::narrow::Narrow;
use super::wire::Wire;
use mmcq::board::NoLock;
use mmcq::engine::{self, Acknowledge};
use mmcq::host::Width;
use mmcq::host::bounce::Bounce;
use mmcq::host::mshc::{
    self, Descriptors, DesignWareLayout, Mshc as MshcDriver, MshcLayout, OpenTransfers, Scrap, SmhcLayout,
};
use mmcq::host::rtsx::{self, Buffers};
use mmcq::host::sdhci::{
    self, Adma3, ChainList, Cqhci, CqhciConfig, CqhciQuirks, OpenWrites, StreamConfig, Streams, Table,
    TaskList,
};
use mmcq::host::spi::{Spi, SpiConfig, SpiMemory};
use mmcq::host::stm32_sdmmc::{self as sdmmc, Pieces};
use mmcq::host::surroundings::Surrounded;
use mmcq::sched::Profile;
use mmcq_sim::card::Card;
use mmcq_sim::faults::Faults;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::mshc::{Board as MshcBoard, Mshc, MshcConfig, Port as MshcPort};
use mmcq_sim::rtsx::{Port as ReaderPort, Rtsx, RtsxConfig};
use mmcq_sim::sdhci::{Busy, CqhciConfig as QueueEngine, Mistakes, Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller as _;
use mmcq_sim::spi::SpiSlot;
use mmcq_sim::stm32_sdmmc::{Board, Port as SdmmcPort, Stm32Sdmmc, Stm32SdmmcConfig};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::thread::LocalKey;

/// Number of descriptors in a driver's DMA table.
const DESCRIPTORS: usize = 129;
/// Number of memory segments in a task of the command queue engine.
const PIECES: usize = 16;
/// Number of transfers in a chain (list of transfers that the controller executes).
const CHAINED: usize = 8;
/// Number of memory segments in the list of an SDMMC that has linked lists.
const LISTED: usize = 64;

/// Number of buffers that replace memory which the controller cannot use. All together hold two of
/// the longest requests.
const COPIED: usize = 16;
/// Size in bytes of each buffer that replaces memory which the controller cannot use.
const COPIED_BYTES: usize = 4096;

/// Driver of an SDHCI controller.
pub type Driver = Narrow<SdhciDriver>;
type SdhciDriver = sdhci::Sdhci<Port, ShadowMemory, DESCRIPTORS>;
/// Driver of an SDHCI controller that copies memory which the controller cannot use.
pub type BounceDriver = sdhci::Sdhci<Port, Bounce<ShadowMemory, COPIED>, DESCRIPTORS>;
/// Driver of an SDHCI controller with a command queue engine.
pub type QueueDriver = Narrow<Cqhci<Port, ShadowMemory, DESCRIPTORS, PIECES>>;
/// Driver of an SDHCI controller that executes chains (ADMA3).
pub type ChainDriver = Narrow<Adma3<Port, ShadowMemory, DESCRIPTORS, CHAINED, PIECES>>;
/// Driver of an SDHCI controller that leaves transfers open (without a CMD12).
pub type OpenDriver = Narrow<Streams<Port, ShadowMemory, DESCRIPTORS>>;
/// Driver of Realtek's card reader.
pub type ReaderDriver = Narrow<rtsx::Rtsx<ReaderPort, ShadowMemory>>;
type Narrowed<H> = Narrow<Meddled<H>>;
/// Driver of a mobile storage host, and of its board (such as regulators and card detection).
pub type HostDriver<L> =
    Narrowed<Surrounded<MshcDriver<L, MshcPort, ShadowMemory, MshcBoard, DESCRIPTORS>, MshcBoard>>;
/// Driver of DesignWare's mobile storage host that leaves transfers open (without a CMD12), and of
/// its board (such as regulators and card detection).
pub type OpenHostDriver =
    Narrowed<Surrounded<mshc::OpenDesignWare<MshcPort, ShadowMemory, MshcBoard, DESCRIPTORS>, MshcBoard>>;
/// Driver of ST's SDMMC, and of its board (such as regulators and card detection).
pub type SdmmcDriver<const PIECES: usize> =
    Narrowed<Surrounded<sdmmc::Stm32Sdmmc<SdmmcPort, ShadowMemory, Board, PIECES>, Board>>;
/// Driver of ST's SDMMC that leaves writes open, and of its board (such as regulators and card
/// detection).
pub type OpenSdmmcDriver =
    Narrowed<Surrounded<sdmmc::OpenStm32Sdmmc<SdmmcPort, ShadowMemory, Board, 1>, Board>>;

impl Model for Sdhci {
    fn wrongs(&self) -> (u64, String) {
        let first = self.first_violation().map(|(at_ns, what)| format!("at {at_ns} ns: {what}"));
        (self.protocol_violations(), first.unwrap_or_default())
    }
}

impl Model for Rtsx {}
impl Model for Mshc {}
impl Model for Stm32Sdmmc {}

impl Model for SpiSlot {
    fn wrongs(&self) -> (u64, String) {
        (self.protocol_violations(), "what a card in SPI mode cannot bear".to_owned())
    }
}

// Pools of memory from machines that were dropped. A driver needs static memory, and a campaign
// makes many drivers.
thread_local! {
    static TABLES: Pool<Table<DESCRIPTORS>> = const { RefCell::new(Vec::new()) };
    /// Pool of the task lists that the drivers of command queue engines use.
    static LISTS: Pool<TaskList<PIECES>> = const { RefCell::new(Vec::new()) };
    static CHAINS: Pool<ChainList<CHAINED, PIECES>> = const { RefCell::new(Vec::new()) };
    /// Pool of the DMA buffers that the drivers of Realtek's card reader use.
    static BUFFERS: Pool<Buffers> = const { RefCell::new(Vec::new()) };
    /// Pool of the descriptor tables that the drivers of mobile storage hosts use.
    static LINKS: Pool<Descriptors<DESCRIPTORS>> = const { RefCell::new(Vec::new()) };
    /// Pool of memory for data that no request wants: while CMD12 ends an open read, the mobile
    /// storage host (DesignWare or SMHC) still receives such data.
    static SCRAPS: Pool<Scrap> = const { RefCell::new(Vec::new()) };
    /// Pool of the memory that the drivers of ST's SDMMC with a single buffer use.
    static SINGLES: Pool<Pieces<1>> = const { RefCell::new(Vec::new()) };
    static LISTED_PIECES: Pool<Pieces<LISTED>> = const { RefCell::new(Vec::new()) };
    /// Pool of memory into which drivers copy request data that the controller cannot reach.
    static COPIES: Pool<Copies> = const { RefCell::new(Vec::new()) };
    /// Pool of the memory that the drivers of SPI buses use.
    static WIRES: Pool<SpiMemory> = const { RefCell::new(Vec::new()) };
}

/// Memory for copies of request data, aligned as all controllers need it.
#[repr(C, align(4096))]
struct Copies([u8; COPIED * COPIED_BYTES]);

type Pool<T> = RefCell<Vec<NonNull<T>>>;

/// Memory that a driver has from a pool. Dropping the lease returns the memory to the pool.
struct Lease<T: 'static>(NonNull<T>, &'static LocalKey<Pool<T>>);

/// Lends memory of this pool to a driver. The lease must be dropped after the driver.
#[expect(clippy::mut_from_ref, reason = "what is leased is not in the pool")]
fn lease<T>(pool: &'static LocalKey<Pool<T>>, new: fn() -> T) -> (&'static mut T, Lease<T>) {
    let free = pool.with_borrow_mut(Vec::pop);
    let mut place = free.unwrap_or_else(|| NonNull::from(Box::leak(Box::new(new()))));
    // SAFETY: the memory is leaked, and nothing except the lease owns it until the driver is
    // dropped.
    (unsafe { place.as_mut() }, Lease(place, pool))
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.1.with_borrow_mut(|pool| pool.push(self.0));
    }
}

/// Clock of the SPI bus in Hz.
const SPI_HZ: u32 = 25_000_000;
/// Highest card clock in Hz with a mobile storage host that does not use modes above high speed.
const HOST_HZ: u32 = 52_000_000;
const SDMMC_HZ: u32 = 200_000_000;

/// Time in ns that an old controller needs for the reset of a circuit, or until the last data of a
/// read are in memory. It is longer than the response to a CMD12, and used on controllers that
/// leave transfers open.
const SLOW_NS: u32 = 20_000;

/// Size and alignment in bytes of a page in bus addresses.
const PAGE: u64 = 4096;
/// Boundary in bytes at which SDMA stops.
const BOUNDARY: u64 = 512 * 1024;

/// Size in bytes of a cache line of those simulated boards that copy request data.
const LINE: usize = 64;

fn memory_of(setup: &Setup) -> ShadowMemory {
    let first = if setup.near_boundary { BOUNDARY - 4096 } else { 0 };
    let base = MemoryConfig::BITS32.base + first;
    let natural = if matches!(setup.host, super::case::Host::Open(_)) { PAGE } else { 1 };
    let (align, line) = if setup.bounce { (LINE, LINE as u32) } else { (1, 1) };
    ShadowMemory::new(MemoryConfig { base, natural, align, line, ..MemoryConfig::BITS32 })
}

fn engine_config(setup: &Setup) -> engine::Config {
    let config = engine::Config::DEFAULT
        .merge_blocks(if setup.merge { engine::Config::DEFAULT.merge_blocks } else { 1 })
        .acknowledge(if setup.early { Acknowledge::Transferred } else { Acknowledge::Programmed });
    setup.tuned.map_or(config, |tuned| tuned.applied(config))
}

/// Converts the error into text if a driver's constructor has failed.
fn told<H, E: std::fmt::Display>(driver: Result<H, E>) -> Result<H, String> {
    driver.map_err(|error| error.to_string())
}

/// An SDHCI controller with its driver, before the engine gets the driver.
type WithDriver = (Powered<Sdhci>, SdhciDriver, Lease<Table<DESCRIPTORS>>);

fn with_driver(
    (model, driver): (SdhciConfig, sdhci::SdhciConfig),
    setup: &Setup,
    card: Box<dyn Card>,
    faults: &Faults,
    now_ns: u64,
) -> Result<WithDriver, String> {
    let build = |memory, card| Sdhci::new(model, memory, card);
    let powered = Powered::new(memory_of(setup), card, faults, now_ns, build);
    let (table, leased) = lease(&TABLES, Table::new);
    let memory = powered.memory.clone();
    let driver = told(sdhci::Sdhci::new(powered.port(setup.access_ns), memory, table, driver))?;
    Ok((powered, driver, leased))
}

impl<P: Profile> Machine<(NoLock, Driver, P)> {
    /// Makes a machine (controller, card and stack) with an SDHCI controller; its power comes on at
    /// `now_ns`. `emmc`: the card is an eMMC.
    pub fn sdhci(
        setup: &Setup,
        profile: P,
        emmc: bool,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (powered, driver, leased) = with_driver(configs(setup, emmc), setup, card, faults, now_ns)?;
        let driver = Narrow::new(driver, setup.most_blocks);
        let stack = Stack::with_policy(NoLock::new(), TIMER, driver, engine_config(setup), profile);
        Ok(powered.machine(stack, setup.early, leased))
    }
}

impl Machine<(NoLock, BounceDriver)> {
    /// Makes a machine with an SDHCI controller that needs memory in whole cache lines; other
    /// memory is copied. Its power comes on at `now_ns`.
    pub fn bounced(
        setup: &Setup,
        emmc: bool,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (model, driver) = configs(setup, emmc);
        let build = |memory, card| Sdhci::new(model, memory, card);
        let powered = Powered::new(memory_of(setup), card, faults, now_ns, build);
        let (table, leased) = lease(&TABLES, Table::new);
        let (copies, lent) = lease(&COPIES, || Copies([0; COPIED * COPIED_BYTES]));
        let memory = Bounce::new(powered.memory.clone(), &mut copies.0);
        let driver = told(sdhci::Sdhci::new(powered.port(setup.access_ns), memory, table, driver))?;
        let stack = Stack::new(NoLock::new(), TIMER, driver, engine_config(setup));
        Ok(powered.machine(stack, setup.early, (leased, lent)))
    }
}

impl<P: Profile> Machine<(NoLock, QueueDriver, P)> {
    /// Makes a machine with an SDHCI controller that has a command queue engine. The card is an
    /// eMMC if `emmc`, otherwise an SD card; its power comes on at `now_ns`.
    pub fn queue_engine(
        setup: &Setup,
        profile: P,
        emmc: bool,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (mut model, driver) = configs(setup, emmc);
        // Engine 1 has tasks of 64 bits, engine 2 of 128 bits. Engine 3 has tasks of 128 bits with
        // descriptors of 96, as Intel's, and reports cleared tasks as complete.
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
        let (powered, driver, leased) = with_driver((model, driver), setup, card, faults, now_ns)?;
        let (list, listed) = lease(&LISTS, TaskList::new);
        let quirks = if short_descriptors { CqhciQuirks::SHORT_DESCRIPTORS } else { CqhciQuirks::NONE };
        // SAFETY: the model has its command queue engine at this offset.
        let config = unsafe { CqhciConfig::at(at.offset) }.quirks(quirks);
        let host = Narrow::new(Cqhci::new(driver, list, config), setup.most_blocks);
        let stack = Stack::with_policy(NoLock::new(), TIMER, host, engine_config(setup), profile);
        Ok(powered.machine(stack, setup.early, (leased, listed)))
    }
}

impl<P: Profile> Machine<(NoLock, ChainDriver, P)> {
    /// Makes a machine with an SDHCI controller that executes chains; its power comes on at
    /// `now_ns`.
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
        let (powered, driver, leased) = with_driver((model, driver), setup, card, faults, now_ns)?;
        let (list, listed) = lease(&CHAINS, ChainList::new);
        let host = Narrow::new(Adma3::new(driver, list), setup.most_blocks);
        let stack = Stack::with_policy(NoLock::new(), TIMER, host, engine_config(setup), profile);
        Ok(powered.machine(stack, setup.early, (leased, listed)))
    }
}

impl Machine<(NoLock, OpenDriver)> {
    /// Makes a machine with an SDHCI controller and a driver that leaves transfers open (the next
    /// request continues them without a command). The power comes on at `now_ns`.
    pub fn open(
        setup: &Setup,
        writes: OpenWrites,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (mut model, driver) = configs(setup, !setup.is_removable());
        if setup.old_host {
            model.reset_ns = SLOW_NS.into();
        }
        let (powered, driver, leased) = with_driver((model, driver), setup, card, faults, now_ns)?;
        let host = Streams::new(driver, StreamConfig::NONE.reads(true).writes(writes));
        let host = Narrow::new(host, setup.most_blocks);
        let stack = Stack::new(NoLock::new(), TIMER, host, engine_config(setup));
        Ok(powered.machine(stack, true, leased))
    }
}

impl Machine<(NoLock, ReaderDriver)> {
    /// Makes a machine with a card reader that leaves transfers open; its power comes on at
    /// `now_ns`.
    pub fn reader(setup: &Setup, card: Box<dyn Card>, faults: &Faults, now_ns: u64) -> Result<Self, String> {
        let build = |memory, card| Rtsx::new(RtsxConfig::GENERIC, memory, card);
        let powered = Powered::new(memory_of(setup), card, faults, now_ns, build);
        let (buffers, leased) = lease(&BUFFERS, Buffers::new);
        let config =
            rtsx::RtsxConfig::new(rtsx::Chip::Rts5249).busy_after_data(setup.busy == BusyBy::Interrupt);
        let (port, memory) = (powered.port(setup.access_ns), powered.memory.clone());
        let host = Narrow::new(told(rtsx::Rtsx::new(port, memory, buffers, config))?, setup.most_blocks);
        let stack = Stack::new(NoLock::new(), TIMER, host, engine_config(setup));
        Ok(powered.machine(stack, true, leased))
    }
}

impl Machine<(NoLock, HostDriver<SmhcLayout>)> {
    /// Makes a machine with Allwinner's mobile storage host; its power comes on at `now_ns`.
    pub fn smhc(setup: &Setup, card: Box<dyn Card>, faults: &Faults, now_ns: u64) -> Result<Self, String> {
        Self::mshc([MshcConfig::H3, MshcConfig::A64], setup, card, faults, now_ns)
    }
}

impl Machine<(NoLock, HostDriver<DesignWareLayout>)> {
    /// Makes a machine with DesignWare's mobile storage host; its power comes on at `now_ns`.
    pub fn designware(
        setup: &Setup,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        Self::mshc(DESIGN_WARE, setup, card, faults, now_ns)
    }
}

/// Two of DesignWare's controllers: an old one for cases with `old_host`, and a new one.
const DESIGN_WARE: [MshcConfig; 2] = [MshcConfig::JH7110, MshcConfig::RK3399];

impl Machine<(NoLock, OpenHostDriver)> {
    /// Makes a machine with DesignWare's mobile storage host that leaves transfers open; its power
    /// comes on at `now_ns`.
    pub fn open_designware(
        setup: &Setup,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let [old, new] = DESIGN_WARE;
        let slow = MshcConfig { memory_ns: SLOW_NS, ..old };
        let (powered, host, leased) =
            mshc_driver::<DesignWareLayout>([slow, new], setup, card, faults, now_ns)?;
        let (scrap, lent) = lease(&SCRAPS, Scrap::new);
        let open = OpenTransfers::NONE.reads(true).writes(true);
        let host = told(mshc::OpenDesignWare::new(host, scrap, open))?;
        let board = MshcBoard::new(powered.model.clone(), powered.time.clone());
        let host = Meddled::new(Surrounded::new(host, board), setup.meddles);
        let host = Narrow::new(host, setup.most_blocks);
        let stack = Stack::new(NoLock::new(), TIMER, host, engine_config(setup));
        Ok(powered.machine(stack, true, (leased, lent)))
    }
}

impl<L: MshcLayout> Machine<(NoLock, HostDriver<L>)> {
    fn mshc(
        models: [MshcConfig; 2],
        setup: &Setup,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (powered, host, leased) = mshc_driver(models, setup, card, faults, now_ns)?;
        let board = MshcBoard::new(powered.model.clone(), powered.time.clone());
        let host = Meddled::new(Surrounded::new(host, board), setup.meddles);
        let host = Narrow::new(host, setup.most_blocks);
        let stack = Stack::new(NoLock::new(), TIMER, host, engine_config(setup));
        Ok(powered.machine(stack, setup.early, leased))
    }
}

/// A mobile storage host with its driver, before the engine takes the driver.
type WithHostDriver<L> = (
    Powered<Mshc>,
    MshcDriver<L, MshcPort, ShadowMemory, MshcBoard, DESCRIPTORS>,
    Lease<Descriptors<DESCRIPTORS>>,
);

/// Makes a mobile storage host with its driver. In cases with `old_host` the host is `old`, with a
/// clock of at most [`HOST_HZ`]; in all other cases it is `new`, with its highest clock.
fn mshc_driver<L: MshcLayout>(
    [old, new]: [MshcConfig; 2],
    setup: &Setup,
    card: Box<dyn Card>,
    faults: &Faults,
    now_ns: u64,
) -> Result<WithHostDriver<L>, String> {
    let soldered = !setup.is_removable();
    let (fast, base) = if setup.old_host { (false, old) } else { (true, new) };
    let config =
        MshcConfig { lines: 8, signal18: fast && !soldered, signal18_fixed: fast && soldered, ..base };
    let build = |memory, card| Mshc::new(config, memory, card);
    let powered = Powered::new(memory_of(setup), card, faults, now_ns, build);
    let (table, leased) = lease(&LINKS, Descriptors::new);
    let driver = mshc::MshcConfig::new(config.source_hz)
        .max_clock_hz(if fast { config.source_hz } else { HOST_HZ })
        .width(Width::W8)
        .high_speed(true)
        .ddr(fast)
        .signal18(config.signal18)
        .signal18_fixed(config.signal18_fixed)
        .sample_delay(config.delay_step_ps != 0)
        .busy_by_update(setup.busy == BusyBy::Interrupt)
        .fixed(soldered);
    let (port, memory) = (powered.port(setup.access_ns), powered.memory.clone());
    let board = MshcBoard::new(powered.model.clone(), powered.time.clone());
    let host = told(MshcDriver::new(port, memory, board, table, driver))?;
    Ok((powered, host, leased))
}

impl Machine<(NoLock, SdmmcDriver<1>)> {
    /// Makes a machine with an SDMMC of ST that has a single buffer; its power comes on at
    /// `now_ns`.
    pub fn sdmmc(setup: &Setup, card: Box<dyn Card>, faults: &Faults, now_ns: u64) -> Result<Self, String> {
        Self::stm32(Chip::H7, lease(&SINGLES, Pieces::new), setup, card, faults, now_ns)
    }
}

impl Machine<(NoLock, SdmmcDriver<LISTED>)> {
    /// Makes a machine with an SDMMC of ST that has a linked list of buffers; its power comes on at
    /// `now_ns`.
    pub fn sdmmc_with_list(
        chip: Chip,
        setup: &Setup,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        Self::stm32(chip, lease(&LISTED_PIECES, Pieces::new), setup, card, faults, now_ns)
    }
}

impl Machine<(NoLock, OpenSdmmcDriver)> {
    /// Makes a machine with an SDMMC of ST that leaves writes open; its power comes on at `now_ns`.
    pub fn open_sdmmc(
        setup: &Setup,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (list, leased) = lease(&SINGLES, Pieces::new);
        let (powered, host, board) = sdmmc_driver(Chip::H7, list, setup, card, faults, now_ns)?;
        let host = sdmmc::OpenStm32Sdmmc::new(host, true);
        let host = Meddled::new(Surrounded::new(host, board), setup.meddles);
        let host = Narrow::new(host, setup.most_blocks);
        let stack = Stack::new(NoLock::new(), TIMER, host, engine_config(setup));
        Ok(powered.machine(stack, true, leased))
    }
}

impl<const PIECES: usize> Machine<(NoLock, SdmmcDriver<PIECES>)> {
    fn stm32(
        chip: Chip,
        (list, leased): (&'static mut Pieces<PIECES>, Lease<Pieces<PIECES>>),
        setup: &Setup,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let (powered, host, board) = sdmmc_driver(chip, list, setup, card, faults, now_ns)?;
        let host = Meddled::new(Surrounded::new(host, board), setup.meddles);
        let host = Narrow::new(host, setup.most_blocks);
        let stack = Stack::new(NoLock::new(), TIMER, host, engine_config(setup));
        Ok(powered.machine(stack, setup.early, leased))
    }
}

/// An SDMMC of ST with its driver and its board, before the engine takes the driver.
type WithSdmmcDriver<const PIECES: usize> =
    (Powered<Stm32Sdmmc>, sdmmc::Stm32Sdmmc<SdmmcPort, ShadowMemory, Board, PIECES>, Board);

fn sdmmc_driver<const PIECES: usize>(
    chip: Chip,
    list: &'static mut Pieces<PIECES>,
    setup: &Setup,
    card: Box<dyn Card>,
    faults: &Faults,
    now_ns: u64,
) -> Result<WithSdmmcDriver<PIECES>, String> {
    let base = match chip {
        Chip::H7 => Stm32SdmmcConfig::H7,
        Chip::U5 => Stm32SdmmcConfig::U5,
        Chip::N6 => Stm32SdmmcConfig::N6,
    };
    let config = Stm32SdmmcConfig { data_end_after_busy: setup.busy == BusyBy::Interrupt, ..base };
    let build = |memory, card| Stm32Sdmmc::new(config, memory, card);
    let powered = Powered::new(memory_of(setup), card, faults, now_ns, build);
    let soldered = !setup.is_removable();
    let board = Board { signal18_fixed: soldered, ..Board::new(powered.model.clone(), powered.time.clone()) };
    let driver = sdmmc::Stm32SdmmcConfig::new(config.kernel_hz)
        .max_clock_hz(SDMMC_HZ)
        .high_speed(true)
        .busy_after_data(config.data_end_after_busy)
        .signal18(!soldered)
        .signal18_fixed(soldered)
        .fixed(soldered)
        .width(if soldered { Width::W8 } else { Width::W4 });
    let (port, memory) = (powered.port(setup.access_ns), powered.memory.clone());
    let host = told(sdmmc::Stm32Sdmmc::new(port, memory, board.clone(), list, driver))?;
    Ok((powered, host, board))
}

impl<P: Profile> Machine<(NoLock, Spi<Wire>, P)> {
    /// Makes a machine (controller, card and stack) with a card in SPI mode on its own bus; its
    /// power comes on at `now_ns`.
    pub fn spi(
        setup: &Setup,
        profile: P,
        card: Box<dyn Card>,
        faults: &Faults,
        now_ns: u64,
    ) -> Result<Self, String> {
        let powered = Powered::new(memory_of(setup), card, faults, now_ns, |_, card| SpiSlot::new(card));
        let (bytes, leased) = lease(&WIRES, SpiMemory::new);
        let wire = Wire::new(powered.model.clone(), powered.time.clone());
        let host = Spi::new(wire, bytes, SpiConfig::new(SPI_HZ));
        let stack = Stack::with_policy(NoLock::new(), TIMER, host, engine_config(setup), profile);
        Ok(powered.machine(stack, true, leased))
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
