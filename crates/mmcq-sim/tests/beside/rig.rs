//! A rig: a combo card on the SDHCI model, whose function is an endless stream, and the stack that
//! drives it.

use crate::timed::one_thread::{NOW_NS, OneThread, TIMER};
use crate::timed::{self, bytes as buffer, drive};
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::{Config, DmaBuf, Error, Kind, Output, Request, SlotId, Stats};
use mmcq::host::sdhci::{self, SdhciQuirks, Table, TransferMode};
use mmcq::host::{Auto, Data, Direction, Phase, Timing, Width};
use mmcq::sdio::Function as Handle;
use mmcq::spec::command::Command;
use mmcq::spec::command::sdio::{Amount, Extended, io_rw_extended, io_write_read};
use mmcq_sim::card::io::{Function, IoProfile};
use mmcq_sim::faults::{Faults, Plan};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::rc::Rc;

type Driver = sdhci::Sdhci<Port, ShadowMemory, 129>;
type Stack = mmcq::task::Stack<(OneThread, Driver), 16>;

pub const MIB: usize = 1 << 20;
/// Address of a register of the function: an endless source and sink of bytes.
const STREAM: u32 = 0;
/// Address of a register of the function that stores what is written to it.
pub const KEEPER: u32 = 0x10;
/// Block size in bytes of the longest CMD53.
const BLOCK: usize = 2048;
/// Number of bytes of the longest CMD53.
pub const LONGEST: usize = 511 * BLOCK;

pub fn pattern(at: usize) -> u8 {
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

/// Settings of the card and the controller that a test can vary.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The card profile of the combo card's memory part; `None`: an I/O card without memory.
    pub memory: Option<&'static str>,
    /// The SDC bit of CCCR: the card accepts CMD52 during data.
    pub during_data: bool,
    pub model: SdhciConfig,
    pub transfer: TransferMode,
    pub quirks: SdhciQuirks,
}

pub const SETUP: Setup = Setup {
    memory: Some("sdhc-16g-hs"),
    during_data: true,
    model: SdhciConfig::GENERIC_4_20,
    transfer: TransferMode::Adma2,
    quirks: SdhciQuirks::NONE,
};

pub struct Rig {
    pub time: Time,
    pub model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    pub stack: Stack,
    card: IoCard,
    pub taken: Rc<RefCell<Vec<u8>>>,
}

/// A request with a CMD52.
pub fn direct(command: Command) -> Request {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    Request::new(Kind::Io { phase, timeout_ns: 1_000_000, chain: false }, DmaBuf::EMPTY)
}

/// A request with the longest possible CMD53.
pub fn stream(direction: Direction) -> Request {
    let write = direction == Direction::Write;
    let command = io_rw_extended(Extended {
        write,
        function: 1,
        increment: false,
        addr: STREAM,
        count: Amount::Blocks(511),
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
    /// Returns a rig whose card is up, with its function enabled.
    pub fn new(setup: Setup) -> Rig {
        let mut profile = IoProfile::from_toml(PROFILE, "stream").unwrap();
        if !setup.during_data {
            profile.config_mut().capabilities &= !1;
        }
        let source = Source::default();
        let taken = source.taken.clone();
        let mut card = mmcq_sim::card::IoCard::new(profile.config_mut().clone(), vec![Box::new(source)]);
        if let Some(name) = setup.memory {
            let profile = timed::profile(name);
            card = card.with_memory(profile.build_sd(timed::medium(&profile)).unwrap());
        }
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Rc::new(RefCell::new(Sdhci::new(setup.model, memory.clone(), Some(Box::new(card)))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::new()));
        let config = sdhci::SdhciConfig::new().transfer(setup.transfer).quirks(setup.quirks);
        let host = sdhci::Sdhci::new(port, memory.clone(), table, config).unwrap();
        NOW_NS.set(0);
        let stack: Stack = Stack::new(OneThread, TIMER, host, Config::DEFAULT);
        let found = drive(&stack, &model, &time, bring_up_io(&stack, buffer(512), Options::DEFAULT)).0;
        let card = found.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((card.timing, card.width), (Timing::HighSpeed, Width::W4));
        drive(&stack, &model, &time, async {
            let mut function = Handle::new(&stack, &card, 1).unwrap();
            function.enable().await.unwrap();
            let most = if setup.model.capabilities >> 16 & 3 == 2 { 2048 } else { 512 };
            function.set_block_size(most).await.unwrap();
        });
        // After this time the engine no longer reserves the bus for the last chain.
        time.set(time.now() + 1_000_000);
        Rig { time, model, memory, stack, card, taken }
    }

    pub fn submit(&self, request: Request) -> SlotId {
        let now_ns = self.time.now();
        let id = self.stack.with(|engine| engine.submit(request, now_ns));
        id.unwrap_or_else(|(error, _)| panic!("{error}"))
    }

    /// Returns the first block of a MiB of memory in the middle of the card.
    pub fn lba(&self) -> u64 {
        self.card.memory.as_ref().unwrap().params.sectors / 2
    }

    pub fn read_memory(&self, bytes: usize) -> SlotId {
        let (lba, blocks) = (self.lba(), (bytes / 512) as u32);
        self.submit(Request::new(Kind::Read { lba, blocks }, buffer(bytes)))
    }

    /// Returns the bytes that the medium holds from [`lba`](Self::lba) on.
    pub fn medium(&self, bytes: usize) -> Vec<u8> {
        let mut want = vec![0; bytes];
        self.model.borrow_mut().card_mut().unwrap().peek(self.lba() * 512, &mut want).unwrap();
        want
    }

    pub fn turn(&self) {
        timed::step(&self.stack, &self.model, &self.time).unwrap();
    }

    pub fn finish(&self, id: SlotId) -> mmcq::engine::Completion {
        loop {
            if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                return done;
            }
            self.turn();
        }
    }

    /// Sends one CMD52. Returns its result and the time from submission to result, in ns.
    pub fn ask(&self, command: Command) -> (Result<Output, Error>, u64) {
        let since_ns = self.time.now();
        let result = self.finish(self.submit(direct(command))).result;
        (result, self.time.now() - since_ns)
    }

    /// Writes a value into the register that keeps it, and checks that the value can be read back.
    /// Returns how long the CMD52 took, in ns.
    pub fn keeps(&self, value: u8) -> u64 {
        let (result, ns) = self.ask(io_write_read(1, KEEPER, value));
        assert_eq!(result.unwrap().response.r5().data(), value);
        ns
    }

    /// Returns whether the engine has no command and no data under way.
    pub fn rests(&self) -> bool {
        self.stack.with(|engine| engine.is_quiet())
    }

    pub fn stats(&self) -> Stats {
        self.stack.with(|engine| *engine.stats())
    }

    /// Applies these faults from now on.
    pub fn goes_wrong(&self, plan: Plan) {
        self.model.borrow_mut().set_faults(Faults::new(plan));
    }

    pub fn sent(&self, index: usize) -> u64 {
        self.model.borrow().stats().commands[index]
    }

    pub fn checked(&self) {
        timed::checked(&self.memory, &self.model);
        assert!(self.memory.live_mappings() <= 1, "only the descriptor table stays mapped");
        assert!(self.stack.with(|engine| engine.is_idle()));
    }
}
