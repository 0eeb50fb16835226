//! Tests of CMD11 and the voltage switch.

use super::*;
use crate::card::tests::{medium, profile};

#[test]
fn the_lines_go_low_and_come_up_again() {
    let mut rig = Rig::warm(MshcConfig::JH7110);
    rig.card.0.borrow_mut().voltage_switch = true;
    rig.start(SHORT | VOLTAGE | 11, 0);
    assert_eq!(rig.until(HTO), HTO, "no command done");
    assert_ne!(rig.r(rig.at.status) & 1 << 9, 0);
    rig.w(rig.at.raw, HTO);
    rig.w(0x10, 0);
    // The update must not wait for data, since DAT0 is low.
    rig.w(rig.at.cmd, START | 1 << 21 | VOLTAGE);
    rig.now += 1_000;
    assert_eq!(rig.r(rig.at.cmd) & START, 0);
    assert_eq!(rig.host.bus().clock_hz, 0);
    rig.w(0x74, 1);
    assert!(rig.host.bus().signal18);
    rig.now += 5_000_000;
    rig.w(0x10, 1);
    rig.w(rig.at.cmd, START | 1 << 21 | VOLTAGE);
    rig.now += 500_000;
    rig.host.advance(rig.now);
    assert_eq!(rig.raw() & HTO, 0);
    rig.card.0.borrow_mut().voltage_switch = false;
    rig.until(HTO);
    rig.command(13, 0);
    assert_eq!(rig.violations(), 0);
}

#[test]
fn a_card_that_does_not_answer_is_told_as_any() {
    let mut rig = Rig::warm(MshcConfig::JH7110);
    rig.card.0.borrow_mut().deaf_to = vec![11];
    rig.start(SHORT | VOLTAGE | 11, 0);
    assert_eq!(rig.until(DONE), DONE | RTO);
    rig.card.0.borrow_mut().deaf_to.clear();
    // The card responds and does not pull the lines low: no event comes.
    rig.start(SHORT | VOLTAGE | 11, 0);
    rig.now += 1_000_000_000;
    rig.host.advance(rig.now);
    assert_eq!(rig.raw(), 0);
}

#[test]
fn low_power_confuses_it() {
    let mut rig = Rig::warm(MshcConfig::JH7110);
    rig.card.0.borrow_mut().voltage_switch = true;
    rig.w(0x10, 1 | 1 << 16);
    rig.w(rig.at.cmd, START | 1 << 21);
    rig.now += 1_000;
    rig.start(SHORT | VOLTAGE | 11, 0);
    rig.until(HTO);
    assert_eq!(rig.violations(), 1);
}

/// Checks that updates of the voltage switch must have bit 28, and that other updates must not.
#[test]
fn each_update_of_the_switch_says_so() {
    let mut rig = Rig::warm(MshcConfig::JH7110);
    rig.card.0.borrow_mut().voltage_switch = true;
    rig.start(SHORT | VOLTAGE | 11, 0);
    rig.until(HTO);
    rig.w(0x10, 0);
    rig.w(rig.at.cmd, START | 1 << 21);
    rig.now += 1_000;
    assert_eq!(rig.r(rig.at.cmd) & START, 0);
    assert_eq!(rig.violations(), 1);
    let mut rig = Rig::warm(MshcConfig::JH7110);
    rig.w(rig.at.cmd, START | 1 << 21 | VOLTAGE);
    rig.now += 1_000;
    rig.r(rig.at.cmd);
    assert_eq!(rig.violations(), 1);
}

/// Checks that a board without a level shifter keeps its voltage, whatever the register says.
#[test]
fn lines_that_cannot_move_stay() {
    let mut rig = Rig::warm(MshcConfig::PCI);
    rig.w(0x74, 1);
    assert!(!rig.host.bus().signal18);
    let mut rig = Rig::warm(MshcConfig::A64);
    assert!(rig.host.bus().signal18);
    rig.host.set_signal18(false, rig.now);
    assert!(rig.host.bus().signal18);
}

/// Checks the voltage switch with a card model, step by step.
#[test]
fn a_real_card_switches() {
    let profile = profile("sdxc-128g-uhs");
    let card = profile.build(medium(&profile)).unwrap();
    let mut rig = Rig::of(MshcConfig::JH7110, card);
    rig.power_up();
    rig.clock(false, 125);
    rig.clock(true, 125);
    rig.start(1 << 15, 0);
    rig.until(DONE);
    assert_eq!(rig.command(8, 0x1aa), 0x1aa);
    loop {
        rig.command(55, 0);
        rig.start(NO_CRC | 41, 0x5130_0000);
        rig.until(DONE);
        if rig.r(rig.at.resp) >> 31 != 0 {
            break;
        }
        rig.now += 10_000_000;
    }
    assert_ne!(rig.r(rig.at.resp) & 1 << 24, 0, "1.8 V is offered");
    rig.start(SHORT | VOLTAGE | 11, 0);
    assert_eq!(rig.until(HTO) & RTO, 0);
    rig.w(0x10, 0);
    rig.w(rig.at.cmd, START | 1 << 21 | VOLTAGE);
    rig.now += 1_000;
    rig.w(0x74, 1);
    rig.now += 5_500_000;
    rig.w(rig.at.raw, u32::MAX);
    rig.w(0x10, 1);
    rig.w(rig.at.cmd, START | 1 << 21 | VOLTAGE);
    rig.until(HTO);
    rig.start(LONG | 2, 0);
    assert_eq!(rig.until(DONE) & RTO, 0);
}
