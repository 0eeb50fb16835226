//! Sequential streams: how many of a stream's requests will come back, and after how long. A
//! request *comes back* when its client, after the request was completed, submits the next one.

use super::costs::Costs;
use crate::host::Direction;

/// Number of sequential streams that the engine can follow at the same time.
const STREAMS: usize = 4;
/// Number of completions in a row: after this many with fewer requests in flight than `depth`, the
/// stream's `depth` is lowered.
const FEWER: u8 = 4;
/// Number of requests in a row after which a stream counts as faster: if each of them came within
/// half of the mean time, the new time replaces the mean.
const FASTER: u8 = 8;
/// Expected time to read the card's status, until one read was measured.
const ASK_NS: u32 = 10_000;
/// Margin on the expected time of the next request, in nanoseconds.
const JITTER_NS: u64 = 2_000;

/// Contiguous requests that wait, or that are in one transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub direction: Direction,
    /// The first block of these contiguous requests.
    pub lba: u64,
    /// The block after the last block of these contiguous requests.
    pub end: u64,
    pub requests: u8,
    /// The client of the last request.
    pub client: u8,
    /// Time in ns at which the first of these requests came.
    pub first_ns: u64,
    /// Time in ns at which the last of these contiguous requests came.
    pub last_ns: u64,
    /// Longest time in ns between two arrivals in a row, as far as it was measured.
    pub widest_ns: u32,
}

impl Run {
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.end.saturating_sub(self.lba)).unwrap_or(u32::MAX)
    }

    /// Returns the part of these contiguous requests from block `lba` on. The number of its
    /// requests is estimated from the number of its blocks.
    fn left_from(&self, lba: u64) -> Run {
        let blocks = self.end.saturating_sub(lba);
        let requests =
            blocks.saturating_mul(self.requests.into()).checked_div(self.blocks().into()).unwrap_or(1);
        Run { lba, requests: requests.clamp(1, 64) as u8, first_ns: self.last_ns, widest_ns: 0, ..*self }
    }
}

/// A sequential stream: requests of which each begins where the one before ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    direction: Direction,
    /// The client of the last request.
    client: u8,
    /// Number of requests that the stream's clients keep in flight.
    depth: u8,
    /// Number of requests in flight at the last completion, used once to compute `depth`; 0:
    /// already used. Requests that waited in the engine and were not reported here yet are not
    /// counted.
    seen: u8,
    /// Largest number of requests in flight at the last `times` completions. All of them had fewer
    /// requests than `depth` in flight.
    fewer: u8,
    /// Number of completions in a row at which fewer requests than `depth` were in flight
    /// (submitted and not complete).
    times: u8,
    /// The `depth` (number of requests) that the stream had when the engine gave up its wait for
    /// missing requests; 0: no requests are missing.
    missed: u8,
    /// Whether the requests are complete that the engine has sent alone, after it gave up its wait
    /// for missing requests of the stream.
    answered: bool,
    /// The first block of the stream's requests that are not complete.
    begin: u64,
    /// The block after the last block of the stream's last request.
    next: u64,
    /// Usual time in ns from the completion of requests until their client's first new request
    /// comes, without the part that grows with the number of completed requests; 0: not known.
    first_ns: u32,
    /// After a group of requests was completed, their clients send the next requests one after the
    /// other: this is the usual longest time in ns between two of these; 0: not known.
    gap_ns: u32,
    /// Time in ns by which the first new request comes later for each request of the completed
    /// group; it is added to `first_ns`.
    each_ns: u32,
    /// Mean time in ns from the completion of a group of requests until a client submits the first
    /// of the next ones. Includes unusually long times.
    mean_first_ns: u32,
    /// Mean time in ns between two requests of a completed group whose clients submit their next
    /// requests one after the other, outliers included.
    mean_gap_ns: u32,
    /// How many times in a row the first request after a completed group came in less than half of
    /// the mean time ([`Self::mean_first_ns`]).
    first_shorter: u8,
    /// How many times in a row the time between two new requests was less than half of
    /// `mean_gap_ns`, after a group of requests was completed.
    gap_shorter: u8,
    /// Time in ns at which the stream's last request came.
    arrived_ns: u64,
    /// The requests that were completed last, at the same time.
    done: Group,
    /// The group of requests that was completed before the last one (`done`).
    before: Group,
}

