//! Profiles: how much of the stack firmware carries around its scheduler.

use super::{AtOnce, Chaining, HostQueue, Lanes, Packing, Policy, Single, SoftwareQueue, Tails, Whole};

/// The parts of the stack that firmware carries: a scheduler, and what stands around it.
///
/// Each [`Policy`] is the full profile of itself. [`Prompt`] and [`Lean`] carry less. What a
/// profile leaves out is not linked.
pub trait Profile {
    /// The scheduler: it says which request is next.
    type Policy: Policy;

    /// [`Whole`]: the start of a transfer may be held for the requests that are about to continue
    /// it ([`Config::tail_ns`](crate::engine::Config::tail_ns)). [`AtOnce`]: never.
    type Tails: Tails;

    /// [`Single`]: one transfer at a time. [`SoftwareQueue`]: besides, the command queue of an eMMC
    /// ([`Queued`]); [`HostQueue`]: the same by the controller's engine ([`HostQueued`]).
    /// [`Packing`]: besides others, packed commands ([`Packed`]). [`Chaining`]: besides others, chains
    /// that the controller executes ([`Chained`]).
    type Lanes: Lanes;

    /// Failed transfers are tried again, and help is asked for: all steps of recovery. Where not,
    /// lines and card are brought back, requests that failed together are tried one by one, and the
    /// error is the answer. Nor are there durable writes, erases and what else
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) adds, commands beside data,
    /// or CMD23 with its quirks.
    const RECOVERS: bool = true;

    /// With [`RECOVERS`](Self::RECOVERS) and [`Policy::MAY_BE_IN_ORDER`]: a request that meets an idle
    /// engine takes a shorter way through it. It is the same in all but the number of instructions,
    /// and costs a kilobyte or two of code.
    const FAST: bool = true;

    /// The scheduler.
    fn policy(&self) -> &Self::Policy;

    /// The scheduler, to be told and asked.
    fn policy_mut(&mut self) -> &mut Self::Policy;
}

impl<P: Policy> Profile for P {
    type Policy = P;
    type Tails = Whole;
    type Lanes = Single;

    #[inline(always)]
    fn policy(&self) -> &P {
        self
    }

    #[inline(always)]
    fn policy_mut(&mut self) -> &mut P {
        self
    }
}

/// For firmware whose requests are not many at a time: no start is held for the rest of its batch.
///
/// # Examples
/// ```
/// use mmcq::sched::{Fifo, Profile, Prompt};
///
/// fn recovers<P: Profile>(_: &P) -> bool {
///     P::RECOVERS
/// }
/// assert!(recovers(&Prompt(Fifo)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Prompt<P = super::Fifo>(pub P);

impl<P: Policy> Profile for Prompt<P> {
    type Policy = P;
    type Tails = AtOnce;
    type Lanes = Single;

    #[inline(always)]
    fn policy(&self) -> &P {
        &self.0
    }

    #[inline(always)]
    fn policy_mut(&mut self) -> &mut P {
        &mut self.0
    }
}

/// For firmware that must be small: as [`Prompt`], and failed transfers are not tried again
/// ([`Profile::RECOVERS`]). That is for its user to do, and no program can
/// [supervise](crate::card::supervise) the card.
///
/// # Examples
/// ```
/// use mmcq::sched::{Fifo, Lean, Profile};
///
/// fn recovers<P: Profile>(_: &P) -> bool {
///     P::RECOVERS
/// }
/// assert!(!recovers(&Lean(Fifo)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Lean<P = super::Fifo>(pub P);

impl<P: Policy> Profile for Lean<P> {
    type Policy = P;
    type Tails = AtOnce;
    type Lanes = Single;
    const RECOVERS: bool = false;

    #[inline(always)]
    fn policy(&self) -> &P {
        &self.0
    }

    #[inline(always)]
    fn policy_mut(&mut self) -> &mut P {
        &mut self.0
    }
}

/// A profile that is another one with these lanes. They need recovery.
macro_rules! with_lanes {
    ($name:ident, $lanes:ty, $needs:literal) => {
        impl<P: Profile> Profile for $name<P> {
            type Policy = P::Policy;
            type Tails = P::Tails;
            type Lanes = $lanes;
            const RECOVERS: bool = {
                assert!(P::RECOVERS, $needs);
                true
            };
            const FAST: bool = P::FAST;

            #[inline(always)]
            fn policy(&self) -> &P::Policy {
                self.0.policy()
            }

            #[inline(always)]
            fn policy_mut(&mut self) -> &mut P::Policy {
                self.0.policy_mut()
            }
        }
    };
}

/// For eMMC with a command queue: as the profile inside, and small reads at random wait on the card
/// instead of in the engine once [`card::enable_task_queue`](crate::card::enable_task_queue) has
/// found such a queue. Needs [`Profile::RECOVERS`].
///
/// # Examples
/// ```
/// use mmcq::sched::{Fifo, Profile, Queued};
///
/// fn fast<P: Profile>(_: &P) -> bool {
///     P::FAST
/// }
/// assert!(fast(&Queued(Fifo)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Queued<P = super::Fifo>(pub P);

with_lanes!(Queued, SoftwareQueue, "the command queue needs a profile that recovers");

/// As [`Queued`], and the controller's engine drives the card's queue where it has one
/// ([`Host::queue`](crate::host::Host::queue)): one interrupt and five register accesses for a
/// request. Where that engine is of no use or proves bad, the software drives the queue. Needs
/// [`Profile::RECOVERS`].
///
/// # Examples
/// ```
/// use mmcq::sched::{Fifo, HostQueued, Profile};
///
/// fn fast<P: Profile>(_: &P) -> bool {
///     P::FAST
/// }
/// assert!(fast(&HostQueued(Fifo)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HostQueued<P = super::Fifo>(pub P);

with_lanes!(HostQueued, HostQueue, "the command queue needs a profile that recovers");

/// For eMMC with packed commands (4.5 to 5.1): as the profile inside, and writes of different
/// places, and reads, go to the card as one transfer where that pays, once
/// [`card::enable_packed`](crate::card::enable_packed) has found that the card takes them. Needs
/// [`Profile::RECOVERS`].
///
/// # Examples
/// ```
/// use mmcq::sched::{Fifo, Packed, Profile, Queued};
///
/// fn fast<P: Profile>(_: &P) -> bool {
///     P::FAST
/// }
/// assert!(fast(&Packed(Queued(Fifo))));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Packed<P = super::Fifo>(pub P);

with_lanes!(Packed, Packing<P::Lanes>, "packed commands need a profile that recovers");

/// For controllers that execute several transfers from one list (ADMA3 of SDHCI 4.10,
/// [`Host::chain`](crate::host::Host::chain)): as the profile inside, and reads and writes of
/// different places go to the controller as one, with one interrupt, once
/// [`Engine::set_chains`](crate::engine::Engine::set_chains) was called. Needs
/// [`Profile::RECOVERS`].
///
/// # Examples
/// ```
/// use mmcq::sched::{Chained, Fifo, Profile};
///
/// fn fast<P: Profile>(_: &P) -> bool {
///     P::FAST
/// }
/// assert!(fast(&Chained(Fifo)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Chained<P = super::Fifo>(pub P);

with_lanes!(Chained, Chaining<P::Lanes>, "chains need a profile that recovers");
