//! Data transfers of a function of an I/O card (`mmcq_io_submit`). A callback reports the end of
//! each transfer, so no thread waits for it.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::ahead::Mapping;
use crate::api::{HOSTS, Place, Stack, open};
use crate::code::{Failure, MMCQ_E_ARGUMENT, MMCQ_E_MEMORY, MMCQ_OK};
use crate::io::{Functions, Io, Moves, carry, functions};
use crate::platform::mmcq_platform;
use crate::room::{Begin, Room, bytes_of};
use crate::submit::{MMCQ_READ, MMCQ_WRITE};
use core::cell::Cell;
use core::ffi::c_void;
use core::future::poll_fn;
use core::ptr::NonNull;
use core::task::{Context, Poll, Waker};
use mmcq::engine::Error;
use mmcq::host::Direction;
use mmcq::sdio::IoError;

/// Most transfers (`mmcq_io_request`) that may be under way on one card, over all its functions. A
/// function may have one.
const TRANSFERS: usize = 2;

/// A transfer of an I/O function, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_io_request {
    pub function: u32,
    pub op: u32,
    pub address: u32,
    pub how: u32,
    pub bytes: u32,
    pub memory: *mut u8,
    pub done: Option<unsafe extern "C" fn(*mut mmcq_io_request, i32)>,
    pub context: *mut c_void,
}

/// A transfer of an I/O function that has ended, with the handle by which the program uses that
/// function.
struct Ended {
    io: Io,
    result: Result<(), IoError>,
    /// Whether the controller could not be stopped, so that it still uses the memory of the
    /// transfer.
    kept: bool,
}

