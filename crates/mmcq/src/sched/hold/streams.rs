//! Sequential streams: how many of their requests are on their way back, and how long that takes.

use crate::host::Direction;

/// Streams that are known at a time.
const STREAMS: usize = 4;
/// Contiguous requests that make a stream.
const LENGTH_MIN: u8 = 2;
/// Asking for a status is expected to take so long before it has been seen.
const ASK_NS: u32 = 10_000;
/// Added to what the next request may take.
const JITTER_NS: u64 = 2_000;

/// Requests of which each begins where the one before ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    direction: Direction,
    /// Its last request's owner.
    client: u8,
    /// Contiguous requests.
    length: u8,
    /// Completed requests that have not been followed by another yet: those that were complete when the last one came, and since then.
    away: u8,
    fresh: u8,
    /// They were waited for in vain, and none has come since.
    overdue: bool,
    begin: u64,
    next: u64,
    /// How long the first usually takes to come back, and each further one; 0: not known.
    first_ns: u32,
    gap_ns: u32,
    /// The same on the average, with what seldom happens.
    mean_first_ns: u32,
    mean_gap_ns: u32,
    /// When the last one came; when the first of the fresh was complete.
    arrived_ns: u64,
    fresh_ns: u64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    /// When a status was asked for, whose answer completes requests; 0: none is under way. How long that takes.
    asked_ns: u64,
    ask_ns: u32,
}

fn learn(known_ns: &mut u32, seen_ns: u64) {
    let seen_ns = u32::try_from(seen_ns).unwrap_or(u32::MAX).max(1);
    *known_ns = match *known_ns {
        0 => seen_ns,
        // A stream that was held up by something else says little; one that has become slower says it again.
        known_ns if seen_ns / 2 > known_ns => known_ns.saturating_add(known_ns / 2 + 1),
        known_ns if seen_ns < known_ns / 2 => known_ns - known_ns / 3,
        known_ns => (known_ns - known_ns / 8).saturating_add(seen_ns / 8),
    };
}

/// `most_ns`: a stream that is away longer is missed in either case.
fn average(mean_ns: &mut u32, seen_ns: u64, most_ns: u64) {
    let seen_ns = u32::try_from(seen_ns.min(most_ns)).unwrap_or(u32::MAX).max(1);
    *mean_ns = match *mean_ns {
        0 => seen_ns,
        mean_ns => (mean_ns - mean_ns / 16).saturating_add(seen_ns / 16),
    };
}

impl Stream {
    const NONE: Stream = Stream {
        direction: Direction::Read,
        client: 0,
        length: 0,
        away: 0,
        fresh: 0,
        overdue: false,
        begin: 0,
        next: u64::MAX,
        first_ns: 0,
        gap_ns: 0,
        mean_first_ns: 0,
        mean_gap_ns: 0,
        arrived_ns: 0,
        fresh_ns: 0,
    };

    fn gap_ns(&self) -> u64 {
        // The first has a wake-up more. What takes longer than that was not complete as early.
        u64::from(if self.gap_ns == 0 { self.first_ns / 4 } else { self.gap_ns.min(self.first_ns) })
    }

    /// Requests that will come back, with those that wait for their status.
    pub fn away(&self, unsettled: u8) -> u8 {
        match self.length {
            0..LENGTH_MIN => 0,
            _ if self.overdue => 0,
            _ => self.away.saturating_add(self.fresh).saturating_add(unsettled),
        }
    }

    /// How long so many take to come back from when they are complete; `None`: nothing is known of it.
    pub fn back_ns(&self, requests: u32) -> Option<u64> {
        let first_ns = u64::from(self.mean_first_ns);
        let gap_ns = if self.mean_gap_ns == 0 { first_ns / 4 } else { first_ns.min(self.mean_gap_ns.into()) };
        let others_ns = gap_ns.saturating_mul(u64::from(requests.saturating_sub(1)));
        (first_ns > 0).then_some(others_ns.saturating_add(first_ns))
    }

    /// What of that has passed when the controller is free from then on: it has done something else meanwhile.
    pub fn hidden_ns(&self, free_ns: u64) -> u64 {
        free_ns.saturating_sub(self.fresh_ns)
    }

    /// When the next is overdue. `asked_ns`: what is moved takes so long to become complete.
    pub fn next_by_ns(&self, asked_ns: u64, now_ns: u64) -> u64 {
        let (since_ns, wait_ns) = if self.away > 0 {
            (self.arrived_ns, self.gap_ns())
        } else if self.fresh > 0 {
            (self.fresh_ns, u64::from(self.first_ns))
        } else {
            (now_ns, asked_ns + u64::from(self.first_ns))
        };
        since_ns.saturating_add(2 * wait_ns + JITTER_NS)
    }

