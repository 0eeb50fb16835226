//! Tests of status, status enable, signal enable and the interrupt line; of inhibit bits; of busy.

use super::rig::*;
use crate::faults::{Point, Strike};
use crate::sdhci::{Busy, Sdhci, SdhciConfig, bits::int};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::Direction;

const CC: u32 = int::COMMAND_COMPLETE;
const TC: u32 = int::TRANSFER_COMPLETE;

#[test]
fn advance_stops_at_the_moment_the_line_rises() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    let start = rig.now;
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.host.next_event_ns(), Some(start + 240));
    let at = rig.host.advance(start + 1_000_000);
    assert_eq!((at, rig.host.irq(), rig.host.irq_rose_ns()), (start + 520, true, Some(start + 520)));
    assert_eq!(rig.host.advance(start + 1_000_000), start + 1_000_000, "it is high already");
    assert_eq!(rig.host.next_event_ns(), None);
}

#[test]
fn a_status_that_is_not_enabled_is_not_set() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.w32(0x34, !CC);
    rig.command(13, 0, R1, 0);
    rig.run(10_000);
    assert_eq!((rig.r32(0x30), rig.host.irq()), (0, false));
    rig.w32(0x34, !0);
    assert_eq!(rig.r32(0x30), 0, "an event is not remembered");
    assert_eq!(rig.r32(0x34), 0xffff_71ff, "only bits that exist");
}

#[test]
fn a_status_without_signal_is_seen_but_does_not_interrupt() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.w32(0x38, 0);
    rig.command(13, 0, R1, 0);
    rig.run(10_000);
    assert_eq!((rig.r32(0x30), rig.host.irq()), (CC, false));
    assert_eq!(rig.r8(0xfc), 0);
    rig.w32(0x38, CC);
    assert!(rig.host.irq(), "the line is a level");
    assert_eq!(rig.r8(0xfc), 1);
}

#[test]
fn ones_clear_zeros_do_not_and_the_error_summary_follows() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.w16(0x52, 0x0031);
    rig.command(13, 0, R1, 0);
    rig.run(10_000);
    assert_eq!(rig.r32(0x30), 0x0031_8001);
    rig.w16(0x30, 0x8000);
    assert_eq!(rig.r16(0x30), 0x8001, "the summary is read-only");
    rig.w16(0x32, 0x0030);
    assert_eq!(rig.r32(0x30), 0x0001_8001);
    rig.w8(0x30, 1);
    assert_eq!(rig.r32(0x30), 0x0001_8000);
    assert!(rig.host.irq());
    rig.w32(0x30, 0xffff_0000);
    assert_eq!((rig.r32(0x30), rig.host.irq()), (0, false));
}

#[test]
fn the_card_interrupt_is_a_level_that_only_the_card_clears() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.host.set_card_interrupt(true, rig.now);
    assert_eq!(rig.interrupt(), int::CARD);
    rig.w32(0x30, int::CARD);
    assert_eq!(rig.r32(0x30), int::CARD);
    rig.w32(0x34, !int::CARD);
    assert_eq!((rig.r32(0x30), rig.host.irq()), (0, false), "masked by its status enable");
    rig.w32(0x34, !0);
    assert_eq!(rig.r32(0x30), int::CARD, "and back");
    rig.host.set_card_interrupt(false, rig.now);
    assert_eq!((rig.r32(0x30), rig.host.irq()), (0, false));
}

#[test]
fn force_events_set_auto_command_errors_too() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.w16(0x50, 0x0004);
    assert_eq!(rig.r32(0x30), int::AUTO_COMMAND | int::ERROR);
    assert_eq!(rig.r16(0x3c), 4);
}

#[test]
fn a_command_while_inhibited_is_dropped_and_counted() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.command(13, 1, R1, 0);
    assert_eq!(rig.r32(0x24) & 3, 1);
    rig.command(13, 2, R1, 0);
    assert_eq!(rig.host.protocol_violations(), 1);
    rig.run(10_000);
    let seen: Vec<_> = rig.card.0.borrow().commands.iter().map(|c| (c.0, c.1)).collect();
    assert_eq!(seen, [(13, 1)]);
}

