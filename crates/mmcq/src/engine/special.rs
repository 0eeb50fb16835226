//! Writes with special rules, and requests that a quirk of the card makes special. The writes are
//! durable writes and writes of zeroes. The other requests are reads up to a last block that must
//! be read alone, and writes to a card that does not know CMD25.
//!
//! A durable write is complete when its data are on the medium. Without a volatile cache, the data
//! of every write are on the medium when its status has come; then a durable write only stays out
//! of open transfers. With a cache, an eMMC's reliable write goes past the cache [eMMC 6.6.31]. SD
//! cards have no such write, and some hosts cannot send it. Then a flush follows the write, and its
//! client gets the result only after the flush.
//!
//! Requests with special rules go alone: nothing is merged with them, and no transfer is left open
//! before, by or after them.

use super::area::goes_behind;
use super::bus::COMMAND_TIMEOUT_NS;
use super::card::Card;
use super::durability::Durability;
use super::erase::erased;
use super::extras::{Event, Memory, Pieces, Place, Step};
use super::order::Order;
use super::phases::Stage;
use super::runs::{Close, End};
use super::slot::{NONE, Rules, Slot, Slots, bits};
use super::{Abilities, BLOCK_BYTES, Engine, Error, FlushBy, Kind, Request};
use crate::host::{Direction, Host, Segment};
use crate::sched::Profile;
use crate::spec::command;
use crate::spec::response::R1;

/// Most blocks that one request may overwrite with zeroes: `Output` counts bytes in 32 bits.
const ZERO_BLOCKS_MAX: u32 = (1 << 23) - 1;

impl Slot {
    /// Changes a request for zeroes into an erase, if erased blocks read as zeros on this card, or
    /// into a write of a buffer of zeros.
    pub fn plan_zeroes(&mut self, abilities: &Abilities) {
        let Kind::Zero { lba, blocks } = self.kind() else { return };
        if let Some(how) = abilities.erase.zeroing(lba, blocks) {
            return self.set_kind(Kind::Erase { lba, blocks, how });
        }
        self.set_zeroes(Kind::Write { lba, blocks });
    }

    /// Returns the memory of the blocks that are still to be transferred.
    fn rest(&self) -> Segment {
        self.segment().part(self.moved_blocks().saturating_mul(BLOCK_BYTES), u32::MAX)
    }
}

impl Card {
    /// Checks a request that needs [`enable_extended_ops`](Engine::enable_extended_ops), and
    /// returns the reason if it cannot be accepted.
    pub fn admit_extra(&self, request: &Request) -> Result<(), Error> {
        let Some(target) = self.target().as_ref() else { return Err(Error::NoCard) };
        let (lba, blocks) = match request.kind {
            Kind::Zero { lba, blocks } | Kind::Erase { lba, blocks, .. } => (lba, blocks),
            Kind::PartitionAccess(visit) => return visit.admitted(target, request.buf.len_bytes()),
            kind if goes_behind(&kind) => return Err(Error::Unsupported),
            _ => return Ok(()),
        };
        let end = lba.checked_add(u64::from(blocks));
        if blocks == 0 || end.is_none_or(|end| end > target.sectors) {
            return Err(Error::OutOfRange { lba, sectors: target.sectors });
        }
        if target.protected {
            return Err(Error::Protected);
        }
        if matches!(request.kind, Kind::Erase { .. }) && !self.abilities().are_known() {
            return Err(Error::Unequipped);
        }
        let erase = &self.abilities().erase;
        let given = request.buf.len_bytes();
        match request.kind {
            Kind::Zero { .. } if blocks > ZERO_BLOCKS_MAX => Err(Error::Unsupported),
            Kind::Zero { .. } if given < BLOCK_BYTES && erase.zeroing(lba, blocks).is_none() => {
                Err(Error::Buffer { needed: BLOCK_BYTES, given })
            }
            Kind::Erase { how, .. } => erase.check(lba, blocks, how),
            _ => Ok(()),
        }
    }
}

impl<P: Profile> Order<P> {
    /// Ends a request with this error before it is sent.
    pub fn refuse<const N: usize>(
        &mut self,
        slots: &mut Slots<N>,
        memory: &mut Memory,
        index: u8,
        error: Error,
    ) {
        memory.set_piece_state(Pieces::Unknown);
        self.turn_down(slots, index, error);
    }
}

