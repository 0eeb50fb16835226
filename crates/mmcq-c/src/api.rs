//! The functions that `mmcq.h` declares for every program.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::ahead::{Ahead, Mapping, aligned};
use crate::code::{self, Failure, MMCQ_E_ARGUMENT, MMCQ_E_MEMORY, MMCQ_E_STATE, MMCQ_OK};
pub(crate) use crate::controller::{Driver, Parts};
use crate::controller::{SCHEDULER, writes_lists};
use crate::dma::{Lists, Room};
use crate::events::CardEvents;
use crate::held::Held;
use crate::platform::{Its, mmcq_idle, mmcq_platform};
pub(crate) use crate::sizes::{HOSTS, SLOTS};
use crate::submit::Waiting;
use crate::supervisor::{Supervisor, brought_up, examined};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_char;
use core::future::poll_fn;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::Poll;
use mmcq::block::BlockDevice;
use mmcq::card::{Card, Family};
use mmcq::engine::{BLOCK_BYTES, Config, DmaBuf, Erasing, Error, Irreversible};
use mmcq::host::{Direction, DmaError, Width};
use mmcq::task::{Idle, Timer};

pub(crate) type Stack = mmcq::task::Stack<Parts, SLOTS>;
pub(crate) type Device = BlockDevice<'static, Parts, SLOTS>;
/// Description of a card for the C program, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_card {
    pub blocks: u64,
    pub clock_hz: u32,
    pub transfer_blocks: u32,
    pub align: u32,
    pub cid: [u32; 4],
    pub csd: [u32; 4],
    pub emmc: u8,
    pub width: u8,
    pub volatile_cache: u8,
    pub pieces: u8,
    pub discard_blocks: u32,
    pub zeroes: u8,
    pub read_only: u8,
    pub secure_erase: u8,
    pub reserved: u8,
}

const CLOSED: u8 = 0;
const OPENING: u8 = 1;
const OPEN: u8 = 2;

/// State of one controller: platform, stack, memory, requests and card.
pub(crate) struct Place {
    state: AtomicU8,
    platform: UnsafeCell<MaybeUninit<mmcq_platform>>,
    stack: UnsafeCell<MaybeUninit<Stack>>,
    /// The library's own memory for the controller, used if the program supplies none.
    room: UnsafeCell<Room>,
    /// Buffer into which a call reads the card's registers; empty while a call uses it. Accessed
    /// while the stack's lock is held.
    scratch_buf: Cell<Option<DmaBuf>>,
    pub supervisor: Supervisor,
    pub ahead: Ahead,
    /// Requests that were submitted, and for which no thread waits.
    pub waiting: Waiting,
    /// State of the card events that were reported to the program.
    pub events: CardEvents,
    /// The card that was brought up last. Accessed while the stack's lock is held.
    card: Cell<Held<Card>>,
    /// Number of bring-ups that have begun, plus closes of the controller. Accessed while the
    /// stack's lock is held.
    bring_ups: Cell<u32>,
}

// SAFETY: before `OPEN` only `mmcq_open` accesses the state, once at a time by its contract; during
// `close` there is no other call. Between both, platform and stack are only shared, and the stack
// is `Sync` by its lock. The table belongs to the driver. The scratch buffer is moved in and out
// while the lock is held, like everything of the supervisor.
unsafe impl Sync for Place {}

impl Place {
    const fn new() -> Self {
        Place {
            state: AtomicU8::new(CLOSED),
            platform: UnsafeCell::new(MaybeUninit::uninit()),
            stack: UnsafeCell::new(MaybeUninit::uninit()),
            room: UnsafeCell::new(Room::new()),
            scratch_buf: Cell::new(None),
            supervisor: Supervisor::new(),
            ahead: Ahead::new(),
            waiting: Waiting::new(),
            events: CardEvents::new(),
            card: Cell::new(Held::Nothing),
            bring_ups: Cell::new(0),
        }
    }

