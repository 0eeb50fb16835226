//! Tests of the engine: order, merging, one request for each error, deadlines, and that nothing is
//! lost.

use crate::erased::Scheduled;
use crate::{fuzz, support};
use mmcq::engine::{Config, DmaBuf, Engine, Error, Kind, Request, SlotId};
use mmcq::host::{BusyDetect, Cause};
use mmcq::sched::{Choice, Policy, Waiting};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, read, target, write};

const BLOCKS: u64 = 256;

type TestEngine<const N: usize> = Engine<TestHost, N>;

fn engine<const N: usize>(world: &Rc<RefCell<World>>) -> TestEngine<N> {
    let mut engine = Engine::new(TestHost::new(world), Config::DEFAULT);
    engine.set_card_params(Some(target(BLOCKS)));
    engine
}

/// Runs the engine by interrupts and alarms until nothing is left to do. Returns the virtual time.
/// The number of turns is bounded, so a hang makes the test fail.
fn run<const N: usize>(engine: &mut TestEngine<N>, mut now: u64) -> u64 {
    for _ in 0..100_000 {
        now += 1_000;
        let _ = engine.on_irq(now);
        if engine.is_idle() {
            let _ = engine.poll(now);
            return now;
        }
        let answers = {
            let world = engine.host().world.borrow();
            world.running() && !world.silent && world.present
        };
        if !answers {
            if let Some(at) = engine.next_deadline_ns() {
                now = now.max(at);
            }
            let _ = engine.poll(now);
        }
    }
    panic!("the engine does not come to rest");
}

#[test]
fn contiguous_requests_become_one_transfer() {
    let world = World::new(BLOCKS);
    let mut e = engine::<16>(&world);
    e.submit(read(100, 1), 0).unwrap();
    // These requests wait behind the first one. They are not in ascending order on purpose.
    let ids: Vec<SlotId> = [(16, 8), (8, 8), (24, 8), (60, 4), (32, 8)]
        .map(|(lba, blocks)| e.submit(read(lba, blocks), 0).unwrap())
        .into();
    run(&mut e, 0);
    for id in ids {
        assert!(e.take(id).unwrap().result.is_ok());
    }
    let sizes: Vec<_> = world.borrow().transfers().iter().map(|s| (s.arg, s.blocks, s.segments)).collect();
    assert_eq!(sizes, [(100, 1, 1), (8, 32, 4), (60, 4, 1)]);
    assert_eq!(e.stats().merged, 3);
}

#[test]
fn a_barrier_is_not_passed() {
    let world = World::new(BLOCKS);
    let mut e = engine::<16>(&world);
    e.submit(write(0, 8, 1), 0).unwrap();
    e.submit(write(8, 8, 2), 0).unwrap();
    e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), 0).unwrap();
    e.submit(write(16, 8, 3), 0).unwrap();
    run(&mut e, 0);
    let commands: Vec<_> = world.borrow().log.iter().map(|s| (s.index, s.arg)).collect();
    // Two writes, their status before the flush is done, one write, its status.
    assert_eq!(commands, [(25, 0), (25, 8), (13, 1 << 16), (25, 16), (13, 1 << 16)]);
}

#[test]
fn a_failed_merge_fails_only_its_owner() {
    let world = World::new(BLOCKS);
    let mut e = engine::<16>(&world);
    e.submit(read(200, 1), 0).unwrap();
    let ids: Vec<SlotId> = (0..6).map(|i| e.submit(read(8 * i, 8), 0).unwrap()).collect();
    world.borrow_mut().bad.insert(19, Cause::Crc);
    run(&mut e, 0);
    for (i, id) in ids.into_iter().enumerate() {
        let done = e.take(id).unwrap();
        match i {
            2 => {
                assert!(matches!(done.result, Err(Error::Host(f)) if f.cause == Cause::Crc));
                assert_eq!(done.done_bytes, 3 * 512, "16 to 18 are good");
            }
            _ => assert_eq!(done.done_bytes, 4096, "request {i}: {:?}", done.result),
        }
    }
    assert_eq!(world.borrow().mapped(), 0);
}

