//! Predicts how long a closed loop (clients that send the next request when one is complete) takes
//! if its requests go in one transfer, and if they go in two transfers that alternate.

use super::costs::Costs;
use super::streams::Stream;

/// Two ways are possible for the requests of a closed loop ([`Loop`]): one transfer, or two
/// transfers that alternate. Their predicted times count as close if they differ by less than 1 /
/// `CLOSE` or by less than [`CLOSE_NS`]. Then both ways are tried.
const CLOSE: u64 = 8;
/// Two predicted times, with one transfer and with two, are close if they differ by less than this,
/// in ns; then both ways are tried. It is the time of a wake-up: the learned times of streams may
/// be wrong by this much.
const CLOSE_NS: u64 = 20_000;
/// Two predicted times, with one transfer and with two, count as equal if they differ by less than
/// 1 / `LEVEL`. Then the last decision is repeated.
const LEVEL: u64 = 48;
/// The engine waits for further requests only if one transfer for all of them takes less time than
/// two transfers, by more than 1 / `MARGIN` of that time.
const MARGIN: u64 = 128;

/// The requests of a closed loop: how many wait in the engine (`here`), how many are complete and
/// will soon be submitted again (`away`), and the blocks of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    pub here: u32,
    pub away: u32,
    pub blocks: u32,
}

/// The two ways to transfer each request of a [`Loop`] once, with the time of each in ns: all
/// requests in one transfer (`whole_ns`), or in two transfers (`parts_ns`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    whole_ns: u64,
    parts_ns: u64,
}

impl Ways {
    /// Predicts how long it takes to transfer all requests of the [`Loop`] once: all in one
    /// transfer, or in two transfers. All times are in ns. `settles_ns`: time from the end of a
    /// transfer until its requests are complete. `free_ns`: when the controller became free.
    /// `None`: the costs of a transfer or the client's pauses are not known.
    pub fn of(requests: Loop, costs: &Costs, stream: &Stream, settles_ns: u64, free_ns: u64) -> Option<Ways> {
        let fixed_ns = costs.fixed_ns()?;
        let moved_ns =
            |some: u32| fixed_ns.saturating_add(costs.blocks_ns(some.saturating_mul(requests.blocks)));
        let back_ns = |some: u32| Some(stream.back_ns(some)?.saturating_add(settles_ns));
        // All in one transfer: the controller is idle until the last request is back.
        let all = requests.here.saturating_add(requests.away);
        let rests_ns = back_ns(all)?.saturating_sub(stream.hidden_ns(free_ns));
        let one_ns = moved_ns(all);
        // In two transfers: each part comes back while the other is transferred, or the controller
        // waits for it. Then the controller is free when the part's first request comes, and that
        // request goes alone.
        let (here_ns, away_ns) = (moved_ns(requests.here), moved_ns(requests.away));
        let (here_back_ns, away_back_ns) = (back_ns(requests.here)?, back_ns(requests.away)?);
        let alone = u64::from(away_back_ns > here_ns) + u64::from(here_back_ns > away_ns);
        let parts_ns = one_ns
            .saturating_add(fixed_ns)
            .max(here_ns.saturating_add(here_back_ns))
            .max(away_ns.saturating_add(away_back_ns))
            .saturating_add(fixed_ns.saturating_mul(alone));
        Some(Ways { whole_ns: one_ns.saturating_add(rests_ns), parts_ns })
    }

    /// Returns whether one transfer for all requests takes clearly less time (by more than 1 /
    /// `MARGIN`) than two alternating transfers.
    pub fn whole_is_better(&self) -> bool {
        self.whole_ns.saturating_add(self.whole_ns / MARGIN) < self.parts_ns
    }

    pub fn are_level(&self) -> bool {
        self.whole_ns.abs_diff(self.parts_ns) < self.parts_ns / LEVEL
    }

    pub fn are_close(&self) -> bool {
        self.whole_ns.abs_diff(self.parts_ns) < (self.parts_ns / CLOSE).max(CLOSE_NS)
    }
}
