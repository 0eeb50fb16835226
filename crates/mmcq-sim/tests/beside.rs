//! CMD52 beside data, on the SDHCI model: a combo card's memory or a function's CMD53 keeps the DAT lines busy for a MiB while registers are read.

#[path = "../../mmcq/tests/support/one_thread.rs"]
mod one_thread;

use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::{Config, DmaBuf, Error, Kind, Output, Request, SlotId, Stats};
use mmcq::host::sdhci::{self, Quirks, Table, TransferMode};
use mmcq::host::{Auto, Cause, Data, Direction, Phase, Timing, Width};
use mmcq::sdio::Function as Handle;
use mmcq::spec::command::Command;
use mmcq::spec::command::sdio::{Count, Extended, io_read, io_rw_extended, io_write, io_write_read};
use mmcq::task::Shared;
use mmcq_sim::card::io::{Function, IoProfile};
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::time::Time;
use one_thread::{NOW_NS, OneThread, TIMER};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Driver = sdhci::Sdhci<Port, ShadowMemory, 129>;
type Stack = Shared<OneThread, Driver, 16>;

const MIB: usize = 1 << 20;
/// The function's registers: an endless source and sink of bytes, and one that keeps what it is given.
const STREAM: u32 = 0;
const KEEPER: u32 = 0x10;
/// One CMD53 of the most blocks.
const BLOCK: usize = 2048;
const LONGEST: usize = 511 * BLOCK;

fn pattern(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

#[derive(Default)]
struct Source {
    given: usize,
    taken: Rc<RefCell<Vec<u8>>>,
    kept: u8,
}

impl Function for Source {
    fn read(&mut self, address: u32, _: u64) -> u8 {
        if address == KEEPER {
            return self.kept;
        }
        self.given += 1;
        pattern(self.given - 1)
    }

    fn write(&mut self, address: u32, value: u8, _: u64) {
        if address == KEEPER { self.kept = value } else { self.taken.borrow_mut().push(value) }
    }

    fn interrupt(&self, _: u64) -> bool {
        false
    }

    fn next_event_ns(&self, _: u64) -> Option<u64> {
        None
    }

    fn reset(&mut self, _: u64) {}
}

const PROFILE: &str = r#"
description = "a function with an endless stream"
[io]
source = "prior"
cccr_revision = 0x22
sd_revision = 0x01
manufacturer = 1
device = 2
max_khz = 25000
max_block_bytes = 512
multi_block = true
direct_during_data = true
high_speed = true
rca = 1
[io.time]
source = "prior"
power_up_ms = 20
[[io.function]]
source = "prior"
kind = "loopback"
class = 0
max_block_bytes = 2048
enable_us = 100
enable_timeout_ms = 1000
access_us = 2
write_busy_us = 0
"#;

/// What a test varies.
#[derive(Clone, Copy)]
struct Setup {
    /// The memory part of a combo card.
    memory: Option<&'static str>,
    /// SDC.
    during_data: bool,
    model: SdhciConfig,
    transfer: TransferMode,
    quirks: Quirks,
}

const SETUP: Setup = Setup {
    memory: Some("sdhc-16g-hs"),
    during_data: true,
    model: SdhciConfig::GENERIC_4_20,
    transfer: TransferMode::Adma2,
    quirks: Quirks::NONE,
};

struct Rig {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    stack: Stack,
    card: IoCard,
    taken: Rc<RefCell<Vec<u8>>>,
}

/// Goes to the next interrupt or deadline, and moves the stack by it.
fn turn(stack: &Stack, model: &RefCell<Sdhci>, time: &Time) {
    if !model.borrow().irq() {
        let deadline = stack.with(|engine| engine.next_deadline_ns());
        let next = model.borrow().next_event_ns();
        let until = deadline.into_iter().chain(next).min().expect("nothing will ever happen");
        let reached = model.borrow_mut().advance(until.max(time.now()));
        time.set(reached.max(time.now()));
    }
    NOW_NS.set(time.now());
    let irq = model.borrow().irq();
    if irq { stack.on_irq() } else { stack.poll() }
}

fn drive<F: Future>(stack: &Stack, model: &RefCell<Sdhci>, time: &Time, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        NOW_NS.set(time.now());
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        turn(stack, model, time);
    }
}

