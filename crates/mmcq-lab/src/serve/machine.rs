//! What is behind an export: an engine with its card, and what moves it.

use mmcq::engine::{Completion, DmaBuf, Erase, Error, Request, SlotId, SlotSet};
use std::time::Duration;

/// Requests that the engine of a machine has at a time.
pub const SLOTS: usize = 64;

/// What a [step](Machine::step) came to.
pub enum Step {
    /// These slots are done, one bit each; maybe none.
    Done(SlotSet),
    /// It is not time yet for so long.
    Wait(Duration),
}

/// An engine with its card in `tran`, moved by the one thread that asks it.
pub trait Machine {
    /// Blocks of 512 bytes.
    fn blocks(&self) -> u64;

    /// Bytes of the largest buffer.
    fn buffer_bytes_max(&self) -> u64;

    /// Memory for a request, so many bytes or more; `None`: when another request has ended.
    fn buffer(&mut self, bytes: usize) -> Option<DmaBuf>;

    /// Takes back what [`buffer`](Self::buffer) gave.
    fn free(&mut self, buffer: DmaBuf);

    /// As [`Engine::submit`](mmcq::engine::Engine::submit), now.
    fn submit(&mut self, request: Request) -> Result<SlotId, (Error, Request)>;

    /// As [`Engine::take`](mmcq::engine::Engine::take).
    fn take(&mut self, id: SlotId) -> Option<Completion>;

    /// How the card frees blocks that are not wanted any more, and how many at a time.
    fn discarding(&self) -> Option<(Erase, u64)>;

    /// Moves on by one event, if it is time for it.
    fn step(&mut self) -> Result<Step, String>;

    /// With nothing to do: call [`step`](Self::step) after so long all the same. `None`: no need.
    fn idle(&self) -> Option<Duration> {
        None
    }

    /// Something is to be done again after an idle time.
    fn resume(&mut self) {}

    /// Calls `tell` from another thread whenever the machine wants
    /// [`interrupted`](Self::interrupted) to be called, until `tell` says no.
    fn listen(&mut self, tell: Box<dyn FnMut() -> bool + Send>) {
        drop(tell);
    }

    /// Serves what it has told; the slots that are done, one bit each.
    fn interrupted(&mut self) -> Result<SlotSet, String> {
        Ok(0)
    }

    /// The card's supply fails, and comes back: what was under way is forgotten. How many sectors
    /// are what they were before a write that was not flushed.
    fn power_cut(&mut self) -> Result<u64, String>;
}