    /// One more has come.
    fn came(&mut self, most_ns: u64, now_ns: u64) {
        self.overdue = false;
        if self.fresh > 0 {
            // A client that said nothing while some were away, and goes on as soon as others are complete, keeps fewer in flight than before.
            let silent = self.fresh_ns > self.arrived_ns.saturating_add(4 * self.gap_ns() + JITTER_NS);
            let back_ns = now_ns.saturating_sub(self.fresh_ns);
            let at_once = back_ns <= 4 * u64::from(self.first_ns) + JITTER_NS;
            if silent && at_once {
                self.away = 0;
            }
            if self.away == 0 {
                learn(&mut self.first_ns, back_ns);
                average(&mut self.mean_first_ns, back_ns, most_ns);
            }
        }
        if self.away > 0 {
            let gap_ns = now_ns.saturating_sub(self.arrived_ns);
            learn(&mut self.gap_ns, gap_ns);
            average(&mut self.mean_gap_ns, gap_ns, most_ns);
        }
        self.away = self.away.saturating_add(core::mem::take(&mut self.fresh)).saturating_sub(1);
        self.length = self.length.saturating_add(1);
        self.arrived_ns = now_ns;
    }
}

impl Streams {
    pub const NEW: Streams = Streams { streams: [Stream::NONE; STREAMS], asked_ns: 0, ask_ns: ASK_NS };

    /// A request has come in. True if it continues a stream. `most_ns`: longer pauses count no more than that.
    pub fn arrived(
        &mut self,
        (direction, lba, blocks): (Direction, u64, u32),
        client: u8,
        most_ns: u64,
        now_ns: u64,
    ) -> bool {
        let next = lba.saturating_add(u64::from(blocks));
        if let Some(stream) = self.streams.iter_mut().find(|s| s.next == lba && s.direction == direction) {
            stream.came(most_ns, now_ns);
            (stream.next, stream.client) = (next, client);
            return true;
        }
        // Its owner has come back with something else.
        let left = |s: &&mut Stream| s.client == client && s.away.saturating_add(s.fresh) > 0;
        if let Some(stream) = self.streams.iter_mut().find(left) {
            if stream.away > 0 {
                stream.away -= 1;
            } else {
                stream.fresh = stream.fresh.saturating_sub(1);
            }
        }
        // What never became a stream goes first, then what was silent longest.
        let replaced = self.streams.iter_mut().min_by_key(|s| (s.length >= LENGTH_MIN, s.arrived_ns));
        if let Some(stream) = replaced {
            *stream = Stream { direction, client, begin: lba, next, arrived_ns: now_ns, ..Stream::NONE };
        }
        false
    }

    /// A request is complete.
    pub fn completed(&mut self, direction: Direction, lba: u64, blocks: u32, now_ns: u64) {
        if self.asked_ns != 0 {
            learn(&mut self.ask_ns, now_ns.saturating_sub(self.asked_ns));
            self.asked_ns = 0;
        }
        let end = lba.saturating_add(u64::from(blocks));
        let holds = |s: &&mut Stream| s.direction == direction && s.begin <= lba && end <= s.next;
        if let Some(stream) = self.streams.iter_mut().find(holds) {
            if stream.fresh == 0 {
                stream.fresh_ns = now_ns;
            }
            stream.fresh = stream.fresh.saturating_add(1);
        }
    }

    /// How long it takes until so many that are moved are complete.
    pub fn settles_ns(&self, unsettled: u8) -> u64 {
        if unsettled == 0 { 0 } else { self.ask_ns.into() }
    }

    /// The stream whose last request ends here.
    pub fn ending_at(&self, direction: Direction, end: u64) -> Option<Stream> {
        self.streams.iter().find(|s| s.next == end && s.direction == direction).copied()
    }

    /// Those of a stream that are away were waited for long enough. True if there were any.
    pub fn gave_up(&mut self, direction: Direction, end: u64) -> bool {
        let found = self.streams.iter_mut().find(|s| s.next == end && s.direction == direction);
        found.is_some_and(|stream| {
            stream.overdue = true;
            stream.away.saturating_add(stream.fresh) > 0
        })
    }

    pub fn asked(&mut self, now_ns: u64) {
        self.asked_ns = now_ns;
    }
}
