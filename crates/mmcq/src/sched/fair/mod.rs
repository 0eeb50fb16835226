//! The scheduler that gives the clients of a card turns, by budget and weight.
//!
//! Source: budget fair queueing (Valente & Checconi, "High Throughput Disk Scheduling with Fair
//! Bandwidth Distribution", IEEE Trans. Computers 59(9), 2010; Valente & Avanzini, "Evolution of
//! the BFQ Storage-I/O Scheduler", 2015) for turns, budgets, time-outs, charging by time and
//! idling. The order of turns is start-time fair queueing (Goyal, Vin & Cheng, SIGCOMM 1996), in
//! place of B-WF2Q+. Start-time fair queueing need not know the length of a turn in advance, so a
//! turn may end early and no finish tag has to be corrected. Its state is one number for each
//! queue. Idling follows Iyer & Druschel, "Anticipatory scheduling", SOSP 2001. The scheduler also
//! idles for clients with random addresses, as BFQ does on devices that take one command at a time.
//! BFQ's weight raising and queue merging are left out.
//!
//! Every client ([`Origin::client`](super::Origin)) has two queues, each first in, first out: a
//! synchronous one (reads, and writes that a client waits for) and an asynchronous one. The
//! synchronous queues of all clients are one class, the asynchronous queues the other.
//!
//! One queue at a time has the turn. The turn ends when its charge reaches the budget, or when the
//! queue is empty and not worth idling for. **Charge** is the larger of two values: blocks sent,
//! and card time (idling included) at the rate budget / time-out. The charge for time is at most
//! one budget. So a client that is slower than this rate pays for time, all others for blocks.
//!
//! The next turn goes to the queue with the smallest start tag. A queue's start tag is the larger
//! of two values: the virtual time of its class, that is, the start tag of the present or last
//! turn; and the queue's own last tag plus charge / weight.
//!
//! Synchronous queues come before asynchronous ones. An asynchronous turn ends as soon as a
//! synchronous request waits. But after `sync_turns` turns that went before it, an asynchronous
//! queue gets a turn of `async_blocks` that synchronous requests do not end.
//!
//! # Bound
//! Let R be the longest transfer in blocks, B the budget, Q = B + R - 1 the largest charge of a
//! turn, w the weights. Blocks that a merged transfer takes along out of turn are charged to their
//! client, but are outside of these bounds.
//!
//! 1. *Share*: while clients i and j both have synchronous requests waiting, their charges c over
//!    any interval differ by |c_i / w_i - c_j / w_j| <= Q / w_i + Q / w_j. (Goyal's theorem 1, with
//!    the turn as the packet.)
//! 2. *Waiting, synchronous*: let K blocks of its own queue be before a request of client i. Until
//!    the request is sent, each other synchronous queue j is charged at most (K' + Q) w_j / w_i +
//!    Q. K' is what i is charged for the K blocks: K itself, unless i pays for time. No client is
//!    sent more blocks than it is charged, so this bounds the blocks of j. Multiplied by time-out /
//!    budget (and with one transfer more in a turn) it also bounds the time of j. Why: when the
//!    request comes, the tag of i is at most Q / w_i above the virtual time v; when its turn comes,
//!    K' / w_i more. The turns of j until then start at tags between these two values, and all but
//!    the last fit between them.
//! 3. *Synchronous behind asynchronous*: while a synchronous request waits, at most
//!    `async_blocks + R - 1` asynchronous blocks are sent in a row, plus the transfer that was
//!    running. That happens only after `sync_turns` synchronous turns.
//! 4. *Asynchronous*: while an asynchronous request waits, at most (`sync_turns` + 1) Q synchronous
//!    blocks are sent in a row. Bounds 1 and 2 also hold among asynchronous queues, with
//!    asynchronous charges.
//! 5. *Idling*: the card idles for at most `idle_ns` in a row, and for no more than the time-out in
//!    a turn. The client pays for this time as for card time. A turn may begin with idling, if its
//!    client was served last and its tag is still the smallest; if no request comes, another
//!    client's turn follows. The card does not idle while all waiting requests are alike: reads of
//!    the same length as the last read of the turn's client, from clients of the same weight with
//!    one request each. None of these clients may be a stream that gains by idling. Then turns of
//!    one request are equally fair, and bounds 1 and 2 hold unchanged. (A client is a stream if its
//!    last two requests each began where the one before ended. A stream gains if its next read, and
//!    the wait for it, take less time than a read elsewhere; both times are measured.)
//!
//! Rounding adds less than one block in four million transfers.
//!
//! Cost: each pick makes one pass over the waiting requests. The pick that ends a turn makes a
//! second pass, and one over the clients. All other calls take constant time. On x86-64, optimised,
//! a pick takes about 35 instructions for each waiting request; all calls together take 340 for a
//! request that waits alone. The scheduler has a size of at most 512 bytes for eight clients.

