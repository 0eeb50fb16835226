//! Random driver accesses: the model and its time advance, and the same seed gives the same result.

use super::*;
use crate::stats::BusEvent;
use crate::world::Stream;
use std::cell::RefCell;
use std::rc::Rc;

fn run(seed: u64) -> (u64, u64, Vec<BusEvent>) {
    let mut random = Stream::new(seed, "stm32_sdmmc");
    let configs = [Stm32SdmmcConfig::H7, Stm32SdmmcConfig::U5, Stm32SdmmcConfig::N6];
    let config = configs[random.below(3) as usize];
    let mut rig = Rig::warm(config, if random.chance(0.5) { FLOW } else { 0 });
    let log = Rc::new(RefCell::new(Vec::new()));
    let to = Rc::clone(&log);
    rig.host.set_log(Some(Box::new(move |event| to.borrow_mut().push(event))));
    {
        let mut card = rig.card.0.borrow_mut();
        card.write_busy_ns = random.below(100_000);
        card.r1b_busy_ns = random.below(100_000);
        card.stops_after = random.chance(0.3).then(|| random.below(4) as u32);
        card.bad_read = random.chance(0.3).then(|| random.below(4) as u32);
    }
    let memory = rig.to_read(4096);
    let lists = rig.to_write(pattern(1024));
    let places = [
        POWER, CLKCR, ARG, CMD, DTIMER, DLEN, DCTRL, ICR, MASK, IDMACTRL, IDMABSIZE, IDMABASE0, IDMABASE1,
        IDMALAR, IDMABAR, FIFO, FIFOTHR,
    ];
    for _ in 0..400 {
        let place = places[random.below(places.len() as u64) as usize];
        match random.below(12) {
            0 => drop(rig.r(place)),
            1 => rig.w(place, random.bits() as u32),
            2 => drop(rig.host.read(random.bits() as u16, 1 << random.below(3), rig.now)),
            3 => {
                let index = [12 | STOP, 13, 17 | TRANS, 18 | TRANS, 24 | TRANS, 25 | TRANS, 19 | TRANS, 11]
                    [random.below(8) as usize];
                rig.start(index | (random.below(4) as u32) << 8, random.bits() as u32 & 0xff);
            }
            4 => rig
                .prepare([READ, WRITE, READ | OPEN][random.below(3) as usize], 512 * (1 + place as u32 % 4)),
            5 => rig.w(FIFO, random.bits() as u32),
            6 => drop(rig.r(FIFO)),
            7 => {
                let at = if random.chance(0.8) { memory.bus } else { lists.bus };
                rig.buffer(at);
                rig.w(IDMABAR, lists.bus as u32);
            }
            8 => rig.w(DCTRL, READ | FIFORST),
            9 if random.chance(0.1) => {
                rig.host.reset(rig.now);
                rig.power_up(SLOW | FLOW);
            }
            _ => {
                let limit = rig.now + random.below(200_000);
                let came = rig.host.advance(limit);
                assert!(came <= limit && came >= rig.now.min(limit));
                assert!(rig.host.next_event_ns().is_none_or(|at| at >= came), "nothing is left behind");
                rig.now = came;
            }
        }
        // DCOUNT never has more than its 25 bits.
        assert!(rig.r(STA) == u32::MAX || rig.r(DCOUNT) <= 0x1ff_ffff);
    }
    // A reset ends every state.
    rig.host.reset(rig.now);
    assert_eq!(rig.r(STA), 0);
    rig.power_up(SLOW | FLOW);
    rig.card.0.borrow_mut().deaf_to.clear();
    rig.command(13, 0);
    let events = log.borrow().clone();
    (rig.now, rig.violations(), events)
}

#[test]
fn fuzz_any_accesses_are_survived_and_repeatable() {
    crate::fuzz::repeatable("stm32_sdmmc: fuzz_any_accesses", run);
}
