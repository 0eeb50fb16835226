//! Prefetching for reads that continue where the last one ended.
//!
//! After a read command the card fetches what follows at [`Prefetch::bytes_per_s`], up to
//! [`Prefetch::bytes`] beyond what the host has read. The next command may begin exactly where the
//! last read ended. Then its first block comes after [`Prefetch::hit_ns`], or as soon as its first
//! 4 KiB are fetched. Each further 4 KiB come as soon as they are fetched, and the card continues
//! to fetch meanwhile. Any other read takes as long as without prefetching. A write or an erase
//! ends the run of reads.

use super::{Flash, UNIT_BYTES};

/// Nanoseconds in a second.
const S: u128 = 1_000_000_000;

/// Size and rate of a card's prefetching for consecutive reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Number of bytes that the card fetches beyond what the host has read.
    pub bytes: u64,
    /// Time in ns from a command that continues the run of reads to its first block, if this block
    /// is already fetched.
    pub hit_ns: u64,
    /// Rate in bytes per second at which the flash fills the prefetch buffer.
    pub bytes_per_s: u64,
}

/// State of a run of consecutive reads, in which each read begins where the last one ended: how far
/// the host has read, and how far the card has fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Byte address up to which the host has read.
    next: u64,
    /// Byte address up to which the card had fetched at the time `at_ns`.
    fetched: u64,
    at_ns: u64,
}

impl Run {
    fn advance(&mut self, prefetch: &Prefetch, now_ns: u64) {
        let passed_ns = u128::from(now_ns.saturating_sub(self.at_ns));
        let gained = passed_ns * u128::from(prefetch.bytes_per_s) / S;
        let most = self.next.saturating_add(prefetch.bytes);
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        self.fetched = self.fetched.saturating_add(gained).min(most);
        self.at_ns = self.at_ns.max(now_ns);
    }

    /// Returns the time in ns at which all data below this address are fetched.
    fn there_ns(&self, prefetch: &Prefetch, address: u64) -> u64 {
        let missing = u128::from(address.saturating_sub(self.fetched));
        let wait_ns = (missing * S).div_ceil(u128::from(prefetch.bytes_per_s.max(1)));
        self.at_ns.saturating_add(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }
}

/// Returns the end address of the 4 KiB unit that contains this address.
fn unit_end(at: u64) -> u64 {
    (at / UNIT_BYTES + 1).saturating_mul(UNIT_BYTES)
}

impl Flash {
    /// Returns the time in ns of the first block of a read command that begins at byte address
    /// `at`, if the last read ended there. Otherwise returns `None`: the card has prefetched
    /// nothing for this command.
    pub(crate) fn goes_on_ns(&mut self, at: u64, now_ns: u64) -> Option<u64> {
        let prefetch = self.timing.prefetch?;
        let run = self.run.as_mut().filter(|run| run.next == at)?;
        run.advance(&prefetch, now_ns);
        let there_ns = run.there_ns(&prefetch, unit_end(at));
        Some(there_ns.max(now_ns.saturating_add(prefetch.hit_ns)))
    }

    /// Returns the time in ns at which the card has fetched the 4 KiB unit at byte address `at`
    /// from the flash. The read must continue the card's present run of consecutive reads.
    pub(crate) fn fetched_ns(&mut self, at: u64, now_ns: u64) -> u64 {
        let (Some(prefetch), Some(run)) = (self.timing.prefetch, &mut self.run) else { return now_ns };
        run.advance(&prefetch, now_ns);
        run.next = run.next.max(at);
        run.there_ns(&prefetch, unit_end(at)).max(now_ns)
    }

    /// Records that a read command ended at byte address `at`. `on`: the command continued the
    /// sequence of reads in which each begins where the last one ended.
    pub(crate) fn read_to(&mut self, at: u64, on: bool, now_ns: u64) {
        let Some(prefetch) = self.timing.prefetch else { return };
        match &mut self.run {
            Some(run) if on || run.next == at => {
                run.advance(&prefetch, now_ns);
                run.next = at;
            }
            run => *run = Some(Run { next: at, fetched: at, at_ns: now_ns }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Timing;
    use super::*;

    /// Prefetching that needs 40.96 us for 4 KiB, and goes at most three units of 4 KiB beyond what
    /// the host has read.
    const PREFETCH: Prefetch = Prefetch { bytes: 12_288, hit_ns: 10_000, bytes_per_s: 100_000_000 };

    fn flash() -> Flash {
        Flash::new(Timing { prefetch: Some(PREFETCH), ..super::super::tests::timing() })
    }

    #[test]
    fn a_command_that_goes_on_takes_what_was_fetched() {
        let mut flash = flash();
        assert_eq!(flash.goes_on_ns(0, 0), None);
        flash.read_to(4096, false, 100_000);
        // A read at another place, and a second read of the same place: neither continues the run.
        assert_eq!(flash.goes_on_ns(0, 500_000), None);
        // Read again at once: the fetch has only begun.
        assert_eq!(flash.goes_on_ns(4096, 100_000), Some(140_960));
        assert_eq!(flash.goes_on_ns(4096, 135_000), Some(145_000));
        // Read later: the data are fetched already.
        assert_eq!(flash.goes_on_ns(4096, 500_000), Some(510_000));
    }

    #[test]
    fn a_long_command_outruns_the_window_and_then_goes_at_the_speed_of_the_flash() {
        let mut flash = flash();
        flash.read_to(0, false, 0);
        assert_eq!(flash.goes_on_ns(0, 1_000_000), Some(1_010_000));
        // Three units are fetched; the bus takes 1 us for each.
        let mut now_ns = 1_010_000;
        let mut waits = Vec::new();
        for unit in 1..6 {
            now_ns += 1_000;
            let start_ns = flash.fetched_ns(unit * 4096, now_ns);
            waits.push(start_ns - now_ns);
            now_ns = start_ns;
        }
        assert_eq!(waits, [0, 0, 40_960 - 2_000, 39_960, 39_960]);
    }
}
