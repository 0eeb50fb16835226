//! Tests of errors on the bus, in SG tables and in drivers.

use super::rig::*;
use crate::faults::{Faults, Plan, Point, Strike};
use crate::rtsx::RtsxConfig;
use crate::rtsx::bits::{card, dma, int, sd, window as w};
use crate::slot::Controller;
use crate::world::Device;

#[test]
fn no_response_ends_the_list_after_80_clocks() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.card.0.borrow_mut().deaf_to.push(8);
    let start = rig.now;
    assert_eq!(rig.command(8, 0x1aa, R1), FAILED);
    assert!(rig.now - start < 10_000);
    assert_eq!((rig.get(sd::STAT1), rig.get(sd::STAT2)), (0, sd::NO_RESPONSE));
    assert_eq!(rig.get(sd::TRANSFER), sd::ERR | sd::IDLE | COMMAND);
    // No transfer can start before the error is cleared.
    rig.set(sd::TRANSFER, 0x80, 0x80);
    assert_eq!((rig.host.protocol_violations(), rig.get(sd::TRANSFER)), (1, sd::ERR | sd::IDLE | COMMAND));
    rig.clear_error();
    assert_eq!(rig.get(sd::STAT2), 0);
    assert_eq!(rig.command(13, 0, R1), DONE);
    // A lost command has the same effect as a lost response.
    rig.next(Point::Response, &[Strike::Lost]);
    assert_eq!(rig.command(13, 0, R1), FAILED);
    rig.clear_error();
    rig.next(Point::Command, &[Strike::Lost]);
    assert_eq!(rig.command(13, 0, R1), FAILED);
    rig.clear_error();
    assert_eq!(rig.host.stats().silent, 3);
    // With the response timeout off, only the CHECK entry times out.
    rig.set(sd::CFG3, 1, 0);
    let start = rig.now;
    assert_eq!(rig.command(8, 0, R1), FAILED);
    assert!(rig.now - start > 1_000_000_000);
    assert_eq!(rig.get(sd::TRANSFER) & sd::START, sd::START, "still waiting");
    rig.clear_error();
    assert_eq!(rig.host.protocol_violations(), 1);
}

#[test]
fn damaged_responses() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.next(Point::Response, &[Strike::Crc]);
    assert_eq!(rig.command(13, 0, R1), FAILED);
    assert_eq!((rig.get(sd::STAT1), rig.response()), (sd::CRC7_ERR, (13, 0x900)));
    rig.clear_error();
    rig.next(Point::Response, &[Strike::Crc]);
    assert_eq!(rig.command(13, 0, R3), DONE, "not checked");
    rig.next(Point::Response, &[Strike::Index]);
    assert_eq!(rig.command(13, 0, R1), DONE, "the chip does not look");
    assert_eq!(rig.response().0, 12);
    rig.assert_clean();
    // The driver expects a response of the wrong length, which is its mistake.
    assert_eq!(rig.command(13, 0, R2), FAILED);
    assert_eq!(rig.host.protocol_violations(), 1);
    rig.clear_error();
    assert_eq!(rig.command(13, 0, R0), DONE);
    assert_eq!(rig.host.protocol_violations(), 2);
}

#[test]
fn a_bad_block_ends_a_read_and_what_came_before_it_is_there() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.card.0.borrow_mut().bad_read = Some(2);
    let buffer = rig.mapped(8 * 512);
    let seen = rig.read(Some((18, 7)), &buffer, 0);
    assert_eq!(seen, FAILED, "no DATA_DONE");
    assert_eq!((rig.get(sd::STAT1), rig.get(sd::TRANSFER)), (sd::CRC16_ERR, 0x3e));
    rig.clear_error();
    assert!(buffer.take()[..1024] == rig.card_bytes(7, 1024));
    rig.card.0.borrow_mut().bad_read = None;
    assert_eq!(rig.command(12, 0, R1B), DONE);
    let buffer = rig.mapped(8 * 512);
    assert_eq!(rig.read(Some((18, 7)), &buffer, 0), DONE | DATA);
    assert!(buffer.take() == rig.card_bytes(7, 4096));
    assert_eq!(rig.host.stats().blocks_bad, 1);
    rig.assert_clean();
}

