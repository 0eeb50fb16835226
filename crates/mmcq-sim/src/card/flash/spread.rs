//! Times that vary from command to command: reads that the flash must repeat, and garbage
//! collection in writes.
//!
//! A share of the read commands is delayed: their first page comes only after one or more further
//! tries with other reference voltages. A share of the write commands meets garbage collection, and
//! is busy for longer. The number of tries or collections in a command is geometric: after each
//! one, another follows with the same probability.
//!
//! Each of the two kinds has its own sequence of random numbers, which begins at [`Spread::seed`].
//! So the same commands take the same times whenever the model is executed.

use super::{Flash, Slc};

/// The whole of a share or a probability: [`Delays::share`] counts parts of 10^9.
pub const WHOLE: u32 = 1_000_000_000;
/// Largest number of read retries or garbage collections in one command.
const MOST: u64 = 32;

/// How the times of a card's single commands vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Seed of the random sequences that decide which commands are delayed.
    pub seed: u64,
    /// Delays of read commands that need further tries; `None`: no read does.
    pub retries: Option<Delays>,
    /// Delays of write commands that meet garbage collection; `None`: no write does.
    pub collections: Option<Delays>,
    /// The SLC cache, a part of the flash that is written faster than the other flash; `None`: the
    /// card has no SLC cache.
    pub slc: Option<Slc>,
}

/// Delays that a share of all read or write commands has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Share of all read commands, or of all write commands, that are delayed, in parts of
    /// [`WHOLE`].
    pub share: u32,
    /// Time in ns of one delay, such as a repeated read or a garbage collection.
    pub each_ns: u64,
    /// Probability, in parts of [`WHOLE`], that the same command has one more delay after each
    /// delay.
    pub again: u32,
}

impl Delays {
    /// Draws the delay of the next command in ns; 0 for most commands.
    fn next_ns(&self, chance: &mut Chance) -> u64 {
        if !chance.draw_below(self.share) {
            return 0;
        }
        let mut count = 1;
        while count < MOST && chance.draw_below(self.again) {
            count += 1;
        }
        self.each_ns.saturating_mul(count)
    }
}

/// A sequence of pseudo-random numbers (SplitMix64).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chance {
    state: u64,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Chance { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws the next number. Returns true with the probability `part` of [`WHOLE`].
    fn draw_below(&mut self, part: u32) -> bool {
        let scaled = (u128::from(self.next()) * u128::from(WHOLE)) >> 64;
        scaled < u128::from(part)
    }
}

/// The two random sequences of a card, for reads and for writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chances {
    reads: Chance,
    writes: Chance,
}

impl Chances {
    pub(super) fn new(spread: Option<Spread>) -> Self {
        let seed = spread.map_or(0, |spread| spread.seed);
        Chances { reads: Chance::new(seed), writes: Chance::new(!seed) }
    }
}

impl Flash {
    /// Draws how long the flash's read retries delay the first page of the next read command, in
    /// ns; 0: no retry.
    pub(crate) fn retries_ns(&mut self) -> u64 {
        let retries = self.timing.spread.and_then(|spread| spread.retries);
        let later_ns = retries.map_or(0, |retries| retries.next_ns(&mut self.chances.reads));
        if later_ns > 0 {
            self.work.retries.note(later_ns);
        }
        later_ns
    }

    /// Draws whether a write command, which otherwise is busy until `busy_ns`, meets garbage
    /// collection. Returns the end of busy in ns. The cache does not drain while the flash
    /// collects.
    pub(crate) fn collected_ns(&mut self, busy_ns: u64) -> u64 {
        let Some(collections) = self.timing.spread.and_then(|spread| spread.collections) else {
            return busy_ns;
        };
        let stall_ns = collections.next_ns(&mut self.chances.writes);
        if stall_ns > 0 {
            self.work.collections.note(stall_ns);
            self.drain(busy_ns);
            self.level_ns = self.level_ns.saturating_add(stall_ns);
        }
        busy_ns.saturating_add(stall_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Timing;
    use super::*;

    fn flash(spread: Spread) -> Flash {
        Flash::new(Timing { spread: Some(spread), ..super::super::tests::timing() })
    }

    fn spread(delays: Delays) -> Spread {
        Spread { seed: 1, retries: Some(delays), collections: Some(delays), slc: None }
    }

    #[test]
    fn the_share_of_delays_and_their_number_are_as_the_profile_says() {
        let delays = Delays { share: WHOLE / 50, each_ns: 100, again: WHOLE / 4 };
        let mut flash = flash(spread(delays));
        let count = 1_000_000;
        let all: Vec<u64> = (0..count).map(|_| flash.retries_ns()).collect();
        let of = |least_ns: u64| all.iter().filter(|ns| **ns >= least_ns).count();
        // One command in 50 is delayed; a fourth of these is delayed a second time, and so on.
        for (least_ns, expected) in [(1, 20_000), (101, 5_000), (201, 1_250)] {
            let found = of(least_ns);
            assert!(found.abs_diff(expected) < expected / 10, "{least_ns}: {found}, expected {expected}");
        }
        assert!(all.iter().all(|ns| ns % 100 == 0 && *ns <= 100 * MOST));
        assert_eq!((flash.work.retries.count, flash.work.retries.ns), (of(1) as u64, all.iter().sum()));
    }

    #[test]
    fn the_seed_decides_and_reads_do_not_change_writes() {
        let delays = Delays { share: WHOLE / 3, each_ns: 7, again: WHOLE / 3 };
        let draw = |seed: u64, reads: usize| {
            let mut flash = flash(Spread { seed, ..spread(delays) });
            let read: Vec<u64> = (0..reads).map(|_| flash.retries_ns()).collect();
            let written: Vec<u64> = (0..64).map(|_| flash.collected_ns(0)).collect();
            (read, written)
        };
        assert_eq!(draw(1, 64), draw(1, 64));
        assert_eq!(draw(1, 0).1, draw(1, 64).1);
        assert_ne!(draw(1, 64), draw(2, 64));
        let (read, written) = draw(1, 64);
        assert_ne!(read, written);
    }

    #[test]
    fn the_cache_does_not_drain_while_the_flash_collects() {
        let delays = Delays { share: WHOLE, each_ns: 5_000_000, again: 0 };
        let mut flash = flash(spread(delays));
        // 4096 bytes drain in 1 ms, the cache holds 8192.
        assert_eq!(flash.write(0, 0, 8192, 2, true), 44_200);
        assert_eq!(flash.collected_ns(44_200), 5_044_200);
        assert_eq!(flash.drained_ns(5_044_200), 5_000_000 + 2_000_000);
        assert_eq!(flash.work.collections, super::super::Times { count: 1, ns: 5_000_000 });
    }

    #[test]
    fn without_a_share_nothing_is_drawn_late() {
        let never = Delays { share: 0, each_ns: 7, again: 0 };
        let mut flash = flash(spread(never));
        assert!((0..1000).all(|_| flash.retries_ns() == 0 && flash.collected_ns(9) == 9));
        let mut plain = Flash::new(super::super::tests::timing());
        assert_eq!((plain.retries_ns(), plain.collected_ns(9)), (0, 9));
    }
}
