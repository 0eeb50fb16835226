//! Tests of starts that are held for the tail of a batch: when, for how long, and what ends the
//! hold.

use crate::erased::{Erased, Scheduled, constants};
use crate::{closed, support};
use closed::Closed;
use mmcq::engine::{Config, DmaBuf, Engine, Kind, Request, SlotId};
use mmcq::host::{Direction, Host};
use mmcq::sched::{Any, Choice, Deadline, Fair, Fifo, Policy, Waiting, deadline, fair};
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 1 << 20;
const REQUEST: u32 = 8;
/// Fixed time of a transfer, without the time of its blocks, in nanoseconds.
const FIXED_NS: u64 = 1_000_000;
/// Time of a block, in nanoseconds.
const BLOCK_NS: u64 = 10_000;
const COMMAND_NS: u64 = 5_000;
/// Fixed time of data that continue an open transfer, without the time of their blocks, in
/// nanoseconds.
const CONTINUED_NS: u64 = 300_000;
/// Time from a completion to the next request, in nanoseconds.
const FIRST_NS: u64 = 40_000;
/// Time from one further request to the next, in nanoseconds.
const GAP_NS: u64 = 10_000;

/// A client that keeps `depth` contiguous requests in flight.
struct Loop<P: Policy, H: Host = Erased<{ constants::<Closed>() }>> {
    world: Rc<RefCell<World>>,
    engine: Engine<H, 16, P>,
    now_ns: u64,
    direction: Direction,
    flying: Vec<SlotId>,
    /// Times at which the next requests come.
    coming_ns: Vec<u64>,
    next: u64,
    /// Number of blocks of a request.
    blocks: u32,
    phases: usize,
    ends_ns: Option<u64>,
}

impl<P: Policy> Loop<P> {
    fn new(policy: P, config: Config, direction: Direction, depth: u64) -> Self {
        let world = World::new(BLOCKS);
        let host = Erased::new(Closed(TestHost::new(&world)));
        Loop::on(host, world, policy, config, direction, depth)
    }
}

impl<P: Policy, H: Host> Loop<P, H> {
    fn on(
        host: H,
        world: Rc<RefCell<World>>,
        policy: P,
        config: Config,
        direction: Direction,
        depth: u64,
    ) -> Self {
        let mut engine = Engine::with_policy(host, config, policy);
        engine.set_card_params(Some(target(BLOCKS)));
        let coming_ns = (0..depth).map(|n| n * GAP_NS).collect();
        Loop {
            world,
            engine,
            now_ns: 0,
            direction,
            flying: Vec::new(),
            coming_ns,
            next: 0,
            blocks: REQUEST,
            phases: 0,
            ends_ns: None,
        }
    }

    fn submit(&mut self, kind: Kind) -> SlotId {
        let buf = match kind {
            Kind::Flush => DmaBuf::EMPTY,
            _ => buffer(self.blocks, 1),
        };
        self.engine.submit(Request::new(kind, buf), self.now_ns).unwrap()
    }

    /// Computes when a phase that the engine has started will end, by the constants of this file.
    fn look(&mut self) {
        let world = self.world.borrow();
        if world.log.len() != self.phases {
            self.phases = world.log.len();
            let last = world.log.last().unwrap();
            let cost_ns = match last.blocks {
                0 => COMMAND_NS,
                blocks if last.continued => CONTINUED_NS + BLOCK_NS * u64::from(blocks),
                blocks => FIXED_NS + BLOCK_NS * u64::from(blocks),
            };
            self.ends_ns = Some(self.now_ns + cost_ns);
        }
    }

    /// Advances the time to the next event, and handles it. With `back`, the client submits as many
    /// requests again as are complete.
    fn turn(&mut self, back: bool) {
        self.look();
        let deadline_ns = self.engine.next_deadline_ns();
        let arrival_ns = self.coming_ns.first().copied();
        self.now_ns =
            [self.ends_ns, arrival_ns, deadline_ns].into_iter().flatten().min().unwrap().max(self.now_ns);
        if arrival_ns.is_some_and(|at| at <= self.now_ns) {
            self.coming_ns.remove(0);
            let (lba, blocks) = (self.next, self.blocks);
            self.next += u64::from(blocks);
            let id = self.submit(match self.direction {
                Direction::Read => Kind::Read { lba, blocks },
                Direction::Write => Kind::Write { lba, blocks },
            });
            self.flying.push(id);
        }
        if self.ends_ns.is_some_and(|at| at <= self.now_ns) {
            self.ends_ns = None;
            let _ = self.engine.on_irq(self.now_ns);
        }
        if self.engine.next_deadline_ns().is_some_and(|at| at <= self.now_ns) {
            let _ = self.engine.poll(self.now_ns);
        }
        let before = self.flying.len();
        let engine = &mut self.engine;
        self.flying.retain(|&id| engine.take(id).is_none());
        if back {
            let from_ns = self.coming_ns.last().map_or(0, |last| last + GAP_NS).max(self.now_ns + FIRST_NS);
            let done = (before - self.flying.len()) as u64;
            self.coming_ns.extend((0..done).map(|n| from_ns + n * GAP_NS));
        }
    }

