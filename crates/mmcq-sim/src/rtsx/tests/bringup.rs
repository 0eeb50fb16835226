//! Tests with the card model: power-up to SDR104, tuning by phases, open transfers.

use super::rig::*;
use crate::card::{CardProfile, Fill, Medium};
use crate::rtsx::RtsxConfig;
use crate::rtsx::bits::{card, clk, sd};
use crate::slot::Controller;

fn with_card(config: RtsxConfig) -> Rig {
    let text = crate::cards::named("sdxc-128g-uhs").unwrap();
    let profile = CardProfile::from_toml(text, "sdxc-128g-uhs").unwrap();
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Zeros).unwrap();
    let inside = profile.build(medium).unwrap();
    Rig::with_card(config, TestCard::new(), inside)
}

fn ok(rig: &mut Rig, index: u8, arg: u32, response: u8) -> u32 {
    assert_eq!(rig.command(index, arg, response), DONE, "CMD{index}");
    let (first, content) = rig.response();
    assert_eq!(first, if response == R3 { 0x3f } else { index });
    content
}

/// Brings the card up to 4 lines at 1.8 V and 25 MHz. Returns its RCA.
fn identify(rig: &mut Rig) -> u32 {
    rig.power_up();
    assert_eq!(rig.command(0, 0, R0), DONE);
    assert_eq!(ok(rig, 8, 0x1aa, R1), 0x1aa);
    let mut ocr = 0;
    for _ in 0..1_000 {
        ok(rig, 55, 0, R1);
        ocr = ok(rig, 41, 0x5130_0000, R3);
        if ocr >> 31 == 1 {
            break;
        }
        rig.run(5_000_000);
    }
    assert_eq!(ocr >> 24, 0xc1, "ready, block addressed, takes 1.8 V");
    // The voltage switch by CMD11 begins here.
    rig.set(sd::BUS_STAT, sd::TOGGLE, sd::TOGGLE);
    ok(rig, 11, 0, R1);
    assert_eq!(rig.get(sd::BUS_STAT) & sd::LINES, sd::LINES, "not yet low");
    rig.run(1_000_000);
    assert_eq!(rig.get(sd::BUS_STAT) & sd::LINES, 0);
    rig.set(sd::BUS_STAT, sd::FORCE_STOP, sd::FORCE_STOP);
    rig.low_voltage(true);
    rig.run(6_000_000);
    rig.set(sd::BUS_STAT, sd::FORCE_STOP, 0);
    rig.run(1_000_000);
    assert_eq!(rig.get(sd::BUS_STAT) & sd::LINES, sd::LINES);
    rig.set(sd::BUS_STAT, sd::TOGGLE, 0);
    assert_eq!(rig.command(2, 0, R2), DONE);
    let rca = ok(rig, 3, 0, R1) & 0xffff_0000;
    assert_eq!(rig.command(9, rca, R2), DONE);
    ok(rig, 7, rca, R1B);
    ok(rig, 55, rca, R1);
    ok(rig, 6, 2, R1);
    rig.set(sd::CFG1, 0xff, 1);
    rig.clock(98, 0x20);
    rca
}

/// Sends CMD19. Returns whether the tuning block was right.
fn tunes(rig: &mut Rig) -> bool {
    let mut list = token(19, 0, R1);
    list.extend([wr(sd::BYTE_CNT, 0xff, 64), wr(sd::BYTE_CNT + 1, 0xff, 0)]);
    list.extend([wr(sd::BLOCK_CNT, 0xff, 1), wr(sd::BLOCK_CNT + 1, 0xff, 0)]);
    list.extend([wr(card::DATA_SOURCE, 1, 1), wr(sd::TRANSFER, 0xff, TUNING | sd::START), ended()]);
    let good = rig.run_list(&list) == DONE;
    if !good {
        rig.set(card::STOP, 0x44, 0x44);
    }
    good
}

