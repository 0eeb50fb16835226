//! Profiles: how much of the stack firmware carries around its scheduler.

use super::{AtOnce, Policy, Tails, Whole};

/// What firmware carries: a scheduler, and what stands around it.
///
/// Each [`Policy`] is the full profile of itself. [`Prompt`] and [`Lean`] carry less. What a
/// profile leaves out is not linked.
pub trait Profile {
    /// The scheduler: it says which request is next.
    type Policy: Policy;

    /// [`Whole`]: the start of a transfer may be held for the requests that are about to continue
    /// it ([`Config::tail_ns`](crate::engine::Config::tail_ns)). [`AtOnce`]: never.
    type Tails: Tails;

    /// Failed transfers are tried again, and help is asked for: all steps of recovery. Where not,
    /// lines and card are brought back, requests that failed together are tried one by one, and the
    /// error is the answer. Nor are there durable writes, erases and what else
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) adds, commands beside data,
    /// or CMD23 with its quirks.
    const RECOVERS: bool = true;

    /// With [`RECOVERS`](Self::RECOVERS) and [`Policy::IN_ORDER`]: a request that meets an idle
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
