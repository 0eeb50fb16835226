//! The request in a slot: what it is, and what becomes of it.

use super::{Rules, Slot, State};
use crate::engine::buffer::DmaBuf;
use crate::engine::request::{BLOCK_BYTES, Error, Kind, Output, Request};
use crate::host::Segment;
use crate::sched::Origin;
use core::task::Waker;

/// Makes the questions that a slot answers.
macro_rules! told {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl Slot {
            $(
                $(#[$doc])*
                #[inline(always)]
                pub fn $name(&self) -> $type {
                    self.$name
                }
            )*
        }
    };
}

told! {
    state: State;
    /// No client waits for the result.
    orphan: bool;
    /// Never merged again.
    solo: bool;
    /// Written a second time.
    redone: bool;
    generation: u32;
    /// Blocks already moved.
    moved_blocks: u32;
    origin: Origin;
    rules: Rules;
    urgent: bool;
    arrived_ns: u64;
    kind: Kind;
    result: Result<Output, Error>;
    /// The one behind it in the queue.
    next: u8;
}

impl Slot {
    #[inline(always)]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns the request's memory, for the host that maps it.
    #[inline(always)]
    pub fn segment_to_map(&mut self) -> &mut Segment {
        &mut self.segment
    }

    #[inline(always)]
    pub fn buf(&self) -> &DmaBuf {
        &self.buf
    }

    #[inline(always)]
    pub fn waker(&self) -> Option<&Waker> {
        self.waker.as_ref()
    }

    #[inline(always)]
    pub fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Asks whether this is a read or write of so many blocks, of which none has moved, and no more
    /// than that.
    #[inline(always)]
    pub fn is_whole(&self, blocks: u32) -> bool {
        let (Kind::Read { blocks: all, .. } | Kind::Write { blocks: all, .. }) = self.kind else {
            return false;
        };
        all == blocks && self.moved_blocks == 0 && self.rules == Rules::NONE
    }

    /// A new request: nothing of it has been mapped, moved or tried. Its memory is the slot's now.
    /// A durable one is never merged.
    #[inline(always)]
    pub fn take_in(
        &mut self,
        kind: Kind,
        segment: Segment,
        (rules, urgent): (Rules, bool),
        request: &mut Request,
        now_ns: u64,
    ) {
        self.kind = kind;
        (self.origin, self.arrived_ns) = (request.origin, now_ns);
        (self.rules, self.urgent) = (rules, urgent);
        (self.solo, self.redone, self.mapped, self.moved_blocks) = (rules != Rules::NONE, false, false, 0);
        self.segment = segment;
        self.buf = request.buf.take();
        self.result = Ok(Output::default());
    }

    /// Makes the request one of another kind.
    pub fn set_kind(&mut self, kind: Kind) {
        self.kind = kind;
    }

    /// Makes the request a write that sends whole blocks of zeroes again and again.
    pub fn set_zeroes(&mut self, kind: Kind) {
        (self.kind, self.solo) = (kind, true);
        self.rules.set(Rules::ZERO, true);
        self.segment.len -= self.segment.len % BLOCK_BYTES;
    }

    /// Takes the request's memory, which goes elsewhere.
    pub fn take_buf(&mut self) -> DmaBuf {
        core::mem::replace(&mut self.buf, DmaBuf::EMPTY)
    }

    /// A refused request has its memory again.
    pub fn give_back(&mut self) -> DmaBuf {
        self.buf.take()
    }

    /// Fills the memory with zeroes, so that no later owner reads what it held.
    pub fn wipe(&mut self) {
        self.buf.fill(0);
    }

    /// Marks the request as one that no client waits for any more.
    pub fn set_orphan(&mut self) {
        self.orphan = true;
    }

    /// Keeps the buffer until `reclaim` comes for it.
    pub fn keep_for_reclaim(&mut self) {
        self.state = State::Lost;
    }

    /// A buffer without a request waits for `reclaim`.
    pub fn keep(&mut self, buf: DmaBuf) {
        (self.state, self.buf) = (State::Lost, buf);
    }

    /// Notes that the request goes to the controller.
    #[inline(always)]
    pub fn set_active(&mut self) {
        self.state = State::Active;
    }

    /// Puts the request back to those that are queued.
    pub fn set_queued(&mut self) {
        self.state = State::Queued;
    }

    /// Leaves the buffer for ever to a controller that nothing stops, which has its own memory.
    /// What a read brought is in there: nothing of it counts.
    pub fn leak_buffer(&mut self) {
        self.buf = DmaBuf::EMPTY;
        self.moved_blocks = 0;
    }

    /// Keeps lent memory, since a controller that nothing stops has it.
    pub fn retain_lent(&mut self) {
        self.state = State::Kept;
    }

    /// Lets a written request wait until it is written again.
    pub fn await_rewrite(&mut self) {
        self.state = State::Settling;
        self.rules.set(Rules::FLUSH_AFTER, false);
    }

    /// Lets the request go alone from now on, if `alone`.
    pub fn forbid_merge(&mut self, alone: bool) {
        self.solo |= alone;
    }

    /// Sets whether the request must be flushed once it is settled.
    pub fn set_flush_after(&mut self, after: bool) {
        self.rules.set(Rules::FLUSH_AFTER, after);
    }

    /// Marks the write as one that is written again. True: it was so before.
    pub fn mark_rewritten(&mut self) -> bool {
        core::mem::replace(&mut self.redone, true)
    }

    #[inline(always)]
    pub fn answer(&mut self, result: Result<Output, Error>) {
        self.result = result;
    }

    /// An error stays; what went well is this.
    pub fn answer_well(&mut self, output: Output) {
        self.result = self.result.and(Ok(output));
    }

    /// All of it has moved at once.
    #[inline(always)]
    pub fn moved_all(&mut self, blocks: u32) {
        self.moved_blocks = blocks;
        if let Ok(output) = &mut self.result {
            output.bytes = blocks * BLOCK_BYTES;
        }
    }

    /// Adds blocks that have moved.
    #[inline(always)]
    pub fn moved_more(&mut self, blocks: u32) {
        self.moved_blocks += blocks;
        if let Ok(output) = &mut self.result {
            output.bytes += blocks * BLOCK_BYTES;
        }
    }

    /// Sets how many blocks are dealt with.
    pub fn set_moved(&mut self, blocks: u32) {
        self.moved_blocks = blocks;
    }

    /// Begins the request again: nothing of it has moved.
    pub fn restart(&mut self) {
        (self.moved_blocks, self.result) = (0, Ok(Output::default()));
    }
}
