//! Tests of commands and data without errors.

use super::rig::*;
use crate::rtsx::RtsxConfig;
use crate::rtsx::bits::{card, dma, int, sd, window as w};
use crate::rtsx::{BusEvent, blocks};
use crate::slot::Controller;
use mmcq::host::Direction;

#[test]
fn responses_are_where_a_driver_looks() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    assert_eq!(rig.command(0, 0, R0), DONE);
    assert_eq!(rig.command(13, 0x1234_5678, R1), DONE);
    assert_eq!(rig.response(), (13, 0x900));
    assert_eq!(rig.card.0.borrow().commands.last().map(|c| (c.0, c.1)), Some((13, 0x1234_5678)));
    assert_eq!(rig.command(2, 0, R2), DONE);
    assert_eq!(rig.get(sd::CMD0), 0x3f);
    let long: Vec<u8> = (0..16).map(|i| rig.get(sd::PING_PONG + i)).collect();
    assert_eq!((long[0], &long[1..]), (0x3f, &CID[..]));
    assert_eq!((rig.get(sd::STAT1), rig.get(sd::TRANSFER)), (0, 0x68));
    rig.assert_clean();
}

#[test]
fn r1b_waits_for_dat0_and_the_levels_are_sampled_by_the_clock() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.card.0.borrow_mut().r1b_busy_ns = 300_000;
    let start = rig.now;
    assert_eq!(rig.command(7, 0, R1B), DONE);
    assert!(rig.now - start > 300_000 && rig.now - start < 320_000);
    // Without the wait for busy the list ends while the card is still busy.
    assert_eq!(rig.command(7, 0, R1), DONE);
    assert_eq!(rig.get(sd::BUS_STAT), 0x1d, "DAT0 low");
    rig.run(400_000);
    assert_eq!(rig.get(sd::BUS_STAT), 0x1d, "old, as no clock ran since");
    rig.set(sd::BUS_STAT, sd::TOGGLE, sd::TOGGLE);
    assert_eq!(rig.get(sd::BUS_STAT), 0x9f);
    // A CHECK entry can also wait for a line level.
    rig.card.0.borrow_mut().r1b_busy_ns = 50_000;
    assert_eq!(rig.command(7, 0, R1), DONE);
    let start = rig.now;
    assert_eq!(rig.run_list(&[ck(sd::BUS_STAT, 2, 2)]), DONE);
    assert!(rig.now - start < 70_000);
    rig.assert_clean();
}

#[test]
fn small_data_go_through_the_ping_pong_buffer() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let mut list = token(17, 5, R1);
    list.extend([wr(sd::BYTE_CNT, 0xff, 0), wr(sd::BYTE_CNT + 1, 0xff, 2)]);
    list.extend([wr(sd::BLOCK_CNT, 0xff, 1), wr(sd::BLOCK_CNT + 1, 0xff, 0)]);
    list.push(wr(card::DATA_SOURCE, 1, 1));
    list.extend([wr(sd::TRANSFER, 0xff, NORMAL_READ | sd::START), ended()]);
    assert_eq!(rig.run_list(&list), DONE);
    let bytes: Vec<u8> = (0..512).map(|i| rig.get(sd::PING_PONG + i)).collect();
    assert!(bytes == rig.card_bytes(5, 512));
    // A write: the command alone, then the bytes of the buffer, then the block.
    assert_eq!(rig.command(24, 9, R1), DONE);
    let data = pattern(512);
    let fill: Vec<u32> = (0..).zip(&data).map(|(i, &byte)| wr(sd::PING_PONG + i, 0xff, byte)).collect();
    for part in fill.chunks(256) {
        assert_eq!(rig.run_list(part), DONE);
    }
    let go = [wr(sd::CFG2, 0xff, R0), wr(sd::TRANSFER, 0xff, WRITE_3 | sd::START), ended()];
    assert_eq!(rig.run_list(&go), DONE);
    assert!(data == rig.card_bytes(9, 512));
    assert_eq!(rig.get(sd::STAT1), sd::STATUS_GOOD);
    rig.assert_clean();
}

