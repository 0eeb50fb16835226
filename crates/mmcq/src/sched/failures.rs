//! Decides when a lane is given up, by the number of its failures in the last minutes.

/// Time in nanoseconds: a lane is given up if two failures come within this time.
const OFTEN_NS: u64 = 10_000_000_000;
/// Time in nanoseconds: a lane is given up if five failures come within this time.
const LONG_NS: u64 = 600_000_000_000;

/// Times of the last four failures in nanoseconds, newest first; 0: no failure.
#[derive(Debug)]
pub(super) struct Failures([u64; 4]);

impl Failures {
    pub const NONE: Failures = Failures([0; 4]);

    /// Counts one more failure. Returns true if the lane must be given up.
    pub fn again(&mut self, now_ns: u64) -> bool {
        let [first, second, third, fourth] = self.0;
        self.0 = [now_ns.max(1), first, second, third];
        let within = |then: u64, ns: u64| then != 0 && now_ns.saturating_sub(then) < ns;
        within(first, OFTEN_NS) || within(fourth, LONG_NS)
    }
}
