//! State of one sector: the contents that are possible for it. They follow from the requests, their
//! answers and the reads, and from the order of all these.

use super::content::{Pieces, Seen};

/// A content of a sector: the one that a request was to store, or the one that a read has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The content from before the first write.
    Untouched,
    /// The content that the write with this number wrote.
    Version(u32),
    /// The sector has only bytes 00h: a request wrote zeros, or a read has seen an erased sector.
    Zeros,
    /// The sector has only bytes FFh: a read has seen an erased sector.
    Ones,
    /// The sector has only bytes 00h or only bytes FFh, after an erase.
    Erased,
    /// After a discard, the sector has only bytes 00h, only bytes FFh, or the content before.
    Discarded,
    /// The 32-byte pieces of the sector are of several contents, exactly as a read has returned
    /// them.
    Exactly(Pieces),
    /// The sector cannot be read. Other contents are possible too, if a later read succeeds: they
    /// are stored as the results of failed requests.
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

    /// Returns what the checker expects of the sector after a read has returned `seen`. For an
    /// erased or discarded sector, the read has shown its value (zeros or ones). Any other
    /// expectation stays as it is.
    fn shown(self, seen: Seen) -> Wanted {
        match (self, seen) {
            (Wanted::Erased | Wanted::Discarded, Seen::Zeros) => Wanted::Zeros,
            (Wanted::Erased | Wanted::Discarded, Seen::Ones) => Wanted::Ones,
            (wanted, _) => wanted,
        }
    }
}

/// State of a request that changes this sector. The numbers are completion numbers: each completed
/// request, failed or not, gets the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The request has no answer yet.
    Flying,
    /// The request is complete. The number is its position in the order of completions.
    Done(u32),
    /// The request is complete, and the card has possibly lost its data with its cache. The sector
    /// has these data or the content before. The loss need not be reported, but a later flush
    /// without an error confirms the data. The first read, flush or cut ends this state.
    ///
    /// Two kinds of requests get this state at any loss of power (P2 and P8 are promises of the
    /// [checker](super)):
    ///
    /// - Writes that were under way at the loss, once they are answered. The card may have received
    ///   all of their data before. P8 covers only writes that were acknowledged before the loss,
    ///   and P2 cannot require data that the card lost.
    /// - Erases: P8 is about writes, and the stack chooses whether it writes zeros or erases.
    Loose(u32),
    /// The write is complete, and then the card lost all data that were not flushed. The sector has
    /// the data of the write or the content before. A client must be told of the loss.
    Shaken(u32),
    /// The state [`Fate::Shaken`] or [`Fate::Loose`], after a client was told of the loss.
    Told(u32),
    /// The request failed. The sector may have the new data, the old data, or parts of both. With
    /// [`ABANDONED`] as the number, no client waits for the request, which may still be under way.
    Failed(u32),
    /// The request failed, and later a read has returned its data; the number is that of the read's
    /// completion. The data stay until the next loss or cut; after a flush they are durable.
    Shown(u32),
}

/// Completion number, later than all others, of a request for whose answer no client waits.
pub(super) const ABANDONED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Number of the request in the order of submission.
    pub number: u32,
    pub wanted: Wanted,
    pub fate: Fate,
    /// Whether a read that was submitted after this request has returned content from before the
    /// request.
    passed: bool,
    /// Whether a read has returned the content that this request wrote. Only a read counts that was
    /// submitted after this request, and came after the last loss of data.
    shown: bool,
    /// Whether the request failed, and a flush or a cut came after it. If a read then returns its
    /// data, they are on the medium.
    decided: bool,
    /// Whether the card lost its power, or possibly a part of its cache, between submission and
    /// answer of the request.
    loose: bool,
    /// Whether the card lost its power while the request was under way, and the host never received
    /// the response in which the card reported the power loss.
    unheard: bool,
    /// Whether a flush that was submitted later has succeeded while the request had no answer yet. If
    /// the request succeeds, its data are on the medium.
    covered: bool,
    /// Whether the card lost its power since the request was submitted and before its data were
    /// certainly on the medium: the sector may be torn.
    cut_short: bool,
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
            covered: false,
            cut_short: false,
        }
    }

    /// Makes the entry of a write whose content `wanted` may still be on the medium, although a
    /// power cut has made the sector unreadable now.
    fn remains(wanted: Wanted) -> Entry {
        Entry { fate: Fate::Failed(0), decided: true, cut_short: true, ..Entry::new(0, wanted) }
    }

    /// Returns whether this entry rules out all older contents: no later read can return one. A
    /// discard does not rule them out, since the sector may keep its content for a while.
    fn covers(&self) -> bool {
        self.wanted != Wanted::Discarded
            && (self.shown || matches!(self.fate, Fate::Done(_) | Fate::Shown(_)))
    }
}

