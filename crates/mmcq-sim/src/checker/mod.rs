//! The checker of the torture campaigns. It checks, independently of mmcq's engine, that a stack
//! keeps its promises.
//!
//! The campaign calls the checker when each request is submitted and answered, at every power cut,
//! and with the data of reads and of the medium. From these calls it knows which versions each
//! sector may hold. It reports each broken promise: acknowledged data that are lost, torn,
//! misordered or misdirected; an answer given twice or never; a flush that did nothing. The data of
//! a write are generated from the sector's number and the number of the write (its version), see
//! [`Content`]. So the checker stores only versions.
//!
//! A sector of another partition than the user area has its own number ([`place`]). The promises
//! hold for it too.
//!
//! The promises, by number:
//!
//! - **P1** A write is complete only when the card has received all of it and can no longer report
//!   an error for it.
//! - **P2** A read returns, sector by sector, the last write that was submitted before it and did
//!   not fail, whatever order the queue used.
//! - **P3** After a complete flush, all writes, zeros and erases that were submitted before the
//!   flush and succeed survive a power cut.
//! - **P4** A complete durable write survives a power cut without a flush.
//! - **P5** Any subset of the sectors that are not flushed may survive a power cut: their order is
//!   not kept.
//! - **P6** After a power cut a sector holds its durable content, or a later content. It is torn or
//!   unreadable only if a write to it was under way or had failed.
//! - **P7** A failed request leaves its own sectors old or new, and changes no others. A sector is
//!   torn only if the card lost its power before the sector was certainly on the medium. The
//!   sectors that its answer reports as done are done.
//! - **P8** If the card loses data of its cache, the next flush or durable write reports it once; no
//!   read and no other write does. A report of a loss is always true. A flush without an error
//!   confirms all writes that were complete before it, even if a loss came between. Data that a card
//!   dropped in a failed flush count as lost too. An error of that flush or of the next flush reports
//!   them; a durable write between the two may succeed without a report.
//! - **P9** What was written for one card is never found on another.
//! - **P10** A discarded sector reads as before or as erased; a zeroed sector reads as zeros.
//! - **P11** Each request is answered once, in bounded time.
//!
//! What a read has returned does not change:
//!
//! - **P12** A failed write is on the card or not, and the first read that is submitted after it
//!   shows which. From then on reads return that content, until the next write or the next loss.
//!   The rule also holds for a write that no client waits for any more, and for a write under way.
//!   If a read did not return the data of such a write, these data never appear later: not in
//!   reads, not after a flush, not after a cut.
//! - **P13** If a read has returned the data of a failed write, the write counts as complete.
//!   Without a cache it is durable. With a cache a flush makes it durable, and a cut before the
//!   flush may lose it. If the write failed before a flush was submitted, and a read returns its
//!   data after that flush, it is durable.
//! - **P14** After a loss, content that a read has returned stays until the next loss.
//! - **P15** An erased sector has one value, 00h or FFh. A discarded sector may keep its content
//!   for a while, since the card erases when it chooses [eMMC 6.6.12]. Once erased it stays erased.
//!   A cut may undo an erase that is not flushed, like a write: no standard promises more.
//! - **P16** The pieces of a torn sector come from the contents that were possible for it. A piece
//!   that a read has returned stays. If the sector could not be read, a later read may return one
//!   of the possible contents; this content then stays.
//! - **P17** A sector that no request was to change does not change, in any partition of the card
//!   (user area, boot, general purpose, RPMB). The medium has a list of all sectors that were ever
//!   written or erased. The list is compared after each cut and at the end
//!   ([`touched`](Checker::touched)).
//! - **P18** An error has a cause. After a fault, requests may fail until a request that was
//!   submitted after the fault has transferred its data without error. A flush or durable write may
//!   report earlier writes until a flush has succeeded. Otherwise only a read of a sector that may
//!   be torn fails ([`may_fail`](Checker::may_fail)).

mod content;
mod losses;
mod request;
mod sector;
#[cfg(test)]
mod tests;
mod violation;

