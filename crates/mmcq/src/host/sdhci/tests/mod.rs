//! Tests of the SDHCI driver on a register file whose values the test sets.

extern crate std;

mod bus;
mod concurrent;
mod events;
mod fast;
mod memory;
mod phases;
mod profiles;
mod streams;
mod usdhc;

use super::events::OF_PHASE;
use super::*;
use crate::host::{Auto, BusyDetect, Cause, Data, Done, Fault, Stage, Timing, Width};
use crate::spec::command::{Command, Resp};
use crate::spec::response::Response;
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

/// Capabilities: 50 MHz base clock, 1 MHz timeout clock, blocks of 2048 bytes, ADMA2, SDMA, high
/// speed, 3.3 V, 8 data lines; SDR50, SDR104, DDR50.
const CAPS: u64 = 0x0000_0007_016e_3281;
const ADDRESS_64_V3: u64 = 1 << 28;
const ADDRESS_64_V4: u64 = 1 << 27;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read(u16),
    Write(u16, u8, u32),
}

/// Registers with the side effects that the driver waits for.
struct Fake {
    bytes: RefCell<[u8; 256]>,
    log: RefCell<Vec<Access>>,
    buffer: RefCell<VecDeque<u8>>,
    /// Bits of Software Reset that never clear.
    stuck: Cell<u8>,
    stable: Cell<bool>,
    /// Whether the controller is gone at the next word of the data.
    goes: Cell<bool>,
    /// Number of reads of Present State that still show DAT in use.
    lags: Cell<u32>,
}

impl Fake {
    fn new(version: u8, caps: u64) -> Self {
        let fake = Fake {
            bytes: RefCell::new([0; 256]),
            log: RefCell::default(),
            buffer: RefCell::default(),
            stuck: Cell::new(0),
            stable: Cell::new(true),
            goes: Cell::new(false),
            lags: Cell::new(0),
        };
        fake.set(VERSION, 1, version.into());
        fake.set(CAPABILITIES, 4, caps as u32);
        fake.set(CAPABILITIES_2, 4, (caps >> 32) as u32);
        fake.set(PRESENT, 4, PRESENT_INSERTED | PRESENT_DAT | PRESENT_WRITE_ENABLED);
        fake
    }

