//! Tests of [`Faulty`], the wrapper that injects faults: which calls it passes on, which faults it
//! injects, and that the engine handles all of them.

use crate::support;
use mmcq::engine::{Config, Engine, Kind, Request};
use mmcq::host::faulty::{Faulty, Point, Shot, Strike, When};
use mmcq::host::{
    Auto, BusOp, Cause, Data, Direction, Events, Host, Phase, Segment, Stage, StartError, Step,
};
use mmcq::spec::command;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use support::{READY, TestHost, World, buffer, target};

const BLOCKS: u64 = 256;
/// A time in nanoseconds that is longer than any incident may take: 12 s plus the times that the
/// card declares.
const LIMIT_NS: u64 = 20_000_000_000;

type Host4 = Faulty<TestHost, 4>;
type TestEngine = Engine<Host4, 8>;

fn host(world: &Rc<RefCell<World>>, shots: &[(Strike, When)]) -> Host4 {
    let mut host = Faulty::new(TestHost::new(world), 1);
    for &(strike, when) in shots {
        assert!(host.add(Shot { strike, when }));
    }
    host
}

fn status() -> Phase {
    Phase { command: command::send_status(1), data: None, auto: Auto::None, tuning: false }
}

/// Starts CMD13, and returns the events at its end.
fn ask(host: &mut Host4) -> Events {
    host.start(&status(), &[], 1).unwrap();
    host.ack(&[])
}

/// Runs the engine by the interrupts that are not lost and by its deadlines until it is idle.
/// Returns the time.
fn run(engine: &mut TestEngine, mut now: u64) -> u64 {
    for _ in 0..100_000 {
        if engine.host().inner().world.borrow().running() {
            now += 1_000;
            let _ = engine.on_irq(now);
        } else if engine.is_idle() {
            let _ = engine.poll(now);
            return now;
        } else {
            let at = engine.next_deadline_ns().expect("waits for nothing");
            now = at.max(now + 1);
            let _ = engine.poll(now);
        }
    }
    panic!("the engine does not come to rest");
}

#[test]
fn nothing_is_changed_without_a_shot() {
    let world = World::new(BLOCKS);
    let mut host = host(&world, &[]);
    let mut plain = TestHost::new(&World::new(BLOCKS));
    for _ in 0..3 {
        let seen = ask(&mut host);
        plain.start(&status(), &[], 1).unwrap();
        assert_eq!(seen.phase, plain.ack(&[]).phase);
        assert!(!seen.presence && !seen.retune && !seen.card_irq);
    }
    let counts = [Point::Start, Point::End, Point::Ack, Point::Bus].map(|point| host.events(point));
    assert_eq!((counts, host.hits()), ([3, 3, 3, 0], 0));
    assert!(host.present());
}

#[test]
fn a_start_that_is_refused_or_goes_nowhere() {
    let world = World::new(BLOCKS);
    let mut host = host(
        &world,
        &[(Strike::Refused(StartError::DataLine), When::Nth(1)), (Strike::Unsent, When::Nth(2))],
    );
    assert_eq!(host.start(&status(), &[], 1), Err(StartError::DataLine));
    host.start(&status(), &[], 1).unwrap();
    assert!(world.borrow().log.is_empty(), "the card has seen nothing");
    let fault = host.ack(&[]).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage, fault.response), (Cause::Timeout, Stage::Command, None));
    assert!(host.ack(&[]).phase.is_none());
    assert!(ask(&mut host).phase.unwrap().is_ok());
    assert_eq!(world.borrow().log.len(), 1);
}

#[test]
fn an_end_that_failed_changed_or_comes_late() {
    let world = World::new(BLOCKS);
    let mut host = host(
        &world,
        &[
            (Strike::Failed(Cause::Crc, Stage::Command), When::Nth(1)),
            (Strike::Failed(Cause::Crc, Stage::Data), When::Nth(2)),
            (Strike::Status(1 << 22), When::Nth(3)),
            (Strike::Late(2), When::Nth(4)),
        ],
    );
    let fault = ask(&mut host).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage, fault.response), (Cause::Crc, Stage::Command, None));
    assert!(ask(&mut host).phase.unwrap().is_ok(), "a command without data has no data error");
    assert_eq!(ask(&mut host).phase.unwrap().unwrap().response.words[0], READY | 1 << 22);
    assert_eq!(ask(&mut host).phase, None);
    assert_eq!([0; 3].map(|_| host.ack(&[]).phase.is_some()), [false, false, true]);
    assert_eq!(host.ack(&[]).phase, None);
    // A reset forgets what is kept back.
    host.clear();
    assert!(host.add(Shot { strike: Strike::Late(0), when: When::From(1) }));
    assert_eq!(ask(&mut host).phase, None);
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Wait(1_000));
    assert_eq!(host.set_bus(BusOp::ResetLines, false, 1_000), Step::Done);
    assert_eq!(host.ack(&[]).phase, None);
    assert_eq!(host.last().unwrap().nth, 5);
}

