//! Tests of errors in data.

use super::*;

/// Reads this number of blocks to memory. Returns the raw interrupt flags at the end of the data.
fn read(rig: &mut Rig, blocks: u32, flags: u32) -> u32 {
    let a = rig.to_read(512 * blocks as usize);
    let list = chain(rig, &[(a.bus, 512 * blocks)]);
    rig.w(rig.at.timeout, 20_000 << 8 | 0xff);
    rig.by_dma(blocks, list.bus);
    rig.start(READ | flags | 18, 0);
    let raw = rig.until(OVER);
    rig.now += 1_000_000;
    rig.host.advance(rig.now);
    raw
}

#[test]
fn a_wrong_checksum_of_a_read_does_not_end_it_and_no_stop_follows() {
    let mut rig = Rig::warm(MshcConfig::H3);
    rig.next(Point::ReadBlock, &[Strike::Crc]);
    let raw = read(&mut rig, 3, AUTO);
    assert_eq!(raw & (DCRC | EBE | DRTO), DCRC);
    assert_eq!(rig.host.stats().blocks_read, 2);
    assert_eq!(rig.raw() & ACD, 0);
}

#[test]
fn a_missing_block_and_a_wrong_end_bit_end_it() {
    for (strike, bit) in [(Strike::EndBit, EBE), (Strike::Lost, DRTO)] {
        let mut rig = Rig::warm(MshcConfig::H3);
        rig.next(Point::ReadBlock, &[strike]);
        let raw = read(&mut rig, 3, AUTO);
        assert_eq!(raw & (DCRC | EBE | DRTO), bit);
        assert_eq!((rig.host.stats().blocks_read, rig.raw() & ACD), (0, 0));
        assert_eq!(rig.r(rig.at.status) & 1 << 10, 0);
    }
}

#[test]
fn a_read_goes_on_after_a_bad_answer_and_not_after_none() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    rig.next(Point::Response, &[Strike::Crc]);
    assert_eq!(read(&mut rig, 1, 0) & (RCRC | RTO), RCRC);
    rig.card.0.borrow_mut().deaf_to = vec![18];
    let a = rig.to_read(512);
    let list = chain(&rig, &[(a.bus, 512)]);
    rig.by_dma(1, list.bus);
    rig.start(READ | 18, 0);
    assert_eq!(rig.until(DONE) & (RTO | OVER), RTO);
    assert_eq!(rig.r(rig.at.status) & 1 << 10, 0, "no data");
}

#[test]
fn refused_blocks_end_a_write() {
    for (strike, bit) in [(Strike::Crc, DCRC), (Strike::NoStatus, EBE), (Strike::Lost, EBE)] {
        for after in [0, 1] {
            let mut rig = Rig::warm(MshcConfig::PCI);
            let a = rig.to_write(pattern(1024));
            let list = chain(&rig, &[(a.bus, 1024)]);
            rig.host.set_faults(Faults::new(Plan::none().shot(Point::WriteBlock, 1 + after, strike)));
            rig.by_dma(2, list.bus);
            rig.start(WRITE | AUTO | 25, 0);
            let raw = rig.until(OVER);
            assert_eq!(raw & (DCRC | EBE), bit, "{strike:?}");
            rig.now += 1_000_000;
            assert_eq!((rig.raw() & (ACD | BCI), rig.host.stats().blocks_written), (0, after), "no busy");
        }
    }
}

#[test]
fn a_write_does_not_begin_without_a_good_answer() {
    for strike in [Strike::Crc, Strike::Lost, Strike::Index] {
        let mut rig = Rig::warm(MshcConfig::H3);
        let a = rig.to_write(pattern(512));
        let list = chain(&rig, &[(a.bus, 512)]);
        rig.next(Point::Response, &[strike]);
        rig.by_dma(1, list.bus);
        rig.start(WRITE | 24, 0);
        rig.until(DONE);
        assert_eq!(rig.r(rig.at.status) & 1 << 10, 0);
        rig.now += 10_000_000;
        assert_eq!(rig.raw() & OVER, 0);
    }
}

#[test]
fn a_stop_command_ends_data_that_have_no_end() {
    for config in [MshcConfig::H3, MshcConfig::PCI] {
        let mut rig = Rig::warm(config);
        let a = rig.to_read(8192);
        let list = chain(&rig, &[(a.bus, if config.is_smhc() { 8192 } else { 4096 })]);
        rig.by_dma(0, list.bus);
        rig.start(READ | 18, 0);
        rig.until(DONE);
        rig.now += 700_000;
        rig.start(SHORT | 12 | STOP, 0);
        assert_eq!(rig.until(DONE) & OVER, OVER);
        assert_eq!(rig.r(rig.at.status) & 1 << 10, 0);
        assert!(rig.host.stats().blocks_read >= 2);
    }
}

#[test]
fn an_automatic_stop_without_answer_is_told() {
    for (strike, bit) in [(Strike::Lost, RTO), (Strike::Crc, RCRC), (Strike::Index, RE)] {
        let mut rig = Rig::warm(MshcConfig::H3);
        rig.next(Point::AutoCommand, &[strike]);
        read(&mut rig, 1, AUTO);
        assert_eq!(rig.until(ACD) & (RTO | RCRC | RE), bit);
    }
}

#[test]
fn resets_and_updates_that_never_end() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    rig.next(Point::Reset, &[Strike::Never]);
    rig.w(CONTROL, 7);
    rig.now += 1_000_000_000;
    assert_eq!(rig.r(CONTROL) & 7, 7);
    let mut rig = Rig::warm(MshcConfig::PCI);
    rig.clock(false, 2);
    rig.next(Point::Clock, &[Strike::Never]);
    rig.w(0x10, 1);
    rig.w(rig.at.cmd, START | UPDATE);
    rig.now += 1_000_000_000;
    assert_ne!(rig.r(rig.at.cmd) & START, 0);
    rig.power_up();
    rig.command(13, 0);
}

#[test]
fn a_lost_interrupt_comes_with_the_next_cause() {
    let mut rig = Rig::warm(MshcConfig::H3);
    rig.w(rig.at.mask, DONE);
    rig.next(Point::Interrupt, &[Strike::Lost]);
    rig.start(SHORT | 13, 0);
    rig.until(DONE);
    assert!(!rig.host.irq());
    rig.w(rig.at.raw, DONE);
    rig.command(13, 0);
    assert!(rig.host.irq());
}