fn buffer(bytes: usize) -> DmaBuf {
    let words: &'static mut [u64] = Box::leak(vec![0; bytes.div_ceil(8)].into_boxed_slice());
    // SAFETY: bytes of the same memory, not more than it has.
    DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) })
}

/// A phase of CMD52.
fn direct(command: Command) -> Request {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    Request::new(Kind::Io { phase, timeout_ns: 1_000_000, chain: false }, DmaBuf::EMPTY)
}

/// The longest CMD53 there is.
fn stream(direction: Direction) -> Request {
    let write = direction == Direction::Write;
    let command = io_rw_extended(Extended {
        write,
        function: 1,
        increment: false,
        addr: STREAM,
        count: Count::Blocks(511),
    });
    let data = Data { direction, block_size: BLOCK as u16, blocks: 511 };
    let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: false };
    let mut buf = buffer(LONGEST);
    for (at, byte) in buf.iter_mut().enumerate() {
        *byte = if write { pattern(at) } else { 0 };
    }
    Request::new(Kind::Io { phase, timeout_ns: 1_000_000_000, chain: false }, buf)
}

impl Rig {
    /// A card that is up, its function enabled.
    fn new(setup: Setup) -> Rig {
        let mut profile = IoProfile::from_toml(PROFILE, "stream").unwrap();
        if !setup.during_data {
            profile.config_mut().capabilities &= !1;
        }
        let source = Source::default();
        let taken = source.taken.clone();
        let mut card = mmcq_sim::card::IoCard::new(profile.config_mut().clone(), vec![Box::new(source)]);
        if let Some(name) = setup.memory {
            let path = format!("{}/../../cards/{name}.toml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).unwrap();
            let profile = CardProfile::from_toml(&text, name).unwrap();
            let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
            card = card.with_memory(profile.build_sd(medium).unwrap());
        }
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Rc::new(RefCell::new(Sdhci::new(setup.model, memory.clone(), Some(Box::new(card)))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::new()));
        let config = sdhci::Config { transfer: setup.transfer, quirks: setup.quirks, ..sdhci::Config::new() };
        let host = sdhci::Sdhci::new(port, memory.clone(), table, config).unwrap();
        NOW_NS.set(0);
        let stack: Stack = Shared::new(OneThread, TIMER, host, Config::DEFAULT);
        let found = drive(&stack, &model, &time, bring_up_io(&stack, buffer(512), Options::DEFAULT)).0;
        let card = found.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((card.timing, card.width), (Timing::HighSpeed, Width::W4));
        drive(&stack, &model, &time, async {
            let mut function = Handle::new(&stack, &card, 1).unwrap();
            function.enable().await.unwrap();
            let most = if setup.model.capabilities >> 16 & 3 == 2 { 2048 } else { 512 };
            function.set_block_size(most).await.unwrap();
        });
        // The bus is not kept for the last chain any more.
        time.set(time.now() + 1_000_000);
        Rig { time, model, memory, stack, card, taken }
    }

    fn submit(&self, request: Request) -> SlotId {
        let now_ns = self.time.now();
        let id = self.stack.with(|engine| engine.submit(request, now_ns));
        id.unwrap_or_else(|(error, _)| panic!("{error}"))
    }

    /// The first block of a MiB of memory somewhere in the middle.
    fn lba(&self) -> u64 {
        self.card.memory.as_ref().unwrap().target.sectors / 2
    }

    fn read_memory(&self, bytes: usize) -> SlotId {
        let (lba, blocks) = (self.lba(), (bytes / 512) as u32);
        self.submit(Request::new(Kind::Read { lba, blocks }, buffer(bytes)))
    }

    /// What the medium holds there.
    fn medium(&self, bytes: usize) -> Vec<u8> {
        let mut want = vec![0; bytes];
        self.model.borrow_mut().card_mut().unwrap().peek(self.lba() * 512, &mut want).unwrap();
        want
    }

    fn turn(&self) {
        turn(&self.stack, &self.model, &self.time);
    }

    fn finish(&self, id: SlotId) -> mmcq::engine::Completion {
        loop {
            if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                return done;
            }
            self.turn();
        }
    }

