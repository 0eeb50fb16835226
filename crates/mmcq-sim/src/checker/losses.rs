//! What the checker is told of losses while the host keeps running.

use super::Checker;

impl Checker {
    /// Records that the card lost its power and its cache while the host kept running.
    pub fn supply_lost(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let told_before = self.told_before;
        for &lba in &dirty {
            self.untold |= self.sector(lba).shaken(told_before);
        }
        self.dirty = dirty;
        self.note_reset();
    }

    /// Records that the card failed a flush and dropped what it could not write of its cache. The
    /// error of that flush, or of the next, must report it.
    pub fn cache_gave_up(&mut self) {
        self.supply_lost();
        // An erase that was in the cache is lost as well, and the error tells of it.
        let dirty = self.dirty.clone();
        let lost = self.untold || dirty.into_iter().any(|lba| self.sector(lba).is_doubted());
        self.gave_up = lost.then_some(self.completions);
    }

    /// Records that the answer by which the card reported a failed flush was lost or damaged. The card
    /// reports it once, so no host can know it.
    pub fn failure_unheard(&mut self) {
        if let Some(completions) = self.gave_up {
            self.note_told(completions);
        }
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).unheard());
    }

    /// Records that a write which was reported complete with its data may not be on the card: the
    /// card failed to program it, or lost its supply before. A flush or durable write may report
    /// that, and a flush without an error vouches for the write.
    pub fn doubt_writes(&mut self) {
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).loosen());
        self.note_reset();
        self.excuse = true;
        self.gave_up = Some(self.completions);
    }

    /// Records that the card lost its power while a transfer may be open. What is complete and not
    /// flushed is on the card, or not, or torn. A client may be told.
    pub fn supply_lost_open(&mut self) {
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).unsure());
        self.note_reset();
        self.excuse = true;
    }

    /// Records that the card was reset while the host kept running, with nothing in its cache.
    ///
    /// The host may report a loss only if there is a write that no flush has covered. P8 requires
    /// the report where writes were acknowledged and not flushed, and no host can know that the
    /// card had already stored them by itself. The same is true of a write that was under way: what
    /// the card had of it is lost.
    pub fn note_reset(&mut self) {
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).reset());
        self.losses += 1;
        self.trouble();
        self.excuse |= self.writing > 0 || self.unflushed.is_some();
    }

    /// Records that this checker's card was inserted in place of another. A loss on the other card
    /// may still be reported, once.
    pub fn comes_after(&mut self, other: &Checker) {
        self.trouble();
        self.excuse |= other.excuse;
    }
}