    /// Runs the loop for `requests` requests without measuring, and then for as many again. Returns
    /// the mean number of requests in a transfer of the second part.
    fn merging(&mut self, requests: u64) -> f64 {
        let from = self.next + requests * u64::from(REQUEST);
        while self.next < from {
            self.turn(true);
        }
        let (before, begin) = (self.engine.stats().transfers, self.next);
        while self.next < from + requests * u64::from(REQUEST) {
            self.turn(true);
        }
        let transfers = self.engine.stats().transfers - before;
        (self.next - begin) as f64 / f64::from(REQUEST) / transfers as f64
    }

    /// Runs the loop until a start is held. Returns until when it is held.
    fn until_held(&mut self) -> u64 {
        for _ in 0..10_000 {
            self.turn(true);
            if let Some(until_ns) = self.engine.held_until_ns()
                && !self.coming_ns.is_empty()
            {
                return until_ns;
            }
        }
        panic!("no start is ever held");
    }

    fn transfers(&self) -> u64 {
        self.engine.stats().transfers
    }
}

fn closed_loop(direction: Direction, depth: u64) -> Loop<Fifo> {
    Loop::new(Fifo, Config::DEFAULT, direction, depth)
}

#[test]
fn a_closed_loop_goes_in_whole_batches() {
    for direction in [Direction::Read, Direction::Write] {
        // Depth 16 uses all slots: then the slots of complete requests are about to become free.
        for depth in [2, 4, 8, 16] {
            let merging = closed_loop(direction, depth).merging(400);
            assert!(merging > 0.95 * depth as f64, "{direction:?} depth {depth}: {merging:.2}");
            let mut never = Loop::new(Fifo, Config::DEFAULT.tail_ns(0), direction, depth);
            let merging = never.merging(400);
            assert!(merging <= 0.55 * depth as f64, "off: {direction:?} depth {depth}: {merging:.2}");
            assert_eq!(never.engine.holds().count, 0);
        }
    }
}

/// Tests a closed loop on a host that keeps transfers open: data that continue an open transfer
/// have a fixed time too (an interrupt at least), so whole batches are faster there too. The
/// transfer stays open while the engine waits for the tail.
#[test]
fn a_closed_loop_goes_in_whole_batches_in_an_open_transfer_too() {
    for depth in [2, 4, 8] {
        let world = World::new(BLOCKS);
        {
            let caps = &mut world.borrow_mut().caps;
            (caps.continue_data, caps.auto_stop, caps.auto_count) = (true, false, false);
        }
        let host = TestHost::new(&world);
        let config = Config::DEFAULT.hold_ns(1_000_000);
        let mut client = Loop::on(host, world, Fifo, config, Direction::Read, depth);
        client.merging(400);
        client.world.borrow_mut().log.clear();
        client.phases = 0;
        let begin = client.next;
        while client.next < begin + 400 * u64::from(REQUEST) {
            client.turn(true);
        }
        let world = client.world.borrow();
        let pieces: Vec<_> = world.log.iter().filter(|seen| seen.blocks > 0).collect();
        let each = 400.0 / pieces.len() as f64;
        assert!(each > 0.9 * depth as f64, "depth {depth}: {each:.2}");
        let opened = pieces.iter().filter(|seen| !seen.continued).count();
        assert!(opened <= 2, "depth {depth}: {opened} opened");
    }
}

/// Tests the alignment of batches to the card's pages. The first request goes alone, so all batches
/// begin one block after the begin of a page, until the engine leaves the end of one batch to the
/// next.
#[test]
fn batches_of_short_requests_come_to_lie_on_pages() {
    for (direction, depth) in [(Direction::Read, 8), (Direction::Write, 8), (Direction::Read, 4)] {
        let mut client = closed_loop(direction, depth);
        client.blocks = 1;
        while client.next < 100 * depth {
            client.turn(true);
        }
        let log = client.world.borrow();
        let data: Vec<_> = log.log.iter().filter(|seen| seen.blocks > 0).collect();
        let last = &data[data.len() - 20..];
        let whole =
            |seen: &&&support::Seen| u64::from(seen.blocks) == depth && u64::from(seen.arg) % depth == 0;
        let count = last.iter().filter(whole).count();
        assert!(count >= 19, "{direction:?} depth {depth}: {count} of 20");
        assert!(data.len() < 110, "{}", data.len());
    }
}

#[test]
fn it_works_with_every_scheduler() {
    let deadline = Any::<8>::Deadline(Deadline::new(deadline::DeadlineConfig::DEFAULT));
    let fair = Any::Fair(Fair::new(fair::FairConfig::DEFAULT));
    for policy in [Any::Fifo(Fifo), deadline, fair] {
        let merging = Loop::new(policy, Config::DEFAULT, Direction::Read, 8).merging(400);
        assert!(merging > 7.5, "{}: {merging:.2}", policy.name());
    }
}