#[test]
fn a_card_goes_from_power_up_to_sdr104_and_its_data_are_whole() {
    let mut rig = with_card(RtsxConfig::GENERIC);
    let rca = identify(&mut rig);
    // CMD6 selects SDR104.
    let mut list = token(6, 0x80ff_fff3, R1);
    list.extend([wr(sd::BYTE_CNT, 0xff, 64), wr(sd::BYTE_CNT + 1, 0xff, 0)]);
    list.extend([wr(card::DATA_SOURCE, 1, 1), wr(sd::TRANSFER, 0xff, NORMAL_READ | sd::START), ended()]);
    assert_eq!(rig.run_list(&list), DONE);
    assert_eq!(rig.get(sd::PING_PONG + 16) & 0xf, 3, "switched");
    rig.set(sd::CFG1, 0xff, sd::MODE_SD30 | 1);
    rig.clock(206, 0x10);
    assert!(!tunes(&mut rig), "phases in reset");
    rig.phase(clk::VPTX, 1);
    let map: Vec<bool> = (0..32)
        .map(|phase| {
            rig.phase(clk::VPRX, phase);
            tunes(&mut rig)
        })
        .collect();
    let good: Vec<usize> = (0..32).filter(|&i| map[i]).collect();
    assert_eq!(good, (7..=17).collect::<Vec<_>>());
    rig.phase(clk::VPRX, 12);
    assert!(tunes(&mut rig));

    let data = pattern(16 * 512);
    assert_eq!(rig.write(Some((25, 1000)), &data[..4096], 0), DONE | DATA);
    assert_eq!(rig.write(None, &data[4096..], 0), DONE | DATA);
    ok(&mut rig, 12, 0, R1B);
    assert_eq!(ok(&mut rig, 13, rca, R1) >> 9 & 15, 4, "tran");
    let mut seen = Vec::new();
    for part in 0..2 {
        let buffer = rig.mapped(4096);
        assert_eq!(rig.read((part == 0).then_some((18, 1000)), &buffer, 3_000), DONE | DATA);
        seen.extend(buffer.take());
        assert_eq!(ok(&mut rig, 13, rca, R1) >> 9 & 15, 5, "data: the transfer stays open");
    }
    ok(&mut rig, 12, 0, R1B);
    assert!(seen == data);
    assert_eq!(ok(&mut rig, 13, rca, R1), 0x900);
    // At a phase outside of the good ones nothing works.
    rig.phase(clk::VPRX, 28);
    assert_eq!(rig.command(13, rca, R1), FAILED);
    rig.assert_clean();
}

#[test]
fn ddr50_and_default_speed_need_no_phase() {
    let mut rig = with_card(RtsxConfig::GENERIC);
    identify(&mut rig);
    let mut list = token(6, 0x80ff_fff4, R1);
    list.extend([wr(sd::BYTE_CNT, 0xff, 64), wr(sd::BYTE_CNT + 1, 0xff, 0)]);
    list.extend([wr(card::DATA_SOURCE, 1, 1), wr(sd::TRANSFER, 0xff, NORMAL_READ | sd::START), ended()]);
    assert_eq!(rig.run_list(&list), DONE);
    assert_eq!(rig.get(sd::PING_PONG + 16) & 0xf, 4, "switched");
    rig.set(sd::CFG1, 0xff, sd::MODE_DDR | 1);
    rig.clock(98, 0x10);
    let data = pattern(4096);
    assert_eq!(rig.write(Some((25, 8)), &data, sd::WAIT_BUSY_END), DONE | DATA);
    assert_eq!(rig.command(12, 0, R1B), DONE);
    let buffer = rig.mapped(4096);
    rig.host.take_stats();
    assert_eq!(rig.read(Some((18, 8)), &buffer, 0), DONE | DATA);
    assert!(buffer.take() == data);
    // A block has 8 + 1 + 512 + 17 clocks of 20 ns.
    assert_eq!(rig.host.stats().data_ns, 8 * 538 * 20);
    rig.assert_clean();
}
