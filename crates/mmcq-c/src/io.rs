//! Functions of an I/O card (SDIO): registers, data, interrupt.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{HOSTS, Parts, Place, SLOTS, Stack, mapped_once, open, patiently, wait};
use crate::code::{
    self, Failure, MMCQ_E_ARGUMENT, MMCQ_E_NO_CARD, MMCQ_E_STATE, MMCQ_E_TIMEOUT, MMCQ_E_UNSUPPORTED, MMCQ_OK,
};
use crate::controller::{hears_card_irq, moves_by_cpu};
use crate::held::Held;
use crate::platform::mmcq_platform;
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::ptr::NonNull;
use core::task::Poll;
use mmcq::card::{self, IoCard};
use mmcq::engine::{DmaBuf, Error};
use mmcq::host::{Direction, DmaError, Width};
use mmcq::sdio::{At, CardInterrupt, Chain, FUNCTIONS_MAX, Function, IoError};
use mmcq::task::Idle;

/// Value of `how`: every byte goes to, or comes from, one register (a FIFO).
pub const MMCQ_IO_FIFO: u32 = 0;
/// Value of `how`: each byte goes to, or comes from, the next register.
pub const MMCQ_IO_INCREMENT: u32 = 1;

const FUNCTIONS: usize = FUNCTIONS_MAX as usize;

/// Description of an I/O card for the C program, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_io_card {
    pub blocks: u64,
    pub clock_hz: u32,
    pub vendor: u16,
    pub product: u16,
    pub max_block_bytes: [u16; FUNCTIONS],
    pub interface_code: [u8; FUNCTIONS],
    pub functions: u8,
    pub width: u8,
}

pub(crate) type Io = Function<'static, Parts, SLOTS>;
type Interrupt = CardInterrupt<'static, Parts, SLOTS>;
type Open = (&'static Place, &'static Stack, &'static mmcq_platform);

/// The functions of one controller's I/O card. Accessed only while the lock of its stack is held.
pub(crate) struct Functions {
    /// Number of the bring-up that found the functions ([`Place::bring_ups`]).
    found_by: Cell<u32>,
    /// Handles of the functions; the first is function 1. Empty while a call uses the handle.
    handles: [Cell<Held<Io>>; FUNCTIONS],
    /// Functions that the card has, one bit each.
    there: Cell<u8>,
    interrupt: Cell<Held<Interrupt>>,
}

// SAFETY: accessed only while the lock is held.
unsafe impl Sync for Functions {}

static FUNCTIONS_OF: [Functions; HOSTS] = [const {
    Functions {
        found_by: Cell::new(0),
        handles: [const { Cell::new(Held::Nothing) }; FUNCTIONS],
        there: Cell::new(0),
        interrupt: Cell::new(Held::Nothing),
    }
}; HOSTS];

pub(crate) fn functions(host: u32) -> Option<&'static Functions> {
    FUNCTIONS_OF.get(usize::try_from(host).ok()?)
}

impl Functions {
    /// Makes the handles for the functions of a card. `found_by`: number of the bring-up that has
    /// found the card. The caller must not hold the stack's lock, because a handle takes this lock
    /// when it is made.
    fn put(&self, card: &IoCard, stack: &'static Stack, found_by: u32) {
        // From here on no call puts a handle of the earlier card back.
        stack.with(|_| self.found_by.set(0));
        let mut there = 0;
        for (number, handle) in (1..).zip(&self.handles) {
            let function = Function::new(stack, card, number).ok();
            there |= u8::from(function.is_some()) << number;
            stack.with(|_| handle.set(function.into()));
        }
        let interrupt = CardInterrupt::new(stack, card);
        stack.with(|_| {
            self.there.set(there);
            self.interrupt.set(Held::Value(interrupt));
            self.found_by.set(found_by);
        });
    }

