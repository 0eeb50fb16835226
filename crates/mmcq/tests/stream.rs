//! Tests of transfers that stay open: when they are left open, what closes them, which request gets
//! a late error, and what happens on a host that declares the ability without having it.

use crate::{fuzz, support};
use arbtest::arbitrary::Unstructured;
use mmcq::engine::{Close, Config, DmaBuf, Engine, Error, Handshake, Kind, Request, SlotId, StaysOpen};
use mmcq::host::{BusyDetect, Cause};
use mmcq::sched::{Fifo, Lean, Profile};
use mmcq::spec::command;
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{Seen, TestHost, World, read, target, write};

pub const BLOCKS: u64 = 1024;

pub type TestEngine<const N: usize> = Engine<TestHost, N>;

/// Returns the state of a host that can continue data and sends no automatic commands, like the
/// Realtek driver's.
pub fn world(continues: bool) -> Rc<RefCell<World>> {
    let world = World::new(BLOCKS);
    let caps = &mut world.borrow_mut().caps;
    (caps.auto_stop, caps.auto_count, caps.continue_data) = (false, false, continues);
    caps.max_bytes = 16 * 512;
    world.clone()
}

pub fn engine<const N: usize>(world: &Rc<RefCell<World>>) -> TestEngine<N> {
    let mut engine = Engine::new(TestHost::new(world), Config::DEFAULT);
    engine.set_card_params(Some(target(BLOCKS)));
    engine
}

pub fn flush() -> Request {
    Request::new(Kind::Flush, DmaBuf::EMPTY)
}

/// Runs the engine until this request is done: by interrupts, and by deadlines only where no
/// interrupt would come. Returns the result.
fn finish<const N: usize, P: Profile>(
    e: &mut Engine<TestHost, N, P>,
    id: SlotId,
    now: &mut u64,
) -> Result<u32, Error> {
    for _ in 0..10_000 {
        if let Some(completion) = e.take(id) {
            return completion.result.map(|output| output.bytes);
        }
        *now += 1_000;
        if e.host().world.borrow().running() {
            let _ = e.on_irq(*now);
        } else {
            *now = e.next_deadline_ns().map_or(*now, |at| at.max(*now));
            let _ = e.poll(*now);
        }
    }
    panic!("never done");
}

/// Submits one request, and runs the engine until it is done. Returns the result.
pub fn one<const N: usize, P: Profile>(
    e: &mut Engine<TestHost, N, P>,
    request: Request,
    now: &mut u64,
) -> Result<u32, Error> {
    let id = e.submit(request, *now).unwrap();
    finish(e, id, now)
}

/// Runs the engine by interrupts and deadlines until nothing is left to do.
pub fn rest<const N: usize>(e: &mut TestEngine<N>, now: &mut u64) {
    for _ in 0..10_000 {
        *now += 1_000;
        if e.host().world.borrow().running() {
            let _ = e.on_irq(*now);
        } else if let Some(at) = e.next_deadline_ns() {
            *now = at.max(*now);
            let _ = e.poll(*now);
        }
        if e.is_idle() {
            return;
        }
    }
    panic!("never idle");
}

/// Returns a log as text: `18+16` is CMD18 with 16 blocks, `+16` is 16 blocks that continue a
/// transfer, `12` is CMD12.
fn spell(log: &[Seen]) -> String {
    let word = |s: &Seen| match (s.continued, s.blocks) {
        (true, n) => format!("+{n}"),
        (false, 0) => s.index.to_string(),
        (false, n) => format!("{}+{n}", s.index),
    };
    log.iter().map(word).collect::<Vec<_>>().join(" ")
}

pub fn log(world: &Rc<RefCell<World>>) -> String {
    spell(&std::mem::take(&mut world.borrow_mut().log))
}

pub fn closed<const N: usize>(e: &TestEngine<N>, reason: Close) -> u64 {
    e.stats().closed[reason as usize]
}

#[test]
fn random_requests_are_never_left_open() {
    let world = world(true);
    let mut e = engine::<4>(&world);
    let mut now = 0;
    for lba in [100, 8, 300, 200] {
        one(&mut e, read(lba, 4), &mut now).unwrap();
    }
    assert_eq!(log(&world), "23 18+4 23 18+4 23 18+4 23 18+4");
    for lba in [100, 8] {
        one(&mut e, write(lba, 1, 1), &mut now).unwrap();
    }
    assert_eq!(log(&world), "24+1 13 24+1 13");
}

