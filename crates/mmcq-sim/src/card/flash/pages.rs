//! Reads by page, and reading ahead of what was requested.
//!
//! The first page comes [`super::Timing::read_first_ns`] after the command. The array is a
//! pipeline: the second page of the command comes [`Pages::second_ns`] after the end of the first
//! one, all later ones in time. Blocks follow each other at wire time plus [`Pages::gap_ns`]. That
//! is also the rate at which the card fetches.
//!
//! While an open-ended read waits for the host, the card continues to fetch until its buffer is
//! full. So a transfer that continues after a pause finds its next pages in the buffer. The price:
//! a stop interrupts a page fetch, and the first page of the next read begins only
//! [`Ahead::abort_ns`] later, unless the buffer was full or the end of the card was reached. A read
//! counted by CMD23 is either fetched up to its count, or like an open-ended one
//! ([`Ahead::when_counted`]). CMD17 fetches only its block.
//!
//! The bus is never faster than the array, so the pages in the buffer grow only while the host
//! pauses. The buffer is assumed to be large enough to hide the restart of the pipeline: four pages
//! or more.

use super::super::{BusState, link};
use super::Flash;

/// Reads by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Size of a page, a power of two.
    pub page_bytes: u64,
    /// Time in ns from the end of the first page to the second, while the pipeline is not yet full.
    pub second_ns: u64,
    /// Time in ns from block to block, in addition to the wire time.
    pub gap_ns: u64,
    /// Reading ahead, if the card does it.
    pub ahead: Option<Ahead>,
}

/// Reading ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Number of bytes that the card reads ahead.
    pub bytes: u64,
    /// Time in ns from the end of a read to the first page of the next, if a page fetch was
    /// interrupted.
    pub abort_ns: u64,
    /// Whether the card also reads ahead beyond the count of CMD23.
    pub when_counted: bool,
}

/// Clocks between two blocks [SD 4.12.1: N_AC at least].
const GAP_CLK: u64 = 8;

/// State of a read command in the pipeline.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// The page being sent, once a block was sent.
    page: Option<u64>,
    /// Whether the pipeline has delivered a second page.
    full: bool,
    /// Earliest time in ns of the next block.
    due_ns: u64,
    /// Time in ns from block to block.
    block_ns: u64,
    /// Time in ns in which blocks could have been sent, but the host did not take any.
    paused_ns: u64,
}

impl Reading {
    /// Returns the time in ns at which the block at this address starts. `ready_ns`: time of the
    /// command's first page.
    pub(crate) fn start_ns(
        &mut self,
        pages: &Pages,
        at: u64,
        len: u16,
        ready_ns: u64,
        bus: &BusState,
        now_ns: u64,
    ) -> u64 {
        let page = at / pages.page_bytes;
        let due_ns = match self.page {
            None => ready_ns,
            Some(sent) if sent == page || self.full => self.due_ns,
            Some(_) => {
                self.full = true;
                self.due_ns.saturating_add(pages.second_ns)
            }
        };
        if self.page.is_some() {
            self.paused_ns = self.paused_ns.saturating_add(now_ns.saturating_sub(due_ns));
        }
        self.page = Some(page);
        let start_ns = now_ns.max(due_ns);
        let clocks = link::block_clk(bus, len) + GAP_CLK;
        self.block_ns = link::clocks_ns(bus, clocks).saturating_add(pages.gap_ns);
        self.due_ns = start_ns.saturating_add(self.block_ns);
        start_ns
    }

    /// Returns whether the card is fetching at this time. `len`: bytes in a block. `limit`: address
    /// up to which it reads ahead.
    fn fetching(&self, pages: &Pages, ahead: &Ahead, len: u16, limit: u64, now_ns: u64) -> bool {
        let Some(page) = self.page else {
            return true;
        };
        let page_end = (page + 1).saturating_mul(pages.page_bytes);
        let room = ahead.bytes.min(limit.saturating_sub(page_end));
        let fill_ns = (room / u64::from(len.max(1))).saturating_mul(self.block_ns);
        let fill_ns = if self.full { fill_ns } else { fill_ns.saturating_add(pages.second_ns) };
        let paused_ns = self.paused_ns.saturating_add(now_ns.saturating_sub(self.due_ns));
        room > 0 && paused_ns < fill_ns
    }

    /// Ends the read at `now_ns`, when the card would have continued to the address `limit`.
    pub(crate) fn stop(&self, flash: &mut Flash, len: u16, limit: u64, now_ns: u64) {
        if let Some(pages) = flash.timing.pages
            && let Some(ahead) = pages.ahead
            && self.fetching(&pages, &ahead, len, limit, now_ns)
        {
            flash.fetching_until_ns = now_ns.saturating_add(ahead.abort_ns);
        }
    }
}

impl Flash {
    /// Returns the time in ns of the first page of a read command that came at `now_ns`.
    pub(crate) fn first_page_ns(&self, now_ns: u64) -> u64 {
        now_ns.max(self.fetching_until_ns).saturating_add(self.timing.read_first_ns)
    }
}
