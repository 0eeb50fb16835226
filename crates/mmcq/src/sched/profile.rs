//! Profiles: which parts of the stack are compiled into a firmware, in addition to the scheduler.

use super::{AtOnce, Chaining, HostQueue, Lanes, Packing, Policy, Single, SoftwareQueue, Tails, Whole};

/// The parts of the stack that firmware contains: a scheduler, and optional parts around it.
///
/// Each [`Policy`] is also the full profile with itself. [`Prompt`] and [`Lean`] contain less.
/// Parts that a profile leaves out are not linked.
pub trait Profile {
    /// The scheduler, which decides the next request.
    type Policy: Policy;

    /// [`Whole`]: the start of a transfer may be delayed for the requests that are about to
    /// continue it ([`Config::tail_ns`](crate::engine::Config::tail_ns)). [`AtOnce`]: never.
    type Tails: Tails;

    /// The lanes: the ways in which transfers reach the card.
    /// - [`Single`]: one transfer at a time.
    /// - [`SoftwareQueue`]: also the command queue of an eMMC ([`Queued`]).
    /// - [`HostQueue`]: the same queue by the controller's command queue engine ([`HostQueued`]).
    /// - [`Packing`]: packed commands in addition to other lanes ([`Packed`]).
    /// - [`Chaining`]: chains that the controller executes, in addition to other lanes
    ///   ([`Chained`]).
    type Lanes: Lanes;

    /// Whether failed transfers are tried again and the supervisor is called for help: all steps of
    /// recovery. If false, the engine resets lines and card, tries requests that failed together
    /// one by one, and returns the error. Such firmware also has no durable writes, no erases and
    /// nothing else of [`card::enable_extended_ops`](crate::card::enable_extended_ops), no commands
    /// during data, and no CMD23 with its quirks.
    const RECOVERS: bool = true;

    /// Whether a request that finds the engine idle takes a shorter path through it. The path is
    /// used only if [`RECOVERS`](Self::RECOVERS) and [`Policy::MAY_BE_IN_ORDER`] are true, too. It
    /// differs only in the number of instructions, and costs a kilobyte or two of code.
    const FAST: bool = true;

    /// Returns the scheduler.
    fn policy(&self) -> &Self::Policy;

    /// Returns the scheduler, to call it.
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

/// Profile for firmware with few requests at a time: no start is delayed for the tail of its batch.
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

/// Profile for firmware that must be small: as [`Prompt`], and failed transfers are not tried again
/// ([`Profile::RECOVERS`]). The user of the stack must do that, and no program can
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

/// Implements [`Profile`] for a wrapper of another profile, with these lanes. The inner profile
/// must recover.
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

/// Profile for eMMC with a command queue: as the inner profile, and small random reads wait on the
/// card instead of in the engine, once [`card::enable_task_queue`](crate::card::enable_task_queue)
/// has found such a queue. Needs [`Profile::RECOVERS`].
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

/// Profile as [`Queued`], where the controller's command queue engine drives the card's queue if
/// there is one ([`Host::queue`](crate::host::Host::queue)): one interrupt and five register
/// accesses for a request. If the command queue engine is of no use or fails, the software drives
/// the queue. Needs [`Profile::RECOVERS`].
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

/// Profile for eMMC with packed commands (4.5 to 5.1): as the inner profile, and writes of
/// different places, or reads, are sent to the card as one transfer where that pays, once
/// [`card::enable_packed`](crate::card::enable_packed) has found that the card has packed commands.
/// Needs [`Profile::RECOVERS`].
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

/// Profile for controllers that execute several transfers from one list (ADMA3 of SDHCI 4.10,
/// [`Host::chain`](crate::host::Host::chain)): as the inner profile, and reads and writes of
/// different places are given to the controller as one list, with one interrupt, once
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