#[test]
fn a_queued_run_is_one_open_transfer() {
    let world = world(true);
    let mut e = engine::<16>(&world);
    let mut now = 0;
    // Each read has the largest size of a transfer, so no reads can be merged.
    let ids: Vec<_> = (0..5).map(|i| e.submit(read(i * 16, 16), 0).unwrap()).collect();
    for id in ids {
        assert_eq!(finish(&mut e, id, &mut now), Ok(16 * 512));
    }
    rest(&mut e, &mut now);
    // The first read was sent before the second had come.
    assert_eq!(log(&world), "23 18+16 18+16 +16 +16 +16 12");
    assert_eq!((e.stats().continued, closed(&e, Close::Idle)), (3, 1));
}

#[test]
fn a_long_request_goes_on_in_its_own_transfer() {
    let world = world(true);
    world.borrow_mut().caps.busy = BusyDetect::Status;
    let mut e = engine::<4>(&world);
    let mut now = 0;
    // The length is known: CMD23 sets it, and the card ends the transfer by itself.
    assert_eq!(one(&mut e, read(64, 40), &mut now), Ok(40 * 512));
    rest(&mut e, &mut now);
    assert_eq!(log(&world), "23 18+16 +16 +8");
    assert_eq!(one(&mut e, write(64, 40, 3), &mut now), Ok(40 * 512));
    rest(&mut e, &mut now);
    assert_eq!(log(&world), "23 25+16 +16 +8 13");
    assert!(world.borrow().medium[64 * 512..104 * 512].iter().all(|&b| b == 3));
    // A halt stops the read in the middle; later the read continues from there.
    let id = e.submit(read(200, 40), now).unwrap();
    e.halt();
    for _ in 0..10 {
        now += 1_000;
        let _ = e.on_irq(now);
    }
    assert!(e.is_quiet());
    e.resume(now);
    assert_eq!(finish(&mut e, id, &mut now), Ok(40 * 512));
    assert_eq!(log(&world), "23 18+16 12 23 18+16 +8");
    // A card without CMD23.
    let mut target = target(BLOCKS);
    target.count = false;
    e.set_card_params(Some(target));
    assert_eq!(one(&mut e, read(64, 40), &mut now), Ok(40 * 512));
    rest(&mut e, &mut now);
    assert_eq!(log(&world), "18+16 +16 +8 12");
}

#[test]
fn a_run_of_single_requests_is_seen_and_held() {
    let world = world(true);
    let mut e = engine::<4>(&world);
    let mut now = 0;
    for i in 0..4 {
        one(&mut e, read(i * 8, 8), &mut now).unwrap();
        now += 50_000;
    }
    assert_eq!(log(&world), "23 18+8 18+8 +8 +8");
    // No further request comes: the transfer stays open for the longest time that is allowed.
    let held_until = e.next_deadline_ns().unwrap();
    assert_eq!(held_until, now - 50_000 + Config::DEFAULT.hold_ns);
    let _ = e.poll(held_until - 1);
    assert_eq!(log(&world), "");
    rest(&mut e, &mut now);
    assert_eq!((log(&world), closed(&e, Close::Idle)), ("12".to_owned(), 1));
    // Writes are complete before the close; the close asks the card for their status.
    for i in 0..4 {
        one(&mut e, write(i * 8, 8, 9), &mut now).unwrap();
        now += 50_000;
    }
    rest(&mut e, &mut now);
    assert_eq!(log(&world), "23 25+8 13 25+8 +8 +8 12 13");
}

/// Executes contiguous requests on a new engine, so that their transfer stays open and waits for
/// more. Returns the engine, and the virtual time.
pub fn held<const N: usize>(world: &Rc<RefCell<World>>, write_run: bool) -> (TestEngine<N>, u64) {
    let mut e = engine::<N>(world);
    let mut now = 0;
    for i in 0..3 {
        let request = if write_run { write(i * 8, 8, 5) } else { read(i * 8, 8) };
        one(&mut e, request, &mut now).unwrap();
    }
    assert!(world.borrow().open.is_some());
    log(world);
    (e, now)
}