#[test]
fn a_late_error_goes_to_the_write_that_caused_it() {
    let world = World::new(BLOCKS);
    let mut e = engine::<4>(&world);
    let first = e.submit(write(0, 8, 1), 0).unwrap();
    let second = e.submit(read(64, 8), 0).unwrap();
    let _ = e.on_irq(1_000);
    assert!(e.take(first).is_none(), "its status is not known yet");
    world.borrow_mut().next_status = R1::CC_ERROR;
    run(&mut e, 1_000);
    assert!(matches!(e.take(first).unwrap().result, Err(Error::Program(s)) if s & R1::CC_ERROR != 0));
    assert!(e.take(second).unwrap().result.is_ok());

    // If no request follows, the engine itself asks for the status.
    let alone = e.submit(write(0, 8, 1), 10_000).unwrap();
    let _ = e.on_irq(20_000);
    world.borrow_mut().next_status = R1::ERROR;
    run(&mut e, 20_000);
    assert!(matches!(e.take(alone).unwrap().result, Err(Error::Program(_))));
    assert_eq!(e.stats().status_asked, 1);
}

#[test]
fn a_silent_controller_is_an_error_in_bounded_time() {
    let world = World::new(BLOCKS);
    let mut e = engine::<4>(&world);
    let ids = [e.submit(read(0, 8), 0).unwrap(), e.submit(write(8, 8, 1), 0).unwrap()];
    world.borrow_mut().silent = true;
    let end = run(&mut e, 0);
    for id in ids {
        assert_eq!(e.take(id).unwrap().result, Err(Error::Dead));
    }
    assert!(end < 2_000_000_000, "took {end} ns");
    assert_eq!(e.submit(read(0, 1), end).unwrap_err().0, Error::Dead);
}

#[test]
fn a_lost_interrupt_is_found_at_the_deadline() {
    let world = World::new(BLOCKS);
    let mut e = engine::<4>(&world);
    let id = e.submit(read(0, 8), 0).unwrap();
    let at = e.next_deadline_ns().unwrap();
    assert!(at < 60_000_000, "a look comes long before the card has had its whole time: {at}");
    assert!(e.poll(at - 1).completed == 0 && e.take(id).is_none());
    assert_eq!(e.poll(at).completed, 1 << id.index());
    assert!(e.take(id).unwrap().result.is_ok());
    assert_eq!((e.stats().lost_interrupts, world.borrow().resets), (1, 0));
}

/// Tests the polls of a silent controller: after each poll that finds nothing, the time to the next
/// poll doubles. The last poll is at the end of the card's time limit.
#[test]
fn looks_that_find_nothing_take_nothing_from_a_card_s_time() {
    let world = World::new(BLOCKS);
    let mut e = engine::<4>(&world);
    world.borrow_mut().silent = true;
    e.submit(write(0, 8, 1), 0).unwrap();
    let mut looks = Vec::new();
    while world.borrow().resets == 0 {
        let at = e.next_deadline_ns().unwrap();
        let _ = e.poll(at);
        looks.push(at);
    }
    let whole_ns = 250_000_000 + 50_000_000;
    let (last, before) = looks.split_last().unwrap();
    assert!((whole_ns..whole_ns + 1_000_000).contains(last), "{looks:?}");
    assert!(before.len() < 6 && before.is_sorted_by(|one, next| *next == 2 * one), "{looks:?}");
}

