//! Reads that go on where the last one ended.
//!
//! Behind a read command the card fetches what follows, up to [`Prefetch::bytes`] beyond what the
//! host has read, at [`Prefetch::bytes_per_s`]. A command that begins exactly where the last read
//! ended is served from there: its first block comes after [`Prefetch::hit_ns`], or when its 4 KiB
//! have been fetched. So does each further 4 KiB; the fetching goes on meanwhile. Any other read
//! costs what it costs without, and a write or an erase ends the run.

use super::{Flash, UNIT_BYTES};

/// A second, in nanoseconds.
const S: u128 = 1_000_000_000;

/// The card reads ahead of a run of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// How far beyond what the host has read.
    pub bytes: u64,
    /// From a command that goes on to its first block, if that is there.
    pub hit_ns: u64,
    /// How fast the flash fills it.
    pub bytes_per_s: u64,
}

/// The run under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The host has read up to here.
    next: u64,
    /// The card has fetched up to here, at this time.
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

    /// When all below this address is there.
    fn there_ns(&self, prefetch: &Prefetch, address: u64) -> u64 {
        let missing = u128::from(address.saturating_sub(self.fetched));
        let wait_ns = (missing * S).div_ceil(u128::from(prefetch.bytes_per_s.max(1)));
        self.at_ns.saturating_add(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }
}

/// The end of the 4 KiB in which this address is.
fn unit_end(at: u64) -> u64 {
    (at / UNIT_BYTES + 1).saturating_mul(UNIT_BYTES)
}

impl Flash {
    /// When the first block is there of a read command that goes on with the run; `None`: it does
    /// not.
    pub(crate) fn goes_on_ns(&mut self, at: u64, now_ns: u64) -> Option<u64> {
        let prefetch = self.timing.prefetch?;
        let run = self.run.as_mut().filter(|run| run.next == at)?;
        run.advance(&prefetch, now_ns);
        let there_ns = run.there_ns(&prefetch, unit_end(at));
        Some(there_ns.max(now_ns.saturating_add(prefetch.hit_ns)))
    }

    /// When the next 4 KiB of such a command are there, which begin at this address.
    pub(crate) fn fetched_ns(&mut self, at: u64, now_ns: u64) -> u64 {
        let (Some(prefetch), Some(run)) = (self.timing.prefetch, &mut self.run) else { return now_ns };
        run.advance(&prefetch, now_ns);
        run.next = run.next.max(at);
        run.there_ns(&prefetch, unit_end(at)).max(now_ns)
    }

    /// A read command has ended at this address; `on`: it went on with the run.
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

    /// 4 KiB in 40.96 us, three of them ahead.
    const PREFETCH: Prefetch = Prefetch { bytes: 12_288, hit_ns: 10_000, bytes_per_s: 100_000_000 };

    fn flash() -> Flash {
        Flash::new(Timing { prefetch: Some(PREFETCH), ..super::super::tests::timing() })
    }

    #[test]
    fn a_command_that_goes_on_takes_what_was_fetched() {
        let mut flash = flash();
        assert_eq!(flash.goes_on_ns(0, 0), None);
        flash.read_to(4096, false, 100_000);
        // Elsewhere, and the same place again.
        assert_eq!(flash.goes_on_ns(0, 500_000), None);
        // At once: the fetch has only begun.
        assert_eq!(flash.goes_on_ns(4096, 100_000), Some(140_960));
        assert_eq!(flash.goes_on_ns(4096, 135_000), Some(145_000));
        // Later: it is there.
        assert_eq!(flash.goes_on_ns(4096, 500_000), Some(510_000));
    }

    #[test]
    fn a_long_command_outruns_the_window_and_then_goes_at_the_speed_of_the_flash() {
        let mut flash = flash();
        flash.read_to(0, false, 0);
        assert_eq!(flash.goes_on_ns(0, 1_000_000), Some(1_010_000));
        // Three units are there; the bus takes each in 1 us.
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
