//! Controllers that a board can have, each with its model and its driver.
//!
//! Models and drivers of all kinds are made in this file; `platform/controller.rs` reads their
//! descriptions. A new kind needs one more variant in [`Controller`], in `Kind` and in
//! [`ControllerConfig`].

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod queue;

use crate::lent::Lent;
pub use crate::platform::ControllerConfig;
use crate::platform::{Busy, Continue, Defer, Platform};
use mmcq::host::mshc;
use mmcq::host::rtsx;
use mmcq::host::sdhci::{
    self, Adma3, ChainList, Cqhci, CqhciConfig, CqhciQuirks, OpenWrites, SdhciQuirks, StreamConfig, Streams,
    Table, TaskList,
};
use mmcq::host::stm32_sdmmc as sdmmc;
use mmcq::host::surroundings::Surrounded;
use mmcq::host::{CommandQueueHost, Host, Timing, Width};
use mmcq_sim::card::flash::Work;
use mmcq_sim::card::{AtStake, Card, Kept};
use mmcq_sim::faults::Faults;
use mmcq_sim::memory::ShadowMemory;
use mmcq_sim::mshc::{Board as MshcBoard, Layout, Mshc, MshcConfig, Port as MshcPort};
use mmcq_sim::rtsx::{Port as RtsxPort, Rtsx, RtsxConfig};
use mmcq_sim::sdhci::{BusEvent, BusStats, Port, PortCounters, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller as _;
use mmcq_sim::stm32_sdmmc::{
    Board as SdmmcBoard, Buffers as SdmmcBuffers, Port as SdmmcPort, Stm32Sdmmc, Stm32SdmmcConfig,
};
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Number of DMA descriptors of a driver. The largest merged transfer of the laboratory needs one
/// for each of its I/Os.
const DESCRIPTORS: usize = 257;

/// Number of DMA descriptors of a driver for a mobile storage host or ST's SDMMC, which need two
/// for each memory segment.
const MSHC_DESCRIPTORS: usize = 2 * DESCRIPTORS;

/// Fastest bus clock in Hz that a card can have [SD 4.2.4.5]. Unless a board's file says otherwise,
/// the board's wires allow this clock.
const FASTEST_HZ: u32 = 208_000_000;

/// Largest number of memory segments in a task of the command queue engine.
const PIECES: usize = 64;

/// Largest number of transfers in one list (chain) that the controller executes.
const CHAINED: usize = 16;

/// Model of the controller with its register port. All clones share one controller.
#[derive(Clone)]
pub enum Controller {
    /// SD host controller of the standard (SDHCI).
    Sdhci(Rc<RefCell<Sdhci>>, Port),
    /// Realtek's card reader, with its register port.
    Rtsx(Rc<RefCell<Rtsx>>, RtsxPort),
    /// Allwinner's or DesignWare's mobile storage host.
    Mshc(Rc<RefCell<Mshc>>, MshcPort),
    /// ST's SDMMC controller, with its register port.
    Stm32Sdmmc(Rc<RefCell<Stm32Sdmmc>>, SdmmcPort),
}

/// Calls a method of the controller's model, whichever kind of model that is.
macro_rules! model {
    ($self:ident, $model:ident => $call:expr) => {
        match $self {
            Controller::Sdhci($model, _) => $call,
            Controller::Rtsx($model, _) => $call,
            Controller::Mshc($model, _) => $call,
            Controller::Stm32Sdmmc($model, _) => $call,
        }
    };
}

impl Device for Controller {
    fn advance(&mut self, until_ns: u64) -> u64 {
        model!(self, m => m.borrow_mut().advance(until_ns))
    }

    fn next_event_ns(&self) -> Option<u64> {
        model!(self, m => m.borrow().next_event_ns())
    }

    fn irq(&self) -> bool {
        model!(self, m => m.borrow().irq())
    }
}

impl Controller {
    /// Makes a controller with its card in the slot, and its driver. `engine`: true for a driver of
    /// mmcq's engine, false for a driver of a Linux model. `access_ns`: time in ns of a register
    /// read and of a register write.
    pub fn new(
        platform: &Platform,
        engine: bool,
        memory: &ShadowMemory,
        time: &Time,
        card: Box<dyn Card>,
        access_ns: (u64, u64),
    ) -> Result<(Self, Driver), String> {
        let mut lent = Lent::default();
        macro_rules! lend {
            ($value:expr) => {
                // SAFETY: the driver that uses this value is dropped before `lent`, both here and
                // in `Driver`. The model has no address of the memory itself.
                unsafe { lent.lend($value) }
            };
        }
        let (controller, kind) = match platform.controller {
            ControllerConfig::Sdhci(config) => {
                let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(card))));
                crate::trace::attach(|probe| model.borrow_mut().set_probe(Some(probe)));
                let port = Port::new(model.clone(), time.clone(), access_ns.0, access_ns.1);
                let table = lend!(Table::new());
                let setup = sdhci_setup(platform, &config, engine);
                let driver = sdhci::Sdhci::new(port.clone(), memory.clone(), table, setup)
                    .map_err(|e| e.to_string())?;
                let chains = engine && platform.stack.chains && platform.controller.executes_chains();
                let driver = match config.command_queue.filter(|_| engine && platform.stack.queue_engine) {
                    None if chains => {
                        let list = lend!(ChainList::new());
                        Kind::Chain(Box::new(Adma3::new(driver, list)))
                    }
                    None if engine && platform.continue_data.is_some() => {
                        Kind::Streams(Box::new(Streams::new(driver, stream_setup(platform))))
                    }
                    None => Kind::Sdhci(driver),
                    Some(at) => {
                        let list = lend!(TaskList::new());
                        let short = at.short_descriptors;
                        let quirks = if short { CqhciQuirks::SHORT_DESCRIPTORS } else { CqhciQuirks::NONE };
                        // SAFETY: the model has its queue engine at this offset.
                        let config = unsafe { CqhciConfig::at(at.offset) }.quirks(quirks);
                        Kind::Queue(Box::new(Cqhci::new(driver, list, config)))
                    }
                };
                (Controller::Sdhci(model, port), driver)
            }
            ControllerConfig::Rtsx(config) => {
                let model = Rc::new(RefCell::new(Rtsx::new(config, memory.clone(), Some(card))));
                let port = RtsxPort::new(model.clone(), time.clone(), access_ns.0, access_ns.1);
                let buffers = lend!(rtsx::Buffers::new());
                let setup = rtsx_setup(platform, &config);
                let driver = rtsx::Rtsx::new(port.clone(), memory.clone(), buffers, setup)
                    .map_err(|e| e.to_string())?;
                (Controller::Rtsx(model, port), Kind::Rtsx(driver))
            }
            ControllerConfig::Mshc(config) => {
                let model = Rc::new(RefCell::new(Mshc::new(config, memory.clone(), Some(card))));
                crate::trace::attach(|probe| model.borrow_mut().set_probe(Some(probe)));
                let port = MshcPort::new(model.clone(), time.clone(), access_ns.0, access_ns.1);
                let table = lend!(mshc::Descriptors::new());
                let (regs, dma, setup) =
                    (port.clone(), memory.clone(), mshc_setup(&config, platform, engine));
                let around = MshcBoard::new(model.clone(), time.clone());
                let board = around.clone();
                let open = platform.continue_data.filter(|_| engine).map(open_transfers);
                let driver = match (config.layout, open) {
                    (Layout::DesignWare, Some(open)) => {
                        let scrap = lend!(mshc::Scrap::new());
                        mshc::DesignWare::new(regs, dma, board, table, setup)
                            .and_then(|host| mshc::OpenDesignWare::new(host, scrap, open))
                            .map(|host| Kind::OpenDesignWare(Box::new(Surrounded::new(host, around))))
                    }
                    (Layout::Smhc, _) => mshc::Smhc::new(regs, dma, board, table, setup)
                        .map(|host| Kind::Smhc(Surrounded::new(host, around))),
                    (Layout::DesignWare, None) => mshc::DesignWare::new(regs, dma, board, table, setup)
                        .map(|host| Kind::DesignWare(Surrounded::new(host, around))),
                };
                (Controller::Mshc(model, port), driver.map_err(|e| e.to_string())?)
            }
            ControllerConfig::Stm32Sdmmc(config) => {
                let model = Rc::new(RefCell::new(Stm32Sdmmc::new(config, memory.clone(), Some(card))));
                crate::trace::attach(|probe| model.borrow_mut().set_probe(Some(probe)));
                let port = SdmmcPort::new(model.clone(), time.clone(), access_ns.0, access_ns.1);
                let board = SdmmcBoard { taps: 0, ..SdmmcBoard::new(model.clone(), time.clone()) };
                let (regs, dma, setup) = (port.clone(), memory.clone(), stm32_setup(&config));
                let driver = match config.buffers {
                    SdmmcBuffers::Double => {
                        let list = lend!(sdmmc::Pieces::new());
                        let open = engine && platform.leaves_open();
                        sdmmc::Stm32Sdmmc::new(regs, dma, board, list, setup)
                            .map(|host| Kind::Stm32Sdmmc(sdmmc::OpenStm32Sdmmc::new(host, open)))
                    }
                    SdmmcBuffers::List => {
                        let list = lend!(sdmmc::Pieces::new());
                        let open = engine && platform.leaves_open();
                        sdmmc::Stm32Sdmmc::new(regs, dma, board, list, setup)
                            .map(|host| Kind::Stm32SdmmcList(sdmmc::OpenStm32Sdmmc::new(host, open)))
                    }
                };
                (Controller::Stm32Sdmmc(model, port), driver.map_err(|e| e.to_string())?)
            }
        };
        let poll_clocks = platform.stack.queue_poll_clocks;
        Ok((controller, Driver { kind, poll_clocks, _lent: lent }))
    }

    /// Cuts the card's power at this time. Returns the number of sectors that were not durable and
    /// are now lost.
    pub fn power_cut(&self, now_ns: u64) -> u64 {
        model!(self, m => m.borrow_mut().card_mut().map_or(0, |card| {
            let stake = card.at_stake(now_ns);
            card.power_cut(now_ns);
            let sectors: BTreeSet<_> = stake.iter().map(|s| (s.partition, s.sector)).collect();
            sectors.len() as u64
        }))
    }

    /// Cuts the card's power at this time. The caller's `keep` decides for each sector that is not
    /// durable what remains of it.
    pub fn cut(&self, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        model!(self, m => m.borrow_mut().card_mut().map_or((), |card| card.cut(now_ns, keep)));
    }

    /// Sets the faults that the card model shows from now on. The card then also tracks its writes,
    /// so that [`Controller::cut`] can lose them.
    pub fn set_card_faults(&self, faults: &Faults) {
        model!(self, m => m.borrow_mut().card_mut().map_or((), |card| card.set_faults(faults.clone())));
    }

    /// Returns the counters of the bus since they were last reset.
    pub fn stats(&self) -> BusStats {
        let mut stats = model!(self, m => m.borrow().stats().clone());
        stats.fetching_ns = model!(self, m => m.borrow_mut().card_mut().map_or(0, |card| card.fetching_ns()));
        stats
    }

    /// Returns the counters of the bus and resets them to 0.
    pub fn take_stats(&self) -> BusStats {
        model!(self, m => m.borrow_mut().take_stats())
    }

    /// Returns what the card's flash did since the last call of this method.
    pub fn take_work(&self) -> Work {
        model!(self, m => m.borrow_mut().card_mut().map_or_else(Work::default, |card| card.take_work()))
    }

    /// Sets the log that receives all bus events from now on.
    pub fn set_log(&self, log: Box<dyn FnMut(BusEvent)>) {
        model!(self, m => m.borrow_mut().set_log(Some(log)))
    }

    /// Returns the number of register accesses by the driver so far.
    pub fn accesses(&self) -> PortCounters {
        match self {
            Controller::Sdhci(_, port) => port.counters(),
            Controller::Rtsx(_, port) => port.counters(),
            Controller::Mshc(_, port) => port.counters(),
            Controller::Stm32Sdmmc(_, port) => port.counters(),
        }
    }
}