    /// Takes the handle of function `number`, so that no other call uses it; for function 0, any
    /// free handle. `bring_ups` is the number of the latest bring-up. Also returns the handle's
    /// index for [`put_back`](Self::put_back).
    pub fn take(&self, number: u8, bring_ups: u32) -> Result<(usize, Io), Failure> {
        if self.found_by.get() != bring_ups {
            return Err(Error::NoCard.into());
        }
        let wanted = if number == 0 { self.there.get() } else { self.there.get() & 1 << number };
        if wanted == 0 {
            return Err(Failure::Code(MMCQ_E_ARGUMENT));
        }
        let mut handles = (1..).zip(&self.handles).enumerate();
        let free = handles.find_map(|(index, (at, handle))| {
            let taken = if wanted >> at & 1 != 0 { handle.take().into_option() } else { None };
            taken.map(|function| (index, function))
        });
        // Another call uses the handle, so this call tries again.
        free.ok_or(Error::Full.into())
    }

    /// Puts a handle back after a call, so that another call may take it. Drops the handle if the
    /// card was brought up again in the meantime: `found_by` is the number of the bring-up from
    /// which the handle came.
    pub fn put_back(&self, index: usize, function: Io, found_by: u32) {
        if self.found_by.get() == found_by
            && let Some(handle) = self.handles.get(index)
        {
            handle.set(Held::Value(function));
        }
    }
}

/// Makes a call on one function. Calls on the same function wait for each other.
fn with_function(host: u32, number: u32, mut call: impl FnMut(Open, &mut Io) -> Result<u32, Failure>) -> i32 {
    let open @ (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let number = u8::try_from(number).ok().filter(|number| *number <= FUNCTIONS_MAX);
    let (Some(functions), Some(number)) = (functions(host), number) else { return MMCQ_E_ARGUMENT };
    if let Err(error) = stack.with(|_| place.waiting.begin_io()) {
        return code::of(Err(error));
    }
    let result = patiently(place, stack, platform, || {
        let (found_by, taken) = stack.with(|_| {
            let bring_ups = place.bring_ups();
            (bring_ups, functions.take(number, bring_ups))
        });
        let (index, mut function) = taken?;
        let result = call(open, &mut function);
        stack.with(|_| functions.put_back(index, function, found_by));
        result
    });
    stack.with(|_| place.waiting.end_io());
    result
}

fn block_on<T>((place, stack, platform): Open, future: impl Future<Output = T>) -> T {
    stack.block_on(future, |idle: &Idle| wait(place, stack, platform, idle))
}

/// Brings up an I/O card; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_bring_up` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_io_bring_up(host: u32, card: *mut mmcq_io_card) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Some(functions) = functions(host) else { return MMCQ_E_ARGUMENT };
    if !card.is_null() && !card.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    let scratch = match place.take_scratch(stack) {
        Ok(scratch) => scratch,
        Err(error) => return code::of_scratch(error),
    };
    place.dismiss_supervisor(stack, platform);
    // From here on no call uses a function of the earlier card.
    stack.with(|_| place.begin_bring_up());
    let future = card::bring_up_io(stack, scratch, card::Options::DEFAULT);
    let (result, scratch) = stack.block_on(future, |idle| platform.wait(idle));
    let found_by = stack.with(|_| {
        place.set_card(result.as_ref().ok().and_then(|found| found.memory));
        place.bring_ups()
    });
    if let Ok(found) = &result {
        functions.put(found, stack, found_by);
    }
    place.return_scratch(stack, scratch);
    place.events(stack, platform);
    match result {
        Ok(found) => {
            if !card.is_null() {
                // SAFETY: not null, aligned, and the caller promises room for the structure.
                unsafe { card.write(described(&found)) };
            }
            MMCQ_OK
        }
        Err(error) => Failure::from(error).code(),
    }
}

fn described(found: &IoCard) -> mmcq_io_card {
    let maker = found.manufacturer();
    let mut card = mmcq_io_card {
        blocks: found.memory.map_or(0, |memory| memory.params.sectors),
        clock_hz: found.clock_hz,
        vendor: maker.map_or(0, |maker| maker.vendor),
        product: maker.map_or(0, |maker| maker.product),
        functions: found.count(),
        width: if found.width == Width::W1 { 1 } else { 4 },
        ..mmcq_io_card::default()
    };
    for (index, function) in found.functions.iter().enumerate() {
        if let Some(function) = function {
            card.max_block_bytes[index] = function.extension.max_block_bytes;
            card.interface_code[index] = function.fbr.class;
        }
    }
    card
}

