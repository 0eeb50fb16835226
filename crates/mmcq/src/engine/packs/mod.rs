//! Packed commands of an eMMC: several transfers of different places are sent to the card as one
//! [eMMC 6.6.29].
//!
//! A pack is made of the requests that wait when the controller is free. The policy picks the first
//! request of each entry, and requests that continue it are merged to it, as for an ordinary
//! transfer. The pack ends before the first request that cannot join. Such a request is a barrier,
//! has the other direction or special rules, has failed before, or writes blocks that an entry
//! writes too. So all rules of order hold as without packs. A pack has no more blocks than merged
//! requests may have, and at most 16 entries.
//!
//! A packed write is CMD23 and CMD25, with a header before the data. A packed read is CMD23 and
//! CMD25 with the header, then CMD23 and CMD18. The status after a packed write is read before
//! anything else is sent. If it shows that an entry failed, the card names that entry, and
//! `failed.rs` splits the pack.

mod failed;
use super::blockers::COLLECTIONS;
use super::bus::COMMAND_TIMEOUT_NS;
use super::card::Card;
use super::durability::Durability;
use super::extras::{Event, Memory};
use super::lane::Lane;
use super::phases::Stage;
use super::plan::Plan;
use super::runs::End;
use super::slot::{NONE, Rules, Slots, bits};
use super::{BLOCK_BYTES, Batch, Count, DmaBuf, Engine, FlushBy, Kind};
use crate::host::{Auto, BusyDetect, Data, Direction, Host, Phase};
use crate::sched::packs::{Entry, Fate, Step};
use crate::sched::{Lanes, PackStats, Policy, Profile};
use crate::spec::command::emmc::{self, BlockCount};
use crate::spec::command::{self, Command};
use crate::spec::response::R1;
use failed::Report;

/// Word 0 of a pack's header: the version, to which the kind and the number of entries are added.
const VERSION: u32 = 1;
const READS: u32 = 1 << 8;
const WRITES: u32 = 2 << 8;
const ENTRIES_SHIFT: u32 = 16;

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether a command that belongs to a packed command is under way, but not the one
    /// that transfers its data.
    #[inline(always)]
    pub(in crate::engine) fn has_pack_step(&self) -> bool {
        self.packs().is_some_and(|packs| packs.step().is_some())
    }

    /// Records whether it is known which writes of the last packed command have succeeded.
    pub(in crate::engine) fn set_fate(&mut self, fate: Fate) {
        if let Some(packs) = self.packs_mut() {
            packs.set_fate(fate);
        }
    }

    /// Writes the list of the collected transfers into `page`, as the header of a packed command in
    /// the card's format. `write`: the packed command writes, otherwise it reads.
    pub fn write_header(&self, page: &mut DmaBuf, plan: &Plan, write: bool) {
        let Some(packs) = self.packs() else { return };
        page.fill(0);
        let mut put = |n: usize, word: u32| {
            if let Some(to) = page.get_mut(4 * n..4 * n + 4) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        };
        let entries = packs.entries();
        let way = if write { WRITES } else { READS };
        put(0, (entries.len() as u32) << ENTRIES_SHIFT | way | VERSION);
        for (entry, n) in entries.iter().zip(1..) {
            let count =
                BlockCount { blocks: entry.blocks as u16, reliable: entry.reliable, ..BlockCount::default() };
            put(2 * n, emmc::set_block_count(count).arg);
            put(2 * n + 1, plan.address(entry.start));
        }
    }

    /// Handles the end of the pack's transfer: the header's memory is unmapped, and the result of
    /// the writes is not known until the card's status has come.
    #[inline(always)]
    pub fn pack_ended<H: Host>(&mut self, host: &mut H, memory: &mut Memory) {
        if let Some(packs) = self.packs_mut()
            && let Some(direction) = packs.take_running()
        {
            if direction == Direction::Write {
                packs.set_fate(Fate::Open);
            }
            memory.unmap_data(host);
        }
    }
}

impl<const N: usize> Batch<N> {
    /// Returns whether `part` is not empty and contains each of its requests completely, so that
    /// the limits of a transfer have cut no request.
    pub fn is_whole(&self, slots: &Slots<N>, part: &Batch<N>) -> bool {
        let spans = part.members().iter().filter_map(|&at| slots.at(at).span());
        part.blocks() > 0 && spans.map(|span| span.2).sum::<u32>() == part.blocks()
    }
}

