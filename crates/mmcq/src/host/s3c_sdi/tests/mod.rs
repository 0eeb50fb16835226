//! Tests of the SDI driver on registers whose values the test sets.

extern crate std;

mod bus;
mod card;
mod data;
mod dma;
mod hostile;
mod phases;

use super::*;
use crate::host::{Auto, Cause, Data, Done, Fault, Stage};
use crate::spec::command::{Command, Resp, sdio};
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::vec;
use std::vec::Vec;

const PCLK_HZ: u32 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read(u16),
    Write(u16, u32),
}
use Access::{Read, Write};

/// Registers that latch and clear like the chip's, and otherwise hold what the test writes.
struct Fake {
    plain: RefCell<BTreeMap<u16, u32>>,
    command: Cell<u32>,
    data: Cell<u32>,
    fail: Cell<u32>,
    fifo: RefCell<VecDeque<u8>>,
    /// Number of bytes that are lost because their FIFO word was read before they arrived.
    torn: Cell<usize>,
    imsk: Cell<u32>,
    dat1: Cell<bool>,
    /// Number of reads of CON until a reset has ended; `None` if the driver must clear the bit.
    reset_looks: Cell<Option<u32>>,
    gone: Cell<bool>,
    /// Whether the board's DMA continues although the driver has stopped it.
    dma_sticks: Cell<bool>,
    /// If set, every read returns the next of these values.
    random: RefCell<Option<Vec<u32>>>,
    reads: Cell<u32>,
    log: RefCell<Vec<Access>>,
}

impl Fake {
    fn new() -> Self {
        Fake {
            plain: RefCell::default(),
            command: Cell::new(0),
            data: Cell::new(0),
            fail: Cell::new(0),
            fifo: RefCell::default(),
            torn: Cell::new(0),
            imsk: Cell::new(0),
            dat1: Cell::new(true),
            reset_looks: Cell::new(Some(0)),
            gone: Cell::new(false),
            dma_sticks: Cell::new(false),
            random: RefCell::new(None),
            reads: Cell::new(0),
            log: RefCell::default(),
        }
    }

    fn set(&self, offset: u16, value: u32) {
        self.plain.borrow_mut().insert(offset, value);
    }

    fn get(&self, offset: u16) -> u32 {
        self.plain.borrow().get(&offset).copied().unwrap_or(0)
    }

    /// Returns the interrupt line: true if an enabled event is pending.
    fn line(&self) -> bool {
        let (command, data, count) = (self.command.get(), self.data.get(), self.fifo.borrow().len());
        let pairs = [
            (17, command >> 12 & 1),
            (16, command >> 11 & 1),
            (15, command >> 10 & 1),
            (14, command >> 9 & 1),
            (12, data >> 9 & 1),
            (11, u32::from(self.fail.get() != 0)),
            (10, data >> 6 & 1),
            (9, data >> 7 & 1),
            (8, data >> 5 & 1),
            (7, data >> 4 & 1),
            (4, u32::from(count <= 32)),
            (0, u32::from(count >= 32)),
        ];
        let pending = pairs.iter().fold(0, |bits, (at, on)| bits | on << at);
        pending & self.imsk.get() != 0
    }

    /// Returns the register accesses since the last call.
    fn take_log(&self) -> Vec<Access> {
        core::mem::take(&mut self.log.borrow_mut())
    }

    /// Returns the register accesses since the last call, without those to the FIFO.
    fn take_others(&self) -> Vec<Access> {
        let mut log = self.take_log();
        log.retain(|access| !matches!(access, Read(DATA) | Write(DATA, _)));
        log
    }

    fn receive(&self, bytes: &[u8]) {
        let lost = self.torn.get().min(bytes.len());
        self.torn.set(self.torn.get() - lost);
        self.fifo.borrow_mut().extend(&bytes[lost..]);
        assert!(self.fifo.borrow().len() <= 64);
    }

