//! Tests of transfers that stay open in pauses: how long they stay open, what the engine learns
//! from the pauses, when writes are complete, and how long a status may be missing.

use crate::stream::{BLOCKS, TestEngine, closed, engine, flush, held, log, one, rest, world};
use crate::support::{TestHost, read, target, write};
use mmcq::engine::{Acknowledge, Close, Config, Engine, Error, Request};
use mmcq::spec::response::R1;

/// Lets the time `ns` pass; deadlines in this time are handled.
fn pass<const N: usize>(e: &mut TestEngine<N>, now: &mut u64, ns: u64) {
    let until = *now + ns;
    for _ in 0..1_000 {
        if e.host().world.borrow().running() {
            *now += 1_000;
            let _ = e.on_irq(*now);
        } else {
            match e.next_deadline_ns().filter(|&at| at < until) {
                Some(at) => {
                    *now = at.max(*now);
                    let _ = e.poll(*now);
                }
                None => break,
            }
        }
    }
    *now = until.max(*now);
}

#[test]
fn slow_submitters_are_waited_for_up_to_the_limit() {
    for (pause_ns, expected) in [
        (400_000, "23 18+8 18+8 +8 +8 +8 +8"),
        (3_000_000, "23 18+8 18+8 +8 +8 +8 +8"),
        (140_000_000, "23 18+8 18+8 +8 +8 +8 +8"),
        // No request comes in time, so the engine keeps no transfer open.
        (320_000_000, "23 18+8 23 18+8 23 18+8 23 18+8 23 18+8 23 18+8"),
    ] {
        let world = world(true);
        let mut e = engine::<4>(&world);
        let mut now = 0;
        for i in 0..6 {
            one(&mut e, read(i * 8, 8), &mut now).unwrap();
            pass(&mut e, &mut now, pause_ns);
        }
        assert_eq!(log(&world), expected, "{pause_ns} ns");
    }
    // A board may configure a shorter time, or 0.
    for (hold_ns, expected) in [(1_000_000, "23 18+8 23 18+8 23 18+8"), (0, "23 18+8 23 18+8 23 18+8")] {
        let world = world(true);
        let mut e: TestEngine<4> = Engine::new(TestHost::new(&world), Config::DEFAULT.hold_ns(hold_ns));
        e.set_card_params(Some(target(BLOCKS)));
        let mut now = 0;
        for i in 0..3 {
            one(&mut e, read(i * 8, 8), &mut now).unwrap();
            pass(&mut e, &mut now, 3_000_000);
        }
        assert_eq!(log(&world), expected, "{hold_ns} ns");
    }
}

/// Tests pairs of contiguous requests with pauses, each pair at another place. The second request
/// of each pair shows the engine a run, which is over then. When the engine has learned that, it
/// keeps the transfer open only after the first request of a pair.
#[test]
fn what_pauses_have_shown_decides_whether_a_transfer_is_kept_open() {
    let world = world(true);
    let mut e = engine::<4>(&world);
    let mut now = 0;
    let mut pair = |e: &mut TestEngine<4>, n: u64| {
        log(&world);
        for half in 0..2 {
            one(e, read(n % 8 * 100 + half * 8, 8), &mut now).unwrap();
            pass(e, &mut now, 3_000_000);
        }
        log(&world)
    };
    assert_eq!(pair(&mut e, 0), "23 18+8 18+8");
    assert_eq!(pair(&mut e, 1), "12 23 18+8 18+8");
    for n in 2..60 {
        pair(&mut e, n);
    }
    assert_eq!(pair(&mut e, 60), "18+8 +8 12");
    // When the requests form a long run, the engine keeps the transfer open again.
    for i in 0..40 {
        one(&mut e, read(800 + i * 4, 4), &mut now).unwrap();
        pass(&mut e, &mut now, 3_000_000);
    }
    assert!(log(&world).ends_with("+4 +4 +4 +4 +4"));
}

/// Executes one request, where a transfer with a command takes 100 us more than data that continue
/// an open transfer.
fn priced<const N: usize>(e: &mut TestEngine<N>, request: Request, now: &mut u64) {
    let id = e.submit(request, *now).unwrap();
    while e.take(id).is_none() {
        let on = e.host().world.borrow().log.last().is_some_and(|seen| seen.continued);
        *now += if on { 20_000 } else { 120_000 };
        let _ = e.on_irq(*now);
    }
}

/// Tests a client that continues its run and sometimes stays away for longer, after which it begins
/// elsewhere: the transfer is not kept open during such a long pause.
#[test]
fn a_rest_after_which_nothing_goes_on_is_not_waited_for() {
    let world = world(true);
    let mut e = engine::<4>(&world);
    let mut now = 0;
    let mut burst = |e: &mut TestEngine<4>, n: u64| {
        log(&world);
        for i in 0..8 {
            priced(e, read(n % 7 * 100 + i * 8, 8), &mut now);
            pass(e, &mut now, 200_000);
        }
        pass(e, &mut now, 50_000_000);
        log(&world)
    };
    let runs = "+8 +8 +8 +8 +8 +8";
    assert_eq!(burst(&mut e, 0), format!("23 18+8 18+8 {runs}"));
    assert_eq!(burst(&mut e, 1), format!("12 23 18+8 18+8 {runs}"));
    for n in 2..40 {
        burst(&mut e, n);
    }
    let last = burst(&mut e, 40);
    assert!(last.ends_with(&format!("{runs} 12")), "not closed in the rest: {last}");
}

