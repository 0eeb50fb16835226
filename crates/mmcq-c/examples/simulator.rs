//! The board of the C examples: a register-accurate model, of an SDHCI controller or of Realtek's
//! card reader, with a card, in virtual time, as C functions. Built as a static library that also
//! contains the stack.

use mmcq::host::{Direction, Dma};
use mmcq_sim::bench::card_named;
use mmcq_sim::card::Card;
use mmcq_sim::memory::{BusError, DeviceMemory, MemoryConfig, ShadowMemory};
use mmcq_sim::port::RegisterFile;
use mmcq_sim::rtsx::{Rtsx, RtsxConfig};
use mmcq_sim::sdhci::{Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::rc::Rc;

// Re-exported so that the library contains the functions of the header.
pub use mmcq_c::*;

/// Time that an access of the CPU to a register takes, in nanoseconds.
const ACCESS_NS: u64 = 50;

/// A piece of memory: its address and its length in bytes.
type Coherent = (NonNull<u8>, usize);

/// The memory of the board, with a part that the controller sees like the CPU, without caches.
#[derive(Clone, Default)]
struct Memory {
    shadow: ShadowMemory,
    /// The coherent memory that the program has supplied.
    coherent: Rc<Cell<Option<Coherent>>>,
}

impl Memory {
    /// Bus address at which the controller sees the coherent memory.
    const COHERENT: u64 = 0x2000_0000;

    /// Returns the CPU's pointer for an access to the coherent memory; `None` if the access is not
    /// inside.
    fn at(&self, bus: u64, bytes: usize) -> Option<NonNull<u8>> {
        let (memory, len) = self.coherent.get()?;
        let skip = usize::try_from(bus.checked_sub(Self::COHERENT)?).ok()?;
        // SAFETY: inside of the memory, which the program has given for ever.
        (skip.checked_add(bytes)? <= len).then(|| unsafe { memory.add(skip) })
    }
}

impl DeviceMemory for Memory {
    fn device_read(&self, bus: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        match self.at(bus, buffer.len()) {
            // SAFETY: the access is inside of the coherent memory; the buffer belongs to the model.
            Some(memory) => unsafe {
                buffer.as_mut_ptr().copy_from_nonoverlapping(memory.as_ptr(), buffer.len());
                Ok(())
            },
            None => self.shadow.device_read(bus, buffer),
        }
    }

    fn device_write(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        match self.at(bus, data.len()) {
            // SAFETY: the access is inside of the coherent memory; the data belong to the model.
            Some(memory) => unsafe {
                memory.as_ptr().copy_from_nonoverlapping(data.as_ptr(), data.len());
                Ok(())
            },
            None => self.shadow.device_write(bus, data),
        }
    }
}

/// A controller model whose registers are accessed by offset.
trait Model: Controller + RegisterFile {}

impl<M: Controller + RegisterFile> Model for M {}

struct Board {
    model: RefCell<Box<dyn Model>>,
    /// The card while it is removed from the slot.
    out: RefCell<Option<Box<dyn Card>>>,
    memory: Memory,
    now_ns: Cell<u64>,
}

fn build(card: &str, reader: bool) -> Option<Board> {
    let memory = Memory { shadow: ShadowMemory::new(MemoryConfig::BITS32), ..Memory::default() };
    let (card, seen) = (Some(card_named(card).ok()?), memory.clone());
    let model: Box<dyn Model> = match reader {
        true => Box::new(Rtsx::new(RtsxConfig::GENERIC, seen, card)),
        false => Box::new(Sdhci::new(SdhciConfig::GENERIC_4_20, seen, card)),
    };
    Some(Board { model: RefCell::new(model), out: RefCell::new(None), memory, now_ns: Cell::new(0) })
}

/// Makes a board with this card in the slot of an SDHCI controller; returns null if the card is
/// unknown.
///
/// # Safety
/// `card` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn board_open(card: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { open(card, false) }
}

/// Makes a board with this card in the slot of Realtek's card reader; returns null if the card is
/// unknown.
///
/// # Safety
/// `card` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn board_open_rtsx(card: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { open(card, true) }
}

/// Makes a board.
///
/// # Safety
/// `card` is a C string.
unsafe fn open(card: *const c_char, reader: bool) -> *mut c_void {
    // SAFETY: the caller promises a C string.
    let card = unsafe { CStr::from_ptr(card) };
    let board = card.to_str().ok().and_then(|card| build(card, reader));
    board.map_or(std::ptr::null_mut(), |board| Box::into_raw(Box::new(board)).cast())
}