/// Carries out the whole transfer. If no slot is free, this future waits until it is polled again,
/// which happens when any other request ends.
async fn carried((io, moves): (Io, Moves)) -> Ended {
    let mut done = 0;
    loop {
        let (result, kept) = carry(&io, moves, &mut done).await;
        if !matches!(result, Err(IoError::Engine(Error::Full))) {
            return Ended { io, result, kept };
        }
        let mut waited = false;
        poll_fn(|_| match core::mem::replace(&mut waited, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// What must be known when the transfer of an I/O function has ended: the program's request and its
/// callback, the mapped memory, and the function's handle.
#[derive(Clone, Copy)]
struct Owner {
    request: NonNull<mmcq_io_request>,
    done: unsafe extern "C" fn(*mut mmcq_io_request, i32),
    mapping: Option<Mapping>,
    /// Index of the function's handle, to put the handle back after the transfer.
    handle: usize,
    /// Number of the bring-up that the handle belongs to.
    found_by: u32,
}

/// Whether an entry has the future of a transfer. `Free` is 0, so that a static with these states
/// is in `.bss`.
#[derive(Clone, Copy)]
#[repr(u8)]
enum State {
    /// The entry is free: no transfer of an I/O function uses it.
    Free = 0,
    /// A call is placing a future in the entry.
    Taken = 1,
    /// The future of a transfer is in the entry and is not complete yet.
    UnderWay(Owner) = 2,
}

/// Place for the future of one transfer of an I/O function. The state is accessed only while the
/// lock of its controller's stack is held. The memory of the future (`room`) is accessed by the
/// call that has set [`State::Taken`], and then by the only context that calls callbacks.
struct Transfer {
    room: Room<{ bytes_of(&(carried as Begin<_, _>)) }>,
    state: Cell<State>,
}

// SAFETY: see the comment of the struct.
unsafe impl Sync for Transfer {}

static TRANSFERS_OF: [[Transfer; TRANSFERS]; HOSTS] =
    [const { [const { Transfer { room: Room::new(), state: Cell::new(State::Free) } }; TRANSFERS] }; HOSTS];

/// Polls each transfer of this controller. Returns true if one has ended and its callback was
/// called. Only one context calls this function at a time (`Waiting::call_back`).
fn move_on(host: usize, place: &Place, stack: &Stack, platform: &mmcq_platform) -> bool {
    for transfer in TRANSFERS_OF.get(host).into_iter().flatten() {
        let State::UnderWay(owner) = stack.with(|_| transfer.state.get()) else { continue };
        let mut context = Context::from_waker(Waker::noop());
        // SAFETY: the static room has a future, and only the context that calls callbacks polls it.
        let polled = unsafe { transfer.room.poll(carried, &mut context) };
        let Poll::Ready(Ended { io, result, kept }) = polled else { continue };
        // A controller that cannot be stopped still uses the memory. So the memory stays mapped,
        // and no other call may use it.
        let mapping = owner.mapping.filter(|_| !kept);
        stack.with(|_| {
            if kept {
                place.ahead.note_kept(owner.mapping.as_ref());
            }
            if let Some(mapping) = &mapping {
                place.ahead.remove(mapping);
            }
            if let Some(functions) = u32::try_from(host).ok().and_then(functions) {
                functions.put_back(owner.handle, io, owner.found_by);
            }
            transfer.state.set(State::Free);
            place.waiting.remove_transfer();
        });
        if let Some(mapping) = mapping {
            mapping.end(platform);
        }
        let code = match result {
            _ if kept => MMCQ_E_MEMORY,
            Ok(()) => MMCQ_OK,
            Err(error) => Failure::from(error).code(),
        };
        // SAFETY: the request is valid until this call, and its function may be called from here;
        // the program promises both.
        unsafe { (owner.done)(owner.request.as_ptr(), code) };
        return true;
    }
    false
}

/// Submits a transfer that ends with a callback; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_io_submit` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_io_submit(host: u32, request: *mut mmcq_io_request) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Some(request) = NonNull::new(request).filter(|request| request.is_aligned()) else {
        return MMCQ_E_ARGUMENT;
    };
    // SAFETY: not null and aligned, and the caller promises a complete structure.
    let asked = unsafe { request.read() };
    let direction = match asked.op {
        MMCQ_READ => Direction::Read,
        MMCQ_WRITE => Direction::Write,
        _ => return MMCQ_E_ARGUMENT,
    };
    let moves = Moves::new(asked.function, (asked.address, asked.how), asked.bytes, asked.memory, direction);
    let (Some(done), Some(moves), Some(functions), Ok(number), Ok(at)) =
        (asked.done, moves, functions(host), u8::try_from(asked.function), usize::try_from(host))
    else {
        return MMCQ_E_ARGUMENT;
    };
    let begun = begin(place, stack, platform, functions, number, moves, at, |mapping, handle, found_by| {
        Owner { request, done, mapping, handle, found_by }
    });
    if let Err(failure) = begun {
        return failure.code();
    }
    place.waiting.call_back(place, stack, platform);
    MMCQ_OK
}

#[allow(clippy::too_many_arguments, reason = "all that a transfer is made of")]
fn begin(
    place: &'static Place,
    stack: &'static Stack,
    platform: &mmcq_platform,
    functions: &Functions,
    number: u8,
    moves: Moves,
    host: usize,
    owner: impl FnOnce(Option<Mapping>, usize, u32) -> Owner,
) -> Result<(), Failure> {
    let by_dma = moves.by_dma(stack)?;
    let taken = stack.with(|_| {
        let transfers = TRANSFERS_OF.get(host).into_iter().flatten();
        let mut free = transfers.filter(|transfer| matches!(transfer.state.get(), State::Free));
        let transfer = free.next().ok_or(Error::Full)?;
        let bring_ups = place.bring_ups();
        let (handle, io) = functions.take(number, bring_ups)?;
        if let Err(error) = place.waiting.begin_io() {
            functions.put_back(handle, io, bring_ups);
            return Err(error.into());
        }
        transfer.state.set(State::Taken);
        Ok::<_, Failure>((transfer, io, handle, bring_ups))
    });
    let (transfer, io, handle, found_by) = taken?;
    // The memory is mapped without the lock.
    let ahead = if by_dma { moves.ahead(&io, stack, 0) } else { None };
    let mapping =
        ahead.and_then(|memory| Mapping::new(platform, memory.cast(), memory.len(), moves.direction));
    let mapping = mapping.transpose().map_err(Error::Dma).and_then(|mapping| {
        let Some(mapping) = mapping else { return Ok(None) };
        let added = stack.with(|_| place.ahead.add(mapping));
        added.inspect_err(|_| mapping.end(platform)).map(|()| Some(mapping))
    });
    let mapping = match mapping {
        Ok(mapping) => mapping,
        Err(error) => {
            stack.with(|_| {
                functions.put_back(handle, io, found_by);
                transfer.state.set(State::Free);
                place.waiting.end_io();
            });
            return Err(error.into());
        }
    };
    // SAFETY: the room is empty, and this call has set `Taken`, so only this call uses it.
    unsafe { transfer.room.begin(carried, (io, moves)) };
    stack.with(|_| {
        transfer.state.set(State::UnderWay(owner(mapping, handle, found_by)));
        place.waiting.add_transfer(move_on, host);
        place.waiting.end_io();
    });
    Ok(())
}
