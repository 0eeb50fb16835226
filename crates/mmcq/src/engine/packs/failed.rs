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
use crate::sched::packs::Fate;
use crate::sched::{Lanes, Profile};
use crate::spec::ext_csd::ExtCsd;
use crate::spec::response::R1;

/// Bit of EXCEPTION_EVENTS_STATUS: a packed command failed.
const PACKED_FAILURE: u16 = 1 << 3;
/// Bits of PACKED_COMMAND_STATUS: there was an error; PACKED_FAILURE_INDEX is valid.
const FAILED: u8 = 1;
const INDEXED: u8 = 2;

/// Content of EXT_CSD after an error of a packed command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// Whether a packed command has failed.
    pub failed: bool,
    /// Number of the failed entry, from 1; `None`: it is not known.
    pub entry: Option<usize>,
    /// Whether there is an exception event that is not about a packed command.
    pub other: bool,
}

impl Report {
    /// Reads the report from EXT_CSD, in `page`. `entries`: number of entries of the pack. Where
    /// `page` is not an EXT_CSD, the command counts as failed.
    pub fn read(page: &[u8], entries: usize) -> Report {
        let ext_csd = page.first_chunk::<512>().and_then(|bytes| ExtCsd::parse(bytes).ok());
        let (events, told, index) = ext_csd.map_or((PACKED_FAILURE, 0, 0), |ext| {
            (ext.exception_events_status(), ext.packed_command_status(), ext.packed_failure_index())
        });
        let failed = events & PACKED_FAILURE != 0;
        let named = failed && told & (FAILED | INDEXED) == FAILED | INDEXED;
        let entry = Some(index.into()).filter(|entry| named && (1..=entries).contains(entry));
        Report { failed, entry, other: events & !PACKED_FAILURE != 0 }
    }
}

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

    /// Handles a failed phase (a command with its data). Returns whether it was that of a pack, and
    /// whether the result of packed writes is open.
    #[inline(always)]
    pub fn pack_failed(&mut self, now_ns: u64) -> (bool, bool) {
        let Some(packs) = self.packs_mut() else { return (false, false) };
        packs.reset_timing();
        packs.take_step();
        let open = packs.fate() != Fate::Known;
        let running = packs.take_running().is_some();
        if running {
            packs.note_failure(now_ns);
            if packs.stats().demoted.is_some() {
                message!(warn, "packed commands: given up after failures");
            }
        }
        (running, open)
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

impl<const N: usize> Batch<N> {
    /// Makes each request of the failed transfer go alone when it is sent again.
    #[cold]
    pub fn send_singly(&self, slots: &mut Slots<N>) {
        for &index in self.members() {
            slots.at_mut(index).forbid_merge(true);
        }
    }
}
