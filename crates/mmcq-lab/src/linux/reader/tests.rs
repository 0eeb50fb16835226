//! Tests the model of the reader's driver in front of a host driver that only records its phases.

use super::*;
use crate::board::TIMER;
use crate::linux::elevator::{Elevator, Tunables};
use crate::linux::worker::Worker;
use crate::system::{Costs, How, Io, Next, Workload};
use mmcq::engine::Config;
use mmcq::host::{BusOp, Caps, DmaError, Done, Events, Segment, StartError, Step as HostStep, Width};
use mmcq::sched::{Any, Fifo};
use mmcq::spec::response::Response;
use mmcq_sim::cpu::Delay;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::rc::Rc;

/// Time in ns that the recording host takes for each round.
const ROUND_NS: u64 = 100_000;

#[derive(Default)]
struct Chip {
    log: Vec<String>,
    at_ns: Option<u64>,
    line: bool,
    /// Card status (R1) that the next CMD12 returns.
    stop_status: u32,
    command: u8,
}

#[derive(Clone)]
struct Recorder {
    chip: Rc<RefCell<Chip>>,
    time: Time,
    caps: Caps,
}

impl Device for Recorder {
    fn advance(&mut self, until_ns: u64) -> u64 {
        let mut chip = self.chip.borrow_mut();
        match chip.at_ns {
            Some(at) if at <= until_ns => {
                (chip.at_ns, chip.line) = (None, true);
                at
            }
            _ => until_ns,
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.chip.borrow().at_ns
    }

    fn irq(&self) -> bool {
        self.chip.borrow().line
    }
}

// SAFETY: it touches no memory.

unsafe impl Host for Recorder {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, _: &mut Segment, _: Direction) -> Result<(), DmaError> {
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, _: Direction) {}

    fn start(&mut self, phase: &Phase, _: &[Segment], _: u64) -> Result<(), StartError> {
        let mut chip = self.chip.borrow_mut();
        let text = match (phase.auto, phase.data) {
            (Auto::Continue, Some(data)) => format!("+{}", data.blocks),
            (Auto::None, Some(data)) => format!("{}+{}", phase.command.index, data.blocks),
            (Auto::None, None) => phase.command.index.to_string(),
            other => panic!("{other:?}"),
        };
        chip.log.push(text);
        chip.command = phase.command.index;
        chip.at_ns = Some(self.time.now() + ROUND_NS);
        Ok(())
    }

    fn ack(&mut self, _: &[Segment]) -> Events {
        let mut chip = self.chip.borrow_mut();
        let mut word = READY;
        if chip.command == 12 {
            word |= std::mem::take(&mut chip.stop_status);
        }
        let done = Done { response: Response { words: [word, 0, 0, 0] }, ..Done::default() };
        Events { phase: std::mem::take(&mut chip.line).then_some(Ok(done)), ..Events::default() }
    }

    fn set_bus(&mut self, _: BusOp, _: bool, _: u64) -> HostStep {
        HostStep::Done
    }

    fn dat0_busy(&self) -> bool {
        false
    }

    fn present(&self) -> bool {
        true
    }
}

/// An action of a job: an I/O, or a pause in milliseconds.
#[derive(Clone, Copy)]
enum Do {
    Read(u64, u32),
    Write(u64, u32),
    Sleep(u64),
}

struct Script {
    steps: Vec<Do>,
    at: usize,
    until_ns: Option<u64>,
    waits: bool,
    results: Vec<bool>,
}

impl Workload for Script {
    fn jobs(&self) -> u32 {
        1
    }

    fn memory(&self) -> (usize, usize) {
        (1, 1 << 20)
    }

    fn next(&mut self, job: u32, now_ns: u64) -> Next {
        if self.waits {
            return Next::Wait;
        }
        if let Some(until_ns) = self.until_ns.filter(|&at| at > now_ns) {
            return Next::Until(until_ns);
        }
        let Some(&step) = self.steps.get(self.at) else { return Next::Finished };
        self.at += 1;
        let (direction, lba, blocks) = match step {
            Do::Read(lba, blocks) => (Direction::Read, lba, blocks),
            Do::Write(lba, blocks) => (Direction::Write, lba, blocks),
            Do::Sleep(ms) => {
                self.until_ns = Some(now_ns + ms * 1_000_000);
                return Next::Until(now_ns + ms * 1_000_000);
            }
        };
        self.waits = true;
        Next::Io(Io { job, core: 0, direction, how: How::Plain, sync: true, lba, blocks, buffer: 0, skip: 0 })
    }

    fn done(&mut self, _: &Io, ok: bool, _: &[u8], _: u64) {
        self.waits = false;
        self.results.push(ok);
    }
}

struct Ran {
    log: String,
    results: Vec<bool>,
    elapsed_ns: u64,
    dropped: u64,
}

