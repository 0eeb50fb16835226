//! Tests of requests that go before the oldest one: those of a longer run of the same direction, or
//! those that continue an open transfer.

use crate::support;
use mmcq::engine::{Config, DmaBuf, Engine, Kind, Request};
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 1 << 20;

struct Rig {
    world: Rc<RefCell<World>>,
    engine: Engine<TestHost, 16>,
    now_ns: u64,
}

fn read(lba: u64) -> Kind {
    Kind::Read { lba, blocks: 8 }
}

fn write(lba: u64) -> Kind {
    Kind::Write { lba, blocks: 8 }
}

/// Returns three contiguous requests from block `lba` on.
fn run(kind: fn(u64) -> Kind, lba: u64) -> [Kind; 3] {
    [kind(lba), kind(lba + 8), kind(lba + 16)]
}

impl Rig {
    /// Makes an engine that has seen contiguous requests and has a transfer under way.
    fn new(continues: bool, first: Kind) -> Rig {
        Rig::with(Config::DEFAULT, continues, first)
    }

    fn with(config: Config, continues: bool, first: Kind) -> Rig {
        let world = World::new(BLOCKS);
        {
            let caps = &mut world.borrow_mut().caps;
            caps.continue_data = continues;
            if continues {
                (caps.auto_stop, caps.auto_count) = (false, false);
                caps.max_bytes = 16 * 512;
            }
        }
        let mut engine = Engine::new(TestHost::new(&world), config);
        engine.set_card_params(Some(target(BLOCKS)));
        let mut rig = Rig { world, engine, now_ns: 0 };
        rig.submit([read(0), read(500), read(508)]);
        rig.rest();
        rig.world.borrow_mut().log.clear();
        rig.submit([first]);
        rig
    }

    fn submit<const COUNT: usize>(&mut self, kinds: [Kind; COUNT]) {
        for kind in kinds {
            let buf = if matches!(kind, Kind::Flush) { DmaBuf::EMPTY } else { buffer(8, 1) };
            self.engine.submit(Request::new(kind, buf), self.now_ns).unwrap();
        }
    }

    /// Advances the engine by the controller's next interrupt or by a deadline, and takes the
    /// completions.
    fn step(&mut self) {
        self.now_ns += 1_000;
        let running = self.world.borrow().running();
        if running {
            let _ = self.engine.on_irq(self.now_ns);
        } else if let Some(at_ns) = self.engine.next_deadline_ns() {
            self.now_ns = at_ns.max(self.now_ns);
            let _ = self.engine.poll(self.now_ns);
        }
        for index in 0..16 {
            if let Some(id) = self.engine.id_of(index) {
                let _ = self.engine.take(id);
            }
        }
    }

    fn rest(&mut self) {
        for _ in 0..10_000 {
            self.step();
            if self.engine.is_idle() && self.engine.slots_in_use() == 0 {
                return;
            }
        }
        panic!("never idle");
    }

    /// Returns first block and number of blocks of each data phase after the first transfer, in
    /// order.
    fn went(&self) -> Vec<(u32, u32)> {
        let log = self.world.borrow();
        let data = log.log.iter().filter(|seen| seen.blocks > 0);
        data.skip(1).map(|seen| (seen.arg, seen.blocks)).collect()
    }
}

#[test]
fn a_longer_run_goes_before_a_shorter_one_that_came_first() {
    for kind in [read, write] {
        let mut rig = Rig::new(true, kind(9_000));
        rig.submit([kind(1_000)]);
        rig.submit(run(kind, 2_000));
        rig.submit([kind(3_000)]);
        rig.rest();
        assert_eq!(rig.went(), [(2_000, 16), (2_016, 8), (1_000, 8), (3_000, 8)]);
    }
}

