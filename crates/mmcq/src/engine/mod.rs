//! The engine: it holds requests in slots, chooses their order, maps their memory ahead of their
//! turn, sends them to the controller phase by phase, and watches deadlines. The engine calls no
//! waker, takes no lock and reads no clock.
//!
//! Requests come in by [`Engine::submit`] and wait in one queue. [`Engine::on_irq`] and
//! [`Engine::poll`] advance the phases: each acknowledges events, decides, starts the next phase,
//! and only then completes the requests that have ended. [`Engine::take`] returns the results.
//!
//! A program uses the engine inside of a [`Stack`](crate::task::Stack), and reads and writes by a
//! [`BlockDevice`](crate::block::BlockDevice).
//!
//! `GLOSSARY.md` defines the words of this project: lane, chain, pack, batch, hold, tail, ladder,
//! incident, supervisor, chore, run, gate, blocker.

// Read first: `turn.rs` (the loop, and every entry), `slot.rs` (a request's life), `order.rs`
// (which request is next), then `phases.rs` (how a transfer runs), `control.rs` (other requests),
// `concurrent.rs` (commands during a transfer's data), `continuation.rs` and `stream.rs` (transfers
// that stay open), `recover/` (failures) and `bus/` (the phase that the controller has).

mod area;
mod batch;
mod blockers;
mod breach;
mod buffer;
mod bus;
mod busy;
mod cancel;
mod card;
mod chains;
mod concurrent;
mod config;
mod continuation;
mod control;
mod deadline;
mod durability;
mod early;
mod ends;
mod erase;
mod extras;
mod fast;
mod fast_limits;
mod functions;
mod gate;
mod lane;
mod limits;
mod mapping;
mod order;
mod outcome;
mod packs;
mod partition_access;
mod passing;
mod phases;
mod plan;
mod record;
mod recover;
mod register_flush;
mod request;
mod runs;
mod slot;
mod special;
mod stream;
mod supervisor;
pub(crate) mod switched;
mod switches;
mod tail;
mod tasks;
mod timers;
mod turn;
mod upkeep;
mod worth;

use crate::host::{BusyDetect, Caps, Direction, Host};
pub use crate::sched::slot_set::{SLOTS_MAX, SlotSet};
use crate::sched::{Fifo, Policy, Profile};
use batch::Batch;
use blockers::Blockers;
pub use breach::Breach;
pub use buffer::{Claim, DmaBuf};
use bus::Bus;
pub use bus::Span;
pub(crate) use bus::{COMMAND_TIMEOUT_NS, SLACK_NS, START_RETRY_NS};
use card::Card;
pub use card::CardNumber;
pub use config::{
    Abilities, Acknowledge, CARD_IRQ_STEP_NS, CardParams, Config, Count, FlushBy, PollOutcome, Stats,
    StaysOpen,
};
use durability::Durability;
pub use erase::{Erase, Erasing, Irreversible};
use extras::Services;
use fast_limits::FastLimits;
use lane::Lane;
use order::Order;
pub use partition_access::PartitionAccess;
pub(crate) use plan::Plan;
use record::Record;
use recover::Incident;
#[doc(hidden)]
pub use recover::{Handshake, ServiceRequest};
pub use recover::{RecoveryEvent, RecoveryStep};
pub use request::{BLOCK_BYTES, Completion, Error, Kind, Output, Request, SlotId};
pub use runs::Close;
use slot::{Slots, State, bits};
use supervisor::Supervisor;
use timers::Timers;

/// A controller with one card, and the requests for it. `N` slots, 1 to [`SLOTS_MAX`].
#[derive(Debug)]
// What most functions touch comes first: short offsets make short instructions on small cores.
#[repr(C)]
pub struct Engine<H: Host, const N: usize, P: Profile = Fifo> {
    blockers: Blockers<H, P>,
    durability: Durability,
    /// The transfer or request in progress, and the state of the card's queue, of packs (packed
    /// commands) and of chains (lists of transfers).
    lane: Lane<Self, P::Lanes>,
    timers: Timers,
    /// The driver, with the phase in progress (a command with its response, data and busy).
    bus: Bus<H>,
    /// Why the transfer in progress failed, while the lines are being reset; and the state of the
    /// recovery ladder.
    incident: Incident,
    card: Card,
    config: Config,
    /// The present request for help to the supervisor (the task that carries out recovery), and the
    /// chores that it will be asked for later.
    supervisor: Supervisor,
    slots: Slots<N>,
    /// The requests of the transfer in progress (reads and writes), and their memory in order.
    batch: Batch<N>,
    /// Parts that `enable_extended_ops` adds for requests other than reads and writes (erases, flushes,
    /// other partitions), and the state of the request of this kind in progress.
    services: Services<H, N, P>,
    record: Record,
    /// The scheduler that orders requests, and what is known of the clients' sequential streams.
    order: Order<P>,
}

