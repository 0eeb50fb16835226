//! An SLC cache: a part of the flash that stores one bit per flash cell, and is written faster.
//!
//! As long as the SLC cache has room, the write cache drains into it at [`Slc::bytes_per_s`]. When
//! the SLC cache is full, the write cache drains into the other flash at the lower rate
//! [`super::Timing::drain_bytes_per_s`]. While the write cache is empty, the card moves the content
//! of the SLC cache to the other flash. This frees room in the SLC cache at
//! [`Slc::free_bytes_per_s`].

/// Size and rates of the SLC cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slc {
    /// Size of the SLC cache in bytes.
    pub bytes: u64,
    /// Rate in bytes per second at which the flash programs the SLC cache.
    pub bytes_per_s: u64,
    /// Rate in bytes per second at which an idle card frees the SLC cache; 0: never.
    pub free_bytes_per_s: u64,
}

/// Factor of amounts: they are in bytes times 10^9, so that a rate in bytes per second is an amount
/// per nanosecond.
const SCALE: u128 = 1_000_000_000;

/// Fill level of the flash's SLC cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filled {
    /// Number of bytes in the SLC cache, times 10^9.
    level: u128,
    /// Amount that was programmed while the SLC cache had no room and that [`Filled::fill`] has not
    /// returned yet, because it is less than a byte: a fraction of a byte times 10^9.
    beyond: u128,
}

impl Filled {
    fn room(&self, slc: &Slc) -> u128 {
        (u128::from(slc.bytes) * SCALE).saturating_sub(self.level)
    }

    /// Returns how much data the flash programs in `ns` nanoseconds, in bytes times 10^9 (a rate in
    /// bytes per second times a time in ns, without a division). `slow` is the rate in bytes per
    /// second after the SLC cache is full.
    pub(super) fn programmed(&self, slc: &Slc, slow: u64, ns: u64) -> u64 {
        let (room, ns) = (self.room(slc), u128::from(ns));
        let fast_ns = room.div_ceil(u128::from(slc.bytes_per_s.max(1)));
        let amount = match ns < fast_ns {
            true => ns * u128::from(slc.bytes_per_s),
            false => room + (ns - fast_ns) * u128::from(slow),
        };
        u64::try_from(amount).unwrap_or(u64::MAX)
    }

    /// Returns the time in ns that the flash needs to program this amount (bytes times 10^9);
    /// `slow` is the rate without room in the SLC cache.
    pub(super) fn time_ns(&self, slc: &Slc, slow: u64, amount: u64) -> u64 {
        let (room, amount) = (self.room(slc), u128::from(amount));
        let fast_ns = amount.min(room).div_ceil(u128::from(slc.bytes_per_s.max(1)));
        let slow_ns = amount.saturating_sub(room).div_ceil(u128::from(slow.max(1)));
        u64::try_from(fast_ns + slow_ns).unwrap_or(u64::MAX)
    }

    /// Records that the flash programmed this amount (bytes times 10^9). Returns the number of bytes
    /// for which the SLC cache had no room.
    pub(super) fn fill(&mut self, slc: &Slc, amount: u64) -> u64 {
        let amount = u128::from(amount);
        let inside = self.room(slc).min(amount);
        self.level += inside;
        let beyond = self.beyond + (amount - inside);
        self.beyond = beyond % SCALE;
        u64::try_from(beyond / SCALE).unwrap_or(u64::MAX)
    }

    /// Records that the card was idle for `ns` nanoseconds, in which it frees the SLC cache.
    pub(super) fn idle(&mut self, slc: &Slc, ns: u64) {
        self.level = self.level.saturating_sub(u128::from(ns) * u128::from(slc.free_bytes_per_s));
    }
}

#[cfg(test)]
mod tests {
    use super::super::spread::Spread;
    use super::super::{Flash, Timing};
    use super::*;

    const MS: u64 = 1_000_000;

    /// A flash with an SLC cache of 64 KiB at four times the rate of the other flash, which drains
    /// 4096 bytes in 1 ms.
    fn flash(free_bytes_per_s: u64) -> Flash {
        let slc = Slc { bytes: 65_536, bytes_per_s: 4 * 4_096_000, free_bytes_per_s };
        let spread = Spread { seed: 1, retries: None, collections: None, slc: Some(slc) };
        let timing = Timing { write_first_ns: 0, write_next_4k_ns: 0, ..super::super::tests::timing() };
        Flash::new(Timing { spread: Some(spread), ..timing })
    }

    /// Writes `units` units of 4096 bytes, the first at `from_ns`, and each further one as soon as
    /// the unit before is in the write cache. Returns the time in ns at which the last unit is in
    /// the write cache.
    fn written(flash: &mut Flash, from_ns: u64, units: u64) -> u64 {
        (0..units).fold(from_ns, |now_ns, unit| flash.write(now_ns, unit * 4096, 4096, 1, true))
    }

    #[test]
    fn writes_are_fast_up_to_the_cliff_and_slow_after_it() {
        let mut flash = flash(0);
        // Two units are in the write cache, 14 have drained.
        let full_ns = written(&mut flash, 0, 16);
        assert_eq!(full_ns, 14 * MS / 4);
        // The two units in the write cache still fit into the SLC cache, then the rate is low.
        let later_ns = written(&mut flash, full_ns, 10);
        assert_eq!(later_ns - full_ns, 2 * MS / 4 + 8 * MS);
        assert_eq!(flash.drained_ns(later_ns), later_ns + 2 * MS);
        assert_eq!(flash.work.beyond_slc_bytes, 8 * 4096);
        // A pause does not free the SLC cache.
        let again_ns = written(&mut flash, later_ns + 1000 * MS, 4);
        assert_eq!(again_ns, later_ns + 1000 * MS + 2 * MS);
    }

    #[test]
    fn an_idle_card_frees_it_at_its_rate() {
        let mut flash = flash(4_096_000);
        let full_ns = written(&mut flash, 0, 16);
        let drained_ns = flash.drained_ns(full_ns);
        assert_eq!(drained_ns, 4 * MS);
        // Eight units are free again after 8 ms of idle time.
        let now_ns = drained_ns + 8 * MS;
        let end_ns = written(&mut flash, now_ns, 10);
        assert_eq!(end_ns - now_ns, 8 * MS / 4);
        assert_eq!(written(&mut flash, end_ns, 1) - end_ns, MS);
    }

    #[test]
    fn a_wait_across_the_cliff_has_both_rates() {
        let mut flash = flash(0);
        assert_eq!(flash.write(0, 0, 61_440 + 8192, 17, true), 15 * MS / 4);
        // Room for one unit is left in the SLC cache.
        let from_ns = 15 * MS / 4;
        assert_eq!(flash.write(from_ns, 0, 8192, 2, true) - from_ns, MS / 4 + MS);
        // The result does not depend on how often the time is asked for.
        let done_ns = flash.drained_ns(from_ns);
        assert_eq!(flash.drained_ns(from_ns + 2 * MS), done_ns);
    }
}
