//! Tests of the PL181 driver on a register file whose values the test sets.

extern crate std;

mod bus;
mod data;
mod events;
mod setup;

use super::*;
use crate::host::{Auto, BlockSizes, BusyDetect, Cause, Data, Done, Fault, Stage, Timing, Width};
use crate::spec::command::{Command, Resp};
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use std::collections::{BTreeMap, VecDeque};
use std::vec;
use std::vec::Vec;

const FIFO_WORDS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read(u16),
    Write(u16, u32),
}

/// Registers, and a FIFO that must be neither read while empty nor written while full.
struct Fake {
    words: RefCell<BTreeMap<u16, u32>>,
    log: RefCell<Vec<Access>>,
    flags: Cell<u32>,
    /// The words in the FIFO during a read.
    rx: RefCell<VecDeque<u32>>,
    card: RefCell<VecDeque<u32>>,
    /// Number of words in the FIFO during a write.
    tx: Cell<usize>,
    sent: RefCell<Vec<u32>>,
    /// Number of words that the bus transfers between two reads of the status.
    pace: Cell<usize>,
    /// Whether the controller reports the end of the data again at every later access to the FIFO.
    repeats_end: Cell<bool>,
}

impl Fake {
    fn new(id: u32) -> Self {
        let fake = Fake {
            words: RefCell::default(),
            log: RefCell::default(),
            flags: Cell::new(0),
            rx: RefCell::default(),
            card: RefCell::default(),
            tx: Cell::new(0),
            sent: RefCell::default(),
            pace: Cell::new(0),
            repeats_end: Cell::new(false),
        };
        for (n, byte) in (0..).zip(id.to_le_bytes()) {
            fake.set(PERIPHERAL_ID_0 + 4 * n, byte.into());
        }
        fake
    }

    fn set(&self, offset: u16, value: u32) {
        self.words.borrow_mut().insert(offset, value);
    }

    fn get(&self, offset: u16) -> u32 {
        self.words.borrow().get(&offset).copied().unwrap_or(0)
    }

    fn raise(&self, flags: u32) {
        self.flags.set(self.flags.get() | flags);
    }

    /// Returns the static flags and the flags of the FIFO's fill level; then the bus transfers some
    /// words.
    fn status(&self) -> u32 {
        let status = self.flags.get() | self.levels();
        self.run();
        status
    }

    fn levels(&self) -> u32 {
        let control = self.get(DATA_CONTROL);
        let (rx, tx) = (self.rx.borrow().len(), self.tx.get());
        let level = |bit: u32, on: bool| if on { bit } else { 0 };
        match control & (DATA_ENABLE | DATA_READ) {
            DATA_ENABLE => {
                level(TX_EMPTY, tx == 0)
                    | level(TX_HALF_EMPTY, tx <= FIFO_WORDS / 2)
                    | level(1 << 16, tx == FIFO_WORDS)
            }
            _ => {
                level(RX_AVAILABLE, rx != 0)
                    | level(RX_HALF_FULL, rx >= FIFO_WORDS / 2)
                    | level(RX_FULL, rx == FIFO_WORDS)
            }
        }
    }

    fn run(&self) {
        let control = self.get(DATA_CONTROL);
        for _ in 0..self.pace.get() {
            if control & (DATA_ENABLE | DATA_READ) == DATA_ENABLE | DATA_READ {
                if self.rx.borrow().len() == FIFO_WORDS {
                    continue;
                }
                let word = self.card.borrow_mut().pop_front();
                self.rx.borrow_mut().extend(word);
                self.end_if(word.is_some() && self.card.borrow().is_empty());
            } else if control & DATA_ENABLE != 0 && self.tx.get() != 0 {
                self.tx.set(self.tx.get() - 1);
                let out = self.sent.borrow().len() - self.tx.get();
                self.end_if(4 * out >= self.get(DATA_LENGTH) as usize);
            }
        }
    }

    fn end_if(&self, end: bool) {
        if end {
            self.raise(DATA_END | DATA_BLOCK_END);
        }
    }

    /// Returns whether the first interrupt line is asserted.
    fn line(&self) -> bool {
        (self.flags.get() | self.levels()) & self.get(MASK_0) != 0
    }

