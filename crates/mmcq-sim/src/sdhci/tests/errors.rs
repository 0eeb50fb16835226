//! Tests of errors, and of what must not happen after them.

use super::rig::*;
use crate::faults::{Faults, Plan, Point, Strike};
use crate::sdhci::{SdhciConfig, bits::int};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::Direction;

const CC: u32 = int::COMMAND_COMPLETE;
const TC: u32 = int::TRANSFER_COMPLETE;
const E: u32 = int::ERROR;

/// Starts a read of 8 blocks by ADMA2. Buffer and table stay mapped while the result lives.
fn start_read(rig: &mut Rig) -> (Mapped, Mapped) {
    rig.select(2);
    let buffer = rig.mapped(vec![0; 4096], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 4096, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 8);
    rig.command(18, 0, R1 | DATA, READ_MANY);
    (buffer, table)
}

fn start_write(rig: &mut Rig) -> (Mapped, Mapped) {
    rig.select(2);
    let buffer = rig.mapped(pattern(4096), Direction::Write);
    let table = rig.table(8, &[(buffer.bus, 4096, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 8);
    rig.command(25, 0, R1 | DATA, WRITE_MANY);
    (buffer, table)
}

fn reset(rig: &mut Rig, bits: u8) {
    rig.w8(0x2f, bits);
    assert_eq!(rig.r8(0x2f), bits, "takes a while");
    rig.run(500);
    assert_eq!(rig.r8(0x2f), 0, "and clears itself");
}

/// Checks that everything works again after the resets.
fn assert_usable(rig: &mut Rig) {
    let from_ns = rig.now;
    reset(rig, 2);
    reset(rig, 4);
    rig.w32(0x30, !0);
    let (buffer, _table) = start_read(rig);
    assert_eq!(rig.wait_for(CC | TC), CC | TC);
    assert!(buffer.take() == rig.card_bytes(0, 4096));
    assert!(rig.now - from_ns < 100_000_000, "it takes {} ns", rig.now - from_ns);
}

#[test]
fn silence_is_a_timeout_after_64_clocks_and_inhibits_until_a_reset() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().deaf_to.push(13);
    let start = rig.now;
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(CC), int::COMMAND_TIMEOUT | E);
    assert_eq!(rig.now - start, (48 + 64) * 5);
    assert_eq!(rig.r32(0x24) & 1, 1);
    assert_usable(&mut rig);
}

#[test]
fn a_data_command_without_response_keeps_the_data_lines_too() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().deaf_to.push(18);
    let _memory = start_read(&mut rig);
    assert_eq!(rig.wait_for(CC), int::COMMAND_TIMEOUT | E);
    assert_eq!(rig.r32(0x24) & 3, 3);
    reset(&mut rig, 2);
    assert_eq!(rig.r32(0x24) & 3, 2);
    rig.card.0.borrow_mut().deaf_to.clear();
    assert_usable(&mut rig);
}

#[test]
fn damaged_responses() {
    for (strike, bit) in [
        (Strike::Crc, int::COMMAND_CRC),
        (Strike::EndBit, int::COMMAND_END_BIT),
        (Strike::Index, int::COMMAND_INDEX),
    ] {
        let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
        rig.next(Point::Response, &[strike]);
        rig.command(13, 0, R1, 0);
        assert_eq!(rig.wait_for(CC), CC | bit | E);
        assert_usable(&mut rig);
    }
    // The controller does not do response checks that the command does not request.
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(Point::Response, &[Strike::Crc, Strike::Index]);
    for _ in 0..2 {
        rig.command(13, 0, 0x02, 0);
        assert_eq!(rig.wait_for(CC), CC);
    }
}

#[test]
fn a_long_response_comes_without_its_crc_byte_and_is_checked() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.command(2, 0, R2, 0);
    assert_eq!(rig.wait_for(CC), CC);
    let words = [0x10, 0x14, 0x18, 0x1c].map(|at| rig.r32(at));
    // CID 03 53 44 01 .. 0c: its bits 127:8, with the first byte in bits 23:16 of the last
    // register.
    assert_eq!(words, [0x090a_0b0c, 0x0506_0708, 0x0102_0304, 0x0003_5344]);
    rig.next(Point::Response, &[Strike::Crc]);
    rig.command(2, 0, R2, 0);
    assert_eq!(rig.wait_for(CC), CC | int::COMMAND_CRC | E);
}