impl Entry {
    /// Returns whether the request may have left a torn sector, which has only pieces of its data.
    fn tears(&self) -> bool {
        self.cut_short && matches!(self.fate, Fate::Failed(_) | Fate::Loose(_))
    }
}

/// Returns whether each 32-byte piece of a sector can come from one of these contents.
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

/// Reasons why a sector cannot have the content that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// An old version: a later one is complete or was read before. Or a version of which an earlier
    /// read has shown that it is not on the card.
    Old,
    /// The version of a write that was submitted only after the read.
    Early,
    /// A torn sector (parts of different contents), although no write was under way or had failed.
    /// Or a torn sector with a part that is from none of the possible contents.
    Torn,
    /// Content that never belonged to this sector.
    Strange,
}

/// Properties of a read whose data are checked for a sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Number of the read in the order of submission.
    pub number: u32,
    /// Number of requests that had been completed when the read was submitted.
    pub completions: u32,
    /// Number of all completed requests now, including the read that is judged.
    pub now: u32,
    /// Whether the card has no volatile cache.
    pub write_through: bool,
    /// True: no power cut or reset of the card since the submission of the read may have lost data.
    pub steady: bool,
}

/// State of a sector: the content that is certainly on the medium, and the requests since then in
/// the order of submission.
#[derive(Clone, Debug)]
pub(super) struct Sector {
    pub base: Wanted,
    pub entries: Vec<Entry>,
    /// Whether the sector is in the checker's list of sectors with more than one possible content.
    pub listed: bool,
    /// Whether any request so far was to write or erase the sector.
    pub named: bool,
}

impl Sector {
    pub const NEW: Sector =
        Sector { base: Wanted::Untouched, entries: Vec::new(), listed: false, named: false };

    /// Records that the write or erase with this number succeeded, as request number `completion`
    /// in the order of completions. `durable`: its data are already on the medium. Returns true if
    /// a read that was submitted after the request has returned older content, which breaks a
    /// promise.
    pub fn done(&mut self, number: u32, completion: u32, durable: bool) -> bool {
        let Some(at) = self.entries.iter().position(|e| e.number == number) else { return false };
        let entry = &mut self.entries[at];
        entry.fate = match (entry.unheard, entry.loose) {
            (true, _) => Fate::Told(completion),
            (false, true) => Fate::Loose(completion),
            (false, false) => Fate::Done(completion),
        };
        let passed = entry.passed;
        let covered = entry.covered && matches!(entry.fate, Fate::Done(_));
        if (durable || covered) && !entry.unheard && entry.wanted != Wanted::Discarded {
            self.settle(at);
        }
        passed
    }

    /// Makes the content of the entry with index `at` the sure content of the medium: no older
    /// content can come back.
    fn settle(&mut self, at: usize) {
        self.base = self.entries[at].wanted;
        self.entries.drain(..=at);
    }

    /// Records that a request failed, with the completion number `completion`. [`ABANDONED`] as the
    /// number records that no client waits for the request any more. If a read has returned older
    /// content, the request's data are not on the card and never will be.
    pub fn failed(&mut self, number: u32, completion: u32) {
        let Some(at) = self.entries.iter().position(|e| e.number == number) else { return };
        self.entries[at].fate = Fate::Failed(completion);
        if self.entries[at].passed {
            self.entries.remove(at);
        }
    }

    /// Removes the request with the number `number`, which has changed nothing in this sector: it
    /// was not sent to the card, or it was refused.
    pub fn withdrawn(&mut self, number: u32) {
        self.entries.retain(|e| e.number != number);
    }

    pub fn may_be_torn(&self) -> bool {
        let tears = |e: &Entry| e.tears() || matches!(e.fate, Fate::Failed(_));
        self.base == Wanted::Unreadable || self.entries.iter().any(tears)
    }

