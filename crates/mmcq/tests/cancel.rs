//! Tests of requests that no client waits for any more. A request that was not sent is never sent,
//! a request that was sent ends by itself, and each buffer comes back exactly one time.

use crate::erased::Scheduled;
use crate::support;
use mmcq::engine::{Config, DmaBuf, Engine, Handshake, Kind, Request, SlotId};
use mmcq::host::{Cause, Stage};
use mmcq::sched::{Choice, Fifo, Policy, Waiting};
use std::cell::RefCell;
use std::rc::Rc;
use support::reclaimed;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 1024;

struct Bench<P: Policy = Fifo, const N: usize = 4> {
    world: Rc<RefCell<World>>,
    e: Engine<TestHost, N, P>,
    now: u64,
}

fn bench() -> Bench {
    Bench::new(Config::DEFAULT, Fifo)
}

impl<P: Policy, const N: usize> Bench<P, N> {
    fn new(config: Config, policy: P) -> Self {
        let world = World::new(BLOCKS);
        world.borrow_mut().caps.max_bytes = 8 * 512;
        let mut e = Engine::with_policy(TestHost::new(&world), config, policy);
        e.set_card_params(Some(target(BLOCKS)));
        Bench { world, e, now: 1_000 }
    }

    fn read(&mut self, lba: u64, blocks: u32) -> SlotId {
        self.e.submit(Request::new(Kind::Read { lba, blocks }, buffer(blocks, 0)), self.now).unwrap()
    }

    fn write(&mut self, lba: u64, blocks: u32, fill: u8) -> SlotId {
        self.e.submit(Request::new(Kind::Write { lba, blocks }, buffer(blocks, fill)), self.now).unwrap()
    }

    fn interrupt(&mut self) {
        self.now += 1_000;
        let _ = self.e.on_irq(self.now);
    }

    /// Runs the engine until no request and no deadline is left.
    fn rest(&mut self) {
        for _ in 0..1_000 {
            if self.world.borrow().running() {
                self.interrupt();
            } else if let Some(at) = self.e.next_deadline_ns() {
                self.now = at.max(self.now);
                let _ = self.e.poll(self.now);
            } else {
                return;
            }
        }
        panic!("never at rest");
    }

    fn sent(&self) -> Vec<(u8, u32)> {
        self.world.borrow().transfers().iter().map(|seen| (seen.index, seen.arg)).collect()
    }

    /// Checks that no buffer waits to be reclaimed, no slot is in use, and no memory is mapped.
    fn clean(&mut self) {
        assert!(reclaimed(|claim| self.e.reclaim(claim)).is_none(), "a buffer too many");
        assert_eq!((self.e.slots_in_use(), self.world.borrow().mapped()), (0, 0));
    }
}

#[test]
fn what_waits_is_taken_out_with_its_buffer() {
    let mut b = bench();
    let first = b.read(0, 8);
    let second = b.read(100, 8);
    let third = b.read(200, 8);
    assert_eq!(b.world.borrow().mapped(), 3);
    let buf = b.e.cancel(second).expect("it has not gone out");
    assert_eq!(buf.len_bytes(), 8 * 512);
    assert_eq!(b.world.borrow().mapped(), 2, "given back to the CPU");
    assert!(b.e.cancel(second).is_none(), "only once");
    b.rest();
    assert_eq!(b.sent(), [(18, 0), (18, 200)]);
    assert!(b.e.take(first).is_some() && b.e.take(second).is_none() && b.e.take(third).is_some());
    b.clean();
}

#[test]
fn what_has_gone_out_ends_by_itself_and_its_buffer_waits() {
    let mut b = bench();
    let id = b.read(0, 8);
    assert!(b.e.cancel(id).is_none(), "the controller has it");
    assert_eq!(b.world.borrow().mapped(), 1);
    assert!(reclaimed(|claim| b.e.reclaim(claim)).is_none(), "not before its end");
    b.rest();
    assert!(b.e.take(id).is_none(), "no client waits for it");
    assert_eq!(reclaimed(|claim| b.e.reclaim(claim)).map(|buf| buf.len_bytes()), Some(8 * 512));
    b.clean();
    // A write that was sent, and whose status has not come yet.
    let id = b.write(8, 8, 3);
    b.interrupt();
    assert!(b.e.cancel(id).is_none());
    b.rest();
    assert_eq!(b.world.borrow().medium[8 * 512], 3);
    assert!(reclaimed(|claim| b.e.reclaim(claim)).is_some());
    b.clean();
}