#[test]
fn large_requests_go_in_pieces() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.max_bytes = 16 * 512;
    let mut e = engine::<4>(&world);
    for (i, byte) in world.borrow_mut().medium.iter_mut().enumerate() {
        *byte = (i / 512) as u8;
    }
    let id = e.submit(read(3, 50), 0).unwrap();
    run(&mut e, 0);
    let done = e.take(id).unwrap();
    assert_eq!(done.result.unwrap().bytes, 50 * 512);
    assert!(done.buf.iter().enumerate().all(|(i, &b)| b == (3 + i / 512) as u8));
    let sizes: Vec<_> = world.borrow().transfers().iter().map(|s| (s.arg, s.blocks)).collect();
    assert_eq!(sizes, [(3, 16), (19, 16), (35, 16), (51, 2)]);

    // A failure in the third transfer: all blocks before the bad block count as done.
    world.borrow_mut().bad.insert(40, Cause::Timeout);
    let id = e.submit(read(3, 50), 0).unwrap();
    run(&mut e, 1_000_000);
    let done = e.take(id).unwrap();
    assert!(done.result.is_err());
    assert_eq!(done.done_bytes, 37 * 512);
}

#[test]
fn busy_is_polled_where_nothing_interrupts() {
    for busy in [BusyDetect::Level, BusyDetect::Status] {
        let world = World::new(BLOCKS);
        world.borrow_mut().caps.busy = busy;
        world.borrow_mut().busy_polls = 5;
        let mut e = engine::<4>(&world);
        let mut now = 0;
        for round in 0..20 {
            let id = e.submit(write(8 * round, 8, round as u8 + 1), now).unwrap();
            now = run(&mut e, now);
            assert!(e.take(id).unwrap().result.is_ok());
        }
        assert!(e.stats().busy_polls >= 20);
        assert!(world.borrow().medium[19 * 4096..20 * 4096].iter().all(|&b| b == 20));
    }
}

#[test]
fn suspend_drains_and_halt_keeps() {
    let world = World::new(BLOCKS);
    let mut e = engine::<4>(&world);
    let ids = [e.submit(read(0, 8), 0).unwrap(), e.submit(read(64, 8), 0).unwrap()];
    e.suspend();
    assert_eq!(e.submit(read(0, 1), 0).unwrap_err().0, Error::Suspended);
    run(&mut e, 0);
    assert!(ids.into_iter().all(|id| e.take(id).unwrap().result.is_ok()));
    e.resume(1_000_000);

    let active = e.submit(read(0, 8), 1_000_000).unwrap();
    let waiting = e.submit(read(64, 8), 1_000_000).unwrap();
    e.halt();
    let _ = e.on_irq(2_000_000);
    assert!(e.is_quiet() && e.take(active).is_some() && e.take(waiting).is_none());
    e.resume(3_000_000);
    run(&mut e, 3_000_000);
    assert!(e.take(waiting).unwrap().result.is_ok());
}

#[test]
fn the_finished_requests_are_those_that_can_be_taken() {
    let world = World::new(BLOCKS);
    let mut e = engine::<4>(&world);
    let ids = [0, 64, 128].map(|lba| e.submit(read(lba, 8), 0).unwrap());
    assert_eq!(e.finished(), 0, "one is with the controller, two wait");
    let _ = e.on_irq(1_000_000);
    assert_eq!(e.finished(), 1 << ids[0].index());
    run(&mut e, 1_000_000);
    assert_eq!(e.finished(), ids.iter().fold(0, |set, id| set | 1 << id.index()));
    for id in ids {
        assert!(e.take(id).is_some() && e.finished() & 1 << id.index() == 0);
    }
}

#[test]
fn removal_ends_everything() {
    let world = World::new(BLOCKS);
    let mut e = engine::<16>(&world);
    let ids: Vec<_> = (0..5).map(|i| e.submit(write(16 * i, 8, 1), 0).unwrap()).collect();
    world.borrow_mut().remove();
    run(&mut e, 0);
    for id in ids {
        assert_eq!(e.take(id).unwrap().result, Err(Error::Removed));
    }
    assert_eq!(e.submit(read(0, 1), 0).unwrap_err().0, Error::NoCard);
    assert_eq!(world.borrow().mapped(), 0);
}

