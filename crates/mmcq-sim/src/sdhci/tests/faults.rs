//! Tests of each kind of fault and its effect on the registers.

use super::rig::*;
use crate::card::Card;
use crate::faults::{Faults, Plan, Point, Strike};
use crate::sdhci::{SdhciConfig, bits::int};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::Direction;

const CC: u32 = int::COMMAND_COMPLETE;
const TC: u32 = int::TRANSFER_COMPLETE;
const E: u32 = int::ERROR;

fn struck(point: Point, strikes: &[Strike]) -> Rig {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(point, strikes);
    rig
}

/// Starts a transfer of 8 blocks by ADMA2, with descriptors of 4 blocks. Buffer and table stay
/// mapped while the result lives.
fn start(rig: &mut Rig, read: bool, auto: u16) -> (Mapped, Mapped) {
    rig.select(2);
    let (bytes, direction) =
        if read { (vec![0; 4096], Direction::Read) } else { (pattern(4096), Direction::Write) };
    let buffer = rig.mapped(bytes, direction);
    let table = rig.table(8, &[(buffer.bus, 2048, 0x25), (buffer.bus + 2048, 2048, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 8);
    if read {
        rig.command(18, 0, R1 | DATA, READ_MANY | auto);
    } else {
        rig.command(25, 0, R1 | DATA, WRITE_MANY | auto);
    }
    (buffer, table)
}

#[test]
fn a_lost_command_is_not_seen_and_a_lost_response_is() {
    for (point, seen) in [(Point::Command, 0), (Point::Response, 1)] {
        let mut rig = struck(point, &[Strike::Lost]);
        let start = rig.now;
        rig.command(13, 0, R1, 0);
        assert_eq!(rig.wait_for(CC), int::COMMAND_TIMEOUT | E);
        assert_eq!(rig.now - start, (48 + 64) * 5);
        assert_eq!(rig.card.0.borrow().commands.len(), seen);
    }
}

#[test]
fn the_nth_event_and_no_other() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    let faults = Faults::new(Plan::none().shot(Point::Response, 3, Strike::Crc));
    rig.host.set_faults(faults.clone());
    for n in 1..=4 {
        rig.command(13, 0, R1, 0);
        let wrong = if n == 3 { int::COMMAND_CRC | E } else { 0 };
        assert_eq!(rig.wait_for(CC), CC | wrong);
        rig.w8(0x2f, 2);
        rig.run(1000);
    }
    assert_eq!((faults.events(Point::Command), faults.events(Point::Response)), (4, 4));
    assert_eq!(faults.struck().len(), 1);
}

#[test]
fn status_bits_arrive_that_the_card_did_not_send() {
    let mut rig = struck(Point::Response, &[Strike::Status(1 << 22)]);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(CC), CC);
    assert_eq!(rig.r32(0x10), 0x900 | 1 << 22);
}

#[test]
fn the_end_before_the_response() {
    let mut rig = struck(Point::Response, &[Strike::Late(1_000_000)]);
    let written = rig.now;
    let memory = start(&mut rig, true, 0);
    assert_eq!(rig.wait_for(TC) & !int::DMA, TC);
    assert!(rig.now < written + 1_000_000);
    assert_eq!(rig.wait_for(CC), CC);
    assert_eq!(rig.now, written + 520 + 1_000_000);
    drop(memory);
    // After a reset of the CMD circuit the late status bit does not come any more.
    rig.next(Point::Response, &[Strike::Late(1_000_000)]);
    rig.command(13, 0, R1, 0);
    rig.run(10_000);
    rig.w8(0x2f, 2);
    rig.run(2_000_000);
    assert_eq!(rig.r32(0x30), 0);
}

