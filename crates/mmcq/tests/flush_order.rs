//! Tests of flushes that succeed: every write that was complete before the flush was submitted is
//! on the medium. No request passes a flush, and no other request takes its errors.

use crate::support;
use mmcq::card::quirk::Quirks;
use mmcq::engine::{
    Abilities, Config, DmaBuf, Engine, Error, FlushBy, Kind, PartitionAccess, Request, SlotId,
};
use mmcq::host::{Auto, BusOp, Phase};
use mmcq::sched::Origin;
use mmcq::spec::command::{self, Command};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target, write};

const BLOCKS: u64 = 64;
const CACHE: FlushBy = FlushBy::EmmcCache { timeout_ns: 500_000_000 };

type TestEngine = Engine<TestHost, 16>;

fn engine(world: &Rc<RefCell<World>>, quirks: Quirks) -> TestEngine {
    let mut engine = Engine::new(TestHost::new(world), Config::DEFAULT);
    engine.set_card_params(Some(target(BLOCKS).flush(CACHE).quirks(quirks)));
    engine.enable_extended_ops();
    engine
}

fn flush() -> Request {
    Request::new(Kind::Flush, DmaBuf::EMPTY)
}

fn raw(command: Command) -> Request {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    Request::new(Kind::Raw { prefix: None, phase, timeout_ns: 1_000_000 }, DmaBuf::EMPTY)
}

fn run(engine: &mut TestEngine, mut now: u64) -> u64 {
    for _ in 0..10_000 {
        now += 1_000;
        let _ = engine.on_irq(now);
        let _ = engine.poll(now);
        if engine.is_idle() {
            return now;
        }
        if !engine.host().world.borrow().running() {
            now = now.max(engine.next_deadline_ns().unwrap_or(0));
        }
    }
    panic!("the engine does not come to rest");
}

fn ended(engine: &mut TestEngine, id: SlotId) -> Result<u32, Error> {
    engine.take(id).expect("not finished").result.map(|output| output.bytes)
}

fn indices(world: &Rc<RefCell<World>>) -> Vec<u8> {
    world.borrow().log.iter().map(|seen| seen.index).collect()
}

/// Tests that a flush cannot be urgent: an urgent flush would pass the writes before it, and
/// succeed although they are not on the medium.
#[test]
fn only_steps_of_a_conversation_are_urgent() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    let first = e.submit(write(0, 8, 1), 0).unwrap();
    let second = e.submit(write(16, 8, 1), 0).unwrap();
    let order = Kind::LongCommand { command: command::send_status(1), timeout_ns: 1_000_000 };
    let io = match raw(command::send_status(1)).kind {
        Kind::Raw { phase, .. } => Kind::Io { phase, timeout_ns: 1_000_000, chain: false },
        _ => unreachable!(),
    };
    for request in [
        flush(),
        write(32, 1, 2),
        write(32, 1, 2).durable(),
        Request::new(Kind::Read { lba: 0, blocks: 1 }, buffer(1, 0)),
        Request::new(order, DmaBuf::EMPTY),
        Request::new(io, DmaBuf::EMPTY),
    ] {
        let kind = request.kind;
        let refused = e.submit(request.urgent(), 0).map_err(|(error, _)| error);
        assert_eq!(refused, Err(Error::Unsupported), "{kind:?}");
    }
    assert!(!indices(&world).contains(&6));
    let pause = Request::new(Kind::Pause { ns: 1 }, DmaBuf::EMPTY);
    let bus = Request::new(Kind::Bus(BusOp::Clock(0)), DmaBuf::EMPTY);
    let steps = [raw(command::send_status(1)), pause, bus].map(|step| e.submit(step.urgent(), 0).unwrap());
    run(&mut e, 0);
    assert_eq!((ended(&mut e, first), ended(&mut e, second)), (Ok(4096), Ok(4096)));
    assert!(steps.into_iter().all(|step| ended(&mut e, step).is_ok()));
}

/// Tests an urgent command after a write: the first response after the write has the write's
/// result, which the card sends only one time and which goes to the write.
#[test]
fn an_urgent_command_does_not_hear_what_is_a_writes_own() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    let id = e.submit(write(0, 8, 1), 0).unwrap();
    let spoken = e.submit(raw(command::send_status(1)).urgent(), 0).unwrap();
    let next = e.submit(write(16, 8, 1), 0).unwrap();
    let _ = e.on_irq(1_000);
    world.borrow_mut().next_status = R1::ERROR;
    run(&mut e, 1_000);
    assert!(matches!(ended(&mut e, id), Err(Error::Program(status)) if status & R1::ERROR != 0));
    assert_eq!(e.take(spoken).unwrap().result.unwrap().response.r1().0 & R1::ERROR, 0);
    assert_eq!(ended(&mut e, next), Ok(4096));
}

