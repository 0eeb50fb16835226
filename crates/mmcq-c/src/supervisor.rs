//! The supervisor ([`mmcq::card::supervise`]) in a program without an executor. Each controller has
//! its future in static memory, which the program's calls of the library poll.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{HOSTS, Stack, supervisor};
use crate::platform::mmcq_platform;
use crate::room::{Begin, Room, bytes_of, larger};
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use mmcq::card::power::{Off, power_off};
use mmcq::card::{Card, Event, Options, Upkeep, bring_up, enable_extended_ops, supervise};
use mmcq::engine::{DmaBuf, Error};
use mmcq::task::Idle;

/// Options of the supervisor. A card that is inserted counts as another card until the program has
/// brought it up, because until then the program uses the size of the earlier card.
const OPTIONS: Options = Options::DEFAULT.upkeep(&Upkeep::DEFAULT.same_card(true));
/// Largest number of times that one call polls the supervisor's future; the next call continues.
const STEPS_MAX: u32 = 8;

// The futures that run in the supervisor's room. None of them contains another one, since the
// compiler would make the inner future on the stack, with all its bytes, and then copy it.

fn supervised(
    (stack, scratch, card): (&'static Stack, DmaBuf, Card),
) -> impl Future<Output = (Event, DmaBuf)> + Send {
    supervise(stack, scratch, OPTIONS, card)
}

/// Brings up the card in the slot. The future uses the buffer `scratch` for the card's registers
/// (such as EXT_CSD), and returns this buffer with the result.
pub(crate) fn brought_up(
    (stack, scratch): (&'static Stack, DmaBuf),
) -> impl Future<Output = (Result<Card, Error>, DmaBuf)> + Send {
    bring_up(stack, scratch, Options::DEFAULT)
}

/// Reads which operations the card supports in addition to reads and writes, and enables these
/// operations. The future uses the buffer `scratch` for the card's registers, and returns this
/// buffer with the result.
pub(crate) async fn examined(
    (stack, scratch, card): (&'static Stack, DmaBuf, Card),
) -> (Result<(), Error>, DmaBuf) {
    enable_extended_ops(stack, &card, scratch).await
}

/// Switches the card off, with a power-off notification. The future uses the buffer `scratch` for
/// the card's registers, and returns this buffer with the result.
pub(crate) async fn switched_off(
    (stack, scratch, card): (&'static Stack, DmaBuf, Card),
) -> (Result<(), Error>, DmaBuf) {
    power_off(stack, &card, scratch, Off::Short).await
}

/// Size in bytes of the memory for the supervisor's future: that of the largest future which it
/// must hold.
const ROOM_BYTES: usize = larger(
    larger(bytes_of(&(supervised as Begin<_, _>)), bytes_of(&(brought_up as Begin<_, _>))),
    larger(bytes_of(&(examined as Begin<_, _>)), bytes_of(&(switched_off as Begin<_, _>))),
);

/// Whether a controller has a supervisor's future, and whether a call polls it. `Away` is 0, so
/// that a static with this state is in `.bss`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The controller has no supervisor's future.
    Away = 0,
    /// The controller has a supervisor's future, and no call polls it now.
    There,
    /// A call is polling the future at this moment.
    Polled,
}

/// The supervisor of one controller: the future of [`supervise`], which watches the card in the
/// controller's slot, and the state that is needed to poll this future.
///
/// Who may access the fields:
/// - `room` (the memory of the future): the call that has set [`State::Polled`]. While no
///   supervisor runs, `room` is empty, and only the thread that brings up a card accesses it.
/// - `called`: every context, since it is atomic.
/// - All other fields: only a context that holds the lock of the controller's stack.
pub(crate) struct Supervisor {
    room: Room<ROOM_BYTES>,
    state: Cell<State>,
    host: Cell<usize>,
    /// Whether the future must be polled: its waker was called, or it has just begun.
    called: AtomicBool,
    /// Memory for register data (such as EXT_CSD) that the supervisor's future uses. `None` while
    /// the future has it.
    pub scratch: Cell<Option<DmaBuf>>,
}

impl Supervisor {
    pub const fn new() -> Self {
        Supervisor {
            room: Room::new(),
            state: Cell::new(State::Away),
            host: Cell::new(0),
            called: AtomicBool::new(false),
            scratch: Cell::new(None),
        }
    }

    /// Begins to supervise this card of controller number `host`, unless a card is supervised
    /// already. Called by the thread that brought the card up, while no other thread may bring up a
    /// card.
    pub fn begin(&self, stack: &'static Stack, card: Card, host: u32) {
        let Ok(host) = usize::try_from(host) else { return };
        if stack.with(|_| self.state.get() != State::Away) {
            return;
        }
        let Some(scratch) = stack.with(|_| self.scratch.take()) else { return };
        // SAFETY: the room is empty, and no other thread brings up a card now.
        unsafe { self.begin_here(stack, scratch, card) };
        self.called.store(true, Ordering::Release);
        stack.with(|_| {
            self.host.set(host);
            self.state.set(State::There);
        });
        self.go_on(stack);
    }

    /// Begins a supervisor in the memory `room`. This is a function of its own, so that its stack
    /// frame exists only during this call.
    ///
    /// # Safety
    /// The room is empty, and no other context uses it.
    #[inline(never)]
    unsafe fn begin_here(&self, stack: &'static Stack, scratch: DmaBuf, card: Card) {
        // SAFETY: the caller's promise.
        unsafe { self.room.begin(supervised, (stack, scratch, card)) };
    }

    /// Runs another future to its end in the memory that the supervisor's future used.
    ///
    /// # Safety
    /// The caller has the controller's scratch buffer, and the supervisor has ended.
    #[inline(never)]
    pub unsafe fn run<A, F: Future + Send>(
        &self,
        stack: &Stack,
        begin: Begin<A, F>,
        with: A,
        platform: &mmcq_platform,
    ) -> F::Output {
        // SAFETY: without a supervisor the room is empty, and only the caller uses it.
        unsafe { self.room.begin(begin, with) };
        // SAFETY: this very function began the future, and the room is a static's.
        let ended = poll_fn(|context| unsafe { self.room.poll(begin, context) });
        stack.block_on(ended, |idle| platform.wait(idle))
    }

    /// Requests the supervisor to end. Returns true while it is still working.
    pub fn leave(&self, stack: &'static Stack) -> bool {
        if stack.with(|engine| self.state.get() == State::There && engine.dismiss_supervisor()) {
            self.called.store(true, Ordering::Release);
        }
        self.go_on(stack);
        stack.with(|_| self.state.get() != State::Away)
    }

    /// Polls the supervisor if its waker was called and no other call polls it.
    pub fn go_on(&self, stack: &'static Stack) {
        for _ in 0..STEPS_MAX {
            // In nearly every call nothing has woken the supervisor, which can be seen without the
            // lock. A wake-up that comes later is noticed by the next call of this function.
            if !self.called.load(Ordering::Acquire) {
                return;
            }
            let host = stack.with(|_| {
                let mine = self.state.get() == State::There && self.called.load(Ordering::Acquire);
                if mine {
                    self.state.set(State::Polled);
                    // A wake-up from here on is noticed after this poll.
                    self.called.store(false, Ordering::Release);
                }
                mine.then(|| self.host.get())
            });
            let Some(host) = host else { return };
            let waker = waker(host);
            // SAFETY: the room has a future. This call has set `Polled`, so only this call uses it,
            // and it is never moved.
            let polled = unsafe { self.room.poll(supervised, &mut Context::from_waker(&waker)) };
            let (state, ended) = match polled {
                Poll::Pending => (State::There, false),
                Poll::Ready((Event::Exception { card, .. }, scratch)) => {
                    // SAFETY: the room is empty now, and still only this call uses it.
                    unsafe { self.begin_here(stack, scratch, card) };
                    self.called.store(true, Ordering::Release);
                    (State::There, false)
                }
                Poll::Ready((_, scratch)) => {
                    stack.with(|_| self.scratch.set(Some(scratch)));
                    (State::Away, true)
                }
            };
            stack.with(|_| self.state.set(state));
            if ended {
                // A thread that waits for the end of the supervisor may sleep, so wake it.
                Idle::waker().wake_by_ref();
            }
        }
    }
}

/// A byte for each controller, whose address identifies the controller in a waker.
static NAMES: [u8; HOSTS] = [0; HOSTS];

fn waker(host: usize) -> Waker {
    let data =
        NAMES.get(host).map_or(core::ptr::null(), |name| NonNull::from(name).as_ptr().cast_const().cast());
    // SAFETY: the functions below fulfil the contract of a waker; there is nothing to count or to
    // free.
    unsafe { Waker::from_raw(RawWaker::new(data, &VTABLE)) }
}

const VTABLE: RawWakerVTable = RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), call, call, |_| {});

fn call(data: *const ()) {
    let host = NAMES.iter().position(|name| core::ptr::eq(name, data.cast()));
    if let Some(supervisor) = host.and_then(supervisor) {
        supervisor.called.store(true, Ordering::Release);
        // Wake a waiting thread, which polls the supervisor if no other context does.
        Idle::waker().wake_by_ref();
    }
}