pub use content::{Content, Pieces, SECTOR_BYTES, Seen};
pub use request::{Answer, Asked, Ticket};
pub use violation::{Fault, Violation};

use request::Request;
use sector::{ABANDONED, Entry, Look, Sector, Wanted};
use std::collections::HashMap;

/// Returns the number by which the checker names a sector of a partition. Partitions have the
/// numbers of PARTITION_CONFIG of an eMMC; 0 is the user area.
#[must_use]
pub const fn place(partition: u8, sector: u64) -> u64 {
    (partition as u64) << PARTITION_SHIFT | sector
}

/// Bit position of the partition in a sector's number, as in
/// [`Fill::of_partition`](crate::card::Fill::of_partition).
const PARTITION_SHIFT: u32 = 44;

/// Number of sectors whose states are stored together.
const PAGE: usize = 64;

/// Properties of a card on which the checked promises (guarantees about data) depend: the contents
/// of its sectors, and whether it has a volatile cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Generator for the contents of the card's sectors.
    pub content: Content,
    /// Whether the card has no volatile cache, so that each complete write is durable.
    pub write_through: bool,
}

/// The checker of one card: it compares each answer of the stack with the promises that the
/// [module](self) lists. See also [`Checker::submit`] and [`Checker::answered`].
#[derive(Debug)]
pub struct Checker {
    promise: Promise,
    pages: HashMap<u64, Box<[Sector; PAGE]>>,
    /// Numbers ([`place`]) of the sectors for which more than one content is possible.
    dirty: Vec<u64>,
    requests: Vec<Request>,
    free: Vec<u32>,
    live: u32,
    numbers: u32,
    completions: u32,
    losses: u32,
    /// Whether complete writes were lost and no client was told of the loss yet.
    untold: bool,
    /// Whether a read has shown that a complete write is lost, and no client was told of the loss
    /// yet. A flush without an error does not confirm such a write.
    missed: bool,
    /// Number of completed requests at the submission of the last request that got `CacheLost`. A
    /// loss of writes that were complete then need not be reported again.
    told_before: u32,
    /// Whether a request may report `CacheLost`: since the last such report the card has lost its
    /// power while it had data to lose.
    excuse: bool,
    /// Number of requests under way that change sectors, including those that no client waits for.
    /// Their data may be in the cache at any time.
    writing: u32,
    /// Number of completed requests when the card dropped a part of its cache in a failed flush; an
    /// error must report this loss. `None`: there is nothing to report.
    gave_up: Option<u32>,
    /// Completion number of the last request that changed sectors, with or without success, if no
    /// flush has covered it since; `None` otherwise.
    unflushed: Option<u32>,
    /// Number (in the order of submission) of the last request for which a fault may be the reason
    /// of a failure. A later request must not fail. `u32::MAX`: any request may fail.
    excused: u32,
    /// Number of the newest request at the last fault. Requests have the numbers 1, 2, 3 and so on,
    /// in the order of submission.
    trouble: u32,
    /// The last flush or durable write, by its number in the order of submission, that may fail
    /// because it reports errors of earlier writes. `u32::MAX`: any of them may fail.
    excused_flushes: u32,
}

impl Checker {
    /// Makes the checker of a card that has received no request yet.
    #[must_use]
    pub fn new(promise: Promise) -> Self {
        Checker {
            promise,
            pages: HashMap::new(),
            dirty: Vec::new(),
            requests: Vec::new(),
            free: Vec::new(),
            live: 0,
            numbers: 0,
            completions: 0,
            losses: 0,
            untold: false,
            missed: false,
            told_before: 0,
            excuse: false,
            writing: 0,
            gave_up: None,
            unflushed: None,
            excused: 0,
            trouble: 0,
            excused_flushes: 0,
        }
    }

