//! Tests of the six steps by which a Bluetooth packet is received, with CPUs of different speed.

use super::*;
use crate::card::io::type_a::{Handle, packet, register};
use crate::slot::Controller;

/// Makes a test bench with the Bluetooth function enabled and the edge detector on.
fn open() -> (Rig, Handle) {
    let (card, mut handles) = crate::card::io::tests::type_a().build();
    let mut rig = Rig::ready(card, 512);
    rig.w(CON, 1 | 1 << 3);
    rig.put(0, 4, 3);
    rig.put(1, register::EN_INTRD, 1);
    rig.w(DSTA, 0x3f8);
    (rig, handles.remove(0).1)
}

/// Reads the function's FIFO at address 0. `pace_ns` is the time from an interrupt to the first
/// word that the CPU reads.
fn fetch(rig: &mut Rig, blocks: bool, count: u32, block: u32, pace_ns: u64) -> Vec<u8> {
    rig.prepare(READ, if blocks { count } else { 1 }, block);
    rig.w(IMSK, 1 << 0 | 1 << 2 | 1 << 7);
    rig.start(53, 1 << 28 | u32::from(blocks) << 27 | count);
    let mut got = Vec::new();
    while rig.r(DSTA) >> 4 & 1 == 0 {
        assert!(rig.interrupt());
        rig.now += pace_ns;
        while rig.r(FSTA) & 0x7f != 0 {
            got.extend(rig.r(DATA).to_le_bytes());
        }
    }
    rig.w(IMSK, 0);
    got
}

/// Receives one packet, from its interrupt (or the level, if the edge was missed) to its
/// acknowledgement.
fn receive(rig: &mut Rig, pace_ns: u64) -> Vec<u8> {
    rig.w(IMSK, 1 << 12);
    while rig.r(GPIO) == 1 {
        assert!(rig.interrupt(), "a packet will come");
    }
    rig.w(IMSK, 0);
    rig.w(DSTA, 1 << 9);
    assert_eq!(rig.get(0, 5), 2);
    assert_eq!(rig.get(1, register::INTRD), 1);
    rig.put(1, register::INTRD, 1);
    assert_eq!(rig.r(GPIO), 1);
    let mut got = fetch(rig, false, 4, 4, pace_ns);
    got.extend(fetch(rig, true, 4, 512, pace_ns));
    rig.put(1, register::PC_RRT, 0);
    got
}

#[test]
fn at_a_fast_pace_the_wires_are_all_that_counts() {
    let (mut rig, counts) = open();
    for number in 0..3 {
        assert_eq!(receive(&mut rig, 0), packet(number, 2048));
    }
    let counts = counts.borrow();
    assert_eq!((counts.delivered, counts.overrun), (3, 0));
    // Three CMD52 with 8 clocks between them; the last one counts up to its end bit.
    assert_eq!(counts.latency_ns, [100 * (2 * 112 + 48); 3]);
    // The payload takes command and response, four blocks, and no more: the access time of 2 us
    // passes during the response.
    assert_eq!(rig.host.stats().held_ns, 0);
    assert_eq!(rig.host.protocol_violations(), 0);
}

#[test]
fn at_a_slow_pace_the_clock_stands_and_edges_are_lost_but_no_packet() {
    let (mut rig, counts) = open();
    // 33 times 130 us for a packet is longer than the period of 4 ms.
    for number in 0..6 {
        assert_eq!(receive(&mut rig, 130_000), packet(number, 2048));
    }
    assert!(rig.host.stats().held_ns > 1_000_000);
    assert!(rig.host.lost_edges() > 0);
    let counts = counts.borrow();
    assert_eq!((counts.delivered, counts.overrun, counts.cut_short), (6, 0, 0));
}
