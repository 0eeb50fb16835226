//! How one flush of the card serves many requests.
//!
//! A flush writes all that is in the card's cache, so it serves all clients whose data are there.
//! On an eMMC it takes from 0.4 ms to many milliseconds, as long as several small writes. So:
//!
//! - Durable writes that need a flush are written one after the other, and then flushed together.
//! - Flushes that wait with no change of the card between them are one.
//! - A flush whose turn comes lets waiting writes of other clients go first, if these clients flush
//!   too: each will soon request a flush for its write, and one flush then serves all. A client may
//!   go before a flush once; then it must flush before it may do so again. No write goes before a
//!   flush of its own client. No other flush can end meanwhile, so fewer and fewer clients may go
//!   first.

use super::super::request::Kind;
use super::{Rules, Slots, bits};
use crate::host::Direction;
use crate::sched::slot_set::SlotSet;

/// The clients whose waiting writes may go before the flush of another client, one bit for each.
/// The bit is set when the client itself sends a flush, and cleared when one of its writes has gone
/// before another client's flush.
#[derive(Debug)]
pub(in super::super) struct Flushers([u32; 8]);

impl Flushers {
    pub const NONE: Flushers = Flushers([0; 8]);

    fn set(&mut self, client: u8, has_flushed: bool) {
        let word = &mut self.0[usize::from(client >> 5)];
        let bit = 1 << (client & 31);
        *word = if has_flushed { *word | bit } else { *word & !bit };
    }

    fn has(&self, client: u8) -> bool {
        self.0[usize::from(client >> 5)] & 1 << (client & 31) != 0
    }
}

impl<const N: usize> Slots<N> {
    /// Queues the request of slot `index`, a written one that needs a flush. It goes to the front;
    /// with `joins` it goes behind the durable writes there, which are written first and share the
    /// flush. Each client waits for its write, so at most N - 1 writes go before.
    #[cold]
    #[inline(never)]
    pub fn requeue_for_flush(&mut self, index: u8, joins: bool) {
        let durable = |at: &u8| self.at(*at).is_durable_write() && !self.at(*at).awaits_flush();
        let run = self.queue().take_while(|at| self.at(*at).is_read() || self.at(*at).is_durable_write());
        match run.filter(durable).last() {
            Some(last) if joins => self.push_behind(index, last),
            _ => self.push_front(index),
        }
    }

    /// Sets whether a flush must follow the write in slot `index`, which is sent now, after its
    /// status has come. `first`: none of the write's blocks was sent before.
    pub fn set_flush_after(&mut self, index: u8, after: bool, first: bool) {
        let bit = 1 << index;
        self.at_mut(index).set_flush_after(after);
        self.owing = if after { self.owing | bit } else { self.owing & !bit };
        if first {
            self.covered &= !bit;
        }
    }

    /// Handles a write or erase that leaves the queue and may change the blocks of earlier durable
    /// writes. Those of them whose flush has not ended yet are marked: they must not be sent again.
    #[cold]
    #[inline(never)]
    pub(super) fn cover(&mut self, index: u8) {
        let span = self.span(index);
        let (start, end) = match self.at(index).kind() {
            Kind::Write { .. } => (span.start, span.end),
            Kind::Erase { lba, blocks, .. } => (lba, lba.saturating_add(blocks.into())),
            _ => return,
        };
        for owing in bits(self.owing & !(1 << index)) {
            if let Kind::Write { lba, blocks } = self.at(owing).kind()
                && start < end
                && lba < end
                && start < lba.saturating_add(blocks.into())
            {
                self.covered |= 1 << owing;
            }
        }
    }

    /// Returns whether some blocks of a write, which is complete only after a flush, were changed
    /// by a later request. Such a write must not be sent again, because it would replace later
    /// data.
    pub fn is_covered(&self, index: u8) -> bool {
        self.covered & self.owing & (1 << index) != 0
    }

    /// Returns whether a durable write is in the card's cache, and its flush has still to be made.
    pub fn owe_flush(&self) -> bool {
        let settles = |at: u8| self.at(at).rules().has(Rules::FLUSH_AFTER);
        bits(self.settling).any(settles) || self.awaiting_flush().is_some()
    }

    /// Returns the slot of the first queued write that is in the card's cache and waits for a
    /// flush; `None`: there is none.
    pub fn awaiting_flush(&self) -> Option<u8> {
        self.queue().find(|&at| self.at(at).awaits_flush())
    }

    /// Moves a flush whose turn has come, and the flushes behind it, behind the waiting writes of
    /// other clients that flush too. Returns true if it has moved them. No write goes before a
    /// flush of its own client, and reads and writes keep their order.
    pub fn give_way(&mut self, flush: u8) -> bool {
        if !self.at(flush).is_flush() {
            return false;
        }
        let (mut waiting, mut met, mut passed, mut writers) = (Flushers::NONE, 0, 0, 0);
        let mut last = None;
        for at in self.queue() {
            let slot = self.at(at);
            let client = slot.origin().client;
            if slot.is_flush() {
                waiting.set(client, true);
                met |= 1 << at;
            } else if waiting.has(client) {
                break;
            } else if slot.direction() == Some(Direction::Write) && self.flushers.has(client) {
                (last, passed) = (Some(at), met);
                writers |= 1 << at;
            } else if !slot.is_read() {
                break;
            }
        }
        let Some(mut last) = last else { return false };
        for writer in bits(writers) {
            self.flushers.set(self.at(writer).origin().client, false);
        }
        for flush in bits(passed) {
            self.unlink(flush);
            self.push_behind(flush, last);
            last = flush;
        }
        true
    }

    /// Takes from the queue the writes that are in the card's cache and wait for a flush.
    pub fn take_written(&mut self) -> SlotSet {
        let written = self.queue().filter(|&at| self.at(at).awaits_flush()).fold(0, |set, at| set | 1 << at);
        for index in bits(written) {
            self.unlink(index);
        }
        written
    }

    /// Takes from the queue the requests that a flush has served, in addition to its `owner`; the
    /// flush just ended well. Served are:
    ///
    /// - durable writes whose data are written;
    /// - with `joins`, the flushes at the head of the queue that have only reads and flushes before
    ///   them, so that nothing has changed the card since.
    pub fn take_served(&mut self, owner: u8, joins: bool) -> SlotSet {
        let written = self.take_written();
        let ahead = self.queue().take_while(|&at| joins && (self.at(at).is_read() || self.at(at).is_flush()));
        let flushes = ahead.filter(|&at| self.at(at).is_flush()).fold(0, |set, at| set | 1 << at);
        for index in bits(flushes) {
            self.unlink(index);
        }
        for index in bits(flushes | 1 << owner) {
            if self.at(index).is_flush() {
                self.flushers.set(self.at(index).origin().client, true);
            }
        }
        written | flushes
    }
}