fn run(close: Close, steps: &[Do], stop_status: u32) -> Ran {
    let time = Time::new();
    let caps = Caps::NONE
        .no_count(false)
        .continue_data(true)
        .max_busy_ns(u64::MAX)
        .max_segments(256)
        .max_segment_bytes(1 << 19)
        .max_block_bytes(512)
        .max_blocks(65535)
        .max_bytes(1 << 19)
        .align(4)
        .dma_bits(32)
        .clock_hz((400_000, 208_000_000))
        .width(Width::W4)
        .timings(u16::MAX)
        .signal18(true)
        .fixed(true);
    let target = CardParams::sd(1, 1 << 28);
    let chip = Rc::new(RefCell::new(Chip { stop_status, ..Chip::default() }));
    let host = Recorder { chip: chip.clone(), time: time.clone(), caps };
    let mut device = host.clone();
    let us = |us: u64| Delay { mean_ns: us * 1000, ..Delay::default() };
    let costs = Costs { wake: us(12), hop: us(12), close_ns: 55_000, ..Costs::default() };
    let mut sys = System::new(time, 2, 0.0, costs, 1, 1);
    let stack = Stack::with_policy(
        NoLock::new(),
        TIMER,
        host,
        Config::DEFAULT,
        crate::platform::profile(Any::Fifo(Fifo).into()),
    );
    let port = Reader::new(stack, target, 1 << 20, close, &mut sys);
    let mut front = Worker::new(port, Elevator::new(Tunables::default()), &mut sys, 1);
    let mut script =
        Script { steps: steps.to_vec(), at: 0, until_ns: None, waits: false, results: Vec::new() };
    let elapsed_ns = sys.run(&mut front, &mut device, &mut script).unwrap();
    let log = chip.borrow().log.join(" ");
    Ran { log, results: script.results, elapsed_ns, dropped: front.port.dropped }
}

#[test]
fn every_request_is_ended_by_cmd12_and_every_write_asked_for() {
    let steps = [Do::Read(0, 16), Do::Read(16, 16), Do::Write(32, 8), Do::Read(40, 1), Do::Write(41, 1)];
    let ran = run(Close::AtOnce, &steps, 0);
    assert_eq!(ran.log, "18+16 12 18+16 12 25 +8 12 13 17+1 24+1 13");
    assert_eq!(ran.results, [true; 5]);
}

#[test]
fn a_large_io_is_two_requests() {
    assert_eq!(run(Close::AtOnce, &[Do::Read(0, 2048)], 0).log, "18+1024 12 18+1024 12");
    assert_eq!(run(Close::Late, &[Do::Read(0, 2048)], 0).log, "18+1024 +1024");
    assert_eq!(run(Close::Late, &[Do::Write(0, 2048)], 0).results, [true], "one I/O all the same");
}

#[test]
fn the_patch_continues_and_closes_only_before_what_does_not() {
    let steps = [Do::Write(0, 8), Do::Write(8, 8), Do::Read(16, 8), Do::Read(32, 8), Do::Read(40, 1)];
    let ran = run(Close::Late, &steps, 0);
    assert_eq!(ran.log, "25 +8 +8 12 18+8 12 18+8 12 17+1");
    assert_eq!(ran.results, [true; 5]);
}

#[test]
fn a_late_close_costs_its_pause_in_front_of_the_next_request() {
    let random = [Do::Read(0, 8), Do::Read(100, 8)];
    let (close, patch) = (run(Close::AtOnce, &random, 0), run(Close::Late, &random, 0));
    // Compared with closing at once: one CMD12 less (the last transfer is still open), one pause
    // more.
    let round_ns = ROUND_NS + 12_000;
    let expected = close.elapsed_ns - round_ns + 55_000;
    assert!(patch.elapsed_ns.abs_diff(expected) < 20_000, "{} {expected}", patch.elapsed_ns);
}

#[test]
fn an_idle_transfer_is_closed_after_150_ms() {
    let with = |ms| run(Close::Late, &[Do::Read(0, 8), Do::Sleep(ms), Do::Read(8, 8)], 0).log;
    assert_eq!(with(100), "18+8 +8");
    assert_eq!(with(200), "18+8 12 18+8");
    // A single timer counts from the last transfer.
    let steps = [Do::Read(0, 8), Do::Sleep(100), Do::Read(8, 8), Do::Sleep(100), Do::Read(16, 8)];
    assert_eq!(run(Close::Late, &steps, 0).log, "18+8 +8 +8");
}

#[test]
fn what_a_stop_says_is_heard_at_once_and_dropped_when_late() {
    let steps = [Do::Write(0, 8), Do::Write(100, 8)];
    let at_once = run(Close::AtOnce, &steps, R1::CARD_ECC_FAILED);
    assert_eq!((at_once.results, at_once.dropped), (vec![false, true], 0));
    let late = run(Close::Late, &steps, R1::CARD_ECC_FAILED);
    assert_eq!((late.results, late.dropped), (vec![true, true], 1));
    // OUT_OF_RANGE after a read up to the card's last block is no error.
    let end = run(Close::AtOnce, &[Do::Read(0, 8)], R1::OUT_OF_RANGE);
    assert_eq!(end.results, [true]);
}
