//! The request in a slot: its kind and its state.

use super::{Rules, Slot, State};
use crate::engine::buffer::DmaBuf;
use crate::engine::request::{BLOCK_BYTES, Error, Kind, Output, Request};
use crate::host::Segment;
use crate::sched::Origin;
use core::task::Waker;

/// Macro that makes methods, each of which returns one field of a slot.
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
    /// Returns whether no client waits for the result.
    orphan: bool;
    /// Returns whether the request is never merged again.
    solo: bool;
    /// Returns whether the request's data must be, or were, written a second time because the first
    /// write may be lost.
    redone: bool;
    /// Returns whether the controller has perhaps changed some of the request's blocks.
    tried: bool;
    generation: u32;
    /// Returns how many of the request's blocks are already transferred.
    moved_blocks: u32;
    origin: Origin;
    rules: Rules;
    urgent: bool;
    arrived_ns: u64;
    kind: Kind;
    result: Result<Output, Error>;
    /// Returns the next slot in the queue, or [`NONE`](super::NONE).
    next: u8;
}

impl Slot {
    pub fn is_read(&self) -> bool {
        matches!(self.kind, Kind::Read { .. })
    }

    pub fn is_flush(&self) -> bool {
        matches!(self.kind, Kind::Flush)
    }

    /// Returns whether this is a durable write of data (not of zeroes), also if a part of it is
    /// done.
    pub fn is_durable_write(&self) -> bool {
        let rules = self.rules;
        matches!(self.kind, Kind::Write { .. }) && rules.has(Rules::DURABLE) && !rules.has(Rules::ZERO)
    }

    /// Returns whether all data of the write are in the card's cache, and only a flush is missing.
    pub fn awaits_flush(&self) -> bool {
        self.rules.has(Rules::FLUSH_AFTER) && self.span().is_some_and(|(_, _, rest)| rest == 0)
    }

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

    /// Returns whether this is a read or write of exactly this many blocks, of which none was
    /// transferred, without special rules.
    #[inline(always)]
    pub fn is_whole(&self, blocks: u32) -> bool {
        let (Kind::Read { blocks: all, .. } | Kind::Write { blocks: all, .. }) = self.kind else {
            return false;
        };
        all == blocks && self.moved_blocks == 0 && self.rules == Rules::NONE
    }

    /// Takes in a new request with its memory: nothing of it has been mapped, transferred or tried.
    /// A durable request is never merged.
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
        (self.solo, self.redone, self.mapped, self.tried) = (rules != Rules::NONE, false, false, false);
        self.moved_blocks = 0;
        self.segment = segment;
        self.buf = request.buf.take();
        self.result = Ok(Output::default());
    }

    /// Changes the kind of the request, for example from zeroes to an erase.
    pub fn set_kind(&mut self, kind: Kind) {
        self.kind = kind;
    }

    /// Makes the request a write of zeroes of this kind. Its data are the same buffer of zeroes,
    /// sent as often as needed; the used length of the buffer becomes a whole number of blocks.
    pub fn set_zeroes(&mut self, kind: Kind) {
        (self.kind, self.solo) = (kind, true);
        self.rules.set(Rules::ZERO, true);
        self.segment.len -= self.segment.len % BLOCK_BYTES;
    }

    /// Takes the request's memory out of the slot.
    pub fn take_buf(&mut self) -> DmaBuf {
        core::mem::replace(&mut self.buf, DmaBuf::EMPTY)
    }

    /// Returns the request's memory, and leaves an empty buffer in the slot.
    pub fn give_back(&mut self) -> DmaBuf {
        self.buf.take()
    }

    /// Fills the request's memory with zeroes, so that no later owner reads its content.
    pub fn wipe(&mut self) {
        self.buf.fill(0);
    }

    /// Marks the request as one that no client waits for any more.
    pub fn set_orphan(&mut self) {
        self.orphan = true;
    }

    /// Keeps the buffer until `reclaim` takes it.
    pub fn keep_for_reclaim(&mut self) {
        self.state = State::Lost;
    }

    /// Stores a buffer in a slot that has no request. The caller gets it back by `reclaim`.
    pub fn keep(&mut self, buf: DmaBuf) {
        (self.state, self.buf) = (State::Lost, buf);
    }

    /// Notes that the request is sent to the controller.
    #[inline(always)]
    pub fn set_active(&mut self) {
        self.state = State::Active;
    }

    /// Marks the request as queued again.
    pub fn set_queued(&mut self) {
        self.state = State::Queued;
    }

    /// Leaves the buffer for ever to a controller that cannot be stopped. The data of a read are in
    /// that buffer, so none of them count as done.
    pub fn leak_buffer(&mut self) {
        self.buf = DmaBuf::EMPTY;
        self.moved_blocks = 0;
    }

    /// Keeps the memory that a blocking call has lent: a controller that cannot be stopped still
    /// uses it, so the call must not return.
    pub fn retain_lent(&mut self) {
        self.state = State::Kept;
    }

    /// Marks a write as waiting, outside of the queue, until the engine queues it to be sent again.
    pub fn await_rewrite(&mut self) {
        self.state = State::Settling;
        self.rules.set(Rules::FLUSH_AFTER, false);
    }

    /// If `alone` is true, the request is never merged with other requests from now on. False
    /// changes nothing.
    pub fn forbid_merge(&mut self, alone: bool) {
        self.solo |= alone;
    }

    /// Notes that the request comes back from the controller, which may have changed some of its
    /// blocks. Reads and flushes change no blocks, so nothing is noted for them.
    pub fn note_tried(&mut self) {
        self.tried = !matches!(self.kind, Kind::Read { .. } | Kind::Flush);
    }

    /// Sets whether a flush of the card's cache must follow the request, after its status has come.
    pub fn set_flush_after(&mut self, after: bool) {
        self.rules.set(Rules::FLUSH_AFTER, after);
    }

    /// Marks the write as one that is written again. Returns true if it was marked before.
    pub fn mark_rewritten(&mut self) -> bool {
        core::mem::replace(&mut self.redone, true)
    }

    #[inline(always)]
    pub fn answer(&mut self, result: Result<Output, Error>) {
        self.result = result;
    }

    /// Sets a good result; an error that is set already stays.
    pub fn answer_well(&mut self, output: Output) {
        self.result = self.result.and(Ok(output));
    }

    /// Notes that one transfer or task has moved all `blocks` blocks of the request.
    #[inline(always)]
    pub fn moved_all(&mut self, blocks: u32) {
        self.moved_blocks = blocks;
        if let Ok(output) = &mut self.result {
            output.bytes = blocks * BLOCK_BYTES;
        }
    }

    /// Adds `blocks` to the number of the request's blocks that were transferred.
    #[inline(always)]
    pub fn moved_more(&mut self, blocks: u32) {
        self.moved_blocks += blocks;
        if let Ok(output) = &mut self.result {
            output.bytes += blocks * BLOCK_BYTES;
        }
    }

    /// Sets how many blocks of the request are already transferred.
    pub fn set_moved(&mut self, blocks: u32) {
        self.moved_blocks = blocks;
    }

    /// Restarts the request: none of its blocks counts as transferred.
    pub fn restart(&mut self) {
        self.note_tried();
        (self.moved_blocks, self.result) = (0, Ok(Output::default()));
    }
}