    fn take_log(&self) -> Vec<Access> {
        core::mem::take(&mut self.log.borrow_mut())
    }

    fn writes(&self) -> Vec<(u16, u32)> {
        let log = self.take_log();
        log.into_iter()
            .filter_map(|access| match access {
                Access::Write(at, value) => Some((at, value)),
                Access::Read(_) => None,
            })
            .collect()
    }
}

impl Regs for Fake {
    fn read8(&self, offset: u16) -> u8 {
        panic!("8-bit read at {offset:#x}")
    }
    fn read16(&self, offset: u16) -> u16 {
        panic!("16-bit read at {offset:#x}")
    }
    fn read32(&self, offset: u16) -> u32 {
        assert_eq!(offset % 4, 0);
        self.log.borrow_mut().push(Access::Read(offset));
        match offset {
            STATUS => self.status(),
            FIFO => {
                let word = self.rx.borrow_mut().pop_front().expect("FIFO read empty");
                self.end_if(self.repeats_end.get() && self.card.borrow().is_empty());
                word
            }
            _ => self.get(offset),
        }
    }
    fn write8(&self, offset: u16, _: u8) {
        panic!("8-bit write at {offset:#x}")
    }
    fn write16(&self, offset: u16, _: u16) {
        panic!("16-bit write at {offset:#x}")
    }
    fn write32(&self, offset: u16, value: u32) {
        assert_eq!(offset % 4, 0);
        self.log.borrow_mut().push(Access::Write(offset, value));
        match offset {
            CLEAR => self.flags.set(self.flags.get() & !(value & STATIC)),
            FIFO => {
                assert!(self.tx.get() < FIFO_WORDS, "FIFO written full");
                self.tx.set(self.tx.get() + 1);
                self.sent.borrow_mut().push(value);
            }
            _ => self.set(offset, value),
        }
    }
}

type Driver = Pl181<Fake>;

const MCLK_HZ: u32 = 48_000_000;

fn config() -> Pl181Config {
    Pl181Config {
        width: Width::W4,
        high_speed: true,
        max_clock_hz: 50_000_000,
        ..Pl181Config::new(MCLK_HZ, 24_000_000)
    }
}

/// Returns a driver after reset, power-on and clock.
fn ready() -> Driver {
    let mut host = Pl181::new(Fake::new(0x0004_1181), config()).unwrap();
    assert_eq!(host.set_bus(BusOp::ResetAll, true, 0), Step::Done);
    assert_eq!(host.set_bus(BusOp::PowerOn, true, 0), Step::Wait(1_000_000));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, 1_000_000), Step::Done);
    assert_eq!(host.set_bus(BusOp::Clock(24_000_000), true, 0), Step::Done);
    host.regs.take_log();
    host
}

fn command(index: u8, resp: Resp) -> Phase {
    Phase { command: Command::new(index, 0x1234_5678, resp), data: None, auto: Auto::None, tuning: false }
}

fn data(index: u8, direction: Direction, block_size: u16, blocks: u32) -> Phase {
    Phase { data: Some(Data { direction, block_size, blocks }), ..command(index, Resp::R1) }
}

fn near(memory: &mut [u8]) -> Segment {
    Segment { ptr: NonNull::from(&mut *memory).cast(), len: memory.len() as u32, bus: 0 }
}

/// Sets the response of the card: this content, and the command's index.
fn answer(host: &Driver, index: u8, content: u32) {
    host.regs.set(RESPONSE_0, content);
    host.regs.set(RESPONSE_INDEX, index.into());
    host.regs.raise(RESPONSE_END);
}

fn fault(cause: Cause, stage: Stage) -> Fault {
    Fault { cause, stage, response: None }
}

/// Calls `ack` whenever the interrupt line is asserted, until the phase ends. Returns its result,
/// and the number of calls.
fn run(host: &mut Driver, segments: &[Segment]) -> (Result<Done, Fault>, u32) {
    for acks in 1..10_000 {
        if let Some(result) = host.ack(segments).phase {
            return (result, acks);
        }
        // Between two interrupts the bus transfers as much as it can.
        for _ in 0..64 {
            if host.regs.line() {
                break;
            }
            host.regs.run();
        }
        assert!(host.regs.line(), "the phase hangs");
    }
    panic!("no end");
}
