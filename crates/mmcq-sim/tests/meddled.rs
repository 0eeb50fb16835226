//! Tests that calls which are allowed at any time do no harm: each is made at each step of each
//! phase, and must not disturb the phase or break the controller's rules.

use crate::timed;
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf, Kind, RecoveryStep, Request, Stats};
use mmcq::host::mshc::{self, Descriptors, DesignWareLayout, MshcLayout, SmhcLayout};
use mmcq::host::rtsx::{self, Buffers};
use mmcq::host::s3c_sdi;
use mmcq::host::sdhci::{self, OpenWrites, StreamConfig, Streams, Table, TransferMode};
use mmcq::host::stm32_sdmmc::{self as sdmmc, Pieces};
use mmcq::host::surroundings::Surrounded;
use mmcq::host::{BusOp, Events, FastEnd, Host, Phase, Segment, StartError, Step};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::mshc::{Board as MshcBoard, Mshc, MshcConfig, Port as MshcPort};
use mmcq_sim::rtsx::{Port as ReaderPort, Rtsx, RtsxConfig};
use mmcq_sim::s3c_sdi::{Port as S3cPort, S3cSdi, S3cSdiConfig};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::stm32_sdmmc::{Board, Port as SdmmcPort, Stm32Sdmmc, Stm32SdmmcConfig};
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::rc::Rc;
use timed::erased::{Erased, constants};
use timed::filled;
use timed::one_thread::NOW_NS;

/// Time of a register access in ns, during which the controller goes on.
const ACCESS_NS: u64 = 40;
/// The driver's methods that may be called at any time. Each method is tested alone, and all
/// together (`all`). Some drivers do more at the first call to unmask the card interrupt than later,
/// so that call also comes in the first phase with data.
const METHODS: [&str; 11] = [
    "card_irq from data on",
    "card_irq",
    "card_irq off",
    "present",
    "write_protected",
    "dat0_busy",
    "dat_levels",
    "early_r1",
    "command_hangs",
    "ack",
    "all",
];

/// Name of the run without further calls and without calls of the interrupt handler that have no
/// interrupt.
const ALONE: &str = "alone";

/// The constants of each kind of driver, which the compiler checks.
const SDHCI: u16 = constants::<sdhci::Sdhci<Port, ShadowMemory, 129>>();
const STREAMS: u16 = constants::<Streams<Port, ShadowMemory, 129>>();
const REALTEK: u16 = constants::<rtsx::Rtsx<ReaderPort, ShadowMemory>>();
const MOBILE: u16 = constants::<mshc::DesignWare<MshcPort, ShadowMemory, MshcBoard, 129>>();
const OPEN_MOBILE: u16 = constants::<mshc::OpenDesignWare<MshcPort, ShadowMemory, MshcBoard, 129>>();
const ST: u16 = constants::<sdmmc::Stm32Sdmmc<SdmmcPort, ShadowMemory, Board, 1>>();
const SAMSUNG: u16 = constants::<s3c_sdi::S3cSdi<S3cPort, ShadowMemory>>();

/// A driver that, whenever the stack calls it, also calls one further method of [`METHODS`].
struct Meddled<H> {
    host: H,
    method: &'static str,
    /// Whether further calls are made; false until the first data of "card_irq from data on".
    on: bool,
    calls: Rc<RefCell<u64>>,
}

impl<H: Host> Meddled<H> {
    fn meddle(&mut self) {
        let is = |name| self.method == name || self.method == "all";
        *self.calls.borrow_mut() += 1;
        if !self.on {
            return;
        }
        if H::CARD_IRQ && (is("card_irq") || is("card_irq from data on")) {
            self.host.card_irq(true);
        }
        if H::CARD_IRQ && is("card_irq off") {
            self.host.card_irq(true);
            self.host.card_irq(false);
        }
        if is("present") {
            assert!(self.host.present());
        }
        if is("write_protected") {
            assert!(!self.host.write_protected());
        }
        if is("dat0_busy") {
            let _ = self.host.dat0_busy();
        }
        if is("dat_levels") {
            let _ = self.host.dat_levels();
        }
        if is("early_r1") {
            let _ = self.host.early_r1();
        }
        if is("command_hangs") {
            let _ = self.host.command_hangs();
        }
        let _ = (self.host.retune_ns(), self.host.supply_ma(), self.host.take_waker(), self.host.caps());
    }

