//! Blocks between the bus and the medium, the same for both standards.

use super::flash::{Flash, Reading, UNIT_BYTES};
use super::medium::Medium;
use super::{BusState, link, status};

/// A read command at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Next byte address.
    pub(crate) at: u64,
    /// Bytes in a block.
    pub(crate) block: u16,
    /// Blocks still to send; `None` until CMD12.
    pub(crate) left: Option<u32>,
    /// First block not before this.
    ready_ns: u64,
    /// 4 KiB that is open, once a block was sent.
    unit: Option<u64>,
    /// CMD17.
    single: bool,
    /// With reads by page.
    reading: Reading,
}

/// What a read gives.
pub(crate) enum Sent {
    /// A block, its start bit at this time.
    Block(u64),
    /// Nothing more; error bits to show.
    Nothing(u32),
}

impl Read {
    /// CMD18; `left`: as many blocks as CMD23 said.
    pub(crate) fn new(at: u64, block: u16, left: Option<u32>, flash: &Flash, now_ns: u64) -> Self {
        let ready_ns = flash.first_page_ns(now_ns);
        Self { at, block, left, ready_ns, unit: None, single: false, reading: Reading::default() }
    }

    /// CMD17.
    pub(crate) fn single(at: u64, block: u16, flash: &Flash, now_ns: u64) -> Self {
        Self { single: true, ..Self::new(at, block, Some(1), flash, now_ns) }
    }

    /// The next block.
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
        if medium.read(self.at, buffer).is_err() {
            return Sent::Nothing(status::CARD_ECC_FAILED);
        }
        let unit = self.at / UNIT_BYTES;
        let start_ns = match (&flash.timing().pages, self.unit) {
            (Some(pages), _) => self.reading.start_ns(pages, self.at, self.block, self.ready_ns, bus, now_ns),
            (None, None) => now_ns.max(self.ready_ns),
            (None, Some(open)) if open == unit => now_ns,
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

    /// The read ends here: after its last block, by CMD12, or because the card is deselected.
    pub(crate) fn stop(&self, medium: &Medium, flash: &mut Flash, now_ns: u64) {
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

/// A write command at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// Next byte address.
    pub(crate) at: u64,
    /// Bytes in a block.
    pub(crate) block: u16,
    /// Blocks still to come; `None` until CMD12.
    pub(crate) left: Option<u32>,
    /// Blocks stored.
    pub(crate) stored: u32,
    /// Busy until it is in the flash itself.
    pub(crate) reliable: bool,
    /// After an error all further blocks are ignored until CMD12.
    pub(crate) deaf: bool,
    /// Bytes and 4 KiB touched that the cache has not been given yet.
    pending_bytes: u64,
    pending_units: u64,
    last_unit: Option<u64>,
}

/// How a written block was taken.
pub(crate) enum Taken {
    /// Stored; busy between blocks until then.
    More(u64),
    /// Stored, and the command's data end here.
    Last,
    /// Not stored; error bits to show.
    Refused(u32),
}

impl Write {
    pub(crate) fn new(at: u64, block: u16, left: Option<u32>, reliable: bool) -> Self {
        Self {
            at,
            block,
            left,
            stored: 0,
            reliable,
            deaf: false,
            pending_bytes: 0,
            pending_units: 0,
            last_unit: None,
        }
    }

    /// Takes a good block.
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
        if medium.write(self.at, data).is_err() {
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
        self.stored += 1;
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
        let busy_ns = flash.write(now_ns, self.pending_bytes, self.pending_units, false);
        self.pending_bytes = 0;
        self.pending_units = 0;
        Taken::More(busy_ns)
    }

    /// The data end; returns the end of busy and error bits.
    pub(crate) fn end(&mut self, medium: &mut Medium, flash: &mut Flash, now_ns: u64) -> (u64, u32) {
        let errors = if medium.commit().is_err() { status::ERROR } else { 0 };
        if self.stored == 0 {
            return (now_ns, errors);
        }
        let busy_ns = match flash.timing().close {
            None => flash.write(now_ns, self.pending_bytes, self.pending_units, true),
            Some(close) => {
                let bytes = u64::from(self.stored) * u64::from(self.block);
                flash.close(&close, self.at.saturating_sub(bytes), bytes, now_ns)
            }
        };
        let busy_ns = if self.reliable { busy_ns.max(flash.drained_ns(now_ns)) } else { busy_ns };
        (busy_ns, errors)
    }
}
