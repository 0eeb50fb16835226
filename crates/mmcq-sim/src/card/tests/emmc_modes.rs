//! Tests of the eMMC bus modes: a driver that skips a step must fail.

use super::emmc::card;
use super::host::Host;
use crate::card::{BusState, EmmcCard, ReadBlock};

fn crc_ok(host: &mut Host<EmmcCard>) -> bool {
    host.send(17, 0);
    match host.block(&mut [0u8; 512]) {
        ReadBlock::At { crc_ok, .. } => crc_ok,
        ReadBlock::Never => false,
    }
}

/// Checks that data of both directions and a response work, and that none works with any of these
/// changes of the bus.
fn works_only_so(host: &mut Host<EmmcCard>, wrong: &[fn(&mut BusState)]) {
    let good = host.bus;
    host.ok(24, 77);
    host.transmit(&[0x3c; 512]);
    host.ok(17, 77);
    assert_eq!(host.receive(1), [0x3c; 512]);
    for (number, change) in wrong.iter().enumerate() {
        host.set(change);
        assert!(!crc_ok(host), "change {number}");
        host.set(|bus| *bus = good);
        host.wait(1_000_000);
        if host.state() != 4 {
            host.short(12, 0);
        }
        assert!(crc_ok(host), "after change {number}");
    }
}

#[test]
fn high_speed() {
    let mut host = card("hbg4a2");
    works_only_so(&mut host, &[|bus| bus.clock_hz = 26_000_001, |bus| bus.width = 8, |bus| bus.ddr = true]);
    assert!(host.ext_write(183, 1));
    host.set(|bus| bus.width = 4);
    assert!(host.ext_write(185, 1));
    host.set(|bus| bus.clock_hz = 52_000_000);
    works_only_so(&mut host, &[|bus| bus.clock_hz = 52_000_001, |bus| bus.width = 8, |bus| bus.width = 1]);
}

#[test]
fn ddr52() {
    let mut host = card("emmc-4g-old");
    // Double data rate is refused before HS is selected.
    assert!(!host.ext_write(183, 6));
    assert!(host.ext_write(185, 1));
    assert!(host.ext_write(183, 6));
    host.set(|bus| (bus.width, bus.ddr, bus.clock_hz) = (8, true, 52_000_000));
    works_only_so(&mut host, &[|bus| bus.ddr = false, |bus| bus.width = 4, |bus| bus.strobe = true]);
    // CMD16 and CMD42 are illegal in this mode; this device has neither HS200 nor the enhanced
    // strobe.
    for index in [16, 42] {
        host.silent(index, 512);
        host.status();
    }
    assert!(!host.ext_write(185, 2) && !host.ext_write(183, 0x86) && !host.ext_write(185, 3));
}

fn to_hs200(host: &mut Host<EmmcCard>) {
    assert!(host.ext_write(183, 2));
    host.ext_mode(185, 2, |bus| (bus.width, bus.signal18, bus.clock_hz) = (8, true, 200_000_000));
}

#[test]
fn hs200_and_tuning() {
    let mut host = card("emmc-hs200");
    assert!(!host.ext_write(185, 2), "not with one line");
    assert!(!host.ext_write(185, 0x12 | 0x40), "no such driver strength");
    host.silent(21, 0);
    host.status();
    to_hs200(&mut host);
    host.set(|bus| bus.sample_error = 100);
    host.short(21, 0);
    assert!(matches!(host.block(&mut [0; 128]), ReadBlock::At { crc_ok: false, .. }));
    host.set(|bus| bus.sample_error = 5);
    host.short(21, 0);
    let block = host.receive(1);
    assert_eq!(
        (block.len(), &block[..3], &block[124..]),
        (128, &[0xff, 0xff, 0x00][..], &[0x77, 0xbb, 0xdd, 0xee][..])
    );
    works_only_so(
        &mut host,
        &[|bus| bus.sample_error = 50, |bus| bus.signal18 = false, |bus| bus.clock_hz = 200_000_001],
    );
    assert!(!host.ext_write(183, 6), "both edges only at HS");
    assert!(!host.ext_write(183, 0));
    assert!(host.ext_write(183, 1));
    host.set(|bus| bus.width = 4);
    host.short(21, 0);
    assert_eq!(host.receive(1).len(), 64);
}