fn sdhci_setup(platform: &Platform, config: &SdhciConfig, engine: bool) -> sdhci::SdhciConfig {
    let mut quirks = SdhciQuirks::NONE;
    match platform.defer_completion {
        Defer::Never => {}
        Defer::Reads => quirks = quirks.with(SdhciQuirks::DEFER_READS),
        Defer::Always => quirks = quirks.with(SdhciQuirks::DEFER_COMPLETION),
    }
    if platform.busy != Busy::Interrupt {
        quirks = quirks.with(SdhciQuirks::NO_BUSY_IRQ);
    }
    // The raw phases of a Linux model do not wait for the end of busy. Its driver samples DAT0
    // before a start, so the level of DAT0 must stay readable.
    if platform.busy == Busy::Status && engine {
        quirks = quirks.with(SdhciQuirks::NO_DAT0_LEVEL);
    }
    if config.signal18_fixed {
        quirks = quirks.with(SdhciQuirks::FIXED_18);
    }
    // The board's description gives the base clock if the capability register does not.
    let untold = config.base_clock_hz != 0 && config.shown_capabilities() & 0xff00 == 0;
    let wires = &platform.wires;
    sdhci::SdhciConfig::new()
        .quirks(quirks)
        .base_clock_hz(untold.then_some(config.base_clock_hz))
        .fixed(config.fixed)
        .hs400_mode(config.hs400_mode)
        .hs400es_mode(config.hs400es_mode)
        .width(wires.width.unwrap_or(Width::W8))
        .max_clock_hz(wires.max_clock_hz.unwrap_or(u32::MAX))
        .capabilities(wires.capabilities(config.shown_capabilities(), config.capabilities1))
        .extra_timings(wires.timings(&platform.timings))
}

