//! Tests of blocks that the internal DMA moves.

use super::*;

const KINDS: [MshcConfig; 4] =
    [MshcConfig::H3, MshcConfig::D1, MshcConfig::PCI, MshcConfig { wide_dma: true, ..MshcConfig::PCI }];

/// Bit of the internal DMA's status register: the DMA has ended a write to the card.
pub(super) const TI: u32 = 1;
/// Bit of the internal DMA's status register: the DMA has ended a read from the card.
pub(super) const RI: u32 = 2;
/// Bit of the internal DMA's status register: fatal bus error.
const FBE: u32 = 4;
/// Bit of the internal DMA's status register: the descriptor in use belongs to the CPU.
pub(super) const DU: u32 = 1 << 4;
/// State field in the internal DMA's status register: the DMA is suspended.
pub(super) const SUSPENDED: u32 = 1 << 13;
/// Bit of the internal DMA's status register: summary of the normal interrupts.
pub(super) const NORMAL: u32 = 1 << 8;
/// Bit of the internal DMA's status register: summary of the abnormal interrupts.
pub(super) const ABNORMAL: u32 = 1 << 9;

#[test]
fn a_chain_gets_a_read_and_the_last_block_comes_behind_the_end_of_data() {
    for config in KINDS {
        let mut rig = Rig::warm(config);
        let (a, b) = (rig.to_read(1000), rig.to_read(536));
        let list = chain(&rig, &[(a.bus, 1000), (b.bus, 536)]);
        rig.by_dma(3, list.bus);
        rig.w(rig.at.dma_enable, 0x337);
        rig.start(READ | AUTO | 18, 7);
        rig.until(OVER);
        assert_eq!(rig.r(rig.at.dma_status) & 0x337, 0);
        assert!(!rig.host.irq());
        rig.now += u64::from(config.memory_ns);
        rig.host.advance(rig.now);
        assert_eq!(rig.r(rig.at.dma_status), RI | NORMAL, "{config:?}");
        assert!(rig.host.irq(), "by its own enable bits");
        rig.w(rig.at.dma_status, 0x337);
        assert!(!rig.host.irq());
        assert_eq!((list.control(0) >> 31, list.control(1) >> 31), (0, 0));
        let got = [a.take(), b.take()].concat();
        assert_eq!(got, rig.stored(7, 1536));
        rig.until(ACD);
        assert_eq!(rig.violations(), 0);
        assert_eq!(rig.memory.violation_count(), 0);
    }
}

#[test]
fn a_chain_gives_a_write() {
    for config in KINDS {
        let mut rig = Rig::warm(config);
        let data = pattern(2048);
        let (a, b) = (rig.to_write(data[..12].to_vec()), rig.to_write(data[12..].to_vec()));
        let list = chain(&rig, &[(a.bus, 12), (b.bus, 2036)]);
        rig.by_dma(4, list.bus);
        rig.start(WRITE | 25, 9);
        rig.until(OVER);
        assert_eq!(rig.r(rig.at.dma_status), TI | NORMAL);
        assert_eq!(rig.stored(9, 2048), data);
        assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
    }
}

#[test]
fn in_a_ring_descriptors_have_two_buffers_and_the_last_leads_to_the_first() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    let (a, b, c) = (rig.to_read(256), rig.to_read(256), rig.to_read(512));
    let mut list = List::new(&rig, 2);
    list.words(0, 256 | 256 << 13, a.bus, b.bus, OWN | FIRST | NO_IRQ);
    list.words(1, 512, c.bus, 0, OWN | LAST | 1 << 5);
    rig.by_dma(2, list.bus);
    rig.start(READ | 18, 0);
    rig.until(OVER);
    rig.now += 1_000;
    assert_eq!(rig.r(rig.at.dma_status), RI | NORMAL);
    assert_eq!(rig.r(0x94), list.bus as u32, "around the ring");
    assert_eq!([a.take(), b.take(), c.take()].concat(), rig.stored(0, 1024));
    assert_eq!(rig.violations(), 0);
}

#[test]
fn a_descriptor_of_the_cpu_suspends_until_the_poll_demand() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    let (a, b) = (rig.to_read(512), rig.to_read(512));
    let mut list = List::new(&rig, 2);
    list.put(0, a.bus, 512, FIRST);
    list.words(1, 512, b.bus, 0, LAST | CHAINED);
    rig.by_dma(2, list.bus);
    rig.w(rig.at.dma_enable, DU | ABNORMAL);
    rig.start(READ | 18, 0);
    while !rig.host.irq() {
        rig.step();
    }
    assert_eq!(rig.r(rig.at.dma_status), RI | NORMAL | DU | ABNORMAL | SUSPENDED);
    list.put(1, b.bus, 512, LAST);
    rig.w(rig.at.dma_status, 0x337);
    rig.w(0x84, 1);
    rig.until(OVER);
    rig.now += 1_000;
    assert_eq!(rig.r(rig.at.dma_status), RI | NORMAL);
    assert_eq!([a.take(), b.take()].concat(), rig.stored(0, 1024));
}

#[test]
fn a_bus_error_starves_the_data_and_a_reset_leads_out() {
    for write in [false, true] {
        let mut rig = Rig::warm(MshcConfig::PCI);
        rig.w(rig.at.timeout, 10_000 << 8 | 0xff);
        let list = chain(&rig, &[(0x10, 1024)]);
        rig.by_dma(2, list.bus);
        rig.start(if write { WRITE | 25 } else { READ | 18 }, 0);
        let raw = rig.until(HTO | OVER);
        assert_eq!(raw & (HTO | OVER), HTO, "{write}");
        assert_eq!(rig.r(rig.at.dma_status), FBE | ABNORMAL);
        rig.power_up();
        let a = rig.to_read(512);
        let list = chain(&rig, &[(a.bus, 512)]);
        rig.by_dma(1, list.bus);
        rig.start(READ | 17, 3);
        rig.until(OVER);
        rig.now += 1_000;
        rig.r(rig.at.status);
        assert_eq!(a.take(), rig.stored(3, 512));
    }
}

#[test]
fn a_length_of_nothing_is_the_most_of_an_smhc() {
    let mut rig = Rig::warm(MshcConfig::A10);
    rig.host.config().check().unwrap();
    let a = rig.to_read(8192);
    let list = chain(&rig, &[(a.bus, 0)]);
    rig.by_dma(16, list.bus);
    rig.start(READ | 18, 0);
    rig.until(OVER);
    rig.now += 1_000;
    assert_eq!(rig.r(rig.at.dma_status), RI | NORMAL);
    assert_eq!(a.take(), rig.stored(0, 8192));
}

#[test]
fn what_is_left_in_the_fifo_is_the_beginning_of_the_next_data() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    let a = rig.to_write(pattern(1024));
    let list = chain(&rig, &[(a.bus, 1024)]);
    rig.next(Point::WriteBlock, &[Strike::Crc]);
    rig.by_dma(2, list.bus);
    rig.start(WRITE | 25, 0);
    assert_ne!(rig.until(OVER) & DCRC, 0);
    assert_eq!(rig.r(rig.at.status) & 1 << 2, 0, "fetched, and not sent");
    let list = chain(&rig, &[(a.bus, 1024)]);
    rig.by_dma(2, list.bus);
    rig.start(WRITE | 25, 20);
    rig.until(OVER);
    assert_ne!(rig.stored(20, 512), pattern(512));
    assert_eq!(rig.violations(), 1);
}
