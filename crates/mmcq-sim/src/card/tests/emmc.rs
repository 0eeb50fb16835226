//! Tests of an eMMC: EXT_CSD, partitions, erase and trim, write protection, sleep, illegal
//! commands.

use super::host::Host;
use super::{medium, profile};
use crate::card::emmc::Partition;
use crate::card::{Card, EmmcCard};

pub(super) fn card(file: &str) -> Host<EmmcCard> {
    let profile = profile(file);
    let mut host = Host::new(profile.build_emmc(medium(&profile)).unwrap());
    host.bring_up_emmc();
    host
}

#[test]
fn ext_csd_of_the_hsq_card() {
    let mut host = card("hbg4a2");
    let ext = host.ext_csd();
    assert_eq!(ext.len(), 512);
    assert_eq!(u32::from_le_bytes([ext[212], ext[213], ext[214], ext[215]]), 61_071_360);
    // EXT_CSD_REV 8 is version 5.1; the timings are HS26, HS52, DDR52, HS200, HS400 and the
    // enhanced strobe.
    assert_eq!((ext[192], ext[194], ext[196], ext[184]), (8, 2, 0x57, 1));
    assert_eq!((ext[183], ext[185], ext[33], ext[179]), (0, 0, 0, 0));
    assert_eq!(u32::from_le_bytes([ext[249], ext[250], ext[251], ext[252]]), 512);
    assert_eq!((ext[226], ext[224], ext[221], ext[248]), (32, 1, 16, 5));
    let old = card("emmc-4g-old").ext_csd();
    assert_eq!((old[192], old[196], old[184], old[249]), (5, 0x07, 0, 0));
}

#[test]
fn switch_by_bits_and_by_byte() {
    let mut host = card("hbg4a2");
    assert!(host.ext_write(33, 1));
    assert_eq!(host.ext_csd()[33], 1);
    // Access modes of CMD6 that clear bits and set bits.
    host.ok(6, 0x0200_0000 | 33 << 16 | 1 << 8);
    assert_eq!(host.ext_csd()[33], 0);
    host.ok(6, 0x0100_0000 | 33 << 16 | 1 << 8);
    assert_eq!(host.ext_csd()[33], 1);
    // A reset turns the cache off.
    host.silent(0, 0);
    host.set(|bus| bus.clock_hz = 400_000);
    host.bring_up_emmc();
    assert_eq!(host.ext_csd()[33], 0);
}

#[test]
fn what_may_not_be_written_is_refused_and_unchanged() {
    let mut host = card("hbg4a2");
    let before = host.ext_csd();
    // Refused: properties, reserved bytes, values out of range, and modes in a wrong order.
    for (index, value) in [
        (192, 9),
        (212, 0),
        (255, 1),
        (0, 1),
        (185, 4),
        (185, 3),
        (185, 2),
        (183, 3),
        (183, 6),
        (183, 0x86),
        (33, 2),
    ] {
        assert!(!host.ext_write(index, value), "EXT_CSD[{index}] = {value}");
    }
    assert!(!host.ext_write(179, 4), "no general purpose partition");
    assert!(!host.ext_write(32, 2));
    assert_eq!(host.ext_csd(), before);
    // The card shows SWITCH_ERROR only once.
    assert_eq!(host.status(), 0x900);
    let mut old = card("emmc-4g-old");
    assert!(!old.ext_write(33, 1), "no cache in 4.41");
    assert!(!old.ext_write(179, 3), "no RPMB");
    assert!(!old.ext_write(34, 1), "no power-off notification in 4.41");
    assert!(old.ext_write(175, 1));
}

#[test]
fn switch_is_busy_and_status_can_be_asked() {
    let mut host = card("hbg4a2");
    let reply = host.send(6, 0x03b7_0200);
    let sent_ns = host.now_ns - host.clocks_ns(50);
    assert_eq!(reply.busy_until_ns, Some(sent_ns + 400_000));
    assert!(host.card.busy(host.now_ns));
    assert_eq!(host.status(), 0x0e00, "prg, not ready");
    host.silent(8, 0);
    host.wait_busy();
    host.now_ns = host.now_ns.max(sent_ns + 400_000);
    assert_eq!(host.status(), 0x0040_0900);
}