#[test]
fn blocks_of_a_read() {
    for (strike, expected) in [
        (Strike::Crc, int::DATA_CRC | E),
        (Strike::CrcAndEnd, int::DATA_CRC | TC | E),
        (Strike::EndBit, int::DATA_END_BIT | E),
        (Strike::Lost, int::DATA_TIMEOUT | E),
        (Strike::Late(200_000_000_000), int::DATA_TIMEOUT | E),
        (Strike::Late(1_000_000), TC),
        (Strike::Flip(9), TC),
        (Strike::Remove, int::DATA_CRC | E),
        (Strike::Line(7), int::DATA_CRC | E),
    ] {
        let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
        rig.host.set_faults(Faults::new(Plan::none().shot(Point::ReadBlock, 3, strike)));
        let (buffer, _table) = start(&mut rig, true, 0);
        let seen = rig.wait_for(TC);
        assert_eq!(seen & !(CC | int::DMA), expected, "{strike:?}");
        let mut good = rig.card_bytes(0, 4096);
        let got = buffer.take();
        match strike {
            Strike::Flip(_) => {
                good[1025] ^= 0x40;
                assert!(got == good);
            }
            Strike::Late(1_000_000) => assert!(got == good),
            _ => assert!(got[..1024] == good[..1024] && got[1024..1536] != good[1024..1536], "{strike:?}"),
        }
        assert_eq!(rig.host.removed().is_some(), strike == Strike::Remove);
    }
}

#[test]
fn blocks_of_a_write() {
    for (strike, expected, taken) in [
        (Strike::Crc, int::DATA_CRC | E, false),
        (Strike::CrcAndEnd, int::DATA_CRC | TC | E, false),
        (Strike::EndBit, int::DATA_END_BIT | E, true),
        (Strike::NoStatus, int::DATA_TIMEOUT | E, true),
        (Strike::Lost, int::DATA_TIMEOUT | E, false),
        (Strike::Flip(0), TC, true),
        (Strike::Line(0), int::DATA_CRC | E, false),
    ] {
        let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
        rig.host.set_faults(Faults::new(Plan::none().shot(Point::WriteBlock, 3, strike)));
        let _memory = start(&mut rig, false, 0);
        let seen = rig.wait_for(TC);
        assert_eq!(seen & !(CC | int::DMA), expected, "{strike:?}");
        let mut sent = pattern(4096);
        if strike == Strike::Flip(0) {
            sent[1024] ^= 0x80;
        }
        assert_eq!(rig.card_bytes(2, 512) == sent[1024..1536], taken, "{strike:?}");
    }
}

#[test]
fn a_line_outside_of_the_width_does_no_harm() {
    let mut rig = struck(Point::Command, &[Strike::Line(5)]);
    rig.w16(0x3e, 8);
    rig.w8(0x28, 0x02);
    let (buffer, _table) = start(&mut rig, true, 0);
    assert_eq!(rig.wait_for(TC) & E, 0);
    assert!(buffer.take() == rig.card_bytes(0, 4096));
    rig.next(Point::Command, &[Strike::Line(1)]);
    let _memory = start(&mut rig, true, 0);
    assert_eq!(rig.wait_for(TC) & !(CC | int::DMA), int::DATA_CRC | E);
    assert_eq!(rig.r32(0x24) >> 20 & 0xf, 0xd, "DAT1 is low");
}

#[test]
fn interrupts_late_without_cause_and_with_a_wrong_one() {
    let mut rig = struck(Point::Interrupt, &[Strike::Late(50_000)]);
    let start = rig.now;
    rig.command(13, 0, R1, 0);
    assert_eq!((rig.interrupt(), rig.now - start), (CC, 520 + 50_000));
    rig.w32(0x30, CC);
    // The driver acknowledges the status before the late interrupt: the interrupt never comes.
    rig.next(Point::Interrupt, &[Strike::Late(50_000)]);
    rig.command(13, 0, R1, 0);
    rig.run(1000);
    rig.w32(0x30, CC);
    assert_eq!(rig.interrupt(), 0);
    rig.next(Point::Interrupt, &[Strike::Spurious(3)]);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.interrupt(), CC);
    rig.w32(0x30, CC);
    let ups = [0; 4].map(|_| {
        let up = rig.host.irq();
        assert_eq!(rig.r32(0x30), 0);
        up
    });
    assert_eq!(ups, [true, true, true, false]);
    rig.next(Point::Interrupt, &[Strike::Status(int::DATA_TIMEOUT)]);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.interrupt(), CC | int::DATA_TIMEOUT | E);
}

