//! Tests of the model of the mobile storage host with scripted cards and with card models. They use
//! only registers.

mod commands;
mod dma;
mod errors;
mod open;
mod random;
mod sampling;
mod transfers;
mod voltage;

use super::{Layout, Mshc, MshcConfig};
use crate::card::Card;
use crate::faults::{Faults, Plan, Point, Strike};
use crate::memory::{MemoryConfig, ShadowMemory};
use crate::sdhci::tests::rig::{Mapped, TestCard, pattern};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::{Direction, Dma};
use std::ptr::NonNull;

/// Register offsets of a layout.
pub(super) struct Places {
    pub timeout: u16,
    pub width: u16,
    pub block: u16,
    pub count: u16,
    pub cmd: u16,
    pub arg: u16,
    pub resp: u16,
    pub mask: u16,
    pub raw: u16,
    pub status: u16,
    pub threshold: u16,
    pub mode: u16,
    pub list: u16,
    pub dma_status: u16,
    pub dma_enable: u16,
}

const SMHC: Places = Places {
    timeout: 0x08,
    width: 0x0c,
    block: 0x10,
    count: 0x14,
    cmd: 0x18,
    arg: 0x1c,
    resp: 0x20,
    mask: 0x30,
    raw: 0x38,
    status: 0x3c,
    threshold: 0x40,
    mode: 0x80,
    list: 0x84,
    dma_status: 0x88,
    dma_enable: 0x8c,
};

const DESIGNWARE: Places = Places {
    timeout: 0x14,
    width: 0x18,
    block: 0x1c,
    count: 0x20,
    cmd: 0x2c,
    arg: 0x28,
    resp: 0x30,
    mask: 0x24,
    raw: 0x44,
    status: 0x48,
    threshold: 0x4c,
    mode: 0x80,
    list: 0x88,
    dma_status: 0x8c,
    dma_enable: 0x90,
};

const WIDE: Places = Places { dma_status: 0x90, dma_enable: 0x94, ..DESIGNWARE };

pub(super) const CONTROL: u16 = 0x00;
pub(super) const FIFO: u16 = 0x200;

// Bits of the command register.
pub(super) const START: u32 = 1 << 31;
pub(super) const SHORT: u32 = 1 << 6 | 1 << 8;
pub(super) const NO_CRC: u32 = 1 << 6;
pub(super) const LONG: u32 = 3 << 6 | 1 << 8;
pub(super) const READ: u32 = 1 << 9 | 1 << 13 | SHORT;
pub(super) const WRITE: u32 = 1 << 10 | READ;
pub(super) const AUTO: u32 = 1 << 12;
pub(super) const WAIT: u32 = 1 << 13;
pub(super) const STOP: u32 = 1 << 14;
pub(super) const UPDATE: u32 = 1 << 21 | WAIT;
pub(super) const VOLTAGE: u32 = 1 << 28;

// Bits of the raw interrupt status.
pub(super) const RE: u32 = 1 << 1;
pub(super) const DONE: u32 = 1 << 2;
pub(super) const OVER: u32 = 1 << 3;
pub(super) const TXDR: u32 = 1 << 4;
pub(super) const RXDR: u32 = 1 << 5;
pub(super) const RCRC: u32 = 1 << 6;
pub(super) const DCRC: u32 = 1 << 7;
pub(super) const RTO: u32 = 1 << 8;
pub(super) const DRTO: u32 = 1 << 9;
pub(super) const HTO: u32 = 1 << 10;
pub(super) const HLE: u32 = 1 << 12;
pub(super) const BCI: u32 = 1 << 13;
pub(super) const ACD: u32 = 1 << 14;
pub(super) const EBE: u32 = 1 << 15;

/// Test bench that accesses registers as a driver does.
pub(super) struct Rig {
    pub host: Mshc,
    pub memory: ShadowMemory,
    pub now: u64,
    pub card: TestCard,
    pub at: &'static Places,
}

impl Rig {
    /// Makes a test bench after reset, with a scripted card.
    pub fn cold(config: MshcConfig) -> Rig {
        let card = TestCard::new();
        Rig::with(config, Box::new(card.clone()), card)
    }

