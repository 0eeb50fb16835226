//! State of a client: how far the client is ahead of its share, and its mean think time. The *think
//! time* is the time from a completion to the client's next request.

use super::super::Waiting;

/// Fraction bits of the fixed-point numbers `sync_ahead` and `async_ahead`, which count blocks.
const FRACTION: u32 = 32;
/// Number of a client's think times (from a completion to its next request) that must be measured
/// before their mean is used.
const LEARNED: u8 = 4;
/// Number of requests in a row, each beginning where the one before ended, that make a stream. One
/// such request alone may be a random request that begins there by chance.
const STREAM: u8 = 2;

/// State of a client's synchronous and asynchronous queue, and the pattern of its synchronous
/// requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// How far the synchronous and the asynchronous queue are ahead of the virtual time of their
    /// class: start tag minus virtual time, never below 0. The unit is blocks divided by weight,
    /// with [`FRACTION`] fraction bits.
    sync_ahead: u64,
    async_ahead: u64,
    last_done_ns: u64,
    think_ns: u32,
    thinks: u8,
    /// Number of synchronous requests that wait or are on the card.
    outstanding: u8,
    /// Number of synchronous requests in a row, up to the newest one, that each began where the one
    /// before ended.
    followed: u8,
    /// Low 32 bits of the block number after the newest synchronous request.
    end: u32,
}

impl Client {
    pub(super) const NEW: Client = Client {
        sync_ahead: 0,
        async_ahead: 0,
        last_done_ns: u64::MAX,
        think_ns: 0,
        thinks: 0,
        outstanding: 0,
        followed: 0,
        end: 0,
    };

    pub(super) fn ahead(&self, sync: bool) -> u64 {
        if sync { self.sync_ahead } else { self.async_ahead }
    }

    fn ahead_mut(&mut self, sync: bool) -> &mut u64 {
        if sync { &mut self.sync_ahead } else { &mut self.async_ahead }
    }

    /// Charges one queue of the client (the synchronous one if `sync`, otherwise the asynchronous
    /// one) for `blocks` blocks that were sent: its start tag grows by the blocks divided by the
    /// client's `weight`.
    pub(super) fn charge(&mut self, sync: bool, blocks: u64, weight: u16) {
        let cost = (blocks.min(u64::MAX >> FRACTION) << FRACTION).checked_div(u64::from(weight)).unwrap_or(0);
        let ahead = self.ahead_mut(sync);
        *ahead = ahead.saturating_add(cost);
    }

    /// Notes that the virtual time of a class has advanced by `by`; `sync`: of the synchronous
    /// class. The client stores how far its start tag is ahead of the virtual time, at least 0. So
    /// a client without requests earns no credit.
    pub(super) fn advance(&mut self, sync: bool, by: u64) {
        let ahead = self.ahead_mut(sync);
        *ahead = ahead.saturating_sub(by);
    }

    /// Notes a synchronous request that has come in, and updates the client's mean think time: the
    /// time from the end of its last request to the arrival of this one. A longer one than
    /// `longest_ns` counts as `longest_ns`.
    pub(super) fn arrived(&mut self, request: &Waiting, longest_ns: u64) {
        let was_idle = self.outstanding == 0;
        let follows = self.end == request.lba as u32;
        self.followed = if follows { self.followed.saturating_add(1) } else { 0 };
        self.end = (request.lba as u32).wrapping_add(request.blocks);
        self.outstanding = self.outstanding.saturating_add(1);
        // A request that arrived no later than the last completion has no think time. An example is
        // the rest of a long request.
        if was_idle && request.arrived_ns > self.last_done_ns {
            let think_ns = request.arrived_ns.saturating_sub(self.last_done_ns).min(longest_ns);
            let think_ns = u32::try_from(think_ns).unwrap_or(u32::MAX);
            self.think_ns = match self.thinks {
                0 => think_ns,
                _ => (self.think_ns - self.think_ns / 8).saturating_add(think_ns / 8),
            };
            self.thinks = self.thinks.saturating_add(1);
        }
    }

    /// Notes that a synchronous request is complete.
    pub(super) fn done(&mut self, now_ns: u64) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.last_done_ns = now_ns;
    }

    /// Notes that a synchronous request of the client was cancelled, and is no longer outstanding.
    pub(super) fn cancelled(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Returns whether exactly one synchronous request of the client waits or is on the card.
    pub(super) fn has_one(&self) -> bool {
        self.outstanding == 1
    }

    /// Returns true if the client's last requests are not sequential: too few in a row began where
    /// the one before ended.
    pub(super) fn jumps(&self) -> bool {
        self.followed < STREAM
    }

    /// Returns the mean time in ns from the completion of a request until the client sends its next
    /// one; `None`: no such time was measured yet.
    pub(super) fn think_ns(&self) -> Option<u64> {
        (self.thinks >= LEARNED).then_some(u64::from(self.think_ns))
    }
}