#[test]
fn a_storm_stops_where_nothing_is_signalled() {
    let mut rig = struck(Point::Interrupt, &[Strike::Spurious(u32::MAX)]);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.interrupt(), CC);
    rig.w32(0x30, CC);
    assert!(rig.host.irq());
    rig.w32(0x38, 0);
    assert!(!rig.host.irq());
    rig.w32(0x38, !0);
    assert!(rig.host.irq());
}

#[test]
fn dma_that_fails_stands_or_is_late() {
    let mut rig = struck(Point::Dma, &[Strike::Fail]);
    let memory = start(&mut rig, true, 0);
    assert_eq!(rig.wait_for(TC) & !CC, int::ADMA | E);
    drop(memory);
    let mut rig = struck(Point::Dma, &[Strike::Never]);
    let memory = start(&mut rig, true, 0);
    assert_eq!(rig.wait_for(TC), CC);
    assert_eq!(rig.host.next_event_ns(), None, "it stands");
    drop(memory);
    for (strike, end) in [(Strike::Late(10_000_000), TC | int::DMA), (Strike::Lost, TC)] {
        let mut rig = struck(Point::Dma, &[strike]);
        let (buffer, _table) = start(&mut rig, true, 0);
        assert_eq!(rig.wait_for(TC), CC | TC);
        rig.run(20_000_000);
        assert_eq!(rig.r32(0x30) | TC, end);
        assert!(buffer.take() == rig.card_bytes(0, 4096));
    }
}

#[test]
fn automatic_commands() {
    let cases = [(Strike::Lost, 2), (Strike::Crc, 4), (Strike::EndBit, 8), (Strike::Index, 16)];
    for (strike, status) in cases {
        // The automatic CMD23 fails: the main command is not sent.
        let mut rig = struck(Point::AutoCommand, &[strike]);
        let memory = start(&mut rig, true, 8);
        assert_eq!(rig.wait_for(CC), int::AUTO_COMMAND | E, "{strike:?}");
        assert_eq!(rig.auto_status, status);
        assert!(rig.card.0.borrow().commands.iter().all(|c| c.0 == 23));
        drop(memory);
        // The automatic CMD12 fails.
        let mut rig = struck(Point::AutoCommand, &[strike]);
        let _memory = start(&mut rig, true, 4);
        assert_eq!(rig.wait_for(TC) & !int::DMA, CC | int::AUTO_COMMAND | E, "{strike:?}");
        assert_eq!(rig.auto_status, status);
        let stops = rig.card.0.borrow().commands.iter().filter(|c| c.0 == 12).count();
        assert_eq!(stops, usize::from(strike != Strike::Lost));
    }
}

#[test]
fn data_inhibit_stays_until_everything_is_reset() {
    let mut rig = struck(Point::ReadBlock, &[Strike::Stuck]);
    let _memory = start(&mut rig, true, 0);
    assert_eq!(rig.wait_for(TC) & E, 0);
    for (bits, left) in [(4, 2), (1, 0)] {
        rig.w8(0x2f, bits);
        rig.run(1000);
        assert_eq!(rig.r32(0x24) & 3, left);
    }
}

#[test]
fn a_regulator_a_clock_and_a_reset_that_take_their_time() {
    let mut rig = struck(Point::Reset, &[Strike::Late(1_000_000)]);
    rig.w8(0x2f, 2);
    rig.run(900_000);
    assert_eq!(rig.r8(0x2f), 2);
    rig.run(200_000);
    assert_eq!(rig.r8(0x2f), 0);
    let mut rig = Rig::cold(SdhciConfig::GENERIC_4_20);
    rig.next(Point::Clock, &[Strike::Late(1_000_000)]);
    rig.w16(0x2c, 0x0001);
    rig.run(900_000);
    assert_eq!(rig.r16(0x2c) & 2, 0);
    rig.run(200_000);
    assert_eq!(rig.r16(0x2c) & 2, 2);
    rig.next(Point::Voltage, &[Strike::Fail]);
    rig.w16(0x3e, 8);
    rig.run(10_000_000);
    assert_eq!(rig.r16(0x3e) & 8, 0);
}