    /// One CMD52 from submission to result: its result, and how long it took.
    fn ask(&self, command: Command) -> (Result<Output, Error>, u64) {
        let since_ns = self.time.now();
        let result = self.finish(self.submit(direct(command))).result;
        (result, self.time.now() - since_ns)
    }

    /// The keeper gives back what it was given.
    fn keeps(&self, value: u8) -> u64 {
        let (result, ns) = self.ask(io_write_read(1, KEEPER, value));
        assert_eq!(result.unwrap().response.r5().data(), value);
        ns
    }

    /// Is the controller at rest?
    fn rests(&self) -> bool {
        self.stack.with(|engine| engine.is_quiet())
    }

    fn stats(&self) -> Stats {
        self.stack.with(|engine| *engine.stats())
    }

    /// From now on.
    fn goes_wrong(&self, plan: Plan) {
        self.model.borrow_mut().set_faults(Faults::new(plan));
    }

    fn sent(&self, index: usize) -> u64 {
        self.model.borrow().stats().commands[index]
    }

    fn checked(&self) {
        assert_eq!(self.memory.violations(), Vec::<String>::new());
        assert_eq!(self.model.borrow().protocol_violations(), 0);
        assert!(self.memory.live_mappings() <= 1, "only the descriptor table stays mapped");
        assert!(self.stack.with(|engine| engine.is_idle()));
    }
}

fn percentile(ns: &mut [u64], share: f64) -> u64 {
    ns.sort_unstable();
    ns[((ns.len() - 1) as f64 * share) as usize]
}

#[test]
fn registers_are_read_beside_a_mib_of_memory() {
    for memory in ["sdhc-16g-hs", "sdxc-128g-uhs"] {
        for transfer in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
            let rig = Rig::new(Setup { memory: Some(memory), transfer, ..SETUP });
            let want = rig.medium(MIB);
            // Before: a command waits for the end of the data.
            rig.stack.with(|engine| engine.set_beside(false));
            let id = rig.read_memory(MIB);
            let before_ns = rig.keeps(1);
            rig.finish(id).result.unwrap();
            assert!(before_ns > 20_000_000, "{before_ns}");

            rig.stack.with(|engine| engine.set_beside(true));
            let alone_ns = rig.keeps(2);
            let (from, stats) = (rig.time.now(), rig.stats());
            let id = rig.read_memory(MIB);
            let mut latencies = Vec::new();
            let mut value = 0u8;
            while !rig.rests() {
                value = value.wrapping_add(1);
                latencies.push(rig.keeps(value));
            }
            let done = rig.finish(id);
            let took_ns = rig.time.now() - from;
            assert_eq!(done.result.unwrap().bytes as usize, MIB);
            assert!(done.buf[..] == want[..], "{memory} {transfer:?}: other data");
            let beside = rig.stats().beside - stats.beside;
            assert!(beside > 1_000 && beside + 4 > latencies.len() as u64, "{beside} {}", latencies.len());
            let (half, worst) = (percentile(&mut latencies, 0.5), percentile(&mut latencies, 1.0));
            println!(
                "{memory} {transfer:?}: alone {alone_ns} ns, waiting {before_ns} ns, beside {half} ns, \
                 worst {worst} ns, {} in {took_ns} ns",
                latencies.len()
            );
            assert!(half < 2 * alone_ns && worst < 20_000, "{half} {worst} {alone_ns}");
            assert_eq!((rig.stats().faults, rig.stats().lost_interrupts), (stats.faults, 0));
            rig.checked();
        }
    }
}

