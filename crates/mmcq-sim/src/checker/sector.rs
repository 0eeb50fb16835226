//! One sector: what it may hold, given what was asked for, what was answered, what reads have
//! shown, and in which order.

use super::content::{Pieces, Seen};

/// What a request wanted a sector to hold, or what it was seen to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What was there at first.
    Untouched,
    /// A written version.
    Version(u32),
    /// 00h: by write-zeroes, or an erased sector that was seen.
    Zeros,
    /// FFh: an erased sector that was seen.
    Ones,
    /// 00h or FFh, by an erase.
    Erased,
    /// 00h, FFh, or whatever was there before, by a discard.
    Discarded,
    /// Pieces, as they were seen.
    Exactly(Pieces),
    /// Nothing that can be read. What might be read all the same is kept as entries that failed.
    Unreadable,
}

impl Wanted {
    fn gives(self, seen: Seen) -> bool {
        match (self, seen) {
            (Wanted::Untouched, Seen::Untouched) | (Wanted::Unreadable, Seen::Unreadable) => true,
            (Wanted::Zeros, Seen::Zeros) | (Wanted::Ones, Seen::Ones) => true,
            (Wanted::Version(wanted), Seen::Version(seen)) => wanted == seen,
            (Wanted::Erased | Wanted::Discarded, Seen::Zeros | Seen::Ones) => true,
            (Wanted::Exactly(wanted), Seen::Torn(seen)) => wanted == seen,
            _ => false,
        }
    }

    /// What was seen, where that says more than what was wanted.
    fn shown(self, seen: Seen) -> Wanted {
        match (self, seen) {
            (Wanted::Erased | Wanted::Discarded, Seen::Zeros) => Wanted::Zeros,
            (Wanted::Erased | Wanted::Discarded, Seen::Ones) => Wanted::Ones,
            (wanted, _) => wanted,
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
    /// Complete (as the nth), and it may or may not have been in the cache when the supply went:
    /// there, or what was before. It need not be told, but a flush that ends well afterwards
    /// answers for it.
    ///
    /// So are writes that were under way at a loss. The card may have had them whole, and their
    /// answer come a moment later: P1 was kept, P8 covers what was acknowledged before the loss
    /// only, and P2 cannot ask of a card what it lost. The permission ends with the first read,
    /// flush or cut. So are also erases: P8 speaks of writes, and whether zeros were written or
    /// erased is the stack's choice.
    Loose(u32),
    /// Complete (as the nth), and then the card lost what was not flushed: it may be there, or what
    /// was before.
    Shaken(u32),
    /// The same, and a client has been told.
    Told(u32),
    /// Failed, as the nth completion: there, not there, or torn. [`ABANDONED`]: no client waits for
    /// it, and it may still be under way.
    Failed(u32),
    /// Failed, and a read has shown after so many completions that it is there: until the next loss
    /// or cut, if no flush comes before.
    Shown(u32),
}

/// In place of a completion's number: later than all of them.
pub(super) const ABANDONED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Order of submission.
    pub number: u32,
    pub wanted: Wanted,
    pub fate: Fate,
    /// A read that was submitted later saw something older.
    passed: bool,
    /// A read that was submitted later saw this; since the last loss.
    shown: bool,
    /// It failed, and a flush came after it, or a cut: what reads find of it now is on the medium
    /// itself.
    decided: bool,
    /// The card lost its supply after it was submitted and before it was answered.
    loose: bool,
    /// The same, and the answer that told of it was lost on its way.
    unheard: bool,
}

impl Entry {
    pub fn new(number: u32, wanted: Wanted) -> Entry {
        Entry {
            number,
            wanted,
            fate: Fate::Flying,
            passed: false,
            shown: false,
            decided: false,
            loose: false,
            unheard: false,
        }
    }

    /// What may be left of a content after a cut that left nothing to be read.
    fn remains(wanted: Wanted) -> Entry {
        Entry { fate: Fate::Failed(0), decided: true, ..Entry::new(0, wanted) }
    }

