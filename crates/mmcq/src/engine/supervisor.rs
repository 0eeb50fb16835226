//! What the engine wants of its supervisor: help that it has asked for, and chores with their
//! times.

use super::recover::Helping;
use super::upkeep::Upkeep;

/// Both sides of it. Each has a file of its own.
#[derive(Debug)]
// As in `Engine`: what most functions touch comes first.
#[repr(C)]
pub(super) struct Supervisor {
    upkeep: Upkeep,
    helping: Helping,
}

impl Supervisor {
    /// Not a constant: nearly all of it is zero, and a copy of it would lie in the image.
    pub const fn new() -> Supervisor {
        Supervisor { upkeep: Upkeep::new(), helping: Helping::NONE }
    }

    /// Returns what the supervisor is asked for, and whether there is one.
    #[inline(always)]
    pub fn helping(&self) -> &Helping {
        &self.helping
    }

    #[inline(always)]
    pub fn helping_mut(&mut self) -> &mut Helping {
        &mut self.helping
    }

    /// Returns what a card needs though nothing is wrong, and when.
    #[inline(always)]
    pub fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    #[inline(always)]
    pub fn upkeep_mut(&mut self) -> &mut Upkeep {
        &mut self.upkeep
    }
}
