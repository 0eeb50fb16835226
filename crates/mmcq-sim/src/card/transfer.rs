//! Blocks between the bus and the medium, for SD cards and eMMCs.

use super::flash::{Flash, Reading, UNIT_BYTES};
use super::medium::Medium;
use super::quirk::WornOut;
use super::{BusState, link, status};
use crate::faults::{Point, Strike};
use crate::plant::{self, Lie};

/// A read command that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Byte address of the next block.
    pub(crate) at: u64,
    /// Number of bytes in a block of this read command.
    pub(crate) block: u16,
    /// Number of blocks left to send; `None`: until CMD12.
    pub(crate) left: Option<u32>,
    /// Earliest time in ns at which the first block can start.
    ready_ns: u64,
    /// Number of the 4 KiB unit that is being sent; `None` before the first block.
    unit: Option<u64>,
    /// Whether the command reads a single block (CMD17).
    single: bool,
    /// State of the flash pipeline, if the card reads by page.
    reading: Reading,
    /// Whether the command begins where the read before ended, so that its data are prefetched.
    goes_on: bool,
}

/// Result of sending the next block of a read.
pub(crate) enum Sent {
    /// The block is sent; its start bit comes at this time in ns.
    Block(u64),
    /// No further block comes; the value has the error bits for R1.
    Nothing(u32),
}

impl Read {
    /// Begins a CMD18. `left` is the number of blocks that CMD23 announced; `None`: the read lasts
    /// until CMD12.
    pub(crate) fn new(at: u64, block: u16, left: Option<u32>, flash: &mut Flash, now_ns: u64) -> Self {
        let ahead_ns = flash.goes_on_ns(at, now_ns);
        let ready_ns = ahead_ns.unwrap_or_else(|| flash.first_page_ns(now_ns));
        let ready_ns = ready_ns.saturating_add(flash.retries_ns());
        let (reading, goes_on) = (Reading::default(), ahead_ns.is_some());
        Self { at, block, left, ready_ns, unit: None, single: false, reading, goes_on }
    }

    /// Begins a CMD17, which reads one block of `block` bytes from byte address `at`.
    pub(crate) fn single(at: u64, block: u16, flash: &mut Flash, now_ns: u64) -> Self {
        Self { single: true, ..Self::new(at, block, Some(1), flash, now_ns) }
    }

    /// Begins a CMD46 or an entry of a packed read, which has `left` blocks of `block` bytes from
    /// byte address `at` on. Its first page is in the card's buffer from `now_ns` on.
    pub(crate) fn loaded(at: u64, block: u16, left: u32, now_ns: u64) -> Self {
        let (unit, reading) = (None, Reading::default());
        let (single, goes_on) = (false, false);
        Self { at, block, left: Some(left), ready_ns: now_ns, unit, single, reading, goes_on }
    }

    /// Returns whether this is a read of several blocks (CMD18, and not CMD17).
    pub(crate) fn is_multiple(&self) -> bool {
        !self.single
    }

    /// Reads the next block of the read command from the medium into `buffer`. Returns the time of
    /// its start bit, or the error bits for R1 if no block comes.
    #[inline]
    pub(crate) fn next(
        &mut self,
        medium: &mut Medium,
        flash: &mut Flash,
        buffer: &mut [u8],
        bus: &BusState,
        now_ns: u64,
    ) -> Sent {
        if self.left == Some(0) {
            return Sent::Nothing(0);
        }
        let len = u64::from(self.block);
        if self.at.saturating_add(len) > medium.bytes() {
            return Sent::Nothing(status::OUT_OF_RANGE);
        }
        let Some(buffer) = buffer.get_mut(..usize::from(self.block)) else {
            return Sent::Nothing(status::BLOCK_LEN_ERROR);
        };
        let strike = flash.faults.strike(Point::Medium);
        if plant::is(Lie::ReadsFail) && (self.at / len) % 16 == 5 && flash.faults.strikes() > 0 {
            return Sent::Nothing(status::CARD_ECC_FAILED);
        }
        let from = match strike {
            Some(Strike::Fail) => return Sent::Nothing(status::CARD_ECC_FAILED),
            Some(Strike::Lost) => return Sent::Nothing(0),
            Some(Strike::Astray(blocks)) => astray(self.at, blocks, len, medium),
            _ => self.at,
        };
        let read = match flash.wear.place(from) {
            Some(from) => medium.read(from, buffer),
            None => {
                buffer.fill(0);
                Ok(())
            }
        };
        if read.is_err() {
            return Sent::Nothing(status::CARD_ECC_FAILED);
        }
        match strike {
            Some(Strike::Flip(bit)) => flip(buffer, bit),
            Some(Strike::BrownOut) => flash.dips = true,
            _ => {}
        }
        let unit = self.at / UNIT_BYTES;
        let start_ns = match (&flash.timing().pages, self.unit) {
            (Some(pages), _) => self.reading.start_ns(pages, self.at, self.block, self.ready_ns, bus, now_ns),
            (None, None) => now_ns.max(self.ready_ns),
            (None, Some(open)) if open == unit => now_ns,
            (None, Some(_)) if self.goes_on => flash.fetched_ns(self.at, now_ns),
            (None, Some(_)) => now_ns.saturating_add(flash.timing().read_next_4k_ns),
        };
        self.unit = Some(unit);
        self.at += len;
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                let end_ns = start_ns + link::clocks_ns(bus, link::block_clk(bus, self.block));
                self.stop(medium, flash, end_ns);
            }
        }
        Sent::Block(start_ns)
    }

    /// Ends the read: after its last block, at CMD12, or when the card is deselected.
    pub(crate) fn stop(&self, medium: &Medium, flash: &mut Flash, now_ns: u64) {
        if self.unit.is_some() {
            flash.read_to(self.at, self.goes_on, now_ns);
        }
        let beyond =
            flash.timing().pages.and_then(|pages| pages.ahead).is_some_and(|ahead| ahead.when_counted);
        let limit = match self.left {
            _ if self.single => return,
            Some(left) if !beyond => self.at.saturating_add(u64::from(left) * u64::from(self.block)),
            _ => medium.bytes(),
        };
        self.reading.stop(flash, self.block, limit, now_ns);
    }
}

