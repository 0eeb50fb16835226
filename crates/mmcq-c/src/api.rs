//! The functions of the header.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::ahead::{Ahead, Mapping};
use crate::code::{self, Failure, MMCQ_E_ARGUMENT, MMCQ_E_STATE, MMCQ_OK};
use crate::dma::Room;
use crate::events::CardEvents;
use crate::held::Held;
use crate::platform::{Its, MMCQ_EMMC_18, mmcq_idle, mmcq_platform};
use crate::sizes::DESCRIPTORS;
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
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error};
use mmcq::host::sdhci::{self, Sdhci, TransferMode};
use mmcq::host::{Direction, DmaError, Width};
use mmcq::sched::Fifo;
use mmcq::task::{Idle, Timer};

pub(crate) type Driver = Sdhci<Its, Its, DESCRIPTORS>;
pub(crate) type Stack = mmcq::task::Stack<(Its, Driver), SLOTS>;
pub(crate) type Device = BlockDevice<'static, (Its, Driver), SLOTS>;

/// See the header.
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
    pub reserved: [u8; 2],
}

const CLOSED: u8 = 0;
const OPENING: u8 = 1;
const OPEN: u8 = 2;

/// State of one controller.
pub(crate) struct Place {
    state: AtomicU8,
    platform: UnsafeCell<MaybeUninit<mmcq_platform>>,
    stack: UnsafeCell<MaybeUninit<Stack>>,
    /// The memory that the controller reads and writes, unless the program supplies it.
    room: UnsafeCell<Room>,
    /// The scratch buffer; empty while a bring-up has it. Accessed under the stack's lock.
    scratch_buf: Cell<Option<DmaBuf>>,
    pub supervisor: Supervisor,
    pub ahead: Ahead,
    /// Submitted requests, for which no thread waits.
    pub waiting: Waiting,
    /// The card events that were reported to the program.
    events: CardEvents,
    /// The card that was brought up last; accessed under the stack's lock.
    card: Cell<Held<Card>>,
    /// How many times a bring-up has begun, or the controller was closed; accessed under the
    /// stack's lock.
    bring_ups: Cell<u32>,
}

// SAFETY: before `OPEN` only `mmcq_open` touches it, once at a time by its contract, and `close`
// has no call beside it. In between platform and stack are only shared, and the stack is `Sync` by
// its lock. The table belongs to the driver. The scratch buffer is moved in and out under the lock,
// as is everything of the supervisor.
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

    /// Calls the program back for what has happened outside of its calls: requests that have ended,
    /// cards that came or went.
    pub fn events(&'static self, stack: &'static Stack, platform: &mmcq_platform) {
        self.waiting.call_back(self, stack, platform);
        self.events.tell(stack, platform);
    }

    /// Drops what belonged to the card before. Called under the stack's lock.
    pub fn begin_bring_up(&self) {
        self.bring_ups.set(self.bring_ups.get().wrapping_add(1));
    }

    /// Returns how many times a bring-up has begun. Called under the stack's lock.
    ///
    /// Never 0, so that 0 can stand for "found by no bring-up".
    pub fn bring_ups(&self) -> u32 {
        self.bring_ups.get().wrapping_add(1).max(1)
    }

    /// Stores the card that was brought up. Called under the stack's lock.
    pub fn set_card(&self, card: Option<Card>) {
        self.card.set(card.into());
    }

    /// Takes the memory for registers of a card. `None`: another call has it.
    pub fn take_scratch(&self, stack: &Stack) -> Option<DmaBuf> {
        stack.with(|_| self.scratch_buf.take())
    }

    /// Returns that memory, so that another call may take it.
    pub fn return_scratch(&self, stack: &Stack, scratch: DmaBuf) {
        stack.with(|_| self.scratch_buf.set(Some(scratch)));
    }

    /// Returns the card in its present state: its address may have changed since bring-up.
    pub fn card(&self, stack: &Stack) -> Option<Card> {
        stack.with(|engine| {
            let card = self.card.get().into_option()?;
            Some(Card { params: *engine.card_params()?, ..card })
        })
    }

    /// Waits until the supervisor has left.
    pub fn dismiss_supervisor(&self, stack: &'static Stack, platform: &mmcq_platform) {
        let left = poll_fn(|_| if self.supervisor.leave(stack) { Poll::Pending } else { Poll::Ready(()) });
        stack.block_on(left, |idle| platform.wait(idle));
    }

    /// Closes the controller. The memory that it used is given up: it belongs to the library.
    ///
    /// # Safety
    /// No other call of this controller is in progress, and the supervisor has left.
    pub unsafe fn close(&self, platform: &mmcq_platform) {
        self.ahead.close(platform);
        self.state.store(CLOSED, Ordering::Release);
        self.card.set(Held::Nothing);
        self.begin_bring_up();
        self.scratch_buf.set(None);
        self.supervisor.scratch.set(None);
        // SAFETY: it was open, so the stack was written; by the caller's word nothing uses it.
        unsafe { (*self.stack.get()).assume_init_drop() };
    }

    fn platform(&self) -> Option<&'static mmcq_platform>
    where
        Self: 'static,
    {
        if self.state.load(Ordering::Acquire) == CLOSED {
            return None;
        }
        // SAFETY: written before the state said so, and not again before a close, after which no
        // call has it.
        Some(unsafe { &*self.platform.get().cast() })
    }

    fn stack(&self) -> Option<&'static Stack>
    where
        Self: 'static,
    {
        if self.state.load(Ordering::Acquire) != OPEN {
            return None;
        }
        // SAFETY: written before the state said so, and not again before a close, after which no
        // call has it.
        Some(unsafe { &*self.stack.get().cast() })
    }
}

