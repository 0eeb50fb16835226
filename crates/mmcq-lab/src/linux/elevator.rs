//! Model of Linux's I/O scheduler mq-deadline: sorting, batches, expiry, and merging at insert.
//!
//! A new I/O merges into a request that waits in the scheduler, if one begins where the other ends.
//! A request that was dispatched to the driver cannot grow any more. So the more requests the
//! driver takes out, the smaller they are.

use crate::system::{How, Io};
use mmcq::host::Direction;
use std::collections::VecDeque;

/// A request of the block layer: contiguous I/Os of one direction.
#[derive(Clone, Debug)]
pub struct Request {
    /// Direction of the request's data: read or write.
    pub direction: Direction,
    /// Address on the card of the request's first block, in blocks of 512 bytes.
    pub lba: u64,
    /// Length of the request in blocks of 512 bytes.
    pub blocks: u32,
    /// Whether the request is a reliable write, which is on the medium when it is complete.
    pub durable: bool,
    /// I/Os that were merged into this request, in the order of their addresses.
    pub ios: Vec<Io>,
    /// Number that identifies this request; no other request of the scheduler has it.
    id: u64,
    /// Position of the request in the order of arrival. If two requests are merged, the result has
    /// the position of the older one.
    arrival: u64,
    /// Time in ns at which the oldest of the request's I/Os arrived.
    came_ns: u64,
    /// Time in ns at which the request expires. A new batch usually begins at the next address; it
    /// begins with the oldest request of its direction if that request has expired.
    expires_ns: u64,
    /// Number that the request got when it was last entered into the hash of end addresses; later
    /// entries have higher numbers.
    hashed: u64,
}

impl Request {
    fn end(&self) -> u64 {
        self.lba + u64::from(self.blocks)
    }
}

/// Statistics of a disk, `[read, write]`, as in /proc/diskstats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Number of requests that have completed, `[read, write]`.
    pub ios: [u64; 2],
    /// Number of I/Os and requests that were merged into another request, `[read, write]`.
    pub merges: [u64; 2],
    /// Sum in ns of the times of all requests, each from its arrival to its completion.
    pub ticks_ns: [u64; 2],
}

/// Tunables of the scheduler mq-deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Size of the largest request, in blocks of 512 bytes.
    pub max_blocks: u32,
    /// Largest number of I/Os that are merged into one request.
    pub max_segments: usize,
    /// Largest number of requests of one direction that are dispatched before the scheduler chooses
    /// the direction again.
    pub fifo_batch: u32,
    /// Number of batches of reads that may go before waiting writes; then a batch of writes
    /// follows.
    pub writes_starved: u32,
    /// Time in ns from arrival after which a request expires, `[read, write]`.
    pub expire_ns: [u64; 2],
}

impl Default for Tunables {
    fn default() -> Self {
        Tunables {
            max_blocks: 1024,
            max_segments: 128,
            fifo_batch: 16,
            writes_starved: 2,
            expire_ns: [500_000_000, 5_000_000_000],
        }
    }
}

/// Model of the scheduler mq-deadline.
#[derive(Default)]
pub struct Elevator {
    tunables: Tunables,
    /// Waiting requests of each direction, `[read, write]`, sorted by address. Requests with equal
    /// addresses are in the order of arrival.
    sorted: [Vec<Request>; 2],
    /// Durable writes, in the order of arrival. As in Linux 6.1 they bypass the scheduler: nothing
    /// merges with them, and they go first.
    past: VecDeque<Request>,
    next: [Option<u64>; 2],
    last_merge: Option<u64>,
    last_direction: usize,
    batching: u32,
    starved: u32,
    sequence: u64,
    spare: Vec<Vec<Io>>,
    disk: DiskUse,
}

fn index(direction: Direction) -> usize {
    match direction {
        Direction::Read => 0,
        Direction::Write => 1,
    }
}

impl Elevator {
    /// Makes an empty scheduler.
    pub fn new(tunables: Tunables) -> Self {
        Elevator { tunables, ..Self::default() }
    }

    /// Returns the size of the largest request that the scheduler makes, in blocks of 512 bytes.
    pub fn max_blocks(&self) -> u32 {
        self.tunables.max_blocks
    }

    /// Returns whether no request waits in the scheduler.
    pub fn is_empty(&self) -> bool {
        self.past.is_empty() && self.sorted.iter().all(Vec::is_empty)
    }

    /// Returns the number of requests that wait in the scheduler.
    pub fn waiting(&self) -> usize {
        self.past.len() + self.sorted.iter().map(Vec::len).sum::<usize>()
    }

