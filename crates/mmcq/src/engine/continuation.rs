//! Rules of open transfers: which request continues one, whether one is left open after the data, and
//! for how long. They read the parts of the engine that they are given; `stream.rs` acts on them.

use super::batch::Batch;
use super::bus::Bus;
use super::card::Card;
use super::lane::Lane;
use super::recover::Incident;
use super::runs::{Close, End, Streams};
use super::slot::{Rules, Slots, bits};
use super::{Config, StaysOpen};
use crate::host::{Direction, Host, Segment};
use crate::sched::{Lanes, Profile};

impl<const N: usize> Slots<N> {
    pub fn stands_alone(&self, index: u8) -> bool {
        let slot = self.at(index);
        slot.solo() || slot.rules() != Rules::NONE
    }
}

impl<const N: usize> Batch<N> {
    /// Returns whether a queued request begins at block `lba` and has the direction of this batch
    /// (the requests that one transfer carries).
    pub fn queued_at(&self, slots: &Slots<N>, lba: u64) -> bool {
        bits(slots.mergeable(self.direction()))
            .any(|index| slots.span(index).start == lba && !slots.at(index).solo())
    }

    /// Returns how many blocks of the batch's last request the transfer cannot hold. They go in a
    /// later transfer.
    pub fn unfitted_blocks(&self, slots: &Slots<N>) -> u32 {
        let Some(&last) = self.members().last() else { return 0 };
        let left = slots.at(last).span().map_or(0, |(_, lba, blocks)| lba.saturating_add(u64::from(blocks)));
        u32::try_from(left.saturating_sub(self.end())).unwrap_or(0)
    }

    /// Returns whether the host can keep the transfer of this batch (requests that share a
    /// transfer) open. That may depend on the memory of the requests, so this function is called
    /// after the memory is mapped.
    pub fn goes_on_in<H: Host>(&self, host: &H) -> bool {
        let (blocks, direction) = (self.blocks(), self.direction());
        let asks = |segment: &Segment| host.goes_on_with(segment, blocks, direction);
        !H::CONTINUES_BY_REQUEST || self.segments(true).iter().all(asks)
    }
}

impl Streams {
    /// Records the start of the transfer of `batch`, for the decision whether to keep transfers
    /// open. `first` is the slot of its first request, `limit_ns` the longest time for which a
    /// transfer may be kept open.
    pub fn note_run<H: Host, const N: usize>(
        &mut self,
        batch: &Batch<N>,
        slots: &Slots<N>,
        limit_ns: u64,
        first: u8,
        now_ns: u64,
    ) {
        if !H::CONTINUES {
            return;
        }
        let slot = slots.at(first);
        if slot.moved_blocks() == 0 {
            let (lba, arrived_ns) = (batch.lba(), slot.arrived_ns());
            self.note_request(batch.direction(), lba, arrived_ns, limit_ns);
        }
        self.note_transfer_start(now_ns);
    }

    /// Records that the data of a read or write have been transferred. `on`: they continued an open
    /// transfer (one that had waited for more requests), so that no new command was sent.
    pub fn note_data<H: Host, const N: usize>(
        &mut self,
        batch: &Batch<N>,
        bus: &Bus<H>,
        on: bool,
        now_ns: u64,
    ) {
        if H::CONTINUES {
            let wire_ns = bus.wire().bits_ns(batch.blocks());
            self.note_data_end(batch.direction(), wire_ns, on, now_ns);
        }
    }

    /// Notes that the data of a transfer which does not stay open are over, and that its requests
    /// are complete.
    pub fn note_closed_data<H: Host, const N: usize>(&mut self, batch: &Batch<N>, bus: &Bus<H>, now_ns: u64) {
        self.note_data(batch, bus, false, now_ns);
        self.went_out(batch.direction(), batch.end(), now_ns);
    }

    /// Notes that the end of a transfer begins now. Either the engine sends CMD12 for it, or the
    /// card has all data of a write and the engine waits for the end of its busy.
    pub fn note_ending<H: Host>(&mut self, direction: Direction, now_ns: u64) {
        if H::CONTINUES {
            self.note_end_start(direction, now_ns);
        }
    }

