//! Chapter H of the catalogue: the command queue of a card, and the command queue engine of a
//! controller.

use super::{Entry, entry, once, profile};
use crate::faults::{Point, Strike};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "H1",
        "The engine's completions (TCN) have bits of tasks that were cleared",
        "switch it off and on at each clearing; no completion of what was not rung since",
        &[once("queue_stale", Point::Clear, Strike::Spurious(1))],
    ),
    entry(
        "H2",
        "A task is told as complete before its data are in memory",
        "no way to see it: the engine must not be used, demotion by a test of data",
        &[once("task_early", Point::TaskEnd, Strike::Early)],
    ),
    entry(
        "H3",
        "A halt of the engine comes late, or never",
        "wait as long as a task may last, reset the data circuit, then switch the engine off",
        &[
            once("halt_never", Point::Halt, Strike::Never),
            once("halt_late", Point::Halt, Strike::Late(400_000_000)),
        ],
    ),
    entry(
        "H4",
        "A doorbell does nothing: its bit does not stay",
        "the deadline of the task; it is rung again, as it was never begun",
        &[once("doorbell_lost", Point::Doorbell, Strike::Lost)],
    ),
    entry(
        "H5",
        "The engine reports an error and names no task (TERRI without valid bits)",
        "blame no task: all go back, in order",
        &[once("blame_missing", Point::Blame, Strike::Lost)],
    ),
    entry(
        "H6",
        "A response error (RED) of a task that is complete",
        "what is complete stays so; the others go back",
        &[once("red_late", Point::TaskEnd, Strike::Spurious(1))],
    ),
    entry(
        "H7",
        "The card does not answer CMD44",
        "halt, forget the tasks on both sides, tell them again",
        &[once("task_unanswered", Point::Task, Strike::Lost)],
    ),
    entry(
        "H8",
        "A task never gets ready",
        "the deadline of the task, then as H7",
        &[once("task_never_ready", Point::Task, Strike::Never)],
    ),
    entry(
        "H9",
        "A task is shown as ready, and is not",
        "its execution is refused: as H7",
        &[once("task_ready_falls", Point::Task, Strike::Spurious(1))],
    ),
    entry(
        "H10",
        "CMD48 is refused",
        "once more when the card is not busy; after that the queue is switched off",
        &[once("discard_refused", Point::Discard, Strike::Fail)],
    ),
    entry(
        "H11",
        "The card forgets its queue at CMD12",
        "the tasks that the engine says the card knows are told again",
        &[once("queue_forgotten", Point::Stop, Strike::Lost)],
    ),
    entry(
        "H12",
        "A task is overtaken by those behind it, also by one of the same sectors",
        "two tasks that overlap, one of them a write, are never told at the same time",
        &[once("task_overtaken", Point::Task, Strike::Late(5_000_000))],
    ),
    entry(
        "H13",
        "A task has the data of another place, and no error",
        "a self-test of the queue finds it; the medium's affair otherwise",
        &[once("task_astray", Point::Task, Strike::Astray(8))],
    ),
    entry(
        "H14",
        "The pause between two looks at the card's queue falls back to 8 clocks when the engine is switched on",
        "write it at each switching",
        &[once("poll_pause_reset", Point::Enable, Strike::Status(8))],
    ),
    entry(
        "H15",
        "An entry of a packed command fails",
        "the card names it: what is before it is done, it goes alone, the rest goes again",
        &[once("pack_entry_fails", Point::Pack, Strike::Fail)],
    ),
    entry(
        "H16",
        "The index of the entry that failed is off by one",
        "the entry before that which is named is written again too",
        &[
            once("pack_index_late", Point::Pack, Strike::Astray(1)),
            once("pack_index_early", Point::Pack, Strike::Astray(-1)),
        ],
    ),
    entry(
        "H17",
        "An ADMA3 list ends early: part of it is executed, and all is told as complete",
        "the driver compares two addresses, and believes nothing of that list; no other is made",
        &[once("list_ends_early", Point::List, Strike::Lost)],
    ),
    entry(
        "H18",
        "The queue of an SD card gives wrong data, and no error",
        "it stays off unless the card is on a list; a test that writes nothing goes before",
        &[profile("queue-astray")],
    ),
    entry(
        "H19",
        "An SD card never ends a flush while its queue is on",
        "the queue is left before each flush",
        &[profile("queue-flush-hangs")],
    ),
    entry(
        "H20",
        "An SD card forgets the tasks that it was told",
        "discard, switch the queue off, read by single commands; after two failures without the queue",
        &[profile("queue-forgets")],
    ),
    entry(
        "H21",
        "The queue of an SD card is on, or off, some time after its switch was written",
        "read the switch until it says so, 12 ms at most; then without the queue",
        &[profile("queue-late")],
    ),
];
