//! The supervisor ([`mmcq::card::supervise`]) in a program without an executor: a future in static
//! memory for each controller. The program's calls of the library poll it.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{HOSTS, Stack, supervisor};
use crate::room::{Begin, Room, bytes_of};
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, RawWaker, RawWakerVTable, Waker};
use mmcq::card::{Card, Event, Options, Upkeep, supervise};
use mmcq::engine::DmaBuf;
use mmcq::task::Idle;

/// Options of the supervisor. A card that comes counts as another until the program has brought it
/// up and compared it: the program knows the one before by its size.
const OPTIONS: Options = Options::DEFAULT.upkeep(&Upkeep::DEFAULT.same_card(true));
/// Most steps in one call; the rest is done by the next.
const STEPS_MAX: u32 = 8;

/// Keeps the card working until it is gone, or the program wants to bring it up again.
async fn kept((stack, mut scratch, mut card, host): (&'static Stack, DmaBuf, Card, usize)) {
    loop {
        let (event, back) = supervise(stack, scratch, OPTIONS, card).await;
        scratch = back;
        match event {
            Event::Exception { card: now, .. } => card = now,
            _ => break,
        }
    }
    if let Some(supervisor) = supervisor(host) {
        stack.with(|_| supervisor.scratch.set(Some(scratch)));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is no future.
    Away,
    /// There is a future, and no call polls it.
    There,
    /// A call polls the future.
    Polled,
}

/// The supervisor of one controller. All but `called` is accessed only with the lock of its stack
/// held. The room is accessed by the call that has set [`State::Polled`], or by the one bring-up
/// that finds it empty.
pub(crate) struct Supervisor {
    room: Room<{ bytes_of(&(kept as Begin<_, _>)) }>,
    state: Cell<State>,
    host: Cell<usize>,
    /// Whether its waker was called.
    called: AtomicBool,
    /// Its memory for registers, while its future does not have it.
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

    /// Begins to keep this card, unless one is kept already. Called by the thread that brought it
    /// up, while no other thread may.
    pub fn begin(&self, stack: &'static Stack, card: Card, host: u32) {
        let Ok(host) = usize::try_from(host) else { return };
        if stack.with(|_| self.state.get() != State::Away) {
            return;
        }
        let Some(scratch) = stack.with(|_| self.scratch.take()) else { return };
        // SAFETY: the room is empty, and no other thread brings up now.
        unsafe { self.room.begin(kept, (stack, scratch, card, host)) };
        self.called.store(true, Ordering::Release);
        stack.with(|_| {
            self.host.set(host);
            self.state.set(State::There);
        });
        self.go_on(stack);
    }

    /// Requests the supervisor to end. Returns true if it is still working.
    pub fn leave(&self, stack: &'static Stack) -> bool {
        if stack.with(|engine| self.state.get() == State::There && engine.dismiss_supervisor()) {
            self.called.store(true, Ordering::Release);
        }
        self.go_on(stack);
        stack.with(|_| self.state.get() != State::Away)
    }

    /// Polls the supervisor if it was woken and no other call does.
    pub fn go_on(&self, stack: &'static Stack) {
        for _ in 0..STEPS_MAX {
            // Nearly every call: nothing has woken it, which needs no lock to be known. What wakes
            // it later has a call of its own.
            if !self.called.load(Ordering::Acquire) {
                return;
            }
            let host = stack.with(|_| {
                let mine = self.state.get() == State::There && self.called.load(Ordering::Acquire);
                if mine {
                    self.state.set(State::Polled);
                    // A wake-up from now on is heard after this poll.
                    self.called.store(false, Ordering::Release);
                }
                mine.then(|| self.host.get())
            });
            let Some(host) = host else { return };
            let waker = waker(host);
            // SAFETY: there is a future in the room; since we set `Polled` it is ours, and it is
            // never moved.
            let ended = unsafe { self.room.poll(kept, &mut Context::from_waker(&waker)) }.is_ready();
            stack.with(|_| self.state.set(if ended { State::Away } else { State::There }));
            if ended {
                // A thread may sleep until the supervisor has left.
                Idle::waker().wake_by_ref();
            }
        }
    }
}

/// One byte for each controller: a pointer to it identifies the controller.
static NAMES: [u8; HOSTS] = [0; HOSTS];

fn waker(host: usize) -> Waker {
    let data =
        NAMES.get(host).map_or(core::ptr::null(), |name| NonNull::from(name).as_ptr().cast_const().cast());
    // SAFETY: the functions below keep to the contract of a waker; there is nothing to count or
    // free.
    unsafe { Waker::from_raw(RawWaker::new(data, &VTABLE)) }
}

const VTABLE: RawWakerVTable = RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), call, call, |_| {});

fn call(data: *const ()) {
    let host = NAMES.iter().position(|name| core::ptr::eq(name, data.cast()));
    if let Some(supervisor) = host.and_then(supervisor) {
        supervisor.called.store(true, Ordering::Release);
        // A thread that waits moves the supervisor, if no other context does.
        Idle::waker().wake_by_ref();
    }
}