    /// Records that the flush with the number `number` has succeeded. Two kinds of requests are now
    /// on the medium: those that were complete when the flush was submitted (completion numbers up
    /// to `before`), and those that were submitted before the flush and succeed later. `across`:
    /// the card lost its power after that submission. Then the flush also confirms data that seemed
    /// to be lost.
    pub fn flushed(&mut self, number: u32, before: u32, across: bool) {
        let settled = |e: &Entry| {
            let safe = match e.fate {
                Fate::Done(n) if !across => n <= before || e.number < number,
                Fate::Done(n) | Fate::Loose(n) | Fate::Shown(n) => n <= before,
                // A flush that ended as the power went has covered what was submitted before it.
                Fate::Shaken(n) => across && (n <= before || e.number < number),
                _ => false,
            };
            safe && !matches!(e.wanted, Wanted::Discarded)
        };
        if let Some(at) = self.entries.iter().rposition(settled) {
            self.settle(at);
        }
        for entry in &mut self.entries {
            entry.decided |= matches!(entry.fate, Fate::Failed(n) if n <= before);
            entry.covered |= !across && entry.number < number && entry.fate == Fate::Flying;
        }
    }

    /// Records that the card lost its power while the host continued. Returns true if the stack
    /// must report a loss to a client: a write could still be lost, and it became complete after
    /// `told_before`, so no earlier report covers it.
    pub fn shaken(&mut self, told_before: u32) -> bool {
        for entry in &mut self.entries {
            entry.loose |= entry.fate == Fate::Flying;
            entry.cut_short |= matches!(entry.fate, Fate::Flying | Fate::Failed(_));
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

    /// Records that a complete write of this sector is possibly not on the card.
    pub fn loosen(&mut self) {
        for entry in &mut self.entries {
            entry.loose |= entry.fate == Fate::Flying;
            if let Fate::Done(n) = entry.fate {
                (entry.fate, entry.shown) = (Fate::Loose(n), false);
            }
        }
    }

    /// Records that the response which reported the last loss of power or data did not reach the
    /// host. So no host can know what happened to the requests that were under way.
    pub fn unheard(&mut self) {
        for entry in &mut self.entries {
            entry.unheard |= entry.fate == Fate::Flying && entry.loose;
        }
    }

    /// Records a reset of the card: data of a failed write may be gone, even if a read has returned
    /// them.
    pub fn reset(&mut self) {
        for entry in &mut self.entries {
            if let Fate::Shown(n) = entry.fate {
                (entry.fate, entry.shown) = (Fate::Failed(n), false);
            }
        }
    }

    /// Records that each complete request of this sector that was not flushed may now be on the
    /// card, or not, or torn. Data of a write under way may be gone again, even if a read has
    /// returned them.
    pub fn unsure(&mut self) {
        for entry in &mut self.entries {
            (entry.shown, entry.cut_short) = (false, true);
            if let Fate::Done(n) | Fate::Loose(n) | Fate::Shaken(n) | Fate::Told(n) | Fate::Shown(n) =
                entry.fate
            {
                entry.fate = Fate::Failed(n);
            }
        }
    }

    /// Records that the card lost its power while the host continued, and that complete writes may
    /// have been in a transfer that was open (a CMD25 without its end). Such a write is on the
    /// card, or not, or torn. A later flush without an error confirms that it is on the card.
    pub fn shaken_open(&mut self) {
        for entry in &mut self.entries {
            entry.loose |= entry.fate == Fate::Flying;
            (entry.shown, entry.cut_short) = (false, true);
            entry.fate = match entry.fate {
                Fate::Done(n) | Fate::Loose(n) => Fate::Loose(n),
                Fate::Shaken(n) | Fate::Told(n) | Fate::Shown(n) => Fate::Failed(n),
                fate => fate,
            };
        }
    }

    /// Returns whether data of a completed write of this sector were lost without a report to a
    /// client. Completions are numbered; `told_before` is the number of the last one that a report
    /// has covered.
    pub fn owes(&self, told_before: u32) -> bool {
        self.entries.iter().any(|entry| matches!(entry.fate, Fate::Shaken(n) if n > told_before))
    }

    /// Returns whether complete writes of this sector may have been lost, and no client was told of
    /// the loss.
    pub fn is_doubted(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.fate, Fate::Loose(_) | Fate::Shaken(_)))
    }