/// A write command that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// Byte address of the next block.
    pub(crate) at: u64,
    /// Number of bytes in a block.
    pub(crate) block: u16,
    /// Number of blocks left to receive; `None`: until CMD12.
    pub(crate) left: Option<u32>,
    /// Number of blocks of this write that the card has received so far.
    taken: u32,
    /// Number of blocks at the start of the write that are stored without an error.
    pub(crate) stored: u32,
    /// Whether the write is a reliable write (bit 31 of CMD23): then a power cut leaves the old or
    /// the new content of each sector.
    pub(crate) reliable: bool,
    /// Whether the write bypasses the cache (bit 31 or 24 of CMD23): busy lasts until the data are
    /// in the flash.
    pub(crate) past_cache: bool,
    /// Error bits that the card reports only at the end of the data.
    late_errors: u32,
    /// Whether the card ignores further blocks until CMD12, because an error occurred.
    pub(crate) deaf: bool,
    /// Number of received bytes that have not been passed to the cache yet.
    pending_bytes: u64,
    /// Number of 4 KiB units that have not been passed to the cache yet.
    pending_units: u64,
    last_unit: Option<u64>,
    /// Busy time in ns after the data, if they belong to an entry of a packed command and another
    /// entry follows.
    pub(crate) entry_ns: Option<u64>,
}

/// Result of receiving a block of a write.
pub(crate) enum Taken {
    /// The block is stored; the value is the end in ns of the busy after it.
    More(u64),
    /// The block is stored, and is the last one of the command.
    Last,
    /// The block is not stored; the value has the error bits for R1.
    Refused(u32),
}

impl Write {
    pub(crate) fn new(at: u64, block: u16, left: Option<u32>) -> Self {
        Self {
            at,
            block,
            left,
            taken: 0,
            stored: 0,
            reliable: false,
            past_cache: false,
            late_errors: 0,
            deaf: false,
            pending_bytes: 0,
            pending_units: 0,
            last_unit: None,
            entry_ns: None,
        }
    }