#[test]
fn reads_of_any_length_arrive_byte_for_byte() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    for blocks in [1, 2, 3, 8, 127, 256] {
        let buffer = rig.mapped(blocks * 512);
        assert_eq!(rig.read(Some((18, 7)), &buffer, 0), DONE | DATA);
        assert!(buffer.take() == rig.card_bytes(7, blocks * 512));
        assert_eq!(rig.get(dma::IRQSTAT0), dma::DONE);
        assert_eq!(rig.command(12, 0, R1B), DONE);
    }
    let buffer = rig.mapped(512);
    assert_eq!(rig.read(Some((17, 3)), &buffer, 0), DONE | DATA);
    assert!(buffer.take() == rig.card_bytes(3, 512));
    rig.assert_clean();
}

#[test]
fn an_open_read_goes_on_without_a_command() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let mut all = Vec::new();
    for part in 0..4 {
        let buffer = rig.mapped(8 * 512);
        let command = (part == 0).then_some((18, 100));
        assert_eq!(rig.read(command, &buffer, 0), DONE | DATA);
        all.extend(buffer.take());
        rig.run(part * 1_000_000);
    }
    assert_eq!(rig.command(12, 0, R1B), DONE);
    assert!(all == rig.card_bytes(100, 32 * 512));
    let stats = rig.host.take_stats();
    assert_eq!((stats.commands[18], stats.commands[12], stats.command_count()), (1, 1, 2));
    assert_eq!((stats.blocks_read, stats.blocks_bad), (32, 0));
    rig.assert_clean();
}

#[test]
fn an_open_write_goes_on_without_a_command() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.card.0.borrow_mut().write_busy_ns = 5_000;
    let data = pattern(24 * 512);
    assert_eq!(rig.write(Some((25, 40)), &data[..4096], 0), DONE | DATA);
    assert_eq!(rig.write(None, &data[4096..8192], 0), DONE | DATA);
    let end = rig.now;
    assert_eq!(rig.write(None, &data[8192..], sd::WAIT_BUSY_END), DONE | DATA);
    assert!(rig.now - end > 8 * 5_000);
    assert_eq!(rig.command(12, 0, R1B), DONE);
    assert!(data == rig.card_bytes(40, 24 * 512));
    // A write as drivers do it: the command alone, then the data.
    assert_eq!(rig.command(25, 7, R1), DONE);
    assert_eq!(rig.write(None, &data[..512], 0), DONE | DATA);
    assert_eq!(rig.command(12, 0, R1B), DONE);
    assert!(data[..512] == rig.card_bytes(7, 512));
    assert_eq!(rig.host.stats().commands[25], 2);
    rig.assert_clean();
}

#[test]
fn times_of_a_read_at_sdr104() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    rig.card.0.borrow_mut().access_ns = 50_000;
    rig.host.take_stats();
    let buffer = rig.mapped(4096);
    let start = rig.now;
    let entries = token(18, 0, R1).len() + data_set_up(4096, true).len() + 2;
    assert_eq!(rig.read(Some((18, 0)), &buffer, 0), DONE | DATA);
    // The command takes 104 clocks, each of 8 blocks 1050 clocks. Then come the last 512 bytes into
    // memory at 250 MB/s, and the end of the list; its CHECK waits during the transfer.
    let wire_ns = (104 + 8 * 1_050) * 1_000 / 208;
    let expected = 8_000 + (entries as u64 - 1) * 40 + wire_ns + 50_000 + 2_048;
    assert!((rig.now - start).abs_diff(expected) <= 2, "{} {expected}", rig.now - start);
    let stats = rig.host.stats();
    assert_eq!((stats.access_ns, stats.held_ns, stats.bytes, stats.descriptors), (50_000, 0, 4096, 1));
    assert_eq!(stats.data_ns, 8 * 1_050 * 1_000 / 208);
    rig.assert_clean();
}

#[test]
fn dma_that_comes_late_lets_the_clock_stand() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let buffer = rig.mapped(8 * 512);
    rig.host.take_stats();
    assert_eq!(rig.read(Some((18, 1)), &buffer, 500_000), DONE | DATA);
    let held = rig.host.stats().held_ns;
    assert!((450_000..500_000).contains(&held), "the ring holds two blocks: {held}");
    assert!(buffer.take() == rig.card_bytes(1, 4096));
    assert_eq!(rig.get(sd::TRANSFER), 0x60 | READ_2);
    rig.assert_clean();
}