#[test]
fn data_that_do_not_come_time_the_check_out() {
    let config = RtsxConfig { check_timeout_ns: 10_000_000, ..RtsxConfig::GENERIC };
    let mut rig = Rig::warm(config);
    rig.card.0.borrow_mut().stops_after = Some(3);
    let buffer = rig.mapped(8 * 512);
    assert_eq!(rig.read(Some((18, 7)), &buffer, 0), FAILED);
    assert_eq!(rig.get(sd::TRANSFER), sd::START | READ_2);
    rig.clear_error();
    // No transfer is open on the card, so no data come.
    assert_eq!(rig.command(12, 0, R1B), DONE);
    assert_eq!(rig.read(None, &buffer, 0), FAILED);
    rig.clear_error();
    rig.assert_clean();
}

#[test]
fn bad_and_missing_crc_status() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.next(Point::WriteBlock, &[Strike::Crc]);
    let seen = rig.write(Some((25, 0)), &pattern(4096), 0);
    assert_eq!(seen & FAILED, FAILED);
    assert_eq!(rig.get(sd::STAT1), sd::CRC_WRITE_ERR | sd::STATUS_BAD);
    rig.clear_error();
    assert_eq!(rig.command(12, 0, R1B), DONE);
    rig.card.0.borrow_mut().crc_status = None;
    let seen = rig.write(Some((25, 0)), &pattern(4096), 0);
    assert_eq!(seen & FAILED, FAILED);
    assert_eq!(rig.get(sd::STAT1), sd::CRC_TIMEOUT);
    rig.clear_error();
    let start = rig.now;
    assert_eq!(rig.write(None, &pattern(4096), sd::NO_STATUS_TIMEOUT) & FAILED, FAILED);
    assert!(rig.now - start > 1_000_000_000);
    rig.clear_error();
    rig.assert_clean();
}

#[test]
fn every_fault_of_a_table_fails_the_transfer() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let buffer = rig.mapped(4096);
    let at = buffer.bus;
    let tables: [&[(u64, u32, u32)]; 11] = [
        &[(at, 4096, 0x22)],
        &[(at, 4096, 0x03)],
        &[(at, 4096, 0x33)],
        &[(at, 4096, 0x63)],
        &[(at, 4096, 0x21)],
        &[(at, 2048, 0x23)],
        &[(at, 2048, 0x21), (at + 2048, 2047, 0x23)],
        &[(at, 2048, 0x21), (at + 2048, 4096, 0x23)],
        &[(at, 4096, 0x21), (at, 4, 0x23)],
        &[(at, 0, 0x21), (at, 4096, 0x23)],
        &[(at + 2, 4094, 0x21), (at, 2, 0x23)],
    ];
    let mut failures = 0;
    for table in tables {
        let mut list = token(18, 7, R1);
        list.extend(data_set_up(4096, true));
        list.extend([wr(sd::TRANSFER, 0xff, READ_2 | sd::START), ended()]);
        rig.start_list(&list, 0);
        rig.trigger(table, true);
        assert_eq!(rig.wait_for(DONE | DATA), FAILED, "{table:x?}");
        assert_eq!((rig.get(sd::TRANSFER), rig.get(sd::STAT1)), (0x3e, 0), "{table:x?}");
        rig.clear_error();
        assert_eq!(rig.command(12, 0, R1B), DONE);
        failures += 1;
    }
    assert_eq!(failures, tables.len());
    rig.assert_clean();
    // A data address that is not mapped, and a table that is not mapped.
    let mut list = token(18, 7, R1);
    list.extend(data_set_up(4096, true));
    list.extend([wr(sd::TRANSFER, 0xff, READ_2 | sd::START), ended()]);
    rig.start_list(&list, 0);
    rig.trigger(&[(0x1000, 4096, 0x23)], true);
    assert_eq!(rig.wait_for(DONE | DATA), FAILED);
    rig.clear_error();
    rig.start_list(&list, 0);
    rig.w(w::HDBAR, 0x1000);
    rig.w(w::HDBCTLR, w::START | w::ADMA | w::TO_MEMORY);
    assert_eq!(rig.wait_for(DONE | DATA), FAILED);
    rig.clear_error();
    assert_eq!(rig.memory.violation_count(), 2);
    let buffer = rig.mapped(4096);
    assert_eq!(rig.read(Some((18, 7)), &buffer, 0), DONE | DATA);
}

