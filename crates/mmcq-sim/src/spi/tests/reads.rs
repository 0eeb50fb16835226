//! Tests of reads in SPI mode [SD 7.2.3].

use super::master::{Master, frame};
use crate::slot::Controller;

#[test]
fn a_block_with_its_token_and_checksum() {
    let mut m = Master::up("sdhc-16g-hs");
    let held = m.peek(77);
    assert_eq!(m.read(77), held);
    assert_eq!(m.take(20), [0xff; 20], "nothing behind it");
    assert_eq!(m.status(), [0, 0]);
    let stats = m.bus.stats();
    assert_eq!((stats.commands[17], stats.blocks_read, stats.blocks_bad), (1, 1, 0));
    assert_eq!(m.bus.protocol_violations(), 0);
}

#[test]
fn an_access_takes_its_time_and_a_slow_clock_sees_less_of_it() {
    // The card needs 300 us for its first block.
    for (hz, bytes) in [(25_000_000, 938), (12_500_000, 469), (1_000_000, 38)] {
        let mut m = Master::up("sdhc-16g-hs");
        m.bus.set_clock(hz, m.now_ns);
        assert_eq!(m.command(17, 5), 0);
        let (waited, token) = m.hunt(10_000);
        assert_eq!(token, 0xfe);
        // The time counts from the end of the frame; N_CR and R1 are two bytes of it.
        assert!(waited.abs_diff(bytes - 2) <= 1, "{waited} at {hz}");
    }
}

#[test]
fn cmd18_until_cmd12_with_its_stuff_byte() {
    let mut m = Master::up("sdxc-64g-a2");
    let held: Vec<_> = (100..104).map(|sector| m.peek(sector)).collect();
    assert_eq!(m.command(18, 100), 0);
    for held in &held[..3] {
        assert_eq!(m.block(512), *held);
    }
    // CMD12 inside the fourth block: its data continue during the frame and for one byte after it.
    assert_eq!(m.hunt(100_000).1, 0xfe);
    let mut got = m.take(100);
    let mut out = frame(12, 0);
    m.now_ns = m.bus.transfer(&mut out, m.now_ns);
    got.extend(out);
    got.push(m.exchange(0xff));
    assert_eq!(got, held[3][..107]);
    assert_eq!(m.take(4), [0xff, 0x00, 0xff, 0xff], "N_CR, R1, ready");
    assert_eq!(m.status(), [0, 0]);
    // After a CMD12 between two blocks, the stuff byte looks like a response.
    assert_eq!(m.command(18, 103), 0);
    m.block(512);
    m.send(&frame(12, 0));
    assert_eq!(m.take(3), [0x7f, 0xff, 0x00]);
    assert_eq!(m.read(102), held[2]);
}

#[test]
fn byte_addresses_and_short_blocks_of_sdsc() {
    let mut m = Master::up("sdsc-1g");
    let held = m.peek(3);
    assert_eq!(m.read(3 * 512), held);
    assert_eq!(m.command(16, 100), 0);
    assert_eq!(m.command(17, 3 * 512 + 100), 0);
    assert_eq!(m.block(100), held[100..200]);
    // A block that crosses a 512-byte border, and a block length that is not allowed.
    assert_eq!(m.command(17, 4 * 512 - 50), 0x20);
    assert_eq!(m.command(16, 513), 0x40);
    assert_eq!(m.command(17, 3 * 512), 0);
    assert_eq!(m.block(100), held[..100]);
    assert_eq!(m.status(), [0, 0]);
}

#[test]
fn the_end_of_the_card() {
    let mut m = Master::up("sdhc-16g-hs");
    let last = m.sectors - 1;
    assert_eq!(m.command(17, last + 1), 0x40);
    assert_eq!(m.status(), [0, 0], "R1 has told it");
    // A master that sends CMD12 in time gets no error.
    assert_eq!(m.command(18, last), 0);
    assert_eq!(m.block(512), m.peek(last.into()));
    assert_eq!(m.command(12, 0), 0);
    assert_eq!(m.status(), [0, 0]);
    // A master that reads on gets a data error token: out of range.
    assert_eq!(m.command(18, last), 0);
    m.block(512);
    let (waited, token) = m.hunt(1_000);
    assert_eq!(token, 0x08, "after {waited}");
    assert_eq!(m.command(12, 0), 0);
    assert_eq!(m.status(), [0, 0x80]);
    assert_eq!(m.status(), [0, 0]);
}

#[test]
fn a_medium_that_cannot_be_read() {
    let mut m = Master::up("sdhc-16g-hs");
    m.bus.card_mut().unwrap().spoil(9);
    assert_eq!(m.command(17, 9), 0);
    assert_eq!(m.hunt(100_000).1, 0x04, "ECC failed");
    assert_eq!(m.status(), [0, 0x10]);
    assert_eq!(m.command(18, 8), 0);
    m.block(512);
    assert_eq!(m.hunt(100_000).1, 0x04);
    assert_eq!(m.take(50), [0xff; 50], "nothing until CMD12");
    assert_eq!(m.command(12, 0), 0);
    assert_eq!(m.status(), [0, 0x10]);
    m.read(10);
}

#[test]
fn inside_a_block_only_cmd12_and_cmd0_are_heard() {
    let mut m = Master::up("sdhc-16g-hs");
    let held = m.peek(4);
    assert_eq!(m.command(17, 4), 0);
    assert_eq!(m.hunt(100_000).1, 0xfe);
    let mut out = frame(13, 0);
    m.now_ns = m.bus.transfer(&mut out, m.now_ns);
    assert_eq!(out, held[..6]);
    assert_eq!(m.take(506), held[6..]);
    m.take(2);
    assert_eq!(m.bus.protocol_violations(), 1);
    // Between the blocks of an open read another read is illegal, but CMD13 is legal. The next
    // block has its token when the card has fetched the next 4 KiB.
    assert_eq!(m.command(18, 7), 0);
    m.block(512);
    assert_eq!(m.command(17, 4), 0x04);
    assert_eq!(m.status(), [0, 0]);
    assert_eq!(m.command(12, 0), 0);
}