    /// Calls `ack` once more where the method under test is that one and the phase has not ended.
    /// Returns the events of both calls.
    fn ask_again(&mut self, mut events: Events, segments: &[Segment]) -> Events {
        if events.phase.is_none() && matches!(self.method, "ack" | "all") {
            let more = self.host.ack(segments);
            events.phase = more.phase;
            events.card_irq |= more.card_irq;
            events.presence |= more.presence;
            events.retune |= more.retune;
        }
        events
    }
}

// SAFETY: calls go to the driver inside, in their order and with unchanged segments.
unsafe impl<H: Host> Host for Meddled<H> {
    mmcq::forward_host!(const H);
    mmcq::forward_host!(self.host => caps goes_on_with is_prompt map unmap start_concurrent ack_concurrent
        abort_concurrent early_r1 interrupt_lost command_hangs isolate dat0_busy dat_levels retune_ns
        supply_ma take_waker card_irq queue chain present write_protected);

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let begun = self.host.start(phase, segments, timeout_ns);
        self.on |= begun.is_ok() && phase.data.is_some();
        self.meddle();
        begun
    }

    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let begun = self.host.start_fast(phase, segments, timeout_ns);
        self.on |= begun.is_ok() && phase.data.is_some();
        self.meddle();
        begun
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.meddle();
        let events = self.host.ack(segments);
        self.meddle();
        self.ask_again(events, segments)
    }

    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        self.meddle();
        let end = self.host.ack_fast(segments);
        self.meddle();
        end.map_err(|events| self.ask_again(events, segments))
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        let step = self.host.set_bus(op, first, now_ns);
        self.meddle();
        step
    }
}

/// Brings up a card on this controller, writes and reads, with a further call between any two
/// events. Returns the stack's counters.
fn load<const CONSTANTS: u16>(
    stack: &timed::On<Erased<CONSTANTS>>,
    model: &RefCell<dyn Controller>,
    memory: &ShadowMemory,
    time: &Time,
    method: &'static str,
) -> Result<Stats, String> {
    let turn = || {
        timed::step(stack, model, time)?;
        if method != ALONE {
            // Calls the interrupt handler without an interrupt, as on an interrupt line that devices
            // share.
            stack.on_irq();
        }
        Ok(())
    };
    let ask = |kind, buf| stack.request(Request::new(kind, buf));
    timed::try_drive(time, turn, async {
        let (found, _) = card::bring_up(stack, timed::blocks(1), Options::DEFAULT).await;
        found.map_err(|error| format!("bring-up: {error}"))?;
        for (lba, blocks, byte) in [(8, 1, 1), (64, 8, 2), (65, 3, 3)] {
            let written = ask(Kind::Write { lba, blocks }, filled(blocks as usize, byte)).await;
            written.result.map_err(|error| format!("write {lba}+{blocks}: {error}"))?;
        }
        ask(Kind::Flush, DmaBuf::EMPTY).await.result.map_err(|error| format!("flush: {error}"))?;
        for (lba, bytes) in [(8, vec![1]), (64, vec![2, 3, 3, 3, 2, 2, 2, 2])] {
            let blocks = bytes.len() as u32;
            let read = ask(Kind::Read { lba, blocks }, filled(bytes.len(), 0)).await;
            read.result.map_err(|error| format!("read {lba}+{blocks}: {error}"))?;
            let wanted: Vec<u8> = bytes.iter().flat_map(|&byte| [byte; 512]).collect();
            if read.buf[..] != wanted[..] {
                return Err(format!("read {lba}+{blocks}: other data"));
            }
        }
        Ok(())
    })??;
    let wrongs = (memory.violations(), model.borrow().protocol_violations());
    if wrongs != (Vec::new(), 0) {
        return Err(format!("{wrongs:?}"));
    }
    Ok(stack.with(|engine| *engine.stats()))
}

