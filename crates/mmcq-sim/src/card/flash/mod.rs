//! Times of the flash. All numbers are integer nanoseconds and bytes.
//!
//! Reads: [`Timing::read_first_ns`] from the command to its first 4 KiB, and
//! [`Timing::read_next_4k_ns`] before each further 4 KiB.
//!
//! Writes: a buffer receives data at wire speed. At the end of the command's data the card is busy
//! for [`Timing::write_first_ns`], for [`Timing::write_next_4k_ns`] for each 4 KiB touched, and
//! until the write cache has room. The cache drains into the flash at a steady rate (a token
//! bucket, exact to the nanosecond). The flash programs whole pages ([`Timing::program_bytes`]): a
//! write of 4 KiB may fill the cache as much as a write of 16 KiB. A long write command that does
//! not continue the one before may take [`Scatter::busy_ns`] more: the card closes its open stripe.
//!
//! A card profile may enable more:
//! - [`Prefetch`]: a read that continues where the last one ended is served from prefetched data.
//! - [`Pages`]: the card reads by flash page through a pipeline, and continues beyond what was
//!   requested ([`Ahead`]).
//! - [`Cache`]: a write that bypasses the cache waits for the flash, and a flush takes time.
//! - [`Spread`]: some reads need further tries, some writes meet garbage collection, and a part of
//!   the flash is written faster ([`Slc`]).
//! - [`Close`]: a write command ends only when all of its data are in the flash. A power loss may
//!   lose data that are still in the cache.

mod cache;
mod close;
mod pages;
mod prefetch;
mod slc;
mod spread;
mod work;

pub use cache::Cache;
pub use close::{Close, Gc, Reopen};
pub(crate) use pages::Reading;
pub use pages::{Ahead, Pages};
pub use prefetch::Prefetch;
pub use slc::Slc;
pub use spread::{Delays, Spread, WHOLE};
pub use work::{Times, Work};

use super::cut::{AtStake, Journal, Kept, Media};
use super::medium::Medium;
use super::quirk::{Quirks, Wear};
use crate::faults::{Faults, Point, Strike};
use close::{Runs, Unprogrammed};

/// Size in bytes of the unit in which the card's flash translation layer works.
pub const UNIT_BYTES: u64 = 4096;

/// Times and sizes of a card's flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time in ns from the read command to the first block.
    pub read_first_ns: u64,
    /// Time in ns before the first block of each further 4 KiB of a read command. Not used with
    /// [`Timing::pages`].
    pub read_next_4k_ns: u64,
    /// Prefetching of sequential reads; `None`: no prefetching. Not used with [`Timing::pages`].
    pub prefetch: Option<Prefetch>,
    /// How reads fetch whole flash pages; `None`: reads have a time for each 4 KiB.
    pub pages: Option<Pages>,
    /// Busy time in ns at the end of a write command. [`Timing::close`] replaces this field,
    /// `write_next_4k_ns` and `buffer_bytes`.
    pub write_first_ns: u64,
    /// Extra busy time in ns of a write command for each 4 KiB that it touches.
    pub write_next_4k_ns: u64,
    /// Size of the write cache in bytes; 0: no limit.
    pub cache_bytes: u64,
    /// Rate in bytes per second at which the cache drains into the flash; 0: it drains at once.
    pub drain_bytes_per_s: u64,
    /// Size in bytes of a page that is programmed as a whole. Each page that a write touches drains
    /// as a whole, unless the write before touched it too. 0: only the written bytes drain. Not
    /// used with [`Timing::close`].
    pub program_bytes: u64,
    /// Extra busy time of a write that does not continue the one before; `None`: no extra time.
    pub scatter: Option<Scatter>,
    /// Size of the receive buffer in bytes. A longer transfer goes into the cache in pieces of this
    /// size, and the card is busy after each piece. 0: a transfer goes into the cache as a whole.
    pub buffer_bytes: u64,
    /// Times of writes that bypass the cache, and of flushes. `None`: a write takes the same time
    /// with the cache off, and a flush lasts until the cache has drained.
    pub cache: Option<Cache>,
    /// Times of a card whose write commands end only when all data are in the flash; `None`: a
    /// write command ends when its data are in the cache.
    pub close: Option<Close>,
    /// How the times of single commands vary. `None`: all commands of a kind take the same time.
    pub spread: Option<Spread>,
    /// Busy time in ns of an erase command.
    pub erase_first_ns: u64,
    /// Extra busy time in ns of an erase command for each erase group.
    pub erase_next_group_ns: u64,
}