    /// Opens the controller with this platform. `make` makes the driver; it gets the memory for the
    /// driver's lists. Returns a code of `mmcq.h`.
    ///
    /// # Safety
    /// The caller fulfils the contract of `mmcq_open` in `mmcq.h`, and the platform is complete.
    pub unsafe fn open(
        &'static self,
        timer: Timer,
        platform: mmcq_platform,
        make: impl FnOnce(Its, &'static mut Lists) -> Result<(Driver, Config), i32>,
    ) -> i32 {
        if self.state.load(Ordering::Acquire) != CLOSED {
            return MMCQ_E_STATE;
        }
        // SAFETY: the controller is closed, so no other call reads it; the caller promises not to
        // open it twice at once.
        unsafe { (*self.platform.get()).write(platform) };
        self.state.store(OPENING, Ordering::Release);
        let Some(its) = self.platform().map(|platform| Its(platform, &self.ahead)) else {
            return MMCQ_E_STATE;
        };
        let room = platform.dma_room().map_or(self.room.get(), NonNull::as_ptr);
        // SAFETY: the memory is the library's own. Or it is large enough and aligned, and the
        // program promises that the library may use it until the close. Any content is valid. Only
        // the driver of an open controller uses it, and there is none.
        let room = unsafe { &mut *room };
        self.ahead.set_opening(true);
        let made = make(its, &mut room.lists);
        self.ahead.set_opening(false);
        let (driver, config) = match made {
            Ok(made) => made,
            Err(code) => {
                self.state.store(CLOSED, Ordering::Release);
                return code;
            }
        };
        // Each buffer is used once: a close gives up the earlier one with the stack that may have
        // had it.
        self.scratch_buf.set(Some(DmaBuf::from_static(&mut room.scratch.0)));
        self.supervisor.scratch.set(Some(DmaBuf::from_static(&mut room.supervisor_scratch.0)));
        self.waiting.close_io(false);
        self.events.begin();
        // SAFETY: no call reads the stack before the state is `OPEN`.
        let stack = unsafe { &mut *self.stack.get() };
        Stack::write_to(stack, its, timer, driver, config, SCHEDULER);
        self.state.store(OPEN, Ordering::Release);
        MMCQ_OK
    }

    /// Calls the program's callbacks for events outside of its calls: requests that have ended,
    /// cards that were inserted or removed.
    pub fn events(&'static self, stack: &'static Stack, platform: &mmcq_platform) {
        if !self.waiting.call_back(self, stack, platform) {
            self.events.tell(stack, platform);
        }
    }

    /// Changes [`bring_ups`](Self::bring_ups), so that no call uses the functions of the earlier
    /// I/O card any more. Called while the stack's lock is held.
    pub fn begin_bring_up(&self) {
        self.bring_ups.set(self.bring_ups.get().wrapping_add(1));
    }

    /// Returns a number that changes with each bring-up and each close. Called while the stack's
    /// lock is held.
    ///
    /// The number is never 0, so 0 can stand for "found by no bring-up".
    pub fn bring_ups(&self) -> u32 {
        self.bring_ups.get().wrapping_add(1).max(1)
    }

    /// Stores the card that was brought up. Called while the stack's lock is held.
    pub fn set_card(&self, card: Option<Card>) {
        self.card.set(card.into());
    }

    /// Takes the buffer into which registers of a card (such as EXT_CSD) are read.
    ///
    /// # Errors
    /// [`Error::Full`]: another call uses it. [`Error::Dead`]: a controller that cannot be stopped
    /// has memory of the library.
    pub fn take_scratch(&self, stack: &Stack) -> Result<DmaBuf, Error> {
        let scratch = stack.with(|_| self.scratch_buf.take());
        scratch.ok_or(if self.ahead.has_kept() { Error::Dead } else { Error::Full })
    }

    /// Gives back the buffer into which a call reads the card's registers, so that another call may
    /// take it. An empty `scratch` means that a controller that cannot be stopped still uses this
    /// memory; then no call may take it any more.
    pub fn return_scratch(&self, stack: &Stack, scratch: DmaBuf) {
        stack.with(|_| match scratch.len_bytes() {
            0 => self.ahead.note_kept(None),
            _ => self.scratch_buf.set(Some(scratch)),
        });
    }

    /// Returns the card with its present parameters. They may differ from those of bring-up, for
    /// example the card's address (RCA).
    pub fn card(&self, stack: &Stack) -> Option<Card> {
        stack.with(|engine| {
            let card = self.card.get().into_option()?;
            Some(Card { params: *engine.card_params()?, ..card })
        })
    }

    /// Requests the supervisor to end, and waits until it has ended.
    pub fn dismiss_supervisor(&self, stack: &'static Stack, platform: &mmcq_platform) {
        let left = poll_fn(|_| if self.supervisor.leave(stack) { Poll::Pending } else { Poll::Ready(()) });
        stack.block_on(left, |idle| platform.wait(idle));
    }

    /// Closes the controller. The library keeps the memory that the controller has used.
    ///
    /// # Safety
    /// No other call of this controller is in progress, and the supervisor has ended.
    pub unsafe fn close(&self, platform: &mmcq_platform) {
        self.ahead.close(platform);
        self.state.store(CLOSED, Ordering::Release);
        self.card.set(Held::Nothing);
        self.begin_bring_up();
        self.scratch_buf.set(None);
        self.supervisor.scratch.set(None);
        // SAFETY: the controller was open, so the stack was written; the caller promises that
        // nothing uses it.
        unsafe { (*self.stack.get()).assume_init_drop() };
    }

    fn platform(&self) -> Option<&'static mmcq_platform>
    where
        Self: 'static,
    {
        if self.state.load(Ordering::Acquire) == CLOSED {
            return None;
        }
        // SAFETY: the platform was written before the state changed to open. It is not written
        // again before a close, after which no call uses it.
        Some(unsafe { &*self.platform.get().cast() })
    }

    fn stack(&self) -> Option<&'static Stack>
    where
        Self: 'static,
    {
        if self.state.load(Ordering::Acquire) != OPEN {
            return None;
        }
        // SAFETY: the stack was written before the state changed to open. It is not written again
        // before a close, after which no call uses it.
        Some(unsafe { &*self.stack.get().cast() })
    }
}

/// Returns the supervisor of controller number `host`; `None` if the number is too large.
pub(crate) fn supervisor(host: usize) -> Option<&'static Supervisor> {
    PLACES.get(host).map(|place| &place.supervisor)
}