#[test]
fn a_chip_that_lies_fails_to_continue() {
    let mut rig = Rig::warm(RtsxConfig { continue_data: false, ..RtsxConfig::GENERIC });
    let buffer = rig.mapped(4096);
    assert_eq!(rig.read(Some((18, 7)), &buffer, 0), DONE | DATA);
    assert_eq!(rig.read(None, &buffer, 0), FAILED);
    rig.clear_error();
    assert_eq!(rig.command(12, 0, R1B), DONE);
    assert_eq!(rig.command(25, 7, R1), DONE);
    assert_eq!(rig.write(None, &pattern(4096), 0), DONE | DATA, "the first data are no continuation");
    assert_eq!(rig.write(None, &pattern(4096), 0) & FAILED, FAILED);
    rig.clear_error();
    rig.assert_clean();
}

/// Starts a read of 64 blocks, whose data are on their way.
fn begin_long_read(rig: &mut Rig) -> Mapped {
    let buffer = rig.mapped(64 * 512);
    let mut list = token(18, 7, R1);
    list.extend(data_set_up(64 * 512, true));
    list.extend([wr(sd::TRANSFER, 0xff, READ_2 | sd::START), ended()]);
    rig.start_list(&list, 0);
    rig.trigger(&[(buffer.bus, 64 * 512, 0x23)], true);
    buffer
}

#[test]
fn a_stop_in_the_middle_leaves_the_chip_idle() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let _buffer = begin_long_read(&mut rig);
    rig.run(100_000);
    rig.clear_error();
    assert_eq!((rig.host.next_event_ns(), rig.r(w::BIPR) & int::LATCHED), (None, 0));
    assert_eq!(rig.command(12, 0, R1B), DONE);
    let buffer = rig.mapped(4096);
    assert_eq!(rig.read(Some((18, 7)), &buffer, 0), DONE | DATA);
    assert!(buffer.take() == rig.card_bytes(7, 4096));
    rig.assert_clean();
}

#[test]
fn a_transfer_that_fails_without_a_list_says_so_alone() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.card.0.borrow_mut().deaf_to.push(55);
    for entry in token(55, 0, R1) {
        rig.set((entry >> 16) as u16 & 0x3fff, 0xff, entry as u8);
    }
    rig.set(sd::TRANSFER, 0xff, COMMAND | sd::START);
    assert_eq!(rig.wait_for(int::TRANS_FAIL), int::TRANS_FAIL);
    rig.clear_error();
    rig.assert_clean();
}

