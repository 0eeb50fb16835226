//! The ways in which transfers reach the card (*lanes*), as types: firmware contains only those
//! that its profile names.

use super::{Hosted, Tasks};
use crate::sched::chains::Chains;
use crate::sched::packs::Packs;

/// The ways to send transfers (*lanes*) that an engine has, in addition to sending them one at a
/// time.
#[allow(private_bounds, reason = "sealed")]
pub trait Lanes: core::fmt::Debug + Send + Sync + 'static + Sealed {
    #[doc(hidden)]
    const NEW: Self;

    #[doc(hidden)]
    fn get(&self) -> Option<&Tasks>;

    #[doc(hidden)]
    fn get_mut(&mut self) -> Option<&mut Tasks>;

    #[doc(hidden)]
    #[inline(always)]
    fn hosted(&self) -> Option<&Hosted> {
        None
    }

    #[doc(hidden)]
    #[inline(always)]
    fn packs(&self) -> Option<&Packs> {
        None
    }

    #[doc(hidden)]
    #[inline(always)]
    fn chains(&self) -> Option<&Chains> {
        None
    }

    #[doc(hidden)]
    #[inline(always)]
    fn chains_mut(&mut self) -> Option<&mut Chains> {
        None
    }

    #[doc(hidden)]
    #[inline(always)]
    fn hosted_mut(&mut self) -> Option<&mut Hosted> {
        None
    }

    #[doc(hidden)]
    #[inline(always)]
    fn packs_mut(&mut self) -> Option<&mut Packs> {
        None
    }
}

pub(in super::super) trait Sealed {}

/// Defines methods that forward to the inner [`Lanes`], for a type that adds a way to send
/// transfers to them.
macro_rules! lanes_below {
    ($($get:ident $get_mut:ident $what:ty),*) => {
        $(
            #[inline(always)]
            fn $get(&self) -> Option<&$what> {
                self.0.$get()
            }

            #[inline(always)]
            fn $get_mut(&mut self) -> Option<&mut $what> {
                self.0.$get_mut()
            }
        )*
    };
}
pub(in super::super) use lanes_below;

/// Profile part without a queue: transfers are sent to the card one at a time. Takes no memory.
#[derive(Debug)]
pub struct Single;

/// Transfers are sent one at a time, or as tasks of the card's queue, which software drives. Takes
/// about a kilobyte for each engine.
#[derive(Debug)]
pub struct SoftwareQueue(Tasks);

/// The card's queue, driven by the controller's command queue engine where it has one
/// ([`CommandQueueHost`](crate::host::CommandQueueHost)), and by software elsewhere.
#[derive(Debug)]
pub struct HostQueue(Tasks, Hosted);

impl Sealed for Single {}
impl Sealed for SoftwareQueue {}
impl Sealed for HostQueue {}

impl Lanes for Single {
    const NEW: Self = Single;

    #[inline(always)]
    fn get(&self) -> Option<&Tasks> {
        None
    }

    #[inline(always)]
    fn get_mut(&mut self) -> Option<&mut Tasks> {
        None
    }
}

impl Lanes for SoftwareQueue {
    const NEW: Self = SoftwareQueue(Tasks::NEW);

    #[inline(always)]
    fn get(&self) -> Option<&Tasks> {
        Some(&self.0)
    }

    #[inline(always)]
    fn get_mut(&mut self) -> Option<&mut Tasks> {
        Some(&mut self.0)
    }
}

impl Lanes for HostQueue {
    const NEW: Self = HostQueue(Tasks::NEW, Hosted::NEW);

    #[inline(always)]
    fn get(&self) -> Option<&Tasks> {
        Some(&self.0)
    }

    #[inline(always)]
    fn get_mut(&mut self) -> Option<&mut Tasks> {
        Some(&mut self.0)
    }

    #[inline(always)]
    fn hosted(&self) -> Option<&Hosted> {
        Some(&self.1)
    }

    #[inline(always)]
    fn hosted_mut(&mut self) -> Option<&mut Hosted> {
        Some(&mut self.1)
    }
}