    /// No read that was submitted later sees anything older. A discarded sector may keep its
    /// content for a while.
    fn covers(&self) -> bool {
        self.wanted != Wanted::Discarded
            && (self.shown || matches!(self.fate, Fate::Done(_) | Fate::Shown(_)))
    }
}

/// Can all of these pieces come from these contents?
fn made_of(pieces: &Pieces, contents: impl Iterator<Item = Wanted> + Clone) -> bool {
    let any = |fits: &dyn Fn(Wanted) -> bool| contents.clone().any(fits);
    let known = |version: u32| {
        any(&|content| match content {
            Wanted::Version(known) => known == version,
            Wanted::Exactly(before) => before.versions.contains(&Some(version)),
            _ => false,
        })
    };
    let kind = |wanted: bool, fits: &dyn Fn(Wanted) -> bool| !wanted || any(fits);
    !pieces.more
        && pieces.versions.iter().flatten().all(|&version| known(version))
        && kind(pieces.untouched, &|content| match content {
            Wanted::Exactly(before) => before.untouched,
            content => content == Wanted::Untouched,
        })
        && kind(pieces.zeros, &|content| match content {
            Wanted::Exactly(before) => before.zeros,
            content => content.gives(Seen::Zeros),
        })
        && kind(pieces.ones, &|content| match content {
            Wanted::Exactly(before) => before.ones,
            content => content.gives(Seen::Ones),
        })
}

/// Why what was seen cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A version that a later one, which is complete or was seen, has replaced; or one that was
    /// seen not to be there.
    Old,
    /// A version that was asked for only after the read.
    Early,
    /// Torn, and no write was under way or had failed, or not into such pieces.
    Torn,
    /// Never belonged here.
    Strange,
}

/// The read that looks at a sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Order of submission.
    pub number: u32,
    /// Completions before it was submitted.
    pub completions: u32,
    /// Completions now, its own among them.
    pub now: u32,
    /// The card has no cache.
    pub write_through: bool,
    /// The card has lost nothing since it was submitted.
    pub steady: bool,
}

/// All that may be in a sector: what is surely on the medium, and what was asked for since, in the
/// order of submission.
#[derive(Clone, Debug)]
pub(super) struct Sector {
    pub base: Wanted,
    pub entries: Vec<Entry>,
    /// It is in the checker's list of sectors with entries.
    pub listed: bool,
    /// Some request was to change it.
    pub named: bool,
}

impl Sector {
    pub const NEW: Sector =
        Sector { base: Wanted::Untouched, entries: Vec::new(), listed: false, named: false };

    /// A write, erase ... of this sector was answered well. True if a read had passed it.
    pub fn done(&mut self, number: u32, completion: u32, durable: bool) -> bool {
        let Some(at) = self.entries.iter().position(|e| e.number == number) else { return false };
        let entry = &mut self.entries[at];
        entry.fate = match (entry.unheard, entry.loose) {
            (true, _) => Fate::Told(completion),
            (false, true) => Fate::Loose(completion),
            (false, false) => Fate::Done(completion),
        };
        let passed = entry.passed;
        if durable && !entry.unheard && entry.wanted != Wanted::Discarded {
            self.settle(at);
        }
        passed
    }

    /// This entry is on the medium: so nothing before it comes back.
    fn settle(&mut self, at: usize) {
        self.base = self.entries[at].wanted;
        self.entries.drain(..=at);
    }

    /// It failed as the nth completion, or no client waits for it ([`ABANDONED`]). Where a read has
    /// passed it, it is not there, and never will be.
    pub fn failed(&mut self, number: u32, completion: u32) {
        let Some(at) = self.entries.iter().position(|e| e.number == number) else { return };
        self.entries[at].fate = Fate::Failed(completion);
        if self.entries[at].passed {
            self.entries.remove(at);
        }
    }

    /// Never reached the card.
    pub fn withdrawn(&mut self, number: u32) {
        self.entries.retain(|e| e.number != number);
    }

    pub fn may_be_torn(&self) -> bool {
        self.base == Wanted::Unreadable || self.entries.iter().any(|e| matches!(e.fate, Fate::Failed(_)))
    }

