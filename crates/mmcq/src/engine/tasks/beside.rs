//! Commands of the card's queue during the data of a task.
//!
//! A card answers CMD44, CMD45 and CMD13 while the data of a task are on the DAT lines. Where the
//! host can send a command then
//! ([`Caps::concurrent_command`](crate::host::Caps::concurrent_command)), the next tasks are sent
//! during the data of a read, and CMD13 reads which are ready. So these commands and their
//! interrupts cost no bus time.
//!
//! No command for the queue is sent during written data. Its response may show a late error, which
//! could then belong to a block that the card has only just received.
//!
//! If such a command fails, the queue has failed, as between transfers. The data continue and end
//! as their own phase does. If the data fail, the lines are reset, and the command is lost with
//! them.

use super::super::bus::{Bus, COMMAND_TIMEOUT_NS, SLACK_NS};
use super::super::card::Card;
use super::super::concurrent::Turn;
use super::super::lane::Lane;
use super::super::record::Record;
use super::super::slot::NONE;
use super::super::timers::{NEVER, Timers, later};
use super::{Chosen, Engine};
use crate::host::{Direction, Host};
use crate::sched::tasks::Step;
use crate::sched::{Lanes, Profile};
use crate::spec::command::Command;
use crate::spec::response::R1;

impl<E, T: Lanes> Lane<E, T> {
    /// Returns the CMD13 that reads which tasks are ready, and its step; `None`: it is not time for
    /// that yet.
    pub fn question(&self, card: &Card, now_ns: u64) -> Option<(Step, Command)> {
        let asks = self.tasks().is_some_and(|tasks| tasks.wants_question(now_ns));
        let rca = card.target().map_or(0, |target| target.rca);
        asks.then(|| (Step::Ask, crate::spec::command::send_queue_status(rca)))
    }

    pub fn take_task_beside(&mut self, timers: &mut Timers) -> Option<Step> {
        timers.concurrent_at(NEVER);
        self.concurrent_mut().take_task_step()
    }

