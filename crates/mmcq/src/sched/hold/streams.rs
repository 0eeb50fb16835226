//! Sequential streams: how many of their requests are on their way back, and how long that takes.

use super::costs::Costs;
use crate::host::Direction;

/// Streams that are known at a time.
const STREAMS: usize = 4;
/// A client that was seen with fewer requests in flight so many times in a row keeps fewer.
const FEWER: u8 = 4;
/// Times in a row that a stream must send its next request in less than half of the mean time.
/// After these it counts as faster, and the new time replaces the mean.
const FASTER: u8 = 8;
/// Asking for a status is expected to take so long before it has been seen.
const ASK_NS: u32 = 10_000;
/// Added to what the next request may take.
const JITTER_NS: u64 = 2_000;

/// Contiguous requests that wait, or that go in one transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub direction: Direction,
    /// The first block, and one past the last.
    pub lba: u64,
    pub end: u64,
    pub requests: u8,
    /// The client of the last.
    pub client: u8,
    /// When the first and the last of them came.
    pub first_ns: u64,
    pub last_ns: u64,
    /// The longest time between two that came one after the other, as far as it was seen.
    pub widest_ns: u32,
}

impl Run {
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.end.saturating_sub(self.lba)).unwrap_or(u32::MAX)
    }

    /// Returns what is left of the run from this block on.
    fn left_from(&self, lba: u64) -> Run {
        let blocks = self.end.saturating_sub(lba);
        let requests =
            blocks.saturating_mul(self.requests.into()).checked_div(self.blocks().into()).unwrap_or(1);
        Run { lba, requests: requests.clamp(1, 64) as u8, first_ns: self.last_ns, widest_ns: 0, ..*self }
    }
}

/// Requests of which each begins where the one before ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    direction: Direction,
    /// The last request's owner.
    client: u8,
    /// Requests that its clients keep in flight.
    depth: u8,
    /// How many were in flight when the last were complete, but for those that waited and had not
    /// been told; 0: that has been noted.
    seen: u8,
    /// Most that were seen since it was fewer than `depth`, and how many times that was.
    fewer: u8,
    times: u8,
    /// The `depth` before some stayed away for too long, 0: none did; and whether what went without
    /// them is complete.
    missed: u8,
    answered: bool,
    /// The first block that is not complete, and one past the last.
    begin: u64,
    next: u64,
    /// How long the first of a group usually takes to come back, besides what it takes longer for
    /// each request of the group; and the longest time between two that come. 0: not known.
    first_ns: u32,
    gap_ns: u32,
    /// The time that it takes longer for each request.
    each_ns: u32,
    /// How long the first, and each further one, takes on the average, with what seldom happens.
    mean_first_ns: u32,
    mean_gap_ns: u32,
    /// How many times in a row both were less than half of that.
    first_shorter: u8,
    gap_shorter: u8,
    /// When the last one came.
    arrived_ns: u64,
    /// The last that were complete, and those before.
    done: Group,
    before: Group,
}

/// Requests that were complete at one time.
#[derive(Clone, Copy, Debug)]
struct Group {
    at_ns: u64,
    requests: u8,
    /// The requests that have not come back.
    away: u8,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    /// How long the first of a group takes to come back, by the group's size: a submitter looks at
    /// all that is complete before it sends the next.
    pauses: Costs,
    /// When a status was asked for, whose answer completes requests; 0: none is under way. How long
    /// that takes.
    asked_ns: u64,
    ask_ns: u32,
}

fn learn(known_ns: &mut u32, seen_ns: u64) {
    let seen_ns = u32::try_from(seen_ns).unwrap_or(u32::MAX).max(1);
    *known_ns = match *known_ns {
        0 => seen_ns,
        // A stream that was held up by something else says little; one that has become slower says
        // it again.
        known_ns if seen_ns / 2 > known_ns => known_ns.saturating_add(known_ns / 2 + 1),
        known_ns if seen_ns < known_ns / 2 => known_ns - known_ns / 3,
        known_ns => (known_ns - known_ns / 8).saturating_add(seen_ns / 8),
    };
}

