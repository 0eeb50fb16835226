//! Tests of the ADMA3 driver on the ADMA3 model, chain by chain, without the engine above the
//! driver.

use mmcq::host::sdhci::{self, Adma3, ChainList, Table};
use mmcq::host::{
    Auto, BusOp, Cause, ChainError, ChainFault, ChainHost, Data, Direction, Host, Phase, Regs, Segment,
    Stage, StartError, Step, Timing, Width,
};
use mmcq::spec::command::{Command, Resp};
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;

const ENTRIES: usize = 8;
type Driver = Adma3<Port, ShadowMemory, 8, ENTRIES, 4>;
const RESET: [BusOp; 1] = [BusOp::ResetLines];

/// The memory of a transfer, in several segments.
struct Part {
    bytes: &'static mut [u8],
    segments: Vec<Segment>,
    direction: Direction,
    sector: u32,
}

struct Rig {
    host: Driver,
    model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    time: Time,
    port: Port,
    parts: Vec<Part>,
}

fn built(config: SdhciConfig, wide: bool, driver: sdhci::SdhciConfig) -> Rig {
    let memory = if wide { MemoryConfig::BITS64 } else { MemoryConfig::BITS32 };
    built_in(memory, config, wide, driver)
}

fn built_in(memory: MemoryConfig, config: SdhciConfig, wide: bool, driver: sdhci::SdhciConfig) -> Rig {
    let bits = if wide { 3 << 27 } else { 0 };
    let config = SdhciConfig { capabilities: config.capabilities & !(3 << 27) | bits, ..config };
    let memory = ShadowMemory::new(memory);
    let time = Time::new();
    let path = format!("{}/cards/emmc-hs200.toml", env!("CARGO_MANIFEST_DIR"));
    let profile = CardProfile::from_toml(&std::fs::read_to_string(path).unwrap(), "emmc-hs200").unwrap();
    let card = profile.build(Medium::sparse(profile.capacity_bytes(), Fill::Zeros).unwrap()).unwrap();
    let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(card))));
    let port = Port::new(model.clone(), time.clone(), 0, 0);
    let table = Box::leak(Box::new(Table::new()));
    let list = Box::leak(Box::new(ChainList::new()));
    let inner = sdhci::Sdhci::new(port.clone(), memory.clone(), table, driver).unwrap();
    Rig { host: Adma3::new(inner, list), model, memory, time, port, parts: Vec::new() }
}

const CONFIG: SdhciConfig = SdhciConfig {
    capabilities1: SdhciConfig::GENERIC_4_20.capabilities1 | 1 << 27,
    ..SdhciConfig::GENERIC_4_20
};

fn content(sector: u32, at: usize) -> u8 {
    (sector as usize * 31 + at * 7 + at / 512 + 1) as u8
}

fn transfer(direction: Direction, sector: u32, blocks: u32) -> Phase {
    let index = if direction == Direction::Read { 18 } else { 25 };
    Phase {
        command: Command::new(index, sector, Resp::R1),
        data: Some(Data { direction, block_size: 512, blocks }),
        auto: Auto::Count(blocks),
        tuning: false,
    }
}

impl Rig {
    /// Returns a rig whose card is identified, on eight lines at 52 MHz; `wide`: 64-bit
    /// descriptors.
    fn new(wide: bool) -> Rig {
        Rig::up(built(CONFIG, wide, sdhci::SdhciConfig::emmc_18()))
    }

    fn up(mut rig: Rig) -> Rig {
        rig.bus(&[BusOp::ResetAll, BusOp::PowerOn, BusOp::Clock(400_000)]);
        rig.run(2_000_000);
        rig.command(0, 0, Resp::None);
        while rig.command(1, 0x40ff_8080, Resp::R3) >> 31 == 0 {
            rig.run(10_000_000);
        }
        rig.command(2, 0, Resp::R2);
        rig.command(3, 1 << 16, Resp::R1);
        rig.command(7, 1 << 16, Resp::R1b);
        rig.command(6, 0x03b7_0200, Resp::R1b);
        rig.command(6, 0x03b9_0100, Resp::R1b);
        rig.bus(&[BusOp::Width(Width::W8), BusOp::Timing(Timing::HighSpeed), BusOp::Clock(52_000_000)]);
        rig
    }

    fn run(&mut self, ns: u64) {
        let until = self.time.now() + ns;
        while self.model.borrow_mut().advance(until) < until {}
        self.time.set(until);
    }

    fn interrupt(&mut self, ns: u64) -> bool {
        if !self.model.borrow().irq() {
            let reached = self.model.borrow_mut().advance(self.time.now() + ns);
            self.time.set(reached.max(self.time.now()));
        }
        self.model.borrow().irq()
    }