#[test]
fn registers_are_read_beside_the_longest_cmd53() {
    for transfer in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        for direction in [Direction::Read, Direction::Write] {
            let rig = Rig::new(Setup { memory: None, transfer, ..SETUP });
            rig.stack.with(|engine| engine.set_beside(false));
            let id = rig.submit(stream(direction));
            let before_ns = rig.keeps(1);
            let faults = rig.stats().faults;
            let first = rig.finish(id);
            first.result.unwrap();
            rig.taken.borrow_mut().clear();

            rig.stack.with(|engine| engine.set_beside(true));
            let id = rig.submit(stream(direction));
            let mut latencies = Vec::new();
            let mut value = 0u8;
            while !rig.rests() {
                value = value.wrapping_add(1);
                latencies.push(rig.keeps(value));
            }
            let done = rig.finish(id);
            done.result.unwrap();
            if direction == Direction::Write {
                let taken = rig.taken.borrow();
                assert!(taken.iter().enumerate().all(|(at, &byte)| byte == pattern(at)));
                assert_eq!(taken.len(), LONGEST);
            } else {
                assert!(done.buf.iter().enumerate().all(|(at, &byte)| byte == pattern(LONGEST + at)));
            }
            let (half, worst) = (percentile(&mut latencies, 0.5), percentile(&mut latencies, 1.0));
            println!(
                "CMD53 {direction:?} {transfer:?}: waiting {before_ns} ns, beside {half} ns, worst {worst} ns"
            );
            assert!(before_ns > 20_000_000 && half < 10_000 && worst < 20_000, "{before_ns} {half} {worst}");
            assert!(rig.stats().beside > 1_000);
            assert_eq!((rig.stats().faults, rig.stats().lost_interrupts), (faults, 0));
            rig.checked();
        }
    }
}

#[test]
fn registers_are_read_beside_a_mib_written_to_memory() {
    for memory in ["sdhc-16g-hs", "sdxc-128g-uhs"] {
        let rig = Rig::new(Setup { memory: Some(memory), ..SETUP });
        let (lba, blocks) = (rig.lba(), (MIB / 512) as u32);
        let mut buf = buffer(MIB);
        buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(at));
        let id = rig.submit(Request::new(Kind::Write { lba, blocks }, buf));
        let mut latencies = Vec::new();
        while !rig.rests() {
            latencies.push(rig.keeps(latencies.len() as u8));
        }
        rig.finish(id).result.unwrap();
        let (half, worst) = (percentile(&mut latencies, 0.5), percentile(&mut latencies, 1.0));
        assert!(half < 5_000 && worst < 20_000 && rig.stats().beside > 1_000, "{half} {worst}");
        assert!(rig.medium(MIB).iter().enumerate().all(|(at, &byte)| byte == pattern(at)));
        rig.checked();
    }
}

/// Lets a transfer come so far that its data move.
fn under_way(rig: &Rig) {
    let moved = |rig: &Rig| rig.model.borrow().stats().blocks_read;
    let before = moved(rig);
    while moved(rig) < before + 8 {
        let until = rig.model.borrow().next_event_ns().unwrap();
        let reached = rig.model.borrow_mut().advance(until);
        rig.time.set(reached);
        if rig.model.borrow().irq() {
            NOW_NS.set(reached);
            rig.stack.on_irq();
        }
    }
}

