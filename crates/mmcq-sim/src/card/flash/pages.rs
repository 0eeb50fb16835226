//! Reads by page, and reading ahead of what was requested.
//!
//! The first page comes [`super::Timing::read_first_ns`] after the command. The flash array is a
//! pipeline: the second page of the command comes [`Pages::second_ns`] after the end of the first
//! page, and all later pages come without a delay. Blocks follow each other at wire time plus
//! [`Pages::gap_ns`]; the card also fetches at this rate.
//!
//! While an open-ended read waits for the host, the card continues to fetch until its buffer is
//! full. So a transfer that continues after a pause finds its next pages in the buffer. But a stop
//! may interrupt a page fetch: then the flash cannot fetch for the next read until
//! [`Ahead::abort_ns`] after the stop. There is no such delay if the buffer was full, or if the
//! fetch had reached the end of the card. In a closed-ended read (after CMD23) the card stops
//! fetching at the count, or continues as for an open-ended read ([`Ahead::when_counted`]). CMD17
//! fetches only its block.
//!
//! The bus is never faster than the flash array, so that the number of buffered pages grows only
//! while the host pauses. The model assumes a buffer of four pages or more, which hides the restart
//! of the pipeline.

use super::super::{BusState, link};
use super::Flash;

/// Times of a card that reads by flash page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Size of a flash page in bytes, a power of two.
    pub page_bytes: u64,
    /// Time in ns from the end of a command's first page to the begin of its second page, while the
    /// pipeline fills.
    pub second_ns: u64,
    /// Extra time in ns between two blocks, in addition to the wire time.
    pub gap_ns: u64,
    /// How the card reads ahead of the host; `None`: it does not.
    pub ahead: Option<Ahead>,
}

/// How far a card reads ahead of the host, and what it costs to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Number of bytes that the card reads ahead of the host.
    pub bytes: u64,
    /// Time in ns for which the flash is still occupied after the end of a read, if the stop
    /// interrupted a page fetch. The next read fetches its first page only afterwards.
    pub abort_ns: u64,
    /// Whether the card also reads ahead beyond the count of CMD23.
    pub when_counted: bool,
}

/// Number of clocks between two blocks: the shortest N_AC [SD 4.12.1].
const GAP_CLK: u64 = 8;

/// Progress of a read command: which flash page is being sent, and when the next block can start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Number of the page that is being sent; `None` before the first block.
    page: Option<u64>,
    /// Whether the pipeline has delivered the second page, so that later pages come without a
    /// delay.
    full: bool,
    /// Earliest time in ns at which the next block can start.
    due_ns: u64,
    /// Time in ns from the start of a block to the start of the next block.
    block_ns: u64,
    /// Total time in ns for which the host has paused. In this time the card could have sent
    /// blocks.
    paused_ns: u64,
}

impl Reading {
    /// Returns the time in ns at which the block at byte address `at`, of `len` bytes, starts;
    /// `ready_ns` is the time of the command's first page.
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

    /// Returns whether the flash is fetching a page for this read now. `len` is the number of bytes
    /// in a block. The card reads ahead up to the byte address `limit`.
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

    /// Stops the read of blocks of `len` bytes at `now_ns`. Without the stop the card would have
    /// read ahead up to the byte address `limit`.
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
    /// Returns the time in ns at which the first page is read from the flash, for a read command
    /// that came at `now_ns`.
    pub(crate) fn first_page_ns(&self, now_ns: u64) -> u64 {
        now_ns.max(self.fetching_until_ns).saturating_add(self.timing.read_first_ns)
    }
}
