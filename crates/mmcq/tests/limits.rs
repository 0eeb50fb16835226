//! Tests of the size and the time limit of a transfer, and of starts that are refused.

use crate::support;
use mmcq::engine::{Config, DmaBuf, Engine, Error, Kind, Request, SlotId};
use mmcq::host::{BusOp, Caps, Width};
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 256;
const MS: u64 = 1_000_000;

struct Bench {
    world: Rc<RefCell<World>>,
    e: Engine<TestHost, 16>,
    now: u64,
}

fn bench(change: impl FnOnce(&mut Caps)) -> Bench {
    let world = World::new(BLOCKS);
    change(&mut world.borrow_mut().caps);
    let mut e = Engine::new(TestHost::new(&world), Config::DEFAULT);
    e.set_card_params(Some(target(BLOCKS)));
    Bench { world, e, now: 1_000 }
}

impl Bench {
    fn submit(&mut self, kind: Kind, blocks: u32) -> SlotId {
        let buf = if blocks == 0 { DmaBuf::EMPTY } else { buffer(blocks, 0) };
        self.e.submit(Request::new(kind, buf), self.now).unwrap()
    }

    fn read(&mut self, lba: u64, blocks: u32) -> SlotId {
        self.submit(Kind::Read { lba, blocks }, blocks)
    }

    fn finish(&mut self, id: SlotId) -> Result<u32, Error> {
        for _ in 0..100_000 {
            if let Some(done) = self.e.take(id) {
                return done.result.map(|output| output.bytes);
            }
            self.now += 1_000;
            if self.world.borrow().running() && !self.world.borrow().silent {
                let _ = self.e.on_irq(self.now);
            } else {
                self.now = self.e.next_deadline_ns().map_or(self.now, |at| at.max(self.now));
                let _ = self.e.poll(self.now);
            }
        }
        panic!("never done");
    }

    fn sizes(&self) -> Vec<u32> {
        self.world.borrow().transfers().iter().map(|seen| seen.blocks).collect()
    }
}

#[test]
fn a_transfer_is_no_larger_than_the_host_can() {
    for (max_blocks, max_bytes, expected) in [
        (3, 1 << 20, vec![3, 3, 3, 1]),
        (1 << 16, 4 * 512, vec![4, 4, 2]),
        (1 << 16, 4 * 512 + 511, vec![4, 4, 2]),
        (1 << 16, 1 << 20, vec![10]),
        // Limits that allow no block at all: the engine sends one block at a time.
        (0, 1 << 20, vec![1; 10]),
        (1 << 16, 511, vec![1; 10]),
    ] {
        let mut b = bench(|caps| (caps.max_blocks, caps.max_bytes) = (max_blocks, max_bytes));
        let id = b.read(0, 10);
        assert_eq!(b.finish(id), Ok(10 * 512));
        assert_eq!(b.sizes(), expected, "{max_blocks} blocks, {max_bytes} bytes");
    }
}

#[test]
fn no_more_requests_go_together_than_there_are_segments() {
    for (max_segments, expected) in
        [(0, vec![8, 8, 8, 8, 8]), (1, vec![8, 8, 8, 8, 8]), (2, vec![8, 16, 16]), (4, vec![8, 32])]
    {
        let mut b = bench(|caps| caps.max_segments = max_segments);
        let ids: Vec<_> = (0..5).map(|i| b.read(8 * i, 8)).collect();
        for id in ids {
            assert_eq!(b.finish(id), Ok(8 * 512));
        }
        assert_eq!(b.sizes(), expected, "{max_segments} segments");
    }
}