/// Returns which transfers the driver of an SDHCI leaves open, as the board's file says. An open
/// transfer has no CMD12 yet, so that later requests can continue it.
fn stream_setup(platform: &Platform) -> StreamConfig {
    let setup = StreamConfig::NONE;
    match platform.continue_data {
        None | Some(Continue::No) => setup,
        Some(Continue::Reads) => setup.reads(true),
        Some(Continue::Gap) => setup.reads(true).writes(OpenWrites::Gap),
        Some(Continue::Yes) => setup.reads(true).writes(OpenWrites::Carrier),
    }
}

/// Returns which transfers the driver of DesignWare's controller leaves open (without a CMD12).
/// `told` is the value of `driver.continue_data` in the board's file.
fn open_transfers(told: Continue) -> mshc::OpenTransfers {
    let (reads, writes) = (told != Continue::No, told == Continue::Yes);
    mshc::OpenTransfers::NONE.reads(reads).writes(writes)
}

fn rtsx_setup(platform: &Platform, config: &RtsxConfig) -> rtsx::RtsxConfig {
    // The platform's file names no other chip than those that the driver knows.
    let chip = rtsx::Chip::of_pci(0x10ec, config.device).unwrap_or(rtsx::Chip::Rts5249);
    rtsx::RtsxConfig::new(chip)
        // A board's file may say that the driver continues data even if the chip cannot.
        .continue_data(platform.continue_data.map_or(config.continue_data, |told| told != Continue::No))
        .busy_after_data(platform.busy == Busy::Interrupt)
        .fixed(config.fixed)
}