#[test]
fn bad_requests_come_back_whole() {
    let world = World::new(BLOCKS);
    let mut e = engine::<4>(&world);
    let (error, request) = e.submit(read(BLOCKS - 1, 2), 0).unwrap_err();
    assert_eq!(error, Error::OutOfRange { lba: BLOCKS - 1, sectors: BLOCKS });
    assert_eq!(request.buf.len_bytes(), 1024);
    assert!(matches!(e.submit(read(u64::MAX, 2), 0).unwrap_err().0, Error::OutOfRange { .. }));
    let empty = e.submit(read(0, 0), 0).unwrap_err().0;
    assert_eq!(empty, Error::OutOfRange { lba: 0, sectors: BLOCKS });
    // The card has the first block, so the text must not say that this block is outside.
    for (error, from) in [(error, BLOCKS - 1), (empty, 0)] {
        let text = error.to_string();
        assert!(text.contains("no blocks at all, or more than") && !text.contains("outside"), "{text}");
        assert!(text.contains(&format!("block {from}:")), "{text}");
    }
    assert!(e.submit(read(BLOCKS, 1), 0).unwrap_err().0.to_string().contains("is outside the card's"));
    let short = Request::new(Kind::Read { lba: 0, blocks: 2 }, buffer(1, 0));
    assert_eq!(e.submit(short, 0).unwrap_err().0, Error::Buffer { needed: 1024, given: 512 });
    for lba in [0, 9, 18, 27] {
        e.submit(read(lba, 1), 0).unwrap();
    }
    assert_eq!(e.submit(read(0, 1), 0).unwrap_err().0, Error::Full);
}

/// Tests a host that transfers at most 8 blocks: a request of 128 blocks goes in 16 transfers, and
/// the next request waits for these transfers and no others.
#[test]
fn a_request_waits_for_the_pieces_of_those_before_it() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.max_blocks = 8;
    world.borrow_mut().caps.continue_data = false;
    let mut e = engine::<4>(&world);
    e.submit(read(0, 128), 0).unwrap();
    e.submit(read(200, 1), 0).unwrap();
    run(&mut e, 0);
    let before = world.borrow().transfers().iter().take_while(|seen| seen.arg != 200).count();
    assert_eq!(before, 128 / 8);
}

