//! Tests of how a card enters SPI mode, and of its commands there [SD 7.2, 7.3].

use super::master::{Master, frame};
use crate::slot::Controller;
use crate::spi::Habits;

#[test]
fn the_frames_of_the_standard() {
    assert_eq!(frame(0, 0), [0x40, 0, 0, 0, 0, 0x95]);
    assert_eq!(frame(8, 0x1aa), [0x48, 0, 0, 1, 0xaa, 0x87]);
}

#[test]
fn cmd0_with_chip_select_low_and_a_good_checksum() {
    let mut m = Master::new("sdhc-16g-hs");
    // The card ignores everything before it has got its clocks; clocks with chip select low do not
    // count.
    m.bus.select(true, m.now_ns);
    m.send(&[0xff; 20]);
    assert_eq!(m.command(0, 0), 0xff);
    m.bus.select(false, m.now_ns);
    m.send(&[0xff; 9]);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.command(0, 0), 0xff, "72 clocks");
    m.bus.select(false, m.now_ns);
    m.send(&[0xff; 1]);
    // With chip select high, CMD0 leaves the card in SD mode.
    m.send(&frame(0, 0));
    m.bus.select(true, m.now_ns);
    assert_eq!(m.command(58, 0), 0xff);
    m.send(&[0x40, 0, 0, 0, 0, 0x97]);
    assert_eq!(m.response(), 0xff, "wrong checksum");
    // A byte of N_CR, then R1.
    m.send(&frame(0, 0));
    assert_eq!(m.take(3), [0xff, 0x01, 0xff]);
}

#[test]
fn a_millisecond_of_supply_comes_first() {
    let mut m = Master::new("sdhc-16g-hs");
    m.now_ns = 0;
    m.send(&[0xff; 10]);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.command(0, 0), 0xff);
    m.now_ns = 1_000_000;
    assert_eq!(m.command(0, 0), 0x01);
}

#[test]
fn identification_at_400_khz_at_most() {
    let mut m = Master::new("sdhc-16g-hs");
    m.bus.set_clock(1_000_000, m.now_ns);
    m.send(&[0xff; 10]);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.command(0, 0), 0xff);
    m.bus.set_clock(400_000, m.now_ns);
    assert_eq!(m.command(0, 0), 0x01);
}

fn idle(file: &str) -> Master {
    let mut m = Master::new(file);
    m.send(&[0xff; 10]);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.command(0, 0), 0x01);
    m
}

#[test]
fn what_an_idle_card_takes() {
    let mut m = idle("sdhc-16g-hs");
    for index in [2, 3, 6, 7, 9, 10, 12, 13, 16, 17, 18, 24, 25, 32, 33, 38] {
        assert_eq!(m.command(index, 0), 0x05, "CMD{index}");
    }
    assert_eq!(m.command(8, 0x1aa), 0x01);
    assert_eq!(m.take(4), [0, 0, 0x01, 0xaa]);
    // CMD8 with a supply voltage that the card does not support, and another check pattern.
    assert_eq!(m.command(8, 0x255), 0x01);
    assert_eq!(m.take(4), [0, 0, 0x00, 0x55]);
    // The OCR during the power-up.
    assert_eq!(m.command(58, 0), 0x01);
    assert_eq!(m.take(4), [0x00, 0xff, 0x80, 0x00]);
}

#[test]
fn checksums_by_cmd59_and_always_of_cmd0_and_cmd8() {
    let mut m = idle("sdhc-16g-hs");
    let damaged = |index, arg| {
        let mut bytes = frame(index, arg);
        bytes[5] ^= 0x10;
        bytes
    };
    for (index, r1) in [(0, 0x09), (8, 0x09), (58, 0x01), (59, 0x01)] {
        m.send(&damaged(index, if index == 8 { 0x1aa } else { 0 }));
        assert_eq!(m.response(), r1, "CMD{index}");
        m.send(&[0xff; 8]);
    }
    assert_eq!(m.command(59, 1), 0x01);
    m.send(&damaged(58, 0));
    assert_eq!(m.response(), 0x09);
    // The card did not execute the command.
    assert_eq!(m.take(4), [0xff; 4]);
    assert_eq!(m.command(59, 0), 0x01);
    m.send(&damaged(58, 0));
    assert_eq!(m.response(), 0x01);
}

#[test]
fn ready_cards_say_how_they_are_addressed() {
    for (file, ocr) in [("sdsc-1g", 0x80), ("sdhc-16g-hs", 0xc0), ("sdxc-64g-a2", 0xc0)] {
        let mut m = Master::up(file);
        assert_eq!(m.command(58, 0), 0);
        assert_eq!(m.take(4), [ocr, 0xff, 0x80, 0x00], "{file}");
    }
}

