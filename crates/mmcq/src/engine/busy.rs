//! When to ask a busy card whether it is ready, on hosts that cannot be interrupted by it.
//!
//! The engine learns how long writes keep the card busy, by size, and asks for the first time shortly before that; then at a fraction of the time
//! already waited, so that the error stays a small share of the wait however long it becomes.

/// Learned busy times, one for each power of two of blocks up to 2^10.
#[derive(Debug)]
pub(super) struct BusyTimes {
    estimate_ns: [u32; CLASSES],
}

const CLASSES: usize = 11;
/// Questions are never closer than this: a CMD13 with its interrupt costs about as much.
const INTERVAL_NS_MIN: u64 = 5_000;
/// Next question after this share of the time waited.
const INTERVAL_SHARE: u64 = 8;

fn class(blocks: u32) -> usize {
    (blocks.max(1).ilog2() as usize).min(CLASSES - 1)
}

impl BusyTimes {
    pub const fn new() -> Self {
        BusyTimes { estimate_ns: [0; CLASSES] }
    }

    fn estimate(&mut self, blocks: u32) -> &mut u32 {
        &mut self.estimate_ns[class(blocks)]
    }

    /// How long after the end of the data to ask first.
    pub fn first_ns(&mut self, blocks: u32) -> u64 {
        u64::from(*self.estimate(blocks))
    }

    /// How long to wait after an answer "busy", `waited_ns` after the end of the data.
    pub fn again_ns(waited_ns: u64) -> u64 {
        (waited_ns / INTERVAL_SHARE).max(INTERVAL_NS_MIN)
    }

    /// The card was found ready `waited_ns` after the end of the data, at the first question or a later one.
    pub fn learn(&mut self, blocks: u32, waited_ns: u64, first_question: bool) {
        let estimate = self.estimate(blocks);
        let waited = u32::try_from(waited_ns).unwrap_or(u32::MAX);
        if first_question {
            // It may have been ready long before: come a little earlier next time.
            *estimate -= *estimate / 32;
        } else {
            // Half the last interval is the expected error.
            let found = waited - waited / (2 * INTERVAL_SHARE as u32);
            *estimate = (*estimate / 4).saturating_mul(3).saturating_add(found / 4);
        }
    }
}