/// Requests that were completed at the same time.
#[derive(Clone, Copy, Debug)]
struct Group {
    at_ns: u64,
    requests: u8,
    /// Number of the group's requests whose clients have not yet submitted the next request of the
    /// stream after the completion.
    away: u8,
}

/// The sequential streams that are known, and the times that were learned from them.
#[derive(Debug)]
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    /// Time from the completion of a group of requests until the submitter sends the next request,
    /// as a straight line over the group's size: a submitter may handle all completions first.
    pauses: Costs,
    /// Time in ns at which the engine sent CMD13 for the status that completes requests; 0: no such
    /// CMD13 is in progress.
    asked_ns: u64,
    /// How long the read of a status usually takes, in ns.
    ask_ns: u32,
}

fn learn(known_ns: &mut u32, seen_ns: u64) {
    let seen_ns = u32::try_from(seen_ns).unwrap_or(u32::MAX).max(1);
    *known_ns = match *known_ns {
        0 => seen_ns,
        // One longer time may have another cause, so it counts little. A stream that has become
        // slower shows longer times again.
        known_ns if seen_ns / 2 > known_ns => known_ns.saturating_add(known_ns / 2 + 1),
        known_ns if seen_ns < known_ns / 2 => known_ns - known_ns / 3,
        known_ns => (known_ns - known_ns / 8).saturating_add(seen_ns / 8),
    };
}

/// Updates a mean time. A time above `most_ns` counts as `most_ns`. `shorter`: how many times in a
/// row the time was less than half of the mean. `weight`: the number of samples of which `seen_ns`
/// is the mean.
fn average(mean_ns: &mut u32, shorter: &mut u8, seen_ns: u64, most_ns: u64, weight: u8) {
    let seen_ns = u32::try_from(seen_ns.min(most_ns)).unwrap_or(u32::MAX).max(1);
    *shorter = if seen_ns < *mean_ns / 2 { shorter.saturating_add(1) } else { 0 };
    *mean_ns = match *mean_ns {
        0 => seen_ns,
        _ if *shorter >= FASTER => seen_ns,
        mean_ns => {
            let weight = u32::from(weight.clamp(1, 8));
            (mean_ns - mean_ns / 16 * weight).saturating_add(seen_ns / 16 * weight)
        }
    };
}

impl Group {
    const NONE: Group = Group { at_ns: 0, requests: 0, away: 0 };
}

impl Stream {
    const NONE: Stream = Stream {
        direction: Direction::Read,
        client: 0,
        depth: 0,
        seen: 0,
        fewer: 0,
        times: 0,
        missed: 0,
        answered: false,
        begin: u64::MAX,
        next: u64::MAX,
        first_ns: 0,
        gap_ns: 0,
        each_ns: 0,
        mean_first_ns: 0,
        mean_gap_ns: 0,
        first_shorter: 0,
        gap_shorter: 0,
        arrived_ns: 0,
        done: Group::NONE,
        before: Group::NONE,
    };

    /// Returns the usual time in ns from the completion of `requests` requests of a stream to the
    /// first new request of its client. `first_ns` is the part of that time that does not depend on
    /// their number.
    fn pause_ns(&self, first_ns: u32, requests: u64) -> u64 {
        u64::from(first_ns).saturating_add(requests.saturating_mul(self.each_ns.into()))
    }

    fn gap_ns(&self) -> u64 {
        // The first request also waits for a wake-up of its client, so later gaps are no longer
        // than its pause. A request that takes longer was completed later.
        let first_ns = self.pause_ns(self.first_ns, self.done.requests.into());
        if self.gap_ns == 0 { first_ns / 4 } else { first_ns.min(self.gap_ns.into()) }
    }

    /// Returns how many new requests of the stream are expected: the number that its clients keep
    /// under way, less the `waiting` requests that have come already.
    pub fn away(&self, waiting: u8) -> u8 {
        self.depth.saturating_sub(waiting)
    }

