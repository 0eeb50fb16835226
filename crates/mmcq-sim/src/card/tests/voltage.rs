//! Tests of the voltage switch of UHS-I cards [SD 4.2.4.2].

use super::host::Host;
use super::{medium, profile};
use crate::card::{Card, SdCard};

/// Brings a card up to the response to ACMD41 with S18R.
fn ready() -> Host<SdCard> {
    let profile = profile("sdxc-128g-uhs");
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    negotiate(&mut host);
    host
}

fn negotiate(host: &mut Host<SdCard>) -> u32 {
    host.silent(0, 0);
    host.short(8, 0x1aa);
    loop {
        host.short(55, 0);
        let ocr = host.ocr(41, 0x41ff_8000);
        if ocr >> 31 == 1 {
            return ocr;
        }
        host.wait(10_000_000);
    }
}

#[test]
fn in_the_right_order() {
    let mut host = ready();
    host.switch_voltage();
    host.long(2, 0);
    host.rca = host.short(3, 0) >> 16;
    assert_eq!(host.state(), 3);
}

#[test]
fn lines_go_up_within_a_millisecond_and_not_at_once() {
    let mut host = ready();
    host.short(11, 0);
    host.set(|bus| bus.clock_hz = 0);
    host.set(|bus| bus.signal18 = true);
    host.wait(5_000_000);
    host.set(|bus| bus.clock_hz = 400_000);
    assert!(host.card.switching_voltage(host.now_ns));
    assert!(host.card.switching_voltage(host.now_ns + 199_999));
    assert!(!host.card.switching_voltage(host.now_ns + 200_000));
}

/// Tests that the lines are still high at the end bit of the response: a host that judges them there
/// takes a good card for one that does not switch.
#[test]
fn lines_go_low_after_the_response_and_not_with_it() {
    let mut host = ready();
    host.short(11, 0);
    // The response of this host ends 50 clocks of 400 kHz after the command; the lines go low 58
    // clocks after it.
    let low_ns = host.now_ns + 8 * 2_500;
    assert!(!host.card.switching_voltage(low_ns - 1));
    assert!(host.card.switching_voltage(low_ns));
}

#[test]
fn nothing_is_answered_while_lines_are_low() {
    let mut host = ready();
    host.short(11, 0);
    host.silent(2, 0);
    host.silent(0, 0);
    assert!(host.card.switching_voltage(host.now_ns));
}

fn stays_low(host: &mut Host<SdCard>) {
    host.wait(1_000_000_000);
    assert!(host.card.switching_voltage(host.now_ns));
    host.silent(2, 0);
    // Only a power cycle ends this state.
    host.power_off();
    assert!(!host.card.switching_voltage(host.now_ns));
    host.power_up();
    host.bring_up_sd(true);
}

#[test]
fn clock_on_too_early() {
    let mut host = ready();
    host.short(11, 0);
    host.set(|bus| bus.clock_hz = 0);
    host.set(|bus| bus.signal18 = true);
    host.wait(4_999_999);
    host.set(|bus| bus.clock_hz = 400_000);
    stays_low(&mut host);
}

#[test]
fn voltage_never_changed() {
    let mut host = ready();
    host.short(11, 0);
    host.set(|bus| bus.clock_hz = 0);
    host.wait(6_000_000);
    host.set(|bus| bus.clock_hz = 400_000);
    stays_low(&mut host);
}

#[test]
fn voltage_changed_under_a_running_clock() {
    let mut host = ready();
    host.short(11, 0);
    host.set(|bus| bus.signal18 = true);
    host.set(|bus| bus.clock_hz = 0);
    host.wait(6_000_000);
    host.set(|bus| bus.clock_hz = 400_000);
    stays_low(&mut host);
}

#[test]
fn only_where_it_was_agreed() {
    // The host did not request the switch in ACMD41.
    let profile = profile("sdxc-128g-uhs");
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.bring_up_sd(false);
    host.silent(11, 0);
    assert_eq!(host.status() >> 22 & 1, 1);
    // CMD11 after CMD2 is too late.
    let mut host = ready();
    host.long(2, 0);
    host.silent(11, 0);
    // A card without UHS modes never agrees to the switch.
    let plain = super::profile("sdhc-16g-hs");
    let mut host = Host::new(plain.build_sd(medium(&plain)).unwrap());
    assert_eq!(negotiate(&mut host) >> 24 & 1, 0);
    host.silent(11, 0);
}

#[test]
fn the_level_outlives_a_reset_but_not_a_power_cycle() {
    let mut host = ready();
    host.switch_voltage();
    assert_eq!(negotiate(&mut host) >> 24 & 1, 0, "already at 1.8 V");
    // A host that goes back to 3.3 V on its own gets no response.
    host.set(|bus| bus.signal18 = false);
    host.silent(2, 0);
    host.power_off();
    host.power_up();
    assert_eq!(negotiate(&mut host) >> 24 & 1, 1);
}

#[test]
fn signalling_at_18_without_a_switch_is_not_heard() {
    let mut host = ready();
    host.set(|bus| bus.signal18 = true);
    host.silent(2, 0);
}