/// Extra busy time of a write command that does not begin where the one before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scatter {
    /// Extra busy time in ns at the end of a write command that does not continue the one before.
    pub busy_ns: u64,
    /// Length in bytes above which a command takes the extra time. The card gathers shorter
    /// commands in its cache.
    pub from_bytes: u64,
}

impl Timing {
    /// Returns the busy time in ns after the host has written a register of the card, such as the
    /// CSD.
    #[must_use]
    pub fn register_ns(&self) -> u64 {
        self.close.map_or(self.write_first_ns, |close| close.close_ns)
    }
}

/// State of a card's flash: its cache, its sequential reads and writes, and its faults.
#[derive(Clone, Debug)]
pub struct Flash {
    timing: Timing,
    /// Fill level of the cache in bytes times 10^9. In this unit the cache drains
    /// `drain_bytes_per_s` in each nanosecond.
    level: u64,
    /// Time in ns at which the cache has the fill level `level`.
    level_ns: u64,
    /// Whether the host wrote anything into the cache since the last flush.
    dirty: bool,
    /// The run of consecutive reads: each read begins where the one before ended.
    run: Option<prefetch::Run>,
    /// Time in ns until which the flash still fetches a page that no read needs any more.
    fetching_until_ns: u64,
    /// Number of the flash page that was programmed last; `None`: none was yet.
    page: Option<u64>,
    /// Byte address at which the last write command ended; `None`: the next write continues
    /// nothing.
    written_to: Option<u64>,
    runs: Runs,
    unprogrammed: Unprogrammed,
    chances: spread::Chances,
    slc: slc::Filled,
    /// What the flash did since a caller last took this value
    /// ([`Card::take_work`](super::Card::take_work)).
    pub(crate) work: Work,
    /// Journal of the written sectors that are not in the flash yet, so that a power cut may lose
    /// them.
    pub(crate) journal: Journal,
    /// Faults that strike the card's flash.
    pub(crate) faults: Faults,
    /// How much capacity the flash really has, and after how many written bytes it is worn out. The
    /// registers may show other values.
    pub(crate) wear: Wear,
    /// Number of the partition that the card writes now.
    pub(crate) partition: u8,
    /// Whether the supply voltage dips at the end of the present block (a fault).
    pub(crate) dips: bool,
}

