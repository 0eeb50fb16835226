//! Requests that end with a callback, so that the caller does not wait.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::ahead::{Mapping, aligned, bits};
use crate::api::{Place, SLOTS, Stack, alignment, bytes, open};
use crate::code::{self, MMCQ_E_ARGUMENT, MMCQ_E_MEMORY, MMCQ_E_STATE, MMCQ_OK};
use crate::platform::mmcq_platform;
use crate::turns::Turns;
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use mmcq::block::BlockDevice;
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error, Irreversible, Kind, Request, SlotId};
use mmcq::host::Direction;
use mmcq::task::Idle;

/// Value of `op`: reads blocks into memory.
pub const MMCQ_READ: u32 = 0;
/// Value of `op`: writes blocks from memory.
pub const MMCQ_WRITE: u32 = 1;
/// Value of `op`: writes blocks from memory, past every cache.
pub const MMCQ_WRITE_DURABLE: u32 = 2;
/// Value of `op`: flushes everything written before; needs no memory.
pub const MMCQ_FLUSH: u32 = 3;
/// Value of `op`: discards blocks whose content is not needed any more; needs no memory.
pub const MMCQ_DISCARD: u32 = 4;
/// Value of `op`: makes blocks read as zeros, by an erase; needs no memory.
pub const MMCQ_ZEROES: u32 = 5;
/// Value of `op`: erases blocks and all copies of them; needs no memory.
pub const MMCQ_SECURE_ERASE: u32 = 6;

/// A request of the C program, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_request {
    pub op: u32,
    pub blocks: u32,
    pub lba: u64,
    pub memory: *mut u8,
    pub done: Option<unsafe extern "C" fn(*mut mmcq_request, i32)>,
    pub context: *mut c_void,
}

/// A submitted request, which occupies a slot of the engine.
#[derive(Clone, Copy)]
struct Submitted {
    id: SlotId,
    request: NonNull<mmcq_request>,
    done: unsafe extern "C" fn(*mut mmcq_request, i32),
    ahead: Option<Mapping>,
    /// 1 if the request has memory, otherwise 0. This is no `bool`, because then an empty slot
    /// would not be all zeros ([`held`](crate::held)).
    memories: u8,
}

/// A function of the optional I/O code that polls the running transfers of all I/O functions of one
/// controller. Returns true if a transfer has ended.
pub(crate) type MoveOn = fn(host: usize, &Place, &Stack, &mmcq_platform) -> bool;

/// The submitted requests of one controller, by the engine's slots. The slots are accessed only
/// while the lock of its stack is held.
pub(crate) struct Waiting {
    slots: [Cell<Option<Submitted>>; SLOTS],
    /// Slots with a request, one bit each; a search checks only these slots.
    used: Cell<u64>,
    /// Number of requests that the program has submitted by `mmcq_submit` and that have not ended;
    /// most programs have none.
    count: AtomicU32,
    /// Number of transfers of I/O functions in progress. Accessed while the lock is held.
    transfers: AtomicU32,
    /// Number of calls of I/O functions in progress, including calls that only begin a transfer.
    /// Accessed while the lock is held.
    io_calls: Cell<u32>,
    /// Whether new calls of I/O functions are refused. Accessed while the lock is held.
    io_is_closed: Cell<bool>,
    /// The function that continues the transfers of I/O functions, and its argument. A program
    /// without such transfers does not link the function.
    move_on: Cell<Option<(MoveOn, usize)>>,
    /// Lets only one context at a time (a thread or an interrupt) call callbacks.
    turns: Turns,
}

impl Waiting {
    pub const fn new() -> Self {
        Waiting {
            slots: [const { Cell::new(None) }; SLOTS],
            used: Cell::new(0),
            count: AtomicU32::new(0),
            transfers: AtomicU32::new(0),
            io_calls: Cell::new(0),
            io_is_closed: Cell::new(false),
            move_on: Cell::new(None),
            turns: Turns::new(),
        }
    }