/// Tests a host that cannot continue a transfer: age decides there, because other clients would
/// lose as much as the longer run gains.
#[test]
fn on_a_host_that_cannot_continue_a_transfer_age_decides() {
    for kind in [read, write] {
        let mut rig = Rig::new(false, kind(9_000));
        rig.submit([kind(1_000)]);
        rig.submit(run(kind, 2_000));
        rig.rest();
        assert_eq!(rig.went(), [(1_000, 8), (2_000, 24)]);
    }
}

#[test]
fn nothing_is_passed_for_a_run_of_the_other_direction_or_where_others_wait() {
    let mut rig = Rig::new(true, read(9_000));
    rig.submit([write(1_000)]);
    rig.submit(run(write, 2_000));
    rig.submit([read(4_000)]);
    rig.rest();
    assert_eq!(rig.went(), [(1_000, 8), (2_000, 16), (2_016, 8), (4_000, 8)], "a read waits");

    let mut rig = Rig::new(true, read(9_000));
    rig.submit([write(1_000)]);
    rig.submit(run(write, 2_000));
    rig.submit([Kind::Flush]);
    rig.rest();
    assert_eq!(rig.went(), [(1_000, 8), (2_000, 16), (2_016, 8)], "a flush waits");
}

#[test]
fn a_run_over_blocks_that_an_older_write_is_on_stays_behind_it() {
    let mut rig = Rig::new(true, write(9_000));
    rig.submit([write(2_004)]);
    rig.submit(run(write, 2_000));
    rig.rest();
    assert_eq!(rig.went()[0], (2_004, 8));
}

/// Tests the documented bound: at most 64 younger requests go before a request.
#[test]
fn a_request_is_passed_by_so_many_and_no_more() {
    let mut rig = Rig::new(true, read(9_000));
    rig.submit([read(1_000)]);
    for turn in 0u64.. {
        rig.submit(run(read, 10_000 + turn * 100));
        let before = rig.went().len();
        // A run goes in two transfers here.
        while rig.went().len() < before + 2 && !rig.went().contains(&(1_000, 8)) {
            rig.step();
        }
        if rig.went().contains(&(1_000, 8)) {
            break;
        }
        assert!(turn < 64 / 3 + 1, "passed {turn} times");
    }
    assert!(rig.went().len() > 2 * (64 / 3 - 2), "it was passed before: {}", rig.went().len());
}

#[test]
fn what_continues_an_open_transfer_goes_before_what_would_close_it() {
    let mut rig = Rig::new(true, read(20_000));
    rig.submit([read(9_000), read(9_008), read(1_000), read(9_016)]);
    rig.rest();
    let log = rig.world.borrow();
    let data: Vec<_> =
        log.log.iter().filter(|seen| seen.blocks > 0).map(|seen| (seen.blocks, seen.continued)).collect();
    assert_eq!(data, [(8, false), (16, false), (8, true), (8, false)], "9016 goes on where 9008 ended");
}

/// Tests the documented bound of an open transfer: before a waiting request the engine sends
/// requests that continue the transfer, together fewer blocks than four times
/// [`Config::fair_blocks`]. All slots are in use, and some request always continues the transfer.
#[test]
fn an_open_transfer_passes_a_request_for_so_many_blocks_and_no_more() {
    let config = Config::DEFAULT.fair_blocks(32);
    let mut rig = Rig::with(config, true, read(9_000));
    rig.submit([read(9_008)]);
    rig.submit([read(1_000)]);
    let mut next = 9_016;
    while !rig.went().contains(&(1_000, 8)) {
        while rig.engine.slots_in_use() < 16 {
            rig.submit([read(next)]);
            next += 8;
        }
        rig.step();
        assert!(next < 11_000, "never its turn");
    }
    let log = rig.world.borrow();
    let before: u32 = log.log.iter().take_while(|seen| seen.arg != 1_000).map(|seen| seen.blocks).sum();
    // Two requests were submitted before that of block 1000.
    assert!((8 + 8 + 96..8 + 8 + 4 * 32).contains(&before), "{before} blocks");
}
