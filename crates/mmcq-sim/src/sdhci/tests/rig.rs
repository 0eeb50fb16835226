//! Test bench: an SDHCI controller with a scripted card. The tests access registers as a driver
//! does.

use crate::card::{Answer, BusState, Card, Flow, ReadBlock, Reply, WriteBlock};
use crate::faults::{Faults, Plan, Point, Strike};
use crate::memory::{MemoryConfig, ShadowMemory};
use crate::sdhci::{Sdhci, SdhciConfig, int};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::{Direction, Dma};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::LazyLock;

/// What the scripted card does, and what it has received.
#[derive(Debug)]
pub struct Script {
    pub blocks: Vec<u8>,
    pub access_ns: u64,
    pub write_busy_ns: u64,
    pub r1b_busy_ns: u64,
    /// Commands to which the card does not respond.
    pub deaf_to: Vec<u8>,
    /// Number of the read block, from 0, that gets a wrong CRC; `None`: no block.
    pub bad_read: Option<u32>,
    /// Number of read blocks after which the card sends no more.
    pub stops_after: Option<u32>,
    /// CRC status that the card sends after each written block.
    pub crc_status: Option<bool>,
    pub commands: Vec<(u8, u32, u64)>,
    pub bus: BusState,
    pub bus_changes: u32,
    pub voltage_switch: bool,
    pub status: u32,
    now: u64,
    block: usize,
    moved: u32,
    count: Option<u32>,
    busy_until: u64,
}

/// A scripted card with 512-byte blocks and block addresses. Clones share their script.
#[derive(Clone)]
pub struct TestCard(pub Rc<RefCell<Script>>);

pub const CID: [u8; 15] = [0x03, 0x53, 0x44, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

impl TestCard {
    pub fn new() -> Self {
        static BLOCKS: LazyLock<Vec<u8>> =
            LazyLock::new(|| (0..1024 * 512).map(|i: u32| (i ^ i >> 8 ^ i >> 9) as u8).collect());
        let blocks = BLOCKS.clone();
        TestCard(Rc::new(RefCell::new(Script {
            blocks,
            access_ns: 0,
            write_busy_ns: 0,
            r1b_busy_ns: 0,
            deaf_to: Vec::new(),
            bad_read: None,
            stops_after: None,
            crc_status: Some(true),
            commands: Vec::new(),
            bus: BusState::default(),
            bus_changes: 0,
            voltage_switch: false,
            status: 0x900,
            now: 0,
            block: 0,
            moved: 0,
            count: None,
            busy_until: 0,
        })))
    }
}

impl Script {
    fn tick(&mut self, now: u64) {
        assert!(now >= self.now, "the card's time went back from {} to {now}", self.now);
        self.now = now;
    }
}

/// Returns the CRC7 and end bit byte, by polynomial division of the whole message.
fn crc_byte(bytes: &[u8]) -> u8 {
    let mut rest = 0u32;
    for bit in bytes.iter().flat_map(|b| (0..8).rev().map(move |i| b >> i & 1)).chain([0; 7]) {
        rest = rest << 1 | u32::from(bit);
        if rest & 0x80 != 0 {
            rest ^= 0x89;
        }
    }
    (rest << 1) as u8 | 1
}

impl Card for TestCard {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        let mut s = self.0.borrow_mut();
        s.tick(now_ns);
        s.bus = *bus;
        s.bus_changes += 1;
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        let mut s = self.0.borrow_mut();
        s.tick(now_ns);
        let counted = s.commands.last().is_some_and(|c| c.0 == 23);
        s.commands.push((index, arg, now_ns));
        let silent = Reply { answer: None, flow: Flow::None, busy_until_ns: None };
        if s.deaf_to.contains(&index) || index == 0 {
            return silent;
        }
        let mut flow = Flow::None;
        let mut busy = None;
        match index {
            2 => {
                let mut long = [0; 16];
                long[..15].copy_from_slice(&CID);
                long[15] = crc_byte(&CID);
                return Reply { answer: Some(Answer::Long(long)), ..silent };
            }
            7 => busy = Some(now_ns + 280 + s.r1b_busy_ns),
            12 => {
                busy = Some(now_ns + s.r1b_busy_ns).filter(|_| s.r1b_busy_ns > 0);
                s.count = None;
            }
            18 | 25 if !counted => s.count = None,
            17 | 24 => s.count = Some(1),
            19 | 21 => {
                s.count = None;
                flow = Flow::Read { block_size: if index == 19 { 64 } else { 128 } };
            }
            23 => s.count = Some(arg & 0xffff),
            _ => {}
        }
        match index {
            17 | 18 => flow = Flow::Read { block_size: 512 },
            24 | 25 => flow = Flow::Write { block_size: 512 },
            _ => {}
        }
        if flow != Flow::None {
            s.block = arg as usize;
            s.moved = 0;
        }
        s.busy_until = s.busy_until.max(busy.unwrap_or(0));
        let content = s.status;
        Reply { answer: Some(Answer::Short { index, content, crc: true }), flow, busy_until_ns: busy }
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        let mut s = self.0.borrow_mut();
        s.tick(now_ns);
        if s.stops_after.is_some_and(|n| s.moved >= n) || s.count.is_some_and(|n| s.moved >= n) {
            return ReadBlock::Never;
        }
        let at = (s.block + s.moved as usize) % 1024 * 512;
        buffer.copy_from_slice(&s.blocks[at..at + buffer.len()]);
        let wait = if s.moved == 0 { s.access_ns } else { 0 };
        let crc_ok = s.bad_read != Some(s.moved);
        s.moved += 1;
        ReadBlock::At { start_ns: now_ns + wait, crc_ok }
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        let mut s = self.0.borrow_mut();
        s.tick(now_ns);
        let status = s.crc_status.map(|good| good && crc_ok);
        if status == Some(true) {
            let at = (s.block + s.moved as usize) % 1024 * 512;
            s.blocks[at..at + 512].copy_from_slice(data);
            s.moved += 1;
        }
        s.busy_until = now_ns + s.write_busy_ns;
        WriteBlock { status, busy_until_ns: s.busy_until }
    }

    fn busy(&self, now_ns: u64) -> bool {
        now_ns < self.0.borrow().busy_until
    }

    fn switching_voltage(&self, _now_ns: u64) -> bool {
        self.0.borrow().voltage_switch
    }
}

