//! Schedulers: which of those that wait is served next.
//!
//! The engine asks a [`Policy`] whenever the controller is free and shows it everything that waits
//! before the next barrier. It takes the request that the policy picks, and what continues it on
//! either side goes along. The engine never lets a request pass an older one on the same blocks
//! where one of the two writes, whatever the policy says; and what has begun (the rest of a long
//! request) or failed together with others goes first, without asking.
//!
//! What firmware carries besides is its [`Profile`]. Each policy is the full one; [`Prompt`] and
//! [`Lean`] carry less.
//!
//! A stack gets its policy by [`Stack::with_policy`](crate::task::Stack::with_policy), and has it
//! in its type: `Stack<(L, H, Fair<2>), 16>`. A client names itself by
//! [`Request::from`](crate::engine::Request::from) and
//! [`Stack::request`](crate::task::Stack::request). A [`BlockDevice`](crate::block::BlockDevice) is
//! always [`Origin::DEFAULT`]. `docs/schedulers.md` has a program.

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
pub use tasks::{Demotion, HostQueue, Lanes, SdTaskQueue, Single, SoftwareQueue, TaskStats};

use crate::host::Direction;

/// A request that waits, as far as a policy may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Names it until it has left.
    pub index: u8,
    /// Which way.
    pub direction: Direction,
    /// First block of 512 bytes that is still to move.
    pub lba: u64,
    /// Blocks still to move.
    pub blocks: u32,
    /// The client that asked: see [`Origin`].
    pub origin: Origin,
    /// When it came in, in nanoseconds.
    pub arrived_ns: u64,
}

/// The client that asked for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The client's number: a process, a partition, a queue.
    pub client: u8,
    /// A client waits for this write now (a read always counts as such).
    pub sync: bool,
}

impl Origin {
    /// Client 0, no client waits.
    pub const DEFAULT: Self = Origin { client: 0, sync: false };
}

/// The choice of what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Send this request ([`Waiting::index`]).
    Go(u8),
    /// Nothing before this time, in nanoseconds, unless another request comes in: the client that
    /// was served last is about to ask for more. The engine bears it for 20 ms in a row, then the
    /// oldest goes.
    IdleUntil(u64),
}

/// A scheduler. It holds no requests; it is told what comes and goes, and asked which is next.
pub trait Policy {
    /// Always the oldest: the engine neither asks nor tells such a policy anything, and firmware
    /// does not carry what that takes.
    const IN_ORDER: bool = false;

    /// [`is_in_order`](Self::is_in_order) may be true.
    const MAY_BE_IN_ORDER: bool = Self::IN_ORDER;

    /// Always the oldest, as long as nothing is set anew: the engine need not tell it of a request.
    fn is_in_order(&self) -> bool {
        Self::IN_ORDER
    }

    /// Returns whether the engine may delay the start of a request that was [picked](Self::pick)
    /// until `until_ns`, to let others join it.
    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        let _ = (picked, until_ns);
        true
    }

    /// May a longer run of the same direction, or what continues an open transfer, go before the
    /// request that was [picked](Self::pick)?
    fn yields(&self) -> bool {
        false
    }

    /// A request has come in.
    fn arrived(&mut self, request: &Waiting, now_ns: u64) {
        let _ = (request, now_ns);
    }

    /// Picks one. `waiting`: at least one, in the order of arrival; at most one for each slot.
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice;

    /// A request has gone to the controller, by itself or along with another.
    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        let _ = (request, now_ns);
    }

    /// A request was taken back before it was sent.
    fn cancelled(&mut self, request: &Waiting) {
        let _ = request;
    }

    /// A request that was sent is over; `request` as it was sent. A piece of one that was too long
    /// for a transfer is reported as well, and the rest arrives anew.
    fn done(&mut self, request: &Waiting, now_ns: u64) {
        let _ = (request, now_ns);
    }
}