    /// Makes a test bench after reset, with this card.
    pub fn of(config: MshcConfig, card: Box<dyn Card>) -> Rig {
        Rig::with(config, card, TestCard::new())
    }

    fn with(config: MshcConfig, inside: Box<dyn Card>, card: TestCard) -> Rig {
        config.check().unwrap();
        let wide = if config.wide_dma { MemoryConfig::BITS64 } else { MemoryConfig::BITS32 };
        let memory = ShadowMemory::new(wide);
        let host = Mshc::new(config, memory.clone(), Some(inside));
        let at = match (config.layout, config.wide_dma) {
            (Layout::Smhc, _) => &SMHC,
            (_, false) => &DESIGNWARE,
            (_, true) => &WIDE,
        };
        Rig { host, memory, now: 1_000, card, at }
    }

    /// Makes a test bench with power, interrupts enabled, this clock divider and four lines.
    pub fn warm(config: MshcConfig) -> Rig {
        let mut rig = Rig::cold(config);
        rig.power_up();
        rig
    }

    pub fn smhc(&self) -> bool {
        self.host.config().layout == Layout::Smhc
    }

    pub fn power_up(&mut self) {
        if !self.smhc() {
            self.w(0x04, 1);
        }
        self.w(CONTROL, 7);
        self.now += 1_000;
        assert_eq!(self.r(CONTROL) & 7, 0);
        self.w(CONTROL, 1 << 4);
        self.w(self.at.timeout, u32::MAX);
        self.w(self.at.threshold, 7 << 16 | 8);
        self.clock(true, 2);
        self.w(self.at.width, 1);
        self.w(self.at.raw, u32::MAX);
        self.now += 2_000_000;
    }

    /// Sets the clock registers, and sends an update command.
    pub fn clock(&mut self, on: bool, divider: u32) {
        if self.smhc() {
            self.w(0x04, u32::from(on) << 16 | divider);
        } else {
            self.w(0x08, divider);
            self.w(0x10, on.into());
        }
        self.update(0);
    }

    pub fn update(&mut self, flags: u32) {
        self.w(self.at.cmd, START | UPDATE | flags);
        while self.r(self.at.cmd) & START != 0 {
            self.step();
        }
    }

    /// Sets the faults that strike the next events at a point.
    pub fn next(&mut self, point: Point, strikes: &[Strike]) {
        self.host.set_faults(Faults::new(Plan::none().next(point, strikes)));
    }

    pub fn r(&mut self, offset: u16) -> u32 {
        self.host.read(offset, 4, self.now)
    }

    pub fn w(&mut self, offset: u16, value: u32) {
        self.host.write(offset, 4, value, self.now);
    }

    pub fn raw(&mut self) -> u32 {
        self.r(self.at.raw)
    }

    /// Clears all interrupt flags, and writes a command.
    pub fn start(&mut self, command: u32, arg: u32) {
        self.w(self.at.raw, u32::MAX);
        self.w(self.at.arg, arg);
        self.w(self.at.cmd, START | command);
    }

    /// Advances the model to its next event.
    pub fn step(&mut self) {
        self.now = self.host.next_event_ns().expect("something is to happen").max(self.now);
        self.host.advance(self.now);
    }

    /// Waits until one of these interrupt flags is set. Returns all interrupt flags that are set
    /// then.
    pub fn until(&mut self, flags: u32) -> u32 {
        for _ in 0..100_000 {
            let raw = self.raw();
            if raw & flags != 0 {
                return raw;
            }
            self.step();
        }
        panic!("raw never showed {flags:#x}: {:#x}", self.raw());
    }

    /// Sends a command with a short response, by polling. Returns the content of the response.
    pub fn command(&mut self, index: u32, arg: u32) -> u32 {
        self.start(SHORT | index, arg);
        assert_eq!(self.until(DONE) & (RE | RCRC | RTO), 0, "CMD{index}");
        self.r(self.at.resp)
    }

    /// Prepares a transfer of this number of blocks whose data the CPU moves.
    pub fn by_cpu(&mut self, blocks: u32) {
        self.w(CONTROL, 1 << 4 | u32::from(self.smhc()) << 31);
        self.w(self.at.block, 512);
        self.w(self.at.count, 512 * blocks);
    }