fn mshc_setup(config: &MshcConfig, platform: &Platform, engine: bool) -> mshc::MshcConfig {
    let wires = &platform.wires;
    let width = match config.lines {
        8 => Width::W8,
        4 => Width::W4,
        _ => Width::W1,
    };
    // DesignWare's register of the version tells where the FIFO is; Allwinner's does not.
    let smhc = config.layout == Layout::Smhc;
    mshc::MshcConfig::new(config.source_hz)
        .max_clock_hz(wires.max_clock_hz.unwrap_or(FASTEST_HZ))
        .width(wires.width.unwrap_or(width))
        .high_speed(wires.carry(Timing::HighSpeed))
        .ddr(wires.carry(Timing::Ddr52))
        .signal18(config.signal18 && wires.carry(Timing::Sdr50))
        .signal18_fixed(config.signal18_fixed)
        .sample_delay(config.delay_step_ps != 0)
        .new_timing(config.delay_step_ps != 0)
        // Linux's driver does not wait for the end of busy this way.
        .busy_by_update(smhc && engine && platform.busy == Busy::Interrupt)
        .descriptor_bytes(if config.size_bits > 13 { 32768 } else { 4096 })
        .address_shift(config.address_shift)
        .fifo_offset(smhc.then_some(config.fifo_offset))
        .fifo_words(smhc.then_some(config.fifo_words))
}

/// Returns the driver's settings for ST's SDMMC: four lines at 3.3 V, high speed, no tuning.
fn stm32_setup(config: &Stm32SdmmcConfig) -> sdmmc::Stm32SdmmcConfig {
    sdmmc::Stm32SdmmcConfig::new(config.kernel_hz)
        .max_clock_hz(FASTEST_HZ)
        .high_speed(true)
        .busy_after_data(config.data_end_after_busy)
}

/// Driver of a controller, with the memory that it uses.
pub struct Driver {
    kind: Kind,
    /// Number of clocks between two polls of the card by the command queue engine, which overrides
    /// what mmcq's engine sets; `None`: no override.
    poll_clocks: Option<u32>,
    /// Memory that the driver uses. It is dropped after the driver, which still needs it.
    _lent: Lent,
}