#[test]
fn partitions_are_apart() {
    let mut host = card("emmc-hs200");
    for (access, fill) in [(0, 10u8), (1, 11), (2, 12), (4, 13), (5, 14)] {
        assert!(host.ext_write(179, access), "partition {access}");
        host.ok(24, 3);
        host.transmit(&[fill; 512]);
    }
    for (access, fill) in [(5, 14u8), (0, 10), (4, 13), (2, 12), (1, 11)] {
        assert!(host.ext_write(179, access));
        host.ok(17, 3);
        assert_eq!(host.receive(1), [fill; 512], "partition {access}");
    }
    // Boot 1 is still selected, and has 2 MiB.
    assert_eq!(host.short(17, 4096) >> 31, 1);
    assert_eq!(host.status(), 0x900);
    assert!(!host.ext_write(179, 6), "there are two general purpose partitions");
    assert_eq!(host.card.store(Partition::Gp(1)).map(|medium| medium.bytes()), Some(16 << 20));
    // A reset selects the user area, and keeps the boot bits of PARTITION_CONFIG.
    assert!(host.ext_write(179, 0x48 | 1));
    host.silent(0, 0);
    host.set(|bus| bus.clock_hz = 400_000);
    host.bring_up_emmc();
    assert_eq!(host.ext_csd()[179], 0x48);
    host.ok(17, 3);
    assert_eq!(host.receive(1), [10; 512]);
}

#[test]
fn erase_trim_discard() {
    let mut host = card("hbg4a2");
    let mark = |host: &mut Host<EmmcCard>| {
        for sector in [0, 1, 2, 1023, 1024, 2047, 2048] {
            host.ok(24, sector);
            host.transmit(&[1; 512]);
        }
    };
    let left = |host: &mut Host<EmmcCard>| -> Vec<u32> {
        let mut left = Vec::new();
        for sector in [0, 1, 2, 1023, 1024, 2047, 2048] {
            host.ok(17, sector);
            let data = host.receive(1);
            if data == [1; 512] {
                left.push(sector);
            } else {
                assert_eq!(data, [0; 512]);
            }
        }
        left
    };
    mark(&mut host);
    for arg in [1, 3] {
        mark(&mut host);
        host.ok(35, 1);
        host.ok(36, 1023);
        host.ok(38, arg);
        assert_eq!(left(&mut host), [0, 1024, 2047, 2048], "CMD38 {arg}");
    }
    mark(&mut host);
    host.ok(35, 5);
    host.ok(36, 1030);
    host.ok(38, 0);
    assert_eq!(left(&mut host), [2048], "erase takes whole groups of 512 KiB");
    // CMD38 with an argument that is not defined.
    host.ok(35, 5);
    host.ok(36, 6);
    assert_eq!(host.short(38, 2) >> 19 & 1, 1);
    host.ok(36 - 1, 5);
    assert_eq!(host.short(16, 512) >> 13 & 1, 1, "ERASE_RESET");
    assert_eq!(host.short(38, 0) >> 28 & 1, 1, "ERASE_SEQ_ERROR");
}