    /// Takes `count` bytes from the FIFO, as the card does, and returns them.
    fn send(&self, count: usize) -> Vec<u8> {
        let mut fifo = self.fifo.borrow_mut();
        let count = count.min(fifo.len());
        fifo.drain(..count).collect()
    }
}

impl Regs for Fake {
    fn read8(&self, _: u16) -> u8 {
        panic!("only 32 bits")
    }
    fn read16(&self, _: u16) -> u16 {
        panic!("only 32 bits")
    }
    fn read32(&self, offset: u16) -> u32 {
        self.log.borrow_mut().push(Read(offset));
        self.reads.set(self.reads.get() + 1);
        if self.gone.get() && !(offset == DMA_START && self.dma_sticks.get()) {
            return u32::MAX;
        }
        if let Some(random) = &mut *self.random.borrow_mut() {
            return random.pop().unwrap_or(0);
        }
        match offset {
            CON => match self.reset_looks.get() {
                Some(0) => self.get(CON) & !CON_RESET,
                Some(left) => {
                    self.reset_looks.set(Some(left - 1));
                    self.get(CON)
                }
                None => self.get(CON),
            },
            CMDSTAT => self.command.get(),
            DSTA => self.data.get(),
            FSTA => self.fail.get() | self.fifo.borrow().len() as u32,
            DAT1 => u32::from(self.dat1.get()),
            DATA => {
                let mut word = [0x5a; 4];
                for byte in &mut word {
                    match self.fifo.borrow_mut().pop_front() {
                        Some(value) => *byte = value,
                        None => self.torn.set(self.torn.get() + 1),
                    }
                }
                u32::from_le_bytes(word)
            }
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
        self.log.borrow_mut().push(Write(offset, value));
        match offset {
            CMDSTAT => self.command.set(self.command.get() & !value),
            DSTA => self.data.set(self.data.get() & !value),
            FSTA => {
                self.fail.set(self.fail.get() & !value);
                if value & FSTA_RESET != 0 {
                    self.fifo.borrow_mut().clear();
                }
            }
            DATA => {
                self.fifo.borrow_mut().extend(value.to_le_bytes());
                if self.random.borrow().is_none() {
                    assert!(self.fifo.borrow().len() <= 64, "the FIFO is full");
                }
            }
            IMSK => self.imsk.set(value),
            DMA_START if value == 0 && self.dma_sticks.get() => {}
            CMDCON => {
                self.torn.set(0);
                self.set(offset, value);
            }
            _ => self.set(offset, value),
        }
    }
}

/// A `Dma` that counts mappings; all have the same bus address.
struct FakeDma {
    bus: Cell<u64>,
    open: Cell<i32>,
}

// SAFETY: no controller accesses the mapped memory.
unsafe impl Dma for &'static FakeDma {
    fn map(&self, _: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        self.open.set(self.open.get() + 1);
        Ok(self.bus.get())
    }
    fn unmap(&self, bus: u64, _: NonNull<u8>, _: usize, _: Direction) {
        assert_eq!(bus, self.bus.get());
        self.open.set(self.open.get() - 1);
    }
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {
        panic!("there are no descriptors");
    }
}

type Driver = S3cSdi<Fake, &'static FakeDma>;

fn build(regs: Fake, config: S3cSdiConfig) -> Result<Driver, S3cSdiInitError> {
    let dma: &'static FakeDma =
        Box::leak(Box::new(FakeDma { bus: Cell::new(0x3000_0000), open: Cell::new(0) }));
    S3cSdi::new(regs, dma, config)
}

/// Returns a driver after power-on, clock and width.
fn ready_with(config: S3cSdiConfig) -> Driver {
    let mut host = build(Fake::new(), config).unwrap();
    for op in [BusOp::PowerOn, BusOp::Clock(10_000_000), BusOp::Width(Width::W4)] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
    host.regs.take_log();
    host
}

fn ready() -> Driver {
    ready_with(S3cSdiConfig::new(PCLK_HZ))
}