impl<const N: usize> Slots<N> {
    /// Unmaps a request that has ended, and makes its completion available.
    #[inline]
    pub fn unmap_and_complete<H: Host, P: Profile>(
        &mut self,
        host: &mut H,
        ledger: &mut Durability,
        index: u8,
        direction: Direction,
    ) {
        if self.take_mapped(index) {
            host.unmap(self.at(index).segment(), direction);
        }
        if !self.at(index).orphan() {
            return self.complete(index);
        }
        ledger.owe_untold(self.at(index));
        if P::RECOVERS {
            self.wipe(index);
        }
        let slot = self.at_mut(index);
        if slot.buf().owned() && slot.buf().len_bytes() > 0 {
            slot.keep_for_reclaim();
        } else {
            self.release(index);
        }
    }

    /// Unmaps the memory of all requests whose transfer has ended, and completes them. Then maps
    /// memory of waiting requests, until `prepared` requests are mapped. Inlined, because the
    /// interrupt calls it.
    #[inline(always)]
    pub fn complete_ended<H: Host, P: Profile>(
        &mut self,
        host: &mut H,
        ledger: &mut Durability,
        prepared: u8,
    ) {
        if !self.have_ended() {
            return;
        }
        for index in bits(self.take_ended()) {
            let direction = self.at(index).direction();
            // A request without data has no mapped memory.
            self.unmap_and_complete::<H, P>(host, ledger, index, direction.unwrap_or(Direction::Read));
        }
        if self.have_unmapped() {
            self.prepare_more(host, prepared);
        }
    }

    /// Completes the requests that have ended and may be unmapped in any context. Returns true if
    /// work is left for a thread: requests to unmap, or waiting requests to map.
    pub fn complete_prompt<H: Host, P: Profile>(&mut self, host: &mut H, ledger: &mut Durability) -> bool {
        for index in bits(self.take_ended()) {
            let direction = self.at(index).direction();
            let prompt = direction.is_none_or(|way| host.is_prompt(self.at(index).segment(), way));
            if prompt {
                self.unmap_and_complete::<H, P>(host, ledger, index, direction.unwrap_or(Direction::Read));
            } else {
                self.end(index);
            }
        }
        // Mapping the next requests ahead may sleep as well.
        self.have_ended() || self.have_unmapped()
    }

    /// Completes requests that have ended, and then maps the memory of the next waiting requests
    /// for DMA, until `prepared` requests are mapped.
    pub fn finish<H: Host, P: Profile>(&mut self, host: &mut H, ledger: &mut Durability, prepared: u8) {
        self.complete_ended::<H, P>(host, ledger, prepared);
    }
}

impl<H: Host, const N: usize> Engine<H, N> {
    /// Makes an idle engine without a card that serves requests first in, first out.
    pub const fn new(host: H, config: Config) -> Self {
        Self::with_policy(host, config, Fifo)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Makes an idle engine without a card, which uses the scheduler `policy`. Never inlined,
    /// because an inlined call would copy the engine field by field.
    #[inline(never)]
    pub const fn with_policy(host: H, config: Config, policy: P) -> Self {
        Engine {
            bus: Bus::new(host),
            config,
            order: Order::by(policy),
            blockers: Blockers::new(config.admitted),
            slots: Slots::new(),
            lane: Lane::idle(),
            batch: Batch::new(),
            timers: Timers::new(),
            card: Card::new(),
            durability: Durability::CLEAN,
            incident: Incident::new(),
            supervisor: Supervisor::new(),
            services: Services::new(),
            record: const { Record::empty() },
        }
    }

    /// Makes an engine as [`with_policy`](Self::with_policy) does, directly in its final place.
    /// Large parts are copied from constants, so they are never on the stack.
    ///
    /// # Safety
    /// `place` is aligned memory of an `Engine`'s size that nothing else uses now.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub(crate) unsafe fn write_to(place: *mut Self, host: H, config: Config, policy: P) {
        // A new field must also be written below.
        let _all = |engine: Self| {
            #[rustfmt::skip]
            let Engine {
                bus: _, config: _, order: _, blockers: _, slots: _, lane: _, batch: _, timers: _, card: _,
                durability: _, incident: _, supervisor: _, services: _, record: _,
            } = engine;
        };
        // SAFETY: the caller's promise; each field of `with_policy` is written once, none is read.
        unsafe {
            (&raw mut (*place).bus).write(Bus::new(host));
            (&raw mut (*place).config).write(config);
            (&raw mut (*place).order).write(Order::by(policy));
            (&raw mut (*place).blockers).write(Blockers::new(config.admitted));
            (&raw mut (*place).slots).write(const { Slots::new() });
            (&raw mut (*place).lane).write(const { Lane::idle() });
            (&raw mut (*place).batch).write(const { Batch::new() });
            (&raw mut (*place).timers).write(const { Timers::new() });
            (&raw mut (*place).card).write(const { Card::new() });
            (&raw mut (*place).durability).write(Durability::CLEAN);
            (&raw mut (*place).incident).write(const { Incident::new() });
            (&raw mut (*place).supervisor).write(const { Supervisor::new() });
            (&raw mut (*place).services).write(const { Services::new() });
            (&raw mut (*place).record).write(const { Record::empty() });
        }
    }