#[test]
fn a_command_that_fails_leaves_the_data_alone() {
    let faults = [
        (Point::Command, Strike::Lost, Cause::Timeout),
        (Point::Response, Strike::Lost, Cause::Timeout),
        (Point::Response, Strike::Crc, Cause::Crc),
        (Point::Response, Strike::EndBit, Cause::EndBit),
        (Point::Response, Strike::Index, Cause::Index),
    ];
    // Its transfers end by CMD23, by an automatic CMD12, and by themselves.
    for memory in [Some("sdxc-128g-uhs"), Some("sdhc-16g-hs"), None] {
        for (point, strike, cause) in faults {
            let rig = Rig::new(Setup { memory, ..SETUP });
            let id =
                if memory.is_some() { rig.read_memory(MIB) } else { rig.submit(stream(Direction::Read)) };
            under_way(&rig);
            rig.keeps(1);
            let sent = (rig.sent(18), rig.sent(53));
            let (faults, from_ns) = (rig.stats().faults, rig.time.now());
            rig.goes_wrong(Plan::none().next(point, &[strike]));
            let (result, ns) = rig.ask(io_read(1, KEEPER));
            assert!(matches!(result, Err(Error::Host(fault)) if fault.cause == cause), "{result:?}");
            assert!(ns < 20_000, "{ns}");
            // The next goes beside the same data, unless a CMD12 may be sent meanwhile.
            let next_ns = rig.keeps(3);
            let same = rig.time.now() - from_ns < 1_000_000;
            assert_eq!(same, memory != Some("sdhc-16g-hs"), "{next_ns}");
            let done = rig.finish(id);
            done.result.unwrap();
            match memory {
                Some(_) => assert!(done.buf[..] == rig.medium(MIB)[..], "other data"),
                None => assert!(done.buf.iter().enumerate().all(|(at, &byte)| byte == pattern(at))),
            }
            assert_eq!((rig.sent(18), rig.sent(53)), sent, "nothing was tried again");
            assert_eq!(rig.stats().faults, faults + 1);
            rig.keeps(4);
            rig.checked();
        }
    }
}

#[test]
fn a_lost_interrupt_is_found_at_the_commands_own_deadline() {
    for memory in ["sdxc-128g-uhs", "sdhc-16g-hs"] {
        let rig = Rig::new(Setup { memory: Some(memory), ..SETUP });
        let id = rig.read_memory(3 * MIB);
        under_way(&rig);
        rig.keeps(1);
        let id_52 = rig.submit(direct(io_read(1, KEEPER)));
        rig.goes_wrong(Plan::none().next(Point::Interrupt, &[Strike::Lost]));
        let since_ns = rig.time.now();
        assert_eq!(rig.finish(id_52).result.unwrap().response.r5().data(), 1);
        let ns = rig.time.now() - since_ns;
        assert!((51_000_000..52_000_000).contains(&ns) && !rig.rests(), "{ns}");
        assert_eq!(rig.stats().lost_interrupts, 1);
        let done = rig.finish(id);
        done.result.unwrap();
        assert!(done.buf[..] == rig.medium(3 * MIB)[..]);
        rig.checked();
    }
}

#[test]
fn without_card_or_host_a_command_waits() {
    let no_card = Setup { during_data: false, ..SETUP };
    let no_host = Setup { quirks: Quirks::RESET_CMD_DATA_TOGETHER, ..SETUP };
    for setup in [no_card, no_host] {
        let rig = Rig::new(setup);
        let id = rig.read_memory(MIB);
        under_way(&rig);
        assert!(rig.keeps(1) > 20_000_000);
        assert!(rig.finish(id).buf[..] == rig.medium(MIB)[..]);
        assert_eq!(rig.stats().beside, 0);
        rig.checked();
    }
    // Told a lie, the stack finds a card that does not answer, and the data are whole.
    let rig = Rig::new(no_card);
    rig.stack.with(|engine| engine.set_beside(true));
    let id = rig.read_memory(MIB);
    under_way(&rig);
    let (result, _) = rig.ask(io_read(1, KEEPER));
    assert!(matches!(result, Err(Error::Host(fault)) if fault.cause == Cause::Timeout), "{result:?}");
    assert!(rig.finish(id).buf[..] == rig.medium(MIB)[..]);
}

