//! The fast path: an ordinary read or write while nothing special is going on.
//!
//! The fast path is used while there are no [`blockers`](super::blockers). It uses slots, batch,
//! plan and timers of the general path ([`phases`](super::phases)), and leaves them in the same
//! state; only checks between them are skipped. For a request with anything special a test here
//! fails, and the request takes the general path. `tests/fast_path.rs` compares the two paths.
//!
//! There are three shortcuts. A request goes from `submit` to the controller without the queue. At
//! the end of a transfer that ends with its data, the request gets its result directly. Then the
//! next request of the queue starts directly.
//!
//! While the only blocker is a transfer that is left open, a request that continues it starts and
//! ends in the same short way, if no other request waits. The transfer then stays open.

use super::blockers::{DRIVEN, LEFT_OPEN};
use super::bus::COMMAND_TIMEOUT_NS;
use super::order::Order;
use super::phases::Stage;
use super::record::Record;
use super::runs::{End, Open};
use super::slot::{NONE, Rules, Slots};
use super::timers::later;
use super::{BLOCK_BYTES, Engine, Kind, Request, SlotId};
use crate::host::{Auto, Direction, FastEnd, Host, Phase, Segment};
use crate::sched::{Policy, Profile};
use crate::spec::response::R1;

/// Kinds of work on the bus whose end the fast path may handle, instead of the general path with
/// all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FastKind {
    Nothing,
    Read,
    Write,
    /// CMD13, which reads the status of written data.
    Status,
    /// Data of one request that continue the open transfer, without a command.
    Continued,
}

/// Bits of an R1 that show an error or an exception event.
const WRONG: u32 = R1::OWN | R1::DEFERRED | R1::EXCEPTION_EVENT;
/// Bit that is set in a status to which 1 was added in the field CURRENT_STATE, if the state is 7
/// (programming) or later. So one test finds whether a card still programs.
const FROM_PRG_ON: u32 = 8 << 9;

impl<P: Profile> Order<P> {
    /// Informs the part that delays starts of transfers ([`Hold`](crate::sched::Hold)) that a
    /// request has come. The client may have sent it because an earlier write has got its result.
    #[cold]
    #[inline(never)]
    pub fn note_what_came<const N: usize>(&mut self, slots: &Slots<N>, now_ns: u64) {
        self.note_results(slots, now_ns);
    }
}

