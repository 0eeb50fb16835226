//! Tests of the Realtek driver on registers whose values the test sets; lists are compared word by
//! word.

extern crate std;

mod bus;
mod events;
mod hostile;
mod lists;
mod setup;

use super::*;
use crate::host::{Auto, Cause, Data, Done, Fault, Stage};
use crate::spec::command::{Command, Resp};
use crate::spec::response::Response;
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

const LIST_BUS: u64 = 0x1000_0000;
const TABLE_BUS: u64 = 0x1000_0400;
/// Interrupts of a list that ended without an error.
const LIST_OK: u32 = 0xa000_0000;
/// Interrupts of a table that ended without an error.
const TABLE_OK: u32 = 0x6000_0000;
/// Interrupts of a list that failed.
const LIST_FAIL: u32 = 0x9000_0000;

/// The seven registers that the CPU can access, and the internal registers behind HAIMR.
#[derive(Default)]
struct Fake {
    pending: Cell<u32>,
    immediate: Cell<u32>,
    inner: RefCell<BTreeMap<u16, u8>>,
    /// The registers of the link, behind four internal registers.
    link: RefCell<BTreeMap<u8, u16>>,
    /// Whether an access to a register of the link never ends.
    link_hangs: Cell<bool>,
    writes: RefCell<Vec<(u16, u32)>>,
    reads: Cell<u32>,
    /// Number of polls of HAIMR until an access ends.
    slow: Cell<u32>,
    /// Number of polls of HAIMR that are left until the access in progress ends.
    left: Cell<u32>,
    /// Whether internal registers lose what is written to them.
    broken: Cell<bool>,
    gone: Cell<bool>,
    /// Number of reads that return all ones although the chip is present.
    lost: Cell<u32>,
    /// Interrupts that are pending again as soon as they are cleared.
    stays: Cell<u32>,
}

impl Fake {
    fn set(&self, register: u16, value: u8) {
        self.inner.borrow_mut().insert(register, value);
    }

    fn get(&self, register: u16) -> u8 {
        self.inner.borrow().get(&register).copied().unwrap_or(0)
    }

    fn access_link(&self, control: u8) {
        let address = self.get(0xfe3f);
        if control & 1 != 0 {
            let value = u16::from_le_bytes([self.get(0xfe3d), self.get(0xfe3e)]);
            self.link.borrow_mut().insert(address, value);
        } else {
            let [low, high] = self.link.borrow().get(&address).copied().unwrap_or(0).to_le_bytes();
            self.set(0xfe3d, low);
            self.set(0xfe3e, high);
        }
        self.set(0xfe3c, control & 0x7f);
    }

    /// Returns the writes since the last call, in their order.
    fn take(&self) -> Vec<(u16, u32)> {
        self.reads.set(0);
        core::mem::take(&mut self.writes.borrow_mut())
    }

    /// Sets the response bytes that the chip shows.
    fn answer(&self, bytes: &[u8]) {
        for (at, &byte) in (0xfda9..).zip(bytes) {
            self.set(at, byte);
        }
    }

    fn fail(&self, transfer: u8, stat1: u8, stat2: u8) {
        self.set(0xfdb3, transfer);
        self.set(0xfda3, stat1);
        self.set(0xfda4, stat2);
    }
}

impl Regs for Fake {
    fn read8(&self, offset: u16) -> u8 {
        panic!("8-bit read of {offset:#x}")
    }
    fn read16(&self, offset: u16) -> u16 {
        panic!("16-bit read of {offset:#x}")
    }
    fn read32(&self, offset: u16) -> u32 {
        self.reads.set(self.reads.get() + 1);
        match offset {
            _ if self.gone.get() => u32::MAX,
            _ if self.lost.get() > 0 => {
                self.lost.set(self.lost.get() - 1);
                u32::MAX
            }
            0x10 if self.left.get() > 0 => {
                self.left.set(self.left.get() - 1);
                1 << 31
            }
            0x10 => self.immediate.get(),
            0x14 => self.pending.get(),
            _ => panic!("read of {offset:#x}"),
        }
    }
    fn write8(&self, offset: u16, _: u8) {
        panic!("8-bit write of {offset:#x}")
    }
    fn write16(&self, offset: u16, _: u16) {
        panic!("16-bit write of {offset:#x}")
    }
    fn write32(&self, offset: u16, value: u32) {
        self.writes.borrow_mut().push((offset, value));
        match offset {
            0x10 => {
                assert_ne!(value & 1 << 31, 0);
                assert_eq!(self.left.get(), 0, "write while busy");
                let register = (value >> 16 & 0x3fff) as u16 | 0xc000;
                let (mask, data) = ((value >> 8) as u8, value as u8);
                let mut byte = self.get(register);
                if value & 1 << 30 != 0 && !self.broken.get() {
                    byte = byte & !mask | data & mask;
                    self.set(register, byte);
                    if register == 0xfe3c && byte & 0x80 != 0 && !self.link_hangs.get() {
                        self.access_link(byte);
                    }
                }
                self.immediate.set(byte.into());
                self.left.set(self.slow.get());
            }
            0x14 => self.pending.set(self.pending.get() & !(value & 0xffc0_0000) | self.stays.get()),
            0x00..=0x0c | 0x18 => {}
            _ => panic!("write of {offset:#x}"),
        }
    }
}

