//! Tests of the SPI driver on a bus with a script: the bytes that must go out, and the bytes that
//! come in.

mod bring_up;
mod data;

extern crate std;

use super::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};
use crate::host::{
    Auto, BusOp, Cause, Data, Direction, Done, Fault, Host, Phase, Segment, Stage, StartError, Step,
};
use crate::spec::command::{Command, Resp};
use crate::spec::crc::crc16;
use core::ptr::NonNull;
use std::boxed::Box;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// A byte in each direction on the bus.
#[derive(Clone, Copy, Debug)]
struct Beat {
    /// Byte that must go out; `None` allows any.
    out: Option<u8>,
    back: u8,
}

#[derive(Default)]
struct Script {
    beats: VecDeque<Beat>,
    /// Byte that comes in after the script has ended.
    then: u8,
    selected: Vec<bool>,
    clocks: Vec<u32>,
    /// Number of exchanges so far.
    exchanges: usize,
    /// Number of bytes in these exchanges.
    bytes: usize,
    /// Number of polls before the end of an exchange is reported.
    slow: u32,
    waits: u32,
    failed: bool,
    /// Whether the port can stop an exchange.
    stops: bool,
}

impl Script {
    fn beat(&mut self, out: u8) -> u8 {
        self.bytes += 1;
        match self.beats.pop_front() {
            Some(beat) => {
                assert!(
                    beat.out.is_none_or(|wanted| wanted == out),
                    "{out:02x} at {}, expected {beat:02x?}",
                    self.bytes
                );
                beat.back
            }
            None => self.then,
        }
    }
}

struct Wire(Rc<RefCell<Script>>);

// SAFETY: only `exchange` accesses the memory, and only reads it for `Send`.
unsafe impl Port for Wire {
    fn exchange(&mut self, exchange: Exchange) {
        let mut script = self.0.borrow_mut();
        script.exchanges += 1;
        script.waits = script.slow;
        // SAFETY: the driver leaves the memory to the port.
        let bytes = |s: &Segment| unsafe {
            core::slice::from_raw_parts_mut(s.ptr().as_ptr(), s.len_bytes() as usize)
        };
        match &exchange {
            Exchange::Swap(s) => bytes(s).iter_mut().for_each(|byte| *byte = script.beat(*byte)),
            Exchange::Receive(s) => bytes(s).iter_mut().for_each(|byte| *byte = script.beat(0xff)),
            Exchange::Send(s) => bytes(s).iter().for_each(|byte| {
                script.beat(*byte);
            }),
            Exchange::Idle(count) => {
                assert!(*count <= 64);
                (0..*count).for_each(|_| {
                    script.beat(0xff);
                });
            }
        }
    }

    fn done(&mut self) -> Progress {
        let mut script = self.0.borrow_mut();
        if script.waits > 0 {
            script.waits -= 1;
            return Progress::Going;
        }
        if core::mem::take(&mut script.failed) { Progress::Failed } else { Progress::Done }
    }

    fn stop(&mut self) -> bool {
        self.0.borrow().stops
    }

    fn select(&mut self, on: bool) {
        self.0.borrow_mut().selected.push(on);
    }

    fn clock(&mut self, hz: u32) {
        self.0.borrow_mut().clocks.push(hz);
    }
}

struct Bench {
    host: Spi<Wire>,
    script: Rc<RefCell<Script>>,
    memory: &'static mut [u8],
}

/// Returns a bench with an initialised card.
fn bench() -> Bench {
    let mut bench = fresh();
    bench.host.line.card.ready = true;
    bench.host.line.card.quiet = true;
    bench
}

fn fresh() -> Bench {
    let script = Rc::new(RefCell::new(Script { then: 0xff, ..Script::default() }));
    let host =
        Spi::new(Wire(script.clone()), Box::leak(Box::new(SpiMemory::new())), SpiConfig::new(25_000_000));
    let mut bench = Bench { host, script, memory: Box::leak(vec![0x33; 4096].into_boxed_slice()) };
    bench.set(BusOp::Clock(25_000_000));
    bench
}

type End = Result<Done, Fault>;

