//! Calls that wait on the caller's own thread.

use super::call::{Call, Job};
use super::link::at_once;
use super::{DirectCard, Families};
use crate::card::Options;
use crate::card::found::Brief;
use crate::engine::{BLOCK_BYTES, CardParams, Completion, DmaBuf, Error};
use crate::task::{Idle, Platform};

/// Blocking calls of a [`DirectCard`]. Each waits on the caller's thread.
///
/// Firmware with blocking calls alone is smaller than with futures: the compiler makes plain code
/// of bring-up and of the calls.
pub struct Blocking<'a, B: Platform, F, W> {
    pub(super) direct: &'a DirectCard<B, F>,
    idle: W,
}

impl<B: Platform, F> DirectCard<B, F> {
    /// Returns the blocking calls. While a call waits for the card, it runs `idle`, which sleeps,
    /// yields or does nothing, by the rules of [`Idle`]. Each call also drives the card, so no
    /// interrupt is needed.
    pub const fn blocking<W: Fn(&Idle)>(&self, idle: W) -> Blocking<'_, B, F, W> {
        Blocking { direct: self, idle }
    }
}

impl<B: Platform, F, W: Fn(&Idle)> Blocking<'_, B, F, W> {
    /// Waits for the end of the exchange.
    #[inline(never)]
    pub(super) fn finish(&self) -> Completion {
        let idle = Idle::new();
        // The waker of an earlier call is dropped outside of the lock.
        let mut waker = Some(Idle::waker().clone());
        self.direct.enter((), |state| core::mem::swap(&mut waker, &mut state.machine.waker));
        let mut done = None;
        loop {
            idle.look();
            self.direct.advance(Some(&mut done));
            if let Some(done) = done {
                return done;
            }
            (self.idle)(&idle);
        }
    }
}

impl<B: Platform, F: Families<Found = Brief>, W: Fn(&Idle)> Blocking<'_, B, F, W> {
    /// Initialises the card like [`DirectCard::bring_up`].
    ///
    /// # Errors
    /// As [`DirectCard::bring_up`].
    pub fn bring_up(&self, options: Options) -> Result<CardParams, Error> {
        self.direct.set_options(options);
        self.call(Job::BringUp, 0, 0, DmaBuf::EMPTY).0?;
        self.direct.card().ok_or(Error::NoCard)
    }

    /// Reads blocks like [`DirectCard::read`].
    ///
    /// # Errors
    /// As [`DirectCard::read`].
    pub fn read(&self, lba: u64, buf: DmaBuf) -> (Result<(), Error>, DmaBuf) {
        self.call(Job::Read, lba, buf.len_bytes() / BLOCK_BYTES, buf)
    }

    /// Writes blocks like [`DirectCard::write`].
    ///
    /// # Errors
    /// As [`DirectCard::write`].
    pub fn write(&self, lba: u64, buf: DmaBuf) -> (Result<(), Error>, DmaBuf) {
        self.call(Job::Write, lba, buf.len_bytes() / BLOCK_BYTES, buf)
    }

    /// Makes all earlier writes durable, like [`DirectCard::flush`].
    ///
    /// # Errors
    /// As [`DirectCard::flush`].
    pub fn flush(&self) -> Result<(), Error> {
        self.call(Job::Flush, 0, 0, DmaBuf::EMPTY).0
    }

    /// Erases blocks like [`DirectCard::erase`].
    ///
    /// # Errors
    /// As [`DirectCard::erase`].
    pub fn erase(&self, lba: u64, blocks: u32) -> Result<(), Error> {
        self.call(Job::Erase, lba, blocks, DmaBuf::EMPTY).0
    }

    #[inline(never)]
    fn call(&self, job: Job, lba: u64, blocks: u32, buf: DmaBuf) -> (Result<(), Error>, DmaBuf) {
        let mut call = match Call::begin(self, job, (lba, blocks), buf) {
            Ok(call) => call,
            Err((error, buf)) => return (Err(error), buf),
        };
        let result = at_once(call.run());
        (result, call.end())
    }
}
