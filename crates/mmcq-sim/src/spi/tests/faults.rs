//! Tests of faults on an SPI bus.

use super::master::{Master, crc16, frame};
use crate::card::CardProfile;
use crate::faults::{Plan, Point, Strike};
use crate::slot::Controller;

#[test]
fn a_bit_of_either_direction() {
    let mut m = Master::up("sdhc-16g-hs");
    // The fault strikes the third byte of a frame.
    m.faults(Plan::none().shot(Point::Exchange, 4, Strike::Flip(3)));
    assert_eq!(m.command(13, 0), 0x08);
    m.faults(Plan::none().shot(Point::Exchange, 9, Strike::Flip(15)));
    assert_eq!(m.command(13, 0), 0x01);
    m.exchange(0xff);
    assert_eq!(m.status(), [0, 0]);
}

/// Checks that a profile can damage bytes. They are counted since the card was made, while it is
/// selected.
#[test]
fn bytes_that_a_profile_names_arrive_damaged() {
    let profile = |bytes: &str| {
        let text = crate::cards::named("sdhc-16g-hs").unwrap();
        let quirk = format!("{text}\n[quirk]\nsource = \"a test\"\nspi_bytes = [{bytes}]\n");
        CardProfile::from_toml(&quirk, "noisy")
    };
    // Bytes from the card: the second and the third are damaged.
    let text = "{ line = \"do\", nth = 2, times = 2, turn = 0x01 }, { line = \"do\", nth = 3, turn = 0x80 }";
    let mut m = Master::with(profile(text).unwrap());
    m.bus.select(true, m.now_ns);
    assert_eq!(m.take(5), [0xff, 0xfe, 0x7e, 0xff, 0xff]);
    // Bytes to the card: the response to a frame with a damaged argument; the next frame is
    // correct.
    let mut clean = Master::new("sdhc-16g-hs");
    let bytes = clean.faults(Plan::none());
    clean.bring_up();
    let before = bytes.events(Point::Exchange);
    let damaged = format!("{{ line = \"di\", nth = {}, turn = 0x10 }}", before + 4);
    let mut m = Master::with(profile(&damaged).unwrap());
    m.bring_up();
    assert_eq!(m.command(13, 0), 0x08, "a bad CRC");
    m.exchange(0xff);
    assert_eq!(m.status(), [0, 0]);
    for (bytes, why) in [
        ("{ line = \"do\", nth = 0, turn = 1 }", "`nth` counts from 1"),
        ("{ line = \"do\", nth = 1, turn = 0 }", "`turn` has no bit"),
        ("{ line = \"clock\", nth = 1, turn = 1 }", "unknown variant `clock`"),
    ] {
        let error = profile(bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn blocks_that_are_damaged_both_ways() {
    let mut m = Master::up("sdhc-16g-hs");
    let held = m.peek(5);
    m.faults(Plan::none().shot(Point::ReadBlock, 1, Strike::Crc));
    assert_eq!(m.command(17, 5), 0);
    assert_eq!(m.hunt(100_000).1, 0xfe);
    let data = m.take(512);
    assert_ne!(m.take(2), crc16(&data));
    assert_eq!(data.iter().zip(&held).filter(|(a, b)| a != b).count(), 1);
    assert_eq!(m.bus.stats().blocks_bad, 1);
    m.faults(Plan::none().next(Point::WriteBlock, &[Strike::Crc, Strike::NoStatus, Strike::Lost]));
    for (value, answer, stored) in [(1, 0xeb, false), (2, 0xff, true), (3, 0xff, false)] {
        assert_eq!(m.command(24, 6), 0);
        assert_eq!(m.give(0xfe, &[value; 512]), answer);
        m.ready();
        assert_eq!(m.peek(6) == [value; 512], stored);
        m.bus.set_clock(400_000, m.now_ns);
        assert_eq!(m.command(0, 0), 0x01);
        m.bring_up_again();
    }
}

#[test]
fn blocks_that_are_late_or_never_come() {
    let mut m = Master::up("sdhc-16g-hs");
    m.faults(Plan::none().next(Point::ReadBlock, &[Strike::Late(10_000_000), Strike::Lost]));
    let from_ns = m.now_ns;
    m.read(5);
    assert!(m.now_ns - from_ns > 10_000_000);
    assert_eq!(m.command(17, 5), 0);
    let (_, byte) = m.hunt(100_000);
    assert_eq!(byte, m.peek(5)[0], "no token");
    m.take(513);
    m.read(5);
}

#[test]
fn responses_and_frames() {
    let mut m = Master::up("sdhc-16g-hs");
    m.faults(Plan::none().next(
        Point::Response,
        &[Strike::Lost, Strike::Crc, Strike::Status(1 << 22), Strike::Late(1_000_000)],
    ));
    assert_eq!(m.command(13, 0), 0xff);
    assert_eq!(m.command(13, 0), 0x08);
    m.exchange(0xff);
    assert_eq!(m.command(13, 0), 0x04);
    m.exchange(0xff);
    assert_eq!(m.command(13, 0), 0xff);
    assert_eq!(m.hunt(4_000).1, 0x00);
    m.exchange(0xff);
    m.faults(Plan::none().next(Point::Command, &[Strike::Lost, Strike::Crc]));
    assert_eq!(m.command(13, 0), 0xff);
    assert_eq!(m.command(13, 0), 0x08);
    assert_eq!(m.status(), [0, 0]);
}

#[test]
fn a_byte_or_a_clock_that_the_card_does_not_see() {
    let mut m = Master::up("sdhc-16g-hs");
    m.faults(Plan::none().shot(Point::Exchange, 3, Strike::Lost));
    assert_eq!(m.command(17, 0), 0x08, "the byte after it is its last");
    m.bus.select(false, m.now_ns);
    m.bus.select(true, m.now_ns);
    assert_eq!(m.status(), [0, 0]);
    for clocks in [1, 5, -1, -3] {
        m.faults(Plan::none().shot(Point::Exchange, 1, Strike::Astray(clocks)));
        // The card takes the bits of the frame at wrong places, until chip select goes high.
        m.exchange(0xff);
        let mut out = frame(13, 0);
        m.now_ns = m.bus.transfer(&mut out, m.now_ns);
        let shifted = m.take(3);
        assert_ne!(shifted, [0xff, 0x00, 0x00], "{clocks}");
        let violations = m.bus.protocol_violations();
        m.bus.select(false, m.now_ns);
        assert_eq!(m.bus.protocol_violations(), violations + 1, "in the middle of a byte");
        m.bus.select(true, m.now_ns);
        assert_eq!(m.status(), [0, 0], "{clocks}");
    }
    // A block that is shifted by a bit has a wrong CRC.
    let held = m.peek(5);
    assert_eq!(m.command(17, 5), 0);
    assert_eq!(m.hunt(100_000).1, 0xfe);
    m.faults(Plan::none().shot(Point::Exchange, 1, Strike::Astray(1)));
    let data = m.take(512);
    assert_ne!(data, held);
    assert_ne!(m.take(2), crc16(&data));
    assert_eq!(data[1] & 0x7f, held[1] >> 1, "one bit late");
}

#[test]
fn a_line_that_is_stuck_until_the_supply_goes() {
    for (level, byte) in [(0, 0x00), (1, 0xff)] {
        let mut m = Master::up("sdhc-16g-hs");
        m.faults(Plan::none().shot(Point::Exchange, 1, Strike::Line(level)));
        assert_eq!(m.take(10), [byte; 10]);
        m.bus.set_power(false, m.now_ns);
        m.bus.set_power(true, m.now_ns);
        m.now_ns += 1_000_000;
        m.bring_up();
        m.read(0);
    }
}

#[test]
fn a_card_that_says_nothing_more() {
    for point in [Point::Exchange, Point::Command] {
        let mut m = Master::up("sdhc-16g-hs");
        m.faults(Plan::none().shot(point, 1, Strike::Never));
        for _ in 0..20 {
            assert_eq!(m.command(0, 0), 0xff);
        }
        m.bus.set_power(false, m.now_ns);
        m.bus.set_power(true, m.now_ns);
        m.now_ns += 1_000_000;
        m.bring_up();
    }
}

#[test]
fn a_dip_of_the_supply_brings_it_back_to_sd_mode() {
    let mut m = Master::up("sdhc-16g-hs");
    m.faults(Plan::none().shot(Point::Response, 1, Strike::BrownOut));
    m.command(18, 0);
    assert_eq!(m.hunt(1_000), (1_000, 0xff));
    assert_eq!(m.status(), [0xff; 2]);
    m.now_ns += 1_000_000;
    m.bring_up();
    m.read(0);
}

#[test]
fn the_faults_of_a_card_are_those_of_the_sd_bus() {
    let mut m = Master::up("sdhc-16g-hs");
    // Programming fails: R2 reports it after busy.
    m.faults(Plan::none().shot(Point::Medium, 1, Strike::Fail));
    assert_eq!(m.command(24, 5), 0);
    assert_eq!(m.give(0xfe, &[1; 512]), 0xe5);
    m.ready();
    assert_eq!(m.status(), [0, 0x04]);
    // The card does not show its busy, and does not respond to commands.
    m.faults(Plan::none().shot(Point::Busy, 1, Strike::Hidden));
    assert_eq!(m.command(24, 5), 0);
    assert_eq!(m.give(0xfe, &[1; 512]), 0xe5);
    assert_eq!(m.exchange(0xff), 0xff);
    assert_eq!(m.command(13, 0), 0xff);
    m.now_ns += 1_000_000;
    assert_eq!(m.status(), [0, 0]);
    // The busy never ends, not even by CMD0.
    m.faults(Plan::none().shot(Point::Busy, 1, Strike::Never));
    assert_eq!(m.command(24, 5), 0);
    assert_eq!(m.give(0xfe, &[1; 512]), 0xe5);
    m.now_ns += 10_000_000_000;
    m.bus.set_clock(400_000, m.now_ns);
    m.command(0, 0);
    assert_eq!(m.take(3), [0, 0, 0]);
}