/// Returns the supervisor of controller number `host`.
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

/// One timer for each possible host.
const TIMERS: [Timer; 8] = {
    macro_rules! timers {
        ($($host:literal)*) => {
            [$(Timer { now_ns: now_ns::<$host>, set_alarm: set_alarm::<$host> }),*]
        };
    }
    timers!(0 1 2 3 4 5 6 7)
};

fn place(host: u32) -> Option<(&'static Place, Timer)> {
    let host = usize::try_from(host).ok()?;
    Some((PLACES.get(host)?, *TIMERS.get(host)?))
}

/// Returns the stack of an open controller, or an error code.
pub(crate) fn open(host: u32) -> Result<(&'static Place, &'static Stack, &'static mmcq_platform), i32> {
    let (place, _) = place(host).ok_or(MMCQ_E_ARGUMENT)?;
    match (place.stack(), place.platform()) {
        (Some(stack), Some(platform)) => Ok((place, stack, platform)),
        _ => Err(MMCQ_E_STATE),
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_open(host: u32, platform: *const mmcq_platform) -> i32 {
    let Some((place, timer)) = place(host) else { return MMCQ_E_ARGUMENT };
    if platform.is_null() || !platform.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    // SAFETY: not null, aligned, and the caller promised a whole structure.
    let platform = unsafe { platform.read() };
    let (true, Some(quirks)) = (platform.is_complete(), platform.quirks()) else { return MMCQ_E_ARGUMENT };
    if platform.flags & !MMCQ_EMMC_18 != 0 {
        return MMCQ_E_ARGUMENT;
    }
    if place.state.load(Ordering::Acquire) != CLOSED {
        return MMCQ_E_STATE;
    }
    // SAFETY: closed, so no other call reads it; the caller promised not to open twice at once.
    unsafe { (*place.platform.get()).write(platform) };
    place.state.store(OPENING, Ordering::Release);
    let Some(its) = place.platform().map(|platform| Its(platform, &place.ahead)) else { return MMCQ_E_STATE };
    let room = platform.dma_room().map_or(place.room.get(), NonNull::as_ptr);
    // SAFETY: the library's own, or large enough and aligned, and the program's promise that it is
    // the library's until the close. Any content will do. Only an open driver has it, and there is
    // none.
    let room = unsafe { &mut *room };
    let mut config = if platform.flags & MMCQ_EMMC_18 != 0 {
        sdhci::SdhciConfig::emmc_18()
    } else {
        sdhci::SdhciConfig::new()
    };
    config.quirks = config.quirks.with(quirks);
    place.ahead.set_opening(true);
    let driver = Sdhci::new(its, its, &mut room.table, config);
    place.ahead.set_opening(false);
    let driver = match driver {
        Ok(driver) => driver,
        Err(error) => {
            place.state.store(CLOSED, Ordering::Release);
            return code::of_init(error);
        }
    };
    // Given out once: a close gives up the one before, with the stack that may have had it.
    place.scratch_buf.set(Some(DmaBuf::from_static(&mut room.scratch.0)));
    place.supervisor.scratch.set(Some(DmaBuf::from_static(&mut room.supervisor_scratch.0)));
    place.events.begin();
    // SAFETY: no call reads it before the state is `OPEN`.
    let stack = unsafe { &mut *place.stack.get() };
    Stack::write_to(stack, its, timer, driver, platform.config(), Fifo);
    place.state.store(OPEN, Ordering::Release);
    MMCQ_OK
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_bring_up(host: u32, card: *mut mmcq_card) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    if !card.is_null() && !card.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    let Some(scratch) = place.take_scratch(stack) else { return MMCQ_E_STATE };
    place.dismiss_supervisor(stack, platform);
    stack.with(|_| place.begin_bring_up());
    // SAFETY: the supervisor has left, and this call took the scratch buffer.
    let (result, mut scratch) =
        unsafe { place.supervisor.run(stack, brought_up, (stack, scratch), platform) };
    if let Ok(found) = &result {
        // A card that does not say what else it can has nothing else.
        // SAFETY: as above.
        (_, scratch) = unsafe { place.supervisor.run(stack, examined, (stack, scratch, *found), platform) };
        place.supervisor.begin(stack, *found, host);
    }
    stack.with(|_| place.set_card(result.ok()));
    // Only now may another thread bring up.
    place.return_scratch(stack, scratch);
    place.events(stack, platform);
    match result {
        Ok(found) => {
            if !card.is_null() {
                // SAFETY: not null, aligned, and the caller promised room for it.
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
        pieces: writes_lists(stack).into(),
        discard_blocks: geometry.map_or(0, |geometry| geometry.discard_blocks),
        zeroes: geometry.is_some_and(|geometry| geometry.zeros_by_erase).into(),
        read_only: geometry.is_some_and(|geometry| geometry.protected).into(),
        reserved: [0; 2],
    }
}

/// Returns whether the memory of a request may be in several segments.
fn writes_lists(stack: &Stack) -> bool {
    stack.with(|engine| engine.host().is_some_and(|driver| driver.transfer_mode() == TransferMode::Adma2))
}

/// Waits, in a thread, for a request to end.
pub(crate) fn wait(place: &'static Place, stack: &'static Stack, platform: &mmcq_platform, idle: &Idle) {
    place.supervisor.go_on(stack);
    place.events(stack, platform);
    platform.wait(idle);
}

/// Repeats a call while there is no free slot or mapping, at most as long as the platform allows.
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
                // A sleep and a turn.
                let mut slept = false;
                let once = poll_fn(|_| match core::mem::replace(&mut slept, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                });
                stack.block_on(once, |idle| wait(place, stack, platform, idle));
            }
            result => {
                // What has ended beside it in its last turn.
                place.events(stack, platform);
                return result.map_or_else(Failure::code, |_| MMCQ_OK);
            }
        }
    }
}