#[test]
fn one_bit_of_what_was_read() {
    let world = World::new(BLOCKS);
    for (bit, byte, mask) in [(0, 0, 0x80u8), (8 * 600 + 3, 600, 0x10), (8 * 1024 + 7, 0, 1)] {
        let mut host = host(&world, &[(Strike::Flip(bit), When::Nth(1))]);
        let mut memory = [vec![0xffu8; 512], vec![0xff; 512]];
        let mut segments = memory.each_mut().map(|part| {
            let ptr = NonNull::new(part.as_mut_ptr()).unwrap();
            // SAFETY: the memory lives for ever, and this driver alone has it.
            let mut segment = unsafe { Segment::new(ptr, 512, 0) };
            host.map(&mut segment, Direction::Read).unwrap();
            segment
        });
        let data = Data { direction: Direction::Read, block_size: 512, blocks: 2 };
        let phase = Phase {
            command: command::read_multiple_block(0),
            data: Some(data),
            auto: Auto::Stop,
            tuning: false,
        };
        host.start(&phase, &segments, 1).unwrap();
        assert!(host.ack(&segments).phase.unwrap().is_ok());
        for segment in &mut segments {
            host.unmap(segment, Direction::Read);
        }
        let mut expected = vec![0u8; 1024];
        expected[byte] = mask;
        assert!(memory.concat() == expected, "bit {bit}");
    }
}

#[test]
fn presence_retuning_and_the_card_interrupt() {
    let world = World::new(BLOCKS);
    let mut host = host(
        &world,
        &[
            (Strike::Bounce, When::Nth(1)),
            (Strike::Absent(2), When::Nth(2)),
            (Strike::Retune, When::Nth(4)),
            (Strike::CardIrq(2), When::Nth(5)),
        ],
    );
    assert!(host.ack(&[]).presence && host.present());
    assert!(host.ack(&[]).presence);
    assert_eq!([0; 3].map(|_| host.present()), [false, false, true]);
    assert!(host.ack(&[]).presence, "it is back");
    let events = host.ack(&[]);
    assert!(events.retune && !events.presence);
    host.card_irq(true);
    assert!(host.ack(&[]).card_irq);
    assert!(!host.ack(&[]).card_irq, "masked");
    host.card_irq(true);
    assert!(host.ack(&[]).card_irq);
    host.card_irq(true);
    assert!(!host.ack(&[]).card_irq, "only two");
}

#[test]
fn a_bus_operation_is_done_and_reported_as_failed() {
    let world = World::new(BLOCKS);
    let mut host = host(&world, &[(Strike::BusFailed, When::Nth(2))]);
    for (n, end) in [(1, Step::Done), (2, Step::Failed), (3, Step::Done)] {
        assert_eq!(host.set_bus(BusOp::ResetAll, true, 0), Step::Wait(1_000));
        assert_eq!(host.set_bus(BusOp::ResetAll, false, 1_000), end);
        assert_eq!(world.borrow().resets, n);
    }
}

#[test]
fn chance_is_the_same_for_the_same_seed() {
    let hits = |seed, shots: &[(Strike, When)]| {
        let mut host: Faulty<_, 4> = Faulty::new(TestHost::new(&World::new(BLOCKS)), seed);
        for &(strike, when) in shots {
            host.add(Shot { strike, when });
        }
        (0..1000).map(|_| ask(&mut host).phase.unwrap().is_err()).collect::<Vec<_>>()
    };
    let tenth = (Strike::Failed(Cause::Crc, Stage::Command), When::Chance(u32::MAX / 10));
    let first = hits(7, &[tenth]);
    let count = first.iter().filter(|&&hit| hit).count();
    assert!((60..140).contains(&count), "{count}");
    assert_eq!(first, hits(7, &[tenth]));
    assert_ne!(first, hits(8, &[tenth]));
    // A fault at a chosen event does not change which other events are hit by chance.
    let more = hits(7, &[(Strike::Failed(Cause::Crc, Stage::Command), When::Nth(1)), tenth]);
    assert!(more[0] && more[1..] == first[1..]);
}