#[test]
fn a_response_of_the_wrong_length() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.command(2, 0, R1, 0);
    assert_eq!(rig.wait_for(CC) & int::ERRORS, int::COMMAND_END_BIT | int::COMMAND_CRC | int::COMMAND_INDEX);
}

#[test]
fn without_a_clock_a_command_times_out_and_the_card_sees_nothing() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    let clock = rig.r16(0x2c);
    rig.w16(0x2c, clock & !4);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(CC), int::COMMAND_TIMEOUT | E);
    assert_eq!(rig.card.0.borrow().commands.len(), 0);
    rig.w16(0x2c, clock);
    assert_usable(&mut rig);
}

#[test]
fn a_bad_block_stops_the_transfer_where_it_is() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().bad_read = Some(3);
    let (buffer, _table) = start_read(&mut rig);
    assert_eq!(rig.wait_for(TC), CC | int::DATA_CRC | E);
    rig.run(1_000_000);
    assert_eq!((rig.r32(0x30), rig.r32(0x24) & 2), (0, 2), "no Transfer Complete; inhibited");
    let got = buffer.take();
    assert!(got[..1536] == rig.card_bytes(0, 1536));
    assert!(got[1536..].iter().all(|&b| b == crate::memory::POISON), "the bad block did not get to memory");
    rig.card.0.borrow_mut().bad_read = None;
    assert_usable(&mut rig);
}

#[test]
fn an_end_bit_error_of_a_block() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(Point::ReadBlock, &[Strike::EndBit]);
    let _memory = start_read(&mut rig);
    assert_eq!(rig.wait_for(TC), CC | int::DATA_END_BIT | E);
    assert_usable(&mut rig);
}

#[test]
fn a_written_block_with_a_bad_crc_status_or_none() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(Point::WriteBlock, &[Strike::Crc]);
    let memory = start_write(&mut rig);
    assert_eq!(rig.wait_for(TC), CC | int::DATA_CRC | E);
    assert_eq!(rig.host.stats().blocks_written, 0);
    drop(memory);
    assert_usable(&mut rig);
    rig.card.0.borrow_mut().crc_status = None;
    let _memory = start_write(&mut rig);
    assert_eq!(rig.wait_for(TC), CC | int::DATA_TIMEOUT | E);
    assert_usable(&mut rig);
}

#[test]
fn data_that_come_too_late_or_never_time_out_by_the_counter() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    // Timeouts of 2^13 and 2^14 clocks at 1 MHz.
    for (n, limit_ns) in [(0, 8_192_000), (1, 16_384_000)] {
        rig.w8(0x2e, n);
        rig.card.0.borrow_mut().access_ns = limit_ns - 1;
        let _memory = start_read(&mut rig);
        assert_eq!(rig.wait_for(TC), CC | TC, "just in time");
        rig.card.0.borrow_mut().access_ns = limit_ns + 1;
        let start = rig.now;
        let _memory = start_read(&mut rig);
        assert_eq!(rig.wait_for(TC), CC | int::DATA_TIMEOUT | E);
        assert_eq!(rig.now - start, 560 + limit_ns);
        rig.card.0.borrow_mut().access_ns = 0;
        assert_usable(&mut rig);
    }
    rig.card.0.borrow_mut().stops_after = Some(2);
    let _memory = start_read(&mut rig);
    assert_eq!(rig.wait_for(TC), CC | int::DATA_TIMEOUT | E);
    rig.card.0.borrow_mut().stops_after = None;
    assert_usable(&mut rig);
}

#[test]
fn busy_too_long_times_out_unless_it_is_not_watched() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.w8(0x2e, 0);
    rig.card.0.borrow_mut().r1b_busy_ns = 10_000_000;
    rig.command(7, 0, R1B, 0);
    assert_eq!(rig.wait_for(TC), CC | int::DATA_TIMEOUT | E);
    reset(&mut rig, 4);
    rig.run(10_000_000);
    rig.w32(0x34, !int::DATA_TIMEOUT);
    rig.command(7, 0, R1B, 0);
    assert_eq!(rig.wait_for(TC | CC), CC | TC, "the counter's status is not enabled");
}

