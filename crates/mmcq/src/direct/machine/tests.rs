//! Tests of the machine by transcripts: the calls that a driver gets, and what it answers.

extern crate std;

use super::*;
use crate::host::{Caps, Data, DmaError, Done, Events, Fault, Stage};
use crate::spec::command::{self, Command};
use crate::spec::response::Response;
use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

/// What the driver answers to its next call.
enum Say {
    Start(Result<(), StartError>),
    Ack(Option<Result<u32, (Cause, Stage)>>),
    Bus(Step),
    Isolate(bool),
}
use Say::{Ack, Bus, Isolate, Start};

/// A driver that answers by a list, and notes each call.
struct Scripted {
    says: VecDeque<Say>,
    calls: Vec<String>,
}

impl Scripted {
    fn next(&mut self, call: String) -> Say {
        let say = self.says.pop_front().unwrap_or_else(|| panic!("not expected: {call}"));
        self.calls.push(call);
        say
    }
}

// SAFETY: the driver accesses no memory.
unsafe impl Host for Scripted {
    fn caps(&self) -> &Caps {
        &Caps::NONE
    }

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        self.calls.push(format!("map {} {direction:?}", segment.len_bytes()));
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, direction: Direction) {
        self.calls.push(format!("unmap {direction:?}"));
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], _: u64) -> Result<(), StartError> {
        match self.next(format!("CMD{} {}", phase.command.index, segments.len())) {
            Start(result) => result,
            _ => panic!("no start is expected"),
        }
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        if !matches!(self.says.front(), Some(Ack(_))) {
            return Events::default();
        }
        let Ack(end) = self.next(format!("ack {}", segments.len())) else { return Events::default() };
        let phase = end.map(|end| match end {
            Ok(status) => Ok(Done { response: Response::short(status), ..Done::default() }),
            Err((cause, stage)) => Err(Fault { cause, stage, response: None }),
        });
        Events { phase, ..Events::default() }
    }

    fn set_bus(&mut self, op: BusOp, first: bool, _: u64) -> Step {
        match self.next(format!("{op:?} {first}")) {
            Bus(step) => step,
            _ => panic!("no bus operation is expected"),
        }
    }

    fn isolate(&mut self) -> bool {
        match self.next("isolate".into()) {
            Isolate(done) => done,
            _ => panic!("no isolation is expected"),
        }
    }

    fn dat0_busy(&self) -> bool {
        false
    }

    fn present(&self) -> bool {
        true
    }
}

fn machine(says: impl IntoIterator<Item = Say>) -> Machine<Scripted> {
    Machine::new(Scripted { says: says.into_iter().collect(), calls: vec![] })
}

fn raw(prefix: Option<Command>, command: Command, blocks: u32) -> Kind {
    let data = (blocks > 0).then_some(Data { direction: Direction::Read, block_size: 512, blocks });
    Kind::Raw { prefix, phase: Phase { data, ..Phase::of(command) }, timeout_ns: 1_000 }
}

fn memory(bytes: usize) -> DmaBuf {
    DmaBuf::from_static(vec![0; bytes].leak())
}

fn begin(machine: &mut Machine<Scripted>, kind: Kind, buf: DmaBuf, now_ns: u64) {
    machine.begin(&mut Request::new(kind, buf), now_ns);
}

/// Checks that all answers were used, and returns the calls.
fn calls(machine: &Machine<Scripted>) -> Vec<&str> {
    assert!(machine.host.says.is_empty());
    machine.host.calls.iter().map(String::as_str).collect()
}

#[test]
fn a_command_ends_with_its_response() {
    let mut machine = machine([Start(Ok(())), Ack(None), Ack(Some(Ok(0x900)))]);
    begin(&mut machine, raw(None, command::send_status(1), 0), DmaBuf::EMPTY, 5);
    let deadline_ns = 5 + 1_000 + SLACK_NS;
    assert_eq!(machine.advance(5), Some(deadline_ns));
    assert!(machine.take().is_none());
    assert_eq!(machine.advance(6), Some(deadline_ns));
    assert_eq!(machine.advance(7), None);
    assert_eq!(machine.take().unwrap().result.unwrap().response.words[0], 0x900);
    assert!(machine.take().is_none());
    assert_eq!(calls(&machine), ["CMD13 0", "ack 0", "ack 0"]);
}

#[test]
fn a_prefix_goes_before_and_has_no_data() {
    let mut machine = machine([Start(Ok(())), Ack(Some(Ok(0x120))), Start(Ok(())), Ack(Some(Ok(0x920)))]);
    begin(&mut machine, raw(Some(command::app_cmd(1)), command::sd::send_scr(), 1), memory(512), 0);
    machine.advance(0);
    machine.advance(1);
    assert_eq!(machine.advance(2), None);
    let done = machine.take().unwrap();
    assert_eq!((done.result.unwrap().response.words[0], done.buf.len()), (0x920, 512));
    assert_eq!(calls(&machine), ["map 512 Read", "CMD55 0", "ack 0", "CMD51 1", "ack 1", "unmap Read"]);
}