/// `most_ns`: a stream that is away longer is missed in either case. `shorter`: how many times in a
/// row it was away for less than half of the mean. `weight`: it was seen so many times.
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

    /// Returns what the first of so many takes, which usually takes `first_ns` without them.
    fn pause_ns(&self, first_ns: u32, requests: u64) -> u64 {
        u64::from(first_ns).saturating_add(requests.saturating_mul(self.each_ns.into()))
    }

    fn gap_ns(&self) -> u64 {
        // The first has a wake-up more. What takes longer than that was not complete as early.
        let first_ns = self.pause_ns(self.first_ns, self.done.requests.into());
        if self.gap_ns == 0 { first_ns / 4 } else { first_ns.min(self.gap_ns.into()) }
    }

    /// Requests that will come back, when so many wait.
    pub fn away(&self, waiting: u8) -> u8 {
        self.depth.saturating_sub(waiting)
    }

    /// How long so many take to come back from when they are complete; `None`: nothing is known of
    /// it.
    pub fn back_ns(&self, requests: u32) -> Option<u64> {
        let first_ns = self.pause_ns(self.mean_first_ns, requests.into());
        let gap_ns = if self.mean_gap_ns == 0 { first_ns / 4 } else { first_ns.min(self.mean_gap_ns.into()) };
        let others_ns = gap_ns.saturating_mul(u64::from(requests.saturating_sub(1)));
        (self.mean_first_ns > 0).then_some(others_ns.saturating_add(first_ns))
    }

    /// Returns how much of that has passed when the controller is free from then on: it has done
    /// something else meanwhile.
    pub fn hidden_ns(&self, free_ns: u64) -> u64 {
        free_ns.saturating_sub(self.done.at_ns)
    }

    /// How long after one the next is overdue.
    pub fn step_ns(&self) -> u64 {
        2 * self.gap_ns() + JITTER_NS
    }

    /// When the next is overdue. `asked_ns`: what is moved takes so long to become complete; 0: it
    /// is.
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

    /// Of these, those that came before the last completion.
    fn earlier(&self, run: &Run) -> u8 {
        if run.last_ns < self.done.at_ns {
            return run.requests;
        }
        let span_ns = run.last_ns.saturating_sub(run.first_ns);
        let earlier_ns = self.done.at_ns.saturating_sub(run.first_ns);
        earlier_ns.saturating_mul(run.requests.into()).checked_div(span_ns).unwrap_or(0) as u8
    }

    /// Some were given up, and now more come. A client that keeps fewer in flight sends the next
    /// when those that went are complete, and as soon as ever. What comes before that, or much
    /// later, is of those that were away: the others are on their way with it.
    fn returned(&mut self, came_ns: u64) {
        let missed = core::mem::take(&mut self.missed);
        let first_ns = self.pause_ns(self.first_ns, self.done.requests.into());
        let usual_ns = self.done.at_ns.saturating_add(first_ns.saturating_mul(2)).saturating_add(JITTER_NS);
        if missed > 0 && (!self.answered || came_ns > usual_ns) {
            (self.depth, self.fewer, self.times) = (self.depth.max(missed), 0, 0);
        }
    }

    /// The group whose first came then, if `earlier` of those that came with it came before the last
    /// completion. What comes too soon after that is of those before, if some of them are away.
    fn group(&self, came_ns: u64, earlier: u8) -> Group {
        let since_ns = came_ns.saturating_sub(self.done.at_ns);
        let soon = since_ns < self.pause_ns(self.first_ns, self.done.requests.into()) / 2;
        if earlier > 0 || soon && self.before.away > 0 { self.before } else { self.done }
    }

    /// Notes that so many have come back, `earlier` of them before the last completion.
    fn back(&mut self, requests: u8, earlier: u8, of_before: bool) {
        let first = if of_before { requests } else { earlier }.min(self.before.away);
        let rest = requests.saturating_sub(first);
        self.before.away -= first;
        self.before.away = self.before.away.saturating_sub(rest.saturating_sub(self.done.away));
        self.done.away = self.done.away.saturating_sub(rest);
    }

    /// More have come.
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
                // What it usually is, not what seldom happens.
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

    /// Notes how many were in flight at a time.
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

    /// Notes requests that wait, or go. What was told of them before is known. True: they are some
    /// of several in flight. `most_ns`: longer pauses count no more than that.
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
        // Their owner has come back with something else.
        if let Some(stream) = self.streams.iter_mut().find(|s| s.client == run.client && s.depth > 0) {
            stream.depth = stream.depth.saturating_sub(run.requests);
        }
        // What never became a stream goes first, then what was silent longest.
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

    /// Notes that the requests of a transfer are complete.
    pub fn completed(&mut self, run: &Run, now_ns: u64) {
        if self.asked_ns != 0 {
            learn(&mut self.ask_ns, now_ns.saturating_sub(self.asked_ns));
            self.asked_ns = 0;
        }
        let holds = |s: &&mut Stream| s.direction == run.direction && s.begin <= run.lba && run.end <= s.next;
        if let Some(stream) = self.streams.iter_mut().find(holds) {
            let request_blocks = u64::from(run.blocks().checked_div(run.requests.into()).unwrap_or(1));
            let flying = stream.next.saturating_sub(stream.begin).checked_div(request_blocks);
            // What was seen at the completion before, and none has come since.
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

    /// How long it takes until so many that are moved are complete.
    pub fn settles_ns(&self, unsettled: u8) -> u64 {
        if unsettled == 0 { 0 } else { self.ask_ns.into() }
    }

    /// The stream whose last request ends here.
    pub fn ending_at(&self, direction: Direction, end: u64) -> Option<Stream> {
        self.streams.iter().find(|s| s.next == end && s.direction == direction).copied()
    }

    /// No other stream has moved since this one had its results before the last.
    pub fn is_alone(&self, stream: &Stream) -> bool {
        let beside = |other: &&Stream| {
            (other.direction, other.next) != (stream.direction, stream.next)
                && other.arrived_ns > stream.before.at_ns
        };
        !self.streams.iter().any(|other| beside(&other))
    }

    /// Notes that the requests of a stream that are away were waited for long enough; so many wait.
    /// True: there were any.
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