/// Enables or disables a function; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_io_enable(host: u32, function: u32, on: i32) -> i32 {
    if function == 0 {
        return MMCQ_E_ARGUMENT;
    }
    with_function(host, function, |open, io| {
        let result = match on {
            0 => block_on(open, io.disable()),
            _ => block_on(open, io.enable()),
        };
        result.map(|()| 0).map_err(Failure::from)
    })
}

/// Sets the block size of a function; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_io_block_size(host: u32, function: u32, bytes: u32) -> i32 {
    let Some(bytes) = u16::try_from(bytes).ok().filter(|_| function != 0) else { return MMCQ_E_ARGUMENT };
    with_function(host, function, |open, io| {
        block_on(open, io.set_block_size(bytes)).map(|()| 0).map_err(Failure::from)
    })
}

/// Reads one register of a function; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_read_byte` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_io_read_byte(host: u32, function: u32, address: u32, value: *mut u8) -> i32 {
    if value.is_null() {
        return MMCQ_E_ARGUMENT;
    }
    with_function(host, function, |open, io| {
        let read = match function {
            0 => block_on(open, io.read_common_u8(address, Chain::Last)),
            _ => block_on(open, io.read_u8(address, Chain::Last)),
        }?;
        // SAFETY: not null, and the caller promises room for the value.
        unsafe { value.write(read) };
        Ok(0)
    })
}

/// Writes one register of a function; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_write_byte` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_io_write_byte(
    host: u32,
    function: u32,
    address: u32,
    value: u8,
    read_back: *mut u8,
) -> i32 {
    // A call that finds no free slot for the second command must not write again.
    let mut is_written = false;
    with_function(host, function, |open, io| {
        if function == 0 && !is_written {
            block_on(open, io.write_common_u8(address, value, Chain::Last))?;
            is_written = true;
        }
        let read = match (function, read_back.is_null()) {
            (0, true) => return Ok(0),
            (0, false) => block_on(open, io.read_common_u8(address, Chain::Last))?,
            (_, true) => {
                block_on(open, io.write_u8(address, value, Chain::Last))?;
                return Ok(0);
            }
            (_, false) => block_on(open, io.write_read_u8(address, value, Chain::Last))?,
        };
        // SAFETY: not null, and the caller promises room for the value.
        unsafe { read_back.write(read) };
        Ok(0)
    })
}

/// Reads data from a function; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_read` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_io_read(
    host: u32,
    function: u32,
    address: u32,
    how: u32,
    bytes: u32,
    memory: *mut u8,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_io_read`.
    unsafe { moved(host, function, (address, how), bytes, memory, Direction::Read) }
}

/// Writes data to a function; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_write` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_io_write(
    host: u32,
    function: u32,
    address: u32,
    how: u32,
    bytes: u32,
    memory: *const u8,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_io_write`; a write only reads the memory.
    unsafe { moved(host, function, (address, how), bytes, memory.cast_mut(), Direction::Write) }
}

/// Transfers `bytes` bytes between `memory` and a function, in this direction. `how` says whether
/// all bytes go to the register `address` or to ascending addresses from there on.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_read` or `mmcq_io_write` in `mmcq.h`.
unsafe fn moved(
    host: u32,
    function: u32,
    (address, how): (u32, u32),
    bytes: u32,
    memory: *mut u8,
    direction: Direction,
) -> i32 {
    let Some(moves) = Moves::new(function, (address, how), bytes, memory, direction) else {
        return MMCQ_E_ARGUMENT;
    };
    // Data that went to a FIFO must not be sent again, so a call that found no free slot continues
    // where it stopped.
    let mut done = 0;
    with_function(host, function, |open @ (place, stack, platform), io| {
        let ahead = if moves.by_dma(stack)? { moves.ahead(io, stack, done) } else { None };
        let mapped = ahead.map(|_| direction);
        mapped_once(place, stack, platform, ahead.unwrap_or(moves.memory()), mapped, &mut || {
            let (result, kept) = block_on(open, carry(io, moves, &mut done));
            (result.map(|()| 0).map_err(Failure::from), kept)
        })
    })
}

/// Start address of a transfer's memory.
#[derive(Clone, Copy)]
struct Start(NonNull<u8>);

// SAFETY: the program leaves the memory to the library, whichever context continues the transfer.
unsafe impl Send for Start {}

/// The memory and the direction of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Moves {
    start: Start,
    bytes: u32,
    at: At,
    pub direction: Direction,
}