#[test]
fn a_reset_in_mid_transfer_stops_dma_at_once() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    for bits in [4, 1] {
        rig.w8(0x2e, 0x0e);
        let (buffer, table) = start_read(&mut rig);
        rig.run(520 + 3 * 1_410 + 700);
        rig.w8(0x2f, bits);
        let got = buffer.take();
        table.take();
        rig.run(10_000_000);
        assert!(got[..1536] == rig.card_bytes(0, 1536));
        assert!(got[1536..].iter().all(|&b| b == crate::memory::POISON));
        assert_eq!(rig.memory.violations(), Vec::<String>::new(), "nothing is touched after the reset");
        assert_eq!(rig.r32(0x24) & 0xfff, 0);
        assert_eq!(rig.r32(0x30) & TC, 0);
    }
    assert_eq!(rig.r32(0x34), 0, "a reset of everything clears the enables");
    assert!(!rig.card.0.borrow().bus.powered);
    assert_eq!(rig.r32(0x24) >> 16 & 7, 7, "but not card detection");
    assert_eq!(rig.r32(0x40), SdhciConfig::GENERIC_4_20.capabilities);
}

#[test]
fn a_dma_window_that_ended_too_early_is_caught() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    let (buffer, _table) = start_read(&mut rig);
    rig.run(520 + 2 * 1_410);
    buffer.take();
    assert_eq!(rig.wait_for(TC), CC | int::ADMA | E);
    assert_eq!(rig.r8(0x54) & 3, 3, "in the state of transferring data");
    assert_eq!(rig.memory.violation_count(), 1);
}

#[test]
fn bad_tables_are_adma_errors() {
    type Entry = (u64, u32, u32);
    // Each case: entries of the table relative to the buffer, and the expected ADMA error status.
    let cases: &[(&[Entry], u8)] = &[
        (&[(0, 4096, 0x20)], 1),                 // not valid
        (&[(0, 4096, 0x21), (0, 0, 0x00)], 1),   // no end
        (&[(0, 2048, 0x23)], 7),                 // ends early
        (&[(0, 4096, 0x21), (0, 512, 0x23)], 7), // too long
        (&[(0x10_0000, 4096, 0x23)], 3),         // nowhere
    ];
    for &(entries, status) in cases {
        let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
        rig.select(2);
        let buffer = rig.mapped(vec![0; 4096], Direction::Read);
        let entries: Vec<_> = entries.iter().map(|e| (buffer.bus + e.0, e.1, e.2)).collect();
        let table = rig.table(8, &entries);
        rig.point_at(&table);
        rig.set_up(512, 8);
        rig.command(18, 0, R1 | DATA, READ_MANY);
        assert_eq!(rig.wait_for(TC) & !CC, int::ADMA | E, "{entries:x?}");
        assert_eq!(rig.r8(0x54), status, "{entries:x?}");
        assert_usable(&mut rig);
    }
    // The table address is not mapped at all.
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    rig.w32(0x58, 0x100);
    rig.set_up(512, 1);
    rig.command(17, 0, R1 | DATA, 0x11);
    assert_eq!(rig.wait_for(TC) & !CC, int::ADMA | E);
    assert_eq!((rig.r8(0x54), rig.memory.violation_count()), (1, 1));
}

#[test]
fn a_table_that_links_to_itself_does_not_hang_the_world() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    let first = rig.table(8, &[(0, 0, 0x01), (0, 0, 0x01)]);
    let mut loop_back = rig.table(8, &[(first.bus, 0, 0x31)]);
    loop_back.cpu[4..8].copy_from_slice(&(loop_back.bus as u32).to_le_bytes());
    let ptr = std::ptr::NonNull::new(loop_back.cpu.as_mut_ptr()).unwrap();
    mmcq::host::Dma::sync(&rig.memory, loop_back.bus, ptr, 8);
    rig.point_at(&loop_back);
    rig.set_up(512, 1);
    rig.command(17, 0, R1 | DATA, 0x11);
    assert_eq!(rig.wait_for(TC), CC);
    assert_eq!(rig.host.next_event_ns(), None);
    assert_usable(&mut rig);
}