#[test]
fn while_data_move_commands_without_data_pass_and_others_are_dropped() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    rig.card.0.borrow_mut().access_ns = 100_000;
    let buffer = rig.mapped(vec![0; 4096], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 4096, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 8);
    rig.command(18, 0, R1 | DATA, READ_MANY);
    assert_eq!(rig.wait_for(CC), CC);
    assert_eq!(rig.r32(0x24) & 0x207, 0x206, "read transfer active, DAT active, DAT inhibit");
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(CC), CC);
    rig.command(18, 0, R1 | DATA, READ_MANY);
    rig.command(7, 0, R1B, 0);
    assert_eq!(rig.host.protocol_violations(), 2);
    assert_eq!(rig.wait_for(TC), TC);
    assert!(buffer.take() == rig.card_bytes(0, 4096));
}

#[test]
fn r1b_completes_when_dat0_is_released() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().r1b_busy_ns = 1_000_000;
    let start = rig.now;
    rig.command(7, 0, R1B, 0);
    assert_eq!(rig.wait_for(CC), CC);
    assert_eq!(rig.r32(0x24) & (1 << 20 | 6), 6, "DAT0 is low, DAT inhibited and active");
    assert_eq!(rig.wait_for(TC), TC);
    assert_eq!(rig.now - start, 520 + 1_000_000);
    assert_eq!(rig.r32(0x24) & (1 << 20 | 6), 1 << 20);
    rig.card.0.borrow_mut().r1b_busy_ns = 0;
    rig.command(12, 0, R1B, 0);
    assert_eq!(rig.wait_for(CC | TC), CC | TC, "no busy: at once");
}

#[test]
fn a_controller_that_ignores_busy_completes_early_and_holds_the_next_write() {
    let mut rig = Rig::warm(SdhciConfig { busy: Busy::Ignored, ..SdhciConfig::GENERIC_4_20 });
    rig.select(2);
    rig.card.0.borrow_mut().write_busy_ns = 500_000;
    let mut times = Vec::new();
    for _ in 0..2 {
        let buffer = rig.mapped(pattern(512), Direction::Write);
        let table = rig.table(8, &[(buffer.bus, 512, 0x23)]);
        rig.point_at(&table);
        rig.set_up(512, 1);
        let start = rig.now;
        rig.command(24, 0, R1 | DATA, 0x01);
        assert_eq!(rig.wait_for(CC | TC), CC | TC);
        assert_eq!(rig.r32(0x24) & 1 << 20, 0, "the card is still busy");
        times.push(rig.now - start);
    }
    assert_eq!(times[0], 520 + 1_410 + 50);
    assert!(times[1] > 490_000, "the second block waited for DAT0: {} ns", times[1]);
    rig.card.0.borrow_mut().r1b_busy_ns = 1_000_000;
    let start = rig.now;
    rig.command(7, 0, R1B, 0);
    rig.wait_for(CC | TC);
    assert_eq!(rig.now - start, 520);
}

#[test]
fn a_lost_interrupt_leaves_its_status() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.next(Point::Interrupt, &[Strike::Lost]);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.interrupt(), 0);
    assert_eq!(rig.r32(0x30), CC);
    rig.w32(0x30, CC);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.interrupt(), CC);
}

#[test]
fn an_abort_that_comes_just_too_late_still_waits_for_its_busy() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    rig.card.0.borrow_mut().r1b_busy_ns = 20_000;
    let buffer = rig.mapped(vec![0; 512], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 512, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 1);
    rig.command(18, 0, R1 | DATA, READ_MANY);
    assert_eq!(rig.wait_for(CC), CC);
    // The block ends 1.41 us after the response. The abort command takes 0.24 us, so it ends after
    // the block.
    rig.run(1_300);
    let written = rig.now;
    rig.command(12, 0, R1B | ABORT, 0);
    assert_eq!(rig.wait_for(TC), TC, "of the data");
    assert_eq!(rig.wait_for(CC | TC), CC | TC, "of CMD12");
    assert_eq!(rig.now - written, 240 + 20_000);
}

