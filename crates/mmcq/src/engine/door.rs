//! The door of the fast path: may an ordinary read or write skip the questions of the general path
//! ([`phases`](super::phases))?
//!
//! Nearly every request may: nothing is open, stopped or failing, no command goes beside data,
//! nothing of the card's is special. What makes something special true closes the door. When a
//! request comes, or the general path begins a transfer, all is looked at again, and it may open.

use super::fast::FastKind;
use super::{BLOCK_BYTES, CardParams, Engine};
use crate::host::{BusyDetect, Direction, Host};
use crate::sched::{Policy, Profile};

/// What may go by the fast path, as far as it is known before any request comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    /// One past the card's last block.
    sectors: u64,
    /// Most blocks of a read and of a write; 0: none goes this way.
    blocks: [u32; 2],
    /// The controller ends a write by an interrupt, and its status is owed then.
    writes_end: bool,
    opening: Opening,
}

/// How far it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Whatever is ordinary.
    Open,
    /// What has to wait in the queue: sequential clients are watched for the tail of a batch
    /// (`tail.rs`), so what is next goes the general way.
    Watched,
    /// Whatever is ordinary, to the controller's queue engine (`tasks/driven.rs`).
    Driven,
    /// There may be something special since it was last looked for.
    Closed,
}

impl Door {
    pub const NONE: Door = Door { sectors: 0, blocks: [0; 2], writes_end: false, opening: Opening::Closed };

    /// May a transfer this way end by the fast path?
    #[inline(always)]
    pub fn fast_kind(&self, direction: Direction) -> FastKind {
        match direction {
            Direction::Read => FastKind::Read,
            Direction::Write if self.writes_end => FastKind::Write,
            Direction::Write => FastKind::Nothing,
        }
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.opening == Opening::Open
    }

    /// Closes the door.
    #[inline(always)]
    pub fn close(&mut self) {
        self.opening = Opening::Closed;
    }

    /// Do so many blocks, that end there, go in one transfer, by what the host does itself?
    #[inline(always)]
    pub fn fits(&self, direction: Direction, blocks: u32, end: u64) -> bool {
        let [read, write] = self.blocks;
        let most = if direction == Direction::Read { read } else { write };
        // None at all is too many.
        blocks.wrapping_sub(1) < most && end <= self.sectors
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// There is a fast path.
    pub(crate) const FAST: bool =
        P::FAST && P::Policy::MAY_BE_IN_ORDER && P::RECOVERS && !H::ALWAYS_CONTINUES;

    /// The scheduler is told nothing on it, and nothing continues an open transfer.
    fn may_go_fast(&self) -> bool {
        let continues = H::CONTINUES && self.host.caps().continue_data;
        Self::FAST && self.order.policy().is_in_order() && !continues
    }

    /// The card is another, or known better.
    pub(super) fn set_card(&mut self, target: Option<CardParams>) {
        self.card.set_target(target, self.host.caps());
        if !Self::FAST {
            return;
        }
        self.slots.clear_lone();
        let caps = self.host.caps();
        let ahead = usize::from(self.config.prepared) >= N;
        let most = caps.max_blocks.min(caps.max_bytes / BLOCK_BYTES).min(0xffff);
        let blocks = match target {
            // Nothing is looked at for each request where none goes this way.
            _ if !self.may_go_fast() => [0; 2],
            Some(target) if target.extended_address || !self.card.plan().ends_by_itself() || !ahead => [0; 2],
            Some(target) => [most, if target.protected { 0 } else { most }],
            None => [0; 2],
        };
        let door = Door {
            sectors: target.map_or(0, |target| target.sectors),
            blocks,
            // A request that has to ask the card whether it is ready goes the general way.
            writes_end: caps.busy == BusyDetect::Interrupt && !self.tells_transferred(),
            opening: self.lane.door().opening,
        };
        *self.lane.door_mut() = door;
    }

    /// The fast path knows nothing of this. The code that makes it true closes the door.
    pub(super) fn is_special(&self) -> bool {
        let armed = self.lane.tasks().is_some_and(|tasks| tasks.is_armed()) || self.is_queued();
        armed
            || self.lane.packs().is_some_and(|packs| packs.is_armed())
            || self.lane.chains().is_some_and(|chains| chains.is_armed())
            || self.is_strange()
    }

    /// Asks whether anything special is going on that goes by no lane.
    fn is_strange(&self) -> bool {
        let io = self.lane.has_control()
            || self.slots.has_io()
            || self.is_concurrent()
            || self.card.functions().is_running()
            || self.timers.is_chained()
            || !self.services.memory().area().is_user();
        let wrong = !self.gate.is_open() || self.incident.is_open() || self.supervisor.helping().calls();
        io || self.card.functions().is_asking() || !H::CARD_IRQ && self.timers.is_looking() || wrong
    }

    /// Asks for room for one more: a slot is free, be it that some are kept for urgent requests.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        // Bits are not counted where none or one must stay free, as it is nearly everywhere.
        match self.gate.queue_limit() {
            room if room >= N => true,
            room if room + 1 == N => self.slots.are_two_free(),
            room => self.slots.free_count() as usize > N - room,
        }
    }

    /// Closes the door: there may be something special from now on.
    #[inline(always)]
    pub(super) fn close_fast(&mut self) {
        if Self::FAST {
            self.lane.door_mut().close();
            self.forget_fast();
        }
    }

    /// Lets what is under way end by the general path.
    #[inline(always)]
    pub(super) fn forget_fast(&mut self) {
        if Self::FAST {
            self.lane.set_fast_kind(FastKind::Nothing);
        }
    }

    /// The door is not closed: surely neither card nor recovery asks for attention.
    #[inline(always)]
    pub(crate) fn is_fast(&self) -> bool {
        Self::FAST && self.lane.door().opening != Opening::Closed
    }

    /// Opens the door where it was closed and nothing is special. True: what is next may start.
    #[inline(always)]
    pub(super) fn try_open(&mut self) -> bool {
        if !self.lane.door().is_open() {
            return self.reopen() == Opening::Open;
        }
        debug_assert!(!self.is_special() && !self.watches(), "the door was not closed");
        true
    }

    /// Decides whether a request comes in by the fast path, to start at once, or (`queues`) to
    /// wait.
    #[inline(always)]
    pub(super) fn admit_fast(&mut self, queues: bool) -> bool {
        match self.lane.door().opening {
            Opening::Watched if queues => true,
            Opening::Watched if self.is_held() => false,
            Opening::Open => self.try_open(),
            _ => self.reopen() == Opening::Open,
        }
    }

    /// Looks at all that may be special, and opens the door as far as that allows.
    #[inline(never)]
    fn reopen(&mut self) -> Opening {
        // What is complete without a status has none of the slots that the fast path looks at.
        let opening = match self.is_strange() || self.durability.is_unsettled() || !self.may_go_fast() {
            true => Opening::Closed,
            false if self.rings_tasks() && self.lane.is_idle() && !self.tells_transferred() => {
                Opening::Driven
            }
            false if self.is_special() => Opening::Closed,
            false if self.watches() => Opening::Watched,
            false => Opening::Open,
        };
        self.lane.door_mut().opening = opening;
        opening
    }

    /// Does whatever is ordinary go to the controller's queue engine?
    #[inline(always)]
    pub(super) fn is_driven_open(&self) -> bool {
        let open = self.lane.hosted().is_some() && self.lane.door().opening == Opening::Driven;
        debug_assert!(!open || !self.is_strange(), "the door was not closed");
        open
    }
}
