//! Tests of the SDMMC driver on a register file whose values the test sets.

extern crate std;

mod bus;
mod ends;
mod setup;
mod starts;

use super::*;
use crate::host::{Auto, Cause, Data, Done, Fault, Stage, Timing, Width};
use crate::spec::command::{Command, Resp};
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

const KERNEL_HZ: u32 = 200_000_000;
const LIST_BUS: u64 = 0x2400_8000;

/// Registers that hold what is written, except flags.
#[derive(Default)]
struct Fake {
    words: RefCell<BTreeMap<u16, u32>>,
    flags: Cell<u32>,
    gone: Cell<bool>,
    /// Register that reads as zero, whatever is written.
    missing: Cell<Option<u16>>,
    log: RefCell<Vec<(u16, u32)>>,
}

impl Fake {
    fn get(&self, offset: u16) -> u32 {
        self.words.borrow().get(&offset).copied().unwrap_or(0)
    }

    fn set(&self, offset: u16, value: u32) {
        self.words.borrow_mut().insert(offset, value);
    }

    fn raise(&self, flags: u32) {
        self.flags.set(self.flags.get() | flags);
    }

    fn fall(&self, flags: u32) {
        self.flags.set(self.flags.get() & !flags);
    }

    fn line(&self) -> bool {
        self.flags.get() & self.get(MASK) != 0
    }

    /// Returns the writes since the last call.
    fn writes(&self) -> Vec<(u16, u32)> {
        core::mem::take(&mut self.log.borrow_mut())
    }

    fn last(&self, offset: u16) -> Option<u32> {
        self.log.borrow().iter().rev().find(|write| write.0 == offset).map(|write| write.1)
    }

    /// Sets the response of the card: its index and this content.
    fn answers(&self, index: u8, content: u32) {
        self.set(RESPONSE_INDEX, index.into());
        self.set(RESPONSE_1, content);
        self.raise(RESPONSE_END);
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
        match offset {
            _ if self.gone.get() => u32::MAX,
            _ if self.missing.get() == Some(offset) => 0,
            STATUS => self.flags.get(),
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
            CLEAR => self.fall(value & (STATIC | CARD_INTERRUPT)),
            _ => self.set(offset, value),
        }
    }
}

/// A `Dma` that counts mappings; the test sets the bus addresses.
struct FakeDma {
    open: Cell<i32>,
    next: Cell<u64>,
    line: u32,
}

// SAFETY: nothing ever accesses these addresses.
unsafe impl Dma for &FakeDma {
    fn map(&self, _: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        self.open.set(self.open.get() + 1);
        Ok(self.next.get())
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        self.open.set(self.open.get() - 1);
    }
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {}
    fn line_bytes(&self) -> u32 {
        self.line
    }
}

/// A board with this number of taps, which records the calls to it.
#[derive(Default)]
struct Board {
    taps: u8,
    resets: bool,
    told: RefCell<Vec<&'static str>>,
    tap: Cell<u8>,
}

impl Stm32Board for &Board {
    fn reset(&mut self) -> bool {
        self.told.borrow_mut().push("reset");
        self.resets
    }
    fn taps(&self) -> u8 {
        self.taps
    }
    fn lock(&mut self) -> bool {
        self.told.borrow_mut().push("lock");
        true
    }
    fn select(&mut self, tap: u8) {
        self.tap.set(tap);
    }
}

type Driver<const PIECES: usize> = Stm32Sdmmc<&'static Fake, &'static FakeDma, &'static Board, PIECES>;

fn leaked<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

fn config() -> Stm32SdmmcConfig {
    Stm32SdmmcConfig::new(KERNEL_HZ).high_speed(true).max_clock_hz(50_000_000)
}

fn driver<const PIECES: usize>(board: Board, config: Stm32SdmmcConfig) -> Driver<PIECES> {
    let dma = leaked(FakeDma { open: Cell::new(0), next: Cell::new(LIST_BUS), line: 1 });
    let (fake, dma, board): (&Fake, &FakeDma, &Board) = (leaked(Fake::default()), dma, leaked(board));
    Stm32Sdmmc::new(fake, dma, board, leaked(Pieces::new()), config).unwrap()
}

/// Returns a driver whose card clock is 50 MHz.
fn ready<const PIECES: usize>() -> Driver<PIECES> {
    ready_on(Board::default(), config())
}

fn ready_on<const PIECES: usize>(board: Board, config: Stm32SdmmcConfig) -> Driver<PIECES> {
    let mut host = driver(board, config);
    assert_eq!(host.set_bus(BusOp::Clock(50_000_000), true, 0), Step::Done);
    host.regs.writes();
    host
}

fn command(index: u8, resp: Resp) -> Phase {
    Phase::of(Command::new(index, 0x1234_5678, resp))
}

fn data(index: u8, direction: Direction, block_size: u16, blocks: u32) -> Phase {
    Phase { data: Some(Data { direction, block_size, blocks }), ..command(index, Resp::R1) }
}

fn at(bus: u64, len: u32) -> Segment {
    Segment { ptr: NonNull::dangling(), len, bus }
}

fn near(memory: &mut [u8]) -> Segment {
    Segment { ptr: NonNull::from(&mut *memory).cast(), len: memory.len() as u32, bus: BOUNCED }
}

fn fault(cause: Cause, stage: Stage, response: Option<u32>) -> Option<Result<Done, Fault>> {
    use crate::spec::response::Response;
    Some(Err(Fault { cause, stage, response: response.map(Response::short) }))
}
