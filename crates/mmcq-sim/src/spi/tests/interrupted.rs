//! Tests of interruptions: chip select, a pause, power loss, removal in the middle of something.

use super::master::{Master, frame};
use crate::card::Kept;
use crate::slot::Controller;
use crate::spi::Habits;

#[test]
fn the_end_of_the_selection_ends_nothing() {
    let mut m = Master::up("sdhc-16g-hs");
    let held = m.peek(5);
    // A response waits while chip select is high, and so does a block in its middle.
    m.send(&frame(18, 5));
    m.bus.select(false, m.now_ns);
    m.send(&[0xff; 20]);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.take(2), [0xff, 0x00]);
    assert_eq!(m.hunt(100_000).1, 0xfe);
    assert_eq!(m.take(100), held[..100]);
    m.bus.select(false, m.now_ns);
    m.send(&[0xff; 600]);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.take(412), held[100..]);
    m.take(2);
    m.block(512);
    assert_eq!(m.command(12, 0), 0);
    // An incomplete frame is dropped.
    m.send(&frame(17, 0)[..3]);
    m.bus.select(false, m.now_ns);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.status(), [0, 0]);
    // A write is interrupted between two of its bytes.
    assert_eq!(m.command(24, 5), 0);
    m.send(&[0xff, 0xfe]);
    m.send(&[1; 200]);
    m.bus.select(false, m.now_ns);
    m.bus.select(true, m.now_ns);
    m.send(&[1; 312]);
    m.send(&super::master::crc16(&[1; 512]));
    assert_eq!(m.exchange(0xff), 0xe5);
    m.ready();
    assert_eq!(m.peek(5), [1; 512]);
}

#[test]
fn some_cards_end_their_transfers_with_the_selection() {
    let mut m = Master::up("sdhc-16g-hs");
    m.bus.set_habits(Habits { deselect_ends: true, ..Habits::USUAL });
    assert_eq!(m.command(18, 5), 0);
    m.block(512);
    m.bus.select(false, m.now_ns);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.command(12, 0), 0x04);
    assert_eq!(m.command(25, 5), 0);
    assert_eq!(m.give(0xfc, &[1; 512]), 0xe5);
    m.ready();
    m.bus.select(false, m.now_ns);
    m.bus.select(true, m.now_ns);
    m.ready();
    assert_eq!(m.status(), [0, 0]);
    assert_eq!(m.peek(5), [1; 512]);
}

/// Brings up a card in an unknown state.
fn recover(m: &mut Master) {
    m.bus.set_clock(400_000, m.now_ns);
    m.bus.select(false, m.now_ns);
    m.send(&[0xff; 10]);
    m.bus.select(true, m.now_ns);
    m.send(&[0xff; 515]);
    for _ in 0..10_000 {
        if m.exchange(0xff) == 0xff {
            break;
        }
    }
    m.command(12, 0);
    for _ in 0..10 {
        if m.command(0, 0) == 0x01 {
            m.bring_up();
            return;
        }
    }
    panic!("it does not come back");
}

#[test]
fn a_card_left_in_the_middle_comes_back() {
    // The card is in the middle of a read.
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(18, 5), 0);
    m.block(512);
    m.hunt(100_000);
    m.take(17);
    recover(&mut m);
    m.read(5);
    // The card is in a block of a write: all bytes are data, even commands.
    let mut m = Master::up("sdhc-16g-hs");
    let before = m.peek(5);
    assert_eq!(m.command(25, 5), 0);
    m.send(&[0xff, 0xfc]);
    m.send(&[1; 50]);
    for _ in 0..10 {
        assert_eq!(m.command(0, 0), 0xff);
    }
    recover(&mut m);
    assert_eq!(m.peek(5), before, "a wrong checksum has saved it");
    // The card is programming.
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(24, 5), 0);
    assert_eq!(m.give(0xfe, &[1; 512]), 0xe5);
    recover(&mut m);
    assert_eq!(m.read(5), [1; 512]);
}

#[test]
fn cmd0_ends_everything_but_a_block() {
    let mut m = Master::up("sdhc-16g-hs");
    m.bus.set_clock(400_000, m.now_ns);
    assert_eq!(m.command(18, 5), 0);
    m.hunt(100_000);
    assert_eq!(m.command(0, 0), 0x01);
    m.bring_up();
    m.bus.set_clock(400_000, m.now_ns);
    assert_eq!(m.command(24, 5), 0);
    assert_eq!(m.give(0xfe, &[1; 512]), 0xe5);
    assert_eq!(m.command(0, 0), 0x01);
    assert_eq!(m.exchange(0xff), 0xff);
    assert_eq!(m.command(17, 5), 0x05);
}

#[test]
fn a_power_cut_decides_about_what_is_not_programmed() {
    for (kept, value) in [(Kept::Old, None), (Kept::New, Some([1; 512]))] {
        let mut m = Master::up("sdhc-16g-hs");
        m.faults(crate::faults::Plan::none());
        let before = m.peek(5);
        assert_eq!(m.command(24, 5), 0);
        assert_eq!(m.give(0xfe, &[1; 512]), 0xe5);
        let now_ns = m.now_ns;
        let card = m.bus.card_mut().unwrap();
        assert_eq!(card.at_stake(now_ns).len(), 1);
        card.cut(now_ns, &mut |_| kept);
        m.bus.set_power(false, m.now_ns);
        m.bus.set_power(true, m.now_ns);
        assert_eq!(m.peek(5), value.map_or(before, |value| value.to_vec()));
        m.now_ns += 1_000_000;
        m.bring_up();
        m.read(5);
    }
}

#[test]
fn a_card_that_is_pulled_and_another_that_comes() {
    let mut m = Master::up("sdhc-16g-hs");
    assert_eq!(m.command(18, 5), 0);
    m.hunt(100_000);
    m.take(30);
    let card = m.bus.remove(m.now_ns).unwrap();
    assert_eq!(m.take(600), [0xff; 600]);
    assert_eq!(m.status(), [0xff; 2]);
    m.bus.insert(card, m.now_ns);
    assert_eq!(m.status(), [0xff; 2], "in SD mode again");
    m.now_ns += 1_000_000;
    m.bring_up();
    m.read(5);
}