impl<const N: usize> Slots<N> {
    /// Completes the requests that wait for a flush, because the flush that has just ended (in slot
    /// `control`) served them too. A write among them is not sent again, since a younger write to
    /// the same blocks may be complete. Flushes in the queue are not completed if `ledger` still
    /// has a lost write to report to one of them.
    pub fn end_flushed(&mut self, ledger: &Durability, control: u8) {
        let joins = ledger.is_settled();
        for index in bits(self.take_served(control, joins)) {
            let result = self.at(index).result();
            self.end_with(index, result);
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Begins the next command for the request in slot `index`: a durable write, its flush, or a
    /// write of zeroes.
    pub(super) fn begin_special(&mut self, index: u8, now_ns: u64) {
        if self.lane.streams().is_open() {
            return self.close(Close::Break, now_ns);
        }
        let slot = self.slots.at(index);
        let (kind, moved) = (slot.kind(), slot.moved_blocks());
        let (durable, zero) = (slot.rules().has(Rules::DURABLE), slot.rules().has(Rules::ZERO));
        let Some((_, lba, rest)) = slot.span() else { return };
        let Some(target) = *self.card.target() else {
            return self.order.refuse(&mut self.slots, self.services.memory_mut(), index, Error::NoCard);
        };
        let Kind::Write { lba: start, blocks } = kind else {
            return self.order.refuse(&mut self.slots, self.services.memory_mut(), index, Error::Unsupported);
        };
        // The loss is reported when the write's turn comes, and not when it is submitted: the card
        // may have lost its state without the engine's knowledge, or the supervisor be about to
        // reset it.
        if durable && !zero && moved == 0 && self.durability.take_loss() {
            return self.order.refuse(&mut self.slots, self.services.memory_mut(), index, Error::CacheLost);
        }
        if rest == 0 {
            return self.flush_written(index, now_ns);
        }
        let mut most = if self.card.writes_singly() { 1 } else { rest };
        if zero {
            most = most.min(self.slots.at(index).segment().len / BLOCK_BYTES).max(1);
        }
        // A late error of a piece comes with the status after it, and belongs to this request.
        if moved > 0 && self.services.memory().pieces() != Pieces::Good {
            if self.services.memory().pieces() == Pieces::Asked {
                return self.order.refuse(
                    &mut self.slots,
                    self.services.memory_mut(),
                    index,
                    Error::Program(R1::ERROR),
                );
            }
            self.services.memory_mut().set_piece_state(Pieces::Asked);
            self.services.memory_mut().set_step(Step::Command(Place::Piece));
            return self.ask_status(Stage::Extra, now_ns);
        }
        self.services.memory_mut().set_piece_state(Pieces::Unknown);
        let cached = target.flush != FlushBy::Status;
        let piece = most.min(self.bus.limits(&self.config, &self.incident, self.lane.streams()).blocks);
        let reliable = cached
            && target.count
            && !self.bus.host().caps().no_count
            && self.card.abilities().reliable(start, blocks)
            && (piece == blocks || self.card.abilities().reliable_blocks == u32::MAX);
        // A reliable write is not complete before writes that must be flushed first: such a write
        // is sent again if the cache is lost, and would overwrite this one.
        if durable && reliable && self.slots.owe_flush() {
            return match self.slots.awaiting_flush() {
                Some(written) => self.flush_written(written, now_ns),
                None => self.ask_status(Stage::Status, now_ns),
            };
        }
        // The status of earlier writes is read first: it must not come with this write's.
        let doubted = P::RECOVERS && self.incident.doubts(self.slots.settling());
        if doubted || self.slots.is_settling() && most > self.config.settle_blocks {
            return self.ask_status(Stage::Status, now_ns);
        }
        match self.map_in_turn(index, now_ns) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                return self.order.refuse(&mut self.slots, self.services.memory_mut(), index, error);
            }
        }
        // Whether a piece is in the cache already: the card may have lost CMD23 for a while.
        let begun = moved > 0 && self.slots.at(index).rules().has(Rules::FLUSH_AFTER);
        self.slots.set_flush_after(index, durable && cached && (!reliable || begun), moved == 0);
        let segment = if zero { self.slots.at(index).segment().same() } else { self.slots.at(index).rest() };
        let end = if durable && reliable { End::Reliable } else { End::Here };
        self.send_alone(index, (Direction::Write, lba, piece), segment, end, now_ns);
    }

    /// Starts a transfer for blocks of one request. No other request is merged into the transfer.
    fn send_alone(
        &mut self,
        index: u8,
        (direction, lba, blocks): (Direction, u64, u32),
        mut segment: Segment,
        end: End,
        now_ns: u64,
    ) {
        self.batch.alone(direction, index, lba, blocks);
        segment.len = segment.len.min(blocks.saturating_mul(BLOCK_BYTES));
        self.batch.one_segment(segment);
        self.order.note_sent(&self.slots, index, now_ns);
        self.slots.unlink(index);
        self.slots.at_mut(index).set_active();
        self.timers.clear_idle();
        self.lane.note_transfer_start(&mut self.record, &mut self.incident, end);
        if H::CONTINUES {
            self.lane.streams_mut().note_transfer_start(now_ns);
        }
        if self.card.target().is_some_and(|target| target.extended_address) {
            let upper = command::sd::address_extension((lba >> 32) as u8);
            self.start_command(Stage::Address, upper, COMMAND_TIMEOUT_NS, now_ns);
        } else if self.lane.streams().end() == End::Reliable {
            let count = command::set_block_count(blocks, true);
            self.start_command(Stage::Count, count, COMMAND_TIMEOUT_NS, now_ns);
        } else {
            self.begin_counted(now_ns);
        }
    }