#[test]
fn failed_automatic_commands() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().deaf_to.push(23);
    rig.select(2);
    rig.set_up(512, 8);
    rig.command(18, 0, R1 | DATA, READ_MANY | 8);
    assert_eq!(rig.wait_for(CC), int::AUTO_COMMAND | E);
    assert_eq!((rig.auto_status, rig.r32(0x24) & (1 << 27 | 3)), (2, 1 << 27 | 3));
    assert_eq!(rig.card.0.borrow().commands.len(), 1, "the main command was not sent");
    assert_eq!(rig.r16(0x3c), 0, "valid only while Auto CMD Error is set");
    assert_usable(&mut rig);
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().deaf_to.push(12);
    rig.select(2);
    let buffer = rig.mapped(vec![0; 512], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 512, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 1);
    rig.command(18, 0, R1 | DATA, READ_MANY | 4);
    assert_eq!(rig.wait_for(TC), CC | int::AUTO_COMMAND | E);
    assert_eq!(rig.auto_status, 2);
    assert_usable(&mut rig);
}

#[test]
fn the_controller_checks_r1_when_told_to() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().status = 0x8000_0900;
    rig.command(13, 0, R1, 0x80);
    assert_eq!(rig.wait_for(CC), CC | int::RESPONSE | E);
    reset(&mut rig, 2);
    rig.card.0.borrow_mut().status = 0x900;
    rig.command(13, 0, R1, 0x180);
    rig.run(10_000);
    assert_eq!((rig.r32(0x30), rig.r32(0x24) & 1), (0, 0), "no Command Complete wanted");
    assert_eq!(rig.r32(0x10), 0x900);
}

#[test]
fn a_card_that_leaves_in_mid_transfer() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    let _memory = start_read(&mut rig);
    rig.run(3_000);
    rig.w32(0x30, CC);
    assert!(rig.host.remove(rig.now).is_some());
    assert_eq!(rig.r32(0x24) & 1 << 17, 0, "bouncing");
    let seen = rig.wait_for(int::REMOVAL);
    assert_eq!(seen & int::ERRORS, int::DATA_CRC);
    assert_eq!(rig.wait_for(int::REMOVAL), int::REMOVAL);
    assert_eq!(rig.r32(0x24) >> 16 & 7, 2);
    assert_eq!((rig.r8(0x29) & 1, rig.r16(0x2c) & 4), (0, 0), "no power, no clock");
    let card = rig.card.clone();
    rig.host.insert(Box::new(card), rig.now);
    assert_eq!(rig.wait_for(int::INSERTION), int::INSERTION);
    assert_eq!(rig.r32(0x24) >> 16 & 7, 7);
}

#[test]
fn hung_resets_stuck_bits_and_a_dead_controller() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(Point::Reset, &[Strike::Never]);
    rig.w8(0x2f, 2);
    rig.w8(0x2f, 4);
    rig.run(1_000_000);
    assert_eq!(rig.r8(0x2f), 2, "the second one has ended");
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.host.set_faults(Faults::new(Plan::none().from(Point::Reset, 1, Strike::Status(2))));
    rig.w8(0x2f, 6);
    rig.run(1_000_000);
    assert_eq!(rig.r8(0x2f), 2);
    reset(&mut rig, 1);
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(Point::Response, &[Strike::Stuck]);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(CC), CC);
    reset(&mut rig, 2);
    rig.command(13, 0, R1, 0);
    assert_eq!((rig.r32(0x24) & 1, rig.host.protocol_violations()), (1, 1));
    reset(&mut rig, 1);
    assert_eq!(rig.r32(0x24) & 1, 0);
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(Point::Command, &[Strike::Gone]);
    rig.command(13, 0, R1, 0);
    rig.run(10_000);
    assert_eq!((rig.r32(0x30), rig.r16(0x2c), rig.r8(0x29), rig.host.irq()), (!0, !0, !0, false));
}

#[test]
fn commands_during_a_reset_of_their_circuit_are_dropped() {
    for (bits, index, flags, dropped) in
        [(1, 13, R1, true), (2, 13, R1, true), (4, 13, R1, false), (4, 7, R1B, true), (2, 7, R1B, true)]
    {
        let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
        rig.w8(0x2f, bits);
        rig.command(index, 0, flags, 0);
        assert_eq!(rig.host.protocol_violations() > 0, dropped, "reset {bits}, CMD{index}");
        assert_eq!(rig.r32(0x24) & 1 == 0, dropped);
    }
}
