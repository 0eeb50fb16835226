//! What the engine stores for the supervisor: requests to it for help (commands that recovery
//! needs), and chores with their times.

use super::recover::Helping;
use super::upkeep::Upkeep;

/// The engine's side of the supervisor: the upkeep of the card (`upkeep.rs`), and the requests for
/// help (`recover/help.rs`).
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Supervisor {
    upkeep: Upkeep,
    helping: Helping,
}

impl Supervisor {
    /// Makes an empty state. This is a function, because a constant (nearly all zeros) would be
    /// copied into the firmware image.
    pub const fn new() -> Supervisor {
        Supervisor { upkeep: Upkeep::new(), helping: Helping::NONE }
    }

    /// Returns what the engine has requested of the supervisor, and whether there is a supervisor.
    #[inline(always)]
    pub fn helping(&self) -> &Helping {
        &self.helping
    }

    #[inline(always)]
    pub fn helping_mut(&mut self) -> &mut Helping {
        &mut self.helping
    }

    /// Returns the record of the work that the card needs although nothing has failed, such as a
    /// new tuning, with the times at which this work is due.
    #[inline(always)]
    pub fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    #[inline(always)]
    pub fn upkeep_mut(&mut self) -> &mut Upkeep {
        &mut self.upkeep
    }
}
