//! The queue of an SD card is switched in another way than that of an eMMC: by an extension
//! register of the performance function, which CMD49 writes. That register is next to the one that
//! flushes the cache [SD 4.19, 5.8.2].
//!
//! A card may take its time for the switch, so the register is read (CMD48) until it has the value
//! that was written. Both commands transfer one block, in the memory that the engine has for
//! registers (its *page*).

use super::super::bus::SLACK_NS;
use super::super::card::Card;
use super::super::extras::Memory;
use super::super::lane::Lane;
use super::super::phases::Stage;
use super::super::recover::Incident;
use super::super::timers::{Timers, later};
use super::super::{Breach, DmaBuf};
use super::{BLOCK_BYTES, Error, FlushBy};
use crate::host::Host;
use crate::sched::Lanes;
use crate::sched::tasks::{Dialect, Step};
use crate::spec::command::sd::Extension;

/// Time between two reads of the register that switches the queue, in nanoseconds.
const CONFIRM_NS: u64 = 1_000_000;
/// Largest number of reads of the register that switches the queue. The last read comes at least 11
/// ms after the first; a driver of Linux waits 10 ms in all.
const CONFIRMS_MAX: u8 = 12;
/// Bit of the register that switches the queue: the queue is on.
const ON: u8 = 1;
/// Bit of the register that switches the queue: the card executes tasks in the order of arrival.
const SEQUENTIAL: u8 = 2;

impl<E, T: Lanes> Lane<E, T> {
    pub(in crate::engine) fn is_sd_queue(&self) -> bool {
        self.tasks().is_some_and(|tasks| tasks.dialect() != Dialect::Emmc)
    }

    /// Returns what the register of an SD card gets that switches the queue on (`on`) or off;
    /// `None`: the queue is not that of an SD card.
    pub fn sd_switch_value(&self, on: bool) -> Option<u8> {
        let Dialect::Sd(queue) = self.tasks()?.dialect() else { return None };
        Some(match (on, queue.sequential) {
            (false, _) => 0,
            (true, false) => ON,
            (true, true) => ON | SEQUENTIAL,
        })
    }

    /// Handles the content `seen` of the register that switches an SD card's queue, after a switch
    /// of the queue to `on`. If the register does not show that state, it is read again, a bounded
    /// number of times; `tries` reads were repeated so far.
    pub fn confirmed<H: Host>(
        &mut self,
        incident: &mut Incident,
        timers: &mut Timers,
        seen: u8,
        (on, tries): (bool, u8),
        now_ns: u64,
    ) {
        let is_on = seen & ON != 0;
        match (is_on == on, on) {
            (true, _) => self.switched::<H>(timers, on, now_ns),
            (false, _) if tries < CONFIRMS_MAX => self.look_again(timers, on, tries + 1, now_ns),
            (false, true) => {
                message!(warn, "the card's command queue is given up: its switch reads {:#04x}", seen);
                self.refused_queue::<H>(timers, now_ns);
            }
            (false, false) => self.fail(incident, Error::Protocol(Breach::QueueStays)),
        }
    }

    pub fn look_again(&mut self, timers: &mut Timers, on: bool, tries: u8, now_ns: u64) {
        if let Some(tasks) = self.tasks_mut() {
            tasks.set_step(Step::Confirm(on, tries));
        }
        self.enter(Stage::Extra);
        timers.wake_at(later(now_ns, CONFIRM_NS));
        timers.give_up_at(later(now_ns, CONFIRM_NS + SLACK_NS));
    }

    /// Returns whether the engine can switch the card's queue on and off. That is always so for an
    /// eMMC. For an SD card the register with the switch must be known, and the engine must have a
    /// memory block (page) for its content.
    pub fn knows_switch(&self, card: &Card, page: &DmaBuf) -> bool {
        !self.is_sd_queue() || card.queue_register(page).is_some()
    }

    /// Unmaps the memory of a command that was to switch the card's queue on or off, and that has
    /// failed or ended. The controller does not use the memory any more.
    #[inline(always)]
    pub fn unmap_switch<H: Host>(&mut self, memory: &mut Memory, host: &mut H) {
        if self.tasks().is_some() && !self.has_control() {
            memory.unmap_data(host);
        }
    }
}

impl Card {
    /// Returns the extension register by which the queue is switched on, if this is an SD card with
    /// one.
    pub fn queue_register(&self, page: &DmaBuf) -> Option<Extension> {
        let target = self.target().filter(|target| !target.emmc && !target.extended_address)?;
        let FlushBy::SdCache { at, .. } = target.flush else { return None };
        let paged = page.len_bytes() >= BLOCK_BYTES;
        (paged && at.offset < 511).then_some(Extension { offset: at.offset + 1, ..at })
    }
}