    /// Inserts an I/O into the scheduler. Returns true if the I/O became a request of its own, of
    /// which the driver must be notified; false if it was merged into a waiting request.
    pub fn insert(&mut self, io: Io, now_ns: u64) -> bool {
        let dir = index(io.direction);
        self.sequence += 1;
        let durable = io.how == How::Durable;
        if let Some((i, back)) = self.merge_candidate(&io, dir).filter(|_| !durable) {
            self.disk.merges[dir] += 1;
            let request = &mut self.sorted[dir][i];
            request.blocks += io.blocks;
            self.last_merge = Some(request.id);
            if back {
                request.ios.push(io);
                request.hashed = self.sequence;
                if i + 1 < self.sorted[dir].len() {
                    self.join(dir, i, i + 1);
                }
            } else {
                request.lba = io.lba;
                request.ios.insert(0, io);
                let request = self.sorted[dir].remove(i);
                let at = self.place(dir, request.lba);
                self.sorted[dir].insert(at, request);
                if at > 0 {
                    self.join(dir, at - 1, at);
                }
            }
            return false;
        }
        let mut ios = self.spare.pop().unwrap_or_default();
        ios.push(io);
        let request = Request {
            direction: io.direction,
            lba: io.lba,
            blocks: io.blocks,
            durable,
            ios,
            id: self.sequence,
            arrival: self.sequence,
            came_ns: now_ns,
            expires_ns: now_ns + self.tunables.expire_ns[dir],
            hashed: self.sequence,
        };
        if durable {
            self.past.push_back(request);
            return true;
        }
        self.last_merge.get_or_insert(request.id);
        let at = self.place(dir, request.lba);
        self.sorted[dir].insert(at, request);
        true
    }

    /// Takes the next request out of the scheduler for the driver; `None`: no request waits.
    pub fn dispatch(&mut self, now_ns: u64) -> Option<Request> {
        if let Some(request) = self.past.pop_front() {
            return Some(request);
        }
        let position =
            |e: &Self, dir: usize| e.next[dir].and_then(|id| e.sorted[dir].iter().position(|r| r.id == id));
        let in_batch =
            position(self, self.last_direction).filter(|_| self.batching < self.tunables.fifo_batch);
        let (dir, at) = match in_batch {
            Some(at) => (self.last_direction, at),
            None => {
                let dir = if !self.sorted[0].is_empty() {
                    let starving = !self.sorted[1].is_empty() && {
                        self.starved += 1;
                        self.starved > self.tunables.writes_starved
                    };
                    usize::from(starving)
                } else if !self.sorted[1].is_empty() {
                    1
                } else {
                    return None;
                };
                if dir == 1 {
                    self.starved = 0;
                }
                let oldest = (0..self.sorted[dir].len()).min_by_key(|&i| self.sorted[dir][i].arrival)?;
                let expired = self.sorted[dir][oldest].expires_ns <= now_ns;
                self.last_direction = dir;
                self.batching = 0;
                (dir, position(self, dir).filter(|_| !expired).unwrap_or(oldest))
            }
        };
        self.batching += 1;
        self.next[dir] = self.sorted[dir].get(at + 1).map(|r| r.id);
        let request = self.sorted[dir].remove(at);
        if self.last_merge == Some(request.id) {
            self.last_merge = None;
        }
        Some(request)
    }

    /// Adds a completed request to the statistics, and reuses the memory of its list of I/Os.
    pub fn completed(&mut self, request: Request, now_ns: u64) {
        let (dir, mut ios) = (index(request.direction), request.ios);
        self.disk.ios[dir] += 1;
        self.disk.ticks_ns[dir] += now_ns.saturating_sub(request.came_ns);
        ios.clear();
        self.spare.push(ios);
    }

    /// Returns statistics of all requests so far, in the form of a disk's statistics.
    pub fn disk(&self) -> DiskUse {
        self.disk
    }

    fn place(&self, dir: usize, lba: u64) -> usize {
        self.sorted[dir].partition_point(|r| r.lba <= lba)
    }

    fn fits(&self, request: &Request, blocks: u32, ios: usize) -> bool {
        request.blocks + blocks <= self.tunables.max_blocks
            && request.ios.len() + ios <= self.tunables.max_segments
    }

    /// Returns the waiting request that an I/O can merge into: the request's index, and whether the
    /// I/O comes behind it (true) or before it (false). `None`: the I/O cannot merge. `dir`: its
    /// direction (0: read, 1: write). Requests are tried in this order:
    ///
    /// - the request that grew last (or the first one that came, if none has grown);
    /// - the most recent request that ends where the I/O begins;
    /// - a request that begins where the I/O ends.
    fn merge_candidate(&self, io: &Io, dir: usize) -> Option<(usize, bool)> {
        let requests = &self.sorted[dir];
        let io_end = io.lba + u64::from(io.blocks);
        let fits = |r: &Request| self.fits(r, io.blocks, 1);
        if let Some(i) = self.last_merge.and_then(|id| requests.iter().position(|r| r.id == id && fits(r))) {
            if requests[i].end() == io.lba {
                return Some((i, true));
            }
            if requests[i].lba == io_end {
                return Some((i, false));
            }
        }
        let back =
            (0..requests.len()).filter(|&i| requests[i].end() == io.lba).max_by_key(|&i| requests[i].hashed);
        if let Some(i) = back.filter(|&i| fits(&requests[i])) {
            return Some((i, true));
        }
        requests.iter().position(|r| r.lba == io_end).filter(|&i| fits(&requests[i])).map(|i| (i, false))
    }

