//! An engine with all extended functions enabled, on the tests' host.

#![allow(dead_code, reason = "each test binary uses its own part")]

use crate::support::{TestHost, World, buffer, target};
use mmcq::card::quirk::Quirks;
use mmcq::engine::{
    Abilities, Config, DmaBuf, Engine, Erase, Erasing, Error, FlushBy, Kind, Request, SlotId,
};
use std::cell::RefCell;
use std::rc::Rc;

pub const BLOCKS: u64 = 4096;
pub const CACHE: FlushBy = FlushBy::EmmcCache { timeout_ns: 500_000_000 };
/// The erase parameters of the tests' eMMC: units of 16 blocks.
pub const TRIMS: Erasing = Erasing::NONE
    .kinds(0b11111)
    .emmc(true)
    .unit_blocks(16)
    .group_blocks(16)
    .zeros(true)
    .erase_ms(100)
    .trim_ms(100)
    .secure_erase_ms(100)
    .secure_trim_ms(100);
/// Index and argument of the CMD6 that flushes the cache.
pub const FLUSH: (u8, u32) = (6, 0x0320_0100);

pub type TestEngine = Engine<TestHost, 16>;

/// The parameters that a test sets for its card.
pub struct Setup {
    pub flush: FlushBy,
    pub reliable_blocks: u32,
    pub erase: Erasing,
    pub protected: bool,
    pub quirks: Quirks,
    pub extended_address: bool,
}

pub fn engine(world: &Rc<RefCell<World>>, with: impl FnOnce(&mut Setup)) -> TestEngine {
    engine_of(world, Config::DEFAULT, with)
}

pub fn engine_of(world: &Rc<RefCell<World>>, config: Config, with: impl FnOnce(&mut Setup)) -> TestEngine {
    let mut setup = Setup {
        flush: FlushBy::Status,
        reliable_blocks: 0,
        erase: Erasing::NONE,
        protected: false,
        quirks: Quirks::NONE,
        extended_address: false,
    };
    with(&mut setup);
    set_up(world, config, setup)
}

fn set_up(world: &Rc<RefCell<World>>, config: Config, setup: Setup) -> TestEngine {
    let mut engine = Engine::new(TestHost::new(world), config);
    let Setup { flush, reliable_blocks, erase, protected, quirks, extended_address } = setup;
    engine.set_card_params(Some(
        target(BLOCKS).flush(flush).protected(protected).quirks(quirks).extended_address(extended_address),
    ));
    engine.set_abilities(Abilities::NONE.reliable_blocks(reliable_blocks).erase(erase));
    engine.enable_extended_ops();
    engine
}

pub fn write(lba: u64, blocks: u32, fill: u8) -> Request {
    Request::new(Kind::Write { lba, blocks }, buffer(blocks, fill))
}

pub fn erase(lba: u64, blocks: u32, how: Erase) -> Request {
    Request::new(Kind::Erase { lba, blocks, how }, DmaBuf::EMPTY)
}

/// Runs the engine by interrupts and alarms until nothing is left to do, and returns the time. The
/// number of turns is bounded, so a hang makes the test fail.
pub fn run(engine: &mut TestEngine, mut now: u64) -> u64 {
    for _ in 0..100_000 {
        now += 1_000;
        let _ = engine.on_irq(now);
        if engine.is_idle() {
            let _ = engine.poll(now);
            return now;
        }
        if !engine.host().world.borrow().running() {
            if let Some(at) = engine.next_deadline_ns() {
                now = now.max(at);
            }
            let _ = engine.poll(now);
        }
    }
    panic!("the engine does not come to rest");
}

pub fn commands(world: &Rc<RefCell<World>>) -> Vec<(u8, u32)> {
    world.borrow().log.iter().map(|seen| (seen.index, seen.arg)).collect()
}

pub fn indices(world: &Rc<RefCell<World>>) -> Vec<u8> {
    world.borrow().log.iter().map(|seen| seen.index).collect()
}

pub fn ended(engine: &mut TestEngine, id: SlotId) -> Result<u32, Error> {
    engine.take(id).expect("not finished").result.map(|output| output.bytes)
}