    fn bus(&mut self, ops: &[BusOp]) {
        for &op in ops {
            let mut step = self.host.set_bus(op, true, self.time.now());
            while let Step::Wait(at_ns) = step {
                self.run(at_ns - self.time.now());
                step = self.host.set_bus(op, false, self.time.now());
            }
            assert_eq!(step, Step::Done, "{op:?}");
        }
    }

    fn phase(&mut self, phase: &Phase, segments: &[Segment]) -> u32 {
        self.host.start(phase, segments, 1_000_000_000).unwrap();
        for _ in 0..10 {
            assert!(self.interrupt(2_000_000_000), "{phase:?} has no end");
            if let Some(end) = self.host.ack(segments).phase {
                return end.unwrap_or_else(|fault| panic!("{phase:?}: {fault}")).response.words[0];
            }
        }
        panic!("{phase:?} has no end");
    }

    fn command(&mut self, index: u8, arg: u32, resp: Resp) -> u32 {
        self.phase(&Phase::of(Command::new(index, arg, resp)), &[])
    }

    fn part(&mut self, direction: Direction, sector: u32, blocks: u32) -> usize {
        let words: &'static mut [u64] = Box::leak(vec![0; blocks as usize * 64].into_boxed_slice());
        // SAFETY: these are the bytes of one piece of memory, with its length.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), blocks as usize * 512) };
        if direction == Direction::Write {
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = content(sector, at));
        }
        let half = bytes.len() / 1024 * 512;
        let mut segments = Vec::new();
        for (at, len) in [(0, half), (half, bytes.len() - half)].into_iter().filter(|piece| piece.1 > 0) {
            // SAFETY: the memory is never freed, and only this transfer uses it.
            let mut segment =
                unsafe { Segment::new(NonNull::from(&mut bytes[at]), len.try_into().unwrap(), 0) };
            self.host.map(&mut segment, direction).unwrap();
            segments.push(segment);
        }
        self.parts.push(Part { bytes, segments, direction, sector });
        self.parts.len() - 1
    }

    /// Writes the descriptors of a chain of these transfers (direction, first sector, number of
    /// blocks) and starts the chain.
    fn start(&mut self, chain: &[(Direction, u32, u32)]) {
        assert!(self.host.begin_chain());
        for &(direction, sector, blocks) in chain {
            let at = self.part(direction, sector, blocks);
            let phase = transfer(direction, sector, blocks);
            self.host.describe_transfer(&phase, &self.parts[at].segments).unwrap();
        }
        self.host.start_chain(1_000_000_000).unwrap();
    }

    fn end(&mut self) -> Result<(), ChainFault> {
        for _ in 0..4 {
            assert!(
                self.interrupt(2_000_000_000),
                "a chain has no end: {:x?}",
                [0x30, 0x34, 0x38, 0x24, 0x78, 0x58, 0x3c, 0x28].map(|at| self.port.read32(at))
            );
            if let Some(end) = self.host.ack_chain().end {
                return end;
            }
        }
        panic!("interrupts of nothing");
    }

    /// Unmaps the memory of all transfers. With `right`, the function checks the bytes of each
    /// read.
    fn release(&mut self, right: bool) {
        for part in self.parts.drain(..) {
            part.segments.iter().for_each(|segment| self.host.unmap(segment, part.direction));
            if right && part.direction == Direction::Read {
                let good = part.bytes.iter().enumerate().all(|(at, &byte)| byte == content(part.sector, at));
                assert!(good, "sector {}", part.sector);
            }
        }
        assert_eq!(self.memory.violations(), Vec::<String>::new());
        assert_eq!(self.model.borrow().protocol_violations(), 0);
    }

    /// Reads these sectors by an ordinary phase of the controller. Returns whether they have the
    /// expected content.
    fn same(&mut self, sector: u32, blocks: u32) -> bool {
        let at = self.part(Direction::Read, sector, blocks);
        let part = self.parts.remove(at);
        self.phase(&transfer(Direction::Read, sector, blocks), &part.segments);
        part.segments.iter().for_each(|segment| self.host.unmap(segment, part.direction));
        part.bytes.iter().enumerate().all(|(at, &byte)| byte == content(sector, at))
    }

    fn strike(&mut self, at: u64, point: Point, strike: Strike) {
        let plan = Plan::none().shot(point, at, strike);
        let faults = Faults::new(plan);
        self.model.borrow_mut().card_mut().unwrap().set_faults(faults.clone());
        self.model.borrow_mut().set_faults(faults);
    }
}

const WRITES: [(Direction, u32, u32); 3] =
    [(Direction::Write, 8, 8), (Direction::Write, 100, 1), (Direction::Write, 4000, 64)];