impl Moves {
    /// Makes the description of a transfer between `memory` and a function; `None` if the program's
    /// arguments are invalid. `how` says whether all bytes go to the register `address` or to
    /// ascending addresses from there on.
    pub fn new(
        function: u32,
        (address, how): (u32, u32),
        bytes: u32,
        memory: *mut u8,
        direction: Direction,
    ) -> Option<Moves> {
        let at = match how {
            MMCQ_IO_FIFO => At::Fifo(address),
            MMCQ_IO_INCREMENT => At::From(address),
            _ => return None,
        };
        let start = NonNull::new(memory).filter(|_| function != 0 && bytes != 0)?;
        let len = usize::try_from(bytes).ok().filter(|&len| isize::try_from(len).is_ok())?;
        start.addr().get().checked_add(len)?;
        Some(Moves { start: Start(start), bytes, at, direction })
    }

    pub fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.start.0, self.bytes as usize)
    }

    /// Returns the memory to map for DMA before the transfer goes on, or `None` if no memory is to
    /// be mapped. `done` bytes of the transfer are done already. Memory that the CPU fills with the
    /// data of a read is not mapped: the end of a mapping may invalidate cache lines, and so
    /// destroy these data.
    pub fn ahead(&self, io: &Io, stack: &Stack, done: u32) -> Option<NonNull<[u8]>> {
        if self.direction == Direction::Write {
            return self.part(done, self.bytes);
        }
        let by_cpu =
            |bytes| stack.with(|engine| engine.host().is_some_and(|driver| moves_by_cpu(driver, bytes)));
        let mut end = done;
        while end < self.bytes {
            let next = piece(io, self.bytes - end);
            if by_cpu(next) {
                break;
            }
            end += next;
        }
        self.part(done, end)
    }

    /// Returns the memory from its byte `from` up to, and without, its byte `end`; `None`: there is
    /// none.
    fn part(&self, from: u32, end: u32) -> Option<NonNull<[u8]>> {
        let start = NonNull::new(self.start.0.as_ptr().wrapping_add(from as usize))?;
        let bytes = end.saturating_sub(from) as usize;
        (bytes > 0).then_some(NonNull::slice_from_raw_parts(start, bytes))
    }

    /// Returns whether the controller transfers this memory by DMA. Returns an error if the
    /// memory's alignment is too small for the controller.
    pub fn by_dma(&self, stack: &Stack) -> Result<bool, Error> {
        let (by_dma, align) = stack.with(|engine| (engine.caps().dma_bits != 0, engine.caps().align));
        let align = if self.direction == Direction::Read { align } else { align.min(4) };
        match self.start.0.addr().get().is_multiple_of(align as usize) {
            true => Ok(by_dma),
            false => Err(Error::Dma(DmaError::Alignment)),
        }
    }
}

/// Transfers the data after the first `done` bytes, and adds the number of transferred bytes to
/// `done`. The second value is true if the controller cannot be stopped and still uses the memory.
pub(crate) async fn carry(io: &Io, moves: Moves, done: &mut u32) -> (Result<(), IoError>, bool) {
    let Moves { start, bytes, at, direction } = moves;
    // Every turn transfers at least one byte.
    while *done < bytes {
        let piece = piece(io, bytes - *done);
        let at = match at {
            At::From(address) => At::From(address.saturating_add(*done)),
            fifo => fifo,
        };
        // SAFETY: the piece begins at `done` and ends inside of the memory; the program promises
        // that the library may use the memory until the transfer ends.
        let buf = unsafe { DmaBuf::from_raw(start.0.add(*done as usize), piece) };
        let chain = if *done + piece < bytes { Chain::More } else { Chain::Last };
        let (result, buf) = match direction {
            Direction::Read => io.read(at, piece, buf, chain).await,
            Direction::Write => io.write(at, piece, buf, chain).await,
        };
        if let Err(error) = result {
            return (Err(error), buf.len_bytes() == 0);
        }
        *done += piece;
    }
    (Ok(()), false)
}

