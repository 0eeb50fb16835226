//! A controller that no reset stops: it may read and write the memory of its last transfer for
//! ever.
//!
//! None of that memory is unmapped or given back. Requests that own their memory are answered, and
//! the memory is leaked. Memory that is lent for a blocking call stays with its slot: the call
//! returns only when a later reset succeeds. The engine tries again each second.

use super::super::slot::{Slots, State};
use super::super::timers::{Timers, later};
use super::super::{Engine, Error, Kind};
use super::Recovery;
use crate::host::{BusOp, Host};
use crate::sched::Profile;

/// Time in ns between two tries to stop a controller that still uses memory of requests.
const AGAIN_NS: u64 = 1_000_000_000;

impl<const N: usize> Slots<N> {
    /// Ends the requests whose memory a controller could still access because it could not be
    /// stopped: it has stopped now.
    pub fn let_go_of_kept(&mut self, timers: &mut Timers) {
        if !timers.take_kept() {
            return;
        }
        for index in 0..N as u8 {
            if self.at(index).state() == State::Kept {
                self.end_with(index, Err(Error::Dead));
            }
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Handles a controller that neither kind of reset has stopped. Clock and power are switched
    /// off, so that nothing comes from the card any more; then the platform isolates the
    /// controller, if it can.
    pub(super) fn wedged(&mut self, now_ns: u64) {
        let _ = self.bus.host_mut().set_bus(BusOp::PowerOff, true, now_ns);
        if self.bus.host_mut().isolate() {
            self.slots.let_go_of_kept(&mut self.timers);
        } else {
            self.keep(now_ns);
        }
        self.incident.failed.with(Error::Dead);
        self.give_card_up(now_ns);
    }

    fn keep(&mut self, now_ns: u64) {
        for index in 0..N as u8 {
            let slot = self.slots.at_mut(index);
            let moves = slot.segment().len > 0 && matches!(slot.state(), State::Active | State::Kept);
            if !moves {
                continue;
            }
            if slot.buf().owned() {
                slot.leak_buffer();
                self.record.memory_leaked();
                self.slots.take_mapped(index);
            } else {
                slot.retain_lent();
                self.timers.keep_until(later(now_ns, AGAIN_NS));
            }
        }
        if !P::RECOVERS {
            // Lean firmware maps nothing else.
            return;
        }
        // The memory of a partition access belongs to its slot; a flush by register uses the
        // engine's page.
        let visit = self.lane.has_control()
            && matches!(self.slots.at(self.lane.control()).kind(), Kind::PartitionAccess(_));
        if self.services.memory_mut().take_mapped().is_some() && !visit {
            self.services.memory_mut().lose_page();
            self.record.memory_leaked();
        }
    }

    /// Tries once more to stop a controller that no reset has stopped, if it is time for that.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn stop_again(&mut self, now_ns: u64) {
        if !self.lane.is_idle() {
            return;
        }
        if !self.timers.wake_for_retry(now_ns) {
            return;
        }
        self.timers.keep_until(later(now_ns, AGAIN_NS));
        // With this error recovery sends nothing to the card.
        self.incident.failed.with(Error::Removed);
        self.batch.forget();
        self.reset(Recovery::All, now_ns);
    }
}