#[test]
fn after_a_reset_of_dat_busy_is_not_waited_for() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().r1b_busy_ns = 20_000;
    rig.command(7, 0, R1B, 0);
    rig.w8(0x2f, 4);
    assert_eq!(rig.wait_for(CC), CC);
    rig.run(1_000_000);
    assert_eq!((rig.r32(0x30), rig.r32(0x24) & 3), (0, 0));
}

#[test]
fn a_command_that_ends_in_the_gap_between_blocks_comes_before_the_next_block() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    let buffer = rig.mapped(vec![0; 1024], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 1024, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 2);
    let start = rig.now;
    rig.command(18, 0, R1 | DATA, READ_MANY);
    assert_eq!(rig.wait_for(CC), CC);
    // The first block ends 1.41 us after the response. The gap takes 40 ns, the abort command 240
    // ns.
    rig.run(1_410 - 220);
    rig.command(13, 0, R1, 0);
    assert_eq!(rig.wait_for(TC) & (TC | int::ERRORS), TC);
    assert_eq!(rig.card.0.borrow().commands.last(), Some(&(13, 0, start + 520 + 1_410 + 20)));
    assert_eq!(rig.now, start + 520 + 2 * 1_410);
    assert!(buffer.take() == rig.card_bytes(0, 1024));
}

#[test]
fn a_function_of_an_io_card_holds_the_interrupt_until_it_is_cleared() {
    let mut rig = Rig::cold(SdhciConfig::GENERIC_3_00);
    let (card, handles) = crate::card::io::tests::type_a().build();
    rig.host = Sdhci::new(SdhciConfig::GENERIC_3_00, rig.memory.clone(), Some(Box::new(card)));
    rig.w8(0x29, 0x0f);
    rig.w16(0x2c, 0x7d01);
    rig.run(100_000);
    rig.w16(0x2c, 0x7d05);
    rig.run(2_000_000);
    rig.w8(0x2e, 0x0e);
    rig.w32(0x34, !0);
    rig.w32(0x38, !0);
    let short = |rig: &mut Rig, index, arg, flags| {
        rig.command(index, arg, flags, 0);
        assert_eq!(rig.wait_for(CC) & 0x8000, 0, "CMD{index}");
        rig.r32(0x10)
    };
    let put = |rig: &mut Rig, number: u32, address: u32, value: u32| {
        short(rig, 52, 1 << 31 | number << 28 | address << 9 | value, R1);
    };
    short(&mut rig, 5, 0x00ff_8000, 0x02);
    rig.run(30_000_000);
    assert_eq!(short(&mut rig, 5, 0x00ff_8000, 0x02) >> 31, 1);
    let rca = short(&mut rig, 3, 0, R1);
    short(&mut rig, 7, rca, R1);
    put(&mut rig, 0, 7, 2);
    rig.w8(0x28, 0x02);
    put(&mut rig, 0, 2, 2);
    rig.run(10_000_000);
    put(&mut rig, 0, 4, 3);
    put(&mut rig, 1, 0x14, 1);
    let enabled = rig.now;
    assert_eq!(rig.interrupt(), int::CARD);
    let waited = rig.now - enabled;
    // The packet comes one period after the end of the command, whose response took 56 clocks.
    assert_eq!(waited, 4_000_000 - 140_000);
    rig.w32(0x30, int::CARD);
    assert_eq!(rig.r32(0x30), int::CARD);
    // The card can send the packet's header while its interrupt stays asserted.
    rig.set_up(4, 1);
    rig.command(53, 1 << 28 | 4, R1 | DATA, 0x10);
    rig.w32(0x34, !int::CARD);
    rig.wait_for(int::BUFFER_READ_READY);
    assert_eq!(rig.r32(0x20), 0x0200_0804);
    rig.w32(0x34, !0);
    assert_eq!(rig.r32(0x30) & int::CARD, int::CARD);
    rig.w32(0x38, !int::CARD);
    put(&mut rig, 1, 0x13, 1);
    assert_eq!(rig.r32(0x30) & int::CARD, 0);
    assert_eq!(handles[0].1.borrow().latency_ns.len(), 1);
    rig.host.remove(rig.now);
    assert_eq!(rig.r32(0x30) & int::CARD, 0);
}