    /// Records that a client was told that data were lost. Complete writes of this sector may be
    /// among them, and now count as reported.
    pub fn told(&mut self) {
        for entry in &mut self.entries {
            entry.fate = match entry.fate {
                Fate::Loose(n) if entry.cut_short => Fate::Failed(n),
                Fate::Loose(n) | Fate::Shaken(n) => Fate::Told(n),
                fate => fate,
            };
        }
    }

    /// Learns from a read (`look`), during which the card lost nothing and which has returned the
    /// content `seen`: complete requests of this sector, whose data may have been lost, are judged.
    ///
    /// If the read has returned the data of such a request, these data are on the card until the
    /// next loss. The checker then removes those of these requests that were submitted later,
    /// because the read shows that their data are not on the card. It does not remove a discard.
    ///
    /// Returns true if a removed request is a write that was complete before the loss, and no
    /// report of a loss covers it (`told_before`: reports cover completions up to this number). A
    /// client must then be told.
    pub fn witnessed(&mut self, look: Look, seen: Seen, told_before: u32) -> bool {
        let doubted = |entry: &Entry| match entry.fate {
            Fate::Loose(n) | Fate::Shaken(n) | Fate::Told(n) if n <= look.completions => Some(n),
            _ => None,
        };
        if self.entries.iter().all(|entry| doubted(entry).is_none()) {
            return false;
        }
        let at = self.entries.iter().rposition(|e| e.number < look.number && e.wanted.gives(seen));
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at))
            && let Some(n) = doubted(entry)
        {
            entry.fate = Fate::Done(n);
        }
        let (mut place, mut owes) = (0, false);
        self.entries.retain(|entry| {
            let over = at.is_none_or(|at| place > at);
            place += 1;
            let gone = over && entry.number < look.number && doubted(entry).is_some();
            let lost = matches!(entry.fate, Fate::Loose(n) | Fate::Shaken(n) if n > told_before);
            let complete = lost && !entry.loose;
            owes |= gone && complete && matches!(entry.wanted, Wanted::Version(_));
            !gone || entry.wanted == Wanted::Discarded
        });
        owes
    }

    /// Checks whether this read may return the content `seen`. If so, this is the content of the
    /// sector from now on.
    pub fn read(&mut self, look: Look, seen: Seen) -> Result<(), Wrong> {
        let mut torn = false;
        let mut found = None;
        let mut covered = None;
        for (at, entry) in self.entries.iter().enumerate().rev().filter(|(_, e)| e.number < look.number) {
            torn |= entry.tears();
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
            let failed = |e: &Entry| e.number < look.number && e.tears();
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

    /// Handles a read (with the number `number`) that has returned older content than that of the
    /// entries from index `from` on. Removes the failed requests among these entries: they have not
    /// changed the card. Marks the entries whose requests are under way: these requests must fail.
    /// Skips the entries of discards, because the card may still erase a discarded sector later.
    fn pass(&mut self, from: usize, number: u32) {
        let mut place = 0;
        self.entries.retain_mut(|entry| {
            let over = place >= from && entry.number < number && entry.wanted != Wanted::Discarded;
            place += 1;
            entry.passed |= over && entry.fate == Fate::Flying;
            !(over && matches!(entry.fate, Fate::Failed(_)))
        });
    }

    /// Records that a read has returned the content of the entry with index `at`, so this content
    /// is on the card. `seen`: the content; `look`: facts about the read.
    fn show(&mut self, at: usize, look: Look, seen: Seen) {
        let entry = &mut self.entries[at];
        let erased = entry.wanted == Wanted::Discarded;
        entry.wanted = entry.wanted.shown(seen);
        match entry.fate {
            // The content may have been there only before the loss.
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

    /// Checks whether the sector may have the content `seen` after a power cut. If so, this is the
    /// content of the sector from now on.
    pub fn survived(&mut self, seen: Seen) -> Result<(), Wrong> {
        let open = |e: &Entry| e.tears() || matches!(e.fate, Fate::Flying | Fate::Failed(_));
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