    /// Returns the time in ns from the completion of this many requests until the client has sent
    /// as many new ones, as expected from earlier times; `None`: nothing is known.
    pub fn back_ns(&self, requests: u32) -> Option<u64> {
        let first_ns = self.pause_ns(self.mean_first_ns, requests.into());
        let gap_ns = if self.mean_gap_ns == 0 { first_ns / 4 } else { first_ns.min(self.mean_gap_ns.into()) };
        let others_ns = gap_ns.saturating_mul(u64::from(requests.saturating_sub(1)));
        (self.mean_first_ns > 0).then_some(others_ns.saturating_add(first_ns))
    }

    /// Returns the time from the last completion of the stream until `free_ns`, when the controller
    /// became free. That part of the wait for the next requests costs nothing, since the controller
    /// was busy with other work.
    pub fn hidden_ns(&self, free_ns: u64) -> u64 {
        free_ns.saturating_sub(self.done.at_ns)
    }

    /// Returns the time after an arrival at which the next request of the stream is overdue.
    pub fn step_ns(&self) -> u64 {
        2 * self.gap_ns() + JITTER_NS
    }

    /// Returns the time in ns from which on the next request of the stream counts as overdue.
    /// `asked_ns`: expected time in ns from `now_ns` until the transferred requests are complete;
    /// 0: they are complete.
    pub fn next_by_ns(&self, asked_ns: u64, now_ns: u64) -> u64 {
        let Group { at_ns: done_ns, requests, .. } = self.done;
        let first_ns = self.pause_ns(self.first_ns, requests.into());
        let (since_ns, wait_ns) = match asked_ns {
            0 if self.arrived_ns >= done_ns => return self.arrived_ns.saturating_add(self.step_ns()),
            0 => (done_ns, first_ns),
            _ => (now_ns, asked_ns.saturating_add(first_ns)),
        };
        since_ns.saturating_add(wait_ns.saturating_mul(2)).saturating_add(JITTER_NS)
    }

    /// Estimates how many requests of `run` (contiguous requests) came before the stream's last
    /// completion, from the times of the first and the last request.
    fn earlier(&self, run: &Run) -> u8 {
        if run.last_ns < self.done.at_ns {
            return run.requests;
        }
        let span_ns = run.last_ns.saturating_sub(run.first_ns);
        let earlier_ns = self.done.at_ns.saturating_sub(run.first_ns);
        earlier_ns.saturating_mul(run.requests.into()).checked_div(span_ns).unwrap_or(0) as u8
    }

    /// Handles requests of the stream that come after the engine has stopped waiting for missing
    /// requests. Decides whether they are the missing ones, from their time `came_ns`.
    ///
    /// A client that now keeps fewer requests in flight sends its next ones after the last
    /// completion, with the usual pause. Requests that come before that completion, or much later,
    /// are the missing ones: then the stream gets back the `depth` that it had before.
    fn returned(&mut self, came_ns: u64) {
        let missed = core::mem::take(&mut self.missed);
        let first_ns = self.pause_ns(self.first_ns, self.done.requests.into());
        let usual_ns = self.done.at_ns.saturating_add(first_ns.saturating_mul(2)).saturating_add(JITTER_NS);
        if missed > 0 && (!self.answered || came_ns > usual_ns) {
            (self.depth, self.fewer, self.times) = (self.depth.max(missed), 0, 0);
        }
    }

    /// Returns the completed group of requests that new ones (which came at `came_ns`) replace: the
    /// group that was completed last, or the one before it. `earlier`: how many of the new requests
    /// came before the last completion. The result is the group before the last if `earlier` is not
    /// 0. It is that group also if some of its requests were not replaced yet, and the new requests
    /// came less than half of the usual pause after the last completion.
    fn group(&self, came_ns: u64, earlier: u8) -> Group {
        let since_ns = came_ns.saturating_sub(self.done.at_ns);
        let soon = since_ns < self.pause_ns(self.first_ns, self.done.requests.into()) / 2;
        if earlier > 0 || soon && self.before.away > 0 { self.before } else { self.done }
    }