impl<const N: usize> Slots<N> {
    /// Accepts a read or write that needs no special handling, and maps its memory. Returns its
    /// slot and the mapped memory. `None`: nothing was done, because no slot is free, the buffer is
    /// too short, or the memory cannot be mapped.
    #[inline(always)]
    pub fn take_in_mapped<H: Host>(
        &mut self,
        host: &mut H,
        record: &mut Record,
        (direction, lba, blocks): (Direction, u64, u32),
        request: &mut Request,
        now_ns: u64,
    ) -> Option<(SlotId, Segment)> {
        let len = blocks * BLOCK_BYTES;
        if request.buf.len_bytes() < len {
            return None;
        }
        let index = self.next_free()?;
        let mut segment = request.buf.segment(len);
        host.map(&mut segment, direction).ok()?;
        self.take_free();
        let slot = self.at_mut(index);
        let kind = match direction {
            Direction::Read => Kind::Read { lba, blocks },
            Direction::Write => Kind::Write { lba, blocks },
        };
        slot.take_in(kind, segment.same(), (Rules::NONE, false), request, now_ns);
        let generation = slot.generation();
        self.note_mapped(index);
        record.request_accepted();
        Some((SlotId { index, generation }, segment))
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Accepts and starts an ordinary request if nothing special is going on. `None`: the request
    /// must take the general path, which has all checks.
    #[inline(always)]
    pub(super) fn submit_fast(&mut self, request: &mut Request, now_ns: u64) -> Option<SlotId> {
        if self.lane.hosted().is_some() && self.is_stopped_by::<DRIVEN>() {
            return self.submit_driven(request, now_ns);
        }
        if H::CONTINUES && self.is_stopped_by::<LEFT_OPEN>() && self.lane.streams().is_open() {
            return self.submit_on(request.kind.span()?, request, now_ns);
        }
        self.submit_blocks::<false>(request.kind.span()?, request, now_ns)
    }

    /// Accepts a request that continues the open transfer, and starts it if nothing prevents that.
    /// `None`: the request must take the general path.
    #[inline(never)]
    fn submit_on(
        &mut self,
        (direction, lba, blocks): (Direction, u64, u32),
        request: &mut Request,
        now_ns: u64,
    ) -> Option<SlotId> {
        let open = self.lane.streams().open()?;
        let end = lba.checked_add(u64::from(blocks))?;
        let run = (direction, lba, blocks);
        let parts = (&self.config, &self.incident);
        let goes_on = (open.direction, open.next, open.counted) == (direction, lba, 0)
            && !(request.durable | request.urgent)
            && self.card.is_meant(request.card)
            && self.lane.may_stay_open(&self.bus, &self.card, parts, (direction, blocks, end));
        if !goes_on {
            return None;
        }
        let free = self.lane.is_idle()
            && self.blockers.has_room(&self.slots)
            && !(self.slots.head() != NONE || self.slots.is_settling() || self.timers.chore_is_due(now_ns));
        if !free {
            return None;
        }
        let (id, segment) =
            self.slots.take_in_mapped(self.bus.host_mut(), &mut self.record, run, request, now_ns)?;
        if H::CONTINUES_BY_REQUEST && !self.bus.host().goes_on_with(&segment, blocks, direction) {
            // The general path closes the transfer.
            self.slots.push_span(id.index, direction, lba, end);
            self.lane.note_free();
            return Some(id);
        }
        self.batch.one(id.index, direction, lba, blocks);
        self.batch.one_segment(segment);
        self.slots.activate_unqueued(id.index);
        let (streams, hold_ns) = (self.lane.streams_mut(), self.config.hold_ns);
        streams.note_run::<H, N>(&self.batch, &self.slots, hold_ns, id.index, now_ns);
        self.timers.clear_idle();
        self.lane.note_transfer_start(&mut self.record, &mut self.incident, End::Unknown);
        self.record.transfer_continued();
        let (ledger, auto) = (&mut self.durability, Auto::Continue);
        let times_ns = self.bus.prepare_main::<P>(ledger, &self.card, run, false, auto, true);
        self.start_fast_phase(FastKind::Continued, Stage::Main, times_ns, now_ns);
        Some(id)
    }

    /// Accepts a request while the start of a transfer is delayed, if the request may join that
    /// transfer. Returns its slot; `None`: the request was not accepted, and the caller must submit
    /// it by the general path.
    #[inline(never)]
    pub(super) fn submit_to_held(&mut self, request: &mut Request, now_ns: u64) -> Option<SlotId> {
        self.submit_blocks::<true>(request.kind.span()?, request, now_ns)
    }

    #[inline(always)]
    fn submit_blocks<const HELD: bool>(
        &mut self,
        (direction, lba, blocks): (Direction, u64, u32),
        request: &mut Request,
        now_ns: u64,
    ) -> Option<SlotId> {
        let end = lba.checked_add(u64::from(blocks))?;
        let idle = self.lane.is_idle();
        let ordinary = self.lane.fast_limits().fits(direction, blocks, end)
            && !(request.durable | request.urgent)
            && self.card.is_meant(request.card);
        if !ordinary
            || !self.admit_fast(HELD || !idle)
            || !self.blockers.has_room(&self.slots)
            || HELD && !idle
        {
            return None;
        }
        if !HELD
            && idle
            && (self.slots.head() != NONE || self.slots.is_settling() || self.timers.chore_is_due(now_ns))
        {
            return None;
        }
        let (id, segment) = self.slots.take_in_mapped(
            self.bus.host_mut(),
            &mut self.record,
            (direction, lba, blocks),
            request,
            now_ns,
        )?;
        if HELD {
            self.slots.push_next(id.index, direction, lba, end);
            if !self.join_run(id.index, now_ns) {
                self.lane.note_free();
            }
        } else if idle {
            self.slots.activate_unqueued(id.index);
            self.start_alone(id.index, (direction, lba, blocks), segment, now_ns);
        } else {
            self.slots.push_span(id.index, direction, lba, end);
            if !self.blockers.are_none() {
                self.order.note_what_came(&self.slots, now_ns);
            }
            self.try_early(now_ns);
        }
        Some(id)
    }

    /// Lets the fast path (few checks) handle the end of a transfer that the general path has
    /// started, if it is an ordinary transfer of one request.
    #[inline(always)]
    pub(super) fn claim_fast_end(&mut self) {
        if !Self::FAST || self.lane.stage() != Stage::Main || self.bus.is_blocked() {
            return;
        }
        let (direction, blocks, end) = (self.batch.direction(), self.batch.blocks(), self.batch.end());
        let alone = self.batch.count() == 1
            && self.slots.at(self.batch.first()).is_whole(blocks)
            && (!H::CONTINUES || self.lane.streams().end() == End::Here);
        if alone && self.lane.fast_limits().fits(direction, blocks, end) && self.try_open() {
            self.blockers.set_fast_kind(self.lane.fast_limits().fast_kind(direction));
        }
    }

    /// Starts the next request by the fast path, which skips the checks for special cases. The
    /// engine's state (lane) may still be that of the transfer that has ended. Returns false if the
    /// next request needs the general path.
    #[inline(always)]
    fn next_fast(&mut self, now_ns: u64) -> bool {
        let head = self.slots.head();
        if head != NONE {
            return self.send_head(head, now_ns);
        }
        self.blockers.forget_fast();
        self.lane.enter(Stage::Idle);
        self.timers.clear();
        if self.slots.is_settling() {
            self.ask_fast(now_ns);
            return true;
        }
        !self.timers.chore_is_planned()
    }

    /// Starts the head of the queue by the fast path, which skips the checks for special cases.
    /// Returns false if the request needs the general path.
    #[inline(always)]
    fn send_head(&mut self, head: u8, now_ns: u64) -> bool {
        let Some(run) = self.slots.at(head).kind().span() else { return false };
        let (direction, lba, blocks) = run;
        // The scheduler may pick a read before an older write.
        let picks = !P::Policy::IN_ORDER && direction == Direction::Write && self.slots.queued_reads() != 0;
        if picks
            || self.watch_new_stream(head, lba, now_ns)
            || !self.slots.is_lone(head)
            || self.timers.chore_is_due(now_ns)
        {
            return false;
        }
        let slot = self.slots.at(head);
        // Of several requests the general path may choose another one than the head.
        if self.bus.may_continue() && slot.next() != NONE {
            return false;
        }
        if self.slots.is_settling() {
            // The general path handles the early R1 of this transfer.
            let early = Self::EARLY && (slot.next() == NONE || self.slots.are_few(1));
            if early || blocks > self.config.settle_blocks || self.incident.doubts(self.slots.settling()) {
                return false;
            }
        }
        let segment = slot.segment().same();
        self.slots.pop(head, direction, lba, lba.wrapping_add(u64::from(blocks)));
        self.start_alone(head, run, segment, now_ns);
        true
    }

    /// Starts the transfer of one request by the fast path (few checks). `run`: direction, first
    /// block and number of blocks. Each direction has a compiled version of its own, whose code is
    /// shorter.
    #[inline(always)]
    fn start_alone(&mut self, index: u8, run: (Direction, u64, u32), segment: Segment, now_ns: u64) {
        let (direction, lba, blocks) = run;
        match direction {
            Direction::Read => self.start_run(index, (Direction::Read, lba, blocks), segment, now_ns),
            Direction::Write => self.start_run(index, (Direction::Write, lba, blocks), segment, now_ns),
        }
    }

    #[inline(always)]
    fn start_run(&mut self, index: u8, run: (Direction, u64, u32), segment: Segment, now_ns: u64) {
        let (direction, lba, blocks) = run;
        self.batch.one(index, direction, lba, blocks);
        self.batch.one_segment(segment);
        if self.bus.may_continue() && self.begin_open(index, now_ns) {
            return;
        }
        self.lane.note_transfer_start(&mut self.record, &mut self.incident, End::Here);
        let single = blocks == 1;
        let auto = if single { Auto::None } else { self.card.plan().auto(blocks) };
        let times_ns = self.bus.prepare_main::<P>(&mut self.durability, &self.card, run, single, auto, true);
        self.start_fast_phase(self.lane.fast_limits().fast_kind(direction), Stage::Main, times_ns, now_ns);
    }

    /// Records the request of the batch in slot `index` for the decision whether to keep transfers
    /// open. If its transfer is to stay open, starts it on the general path, and returns true.
    #[inline(always)]
    fn begin_open(&mut self, index: u8, now_ns: u64) -> bool {
        let (streams, hold_ns) = (self.lane.streams_mut(), self.config.hold_ns);
        streams.note_run::<H, N>(&self.batch, &self.slots, hold_ns, index, now_ns);
        if streams.stay_ns(self.batch.direction(), &self.config) == 0 {
            return false;
        }
        let end = self.foresee();
        if end != End::Here {
            self.lane.note_transfer_start(&mut self.record, &mut self.incident, end);
            self.begin_counted(now_ns);
        }
        end != End::Here
    }

    /// Reads the card's status by CMD13, to complete earlier writes.
    #[inline(always)]
    fn ask_fast(&mut self, now_ns: u64) {
        self.record.status_asked();
        self.lane.busy_mut().not_asked();
        self.bus.prepare(Phase::of(self.card.plan().status()));
        let times_ns = (COMMAND_TIMEOUT_NS, COMMAND_TIMEOUT_NS);
        self.start_fast_phase(FastKind::Status, Stage::Status, times_ns, now_ns);
    }

    /// Starts a phase like [`start_phase`](Self::start_phase), but through the driver's shorter
    /// path for frequent phases.
    #[inline(always)]
    pub(super) fn start_fast_phase(
        &mut self,
        kind: FastKind,
        stage: Stage,
        (timeout_ns, limit_ns): (u64, u64),
        now_ns: u64,
    ) {
        if !Self::FAST {
            return self.start_phase(stage, timeout_ns, limit_ns, now_ns);
        }
        self.enter_phase(kind, stage, limit_ns, now_ns);
        let segments = self.batch.segments(self.bus.phase().data.is_some());
        let outcome = self.bus.start_fast(segments, timeout_ns, now_ns);
        self.note_start(outcome, now_ns);
    }

    /// Handles the controller's events while a read, a write or a CMD13 is in progress whose end
    /// may take the fast path (a direct end without the checks for special cases). Returns false if
    /// there was no event.
    #[inline(always)]
    pub(super) fn acknowledge_fast(&mut self, now_ns: u64) -> bool {
        let events = match self.bus.host_mut().ack_fast(self.batch.segment()) {
            Ok(end) if self.ended_fast(end, now_ns) => return true,
            Ok(end) => end.events(self.bus.phase().auto == Auto::Stop),
            Err(events) => events,
        };
        self.acknowledged(events, false, now_ns)
    }

    /// Handles the end of a phase by the fast path, which skips the checks for special cases.
    /// `status`: response of the command; `stop`: response of the automatic CMD12. Returns false
    /// and does nothing if the end needs the general path.
    #[inline(always)]
    fn ended_fast(&mut self, FastEnd { status, stop }: FastEnd, now_ns: u64) -> bool {
        // Only the response to CMD13 may show that the card is programming; then the card is still
        // busy.
        if (status | stop) & WRONG | status.wrapping_add(1 << 9) & FROM_PRG_ON != 0 {
            return false;
        }
        let kind = self.blockers.fast_kind();
        if H::CONTINUES && kind == FastKind::Continued {
            return self.ended_on(status, now_ns);
        }
        message!(trace, "answered {:#010x}", status);
        self.bus.note_end(now_ns);
        if self.slots.is_settling() {
            self.durability.settled(&mut self.slots, &mut self.incident, &self.order, Ok(()));
        }
        if kind != FastKind::Status {
            let index = self.batch.first();
            if self.bus.may_continue() {
                self.lane.streams_mut().note_closed_data(&self.batch, &self.bus, now_ns);
            }
            self.slots.at_mut(index).moved_all(self.batch.blocks());
            match kind {
                FastKind::Write => self.slots.await_status(index),
                _ => self.slots.end(index),
            }
        }
        // The next request is started before this one is completed.
        debug_assert!(self.blockers.are_none(), "nothing here is in the way");
        if !self.next_fast(now_ns) {
            self.blockers.forget_fast();
            self.lane.set_idle();
            self.timers.clear();
        }
        true
    }

    /// Ends the request whose data have continued the open transfer, and leaves the transfer open.
    /// `status`: the R1 that the host has reported. Returns false if something waits, or if the
    /// transfer may have to be closed: then the general path must handle the end.
    #[inline(never)]
    fn ended_on(&mut self, status: u32, now_ns: u64) -> bool {
        let Some(open) = self.lane.streams().open() else { return false };
        let (direction, blocks, next) = (self.batch.direction(), self.batch.blocks(), self.batch.end());
        let parts = (&self.config, &self.incident);
        let goes_on = self.is_stopped_by::<LEFT_OPEN>()
            && self.lane.may_stay_open(&self.bus, &self.card, parts, (direction, blocks, next));
        if !goes_on {
            return false;
        }
        let free =
            self.slots.head() == NONE && !self.durability.owes_status(&self.slots) && !self.timers.is_kept();
        if !free {
            return false;
        }
        // Before the times of chores are read, since a rest counts from this end. The general path
        // would record the same end again.
        self.bus.note_end(now_ns);
        // A write is complete with its data.
        let told_ns = open.told_ns.or((direction == Direction::Write).then_some(now_ns));
        let open = Open { next, told_ns, ..open };
        let until_ns = later(now_ns, self.lane.streams().stay_ns(direction, &self.config))
            .min(self.supervisor.quiet_chore_ns::<H, P>(&self.bus, &self.timers, &self.record))
            .min(open.owed_by_ns(self.config.owed_ns));
        if until_ns <= now_ns {
            return false;
        }
        message!(trace, "answered {:#010x}", status);
        let streams = self.lane.streams_mut();
        streams.note_data(&self.batch, &self.bus, true, now_ns);
        streams.note_ended::<H>(now_ns);
        streams.continued();
        streams.leave_open(Some(open));
        streams.went_out(direction, next, now_ns);
        let index = self.batch.first();
        self.slots.at_mut(index).moved_all(blocks);
        self.slots.end(index);
        self.blockers.forget_fast();
        self.lane.enter(Stage::Idle);
        self.timers.clear();
        self.timers.hold_until(until_ns);
        self.timers.wake_after_hold();
        true
    }
}