#[test]
fn tuning_that_finds_nothing_and_a_point_that_drifts() {
    let config = SdhciConfig { tuning_rounds: 2, ..SdhciConfig::GENERIC_4_20 };
    let tune = |rig: &mut Rig| {
        let control = rig.r16(0x3e);
        rig.w16(0x3e, control & !0x80 | 0x40);
        for _ in 0..2 {
            rig.set_up(64, 1);
            rig.command(19, 0, R1 | DATA, 0x10);
            assert_eq!(rig.wait_for(int::BUFFER_READ_READY), int::BUFFER_READ_READY);
        }
        rig.r16(0x3e) & 0xc0
    };
    let error = |rig: &Rig| rig.card.0.borrow().bus.sample_error;
    let mut rig = Rig::warm(config);
    rig.next(Point::Tuning, &[Strike::Fail]);
    assert_eq!(tune(&mut rig), 0);
    assert_eq!(tune(&mut rig), 0x80);
    assert_eq!(error(&rig), 0);
    rig.next(Point::Response, &[Strike::Drift]);
    rig.command(13, 0, R1, 0);
    rig.wait_for(CC);
    assert_eq!(error(&rig), config.untuned_sample_error);
    assert_eq!(tune(&mut rig), 0x80);
    assert_eq!(error(&rig), 0);
}

#[test]
fn a_card_that_loses_its_supply_for_a_moment() {
    let mut rig = struck(Point::Command, &[Strike::BrownOut]);
    let changes = rig.card.0.borrow().bus_changes;
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(CC), CC);
    let card = rig.card.0.borrow();
    assert_eq!(card.bus_changes - changes, 2, "off and on");
    assert_eq!(card.bus, *rig.host.bus());
    assert!(!rig.host.irq());
}

#[test]
fn a_card_that_a_fault_took_out_can_be_put_back() {
    let mut rig = struck(Point::Command, &[Strike::Remove]);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(CC), int::COMMAND_TIMEOUT | E);
    assert_eq!(rig.wait_for(int::REMOVAL), int::REMOVAL);
    let card: Box<dyn Card> = rig.host.removed().unwrap();
    rig.host.insert(card, rig.now);
    assert_eq!(rig.wait_for(int::INSERTION), int::INSERTION);
}

/// Checks who is blamed when the clock stops. The controller may stop the clock by itself, even in
/// the middle of a block; then the driver breaks no rule. A driver that stops the clock for a
/// present card breaks a rule, and the model names it.
#[test]
fn a_clock_that_stops_in_a_block_is_the_drivers_doing_or_the_controllers() {
    let late = || {
        let mut rig = struck(Point::ReadBlock, &[Strike::Late(3_000_000)]);
        let memory = start(&mut rig, true, 0);
        assert_eq!(rig.wait_for(CC), CC);
        (rig, memory)
    };
    let (mut rig, _memory) = late();
    assert!(rig.host.remove(rig.now).is_some());
    assert_eq!(rig.wait_for(int::REMOVAL), int::REMOVAL);
    assert_eq!((rig.r32(0x24) >> 9 & 1, rig.r16(0x2c) & 4), (1, 0), "the block is still waited for");
    assert_eq!((rig.host.protocol_violations(), rig.host.first_violation()), (0, None));
    let (mut rig, _memory) = late();
    let clock = rig.r16(0x2c);
    rig.w16(0x2c, clock & !4);
    rig.w16(0x2c, clock);
    let (at_ns, what) = rig.host.first_violation().unwrap();
    assert_eq!((rig.host.protocol_violations(), at_ns), (2, rig.now));
    assert!(what.contains("clock changed") && what.contains("[SDHC 3.2.3]"), "{what}");
}

#[test]
fn a_controller_that_is_gone_does_nothing_more() {
    let mut rig = struck(Point::ReadBlock, &[Strike::Gone]);
    let _memory = start(&mut rig, true, 0);
    rig.run(1_000_000_000);
    assert_eq!((rig.r32(0x30), rig.host.irq(), rig.host.next_event_ns()), (!0, false, None));
}