/// Tests the time limit of a transfer: twice the time on the wire, plus the card's time (100 ms)
/// and the slack for a failed controller (50 ms). The first poll does not include the card's time.
#[test]
fn patience_grows_with_the_time_on_the_wire() {
    let wire_ns = |lines: u64, hz: u64| (4096 / lines + 40) * 1_000_000_000 / hz;
    let fast = [BusOp::Clock(50_000_000), BusOp::Width(Width::W8)];
    let off = [fast[0], fast[1], BusOp::PowerOff, BusOp::PowerOn, BusOp::Clock(400_000)];
    for (ops, block_ns) in [
        (&[BusOp::Clock(400_000)][..], wire_ns(1, 400_000)),
        (&[BusOp::Clock(25_000_000), BusOp::Width(Width::W4)][..], wire_ns(4, 25_000_000)),
        (&fast[..], wire_ns(8, 50_000_000)),
        // A card that was switched off begins anew with one line.
        (&off[..], wire_ns(1, 400_000)),
    ] {
        let mut b = bench(|_| ());
        for &op in ops {
            let id = b.submit(Kind::Bus(op), 0);
            b.finish(id).unwrap();
        }
        for blocks in [1, 16] {
            let id = b.read(0, blocks);
            let wire_ns = 2 * u64::from(blocks) * block_ns;
            let (mut look_ns, whole_ns) = (50 * MS + wire_ns, 150 * MS + wire_ns);
            b.world.borrow_mut().silent = true;
            loop {
                let at = b.e.next_deadline_ns().unwrap();
                assert_eq!(at - b.now, look_ns.min(whole_ns), "{ops:?}, {blocks} blocks");
                if at - b.now == whole_ns {
                    break;
                }
                let _ = b.e.poll(at);
                look_ns *= 2;
            }
            b.world.borrow_mut().silent = false;
            b.finish(id).unwrap();
        }
    }
}

#[test]
fn a_start_that_is_refused_is_tried_again_soon() {
    let mut b = bench(|_| ());
    b.world.borrow_mut().refuse_starts = 3;
    let began = b.now;
    let id = b.read(0, 1);
    assert!(!b.world.borrow().running());
    // An interrupt of an earlier phase changes nothing.
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.finish(id), Ok(512));
    assert_eq!(b.e.stats().start_retries, 3);
    assert!((30_000..40_000).contains(&(b.now - began)), "{} ns", b.now - began);
    assert_eq!(b.e.stats().faults, 0);
}

#[test]
fn a_start_that_is_always_refused_ends_in_time() {
    let mut b = bench(|_| ());
    b.world.borrow_mut().refuse_starts = u32::MAX;
    let ids = [b.read(0, 1), b.read(64, 1)];
    for id in ids {
        assert!(b.finish(id).is_err());
    }
    assert!(b.now < 12_500 * MS, "{} ns", b.now);
    assert_eq!((b.world.borrow().mapped(), b.world.borrow().log.len()), (0, 0));
}

/// Tests a CMD13 that reads the status of earlier writes, and whose start the controller always
/// refuses: the engine gives it up in time.
#[test]
fn a_status_that_can_never_be_asked_for_ends_in_time() {
    let mut b = bench(|_| ());
    let id = b.submit(Kind::Write { lba: 0, blocks: 8 }, 8);
    b.now += 1_000;
    b.world.borrow_mut().refuse_starts = u32::MAX;
    let _ = b.e.on_irq(b.now);
    assert!(b.finish(id).is_err());
    assert!(b.now < 12_500 * MS, "{} ns", b.now);
}

/// Tests a lost interrupt of a phase that has ended: the engine finds the end at the deadline and
/// counts it, and no request fails.
#[test]
fn a_lost_interrupt_is_counted_and_no_fault() {
    let mut b = bench(|_| ());
    for lost in 1..=3 {
        let id = b.read(0, 1);
        let deadline = b.e.next_deadline_ns().unwrap();
        let _ = b.e.poll(deadline - 1);
        assert!(b.e.take(id).is_none(), "not before");
        let _ = b.e.poll(deadline);
        assert_eq!(b.e.take(id).unwrap().result.map(|output| output.bytes), Ok(512));
        assert_eq!((b.e.stats().lost_interrupts, b.e.stats().faults), (lost, 0));
        b.now = deadline;
    }
}