/// Runs the load with each further method, and checks that the stack's counters are those of a load
/// without further calls.
fn meddle<const CONSTANTS: u16, H: Host + 'static, M: Controller + 'static>(
    name: &str,
    make: impl Fn(ShadowMemory, &Time) -> (H, Rc<RefCell<M>>),
) {
    let run = |method| {
        let (time, memory) = (Time::new(), ShadowMemory::new(MemoryConfig::BITS32));
        let (host, model) = make(memory.clone(), &time);
        let calls = Rc::new(RefCell::new(0));
        let host = Meddled { host, method, on: method != "card_irq from data on", calls: calls.clone() };
        NOW_NS.set(0);
        let stack = timed::on(Erased::<CONSTANTS>::new(host), Config::DEFAULT);
        let stats = load(&stack, &*model, &memory, &time, method)
            .unwrap_or_else(|error| panic!("{name}, {method}: {error}"));
        (stats, calls.take())
    };
    let (alone, _) = run(ALONE);
    // Many of the interrupts only move words, or report an event with which the phase goes on.
    assert_eq!(alone.spurious, 0, "{name}: {alone:?}");
    let (clean, _) = run("none");
    for method in METHODS {
        let (stats, calls) = run(method);
        assert!(calls > 300, "{name}, {method}: {calls} calls");
        assert_eq!(stats.lost_interrupts, 0, "{name}, {method}");
        assert_eq!(stats.faults, clean.faults, "{name}, {method}");
        let taken = stats.recovery_steps[RecoveryStep::Classify as usize];
        assert_eq!(taken, clean.recovery_steps[RecoveryStep::Classify as usize], "{name}, {method}");
    }
}

fn card(emmc: bool) -> Option<Box<dyn mmcq_sim::card::Card>> {
    Some(timed::card(&timed::profile(if emmc { "emmc-hs200" } else { "sdhc-16g-hs" })))
}

fn leaked<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

#[test]
fn sdhci() {
    for emmc in [false, true] {
        for transfer in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
            meddle::<SDHCI, _, _>(&format!("SDHCI {transfer:?}"), |memory, time| {
                let config = SdhciConfig { uhs_at_33v: emmc, fixed: emmc, ..SdhciConfig::GENERIC_4_20 };
                let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), card(emmc))));
                let port = Port::new(model.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
                let config = sdhci::SdhciConfig::new().transfer(transfer).fixed(emmc);
                let host = sdhci::Sdhci::<_, _, 129>::new(port, memory, leaked(Table::new()), config);
                (host.unwrap_or_else(|error| panic!("{error}")), model)
            });
        }
    }
}