#[test]
fn everything_else_closes_first() {
    let world = world(true);
    // Another place, the other direction.
    let (mut e, mut now) = held::<4>(&world, false);
    one(&mut e, read(500, 4), &mut now).unwrap();
    assert_eq!((log(&world), closed(&e, Close::Break)), ("12 23 18+4".to_owned(), 1));
    let (mut e, mut now) = held::<4>(&world, false);
    one(&mut e, write(24, 4, 1), &mut now).unwrap();
    assert_eq!(log(&world), "12 23 25+4 13");
    // A flush after writes asks the card.
    let (mut e, mut now) = held::<4>(&world, true);
    one(&mut e, flush(), &mut now).unwrap();
    assert_eq!((log(&world), closed(&e, Close::Barrier)), ("12 13".to_owned(), 1));
    // A raw command.
    let (mut e, mut now) = held::<4>(&world, false);
    let phase = mmcq::host::Phase {
        command: command::send_status(1),
        data: None,
        auto: mmcq::host::Auto::None,
        tuning: false,
    };
    let raw = Kind::Raw { prefix: None, phase, timeout_ns: 1_000_000 };
    one(&mut e, Request::new(raw, DmaBuf::EMPTY), &mut now).unwrap();
    assert_eq!(log(&world), "12 13");
    // Suspend and halt close the transfer at once.
    for halt in [false, true] {
        let (mut e, mut now) = held::<4>(&world, true);
        if halt {
            e.halt()
        } else {
            e.suspend()
        }
        assert_eq!(e.next_deadline_ns(), Some(0));
        let _ = e.poll(now);
        assert_eq!(log(&world), "12");
        for _ in 0..10 {
            now += 1_000;
            let _ = e.on_irq(now);
        }
        assert_eq!((e.is_quiet(), closed(&e, Close::Stop)), (true, 1));
    }
    // The controller asks for a new tuning.
    let (mut e, now) = held::<4>(&world, false);
    world.borrow_mut().retune = true;
    let _ = e.on_irq(now);
    let _ = e.poll(now);
    assert_eq!((log(&world), closed(&e, Close::Retune)), ("12".to_owned(), 1));
}

/// Tests a durable write after a run, where the transfer of an ordinary write would stay open: the
/// transfer of the durable write is closed.
#[test]
fn a_durable_write_is_over_on_the_card_when_it_is_answered() {
    for (busy, count) in
        [(BusyDetect::Interrupt, true), (BusyDetect::Interrupt, false), (BusyDetect::Level, true)]
    {
        let world = world(true);
        world.borrow_mut().caps.busy = busy;
        let mut e = engine::<4>(&world);
        e.set_card_params(Some(target(BLOCKS).count(count)));
        e.enable_extended_ops();
        let mut now = 0;
        for lba in [100, 104, 108] {
            one(&mut e, write(lba, 4, 1), &mut now).unwrap();
        }
        assert!(world.borrow().open.is_some(), "held open");
        for lba in [112, 116] {
            one(&mut e, write(lba, 4, 2).durable(), &mut now).unwrap();
            let seen = log(&world);
            assert!(
                world.borrow().open.is_none() && seen.ends_with("13"),
                "{busy:?} {count}: answered after {seen}"
            );
        }
    }
}

#[test]
fn where_only_a_response_shows_the_end_of_busy_writes_are_stopped_by_us() {
    let world = world(true);
    world.borrow_mut().caps.busy = BusyDetect::Response;
    world.borrow_mut().busy_polls = 3;
    let mut e = engine::<4>(&world);
    let mut now = 0;
    one(&mut e, write(100, 8, 1), &mut now).unwrap();
    one(&mut e, write(300, 40, 1), &mut now).unwrap();
    // A card that is still busy is not asked: each write has one CMD13, for its status.
    assert_eq!(log(&world), "25+8 12 13 25+16 +16 +8 12 13");
    one(&mut e, read(100, 8), &mut now).unwrap();
    assert_eq!((log(&world), e.stats().busy_polls), ("23 18+8".to_owned(), 0));
}

