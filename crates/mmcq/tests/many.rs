//! Tests as many requests as an engine may have slots: 64, or 128 with the feature `slots-128`.

use crate::support;
use mmcq::engine::{Config, Engine, Error, Kind, Request, SLOTS_MAX, SlotId, SlotSet};
use std::collections::BTreeMap;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 1 << 20;
/// First block of the first request.
const FIRST: u64 = 4_096;

/// Tests contiguous requests that arrive in an order with gaps: while the first one is on the wire
/// all others wait, and they are sent as one transfer.
#[test]
fn all_slots_are_used_and_all_that_wait_are_one_run() {
    let world = World::new(BLOCKS);
    let mut engine: Engine<TestHost, SLOTS_MAX> = Engine::new(TestHost::new(&world), Config::DEFAULT);
    engine.set_card_params(Some(target(BLOCKS)));
    let mut ids: BTreeMap<usize, (SlotId, u64)> = BTreeMap::new();
    let apart = Request::new(Kind::Write { lba: 9, blocks: 1 }, buffer(1, 0xee));
    let id = engine.submit(apart, 0).unwrap();
    ids.insert(id.index(), (id, 9));
    for n in 1..SLOTS_MAX as u64 {
        let lba = FIRST + n * 29 % (SLOTS_MAX as u64);
        let request = Request::new(Kind::Write { lba, blocks: 1 }, buffer(1, lba as u8));
        let id = engine.submit(request, n).unwrap();
        assert!(ids.insert(id.index(), (id, lba)).is_none(), "slot {} is two requests'", id.index());
    }
    assert_eq!(engine.slots_in_use(), SLOTS_MAX);
    let one_more = Request::new(Kind::Write { lba: 7, blocks: 1 }, buffer(1, 1));
    assert!(matches!(engine.submit(one_more, 500), Err((Error::Full, _))));

    let (mut now_ns, mut told): (u64, SlotSet) = (1_000, 0);
    while !ids.is_empty() {
        now_ns += 1_000;
        let running = world.borrow().running();
        let work = if running { engine.on_irq(now_ns) } else { engine.poll(now_ns) };
        assert_eq!(told & work.completed, 0, "told twice");
        told |= work.completed;
        ids.retain(|&index, &mut (id, lba)| {
            let Some(done) = engine.take(id) else { return true };
            assert!(told >> index & 1 == 1, "slot {index} was not told of");
            assert!(done.result.is_ok(), "block {lba}: {:?}", done.result);
            false
        });
        assert!(now_ns < 10_000_000, "{} never end", ids.len());
    }
    assert_eq!(told.count_ones() as usize, SLOTS_MAX);
    let world = world.borrow();
    let runs: Vec<_> = world.log.iter().filter(|seen| seen.blocks > 0).map(|seen| seen.blocks).collect();
    assert_eq!(runs, [1, SLOTS_MAX as u32 - 1]);
    for lba in FIRST + 1..FIRST + SLOTS_MAX as u64 {
        let at = lba as usize * 512;
        assert!(world.medium[at..at + 512].iter().all(|&byte| byte == lba as u8), "block {lba}");
    }
}
