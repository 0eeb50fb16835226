//! Schedulers: which of the waiting requests is next.
//!
//! The engine calls a [`Policy`] whenever the controller is free, with every request that waits
//! before the next barrier. The engine sends the request that the policy picks, together with the
//! requests that continue it on either side. Whatever the policy picks, no request overtakes an
//! older one on the same blocks if one of the two writes. The remaining pieces of a long request,
//! and requests that failed together with others, go first without a call of the policy.
//!
//! A [`Profile`] selects what else the firmware contains. Each policy is also a profile with all
//! parts except the additional ways to send transfers ([`Lanes`]). [`Prompt`] and [`Lean`] contain
//! less, [`Queued`], [`HostQueued`], [`Packed`] and [`Chained`] more.
//!
//! A stack gets its policy by [`Stack::with_policy`](crate::task::Stack::with_policy), and has it
//! in its type: `Stack<(L, H, Fair<2>), 16>`. A request names its client by
//! [`Request::from`](crate::engine::Request::from), and is submitted by
//! [`Stack::request`](crate::task::Stack::request). A [`BlockDevice`](crate::block::BlockDevice)
//! always uses [`Origin::DEFAULT`]. `docs/schedulers.md` has a program.

mod any;
pub(crate) mod chains;
mod config_error;
pub mod deadline;
mod failures;
pub mod fair;
mod fifo;
mod hold;
pub(crate) mod packs;
mod profile;
pub mod reads_first;
pub(crate) mod slot_set;
pub(crate) mod tasks;

pub use any::Any;
pub use chains::{ChainStats, Chaining};
pub use config_error::ConfigError;
pub use deadline::Deadline;
pub use fair::Fair;
pub use fifo::Fifo;
pub use hold::{AtOnce, Holds, Tails, Whole};
pub(crate) use hold::{Hold, Pending, Run};
pub use packs::{PackStats, Packing};
pub use profile::{Chained, HostQueued, Lean, Packed, Profile, Prompt, Queued};
pub use reads_first::ReadsFirst;
pub use tasks::{Demotion, HostQueue, Lanes, SdTaskQueue, Single, SoftwareQueue, TaskStats};

use crate::host::Direction;

/// A waiting request as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The request's index, which identifies it until it has been sent or cancelled.
    pub index: u8,
    /// Whether the request reads or writes.
    pub direction: Direction,
    /// First block of 512 bytes that is still to be transferred.
    pub lba: u64,
    /// Number of blocks that are still to be transferred.
    pub blocks: u32,
    /// The client that submitted the request: see [`Origin`].
    pub origin: Origin,
    /// Time in ns at which the request was submitted.
    pub arrived_ns: u64,
}

/// Who submitted a request, and whether a client waits for the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The client's number: a process, a partition, a queue.
    pub client: u8,
    /// Whether a client waits for this write now. A read always counts as waited for.
    pub sync: bool,
}

impl Origin {
    /// The request belongs to client 0, and no caller waits for its result.
    pub const DEFAULT: Self = Origin { client: 0, sync: false };
}

/// The answer of a scheduler: what the engine does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Send the request with this index ([`Waiting::index`]).
    Go(u8),
    /// Start no request before this time, in nanoseconds, unless another request comes in: the
    /// client that was served last is about to send more. The engine accepts this answer for 20 ms
    /// in a row. Then it starts the oldest request.
    IdleUntil(u64),
}

/// A scheduler. It stores no requests. The engine reports each request that comes and goes, and
/// calls [`pick`](Self::pick) for the next one.
pub trait Policy {
    /// Whether the next request is always the oldest: the engine then never calls the policy, and
    /// firmware does not contain the code for that.
    const IN_ORDER: bool = false;

    /// Whether [`is_in_order`](Self::is_in_order) may return true.
    const MAY_BE_IN_ORDER: bool = Self::IN_ORDER;

    /// Returns whether the next request is the oldest, unless that is a write and reads wait too.
    /// The answer holds until the policy's settings change. The engine then calls
    /// [`pick`](Self::pick) if the oldest is a write and reads wait, and need not call it at other
    /// times, nor report requests that it sends without that call.
    fn is_in_order(&self) -> bool {
        Self::IN_ORDER
    }

    /// Returns whether the engine may delay the start of a request that was [picked](Self::pick)
    /// until `until_ns`, to let others join it.
    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        let _ = (picked, until_ns);
        true
    }

    /// Returns whether two kinds of requests may go before the request that was
    /// [picked](Self::pick): those that continue an open transfer, and a longer run of contiguous
    /// requests of the same direction than the one that the picked request belongs to.
    fn yields(&self) -> bool {
        false
    }

    /// Called when `request` has come in. The default does nothing.
    fn arrived(&mut self, request: &Waiting, now_ns: u64) {
        let _ = (request, now_ns);
    }

    /// Picks the next request from `waiting`, which lists the waiting requests in the order of
    /// arrival: at least one, and at most one for each slot.
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice;

    /// Notes that a request was sent to the controller, alone or in the transfer of another
    /// request.
    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        let _ = (request, now_ns);
    }

    /// Notes that a request was cancelled before it was sent.
    fn cancelled(&mut self, request: &Waiting) {
        let _ = request;
    }

    /// Notes that a request that was sent is over. `request` has the values that it had when it was
    /// sent. Called also for a piece of a request that was too long for one transfer; the part that
    /// is still to be sent is reported as a new arrival.
    fn done(&mut self, request: &Waiting, now_ns: u64) {
        let _ = (request, now_ns);
    }
}