#[test]
fn the_end_of_the_card_closes() {
    let world = world(true);
    let mut e = engine::<4>(&world);
    let mut now = 0;
    for i in (1..=3).rev() {
        one(&mut e, read(BLOCKS - i * 8, 8), &mut now).unwrap();
    }
    rest(&mut e, &mut now);
    assert_eq!((log(&world), closed(&e, Close::Edge)), ("23 18+8 18+8 +8 12".to_owned(), 1));
}

#[test]
fn a_late_error_of_a_run_is_told_once() {
    let world = world(true);
    // All writes are complete, so only the next flush reports the error.
    let (mut e, mut now) = held::<4>(&world, true);
    world.borrow_mut().next_status = R1::ERROR;
    assert!(matches!(one(&mut e, flush(), &mut now), Err(Error::Program(status)) if status & R1::ERROR != 0));
    assert_eq!(one(&mut e, flush(), &mut now), Ok(0));
    // Programming fails after the close: CMD13 shows it, and the flush reports it.
    let (mut e, mut now) = held::<4>(&world, true);
    let id = e.submit(flush(), now).unwrap();
    now += 1_000;
    let _ = e.on_irq(now);
    world.borrow_mut().next_status = R1::ERROR;
    assert!(matches!(finish(&mut e, id, &mut now), Err(Error::Program(_))));
    // A write that is not complete yet is sent again; the flush reports the error for the earlier
    // ones.
    let (mut e, mut now) = held::<4>(&world, true);
    let last = e.submit(write(24, 8, 7), now).unwrap();
    let other = e.submit(read(500, 1), now).unwrap();
    now += 1_000;
    let _ = e.on_irq(now);
    world.borrow_mut().next_status = R1::ERROR;
    assert_eq!(finish(&mut e, last, &mut now), Ok(8 * 512));
    assert!(finish(&mut e, other, &mut now).is_ok());
    assert!(matches!(one(&mut e, flush(), &mut now), Err(Error::Program(_))));
    assert_eq!(one(&mut e, flush(), &mut now), Ok(0));
}

#[test]
fn a_card_that_dies_in_a_run_tells_the_flush() {
    let world = world(true);
    let (mut e, mut now) = held::<4>(&world, true);
    world.borrow_mut().bad.insert(24, Cause::Timeout);
    world.borrow_mut().next_status = 0;
    // The next write of the run fails after all its tries, and its own client gets the error. The
    // card's status shows that the earlier writes were programmed, so the flush succeeds.
    let id = e.submit(write(24, 8, 7), now).unwrap();
    assert!(matches!(finish(&mut e, id, &mut now), Err(Error::Host(_))));
    assert_eq!(one(&mut e, flush(), &mut now), Ok(0));
    // In this case the card's status shows an error.
    world.borrow_mut().bad.clear();
    let (mut e, mut now) = held::<4>(&world, true);
    world.borrow_mut().bad.insert(24, Cause::Timeout);
    let id = e.submit(write(24, 8, 7), now).unwrap();
    now += 1_000;
    let _ = e.on_irq(now);
    world.borrow_mut().next_status = R1::ERROR;
    assert!(finish(&mut e, id, &mut now).is_err());
    assert!(matches!(one(&mut e, flush(), &mut now), Err(Error::Program(_))));
}

/// Begins an open transfer whose writes go to the card's cache, submits one more write, and then
/// makes `steps` steps (interrupts and deadlines). Afterwards the close of the transfer and the
/// status of the writes may still be missing. Returns the world, the engine, and the virtual time.
fn closing(steps: u32) -> (Rc<RefCell<World>>, TestEngine<4>, u64) {
    let world = world(true);
    world.borrow_mut().caps.busy = BusyDetect::Status;
    let (mut e, mut now) = held::<4>(&world, true);
    let cached = mmcq::engine::FlushBy::EmmcCache { timeout_ns: 500_000_000 };
    e.set_card_params(Some(target(BLOCKS).flush(cached)));
    world.borrow_mut().busy_polls = 6;
    let last = e.submit(write(24, 8, 5), now).unwrap();
    for _ in 0..steps {
        let _ = e.take(last);
        now += 1_000;
        if e.host().world.borrow().running() {
            let _ = e.on_irq(now);
        } else {
            now = e.next_deadline_ns().map_or(now, |at| at.max(now));
            let _ = e.poll(now);
        }
    }
    (world, e, now)
}