    /// Handles the status that the card gives after one piece of a long write (the write is at the
    /// head of the queue). Refuses the write if the status shows an error.
    pub(super) fn piece_judged(&mut self, status: u32, now_ns: u64) {
        self.services.memory_mut().set_piece_state(Pieces::Good);
        let head = self.slots.head();
        let begun = |slot: &Slot| matches!(slot.kind(), Kind::Write { .. }) && slot.moved_blocks() != 0;
        if status & R1::DEFERRED != 0 && head != NONE && begun(self.slots.at(head)) {
            self.order.refuse(
                &mut self.slots,
                self.services.memory_mut(),
                head,
                super::outcome::not_written(status),
            );
        } else if status & R1::DEFERRED != 0 {
            // The write was given up before its status came.
            self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, status);
        }
        self.lane.go_idle::<H>(&mut self.timers, now_ns);
    }

    /// Starts the flush of a durable write whose status has come; its data are in the card's cache.
    fn flush_written(&mut self, index: u8, now_ns: u64) {
        if self.durability.owes_status(&self.slots) {
            return self.ask_status(Stage::Status, now_ns);
        }
        self.slots.unlink(index);
        let slot = self.slots.at_mut(index);
        slot.set_active();
        // If the flush fails, nothing is surely on the medium. The request keeps `FLUSH_AFTER`,
        // since the card has its data.
        slot.set_moved(0);
        self.lane.set_control(index);
        self.blockers.close_fast();
        self.batch.forget();
        self.record.durable_flushed();
        self.begin_flush(now_ns);
    }

    /// Continues an erase after one of its pieces: other requests run first, then the next piece.
    pub(super) fn piece_erased(&mut self, now_ns: u64) {
        let index = self.lane.control();
        let budget_ns = self.config.erase_budget_ns;
        let took_ns = self.services.memory().took_ns(now_ns);
        let piece_blocks = self.services.memory_mut().erasing_mut().learn(took_ns, budget_ns);
        let slot = self.slots.at_mut(index);
        slot.set_moved(slot.moved_blocks().saturating_add(piece_blocks));
        let Kind::Erase { lba, blocks, .. } = slot.kind() else { return };
        let (moved, durable) = (slot.moved_blocks(), slot.rules().has(Rules::DURABLE));
        if moved < blocks {
            self.lane.release_control();
            self.slots.push_rest(
                index,
                lba.saturating_add(u64::from(moved)),
                lba.saturating_add(u64::from(blocks)),
            );
            self.lane.go_idle::<H>(&mut self.timers, now_ns);
        } else if durable {
            self.slots.at_mut(index).answer(Ok(erased(moved)));
            self.begin_flush(now_ns);
        } else {
            self.end_control(Ok(erased(moved)));
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Starts the read or write of slot `first`, which a [quirk](crate::spec::quirks) of the card
    /// makes special, or which is a write that is durable, of zeroes, or of single blocks only.
    #[cold]
    #[inline(never)]
    pub(super) fn go_specially(&mut self, first: u8, now_ns: u64) {
        let slot = self.slots.at(first);
        if slot.direction() == Some(Direction::Read) || slot.rules() == Rules::NONE {
            return self.send_piece(first, now_ns);
        }
        self.extra(Event::Write(first), now_ns);
    }

    /// Sends a piece of a request that a [quirk](crate::spec::quirks) of the card makes special, as
    /// a transfer that ends with its blocks (is not left open). For a write the piece is one block.
    /// For a read it is the blocks before the card's last one, and then the last one.
    fn send_piece(&mut self, index: u8, now_ns: u64) {
        if self.lane.streams().is_open() {
            return self.close(Close::Break, now_ns);
        }
        if self.slots.is_settling() {
            return self.ask_status(Stage::Status, now_ns);
        }
        let (Some((direction, lba, rest)), Some(sectors)) =
            (self.slots.at(index).span(), self.card.target().map(|target| target.sectors))
        else {
            return self.order.refuse(&mut self.slots, self.services.memory_mut(), index, Error::NoCard);
        };
        match self.map_in_turn(index, now_ns) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                return self.order.refuse(&mut self.slots, self.services.memory_mut(), index, error);
            }
        }
        let before = sectors.saturating_sub(1).saturating_sub(lba);
        let most = match u32::try_from(before) {
            _ if direction == Direction::Write => 1,
            Ok(before) if before > 0 => rest.min(before),
            _ => rest,
        };
        let piece = most.min(self.bus.limits(&self.config, &self.incident, self.lane.streams()).blocks);
        self.send_alone(index, (direction, lba, piece), self.slots.at(index).rest(), End::Here, now_ns);
    }
}