fn plain(command: Command) -> Phase {
    Phase { command, data: None, auto: Auto::None, tuning: false }
}

fn cmd52() -> Phase {
    plain(sdio::io_read(1, 0x13))
}

/// Returns a CMD53 with data of this direction, block size and number of blocks.
fn cmd53(direction: Direction, block_size: u16, blocks: u32) -> Phase {
    let write = direction == Direction::Write;
    let count =
        if blocks == 1 { sdio::Amount::Bytes(block_size) } else { sdio::Amount::Blocks(blocks as u16) };
    let what = sdio::Extended { write, function: 1, addr: 0, increment: false, count };
    Phase { data: Some(Data { direction, block_size, blocks }), ..plain(sdio::io_rw_extended(what)) }
}

fn near(memory: &mut [u8]) -> Segment {
    Segment { ptr: NonNull::from(&mut *memory).cast(), len: memory.len() as u32, bus: 0 }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256 + 1) as u8).collect()
}

/// Sets these status bits, calls `ack`, and returns its events.
fn report(host: &mut Driver, command: u32, data: u32, segments: &[Segment]) -> Events {
    host.regs.command.set(host.regs.command.get() | command);
    host.regs.data.set(host.regs.data.get() | data);
    host.ack(segments)
}

/// Runs a phase without data to its successful end.
fn run(host: &mut Driver, phase: &Phase) -> Done {
    host.start(phase, &[], 0).unwrap();
    let end = if phase.command.resp == Resp::None { CMDSTAT_SENT } else { CMDSTAT_RESPONSE };
    assert!(!host.regs.line());
    host.regs.command.set(end);
    assert!(host.regs.line(), "the end interrupts");
    let done = host.ack(&[]).phase.unwrap().unwrap();
    assert!(!host.regs.line(), "nothing keeps the line asserted");
    done
}

/// Receives all of `bytes`, up to `burst` of them before each interrupt. Like the controller, it
/// stops the clock while the FIFO is full, and interrupts when it is half full. Returns the end of
/// the phase, and the number of interrupts.
fn receive_all(host: &mut Driver, bytes: &[u8], burst: usize, segments: &[Segment]) -> (Done, u32) {
    let mut interrupts = 0;
    let mut sent = 0;
    loop {
        while sent < bytes.len() && !(host.regs.line() && host.regs.fifo.borrow().len() >= burst) {
            host.regs.receive(&bytes[sent..sent + 1]);
            sent += 1;
        }
        if sent == bytes.len() {
            break;
        }
        interrupts += 1;
        assert!(host.ack(segments).phase.is_none());
        assert!(!host.regs.line());
    }
    let mut events = report(host, CMDSTAT_RESPONSE, DSTA_FINISH, segments);
    for _ in 0..2 {
        interrupts += 1;
        if let Some(result) = events.phase {
            assert!(!host.regs.line());
            return (result.unwrap(), interrupts);
        }
        assert!(host.regs.line());
        events = host.ack(segments);
    }
    panic!("the transfer does not end");
}

/// Lets the card take all data: each time the FIFO is emptied to `keep` bytes, and then the
/// interrupt is handled if there is one. Returns the data, the end of the phase, and the number of
/// interrupts.
fn send_all(host: &mut Driver, len: usize, keep: usize, segments: &[Segment]) -> (Vec<u8>, Done, u32) {
    let mut got = Vec::new();
    let mut interrupts = 0;
    while got.len() < len {
        let fill = host.regs.fifo.borrow().len();
        got.extend(host.regs.send((fill.saturating_sub(keep)).max(1)));
        if host.regs.line() {
            interrupts += 1;
            assert!(host.ack(segments).phase.is_none());
            assert!(!host.regs.line());
        }
    }
    got.truncate(len);
    let done = report(host, CMDSTAT_RESPONSE, DSTA_FINISH, segments).phase.unwrap().unwrap();
    assert!(!host.regs.line());
    (got, done, interrupts + 1)
}
