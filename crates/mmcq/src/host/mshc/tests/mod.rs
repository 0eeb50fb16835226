//! Tests of the MSHC driver on registers whose values the test sets, in both layouts.

extern crate std;

mod bus;
mod ends;
mod setup;
mod stops;
mod streams;
mod tuning;
mod voltage;

use super::*;
use crate::host::{Auto, Cause, Data, Done, Fault, Stage, Timing, Width};
use crate::spec::command::{self, Command, Resp};
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

const SOURCE_HZ: u32 = 50_000_000;
const TABLE_BUS: u64 = 0x8000_0040;

/// Registers that clear themselves like the chip's, and otherwise hold what the test writes.
struct Fake {
    at: Offsets,
    design_ware: bool,
    plain: RefCell<BTreeMap<u16, u32>>,
    raw: Cell<u32>,
    dma: Cell<u32>,
    fifo: RefCell<VecDeque<u32>>,
    /// Words that arrive, with the end of the data, when the FIFO is empty and the driver reads the
    /// raw status.
    late: RefCell<VecDeque<u32>>,
    /// Bits that a reset never clears.
    stuck_reset: Cell<u32>,
    stuck_clock: Cell<bool>,
    gone: Cell<bool>,
    log: RefCell<Vec<(u16, u32)>>,
}

impl Fake {
    fn new<L: MshcLayout>() -> Self {
        let fake = Fake {
            at: L::AT,
            design_ware: L::DESIGN_WARE,
            plain: RefCell::default(),
            raw: Cell::new(0),
            dma: Cell::new(0),
            fifo: RefCell::default(),
            late: RefCell::default(),
            stuck_reset: Cell::new(0),
            stuck_clock: Cell::new(false),
            gone: Cell::new(false),
            log: RefCell::default(),
        };
        if L::DESIGN_WARE {
            // The configuration of the JH7110: internal DMA, a FIFO of 32 words of 32 bits.
            fake.set(DW_HARDWARE, 1 << HARDWARE_FIFO_SHIFT);
            fake.set(DW_VERSION, 0x5342_290a);
            fake.set(L::AT.threshold, 31 << 16);
        }
        fake
    }

    fn set(&self, offset: u16, value: u32) {
        self.plain.borrow_mut().insert(offset, value);
    }

    fn get(&self, offset: u16) -> u32 {
        self.plain.borrow().get(&offset).copied().unwrap_or(0)
    }

    /// Returns the interrupt line: true if an enabled event is pending.
    fn line(&self) -> bool {
        let summed = self.dma.get() & self.get(self.at.dma_enable);
        // DesignWare's DMA interrupts only by its summary bits.
        let normal = self.get(self.at.dma_enable) & DMA_NORMAL != 0;
        let by_dma = if self.design_ware && !normal { summed & !DMA_RECEIVED } else { summed };
        self.raw.get() & self.get(self.at.mask) != 0 || by_dma != 0
    }

    fn take_log(&self) -> Vec<(u16, u32)> {
        core::mem::take(&mut self.log.borrow_mut())
    }
}

impl Regs for &Fake {
    fn read8(&self, _: u16) -> u8 {
        panic!("only 32 bits")
    }
    fn read16(&self, _: u16) -> u16 {
        panic!("only 32 bits")
    }
    fn read32(&self, offset: u16) -> u32 {
        if self.gone.get() {
            return u32::MAX;
        }
        match offset {
            _ if offset == self.at.raw => {
                if self.fifo.borrow().is_empty() && !self.late.borrow().is_empty() {
                    self.fifo.borrow_mut().append(&mut self.late.borrow_mut());
                    self.raw.set(self.raw.get() | INT_DATA);
                }
                self.raw.get()
            }
            _ if offset == self.at.dma_status => self.dma.get(),
            _ if offset == self.at.status => {
                let empty = if self.fifo.borrow().is_empty() { STATUS_EMPTY } else { 0 };
                let full = if self.fifo.borrow().len() >= 16 { STATUS_FULL } else { 0 };
                self.get(offset) | empty | full
            }
            0x200 => self.fifo.borrow_mut().pop_front().expect("the FIFO is empty"),
            _ => self.get(offset),
        }
    }
    fn write8(&self, _: u16, _: u8) {
        panic!("only 32 bits")
    }
    fn write16(&self, _: u16, _: u16) {
        panic!("only 32 bits")
    }
    fn write32(&self, offset: u16, value: u32) {
        self.log.borrow_mut().push((offset, value));
        match offset {
            _ if offset == self.at.raw => self.raw.set(self.raw.get() & !value),
            _ if offset == self.at.dma_status => self.dma.set(self.dma.get() & !value),
            _ if offset == self.at.control => {
                self.set(offset, value & !(CONTROL_RESETS & !self.stuck_reset.get()));
            }
            // SMHC's reset bit of the DMA does not clear itself.
            _ if offset == self.at.dma_mode && self.design_ware => self.set(offset, value & !DMA_RESET),
            _ if offset == self.at.command => {
                let update = value & COMMAND_UPDATE_CLOCK != 0;
                let stays = update && self.stuck_clock.get();
                self.set(offset, if stays { value } else { value & !COMMAND_START });
                if update && !stays {
                    self.raw.set(self.raw.get() | INT_COMMAND);
                }
            }
            0x200 => {
                self.fifo.borrow_mut().push_back(value);
                assert!(self.fifo.borrow().len() <= 16, "the FIFO is full");
            }
            _ => self.set(offset, value),
        }
    }
}