#[test]
fn a_card_of_blocks_waits_for_a_master_that_knows_them() {
    let mut m = idle("sdhc-16g-hs");
    for _ in 0..500 {
        assert_eq!(m.app(41, 1 << 30), 0x01, "without CMD8");
    }
    assert_eq!(m.command(8, 0x1aa), 0x01);
    m.take(4);
    assert_eq!(m.app(41, 0), 0x01);
    assert_eq!(m.app(41, 1 << 30), 0x00);
    // CMD1 also initialises a card with byte addresses.
    let mut m = idle("sdsc-1g");
    assert_eq!(m.command(8, 0x1aa), 0x05, "a card of specification 1");
    assert_eq!(m.command(1, 0), 0x01);
    m.now_ns += 120_000_000;
    assert_eq!(m.command(1, 0), 0x00);
}

#[test]
fn there_is_no_spi_mode_beyond_two_terabytes() {
    let mut m = Master::new("sduc-4t");
    m.send(&[0xff; 10]);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.command(0, 0), 0xff);
}

#[test]
fn what_spi_mode_does_not_have() {
    let mut m = Master::up("sdxc-64g-a2");
    for index in [2, 3, 4, 5, 7, 8, 11, 15, 19, 20, 22, 23, 41, 43, 44, 48, 49, 63] {
        assert_eq!(m.command(index, 0), 0x04, "CMD{index}");
    }
    assert_eq!(m.app(6, 2), 0x04);
    // The command is illegal even if nothing is under way.
    assert_eq!(m.command(12, 0), 0x04);
    assert_eq!(m.status(), [0, 0]);
    // CMD55 applies only to the next command.
    assert_eq!(m.app(23, 8), 0x00);
    assert_eq!(m.command(23, 8), 0x04);
}

#[test]
fn registers_are_read_as_blocks() {
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(9, 0), 0);
    let csd = m.block(16);
    // CSD version 2: TRAN_SPEED of 25 MHz, READ_BL_LEN 9, C_SIZE, and a correct CRC7.
    assert_eq!((csd[0] >> 6, csd[3], csd[5] & 0xf), (1, 0x32, 9));
    let size = u32::from(csd[7] & 0x3f) << 16 | u32::from(csd[8]) << 8 | u32::from(csd[9]);
    assert_eq!((size + 1) * 1024, m.sectors);
    assert_eq!(frame_crc(&csd[..15]), csd[15]);
    assert_eq!(m.command(10, 0), 0);
    assert_eq!(m.block(16)[..8], [0x02, b'T', b'M', b'S', b'A', b'1', b'6', b'G']);
    assert_eq!(m.app(51, 0), 0);
    assert_eq!(m.block(8)[0] & 0xf, 2, "SD_SPEC");
    // ACMD13 sends R2, and then 64 bytes.
    assert_eq!(m.app(13, 0), 0);
    assert_eq!(m.exchange(0xff), 0);
    assert_eq!(m.block(64)[8], 4, "speed class 10");
}

fn frame_crc(bytes: &[u8]) -> u8 {
    crc::Crc::<u8>::new(&crc::CRC_7_MMC).checksum(bytes) << 1 | 1
}

#[test]
fn high_speed_by_cmd6() {
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(6, 0x8000_0001), 0);
    assert_eq!(m.block(64)[16] & 0xf, 1);
    m.send(&[0xff]);
    m.bus.set_clock(50_000_000, m.now_ns);
    assert_eq!(m.status(), [0, 0]);
    // Without CMD6 this clock is too fast.
    let mut m = Master::up("sdhc-16g-hs");
    m.bus.set_clock(50_000_000, m.now_ns);
    assert_eq!(m.status(), [0xff, 0xff]);
}

#[test]
fn a_response_comes_after_one_byte_to_eight() {
    for gap in [1, 5, 8] {
        let mut m = idle("sdhc-16g-hs");
        m.bus.set_habits(Habits { response_bytes: gap, ..Habits::USUAL });
        m.send(&frame(58, 0));
        assert_eq!(m.hunt(20), (gap.into(), 0x01));
    }
}

#[test]
fn spi_mode_lasts_until_the_supply_goes() {
    let mut m = Master::up("sdsc-1g");
    m.bus.set_clock(400_000, m.now_ns);
    assert_eq!(m.command(0, 0), 0x01);
    // CMD0 has switched the check of CRCs off.
    m.send(&[0x40 | 58, 0, 0, 0, 0, 0xff]);
    assert_eq!(m.response(), 0x01);
    m.bus.set_power(false, m.now_ns);
    assert_eq!(m.command(58, 0), 0xff);
    m.bus.set_power(true, m.now_ns);
    m.now_ns += 2_000_000;
    assert_eq!(m.command(0, 0), 0xff, "74 clocks again");
    m.bring_up();
    m.read(0);
    assert_eq!(m.bus.protocol_violations(), 2, "frames in vain");
}