/// Tests a card that is removed at any moment of a run: no status of it is awaited any more, and
/// the engine reports the removal to the supervisor when the slot is stable.
#[test]
fn a_card_that_goes_after_a_run_into_its_cache_is_told_to_the_supervisor() {
    use mmcq::engine::ServiceRequest;
    for steps in 0..24 {
        let (world, mut e, mut now) = closing(steps);
        let waker = std::task::Waker::noop().clone();
        assert!(e.set_service_waker(Some(waker)).is_none());
        world.borrow_mut().present = false;
        e.presence_changed(now);
        let until = now + 20_000_000_000;
        let mut asked = None;
        let mut calls = 0;
        while now < until && asked.is_none() {
            calls += 1;
            assert!(calls < 2_000, "{steps} steps: the engine does not rest");
            now += 1_000;
            let _ = e.on_irq(now);
            now = e.next_deadline_ns().map_or(until, |at| at.max(now));
            let _ = e.poll(now);
            asked = e.take_service_request();
        }
        assert!(matches!(asked, Some(ServiceRequest::Removed)), "{steps} steps: {asked:?}");
        let _ = e.set_service_waker(None);
    }
}

#[test]
fn a_host_that_cannot_do_what_it_claims_is_found_out_once() {
    let world = world(true);
    world.borrow_mut().refuse_continue = u32::MAX;
    let mut e = engine::<16>(&world);
    let mut now = 0;
    let ids: Vec<_> = (0..6).map(|i| e.submit(write(i * 16, 16, i as u8 + 1), 0).unwrap()).collect();
    for id in ids {
        assert_eq!(finish(&mut e, id, &mut now), Ok(16 * 512));
    }
    rest(&mut e, &mut now);
    assert_eq!((e.stats().not_continued, e.take_continue_lost(), e.take_continue_lost()), (2, true, false));
    for i in 0..6 {
        let at = i * 16 * 512;
        assert!(world.borrow().medium[at..at + 8192].iter().all(|&b| b == i as u8 + 1));
    }
    log(&world);
    for i in 0..4 {
        one(&mut e, read(i * 16, 16), &mut now).unwrap();
    }
    assert_eq!(log(&world), "23 18+16 23 18+16 23 18+16 23 18+16");
    // After a single failure the engine still keeps transfers open.
    let world = self::world(true);
    let (mut e, mut now) = held::<4>(&world, true);
    world.borrow_mut().refuse_continue = 1;
    one(&mut e, write(24, 8, 1), &mut now).unwrap();
    for i in 4..8 {
        one(&mut e, write(i * 8, 8, 1), &mut now).unwrap();
    }
    assert!(!e.take_continue_lost());
    assert!(log(&world).ends_with("+8 +8 +8"));
}

/// Tests a continuation that the host refuses, with a profile that does not recover: no command was
/// sent, so no status is lost, and the flush has nothing to report.
#[test]
fn a_lean_engine_loses_no_status_by_a_refused_continuation() {
    let world = world(true);
    let config = Config::DEFAULT.stays_open(StaysOpen::Always);
    let mut e = Engine::<_, 16, _>::with_policy(TestHost::new(&world), config, Lean(Fifo));
    e.set_card_params(Some(target(BLOCKS)));
    let mut now = 0;
    one(&mut e, write(0, 8, 1), &mut now).unwrap();
    world.borrow_mut().refuse_continue = 1;
    one(&mut e, write(8, 8, 2), &mut now).unwrap();
    assert_eq!(e.stats().not_continued, 1);
    assert!(one(&mut e, flush(), &mut now).is_ok());
}

/// Tests random mixes of requests on a host that refuses everything that a card in `data` or `rcv`
/// would refuse: the order on each block and the data are right, and the engine is idle at the end.
#[test]
fn data_hold_for_random_mixes() {
    fuzz::fuzz("data_hold_for_random_mixes", 200, mixes::<16>);
    fuzz::fuzz("data_hold_for_random_mixes, with few slots", 200, mixes::<4>);
}