#[test]
fn a_chain_moves_all_by_six_accesses() {
    for wide in [false, true] {
        let mut rig = Rig::new(wide);
        rig.start(&WRITES);
        rig.end().unwrap();
        rig.release(true);
        let before = rig.port.counters();
        // The chain mixes reads and writes, and reads blocks that it has just written.
        rig.start(&[
            (Direction::Read, 4000, 64),
            (Direction::Write, 300, 2),
            (Direction::Read, 100, 1),
            (Direction::Read, 300, 2),
        ]);
        rig.end().unwrap();
        let after = rig.port.counters();
        assert_eq!((after.reads - before.reads, after.writes - before.writes), (3, 3 + u64::from(wide)));
        rig.release(true);
        assert!(rig.same(8, 8) && rig.same(4000, 64), "phases go on as before");
        rig.release(true);
    }
}

#[test]
fn a_list_that_ends_early_is_not_believed() {
    for (ends_with, wide) in [(1, false), (2, false), (1, true)] {
        let mut rig = Rig::new(wide);
        rig.strike(ends_with, Point::List, Strike::Lost);
        rig.start(&WRITES);
        let fault = rig.end().unwrap_err();
        assert_eq!((fault.passed, fault.fault.cause), (None, Cause::Other), "{fault}");
        // Until a reset the controller owns the memory.
        assert_eq!(rig.host.start(&transfer(Direction::Read, 0, 1), &[], 0), Err(StartError::CommandLine));
        assert!(!rig.host.begin_chain());
        rig.bus(&RESET);
        rig.release(false);
        rig.start(&WRITES);
        rig.end().unwrap();
        rig.release(true);
        assert!(rig.same(8, 8) && rig.same(100, 1) && rig.same(4000, 64));
    }
}

#[test]
fn an_error_names_its_transfer_and_what_is_before_it_is_done() {
    for wide in [false, true] {
        let mut rig = Rig::new(wide);
        rig.start(&WRITES);
        rig.end().unwrap();
        rig.release(true);
        // Damages the second block that is read, which belongs to the second transfer.
        rig.strike(9, Point::ReadBlock, Strike::Crc);
        rig.start(&[(Direction::Read, 8, 8), (Direction::Read, 100, 1), (Direction::Read, 4000, 64)]);
        let fault = rig.end().unwrap_err();
        assert_eq!((fault.passed, fault.fault.cause, fault.fault.stage), (Some(1), Cause::Crc, Stage::Data));
        assert!(fault.fault.response.is_some(), "its R1 came, and was well");
        rig.bus(&RESET);
        let part = rig.parts.remove(0);
        part.segments.iter().for_each(|segment| rig.host.unmap(segment, part.direction));
        assert!(part.bytes.iter().enumerate().all(|(at, &byte)| byte == content(8, at)));
        rig.release(false);
        if rig.command(13, 1 << 16, Resp::R1) & 0x1e00 != 0x800 {
            rig.command(12, 0, Resp::R1b);
        }
        assert!(rig.same(100, 1));
    }
}

/// Checks that a phase behind a failed chain uses its own table. The list of the chain lies above
/// an address border of 4 GiB, and the table of phases below it. After a failed chain the upper
/// half of the address register is that of the list, and a reset of the lines does not clear it.
#[test]
fn behind_a_failed_chain_a_phase_finds_its_own_table() {
    let border = MemoryConfig { base: 0x12_ffff_ff00, ..MemoryConfig::BITS64 };
    let mut rig = Rig::up(built_in(border, CONFIG, true, sdhci::SdhciConfig::emmc_18()));
    rig.start(&WRITES);
    rig.end().unwrap();
    rig.release(true);
    assert!(rig.same(8, 8));
    // Damages the last block: the card has sent everything by then.
    rig.strike(9, Point::ReadBlock, Strike::Crc);
    rig.start(&[(Direction::Read, 8, 8), (Direction::Read, 100, 1)]);
    rig.end().unwrap_err();
    rig.bus(&RESET);
    rig.release(false);
    assert!(rig.same(8, 8) && rig.same(4000, 64));
    rig.release(true);
}

#[test]
fn a_late_error_stops_the_chain_with_its_status() {
    // The error of the first write shows in the R1 of the CMD23 before the second write, or in the
    // R1 of the second write's command.
    let shots = [
        (Point::Medium, 1, Strike::Fail, Stage::Count),
        (Point::Response, 2, Strike::Status(1 << 19), Stage::Command),
    ];
    for (point, visit, strike, stage) in shots {
        let mut rig = Rig::new(false);
        rig.strike(visit, point, strike);
        rig.start(&WRITES);
        let fault = rig.end().unwrap_err();
        let told = fault.fault.response.map(|response| response.words[0] & 1 << 19);
        assert_eq!((fault.passed, fault.fault.cause, fault.fault.stage), (Some(1), Cause::Response, stage));
        assert_eq!(told, Some(1 << 19));
        rig.bus(&RESET);
        rig.release(false);
    }
}

