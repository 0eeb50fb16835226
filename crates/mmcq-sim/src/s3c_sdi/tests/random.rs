//! Random accesses of a driver: the model and its time advance, and the same seed gives the same
//! result.

use super::*;
use crate::slot::Controller;
use crate::world::Device;
use crate::world::Stream;

fn run(seed: u64) -> (u64, u64, Vec<BusEvent>) {
    let mut random = Stream::new(seed, "s3c_sdi");
    let (card, _) = crate::card::io::tests::type_a().build();
    let mut rig = Rig::ready(card, 64);
    rig.put(0, 4, 3);
    rig.put(1, 0x14, 1);
    let places = [CON, PRE, ARG, CMD, CSTA, TIMER, BSIZE, DCON, DSTA, FSTA, IMSK, DATA, 0x110, 0x114, 0x118];
    for _ in 0..400 {
        let place = places[random.below(places.len() as u64) as usize];
        match random.below(8) {
            0 => drop(rig.r(place)),
            1 => rig.w(place, random.bits() as u32),
            2 => drop(rig.host.read(random.bits() as u16, 1 << random.below(3), rig.now)),
            3 => rig.start(52 + random.below(2) as u32, random.bits() as u32 & 0x9000_2fff),
            4 => rig.prepare(if random.chance(0.5) { READ } else { WRITE }, 1 + random.below(3) as u32, 64),
            5 => rig.w(DATA, random.bits() as u32),
            _ => {
                let limit = rig.now + random.below(200_000);
                let came = rig.host.advance(limit);
                assert!(came <= limit && came >= rig.now.min(limit));
                assert!(rig.host.next_event_ns().is_none_or(|at| at >= came), "nothing is left behind");
                rig.now = came;
            }
        }
        assert!(rig.r(FSTA) == u32::MAX || rig.r(FSTA) & 0x7f <= 64);
    }
    // A reset ends every state.
    rig.w(PRE, 4);
    rig.w(CON, 1 << 8 | 1);
    rig.now += 1_000_000;
    rig.start(52, 0);
    assert_ne!(rig.until(CSTA, 1 << 9 | 1 << 10), 0);
    let events = rig.log.borrow().clone();
    (rig.now, rig.host.protocol_violations(), events)
}

#[test]
fn fuzz_any_accesses_are_survived_and_repeatable() {
    crate::fuzz::repeatable("s3c_sdi: fuzz_any_accesses", run);
}