#[test]
fn write_protection_by_groups() {
    let mut host = card("hbg4a2");
    let group = 8 << 11;
    host.ok(28, group);
    host.ok(30, 0);
    assert_eq!(host.receive(1), [0, 0, 0, 2]);
    host.ok(31, group);
    assert_eq!(host.receive(1), [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(host.short(24, group) >> 26 & 1, 1, "WP_VIOLATION");
    host.ok(24, group - 1);
    host.transmit(&[0; 512]);
    // A multi-block write that runs into the protected group.
    host.ok(25, group - 1);
    assert_eq!(host.give(&[0; 512]).status, Some(true));
    assert_eq!(host.give(&[0; 512]).status, None);
    assert_eq!(host.short(12, 0) >> 26 & 1, 1);
    host.wait_busy();
    host.ok(29, group);
    host.ok(24, group);
    host.transmit(&[0; 512]);
    // Protection until the next power cycle: CMD29 cannot remove it.
    assert!(host.ext_write(171, 1));
    host.ok(28, group);
    host.short(29, group);
    host.wait_busy();
    assert_eq!(host.status() >> 19 & 1, 1);
    host.power_off();
    host.power_up();
    host.bring_up_emmc();
    host.ok(24, group);
    host.transmit(&[0; 512]);
}

#[test]
fn sleep_and_awake() {
    let mut host = card("hbg4a2");
    host.silent(7, 0);
    host.ok(5, 1 << 16 | 1 << 15);
    host.silent(13, 1 << 16);
    host.silent(7, 1 << 16);
    let reply = host.send(5, 1 << 16);
    let sent_ns = host.now_ns - host.clocks_ns(50);
    assert_eq!(reply.busy_until_ns, Some(sent_ns + 2_000_000));
    host.silent(7, 1 << 16);
    host.now_ns = sent_ns + 2_000_000;
    host.short(7, 1 << 16);
    assert_eq!(host.state(), 4);
}

#[test]
fn illegal_in_each_state() {
    let profile = profile("hbg4a2");
    let mut host = Host::new(profile.build_emmc(medium(&profile)).unwrap());
    // The eMMC ignores the commands by which a host looks for an SD or I/O card.
    host.silent(0, 0);
    for (index, arg) in [(8, 0x1aa), (55, 0), (5, 0), (52, 0), (41, 0x40ff_8000), (2, 0), (3, 1 << 16)] {
        host.silent(index, arg);
    }
    host.bring_up_emmc();
    let legal = [0, 6, 7, 8, 13, 15, 16, 17, 18, 19, 23, 24, 25, 26, 27, 28, 29, 30, 31, 35, 36, 38, 42];
    for index in (1..64).filter(|index| !legal.contains(index)) {
        host.silent(index, 1 << 16);
        assert_eq!(host.status(), 0x0040_0900, "CMD{index}");
        assert_eq!(host.status(), 0x0000_0900);
    }
    // CMD12 after the end of a counted write is illegal.
    host.ok(23, 1);
    host.ok(25, 0);
    host.transmit(&[0; 512]);
    host.silent(12, 0);
    assert_eq!(host.status(), 0x0040_0900);
    host.silent(13, 2 << 16);
    assert_eq!(host.status(), 0x900);
    // CMD26 is refused, since the CID was programmed in the factory.
    host.ok(26, 0);
    host.transmit(&[0; 16]);
    assert_eq!(host.status() >> 16 & 1, 1);
    // Packed commands are not supported: MAX_PACKED is 0.
    assert_eq!(host.short(23, 1 << 30 | 4) >> 19 & 1, 1);
}

#[test]
fn power_up_and_access_mode() {
    let profile = profile("hbg4a2");
    let mut host = Host::new(profile.build_emmc(medium(&profile)).unwrap());
    assert_eq!(host.ocr(1, 0), 0x40ff_8080, "an inquiry");
    assert_eq!(host.ocr(1, 0x40ff_8080), 0x40ff_8080);
    host.wait(59_000_000);
    assert_eq!(host.ocr(1, 0x40ff_8080), 0x40ff_8080);
    host.wait(1_000_000);
    assert_eq!(host.ocr(1, 0x40ff_8080), 0xc0ff_8080);
    // RCA 0 is not a valid address.
    host.long(2, 0);
    host.silent(3, 0);
    assert_eq!(host.short(3, 7 << 16), 0x0040_0500);
    host.rca = 7;
    assert_eq!(host.state(), 3);
    // A host that does not announce sector addressing cannot use this device.
    host.silent(0, 0);
    host.set(|bus| bus.clock_hz = 400_000);
    host.ocr(1, 0x00ff_8080);
    host.wait(60_000_000);
    host.ocr(1, 0x00ff_8080);
    host.silent(2, 0);
    host.silent(0, 0);
    host.silent(1, 0x40ff_8080);
}