mod client;
mod config;
mod gain;

pub use config::FairConfig;

use super::{Choice, Policy, Waiting};
use crate::host::Direction;
use client::Client;
use gain::Gain;

/// The turn in progress: the queue that has it, and what the turn has used so far.
#[derive(Clone, Copy, Debug)]
struct Turn {
    slot: u8,
    sync: bool,
    /// Whether this turn of an asynchronous queue follows `sync_turns` turns of synchronous queues.
    /// Then synchronous requests that wait end this turn only after `async_blocks` blocks.
    owed: bool,
    /// Number of blocks of the last request that the turn's client sent in this turn, if that was a
    /// read; otherwise 0.
    read_blocks: u32,
    blocks: u64,
    used_ns: u64,
    /// Time in ns up to which the turn's use of the card is already added to `used_ns`.
    counted_ns: u64,
    /// Time in ns until which the card is kept idle, so that the client that has the turn can send
    /// its next request; `None`: the card is not kept idle.
    idle_until_ns: Option<u64>,
}

/// The scheduler of turns by budget and weight; see [the module](self). Clients with a number of
/// `CLIENTS - 1` or above share the last pair of queues.
#[derive(Clone, Copy, Debug)]
pub struct Fair<const CLIENTS: usize = 8> {
    config: FairConfig<CLIENTS>,
    clients: [Client; CLIENTS],
    turn: Option<Turn>,
    /// Number of turns of synchronous requests that were given while asynchronous requests waited,
    /// since the last asynchronous request was sent.
    passed: u8,
    /// Number of requests on the card.
    flying: u8,
    /// The measured times of reads: by how much a read is faster if it continues the read before
    /// it. The result decides whether the card waits (idles) for a client's next read instead of
    /// serving others.
    gain: Gain,
    crowded: u32,
}

/// Returns whether the request is a read, or a write that a client waits for.
fn is_sync(request: &Waiting) -> bool {
    request.direction == Direction::Read || request.origin.sync
}

impl<const CLIENTS: usize> Fair<CLIENTS> {
    /// Makes a scheduler without requests.
    pub const fn new(config: FairConfig<CLIENTS>) -> Self {
        Fair {
            config,
            clients: [Client::NEW; CLIENTS],
            turn: None,
            passed: 0,
            flying: 0,
            gain: Gain::UNKNOWN,
            crowded: 0,
        }
    }

    /// Returns the number of requests that had to share the last client's queues because their
    /// client's number was too high.
    pub const fn crowded(&self) -> u32 {
        self.crowded
    }

    fn slot(&self, request: &Waiting) -> u8 {
        let last = u8::try_from(CLIENTS.saturating_sub(1)).unwrap_or(u8::MAX);
        request.origin.client.min(last)
    }

    fn weight(&self, slot: u8) -> u16 {
        self.config.weights.get(usize::from(slot)).copied().unwrap_or(1)
    }

    fn client(&mut self, request: &Waiting) -> Option<&mut Client> {
        let slot = self.slot(request);
        self.clients.get_mut(usize::from(slot))
    }

    /// Adds to `used_ns` of the present turn the time for which its client has used the card since
    /// the last event.
    fn count_time(&mut self, now_ns: u64) {
        let Some(turn) = &mut self.turn else { return };
        let until_ns = match turn.idle_until_ns {
            _ if self.flying > 0 => now_ns,
            Some(idle_ns) => idle_ns.min(now_ns),
            None => turn.counted_ns,
        };
        turn.used_ns = turn.used_ns.saturating_add(until_ns.saturating_sub(turn.counted_ns));
        turn.counted_ns = turn.counted_ns.max(now_ns);
    }

    /// Returns how many blocks the turn has been charged so far: the blocks that it sent, or more
    /// if it used the card for long.
    fn charge(&self, turn: &Turn) -> u64 {
        let budget = u64::from(self.config.budget_blocks);
        let by_time = turn.used_ns.saturating_mul(budget).checked_div(self.config.timeout_ns).unwrap_or(0);
        turn.blocks.max(by_time.min(budget))
    }

    /// Ends the turn of a client. Each block was charged to the client when it was sent. If the
    /// charge for the time for which the turn used the card is larger, `end` adds the difference.
    fn end(&mut self, turn: &Turn) {
        let rest = self.charge(turn).saturating_sub(turn.blocks);
        let weight = self.weight(turn.slot);
        if let Some(client) = self.clients.get_mut(usize::from(turn.slot)) {
            client.charge(turn.sync, rest, weight);
        }
        self.turn = None;
    }