    pub fn send_beside<H: Host>(
        &mut self,
        bus: &mut Bus<H>,
        record: &mut Record,
        timers: &mut Timers,
        step: Step,
        command: &Command,
        now_ns: u64,
    ) -> bool {
        if bus.host_mut().start_concurrent(command).is_err() {
            // The phase has no response yet, or its data are over: then its interrupt comes soon.
            return false;
        }
        message!(trace, "CMD{} {:#010x} beside data", command.index, command.arg);
        if let Some(tasks) = self.tasks_mut() {
            match step {
                Step::Params => tasks.note_params_sent(),
                Step::Ask => tasks.note_asked_beside(),
                _ => {}
            }
        }
        self.concurrent_mut().set_task(step);
        timers.concurrent_at(later(now_ns, COMMAND_TIMEOUT_NS + SLACK_NS));
        record.phase_started();
        record.concurrent_started();
        true
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Sends a command for the card's queue while a queued task transfers its data. Returns true if
    /// one was sent.
    #[inline(always)]
    pub(in super::super) fn try_beside(&mut self, now_ns: u64) -> bool {
        let executes =
            self.lane.tasks().is_some_and(|tasks| tasks.is_queue_on() && tasks.executed().is_some());
        executes && self.begin_task_beside(now_ns)
    }

    #[inline(never)]
    fn begin_task_beside(&mut self, now_ns: u64) -> bool {
        let reads = self.lane.moves_data(&self.bus) && self.batch.direction() == Direction::Read;
        let free =
            !self.lane.has_control() && !self.lane.is_concurrent::<H, P>() && !self.blockers.is_halted();
        if !reads || !free || self.lane.is_driven() || !self.bus.host().caps().concurrent_command {
            return false;
        }
        if self.incident.is_open() || self.incident.is_in_doubt() {
            return false;
        }
        if self.lane.tasks().is_some_and(|tasks| tasks.described().is_none()) {
            self.describe_beside(now_ns);
        }
        let next = self.lane.left_of_described(&self.card).or_else(|| self.lane.question(&self.card, now_ns));
        next.is_some_and(|(step, command)| {
            self.lane.send_beside(&mut self.bus, &mut self.record, &mut self.timers, step, &command, now_ns)
        })
    }

    /// Sends the commands that describe the next task (CMD44, CMD45), during the data of another
    /// task. Choosing the next task overwrites the batch (the requests of one transfer). So
    /// afterwards the requests of the task whose data are being transferred are put into the batch
    /// again.
    fn describe_beside(&mut self, now_ns: u64) {
        let Some(tasks) = self.lane.tasks() else { return };
        let Some(executed) = tasks.executed() else { return };
        let room = self.slots.head() != NONE && tasks.are_few() && tasks.has_room(now_ns) && !tasks.is_dull();
        if !room || !self.has_only_tasks(now_ns) {
            return;
        }
        let limits = self.bus.limits(&self.config, &self.incident, self.lane.streams());
        if self.choose_task(limits.blocks, limits.segments, now_ns) == Chosen::Task {
            self.order.send_chosen(&mut self.slots, &self.batch, &mut self.record, now_ns);
            self.lane.describe_task(&self.batch, &self.slots, &self.card, now_ns);
        }
        self.batch.gather_task(&self.slots, self.lane.tasks(), executed);
    }

    /// Handles `turn`, an event in the life of a command that is sent for the card's queue during
    /// the data of another one. Returns true if the controller has reported the end of this
    /// command.
    pub(in super::super) fn task_beside(&mut self, turn: Turn, now_ns: u64) -> bool {
        match turn {
            Turn::Begin => {}
            Turn::Ack => match self.bus.host_mut().ack_concurrent() {
                None => {}
                Some(Ok(status)) => {
                    self.beside_answered(status, now_ns);
                    return true;
                }
                Some(Err(_)) => {
                    self.beside_unanswered(now_ns);
                    return true;
                }
            },
            Turn::GoOn => self.lane.note_free(),
            Turn::Due => {
                self.acknowledge(now_ns);
                if !self.lane.concurrent().has_task_step() {
                    self.record.interrupt_lost();
                    return false;
                }
                if self.timers.concurrent_is_due(now_ns) {
                    self.bus.host_mut().abort_concurrent();
                    self.beside_unanswered(now_ns);
                    self.lane.note_free();
                }
            }
            Turn::Lost { .. } => {
                self.lane.take_task_beside(&mut self.timers);
                self.incident.lose_status();
            }
        }
        false
    }

    fn beside_answered(&mut self, status: u32, now_ns: u64) {
        let Some(step) = self.lane.take_task_beside(&mut self.timers) else { return };
        // An error of the read in progress is its own, and its data show it.
        let late = status & R1::DEFERRED & !R1::CARD_ECC_FAILED;
        if step != Step::Ask && late != 0 {
            self.settle(late);
        }
        let Some(tasks) = self.lane.tasks_mut() else { return };
        if !tasks.is_queue_on() {
            // The tasks were called back meanwhile.
            return;
        }
        match step {
            Step::Ask => {
                if let Err(why) = tasks.apply_ready_bits(status, now_ns) {
                    self.disbelieve(why, now_ns);
                }
            }
            _ if status & R1::OWN != 0 => self.queue_failed(now_ns),
            Step::Address => tasks.announced(now_ns),
            _ => {}
        }
    }

    /// Notes that the response to a command during data is lost, and with it a possible error of
    /// earlier writes.
    #[cold]
    fn beside_unanswered(&mut self, now_ns: u64) {
        self.record.phase_failed();
        let Some(step) = self.lane.take_task_beside(&mut self.timers) else { return };
        if step != Step::Ask {
            if self.durability.take_unsettled() {
                self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, R1::ERROR);
            }
            self.incident.doubt(&mut self.slots);
            self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
        }
        if self.lane.tasks().is_some_and(|tasks| tasks.is_queue_on()) {
            self.queue_failed(now_ns);
        }
        if step != Step::Ask {
            self.incident.restart_waiting_pieces(&mut self.slots, &mut self.order);
            self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
        }
    }
}
