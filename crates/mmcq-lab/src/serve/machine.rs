//! Interface of an export's machine: an engine with its card, and how a caller advances it.

use mmcq::engine::{Completion, DmaBuf, Erase, Error, Request, SlotId, SlotSet};
use std::time::Duration;

/// Largest number of requests that a machine's engine has at a time.
pub const SLOTS: usize = 64;

/// What a machine has done in one call of [`Machine::step`].
pub enum Step {
    /// Slots of the engine whose requests are complete, one bit each; possibly none.
    Done(SlotSet),
    /// The machine's next event is due only after this time.
    Wait(Duration),
}

/// An engine whose card is in the state `tran`. Only one thread calls it.
pub trait Machine {
    /// Returns the size of the card in 512-byte blocks.
    fn blocks(&self) -> u64;

    /// Returns the size in bytes of the largest buffer that [`buffer`](Self::buffer) can return.
    fn buffer_bytes_max(&self) -> u64;

    /// Returns a buffer of at least this size for a request; `None`: no memory until another
    /// request has ended.
    fn buffer(&mut self, bytes: usize) -> Option<DmaBuf>;

    /// Takes back a buffer from [`buffer`](Self::buffer).
    fn free(&mut self, buffer: DmaBuf);

    /// Submits a request at the present time, like
    /// [`Engine::submit`](mmcq::engine::Engine::submit).
    fn submit(&mut self, request: Request) -> Result<SlotId, (Error, Request)>;

    /// Takes a completion, like [`Engine::take`](mmcq::engine::Engine::take).
    fn take(&mut self, id: SlotId) -> Option<Completion>;

    /// Returns the kind of erase by which the card frees blocks that hold no needed data, and the
    /// granularity of this erase in blocks; `None`: the card has no such erase.
    fn discarding(&self) -> Option<(Erase, u64)>;

    /// If an event of the machine is due, advances the machine by one event and returns which
    /// requests are complete. Otherwise returns the time until the next event.
    fn step(&mut self) -> Result<Step, String>;

    /// Returns the time after which [`step`](Self::step) must be called even without a request.
    /// `None`: never.
    fn idle(&self) -> Option<Duration> {
        None
    }

    /// Continues the machine's time after a pause in which it had no request.
    fn resume(&mut self) {}

    /// Makes the machine call `tell` from another thread whenever
    /// [`interrupted`](Self::interrupted) must be called. The calls end when `tell` returns false.
    fn listen(&mut self, tell: Box<dyn FnMut() -> bool + Send>) {
        drop(tell);
    }

    /// Handles the interrupt of the controller, simulated or in a real card reader. Returns the
    /// slots whose requests are complete, one bit each.
    fn interrupted(&mut self) -> Result<SlotSet, String> {
        Ok(0)
    }

    /// Cuts the card's power and restores it; requests under way are dropped. Returns the number of
    /// sectors that have their old content again, because their last write was not flushed.
    fn power_cut(&mut self) -> Result<u64, String>;
}