    /// Notes that the card has ended the transfer that was open, or that was closed by CMD12.
    pub fn note_ended<H: Host>(&mut self, now_ns: u64) {
        if H::CONTINUES {
            self.note_end(now_ns);
        }
    }

    #[inline(always)]
    pub fn can_continue<H: Host>(&self, host: &H, config: &Config, incident: &Incident) -> bool {
        H::CONTINUES
            && host.caps().continue_data
            && self.may_continue()
            && config.stays_open != StaysOpen::Never
            && !incident.is_open()
    }

    /// Returns how long, in ns, a transfer of this direction is kept open after its data, while no
    /// request is queued. If no request has continued it by then, the engine closes it. 0: it is
    /// closed at once.
    #[inline(always)]
    pub fn stay_ns(&self, direction: Direction, config: &Config) -> u64 {
        let limit_ns = config.hold_ns;
        match config.stays_open {
            StaysOpen::Never => 0,
            StaysOpen::WherePays => self.hold_ns(direction, limit_ns),
            StaysOpen::Always => limit_ns,
        }
    }

    /// Returns true if the client of a write gets its result before the open transfer is closed for
    /// another request. Called when the data of the write are over. The result is true if this
    /// client usually pauses before its next request: then the transfer is closed during that
    /// pause.
    pub fn prefers_pause(&self, direction: Direction, config: &Config) -> bool {
        direction == Direction::Write && self.stay_ns(direction, config) > 0 && self.pauses(direction)
    }

    /// Returns the reason to close an open transfer that was kept open as long as allowed.
    pub fn held_out(&self, config: &Config, now_ns: u64) -> Close {
        let owed = self.open().is_some_and(|open| open.owed_by_ns(config.owed_ns) <= now_ns);
        if owed { Close::Owed } else { Close::Idle }
    }

    /// Returns how the transfer in progress ends. Always [`End::Here`] in firmware without recovery
    /// on a host that cannot continue transfers.
    #[inline(always)]
    pub fn end_of<H: Host, P: Profile>(&self) -> End {
        if H::CONTINUES || P::RECOVERS { self.end() } else { End::Here }
    }

    /// Returns whether a CMD18 or CMD25 is left open on the card, so that a request can continue
    /// it. A host that cannot continue a transfer leaves none open.
    #[inline(always)]
    pub fn is_left_open<H: Host>(&self) -> bool {
        H::CONTINUES && self.open().is_some()
    }

    /// Returns whether the transfer of the batch continues the open one. A read up to the card's
    /// last block does not, on hosts where only CMD12 ends a transfer. After that block the card
    /// sends no data, and a DMA that has taken the block in advance may wait for the next one for
    /// ever.
    pub fn are_continued_by<H: Host, const N: usize>(
        &self,
        batch: &Batch<N>,
        slots: &Slots<N>,
        bus: &Bus<H>,
        card: &Card,
        (config, incident): (&Config, &Incident),
    ) -> bool {
        let Some(open) = self.open() else { return false };
        let starves = H::CONTINUES_BY_REQUEST
            && open.direction == Direction::Read
            && bus.host().caps().open_until_stopped
            && card.target().is_none_or(|target| batch.end() >= target.sectors);
        open.direction == batch.direction()
            && open.next == batch.lba()
            && !starves
            && !bus.wire().is_doubted()
            && self.can_continue(bus.host(), config, incident)
            && !batch.members().first().is_some_and(|&first| slots.at(first).solo())
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether a transfer may be left open after a request of this direction with these
    /// blocks, which end before block `end`.
    #[inline(always)]
    pub fn may_stay_open<H: Host>(
        &self,
        bus: &Bus<H>,
        card: &Card,
        (config, incident): (&Config, &Incident),
        (direction, blocks, end): (Direction, u32, u64),
    ) -> bool {
        // A transfer up to the card's last block is closed there.
        self.fast_limits().fits(direction, blocks, end.wrapping_add(1))
            && self.streams().can_continue(bus.host(), config, incident)
            && !bus.wire().is_doubted()
            && !(H::CARD_IRQ && card.functions().is_heard())
    }
}
