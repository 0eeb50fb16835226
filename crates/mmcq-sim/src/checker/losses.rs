//! Calls that tell the checker that the card has lost data, or may have, while the host stayed on.

use super::Checker;

impl Checker {
    /// Records that the card lost its power and the data in its cache while the host continued.
    pub fn supply_lost(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let told_before = self.told_before;
        for &lba in &dirty {
            self.untold |= self.sector(lba).shaken(told_before);
        }
        self.dirty = dirty;
        self.note_reset();
    }

    /// Records that the card failed a flush and dropped a part of its cache. The error of this
    /// flush or of the next one must report it.
    pub fn cache_gave_up(&mut self) {
        self.supply_lost();
        // An erase that was in the cache is lost too, and the error reports it.
        let dirty = self.dirty.clone();
        let lost = self.untold || dirty.into_iter().any(|lba| self.sector(lba).is_doubted());
        self.gave_up = lost.then_some(self.completions);
    }

    /// Records that the host did not receive the response that reported a failed flush. The card
    /// reports the failure only once, so the host cannot know it.
    pub fn failure_unheard(&mut self) {
        if let Some(completions) = self.gave_up {
            self.note_told(completions);
        }
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).unheard());
    }

    /// Records that a write which was reported complete is possibly not on the card: the card
    /// failed to program it, or lost its power before. A flush or durable write may report this
    /// loss. A flush without an error confirms that the write is on the card.
    pub fn doubt_writes(&mut self) {
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).loosen());
        self.note_reset();
        self.excuse = true;
        self.gave_up = Some(self.completions);
    }

    /// Records that the card lost its power while a write command may have been open. A complete
    /// write that was not flushed may now be on the card, or not, or torn. The stack may report the
    /// loss to a client. If such a write is not on the card, a flush must report the loss.
    pub fn supply_lost_open(&mut self) {
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).shaken_open());
        self.note_reset();
        self.excuse = true;
    }

    /// Records that the card failed a flush and dropped a part of its cache, while a transfer may
    /// have been open (a CMD25 without its end). The error of this flush or of the next one must
    /// report it.
    pub fn cache_gave_up_open(&mut self) {
        self.supply_lost_open();
        self.gave_up = Some(self.completions);
    }

    /// Records that card and host lose their power while a transfer may be open (a CMD25 without
    /// its end): complete writes that were not flushed are on the card, or not, or torn.
    pub fn power_lost_open(&mut self) {
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).unsure());
    }

    /// Records that the card, whose cache was empty, was reset while the host continued.
    ///
    /// Afterwards the stack may report a loss if a write is under way, or if no flush has covered
    /// the last write. In the second case promise P8 even requires the report: no host can know
    /// that the card had already stored the data. Of a write that was under way, the part that the
    /// card had received may be lost.
    pub fn note_reset(&mut self) {
        self.dirty.clone().into_iter().for_each(|lba| self.sector(lba).reset());
        self.losses += 1;
        self.trouble();
        self.excuse |= self.writing > 0 || self.unflushed.is_some();
    }

    /// Records that a loss was reported while another card was in the slot: the report covers all that
    /// was lost before, on this card too.
    pub fn told_with_another(&mut self) {
        self.excuse = false;
        self.note_told(self.completions);
    }

    /// Records that the card of this checker was inserted in place of the card of `other`. If the
    /// stack has not yet reported that writes to the other card are lost, one such report is still
    /// accepted.
    pub fn comes_after(&mut self, other: &Checker) {
        self.trouble();
        self.excuse |= other.excuse;
    }
}