    /// Starts again with another card, which has received no request yet. The checker's memory is
    /// reused.
    pub fn start_over(&mut self, promise: Promise) {
        self.promise = promise;
        for page in self.pages.values_mut() {
            for sector in page.iter_mut() {
                sector.base = Wanted::Untouched;
                sector.entries.clear();
                (sector.listed, sector.named) = (false, false);
            }
        }
        self.dirty.clear();
        self.requests.clear();
        self.free.clear();
        (self.live, self.numbers, self.completions, self.losses) = (0, 0, 0, 0);
        self.nothing_lost();
    }

    fn nothing_lost(&mut self) {
        (self.untold, self.missed, self.told_before, self.excuse) = (false, false, 0, false);
        (self.writing, self.unflushed, self.gave_up) = (0, None, None);
        (self.excused, self.trouble, self.excused_flushes) = (0, 0, 0);
    }

    /// Returns the generator for the contents of the card.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.promise.content
    }

    /// Sets whether the card writes through, that is, has no volatile cache. The caller learns this
    /// only when the card is initialised.
    pub fn set_write_through(&mut self, write_through: bool) {
        self.promise.write_through = write_through;
    }

    /// Returns the number of requests without an answer.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.live
    }

    /// Returns the time in ns at which the oldest request without an answer was submitted; `None`:
    /// all requests are answered.
    #[must_use]
    pub fn oldest_ns(&self) -> Option<u64> {
        self.requests.iter().filter(|r| r.number != 0).map(|r| r.submitted_ns).min()
    }

    fn sector(&mut self, lba: u64) -> &mut Sector {
        let page =
            self.pages.entry(lba / PAGE as u64).or_insert_with(|| Box::new([const { Sector::NEW }; PAGE]));
        &mut page[(lba % PAGE as u64) as usize]
    }

    /// Records a request that is about to be submitted: what it does (`asked`), its first block,
    /// its length in blocks, and the time in ns. Returns the [`Ticket`] by which the checker knows
    /// the request until its answer.
    pub fn submit(&mut self, asked: Asked, lba: u64, blocks: u32, now_ns: u64) -> Ticket {
        self.numbers += 1;
        let number = self.numbers;
        let request = Request {
            number,
            asked,
            lba,
            blocks,
            submitted_ns: now_ns,
            completions: self.completions,
            losses: self.losses,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.requests[slot as usize] = request;
                slot
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        };
        self.live += 1;
        self.writing += u32::from(asked.changes());
        let wanted = match asked {
            Asked::Read | Asked::Flush => return Ticket { slot, number },
            Asked::Write { .. } => Wanted::Version(number),
            Asked::Erase => Wanted::Erased,
            Asked::Discard => Wanted::Discarded,
            Asked::Zero => Wanted::Zeros,
        };
        for lba in lba..lba + u64::from(blocks) {
            let sector = self.sector(lba);
            sector.named = true;
            sector.entries.push(Entry::new(number, wanted));
            if !std::mem::replace(&mut sector.listed, true) {
                self.dirty.push(lba);
            }
        }
        Ticket { slot, number }
    }

    /// Fills the buffer of a write with the data to write.
    pub fn fill(&self, ticket: Ticket, buffer: &mut [u8]) {
        let lba = self.requests[ticket.slot as usize].lba;
        for (sector, lba) in buffer.chunks_exact_mut(SECTOR_BYTES).zip(lba..) {
            self.promise.content.write(lba, ticket.number, sector);
        }
    }

    /// Returns whether `bytes`, which are sector `nth` in the buffer of an unanswered write, still
    /// are the data that [`fill`](Self::fill) wrote.
    #[must_use]
    pub fn is_filled(&self, ticket: Ticket, nth: u64, bytes: &[u8]) -> bool {
        let Some(request) = self.requests.get(ticket.slot as usize) else { return false };
        let mut given = [0; SECTOR_BYTES];
        self.promise.content.write(request.lba + nth, ticket.number, &mut given);
        bytes == given
    }

    /// Removes a request that never reached the card, as if it had not been submitted.
    pub fn withdraw(&mut self, ticket: Ticket) {
        let Some(request) = self.close(ticket) else { return };
        self.writing -= u32::from(request.asked.changes());
        for lba in request.lba..request.lba + u64::from(request.blocks) {
            self.sector(lba).withdrawn(request.number);
        }
    }

    /// Records that no client waits for the answer any more: the request may be executed or not.
    pub fn abandon(&mut self, ticket: Ticket) {
        let Some(request) = self.close(ticket) else { return };
        if !matches!(request.asked, Asked::Read | Asked::Flush) {
            for lba in request.lba..request.lba + u64::from(request.blocks) {
                self.sector(lba).failed(request.number, ABANDONED);
            }
        }
    }

    fn close(&mut self, ticket: Ticket) -> Option<Request> {
        let request = self.requests.get_mut(ticket.slot as usize)?;
        if request.number != ticket.number {
            return None;
        }
        let closed = *request;
        request.number = 0;
        self.free.push(ticket.slot);
        self.live -= 1;
        Some(closed)
    }

    /// Checks the answer of a request; `data` is what a read has returned.
    pub fn answered(&mut self, ticket: Ticket, answer: Answer, data: &[u8]) -> Result<(), Violation> {
        let Some(request) = self.close(ticket) else {
            return Err(Violation::new(Fault::Twice, format!("request {} has no answer due", ticket.number)));
        };
        self.completions += 1;
        self.may_lose(&request, answer)?;
        if answer == Answer::Done && request.number > self.trouble {
            // Requests that are under way may still fail because of the fault.
            match request.asked {
                Asked::Read | Asked::Write { .. } if self.excused == u32::MAX => self.excused = self.numbers,
                Asked::Flush if self.excused_flushes == u32::MAX => self.excused_flushes = self.numbers,
                _ => {}
            }
        }
        if request.asked.changes() {
            self.writing -= 1;
            if answer != Answer::Refused {
                self.unflushed = Some(self.completions);
            }
        }
        match request.asked {
            Asked::Read => self.read(&request, answer, data),
            Asked::Flush => self.flushed(&request, answer),
            Asked::Write { durable } => {
                if durable {
                    self.told(&request, answer)?;
                }
                self.changed(&request, answer, durable)
            }
            Asked::Erase | Asked::Discard | Asked::Zero => self.changed(&request, answer, false),
        }
    }

    /// Checks that only a request that may report a lost cache does so. A flush and a durable write
    /// have rules of their own ([`Checker::told`]).
    fn may_lose(&self, request: &Request, answer: Answer) -> Result<(), Violation> {
        let may = match request.asked {
            Asked::Read | Asked::Write { durable: false } => false,
            Asked::Flush | Asked::Write { durable: true } => true,
            // A part of the request was done, and then the card was reset.
            Asked::Erase | Asked::Discard | Asked::Zero => self.excuse || request.losses != self.losses,
        };
        if may || answer != Answer::CacheLost {
            return Ok(());
        }
        let text = format!("request {} ({:?}) reports a lost cache", request.number, request.asked);
        Err(Violation::new(Fault::Untrue, text))
    }

    fn read(&mut self, request: &Request, answer: Answer, data: &[u8]) -> Result<(), Violation> {
        let blocks = match answer {
            Answer::Done => request.blocks,
            Answer::Failed(done) => done.min(request.blocks),
            Answer::CacheLost | Answer::Refused => 0,
        };
        if data.len() < blocks as usize * SECTOR_BYTES {
            let text = format!("read {} brought {} bytes for {blocks} sectors", request.number, data.len());
            return Err(Violation::new(Fault::Untrue, text));
        }
        let content = self.promise.content;
        let steady = request.losses == self.losses;
        let settles = steady && self.losses > 0;
        let look = Look {
            number: request.number,
            completions: request.completions,
            now: self.completions,
            write_through: self.promise.write_through,
            steady,
        };
        for (lba, bytes) in (request.lba..request.lba + u64::from(blocks)).zip(data.chunks(SECTOR_BYTES)) {
            let seen = content.seen(lba, bytes);
            let sector = self.sector(lba);
            sector.read(look, seen).map_err(|wrong| {
                let first = request.lba & ((1 << PARTITION_SHIFT) - 1);
                let when = format_args!("in read {} of {first}+{}", request.number, request.blocks);
                Violation::of_sector(lba, seen, wrong, when)
            })?;
            if settles {
                let told_before = self.told_before;
                self.missed |= self.sector(lba).witnessed(look, seen, told_before);
                self.untold |= self.missed;
            }
        }
        Ok(())
    }

    fn changed(&mut self, request: &Request, answer: Answer, durable: bool) -> Result<(), Violation> {
        let (done, refused) = match answer {
            Answer::Done => (request.blocks, false),
            Answer::Failed(done) => (done.min(request.blocks), false),
            Answer::CacheLost => (0, false),
            Answer::Refused => (0, true),
        };
        let (completion, write_through) = (self.completions, self.promise.write_through);
        // The done part of a failed durable write counts as written, but not as durable.
        let durable = write_through || durable && done == request.blocks;
        let mut passed = None;
        for block in 0..request.blocks {
            let lba = request.lba + u64::from(block);
            let sector = self.sector(lba);
            if block < done {
                if sector.done(request.number, completion, durable) {
                    passed = passed.or(Some(lba));
                }
            } else if refused {
                sector.withdrawn(request.number);
            } else {
                sector.failed(request.number, completion);
            }
        }
        match passed {
            Some(lba) => Err(Violation::new(
                Fault::Misordered,
                format!(
                    "a read submitted after request {} saw an older {}",
                    request.number,
                    violation::named(lba)
                ),
            )),
            None => Ok(()),
        }
    }

    /// Checks the answer to a flush or durable write: it must report a loss if there was one to
    /// report, and must not report any other.
    fn told(&mut self, request: &Request, answer: Answer) -> Result<(), Violation> {
        // Each durable write that was under way as the card lost its cache may report its own blocks.
        let own = request.asked != Asked::Flush && request.losses != self.losses;
        match answer {
            Answer::CacheLost if !self.excuse && own => Ok(()),
            Answer::CacheLost if !self.excuse => {
                let text = format!("request {} reports a lost cache, and none was lost", request.number);
                Err(Violation::new(Fault::Untrue, text))
            }
            Answer::CacheLost => {
                self.excuse = false;
                self.note_told(request.completions);
                Ok(())
            }
            Answer::Failed(_) if self.gave_up.is_some() => {
                self.note_told(request.completions);
                Ok(())
            }
            // A durable write reports only its own blocks; the failure of an earlier flush is
            // reported by the next flush.
            Answer::Done if self.gave_up.is_some() && request.asked != Asked::Flush => Ok(()),
            Answer::Done if self.untold && request.losses == self.losses => {
                let text =
                    format!("request {} hides that the card lost complete writes before it", request.number);
                Err(Violation::new(Fault::Untrue, text))
            }
            _ => Ok(()),
        }
    }

    /// Records that a client was told of a possible loss of writes. The writes are among the first
    /// `completions` requests that were completed.
    fn note_told(&mut self, completions: u32) {
        (self.untold, self.missed, self.gave_up) = (false, false, None);
        self.told_before = completions;
        let dirty = std::mem::take(&mut self.dirty);
        dirty.iter().for_each(|&lba| self.sector(lba).told());
        self.dirty = dirty;
    }

    fn flushed(&mut self, request: &Request, answer: Answer) -> Result<(), Violation> {
        self.told(request, answer)?;
        if answer == Answer::Done {
            if self.unflushed.is_some_and(|write| write <= request.completions) {
                self.unflushed = None;
            }
            let (across, told_before) = (request.losses != self.losses, self.told_before);
            let mut dirty = std::mem::take(&mut self.dirty);
            let mut owes = false;
            dirty.retain(|&lba| {
                let sector = self.sector(lba);
                sector.flushed(request.number, request.completions, across);
                owes |= sector.owes(told_before);
                sector.listed = !sector.entries.is_empty();
                sector.listed
            });
            self.dirty = dirty;
            self.untold &= owes || self.missed;
        }
        Ok(())
    }

    /// Records a fault. Requests may fail until a request that is submitted later has transferred
    /// data without an error. Flushes may fail until a flush has succeeded.
    pub fn trouble(&mut self) {
        (self.excused, self.trouble, self.excused_flushes) = (u32::MAX, self.numbers, u32::MAX);
    }

    /// Returns whether this request has a cause to fail: it was submitted before the last fault was
    /// over, or reports errors of earlier writes, or reads a sector that may be torn.
    #[must_use]
    pub fn may_fail(&self, ticket: Ticket) -> bool {
        let Some(request) = self.requests.get(ticket.slot as usize) else { return false };
        let tells = matches!(request.asked, Asked::Flush | Asked::Write { durable: true });
        if request.number <= self.excused || tells && request.number <= self.excused_flushes {
            return true;
        }
        request.asked == Asked::Read
            && (request.lba..request.lba + u64::from(request.blocks)).any(|lba| {
                let page = self.pages.get(&(lba / PAGE as u64));
                page.is_some_and(|page| page[(lba % PAGE as u64) as usize].may_be_torn())
            })
    }

    /// Records that the host and the card lost their power, so that no client waits for an answer.
    /// Calls `each` with the number of every sector whose content is not certain: for these the
    /// caller must call [`survived`](Self::survived) or [`unreadable`](Self::unreadable) next.
    pub fn cut(&mut self, mut each: impl FnMut(u64)) {
        self.requests.clear();
        self.free.clear();
        self.live = 0;
        self.nothing_lost();
        for lba in std::mem::take(&mut self.dirty) {
            let sector = self.sector(lba);
            if std::mem::replace(&mut sector.listed, false) {
                each(lba);
            }
        }
    }

    /// Checks whether the sector `lba` may be unreadable after a power cut: only a write that may
    /// have torn it allows that. Otherwise returns the violation.
    pub fn unreadable(&mut self, lba: u64) -> Result<(), Violation> {
        let seen = Seen::Unreadable;
        let result = self.sector(lba).survived(seen);
        result.map_err(|wrong| Violation::of_sector(lba, seen, wrong, format_args!("after a power cut")))
    }

    /// Checks the content `bytes` that sector `lba` has after a power cut; an error if none of its
    /// possible contents is this one. From now on the sector has this content.
    pub fn survived(&mut self, lba: u64, bytes: &[u8]) -> Result<(), Violation> {
        let seen = self.promise.content.seen(lba, bytes);
        let result = self.sector(lba).survived(seen);
        result.map_err(|wrong| Violation::of_sector(lba, seen, wrong, format_args!("after a power cut")))
    }

    /// Checks whether the sector `lba` may hold the content `bytes` after a power cut at this
    /// moment. The state of the sector does not change.
    pub fn check_survival(&mut self, lba: u64, bytes: &[u8]) -> Result<(), Violation> {
        let seen = self.promise.content.seen(lba, bytes);
        let result = self.sector(lba).clone().survived(seen);
        result.map_err(|wrong| Violation::of_sector(lba, seen, wrong, format_args!("after a power cut")))
    }

    /// Checks that some request was to change this sector, since the medium reports that the sector
    /// was written or erased. `partition` is a number as in PARTITION_CONFIG of an eMMC.
    pub fn touched(&self, partition: u8, sector: u64) -> Result<(), Violation> {
        let lba = place(partition, sector);
        let page = self.pages.get(&(lba / PAGE as u64));
        match page.map(|page| &page[(lba % PAGE as u64) as usize]) {
            Some(sector) if sector.named => Ok(()),
            _ => {
                let text = format!("{} was changed, and no request was to", violation::named(lba));
                Err(Violation::new(Fault::Misdirected, text))
            }
        }
    }

    /// Returns the numbers ([`place`]) of the sectors for which more than one content is possible.
    pub fn dirty(&self) -> &[u64] {
        &self.dirty
    }
}