#[test]
fn off_it_counts_and_does_not_strike_and_five_shots_are_too_many() {
    let world = World::new(BLOCKS);
    let mut host = host(&world, &[(Strike::Retune, When::From(1))]);
    host.arm(false);
    assert!(!host.ack(&[]).retune);
    host.arm(true);
    assert!(host.ack(&[]).retune);
    assert_eq!((host.events(Point::Ack), host.hits()), (2, 1));
    let added: Vec<_> =
        (0..4).map(|_| host.add(Shot { strike: Strike::Bounce, when: When::Nth(9) })).collect();
    assert_eq!(added, [true, true, true, false]);
}

/// Tests every fault at every event of a short load: every request gets a result in bounded time,
/// and no wrong one.
#[test]
fn the_engine_survives_every_strike_at_every_event() {
    let strikes = [
        Strike::Refused(StartError::CommandLine),
        Strike::Refused(StartError::DataLine),
        Strike::Unsent,
        Strike::Failed(Cause::Crc, Stage::Command),
        Strike::Failed(Cause::Timeout, Stage::Command),
        Strike::Failed(Cause::Index, Stage::Command),
        Strike::Failed(Cause::Crc, Stage::Data),
        Strike::Failed(Cause::Timeout, Stage::Data),
        Strike::Failed(Cause::Dma, Stage::Data),
        Strike::Failed(Cause::Crc, Stage::Count),
        Strike::Failed(Cause::Gone, Stage::Data),
        Strike::Status(1 << 22),
        Strike::Status(1 << 19),
        Strike::Late(0),
        Strike::Late(1),
        Strike::Late(3),
        Strike::Bounce,
        Strike::Retune,
        Strike::CardIrq(5),
        Strike::BusFailed,
    ];
    let mut tried = 0;
    for strike in strikes {
        for nth in 1..=12 {
            let world = World::new(BLOCKS);
            let shots = [(strike, When::Nth(nth))];
            let mut engine: TestEngine = Engine::new(host(&world, &shots), Config::DEFAULT);
            engine.set_card_params(Some(target(BLOCKS)));
            let mut expected = vec![0u8; BLOCKS as usize * 512];
            let mut now = 0;
            for round in 0..6u64 {
                let (lba, blocks, fill) = (8 * round, 4, round as u8 + 1);
                let write = Request::new(Kind::Write { lba, blocks }, buffer(blocks, fill));
                let read = Request::new(Kind::Read { lba, blocks }, buffer(blocks, 0xee));
                let begun = now;
                let ids = [write, read].map(|request| engine.submit(request, now));
                let [Ok(wrote), Ok(got)] = ids else {
                    // The card was given up, so both requests are refused at once.
                    assert!(ids.iter().all(Result::is_err) && engine.host().hits() > 0);
                    break;
                };
                now = run(&mut engine, now);
                assert!(now - begun < LIMIT_NS, "{strike:?} at {nth}: {} ns", now - begun);
                let [wrote, got] = [wrote, got].map(|id| engine.take(id).expect("an answer"));
                let range = lba as usize * 512..(lba as usize + 4) * 512;
                if wrote.result.is_ok() {
                    expected[range.clone()].fill(fill);
                } else {
                    // A failed write may have been written nevertheless.
                    expected[range.clone()].copy_from_slice(&world.borrow().medium[range.clone()]);
                }
                if got.result.is_ok() {
                    assert!(got.buf[..] == expected[range], "{strike:?} at {nth}: wrong data");
                }
            }
            assert!(world.borrow().medium == expected, "{strike:?} at {nth}");
            assert_eq!(world.borrow().mapped(), 0);
            tried += engine.host().hits();
        }
    }
    assert!(tried > 120, "{tried} strikes");
}

/// Tests a lost interrupt: at the deadline the engine polls the controller, and finds that the
/// phase has ended.
#[test]
fn a_lost_interrupt_costs_time_and_nothing_else() {
    let world = World::new(BLOCKS);
    let mut engine: TestEngine =
        Engine::new(host(&world, &[(Strike::Late(0), When::Nth(1))]), Config::DEFAULT);
    engine.set_card_params(Some(target(BLOCKS)));
    let id = engine.submit(Request::new(Kind::Read { lba: 0, blocks: 8 }, buffer(8, 0xee)), 0).unwrap();
    run(&mut engine, 0);
    assert!(engine.take(id).unwrap().result.is_ok());
    assert_eq!((engine.stats().lost_interrupts, engine.stats().faults), (1, 0));
    assert_eq!(world.borrow().resets, 0);
}