    /// A flush is complete: what was complete before it was asked for is on the medium. `across`:
    /// the supply was lost after it was asked for, so that it says of what was lost that it is not.
    pub fn flushed(&mut self, before: u32, across: bool) {
        let settled = |e: &Entry| {
            let safe = match e.fate {
                Fate::Done(n) | Fate::Loose(n) | Fate::Shown(n) => n <= before,
                Fate::Shaken(n) => across && n <= before,
                _ => false,
            };
            safe && !matches!(e.wanted, Wanted::Discarded)
        };
        if let Some(at) = self.entries.iter().rposition(settled) {
            self.settle(at);
        }
        for entry in &mut self.entries {
            entry.decided |= matches!(entry.fate, Fate::Failed(n) if n <= before);
        }
    }

    /// The card lost its supply while the host went on. True if a client must be told: a write was
    /// complete (after so many completions, of which no client has been told yet) and not yet safe.
    pub fn shaken(&mut self, told_before: u32) -> bool {
        for entry in &mut self.entries {
            entry.loose |= entry.fate == Fate::Flying;
            entry.shown = false;
            entry.fate = match (entry.fate, entry.wanted) {
                (Fate::Done(n), Wanted::Version(_)) | (Fate::Loose(n), Wanted::Version(_)) => Fate::Shaken(n),
                (Fate::Done(n), _) => Fate::Loose(n),
                (Fate::Shown(n), _) => Fate::Failed(n),
                (fate, _) => fate,
            };
        }
        self.owes(told_before)
    }

    /// The answer that told of the last loss was itself lost: of what was under way then no host can
    /// know.
    pub fn unheard(&mut self) {
        for entry in &mut self.entries {
            entry.unheard |= entry.fate == Fate::Flying && entry.loose;
        }
    }

    /// The card was reset: what failed, and was seen to be there, may not be there any more.
    pub fn reset(&mut self) {
        for entry in &mut self.entries {
            if let Fate::Shown(n) = entry.fate {
                (entry.fate, entry.shown) = (Fate::Failed(n), false);
            }
        }
    }

    /// What is complete and not flushed may be there, or not, or torn.
    pub fn unsure(&mut self) {
        for entry in &mut self.entries {
            if let Fate::Done(n) | Fate::Loose(n) | Fate::Shaken(n) | Fate::Told(n) | Fate::Shown(n) =
                entry.fate
            {
                entry.fate = Fate::Failed(n);
            }
        }
    }

    /// Is there a lost write of which no client has been told?
    pub fn owes(&self, told_before: u32) -> bool {
        self.entries.iter().any(|entry| matches!(entry.fate, Fate::Shaken(n) if n > told_before))
    }

    /// A client was told that complete writes were lost: these may be among them.
    pub fn told(&mut self) {
        for entry in &mut self.entries {
            if let Fate::Loose(n) | Fate::Shaken(n) = entry.fate {
                entry.fate = Fate::Told(n);
            }
        }
    }