#[test]
fn a_hold_is_a_deadline_like_any_other_and_counted() {
    let mut client = closed_loop(Direction::Read, 8);
    client.merging(200);
    let until_ns = client.until_held();
    assert_eq!(client.engine.next_deadline_ns(), Some(until_ns));
    assert!(until_ns <= client.now_ns + 2 * (FIRST_NS + GAP_NS), "no longer than the next may take");
    let holds = client.engine.holds();
    assert!(holds.count > 20 && holds.came * 20 >= holds.count * 19, "{holds:?}");
    assert!(holds.gained_ns > holds.waited_ns, "{holds:?}");
}

/// Tests a client that stays away: the engine waits for it one time, and then holds no start for
/// it.
#[test]
fn a_client_that_stays_away_is_waited_for_once() {
    let mut client = closed_loop(Direction::Read, 8);
    client.merging(200);
    let until_ns = client.until_held();
    let (transfers, held) = (client.transfers(), client.engine.holds().count);
    client.coming_ns.clear();
    client.turn(false);
    assert_eq!(client.now_ns, until_ns);
    assert_eq!(client.transfers(), transfers + 1, "what is there goes when the time is over");
    while !client.flying.is_empty() {
        client.turn(false);
    }
    assert_eq!(client.engine.holds().count, held + 1);
    // The client then sends single requests from where it stopped.
    for _ in 0..20 {
        let lba = client.next;
        client.next += u64::from(REQUEST);
        let before = client.transfers();
        let id = client.submit(Kind::Read { lba, blocks: REQUEST });
        assert_eq!(client.transfers(), before + 1, "it starts at once");
        client.flying.push(id);
        while !client.flying.is_empty() {
            client.turn(false);
        }
        client.now_ns += 3_000_000;
    }
}

#[test]
fn whatever_else_comes_ends_a_hold_at_once() {
    for other in [
        Kind::Flush,
        Kind::Read { lba: 900_000, blocks: REQUEST },
        Kind::Write { lba: 900_000, blocks: REQUEST },
    ] {
        let mut client = closed_loop(Direction::Read, 8);
        client.merging(200);
        client.until_held();
        let transfers = client.transfers();
        client.submit(other);
        assert_eq!(client.transfers(), transfers + 1, "{other:?}");
        assert_eq!(client.engine.held_until_ns(), None);
    }
}

/// Tests a request that is cancelled while it belongs to a held transfer: it is not sent with that
/// transfer.
#[test]
fn a_request_that_leaves_what_is_held_does_not_go() {
    for leaves in 0..3 {
        let mut client = closed_loop(Direction::Read, 8);
        client.merging(200);
        client.until_held();
        while client.flying.len() < 3 {
            client.turn(true);
        }
        assert!(client.engine.held_until_ns().is_some());
        let id = client.flying.remove(leaves);
        assert!(client.engine.cancel(id).is_some(), "it is still in the queue");
        let phases = client.phases;
        // As many requests as the tail has continue the last one; one may get the slot that is free
        // now.
        for _ in 0..6 {
            let lba = client.next;
            client.next += u64::from(REQUEST);
            let id = client.submit(Kind::Read { lba, blocks: REQUEST });
            client.flying.push(id);
        }
        client.coming_ns.clear();
        while !client.flying.is_empty() {
            client.turn(false);
        }
        let moved: u32 = client.world.borrow().log.iter().skip(phases).map(|phase| phase.blocks).sum();
        assert_eq!(moved, 8 * REQUEST, "each of those that are left goes once: {leaves}");
    }
}

#[test]
fn halting_ends_a_hold() {
    let mut client = closed_loop(Direction::Read, 8);
    client.merging(200);
    client.until_held();
    let transfers = client.transfers();
    client.engine.suspend();
    let _ = client.engine.poll(client.now_ns);
    assert_eq!(client.transfers(), transfers + 1, "a queue that drains waits for nothing");
}

#[test]
fn random_requests_are_never_held() {
    let mut client = closed_loop(Direction::Write, 0);
    let mut random = 1u64;
    for _ in 0..2_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lba = (random >> 40) % (BLOCKS / 64) * 64;
        let id = client.submit(Kind::Write { lba, blocks: REQUEST });
        client.flying.push(id);
        while client.flying.len() >= 4 {
            client.turn(false);
        }
    }
    assert_eq!(client.engine.holds().count, 0);
}

/// A scheduler that works first in, first out, and allows no delay.
struct Hurry;

impl Policy for Hurry {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, now_ns: u64) -> Choice {
        waiting.next().map_or(Choice::IdleUntil(now_ns), |oldest| Choice::Go(oldest.index))
    }
    fn bears(&self, _: &Waiting, _: u64) -> bool {
        false
    }
}

#[test]
fn a_policy_that_says_go_is_obeyed() {
    let merging = Loop::new(Scheduled::new(Hurry), Config::DEFAULT, Direction::Read, 8).merging(200);
    assert!(merging <= 4.5, "{merging}");
}