/// Returns the number of bytes in the next command of a transfer that has `left` bytes left.
fn piece(io: &Io, left: u32) -> u32 {
    let split = io.split();
    split.next(left).map_or(left, |count| split.bytes(count)).clamp(1, left)
}

/// Calls `call` with the library's object for waiting on the card interrupt of controller `host`,
/// and returns its result. Only one thread may use the object at a time; another one gets
/// `MMCQ_E_STATE`.
fn with_interrupt(host: u32, call: impl FnOnce(Open, &mut Interrupt) -> i32) -> i32 {
    let open @ (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Some(functions) = functions(host) else { return MMCQ_E_ARGUMENT };
    let (found_by, taken) = stack.with(|_| {
        let bring_ups = place.bring_ups();
        let found = functions.found_by.get() == bring_ups;
        (
            bring_ups,
            if found {
                functions.interrupt.take().into_option().ok_or(MMCQ_E_STATE)
            } else {
                Err(MMCQ_E_NO_CARD)
            },
        )
    });
    let mut interrupt = match taken {
        Ok(interrupt) => interrupt,
        Err(code) => return code,
    };
    let result = call(open, &mut interrupt);
    stack.with(|_| {
        if functions.found_by.get() == found_by {
            functions.interrupt.set(Held::Value(interrupt));
        }
    });
    place.events(stack, platform);
    result
}

/// Allows a function to interrupt, or not; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_io_irq_enable(host: u32, function: u32, on: i32) -> i32 {
    let Some(function) = u8::try_from(function).ok().filter(|number| (1..=FUNCTIONS_MAX).contains(number))
    else {
        return MMCQ_E_ARGUMENT;
    };
    with_interrupt(host, |open @ (place, stack, platform), interrupt| {
        let hears = stack.with(|engine| engine.host().is_none_or(hears_card_irq));
        if on != 0 && !hears {
            return MMCQ_E_UNSUPPORTED;
        }
        patiently(place, stack, platform, || {
            let result = match on {
                0 => block_on(open, interrupt.disable(function)),
                _ => block_on(open, interrupt.enable(function)),
            };
            result.map(|()| 0).map_err(Failure::from)
        })
    })
}

/// Waits for a card interrupt; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_irq_wait` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_io_irq_wait(host: u32, until_ns: u64, functions: *mut u8) -> i32 {
    with_interrupt(host, |open @ (place, stack, platform), interrupt| {
        let waited: Result<(), Failure> = {
            let mut wait = pin!(interrupt.wait());
            block_on(
                open,
                poll_fn(|context| match wait.as_mut().poll(context) {
                    Poll::Ready(result) => Poll::Ready(result.map_err(Failure::from)),
                    Poll::Pending if platform.now_ns() >= until_ns => {
                        Poll::Ready(Err(Failure::Code(MMCQ_E_TIMEOUT)))
                    }
                    Poll::Pending => Poll::Pending,
                }),
            )
        };
        if let Err(failure) = waited {
            return failure.code();
        }
        patiently(place, stack, platform, || {
            let asking = block_on(open, interrupt.pending()).map_err(Failure::from)?;
            if !functions.is_null() {
                // SAFETY: not null, and the caller promises room for the value.
                unsafe { functions.write(asking) };
            }
            Ok::<_, Failure>(0)
        })
    })
}

/// Acknowledges a card interrupt; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_io_irq_ack(host: u32) -> i32 {
    with_interrupt(host, |_, interrupt| {
        interrupt.ack();
        MMCQ_OK
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_goes_on_maps_only_what_is_left() {
        let mut memory = [0u8; 64];
        let start = memory.as_mut_ptr();
        let moves = Moves::new(1, (0, MMCQ_IO_FIFO), 64, start, Direction::Write).unwrap();
        let part = |from| moves.part(from, 64).map(|part| (part.cast::<u8>().as_ptr(), part.len()));
        assert_eq!(part(0), Some((start, 64)));
        assert_eq!(part(48), Some((start.wrapping_add(48), 16)));
        assert_eq!(part(64), None);
    }
}