impl Flash {
    /// Makes the flash of a card after power-up: idle, with an empty cache.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            level: 0,
            level_ns: 0,
            dirty: false,
            run: None,
            fetching_until_ns: 0,
            page: None,
            written_to: None,
            runs: Runs::default(),
            unprogrammed: Unprogrammed::default(),
            chances: spread::Chances::new(timing.spread),
            slc: slc::Filled::default(),
            work: Work::default(),
            journal: Journal::default(),
            faults: Faults::none(),
            wear: Wear::default(),
            partition: 0,
            dips: false,
        }
    }

    /// Applies the quirks of the card to its flash.
    #[must_use]
    pub(crate) fn with(mut self, quirks: &Quirks) -> Self {
        self.wear = quirks.wear();
        self.journal.neighbours = quirks.neighbour_damage;
        self.journal.shorn = quirks.shorn;
        self
    }

    /// Returns the times and sizes of the flash.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Puts data of a write command into the cache: `bytes` from byte address `at` on, which touch
    /// `units` units of 4 KiB. They are all data of the command or a part of them; with `last` they
    /// are the end of the command's data. Returns the end of busy in ns.
    pub fn write(&mut self, now_ns: u64, at: u64, bytes: u64, units: u64, last: bool) -> u64 {
        self.run = None;
        let programmed = self.programmed_bytes(at, bytes);
        let room_ns = self.make_room(now_ns, programmed);
        let first_ns = if last { self.timing.write_first_ns } else { 0 };
        room_ns.saturating_add(first_ns).saturating_add(units.saturating_mul(self.timing.write_next_4k_ns))
    }

    /// Ends a write command that wrote `bytes` from byte address `at` on. Returns its extra busy
    /// time in ns: 0 if the command continued the one before, or was short.
    pub(crate) fn scatter_ns(&mut self, at: u64, bytes: u64) -> u64 {
        let Some(scatter) = self.timing.scatter else { return 0 };
        let goes_on = self.written_to.replace(at.saturating_add(bytes)) == Some(at);
        if goes_on || bytes <= scatter.from_bytes { 0 } else { scatter.busy_ns }
    }

    /// Returns the number of bytes that the flash programs for a write of `bytes` at `at`, since it
    /// programs whole pages. A first page that the write before has programmed does not count
    /// again.
    fn programmed_bytes(&mut self, at: u64, bytes: u64) -> u64 {
        let size = self.timing.program_bytes;
        if size == 0 || bytes == 0 {
            return bytes;
        }
        let (first, last) = (at / size, (at.saturating_add(bytes) - 1) / size);
        let goes_on = self.page.replace(last) == Some(first);
        (last - first + u64::from(!goes_on)).saturating_mul(size)
    }

    /// Returns the time in ns at which the cache will have drained into the flash.
    pub fn drained_ns(&mut self, now_ns: u64) -> u64 {
        self.drain(now_ns);
        match self.timing.drain_bytes_per_s {
            0 => now_ns,
            _ => self.level_ns.max(now_ns).saturating_add(self.programming_ns(self.level)),
        }
    }

    /// Returns the time in ns at which an erase of this number of erase groups ends.
    pub fn erase(&mut self, now_ns: u64, groups: u64) -> u64 {
        // After an erase, prefetched data of the old content must not be read.
        self.run = None;
        self.unprogrammed.clear();
        now_ns
            .saturating_add(self.timing.erase_first_ns)
            .saturating_add(groups.saturating_mul(self.timing.erase_next_group_ns))
    }

    /// Handles a power loss: the cache loses its content, and the medium gets back the content
    /// before the lost writes.
    pub fn power_lost(&mut self, medium: &mut Medium, now_ns: u64) {
        let bytes = self.cached_bytes(now_ns);
        self.unprogrammed.undo(medium, bytes);
        self.level = 0;
        self.dirty = false;
        self.run = None;
        self.fetching_until_ns = 0;
        self.written_to = None;
        self.runs.forget_place();
    }

    /// Cuts the power: `keep` decides what is left of each written version of a sector that is not
    /// in the flash yet. Cached data that the journal does not track are lost.
    pub(crate) fn cut(&mut self, media: &mut dyn Media, now_ns: u64, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        if self.journal.follows() {
            // The journal has the same sectors as `unprogrammed`, and more.
            self.unprogrammed.clear();
            self.journal.cut(media, now_ns, keep);
        }
        if let Some(medium) = media.of(0) {
            self.power_lost(medium, now_ns);
        }
    }

    /// Flushes the cache; the flush ends at `least_ns` or later. Returns its end in ns, and its
    /// error bits for R1.
    pub(crate) fn flush(&mut self, media: &mut dyn Media, now_ns: u64, least_ns: u64) -> (u64, u32) {
        let done_ns = self.flushed_ns(now_ns, least_ns);
        self.work.flushes.note(done_ns - now_ns);
        match self.faults.strike(Point::Cache) {
            Some(Strike::Fail) => {
                self.journal.fail_flush(media, now_ns);
                (done_ns, super::status::ERROR)
            }
            // Fault: the card reports a successful flush without flushing.
            Some(Strike::Lost) => (done_ns, 0),
            _ => {
                self.journal.flush(done_ns);
                (done_ns, 0)
            }
        }
    }

    /// Returns the number of received bytes that are not in the flash yet.
    fn cached_bytes(&mut self, now_ns: u64) -> u64 {
        self.drain(now_ns);
        // The level may belong to a later time, such as the end of a wait for room in the cache.
        let early_ns = self.level_ns.saturating_sub(now_ns);
        let level = self.level.saturating_add(early_ns.saturating_mul(self.timing.drain_bytes_per_s));
        level.div_ceil(1_000_000_000)
    }

    fn drain(&mut self, now_ns: u64) {
        let gone_ns = now_ns.saturating_sub(self.level_ns);
        let gone = self.level.min(self.programmed(gone_ns));
        if let Some(slc) = self.slc() {
            let idle_ns = gone_ns.saturating_sub(self.programming_ns(gone));
            self.work.beyond_slc_bytes += self.slc.fill(&slc, gone);
            self.slc.idle(&slc, idle_ns);
        }
        self.level -= gone;
        self.level_ns = self.level_ns.max(now_ns);
    }

    fn slc(&self) -> Option<Slc> {
        self.timing.spread.and_then(|spread| spread.slc)
    }

    /// Returns how much the flash programs in a time of `ns` nanoseconds, in bytes times 10^9.
    fn programmed(&self, ns: u64) -> u64 {
        let rate = self.timing.drain_bytes_per_s;
        match self.slc() {
            Some(slc) => self.slc.programmed(&slc, rate, ns),
            None => ns.saturating_mul(rate),
        }
    }

    /// Returns the time in ns that the flash needs to program this amount (bytes times 10^9).
    fn programming_ns(&self, amount: u64) -> u64 {
        let rate = self.timing.drain_bytes_per_s;
        match self.slc() {
            Some(slc) => self.slc.time_ns(&slc, rate, amount),
            None => amount.div_ceil(rate),
        }
    }

    /// Puts bytes into the cache. Returns the time in ns at which the cache has taken all of them.
    fn make_room(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let rate = self.timing.drain_bytes_per_s;
        if self.timing.cache_bytes == 0 || rate == 0 {
            return now_ns;
        }
        self.drain(now_ns);
        let size = self.timing.cache_bytes.saturating_mul(1_000_000_000);
        let wanted = self.level.saturating_add(bytes.saturating_mul(1_000_000_000));
        let wait_ns = self.programming_ns(wanted.saturating_sub(size));
        let in_ns = self.level_ns.saturating_add(wait_ns);
        let gone = wanted.min(self.programmed(wait_ns));
        if let Some(slc) = self.slc() {
            self.work.beyond_slc_bytes += self.slc.fill(&slc, gone);
        }
        self.level = wanted - gone;
        self.level_ns = in_ns;
        in_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn timing() -> Timing {
        Timing {
            read_first_ns: 100_500,
            read_next_4k_ns: 38_100,
            prefetch: None,
            pages: None,
            write_first_ns: 24_200,
            write_next_4k_ns: 10_000,
            cache_bytes: 8192,
            drain_bytes_per_s: 4_096_000,
            program_bytes: 0,
            scatter: None,
            buffer_bytes: 0,
            cache: None,
            close: None,
            spread: None,
            erase_first_ns: 0,
            erase_next_group_ns: 0,
        }
    }

    #[test]
    fn room_costs_exactly_the_missing_bytes() {
        let mut flash = Flash::new(timing());
        assert_eq!(flash.write(1_000, 0, 4096, 1, true), 1_000 + 34_200);
        assert_eq!(flash.write(1_000, 0, 4096, 1, true), 1_000 + 34_200);
        // The cache is full: 4096 bytes drain in 1 ms.
        assert_eq!(flash.write(1_000, 0, 4096, 1, true), 1_000 + 1_000_000 + 34_200);
        // 0.25 ms later, room for 4096 bytes comes after 0.75 ms more.
        assert_eq!(flash.write(1_251_000, 0, 4096, 1, true), 1_251_000 + 750_000 + 34_200);
        assert_eq!(flash.drained_ns(2_001_000), 4_001_000);
        assert_eq!(flash.drained_ns(9_000_000), 9_000_000);
    }

    #[test]
    fn a_page_is_programmed_as_a_whole_and_once_for_writes_that_go_on_in_it() {
        let page = Timing { program_bytes: 16384, cache_bytes: 16384, ..timing() };
        let mut flash = Flash::new(page);
        // The writes touch flash pages 0 and 5; 16 KiB drain in 4 ms.
        assert_eq!(flash.write(0, 0, 4096, 1, true), 34_200);
        assert_eq!(flash.write(0, 5 * 16384, 4096, 1, true), 4_000_000 + 34_200);
        // The write continues in page 5, and then in page 6.
        assert_eq!(flash.write(4_000_000, 5 * 16384 + 4096, 12288, 3, true), 4_000_000 + 54_200);
        assert_eq!(flash.write(4_000_000, 6 * 16384, 512, 1, true), 8_000_000 + 34_200);
        // A write to page 5 again: the flash programs this page once more.
        assert_eq!(flash.write(8_000_000, 5 * 16384, 512, 1, true), 12_000_000 + 34_200);
    }

    #[test]
    fn a_long_write_that_goes_on_nowhere_costs_more() {
        let scatter = Some(Scatter { busy_ns: 700, from_bytes: 32768 });
        let mut flash = Flash::new(Timing { scatter, ..timing() });
        let costs: Vec<u64> = [
            (0, 65536),       // the first
            (65536, 65536),   // goes on
            (1 << 20, 32768), // short
            (0, 36864),
            (36864, 512),
            (37376, 65536), // goes on
        ]
        .map(|(at, bytes)| flash.scatter_ns(at, bytes))
        .to_vec();
        assert_eq!(costs, [700, 0, 0, 700, 0, 0]);
        assert_eq!(Flash::new(timing()).scatter_ns(0, 1 << 20), 0);
    }

    #[test]
    fn without_a_cache_size_only_the_fixed_busy() {
        let mut flash = Flash::new(Timing { cache_bytes: 0, ..timing() });
        for _ in 0..100 {
            assert_eq!(flash.write(0, 0, 1 << 20, 256, true), 24_200 + 2_560_000);
        }
    }
}
