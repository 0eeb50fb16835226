use super::*;
use crate::slot::Controller;
use mmcq::host::{Direction, Dma};
use std::ptr::NonNull;

const DMA: u32 = 1 << 15;
const DMA_WORD_NS: u64 = S3cSdiConfig::S3C2440.dma_word_ns as u64;

/// Memory that the DMA may access.
struct Mapped {
    bytes: Vec<u8>,
    bus: u64,
    direction: Direction,
}

impl Rig {
    /// Maps bytes for DMA, and writes their address and length to the DMA registers.
    fn map(&mut self, mut bytes: Vec<u8>, direction: Direction) -> Mapped {
        let ptr = NonNull::new(bytes.as_mut_ptr()).unwrap();
        let bus = self.memory.map(ptr, bytes.len(), direction).unwrap();
        self.w(0x110, bus as u32);
        self.w(0x114, bytes.len() as u32 | u32::from(direction == Direction::Write) << 31);
        Mapped { bytes, bus, direction }
    }

    fn unmap(&mut self, mut mapped: Mapped) -> Vec<u8> {
        let ptr = NonNull::new(mapped.bytes.as_mut_ptr()).unwrap();
        self.memory.unmap(mapped.bus, ptr, mapped.bytes.len(), mapped.direction);
        mapped.bytes
    }
}

#[test]
fn two_kib_out_and_in_again_without_the_cpu() {
    let mut rig = Rig::ready(loopback_card(), 512);
    rig.w(IMSK, 1 << 7);
    let mapped = rig.map(pattern(2048), Direction::Write);
    rig.prepare(WRITE | DMA, 4, 512);
    rig.w(0x118, 1);
    rig.now += 16 * DMA_WORD_NS;
    assert_eq!((rig.r(0x118), rig.r(FSTA) & 0x7f), (1, 64), "prefilled");
    let start = rig.now;
    rig.start(53, blocks_at_100(true, 4));
    assert!(rig.interrupt());
    assert_eq!(rig.now - start, 100 * (104 + 4 * 1060));
    assert_eq!((rig.r(0x118), rig.r(FSTA) & 0x7f), (0, 0));
    rig.unmap(mapped);
    let mapped = rig.map(vec![0; 2048], Direction::Read);
    rig.prepare(READ | DMA, 4, 512);
    rig.w(0x118, 1);
    rig.start(53, blocks_at_100(false, 4));
    let start = rig.now;
    assert!(rig.interrupt());
    assert_eq!(rig.now - start, 100 * (104 + 4 * 1050));
    assert_eq!(rig.r(DSTA) & 0x3ff, 1 << 4);
    assert_eq!(rig.unmap(mapped), pattern(2048));
    assert_eq!((rig.host.stats().held_ns, rig.host.protocol_violations()), (0, 0));
    assert_eq!(rig.memory.violation_count(), 0);
}

#[test]
fn an_engine_that_starts_late_is_waited_for() {
    let mut rig = Rig::ready(loopback_card(), 512);
    let mapped = rig.map(vec![1; 512], Direction::Read);
    rig.prepare(READ | DMA, 1, 512);
    rig.start(53, blocks_at_100(false, 1));
    rig.until(FSTA, 1 << 8);
    rig.now += 30_000;
    rig.w(0x118, 1);
    rig.until(DSTA, 1 << 4);
    assert_eq!(rig.host.stats().held_ns, 30_000 + DMA_WORD_NS);
    assert_eq!(rig.unmap(mapped), [0; 512]);
}

#[test]
fn the_end_on_the_lines_does_not_wait_for_dma() {
    let mut rig = Rig::ready(loopback_card(), 64);
    let data = pattern(64);
    let written = rig.map(data.clone(), Direction::Write);
    rig.prepare(WRITE | DMA, 1, 64);
    rig.w(0x118, 1);
    rig.start(53, blocks_at_100(true, 1));
    rig.until(DSTA, 1 << 4);
    rig.unmap(written);
    let slow = rig.map(vec![0; 64], Direction::Read);
    rig.prepare(READ | DMA, 1, 64);
    rig.start(53, blocks_at_100(false, 1));
    rig.until(DSTA, 1 << 4);
    assert_eq!(rig.r(FSTA) & 0x7f, 64);
    rig.w(0x118, 1);
    rig.now += 5 * DMA_WORD_NS;
    assert_eq!((rig.r(0x118), rig.r(FSTA) & 0x7f), (1, 44));
    // A reset of the controller empties the FIFO and does not stop the DMA.
    rig.w(CON, 1 << 8 | 1);
    rig.now += 1_000_000;
    assert_eq!((rig.r(0x118), rig.r(FSTA) & 0x7f), (1, 0));
    rig.w(0x118, 0);
    assert_eq!(rig.unmap(slow)[..20], data[..20]);
}

#[test]
fn a_tail_goes_byte_by_byte() {
    let mut rig = Rig::ready(loopback_card(), 64);
    let data = pattern(39);
    for (dcon, write, direction) in [(WRITE, true, Direction::Write), (READ, false, Direction::Read)] {
        let bytes = if write { data.clone() } else { vec![0; 39] };
        let mapped = rig.map(bytes, direction);
        rig.prepare(dcon | DMA, 1, 39);
        rig.w(0x118, 1);
        rig.start(53, bytes_at_0(write, 39));
        rig.until(DSTA, 1 << 4);
        assert_eq!(rig.unmap(mapped), data);
    }
    assert_eq!(rig.memory.violation_count(), 0);
}

#[test]
fn a_wrong_direction_or_address_moves_nothing() {
    let mut rig = Rig::ready(loopback_card(), 64);
    let mapped = rig.map(vec![7; 64], Direction::Write);
    rig.prepare(READ | DMA, 1, 64);
    rig.w(0x118, 1);
    rig.start(53, blocks_at_100(false, 1));
    rig.until(FSTA, 1 << 8);
    assert_eq!((rig.r(0x118), rig.host.protocol_violations()), (0, 1));
    rig.w(CON, 1 << 8 | 1);
    rig.unmap(mapped);
    // An address that is not mapped any more.
    rig.w(0x114, 64);
    rig.put(0, 6, 1);
    rig.prepare(READ | DMA, 1, 64);
    rig.w(0x118, 1);
    rig.start(53, blocks_at_100(false, 1));
    rig.until(CSTA, 1 << 9);
    rig.now += 1_000_000;
    assert_eq!(rig.r(0x118), 0);
    assert!(rig.memory.violation_count() > 0);
}