/// Driver of the board's controller; the variant is the kind of driver.
// The variants differ in size, but each board has only one driver.
#[allow(clippy::large_enum_variant)]
enum Kind {
    /// Driver for an SDHCI.
    Sdhci(sdhci::Sdhci<Port, ShadowMemory, DESCRIPTORS>),
    /// Driver for an SDHCI with a command queue engine (CQHCI).
    Queue(Box<Cqhci<Port, ShadowMemory, DESCRIPTORS, PIECES>>),
    /// Driver for an SDHCI that executes chains (ADMA3).
    Chain(Box<Adma3<Port, ShadowMemory, DESCRIPTORS, CHAINED, PIECES>>),
    /// Driver for an SDHCI that leaves transfers open: without CMD12, so that the next contiguous
    /// request continues the transfer.
    Streams(Box<Streams<Port, ShadowMemory, DESCRIPTORS>>),
    /// Driver for Realtek's reader.
    Rtsx(rtsx::Rtsx<RtsxPort, ShadowMemory>),
    /// Driver for Allwinner's mobile storage host (SMHC).
    Smhc(Surrounded<mshc::Smhc<MshcPort, ShadowMemory, MshcBoard, MSHC_DESCRIPTORS>, MshcBoard>),
    /// Driver for DesignWare's mobile storage host.
    DesignWare(Surrounded<mshc::DesignWare<MshcPort, ShadowMemory, MshcBoard, MSHC_DESCRIPTORS>, MshcBoard>),
    /// Driver for DesignWare's mobile storage host that leaves transfers open: without CMD12, so
    /// that the next contiguous request continues the transfer.
    OpenDesignWare(
        Box<Surrounded<mshc::OpenDesignWare<MshcPort, ShadowMemory, MshcBoard, MSHC_DESCRIPTORS>, MshcBoard>>,
    ),
    /// Driver for ST's SDMMC with DMA to a single buffer.
    Stm32Sdmmc(sdmmc::OpenStm32Sdmmc<SdmmcPort, ShadowMemory, SdmmcBoard, 1>),
    /// Driver for ST's SDMMC with DMA to a list of buffers.
    Stm32SdmmcList(sdmmc::OpenStm32Sdmmc<SdmmcPort, ShadowMemory, SdmmcBoard, MSHC_DESCRIPTORS>),
}

impl Driver {
    /// Returns whether the driver uses the controller's command queue engine.
    pub fn has_queue_engine(&self) -> bool {
        matches!(self.kind, Kind::Queue(_))
    }
}

/// Calls a method of the driver, whichever kind of driver that is.
macro_rules! driver {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            Driver { kind: Kind::Sdhci($driver), .. } => $call,
            Driver { kind: Kind::Queue($driver), .. } => $call,
            Driver { kind: Kind::Chain($driver), .. } => $call,
            Driver { kind: Kind::Streams($driver), .. } => $call,
            Driver { kind: Kind::Rtsx($driver), .. } => $call,
            Driver { kind: Kind::Smhc($driver), .. } => $call,
            Driver { kind: Kind::DesignWare($driver), .. } => $call,
            Driver { kind: Kind::OpenDesignWare($driver), .. } => $call,
            Driver { kind: Kind::Stm32Sdmmc($driver), .. } => $call,
            Driver { kind: Kind::Stm32SdmmcList($driver), .. } => $call,
        }
    };
}

// SAFETY: all calls go to one inner driver, in the same order and with unchanged segments.

unsafe impl Host for Driver {
    // Several kinds of driver can continue data; the capabilities of the driver say whether it can.
    const CONTINUES: bool = true;
    const ALWAYS_CONTINUES: bool = false;
    const CONTINUES_BY_REQUEST: bool = true;
    const CONCURRENT: bool = true;
    const CARD_IRQ: bool = true;
    const EARLY_R1: bool = true;
    const DEFERS_BY_REQUEST: bool = true;

    mmcq::forward_host!(driver! => caps goes_on_with is_prompt map unmap start start_fast start_concurrent
        ack_concurrent abort_concurrent ack ack_fast early_r1 interrupt_lost command_hangs set_bus isolate dat0_busy
        dat_levels present retune_ns supply_ma write_protected take_waker card_irq chain);

    fn queue(&mut self) -> Option<&mut dyn CommandQueueHost> {
        if self.poll_clocks.is_some() && self.has_queue_engine() {
            return Some(self);
        }
        driver!(self, driver => driver.queue())
    }
}
