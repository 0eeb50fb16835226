//! The transfer or request in progress: its stage, and its result so far.

use super::busy::Busy;
use super::concurrent::Concurrent;
use super::early::Early;
use super::fast_limits::FastLimits;
use super::phases::Stage;
use super::runs::Streams;
use super::slot::NONE;
use crate::sched::Lanes;
use crate::sched::chains::Chains;
use crate::sched::packs::Packs;
use crate::sched::tasks::{Hosted, Tasks};

/// Whether the transfer or request in progress has failed, and recovery has not handled that yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Nothing,
    /// A failure with an error. The error is stored in the incident, the state of the recovery.
    Error,
    /// The deadline has passed, and the controller has not reported the end of the command or its
    /// data.
    Silence,
}

/// The transfer or request in progress.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Lane<E, T> {
    stage: Stage,
    /// Slot of the request in progress that is no plain read or write of blocks, such as a flush
    /// (also that of a durable write), a single command (raw), a change of the bus or a pause.
    /// [`NONE`]: there is none.
    control: u8,
    /// Whether the engine has already passed the bus operation in progress (such as a change of the
    /// clock) to the host driver. False while the card still needs clocks before the operation.
    bus_given: bool,
    /// Whether something has happened that the loop (`turn.rs`) has not handled yet: the bus may be
    /// free, or the transfer has failed.
    news: bool,
    /// A failure that recovery has not handled yet.
    failure: Failure,
    /// When the present busy of the card began, how often the card was polled, and what was learned
    /// about busy times.
    busy: Busy,
    /// The transfer that is kept open on the card for a following request, and what is known about
    /// sequences of consecutive requests.
    streams: Streams,
    /// Limits of size within which a transfer may take the fast path.
    fast_limits: FastLimits,
    /// The command on the CMD line during data.
    concurrent: Concurrent<E>,
    /// Error bits of R1 that the engine has already handled before the end of the transfer in
    /// progress, so that it does not handle them twice.
    early: Early,
    /// State of the additional ways to send transfers: the card's command queue, packed commands
    /// and chains, as far as the profile has them.
    tasks: T,
}

impl<E, T: Lanes> Lane<E, T> {
    pub const fn idle() -> Self {
        Lane {
            stage: Stage::Idle,
            control: NONE,
            bus_given: true,
            news: false,
            failure: Failure::Nothing,
            busy: Busy::new(),
            streams: Streams::new(),
            fast_limits: FastLimits::NONE,
            concurrent: Concurrent::NONE,
            early: Early::NONE,
            tasks: T::NEW,
        }
    }

    /// Returns the state of the card's queue; `None`: the profile does not use a card's queue.
    #[inline(always)]
    pub fn tasks(&self) -> Option<&Tasks> {
        self.tasks.get()
    }

    #[inline(always)]
    pub fn tasks_mut(&mut self) -> Option<&mut Tasks> {
        self.tasks.get_mut()
    }

    /// Returns the state of the controller's command queue engine; `None`: the profile does not use
    /// it.
    #[inline(always)]
    pub fn hosted(&self) -> Option<&Hosted> {
        self.tasks.hosted()
    }

    #[inline(always)]
    pub fn hosted_mut(&mut self) -> Option<&mut Hosted> {
        self.tasks.hosted_mut()
    }

    /// Returns the state of packed commands; `None`: the profile sends no packed commands.
    #[inline(always)]
    pub fn packs(&self) -> Option<&Packs> {
        self.tasks.packs()
    }

    #[inline(always)]
    pub fn packs_mut(&mut self) -> Option<&mut Packs> {
        self.tasks.packs_mut()
    }

    /// Returns the state of chains (lists of transfers that the controller executes); `None`: the
    /// profile sends none.
    #[inline(always)]
    pub fn chains(&self) -> Option<&Chains> {
        self.tasks.chains()
    }

    #[inline(always)]
    pub fn chains_mut(&mut self) -> Option<&mut Chains> {
        self.tasks.chains_mut()
    }

