//! Tests of commands that are sent during data: which commands may be sent, that nothing begins
//! before command and data are over, and that neither damages the other.

use crate::support;
use mmcq::engine::{Config, DmaBuf, Engine, Error, Kind, Request, SlotId};
use mmcq::host::{
    Auto, BusOp, Caps, Cause, Direction, DmaError, Events, Host, Phase, Segment, StartError, Step,
};
use mmcq::spec::command::{Command, sdio};
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, read, target};

const BLOCKS: u64 = 256;
const ANSWER: u32 = 0x1042;

/// State of the CMD line during the data of [`TestHost`].
#[derive(Default)]
struct Line {
    /// The command that is on the CMD line now.
    out: Option<Command>,
    sent: Vec<Command>,
    /// The result of the command, which the next `ack` returns.
    answer: Option<Result<u32, Cause>>,
    refuse: Option<StartError>,
    tries: u32,
    aborted: u32,
    /// Whether the test keeps the data of the phase in progress from ending.
    hold: bool,
}

struct Twin {
    host: TestHost,
    line: Rc<RefCell<Line>>,
}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.

unsafe impl Host for Twin {
    const CONCURRENT: bool = true;

    support::handed_on!();
    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.line.borrow().out.is_some() {
            return Err(StartError::CommandLine);
        }
        self.host.start(phase, segments, timeout_ns)
    }
    fn start_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        let mut line = self.line.borrow_mut();
        line.tries += 1;
        if let Some(error) = line.refuse {
            return Err(error);
        }
        assert!(line.out.is_none() && self.host.world.borrow().running(), "two at a time, or beside nothing");
        line.sent.push(*command);
        line.out = Some(*command);
        Ok(())
    }
    fn abort_concurrent(&mut self) {
        let mut line = self.line.borrow_mut();
        line.out.take().expect("nothing to abort");
        line.aborted += 1;
    }
    fn ack(&mut self, segments: &[Segment]) -> Events {
        if self.line.borrow().hold { Events::default() } else { self.host.ack(segments) }
    }
    fn ack_concurrent(&mut self) -> Option<Result<u32, Cause>> {
        let mut line = self.line.borrow_mut();
        assert!(line.out.is_some(), "asked for nothing");
        let answer = line.answer.take()?;
        line.out = None;
        Some(answer)
    }
    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if matches!(op, BusOp::ResetLines | BusOp::ResetAll) {
            self.line.borrow_mut().out = None;
        }
        assert!(self.line.borrow().out.is_none(), "the bus changes under a command");
        self.host.set_bus(op, first, now_ns)
    }
    fn dat0_busy(&self) -> bool {
        self.host.dat0_busy()
    }
    fn present(&self) -> bool {
        self.host.present()
    }
}

struct Rig {
    world: Rc<RefCell<World>>,
    line: Rc<RefCell<Line>>,
    engine: Engine<Twin, 8>,
}

impl Rig {
    /// Returns an engine with a read in progress whose data do not end yet, and the slot of the
    /// read.
    fn reading() -> (Rig, SlotId) {
        let world = World::new(BLOCKS);
        world.borrow_mut().caps.concurrent_command = true;
        let line = Rc::new(RefCell::new(Line { hold: true, ..Line::default() }));
        let twin = Twin { host: TestHost::new(&world), line: line.clone() };
        let mut engine = Engine::new(twin, Config::DEFAULT.chain_ns(0));
        engine.set_card_params(Some(target(BLOCKS)));
        engine.set_concurrent_commands(true);
        let read = engine.submit(read(0, 64), 0).unwrap();
        (Rig { world, line, engine }, read)
    }

    fn direct(&mut self, command: Command, now_ns: u64) -> SlotId {
        self.engine.submit(direct(command), now_ns).unwrap()
    }

    fn result(&mut self, id: SlotId) -> Result<u32, Error> {
        let done = self.engine.take(id).expect("not done");
        done.result.map(|output| output.response.words[0])
    }

