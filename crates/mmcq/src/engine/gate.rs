//! The gate: which requests come in, and whether anything starts.
//!
//! Each cause to refuse a request, or to start none, is one bit, and has one owner: the platform
//! (suspend, halt), the recovery ladder (dead, help), the card (a quirk). The owner says
//! when its cause begins and ends. Every answer is read from these bits alone, so no two answers
//! can contradict each other.

use super::slot::State;
use super::{BLOCK_BYTES, Engine, Error, Kind, Request, raw_bytes};
use crate::host::Host;
use crate::sched::Profile;
use crate::spec::quirks::Quirks;

/// The causes at work.
#[derive(Debug)]
pub(super) struct Gate {
    causes: u8,
    /// Requests that may be in the engine at a time.
    queue_limit: u8,
}

/// New requests are refused; what is queued goes on.
const SUSPENDED: u8 = 1;
/// Nothing starts; new requests are accepted.
const HALTED: u8 = 1 << 1;
/// Nothing starts but urgent requests: help is awaited, or the card's presence is in doubt.
const HELP: u8 = 1 << 2;
/// The card is given up.
const DEAD: u8 = 1 << 3;
/// The card's last block must be read alone.
const LAST_BLOCK: u8 = 1 << 4;

impl Gate {
    pub const fn new(queue_limit: u8) -> Gate {
        Gate { causes: 0, queue_limit }
    }

    fn set(&mut self, cause: u8, holds: bool) {
        self.causes = if holds { self.causes | cause } else { self.causes & !cause };
    }

    /// The platform suspends, halts or resumes; each ends the one before.
    pub fn suspend(&mut self) {
        self.causes = self.causes & !HALTED | SUSPENDED;
    }

    pub fn halt(&mut self) {
        self.causes = self.causes & !SUSPENDED | HALTED;
    }

    pub fn resume(&mut self) {
        self.causes &= !(SUSPENDED | HALTED);
    }

    /// Marks the card as given up by the ladder. False: it was before.
    pub fn mark_dead(&mut self) -> bool {
        let first = self.causes & DEAD == 0;
        self.causes |= DEAD;
        first
    }

    /// Forgets what was wrong with the card: it is another, or begins anew.
    pub fn clear_card_faults(&mut self) {
        self.causes &= !DEAD;
    }

    /// A supervisor, if there is one, needs a slot of its own.
    pub fn limit(&mut self, queue_limit: u8) {
        self.queue_limit = queue_limit;
    }

    /// Nothing at all is special.
    pub fn is_open(&self) -> bool {
        self.causes == 0
    }

    /// Nothing starts but urgent requests.
    pub fn is_stopped(&self) -> bool {
        self.causes & (HALTED | HELP) != 0
    }

    /// Some requests are refused, or must go alone.
    fn is_barred(&self) -> bool {
        self.causes & (SUSPENDED | DEAD | LAST_BLOCK) != 0
    }

    pub fn is_halted(&self) -> bool {
        self.causes & HALTED != 0
    }

    pub fn is_suspended(&self) -> bool {
        self.causes & SUSPENDED != 0
    }

    /// The platform has neither suspended nor halted the engine.
    pub fn is_running(&self) -> bool {
        self.causes & (SUSPENDED | HALTED) == 0
    }

    pub fn is_dead(&self) -> bool {
        self.causes & DEAD != 0
    }

    #[inline(always)]
    pub fn queue_limit(&self) -> usize {
        self.queue_limit.into()
    }

    /// Why a request is refused, whatever it asks for. `helps`: it is part of the help that is
    /// awaited.
    fn refuses(&self, urgent: bool, helps: bool) -> Result<(), Error> {
        if self.is_dead() && !helps {
            return Err(Error::Dead);
        }
        if self.is_suspended() && !urgent {
            return Err(Error::Suspended);
        }
        Ok(())
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Tells the gate whether help is awaited.
    pub(super) fn refresh_help(&mut self) {
        self.gate
            .set(HELP, P::RECOVERS && (self.supervisor.helping().asks() || self.timers.presence_is_open()));
        self.close_fast();
    }

    /// Tells the gate what the card says. The caller may have told it something too.
    pub(super) fn refresh_quirks(&mut self) {
        if P::RECOVERS {
            let alone = self.card.target().as_ref().is_some_and(|t| t.quirks.has(Quirks::LAST_BLOCK_ALONE));
            self.gate.set(LAST_BLOCK, alone);
        }
        self.close_fast();
    }

    /// Why a request is not accepted, if so. Reads of the end of a card whose last block must be
    /// read alone are marked: the path of all other requests knows nothing of such cards.
    #[cold]
    fn bar(&mut self, request: &mut Request) -> Result<(), Error> {
        if !P::RECOVERS {
            return Err(Error::Suspended);
        }
        let helps = request.urgent && self.supervisor.helping().asks();
        self.gate.refuses(request.urgent, helps)?;
        if let (Kind::Read { lba, blocks }, Some(target)) = (request.kind, self.card.target().as_ref()) {
            // Nor is a transfer left open in front of that block: the card would look ahead.
            let end = lba.saturating_add(u64::from(blocks)).saturating_add(1);
            request.durable = end >= target.sectors && target.quirks.has(Quirks::LAST_BLOCK_ALONE);
        }
        Ok(())
    }

    /// Why a request cannot be accepted, if so.
    pub(super) fn admit(&mut self, request: &mut Request) -> Result<(), Error> {
        if self.gate.is_barred() {
            self.bar(request)?;
        }
        if P::RECOVERS && !self.card.is_meant(request.card) {
            return Err(if self.card.target().is_none() { Error::NoCard } else { Error::Changed });
        }
        if !P::RECOVERS && request.durable || P::RECOVERS && request.urgent && !request.kind.may_be_urgent() {
            return Err(Error::Unsupported);
        }
        let needed = match request.kind {
            Kind::Read { lba, blocks } | Kind::Write { lba, blocks } => {
                let Some(target) = *self.card.target() else { return Err(Error::NoCard) };
                let end = lba.checked_add(u64::from(blocks));
                if blocks == 0 || end.is_none_or(|end| end > target.sectors) {
                    return Err(Error::OutOfRange { lba, sectors: target.sectors });
                }
                if target.protected && matches!(request.kind, Kind::Write { .. }) {
                    return Err(Error::Protected);
                }
                blocks.checked_mul(BLOCK_BYTES).ok_or(Error::Unsupported)?
            }
            Kind::Raw { phase, .. } | Kind::Io { phase, .. } => {
                if P::RECOVERS {
                    self.admit_phase(&request.kind, request.urgent)?;
                }
                raw_bytes(&phase)
            }
            _ => return self.admit_other(request),
        };
        let given = request.buf.len_bytes();
        if given < needed {
            return Err(Error::Buffer { needed, given });
        }
        Ok(())
    }

    /// A free slot, if need be one whose buffer no caller has come back for. The queue's limit is
    /// none for urgent requests.
    pub(super) fn allocate(&mut self, urgent: bool) -> Option<u8> {
        let limit = if P::RECOVERS && urgent { N } else { self.gate.queue_limit().min(N) };
        while self.slots_in_use() >= limit {
            let lost = self.slots.with_state(State::Lost).next()?;
            self.slots.at_mut(lost).take_buf();
            self.slots.release(lost);
            self.record.memory_leaked();
        }
        self.slots.allocate()
    }
}
