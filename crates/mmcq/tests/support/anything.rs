//! Registers with arbitrary values, a `Dma` with arbitrary bus addresses, and memory between guard
//! words.

use arbtest::arbitrary::{Result, Unstructured};
use mmcq::engine::DmaBuf;
use mmcq::host::{Direction, Dma, DmaError};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

/// Registers that return the value written last, or an arbitrary value.
pub struct Anything {
    bytes: Vec<u8>,
    at: Cell<usize>,
    written: RefCell<Vec<u8>>,
    /// Number of reads, of 256, that return the value written last.
    sane: u8,
    accesses: Rc<Cell<u32>>,
}

impl Anything {
    fn byte(&self) -> u8 {
        let at = self.at.get() + 1;
        self.at.set(at);
        // Repeats the input with changed values, so that no wait sees the same values for ever.
        self.bytes[at % self.bytes.len()].wrapping_add((at / self.bytes.len() * 7) as u8)
    }

    /// Returns an arbitrary word; mostly only one or two bits are set.
    fn word(&self) -> u32 {
        match self.byte() % 8 {
            0 | 1 => 0,
            2 | 3 => 1 << (self.byte() % 32),
            4 | 5 => 1 << (self.byte() % 32) | 1 << (self.byte() % 32),
            6 if self.byte() < 8 => u32::MAX,
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    fn read(&self, offset: u16, width: usize) -> u32 {
        assert_eq!(usize::from(offset) % width, 0, "{offset:#x} is not aligned");
        self.accesses.set(self.accesses.get() + 1);
        let mut value = [0; 4];
        if self.byte() < self.sane {
            let at = usize::from(offset) & 0xfff;
            value[..width].copy_from_slice(&self.written.borrow()[at..at + width]);
        } else {
            value[..width].copy_from_slice(&self.word().to_le_bytes()[..width]);
        }
        u32::from_le_bytes(value)
    }

    fn write(&self, offset: u16, width: usize, value: u32) {
        assert_eq!(usize::from(offset) % width, 0, "{offset:#x} is not aligned");
        self.accesses.set(self.accesses.get() + 1);
        let at = usize::from(offset) & 0xfff;
        self.written.borrow_mut()[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

mmcq::regs_by_width!([] Anything);

/// A `Dma` that returns arbitrary bus addresses, and counts the mappings.
#[derive(Clone)]
pub struct AnyDma {
    bus: u64,
    fails: bool,
    pub open: Rc<Cell<i32>>,
}

// SAFETY: no controller reads or writes what this maps.
unsafe impl Dma for AnyDma {
    fn map(&self, _: NonNull<u8>, _: usize, _: Direction) -> std::result::Result<u64, DmaError> {
        if self.fails && self.open.get() > 2 {
            return Err(DmaError::Exhausted);
        }
        self.open.set(self.open.get() + 1);
        Ok(self.bus)
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        self.open.set(self.open.get() - 1);
    }
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {}
}

/// The parts from which a driver is made.
pub struct Parts {
    pub regs: Anything,
    pub dma: AnyDma,
    pub accesses: Rc<Cell<u32>>,
}

pub fn parts(u: &mut Unstructured<'_>) -> Result<Parts> {
    let mut bytes = vec![0; u.int_in_range(16..=1024)?];
    u.fill_buffer(&mut bytes)?;
    let accesses = Rc::new(Cell::new(0));
    let regs = Anything {
        bytes,
        at: Cell::new(0),
        written: RefCell::new(vec![0; 0x1004]),
        sane: *u.choose(&[0, 128, 224, 250])?,
        accesses: accesses.clone(),
    };
    let bus = *u.choose(&[0x1000, 0x4000_0000, 0xffff_f000, 0x12_4000_0000, u64::MAX - 3, 2])?;
    Ok(Parts { regs, dma: AnyDma { bus, fails: u.ratio(1, 8)?, open: Rc::default() }, accesses })
}

/// Memory between guard words. It is freed after the stack.
#[derive(Default)]
pub struct Memory(RefCell<Vec<Box<[u64]>>>);

pub const GUARD: u64 = 0x7777_7777_7777_7777;

impl Memory {
    pub fn take(&self, bytes: u32) -> DmaBuf {
        let words = bytes.div_ceil(8) as usize;
        let mut memory = vec![0; words + 2].into_boxed_slice();
        (memory[0], memory[words + 1]) = (GUARD, GUARD);
        // SAFETY: one word in, which exists.
        let at = unsafe { NonNull::from(&mut *memory).cast::<u64>().add(1) };
        self.0.borrow_mut().push(memory);
        // SAFETY: the memory lives in `self`, which outlives the stack.
        unsafe { DmaBuf::from_raw(at.cast(), bytes) }
    }

    pub fn check(&self) {
        for memory in self.0.borrow().iter() {
            assert!(
                memory.first() == Some(&GUARD) && memory.last() == Some(&GUARD),
                "written outside a buffer"
            );
        }
    }
}