/// Checks that each of these mistakes of a driver is counted once.
#[test]
fn mistakes_of_a_driver_are_counted() {
    type Mistake = fn(&mut Rig);
    let mistakes: [(&str, Mistake); 14] = [
        ("START while running", |rig| {
            rig.card.0.borrow_mut().r1b_busy_ns = 1_000_000;
            rig.start_list(&[&token(7, 0, R1B)[..], &[wr(sd::TRANSFER, 0xff, 0x88)]].concat(), 0);
            rig.run(50_000);
            rig.set(sd::TRANSFER, 0x80, 0x80);
        }),
        ("unknown mode", |rig| rig.set(sd::TRANSFER, 0xff, 0x89)),
        ("no supply", |rig| {
            rig.set(card::PWR_CTL, 3, 3);
            rig.set(sd::TRANSFER, 0xff, 0x88);
        }),
        ("no clock", |rig| {
            rig.set(card::CLK_EN, 4, 0);
            rig.set(sd::TRANSFER, 0xff, 0x88);
        }),
        ("outputs off", |rig| {
            rig.set(card::OE, 4, 0);
            assert_eq!(rig.command(13, 0, R1), FAILED);
        }),
        ("another card selected", |rig| {
            rig.set(card::SELECT, 7, 3);
            assert_eq!(rig.command(13, 0, R1), FAILED);
        }),
        ("pins not shared", |rig| {
            rig.set(card::SHARE_MODE, 15, 0);
            assert_eq!(rig.command(13, 0, R1), FAILED);
        }),
        ("3.3 V", |rig| {
            rig.low_voltage(false);
            rig.command(13, 0, R1);
        }),
        ("no DMA", |rig| {
            rig.set(sd::BYTE_CNT + 1, 0xff, 2);
            rig.set(sd::BLOCK_CNT, 0xff, 1);
            rig.set(sd::TRANSFER, 0xff, 0x80 | READ_3);
        }),
        ("no blocks", |rig| rig.set(sd::TRANSFER, 0xff, 0x80 | READ_3)),
        ("triggered twice", |rig| {
            rig.trigger(&[(0, 4, 0x23)], true);
            rig.trigger(&[(0, 4, 0x23)], true);
        }),
        ("not ADMA", |rig| rig.w(w::HDBCTLR, w::START)),
        ("armed for nothing", |rig| rig.set(dma::CTL, 1, 1)),
        ("no command token", |rig| {
            rig.set(sd::CFG2, 0xff, R0);
            rig.set(sd::TRANSFER, 0xff, 0x88);
        }),
    ];
    for (name, mistake) in mistakes {
        let mut rig = Rig::warm(RtsxConfig::GENERIC);
        // A command for the mistakes that start a transfer by hand.
        rig.set(sd::CMD0, 0xff, if name == "no command token" { 0 } else { 0x40 });
        mistake(&mut rig);
        rig.run(100_000);
        assert_eq!(rig.host.protocol_violations(), 1, "{name}");
    }
}

#[test]
fn directions_that_disagree_fail() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let buffer = rig.mapped(4096);
    let mut list = token(18, 7, R1);
    list.extend(data_set_up(4096, true));
    list.extend([wr(sd::TRANSFER, 0xff, READ_2 | sd::START), ended()]);
    rig.start_list(&list, 0);
    rig.trigger(&[(buffer.bus, 4096, 0x23)], false);
    assert_eq!(rig.wait_for(DONE | DATA), FAILED);
    assert!(rig.host.protocol_violations() > 0);
}

#[test]
fn a_table_that_never_begins_ends_by_the_check() {
    let mut rig = Rig::warm(RtsxConfig { check_timeout_ns: 1_000_000, ..RtsxConfig::GENERIC });
    // The first DMA event is the list, the second one the table.
    rig.host.set_faults(Faults::new(Plan::none().shot(Point::Dma, 2, Strike::Never)));
    let buffer = rig.mapped(512);
    assert_eq!(rig.read(Some((17, 7)), &buffer, 0), FAILED);
    rig.clear_error();
    assert_eq!(rig.read(Some((17, 7)), &buffer, 0), DONE | DATA);
    rig.assert_clean();
}

#[test]
fn the_card_goes_in_the_middle_of_a_read() {
    let mut rig = Rig::warm(RtsxConfig { check_timeout_ns: 5_000_000, ..RtsxConfig::GENERIC });
    let _buffer = begin_long_read(&mut rig);
    rig.run(60_000);
    rig.host.remove(rig.now).unwrap();
    let seen = rig.wait_for(DONE | DATA);
    assert_eq!(seen & FAILED, FAILED);
    rig.clear_error();
}
