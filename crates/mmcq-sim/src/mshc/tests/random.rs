//! Random driver accesses: the model and its time advance, and the same seed gives the same result.

use super::*;
use crate::stats::BusEvent;
use crate::world::Stream;
use std::cell::RefCell;
use std::rc::Rc;

fn run(seed: u64) -> (u64, u64, Vec<BusEvent>) {
    let mut random = Stream::new(seed, "mshc");
    let wide = MshcConfig { wide_dma: true, ..MshcConfig::PCI };
    let configs =
        [MshcConfig::H3, MshcConfig::D1, MshcConfig::A64, MshcConfig::RK3399, MshcConfig::PCI, wide];
    let mut rig = Rig::warm(configs[random.below(configs.len() as u64) as usize]);
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
    let (reads, writes) = (rig.to_read(4096), rig.to_write(pattern(4096)));
    let lists = [chain(&rig, &[(reads.bus, 1000), (reads.bus, 3096)]), chain(&rig, &[(writes.bus, 4096)])];
    for _ in 0..400 {
        let place = 4 * random.below(0x58) as u16;
        match random.below(12) {
            0 => drop(rig.r(place)),
            1 => rig.w(place, random.bits() as u32),
            2 => drop(rig.host.read(random.bits() as u16, 1 << random.below(3), rig.now)),
            3 | 4 => {
                let index = [12 | STOP | SHORT, 13 | SHORT, 17 | READ, 18 | READ | AUTO, 24 | WRITE]
                    [random.below(5) as usize];
                rig.start(index, random.bits() as u32 & 0xff);
            }
            5 => rig.start(25 | WRITE | AUTO, random.bits() as u32 & 0xff),
            6 => rig.by_cpu(1 + random.below(4) as u32),
            7 => {
                rig.by_dma(random.below(9) as u32, lists[random.below(2) as usize].bus);
                rig.w(0x84, 1);
            }
            8 => rig.w(FIFO, random.bits() as u32),
            9 => drop(rig.r(FIFO)),
            10 if random.chance(0.1) => rig.power_up(),
            _ => {
                let limit = rig.now + random.below(200_000);
                let came = rig.host.advance(limit);
                assert!(came <= limit && came >= rig.now.min(limit));
                assert!(rig.host.next_event_ns().is_none_or(|at| at >= came), "nothing is left behind");
                rig.now = came;
            }
        }
    }
    // A reset ends every state.
    rig.now += 10_000_000_000;
    rig.card.0.borrow_mut().deaf_to.clear();
    if !rig.smhc() {
        rig.w(0x0c, 0);
    }
    rig.w(0x78, 1);
    rig.power_up();
    rig.command(13, 0);
    let events = log.borrow().clone();
    (rig.now, rig.violations(), events)
}

#[test]
fn fuzz_any_accesses_are_survived_and_repeatable() {
    crate::fuzz::repeatable("mshc: fuzz_any_accesses", run);
}