    fn answer(&self, result: Result<u32, Cause>) {
        self.line.borrow_mut().answer = Some(result);
    }

    fn transfers(&self) -> usize {
        self.world.borrow().transfers().len()
    }
}

fn direct(command: Command) -> Request {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    Request::new(Kind::Io { phase, timeout_ns: 1_000_000, chain: false }, DmaBuf::EMPTY)
}

#[test]
fn a_command_is_answered_while_data_move() {
    let (mut rig, reading) = Rig::reading();
    let ids = [sdio::io_read(1, 7), sdio::io_read(1, 8)].map(|command| rig.direct(command, 1_000));
    assert_eq!(rig.line.borrow().sent, [sdio::io_read(1, 7)], "one at a time, in order");
    assert!(!rig.engine.is_quiet());
    for id in ids {
        rig.answer(Ok(ANSWER));
        assert_eq!(rig.engine.on_irq(2_000).completed, 1 << id.index());
        assert_eq!(rig.result(id), Ok(ANSWER));
    }
    assert_eq!(rig.engine.stats().concurrent, 2);
    rig.line.borrow_mut().hold = false;
    assert_eq!(rig.engine.on_irq(3_000).completed, 1 << reading.index());
    assert!(rig.engine.take(reading).unwrap().result.is_ok());
    assert!(rig.engine.is_idle() && rig.engine.next_deadline_ns().is_none());
}

#[test]
fn nothing_begins_before_both_are_over() {
    let (mut rig, reading) = Rig::reading();
    let id = rig.direct(sdio::io_read(1, 7), 1_000);
    let next = rig.engine.submit(read(128, 8), 1_000).unwrap();
    let clock = rig.engine.submit(Request::new(Kind::Bus(BusOp::Clock(25_000_000)), DmaBuf::EMPTY), 1_000);
    rig.line.borrow_mut().hold = false;
    assert_eq!(rig.engine.on_irq(2_000).completed, 1 << reading.index());
    assert_eq!(rig.transfers(), 1);
    assert!(!rig.engine.is_quiet());
    let _ = rig.engine.poll(3_000);
    assert_eq!(rig.transfers(), 1);
    rig.answer(Ok(ANSWER));
    assert_eq!(rig.engine.on_irq(4_000).completed, 1 << id.index());
    assert_eq!(rig.transfers(), 2, "at once");
    let _ = rig.engine.on_irq(5_000);
    let _ = rig.engine.poll(1_000_000);
    assert!(rig.engine.take(next).unwrap().result.is_ok());
    assert!(rig.engine.take(clock.unwrap()).unwrap().result.is_ok());
}

#[test]
fn both_end_in_one_interrupt() {
    let (mut rig, reading) = Rig::reading();
    let id = rig.direct(sdio::io_write(1, 7, 1), 1_000);
    let next = rig.engine.submit(read(128, 8), 1_000).unwrap();
    rig.line.borrow_mut().hold = false;
    rig.answer(Ok(ANSWER));
    let completed = rig.engine.on_irq(2_000).completed;
    assert_eq!(completed, 1 << id.index() | 1 << reading.index());
    assert_eq!(rig.transfers(), 2);
    let _ = rig.engine.on_irq(3_000);
    assert!(rig.engine.take(next).unwrap().result.is_ok());
}

#[test]
fn a_fault_of_the_command_is_its_own() {
    let (mut rig, reading) = Rig::reading();
    let id = rig.direct(sdio::io_read(1, 7), 1_000);
    rig.answer(Err(Cause::Timeout));
    let _ = rig.engine.on_irq(2_000);
    assert!(matches!(rig.result(id), Err(Error::Host(fault)) if fault.cause == Cause::Timeout));
    rig.line.borrow_mut().hold = false;
    let _ = rig.engine.on_irq(3_000);
    assert!(rig.engine.take(reading).unwrap().result.is_ok());
    assert_eq!((rig.engine.stats().faults, rig.world.borrow().resets), (1, 0));
}

