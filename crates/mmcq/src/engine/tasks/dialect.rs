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
use super::super::slot::NONE;
use super::super::timers::{Timers, later};
use super::super::{Breach, DmaBuf};
use super::{BLOCK_BYTES, Engine, Error, FlushBy, Turn};
use crate::host::{Data, Direction, Host};
use crate::sched::tasks::{Dialect, Step};
use crate::sched::{Demotion, Lanes, Profile, SdTaskQueue};
use crate::spec::command::Command;
use crate::spec::command::sd::{self, Extension};
use crate::spec::response::R1;

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

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Enables the queue as [`set_task_queue`](Self::set_task_queue) does, for an SD card. Two
    /// things are needed. The card's cache must be on ([`FlushBy::SdCache`]): the queue's register
    /// is found beside the register of the cache. And the engine must have memory of its own for
    /// registers ([`set_page`](Self::set_page)). Returns false if one of these is missing, the card
    /// has addresses of 38 bits, or the queue is too small to be of use.
    ///
    /// The queue of some cards damages data without an error.
    /// [`card::enable_sd_task_queue`](crate::card::enable_sd_task_queue) checks the card's identity
    /// for that.
    pub fn set_sd_task_queue(&mut self, queue: SdTaskQueue) -> bool {
        self.blockers.close_fast();
        let known = self.card.queue_register(self.services.memory().page()).is_some();
        self.lane.tasks_mut().is_some_and(|tasks| known && tasks.configure_sd(queue))
    }

    /// Sends the CMD49 that switches the card's queue on (`on`) or off. The caller has emptied the
    /// queue.
    pub(super) fn switch_sd_queue(&mut self, on: bool, now_ns: u64) -> Turn {
        let Some(Dialect::Sd(queue)) = self.lane.tasks().map(|tasks| tasks.dialect()) else {
            return Turn::Pass;
        };
        let value = match (on, queue.sequential) {
            (false, _) => 0,
            (true, false) => ON,
            (true, true) => ON | SEQUENTIAL,
        };
        if !on {
            self.lane.switching(&mut self.blockers);
        }
        let Some(at) = self.card.queue_register(self.services.memory().page()) else {
            // Without the register, only an initialisation of the card switches the queue off.
            self.recover_lost_card(now_ns);
            return Turn::Again;
        };
        if let Some(first) = self.services.memory_mut().page_mut().first_mut() {
            *first = value;
        }
        self.switch_data(Step::Switch(on), sd::write_extr_single(at, 1), Direction::Write, now_ns)
    }

    /// Sends CMD48, which reads the register that switches the queue, to check that the switch has
    /// happened. `on`: the queue was switched on (true) or off. `tries`: number of earlier reads
    /// for this switch.
    pub(super) fn confirm_switch(&mut self, on: bool, tries: u8, now_ns: u64) {
        let Some(at) = self.card.queue_register(self.services.memory().page()) else {
            return self.recover_lost_card(now_ns);
        };
        let read = sd::read_extr_single(at, 1);
        if self.switch_data(Step::Confirm(on, tries), read, Direction::Read, now_ns) == Turn::Wait {
            // The engine's page cannot be mapped now.
            self.lane.look_again(&mut self.timers, on, tries, now_ns);
        }
    }

    /// Transfers a block of 512 bytes between the card and the engine's page (its own buffer), to
    /// switch the queue by an extension register. [`Turn::Wait`]: no mapping is free now.
    fn switch_data(&mut self, step: Step, command: Command, direction: Direction, now_ns: u64) -> Turn {
        let segment = self.services.memory().page().segment(BLOCK_BYTES);
        self.batch.forget();
        match self.map_data(NONE, segment, direction, now_ns) {
            Ok(true) => {}
            Ok(false) => return Turn::Wait,
            Err(error) => {
                message!(warn, "the card's command queue: its page cannot be mapped");
                if let (Step::Switch(true), Some(tasks)) = (step, self.lane.tasks_mut()) {
                    tasks.demote(Demotion::Refused);
                    return Turn::Pass;
                }
                self.lane.fail(&mut self.incident, error);
                return Turn::Again;
            }
        }
        if matches!(step, Step::Switch(true)) {
            self.lane.switching(&mut self.blockers);
        }
        if let Some(tasks) = self.lane.tasks_mut() {
            tasks.set_step(step);
        }
        self.start_data(command, Data { direction, block_size: BLOCK_BYTES as u16, blocks: 1 }, now_ns);
        Turn::Again
    }

    /// Handles the end of the CMD48 that read the SD register of the card's queue, after a switch
    /// of the queue to `on`. If the register does not show that state, it is read again, a bounded
    /// number of times; `tries` reads were repeated so far. `status`: the R1 of the CMD48.
    pub(super) fn confirmed(&mut self, on: bool, tries: u8, status: u32, now_ns: u64) {
        self.settle(status);
        if status & R1::OWN != 0 {
            return self.lane.fail(&mut self.incident, Error::Card(status));
        }
        let seen = self.services.memory().page().first().copied().unwrap_or(0);
        let is_on = seen & ON != 0;
        match (is_on == on, on) {
            (true, _) => self.lane.switched::<H>(&mut self.timers, on, now_ns),
            (false, _) if tries < CONFIRMS_MAX => {
                self.lane.look_again(&mut self.timers, on, tries + 1, now_ns)
            }
            (false, true) => {
                message!(warn, "the card's command queue is given up: its switch reads {:#04x}", seen);
                self.lane.refused_queue::<H>(&mut self.timers, now_ns);
            }
            (false, false) => {
                self.lane.fail(&mut self.incident, Error::Protocol(Breach::QueueStays));
            }
        }
    }
}
