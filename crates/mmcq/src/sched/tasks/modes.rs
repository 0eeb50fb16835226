//! The type of the queue, its mode, and the command that is in progress for it.

/// The queue of an SD card, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdTaskQueue {
    /// Number of its tasks.
    pub depth: u8,
    /// Whether tasks are executed in the order in which they are announced; otherwise the card
    /// chooses. Only the second has the speed of class A2.
    pub sequential: bool,
    /// Most writes among the tasks on the card. With one the queue is as safe as the card without
    /// it: use no more for a card that may be taken out, or lose power.
    pub writes: u8,
}

/// The type of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// CMD48 discards, CMD6 switches [eMMC 6.6.39].
    Emmc,
    /// CMD43 discards, a write to an extension register switches [SD 4.19].
    Sd(SdTaskQueue),
}

/// The modes of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The card's queue is off.
    Off,
    /// The card's queue is on.
    On,
    /// Not known: tasks will be discarded, and the queue switched off.
    Lost,
}

/// The command in progress for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// CMD44 of the task that is being announced.
    Params,
    /// CMD45 of the task that is being announced.
    Address,
    /// CMD13 that reads which tasks are ready.
    Ask,
    /// CMD48; for an SD card CMD43.
    Discard,
    /// CMD6, on or off; for an SD card CMD49.
    Switch(bool),
    /// CMD48 that reads the switch of an SD card, and the number of such reads before.
    Confirm(bool, u8),
    /// CMD13 after one of these.
    Look(After),
}

/// The event that the engine waits for after such a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Discard,
    Switch(bool),
    /// The end of busy; the card has reported that it does not switch.
    Refused(bool),
}
