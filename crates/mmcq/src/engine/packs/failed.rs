//! Failures of a pack.
//!
//! If the data of a pack fail, each of its requests is tried alone, by the recovery ladder. The
//! status after a packed write may show that an entry failed. Then EXT_CSD names the failed entry.
//! The entries before it are done. The entries after it were not begun: they return to the queue as
//! the old requests that they are, and the failure does not count as one of their attempts. The
//! failed entry is sent alone, and that attempt is its result. The entry before it is written again
//! too, since some cards count the entries from two. If EXT_CSD names no entry, all of them are
//! written again in order and one at a time.

use super::super::batch::Batch;
use super::super::card::Card;
use super::super::durability::Durability;
use super::super::lane::Lane;
use super::super::order::Order;
use super::super::recover::Incident;
use super::super::slot::{Rules, Slots, State, bits};
use super::{BLOCK_BYTES, COMMAND_TIMEOUT_NS, Engine, Stage};
use crate::host::{Auto, Data, Direction, Host, Phase};
use crate::sched::packs::{Fate, Step};
use crate::sched::{Lanes, Profile};
use crate::spec::command::emmc;
use crate::spec::ext_csd::ExtCsd;
use crate::spec::response::R1;

/// Bit of EXCEPTION_EVENTS_STATUS: a packed command failed.
const PACKED_FAILURE: u16 = 1 << 3;
/// Bits of PACKED_COMMAND_STATUS: there was an error; PACKED_FAILURE_INDEX is valid.
const FAILED: u8 = 1;
const INDEXED: u8 = 2;

impl<E, T: Lanes> Lane<E, T> {
    /// Handles a status of the card. Returns true if the status may show an error of a packed
    /// write. Then the caller must not complete any write by this status; the engine first searches
    /// the failed entry.
    #[inline(always)]
    pub fn pack_keeps(&mut self, status: u32) -> bool {
        let Some(packs) = self.packs_mut() else { return false };
        match packs.fate() {
            Fate::Known => false,
            Fate::Open if status & (R1::DEFERRED | R1::EXCEPTION_EVENT) == 0 => {
                packs.set_fate(Fate::Known);
                false
            }
            Fate::Open => {
                packs.set_fate(Fate::Doubtful(status));
                true
            }
            Fate::Doubtful(before) => {
                packs.set_fate(Fate::Doubtful(before | status));
                true
            }
        }
    }

    /// Handles a pack of which an entry has failed. The requests of the entries before it are
    /// complete. All others are sent again, those of the failed entry one by one. `failed`: number
    /// of the entry, from 1.
    pub fn split_pack<const N: usize, P: Profile>(
        &mut self,
        batch: &Batch<N>,
        slots: &mut Slots<N>,
        order: &mut Order<P>,
        ledger: &mut Durability,
        failed: usize,
        now_ns: u64,
    ) {
        self.set_fate(Fate::Known);
        if let Some(packs) = self.packs_mut() {
            packs.count_split();
        }
        let (mut place, mut left) = (0, 0);
        for at in 0..batch.members().len() {
            while left == 0 {
                let Some(entry) = self.packs().and_then(|packs| packs.entries().get(place)) else {
                    return;
                };
                (place, left) = (place + 1, entry.members);
            }
            left -= 1;
            let Some(&index) = batch.members().get(at) else { return };
            if slots.at(index).state() != State::Settling {
                continue;
            }
            slots.stop_settling(index);
            let slot = slots.at_mut(index);
            if place + 1 < failed || slot.result().is_err() {
                ledger.complete();
                slots.end(index);
                continue;
            }
            if place == failed {
                slot.forbid_merge(true);
                if slot.rules() != Rules::NONE {
                    slot.mark_rewritten();
                }
            }
            slot.restart();
            order.push_again(slots, index, now_ns);
        }
    }

    /// Gives up waiting for the status of packed writes. Their result stays unknown, so they are
    /// written once more.
    pub fn doubt_settling<const N: usize, P: Profile>(
        &mut self,
        ledger: &mut Durability,
        incident: &mut Incident,
        slots: &mut Slots<N>,
        card: &Card,
    ) {
        if let Some(Fate::Doubtful(status)) = self.packs().map(|packs| packs.fate()) {
            ledger.owe_late_status::<N, P>(slots, card, status);
        }
        self.set_fate(Fate::Known);
        for index in bits(slots.settling()) {
            slots.at_mut(index).forbid_merge(true);
        }
        incident.doubt(slots);
    }

