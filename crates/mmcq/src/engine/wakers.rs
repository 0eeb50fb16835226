//! The wakers of requests. The engine stores them, and neither wakes, clones nor drops one, since
//! each may run any code.

use super::{Engine, SlotId};
use crate::host::Host;
use crate::sched::Profile;
use core::task::Waker;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Sets the waker to call when this request is done. The engine itself wakes nothing, and
    /// neither clones nor drops a waker. Returns the waker that is not stored: the one before, or
    /// this one if the request is over. A waker's drop may run any code, so drop it outside of any
    /// lock.
    #[must_use = "to be dropped outside of any lock"]
    pub fn set_waker(&mut self, id: SlotId, waker: Waker) -> Option<Waker> {
        if self.slots.at(id.index).generation() != id.generation {
            return Some(waker);
        }
        self.slots.swap_waker(id.index, Some(waker))
    }

    /// Returns whether this request's waker wakes the same task as `waker` does.
    pub fn will_wake(&self, id: SlotId, waker: &Waker) -> bool {
        let slot = self.slots.at(id.index);
        slot.generation() == id.generation
            && slot.waker().as_ref().is_some_and(|known| known.will_wake(waker))
    }

    /// Takes the waker of a slot that was reported as completed.
    #[must_use = "to be woken or dropped outside of any lock"]
    pub fn take_waker(&mut self, index: usize) -> Option<Waker> {
        let index = u8::try_from(index).ok().filter(|&i| usize::from(i) < N)?;
        self.slots.swap_waker(index, None)
    }

    /// Takes the waker of a request that has ended, in few instructions.
    #[inline(always)]
    pub(crate) fn take_waker_of_ended(&mut self, index: u8) -> Option<Waker> {
        self.slots.at_mut(index).take_waker()
    }

    /// Takes the host's waker ([`Host::take_waker`]), of the task that carries out what the host
    /// has begun. For code that drives an engine without a stack.
    #[must_use = "to be woken outside of any lock"]
    pub fn take_host_waker(&mut self) -> Option<Waker> {
        if H::WAKES { self.bus.host_mut().take_waker() } else { None }
    }

    /// Takes the waker of a request that was cancelled, or taken without a report. There may be
    /// more such wakers: call again until `None`.
    #[must_use = "to be dropped outside of any lock"]
    pub fn take_stale_waker(&mut self) -> Option<Waker> {
        let index = self.slots.stale()?;
        self.slots.swap_waker(index, None)
    }

    /// Returns whether a waker has to be dropped outside of any lock.
    #[inline(always)]
    pub(crate) fn has_stale_waker(&self) -> bool {
        self.slots.stale().is_some()
    }
}
