//! The commands of the queue without data: CMD44 and CMD45, CMD13 for the ready tasks, CMD48, and
//! CMD6 that switches the queue on or off. CMD44 to CMD47 of an SD card are the same, bit for bit;
//! the additional bits of an eMMC's tasks are never set for an SD card. The switch of an SD card's
//! queue has data.

use super::super::batch::Batch;
use super::super::blockers::Blockers;
use super::super::bus::{COMMAND_TIMEOUT_NS, SLACK_NS};
use super::super::card::Card;
use super::super::extras::Event;
use super::super::fast::FastKind;
use super::super::lane::Lane;
use super::super::phases::Stage;
use super::super::slot::{NONE, Slots};
use super::super::timers::{Timers, later};
use super::{BLOCK_BYTES, Engine, Error, Turn};
use crate::host::{Data, Direction, Host, Phase};
use crate::sched::tasks::{After, Mode, Step};
use crate::sched::{Demotion, Lanes, Profile};
use crate::spec::command::Command;
use crate::spec::command::emmc::{self, EmmcQueueOp, EmmcTask, SwitchMode};
use crate::spec::command::sd::{self, SdQueueOp};
use crate::spec::ext_csd::index;
use crate::spec::response::{R1, State as CardState};

/// Longest busy of CMD48, and of CMD6 for the queue: no card declares a longer one for a switch.
const SWITCH_NS: u64 = 2_550_000_000;
/// Time between two polls of a card that is busy with CMD48, or with CMD6 for the queue.
const LOOK_NS: u64 = 20_000;

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether a command for the queue is under way.
    #[inline(always)]
    pub(in crate::engine) fn has_task_step(&self) -> bool {
        self.tasks().is_some_and(|tasks| tasks.step().is_some())
    }

    /// Returns whether the response shows which tasks are ready (CMD13 with bit 15), instead of the
    /// card's status.
    pub(in crate::engine) fn asks_what_is_ready(&self) -> bool {
        self.tasks().is_some_and(|tasks| tasks.step() == Some(Step::Ask))
    }

    /// Returns the next command for the task that is being sent to the card: CMD44, or CMD45 after
    /// it. `None`: no task is being sent.
    pub fn left_of_described(&self, card: &Card) -> Option<(Step, Command)> {
        let tasks = self.tasks()?;
        let id = tasks.described()?;
        let task = tasks.task(id);
        if tasks.has_params() {
            return Some((Step::Address, emmc::queued_task_address(card.plan().address(task.start))));
        }
        let task = EmmcTask {
            id,
            blocks: task.blocks() as u16,
            read: task.direction == Direction::Read,
            reliable: task.reliable,
            ..EmmcTask::default()
        };
        Some((Step::Params, emmc::queued_task_params(task)))
    }

    /// Makes the requests of `batch` a task, and gives the task a number. CMD44 and CMD45, which
    /// announce the task to the card, are sent later.
    pub fn describe_task<const N: usize>(
        &mut self,
        batch: &Batch<N>,
        slots: &Slots<N>,
        card: &Card,
        now_ns: u64,
    ) {
        let (direction, start) = (batch.direction(), batch.lba());
        let reliable = batch.is_reliable(slots, card);
        let Some(tasks) = self.tasks_mut() else { return };
        let id = tasks.describe(direction, start, batch.end(), batch.members(), now_ns);
        if reliable {
            tasks.mark_reliable(id);
        }
    }

    /// Records that a switch of the card's queue (on or off) begins. If anything fails from now on,
    /// it is not known whether the queue is on.
    pub fn switching<H: Host, P: Profile>(&mut self, blockers: &mut Blockers<H, P>) {
        if let Some(tasks) = self.tasks_mut() {
            tasks.mark_lost();
        }
        blockers.close_fast();
    }

    /// Gives up the use of the command queue of a card that has refused to switch it on.
    pub fn refused_queue<H: Host>(&mut self, timers: &mut Timers, now_ns: u64) {
        let Some(tasks) = self.tasks_mut() else { return };
        tasks.demote(Demotion::Refused);
        tasks.reset();
        self.go_idle::<H>(timers, now_ns);
    }

    /// Handles the end of the command that switches the card's queue: `on` says whether the queue
    /// is on now.
    pub fn switched<H: Host>(&mut self, timers: &mut Timers, on: bool, now_ns: u64) {
        let Some(tasks) = self.tasks_mut() else { return };
        if on {
            tasks.enter_on()
        } else {
            tasks.reset()
        }
        debug_assert!(on == (tasks.mode() == Mode::On));
        message!(debug, "the card's command queue: {}", if on { "on" } else { "off" });
        self.go_idle::<H>(timers, now_ns);
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Sends a command for the card's queue that transfers no data and causes no busy, such as
    /// CMD44. `step`: what the command does, so that its response is handled accordingly.
    pub(super) fn task_step(&mut self, step: Step, command: Command, now_ns: u64) {
        if let Some(tasks) = self.lane.tasks_mut() {
            tasks.set_step(step);
        }
        self.batch.forget();
        self.bus.prepare(Phase::of(command));
        let times_ns = (COMMAND_TIMEOUT_NS, COMMAND_TIMEOUT_NS);
        self.start_fast_phase(FastKind::Nothing, Stage::Extra, times_ns, now_ns);
    }

    /// Sends a command after which the card is busy, and which belongs to the handling of the
    /// card's command queue (`step`).
    pub(super) fn busy_step(&mut self, step: Step, command: Command, now_ns: u64) {
        if let Some(tasks) = self.lane.tasks_mut() {
            tasks.set_step(step);
        }
        self.batch.forget();
        let timer_ns = SWITCH_NS.min(self.bus.host().caps().max_busy_ns.max(COMMAND_TIMEOUT_NS));
        self.start_order(Stage::Extra, command, timer_ns, now_ns);
    }

    /// Sends the next command of the described task, CMD44 or CMD45. Returns false if no task is
    /// described.
    pub(super) fn send_described(&mut self, now_ns: u64) -> bool {
        let Some((step, command)) = self.lane.left_of_described(&self.card) else { return false };
        if let (Step::Params, Some(tasks)) = (step, self.lane.tasks_mut()) {
            tasks.note_params_sent();
        }
        self.task_step(step, command, now_ns);
        true
    }

    /// Sends the command that switches the card's queue on (`on`) or off: CMD6 to an eMMC, a write
    /// of an extension register to an SD card. The caller has emptied the queue.
    pub(super) fn switch_queue(&mut self, on: bool, now_ns: u64) -> Turn {
        if self.lane.is_sd_queue() {
            return self.switch_sd_queue(on, now_ns);
        }
        self.lane.switching(&mut self.blockers);
        let switch = emmc::switch(SwitchMode::WriteByte, index::CMDQ_MODE_EN, u8::from(on), 0);
        self.busy_step(Step::Switch(on), switch, now_ns);
        Turn::Again
    }

    /// Sends the CMD49 that switches the card's queue on (`on`) or off. The caller has emptied the
    /// queue.
    fn switch_sd_queue(&mut self, on: bool, now_ns: u64) -> Turn {
        let Some(value) = self.lane.sd_switch_value(on) else { return Turn::Pass };
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
    fn confirm_switch(&mut self, on: bool, tries: u8, now_ns: u64) {
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

    /// Makes the card discard all tasks of its queue: sends CMD48 to an eMMC, CMD43 to an SD card.
    pub(super) fn discard_tasks(&mut self, now_ns: u64) {
        let discard = match self.lane.is_sd_queue() {
            true => sd::q_management(SdQueueOp::AbortAll),
            false => emmc::cmdq_task_mgmt(EmmcQueueOp::DiscardAll),
        };
        self.busy_step(Step::Discard, discard, now_ns);
    }

    /// Sends CMD13 to poll for the end of busy, after a command for the card's queue. `after`: the
    /// change that is complete when the busy ends.
    fn look(&mut self, after: After, now_ns: u64) {
        self.task_step(Step::Look(after), self.card.plan().status(), now_ns);
    }

    /// Handles the response of a command for the queue, or the end of a pause between two polls.
    #[inline(never)]
    pub(in super::super) fn task_event(&mut self, event: Event, now_ns: u64) {
        let Some((step, stale)) = self.lane.tasks_mut().and_then(|tasks| tasks.take_step()) else { return };
        // Of all steps only the switch of an SD card's queue has data.
        self.services.memory_mut().unmap_data(self.bus.host_mut());
        if stale {
            if let (Event::Done(status), false) = (event, step == Step::Ask) {
                self.settle(status);
            }
            return self.lane.go_idle::<H>(&mut self.timers, now_ns);
        }
        match (event, step) {
            (Event::Done(status), Step::Ask) => {
                let Some(tasks) = self.lane.tasks_mut() else { return };
                let seen = tasks.apply_ready_bits(status, now_ns);
                if let Err(why) = seen {
                    self.disbelieve(why, now_ns);
                }
                self.lane.go_idle::<H>(&mut self.timers, now_ns);
            }
            (Event::Done(status), Step::Params | Step::Address) => {
                // While the card still programs, its status completes no write.
                if status & R1::DEFERRED != 0 || R1(status).current_state() != CardState::Prg {
                    self.settle(status);
                }
                if status & R1::OWN != 0 {
                    return self.lane.fail(&mut self.incident, Error::Card(status));
                }
                if step == Step::Params {
                    self.send_described(now_ns);
                    return;
                }
                if let Some(tasks) = self.lane.tasks_mut() {
                    tasks.announced(now_ns);
                }
                self.lane.go_idle::<H>(&mut self.timers, now_ns);
            }
            (Event::Done(status), Step::Discard | Step::Switch(_)) => {
                self.settle(status);
                if status & R1::OWN != 0 {
                    return self.lane.fail(&mut self.incident, Error::Card(status));
                }
                self.lane.busy_mut().begin_timed(SWITCH_NS);
                self.look(
                    if let Step::Switch(on) = step { After::Switch(on) } else { After::Discard },
                    now_ns,
                );
            }
            (Event::Done(status), Step::Look(after)) => self.looked(after, R1(status), now_ns),
            (_, Step::Look(after)) => self.look(after, now_ns),
            (Event::Done(status), Step::Confirm(on, tries)) => {
                self.settle(status);
                if status & R1::OWN != 0 {
                    return self.lane.fail(&mut self.incident, Error::Card(status));
                }
                let seen = self.services.memory().page().first().copied().unwrap_or(0);
                self.lane.confirmed::<H>(&mut self.incident, &mut self.timers, seen, (on, tries), now_ns);
            }
            (Event::Woke, Step::Confirm(on, tries)) => self.confirm_switch(on, tries, now_ns),
            _ => {}
        }
    }

    /// Handles the status after a command that discards tasks or switches the queue (`after`). If
    /// the card is still busy, the status is read again.
    fn looked(&mut self, after: After, status: R1, now_ns: u64) {
        self.settle(status.0);
        // The card may report that it does not switch while it is still busy, and reports that
        // once.
        let refused = status.0 & (R1::OWN | R1::SWITCH_ERROR) != 0;
        let after = match after {
            After::Switch(on) if refused => After::Refused(on),
            _ => after,
        };
        if status.current_state() == CardState::Prg || !status.ready_for_data() {
            self.lane.busy_mut().asked();
            if u64::from(self.lane.busy().questions()).saturating_mul(LOOK_NS) > SWITCH_NS {
                return self.lane.fail(&mut self.incident, Error::Silent);
            }
            if let Some(tasks) = self.lane.tasks_mut() {
                tasks.set_step(Step::Look(after));
            }
            self.lane.enter(Stage::Extra);
            self.timers.wake_at(later(now_ns, LOOK_NS));
            return self.timers.give_up_at(later(now_ns, LOOK_NS + SLACK_NS));
        }
        match after {
            After::Discard => {
                if self.switch_queue(false, now_ns) == Turn::Wait {
                    self.lane.go_idle::<H>(&mut self.timers, now_ns);
                }
            }
            After::Refused(true) => {
                message!(
                    warn,
                    "the card's command queue is given up: not switched on, status {:#010x}",
                    status.0
                );
                self.lane.refused_queue::<H>(&mut self.timers, now_ns);
            }
            After::Refused(false) => self.lane.fail(&mut self.incident, Error::Card(status.0)),
            After::Switch(on) if self.lane.is_sd_queue() => self.confirm_switch(on, 0, now_ns),
            After::Switch(on) => self.lane.switched::<H>(&mut self.timers, on, now_ns),
        }
    }
}
