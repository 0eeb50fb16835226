//! I/O cards that misbehave, and faults of functions.

use super::Host;
use crate::card::io::{IoCard, IoProfile};
use crate::card::{Card, ReadBlock};
use crate::faults::{Faults, Plan, Point, Strike};

const ERROR: u32 = 0x0800;
const FUNCTION_NUMBER: u32 = 0x0200;

fn profile(file: &str) -> IoProfile {
    let path = format!("{}/cards/quirks/{file}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    IoProfile::from_toml(&text, file).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes the card of this profile file, brings it up and selects it. Then writes `interface` to CCCR
/// 07h: the bus has four lines if bit 1 of `interface` is set, otherwise one. Returns the host with
/// the card.
fn up(file: &str, interface: u8) -> Host<IoCard> {
    let mut host = Host::new(profile(file).build().0);
    host.ocr(5, 0);
    host.ocr(5, 0x00ff_8000);
    host.wait(20_000_000);
    assert_eq!(host.ocr(5, 0x00ff_8000) >> 31, 1);
    host.rca = host.short(3, 0) >> 16;
    host.set(|bus| bus.clock_hz = 25_000_000);
    host.short(7, host.rca << 16);
    host.put(0, 0x07, interface);
    host.set(|bus| bus.width = if interface & 2 == 2 { 4 } else { 1 });
    host
}

fn ready(host: &mut Host<IoCard>) -> bool {
    host.put(0, 0x02, 2);
    host.wait(10_000_000);
    host.get(0, 0x03) == 2
}

/// Sends a CMD53 in byte mode to address 100h of function 1. Returns the flags of R5.
fn bytes(host: &mut Host<IoCard>, count: u32) -> u32 {
    host.short(53, 1 << 28 | 1 << 26 | 0x100 << 9 | count & 0x1ff) & 0xcb00
}

fn violated(host: &Host<IoCard>) -> bool {
    !host.card.violations().is_empty()
}

#[test]
fn who_they_are() {
    for (file, vendor, device) in [
        ("sdio-nonstandard-interface", 0x0097, 0x4076),
        ("sdio-cd-off", 0x0097, 0x4076),
        ("sdio-lenient-fn0", 0x02df, 0x9103),
        ("sdio-byte-mode-block", 0x02df, 0x9119),
        ("sdio-byte-mode-512", 0x0020, 0x2280),
        ("sdio-irq-polling", 0x02df, 0x9128),
        ("sdio-rate-limit", 0x02df, 0x9134),
        ("sdio-no-1v8", 0x024c, 0xb822),
    ] {
        let mut host = up(file, 0x82);
        let at = (0..3).fold(0, |at, n| at | u32::from(host.get(0, 9 + n)) << (8 * n));
        let tuple: Vec<u16> = (0..6).map(|n| host.get(0, at + n).into()).collect();
        assert_eq!(tuple[..2], [0x20, 4]);
        assert_eq!((tuple[2] | tuple[3] << 8, tuple[4] | tuple[5] << 8), (vendor, device), "{file}");
        if file != "sdio-lenient-fn0" {
            assert!(ready(&mut host), "{file}");
            host.put(0, 0x110, 64);
            assert_eq!(bytes(&mut host, 32), 0);
            host.receive(1);
        }
        assert!(!violated(&host), "{file}");
    }
}

#[test]
fn interface_code() {
    let mut host = up("sdio-nonstandard-interface", 0x82);
    assert_eq!(host.short(52, 0x100 << 9) & ERROR, ERROR);
    assert!(violated(&host));
    // The CIS pointer and the block size of the function can be read.
    assert_ne!(host.get(0, 0x10a), 0);
}

#[test]
fn card_detection_resistor() {
    let mut host = up("sdio-cd-off", 0x02);
    assert!(ready(&mut host));
    assert_eq!(bytes(&mut host, 32), 0);
    assert!(matches!(host.block(&mut [0; 32]), ReadBlock::At { crc_ok: false, .. }));
    assert!(violated(&host));
    // On one data line this quirk has no effect.
    let mut host = up("sdio-cd-off", 0x00);
    assert!(ready(&mut host));
    assert_eq!(bytes(&mut host, 32), 0);
    host.receive(1);
}

#[test]
fn a_byte_of_function_0_wakes_it() {
    let mut host = up("sdio-lenient-fn0", 0x82);
    assert!(!ready(&mut host));
    host.put(0, 0x02, 0);
    host.put(0, 0x92, 1);
    assert!(ready(&mut host));
}

#[test]
fn byte_mode() {
    let mut host = up("sdio-byte-mode-block", 0x82);
    assert!(ready(&mut host));
    host.put(0, 0x110, 64);
    assert_eq!(bytes(&mut host, 64), 0);
    host.receive(1);
    assert_eq!(bytes(&mut host, 65), ERROR);
    assert!(violated(&host));
    let mut host = up("sdio-byte-mode-512", 0x82);
    assert!(ready(&mut host));
    assert_eq!(bytes(&mut host, 511), 0);
    host.receive(1);
    assert_eq!(bytes(&mut host, 512), ERROR);
    assert!(violated(&host));
}

#[test]
fn polling_shows_what_is_not_there() {
    let mut host = up("sdio-irq-polling", 0x82);
    assert!(ready(&mut host));
    for _ in 0..3 {
        assert_eq!(host.get(0, 0x05), 0);
        host.get(0, 0xff);
    }
    assert!(!violated(&host));
    assert_eq!([host.get(0, 0x05), host.get(0, 0x05)], [0, 2]);
    assert!(violated(&host));
}

#[test]
fn clock_and_voltage() {
    let fast = |file: &str| {
        let mut host = Host::new(profile(file).build().0);
        host.ocr(5, 0x01ff_8000);
        host.wait(20_000_000);
        assert_eq!(host.ocr(5, 0x01ff_8000) >> 24 & 0x81, 0x81, "S18A");
        host.short(11, 0);
        host.wait(1_000_000);
        host.set(|bus| bus.clock_hz = 0);
        host.set(|bus| bus.signal18 = true);
        host.wait(5_000_000);
        host.set(|bus| bus.clock_hz = 400_000);
        host.wait(1_000_000);
        host
    };
    let mut host = fast("sdio-rate-limit");
    host.rca = host.short(3, 0) >> 16;
    host.set(|bus| bus.clock_hz = 25_000_000);
    host.short(7, host.rca << 16);
    host.put(0, 0x07, 0x82);
    host.set(|bus| bus.width = 4);
    host.put(0, 0x13, 3 << 1);
    assert!(ready(&mut host));
    for (hz, ok) in [(150_000_000, true), (208_000_000, false)] {
        host.set(|bus| bus.clock_hz = hz);
        assert_eq!(bytes(&mut host, 16), 0);
        assert!(matches!(host.block(&mut [0; 16]), ReadBlock::At { crc_ok, .. } if crc_ok == ok));
        assert_eq!(violated(&host), !ok);
    }
    let host = fast("sdio-no-1v8");
    assert!(host.card.switching_voltage(host.now_ns) && violated(&host));
}

fn struck(strike: Strike) -> Host<IoCard> {
    let mut host = up("sdio-cd-off", 0x82);
    assert!(ready(&mut host));
    for value in 1..=8 {
        host.put(1, 0, value);
    }
    host.put(0, 0x04, 3);
    host.card.set_faults(Faults::new(Plan::none().shot(Point::Function, 1, strike)));
    host
}

#[test]
fn functions_fail_vanish_and_storm() {
    let mut host = struck(Strike::Fail);
    assert_eq!(host.short(52, 1 << 28) & 0xcb00, ERROR);
    assert_eq!(host.get(1, 0), 1, "nothing was taken");
    let mut host = struck(Strike::Lost);
    assert_eq!(host.short(52, 1 << 28) & 0xcb00, FUNCTION_NUMBER);
    assert_eq!(host.short(52, 1 << 28) & 0xcb00, FUNCTION_NUMBER);
    assert_eq!(host.get(0, 0x03), 0);
    let mut host = struck(Strike::Spurious(3));
    host.get(1, 0);
    assert!(host.card.interrupt(host.now_ns));
    assert_eq!(host.get(0, 0x05), 2);
    host.get(0, 0x05);
    host.get(0, 0x05);
    assert!(!host.card.interrupt(host.now_ns));
    let mut host = struck(Strike::Never);
    for _ in 0..100 {
        host.get(1, 0);
        assert!(host.card.interrupt(host.now_ns));
    }
    let mut host = struck(Strike::BrownOut);
    host.short(52, 1 << 28);
    host.silent(52, 1 << 28);
}

#[test]
fn fifos_hold_less_or_more_than_they_said() {
    for (strike, first) in [(Strike::Astray(-2), [0xff, 0xff, 1]), (Strike::Astray(2), [3, 4, 5])] {
        let mut host = struck(strike);
        host.short(53, 1 << 28 | 6);
        assert_eq!(host.receive(1)[..3], first);
    }
}