#[test]
fn sdhci_with_open_transfers() {
    for writes in [OpenWrites::Gap, OpenWrites::Carrier] {
        meddle::<STREAMS, _, _>(&format!("streams {writes:?}"), |_, time| {
            // Only whole pages can be mapped.
            let memory = ShadowMemory::new(MemoryConfig { natural: 4096, ..MemoryConfig::BITS32 });
            let model = Sdhci::new(SdhciConfig::GENERIC_4_20, memory.clone(), card(false));
            let model = Rc::new(RefCell::new(model));
            let port = Port::new(model.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
            let config = sdhci::SdhciConfig::new();
            let host = sdhci::Sdhci::<_, _, 129>::new(port, memory, leaked(Table::new()), config);
            let host = host.unwrap_or_else(|error| panic!("{error}"));
            (Streams::new(host, StreamConfig::NONE.reads(true).writes(writes)), model)
        });
    }
}

#[test]
fn realtek() {
    meddle::<REALTEK, _, _>("Realtek", |memory, time| {
        let model = Rc::new(RefCell::new(Rtsx::new(RtsxConfig::GENERIC, memory.clone(), card(false))));
        let port = ReaderPort::new(model.clone(), time.clone(), 200, 50);
        let config = rtsx::RtsxConfig::new(rtsx::Chip::Rts5249);
        let host = rtsx::Rtsx::new(port, memory, leaked(Buffers::new()), config);
        (host.unwrap_or_else(|error| panic!("{error}")), model)
    });
}

fn mobile<L: MshcLayout + 'static>(name: &str, config: MshcConfig, emmc: bool) {
    meddle::<MOBILE, _, _>(name, |memory, time| {
        let config = MshcConfig { lines: 8, signal18: false, signal18_fixed: emmc, ..config };
        let model = Rc::new(RefCell::new(Mshc::new(config, memory.clone(), card(emmc))));
        let driver = mshc::MshcConfig::new(config.source_hz)
            .max_clock_hz(52_000_000)
            .high_speed(true)
            .signal18_fixed(emmc)
            .sample_delay(config.delay_step_ps != 0)
            .busy_by_update(true)
            .fixed(emmc);
        let board = MshcBoard::new(model.clone(), time.clone());
        let port = MshcPort::new(model.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
        let table = leaked(Descriptors::<129>::new());
        let host = mshc::Mshc::<L, _, _, _, 129>::new(port, memory, board.clone(), table, driver);
        (Surrounded::new(host.unwrap_or_else(|error| panic!("{error}")), board), model)
    });
}

#[test]
fn mobile_storage_hosts() {
    for emmc in [false, true] {
        mobile::<SmhcLayout>("Allwinner H3", MshcConfig::H3, emmc);
        mobile::<SmhcLayout>("Allwinner A64", MshcConfig::A64, emmc);
        mobile::<DesignWareLayout>("JH7110", MshcConfig::JH7110, emmc);
        mobile::<DesignWareLayout>("RK3399", MshcConfig::RK3399, emmc);
    }
}

#[test]
fn designware_with_open_transfers() {
    for (config, emmc) in [(MshcConfig::JH7110, false), (MshcConfig::RK3399, true)] {
        meddle::<OPEN_MOBILE, _, _>("open DesignWare", |memory, time| {
            let config = MshcConfig { lines: 8, signal18: false, signal18_fixed: emmc, ..config };
            let model = Rc::new(RefCell::new(Mshc::new(config, memory.clone(), card(emmc))));
            let driver = mshc::MshcConfig::new(config.source_hz)
                .max_clock_hz(52_000_000)
                .high_speed(true)
                .signal18_fixed(emmc)
                .fixed(emmc);
            let board = MshcBoard::new(model.clone(), time.clone());
            let port = MshcPort::new(model.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
            let table = leaked(Descriptors::<129>::new());
            let host = mshc::DesignWare::new(port, memory, board.clone(), table, driver);
            let host = host.unwrap_or_else(|error| panic!("{error}"));
            let open = mshc::OpenTransfers::NONE.reads(true).writes(true);
            let host = mshc::OpenDesignWare::new(host, leaked(mshc::Scrap::new()), open);
            (Surrounded::new(host.unwrap_or_else(|error| panic!("{error}")), board), model)
        });
    }
}

fn st<const PIECES: usize>(name: &str, config: Stm32SdmmcConfig, emmc: bool) {
    meddle::<ST, _, _>(name, |memory, time| {
        let model = Rc::new(RefCell::new(Stm32Sdmmc::new(config, memory.clone(), card(emmc))));
        let board = Board { signal18_fixed: emmc, ..Board::new(model.clone(), time.clone()) };
        let driver = sdmmc::Stm32SdmmcConfig::new(config.kernel_hz)
            .max_clock_hz(50_000_000)
            .high_speed(true)
            .busy_after_data(config.data_end_after_busy)
            .signal18_fixed(emmc)
            .fixed(emmc);
        let port = SdmmcPort::new(model.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
        let pieces = leaked(Pieces::<PIECES>::new());
        let host = sdmmc::Stm32Sdmmc::new(port, memory, board.clone(), pieces, driver);
        (Surrounded::new(host.unwrap_or_else(|error| panic!("{error}")), board), model)
    });
}

#[test]
fn st_sdmmc() {
    for emmc in [false, true] {
        st::<1>("H7", Stm32SdmmcConfig::H7, emmc);
        st::<16>("U5", Stm32SdmmcConfig::U5, emmc);
        st::<16>("N6", Stm32SdmmcConfig::N6, emmc);
    }
}

#[test]
fn samsung() {
    for dma in [s3c_sdi::DmaUse::Never, s3c_sdi::DmaUse::From(64)] {
        meddle::<SAMSUNG, _, _>("S3C2440", |memory, time| {
            let model = S3cSdi::new(S3cSdiConfig::S3C2440, memory.clone(), card(false));
            let model = Rc::new(RefCell::new(model));
            let port = S3cPort::new(model.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
            let config = s3c_sdi::S3cSdiConfig::new(50_000_000).dma(dma).max_clock_hz(10_000_000);
            let host = s3c_sdi::S3cSdi::new(port, memory, config);
            (host.unwrap_or_else(|error| panic!("{error}")), model)
        });
    }
}