    /// Returns the time of the alarm that the stack has set.
    #[inline(always)]
    pub(crate) fn alarm_ns(&self) -> u64 {
        self.timers.alarm_ns()
    }

    /// Notes the alarm that the stack has set; `None`: it has removed the alarm. At the end of each
    /// call the alarm is no later than the next deadline.
    #[inline(always)]
    pub(crate) fn note_alarm(&mut self, at_ns: Option<u64>) {
        self.timers.note_alarm(at_ns.unwrap_or(u64::MAX));
    }

    /// Returns when [`poll`](Self::poll) should be called next, in nanoseconds; `None`: no call is
    /// needed.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.next_ns()
    }

    /// Returns the time of the next [`poll`](Self::poll), as
    /// [`next_deadline_ns`](Self::next_deadline_ns) does; this version is inlined.
    #[inline(always)]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        if self.slots.have_unreported() || self.slots.have_ended() {
            return Some(0);
        }
        self.timers.next_ns(H::CONCURRENT, !H::CARD_IRQ)
    }

    #[inline]
    fn work(&mut self, deferred: bool) -> PollOutcome {
        let completed = self.slots.take_unreported();
        if !deferred && self.blockers.is_fast() {
            // In this state no command is on the lines during data either.
            let next_deadline_ns = self.timers.next_of_stage_ns();
            return PollOutcome { completed, deferred, card_irq: false, help: false, next_deadline_ns };
        }
        PollOutcome {
            completed,
            deferred,
            card_irq: self.card.functions().is_asking(),
            help: P::RECOVERS && self.supervisor.helping().calls(),
            // Lean firmware computes this only here and for the alarm, so the inlined code is
            // smaller.
            next_deadline_ns: if P::RECOVERS { self.next_deadline_ns() } else { self.next_ns() },
        }
    }

    /// Takes a completion. `None`: the request is not finished, or its completion was taken
    /// already. Only the slot and its use are checked, not the client: the caller makes sure that
    /// the request is its own.
    pub fn take(&mut self, id: SlotId) -> Option<Completion> {
        let slot = self.slots.at_mut(id.index);
        if slot.generation() != id.generation || slot.state() != State::Done {
            return None;
        }
        let done_bytes = match slot.result() {
            Ok(output) => output.bytes,
            Err(error) if error.leaves_doubt() && !matches!(slot.kind(), Kind::Read { .. }) => 0,
            Err(_) => slot.moved_blocks().saturating_mul(BLOCK_BYTES),
        };
        let buf = slot.give_back().unless_lent();
        let completion = Completion { result: slot.result(), done_bytes, buf };
        self.slots.forget_report(id.index);
        self.slots.release(id.index);
        Some(completion)
    }

    /// Returns the slots whose completion can be [taken](Self::take), one bit each. For platforms
    /// that have a table of their own by slot index, and look through it after each event.
    pub fn finished(&self) -> SlotSet {
        self.slots.finished()
    }

    /// Returns the present id of slot `index`, for platforms that have their own table by slot
    /// index; `None`: the slot is free.
    pub fn id_of(&self, index: usize) -> Option<SlotId> {
        let index = u8::try_from(index).ok().filter(|&i| usize::from(i) < N)?;
        let slot = self.slots.at(index);
        (slot.state() != State::Free).then_some(SlotId { index, generation: slot.generation() })
    }

    /// Sets the parameters of the card. `None`: there is no card any more, or it will be brought up
    /// again; then the engine forgets all faults of the card.
    pub fn set_card_params(&mut self, target: Option<CardParams>) {
        if target.is_none() {
            self.forget_tasks();
            self.lane.forget_packs::<N, P>(
                &mut self.durability,
                &mut self.incident,
                &mut self.slots,
                &self.card,
            );
            self.note_supply_loss();
            self.lane.concurrent_mut().forbid();
            if P::RECOVERS {
                // Writes that must be sent once more go back to the queue here: perhaps no later
                // event does that.
                self.incident.write_again(&mut self.slots, &mut self.order, self.bus.began_ns());
                self.blockers.clear_card_faults();
                self.supervisor.upkeep_mut().forget();
            }
        }
        self.set_card(target);
        if P::RECOVERS {
            self.supervisor.settle_presence(&mut self.timers, &mut self.blockers);
            self.blockers.refresh_quirks(&self.card);
        }
        if H::CONTINUES {
            self.lane.streams_mut().forget_runs();
        }
        // Lean firmware refuses the requests that need these.
        if P::RECOVERS && self.card.target().is_none() {
            self.card.set_abilities(Abilities::UNKNOWN);
            self.services.memory_mut().area_mut().forget();
        }
    }

    /// Returns the card's parameters; `None`: the engine has no card.
    pub fn card_params(&self) -> Option<&CardParams> {
        self.card.target().as_ref()
    }

    /// Returns the number of the present card, for [`Request::for_card`].
    pub fn card_number(&self) -> CardNumber {
        self.card.number()
    }

    /// Returns whether a request for the card with this number is for the present card.
    pub(crate) fn is_meant(&self, card: CardNumber) -> bool {
        self.card.is_meant(card)
    }

    /// Returns the number of the card with this identity (a number made from its registers), if
    /// that card is in the card slot; otherwise a number that no card has.
    pub(crate) fn number_of(&self, identity: u32) -> CardNumber {
        self.card.number_of(identity)
    }

    /// Notes that bring-up has found a card with this identity.
    pub(crate) fn identify_card(&mut self, identity: u32) {
        if self.card.identify(identity) {
            self.durability.begin_card();
        }
    }

    /// Returns the number of slots that are not free: requests whose completion was not taken, and
    /// buffers of dropped requests that wait for [`reclaim`](Self::reclaim). A new request that
    /// finds no other slot gets the slot of such a buffer. So all slots may be in use while the
    /// engine [is idle](Self::is_idle) and accepts requests.
    pub fn slots_in_use(&self) -> usize {
        self.slots.used()
    }

    /// Returns the driver of the controller.
    pub fn host(&self) -> &H {
        self.bus.host()
    }

    /// Returns the controller's capabilities.
    pub fn caps(&self) -> &Caps {
        self.bus.host().caps()
    }

    /// Returns the driver, to change its own settings.
    ///
    /// # Safety
    /// The caller calls none of [`Host`]'s methods that take `&mut self`, and does not replace the
    /// driver. Both can end a phase (a command with its data) without the engine's knowledge; the
    /// engine would then return memory that the controller still uses.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub unsafe fn host_mut(&mut self) -> &mut H {
        self.bus.host_mut()
    }

    /// Returns the scheduler.
    pub fn policy(&self) -> &P::Policy {
        self.order.policy()
    }

    /// Returns the scheduler, to change its weights, for example.
    pub fn policy_mut(&mut self) -> &mut P::Policy {
        if !P::Policy::IN_ORDER {
            self.blockers.close_fast();
        }
        self.order.policy_mut()
    }

    /// Returns the counters of the engine's work.
    pub fn stats(&self) -> &Stats {
        self.record.stats()
    }

    /// Stores the card's parameters, and computes the limits of the fast path from them.
    pub(super) fn set_card(&mut self, target: Option<CardParams>) {
        self.card.set_target(target, self.bus.host().caps());
        if !Self::FAST {
            return;
        }
        self.slots.clear_lone();
        let caps = self.bus.host().caps();
        let ahead = usize::from(self.config.prepared) >= N;
        let most = caps.max_blocks.min(caps.max_bytes / BLOCK_BYTES).min(0xffff);
        let blocks = match target {
            // Where no request may take the fast path, the limits of 0 blocks refuse it at once.
            _ if !self.order.may_go_fast::<H>() => [0; 2],
            Some(target) if target.extended_address || !self.card.plan().ends_by_itself() || !ahead => [0; 2],
            Some(target) => [most, if target.protected { 0 } else { most }],
            None => [0; 2],
        };
        // A write after which the card must be polled takes the general path.
        let writes_end = caps.busy == BusyDetect::Interrupt && !self.config.tells_transferred::<P>();
        let sectors = target.map_or(0, |target| target.sectors);
        *self.lane.fast_limits_mut() = FastLimits::new(sectors, blocks, writes_end);
    }

    /// Returns a count (its low 8 bits) of the events by which complete writes were lost or failed.
    /// Each event is reported by the next flush only. A client that shares the card compares this
    /// number with the one at its own last flush.
    pub fn losses(&self) -> u8 {
        self.durability.losses()
    }

    /// Returns whether writes are complete when their data are transferred.
    #[inline(always)]
    pub(crate) fn tells_transferred(&self) -> bool {
        self.config.tells_transferred::<P>()
    }
}
