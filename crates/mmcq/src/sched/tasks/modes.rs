//! State of the card's command queue: its kind (eMMC or SD), its mode, and the command that is in
//! progress for it.

/// The queue of an SD card, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdTaskQueue {
    /// Number of tasks that the queue can hold.
    pub depth: u8,
    /// Whether tasks are executed in the order in which they are announced; otherwise the card
    /// chooses. Only a card that chooses has the speed of class A2.
    pub sequential: bool,
    /// Most writes among the tasks on the card. With 1, the queue is as safe as the card without a
    /// queue. Use 1 for a card that may be taken out, or lose power.
    pub writes: u8,
}

/// The type of the card's queue: which commands control it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The queue of an eMMC: CMD48 discards tasks, CMD6 switches the queue [eMMC 6.6.39].
    Emmc,
    /// The queue of an SD card: CMD43 discards tasks, a write to an extension register switches the
    /// queue [SD 4.19].
    Sd(SdTaskQueue),
}

/// The modes of the card's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The card's queue is off.
    Off,
    /// The card's queue is on.
    On,
    /// The state of the queue is not known: tasks will be discarded, and the queue switched off.
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
    /// The command that discards all tasks: CMD48, for an SD card CMD43.
    Discard,
    /// The command that switches the queue on (true) or off (false): CMD6, for an SD card CMD49.
    Switch(bool),
    /// CMD48 that reads the register by which CMD49 switches an SD card's queue. The fields: the
    /// value that the register should have (true: on), and how many earlier reads of it had the
    /// other value.
    Confirm(bool, u8),
    /// CMD13 after a command that discards tasks or switches the queue.
    Look(After),
}

/// The change that the engine waits for by CMD13, after a command that discards tasks of the card's
/// queue, or switches the queue on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Discard,
    Switch(bool),
    /// The end of the card's busy, after the card has reported that it does not switch its queue on
    /// (true) or off (false).
    Refused(bool),
}
