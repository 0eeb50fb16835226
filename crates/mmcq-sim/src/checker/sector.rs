//! One sector: what it may hold, given what was asked for, what was answered, and in which order.

use super::content::Seen;

/// What a request wanted a sector to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What was there at first.
    Untouched,
    /// A written version.
    Version(u32),
    /// Zeros, by write-zeroes.
    Zeros,
    /// 00h or FFh, by an erase.
    Erased,
    /// 00h, FFh, or whatever was there before, by a discard.
    Discarded,
    /// Anything that ever belonged here, whole or in pieces: a torn sector that nobody has written since.
    Torn,
}

impl Wanted {
    fn gives(self, seen: Seen) -> bool {
        match (self, seen) {
            (Wanted::Untouched, Seen::Untouched) | (Wanted::Zeros, Seen::Zeros) => true,
            (Wanted::Version(wanted), Seen::Version(seen)) => wanted == seen,
            (Wanted::Erased | Wanted::Discarded, Seen::Zeros | Seen::Ones) => true,
            (Wanted::Torn, Seen::Elsewhere { .. } | Seen::OtherCard { .. } | Seen::Nonsense { .. }) => false,
            (Wanted::Torn, _) => true,
            // A card whose first content is zeros.
            (Wanted::Untouched, _) | (Wanted::Version(_), _) | (Wanted::Zeros, _) => false,
            (Wanted::Erased | Wanted::Discarded, _) => false,
        }
    }
}

/// How a request on a sector went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// No answer yet.
    Flying,
    /// Complete: the nth completion of all.
    Done(u32),
    /// Complete (as the nth), and it may or may not have been in the cache when the supply went: there, or what was before. Nobody need be told of it,
    /// but a flush that ends well afterwards answers for it.
    ///
    /// So are writes that were under way at a loss. The card may have had them whole, and their answer come a moment later: P1 was kept, P8 covers what
    /// was acknowledged before the loss only, and P2 cannot ask of a card what it lost. The permission ends with the first read, flush or cut. So are also
    /// erases: P8 speaks of writes, and whether zeros were written or erased is the stack's choice.
    Loose(u32),
    /// Complete (as the nth), and then the card lost what was not flushed: it may be there, or what was before.
    Shaken(u32),
    /// The same, and somebody has been told.
    Told(u32),
    /// Failed: there, not there, or torn.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Order of submission.
    pub number: u32,
    pub wanted: Wanted,
    pub fate: Fate,
    /// A read that was submitted later saw something older.
    pub passed: bool,
    /// The card lost its supply after it was submitted and before it was answered.
    pub loose: bool,
}

/// Why what was seen cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A version that a later one, which is complete, has replaced.
    Old,
    /// A version that was asked for only after the read.
    Early,
    /// Torn, and no write was under way or had failed.
    Torn,
    /// Never belonged here.
    Strange,
}

/// All that may be in a sector: what is surely on the medium, and what was asked for since, in the order of submission.
#[derive(Clone, Debug)]
pub(super) struct Sector {
    pub base: Wanted,
    pub entries: Vec<Entry>,
    /// It is in the checker's list of sectors with entries.
    pub listed: bool,
}

impl Sector {
    pub const NEW: Sector = Sector { base: Wanted::Untouched, entries: Vec::new(), listed: false };

    /// A write, erase ... of this sector was answered well. True if a read had passed it.
    pub fn done(&mut self, number: u32, completion: u32, durable: bool) -> bool {
        let Some(at) = self.entries.iter().position(|e| e.number == number) else { return false };
        let entry = &mut self.entries[at];
        entry.fate = if entry.loose { Fate::Loose(completion) } else { Fate::Done(completion) };
        let passed = entry.passed;
        if durable && entry.wanted != Wanted::Discarded {
            self.settle(at);
        }
        passed
    }

    /// This entry is on the medium: so nothing before it comes back.
    fn settle(&mut self, at: usize) {
        self.base = self.entries[at].wanted;
        self.entries.drain(..=at);
    }