impl<const N: usize> Slots<N> {
    /// Returns two values for the request of slot `index`: whether it may go in a packed command of
    /// `direction` (alone or merged with others), and whether it is a reliable write there.
    pub fn is_packable(
        &self,
        card: &Card,
        ledger: &Durability,
        index: u8,
        direction: Direction,
    ) -> (bool, bool) {
        let slot = self.at(index);
        let (ours, blocks) = slot.span().map_or((false, 0), |(way, _, blocks)| (way == direction, blocks));
        let whole = ours && slot.moved_blocks() == 0 && slot.result().is_ok() && blocks > 0;
        match (slot.rules(), slot.kind()) {
            (Rules::NONE, _) => (whole && !slot.solo(), false),
            (Rules::DURABLE, Kind::Write { lba, blocks }) => {
                let cached = card.target().is_some_and(|target| target.flush != FlushBy::Status);
                let reliable = cached && card.abilities().reliable(lba, blocks);
                let may = whole && !slot.redone() && !ledger.owes_loss();
                // A reliable write is not complete before a write that is sent again if the cache
                // is lost.
                (may && (!cached || reliable && !self.owe_flush()), reliable)
            }
            _ => (false, false),
        }
    }

    /// Returns whether another request waits that could be an entry of a pack (packed command), in
    /// addition to the requests in `part`, which are to be the first entry.
    pub fn has_second<P: Profile>(
        &self,
        card: &Card,
        ledger: &Durability,
        part: &Batch<N>,
        direction: Direction,
    ) -> bool {
        let waits = |at: &u8| !part.members().contains(at);
        if P::Policy::IN_ORDER {
            let next = self.queue().find(waits);
            return next.is_some_and(|at| self.is_packable(card, ledger, at, direction).0);
        }
        bits(self.mergeable(direction))
            .any(|at| waits(&at) && self.is_packable(card, ledger, at, direction).0)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Enables packed commands of up to this many writes and reads, for a card that reports a
    /// failed entry by its exception bit. Packs that were given up are tried again. Must be called
    /// again after [`set_card_params`](Self::set_card_params) with `None`. The header is in the
    /// engine's [page](Self::set_page).
    ///
    /// Returns false if the profile sends no packed commands ([`Packed`](crate::sched::Packed)),
    /// the engine has no page, or the card or its controller does not support packed commands.
    pub fn set_packed(&mut self, writes: u8, reads: u8) -> bool {
        let counts = self.card.target().is_some_and(|t| t.emmc && t.count && !t.extended_address);
        let can = counts
            && self.services.memory().page().len_bytes() >= BLOCK_BYTES
            && self.bus.host().caps().max_segments > 2
            && !self.bus.host().caps().no_count;
        // A write that is complete before its status is known cannot be sent again if its pack
        // fails.
        let writes = if self.bus.counts(Direction::Write) && !self.tells_transferred() { writes } else { 0 };
        // Only an interrupt shows when the busy after a read's header is over.
        let reads = if self.bus.host().caps().busy == BusyDetect::Interrupt { reads } else { 0 };
        self.blockers.close_fast();
        let Some(packs) = self.lane.packs_mut().filter(|_| can) else { return false };
        packs.configure(writes, reads);
        packs.is_armed()
    }

    /// Returns the counters of packed commands; `None`: the profile sends no packed commands.
    pub fn pack_stats(&self) -> Option<&PackStats> {
        self.lane.packs().map(|packs| packs.stats())
    }

    /// Begins the command that is still needed to know the result of the last packed command (CMD13
    /// for its status, or a read of EXT_CSD), while nothing is in progress on the bus. Returns true
    /// if a command was begun.
    #[inline(always)]
    pub(super) fn finish_pack(&mut self, now_ns: u64) -> bool {
        let Some(packs) = self.lane.packs() else { return false };
        let fate = packs.fate();
        // The bus is idle, so the mapped memory can only be that of a header.
        self.services.memory_mut().unmap_data(self.bus.host_mut());
        match fate {
            Fate::Known => false,
            _ if !self.slots.is_settling() => {
                self.lane.set_fate(Fate::Known);
                false
            }
            Fate::Open => {
                self.ask_status(Stage::Status, now_ns);
                true
            }
            Fate::Doubtful(status) => {
                // EXT_CSD names the failed entry, if an exception event tells of one. Otherwise each
                // write of the packed command may have failed.
                if status & R1::EXCEPTION_EVENT == 0 || !self.look_at_pack(now_ns) {
                    self.doubt_pack(status);
                }
                true
            }
        }
    }

    /// Begins a pack (several transfers sent as one packed command) with the request `first`, if
    /// packs are faster on this card than single transfers. Returns true if the engine has done
    /// something: it has started the pack, an ordinary transfer of these requests, or a read of the
    /// card's status that must come before; or it has ended `first` with an error.
    #[inline(always)]
    pub(super) fn start_pack_with(&mut self, first: u8, now_ns: u64) -> bool {
        self.lane.packs().is_some_and(|packs| packs.is_armed()) && self.begin_pack(first, now_ns)
    }

    /// Returns whether the engine may begin to collect transfers for a packed command now: the card
    /// knows CMD23, there is memory for the header, and nothing in the engine's state (such as a
    /// failure that is handled) forbids it.
    fn may_pack(&self, now_ns: u64) -> bool {
        let counts = self.card.target().is_some_and(|target| target.count);
        let memory = self.services.memory();
        let header = !memory.is_mapped() && memory.page().len_bytes() >= BLOCK_BYTES;
        counts && header && !self.is_lane_stopped::<COLLECTIONS>(now_ns)
    }

    #[inline(never)]
    fn begin_pack(&mut self, first: u8, now_ns: u64) -> bool {
        let direction = self.slots.at(first).direction().unwrap_or(Direction::Read);
        let Some(packs) = self.lane.packs_mut() else { return false };
        let most = packs.most(direction);
        let (may, reliable) = self.slots.is_packable(&self.card, &self.durability, first, direction);
        let mut part = Batch::new();
        if may && most > 1 && self.may_pack(now_ns) {
            part.collect(
                &self.slots,
                first,
                self.bus.limits(&self.config, &self.incident, self.lane.streams()).of_entry::<N>(0, 0),
            );
        }
        if !self.batch.is_whole(&self.slots, &part)
            || !self.slots.has_second::<P>(&self.card, &self.durability, &part, direction)
        {
            if let Some(packs) = self.lane.packs_mut() {
                packs.reset_timing();
            }
            return false;
        }
        // Measured without the time in which no request waited.
        let ended_ns = self.bus.last().map_or(now_ns, |last| last.ended_ns);
        let Some(packs) = self.lane.packs_mut() else { return false };
        if !packs.would_pay(direction, ended_ns) {
            packs.begin(direction, false, part.members().len(), now_ns);
            return false;
        }
        if self.slots.is_settling() {
            // The status of earlier writes is read first: it must not come with the pack's.
            self.ask_status(Stage::Status, now_ns);
            return true;
        }
        let write = direction == Direction::Write;
        self.order.hold_broken(now_ns);
        self.timers.clear_idle();
        if let Some(packs) = self.lane.packs_mut() {
            packs.clear_entries();
        }
        match self.map_in_turn(first, now_ns) {
            Ok(true) => {}
            // The request is not mapped yet; the engine comes here again when it is.
            Ok(false) => return false,
            Err(error) => {
                self.order.turn_down(&mut self.slots, first, error);
                return true;
            }
        }
        self.batch.begin_pack(direction, part.lba(), write);
        if !self.add_entry(&part, reliable, now_ns) {
            return false;
        }
        for _ in 1..most {
            let head = self.slots.head();
            if head == NONE {
                break;
            }
            let Some(next) =
                self.order.pick(&self.slots, &mut self.timers, self.incident.is_open(), head, now_ns)
            else {
                break;
            };
            let (may, reliable) = self.slots.is_packable(&self.card, &self.durability, next, direction);
            let limits = self
                .bus
                .limits(&self.config, &self.incident, self.lane.streams())
                .of_entry::<N>(self.batch.blocks(), self.batch.members().len());
            let blocks = self.slots.at(next).span().map_or(u32::MAX, |(_, _, blocks)| blocks);
            if !may || limits.segments == 0 || blocks > limits.blocks {
                break;
            }
            part.collect(&self.slots, next, limits);
            let meets = self.lane.packs().is_some_and(|packs| packs.meets(part.lba(), part.end()));
            if write && meets
                || !self.batch.is_whole(&self.slots, &part)
                || !self.add_entry(&part, reliable, now_ns)
            {
                break;
            }
        }
        let entries = self.lane.packs().map_or(0, |packs| packs.entries().len());
        self.record.merged(self.batch.members().len().saturating_sub(entries) as Count);
        self.start_pack(now_ns);
        true
    }

    /// Makes the requests in `part` the next entry of the pack (packed command), a reliable write
    /// if `reliable`. Returns false if their memory cannot be mapped.
    fn add_entry(&mut self, part: &Batch<N>, reliable: bool, now_ns: u64) -> bool {
        let (first, members) = (part.first(), part.members());
        for &index in members {
            if self.slots.map(self.bus.host_mut(), index).is_err() {
                self.slots.at_mut(index).forbid_merge(index != first);
                return false;
            }
        }
        let entry =
            Entry { start: part.lba(), blocks: part.blocks(), members: members.len() as u8, reliable };
        if !self.lane.packs_mut().is_some_and(|packs| packs.add(entry)) {
            return false;
        }
        for &index in members {
            self.order.note_sent(&self.slots, index, now_ns);
            let slot = self.slots.at(index);
            let (blocks, segment) = (slot.span().map_or(0, |span| span.2), slot.segment());
            let segment = segment.part(0, blocks.saturating_mul(BLOCK_BYTES));
            self.batch.add_behind(index, blocks, segment);
            self.slots.unlink(index);
            self.slots.at_mut(index).set_active();
        }
        true
    }

    /// Starts the transfers that were collected for a packed command: as a packed command if there
    /// are several, as an ordinary transfer if there is one.
    fn start_pack(&mut self, now_ns: u64) {
        let (direction, requests) = (self.batch.direction(), self.batch.members().len());
        let write = direction == Direction::Write;
        let Some(packs) = self.lane.packs_mut() else { return };
        let packed = packs.entries().len() > 1;
        packs.begin(direction, packed, requests, now_ns);
        if !packed {
            let reliable = packs.entries().iter().any(|entry| entry.reliable);
            if write {
                self.batch.drop_header();
            }
            return self.go_by_phases(reliable, now_ns);
        }
        self.lane.write_header(self.services.memory_mut().page_mut(), self.card.plan(), write);
        let mut header = self.services.memory().page().segment(BLOCK_BYTES);
        if self.bus.host_mut().map(&mut header, Direction::Write).is_err() {
            if let Some(packs) = self.lane.packs_mut() {
                packs.skip_next();
            }
            self.put_back(now_ns);
            return;
        }
        self.services.memory_mut().set_mapped(header.same(), Direction::Write);
        self.lane.note_transfer_start(&mut self.record, &mut self.incident, End::Here);
        if let Some(packs) = self.lane.packs_mut() {
            packs.set_running(direction);
        }
        if write {
            self.batch.set_header(header);
            return self.pack_counted(now_ns);
        }
        // The header of a packed read is sent alone; the memory of its requests follows.
        self.batch.one_segment(header);
        self.pack_step(Step::HeaderCount, emmc::set_packed_count(1), now_ns);
    }

    /// Sends the requests of the engine's batch as one ordinary transfer, a reliable write if
    /// `reliable`.
    pub(super) fn go_by_phases(&mut self, reliable: bool, now_ns: u64) {
        self.lane.note_transfer_start(
            &mut self.record,
            &mut self.incident,
            if reliable { End::Reliable } else { End::Here },
        );
        if !reliable {
            return self.begin_counted(now_ns);
        }
        let count = command::set_block_count(self.batch.blocks(), true);
        self.start_command(Stage::Count, count, COMMAND_TIMEOUT_NS, now_ns);
    }

    fn pack_step(&mut self, step: Step, command: Command, now_ns: u64) {
        if let Some(packs) = self.lane.packs_mut() {
            packs.set_step(step);
        }
        self.start_command(Stage::Extra, command, COMMAND_TIMEOUT_NS, now_ns);
    }

    /// Sends CMD23 for the data of a packed command, as a command of its own. The controller's
    /// automatic CMD23 is not used: if that CMD23 failed unseen, the card would take the header for
    /// data, and write all data to wrong places.
    fn pack_counted(&mut self, now_ns: u64) {
        let count = emmc::set_packed_count(self.batch.blocks() as u16);
        self.start_command(Stage::Count, count, COMMAND_TIMEOUT_NS, now_ns);
    }

    /// Handles the response of a command that belongs to a pack but transfers no data of its
    /// requests, such as the CMD23 before the header.
    #[inline(never)]
    pub(super) fn pack_event(&mut self, event: Event, now_ns: u64) {
        let Event::Done(status) = event else { return };
        let Some(step) = self.lane.packs_mut().and_then(|packs| packs.take_step()) else { return };
        if step == Step::Look {
            return self.looked_at_pack(status, now_ns);
        }
        self.settle(status);
        if status & R1::OWN != 0 {
            return self.lane.fail(&mut self.incident, super::Error::Card(status));
        }
        if step == Step::HeaderCount {
            let data = Data { direction: Direction::Write, block_size: BLOCK_BYTES as u16, blocks: 1 };
            let command = command::transfer(true, true, self.card.plan().address(self.batch.lba()));
            self.bus.prepare(Phase { command, data: Some(data), auto: Auto::None, tuning: false });
            if let Some(packs) = self.lane.packs_mut() {
                packs.set_step(Step::Header);
            }
            let limit_ns = self.card.target().map_or(0, |target| target.write_timeout_ns);
            return self.start_phase(Stage::Extra, limit_ns, limit_ns, now_ns);
        }
        self.services.memory_mut().unmap_data(self.bus.host_mut());
        self.batch.no_segments();
        for place in 0..self.batch.members().len() {
            let Some(&index) = self.batch.members().get(place) else { break };
            let slot = self.slots.at(index);
            let bytes = slot.span().map_or(0, |span| span.2).saturating_mul(BLOCK_BYTES);
            let segment = slot.segment().part(0, bytes);
            self.batch.fill(place, segment);
        }
        self.pack_counted(now_ns);
    }

    /// Reads EXT_CSD, which names the failed entry. Returns false if there is no memory for it.
    #[cold]
    fn look_at_pack(&mut self, now_ns: u64) -> bool {
        let mut segment = self.services.memory().page().segment(BLOCK_BYTES);
        if segment.len < BLOCK_BYTES || self.bus.host_mut().map(&mut segment, Direction::Read).is_err() {
            return false;
        }
        self.batch.one_segment(segment.same());
        self.services.memory_mut().set_mapped(segment, Direction::Read);
        if let Some(packs) = self.lane.packs_mut() {
            packs.set_step(Step::Look);
        }
        let data = Data { direction: Direction::Read, block_size: BLOCK_BYTES as u16, blocks: 1 };
        let command = emmc::send_ext_csd();
        self.bus.prepare(Phase { command, data: Some(data), auto: Auto::None, tuning: false });
        let limit_ns = self.card.target().map_or(0, |t| t.read_timeout_ns).max(COMMAND_TIMEOUT_NS);
        self.start_phase(Stage::Extra, limit_ns, limit_ns, now_ns);
        true
    }

    /// Handles the EXT_CSD that was read to find which entry (request) of a packed command has
    /// failed. `status`: status bits from the response of that read.
    fn looked_at_pack(&mut self, status: u32, now_ns: u64) {
        self.services.memory_mut().unmap_data(self.bus.host_mut());
        let Fate::Doubtful(before) = self.lane.packs().map_or(Fate::Known, |packs| packs.fate()) else {
            return self.lane.go_idle::<H>(&mut self.timers, now_ns);
        };
        let status = status | before;
        let entries = self.lane.packs().map_or(0, |packs| packs.entries().len());
        let report = Report::read(self.services.memory().page(), entries);
        if report.other {
            self.supervisor.exception_seen(&mut self.timers);
        }
        if !report.failed && status & R1::DEFERRED == 0 {
            // The exception was not about the pack.
            self.lane.set_fate(Fate::Known);
            self.settle(status & !R1::EXCEPTION_EVENT);
        } else if let Some(entry) = report.entry {
            self.lane.split_pack(
                &self.batch,
                &mut self.slots,
                &mut self.order,
                &mut self.durability,
                entry,
                now_ns,
            );
        } else {
            self.doubt_pack(status);
        }
        self.lane.go_idle::<H>(&mut self.timers, now_ns);
    }

    /// Marks all writes of the packed command to be written again, one at a time: the card reported
    /// an error (in the R1 `status`) and named none of them.
    #[cold]
    fn doubt_pack(&mut self, status: u32) {
        self.lane.set_fate(Fate::Known);
        self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
        message!(warn, "a packed write: no entry is named, status {:#010x}", status);
        for index in bits(self.slots.settling()) {
            self.slots.at_mut(index).forbid_merge(true);
        }
        if let Some(packs) = self.lane.packs_mut() {
            packs.count_suspects();
            packs.reset_timing();
        }
        self.incident.doubt(&mut self.slots);
        self.incident.write_again(&mut self.slots, &mut self.order, self.bus.began_ns());
    }
}
