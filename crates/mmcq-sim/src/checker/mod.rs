//! The checker of the torture campaigns: it checks that a stack keeps its promises, independently
//! of mmcq's engine.
//!
//! The checker is called for every request when it is submitted and when it is answered, for every
//! power cut, and with the data of reads and of the medium. From that it derives which versions
//! each sector may hold, and reports each broken promise: acknowledged data lost, torn, misordered
//! or misdirected, an answer given twice or never, a flush that did nothing. Data are generated
//! from place and version ([`Content`]), so only versions are stored. A sector that no request
//! named costs nothing.
//!
//! A sector of a partition other than the user area has a number of its own ([`place`]). All that
//! is said here of sectors is true of it as well.
//!
//! The promises, by number:
//!
//! - **P1** A write is complete only when the card has received all of it and can no longer report
//!   an error for it.
//! - **P2** A read returns, sector by sector, the last write submitted before it that did not fail,
//!   whatever order the queue used.
//! - **P3** After a complete flush, everything that was complete before the flush was submitted
//!   survives a power cut: writes, zeros and erases.
//! - **P4** A durable write survives by itself once it is complete.
//! - **P5** Any subset of the sectors that are not flushed may survive: there is no order between
//!   them.
//! - **P6** After a cut a sector holds what was durable, or something later. It is torn or
//!   unreadable only if a write to it was under way or had failed.
//! - **P7** A failed request leaves its own sectors old, new or torn, and changes no others. The
//!   sectors that its answer reports as done are done.
//! - **P8** The loss of a cache is reported by the next flush or durable write, once. No loss is
//!   reported that did not happen. A flush without an error vouches for all that was complete
//!   before it, also across a loss. Data that a card dropped in a flush that it failed count as
//!   lost in the same way; an error of that flush or of the next reports them, and a durable write
//!   in between need not.
//! - **P9** What was written for one card is never found on another.
//! - **P10** A discarded sector is as before or erased; a zeroed one reads as zeros.
//! - **P11** Each request is answered once, in bounded time.
//!
//! A read fixes what it saw:
//!
//! - **P12** A failed write is on the card or not, and the first read that is submitted after it
//!   shows which. From then on reads return that content, until the next write or the next loss.
//!   The same is true of a write that no client waits for any more, and of one under way. A write
//!   that a read did not see is never seen later: not by reads, not after a flush, not after a cut.
//! - **P13** A failed write that reads have shown is at stake like any complete write: without a
//!   cache it is durable, with a cache a flush makes it durable, and a cut before that may lose it.
//!   A write that failed before a flush was submitted, and is seen after that flush, is durable.
//! - **P14** After a loss, content that a read has seen stays until the next loss.
//! - **P15** An erased sector has one value, 00h or FFh. A discarded one may keep its content for a
//!   while, as the card erases when it chooses [eMMC 6.6.12]. Once erased it stays so. An erase
//!   that is not flushed may be undone by a cut, like a write: no standard says more.
//! - **P16** The pieces of a torn sector come from the contents that were at stake for it. Each
//!   piece that was seen stays. Where nothing could be read, a later read may return one of the
//!   contents that were at stake, and fixes it.
//! - **P17** What no request named is not changed: no other sector, no other partition of the card
//!   (boot, general purpose, RPMB). The medium keeps a list of what was ever written or erased; it
//!   is compared after each cut and at the end ([`touched`](Checker::touched)).
//! - **P18** An error has a cause. After a fault, requests may fail until a request that was
//!   submitted after it has transferred its data without error. A flush or durable write may report
//!   earlier writes until a flush has succeeded. Otherwise only a read of a sector that may be torn
//!   fails ([`may_fail`](Checker::may_fail)).

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

/// Returns the number that the checker uses for a sector of a partition. Partitions are numbered as
/// in PARTITION_CONFIG of an eMMC; 0 is the user area.
#[must_use]
pub const fn place(partition: u8, sector: u64) -> u64 {
    (partition as u64) << PARTITION_SHIFT | sector
}

/// Shift of the partition in that number, as in
/// [`Fill::of_partition`](crate::card::Fill::of_partition).
const PARTITION_SHIFT: u32 = 44;

/// Sectors that are stored together.
const PAGE: usize = 64;

/// What a card promises, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Content of its sectors.
    pub content: Content,
    /// Whether there is no volatile cache: then what is complete is durable.
    pub write_through: bool,
}

/// The checker. See the promises above, [`Checker::submit`] and [`Checker::answered`].
#[derive(Debug)]
pub struct Checker {
    promise: Promise,
    pages: HashMap<u64, Box<[Sector; PAGE]>>,
    /// Sectors of which more than one content is possible.
    dirty: Vec<u64>,
    requests: Vec<Request>,
    free: Vec<u32>,
    live: u32,
    numbers: u32,
    completions: u32,
    losses: u32,
    /// Whether complete writes were lost and no client has been told.
    untold: bool,
    /// Number of completions when the last request was submitted that got `CacheLost`. Their loss
    /// need not be reported again.
    told_before: u32,
    /// Whether the card lost its power since `CacheLost` was last reported, with something to lose.
    excuse: bool,
    /// Number of changes under way, and of those that no client waits for. They may be in the cache
    /// at any time.
    writing: u32,
    /// The card dropped data of its cache in a flush that it failed, after so many completions; an
    /// error must report that.
    gave_up: Option<u32>,
    /// Number of the last completion of a change that no flush has covered.
    unflushed: Option<u32>,
    /// Requests up to this number may fail; later ones have no cause to.
    excused: u32,
    /// Number of requests submitted when something last went wrong.
    trouble: u32,
    /// Flushes and durable writes up to this number may fail: they may report errors of earlier
    /// writes.
    excused_flushes: u32,
}