/// A buffer at a fixed bus address, which is mapped for DMA while it lives.
pub struct Mapped {
    pub cpu: Vec<u8>,
    pub bus: u64,
    direction: Direction,
    memory: ShadowMemory,
}

impl Mapped {
    pub fn new(memory: &ShadowMemory, cpu: Vec<u8>, direction: Direction) -> Self {
        let mut cpu = cpu;
        let ptr = NonNull::new(cpu.as_mut_ptr()).unwrap();
        let bus = memory.map(ptr, cpu.len(), direction).unwrap();
        Mapped { cpu, bus, direction, memory: memory.clone() }
    }

    /// Ends the mapping. Returns the bytes that the CPU sees afterwards.
    pub fn take(mut self) -> Vec<u8> {
        let ptr = NonNull::new(self.cpu.as_mut_ptr()).unwrap();
        self.memory.unmap(self.bus, ptr, self.cpu.len(), self.direction);
        self.cpu
    }
}

/// Value of the Command register for a command with an R1, without the index.
pub const R1: u16 = 0x1a;
/// Value of the Command register for a command with an R1b, without the index.
pub const R1B: u16 = 0x1b;
/// Value of the Command register for a command with an R2, without the index.
pub const R2: u16 = 0x09;
/// Bit Data Present of the Command register.
pub const DATA: u16 = 0x20;
/// Command type "abort" in the Command register.
pub const ABORT: u16 = 0xc0;

/// Value of the Transfer Mode register for a read of several blocks by DMA.
pub const READ_MANY: u16 = 0x33;
/// Value of the Transfer Mode register for a write of several blocks by DMA.
pub const WRITE_MANY: u16 = 0x23;

pub struct Rig {
    pub host: Sdhci,
    pub card: TestCard,
    pub memory: ShadowMemory,
    pub now: u64,
    /// Auto CMD Error Status of the last automatic command that failed, as it was when
    /// [`wait_for`](Rig::wait_for) acknowledged the error.
    pub auto_status: u16,
}

impl Rig {
    /// Makes a test bench without power.
    pub fn cold(config: SdhciConfig) -> Self {
        Self::with_memory(config, MemoryConfig::BITS32)
    }

    pub fn with_memory(config: SdhciConfig, memory: MemoryConfig) -> Self {
        let memory = ShadowMemory::new(memory);
        let card = TestCard::new();
        let host = Sdhci::new(config, memory.clone(), Some(Box::new(card.clone())));
        Rig { host, card, memory, now: 0, auto_status: 0 }
    }

    /// Makes a test bench with power, with all status and signal bits enabled: 8 lines DDR at 200
    /// MHz (4.20), or 4 lines at 50 MHz (3.00).
    pub fn warm(config: SdhciConfig) -> Self {
        let mut rig = Self::cold(config);
        rig.bring_up();
        rig
    }

    pub fn bring_up(&mut self) {
        self.w8(0x29, 0x0f);
        self.w16(0x2c, if self.host.config().spec >= 4 { 0x0009 } else { 0x0101 });
        self.run(100_000);
        let clock = self.r16(0x2c);
        assert_eq!(clock & 2, 2, "internal clock stable");
        self.w16(0x2c, clock | 4);
        if self.host.config().spec >= 4 {
            self.w8(0x28, 0x20);
            self.w16(0x3e, 5 | 8);
            self.run(4_000_000);
        } else {
            self.w8(0x28, 0x02);
        }
        self.w8(0x2e, 0x0e);
        self.w32(0x34, 0xffff_ffff);
        self.w32(0x38, 0xffff_ffff);
        assert_eq!(self.host.protocol_violations(), 0);
    }

