//! Tests of the voltage switch, and of cards that need it.

use super::*;

/// Brings a UHS-I SD card up to the step before CMD11, at 400 kHz.
fn ready() -> Rig {
    let card = crate::card::tests::profile("sdxc-128g-uhs");
    let medium = crate::card::tests::medium(&card);
    let mut rig = Rig::of(Stm32SdmmcConfig::H7, card.build(medium).unwrap());
    rig.power_up(250);
    rig.start(NONE, 0);
    rig.until(CMDSENT);
    rig.command(8, 0x1aa);
    loop {
        rig.command(55, 0);
        rig.start(NO_CRC | 41, 0x41ff_8000);
        rig.until(CMDREND);
        if rig.r(RESP1) >> 31 == 1 {
            assert_eq!(rig.r(RESP1) >> 24 & 1, 1, "S18A");
            return rig;
        }
        rig.now += 10_000_000;
    }
}

#[test]
fn the_sequence_of_the_manual() {
    let mut rig = ready();
    // [58.8]: VSWITCHEN, then CMD11; after a good response the clock stops.
    rig.w(POWER, 3 | 1 << 3);
    rig.w(MASK, CKSTOP | VSWEND);
    rig.start(SHORT | 11, 0);
    rig.now = rig.host.advance(u64::MAX);
    assert!(rig.host.irq());
    // The card holds DAT0 low, which the controller samples two clocks after the response.
    assert_eq!(rig.sta(), CMDREND | CKSTOP | BUSYD0);
    assert_eq!(rig.host.bus().clock_hz, 0);
    // Without VSWITCH the switch does not continue, and no command is sent.
    rig.now += 1_000_000;
    rig.w(ICR, CKSTOP);
    rig.host.set_signal18(true, rig.now);
    let start = rig.now;
    rig.w(POWER, 3 | 1 << 3 | 1 << 2);
    // 4096 clocks stopped and 512 clocks running take 10.24 ms and 1.28 ms at 400 kHz.
    rig.now = rig.host.advance(u64::MAX);
    assert_eq!((rig.host.irq(), rig.now - start), (true, 10_240_000 + 1_280_000));
    assert_eq!(rig.sta(), CMDREND | VSWEND);
    assert_eq!((rig.host.bus().clock_hz, rig.host.bus().signal18), (400_000, true));
    rig.w(POWER, 3);
    rig.w(ICR, VSWEND);
    rig.start(LONG | 2, 0);
    assert_eq!(rig.until(CMDREND | CTIMEOUT), CMDREND);
    assert_eq!(rig.violations(), 0);
}

#[test]
fn a_card_that_does_not_let_go_is_busy_at_the_end() {
    let mut rig = ready();
    rig.w(POWER, 3 | 1 << 3);
    rig.start(SHORT | 11, 0);
    rig.until(CKSTOP);
    // The level shifter did not change to 1.8 V.
    rig.w(POWER, 3 | 1 << 3 | 1 << 2);
    assert_eq!(rig.until(VSWEND) & (VSWEND | BUSYD0), VSWEND | BUSYD0);
    rig.w(POWER, 3);
    rig.start(LONG | 2, 0);
    assert_eq!(rig.until(CMDREND | CTIMEOUT), CTIMEOUT | BUSYD0);
}

#[test]
fn a_faster_clock_makes_the_pause_too_short() {
    let mut rig = ready();
    rig.w(POWER, 3 | 1 << 3);
    rig.start(SHORT | 11, 0);
    rig.until(CKSTOP);
    rig.host.set_signal18(true, rig.now);
    // [58.8]: the clock must be 100 to 400 kHz, since the pause is counted in its clocks.
    rig.w(CLKCR, 100);
    rig.w(POWER, 3 | 1 << 3 | 1 << 2);
    assert_eq!(rig.until(VSWEND) & BUSYD0, BUSYD0);
}

#[test]
fn without_the_enable_bit_the_clock_goes_on() {
    let mut rig = ready();
    rig.command(11, 0);
    rig.now += 100_000;
    assert_eq!(rig.sta(), CMDREND | BUSYD0);
    assert_eq!(rig.host.bus().clock_hz, 400_000);
    // VSWITCH without a stopped clock is a mistake of the driver.
    rig.w(POWER, 3 | 1 << 2);
    assert_eq!(rig.violations(), 1);
    // A response with an error does not stop the clock [58.8].
    let mut rig = ready();
    rig.w(POWER, 3 | 1 << 3);
    rig.next(Point::Response, &[Strike::Crc]);
    rig.start(SHORT | 11, 0);
    assert_eq!(rig.until(CMDREND | CCRCFAIL), CCRCFAIL);
    rig.now += 100_000;
    assert_eq!(rig.sta() & BUSYD0, BUSYD0);
    assert_eq!((rig.sta() & CKSTOP, rig.host.bus().clock_hz), (0, 400_000));
}

#[test]
fn a_fast_clock_needs_the_tuned_receive_clock() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.w(CLKCR, 1 << 14 | 1 << 19);
    assert_eq!(rig.host.bus().sample_error, 50);
    // [58.5.4, CLKMUX]: SELCLKRX 10 selects the clock of the delay block.
    rig.w(CLKCR, 1 << 14 | 1 << 19 | 2 << 20);
    let errors: Vec<u8> = (0..12)
        .map(|phase| {
            rig.host.set_phase(phase, rig.now);
            rig.host.bus().sample_error
        })
        .collect();
    assert_eq!(errors, [83, 66, 50, 33, 16, 0, 16, 33, 50, 66, 83, 100]);
}