    #[inline(always)]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    #[inline(always)]
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    #[inline(always)]
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// Notes that nothing is in progress any more: the bus is free.
    #[inline(always)]
    pub fn set_idle(&mut self) {
        self.enter(Stage::Idle);
        self.note_free();
    }

    /// Notes that the bus may be free: the engine's loop then checks which request can start next.
    #[inline(always)]
    pub fn note_free(&mut self) {
        self.news = true;
    }

    /// Notes that the transfer or request in progress has failed. The engine passes the failure to
    /// recovery later, outside of this call. Only the first failure is stored: returns true if this
    /// is the first.
    #[inline(always)]
    pub fn note_failure(&mut self, failure: Failure) -> bool {
        self.news = true;
        let first = !self.has_failed();
        if first {
            self.failure = failure;
        }
        first
    }

    /// Returns the failure that recovery has not handled yet, and clears it.
    #[inline(always)]
    pub fn take_failure(&mut self) -> Failure {
        core::mem::replace(&mut self.failure, Failure::Nothing)
    }

    /// Returns whether the transfer or request in progress has failed, and recovery has not handled
    /// that yet.
    #[inline(always)]
    pub fn has_failed(&self) -> bool {
        self.failure != Failure::Nothing
    }

    /// Returns whether the bus has perhaps become free, or something has failed, since the engine's
    /// main loop handled this last.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        self.news
    }

    /// Returns whether something has happened that the loop (`turn.rs`) has not handled yet, and
    /// clears this flag.
    #[inline(always)]
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// Returns the slot of the control request (a request that is neither a read nor a write) in
    /// progress; [`NONE`] if there is none.
    #[inline(always)]
    pub fn control(&self) -> u8 {
        self.control
    }

    #[inline(always)]
    pub fn has_control(&self) -> bool {
        self.control != NONE
    }

    /// Records that the request in slot `index`, which is neither a read nor a write (a control
    /// request), is sent to the controller.
    #[inline(always)]
    pub fn set_control(&mut self, index: u8) {
        self.control = index;
    }

    /// Notes that the request in progress that is neither a read nor a write (a control request)
    /// has ended.
    #[inline(always)]
    pub fn release_control(&mut self) {
        self.control = NONE;
    }

    /// Takes the slot of the request in progress that is neither a read nor a write; [`NONE`] if
    /// there was none.
    #[inline(always)]
    pub fn take_control(&mut self) -> u8 {
        core::mem::replace(&mut self.control, NONE)
    }

    /// Notes that a bus operation begins. `at_once`: the engine passes the operation to the host
    /// driver now; otherwise it does so after the clocks that the card still needs.
    #[inline(always)]
    pub fn give_bus(&mut self, at_once: bool) {
        self.bus_given = at_once;
    }

    /// Records that the driver is called for the present bus operation. Returns true if the driver
    /// was already called for the same operation.
    #[inline(always)]
    pub fn take_bus(&mut self) -> bool {
        core::mem::replace(&mut self.bus_given, true)
    }

    #[inline(always)]
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    #[inline(always)]
    pub fn streams_mut(&mut self) -> &mut Streams {
        &mut self.streams
    }

    #[inline(always)]
    pub fn fast_limits(&self) -> &FastLimits {
        &self.fast_limits
    }

    #[inline(always)]
    pub fn fast_limits_mut(&mut self) -> &mut FastLimits {
        &mut self.fast_limits
    }

    #[inline(always)]
    pub fn concurrent(&self) -> &Concurrent<E> {
        &self.concurrent
    }

    #[inline(always)]
    pub fn concurrent_mut(&mut self) -> &mut Concurrent<E> {
        &mut self.concurrent
    }

    #[inline(always)]
    pub fn early_mut(&mut self) -> &mut Early {
        &mut self.early
    }

    #[inline(always)]
    pub fn busy(&self) -> &Busy {
        &self.busy
    }

    #[inline(always)]
    pub fn busy_mut(&mut self) -> &mut Busy {
        &mut self.busy
    }
}
