//! Tests of writes, erase and write protection in SPI mode [SD 7.2.4, 7.2.5].

use super::master::{Master, frame};
use crate::slot::Controller;
use crate::spi::Habits;

#[test]
fn a_block_is_accepted_and_programmed() {
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(24, 50), 0);
    assert_eq!(m.give(0xfe, &[7; 512]), 0xe5);
    // Busy lasts 900 us, and 20 us for the one unit, as the card's profile says.
    let busy_ns = m.ready();
    assert!((915_000..=925_000).contains(&busy_ns), "{busy_ns}");
    assert_eq!(m.status(), [0, 0]);
    assert_eq!(m.peek(50), [7; 512]);
    assert_eq!(m.read(50), [7; 512]);
    assert_eq!(m.bus.protocol_violations(), 0);
}

#[test]
fn a_wrong_checksum_counts_when_checksums_are_on() {
    let mut m = Master::up("sdhc-16g-hs");
    let before = m.peek(50);
    assert_eq!(m.command(24, 50), 0);
    assert_eq!(m.give_with(0xfe, &[7; 512], [0, 0]), 0xeb);
    assert_eq!(m.exchange(0xff), 0xff, "not busy");
    assert_eq!(m.peek(50), before);
    assert_eq!(m.command(59, 0), 0);
    assert_eq!(m.command(24, 50), 0);
    assert_eq!(m.give_with(0xfe, &[7; 512], [0, 0]), 0xe5);
    m.ready();
    assert_eq!(m.peek(50), [7; 512]);
}

#[test]
fn cmd25_until_its_token() {
    let mut m = Master::up("sdxc-64g-a2");
    assert_eq!(m.app(23, 3), 0);
    assert_eq!(m.command(25, 200), 0);
    for byte in 1..=3 {
        assert_eq!(m.give(0xfc, &[byte; 512]), 0xe5);
        m.ready();
    }
    m.send(&[0xff, 0xfd]);
    assert_eq!(m.exchange(0xff), 0xff, "N_BR");
    assert_eq!(m.exchange(0xff), 0x00, "busy");
    m.ready();
    assert_eq!(m.status(), [0, 0]);
    assert_eq!(m.app(22, 0), 0);
    assert_eq!(m.block(4), [0, 0, 0, 3]);
    for (sector, byte) in (200..).zip(1..=3) {
        assert_eq!(m.peek(sector), [byte; 512]);
    }
}

#[test]
fn after_a_refused_block_the_rest_is_ignored() {
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(25, 200), 0);
    assert_eq!(m.give(0xfc, &[1; 512]), 0xe5);
    m.ready();
    assert_eq!(m.give_with(0xfc, &[2; 512], [9, 9]), 0xeb);
    // A block whose bytes look like commands: the card ignores it and sends no response.
    let block: Vec<u8> = frame(12, 0).into_iter().cycle().take(512).collect();
    assert_eq!(m.give(0xfc, &block), 0xff);
    assert_eq!(m.command(12, 0), 0);
    m.ready();
    assert_eq!(m.status(), [0, 0]);
    assert_eq!(m.app(22, 0), 0);
    assert_eq!(m.block(4), [0, 0, 0, 1]);
    assert_eq!(m.peek(200), [1; 512]);
    assert_ne!(m.peek(201), [2; 512]);
}

#[test]
fn over_the_end_of_the_card() {
    let mut m = Master::up("sdhc-16g-hs");
    let last = m.sectors - 1;
    assert_eq!(m.command(24, last + 1), 0x40);
    assert_eq!(m.command(25, last), 0);
    assert_eq!(m.give(0xfc, &[1; 512]), 0xe5);
    m.ready();
    assert_eq!(m.give(0xfc, &[2; 512]), 0xed, "write error");
    m.send(&[0xff, 0xfd, 0xff]);
    m.ready();
    assert_eq!(m.status(), [0, 0x80]);
    assert_eq!(m.peek(last.into()), [1; 512]);
}

#[test]
fn the_token_must_be_the_right_one_and_not_at_once() {
    let mut m = Master::up("sdhc-16g-hs");
    let before = m.peek(9);
    assert_eq!(m.command(24, 9), 0);
    assert_eq!(m.give(0xfc, &[0; 512]), 0xff, "the token of CMD25");
    assert_eq!(m.bus.protocol_violations(), 1);
    assert_eq!(m.give(0xfe, &[3; 512]), 0xe5);
    m.ready();
    assert_ne!(before, m.peek(9));
    // A token without a gap after R1: most cards accept it.
    for (needs_gap, answer) in [(false, 0xe5), (true, 0xff)] {
        m.bus.set_habits(Habits { needs_gap, ..Habits::USUAL });
        assert_eq!(m.command(24, 9), 0);
        m.send(&[0xfe]);
        m.send(&[0xff; 512]);
        m.send(&super::master::crc16(&[0xff; 512]));
        assert_eq!(m.exchange(0xff), answer);
        m.ready();
    }
    assert_eq!(m.bus.protocol_violations(), 3);
}

