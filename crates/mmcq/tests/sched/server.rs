//! A synthetic card with its clients, as a scheduler sees them.

use mmcq::host::Direction::{Read, Write};
use mmcq::sched::{Choice, Origin, Policy, Waiting};

/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;

/// A generator of pseudo-random numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }

    pub fn within(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }
}

/// A client that keeps `depth` requests under way, and pauses before it submits each of them.
#[derive(Clone, Debug)]
pub struct Client {
    pub client: u8,
    /// Share of writes among the requests, in percent.
    pub writes: u64,
    pub sync: bool,
    pub depth: u8,
    pub requests: u32,
    pub think_ns: std::ops::RangeInclusive<u64>,
    pub blocks: std::ops::RangeInclusive<u64>,
    pub sequential: bool,
}

impl Client {
    pub fn reader(client: u8, depth: u8, requests: u32, blocks: u64) -> Self {
        let blocks = blocks..=blocks;
        let think_ns = 1_000..=1_000;
        Client { client, writes: 0, sync: false, depth, requests, think_ns, blocks, sequential: true }
    }

    pub fn random(client: u8, r: &mut Random) -> Self {
        let longest = *[8, 64, 700].get(r.below(3) as usize).unwrap();
        Client {
            client,
            writes: *[0, 30, 100].get(r.below(3) as usize).unwrap(),
            sync: r.below(2) == 0,
            depth: r.within(1..=12) as u8,
            requests: r.within(1..=400) as u32,
            think_ns: 1..=r.within(1..=3 * MS),
            blocks: 1..=longest,
            sequential: r.below(2) == 0,
        }
    }
}

/// The properties of the card, and the irregular events of a run.
#[derive(Clone, Copy)]
pub struct Server {
    pub block_ns: u64,
    pub transfer_ns: u64,
    /// Longest transfer in blocks; longer requests are split.
    pub longest_blocks: u32,
    /// Whether contiguous requests are merged into one transfer.
    pub merges: bool,
    /// Number of picks, of a thousand, before which a waiting request is cancelled.
    pub cancels: u64,
    /// Whether a completion is reported only after the next request was sent.
    pub late_done: bool,
}

/// A card with 25 MB/s and no fixed time of a transfer: no client is slower than the rate budget /
/// time-out, so no client pays for time.
pub const FAST: Server = Server {
    block_ns: 20_000,
    transfer_ns: 0,
    longest_blocks: 512,
    merges: false,
    cancels: 0,
    late_done: false,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Arrived(u32, Waiting),
    /// The request was sent: its number, the request as it was sent, the time, and whether it was
    /// merged into the transfer of another request.
    Sent(u32, Waiting, u64, bool),
    Cancelled(u32),
    /// The card was idle although a request waited: begin and end of that time.
    Idle(u64, u64),
}

pub fn is_sync(w: &Waiting) -> bool {
    w.direction == Read || w.origin.sync
}

struct World<'a, P> {
    policy: &'a mut P,
    clients: &'a [Client],
    random: Random,
    waiting: Vec<(u32, usize, Waiting)>,
    /// The requests to come: time and client of each.
    coming: Vec<(u64, usize)>,
    left: Vec<u32>,
    at_lba: Vec<u64>,
    next_id: u32,
    log: Vec<Event>,
}

impl<P: Policy> World<'_, P> {
    fn arrive(&mut self, who: usize, mut w: Waiting) {
        w.index = (0..64).find(|i| self.waiting.iter().all(|(.., o)| o.index != *i)).expect("64 at most");
        self.policy.arrived(&w, w.arrived_ns);
        self.log.push(Event::Arrived(self.next_id, w));
        self.waiting.push((self.next_id, who, w));
        self.next_id += 1;
    }

    fn arrive_until(&mut self, now_ns: u64) {
        self.coming.sort_unstable();
        while let Some(&(at_ns, who)) = self.coming.first()
            && at_ns <= now_ns
        {
            self.coming.remove(0);
            let client = &self.clients[who];
            let blocks = self.random.within(client.blocks.clone()) as u32;
            let lba = if client.sequential { self.at_lba[who] } else { self.random.below(1 << 30) };
            self.at_lba[who] = lba + u64::from(blocks);
            let direction = if self.random.below(100) < client.writes { Write } else { Read };
            let origin = Origin { client: client.client, sync: client.sync };
            self.arrive(who, Waiting { index: 0, direction, lba, blocks, origin, arrived_ns: at_ns });
        }
    }

    fn think(&mut self, who: usize, now_ns: u64) {
        if self.left[who] > 0 {
            self.left[who] -= 1;
            let think_ns = self.random.within(self.clients[who].think_ns.clone());
            self.coming.push((now_ns + think_ns, who));
        }
    }

    fn take(&mut self, index: u8) -> (u32, usize, Waiting) {
        let at = self.waiting.iter().position(|(.., w)| w.index == index).expect("picked one that waits");
        self.waiting.remove(at)
    }
}