static PLACES: [Place; HOSTS] = [const { Place::new() }; HOSTS];

fn now_ns<const I: usize>() -> u64 {
    PLACES.get(I).and_then(Place::platform).map_or(0, mmcq_platform::now_ns)
}

fn set_alarm<const I: usize>(at_ns: Option<u64>) {
    if let Some(platform) = PLACES.get(I).and_then(Place::platform) {
        platform.set_alarm(at_ns);
    }
}

/// A timer for each controller that can exist.
const TIMERS: [Timer; 8] = {
    macro_rules! timers {
        ($($host:literal)*) => {
            [$(Timer { now_ns: now_ns::<$host>, set_alarm: set_alarm::<$host> }),*]
        };
    }
    timers!(0 1 2 3 4 5 6 7)
};

/// Returns the state and the timer of controller number `host`; `None` if the number is too large.
pub(crate) fn place(host: u32) -> Option<(&'static Place, Timer)> {
    let host = usize::try_from(host).ok()?;
    Some((PLACES.get(host)?, *TIMERS.get(host)?))
}

/// Returns the state, stack and platform of an open controller, or an error code.
pub(crate) fn open(host: u32) -> Result<(&'static Place, &'static Stack, &'static mmcq_platform), i32> {
    let (place, _) = place(host).ok_or(MMCQ_E_ARGUMENT)?;
    match (place.stack(), place.platform()) {
        (Some(stack), Some(platform)) => Ok((place, stack, platform)),
        _ => Err(MMCQ_E_STATE),
    }
}

/// Brings up the card in the slot; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_bring_up` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_bring_up(host: u32, card: *mut mmcq_card) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    if !card.is_null() && !card.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    let scratch = match place.take_scratch(stack) {
        Ok(scratch) => scratch,
        Err(error) => return code::of_scratch(error),
    };
    place.dismiss_supervisor(stack, platform);
    stack.with(|_| place.begin_bring_up());
    // SAFETY: the supervisor has left, and this call took the scratch buffer.
    let (result, mut scratch) =
        unsafe { place.supervisor.run(stack, brought_up, (stack, scratch), platform) };
    if let Ok(found) = &result {
        // If the card does not report what else it supports, only reads and writes are enabled.
        // SAFETY: as above.
        (_, scratch) = unsafe { place.supervisor.run(stack, examined, (stack, scratch, *found), platform) };
        place.supervisor.begin(stack, *found, host);
    }
    stack.with(|_| place.set_card(result.ok()));
    // From here on another thread may bring up the card.
    place.return_scratch(stack, scratch);
    place.events(stack, platform);
    match result {
        Ok(found) => {
            if !card.is_null() {
                // SAFETY: not null, aligned, and the caller promises room for the structure.
                unsafe { card.write(described(stack, &found)) };
            }
            MMCQ_OK
        }
        Err(error) => code::of(Err(error)),
    }
}