    pub fn failed(&mut self, number: u32) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.number == number) {
            entry.fate = Fate::Failed;
        }
    }

    /// Never reached the card.
    pub fn withdrawn(&mut self, number: u32) {
        self.entries.retain(|e| e.number != number);
    }

    pub fn may_be_torn(&self) -> bool {
        self.base == Wanted::Torn || self.entries.iter().any(|e| e.fate == Fate::Failed)
    }

    /// A flush is complete: what was complete before it was asked for is on the medium. `across`: the supply was lost after it was asked for, so that it
    /// says of what was lost that it is not.
    pub fn flushed(&mut self, before: u32, across: bool) {
        let settled = |e: &Entry| {
            let safe = match e.fate {
                Fate::Done(n) | Fate::Loose(n) => n <= before,
                Fate::Shaken(n) => across && n <= before,
                _ => false,
            };
            safe && !matches!(e.wanted, Wanted::Discarded)
        };
        if let Some(at) = self.entries.iter().rposition(settled) {
            self.settle(at);
        }
    }

    /// The card lost its supply while the host went on. True if somebody must be told: a write was complete (after so many completions, of which nobody has
    /// been told yet) and not yet safe.
    pub fn shaken(&mut self, told_before: u32) -> bool {
        for entry in &mut self.entries {
            entry.loose |= entry.fate == Fate::Flying;
            entry.fate = match (entry.fate, entry.wanted) {
                (Fate::Done(n), Wanted::Version(_)) | (Fate::Loose(n), Wanted::Version(_)) => Fate::Shaken(n),
                (Fate::Done(n), _) => Fate::Loose(n),
                (fate, _) => fate,
            };
        }
        self.owes(told_before)
    }

    /// Is there a lost write of which nobody has been told?
    pub fn owes(&self, told_before: u32) -> bool {
        self.entries.iter().any(|entry| matches!(entry.fate, Fate::Shaken(n) if n > told_before))
    }

    /// Somebody was told that complete writes were lost: these may be among them.
    pub fn told(&mut self) {
        for entry in &mut self.entries {
            if let Fate::Loose(n) | Fate::Shaken(n) = entry.fate {
                entry.fate = Fate::Told(n);
            }
        }
    }

    /// A read that was submitted as number `number` after so many completions, with no loss since, saw this. What was in doubt is so no longer: it is there
    /// until the next loss, and what was complete and lay over it is gone for good.
    pub fn witnessed(&mut self, number: u32, completions: u32, seen: Seen) {
        let doubted = |entry: &Entry| match entry.fate {
            Fate::Loose(n) | Fate::Shaken(n) | Fate::Told(n) if n <= completions => Some(n),
            _ => None,
        };
        // Zeros and erased sectors look alike whoever made them.
        let telling = matches!(seen, Seen::Version(_) | Seen::Untouched);
        if !telling || self.entries.iter().all(|entry| doubted(entry).is_none()) {
            return;
        }
        let at = self.entries.iter().rposition(|e| e.number < number && e.wanted.gives(seen));
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at))
            && let Some(n) = doubted(entry)
        {
            entry.fate = Fate::Done(n);
        }
        let mut place = 0;
        self.entries.retain(|entry| {
            let over = at.is_none_or(|at| place > at);
            place += 1;
            let gone = over && entry.number < number && doubted(entry).is_some();
            !gone || entry.wanted == Wanted::Discarded
        });
    }

    /// May a read that was submitted as number `number` see this?
    pub fn read(&mut self, number: u32, seen: Seen) -> Result<(), Wrong> {
        let mut torn = self.base == Wanted::Torn;
        let mut found = None;
        let mut settled = false;
        for (at, entry) in self.entries.iter().enumerate().rev().filter(|(_, e)| e.number < number) {
            torn |= matches!(entry.fate, Fate::Failed);
            if entry.wanted.gives(seen) {
                found = Some(at);
                break;
            }
            if matches!(entry.fate, Fate::Done(_)) && entry.wanted != Wanted::Discarded {
                settled = true;
                break;
            }
        }
        let torn_fits = torn && matches!(seen, Seen::Torn(..));
        if found.is_some() || (!settled && self.base.gives(seen)) || torn_fits {
            // Those between what was seen and the read must not turn out well: the read would have passed them.
            let from = found.map_or(0, |at| at + 1);
            if !torn_fits {
                for entry in self.entries.iter_mut().skip(from).filter(|e| e.number < number) {
                    entry.passed |= entry.fate == Fate::Flying && entry.wanted != Wanted::Discarded;
                }
            }
            return Ok(());
        }
        Err(self.wrong(number, seen))
    }

    fn wrong(&self, number: u32, seen: Seen) -> Wrong {
        match seen {
            Seen::Torn(..) => Wrong::Torn,
            Seen::Elsewhere { .. } | Seen::OtherCard { .. } | Seen::Nonsense { .. } => Wrong::Strange,
            _ if self.entries.iter().any(|e| e.number > number && e.wanted.gives(seen)) => Wrong::Early,
            _ => Wrong::Old,
        }
    }

    /// May the medium hold this after a power cut? If so, that is what it holds from now on.
    pub fn survived(&mut self, seen: Seen) -> Result<(), Wrong> {
        let torn_fits = matches!(seen, Seen::Torn(..))
            && (self.base == Wanted::Torn
                || self.entries.iter().any(|e| matches!(e.fate, Fate::Flying | Fate::Failed)));
        if !torn_fits && !self.base.gives(seen) && !self.entries.iter().any(|e| e.wanted.gives(seen)) {
            return Err(self.wrong(u32::MAX, seen));
        }
        self.base = match seen {
            Seen::Version(version) => Wanted::Version(version),
            Seen::Untouched => Wanted::Untouched,
            Seen::Zeros => Wanted::Zeros,
            Seen::Ones => Wanted::Erased,
            _ => Wanted::Torn,
        };
        self.entries.clear();
        Ok(())
    }
}
