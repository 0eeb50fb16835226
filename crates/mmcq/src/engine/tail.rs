//! What the engine tells of its work to [`Hold`](super::hold::Hold), and when it asks whether to wait for the tail of a batch.

use super::Engine;
use super::slot::{NONE, Rules, bits};
use crate::host::{Direction, Host};
use crate::sched::{Holds, Pending, Policy, Tails};

impl<H: Host, const N: usize, P: Policy> Engine<H, N, P> {
    /// Until when the start of the next transfer is held for the requests that are about to continue it.
    pub fn held_until_ns(&self) -> Option<u64> {
        self.tails.get()?.until_ns()
    }

    /// What holding starts has cost and gained so far; nothing where the scheduler starts at once.
    pub fn holds(&self) -> Holds {
        self.tails.get().map_or(Holds::default(), |hold| hold.holds())
    }

    /// Is anything sequential about what comes?
    #[inline(always)]
    pub(super) fn watches(&self) -> bool {
        self.tails.get().is_some_and(|hold| hold.watches())
    }

    /// A transfer begins where the last one ended, or has several requests.
    #[cold]
    pub(super) fn watch_streams(&mut self) {
        if let Some(hold) = self.tails.get_mut() {
            hold.awake();
            self.close_straight();
        }
    }

    /// A request has been queued.
    pub(super) fn note_arrival(&mut self, index: u8, now_ns: u64) {
        if self.config.tail_ns == 0 {
            return;
        }
        let Some(hold) = self.tails.get_mut() else { return };
        let slot = self.slots.at(index);
        let Some((direction, lba, blocks)) = slot.span() else { return };
        if hold.arrived(direction, lba, blocks, slot.origin.client, now_ns) {
            self.close_straight();
        }
    }

    /// The results of these are known.
    pub(super) fn note_results(&mut self, now_ns: u64) {
        let Some(hold) = self.tails.get_mut().filter(|hold| hold.watches()) else { return };
        for index in bits(hold.new_results(self.ended)) {
            let slot = self.slots.at(index);
            let (direction, lba, blocks) = match slot.kind {
                super::Kind::Read { lba, blocks } => (Direction::Read, lba, blocks),
                super::Kind::Write { lba, blocks } => (Direction::Write, lba, blocks),
                _ => continue,
            };
            if slot.result.is_ok() && !slot.orphan {
                hold.completed(direction, lba, blocks, now_ns);
            }
        }
    }

    /// The first command of a transfer goes out.
    pub(super) fn note_begin(&mut self, now_ns: u64) {
        self.hold_broken(now_ns);
        if self.gathered.members().len() > 1 {
            self.watch_streams();
        }
        if let Some(hold) = self.tails.get_mut() {
            hold.begins(now_ns);
        }
    }

    /// A transfer has come to its end, and the controller is free.
    pub(super) fn note_end(&mut self, now_ns: u64) {
        if let Some(hold) = self.tails.get_mut().filter(|hold| hold.watches()) {
            hold.ends(self.gathered.direction, self.gathered.blocks, now_ns);
        }
    }

    /// What has been moved becomes complete by a status that is asked for.
    pub(super) fn note_question(&mut self, now_ns: u64) {
        if let Some(hold) = self.tails.get_mut() {
            hold.asked(now_ns);
        }
    }

    /// Something else goes, or nothing.
    pub(super) fn hold_broken(&mut self, now_ns: u64) {
        if let Some(hold) = self.tails.get_mut() {
            hold.broken(now_ns);
        }
    }

    /// This would be next. Is its start held for what is about to continue it? Sets `wake_ns` then.
    #[inline]
    pub(super) fn holds_start(&mut self, first: u8, now_ns: u64) -> bool {
        self.watches() && self.holds_for_tail(first, now_ns)
    }

    #[inline(never)]
    fn holds_for_tail(&mut self, first: u8, now_ns: u64) -> bool {
        let Some(pending) = self.one_run(first, now_ns) else {
            self.hold_broken(now_ns);
            return false;
        };
        let Some(hold) = self.tails.get_mut() else { return false };
        let bound_ns = self.config.tail_ns.into();
        let Some(until_ns) = hold.decide(&pending, bound_ns, now_ns) else { return false };
        if let Some(picked) = self.told(first)
            && !self.policy.bears(&picked, until_ns)
        {
            self.hold_broken(now_ns);
            return false;
        }
        self.timers.wake_at(until_ns);
        true
    }

    /// All that waits, if it is one transfer of ordinary requests, and nothing else is to be done.
    fn one_run(&mut self, first: u8, now_ns: u64) -> Option<Pending> {
        let busy = self.incident.open || self.wire.is_doubted() || self.open.is_some() || self.can_continue();
        if busy || !self.gate.is_running() || P::RECOVERS && now_ns >= self.upkeep.due_ns {
            return None;
        }
        let slot = self.slots.at(first);
        let (direction, ..) = slot.span()?;
        if slot.solo || slot.moved_blocks != 0 || slot.rules != Rules::NONE || self.slots.head == NONE {
            return None;
        }
        let (reads, writes) = (self.slots.queued_reads(), self.slots.queued_writes());
        let unsettled = self.settling.count_ones() as u8;
        let (ours, others) = match direction {
            Direction::Read => (reads, writes | self.settling),
            Direction::Write => (writes, reads),
        };
        if others != 0 || self.slots.has_barrier() || self.slots.has_io() {
            return None;
        }
        let limits = self.limits();
        self.gathered.collect(&self.slots, first, limits);
        let requests = self.gathered.members().len() as u8;
        if u32::from(requests) != ours.count_ones() {
            return None;
        }
        let room = self.gate.queue_limit().min(N).saturating_sub(self.slots_in_use());
        let room =
            (room + usize::from(unsettled)).min(usize::from(limits.segments).saturating_sub(requests.into()));
        Some(Pending {
            direction,
            end: self.gathered.lba.saturating_add(u64::from(self.gathered.blocks)),
            blocks: self.gathered.blocks,
            requests,
            room_requests: room as u16,
            room_blocks: limits.merged_blocks.saturating_sub(self.gathered.blocks),
            unsettled,
        })
    }
}
