//! A card without a queue: read, write, flush and erase, one call at a time, for firmware that must
//! be small.
//!
//! [`DirectCard`] uses the drivers and the bring-up of the [stack](crate::task::Stack), and none of
//! its engine. A write is complete when the card's status after it shows no error, and the card is back
//! in the state `tran` [SD 4.3.4]. No transfer stays open.
//!
//! # After a failure
//! Each wait has a deadline. If a command fails or its deadline passes, the lines of the controller
//! are reset, CMD12 ends a transfer that may be open, and CMD13 asks for the state of the card; a
//! card that is still busy is waited for, as long as a write may take. Then the same blocks are sent
//! again. After the third failure of a call the card is initialised again from power-up; it must
//! have the same CID. The fourth failure ends the call with its error. So a call is bounded: for a
//! card that is busy for ever, about 20 s with [`Options::sd_write_ns`](crate::card::Options).
//!
//! # What the stack has and this module has not
//! A queue, open transfers, partitions, RPMB, durable writes, I/O cards, supervision, CMD23, a card's
//! quirks and lock. No timing that needs 1.8 V or tuning is used, since nothing would tune again: a
//! card runs at high speed at most, an eMMC in DDR52 too.
//!
//! # Examples
//! ```
//! use mmcq::card::Options;
//! use mmcq::direct::{AnyCard, DirectCard};
//! use mmcq::engine::{DmaBuf, Error};
//! use mmcq::task::Platform;
//!
//! /// Call this from the controller's interrupt handler, or in a loop.
//! fn on_interrupt<B: Platform>(card: &DirectCard<B, AnyCard>) {
//!     card.on_irq();
//! }
//!
//! async fn app<B: Platform>(card: &DirectCard<B, AnyCard>, block: DmaBuf) -> Result<DmaBuf, Error> {
//!     let found = card.bring_up(Options::DEFAULT).await?;
//!     let (result, block) = card.read(found.sectors - 1, block).await;
//!     result?;
//!     let (result, block) = card.write(0, block).await;
//!     result?;
//!     card.flush().await?;
//!     Ok(block)
//! }
//! ```

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod blocking;
mod call;
mod link;
mod machine;

use crate::card::Options;
pub use crate::card::found::Brief;
use crate::card::identify;
pub use crate::card::identify::Families;
use crate::engine::{BLOCK_BYTES, CardParams, Completion, DmaBuf, Error};
use crate::host::Host;
use crate::task::{Clock, Lock, Locked, Platform};
pub use blocking::Blocking;
use call::{Call, Job};
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use machine::Machine;

/// Slots that accept SD memory cards and eMMC devices.
pub type AnyCard = identify::OfAny<Brief>;
/// Slots that accept only SD memory cards.
pub type OnlySd = identify::OfSd<Brief>;
/// Slots that accept only eMMC devices.
pub type OnlyEmmc = identify::OfEmmc<Brief>;

/// A driver and its card, without a queue. A `DirectCard` may be a `static`.
///
/// `F` says which cards the slot accepts: [`OnlySd`], [`OnlyEmmc`] or [`AnyCard`]. Code for other
/// cards is not linked. Of the [`Platform`] the profile is not used.
pub struct DirectCard<B: Platform, F> {
    lock: B::Lock,
    clock: B::Clock,
    state: Locked<DirectState<B::Host>>,
    families: PhantomData<fn() -> F>,
}

/// What the lock protects.
pub struct DirectState<H> {
    machine: Machine<H>,
    /// The card; `None` before bring-up, and after another card was found in the slot.
    card: Option<Brief>,
    options: Options,
    /// Whether an eMMC supports trim.
    trims: bool,
    /// Memory for the card's registers; empty while a bring-up uses it.
    scratch: DmaBuf,
    /// Whether a call is in progress.
    taken: bool,
    /// Whether the card may be in the middle of a transfer, because a call was dropped or has
    /// failed.
    doubted: bool,
    /// Whether an eMMC's cache may have data that are not on the medium.
    dirty: bool,
    /// Whether data in an eMMC's cache were lost, and no flush has reported it.
    lost: bool,
}

// SAFETY: the state is only reached through `enter`: the lock keeps other contexts out, and the
// cell keeps nested calls out.
unsafe impl<B: Platform, F> Sync for DirectCard<B, F>
where
    B::Lock: Sync,
    B::Clock: Sync,
    B::Host: Send,
{
}

impl<B: Platform, F> fmt::Debug for DirectCard<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectCard").finish_non_exhaustive()
    }
}

impl<B: Platform, F> DirectCard<B, F> {
    /// Makes a card's handle over the driver `host`. `scratch` holds the card's registers during
    /// bring-up; it has at least [`SCRATCH_BYTES`](crate::card::SCRATCH_BYTES).
    pub const fn new(lock: B::Lock, clock: B::Clock, host: B::Host, scratch: DmaBuf) -> Self {
        let state = DirectState {
            machine: Machine::new(host),
            card: None,
            options: Options::DEFAULT,
            trims: false,
            scratch,
            taken: false,
            doubted: false,
            dirty: false,
            lost: false,
        };
        DirectCard { lock, clock, state: Locked::new(state), families: PhantomData }
    }

    /// Returns the parameters of the card; `None` before bring-up, and after another card was found
    /// in the slot.
    pub fn card(&self) -> Option<CardParams> {
        self.enter(None, |state| state.card.map(|card| card.params))
    }

    /// Returns the CID of the card, as in a [`Response`](crate::spec::response::Response); `None`
    /// without a card.
    pub fn cid(&self) -> Option<[u32; 4]> {
        self.enter(None, |state| state.card.map(|card| card.cid))
    }