#[test]
fn what_changes_the_bus_waits_for_the_data() {
    let rig = Rig::new(Setup { memory: None, ..SETUP });
    let id = rig.submit(stream(Direction::Read));
    under_way(&rig);
    // An abort of the very function: beside the data it would end them.
    let (result, ns) = rig.ask(io_write(0, 6, 1));
    assert!(result.is_ok() && ns > 20_000_000, "{ns}");
    assert!(rig.finish(id).buf.iter().enumerate().all(|(at, &byte)| byte == pattern(at)));
    assert_eq!(rig.stats().beside, 0);
    // A look at function 0 need not wait, nor a change of the interrupt enables.
    let id = rig.submit(stream(Direction::Read));
    under_way(&rig);
    assert!(rig.ask(io_read(0, 5)).1 < 20_000);
    assert!(rig.ask(io_write(0, 4, 3)).1 < 20_000);
    rig.finish(id).result.unwrap();
    rig.checked();
}

/// Faults of every kind while memory, CMD53 and CMD52 go on: nothing hangs, nobody is forgotten, and what is reported as read is right.
#[test]
fn a_storm_of_faults() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    for memory in ["sdxc-128g-uhs", "sdhc-16g-hs"] {
        let rig = Rig::new(Setup { memory: Some(memory), ..SETUP });
        let want = rig.medium(64 * 1024);
        let (mut data, mut direct_id): (Option<SlotId>, Option<SlotId>) = (None, None);
        let (mut good, mut bad, mut answered, mut refused) = (0, 0, 0, 0);
        let mut rounds = 0;
        while rounds < 600 {
            if data.is_none() {
                data = Some(rig.read_memory(64 * 1024));
                rounds += 1;
            }
            if direct_id.is_none() {
                direct_id = Some(rig.submit(direct(io_write_read(1, KEEPER, rounds as u8))));
            }
            if below(1500) == 0 {
                let kinds = [
                    (Point::Command, Strike::Lost),
                    (Point::Response, Strike::Lost),
                    (Point::Response, Strike::Crc),
                    (Point::Response, Strike::EndBit),
                    (Point::Response, Strike::Index),
                    (Point::ReadBlock, Strike::Crc),
                    (Point::ReadBlock, Strike::EndBit),
                    (Point::Interrupt, Strike::Lost),
                ];
                let kind = below(9) as usize;
                let plan = match kinds.get(kind) {
                    Some(&(point, strike)) => Plan::none().next(point, &[strike]),
                    None => Plan::none()
                        .next(Point::Response, &[Strike::Lost])
                        .next(Point::ReadBlock, &[Strike::Crc]),
                };
                rig.goes_wrong(plan);
            }
            rig.turn();
            if let Some(done) = data.and_then(|id| rig.stack.with(|engine| engine.take(id))) {
                data = None;
                match done.result {
                    Ok(_) => {
                        good += 1;
                        assert!(done.buf[..] == want[..], "{memory}: other data in round {rounds}");
                    }
                    Err(_) => bad += 1,
                }
            }
            if let Some(done) = direct_id.and_then(|id| rig.stack.with(|engine| engine.take(id))) {
                direct_id = None;
                if done.result.is_ok() { answered += 1 } else { refused += 1 }
            }
        }
        for id in data.into_iter().chain(direct_id) {
            let _ = rig.finish(id);
        }
        assert!(
            good > 100 && bad == 0 && answered > 500 && refused > 10,
            "{good} {bad} {answered} {refused}"
        );
        assert!(rig.stats().beside > 500);
        rig.goes_wrong(Plan::none());
        rig.keeps(9);
        while !rig.stack.with(|engine| engine.is_idle()) {
            rig.turn();
        }
        rig.checked();
    }
}