/// Tests an error of the cache that the response to another command shows, since the card reports
/// it only one time: the next flush reports that error.
#[test]
fn what_another_command_hears_of_the_cache_the_next_flush_tells() {
    let order = || {
        let command =
            mmcq::spec::command::emmc::switch(mmcq::spec::command::emmc::SwitchMode::WriteByte, 34, 1, 0);
        Request::new(Kind::LongCommand { command, timeout_ns: 1_000_000 }, DmaBuf::EMPTY)
    };
    let visit = || {
        let visit = PartitionAccess {
            config: 1,
            switch_ns: 1_000_000,
            lba: 0,
            out: 0,
            reliable: false,
            ask: false,
            back: 1,
        };
        Request::new(Kind::PartitionAccess(visit), buffer(1, 0))
    };
    let cases: [fn() -> Request; 2] =
        [|| raw(command::send_status(1)), || raw(command::send_status(1)).urgent()];
    for (n, other) in cases.into_iter().chain([order as fn() -> Request, visit]).enumerate() {
        let world = World::new(BLOCKS);
        world.borrow_mut().areas.insert(1, vec![0; 4096]);
        let mut e = engine(&world, Quirks::NONE);
        // Nothing is in the cache: the error is the command's own.
        let id = e.submit(other(), 0).unwrap();
        world.borrow_mut().next_status = R1::ERROR;
        let now = run(&mut e, 0);
        let _ = e.take(id).unwrap();
        let id = e.submit(flush(), now).unwrap();
        let now = run(&mut e, now);
        assert_eq!(ended(&mut e, id), Ok(0), "case {n}");
        let id = e.submit(write(0, 8, 1), now).unwrap();
        let now = run(&mut e, now);
        assert_eq!(ended(&mut e, id), Ok(4096));
        let id = e.submit(other(), now).unwrap();
        world.borrow_mut().next_status = R1::ERROR;
        let now = run(&mut e, now);
        let _ = e.take(id).unwrap();
        let id = e.submit(flush(), now).unwrap();
        let now = run(&mut e, now);
        let told = ended(&mut e, id);
        assert!(matches!(told, Err(Error::Program(status)) if status & R1::ERROR != 0), "case {n}: {told:?}");
        let id = e.submit(flush(), now).unwrap();
        run(&mut e, now);
        assert_eq!(ended(&mut e, id), Ok(0), "case {n}: told once");
    }
}

/// Tests a card that is flushed only after writes: a write to another partition counts as a write.
#[test]
fn a_write_to_another_partition_is_flushed() {
    let world = World::new(BLOCKS);
    world.borrow_mut().areas.insert(1, vec![0; 4096]);
    let mut e = engine(&world, Quirks::NONE);
    let visit = PartitionAccess {
        config: 1,
        switch_ns: 1_000_000,
        lba: 0,
        out: 1,
        reliable: false,
        ask: false,
        back: 0,
    };
    let id = e.submit(Request::new(Kind::PartitionAccess(visit), buffer(1, 7)), 0).unwrap();
    let now = run(&mut e, 0);
    assert_eq!(ended(&mut e, id), Ok(512));
    let id = e.submit(flush(), now).unwrap();
    run(&mut e, now);
    assert_eq!(ended(&mut e, id), Ok(0));
    let flushes =
        world.borrow().log.iter().filter(|seen| seen.index == 6 && seen.arg >> 16 & 0xff == 32).count();
    assert_eq!(flushes, 1, "{:?}", indices(&world));
}

/// Returns the reads (R), writes (W) and flushes (F) that the card has been sent, in order.
fn moves(world: &Rc<RefCell<World>>) -> String {
    let name = |seen: &support::Seen| match seen.index {
        17 | 18 => Some('R'),
        24 | 25 => Some('W'),
        6 if seen.arg >> 16 & 0xff == 32 => Some('F'),
        _ => None,
    };
    world.borrow().log.iter().filter_map(name).collect()
}

fn by(client: u8, request: Request) -> Request {
    request.from(Origin { client, sync: true })
}

fn all_well(e: &mut TestEngine, ids: &[SlotId]) {
    for (n, &id) in ids.iter().enumerate() {
        assert!(ended(e, id).is_ok(), "request {n}");
    }
}

/// Tests flushes right behind reliable writes: the interrupt that ends such a write begins the flush
/// behind it. Nothing is in the card's cache, so the flush is no command.
#[test]
fn a_flush_behind_a_reliable_write_is_no_command() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    e.set_abilities(Abilities::NONE.reliable_blocks(8));
    let requests = [write(0, 8, 1).durable(), flush(), write(16, 8, 1).durable(), flush(), flush()];
    let ids = requests.map(|request| e.submit(request, 0).unwrap());
    run(&mut e, 0);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world), "WW");
}

