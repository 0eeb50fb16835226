//! Flash times that the write cache does not hide.
//!
//! With the cache on, a write ends when its data are in the cache, which drains to the flash in the
//! background. A write bypasses the cache if the cache is off, or if the write is reliable or
//! forced. Such a write ends when the flash has programmed everything received earlier and its own
//! data, and then [`Cache::program_ns`] more. A flush lasts until the cache has drained, and then
//! [`Cache::flush_ns`] more for the mapping tables. A flush with nothing written since the last one
//! takes the time of a usual switch.

use super::Flash;

/// Times of the flash that show only in writes that bypass the cache, and in flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Extra busy time in ns of a write command that bypasses the cache, after its data have
    /// drained.
    pub program_ns: u64,
    /// Extra busy time in ns of a flush, after the cache has drained.
    pub flush_ns: u64,
}

impl Flash {
    /// Returns the time in ns at which busy ends for a write command. `busy_ns` is this time
    /// without the extra times of [`Cache`]. With `past` the write bypasses the cache: busy ends at
    /// the earliest `program_ns` after the cache has drained. Without `past` the result is
    /// `busy_ns`, and the next flush takes `flush_ns` more.
    pub(crate) fn settled_ns(&mut self, now_ns: u64, busy_ns: u64, past: bool) -> u64 {
        match (self.timing.cache, past) {
            (Some(cache), true) => {
                let drained_ns = self.drained_ns(now_ns).saturating_add(cache.program_ns);
                busy_ns.max(drained_ns)
            }
            (Some(_), false) => {
                self.dirty = true;
                busy_ns
            }
            (None, _) => busy_ns,
        }
    }

    /// Returns the end in ns of a flush that begins now; `least_ns` is the earliest possible end.
    pub(super) fn flushed_ns(&mut self, now_ns: u64, least_ns: u64) -> u64 {
        let drained_ns = self.drained_ns(now_ns);
        let flush_ns = match self.timing.cache {
            Some(cache) if std::mem::take(&mut self.dirty) => cache.flush_ns,
            _ => 0,
        };
        drained_ns.saturating_add(flush_ns).max(least_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::medium::{Fill, Medium};
    use super::super::Timing;
    use super::*;

    const CACHE: Cache = Cache { program_ns: 150_000, flush_ns: 500_000 };

    fn flash(cache: Option<Cache>) -> Flash {
        Flash::new(Timing {
            write_first_ns: 20_000,
            write_next_4k_ns: 0,
            cache_bytes: 1 << 20,
            // At this rate 4 KiB drain in 40.96 us.
            drain_bytes_per_s: 100_000_000,
            cache,
            ..super::super::tests::timing()
        })
    }

    fn write(flash: &mut Flash, now_ns: u64, past: bool) -> u64 {
        let busy_ns = flash.write(now_ns, 0, 4096, 1, true);
        flash.settled_ns(now_ns, busy_ns, past)
    }

    fn flush(flash: &mut Flash, now_ns: u64, least_ns: u64) -> (u64, u32) {
        let mut medium = Medium::sparse(1 << 20, Fill::Pattern(0)).unwrap();
        flash.flush(&mut medium, now_ns, least_ns)
    }

    #[test]
    fn a_write_past_the_cache_waits_for_the_flash() {
        let mut flash = flash(Some(CACHE));
        assert_eq!(write(&mut flash, 0, false), 20_000);
        // Both writes drain, and the second is programmed.
        assert_eq!(write(&mut flash, 0, true), 2 * 40_960 + 150_000);
        assert_eq!(write(&mut flash, 9_000_000, true), 9_000_000 + 40_960 + 150_000);
    }

    #[test]
    fn a_flush_grows_with_what_the_cache_holds_and_costs_nothing_when_that_is_nothing() {
        let mut flash = flash(Some(CACHE));
        assert_eq!(flush(&mut flash, 0, 400), (400, 0));
        for count in [1, 4, 16] {
            (0..count).for_each(|_| _ = write(&mut flash, 0, false));
            assert_eq!(flush(&mut flash, 0, 400).0, count * 40_960 + 500_000);
            // By then all data are in the flash.
            flash = self::flash(Some(CACHE));
        }
        write(&mut flash, 0, false);
        assert_eq!(flush(&mut flash, 1_000_000, 1_000_400).0, 1_500_000);
        assert_eq!(flush(&mut flash, 2_000_000, 2_000_400).0, 2_000_400);
        write(&mut flash, 3_000_000, true);
        assert_eq!(flush(&mut flash, 4_000_000, 4_000_400).0, 4_000_400);
    }

    #[test]
    fn without_prices_a_write_is_over_when_it_is_taken() {
        let mut flash = flash(None);
        assert_eq!(write(&mut flash, 0, true), 20_000);
        assert_eq!(flush(&mut flash, 0, 400).0, 40_960);
    }
}
