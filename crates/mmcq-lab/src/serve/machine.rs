//! The machine of an export: an engine with its card, and what advances it.

use mmcq::engine::{Completion, DmaBuf, Erase, Error, Request, SlotId, SlotSet};
use std::time::Duration;

/// Most requests that the engine of a machine has at a time.
pub const SLOTS: usize = 64;

/// Result of a [step](Machine::step).
pub enum Step {
    /// Slots that are done, one bit each; there may be none.
    Done(SlotSet),
    /// There is nothing to do for this time.
    Wait(Duration),
}

/// An engine with its card in `tran`. One thread calls it.
pub trait Machine {
    /// Returns the number of 512-byte blocks.
    fn blocks(&self) -> u64;

    /// Returns the size in bytes of the largest buffer.
    fn buffer_bytes_max(&self) -> u64;

    /// Returns memory of at least this size for a request; `None`: only when another request has
    /// ended.
    fn buffer(&mut self, bytes: usize) -> Option<DmaBuf>;

    /// Takes back memory from [`buffer`](Self::buffer).
    fn free(&mut self, buffer: DmaBuf);

    /// Submits a request now, as [`Engine::submit`](mmcq::engine::Engine::submit).
    fn submit(&mut self, request: Request) -> Result<SlotId, (Error, Request)>;

    /// Takes a completion, as [`Engine::take`](mmcq::engine::Engine::take).
    fn take(&mut self, id: SlotId) -> Option<Completion>;

    /// Returns how the card frees blocks that are not needed any more, and its granularity in
    /// blocks.
    fn discarding(&self) -> Option<(Erase, u64)>;

    /// Advances by one event, if it is due.
    fn step(&mut self) -> Result<Step, String>;

    /// Returns the time after which [`step`](Self::step) must be called although there is nothing
    /// to do. `None`: never.
    fn idle(&self) -> Option<Duration> {
        None
    }

    /// Handles the end of an idle time.
    fn resume(&mut self) {}

    /// Makes the machine call `tell` from another thread whenever
    /// [`interrupted`](Self::interrupted) must be called, until `tell` returns false.
    fn listen(&mut self, tell: Box<dyn FnMut() -> bool + Send>) {
        drop(tell);
    }

    /// Handles such a call. Returns the slots that are done, one bit each.
    fn interrupted(&mut self) -> Result<SlotSet, String> {
        Ok(0)
    }

    /// Cuts the card's power and restores it; what was under way is forgotten. Returns the number
    /// of sectors that have their content from before a write that was not flushed.
    fn power_cut(&mut self) -> Result<u64, String>;
}
