//! The straight path: an ordinary read or write while nothing else is going on.
//!
//! Nearly every request is one: nothing is open, stopped or failing, no command goes beside data,
//! nothing of the card's is special. Such a request skips the questions that the general path asks
//! ([`phases`](super::phases)) and does what that would have done; what is left behind is the same.
//! A request that has anything special to tell makes a test here fail, and everything goes the
//! general way. `tests/straight.rs` compares the two.
//!
//! Three shortcuts: from `submit` to the controller without the queue, from the end of a transfer
//! to its result, and from there to the next in the queue.

use super::extras::Event;
use super::phases::{COMMAND_TIMEOUT_NS, SLACK_NS, Stage};
use super::runs::End;
use super::slot::{NONE, Rules};
use super::timers::later;
use super::{BLOCK_BYTES, CardParams, Engine, Kind, Request, SlotId};
use crate::host::{Auto, BusyDetect, Direction, Done, Events, Host, Phase, Plain, Segment};
use crate::sched::{Policy, Profile};
use crate::spec::response::{R1, Response};

/// What is known of such requests before any comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Straight {
    /// One past the card's last block.
    sectors: u64,
    /// Most blocks of a read and of a write; 0: none goes this way.
    blocks: [u32; 2],
    door: Door,
    /// What the controller has, if it was started here and may end here; nothing once the path is
    /// closed.
    under_way: Way,
    /// That of a write.
    write: Way,
}

/// What may go the straight path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// Whatever is ordinary.
    Open,
    /// What has to wait in the queue: streams are watched, so what is next goes the general way.
    Watched,
    /// Whatever is ordinary, to the controller's queue engine (`tasks/driven.rs`).
    Driven,
    /// There may be something special since it was last looked for.
    Closed,
}

/// What the straight path has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Nothing,
    Read,
    Write,
    /// CMD13 after writes.
    Status,
}

impl Straight {
    pub const NONE: Straight = Straight {
        sectors: 0,
        blocks: [0; 2],
        door: Door::Closed,
        under_way: Way::Nothing,
        write: Way::Nothing,
    };

    /// Has the controller something that was started here?
    #[inline(always)]
    pub fn is_under_way(&self) -> bool {
        self.under_way != Way::Nothing
    }
}