/// Executes all requests of the clients with this scheduler. Returns the log of events.
pub fn serve<P: Policy>(policy: &mut P, clients: &[Client], server: Server, seed: u64) -> Vec<Event> {
    let mut world = World {
        policy,
        clients,
        random: Random(seed),
        waiting: vec![],
        coming: vec![],
        left: clients.iter().map(|c| c.requests).collect(),
        at_lba: (0..clients.len() as u64).map(|i| i << 32).collect(),
        next_id: 0,
        log: vec![],
    };
    let mut now_ns = 1;
    let mut late: Vec<Waiting> = vec![];
    for (who, client) in clients.iter().enumerate() {
        (0..client.depth).for_each(|_| world.think(who, now_ns));
    }
    for _ in 0..1_000_000 {
        world.arrive_until(now_ns);
        if !world.waiting.is_empty() && world.random.below(1000) < server.cancels {
            let at = world.random.below(world.waiting.len() as u64) as usize;
            let (id, who, w) = world.waiting.remove(at);
            world.policy.cancelled(&w);
            world.log.push(Event::Cancelled(id));
            world.think(who, now_ns);
            continue;
        }
        let coming_ns = world.coming.iter().map(|(at_ns, _)| *at_ns).min();
        if world.waiting.is_empty() {
            let Some(at_ns) = coming_ns else { return world.log };
            now_ns = at_ns;
            continue;
        }
        let index = match world.policy.pick(world.waiting.iter().map(|(.., w)| *w), now_ns) {
            Choice::Go(index) => index,
            Choice::IdleUntil(until_ns) => {
                assert!(until_ns > now_ns, "idles for nothing");
                let to_ns = coming_ns.map_or(until_ns, |at_ns| at_ns.min(until_ns));
                world.log.push(Event::Idle(now_ns, to_ns));
                now_ns = to_ns;
                continue;
            }
        };
        let mut batch = vec![world.take(index)];
        while server.merges
            && batch.len() < 8
            && let Some(&(.., last)) = batch.last()
            && last.blocks <= server.longest_blocks
            && let Some((.., next)) = world
                .waiting
                .iter()
                .find(|(.., w)| w.direction == last.direction && w.lba == last.lba + u64::from(last.blocks))
        {
            let index = next.index;
            batch.push(world.take(index));
        }
        let mut blocks = 0;
        for (nth, (id, _, w)) in batch.iter().enumerate() {
            let sent = Waiting { blocks: w.blocks.min(server.longest_blocks), ..*w };
            world.policy.sent(&sent, now_ns);
            world.log.push(Event::Sent(*id, sent, now_ns, nth > 0));
            blocks += u64::from(sent.blocks);
        }
        for w in late.drain(..) {
            world.policy.done(&w, now_ns);
        }
        now_ns += server.transfer_ns + blocks * server.block_ns;
        world.arrive_until(now_ns);
        for (_, who, w) in batch {
            let sent = Waiting { blocks: w.blocks.min(server.longest_blocks), ..w };
            if server.late_done {
                late.push(sent);
            } else {
                world.policy.done(&sent, now_ns);
            }
            if sent.blocks < w.blocks {
                let lba = w.lba + u64::from(sent.blocks);
                let blocks = w.blocks - sent.blocks;
                world.arrive(who, Waiting { lba, blocks, arrived_ns: now_ns, ..w });
            } else {
                world.think(who, now_ns);
            }
        }
    }
    panic!("a request is never served");
}