    /// A read with no loss since its submission saw this. What was in doubt is so no longer: it is
    /// there until the next loss, and what was complete and lay over it is gone for good.
    pub fn witnessed(&mut self, look: Look, seen: Seen) {
        let doubted = |entry: &Entry| match entry.fate {
            Fate::Loose(n) | Fate::Shaken(n) | Fate::Told(n) if n <= look.completions => Some(n),
            _ => None,
        };
        if self.entries.iter().all(|entry| doubted(entry).is_none()) {
            return;
        }
        let at = self.entries.iter().rposition(|e| e.number < look.number && e.wanted.gives(seen));
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at))
            && let Some(n) = doubted(entry)
        {
            entry.fate = Fate::Done(n);
        }
        let mut place = 0;
        self.entries.retain(|entry| {
            let over = at.is_none_or(|at| place > at);
            place += 1;
            let gone = over && entry.number < look.number && doubted(entry).is_some();
            !gone || entry.wanted == Wanted::Discarded
        });
    }

    /// May this read see this? If so, that is what the sector holds.
    pub fn read(&mut self, look: Look, seen: Seen) -> Result<(), Wrong> {
        let mut torn = false;
        let mut found = None;
        let mut covered = None;
        for (at, entry) in self.entries.iter().enumerate().rev().filter(|(_, e)| e.number < look.number) {
            torn |= matches!(entry.fate, Fate::Failed(_));
            if entry.wanted.gives(seen) {
                found = Some(at);
                break;
            }
            if entry.covers() {
                covered = Some(at);
                break;
            }
        }
        if let Some(at) = found {
            self.pass(at + 1, look.number);
            self.show(at, look, seen);
            return Ok(());
        }
        if covered.is_none() && self.base.gives(seen) {
            self.pass(0, look.number);
            self.base = self.base.shown(seen);
            return Ok(());
        }
        if let Seen::Torn(pieces) = seen
            && torn
        {
            let before = self.entries[covered.unwrap_or(0)..].iter().filter(|e| e.number < look.number);
            let base = Some(self.base).filter(|_| covered.is_none());
            let failed = |e: &Entry| e.number < look.number && matches!(e.fate, Fate::Failed(_));
            if made_of(&pieces, before.map(|e| e.wanted).chain(base))
                && let Some(at) = self.entries.iter().rposition(failed)
            {
                self.entries[at].wanted = Wanted::Exactly(pieces);
                self.show(at, look, seen);
                return Ok(());
            }
        }
        Err(self.wrong(look.number, seen))
    }

    /// A read saw what lies under these: those that failed are not there, and those under way must
    /// fail. A discarded sector may be erased later on.
    fn pass(&mut self, from: usize, number: u32) {
        let mut place = 0;
        self.entries.retain_mut(|entry| {
            let over = place >= from && entry.number < number && entry.wanted != Wanted::Discarded;
            place += 1;
            entry.passed |= over && entry.fate == Fate::Flying;
            !(over && matches!(entry.fate, Fate::Failed(_)))
        });
    }

    /// A read saw this entry: it is there.
    fn show(&mut self, at: usize, look: Look, seen: Seen) {
        let entry = &mut self.entries[at];
        let erased = entry.wanted == Wanted::Discarded;
        entry.wanted = entry.wanted.shown(seen);
        match entry.fate {
            // It may have been there before the loss alone.
            Fate::Flying | Fate::Failed(_) if !look.steady => {}
            Fate::Failed(n) if n <= look.completions => {
                entry.fate = Fate::Shown(look.now);
                if entry.decided || look.write_through {
                    self.settle(at);
                }
            }
            Fate::Done(_) if erased => {
                entry.fate = Fate::Done(look.now);
                if look.write_through {
                    self.settle(at);
                }
            }
            Fate::Flying | Fate::Failed(_) => entry.shown = true,
            _ => {}
        }
    }

    fn wrong(&self, number: u32, seen: Seen) -> Wrong {
        match seen {
            Seen::Torn(..) | Seen::Unreadable => Wrong::Torn,
            Seen::Elsewhere { .. } | Seen::OtherCard { .. } | Seen::Nonsense { .. } => Wrong::Strange,
            _ if self.entries.iter().any(|e| e.number > number && e.wanted.gives(seen)) => Wrong::Early,
            _ => Wrong::Old,
        }
    }

    /// May the medium hold this after a power cut? If so, that is what it holds from now on.
    pub fn survived(&mut self, seen: Seen) -> Result<(), Wrong> {
        let open = |e: &Entry| matches!(e.fate, Fate::Flying | Fate::Failed(_));
        let torn = self.entries.iter().any(open);
        if seen == Seen::Unreadable && (torn || self.base == Wanted::Unreadable) {
            let before = std::mem::replace(&mut self.base, Wanted::Unreadable);
            if before != Wanted::Unreadable {
                self.entries.insert(0, Entry::remains(before));
            }
            self.entries.iter_mut().for_each(|entry| *entry = Entry::remains(entry.wanted));
            return Ok(());
        }
        let contents = self.entries.iter().map(|e| e.wanted).chain([self.base]);
        let fits = contents.clone().any(|content| content.gives(seen))
            || matches!(seen, Seen::Torn(pieces) if torn && made_of(&pieces, contents));
        if !fits {
            return Err(self.wrong(u32::MAX, seen));
        }
        self.base = match seen {
            Seen::Version(version) => Wanted::Version(version),
            Seen::Untouched => Wanted::Untouched,
            Seen::Zeros => Wanted::Zeros,
            Seen::Ones => Wanted::Ones,
            Seen::Torn(pieces) => Wanted::Exactly(pieces),
            Seen::Unreadable | Seen::Elsewhere { .. } | Seen::OtherCard { .. } | Seen::Nonsense { .. } => {
                Wanted::Unreadable
            }
        };
        self.entries.clear();
        Ok(())
    }
}