/// Bits of an R1 that say more than that all is well.
const WRONG: u32 = R1::OWN | R1::DEFERRED | R1::EXCEPTION_EVENT;
/// Set in one more than CURRENT_STATE from 7 (programming) on; beyond that no transfer leaves a
/// card.
const FROM_PRG_ON: u32 = 8 << 9;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// There is such a path.
    pub(crate) const STRAIGHT: bool = P::FAST && P::Policy::IN_ORDER && P::RECOVERS && !H::CONTINUES;

    /// The card is another, or known better.
    pub(super) fn set_card(&mut self, target: Option<CardParams>) {
        self.card.set_target(target, self.host.caps());
        if !Self::STRAIGHT {
            return;
        }
        self.slots.none_is_plain();
        self.lane.straight_mut().blocks = [0; 2];
        let Some(target) = target else { return };
        let caps = self.host.caps();
        let ahead = usize::from(self.config.prepared) >= N;
        if target.extended_address || !self.card.plan().ends_by_itself() || !ahead {
            return;
        }
        let blocks = caps.max_blocks.min(caps.max_bytes / BLOCK_BYTES).min(0xffff);
        let straight = Straight {
            sectors: target.sectors,
            blocks: [blocks, if target.protected { 0 } else { blocks }],
            // A request that has to ask the card whether it is ready goes the general way.
            write: match caps.busy {
                BusyDetect::Interrupt if !self.tells_transferred() => Way::Write,
                _ => Way::Nothing,
            },
            ..*self.lane.straight()
        };
        *self.lane.straight_mut() = straight;
    }

    /// The straight path knows nothing of this. The code that makes it true sets `closed`.
    pub(super) fn is_special(&self) -> bool {
        let armed = self.lane.tasks().is_some_and(|tasks| tasks.is_armed()) || self.is_queued();
        armed
            || self.lane.packs().is_some_and(|packs| packs.is_armed())
            || self.lane.chains().is_some_and(|chains| chains.is_armed())
            || self.is_strange()
    }

    /// The same, but for what goes by another lane.
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

    /// One more may come where a slot is free, be it that some are kept for urgent requests.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        // Bits are not counted where none or one must stay free, as it is nearly everywhere.
        match self.gate.queue_limit() {
            room if room >= N => true,
            room if room + 1 == N => self.slots.are_two_free(),
            room => self.slots.free_count() as usize > N - room,
        }
    }

    /// There may be something special from now on.
    #[inline(always)]
    pub(super) fn close_straight(&mut self) {
        if Self::STRAIGHT {
            self.lane.straight_mut().door = Door::Closed;
            self.lane.straight_mut().under_way = Way::Nothing;
        }
    }

    /// Surely neither card nor recovery asks for attention.
    #[inline(always)]
    pub(crate) fn is_straight(&self) -> bool {
        Self::STRAIGHT && self.lane.straight().door != Door::Closed
    }

    /// What is under way ends by the general path.
    #[inline(always)]
    pub(super) fn forget_straight(&mut self) {
        if Self::STRAIGHT {
            self.lane.straight_mut().under_way = Way::Nothing;
        }
    }

    #[inline(always)]
    fn is_open(&mut self) -> bool {
        if self.lane.straight().door != Door::Open {
            return self.opens() == Door::Open;
        }
        debug_assert!(!self.is_special() && !self.watches(), "the straight path was not closed");
        true
    }

    /// May a request come in this way, to start at once, or (`queues`) to wait?
    #[inline(always)]
    fn lets_in(&mut self, queues: bool) -> bool {
        match self.lane.straight().door {
            Door::Watched if queues => true,
            Door::Watched if self.is_held() => false,
            Door::Open => self.is_open(),
            _ => self.opens() == Door::Open,
        }
    }

    #[inline(never)]
    fn opens(&mut self) -> Door {
        // What is complete without a status has none of the slots that this path looks at.
        let door = match self.is_strange() || self.durability.is_unsettled() {
            true => Door::Closed,
            false if self.rings_tasks() && self.lane.is_idle() && !self.tells_transferred() => Door::Driven,
            false if self.is_special() => Door::Closed,
            false if self.watches() => Door::Watched,
            false => Door::Open,
        };
        self.lane.straight_mut().door = door;
        door
    }

    /// Does whatever is ordinary go to the controller's queue engine?
    #[inline(always)]
    pub(super) fn is_driven_open(&self) -> bool {
        let open = self.lane.hosted().is_some() && self.lane.straight().door == Door::Driven;
        debug_assert!(!open || !self.is_strange(), "the straight path was not closed");
        open
    }

    /// Do so many blocks, that end there, go in one transfer?
    #[inline(always)]
    pub(super) fn fits_straight(&self, direction: Direction, blocks: u32, end: u64) -> bool {
        self.is_ordinary(direction, blocks) && end <= self.lane.straight().sectors
    }

    /// Accepts and starts a request if nothing is in its way.
    #[inline(always)]
    pub(super) fn submit_straight(&mut self, request: &mut Request, now_ns: u64) -> Option<SlotId> {
        if self.is_driven_open() {
            return self.submit_driven(request, now_ns);
        }
        // Each direction by itself: much of what follows is then known when this is compiled.
        match request.kind {
            Kind::Read { lba, blocks } => {
                self.submit_blocks::<false>(Direction::Read, lba, blocks, request, now_ns)
            }
            Kind::Write { lba, blocks } => {
                self.submit_blocks::<false>(Direction::Write, lba, blocks, request, now_ns)
            }
            _ => None,
        }
    }

    /// A start is held. Accepts a request if nothing is in its way, and it may join what is held.
    #[inline(never)]
    pub(super) fn submit_to_held(&mut self, request: &mut Request, now_ns: u64) -> Option<SlotId> {
        let (direction, lba, blocks) = match request.kind {
            Kind::Read { lba, blocks } => (Direction::Read, lba, blocks),
            Kind::Write { lba, blocks } => (Direction::Write, lba, blocks),
            _ => return None,
        };
        self.submit_blocks::<true>(direction, lba, blocks, request, now_ns)
    }

    #[inline(always)]
    fn submit_blocks<const HELD: bool>(
        &mut self,
        direction: Direction,
        lba: u64,
        blocks: u32,
        request: &mut Request,
        now_ns: u64,
    ) -> Option<SlotId> {
        let end = lba.checked_add(u64::from(blocks))?;
        let ordinary = self.fits_straight(direction, blocks, end);
        let is_queued = HELD || !self.lane.is_idle();
        if !ordinary || request.durable | request.urgent || !self.lets_in(is_queued) || !self.has_room() {
            return None;
        }
        let idle = self.lane.is_idle();
        if HELD {
            if !idle {
                return None;
            }
        } else if idle
            && (self.slots.head() != NONE || self.slots.is_settling() || self.timers.chore_is_due(now_ns))
        {
            return None;
        }
        let len = blocks * BLOCK_BYTES;
        if request.buf.len_bytes() < len {
            return None;
        }
        let index = self.slots.next_free()?;
        let mut segment = request.buf.segment(len);
        self.host.map(&mut segment, direction).ok()?;
        self.slots.take_free();
        let slot = self.slots.at_mut(index);
        let kind = match direction {
            Direction::Read => Kind::Read { lba, blocks },
            Direction::Write => Kind::Write { lba, blocks },
        };
        slot.take_in(kind, segment.same(), (Rules::NONE, false), request, now_ns);
        let generation = slot.generation();
        self.slots.note_mapped(index);
        self.record.request_accepted();
        if HELD {
            self.slots.push_next(index, direction, lba, end);
            if !self.joins(index, now_ns) {
                self.dispatch_any(now_ns);
            }
        } else if idle {
            self.slots.pass(index);
            self.start_straight(index, direction, lba, blocks, segment, now_ns);
        } else {
            self.slots.push_span(index, direction, lba, end);
            self.try_early(now_ns);
        }
        Some(SlotId { index, generation })
    }

    /// So many blocks go in one transfer, by what the host does itself.
    #[inline(always)]
    fn is_ordinary(&self, direction: Direction, blocks: u32) -> bool {
        let [read, write] = self.lane.straight().blocks;
        let most = if direction == Direction::Read { read } else { write };
        // None at all is too many.
        blocks.wrapping_sub(1) < most
    }

    /// Starts what is next. False: that is for the general path.
    #[inline(always)]
    pub(super) fn next_straight(&mut self, now_ns: u64) -> bool {
        if !self.lane.is_idle() || self.is_queued() || !self.is_open() {
            return false;
        }
        let head = self.slots.head();
        if head == NONE {
            if !self.slots.is_settling() && self.timers.chore_is_planned() {
                return false;
            }
            self.timers.wake_never();
            if self.slots.is_settling() {
                self.ask_straight(now_ns);
            }
            return true;
        }
        self.send_to_end_straight(head, now_ns)
    }

    /// Starts the head of the queue by the general path, which leaves behind what this one would
    /// have; its end may come here. False: that is for the general path too.
    #[inline(never)]
    fn send_to_end_straight(&mut self, head: u8, now_ns: u64) -> bool {
        let way = match self.slots.at(head).kind() {
            Kind::Read { .. } => Way::Read,
            Kind::Write { .. } => self.lane.straight().write,
            _ => return false,
        };
        if !self.slots.is_plain(head) || self.timers.chore_is_due(now_ns) {
            return false;
        }
        if self.starts_stream(head, self.slots.span(head).start, now_ns) {
            return false;
        }
        self.begin_transfer(head, false, now_ns);
        if matches!(self.lane.stage(), Stage::Main) && !self.lane.is_blocked() {
            self.lane.straight_mut().under_way = way;
        }
        self.try_early(now_ns);
        !self.lane.is_idle()
    }

    /// Starts the head of the queue. False: that is for the general path.
    #[inline(always)]
    fn send_straight(&mut self, head: u8, now_ns: u64) -> bool {
        // Each direction by itself, as in `submit_straight`.
        match self.slots.at(head).kind() {
            Kind::Read { lba, blocks } => self.send_blocks(head, Direction::Read, lba, blocks, now_ns),
            Kind::Write { lba, blocks } => self.send_blocks(head, Direction::Write, lba, blocks, now_ns),
            _ => false,
        }
    }

    #[inline(always)]
    fn send_blocks(&mut self, head: u8, direction: Direction, lba: u64, blocks: u32, now_ns: u64) -> bool {
        if self.starts_stream(head, lba, now_ns) {
            return false;
        }
        let slot = self.slots.at(head);
        if !self.slots.is_plain(head) || self.timers.chore_is_due(now_ns) {
            return false;
        }
        if self.slots.is_settling() {
            // The general path looks at the R1 of this one before its end.
            let early = Self::EARLY && (slot.next() == NONE || self.are_few(1));
            if early || blocks > self.config.settle_blocks || self.incident.doubts(self.slots.settling()) {
                return false;
            }
        }
        let segment = slot.segment().same();
        self.slots.pop(head, direction, lba, lba.wrapping_add(u64::from(blocks)));
        self.start_straight(head, direction, lba, blocks, segment, now_ns);
        true
    }

    #[inline(always)]
    fn start_straight(
        &mut self,
        index: u8,
        direction: Direction,
        lba: u64,
        blocks: u32,
        segment: Segment,
        now_ns: u64,
    ) {
        self.gathered.one(index, direction, lba, blocks);
        self.gathered.one_segment(segment);
        self.transfer_begins(End::Here);
        self.durability.writes(direction == Direction::Write);
        let (plan, single) = (self.card.plan(), blocks == 1);
        let auto = if single { Auto::None } else { plan.auto(blocks) };
        let wire_ns = self.card.wire().data_ns(blocks);
        let transfer = plan.transfer((direction, lba, blocks), single, auto, wire_ns);
        self.lane.enter(Stage::Main);
        self.timers.give_up_at(later(now_ns, Self::first_look_ns(wire_ns, transfer.patience_ns) + SLACK_NS));
        self.lane.prepare(transfer.phase);
        self.lane.straight_mut().under_way = match direction {
            Direction::Read => Way::Read,
            Direction::Write => self.lane.straight().write,
        };
        let result = self.host.start_plain(self.lane.phase(), self.gathered.segment(), transfer.timeout_ns);
        self.note_start(result, now_ns);
    }

    /// Asks the card how its writes went.
    #[inline(always)]
    fn ask_straight(&mut self, now_ns: u64) {
        self.record.status_asked();
        self.lane.busy_mut().not_asked();
        self.lane.enter(Stage::Status);
        self.timers.give_up_at(later(now_ns, COMMAND_TIMEOUT_NS + SLACK_NS));
        self.lane.prepare(Phase::of(self.card.plan().status()));
        self.lane.straight_mut().under_way = Way::Status;
        let result = self.host.start_plain(self.lane.phase(), &[], COMMAND_TIMEOUT_NS);
        self.note_start(result, now_ns);
    }

    /// As [`start_phase`](Self::start_phase), for a plain phase that ends by the general path.
    #[inline(always)]
    pub(super) fn start_plain_phase(&mut self, stage: Stage, timeout_ns: u64, limit_ns: u64, now_ns: u64) {
        if !Self::STRAIGHT {
            return self.start_phase(stage, timeout_ns, limit_ns, now_ns);
        }
        self.lane.enter(stage);
        self.forget_straight();
        if Self::EARLY {
            self.lane.early_mut().begin();
        }
        self.timers.give_up_at(later(later(now_ns, limit_ns), SLACK_NS));
        self.timers.wake_never();
        let segments = self.gathered.segments(self.lane.phase().data.is_some());
        let result = self.host.start_plain(self.lane.phase(), segments, timeout_ns);
        self.note_start(result, now_ns);
    }

    /// The events of a command of the card's queue, or of the data of a task. `None`: the command has
    /// ended, and its lane has gone on.
    #[inline(always)]
    pub(super) fn take_plain_events(&mut self, now_ns: u64) -> Option<Events> {
        match self.host.ack_plain(self.gathered.segments(self.lane.phase().data.is_some())) {
            Ok(plain) if self.has_task_step() && !self.lane.is_blocked() && !self.is_concurrent() => {
                message!(trace, "answered {:#010x}", plain.status);
                self.lane.note_end(now_ns);
                self.timers.give_up_never();
                self.task_event(Event::Done(plain.status), now_ns);
                None
            }
            Ok(plain) => Some(self.events_of(plain)),
            Err(events) => Some(events),
        }
    }

    /// It has ended well.
    #[inline(always)]
    fn events_of(&self, Plain { status, stop }: Plain) -> Events {
        let stop = (self.lane.phase().auto == Auto::Stop).then_some(stop);
        let done = Done { response: Response::short(status), stop, tuned: false };
        Events { phase: Some(Ok(done)), ..Events::default() }
    }

    /// Takes the events of a controller that has a transfer that was started here.
    #[inline(always)]
    pub(super) fn acknowledge_straight(&mut self, now_ns: u64) -> bool {
        let events = match self.host.ack_plain(self.gathered.segment()) {
            Ok(plain) if self.ended_straight(plain, now_ns) => return true,
            Ok(plain) => self.events_of(plain),
            Err(events) => events,
        };
        self.acknowledged(events, false, now_ns)
    }

    /// What was started here is over on the wire. False, and nothing done: there is more to it than
    /// that.
    #[inline(always)]
    fn ended_straight(&mut self, plain: Plain, now_ns: u64) -> bool {
        // Only CMD13 may find the card programming, and that is not its end.
        if (plain.status | plain.stop) & WRONG | plain.status.wrapping_add(1 << 9) & FROM_PRG_ON != 0 {
            return false;
        }
        message!(trace, "answered {:#010x}", plain.status);
        let way = self.lane.straight().under_way;
        self.lane.note_end(now_ns);
        // What was written before.
        let mut written = NONE;
        if self.slots.is_settling() {
            written = self.settle_straight(plain.status);
        }
        let mut read = NONE;
        if way != Way::Status {
            let (index, blocks) = (self.gathered.first(), self.gathered.blocks());
            let slot = self.slots.at_mut(index);
            slot.moved_all(blocks);
            if way == Way::Write {
                self.slots.awaits_status(index);
            } else {
                slot.ends();
                read = index;
            }
        }
        // The next is started before anything is completed.
        debug_assert!(self.lane.straight().door == Door::Open, "nothing here closes it");
        let head = self.slots.head();
        let started = if head != NONE {
            self.send_straight(head, now_ns)
        } else {
            let asks = self.slots.is_settling();
            if asks {
                self.ask_straight(now_ns);
            }
            asks
        };
        if !started {
            // The stage is still that of what has ended: the next would have overwritten it.
            self.lane.straight_mut().under_way = Way::Nothing;
            self.lane.enter(Stage::Idle);
            self.timers.clear();
            if head != NONE || self.timers.chore_is_planned() {
                self.dispatch_any(now_ns);
            }
        }
        if written != NONE {
            self.end_straight(written, Direction::Write);
        }
        if read != NONE {
            self.end_straight(read, Direction::Read);
        }
        true
    }

    /// The writes that wait for this status, which shows no error. The only one is not completed
    /// yet.
    #[inline(always)]
    fn settle_straight(&mut self, status: u32) -> u8 {
        let settling = self.slots.settling();
        let index = settling.trailing_zeros() as u8;
        let slot = self.slots.at_mut(index);
        if settling & (settling - 1) != 0 || slot.rules() != Rules::NONE {
            self.settle(status);
            return NONE;
        }
        slot.ends();
        self.note_written();
        self.incident.believe(settling);
        self.slots.take_settling();
        index
    }

    #[inline(always)]
    pub(super) fn end_straight(&mut self, index: u8, direction: Direction) {
        if self.host.caps().defer_completion {
            self.slots.end(index);
            return;
        }
        self.complete(index, direction);
        if self.slots.have_unmapped() {
            self.prepare_more();
        }
    }
}