/// A `Dma` that gives bus addresses in the order of the mappings, and records what `sync` made
/// visible to the chip.
#[derive(Default)]
struct FakeDma {
    next: Cell<u64>,
    synced: RefCell<Vec<(u64, Vec<u8>)>>,
    list: Cell<usize>,
    open: Cell<i32>,
    /// Length of a cache line in bytes; 0 for coherent memory.
    line: Cell<u32>,
}

// SAFETY: no controller accesses the mapped memory.
unsafe impl Dma for &'static FakeDma {
    fn map(&self, ptr: NonNull<u8>, len: usize, _: Direction) -> Result<u64, DmaError> {
        let bus = self.next.get();
        self.next.set(bus + len as u64);
        if bus == LIST_BUS {
            self.list.set(ptr.as_ptr() as usize);
        }
        self.open.set(self.open.get() + 1);
        Ok(bus)
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        self.open.set(self.open.get() - 1);
    }
    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize) {
        // SAFETY: the driver passes memory of its own.
        let bytes = unsafe { core::slice::from_raw_parts(ptr.as_ptr(), len) }.to_vec();
        self.synced.borrow_mut().push((bus, bytes));
    }
    fn line_bytes(&self) -> u32 {
        self.line.get().max(1)
    }
}

impl FakeDma {
    /// Returns the words of the only list that was made visible to the chip since the last call.
    fn list(&self) -> Vec<u32> {
        let lists: Vec<_> = self.synced.take().into_iter().filter(|(bus, _)| *bus == LIST_BUS).collect();
        assert_eq!(lists.len(), 1);
        lists[0].1.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    /// Writes the bytes that the chip returns over the beginning of the list.
    fn give_back(&self, bytes: &[u8]) {
        let list = self.list.get() as *mut u8;
        for (at, &byte) in bytes.iter().enumerate() {
            // SAFETY: the list's memory has 1024 bytes and lives as long as the program.
            unsafe { list.add(at).write_volatile(byte) };
        }
    }
}

type Driver = Rtsx<Fake, &'static FakeDma>;

fn build_at(bus: u64, config: RtsxConfig) -> Result<Driver, RtsxInitError> {
    let dma: &'static FakeDma = Box::leak(Box::default());
    dma.next.set(bus);
    Rtsx::new(Fake::default(), dma, Box::leak(Box::new(Buffers::new())), config)
}

fn build(config: RtsxConfig) -> Driver {
    build_at(LIST_BUS, config).unwrap()
}

/// Runs an operation to its end. Returns the result, and the time in nanoseconds that the operation
/// took.
fn finish(host: &mut Driver, op: BusOp) -> (Step, u64) {
    let mut now = 0;
    let mut first = true;
    for _ in 0..3_000 {
        match host.set_bus(op, first, now) {
            Step::Wait(until) => now = now.max(until),
            step => return (step, now),
        }
        first = false;
    }
    panic!("{op:?} does not end");
}

/// Returns a driver with a powered card at 25 MHz, after the first list that follows a change of
/// the clock.
fn ready(config: RtsxConfig) -> Driver {
    let mut host = build(config);
    for op in [BusOp::PowerOff, BusOp::PowerOn, BusOp::Clock(25_000_000)] {
        assert_eq!(finish(&mut host, op).0, Step::Done, "{op:?}");
    }
    host.start(&command(0, Resp::None), &[], 1).unwrap();
    assert!(report(&mut host, LIST_OK).phase.unwrap().is_ok());
    host.dma.synced.take();
    host.port.regs.take();
    host
}

fn command(index: u8, resp: Resp) -> Phase {
    Phase { command: Command::new(index, 0x1234_5678, resp), data: None, auto: Auto::None, tuning: false }
}

fn data(index: u8, direction: Direction, block_size: u16, blocks: u32) -> Phase {
    Phase { data: Some(Data { direction, block_size, blocks }), ..command(index, Resp::R1) }
}

fn more(direction: Direction, blocks: u32) -> Phase {
    let index = if direction == Direction::Read { 18 } else { 25 };
    Phase { auto: Auto::Continue, ..data(index, direction, 512, blocks) }
}

/// Returns a segment of memory that nothing accesses.
fn far(bus: u64, len: u32) -> Segment {
    Segment { ptr: NonNull::dangling(), len, bus }
}

fn report(host: &mut Driver, latched: u32) -> Events {
    host.port.regs.pending.set(host.port.regs.pending.get() | latched);
    let events = host.ack(&[]);
    assert_eq!(host.port.regs.pending.get() & host.enable, 0, "the line stays up");
    events
}

fn fault(cause: Cause, stage: Stage, response: Option<u32>) -> Option<Result<Done, Fault>> {
    Some(Err(Fault { cause, stage, response: response.map(Response::short) }))
}