    /// Returns the time now, by the platform's clock.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Handles an interrupt of the controller; the interrupt handler calls this. Wakers run after
    /// the lock is released.
    pub fn on_irq(&self) {
        self.poll();
    }

    /// Carries out the work whose time has come. The alarm calls this.
    pub fn poll(&self) {
        self.advance(None);
    }

    /// Continues the exchange in progress, and sets the alarm for the next call. Takes the end of
    /// the exchange if the caller has a place for it; otherwise wakes its task, after the lock is
    /// released.
    #[inline(never)]
    fn advance(&self, mut place: Option<&mut Option<Completion>>) {
        let mut waker = None;
        let mut driver = None;
        self.enter((), |state| {
            let machine = &mut state.machine;
            let due_ns = machine.advance(self.clock.now_ns());
            self.clock.set_alarm(due_ns);
            if B::Host::WAKES {
                driver = machine.host_mut().take_waker();
            }
            match &mut place {
                Some(place) => **place = machine.take(),
                None if due_ns.is_none() => waker = machine.waker.take(),
                None => {}
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some(waker) = driver {
            waker.wake();
        }
    }

    /// Sets the options of the next bring-up, unless a call is in progress.
    fn set_options(&self, options: Options) {
        self.enter((), |state| {
            if !state.taken {
                state.options = options;
            }
        });
    }

    /// Runs `f` with the state, the only access to it. A call from inside another one does nothing,
    /// and returns `nested`.
    fn enter<R>(&self, nested: R, mut f: impl FnMut(&mut DirectState<B::Host>) -> R) -> R {
        let mut result = nested;
        self.lock.with(|| {
            // SAFETY: the lock is held, so calls of different contexts do not overlap.
            unsafe {
                self.state.enter(
                    |state| {
                        if let Some(state) = state {
                            result = f(state)
                        }
                    },
                    || self.clock.set_alarm(Some(0)),
                )
            }
        });
        result
    }
}

impl<B: Platform, F: Families<Found = Brief>> DirectCard<B, F> {
    /// Switches the slot's power on, finds the card and initialises it with the fastest bus that
    /// needs no tuning.
    ///
    /// # Errors
    /// [`Error::NoCard`]: the slot is empty, or no card responds. [`Error::Full`]: another call is
    /// in progress. [`Error::Buffer`]: the memory for registers is too small. Others: what the card
    /// did wrong.
    pub async fn bring_up(&self, options: Options) -> Result<CardParams, Error> {
        self.set_options(options);
        self.call(Job::BringUp, 0, 0, DmaBuf::EMPTY).await.0?;
        self.card().ok_or(Error::NoCard)
    }

    /// Reads as many whole blocks as the buffer has, from block `lba` on. The buffer comes back
    /// with the result, also with an error.
    ///
    /// # Errors
    /// [`Error::NoCard`]: no card was brought up, or it does not respond any more.
    /// [`Error::Changed`]: another card is in the slot; bring it up. [`Error::OutOfRange`]: the
    /// blocks are beyond the end of the card, or there are none. [`Error::Unsupported`]: the buffer
    /// is longer than 8 MiB. [`Error::Full`]: another call is in progress. [`Error::Dead`]: the
    /// controller does not release the buffer, which is lost. Others: why the last try failed.
    ///
    /// If the future is dropped before its end, the buffer is lost, and the next call resets the
    /// lines.
    pub fn read(&self, lba: u64, buf: DmaBuf) -> impl Future<Output = (Result<(), Error>, DmaBuf)> {
        self.call(Job::Read, lba, buf.len_bytes() / BLOCK_BYTES, buf)
    }

    /// Writes as many whole blocks as the buffer has, from block `lba` on. When it returns, the card
    /// has programmed the blocks, or has them in its cache if that is enabled.
    ///
    /// # Errors
    /// As [`read`](Self::read). [`Error::Protected`]: the card is write-protected. After an error
    /// any of the blocks may have the old content or the new one.
    pub fn write(&self, lba: u64, buf: DmaBuf) -> impl Future<Output = (Result<(), Error>, DmaBuf)> {
        self.call(Job::Write, lba, buf.len_bytes() / BLOCK_BYTES, buf)
    }

    /// Writes the cache of an eMMC to its medium, if bring-up has enabled it; then all earlier
    /// writes are durable. Without a cache they are when they are complete.
    ///
    /// # Errors
    /// [`Error::CacheLost`]: the card was initialised again, and writes in its cache were lost;
    /// reported once. Others: as [`read`](Self::read).
    pub async fn flush(&self) -> Result<(), Error> {
        self.call(Job::Flush, 0, 0, DmaBuf::EMPTY).await.0
    }

    /// Erases blocks, 4 MiB in each command. They then read as zeros or as ones. An eMMC trims
    /// them.
    ///
    /// # Errors
    /// As [`write`](Self::write). [`Error::Unsupported`]: an eMMC without trim.
    pub async fn erase(&self, lba: u64, blocks: u32) -> Result<(), Error> {
        self.call(Job::Erase, lba, blocks, DmaBuf::EMPTY).await.0
    }

    async fn call(&self, job: Job, lba: u64, blocks: u32, buf: DmaBuf) -> (Result<(), Error>, DmaBuf) {
        match Call::begin(self, job, (lba, blocks), buf) {
            Ok(mut call) => {
                let result = call.run().await;
                (result, call.end())
            }
            Err((error, buf)) => (Err(error), buf),
        }
    }
}
