//! The gate: decides which requests are accepted. The causes for which a request is refused are in
//! [`blockers`](super::blockers).

use super::blockers::{Blockers, HELP, QUIRK};
use super::card::Card;
use super::extras::Services;
use super::record::Record;
use super::recover::Helping;
use super::slot::{Slots, State};
use super::timers::Timers;
use super::{BLOCK_BYTES, Error, Kind, Request};
use crate::host::{Host, Phase};
use crate::sched::Profile;
use crate::spec::quirks::Quirks;

impl<H: Host, P: Profile> Blockers<H, P> {
    /// Returns an error if no request of any kind is accepted now. `urgent`: a suspended engine
    /// accepts the request. `helps`: the request comes from the supervisor, and is part of the
    /// recovery that the engine waits for.
    fn refuses(&self, urgent: bool, helps: bool) -> Result<(), Error> {
        if self.is_dead() && !helps {
            return Err(Error::Dead);
        }
        if self.is_suspended() && !urgent {
            return Err(Error::Suspended);
        }
        Ok(())
    }

    /// Returns whether the limit of the queue allows one more request, so that the slots for urgent
    /// requests stay free. If all slots are for ordinary requests, returns true without a look at
    /// the free ones.
    #[inline(always)]
    pub fn has_room<const N: usize>(&self, slots: &Slots<N>) -> bool {
        // Free slots are not counted where none or one must stay free, as it is nearly everywhere.
        match self.queue_limit() {
            room if room >= N => true,
            room if room + 1 == N => slots.are_two_free(),
            room => slots.free_count() as usize > N - room,
        }
    }

    /// Sets or clears [`HELP`], a cause for which requests wait: set while the engine waits for the
    /// supervisor, or until it is sure whether a card is in the slot.
    pub fn refresh_help(&mut self, helping: &Helping, timers: &Timers) {
        self.set(HELP, P::RECOVERS && (helping.asks() || timers.presence_is_open()));
        self.close_fast();
    }

    /// Sets or clears [`QUIRK`], the cause for which some requests are refused, by the quirks in
    /// the card's parameters.
    pub fn refresh_quirks(&mut self, card: &Card) {
        if P::RECOVERS {
            const ALONE: Quirks = Quirks::LAST_BLOCK_ALONE.and(Quirks::NO_MULTIPLE_WRITE);
            let alone = card.target().as_ref().is_some_and(|t| t.quirks.within(ALONE) != Quirks::NONE);
            self.set(QUIRK, alone);
        }
        self.close_fast();
    }

    /// Returns a free slot. If there is none, it frees and returns the slot of an ended request
    /// whose buffer no caller has taken back; that buffer is then lost. A request that is not
    /// `urgent` gets no slot beyond the queue's limit.
    pub fn allocate<const N: usize>(
        &mut self,
        slots: &mut Slots<N>,
        record: &mut Record,
        urgent: bool,
    ) -> Option<u8> {
        let limit = if P::RECOVERS && urgent { N } else { self.queue_limit().min(N) };
        while slots.used() >= limit {
            let lost = slots.with_state(State::Lost).next()?;
            slots.at_mut(lost).take_buf();
            slots.release(lost);
            record.memory_leaked();
        }
        slots.allocate()
    }

    /// Checks a request in the states in which not every request is accepted: the engine is
    /// suspended, or the card is given up. Returns the error if the request is refused.
    ///
    /// Also called for a card whose last block must be read alone. A read up to that block, or up
    /// to the one before it, is marked as `durable`, although it is a read. So the engine executes
    /// it like the other requests with special rules.
    #[cold]
    pub fn bar(&mut self, card: &Card, helping: &Helping, request: &mut Request) -> Result<(), Error> {
        if !P::RECOVERS {
            return Err(Error::Suspended);
        }
        let helps = request.urgent && helping.asks();
        self.refuses(request.urgent, helps)?;
        if let (Kind::Read { lba, blocks }, Some(target)) = (request.kind, card.target().as_ref()) {
            // A read that ends just before the last block is `durable` too, so no transfer is left
            // open there: the card would read ahead into the last block.
            let end = lba.saturating_add(u64::from(blocks)).saturating_add(1);
            request.durable = end >= target.sectors && target.quirks.has(Quirks::LAST_BLOCK_ALONE);
        }
        Ok(())
    }

    /// Checks a request, and returns the reason if it cannot be accepted.
    pub fn admit<const N: usize>(
        &mut self,
        card: &Card,
        services: &Services<H, N, P>,
        helping: &Helping,
        request: &mut Request,
    ) -> Result<(), Error> {
        if self.is_barred() {
            self.bar(card, helping, request)?;
        }
        if P::RECOVERS && !card.is_meant(request.card) {
            return Err(card.why_not_meant(&request.kind));
        }
        if !P::RECOVERS && request.durable || P::RECOVERS && request.urgent && !request.kind.may_be_urgent() {
            return Err(Error::Unsupported);
        }
        let needed = match request.kind {
            Kind::Read { lba, blocks } | Kind::Write { lba, blocks } => {
                let Some(target) = *card.target() else { return Err(Error::NoCard) };
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
                    card.admit_phase::<P>(&request.kind, request.urgent)?;
                }
                raw_bytes(&phase)
            }
            _ => return services.admit_other(card, request),
        };
        let given = request.buf.len_bytes();
        if given < needed {
            return Err(Error::Buffer { needed, given });
        }
        Ok(())
    }
}

/// Returns the number of bytes that a raw command of the client transfers to or from its request's
/// memory. `phase`: the command with its data, as the client has described it. A tuning block goes
/// to no memory: 0.
pub(super) fn raw_bytes(phase: &Phase) -> u32 {
    match phase.data {
        Some(data) if !phase.tuning => u32::from(data.block_size).saturating_mul(data.blocks),
        _ => 0,
    }
}