    /// Returns whether the callback of any request is still to be called.
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0 || self.has_transfers()
    }

    fn has_transfers(&self) -> bool {
        self.transfers.load(Ordering::Acquire) != 0
    }

    /// Records a call of an I/O function. Called while the lock is held.
    ///
    /// # Errors
    /// [`Error::Suspended`]: the controller is suspended, or about to be.
    pub fn begin_io(&self) -> Result<(), Error> {
        if self.io_is_closed.get() {
            return Err(Error::Suspended);
        }
        self.io_calls.set(self.io_calls.get() + 1);
        Ok(())
    }

    /// Records that a call of an I/O function has ended. Called while the lock is held.
    pub fn end_io(&self) {
        self.io_calls.set(self.io_calls.get().saturating_sub(1));
    }

    /// Refuses new calls of I/O functions from now on (`is_closed`), or accepts them again. Called
    /// while the lock is held.
    pub fn close_io(&self, is_closed: bool) {
        self.io_is_closed.set(is_closed);
    }

    /// Returns whether no call and no transfer of an I/O function is in progress. Called while the
    /// lock is held.
    pub fn is_io_over(&self) -> bool {
        self.io_calls.get() == 0 && !self.has_transfers()
    }

    /// Records that a transfer of controller `host` has begun, and the function `move_on` that
    /// continues it. Called while the lock is held.
    pub fn add_transfer(&self, move_on: MoveOn, host: usize) {
        self.move_on.set(Some((move_on, host)));
        self.transfers.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that a transfer has ended. Called while the lock is held.
    pub fn remove_transfer(&self) {
        self.transfers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the slots with a request, and their requests. Called while the lock is held.
    fn submitted(&self) -> impl Iterator<Item = (usize, Submitted)> + '_ {
        let slots = bits(self.used.get());
        slots.filter_map(|index| Some((index, self.slots.get(index)?.get()?)))
    }

    /// Stores the request of a slot of the engine. Called while the lock is held.
    fn put(&self, index: usize, submitted: Submitted) {
        if let Some(slot) = self.slots.get(index) {
            slot.set(Some(submitted));
            self.used.set(self.used.get() | 1 << index);
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Removes the request of a slot. Called while the lock is held.
    fn clear(&self, index: usize) {
        self.used.set(self.used.get() & !(1 << index));
        if let Some(slot) = self.slots.get(index) {
            slot.set(None);
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Calls the callback of every request that has ended. If a callback submits a request that
    /// ends at once, the present call also calls the callback of that request. Returns true if the
    /// presence of the card has not changed since the last report to the program, so that no card
    /// event is to be reported. Returns false if it has changed, or if this was not checked.
    pub fn call_back(&self, place: &Place, stack: &Stack, platform: &mmcq_platform) -> bool {
        let mut are_told = false;
        while self.is_any() && self.turns.take() {
            while self.is_any()
                && (self.one(place, stack, platform, &mut are_told) || self.transfer(place, stack, platform))
            {
            }
            if !self.turns.give_back() {
                break;
            }
        }
        are_told
    }

    /// Continues the transfers of I/O functions. Returns true if one has ended.
    fn transfer(&self, place: &Place, stack: &Stack, platform: &mmcq_platform) -> bool {
        let move_on = if self.has_transfers() { stack.with(|_| self.move_on.get()) } else { None };
        let has_ended = move_on.is_some_and(|(move_on, host)| move_on(host, place, stack, platform));
        if has_ended {
            // A call that found no free slot, or no room for a mapping, tries again.
            Idle::waker().wake_by_ref();
        }
        has_ended
    }

    /// Calls the callback of one request that has ended. Returns true if another request has ended
    /// too. Sets `are_told` to true if the presence of the card has not changed since the last
    /// report to the program, otherwise to false.
    #[allow(clippy::unnecessary_cast, reason = "a set has 32 bits on small machines")]
    fn one(&self, place: &Place, stack: &Stack, platform: &mmcq_platform, are_told: &mut bool) -> bool {
        let ended = stack.with(|engine| {
            *are_told = place.events.are_told(engine.present());
            // The completions of waiting calls are finished too, but are not in the table.
            let mut finished = bits(engine.finished() as u64 & self.used.get());
            let (index, submitted, completion) = finished.find_map(|index| {
                let submitted = self.slots.get(index)?.get()?;
                Some((index, submitted, engine.take(submitted.id)?))
            })?;
            self.clear(index);
            // A controller that cannot be stopped still uses the memory. So the memory stays
            // mapped, and no other call may use it.
            let is_kept = submitted.memories != 0 && completion.buf.len_bytes() == 0;
            let ahead = submitted.ahead.filter(|_| !is_kept);
            if let Some(ahead) = &ahead {
                place.ahead.remove(ahead);
            }
            if is_kept {
                place.ahead.note_kept(submitted.ahead.as_ref());
            }
            let code = if is_kept { MMCQ_E_MEMORY } else { code::of(completion.result.map(|_| ())) };
            Some((submitted, ahead, code, finished.next().is_some()))
        });
        let Some((submitted, ahead, code, more)) = ended else { return false };
        if let Some(ahead) = ahead {
            ahead.end(platform);
        }
        // A call that found no free slot, or no room for a mapping, tries again.
        Idle::waker().wake_by_ref();
        // SAFETY: the request is valid until this call, and its function may be called from here;
        // the program promises both.
        unsafe { (submitted.done)(submitted.request.as_ptr(), code) };
        more
    }

    /// Takes a request back that the controller has not begun. Returns its mapping, which the
    /// caller must end without the lock. `None` if the request has begun, has ended, or never
    /// existed.
    fn take_back(
        &self,
        place: &Place,
        stack: &Stack,
        request: *const mmcq_request,
    ) -> Option<Option<Mapping>> {
        stack.with(|engine| {
            let is_it = |submitted: &Submitted| core::ptr::eq(submitted.request.as_ptr(), request);
            let (index, submitted) = self.submitted().find(|(_, submitted)| is_it(submitted))?;
            engine.take_back(submitted.id)?;
            self.clear(index);
            if let Some(ahead) = &submitted.ahead {
                place.ahead.remove(ahead);
            }
            Some(submitted.ahead)
        })
    }
}

/// Submits a request that ends with a callback; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_submit` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_submit(host: u32, request: *mut mmcq_request) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Some(request) = NonNull::new(request).filter(|request| request.is_aligned()) else {
        return MMCQ_E_ARGUMENT;
    };
    // SAFETY: not null and aligned, and the caller promises a complete structure.
    let asked = unsafe { request.read() };
    let Some(done) = asked.done else { return MMCQ_E_ARGUMENT };
    let (lba, blocks) = (asked.lba, asked.blocks);
    // Made only if needed, since it takes the stack's lock and most requests do not need it.
    let device = || BlockDevice::new(stack);
    let (kind, direction) = match asked.op {
        MMCQ_READ => (Kind::Read { lba, blocks }, Direction::Read),
        MMCQ_WRITE | MMCQ_WRITE_DURABLE => (Kind::Write { lba, blocks }, Direction::Write),
        MMCQ_FLUSH => (Kind::Flush, Direction::Write),
        MMCQ_DISCARD | MMCQ_ZEROES | MMCQ_SECURE_ERASE if blocks == 0 => return MMCQ_E_ARGUMENT,
        // If no block of the range can be discarded, there is nothing to do, and the request ends
        // like any other.
        MMCQ_DISCARD => match device().discard_kind(lba, blocks) {
            Ok(Some(kind)) => (kind, Direction::Write),
            Ok(None) => (Kind::Pause { ns: 0 }, Direction::Write),
            Err(error) => return code::of(Err(error)),
        },
        MMCQ_ZEROES => match device().zero_kind(lba, blocks) {
            Ok(kind) => (kind, Direction::Write),
            Err(error) => return code::of(Err(error)),
        },
        MMCQ_SECURE_ERASE => match secure_erase_of(stack, lba, blocks) {
            Ok(kind) => (kind, Direction::Write),
            Err(error) => return code::of(Err(error)),
        },
        _ => return MMCQ_E_ARGUMENT,
    };
    let memory = match asked.op {
        MMCQ_FLUSH | MMCQ_DISCARD | MMCQ_ZEROES | MMCQ_SECURE_ERASE => None,
        _ => match (bytes(asked.memory, blocks), NonNull::new(asked.memory)) {
            (Some(bytes), Some(memory)) => Some((memory, bytes)),
            _ => return MMCQ_E_ARGUMENT,
        },
    };
    let what = Request::new(kind, DmaBuf::EMPTY);
    let what = if asked.op == MMCQ_WRITE_DURABLE { what.durable() } else { what };
    let memories = memory.is_some().into();
    let submitted = |id, ahead| Submitted { id, request, done, ahead, memories };
    let result = submit(place, stack, platform, what, memory, direction, submitted);
    if result == Ok(true) {
        place.waiting.call_back(place, stack, platform);
    }
    code::of(result.map(|_| ()))
}

/// Returns the request that erases exactly these blocks and all copies of them.
fn secure_erase_of(stack: &Stack, lba: u64, blocks: u32) -> Result<Kind, Error> {
    let leave = Irreversible::i_know_that_this_cannot_be_undone();
    stack.with(|engine| {
        engine.enable_extended_ops();
        engine.card_params().ok_or(Error::NoCard)?;
        if !engine.abilities().are_known() {
            return Err(Error::Unequipped);
        }
        let how = engine.abilities().erase.securing(lba, blocks, leave).ok_or(Error::Unsupported)?;
        Ok(Kind::Erase { lba, blocks, how })
    })
}

/// Cancels a request that has not begun; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_cancel(host: u32, request: *const mmcq_request) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    match place.waiting.take_back(place, stack, request) {
        None => MMCQ_E_STATE,
        Some(ahead) => {
            if let Some(ahead) = ahead {
                ahead.end(platform);
            }
            MMCQ_OK
        }
    }
}