fn at<'a>(board: *mut c_void) -> &'a Board {
    // SAFETY: programs have pointers only from `board_open`, and boards are never freed.
    unsafe { &*board.cast() }
}

/// Reads a register of 1, 2 or 4 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn board_read(board: *mut c_void, offset: u16, bytes: u8) -> u32 {
    let board = at(board);
    board.now_ns.set(board.now_ns.get() + ACCESS_NS);
    board.model.borrow_mut().read(offset, bytes, board.now_ns.get())
}

/// Writes a register of 1, 2 or 4 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn board_write(board: *mut c_void, offset: u16, bytes: u8, value: u32) {
    let board = at(board);
    board.now_ns.set(board.now_ns.get() + ACCESS_NS);
    board.model.borrow_mut().write(offset, bytes, value, board.now_ns.get());
}

/// Returns the board's time in nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn board_now_ns(board: *mut c_void) -> u64 {
    at(board).now_ns.get()
}

/// Advances the time until the controller interrupts, or until `until_ns`; returns 1 after an
/// interrupt.
#[unsafe(no_mangle)]
pub extern "C" fn board_sleep(board: *mut c_void, until_ns: u64) -> i32 {
    let board = at(board);
    let mut model = board.model.borrow_mut();
    if !model.irq() {
        let reached = model.advance(until_ns.max(board.now_ns.get()));
        board.now_ns.set(reached.max(board.now_ns.get()));
    }
    model.irq().into()
}

fn direction(to_card: i32) -> Direction {
    if to_card != 0 { Direction::Write } else { Direction::Read }
}

/// Makes memory usable by the controller.
///
/// # Safety
/// `bus` has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn board_map(
    board: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
    to_card: i32,
    bus: *mut u64,
) -> i32 {
    let Some(memory) = NonNull::new(memory.cast()) else { return -1 };
    match at(board).memory.shadow.map(memory, bytes, direction(to_card)) {
        Ok(address) => {
            // SAFETY: the caller promises room for a number.
            unsafe { bus.write(address) };
            0
        }
        Err(_) => -1,
    }
}

/// Ends a mapping of memory.
#[unsafe(no_mangle)]
pub extern "C" fn board_unmap(board: *mut c_void, bus: u64, memory: *mut c_void, bytes: usize, to_card: i32) {
    if let Some(memory) = NonNull::new(memory.cast()) {
        at(board).memory.shadow.unmap(bus, memory, bytes, direction(to_card));
    }
}

/// Declares memory that the controller sees like the CPU, for ever; returns its bus address.
#[unsafe(no_mangle)]
pub extern "C" fn board_coherent(board: *mut c_void, memory: *mut c_void, bytes: usize) -> u64 {
    at(board).memory.coherent.set(NonNull::new(memory.cast()).map(|memory| (memory, bytes)));
    Memory::COHERENT
}

/// Makes what the CPU wrote to the memory visible to the controller.
#[unsafe(no_mangle)]
pub extern "C" fn board_sync(board: *mut c_void, bus: u64, memory: *mut c_void, bytes: usize) {
    if let Some(memory) = NonNull::new(memory.cast()) {
        at(board).memory.shadow.sync(bus, memory, bytes);
    }
}

/// Lets the card lose its supply for a moment.
#[unsafe(no_mangle)]
pub extern "C" fn board_brown_out(board: *mut c_void) {
    let board = at(board);
    if let Some(card) = board.model.borrow_mut().card_mut() {
        card.brown_out(board.now_ns.get());
    }
}

/// Removes the card, or inserts it again.
#[unsafe(no_mangle)]
pub extern "C" fn board_remove_or_insert(board: *mut c_void) {
    let board = at(board);
    let now_ns = board.now_ns.get();
    let mut out = board.out.borrow_mut();
    match out.take() {
        Some(card) => board.model.borrow_mut().insert(card, now_ns),
        None => *out = board.model.borrow_mut().remove(now_ns),
    }
}

/// Returns the number of rules that the driver or the program has violated.
#[unsafe(no_mangle)]
pub extern "C" fn board_violations(board: *mut c_void) -> u64 {
    let board = at(board);
    let protocol = board.model.borrow().protocol_violations();
    board.memory.shadow.violation_count() + protocol
}