/// A `Dma` that counts mappings.
struct FakeDma {
    open: Cell<i32>,
    next: Cell<u64>,
    line: u32,
}

// SAFETY: no controller accesses the mapped memory.
unsafe impl Dma for &FakeDma {
    fn map(&self, _: NonNull<u8>, len: usize, _: Direction) -> Result<u64, DmaError> {
        self.open.set(self.open.get() + 1);
        let bus = self.next.get();
        self.next.set(bus + len.next_multiple_of(4096) as u64);
        Ok(bus)
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        self.open.set(self.open.get() - 1);
    }
    fn sync(&self, bus: u64, _: NonNull<u8>, len: usize) {
        assert_eq!((bus, len % 16), (TABLE_BUS, 0));
    }
    fn line_bytes(&self) -> u32 {
        self.line
    }
}

/// A clock unit that records the calls to it.
struct FakeBoard {
    taps: u8,
    told: Vec<Option<u8>>,
}

impl MshcBoard for FakeBoard {
    fn taps(&self) -> u8 {
        self.taps
    }
    fn select(&mut self, tap: u8) {
        self.told.push(Some(tap));
    }
    fn unselect(&mut self) {
        self.told.push(None);
    }
}

type Driver<L> = Mshc<L, &'static Fake, &'static FakeDma, FakeBoard, 8>;

fn build_with<L: MshcLayout>(fake: Fake, config: MshcConfig, line: u32) -> Result<Driver<L>, MshcInitError> {
    build_on(fake, config, line, 0)
}

fn build_on<L: MshcLayout>(
    fake: Fake,
    config: MshcConfig,
    line: u32,
    taps: u8,
) -> Result<Driver<L>, MshcInitError> {
    let board = FakeBoard { taps, told: Vec::new() };
    let dma = FakeDma { open: Cell::new(0), next: Cell::new(TABLE_BUS), line };
    let table = Box::leak(Box::new(Descriptors::new()));
    Mshc::new(Box::leak(Box::new(fake)), Box::leak(Box::new(dma)), board, table, config)
}

fn build<L: MshcLayout>(fake: Fake, config: MshcConfig) -> Result<Driver<L>, MshcInitError> {
    build_with(fake, config, 1)
}

/// Runs an operation to its end; its waits advance a virtual clock.
fn settle<L: MshcLayout>(host: &mut Driver<L>, op: BusOp) -> Step {
    let mut now_ns = 7;
    let mut step = host.set_bus(op, true, now_ns);
    for _ in 0..10_000 {
        let Step::Wait(at_ns) = step else { return step };
        assert!(at_ns > now_ns);
        now_ns = at_ns;
        step = host.set_bus(op, false, now_ns);
    }
    panic!("{op:?} has no end");
}

/// Returns a driver after power-on, clock and width.
fn ready_with<L: MshcLayout>(config: MshcConfig, line: u32) -> Driver<L> {
    let mut host = build_with(Fake::new::<L>(), config, line).unwrap();
    for op in [BusOp::PowerOn, BusOp::Clock(400_000), BusOp::Width(Width::W4)] {
        assert_eq!(settle(&mut host, op), Step::Done, "{op:?}");
    }
    host.regs.take_log();
    host
}

fn ready<L: MshcLayout>() -> Driver<L> {
    ready_with(MshcConfig::new(SOURCE_HZ), 1)
}

fn transfer(direction: Direction, blocks: u32) -> Phase {
    let index = if direction == Direction::Read { 18 } else { 25 };
    let data = Some(Data { direction, block_size: 512, blocks });
    Phase { command: Command::new(index, 0x77, Resp::R1), data, auto: Auto::Stop, tuning: false }
}

/// Maps this memory for DMA.
fn mapped<L: MshcLayout>(host: &mut Driver<L>, memory: &mut [u8], direction: Direction) -> Segment {
    let mut segment = Segment { ptr: NonNull::from(&mut *memory).cast(), len: memory.len() as u32, bus: 0 };
    host.map(&mut segment, direction).unwrap();
    segment
}

/// Sets these raw status bits.
fn raise<L: MshcLayout>(host: &Driver<L>, bits: u32) {
    host.regs.raw.set(host.regs.raw.get() | bits);
}

/// Makes each test for both layouts.
macro_rules! in_both_layouts {
    ($($name:ident),* $(,)?) => {
        mod smhc {
            $(#[test] fn $name() { super::$name::<crate::host::mshc::layout::SmhcLayout>(); })*
        }
        mod design_ware {
            $(#[test] fn $name() { super::$name::<crate::host::mshc::layout::DesignWareLayout>(); })*
        }
    };
}
use in_both_layouts;