    /// Records that clients have submitted `requests` further requests after completions, `earlier`
    /// of them before the last completion. `of_before`: all of them follow requests that were
    /// complete before the last completion.
    fn back(&mut self, requests: u8, earlier: u8, of_before: bool) {
        let first = if of_before { requests } else { earlier }.min(self.before.away);
        let rest = requests.saturating_sub(first);
        self.before.away -= first;
        self.before.away = self.before.away.saturating_sub(rest.saturating_sub(self.done.away));
        self.done.away = self.done.away.saturating_sub(rest);
    }

    /// Learns from further requests of the stream that have come (`run`) how long their clients
    /// need to submit them. `most_ns`: upper bound for a learned time. `pauses` learns from them
    /// for all streams.
    fn came(&mut self, run: &Run, most_ns: u64, pauses: &mut Costs) {
        if self.missed > 0 {
            self.returned(run.first_ns);
        }
        let earlier = self.earlier(run);
        let group = self.group(run.first_ns, earlier);
        let since_ns = group.at_ns;
        if since_ns > 0 && run.first_ns >= since_ns {
            let mut widest_ns = u64::from(run.widest_ns);
            if self.arrived_ns < since_ns {
                let back_ns = run.first_ns - since_ns;
                // The usual time is learned: an outlier counts as twice the usual time at most.
                let usual_ns = self.pause_ns(self.first_ns, group.requests.into());
                let most_learned_ns = if usual_ns == 0 { back_ns } else { usual_ns.saturating_mul(2) };
                pauses.learn(group.requests.into(), back_ns.min(most_learned_ns));
                self.each_ns = u32::try_from(pauses.blocks_ns(1)).unwrap_or(u32::MAX);
                let own_ns = back_ns.saturating_sub(self.pause_ns(0, group.requests.into()));
                learn(&mut self.first_ns, own_ns);
                average(&mut self.mean_first_ns, &mut self.first_shorter, own_ns, most_ns, 1);
            } else {
                let gap_ns = run.first_ns.saturating_sub(self.arrived_ns);
                self.average_gap(gap_ns, most_ns, 1);
                widest_ns = widest_ns.max(gap_ns);
            }
            let further = run.requests.saturating_sub(1);
            if (earlier == 0 || earlier == run.requests)
                && let Some(gap_ns) = run.last_ns.saturating_sub(run.first_ns).checked_div(further.into())
            {
                self.average_gap(gap_ns, most_ns, further);
                widest_ns = widest_ns.max(gap_ns);
            }
            if self.arrived_ns >= since_ns || further > 0 {
                learn(&mut self.gap_ns, widest_ns);
            }
        }
        self.back(run.requests, earlier, since_ns == self.before.at_ns);
        if self.seen > 0 {
            let seen = core::mem::take(&mut self.seen).saturating_add(earlier);
            self.note_depth(seen);
        }
        self.arrived_ns = run.last_ns;
    }

    /// Notes that `seen` requests of the sequential client were under way at the same time. The
    /// depth that the engine expects rises at once, and falls only after [`FEWER`] smaller values
    /// in a row.
    fn note_depth(&mut self, seen: u8) {
        self.fewer = self.fewer.max(seen);
        self.times += 1;
        if seen >= self.depth || self.times >= FEWER {
            if self.fewer < self.depth {
                self.before.away = 0;
            }
            self.depth = self.fewer;
            (self.fewer, self.times) = (0, 0);
        }
    }

    fn average_gap(&mut self, gap_ns: u64, most_ns: u64, times: u8) {
        average(&mut self.mean_gap_ns, &mut self.gap_shorter, gap_ns, most_ns, times);
    }
}

impl Streams {
    pub const NEW: Streams =
        Streams { streams: [Stream::NONE; STREAMS], pauses: Costs::NEW, asked_ns: 0, ask_ns: ASK_NS };