impl Checker {
    /// Makes the checker of an untouched card.
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

    /// Starts over with another, untouched card. The memory is used again.
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
        (self.untold, self.told_before, self.excuse) = (false, 0, false);
        (self.writing, self.unflushed, self.gave_up) = (0, None, None);
        (self.excused, self.trouble, self.excused_flushes) = (0, 0, 0);
    }

    /// Returns the contents of the card.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.promise.content
    }

    /// Sets whether the card is without a volatile cache, which is known only after bring-up.
    pub fn set_write_through(&mut self, write_through: bool) {
        self.promise.write_through = write_through;
    }

    /// Returns the number of requests without an answer.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.live
    }

    /// Returns the time in ns at which the oldest request without an answer was submitted.
    #[must_use]
    pub fn oldest_ns(&self) -> Option<u64> {
        self.requests.iter().filter(|r| r.number != 0).map(|r| r.submitted_ns).min()
    }

    fn sector(&mut self, lba: u64) -> &mut Sector {
        let page =
            self.pages.entry(lba / PAGE as u64).or_insert_with(|| Box::new([const { Sector::NEW }; PAGE]));
        &mut page[(lba % PAGE as u64) as usize]
    }

    /// Records a request that is about to be submitted.
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

    /// Fills a write's buffer with the data to write.
    pub fn fill(&self, ticket: Ticket, buffer: &mut [u8]) {
        let lba = self.requests[ticket.slot as usize].lba;
        for (sector, lba) in buffer.chunks_exact_mut(SECTOR_BYTES).zip(lba..) {
            self.promise.content.write(lba, ticket.number, sector);
        }
    }

    /// Returns whether the nth sector of an unanswered write's buffer is unchanged.
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

    /// Checks the answer of a request. `data`: what a read returned.
    pub fn answered(&mut self, ticket: Ticket, answer: Answer, data: &[u8]) -> Result<(), Violation> {
        let Some(request) = self.close(ticket) else {
            return Err(Violation::new(Fault::Twice, format!("request {} has no answer due", ticket.number)));
        };
        self.completions += 1;
        if answer == Answer::Done && request.number > self.trouble {
            // Those under way may still have to do with it.
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
                sector.witnessed(look, seen);
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
        // What is surely done of a durable write that failed is as good as written, not more.
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

    /// Checks whether the answer to a flush or durable write reports what was lost.
    fn told(&mut self, request: &Request, answer: Answer) -> Result<(), Violation> {
        match answer {
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
            // A durable write speaks of its own blocks: of a flush that the card has failed the next
            // flush tells.
            Answer::Done if self.gave_up.is_some() && request.asked != Asked::Flush => Ok(()),
            Answer::Done if self.untold && request.losses == self.losses => {
                let text =
                    format!("request {} hides that the card lost complete writes before it", request.number);
                Err(Violation::new(Fault::Untrue, text))
            }
            _ => Ok(()),
        }
    }

    /// Records that a client knows: what was complete after so many completions may be lost.
    fn note_told(&mut self, completions: u32) {
        (self.untold, self.gave_up) = (false, None);
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
                sector.flushed(request.completions, across);
                owes |= sector.owes(told_before);
                sector.listed = !sector.entries.is_empty();
                sector.listed
            });
            self.dirty = dirty;
            self.untold &= owes;
        }
        Ok(())
    }

    /// Records a fault: requests may fail until a later one has transferred data without error, and
    /// flushes until one has succeeded.
    pub fn trouble(&mut self) {
        (self.excused, self.trouble, self.excused_flushes) = (u32::MAX, self.numbers, u32::MAX);
    }

    /// Returns whether this request has a cause to fail. It was submitted before the last fault was
    /// over, or it reports errors of earlier writes, or it is a read of a sector that may be torn.
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

    /// Records that host and card lost their power: no client waits for an answer any more. Calls
    /// `each` with the sectors for which [`survived`](Self::survived) must be called next.
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

    /// Checks a sector that cannot be read after a cut.
    pub fn unreadable(&mut self, lba: u64) -> Result<(), Violation> {
        let seen = Seen::Unreadable;
        let result = self.sector(lba).survived(seen);
        result.map_err(|wrong| Violation::of_sector(lba, seen, wrong, format_args!("after a power cut")))
    }

    /// Checks the content of a sector after a cut.
    pub fn survived(&mut self, lba: u64, bytes: &[u8]) -> Result<(), Violation> {
        let seen = self.promise.content.seen(lba, bytes);
        let result = self.sector(lba).survived(seen);
        result.map_err(|wrong| Violation::of_sector(lba, seen, wrong, format_args!("after a power cut")))
    }

    /// Checks whether the sector may hold this content after a cut at this moment. Changes nothing.
    pub fn check_survival(&mut self, lba: u64, bytes: &[u8]) -> Result<(), Violation> {
        let seen = self.promise.content.seen(lba, bytes);
        let result = self.sector(lba).clone().survived(seen);
        result.map_err(|wrong| Violation::of_sector(lba, seen, wrong, format_args!("after a power cut")))
    }

    /// Checks that some request was to change this sector, which the medium reports as written or
    /// erased. `partition`: as in PARTITION_CONFIG of an eMMC.
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

    /// Returns the sectors of which more than one content is possible.
    pub fn dirty(&self) -> &[u64] {
        &self.dirty
    }
}