/// Transfers data with memory that is mapped before the lock is taken, and unmapped after it was
/// released. `call` returns with its result whether a controller that cannot be stopped still uses
/// the memory: then it stays mapped.
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
        // What is refused is refused before it is mapped.
        let by_dma = alignment(stack, start, direction)?;
        mapped_once(place, stack, platform, memory, by_dma.then_some(direction), &mut call)
    })
}

/// Makes one try of [`mapped`], for memory whose alignment has been checked. Without a direction
/// nothing is mapped.
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
    let Some(ahead) = ahead.transpose().map_err(Error::Dma)? else { return call().0 };
    let kept = stack.with(|_| place.ahead.add(ahead));
    if !kept {
        ahead.end(platform);
        return Err(Error::Full.into());
    }
    let (result, still_there) = call();
    stack.with(|_| place.ahead.remove(&ahead));
    if !still_there {
        ahead.end(platform);
    }
    result
}

/// Returns whether this memory has to be mapped: memory that the CPU transfers must not be
/// invalidated. An error: the controller cannot use it.
pub(crate) fn alignment(stack: &Stack, start: NonNull<u8>, direction: Direction) -> Result<bool, Error> {
    let (by_dma, align) = stack.with(|engine| {
        let caps = engine.caps();
        (caps.dma_bits != 0, if engine.card_params().is_some() { caps.align } else { 1 })
    });
    // A write's lines are only cleaned: the controller's own alignment is enough.
    let align = if direction == Direction::Read { align } else { align.min(4) };
    if !start.addr().get().is_multiple_of(align as usize) {
        return Err(Error::Dma(DmaError::Alignment));
    }
    Ok(by_dma)
}

