//! The tasks on the card in the order in which they were announced. Adding one, removing one and
//! finding the oldest take the same time for any number of tasks.

use super::{DEPTH_MAX, NONE};

/// The neighbours of a task in a circular list.
#[derive(Clone, Copy, Debug)]
struct Link {
    older: u8,
    younger: u8,
}

/// The tasks on the card, as a circular list in the order in which they were announced (CMD44,
/// CMD45).
#[derive(Debug)]
pub(super) struct Ages {
    /// The task that has waited longest, or [`NONE`].
    oldest: u8,
    links: [Link; DEPTH_MAX as usize],
}

impl Ages {
    pub const NEW: Ages =
        Ages { oldest: NONE, links: [Link { older: NONE, younger: NONE }; DEPTH_MAX as usize] };

    /// Removes all tasks from this list.
    #[inline(always)]
    pub fn forget(&mut self) {
        self.oldest = NONE;
    }

    /// Returns the task that has waited longest, or [`NONE`].
    #[inline(always)]
    pub fn oldest(&self) -> u8 {
        self.oldest
    }

    /// Returns the task that was announced to the card (CMD44, CMD45) next after this one; after
    /// the youngest, the oldest.
    #[inline(always)]
    pub fn after(&self, id: u8) -> u8 {
        self.link(id).younger
    }

    /// Adds the task with the number `id` to the list, as its youngest.
    #[inline(always)]
    pub fn push(&mut self, id: u8) {
        if self.oldest == NONE {
            self.oldest = id;
            *self.link_mut(id) = Link { older: id, younger: id };
            return;
        }
        let (younger, older) = (self.oldest, self.link(self.oldest).older);
        *self.link_mut(id) = Link { older, younger };
        self.link_mut(older).younger = id;
        self.link_mut(younger).older = id;
    }

    /// Removes a task that is in the list.
    #[inline(always)]
    pub fn remove(&mut self, id: u8) {
        let Link { older, younger } = *self.link(id);
        self.link_mut(older).younger = younger;
        self.link_mut(younger).older = older;
        if self.oldest == id {
            self.oldest = if younger == id { NONE } else { younger };
        }
    }

    #[inline(always)]
    fn link(&self, id: u8) -> &Link {
        &self.links[usize::from(id % DEPTH_MAX)]
    }

    #[inline(always)]
    fn link_mut(&mut self, id: u8) -> &mut Link {
        &mut self.links[usize::from(id % DEPTH_MAX)]
    }
}
