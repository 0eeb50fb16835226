//! Tests of transfers that stay open on QEMU's controller, which does not support them: it ignores
//! a new SDMA address during a transfer, and drops the data of a CMD13. The engine must stop using
//! both methods in bounded time, and the data must be right.

use crate::engine::{drive, turn};
use crate::image::Random;
use crate::machine::{DESCRIPTORS, Machine, Options};
use crate::memory::QtestDma;
use crate::one_thread::{OneThread, TIMER};
use crate::registers::QtestRegs;
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::{Config, DmaBuf, Kind, Request};
use mmcq::host::sdhci::{OpenWrites, Sdhci, SdhciConfig, StreamConfig, Streams, Table};

type Driver = Streams<QtestRegs, QtestDma, DESCRIPTORS>;
type Stack = mmcq::task::Stack<(OneThread, Driver), 16>;

const PIECE: usize = 4096;
const PIECES: usize = 24;
const FIRST: u64 = 8192;
/// Longest time of a test in nanoseconds: two phases that end only by their deadlines, and their
/// recovery.
const LIMIT_NS: u64 = 30_000_000_000;

#[repr(C, align(4096))]
struct Page([u8; PIECE]);

fn page() -> DmaBuf {
    DmaBuf::from_static(&mut Box::leak(Box::new(Page([0; PIECE]))).0)
}

fn stack(machine: &Machine, writes: OpenWrites) -> Stack {
    let table = Box::leak(Box::new(Table::new()));
    let host = Sdhci::new(machine.registers(), machine.dma(), table, SdhciConfig::new()).unwrap();
    let host = Streams::new(host, StreamConfig::NONE.reads(true).writes(writes));
    let stack = Stack::new(OneThread, TIMER, host, Config::DEFAULT);
    let found = drive(machine, &stack, card::bring_up(&stack, page(), card::Options::DEFAULT)).0;
    found.unwrap_or_else(|error| panic!("{error}"));
    stack
}

/// Executes one request, and returns its data.
fn ask(machine: &Machine, stack: &Stack, kind: Kind, buf: DmaBuf) -> DmaBuf {
    let id = stack.with(|engine| engine.submit(Request::new(kind, buf), machine.now_ns())).unwrap();
    loop {
        if let Some(done) = stack.with(|engine| engine.take(id)) {
            done.result.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            return done.buf;
        }
        turn(machine, stack);
    }
}

fn leaves_what_cannot_be(writes: OpenWrites) {
    let Some(machine) = crate::machine(&Options::default()) else { return };
    let stack = stack(&machine, writes);
    let began_ns = machine.now_ns();
    let content = Random(7).bytes(PIECES * PIECE);
    for (n, chunk) in content.chunks(PIECE).enumerate() {
        let mut buf = page();
        buf.copy_from_slice(chunk);
        ask(&machine, &stack, Kind::Write { lba: FIRST + 8 * n as u64, blocks: 8 }, buf);
    }
    drive(&machine, &stack, BlockDevice::new(&stack).flush()).unwrap();
    let image = machine.image().read(FIRST as u32, (PIECES * 8) as u32);
    assert!(image == content, "{writes:?}: the image is not what was written");
    for (n, chunk) in content.chunks(PIECE).enumerate() {
        let back = ask(&machine, &stack, Kind::Read { lba: FIRST + 8 * n as u64, blocks: 8 }, page());
        assert!(back[..] == *chunk, "{writes:?}: piece {n}");
    }
    let took_ns = machine.now_ns() - began_ns;
    assert!(took_ns < LIMIT_NS, "{writes:?}: {took_ns} ns");
    assert!(stack.with(|engine| engine.take_continue_lost()), "{writes:?}: open transfers are not left");
}

#[test]
fn writes_to_a_gap_are_left_with_the_data_right() {
    leaves_what_cannot_be(OpenWrites::Gap);
}

#[test]
fn reads_by_stops_are_left_with_the_data_right() {
    leaves_what_cannot_be(OpenWrites::No);
}