#[test]
fn what_is_done_gives_its_buffer_and_its_news() {
    let mut b = bench();
    let id = b.read(0, 8);
    b.now += 1_000;
    let work = b.e.on_irq(b.now);
    assert_eq!(work.completed, 1 << id.index());
    assert!(b.e.cancel(id).is_some());
    b.clean();
}

#[test]
fn a_write_that_has_begun_is_not_half_undone() {
    let mut b = bench();
    let id = b.write(0, 24, 7);
    // A halt between two pieces: nothing is under way, and the other pieces are queued.
    b.e.halt();
    b.interrupt();
    // The status of the piece is read, as the card's power may be switched off now.
    b.interrupt();
    assert!(!b.world.borrow().running());
    assert!(b.e.cancel(id).is_none());
    b.e.resume(b.now);
    b.rest();
    assert!(b.world.borrow().medium[..24 * 512].iter().all(|&byte| byte == 7));
    assert_eq!(reclaimed(|claim| b.e.reclaim(claim)).map(|buf| buf.len_bytes()), Some(24 * 512));
    b.clean();
}

/// Tests a write whose only response with its result is lost, and which its client cancels before
/// or after that. The write is sent again, and its buffer comes back only one time.
#[test]
fn a_write_in_doubt_is_not_half_undone_either() {
    for early in [true, false] {
        let mut b = bench();
        let id = b.write(0, 8, 7);
        b.interrupt();
        if early {
            assert!(b.e.cancel(id).is_none(), "the controller has it");
        }
        {
            let mut world = b.world.borrow_mut();
            assert_eq!(world.log.last().map(|seen| seen.index), Some(13), "its status is on the way");
            world.medium[..8 * 512].fill(0);
            let asked = world.log.len();
            world.faults.insert(asked, (Cause::Crc, Stage::Command, true));
        }
        b.e.halt();
        b.rest();
        assert_eq!((b.sent().len(), b.e.slots_in_use()), (1, 1), "queued again, and halted");
        assert!(b.e.cancel(id).is_none(), "under the old name, early: {early}");
        assert!(b.e.take(id).is_none() && reclaimed(|claim| b.e.reclaim(claim)).is_none());
        b.e.resume(b.now);
        b.rest();
        assert!(b.world.borrow().medium[..8 * 512].iter().all(|&byte| byte == 7), "early: {early}");
        assert!(b.e.take(id).is_none(), "no client waits for it");
        assert_eq!(reclaimed(|claim| b.e.reclaim(claim)).map(|buf| buf.len_bytes()), Some(8 * 512));
        b.clean();
    }
}

#[test]
fn an_abandoned_buffer_waits_for_its_claim() {
    let mut b = bench();
    b.read(0, 8);
    let id = b.read(100, 8);
    b.e.abandon(id);
    assert_eq!(reclaimed(|claim| b.e.reclaim(claim)).map(|buf| buf.len_bytes()), Some(8 * 512));
    assert!(reclaimed(|claim| b.e.reclaim(claim)).is_none());
    // A request without memory leaves no buffer behind.
    let flush = b.e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), b.now).unwrap();
    let in_use = b.e.slots_in_use();
    b.e.abandon(flush);
    assert_eq!(b.e.slots_in_use(), in_use - 1);
    assert!(reclaimed(|claim| b.e.reclaim(claim)).is_none());
}

/// Tests buffers that nobody reclaims, with a supervisor for which one slot is kept free: new
/// requests still get the slots of these buffers.
#[test]
fn buffers_that_are_never_reclaimed_make_room() {
    let mut b = bench();
    let _ = b.e.set_service_waker(Some(std::task::Waker::noop().clone()));
    for lba in 0..3 {
        let id = b.read(lba, 1);
        assert!(b.e.cancel(id).is_none());
        b.rest();
    }
    assert_eq!((b.e.slots_in_use(), b.e.stats().leaked), (3, 0));
    let id = b.read(8, 1);
    b.rest();
    assert!(b.e.take(id).is_some_and(|done| done.result.is_ok()));
    assert_eq!(b.e.stats().leaked, 1, "counted");
    while reclaimed(|claim| b.e.reclaim(claim)).is_some() {}
    b.clean();
}

