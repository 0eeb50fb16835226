//! Profiles: which parts of the stack are compiled into a firmware, in addition to the scheduler.

use super::{AtOnce, Chaining, HostQueue, Lanes, Packing, Policy, Single, SoftwareQueue, Tails, Whole};

/// The parts of the stack that firmware contains: a scheduler, and optional parts around it.
///
/// Each [`Policy`] is also a profile: itself as the scheduler, and all parts except the additional
/// ways to send transfers ([`Lanes`]). [`Prompt`] and [`Lean`] contain less; [`Queued`],
/// [`HostQueued`], [`Packed`] and [`Chained`] add such a way. Parts that a profile leaves out are
/// not linked.
pub trait Profile {
    /// The scheduler, which decides the next request.
    type Policy: Policy;

    /// Whether the start of a transfer may be delayed for requests that are about to come and would
    /// continue it ([`Config::tail_ns`](crate::engine::Config::tail_ns)). [`Whole`]: it may.
    /// [`AtOnce`]: it is never delayed.
    type Tails: Tails;

    /// The ways in which transfers reach the card (*lanes*).
    /// - [`Single`]: one transfer at a time.
    /// - [`SoftwareQueue`]: also the command queue of an eMMC or SD card ([`Queued`]).
    /// - [`HostQueue`]: the same queue by the controller's command queue engine ([`HostQueued`]).
    /// - [`Packing`]: packed commands in addition to the ways of another profile ([`Packed`]).
    /// - [`Chaining`]: chains that the controller executes, in addition to the ways of another
    ///   profile ([`Chained`]).
    type Lanes: Lanes;

    /// Whether failed transfers are tried again and the supervisor is called for help: all steps of
    /// recovery. If false, the engine resets lines and card, tries requests that failed together
    /// one by one, and returns the error. Such firmware also leaves out all that
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) enables (durable writes,
    /// erases), commands during data, quirks of cards, and CMD23.
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

/// Profile for firmware with few requests at a time: the start of a transfer is never delayed for
/// requests that would continue it.
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

/// Profile for firmware that must be small. It has what [`Prompt`] has, without recovery: failed
/// transfers are not tried again ([`Profile::RECOVERS`]). The user of the stack must do that, and
/// no program can [supervise](crate::card::supervise) the card.
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

/// Implements [`Profile`] for a wrapper of another profile; `$lanes` are the ways in which it sends
/// transfers. The inner profile must recover.
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

/// Profile for cards with a command queue. It adds to the inner profile that several reads wait on
/// the card instead of in the engine, so that the card loads one while it sends another. A program
/// switches this on by [`card::enable_task_queue`](crate::card::enable_task_queue) (eMMC) or
/// [`card::enable_sd_task_queue`](crate::card::enable_sd_task_queue). Needs [`Profile::RECOVERS`].
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

/// Profile for eMMC with a command queue, on controllers with a command queue engine
/// ([`Host::queue`](crate::host::Host::queue)). That engine drives the card's queue, with one
/// interrupt and five register accesses for a request. Without such an engine, or if it is of no
/// use or fails, the software drives the queue as with [`Queued`]. Needs [`Profile::RECOVERS`].
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

/// Profile for eMMC with packed commands (4.5 to 5.1). It adds to the inner profile that several
/// writes to different places, or several reads, are sent to the card as one transfer where that
/// pays. A program switches this on by [`card::enable_packed`](crate::card::enable_packed). Needs
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

/// Profile for controllers that execute several transfers from one list (ADMA3 of SDHCI 4.10,
/// [`Host::chain`](crate::host::Host::chain)). It adds to the inner profile that the controller
/// gets reads and writes of different places as one list, with one interrupt. A program switches
/// this on by [`Engine::set_chains`](crate::engine::Engine::set_chains). Needs
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