#[test]
fn a_silent_command_ends_at_its_own_deadline() {
    let (mut rig, reading) = Rig::reading();
    let id = rig.direct(sdio::io_read(1, 7), 1_000);
    // The first poll looks at the data, whose deadline has not come yet.
    assert_eq!(rig.engine.poll(rig.engine.next_deadline_ns().unwrap()).completed, 0);
    let deadline_ns = rig.engine.next_deadline_ns().unwrap();
    assert_eq!(deadline_ns, 1_000 + 1_000_000 + 50_000_000);
    assert_eq!(rig.engine.poll(deadline_ns - 1).completed, 0);
    assert_eq!(rig.engine.poll(deadline_ns).completed, 1 << id.index());
    assert_eq!(rig.result(id), Err(Error::Silent));
    assert_eq!((rig.line.borrow().aborted, rig.world.borrow().resets), (1, 0));
    // Only the interrupt of the command is lost; the command itself has an answer.
    let id = rig.direct(sdio::io_read(1, 7), 60_000_000);
    assert_eq!(rig.engine.poll(rig.engine.next_deadline_ns().unwrap()).completed, 0);
    let deadline_ns = rig.engine.next_deadline_ns().unwrap();
    rig.answer(Ok(ANSWER));
    assert_eq!(rig.engine.poll(deadline_ns).completed, 1 << id.index());
    assert_eq!(rig.result(id), Ok(ANSWER));
    assert_eq!((rig.engine.stats().lost_interrupts, rig.line.borrow().aborted), (1, 1));
    rig.line.borrow_mut().hold = false;
    let _ = rig.engine.on_irq(deadline_ns + 1);
    assert!(rig.engine.take(reading).unwrap().result.is_ok());
}

#[test]
fn a_failure_of_the_data_ends_the_command() {
    let (mut rig, reading) = Rig::reading();
    let id = rig.direct(sdio::io_read(1, 7), 1_000);
    rig.world.borrow_mut().bad.insert(5, Cause::Crc);
    rig.line.borrow_mut().hold = false;
    assert_eq!(rig.engine.on_irq(2_000).completed, 1 << id.index());
    assert!(matches!(rig.result(id), Err(Error::Host(fault)) if fault.cause == Cause::Other));
    let mut now_ns = 2_000;
    while !rig.engine.is_idle() {
        now_ns += 10_000;
        assert!(now_ns < 100_000_000, "no end");
        let _ = rig.engine.on_irq(now_ns);
        let _ = rig.engine.poll(now_ns);
    }
    assert!(matches!(rig.engine.take(reading).unwrap().result, Err(Error::Host(f)) if f.cause == Cause::Crc));
    // The read was tried again, failed for good, and left no mapping behind.
    assert!(rig.world.borrow().resets > 1 && rig.world.borrow().mapped() == 0);
    let id = rig.direct(sdio::io_read(1, 7), now_ns);
    assert_eq!(rig.world.borrow().log.last().unwrap().index, 52, "alone, as a phase");
    let _ = rig.engine.on_irq(now_ns + 1);
    assert!(rig.result(id).is_ok());
}

#[test]
fn the_card_goes_with_both_under_way() {
    let (mut rig, reading) = Rig::reading();
    let ids = [7, 8].map(|addr| rig.direct(sdio::io_read(1, addr), 1_000));
    rig.world.borrow_mut().remove();
    rig.line.borrow_mut().hold = false;
    let mut now_ns = 2_000;
    let _ = rig.engine.on_irq(now_ns);
    for _ in 0..1_000 {
        now_ns += 1_000_000;
        let _ = rig.engine.poll(now_ns);
    }
    for id in ids {
        assert_eq!(rig.result(id), Err(Error::Removed));
    }
    assert_eq!(rig.engine.take(reading).unwrap().result, Err(Error::Removed));
    assert!(rig.engine.is_idle());
}