    /// Stores a received block (`data`) of the write, whose CRC was good, on the medium. Returns
    /// whether it was the last block and how long the card is busy, or the error bits with which
    /// the card refuses it.
    #[inline]
    pub(crate) fn take(&mut self, medium: &mut Medium, flash: &mut Flash, data: &[u8], now_ns: u64) -> Taken {
        let len = u64::from(self.block);
        let Some(data) = data.get(..usize::from(self.block)) else {
            return Taken::Refused(status::BLOCK_LEN_ERROR);
        };
        if self.at.saturating_add(len) > medium.bytes() {
            return Taken::Refused(status::OUT_OF_RANGE);
        }
        let Ok(before) = flash.before(medium, self.at, data.len()) else {
            return Taken::Refused(status::ERROR);
        };
        if self.store(medium, flash, data).is_err() {
            return Taken::Refused(status::ERROR);
        }
        let mut busy_ns = now_ns;
        if flash.timing().close.is_some() {
            busy_ns = flash.take(self.at, len, before, now_ns);
        }
        let unit = self.at / UNIT_BYTES;
        if self.last_unit != Some(unit) {
            self.last_unit = Some(unit);
            self.pending_units += 1;
        }
        self.pending_bytes += len;
        self.at += len;
        self.taken += 1;
        self.stored += u32::from(self.late_errors == 0);
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                return Taken::Last;
            }
        }
        let buffer = flash.timing().buffer_bytes;
        if buffer == 0 || self.pending_bytes < buffer {
            return Taken::More(busy_ns);
        }
        let busy_ns = self.drain(flash, now_ns, false);
        self.pending_bytes = 0;
        self.pending_units = 0;
        Taken::More(busy_ns)
    }

    /// Passes the pending bytes to the cache; `last`: no bytes of this write follow. Returns the
    /// end of busy in ns.
    fn drain(&self, flash: &mut Flash, now_ns: u64, last: bool) -> u64 {
        let at = self.at.saturating_sub(self.pending_bytes);
        flash.write(now_ns, at, self.pending_bytes, self.pending_units, last)
    }

    /// Ends the data of the write. Returns the end of busy in ns, and error bits for R1.
    pub(crate) fn end(&mut self, medium: &mut Medium, flash: &mut Flash, now_ns: u64) -> (u64, u32) {
        let errors = self.late_errors | if medium.commit().is_err() { status::ERROR } else { 0 };
        if self.taken == 0 {
            return (now_ns, errors);
        }
        let bytes = u64::from(self.taken) * u64::from(self.block);
        let busy_ns = match flash.timing().close {
            None => {
                self.drain(flash, now_ns, self.entry_ns.is_none()).saturating_add(self.entry_ns.unwrap_or(0))
            }
            Some(close) => flash.close(&close, self.at.saturating_sub(bytes), bytes, now_ns),
        };
        let busy_ns = busy_ns.saturating_add(flash.scatter_ns(self.at.saturating_sub(bytes), bytes));
        let busy_ns = if self.past_cache { busy_ns.max(flash.drained_ns(now_ns)) } else { busy_ns };
        let past = self.past_cache || !flash.journal.volatile || matches!(flash.partition, 1 | 2);
        let busy_ns = flash.settled_ns(now_ns, busy_ns, past);
        let busy_ns = flash.collected_ns(busy_ns);
        if flash.journal.follows() {
            let past_cache = self.past_cache || matches!(flash.partition, 1 | 2);
            let cached = flash.journal.volatile && !past_cache;
            let strike = if cached { flash.faults.strike(Point::Cache) } else { None };
            flash.dips |= strike == Some(Strike::BrownOut);
            flash.journal.end(busy_ns, past_cache, strike == Some(Strike::Lost));
        }
        (busy_ns, errors)
    }

    /// Stores a block on the medium, unless a fault prevents it.
    #[inline]
    fn store(&mut self, medium: &mut Medium, flash: &mut Flash, data: &[u8]) -> std::io::Result<()> {
        let strike = flash.faults.strike(Point::Medium);
        let mut at = self.at;
        match strike {
            Some(Strike::Fail) => {
                // The error shows only while programming: the card has accepted the block before.
                self.late_errors |= status::ERROR;
                if plant::any() {
                    medium.lie_about_failure(at, data);
                }
                return Ok(());
            }
            None if plant::any() && medium.fails_again(at, data) => {
                self.late_errors |= status::ERROR;
                medium.lie_about_failure(at, data);
                return Ok(());
            }
            Some(Strike::Lost) => return Ok(()),
            Some(Strike::BrownOut) => flash.dips = true,
            Some(Strike::Astray(blocks)) => at = astray(at, blocks, u64::from(self.block), medium),
            _ => {}
        }
        flash.wear.written_bytes += data.len() as u64;
        let Some(at) = flash.wear.place(at).filter(|_| flash.wear.worn_out().is_none()) else {
            if flash.wear.worn_out() == Some(WornOut::ReadOnly) {
                // The card wears out in the middle of a transfer.
                self.late_errors |= status::WP_VIOLATION;
            }
            return Ok(());
        };
        if flash.journal.follows() {
            let partition = flash.partition;
            flash.journal.note(medium, partition, at, self.reliable);
        }
        if let Some(Strike::Flip(bit)) = strike {
            let mut wrong = data.to_vec();
            flip(&mut wrong, bit);
            return medium.write(at, &wrong);
        }
        medium.write(at, data)
    }
}

/// Returns the byte address that is `blocks` blocks of `len` bytes after `at` (before it, if
/// negative), limited to the last block of the medium.
fn astray(at: u64, blocks: i32, len: u64, medium: &Medium) -> u64 {
    let away = u64::from(blocks.unsigned_abs()).saturating_mul(len);
    let to = if blocks < 0 { at.saturating_sub(away) } else { at.saturating_add(away) };
    to.min(medium.bytes().saturating_sub(len))
}

/// Flips a bit of a block; the number is taken modulo the block's bits.
fn flip(block: &mut [u8], bit: u32) {
    let place = bit as usize % (block.len() * 8).max(1);
    if let Some(byte) = block.get_mut(place / 8) {
        *byte ^= 1 << (place % 8);
    }
}