/// Submits a request. Returns true if the callback of a request may have to be called now: a
/// request with nothing to do ends at once.
fn submit(
    place: &'static Place,
    stack: &'static Stack,
    platform: &mmcq_platform,
    mut what: Request,
    memory: Option<(NonNull<u8>, usize)>,
    direction: Direction,
    submitted: impl FnOnce(SlotId, Option<Mapping>) -> Submitted,
) -> Result<bool, Error> {
    let mut ahead = None;
    if let Some((memory, bytes)) = memory {
        if !platform.maps_quickly() && alignment(stack, memory, direction)? {
            ahead = Mapping::new(platform, memory, bytes, direction).transpose().map_err(Error::Dma)?;
        }
        let blocks = u32::try_from(bytes).unwrap_or(u32::MAX) / BLOCK_BYTES;
        // SAFETY: checked as far as possible; the program promises that the library may use the
        // memory until the callback.
        what.buf = unsafe { DmaBuf::from_raw(memory, blocks.saturating_mul(BLOCK_BYTES)) };
    }
    let result = stack.with(|engine| {
        if let Some((memory, _)) = memory.filter(|_| platform.maps_quickly()) {
            aligned(engine.caps(), engine.card_params().is_some(), memory, direction)?;
        }
        if let Some(ahead) = ahead {
            place.ahead.add(ahead)?;
        }
        if what.durable {
            engine.enable_extended_ops();
        }
        let accepted = engine.submit(what, platform.now_ns()).map_err(|(error, _)| error);
        if accepted.is_err()
            && let Some(ahead) = &ahead
        {
            place.ahead.remove(ahead);
        }
        let id = accepted?;
        place.waiting.put(id.index(), submitted(id, ahead));
        // What has ended in this call is due at once.
        Ok(engine.next_deadline_ns() == Some(0))
    });
    if result.is_err()
        && let Some(ahead) = ahead
    {
        ahead.end(platform);
    }
    result
}