/// Tests flushes with no change of the card between them: one flush of the card serves all of them.
#[test]
fn flushes_with_no_change_between_them_are_one() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    let read = || Request::new(Kind::Read { lba: 8, blocks: 8 }, buffer(8, 0));
    let requests = [write(0, 8, 1), flush(), flush(), read(), flush(), write(16, 8, 1), flush(), flush()];
    let ids = requests.map(|request| e.submit(request, 0).unwrap());
    run(&mut e, 0);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world), "WFRWF");
}

/// Tests a flush behind a write that is behind another flush: the first flush does not serve the
/// second one.
#[test]
fn a_flush_joins_none_from_behind_a_change() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    let status = raw(command::send_status(1));
    let ids = [write(0, 8, 1), flush(), status, write(16, 8, 1), flush()].map(|r| e.submit(r, 0).unwrap());
    let mut now = 0;
    while !moves(&world).ends_with("WF") {
        now += 1_000;
        let _ = (e.on_irq(now), e.poll(now));
        assert!(now < 1 << 30);
    }
    assert!(e.take(ids[4]).is_none());
    run(&mut e, now);
    all_well(&mut e, &[ids[1], ids[3], ids[4]]);
    assert_eq!(moves(&world), "WFWF");
}

/// Tests durable writes that wait on a card without reliable writes: one flush serves all of them.
#[test]
fn durable_writes_that_wait_are_flushed_together() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    let read = || Request::new(Kind::Read { lba: 40, blocks: 8 }, buffer(8, 0));
    let requests = [
        write(0, 8, 1).durable(),
        write(16, 8, 1).durable(),
        read(),
        write(0, 8, 2).durable(),
        write(32, 8, 1),
        write(48, 8, 1).durable(),
    ];
    let ids = requests.map(|request| e.submit(request, 0).unwrap());
    run(&mut e, 0);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world), "WWRWFWWF");
    assert_eq!(e.stats().durable_flushes, 2);
    assert_eq!(world.borrow().medium[..4], [2; 4], "the younger of two on the same blocks");
}

/// Tests a flush of one client that gives way to the writes of two other clients that flush too.
/// Each client writes, waits for the write, and flushes.
#[test]
fn a_flush_gives_way_to_writes_of_clients_that_flush() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    let first = [by(1, write(0, 8, 1)), by(1, flush()), by(2, flush())].map(|r| e.submit(r, 0).unwrap());
    let now = run(&mut e, 0);
    all_well(&mut e, &first);
    assert_eq!(moves(&world), "WF");
    // Clients 1 and 2 have flushed; 4 has not.
    let second = [
        by(3, write(0, 8, 1)),
        by(3, flush()),
        by(1, write(8, 8, 1)),
        by(2, write(24, 8, 1)),
        by(4, write(40, 8, 1)),
        by(1, flush()),
    ];
    let ids = second.map(|request| e.submit(request, now).unwrap());
    let now = run(&mut e, now);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world), "WFWWWFWF", "once, and not to client 4");
    // A client's own flush is a barrier for its later write.
    let third = [by(1, write(0, 8, 1)), by(1, flush()), by(1, write(16, 8, 1)), by(2, write(32, 8, 1))];
    let ids = third.map(|request| e.submit(request, now).unwrap());
    let now = run(&mut e, now);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world), "WFWWWFWFWFWW");
    // Client 3 has flushed, though not with the last flush; 2 has passed one without a flush since.
    let fourth = [
        by(5, write(0, 8, 1)),
        by(1, flush()),
        by(3, write(16, 8, 1)),
        by(2, write(32, 8, 1)),
        by(3, flush()),
    ];
    let ids = fourth.map(|request| e.submit(request, now).unwrap());
    run(&mut e, now);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world).strip_prefix("WFWWWFWFWFWW"), Some("WWFWF"), "3 passes, and 2 does not");
}

/// Tests that waiting flushes give way together. In an earlier version only the first flush went
/// behind the writes, so the second one was sent alone.
#[test]
fn flushes_that_give_way_stay_together() {
    let world = World::new(BLOCKS);
    let mut e = engine(&world, Quirks::NONE);
    let first = [by(5, write(0, 8, 1)), by(1, flush()), by(2, flush()), by(3, flush())];
    let ids = first.map(|request| e.submit(request, 0).unwrap());
    let now = run(&mut e, 0);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world), "WF");
    let second = [
        by(5, write(0, 8, 1)),
        by(1, flush()),
        by(2, flush()),
        by(3, write(16, 8, 1)),
        by(3, flush()),
        // Client 2 has sent its own flush before this write.
        by(2, write(32, 8, 1)),
    ];
    let ids = second.map(|request| e.submit(request, now).unwrap());
    run(&mut e, now);
    all_well(&mut e, &ids);
    assert_eq!(moves(&world), "WFWWFW");
}