    /// Sets the faults that strike the next events at a point.
    pub fn next(&mut self, point: Point, strikes: &[Strike]) {
        self.host.set_faults(Faults::new(Plan::none().next(point, strikes)));
    }

    /// Sets Host Version 4 Enable, and 64-bit addressing if `wide`.
    pub fn version4(&mut self, wide: bool) {
        let old = self.r16(0x3e);
        self.w16(0x3e, old | 1 << 12 | u16::from(wide) << 13);
    }

    /// Sets the field DMA Select of Host Control 1.
    pub fn select(&mut self, dma: u8) {
        let old = self.r8(0x28);
        self.w8(0x28, old & !0x18 | dma << 3);
    }

    pub fn r8(&mut self, offset: u16) -> u8 {
        self.host.read(offset, 1, self.now) as u8
    }
    pub fn r16(&mut self, offset: u16) -> u16 {
        self.host.read(offset, 2, self.now) as u16
    }
    pub fn r32(&mut self, offset: u16) -> u32 {
        self.host.read(offset, 4, self.now)
    }
    pub fn w8(&mut self, offset: u16, value: u8) {
        self.host.write(offset, 1, value.into(), self.now);
    }
    pub fn w16(&mut self, offset: u16, value: u16) {
        self.host.write(offset, 2, value.into(), self.now);
    }
    pub fn w32(&mut self, offset: u16, value: u32) {
        self.host.write(offset, 4, value, self.now);
    }

    /// Advances the model by this time, whether interrupts come or not.
    pub fn run(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.host.advance(until) < until {}
        self.now = until;
    }

    /// Waits for the interrupt line, at most 1000 s. Returns the interrupt status.
    pub fn interrupt(&mut self) -> u32 {
        if !self.host.irq() {
            self.now = self.host.advance(self.now + 1_000_000_000_000);
        }
        if self.host.irq() { self.r32(0x30) } else { 0 }
    }

    /// Waits until all these bits or an error bit are set, and acknowledges what is set. Returns
    /// all bits that were set.
    pub fn wait_for(&mut self, bits: u32) -> u32 {
        let mut seen = 0;
        for _ in 0..10_000 {
            let status = self.interrupt();
            seen |= status;
            if status & int::AUTO_COMMAND != 0 {
                self.auto_status = self.r16(0x3c);
            }
            self.w32(0x30, status);
            if status == 0 || seen & bits == bits || seen & 0x8000 != 0 {
                break;
            }
        }
        seen
    }

    pub fn set_up(&mut self, block_size: u16, blocks: u16) {
        self.w16(0x04, block_size);
        self.w16(0x06, blocks);
    }

    pub fn command(&mut self, index: u8, arg: u32, flags: u16, mode: u16) {
        self.w32(0x08, arg);
        self.w16(0x0c, mode);
        self.w16(0x0e, u16::from(index) << 8 | flags);
    }

    pub fn mapped(&self, cpu: Vec<u8>, direction: Direction) -> Mapped {
        Mapped::new(&self.memory, cpu, direction)
    }

    /// Makes an ADMA2 table from entries of address, length and attributes; `form` is the length of
    /// a descriptor in bytes.
    pub fn table(&self, form: usize, entries: &[(u64, u32, u32)]) -> Mapped {
        let mut bytes = Vec::new();
        for &(address, length, attributes) in entries {
            let head = attributes | length << 16 | (length >> 16 & 0x3ff) << 6;
            bytes.extend_from_slice(&head.to_le_bytes());
            bytes.extend_from_slice(&address.to_le_bytes()[..if form == 8 { 4 } else { 8 }]);
            bytes.resize(bytes.len().next_multiple_of(form), 0);
        }
        self.mapped(bytes, Direction::Write)
    }

    pub fn point_at(&mut self, table: &Mapped) {
        self.w32(0x58, table.bus as u32);
        self.w32(0x5c, (table.bus >> 32) as u32);
    }

    pub fn card_bytes(&self, block: usize, bytes: usize) -> Vec<u8> {
        self.card.0.borrow().blocks[block * 512..block * 512 + bytes].to_vec()
    }

    /// Checks that neither the driver nor the controller has broken a rule.
    pub fn assert_clean(&self) {
        assert_eq!(self.memory.violations(), Vec::<String>::new());
        assert_eq!(self.host.protocol_violations(), 0);
    }
}

/// Returns test data that differ from the card's content.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251 + 3) as u8).collect()
}