/// Tests random loads. Where requests overlap, the data are as if the requests were executed in
/// order. Every request ends one time, and waits for no more transfers than the requests before it
/// need.
#[test]
fn order_and_data_hold_for_random_loads() {
    fuzz::fuzz("order_and_data_hold_for_random_loads", 200, |u| {
        let world = World::new(BLOCKS);
        world.borrow_mut().caps.max_segments = u.int_in_range(1..=16)?;
        world.borrow_mut().caps.max_bytes = 512 * u.int_in_range(4..=64)?;
        world.borrow_mut().caps.auto_count = u.arbitrary()?;
        world.borrow_mut().caps.auto_stop = u.arbitrary()?;
        world.borrow_mut().caps.busy =
            *u.choose(&[BusyDetect::Interrupt, BusyDetect::Level, BusyDetect::Status, BusyDetect::Response])?;
        world.borrow_mut().busy_polls = u.int_in_range(0..=3)?;
        world.borrow_mut().caps.max_blocks = u.int_in_range(1..=20)?;
        let most = world.borrow().caps.max_blocks.min(world.borrow().caps.max_bytes / 512);
        let pieces = |blocks: u32| u64::from(blocks.div_ceil(most));
        let mut e = engine::<16>(&world);
        let mut model = vec![0u8; BLOCKS as usize * 512];
        struct Pending {
            id: SlotId,
            lba: u64,
            blocks: u32,
            expected: Option<Vec<u8>>,
            transfers_before: u64,
            before: u64,
        }
        let mut pending: Vec<Pending> = Vec::new();
        let mut now = 0;
        for step in 0..u.int_in_range(1..=60)? {
            now += 500;
            if u.ratio(2, 3)? && pending.len() < 8 {
                let blocks = u.int_in_range(1..=16)?;
                let lba = u.int_in_range(0..=BLOCKS - u64::from(blocks))? & !3;
                let writes = u.ratio(1, 2)?;
                let before: u64 = pending.iter().map(|p| pieces(p.blocks)).sum();
                let (transfers_before, range) =
                    (e.stats().transfers, lba as usize * 512..(lba as usize + blocks as usize) * 512);
                let (request, expected) = if writes {
                    model[range].fill(step as u8 + 1);
                    (write(lba, blocks, step as u8 + 1), None)
                } else {
                    (read(lba, blocks), Some(model[range].to_vec()))
                };
                let id = e.submit(request, now).unwrap();
                pending.push(Pending { id, lba, blocks, expected, transfers_before, before });
            } else {
                now += 1_000_000;
                let _ = e.on_irq(now);
                let _ = e.poll(now);
            }
            pending.retain(|p| {
                let Some(done) = e.take(p.id) else { return true };
                assert!(done.result.is_ok(), "{:?}", done.result);
                if let Some(expected) = &p.expected {
                    assert_eq!(&done.buf[..], &expected[..], "read of {} blocks at {}", p.blocks, p.lba);
                }
                let waited = e.stats().transfers - p.transfers_before;
                // At most these transfers: the pieces of every earlier request, this request's own
                // pieces, the transfer whose status shows that a write is programmed, and the one
                // that the engine starts before it answers.
                let bound = p.before + pieces(p.blocks) + 2;
                assert!(waited <= bound, "waited for {waited}, at most {bound}");
                false
            });
        }
        run(&mut e, now);
        for p in pending {
            let done = e.take(p.id).unwrap();
            assert!(done.result.is_ok(), "{:?}", done.result);
            if let Some(expected) = &p.expected {
                assert_eq!(&done.buf[..], &expected[..]);
            }
        }
        let wrong = (0..BLOCKS as usize).find(|&at| world.borrow().medium[at * 512] != model[at * 512]);
        assert_eq!(wrong, None, "log {:?}", world.borrow().log);
        assert_eq!((world.borrow().mapped(), e.slots_in_use()), (0, 0));
        Ok(())
    });
}

/// A scheduler that picks at random, sometimes idles, and sometimes names a request that does not
/// wait.
struct Whim(u64);

impl Policy for Whim {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = self.0 >> 33;
        match draw % 8 {
            0 => Choice::IdleUntil(now_ns + draw % 30_000_000),
            1 => Choice::Go(draw as u8),
            _ => {
                let count = waiting.clone().count();
                waiting
                    .clone()
                    .nth(draw as usize % count.max(1))
                    .map_or(Choice::Go(0), |chosen| Choice::Go(chosen.index))
            }
        }
    }
}

