//! Decides when the engine gives up a way to send transfers (the card's queue, packed commands, or
//! chains: lists of several transfers), by the number of its failures in the last minutes.

/// Time in nanoseconds: after two failures within this time, the engine stops using the way that
/// failed (the card's command queue, packed commands, or chains of transfers).
const OFTEN_NS: u64 = 10_000_000_000;
/// Time in nanoseconds: five failures within this time end the use of the card's queue, of packed
/// commands, or of chains (several transfers in one list).
const LONG_NS: u64 = 600_000_000_000;

/// Times of the last four failures in nanoseconds, newest first; 0: no failure.
#[derive(Debug)]
pub(super) struct Failures([u64; 4]);

impl Failures {
    pub const NONE: Failures = Failures([0; 4]);

    /// Records a failure at the time `now_ns`. Returns true if it is the second one within
    /// [`OFTEN_NS`] or the fifth one within [`LONG_NS`]: the caller must give up the use of what
    /// has failed.
    pub fn again(&mut self, now_ns: u64) -> bool {
        let [first, second, third, fourth] = self.0;
        self.0 = [now_ns.max(1), first, second, third];
        let within = |then: u64, ns: u64| then != 0 && now_ns.saturating_sub(then) < ns;
        within(first, OFTEN_NS) || within(fourth, LONG_NS)
    }
}