#[test]
fn dma_triggered_before_the_list_waits_for_it() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let buffer = rig.mapped(1024);
    rig.trigger(&[(buffer.bus, 512, 0x21), (buffer.bus + 512, 512, 0x23)], true);
    rig.run(100_000);
    let mut list = token(18, 2, R1);
    list.extend(data_set_up(1024, true));
    list.extend([wr(sd::TRANSFER, 0xff, READ_2 | sd::START), ended()]);
    rig.start_list(&list, 0);
    assert_eq!(rig.r(w::HDBCTLR) >> 31, 1);
    assert_eq!(rig.wait_for(DONE | DATA), DONE | DATA);
    assert_eq!(rig.r(w::HDBCTLR) >> 31, 0);
    assert!(buffer.take() == rig.card_bytes(2, 1024));
    rig.assert_clean();
}

#[test]
fn data_are_done_before_the_list_that_waits_for_them() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let buffer = rig.mapped(512);
    let mut list = token(17, 2, R1);
    list.extend(data_set_up(512, true));
    list.extend([wr(sd::TRANSFER, 0xff, READ_2 | sd::START), ended()]);
    rig.start_list(&list, 0);
    rig.trigger(&[(buffer.bus, 512, 0x23)], true);
    assert_eq!(rig.wait_for(int::TRANS_OK), DATA);
    let data_ns = rig.now;
    assert_eq!(rig.wait_for(int::TRANS_OK), DONE);
    assert_eq!(rig.now - data_ns, 4_000);
    // In a write, the end of the DMA is reported with that of the transfer.
    rig.card.0.borrow_mut().write_busy_ns = 100_000;
    let data = Mapped::new(&rig.memory, pattern(512), Direction::Write);
    assert_eq!(rig.command(24, 3, R1), DONE);
    let mut list = vec![wr(sd::CFG2, 0xff, R0 | sd::WAIT_BUSY_END)];
    list.extend(data_set_up(512, false));
    list.extend([wr(sd::TRANSFER, 0xff, WRITE_3 | sd::START), ended()]);
    rig.start_list(&list, 0);
    rig.trigger(&[(data.bus, 512, 0x23)], false);
    let begin_ns = rig.now;
    assert_eq!(rig.wait_for(int::TRANS_OK), DATA);
    assert!(rig.now - begin_ns > 100_000);
    let data_ns = rig.now;
    assert_eq!(rig.wait_for(int::TRANS_OK), DONE);
    assert_eq!(rig.now - data_ns, 4_000);
    rig.assert_clean();
}

#[test]
fn tuning_compares_the_block_in_the_chip() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let mut list = token(19, 0, R1);
    list.extend([wr(sd::BYTE_CNT, 0xff, 64), wr(sd::BYTE_CNT + 1, 0xff, 0)]);
    list.extend([wr(sd::TRANSFER, 0xff, TUNING | sd::START), ended()]);
    assert_eq!(rig.run_list(&list), FAILED, "the scripted card sends something else");
    assert_eq!((rig.get(sd::STAT1), rig.get(sd::TRANSFER)), (sd::TUNING_ERR, 0x3f));
    rig.set(card::STOP, 0x44, 0x44);
    rig.card.0.borrow_mut().blocks[..64].copy_from_slice(&blocks::TUNING_BLOCK);
    assert_eq!(rig.run_list(&list), DONE);
    rig.assert_clean();
}

#[test]
fn the_log_tells_what_went_over_the_bus() {
    let events = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    let sink = events.clone();
    rig.host.set_log(Some(Box::new(move |event| sink.borrow_mut().push(event))));
    let buffer = rig.mapped(1024);
    assert_eq!(rig.read(Some((18, 1)), &buffer, 0), DONE | DATA);
    let names: Vec<_> = events
        .borrow()
        .iter()
        .map(|event| match event {
            BusEvent::Command { index, .. } => format!("C{index}"),
            BusEvent::Response { index, content, .. } => format!("R{index} {content:x}"),
            BusEvent::Block { good, bytes, .. } => format!("B{bytes} {good}"),
            BusEvent::Busy { .. } => "busy".into(),
            BusEvent::Interrupt { .. } => "I".into(),
        })
        .collect();
    assert_eq!(names, ["C18", "R18 900", "B512 true", "B512 true", "I", "I"]);
}