    /// Notes contiguous requests that wait or are sent now. A request may be noted several times,
    /// and counts once. Returns true if the stream that they belong to has several requests in
    /// flight.
    ///
    /// `most_ns`: upper bound for the pauses between requests from which the stream learns.
    pub fn came(&mut self, run: &Run, most_ns: u64) -> bool {
        let follows = |s: &&mut Stream| {
            s.direction == run.direction && (s.next == run.lba || s.begin <= run.lba && run.lba < s.next)
        };
        if let Some(stream) = self.streams.iter_mut().find(follows) {
            if stream.next == run.lba {
                stream.came(run, most_ns, &mut self.pauses);
            } else if run.end > stream.next {
                stream.came(&run.left_from(stream.next), most_ns, &mut self.pauses);
            } else {
                return false;
            }
            (stream.next, stream.client) = (run.end, run.client);
            return run.requests > 1 || stream.depth > 1;
        }
        // The client has sent these requests in place of requests of its old stream.
        if let Some(stream) = self.streams.iter_mut().find(|s| s.client == run.client && s.depth > 0) {
            stream.depth = stream.depth.saturating_sub(run.requests);
        }
        // Replaces an entry that never became a stream; if there is none, the stream that was
        // silent longest.
        let replaced = self.streams.iter_mut().min_by_key(|s| (s.depth > 1, s.arrived_ns));
        if let Some(stream) = replaced {
            *stream = Stream {
                direction: run.direction,
                client: run.client,
                begin: run.lba,
                next: run.end,
                arrived_ns: run.last_ns,
                ..Stream::NONE
            };
        }
        run.requests > 1
    }

    /// Learns from a transfer whose requests (`run`) are complete: how long their client's next
    /// requests take to come, and how many it has under way.
    pub fn completed(&mut self, run: &Run, now_ns: u64) {
        if self.asked_ns != 0 {
            learn(&mut self.ask_ns, now_ns.saturating_sub(self.asked_ns));
            self.asked_ns = 0;
        }
        let holds = |s: &&mut Stream| s.direction == run.direction && s.begin <= run.lba && run.end <= s.next;
        if let Some(stream) = self.streams.iter_mut().find(holds) {
            let request_blocks = u64::from(run.blocks().checked_div(run.requests.into()).unwrap_or(1));
            let flying = stream.next.saturating_sub(stream.begin).checked_div(request_blocks);
            // No request has come since the completion before, so the number seen then is noted
            // now.
            let seen =
                core::mem::replace(&mut stream.seen, flying.unwrap_or(0).min(u64::from(u8::MAX)) as u8);
            if seen > 0 {
                stream.note_depth(seen);
            }
            stream.begin = stream.begin.max(run.end);
            stream.answered = true;
            let done = Group { at_ns: now_ns, requests: run.requests, away: run.requests };
            stream.before = core::mem::replace(&mut stream.done, done);
        }
    }

    /// Returns the expected time in ns until `unsettled` transferred writes are complete: the time
    /// to read the card's status. 0 if there is no such write.
    pub fn settles_ns(&self, unsettled: u8) -> u64 {
        if unsettled == 0 { 0 } else { self.ask_ns.into() }
    }

    /// Returns the known sequence of consecutive requests (stream) of this direction whose last
    /// request ends before block `end`; `None`: no such stream is known.
    pub fn ending_at(&self, direction: Direction, end: u64) -> Option<Stream> {
        self.streams.iter().find(|s| s.next == end && s.direction == direction).copied()
    }

    /// Returns whether only this stream uses the card: no request of another stream has come since
    /// the completion before this stream's last one.
    pub fn is_alone(&self, stream: &Stream) -> bool {
        let beside = |other: &&Stream| {
            (other.direction, other.next) != (stream.direction, stream.next)
                && other.arrived_ns > stream.before.at_ns
        };
        !self.streams.iter().any(|other| beside(&other))
    }

    /// Notes that the engine no longer waits for further requests of the stream whose last request
    /// ends before block `end`. `waiting`: number of its requests that wait in the engine. Returns
    /// true if the stream usually has more requests in flight than these, so that some were
    /// missing.
    pub fn gave_up(&mut self, direction: Direction, end: u64, waiting: u8) -> bool {
        let found = self.streams.iter_mut().find(|s| s.next == end && s.direction == direction);
        found.is_some_and(|stream| {
            let any = stream.depth > waiting;
            if any {
                (stream.missed, stream.answered) = (stream.depth, false);
            }
            (stream.depth, stream.fewer, stream.times) = (stream.depth.min(waiting), 0, 0);
            any
        })
    }

    pub fn asked(&mut self, now_ns: u64) {
        self.asked_ns = now_ns;
    }
}