#[test]
fn a_refused_start_is_tried_again_or_waits_for_the_end() {
    let (mut rig, _) = Rig::reading();
    rig.line.borrow_mut().refuse = Some(StartError::CommandLine);
    let id = rig.direct(sdio::io_read(1, 7), 1_000);
    assert_eq!((rig.line.borrow().tries, rig.engine.next_deadline_ns()), (1, Some(11_000)));
    let _ = rig.engine.poll(11_000);
    assert_eq!((rig.line.borrow().tries, rig.engine.next_deadline_ns()), (2, Some(21_000)));
    // An interrupt may mean that the line is free, so the engine tries again.
    let _ = rig.engine.on_irq(12_000);
    assert_eq!(rig.line.borrow().tries, 3);
    rig.line.borrow_mut().refuse = Some(StartError::DataLine);
    let _ = rig.engine.poll(22_000);
    assert!(rig.engine.next_deadline_ns().unwrap() > 1_000_000, "nothing to try again for");
    rig.line.borrow_mut().hold = false;
    let _ = rig.engine.on_irq(30_000);
    assert_eq!(rig.world.borrow().log.last().unwrap().index, 52, "after the data, as a phase");
    let _ = rig.engine.on_irq(31_000);
    assert!(rig.result(id).is_ok());
    assert_eq!(rig.engine.stats().concurrent, 0);
}

#[test]
fn only_what_leaves_the_data_alone_goes_beside_them() {
    let waits = [
        sdio::io_write(0, 6, 1),
        sdio::io_write(0, 6, 8),
        sdio::io_write(0, 7, 2),
        sdio::io_write_read(0, 0x13, 2),
        Command::new(53, 0x1000_0004, mmcq::spec::command::Resp::R5),
    ];
    for command in waits {
        let (mut rig, _) = Rig::reading();
        rig.direct(command, 1_000);
        assert_eq!(rig.line.borrow().tries, 0, "{command:?}");
    }
    for command in [sdio::io_read(0, 5), sdio::io_write(0, 4, 3), sdio::io_write_read(2, 6, 8)] {
        let (mut rig, _) = Rig::reading();
        rig.direct(command, 1_000);
        assert_eq!(rig.line.borrow().tries, 1, "{command:?}");
    }
    // No start after a halt, with concurrent commands off, or after the card has gone.
    let stop: [fn(&mut Engine<Twin, 8>); 3] = [
        |engine| engine.halt(),
        |engine| engine.set_concurrent_commands(false),
        |engine| engine.set_card_params(None),
    ];
    for stop in stop {
        let (mut rig, _) = Rig::reading();
        stop(&mut rig.engine);
        rig.direct(sdio::io_read(1, 7), 1_000);
        assert_eq!(rig.line.borrow().tries, 0);
    }
}

#[test]
fn a_command_without_a_client_ends_by_itself() {
    let (mut rig, _) = Rig::reading();
    let id = rig.direct(sdio::io_read(1, 7), 1_000);
    assert!(rig.engine.cancel(id).is_none());
    rig.answer(Ok(ANSWER));
    assert_eq!(rig.engine.on_irq(2_000).completed, 0);
    assert_eq!(rig.engine.slots_in_use(), 1);
}

#[test]
fn other_hosts_are_never_asked() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.concurrent_command = true;
    let mut engine: Engine<TestHost, 4> = Engine::new(TestHost::new(&world), Config::DEFAULT);
    engine.set_card_params(Some(target(BLOCKS)));
    engine.set_concurrent_commands(true);
    engine.submit(read(0, 8), 0).unwrap();
    let id = engine.submit(direct(sdio::io_read(1, 7)), 1_000).unwrap();
    let _ = engine.on_irq(2_000);
    let _ = engine.on_irq(3_000);
    assert!(engine.take(id).unwrap().result.is_ok());
    let log: Vec<u8> = world.borrow().log.iter().map(|seen| seen.index).collect();
    assert_eq!((log, engine.stats().concurrent), (vec![18, 52], 0));
}