fn described(stack: &'static Stack, found: &Card) -> mmcq_card {
    let geometry = BlockDevice::new(stack).geometry();
    mmcq_card {
        blocks: found.params.sectors,
        clock_hz: found.clock_hz,
        transfer_blocks: geometry.map_or(0, |geometry| geometry.transfer_blocks),
        align: geometry.map_or(0, |geometry| geometry.align),
        cid: found.cid,
        csd: found.csd,
        emmc: matches!(found.family, Family::Emmc(_)).into(),
        width: match found.width {
            Width::W1 => 1,
            Width::W4 => 4,
            Width::W8 => 8,
        },
        volatile_cache: geometry.is_some_and(|geometry| geometry.volatile_cache).into(),
        pieces: stack.with(|engine| engine.host().is_some_and(writes_lists)).into(),
        discard_blocks: geometry.map_or(0, |geometry| geometry.discard_blocks),
        zeroes: geometry.is_some_and(|geometry| geometry.zeros_by_erase).into(),
        read_only: geometry.is_some_and(|geometry| geometry.protected).into(),
        secure_erase: erases_securely(stack).into(),
        reserved: 0,
    }
}

/// Returns whether the card can erase blocks and all copies of them.
fn erases_securely(stack: &Stack) -> bool {
    let leave = Irreversible::i_know_that_this_cannot_be_undone();
    let can = |erase: &Erasing| erase.securing(0, erase.group_blocks, leave).is_some();
    stack.with(|engine| can(&engine.abilities().erase))
}

/// Does one step of a thread that waits for a request: continues the supervisor, calls the
/// callbacks of requests that have ended, and calls the platform's `wait`.
pub(crate) fn wait(place: &'static Place, stack: &'static Stack, platform: &mmcq_platform, idle: &Idle) {
    place.supervisor.go_on(stack);
    place.events(stack, platform);
    platform.wait(idle);
}

/// Executes `call`, and repeats it while it fails because no slot or DMA mapping is free, for at
/// most the platform's `patience_ms`. Returns 0, or the code of the last error.
pub(crate) fn patiently<E: Into<Failure>>(
    place: &'static Place,
    stack: &'static Stack,
    platform: &mmcq_platform,
    mut call: impl FnMut() -> Result<u32, E>,
) -> i32 {
    let until_ns = platform.now_ns().saturating_add(platform.patience_ns());
    loop {
        match call().map_err(Into::into) {
            Err(Failure::Engine(Error::Full | Error::Dma(DmaError::Exhausted)))
                if platform.now_ns() < until_ns =>
            {
                // Sleep once, and then poll again.
                let mut slept = false;
                let once = poll_fn(|_| match core::mem::replace(&mut slept, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                });
                stack.block_on(once, |idle| wait(place, stack, platform, idle));
            }
            result => {
                // Report requests of other calls that have ended in the last turn.
                place.events(stack, platform);
                return result.map_or_else(Failure::code, |_| MMCQ_OK);
            }
        }
    }
}

/// Transfers data with memory that is mapped before the lock is taken, and unmapped after the lock
/// was released. `call` returns its result, and whether a controller that cannot be stopped still
/// uses the memory; then the memory stays mapped.
pub(crate) fn mapped(
    place: &'static Place,
    stack: &'static Stack,
    platform: &mmcq_platform,
    memory: NonNull<[u8]>,
    direction: Direction,
    mut call: impl FnMut() -> (Result<u32, Failure>, bool),
) -> i32 {
    patiently(place, stack, platform, || {
        let start = memory.cast::<u8>();
        // Invalid memory is refused before it is mapped.
        let by_dma = alignment(stack, start, direction)?;
        mapped_once(place, stack, platform, memory, by_dma.then_some(direction), &mut call)
    })
}

/// Makes one try of [`mapped`], for memory whose alignment was checked. Without a direction, the
/// memory is not mapped.
pub(crate) fn mapped_once(
    place: &'static Place,
    stack: &'static Stack,
    platform: &mmcq_platform,
    memory: NonNull<[u8]>,
    direction: Option<Direction>,
    call: &mut impl FnMut() -> (Result<u32, Failure>, bool),
) -> Result<u32, Failure> {
    let ahead =
        direction.and_then(|direction| Mapping::new(platform, memory.cast(), memory.len(), direction));
    let Some(ahead) = ahead.transpose().map_err(Error::Dma)? else {
        let (result, is_kept) = call();
        if is_kept {
            stack.with(|_| place.ahead.note_kept(None));
            return Err(Failure::Code(MMCQ_E_MEMORY));
        }
        return result;
    };
    if let Err(error) = stack.with(|_| place.ahead.add(ahead)) {
        ahead.end(platform);
        // Memory of another call is free when that call has ended.
        return Err(if error == Error::Dead { error } else { Error::Full }.into());
    }
    let (result, is_kept) = call();
    if is_kept {
        stack.with(|_| place.ahead.note_kept(Some(&ahead)));
        return Err(Failure::Code(MMCQ_E_MEMORY));
    }
    stack.with(|_| place.ahead.remove(&ahead));
    ahead.end(platform);
    result
}