    fn set(&self, offset: u16, width: usize, value: u32) {
        let at = offset as usize;
        self.bytes.borrow_mut()[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    fn get(&self, offset: u16, width: usize) -> u32 {
        let mut value = [0; 4];
        let at = offset as usize;
        value[..width].copy_from_slice(&self.bytes.borrow()[at..at + width]);
        u32::from_le_bytes(value)
    }

    fn read(&self, offset: u16, width: usize) -> u32 {
        assert_eq!(offset as usize % width, 0);
        self.log.borrow_mut().push(Access::Read(offset));
        if offset == BUFFER && self.goes.get() {
            *self.bytes.borrow_mut() = [0xff; 256];
            return u32::MAX;
        }
        if offset == BUFFER {
            let mut value = [0; 4];
            value.iter_mut().for_each(|byte| *byte = self.buffer.borrow_mut().pop_front().unwrap_or(0xee));
            return u32::from_le_bytes(value);
        }
        if offset == PRESENT && self.lags.get() > 0 {
            self.lags.set(self.lags.get() - 1);
            return self.get(offset, width) | PRESENT_DAT_INHIBIT;
        }
        self.get(offset, width)
    }

    fn write(&self, offset: u16, width: usize, value: u32) {
        assert_eq!(offset as usize % width, 0);
        self.log.borrow_mut().push(Access::Write(offset, width as u8, value));
        match (offset, width) {
            (BUFFER..=0x23, _) => self.buffer.borrow_mut().extend(&value.to_le_bytes()[..width]),
            (INT_STATUS, 4) => {
                self.set(offset, 4, self.get(offset, 4) & !value);
                if value & ERROR_AUTO != 0 {
                    // Auto CMD Error Status is valid only while Auto CMD Error is set.
                    self.set(AUTO_STATUS, 2, 0);
                }
            }
            // Timeout and reset are in the upper half of this word.
            (CLOCK, 4) => {
                self.set(CLOCK, 4, value);
                self.side_effect(CLOCK, 2, value & 0xffff);
                self.side_effect(RESET, 1, value >> 24);
            }
            (CONTROL, 4) => {
                self.set(CONTROL, 4, value);
                self.side_effect(POWER, 1, value >> 8 & 0xff);
            }
            _ => self.side_effect(offset, width, value),
        }
    }

    fn side_effect(&self, offset: u16, width: usize, value: u32) {
        match offset {
            RESET => self.set(offset, 1, value & u32::from(self.stuck.get())),
            POWER => {
                let card = self.get(PRESENT, 4) & PRESENT_INSERTED != 0;
                self.set(offset, 1, if card { value } else { value & !u32::from(POWER_ON) });
            }
            CLOCK => {
                let stable = value & 1 != 0 && self.stable.get();
                self.set(offset, 2, value & !2 | if stable { 2 } else { 0 });
            }
            _ => self.set(offset, width, value),
        }
    }

    fn take_log(&self) -> Vec<Access> {
        core::mem::take(&mut self.log.borrow_mut())
    }
}

crate::regs_by_width!([] Fake);

/// A `Dma` that gives every mapping the same bus address.
#[derive(Default)]
struct FakeDma {
    bus: Cell<u64>,
    synced: RefCell<Vec<(u64, usize)>>,
    open: Cell<i32>,
    /// Whether each 512 bytes of a mapping are at another address.
    scattered: Cell<bool>,
}

// SAFETY: no controller accesses the mapped memory.
unsafe impl Dma for &'static FakeDma {
    fn map(&self, _: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        self.open.set(self.open.get() + 1);
        Ok(self.bus.get())
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        self.open.set(self.open.get() - 1);
    }
    const IN_PIECES: bool = true;

    fn piece(&self, bus: u64, len: u32) -> (u64, u32) {
        if !self.scattered.get() {
            return (bus, len);
        }
        let skip = bus - self.bus.get();
        (0x10_0000 + ((skip / 512) << 16) + skip % 512, len.min(512 - (skip % 512) as u32))
    }
    fn sync(&self, bus: u64, _: NonNull<u8>, len: usize) {
        self.synced.borrow_mut().push((bus, len));
    }
}

type Driver = Sdhci<Fake, &'static FakeDma, 8>;

fn build(
    version: u8,
    caps: u64,
    config: SdhciConfig,
    dma: &'static FakeDma,
) -> Result<Driver, SdhciInitError> {
    Sdhci::new(Fake::new(version, caps), dma, Box::leak(Box::new(Table::new())), config)
}

/// Returns a driver after reset, power-on and clock.
fn ready_with(version: u8, caps: u64, config: SdhciConfig) -> Driver {
    let dma: &'static FakeDma = Box::leak(Box::default());
    dma.bus.set(0x4000);
    let mut host = build(version, caps, config, dma).unwrap();
    for op in [BusOp::ResetAll, BusOp::PowerOn, BusOp::Clock(25_000_000)] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
    host.port.regs.take_log();
    host
}

fn ready(config: SdhciConfig) -> Driver {
    ready_with(2, CAPS, config)
}

fn quirk(quirks: SdhciQuirks) -> SdhciConfig {
    SdhciConfig { quirks, ..SdhciConfig::new() }
}

fn by(transfer: TransferMode) -> SdhciConfig {
    SdhciConfig { transfer, ..SdhciConfig::new() }
}

fn command(index: u8, resp: Resp) -> Phase {
    Phase { command: Command::new(index, 0x1234_5678, resp), data: None, auto: Auto::None, tuning: false }
}

fn data(index: u8, direction: Direction, block_size: u16, blocks: u32) -> Phase {
    Phase { data: Some(Data { direction, block_size, blocks }), ..command(index, Resp::R1) }
}

fn read(blocks: u32) -> Phase {
    data(18, Direction::Read, 512, blocks)
}

/// Returns a segment of memory that nothing accesses.
fn far(bus: u64, len: u32) -> Segment {
    Segment { ptr: NonNull::dangling(), len, bus }
}

fn near(memory: &mut [u8]) -> Segment {
    Segment { ptr: NonNull::from(&mut *memory).cast(), len: memory.len() as u32, bus: 0 }
}

fn report(host: &mut Driver, status: u32, segments: &[Segment]) -> Events {
    host.port.regs.set(INT_STATUS, 4, status);
    host.ack(segments)
}

/// Runs one phase to its successful end.
fn run(host: &mut Driver, phase: &Phase, segments: &[Segment]) -> Done {
    host.start(phase, segments, 100_000_000).unwrap();
    let status = INT_COMMAND | if phase.data.is_some() { INT_TRANSFER } else { 0 };
    report(host, status, segments).phase.unwrap().unwrap()
}