#[test]
fn lines_in_use_are_tried_again_until_a_limit() {
    let busy = || Start(Err(StartError::DataLine));
    let mut late = machine([busy(), busy(), busy(), Bus(Step::Done)]);
    begin(&mut late, raw(None, command::send_status(1), 0), DmaBuf::EMPTY, 0);
    assert_eq!(late.advance(0), Some(START_RETRY_NS));
    assert_eq!(late.advance(START_RETRY_NS), Some(2 * START_RETRY_NS));
    assert_eq!(late.advance(REFUSED_NS), None);
    assert_eq!(late.take().unwrap().result, Err(Error::Silent));
    assert_eq!(calls(&late), ["CMD13 0", "CMD13 0", "CMD13 0", "ResetLines true"]);

    let mut never = machine([Start(Err(StartError::Unsupported))]);
    begin(&mut never, raw(None, command::send_status(1), 0), DmaBuf::EMPTY, 0);
    assert_eq!(never.advance(0), None);
    assert_eq!(never.take().unwrap().result, Err(Error::Unsupported));
}

/// Tests that memory is unmapped and returned only after the lines were reset.
#[test]
fn a_fault_resets_the_lines_before_the_memory_comes_back() {
    let fault = Fault { cause: Cause::Crc, stage: Stage::Data, response: None };
    let says =
        [Start(Ok(())), Ack(Some(Err((Cause::Crc, Stage::Data)))), Bus(Step::Wait(100)), Bus(Step::Done)];
    let mut machine = machine(says);
    begin(&mut machine, raw(None, command::transfer(false, true, 0), 8), memory(4096), 0);
    machine.advance(0);
    assert_eq!(machine.advance(50), Some(100));
    // An interrupt before that time does not call the driver's operation again.
    assert_eq!(machine.advance(99), Some(100));
    assert!(machine.take().is_none());
    assert_eq!(machine.advance(100), None);
    let done = machine.take().unwrap();
    assert_eq!((done.result, done.buf.len()), (Err(Error::Host(fault)), 4096));
    assert_eq!(
        calls(&machine),
        ["map 4096 Read", "CMD18 1", "ack 1", "ResetLines true", "ResetLines false", "unmap Read"]
    );
}

#[test]
fn a_controller_that_is_silent_is_given_up_at_its_deadline() {
    let mut machine = machine([Start(Ok(())), Ack(None), Ack(None), Bus(Step::Done)]);
    begin(&mut machine, raw(None, command::transfer(false, true, 0), 128), memory(65_536), 0);
    let due_ns = machine.advance(0).unwrap();
    // The wait for the card once for each 64 blocks, and the time of the blocks on the wire.
    assert_eq!(due_ns, 3 * 1_000 + 128 * u64::from(SLOWEST_BLOCK_NS) + SLACK_NS);
    assert_eq!(machine.advance(due_ns - 1), Some(due_ns));
    assert_eq!(machine.advance(due_ns), None);
    assert_eq!(machine.take().unwrap().result, Err(Error::Silent));
}

/// Tests a controller that does not reset: its memory comes back only if it is isolated.
#[test]
fn memory_of_a_controller_that_hangs_stays_with_it() {
    for isolated in [true, false] {
        let says = [
            Start(Ok(())),
            Ack(Some(Err((Cause::Timeout, Stage::Data)))),
            Bus(Step::Failed),
            Bus(Step::Failed),
            Isolate(isolated),
        ];
        let mut machine = machine(says);
        begin(&mut machine, raw(None, command::transfer(false, false, 0), 1), memory(512), 0);
        machine.advance(0);
        assert_eq!(machine.advance(1), None);
        let done = machine.take().unwrap();
        let error = if isolated { Error::Bus(BusOp::ResetAll) } else { Error::Dead };
        assert_eq!((done.result, done.buf.len()), (Err(error), if isolated { 512 } else { 0 }));
        let end = if isolated { Some(&"unmap Read") } else { Some(&"isolate") };
        assert_eq!(calls(&machine).last(), end);
        // The next exchange with data is refused as long as the memory is not free.
        if !isolated {
            begin(&mut machine, raw(None, command::transfer(false, false, 0), 1), memory(512), 2);
            assert_eq!(machine.take().unwrap().result, Err(Error::Dead));
        }
    }
}

/// Tests an exchange whose future was dropped: a reset of the lines takes its place.
#[test]
fn a_reset_replaces_an_exchange_that_nothing_waits_for() {
    let mut machine = machine([Start(Ok(())), Bus(Step::Done)]);
    begin(&mut machine, raw(None, command::transfer(false, false, 0), 1), memory(512), 0);
    machine.advance(0);
    begin(&mut machine, Kind::Bus(BusOp::ResetLines), DmaBuf::EMPTY, 1);
    assert_eq!(machine.advance(1), None);
    let done = machine.take().unwrap();
    assert_eq!((done.result.is_ok(), done.buf.len()), (true, 0));
    assert_eq!(calls(&machine), ["map 512 Read", "CMD17 1", "ResetLines true", "unmap Read"]);
}

#[test]
fn a_pause_ends_at_its_time() {
    let mut machine = machine([]);
    begin(&mut machine, Kind::Pause { ns: 10 }, DmaBuf::EMPTY, 5);
    assert_eq!(machine.advance(5), Some(15));
    assert_eq!(machine.advance(14), Some(15));
    assert_eq!(machine.advance(15), None);
    assert!(machine.take().unwrap().result.is_ok());
}