    /// Forgets all packs (several transfers sent as one packed command): the card is gone, has been
    /// replaced, or will be brought up again.
    pub fn forget_packs<const N: usize, P: Profile>(
        &mut self,
        ledger: &mut Durability,
        incident: &mut Incident,
        slots: &mut Slots<N>,
        card: &Card,
    ) {
        let Some(packs) = self.packs_mut() else { return };
        packs.forget();
        if packs.fate() != Fate::Known {
            self.doubt_settling::<N, P>(ledger, incident, slots, card);
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Handles a status with an error that comes after a packed write. If the status shows an
    /// exception event, reads EXT_CSD to find the failed entry. Otherwise each write of the packed
    /// command may have failed.
    #[cold]
    pub(super) fn judge(&mut self, status: u32, now_ns: u64) {
        if status & R1::EXCEPTION_EVENT == 0 || !self.look_at_pack(now_ns) {
            self.doubt_pack(status);
        }
    }

    /// Reads EXT_CSD, which names the failed entry. Returns false if there is no memory for it.
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
    pub(super) fn looked_at_pack(&mut self, status: u32, now_ns: u64) {
        self.services.memory_mut().unmap_data(self.bus.host_mut());
        let Fate::Doubtful(before) = self.lane.packs().map_or(Fate::Known, |packs| packs.fate()) else {
            return self.lane.go_idle::<H>(&mut self.timers, now_ns);
        };
        let status = status | before;
        let page = self.services.memory().page();
        let ext_csd = page.first_chunk::<512>().and_then(|bytes| ExtCsd::parse(bytes).ok());
        let (events, told, index) = ext_csd.map_or((PACKED_FAILURE, 0, 0), |ext| {
            (ext.exception_events_status(), ext.packed_command_status(), ext.packed_failure_index())
        });
        let entries = self.lane.packs().map_or(0, |packs| packs.entries().len());
        let failed = events & PACKED_FAILURE != 0;
        if events & !PACKED_FAILURE != 0 {
            self.supervisor.exception_seen(&mut self.timers);
        }
        if !failed && status & R1::DEFERRED == 0 {
            // The exception was not about the pack.
            self.lane.set_fate(Fate::Known);
            self.settle(status & !R1::EXCEPTION_EVENT);
        } else if failed
            && told & (FAILED | INDEXED) == FAILED | INDEXED
            && (1..=entries).contains(&index.into())
        {
            self.lane.split_pack(
                &self.batch,
                &mut self.slots,
                &mut self.order,
                &mut self.durability,
                index.into(),
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

    /// Handles a failed phase (a command with its data). If the phase belonged to a pack (several
    /// requests in one packed command), the pack's requests are sent one by one from now on.
    #[inline(always)]
    pub(in super::super) fn pack_failed(&mut self, now_ns: u64) {
        let Some(packs) = self.lane.packs_mut() else { return };
        packs.reset_timing();
        let running = packs.take_running().is_some();
        let looked = packs.take_step() == Some(Step::Look);
        let open = packs.fate() != Fate::Known;
        if running || looked || open {
            self.pack_fails(running, open, now_ns);
        }
    }

    #[cold]
    #[inline(never)]
    fn pack_fails(&mut self, running: bool, open: bool, now_ns: u64) {
        if running {
            if let Some(packs) = self.lane.packs_mut() {
                packs.note_failure(now_ns);
                if packs.stats().demoted.is_some() {
                    message!(warn, "packed commands: given up after failures");
                }
            }
            for place in 0..self.batch.members().len() {
                if let Some(&index) = self.batch.members().get(place) {
                    self.slots.at_mut(index).forbid_merge(true);
                }
            }
        }
        if open {
            self.lane.doubt_settling::<N, P>(
                &mut self.durability,
                &mut self.incident,
                &mut self.slots,
                &self.card,
            );
        }
    }
}