/// Tests writes in an open transfer, which are complete before their status is known: the status
/// comes within a bounded time.
#[test]
fn the_status_of_complete_writes_is_not_owed_for_long() {
    for (pause_ns, owed_ns) in
        [(0, 20_000), (30_000, 1_000_000), (7_000_000, 50_000_000), (100_000_000, 1_000_000_000)]
    {
        let world = world(true);
        let mut e: TestEngine<4> = Engine::new(TestHost::new(&world), Config::DEFAULT.owed_ns(owed_ns));
        e.set_card_params(Some(target(BLOCKS)));
        let (mut now, mut told_ns) = (0, None);
        for i in 0..100 {
            one(&mut e, write(i * 8, 8, 5), &mut now).unwrap();
            match (world.borrow().open, told_ns) {
                (None, _) => told_ns = None,
                (Some(_), None) => told_ns = Some(now),
                // A request takes 2 us here.
                (Some(_), Some(told)) => assert!(now - told <= owed_ns + 5_000, "{pause_ns} ns"),
            }
            pass(&mut e, &mut now, pause_ns);
            if world.borrow().open.is_none() {
                told_ns = None;
            }
        }
        assert!(closed(&e, Close::Owed) > 2, "{pause_ns} ns: {:?}", e.stats().closed);
        rest(&mut e, &mut now);
        assert_eq!((world.borrow().open, e.stats().unowned), (None, 0));
    }
    assert_eq!(Config::DEFAULT.owed_ns, 1_000_000_000, "what docs/durable.md says");
    // After reads no status is missing, so there is no such limit.
    let world = world(true);
    let mut e = engine::<4>(&world);
    let mut now = 0;
    for i in 0..60 {
        one(&mut e, read(i * 8, 8), &mut now).unwrap();
        pass(&mut e, &mut now, 100_000_000);
    }
    assert_eq!((e.stats().closed.iter().sum::<u64>(), e.stats().continued), (0, 58));
}

/// Tests a late error of a write in an open transfer: the next flush reports it, however long
/// after.
#[test]
fn a_late_error_that_comes_when_a_status_is_due_is_told_to_the_flush() {
    let world = world(true);
    let (mut e, mut now) = held::<4>(&world, true);
    while closed(&e, Close::Owed) == 0 {
        let lba = e.stats().requests * 8;
        world.borrow_mut().next_status = 0;
        one(&mut e, write(lba, 8, 5), &mut now).unwrap();
        if now > 900_000_000 {
            world.borrow_mut().next_status = R1::ERROR;
        }
        pass(&mut e, &mut now, 100_000_000);
    }
    rest(&mut e, &mut now);
    assert!(matches!(one(&mut e, flush(), &mut now), Err(Error::Program(_))));
    assert_eq!((one(&mut e, flush(), &mut now), e.stats().unowned), (Ok(0), 1));
}

/// Tests two clients that write in turn, each sequentially and with pauses: each client has a run,
/// and its write is complete before the transfer is closed for the other client.
#[test]
fn clients_that_take_turns_hear_of_their_writes_before_the_close() {
    let world = world(true);
    let mut e = engine::<4>(&world);
    let mut now = 0;
    for n in 0..40 {
        let lba = n / 2 * 8 + n % 2 * 500;
        one(&mut e, write(lba, 8, 5), &mut now).unwrap();
        pass(&mut e, &mut now, 3_000_000);
    }
    log(&world);
    one(&mut e, write(160, 8, 5), &mut now).unwrap();
    // The next command shows the status of the write before.
    assert_eq!(log(&world), "12 25+8");
    // The other client's write waits already.
    pass(&mut e, &mut now, 3_000_000);
    let (first, second) =
        (e.submit(write(660, 8, 5), now).unwrap(), e.submit(write(168, 8, 5), now).unwrap());
    while e.take(first).is_none() {
        now += 1_000;
        let _ = e.on_irq(now);
    }
    assert_eq!(log(&world), "12 25+8 12");
    while e.take(second).is_none() {
        now += 1_000;
        let _ = e.on_irq(now);
    }
    assert_eq!(log(&world), "25+8");
    rest(&mut e, &mut now);
    assert_eq!((world.borrow().open, e.stats().unowned), (None, 0));
}

/// Tests a write with [`Acknowledge::Transferred`] that is followed by a close of its transfer: the
/// write does not wait for the close, and the next flush reports an error of the close.
#[test]
fn a_write_that_is_complete_with_its_data_does_not_wait_for_the_close() {
    let world = world(true);
    let config = Config::DEFAULT.acknowledge(Acknowledge::Transferred);
    let mut e: TestEngine<4> = Engine::new(TestHost::new(&world), config);
    let mut without_count = target(BLOCKS);
    without_count.count = false;
    e.set_card_params(Some(without_count));
    let mut now = 0;
    let id = e.submit(write(100, 8, 5), now).unwrap();
    now += 1_000;
    let _ = e.on_irq(now);
    // CMD12 has begun, and nobody waits for its end.
    assert_eq!((log(&world).as_str(), e.take(id).is_some()), ("25+8 12", true));
    world.borrow_mut().next_status = R1::ERROR;
    rest(&mut e, &mut now);
    assert!(matches!(one(&mut e, flush(), &mut now), Err(Error::Program(_))));
    assert_eq!((one(&mut e, flush(), &mut now), e.stats().unowned), (Ok(0), 1));
}
