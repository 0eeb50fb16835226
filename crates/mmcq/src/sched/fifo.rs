//! The scheduler that serves requests in the order in which they came (first in, first out).

use super::{Choice, Policy, Waiting};

/// The scheduler that picks the oldest waiting request for the next transfer. On some hosts the
/// engine lets younger requests go first (last paragraph).
///
/// *Bound:* where nothing fails, a request waits for at most the transfers of the requests before
/// it, `ceil(blocks / m)` for each request, and for the younger requests of the last paragraph. `m`
/// is the least of [`Caps::max_blocks`](crate::host::Caps::max_blocks),
/// [`Caps::max_bytes`](crate::host::Caps::max_bytes)` / 512` and 65535. An erase before the request
/// delays it by one piece of the erase.
///
/// On a host that [can continue a transfer](crate::host::Caps::continue_data), a longer run of
/// contiguous requests than that of the oldest request may go before it. At most 64 younger
/// requests of its direction go first in this way, in addition to the requests before it. Together
/// they have fewer blocks than [`Config::fair_blocks`](crate::engine::Config::fair_blocks), or than
/// four times as many if one of them continues an open transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    const IN_ORDER: bool = true;

    fn yields(&self) -> bool {
        true
    }

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, now_ns: u64) -> Choice {
        waiting.next().map_or(Choice::IdleUntil(now_ns), |oldest| Choice::Go(oldest.index))
    }
}