#[test]
fn an_old_name_reaches_no_request() {
    let mut b = bench();
    let old = b.read(0, 8);
    b.rest();
    assert!(b.e.take(old).is_some());
    let new = b.read(8, 8);
    assert_eq!(old.index(), new.index(), "the same slot");
    assert!(b.e.cancel(old).is_none());
    b.rest();
    assert!(b.e.take(new).is_some_and(|done| done.result.is_ok()), "a client still waits for it");
    b.clean();
}

#[test]
fn its_place_among_those_mapped_ahead_is_free_again() {
    let mut b: Bench = Bench::new(Config::DEFAULT.prepared(2), Fifo);
    b.read(0, 8);
    let second = b.read(100, 8);
    b.read(200, 8);
    assert_eq!(b.world.borrow().mapped(), 2);
    assert!(b.e.cancel(second).is_some());
    assert_eq!(b.world.borrow().mapped(), 1);
    b.read(300, 8);
    assert_eq!(b.world.borrow().mapped(), 2, "the next one is mapped in its stead");
}

/// A scheduler that works first in, first out, and stores which requests wait.
#[derive(Default)]
struct Tally {
    waiting: Vec<u64>,
}

impl Policy for Tally {
    fn arrived(&mut self, request: &Waiting, _: u64) {
        self.waiting.push(request.lba);
    }

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, _: u64) -> Choice {
        Choice::Go(waiting.next().expect("at least one").index)
    }

    fn sent(&mut self, request: &Waiting, _: u64) {
        self.waiting.retain(|&lba| lba != request.lba);
    }

    fn cancelled(&mut self, request: &Waiting) {
        let before = self.waiting.len();
        self.waiting.retain(|&lba| lba != request.lba);
        assert_eq!(self.waiting.len(), before - 1, "cancelled what is not there");
    }
}

#[test]
fn a_policy_is_told() {
    let mut b = Bench::<_, 8>::new(Config::DEFAULT, Scheduled::new(Tally::default()));
    b.read(0, 8);
    let second = b.read(100, 8);
    b.read(200, 8);
    assert_eq!(b.e.policy().get::<Tally>().waiting, [100, 200]);
    b.e.cancel(second);
    assert_eq!(b.e.policy().get::<Tally>().waiting, [200]);
}

#[test]
fn what_waits_is_taken_back_and_what_has_begun_is_not() {
    let mut b = bench();
    let first = b.read(0, 8);
    let second = b.write(100, 8, 7);
    let third = b.read(200, 8);
    assert_eq!(b.world.borrow().mapped(), 3);
    assert!(b.e.take_back(first).is_none(), "the controller has it");
    let back = b.e.take_back(second).expect("it waits");
    assert!(back.len() == 8 * 512 && back.iter().all(|&byte| byte == 7), "its memory is as it was");
    assert_eq!(b.world.borrow().mapped(), 2);
    assert!(b.e.take_back(second).is_none(), "there is no such request any more");
    b.rest();
    assert!(b.e.take_back(third).is_none(), "it is over");
    // The first and the third request have their completions nevertheless.
    assert!(b.e.take(first).expect("it ended").result.is_ok());
    assert!(b.e.take(third).expect("it ended").result.is_ok());
    assert_eq!(b.sent(), [(18, 0), (18, 200)]);
    b.clean();
}

#[test]
fn a_request_of_which_a_part_has_moved_is_not_taken_back() {
    let mut b = bench();
    // The write takes two transfers: a transfer has at most 8 blocks.
    let long = b.write(0, 16, 1);
    let beside = b.write(500, 1, 2);
    b.interrupt();
    assert!(b.e.take_back(long).is_none());
    b.rest();
    assert!(b.e.take(long).expect("it ended").result.is_ok());
    assert!(b.e.take(beside).expect("it ended").result.is_ok());
    b.clean();
}