#[test]
fn whatever_the_policy_says_data_are_right_and_no_request_is_lost() {
    fuzz::fuzz("whatever_the_policy_says_data_are_right_and_no_request_is_lost", 200, |u| {
        let world = World::new(BLOCKS);
        let whim = Scheduled::new(Whim(u.arbitrary()?));
        let mut e: Engine<TestHost, 8, Scheduled> =
            Engine::with_policy(TestHost::new(&world), Config::DEFAULT, whim);
        e.set_card_params(Some(target(BLOCKS)));
        let mut model = vec![0u8; BLOCKS as usize * 512];
        let mut pending: Vec<(SlotId, Option<Vec<u8>>)> = Vec::new();
        let mut now = 0;
        for step in 0..u.int_in_range(1..=40)? {
            let blocks = u.int_in_range(1..=16)?;
            let lba = u.int_in_range(0..=BLOCKS - u64::from(blocks))? & !7;
            let range = lba as usize * 512..(lba as usize + blocks as usize) * 512;
            let request = match u.int_in_range(0..=9)? {
                0 => Request::new(Kind::Flush, DmaBuf::EMPTY),
                1..=4 => read(lba, blocks),
                _ => write(lba, blocks, step as u8 + 1),
            };
            let kind = request.kind;
            if let Ok(id) = e.submit(request, now) {
                let expected = match kind {
                    Kind::Read { .. } => Some(model[range].to_vec()),
                    Kind::Write { .. } => {
                        model[range].fill(step as u8 + 1);
                        None
                    }
                    _ => None,
                };
                pending.push((id, expected));
            }
            for _ in 0..u.int_in_range(0..=4)? {
                now += 1_000_000;
                let _ = e.on_irq(now);
                let _ = e.poll(now);
            }
            pending.retain(|(id, expected)| {
                let Some(done) = e.take(*id) else { return true };
                assert!(done.result.is_ok());
                assert!(expected.as_ref().is_none_or(|data| done.buf[..] == data[..]));
                false
            });
        }
        for _ in 0..1_000 {
            now = e.next_deadline_ns().map_or(now + 1_000, |at| at.clamp(now, now + 1_000_000));
            let _ = e.on_irq(now);
            let _ = e.poll(now);
        }
        assert!(e.is_idle());
        for (id, expected) in pending {
            let done = e.take(id).unwrap();
            assert!(expected.is_none_or(|data| done.buf[..] == data[..]));
        }
        assert_eq!(world.borrow().medium, model);
        Ok(())
    });
}

#[test]
fn a_merged_transfer_does_not_grow_past_the_bound_over_who_came_before() {
    let world = World::new(BLOCKS);
    let config = Config::DEFAULT.fair_blocks(16);
    let mut e: Engine<TestHost, 16> = Engine::new(TestHost::new(&world), config);
    e.set_card_params(Some(target(BLOCKS)));
    e.submit(read(200, 1), 0).unwrap();
    e.submit(read(0, 8), 0).unwrap();
    e.submit(read(100, 4), 0).unwrap();
    // Two later requests: one may join the read of block 0, two would exceed the bound for block
    // 100.
    e.submit(read(8, 8), 0).unwrap();
    e.submit(read(16, 8), 0).unwrap();
    run(&mut e, 0);
    let order: Vec<_> = world.borrow().transfers().iter().map(|s| (s.arg, s.blocks)).collect();
    assert_eq!(order, [(200, 1), (0, 16), (100, 4), (16, 8)]);
}

/// A scheduler that keeps the controller idle for client 0 while only other clients have requests.
struct Waits;

impl Policy for Waits {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, now_ns: u64) -> Choice {
        match waiting.find(|request| request.origin.client == 0) {
            Some(request) => Choice::Go(request.index),
            None => Choice::IdleUntil(now_ns + 8_000_000),
        }
    }
}

/// Tests a policy that keeps the controller idle for a client, while that client waits for the
/// result of its write: the client gets the result.
#[test]
fn idling_for_a_client_does_not_keep_his_result_from_him() {
    let world = World::new(BLOCKS);
    let mut e: Engine<TestHost, 8, Scheduled> =
        Engine::with_policy(TestHost::new(&world), Config::DEFAULT, Scheduled::new(Waits));
    e.set_card_params(Some(target(BLOCKS)));
    let own = e.submit(write(0, 8, 1), 0).unwrap();
    e.submit(read(100, 8).from(mmcq::sched::Origin { client: 1, sync: true }), 0).unwrap();
    let _ = e.on_irq(1_000);
    let _ = e.on_irq(2_000);
    assert!(e.take(own).is_some_and(|done| done.result.is_ok()), "the status was not asked");
    // The other is served at the latest when the engine's patience ends.
    let mut now = 2_000;
    while world.borrow().transfers().len() < 2 {
        now = e.next_deadline_ns().expect("nothing will happen").max(now);
        let _ = e.poll(now);
    }
    assert!(now <= 2_000 + 20_000_000, "{now}");
}
