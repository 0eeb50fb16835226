//! Counters of a card's queue, and why it is not used any more.

use crate::host::QueueError;
use core::fmt;

/// Why the engine has stopped using one of the fast ways to send transfers: the card's queue,
/// packed commands (packs), chains of transfers, or the controller's command queue engine.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Demotion {
    /// The card did not switch its queue on.
    Refused,
    /// The card reports tasks as ready that do not exist, bit n for task n.
    Unknown(u32),
    /// The card withdrew tasks that it had reported as ready, bit n for task n.
    Fell(u32),
    /// No announced task became ready in this many milliseconds.
    NeverReady(u32),
    /// Tasks, packed commands or chains failed too often: twice in ten seconds, or five times in
    /// ten minutes.
    Failures,
    /// The controller reported a chain (several transfers in one list) as complete that it had not
    /// executed to its end.
    EndsEarly,
    /// The controller's command queue engine cannot be switched on.
    Engine(QueueError),
    /// The command queue engine did not halt in time.
    Halt,
    /// The command queue engine did not clear its tasks in time.
    Clear,
    /// The command queue engine has reported the ends of tasks that it did not have: bit n for task
    /// n.
    Stale(u32),
}

impl fmt::Display for Demotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Demotion::Refused => f.write_str("it was not switched on"),
            Demotion::Unknown(tasks) => write!(f, "it calls tasks ready that do not exist, {tasks:#010x}"),
            Demotion::Fell(tasks) => write!(f, "tasks that were ready are not any more, {tasks:#010x}"),
            Demotion::NeverReady(ms) => write!(f, "nothing became ready in {ms} ms"),
            Demotion::Failures => f.write_str("two failures in ten seconds, or five in ten minutes"),
            Demotion::EndsEarly => f.write_str("a list was called complete before its end"),
            Demotion::Engine(why) => why.fmt(f),
            Demotion::Halt => f.write_str("it does not halt"),
            Demotion::Clear => f.write_str("it does not forget its tasks"),
            Demotion::Stale(tasks) => write!(f, "tasks ended that were not rung, {tasks:#010x}"),
        }
    }
}

/// Counters of a card's command queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskStats {
    /// Number of tasks announced to the card (CMD44 and CMD45).
    pub announced: u32,
    /// Number of tasks whose data the card was told to transfer (CMD46 and CMD47).
    pub executed: u32,
    /// Number of times that the engine polled the card for ready tasks.
    pub asked: u32,
    /// Number of polls (of those in `asked`) that found no new ready task.
    pub asked_in_vain: u32,
    /// How many times the queue was switched on.
    pub entered: u32,
    /// Number of commands and tasks that failed while the queue was on.
    pub failures: u32,
    /// Number of late errors (reported after the data) that could belong to several writes.
    pub suspected: u32,
    /// Number of tasks whose doorbell was rung: given to the controller's command queue engine.
    /// They count as announced and executed, too.
    pub rung: u32,
    /// Number of writes of the doorbell register.
    pub rings: u32,
    /// Number of times that the command queue engine reported the end of a task whose doorbell had
    /// not been rung.
    pub stale: u32,
    /// Number of interrupts or doorbells of the command queue engine that were lost.
    pub lost: u32,
    /// Why the controller's command queue engine is not used any more; the software drives the
    /// queue then. `None`: it was not given up.
    pub engine: Option<Demotion>,
    /// Why the queue is not used any more; `None`: it was not given up.
    pub demoted: Option<Demotion>,
}

impl TaskStats {
    pub(super) const ZERO: TaskStats = TaskStats {
        announced: 0,
        executed: 0,
        asked: 0,
        asked_in_vain: 0,
        entered: 0,
        failures: 0,
        suspected: 0,
        rung: 0,
        rings: 0,
        stale: 0,
        lost: 0,
        engine: None,
        demoted: None,
    };
}