    /// Prepares a transfer of this number of blocks whose data the internal DMA moves, with its
    /// descriptors at bus address `list`.
    pub fn by_dma(&mut self, blocks: u32, list: u64) {
        let internal = if self.smhc() { 0 } else { 1 << 25 };
        self.w(CONTROL, 1 << 5 | 1 << 4 | internal);
        self.w(self.at.mode, 1);
        self.w(self.at.list, (list >> self.host.config().address_shift) as u32);
        if self.host.config().wide_dma {
            self.w(0x8c, (list >> 32) as u32);
        }
        self.w(self.at.mode, 1 << 7 | 1 << 1);
        self.w(self.at.dma_status, 0x337);
        self.w(self.at.block, 512);
        self.w(self.at.count, 512 * blocks);
    }

    /// Returns mapped memory with zeros for a read.
    pub fn to_read(&self, bytes: usize) -> Mapped {
        Mapped::new(&self.memory, vec![0; bytes], Direction::Read)
    }

    /// Returns mapped memory with these bytes for a write.
    pub fn to_write(&self, bytes: Vec<u8>) -> Mapped {
        Mapped::new(&self.memory, bytes, Direction::Write)
    }

    pub fn violations(&self) -> u64 {
        self.host.protocol_violations()
    }

    /// Returns what the scripted card holds from this block on.
    pub fn stored(&self, block: usize, bytes: usize) -> Vec<u8> {
        self.card.0.borrow().blocks[block * 512..block * 512 + bytes].to_vec()
    }
}

/// Makes a chain of descriptors for these parts of memory (address, length).
pub(super) fn chain(rig: &Rig, pieces: &[(u64, u32)]) -> List {
    let mut list = List::new(rig, pieces.len());
    for (i, &(at, size)) in pieces.iter().enumerate() {
        let last = i + 1 == pieces.len();
        list.put(i, at, size, if last { LAST } else { NO_IRQ } | if i == 0 { FIRST } else { 0 });
    }
    list
}

pub(super) const NO_IRQ: u32 = 1 << 1;
pub(super) const LAST: u32 = 1 << 2;
pub(super) const FIRST: u32 = 1 << 3;
pub(super) const CHAINED: u32 = 1 << 4;
pub(super) const OWN: u32 = 1 << 31;

/// A list of descriptors of four or eight words.
pub(super) struct List {
    pub bus: u64,
    cpu: Vec<u8>,
    memory: ShadowMemory,
    wide: bool,
    shift: u8,
}

impl List {
    pub fn new(rig: &Rig, count: usize) -> List {
        let wide = rig.host.config().wide_dma;
        let mut cpu = vec![0; count * if wide { 32 } else { 16 }];
        let at = NonNull::new(cpu.as_mut_ptr()).unwrap();
        let bus = rig.memory.map(at, cpu.len(), Direction::Write).unwrap();
        List { bus, cpu, memory: rig.memory.clone(), wide, shift: rig.host.config().address_shift }
    }

    /// Writes descriptor `i`: it belongs to the controller, and points to the next one.
    pub fn put(&mut self, i: usize, at: u64, size: u32, control: u32) {
        let next = self.bus + ((i + 1) * if self.wide { 32 } else { 16 }) as u64;
        self.words(i, size, at, next, control | CHAINED | OWN);
    }

    pub fn words(&mut self, i: usize, size: u32, first: u64, second: u64, control: u32) {
        let words = if self.wide {
            let [first, second] = [first, second].map(|at| [at as u32, (at >> 32) as u32]);
            vec![control, 0, size, 0, first[0], first[1], second[0], second[1]]
        } else {
            vec![control, size, (first >> self.shift) as u32, (second >> self.shift) as u32]
        };
        let from = 4 * words.len() * i;
        for (to, word) in self.cpu[from..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let cpu = NonNull::new(self.cpu.as_mut_ptr()).unwrap();
        self.memory.sync(self.bus, cpu, self.cpu.len());
    }

    /// Returns the first word of descriptor `i`, as the controller left it.
    pub fn control(&self, i: usize) -> u32 {
        let mut raw = [0; 4];
        let at = self.bus + (i * if self.wide { 32 } else { 16 }) as u64;
        self.memory.device_read(at, &mut raw).unwrap();
        u32::from_le_bytes(raw)
    }
}