#[test]
fn what_cannot_be_a_transfer_of_a_chain_is_refused() {
    let mut rig = Rig::new(false);
    assert_eq!(rig.host.start_chain(0), Err(StartError::Unsupported), "there is nothing");
    let at = rig.part(Direction::Read, 8, 8);
    let segments = std::mem::take(&mut rig.parts[at].segments);
    let good = transfer(Direction::Read, 8, 8);
    assert!(rig.host.begin_chain());
    for phase in [
        Phase { auto: Auto::None, ..good },
        Phase { data: None, ..good },
        Phase { tuning: true, ..good },
        transfer(Direction::Read, 8, 9),
        transfer(Direction::Read, 8, 0),
        transfer(Direction::Read, 8, u32::MAX),
    ] {
        assert_eq!(rig.host.describe_transfer(&phase, &segments), Err(StartError::Unsupported), "{phase:?}");
    }
    for _ in 0..ENTRIES {
        rig.host.describe_transfer(&good, &segments).unwrap();
    }
    assert_eq!(rig.host.describe_transfer(&good, &segments), Err(StartError::Unsupported), "it is full");
    assert!(rig.host.begin_chain());
    rig.parts[at].segments = segments;
    rig.release(false);
}

#[test]
fn where_there_is_no_adma3_it_says_why() {
    let driver = sdhci::SdhciConfig::emmc_18;
    let why = |config, driver| built(config, true, driver).host.chain_caps();
    let plain = SdhciConfig::GENERIC_4_20;
    assert_eq!(why(plain, driver()), Err(ChainError::Capabilities(plain.capabilities1)));
    let old = SdhciConfig { spec: 3, ..CONFIG };
    assert_eq!(why(old, driver()), Err(ChainError::Version(3)));
    let quirks = driver().quirks(sdhci::SdhciQuirks::NO_V4_MODE);
    assert_eq!(why(CONFIG, quirks), Err(ChainError::Version(CONFIG.spec)));
    let quirks = driver().quirks(sdhci::SdhciQuirks::NO_BUSY_IRQ);
    assert_eq!(why(CONFIG, quirks), Err(ChainError::Transfer));
    let sdma = driver().transfer(sdhci::TransferMode::Sdma);
    assert_eq!(why(CONFIG, sdma), Err(ChainError::Transfer));
    let caps = why(CONFIG, driver()).unwrap();
    assert_eq!((caps.entries, caps.max_segments >= 2, caps.max_bytes >= 65_536), (8, true, true));
}

/// Checks that no change of the bus is possible while a list is executed, except those that end it.
/// The supply may be switched off, but not on again before a reset: the controller would send the
/// commands of the list to a card that was just switched on.
#[test]
fn a_list_that_is_executed_refuses_changes_of_the_bus() {
    let mut rig = Rig::new(false);
    rig.start(&WRITES);
    for op in [BusOp::PowerOn, BusOp::Clock(400_000), BusOp::Width(Width::W1), BusOp::TuneStart] {
        assert_eq!(rig.host.set_bus(op, true, rig.time.now()), Step::Failed, "{op:?}");
    }
    rig.end().unwrap();
    rig.release(true);
    assert!(rig.same(8, 8) && rig.same(4000, 64));
    rig.release(true);
    rig.start(&WRITES);
    rig.bus(&[BusOp::PowerOff]);
    assert_eq!(rig.host.set_bus(BusOp::PowerOn, true, rig.time.now()), Step::Failed);
    rig.bus(&RESET);
    rig.bus(&[BusOp::PowerOn]);
}

/// Checks a chain whose end interrupts while the lines are reset, because the engine gives it up: the
/// interrupt is acknowledged although no request waits for it.
#[test]
fn the_interrupt_of_a_list_that_is_given_up_does_not_stay() {
    let mut rig = Rig::new(false);
    rig.start(&WRITES);
    assert!(rig.interrupt(2_000_000_000));
    let step = rig.host.set_bus(BusOp::ResetLines, true, rig.time.now());
    assert!(matches!(step, Step::Wait(_)) && rig.model.borrow().irq(), "{step:?}");
    assert!(rig.host.ack(&[]).phase.is_none());
    assert!(!rig.model.borrow().irq());
    rig.bus(&RESET);
    rig.release(false);
    assert!(rig.host.begin_chain());
}