#[test]
fn hs400_by_the_prescribed_way() {
    let mut host = card("fifo-emmc");
    to_hs200(&mut host);
    // HS400 cannot be selected directly from HS200.
    assert!(!host.ext_write(185, 3));
    // HS_TIMING = HS while the clock still has 200 MHz: the card does not understand commands any
    // more.
    host.short(6, 0x03b9_0100);
    host.wait_busy();
    host.silent(13, 1 << 16);
    host.set(|bus| bus.clock_hz = 52_000_000);
    assert_eq!(host.status(), 0x900);
    assert!(!host.ext_write(185, 3), "not with single edges");
    assert!(!host.ext_write(183, 0x86), "no strobe on this part");
    assert!(host.ext_write(183, 6));
    assert!(host.ext_write(185, 3));
    host.set(|bus| (bus.ddr, bus.clock_hz) = (true, 200_000_000));
    works_only_so(
        &mut host,
        &[
            |bus| bus.ddr = false,
            |bus| bus.width = 4,
            |bus| bus.strobe = true,
            |bus| bus.sample_error = 50,
            |bus| bus.signal18 = false,
        ],
    );
    assert!(!host.ext_write(183, 2), "the width stays in HS400");
    // The steps back for a new tuning: lower clock, HS, single data rate, HS200.
    host.set(|bus| bus.clock_hz = 52_000_000);
    assert!(!host.ext_write(185, 2));
    assert!(host.ext_write(185, 1));
    assert!(host.ext_write(183, 2));
    host.set(|bus| bus.ddr = false);
    assert!(host.ext_write(185, 2));
    host.set(|bus| bus.clock_hz = 200_000_000);
    host.short(21, 0);
    assert_eq!(host.receive(1).len(), 128);
}

#[test]
fn hs400_with_enhanced_strobe() {
    let mut host = card("hbg4a2");
    host.emmc_hs8();
    assert!(host.ext_write(183, 0x86));
    host.set(|bus| bus.ddr = true);
    // During the busy of the switch the old mode still applies.
    host.short(6, 0x03b9_0300);
    host.status();
    host.now_ns += 400_000;
    // Without the strobe the host does not understand any response.
    host.set(|bus| (bus.clock_hz, bus.signal18) = (200_000_000, true));
    host.set(|bus| bus.sample_error = 100);
    assert_eq!(host.send(13, 1 << 16).answer, None);
    // With the strobe the host needs no tuning.
    host.set(|bus| bus.strobe = true);
    assert_eq!(host.status(), 0x900);
    works_only_so(&mut host, &[|bus| bus.strobe = false, |bus| bus.ddr = false, |bus| bus.width = 4]);
    // After a reset all steps have to be repeated.
    host.silent(0, 0);
    host.silent(1, 0x40ff_8080);
    host.set(|bus| *bus = BusState { powered: true, clock_hz: 400_000, width: 1, ..BusState::default() });
    host.bring_up_emmc();
}

#[test]
fn bus_test() {
    for (width, pattern, expected) in [
        (8u8, [0x55u8, 0xaa], [0xaau8, 0x55]),
        (4, [0x5a, 0x00], [0xa5, 0x00]),
        (1, [0x80, 0x00], [0x40, 0x00]),
    ] {
        let mut host = card("hbg4a2");
        host.set(|bus| bus.width = width);
        host.short(19, 0);
        let mut block = vec![0u8; usize::from(width.max(4))];
        block[..2].copy_from_slice(&pattern);
        let taken = host.give(&block);
        assert_eq!(taken.status, None, "no status in a bus test");
        assert_eq!(host.short(14, 0) >> 9 & 0xf, 9, "btst");
        assert_eq!(host.receive(1)[..2], expected);
        assert_eq!(host.state(), 4);
    }
}

#[test]
fn a_pulse_on_the_reset_line_is_a_power_cycle_where_the_card_looks_at_it() {
    for enabled in [false, true] {
        let mut host = card("emmc-51-full");
        assert!(host.ext_write(162, u32::from(enabled)));
        assert!(host.ext_write(33, 1), "the cache is on");
        host.emmc_hs8();
        if !enabled {
            host.set(|bus| bus.reset = true);
            host.status();
            host.set(|bus| bus.reset = false);
        }
        for (low_ns, reset) in [(999, false), (1000, enabled)] {
            host.set(|bus| bus.reset = true);
            host.wait(low_ns);
            host.set(|bus| bus.reset = false);
            if !reset {
                assert_eq!(host.status(), 0x900, "{enabled} {low_ns}");
                continue;
            }
            host.set(|bus| {
                *bus = BusState { powered: true, clock_hz: 400_000, width: 1, ..BusState::default() }
            });
            host.set(|bus| bus.reset = true);
            host.silent(1, 0x40ff_8080);
            host.set(|bus| bus.reset = false);
            // The command ends 180 us after RST_n has gone high, before the 200 us (tRSCA) are
            // over.
            host.wait(40_000);
            host.silent(1, 0x40ff_8080);
            host.wait(200_000);
            host.bring_up_emmc();
            let ext = host.ext_csd();
            assert_eq!((ext[162], ext[33], ext[183]), (1, 0, 0));
        }
    }
}