impl Bench {
    /// Adds to the script: the bytes `out` must go out, and `back` comes in during and after them.
    fn expect(&mut self, out: &[u8], back: &[u8]) {
        let mut script = self.script.borrow_mut();
        for n in 0..out.len().max(back.len()) {
            let beat = Beat { out: out.get(n).copied(), back: back.get(n).copied().unwrap_or(0xff) };
            script.beats.push_back(beat);
        }
    }

    /// Adds to the script: the bytes `back` come in while the driver sends 0xff.
    fn comes(&mut self, back: &[u8]) {
        let ones = vec![0xff; back.len()];
        self.expect(&ones, back);
    }

    /// Adds a command with the byte before it; the bytes `back` come in after it and end the
    /// exchange.
    fn command(&mut self, index: u8, arg: u32, back: &[u8]) {
        let mut all = back.to_vec();
        all.resize(back.len().max(if index == 0 { 9 } else { 5 }), 0xff);
        self.command_then(index, arg, &all);
    }

    /// Adds a command like `command`; the bytes that the script adds next follow `back` directly.
    fn command_then(&mut self, index: u8, arg: u32, back: &[u8]) {
        let frame = super::frame::of(index, arg);
        self.expect(&[&[0xff], &frame[..]].concat(), &[]);
        self.comes(back);
    }

    /// Adds a token, a block and its CRC that come in.
    fn block_comes(&mut self, block: &[u8]) {
        self.comes(&[0xfe]);
        self.comes(block);
        self.comes(&crc16(block).to_be_bytes());
    }

    /// Adds a block that goes out, and the card's data response `back` to it.
    fn block_goes(&mut self, token: u8, block: &[u8], back: &[u8]) {
        self.expect(&[0xff, token], &[]);
        self.expect(block, &[]);
        self.expect(&crc16(block).to_be_bytes(), &[]);
        self.comes(back);
    }

    fn segments(&mut self) -> Vec<Segment> {
        // SAFETY: the memory is leaked, and only this bench uses it.
        vec![unsafe { Segment::new(NonNull::from(&mut self.memory[0]), 4096, 0) }]
    }

    fn start(&mut self, phase: &Phase) -> Result<(), StartError> {
        let segments = self.segments();
        let data = if phase.data.is_some() { &segments[..] } else { &[] };
        self.host.start(phase, data, 100_000_000)
    }

    /// Runs a phase to its end, with a bounded number of calls.
    fn run(&mut self, phase: &Phase) -> End {
        self.start(phase).unwrap();
        let segments = self.segments();
        for _ in 0..200_000 {
            if let Some(end) = self.host.ack(&segments).phase {
                return end;
            }
        }
        panic!("no end");
    }

    fn set(&mut self, op: BusOp) -> Step {
        let mut step = self.host.set_bus(op, true, 0);
        let mut now_ns = 0;
        for _ in 0..100_000 {
            let Step::Wait(at_ns) = step else { break };
            now_ns = at_ns.max(now_ns);
            step = self.host.set_bus(op, false, now_ns);
        }
        step
    }

    /// Checks that no byte of the script is left, except bytes of 0xff to send.
    fn played(&self) {
        let left = self.script.borrow().beats.iter().filter(|beat| beat.out != Some(0xff)).count();
        assert_eq!(left, 0, "{left} bytes were not sent");
    }
}

fn command(index: u8, arg: u32, resp: Resp) -> Phase {
    Phase::of(Command::new(index, arg, resp))
}

fn read(index: u8, blocks: u32, auto: Auto) -> Phase {
    let data = Data { direction: Direction::Read, block_size: 512, blocks };
    Phase { data: Some(data), auto, ..command(index, 9, Resp::R1) }
}

fn write(index: u8, blocks: u32, auto: Auto) -> Phase {
    let data = Data { direction: Direction::Write, block_size: 512, blocks };
    Phase { data: Some(data), auto, ..command(index, 9, Resp::R1) }
}

fn fault(end: End) -> (Cause, Stage) {
    let fault = end.expect_err("a fault");
    (fault.cause, fault.stage)
}

fn content(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n as u8).wrapping_mul(7).wrapping_add(seed)).collect()
}