    /// Returns whether it is useless that the card waits for the next read of this turn's client.
    /// That is so if its requests are not sequential, or if a read that continues the last one
    /// saves less time than the wait costs.
    fn is_idling_vain(&self, turn: &Turn) -> bool {
        self.clients.get(usize::from(turn.slot)).is_some_and(|client| {
            client.jumps() || !self.gain.is_worth(turn.read_blocks, client.think_ns().unwrap_or(0))
        })
    }

    /// Returns whether the request may follow the turn's last read as if both were of one client.
    /// It must be a read of the same length, and its client must have the same weight and no other
    /// request under way. A client that reads sequentially, and for which it pays to keep the card
    /// idle until its next request, is not alike.
    fn is_alike(&self, turn: &Turn, request: &Waiting) -> bool {
        let slot = self.slot(request);
        let client = self.clients.get(usize::from(slot));
        let streams = |client: &Client| {
            !client.jumps() && self.gain.is_worth(request.blocks, client.think_ns().unwrap_or(0))
        };
        let alone = client.is_some_and(|client| client.has_one() && !streams(client));
        request.direction == Direction::Read
            && request.blocks == turn.read_blocks
            && alone
            && self.weight(slot) == self.weight(turn.slot)
    }

    /// Returns the time in ns until which the card is kept idle, in the hope that the client whose
    /// turn it is sends another request; `None`: the card is not kept idle.
    fn idle_until_ns(&self, turn: &Turn, now_ns: u64) -> Option<u64> {
        let client = self.clients.get(usize::from(turn.slot))?;
        let think_ns = client.think_ns()?;
        if !turn.sync || turn.blocks == 0 || think_ns > self.config.think_ns {
            return None;
        }
        let until_ns = turn.idle_until_ns.unwrap_or_else(|| {
            // A client that has not come after four times the mean comes late or not at all.
            let wait_ns = think_ns.saturating_mul(4).clamp(self.config.idle_ns / 16, self.config.idle_ns);
            let left_ns = self.config.timeout_ns.saturating_sub(turn.used_ns);
            now_ns.saturating_add(wait_ns.min(left_ns))
        });
        (until_ns > now_ns).then_some(until_ns)
    }

    /// Gives the client whose turn has just ended another turn, which begins with idling, if the
    /// client is thinking and its start tag is still the smallest. Returns until when the card
    /// idles; `None`: the client gets no such turn.
    fn again<I: Iterator<Item = Waiting>>(&mut self, ended: &Turn, waiting: I, now_ns: u64) -> Option<u64> {
        // The ended turn has already idled for this client in vain.
        if ended.idle_until_ns.is_some() {
            return None;
        }
        let tag = |client: &Client| client.ahead(ended.sync);
        let ahead = self.clients.get(usize::from(ended.slot)).map(tag)?;
        let mut passes = false;
        for request in waiting {
            if is_sync(&request) != ended.sync {
                passes = true;
                continue;
            }
            let other = self.clients.get(usize::from(self.slot(&request))).map(tag)?;
            if other <= ahead {
                return None;
            }
        }
        // A turn that passes over waiting asynchronous requests counts in `passed`, as in `begin`.
        if passes && self.passed >= self.config.sync_turns {
            return None;
        }
        let until_ns = self.idle_until_ns(&Turn { used_ns: 0, idle_until_ns: None, ..*ended }, now_ns)?;
        self.passed = if passes { self.passed.saturating_add(1) } else { 0 };
        for client in &mut self.clients {
            client.advance(ended.sync, ahead);
        }
        let turn =
            Turn { blocks: 0, used_ns: 0, counted_ns: now_ns, idle_until_ns: Some(until_ns), ..*ended };
        self.turn = Some(turn);
        Some(until_ns)
    }

    /// Gives the turn to the queue with the smallest start tag of its class; among equal tags, to
    /// the queue whose request has waited longest.
    fn begin<I: Iterator<Item = Waiting>>(&mut self, waiting: I, now_ns: u64) -> Choice {
        // Start tag, client and request index of the best queue in each class.
        let (mut first_sync, mut first_async) = (None, None);
        for request in waiting {
            let (sync, slot) = (is_sync(&request), self.slot(&request));
            let ahead = self.clients.get(usize::from(slot)).map_or(0, |client| client.ahead(sync));
            let best: &mut Option<(u64, u8, u8)> = if sync { &mut first_sync } else { &mut first_async };
            if best.is_none_or(|(least, ..)| ahead < least) {
                *best = Some((ahead, slot, request.index));
            }
        }
        let owed = self.passed >= self.config.sync_turns;
        let (sync, (ahead, slot, index)) = match (first_sync, first_async) {
            (Some(_), Some(waits)) if owed => (false, waits),
            (Some(first), waits) => {
                self.passed = if waits.is_some() { self.passed.saturating_add(1) } else { 0 };
                (true, first)
            }
            (None, Some(first)) => (false, first),
            (None, None) => return Choice::IdleUntil(now_ns),
        };
        for client in &mut self.clients {
            client.advance(sync, ahead);
        }
        self.turn = Some(Turn {
            slot,
            sync,
            owed: owed && !sync,
            read_blocks: 0,
            blocks: 0,
            used_ns: 0,
            counted_ns: now_ns,
            idle_until_ns: None,
        });
        Choice::Go(index)
    }
}