    /// Merges two waiting requests of the direction `dir` (0: read, 1: write), if the second begins
    /// where the first ends and both together are not too large. `first` and `second` are their
    /// indices.
    fn join(&mut self, dir: usize, first: usize, second: usize) {
        let (a, b) = (&self.sorted[dir][first], &self.sorted[dir][second]);
        if a.end() != b.lba || !self.fits(a, b.blocks, b.ios.len()) {
            return;
        }
        self.disk.merges[dir] += 1;
        let mut gone = self.sorted[dir].remove(second);
        if self.next[dir] == Some(gone.id) {
            self.next[dir] = self.sorted[dir].get(second).map(|r| r.id);
        }
        let request = &mut self.sorted[dir][first];
        request.blocks += gone.blocks;
        request.ios.append(&mut gone.ios);
        request.arrival = request.arrival.min(gone.arrival);
        request.came_ns = request.came_ns.min(gone.came_ns);
        request.expires_ns = request.expires_ns.min(gone.expires_ns);
        request.hashed = self.sequence;
        if self.last_merge == Some(gone.id) {
            self.last_merge = Some(request.id);
        }
        self.spare.push(gone.ios);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::How;

    fn io(lba: u64) -> Io {
        Io {
            job: 0,
            core: 0,
            direction: Direction::Read,
            how: How::Plain,
            sync: true,
            lba,
            blocks: 8,
            buffer: 0,
            skip: 0,
        }
    }

    fn all(elevator: &mut Elevator) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| elevator.dispatch(0)).map(|r| (r.lba, r.blocks)).collect()
    }

    #[test]
    fn merges_at_the_back_at_the_front_and_across_a_gap() {
        let mut e = Elevator::default();
        assert!(e.insert(io(8), 0));
        assert!(!e.insert(io(16), 0), "back");
        assert!(!e.insert(io(0), 0), "front");
        assert!(e.insert(io(32), 0));
        assert!(!e.insert(io(24), 0), "closes the gap");
        let request = e.dispatch(0).unwrap();
        assert_eq!((request.lba, request.blocks), (0, 40));
        // Four merges: three I/Os and one whole request went into another request.
        e.completed(request, 1000);
        assert_eq!(e.disk(), DiskUse { ios: [1, 0], merges: [4, 0], ticks_ns: [1000, 0] });
    }

    #[test]
    fn the_same_address_twice_is_two_requests() {
        let mut e = Elevator::default();
        assert!(e.insert(io(8), 0));
        assert!(e.insert(io(8), 0));
        assert!(!e.insert(io(16), 0));
        assert_eq!(all(&mut e).iter().map(|r| r.1).sum::<u32>(), 24);
    }

    #[test]
    fn what_was_dispatched_cannot_grow() {
        let mut e = Elevator::default();
        e.insert(io(8), 0);
        assert_eq!(e.dispatch(0).unwrap().blocks, 8);
        assert!(e.insert(io(16), 0));
    }

    #[test]
    fn sweeps_upwards_then_returns_to_the_oldest() {
        let mut e = Elevator::default();
        for lba in [800, 400, 1600] {
            e.insert(io(lba), 0);
        }
        assert_eq!(e.dispatch(0).unwrap().lba, 800, "nothing swept yet: the oldest");
        e.insert(io(80), 0);
        assert_eq!(all(&mut e), [(1600, 8), (400, 8), (80, 8)].map(|(a, b)| (a, b)));
    }

    #[test]
    fn an_expired_request_goes_first_at_the_end_of_a_batch() {
        let mut e = Elevator::new(Tunables { fifo_batch: 1, ..Tunables::default() });
        e.insert(io(800), 0);
        e.insert(io(80), 0);
        e.insert(io(1600), 10);
        assert_eq!(e.dispatch(20).unwrap().lba, 800);
        assert_eq!(e.dispatch(500_000_001).unwrap().lba, 80, "1600 is next in the sweep but younger");
    }

    #[test]
    fn writes_get_their_turn() {
        let mut e = Elevator::new(Tunables { fifo_batch: 1, ..Tunables::default() });
        e.insert(Io { direction: Direction::Write, ..io(0) }, 0);
        for i in 0..5 {
            e.insert(io(100 + 100 * i), 0);
        }
        let order: Vec<_> = std::iter::from_fn(|| e.dispatch(0)).map(|r| r.direction).collect();
        assert_eq!(order.iter().position(|&d| d == Direction::Write), Some(2));
    }

    #[test]
    fn limits_hold() {
        let mut e = Elevator::new(Tunables { max_blocks: 16, ..Tunables::default() });
        for i in 0..4 {
            e.insert(io(8 * i), 0);
        }
        assert_eq!(all(&mut e), [(0, 16), (16, 16)]);
    }
}