#[test]
fn a_busy_card_takes_no_command() {
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(24, 50), 0);
    assert_eq!(m.give(0xfe, &[7; 512]), 0xe5);
    // The low level of busy looks like a response without errors.
    assert_eq!(m.command(25, 60), 0);
    assert_eq!(m.exchange(0xff), 0);
    m.ready();
    assert_eq!(m.give(0xfc, &[8; 512]), 0xff, "no block is waited for");
    m.bus.select(false, m.now_ns);
    m.bus.select(true, m.now_ns);
    // A card that is not selected continues to program, and releases DO one byte after chip select
    // went high.
    assert_eq!(m.command(24, 50), 0);
    assert_eq!(m.give(0xfe, &[7; 512]), 0xe5);
    let from_ns = m.now_ns;
    m.bus.select(false, m.now_ns);
    assert!(m.bus.drives());
    assert_eq!(m.exchange(0xff), 0x00);
    assert!(!m.bus.drives());
    assert_eq!(m.exchange(0xff), 0xff);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.exchange(0xff), 0x00);
    m.bus.select(false, m.now_ns);
    m.now_ns = from_ns + 930_000;
    m.bus.select(true, m.now_ns);
    assert_eq!(m.exchange(0xff), 0xff);
    assert_eq!(m.status(), [0, 0]);
}

#[test]
fn protected_places_refuse_their_blocks() {
    let mut m = Master::with_quirks("sdhc-16g-hs", |quirks| quirks.protected_mib = vec![(1, 1)]);
    m.bring_up();
    let before = m.peek(2048);
    assert_eq!(m.command(24, 2048), 0);
    assert_eq!(m.give(0xfe, &[1; 512]), 0xed);
    assert_eq!(m.exchange(0xff), 0xff);
    assert_eq!(m.status(), [0, 0x20]);
    assert_eq!(m.command(25, 2048), 0);
    assert_eq!(m.give(0xfc, &[1; 512]), 0xed);
    assert_eq!(m.give(0xfc, &[1; 512]), 0xff);
    assert_eq!(m.command(12, 0), 0);
    m.ready();
    assert_eq!(m.status(), [0, 0x20]);
    assert_eq!(m.peek(2048), before);
    m.write(0, &[1; 512]);
}

#[test]
fn an_erase_by_cmd32_cmd33_cmd38() {
    let mut m = Master::up("sdhc-16g-hs");
    m.write(10, &[1; 512]);
    m.write(12, &[1; 512]);
    assert_eq!(m.command(32, 8), 0);
    assert_eq!(m.command(33, 11), 0);
    assert_eq!(m.command(38, 0), 0);
    // Busy lasts 2 ms, and 300 us for the one unit.
    let busy_ns = m.ready();
    assert!((2_295_000..2_305_000).contains(&busy_ns), "{busy_ns}");
    assert_eq!(m.status(), [0, 0]);
    assert_eq!(m.read(10), [0; 512]);
    assert_eq!(m.read(12), [1; 512]);
    // Another command ends a sequence of erase commands; CMD33 without CMD32 does not begin one.
    assert_eq!(m.command(32, 8), 0);
    assert_eq!(m.command(16, 512), 0x02);
    assert_eq!(m.command(38, 0), 0x10);
    assert_eq!(m.command(33, 8), 0x10);
    assert_eq!(m.command(32, m.sectors), 0x40);
    assert_eq!(m.command(32, 11), 0);
    assert_eq!(m.command(33, 8), 0);
    assert_eq!(m.command(38, 0), 0);
    assert_eq!(m.status(), [0, 0x40]);
}

#[test]
fn a_locked_card() {
    let mut m = Master::new("sdhc-16g-hs");
    // CMD42 sets a password, and locks the card.
    m.bring_up();
    assert_eq!(m.command(16, 6), 0);
    assert_eq!(m.command(42, 0), 0);
    assert_eq!(m.give(0xfe, &[0x05, 4, b'p', b'a', b's', b's']), 0xe5);
    m.ready();
    assert_eq!(m.status(), [0, 0x01]);
    assert_eq!(m.command(17, 0), 0x04);
    assert_eq!(m.command(42, 0), 0);
    assert_eq!(m.give(0xfe, &[0x02, 4, b'p', b'a', b's', b't']), 0xe5);
    m.ready();
    assert_eq!(m.status(), [0, 0x03]);
    assert_eq!(m.command(42, 0), 0);
    assert_eq!(m.give(0xfe, &[0x02, 4, b'p', b'a', b's', b's']), 0xe5);
    m.ready();
    assert_eq!(m.status(), [0, 0x00]);
    m.read(0);
}