/// Returns the length of memory in bytes, or `None` if it cannot be used.
pub(crate) fn bytes(memory: *const u8, blocks: u32) -> Option<usize> {
    let bytes = usize::try_from(u64::from(blocks) * u64::from(BLOCK_BYTES)).ok()?;
    // The engine counts bytes in 32 bits, and a slice has half the address space at most.
    let whole = bytes > 0 && isize::try_from(bytes).is_ok() && u32::try_from(bytes).is_ok();
    (whole && !memory.is_null() && memory.addr().checked_add(bytes).is_some()).then_some(bytes)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_read(host: u32, lba: u64, blocks: u32, memory: *mut u8) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Some(bytes) = bytes(memory, blocks) else { return MMCQ_E_ARGUMENT };
    // SAFETY: checked as far as can be, and the caller promised that it is its own until we return.
    // What is in it is never read as a value.
    let memory = unsafe { core::slice::from_raw_parts_mut(memory, bytes) };
    let device = BlockDevice::new(stack);
    mapped(place, stack, platform, NonNull::from(&mut *memory), Direction::Read, || {
        let result = device.read_blocking(lba, memory, |idle| wait(place, stack, platform, idle));
        (result.map_err(Failure::Engine), false)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_write(host: u32, lba: u64, blocks: u32, memory: *const u8) -> i32 {
    // SAFETY: as the caller promised.
    unsafe { write(host, blocks, memory, |device, memory, idle| device.write_blocking(lba, memory, idle)) }
}

/// Writes by `call`.
///
/// # Safety
/// As the header says of `mmcq_write`.
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
    // SAFETY: checked as far as can be, and the caller promised that it does not change until we
    // return.
    let memory = unsafe { core::slice::from_raw_parts(memory, bytes) };
    let device = BlockDevice::new(stack);
    mapped(place, stack, platform, NonNull::from(memory), Direction::Write, || {
        let result = call(&device, memory, &mut |idle| wait(place, stack, platform, idle));
        (result.map_err(Failure::Engine), false)
    })
}

/// See the header.
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

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_on_irq(host: u32) -> i32 {
    let Ok((place, stack, platform)) = open(host) else { return 0 };
    let found = stack.on_shared_irq();
    place.supervisor.go_on(stack);
    place.events(stack, platform);
    found.into()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_poll(host: u32) {
    if let Ok((place, stack, platform)) = open(host) {
        stack.poll();
        place.supervisor.go_on(stack);
        place.events(stack, platform);
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_next_deadline_ns(host: u32) -> u64 {
    let next = open(host).ok().and_then(|(_, stack, _)| stack.with(|engine| engine.next_deadline_ns()));
    next.unwrap_or(u64::MAX)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_may_sleep(idle: *const mmcq_idle) -> i32 {
    // SAFETY: null, or what `wait` was given and may use until it returns, as the caller promised.
    let idle = unsafe { idle.as_ref() };
    idle.is_some_and(|idle| idle.0.may_sleep()).into()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_error_name(code: i32) -> *const c_char {
    code::name(code).as_ptr()
}