/// Returns whether memory at `start` has the alignment that the controller of `stack` needs for
/// data of this direction (see [`aligned`]). Takes the stack's lock for that.
pub(crate) fn alignment(stack: &Stack, start: NonNull<u8>, direction: Direction) -> Result<bool, Error> {
    stack.with(|engine| aligned(engine.caps(), engine.card_params().is_some(), start, direction))
}

/// Returns the length in bytes of memory for `blocks` blocks. `None` if `blocks` is 0, `memory` is
/// null, the length is too large for the engine, or the memory passes the end of the address space.
pub(crate) fn bytes(memory: *const u8, blocks: u32) -> Option<usize> {
    let bytes = usize::try_from(u64::from(blocks) * u64::from(BLOCK_BYTES)).ok()?;
    // The engine counts bytes in 32 bits, and a slice covers at most half the address space.
    let whole = bytes > 0 && isize::try_from(bytes).is_ok() && u32::try_from(bytes).is_ok();
    (whole && !memory.is_null() && memory.addr().checked_add(bytes).is_some()).then_some(bytes)
}

/// Reads blocks; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_read` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_read(host: u32, lba: u64, blocks: u32, memory: *mut u8) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Some(bytes) = bytes(memory, blocks) else { return MMCQ_E_ARGUMENT };
    // SAFETY: checked as far as possible, and the caller promises that nothing else uses the memory
    // until this call returns. Its old content is never read as a value.
    let memory = unsafe { core::slice::from_raw_parts_mut(memory, bytes) };
    let device = BlockDevice::new(stack);
    mapped(place, stack, platform, NonNull::from(&mut *memory), Direction::Read, || {
        let result = device.read_blocking(lba, memory, |idle| wait(place, stack, platform, idle));
        (result.map_err(Failure::Engine), false)
    })
}

/// Writes blocks; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_write` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_write(host: u32, lba: u64, blocks: u32, memory: *const u8) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_write`.
    unsafe { write(host, blocks, memory, |device, memory, idle| device.write_blocking(lba, memory, idle)) }
}

/// Writes `blocks` blocks from `memory` to the card of controller `host`, by the function `call`.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_write` in `mmcq.h`.
pub(crate) unsafe fn write(
    host: u32,
    blocks: u32,
    memory: *const u8,
    call: impl Fn(&Device, &[u8], &mut dyn FnMut(&Idle)) -> Result<u32, Error>,
) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Some(bytes) = bytes(memory, blocks) else { return MMCQ_E_ARGUMENT };
    // SAFETY: checked as far as possible, and the caller promises that the memory does not change
    // until this call returns.
    let memory = unsafe { core::slice::from_raw_parts(memory, bytes) };
    let device = BlockDevice::new(stack);
    mapped(place, stack, platform, NonNull::from(memory), Direction::Write, || {
        let result = call(&device, memory, &mut |idle| wait(place, stack, platform, idle));
        (result.map_err(Failure::Engine), false)
    })
}

/// Flushes the card's cache; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_flush(host: u32) -> i32 {
    match open(host) {
        Ok((place, stack, platform)) => {
            let device = BlockDevice::new(stack);
            patiently(place, stack, platform, || {
                device.flush_blocking(|idle| wait(place, stack, platform, idle)).map(|()| 0)
            })
        }
        Err(code) => code,
    }
}

/// Handles an interrupt of the controller; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_on_irq(host: u32) -> i32 {
    let Ok((place, stack, platform)) = open(host) else { return 0 };
    let found = stack.on_shared_irq();
    place.supervisor.go_on(stack);
    place.events(stack, platform);
    found.into()
}

/// Polls the stack; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_poll(host: u32) {
    if let Ok((place, stack, platform)) = open(host) {
        stack.poll();
        place.supervisor.go_on(stack);
        place.events(stack, platform);
    }
}

/// Returns the time of the next deadline in nanoseconds; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_next_deadline_ns(host: u32) -> u64 {
    let next = open(host).ok().and_then(|(_, stack, _)| stack.with(|engine| engine.next_deadline_ns()));
    next.unwrap_or(u64::MAX)
}

/// Returns 1 if a waiting thread may sleep now, 0 otherwise; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_may_sleep` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_may_sleep(idle: *const mmcq_idle) -> i32 {
    // SAFETY: the pointer is null, or the one that `wait` was given and may use until it returns;
    // the caller promises that.
    let idle = unsafe { idle.as_ref() };
    idle.is_some_and(|idle| idle.0.may_sleep()).into()
}

/// Returns the name of an error code; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_error_name(code: i32) -> *const c_char {
    code::name(code).as_ptr()
}