impl<const CLIENTS: usize> Policy for Fair<CLIENTS> {
    fn arrived(&mut self, request: &Waiting, _now_ns: u64) {
        if usize::from(request.origin.client) >= CLIENTS {
            self.crowded = self.crowded.saturating_add(1);
        }
        if is_sync(request) {
            let longest_ns = self.config.idle_ns.saturating_mul(2);
            if let Some(client) = self.client(request) {
                client.arrived(request, longest_ns);
            }
        }
    }

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        let silent_since_ns = self.turn.map_or(now_ns, |turn| turn.counted_ns);
        self.count_time(now_ns);
        let Some(turn) = self.turn else { return self.begin(waiting, now_ns) };
        let (mut next, mut oldest_ns) = (None, None);
        let (mut sync_waits, mut alike) = (false, self.is_idling_vain(&turn));
        for request in waiting.clone() {
            let (sync, slot) = (is_sync(&request), self.slot(&request));
            oldest_ns.get_or_insert(request.arrived_ns);
            sync_waits |= sync;
            alike &= self.is_alike(&turn, &request);
            if next.is_none() && slot == turn.slot && sync == turn.sync {
                next = Some(request.index);
            }
        }
        // No client has sent a request for a while, so all debts are cleared. Start-time fair
        // queueing does this too: when a server falls idle, virtual time goes on to the last tag.
        let quiet_ns = oldest_ns.unwrap_or(now_ns).saturating_sub(silent_since_ns);
        if self.flying == 0 && quiet_ns > self.config.idle_ns {
            for client in &mut self.clients {
                client.advance(true, u64::MAX);
                client.advance(false, u64::MAX);
            }
            self.turn = None;
            return self.begin(waiting, now_ns);
        }
        let limit = match (turn.sync, sync_waits) {
            (false, true) if turn.owed => self.config.async_blocks.min(self.config.budget_blocks),
            (false, true) => 0,
            _ => self.config.budget_blocks,
        };
        if self.charge(&turn) < u64::from(limit) {
            if let Some(index) = next {
                return Choice::Go(index);
            }
            // While the requests of all clients are alike, turns of one request are as fair as
            // longer turns, and the card never idles.
            if let Some(until_ns) = self.idle_until_ns(&turn, now_ns).filter(|_| !(alike && sync_waits)) {
                self.turn = Some(Turn { idle_until_ns: Some(until_ns), ..turn });
                return Choice::IdleUntil(until_ns);
            }
        }
        self.end(&turn);
        let thinks = next.is_none() && !(alike && sync_waits);
        if let Some(until_ns) = thinks.then(|| self.again(&turn, waiting.clone(), now_ns)).flatten() {
            return Choice::IdleUntil(until_ns);
        }
        self.begin(waiting, now_ns)
    }

    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        self.count_time(now_ns);
        self.gain.sent(request, request.direction == Direction::Read, self.flying == 0, now_ns);
        self.flying = self.flying.saturating_add(1);
        let (sync, slot) = (is_sync(request), self.slot(request));
        let weight = self.weight(slot);
        if !sync {
            self.passed = 0;
        }
        if let Some(client) = self.client(request) {
            client.charge(sync, u64::from(request.blocks), weight);
        }
        if let Some(turn) = &mut self.turn
            && (turn.slot, turn.sync) == (slot, sync)
        {
            turn.blocks = turn.blocks.saturating_add(u64::from(request.blocks));
            turn.read_blocks = if request.direction == Direction::Read { request.blocks } else { 0 };
            turn.idle_until_ns = None;
        }
    }

    fn cancelled(&mut self, request: &Waiting) {
        if is_sync(request)
            && let Some(client) = self.client(request)
        {
            client.cancelled();
        }
    }

    fn done(&mut self, request: &Waiting, now_ns: u64) {
        self.count_time(now_ns);
        self.flying = self.flying.saturating_sub(1);
        self.gain.done(request.blocks, now_ns);
        if is_sync(request)
            && let Some(client) = self.client(request)
        {
            client.done(now_ns);
        }
    }
}

const _: () = assert!(size_of::<Fair<8>>() <= 512);
