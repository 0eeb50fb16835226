//! Whose queue it is, what the card is in, and which command is under way for it.

/// The queue of an SD card, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdTaskQueue {
    /// Tasks that it holds.
    pub depth: u8,
    /// Tasks are executed in the order in which they are announced; else the card chooses. Only the
    /// latter has the speed of class A2.
    pub sequential: bool,
    /// Writes among the tasks on the card, at most. One is as safe as the card is without its queue:
    /// a card that may be taken out, or lose its supply, should have no more.
    pub writes: u8,
}

/// Whose queue it is.
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
    /// Not known: tasks are discarded, and the queue is switched off.
    Lost,
}

/// The command that is under way for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// CMD44 of the task that is being announced.
    Params,
    /// CMD45 of the same.
    Address,
    /// CMD13 for what is ready.
    Ask,
    /// CMD48; of an SD card CMD43.
    Discard,
    /// CMD6, on or off; of an SD card CMD49.
    Switch(bool),
    /// CMD48 that reads the switch of an SD card, as so many times before.
    Confirm(bool, u8),
    /// CMD13 after one of these.
    Look(After),
}

/// The events that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Discard,
    Switch(bool),
    /// The end of busy; the card has said that it does not switch.
    Refused(bool),
}