fn mixes<const N: usize>(u: &mut Unstructured<'_>) -> arbtest::arbitrary::Result<()> {
    let world = world(true);
    world.borrow_mut().caps.busy =
        *u.choose(&[BusyDetect::Interrupt, BusyDetect::Level, BusyDetect::Status, BusyDetect::Response])?;
    world.borrow_mut().busy_polls = 2;
    let mut e = engine::<N>(&world);
    let (mut now, mut fill) = (0, 0u8);
    let mut expected = vec![0u8; BLOCKS as usize];
    let mut lba = 0;
    let mut waiting: Vec<(SlotId, Option<Vec<u8>>)> = Vec::new();
    for _ in 0..u.int_in_range(1..=60)? {
        world.borrow_mut().refuse_continue = u32::from(u.ratio(1, 20)?);
        let blocks = u.int_in_range(1..=40u32)?;
        if u.ratio(1, 3)? {
            lba = u.int_in_range(0..=BLOCKS - 1)?;
        }
        lba = lba.min(BLOCKS - u64::from(blocks));
        let range = lba as usize..lba as usize + blocks as usize;
        let request = match u.int_in_range(0..=9)? {
            0 => flush(),
            1..=5 => read(lba, blocks),
            _ => {
                fill = fill.wrapping_add(1);
                write(lba, blocks, fill)
            }
        };
        let kind = request.kind;
        let Ok(id) = e.submit(request, now) else { continue };
        match kind {
            Kind::Read { .. } => waiting.push((id, Some(expected[range].to_vec()))),
            Kind::Write { .. } => {
                expected[range].fill(fill);
                waiting.push((id, None));
            }
            _ => waiting.push((id, None)),
        }
        lba += u64::from(blocks);
        for _ in 0..u.int_in_range(0..=6)? {
            now += u.int_in_range(100..=400_000)?;
            let _ = e.on_irq(now);
            let _ = e.poll(now);
        }
        waiting.retain(|(id, read)| {
            let Some(completion) = e.take(*id) else { return true };
            assert!(completion.result.is_ok(), "{:?}", completion.result);
            if let Some(read) = read {
                let got: Vec<u8> = completion.buf.chunks(512).map(|block| block[0]).collect();
                assert_eq!(&got, read);
            }
            false
        });
    }
    world.borrow_mut().refuse_continue = 0;
    rest(&mut e, &mut now);
    assert!(world.borrow().open.is_none());
    let medium = &world.borrow().medium;
    for (block, &byte) in expected.iter().enumerate() {
        assert!(medium[block * 512..][..512] == [byte; 512], "block {block}");
    }
    Ok(())
}

#[test]
fn a_first_transfer_that_was_to_go_on_is_counted_as_closed() {
    let world = world(true);
    let mut e = engine::<16>(&world);
    let mut now = 0;
    e.submit(read(500, 16), 0).unwrap();
    let first = e.submit(read(0, 16), 0).unwrap();
    let second = e.submit(read(16, 16), 0).unwrap();
    // While the first read is under way, the second, which should continue it, is cancelled.
    while !world.borrow().log.last().is_some_and(|seen| seen.arg == 0 && seen.blocks == 16) {
        now += 1_000;
        let _ = e.on_irq(now);
    }
    assert!(e.cancel(second).is_some());
    e.submit(read(100, 16), now).unwrap();
    assert_eq!(finish(&mut e, first, &mut now), Ok(16 * 512));
    rest(&mut e, &mut now);
    assert_eq!(log(&world), "23 18+16 18+16 12 23 18+16");
    assert_eq!(closed(&e, Close::Break), 1);
}

/// Tests an error that the card found while it read ahead, after a run of reads: no request fails.
#[test]
fn an_error_at_the_end_of_a_run_of_reads_is_counted_and_told_to_no_client() {
    let world = world(true);
    let (mut e, mut now) = held::<16>(&world, false);
    world.borrow_mut().next_status = R1::CARD_ECC_FAILED;
    rest(&mut e, &mut now);
    assert_eq!((e.stats().unowned, closed(&e, Close::Idle)), (1, 1));
    assert!(one(&mut e, flush(), &mut now).is_ok());
}
