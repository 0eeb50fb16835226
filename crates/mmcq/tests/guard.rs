//! The check that tools/sanitizer.sh itself works: a controller that transfers one byte too many
//! must end the process.
#![cfg(guarded)]

mod support;

use mmcq::engine::{Config, Engine, Kind, Request};
use support::{TestHost, World, buffer, target};

/// Reads one block; the controller writes its data `bytes` bytes after the begin of the segment's
/// memory.
fn read_concurrent(bytes: isize) {
    let world = World::new(8);
    world.borrow_mut().beside = bytes;
    let mut engine: Engine<TestHost, 4> = Engine::new(TestHost::new(&world), Config::DEFAULT);
    engine.set_card_params(Some(target(8)));
    let id = engine.submit(Request::new(Kind::Read { lba: 1, blocks: 1 }, buffer(1, 0)), 0).unwrap();
    for turn in 1..20 {
        let _ = engine.on_irq(turn * 1_000);
    }
    assert!(engine.take(id).expect("not finished").result.is_ok());
}

/// Tests a read. `tools/sanitizer.sh` sets `MMCQ_BESIDE`: the number of bytes by which the
/// controller misses the memory of the read.
#[test]
fn a_read_into_its_own_memory_is_well() {
    let beside = std::env::var("MMCQ_BESIDE").map_or(0, |bytes| bytes.parse().expect("a number of bytes"));
    read_concurrent(beside);
}
