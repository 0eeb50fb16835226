//! Tests of each profile of a card with a quirk: how it identifies itself, that it works with the
//! right treatment, and that its quirk shows with the wrong one.

use super::extension;
use super::host::Host;
use super::life::{read, write};
use super::queue;
use super::{medium, profile};
use crate::card::{Answer, Card, EmmcCard, Flow, ReadBlock, SdCard};

fn sd(file: &str) -> Host<SdCard> {
    let profile = profile(&format!("quirks/{file}"));
    let uhs = !matches!(file, "last-block-locks-up");
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.bring_up_sd(uhs);
    host
}

fn emmc(file: &str) -> Host<EmmcCard> {
    let profile = profile(&format!("quirks/{file}"));
    let mut host = Host::new(profile.build_emmc(medium(&profile)).unwrap());
    host.bring_up_emmc();
    host
}

/// Returns manufacturer, OEM as Linux shows it (two bytes), product name and date.
fn identity(host: &mut Host<impl Card>, emmc: bool) -> (u8, u16, String, (u16, u8)) {
    host.silent(7, 0);
    let cid = host.long(10, host.rca << 16);
    host.ok(7, host.rca << 16);
    let oem = u16::from_be_bytes([cid[1], cid[2]]);
    let name = if emmc { &cid[3..9] } else { &cid[3..8] };
    let name = String::from_utf8(name.to_vec()).unwrap().trim_end_matches('\0').to_owned();
    let date = if emmc {
        (u16::from(cid[14] & 15) + 1997, cid[14] >> 4)
    } else {
        (2000 + (u16::from(cid[13] & 15) << 4 | u16::from(cid[14] >> 4)), cid[14] & 15)
    };
    (cid[0], oem, name, date)
}

fn id(file: &str, is_emmc: bool) -> (u8, u16, String, (u16, u8)) {
    if is_emmc { identity(&mut emmc(file), true) } else { identity(&mut sd(file), false) }
}

#[test]
fn they_say_who_they_are() {
    let known = [
        ("cmd23-locks-up", 0x09, None, "AF SD"),
        ("sd-cache-broken", 0x9f, Some(0x5449), "SD64G"),
        ("power-off-never-ready", 0x12, Some(0x3456), "ASTC"),
        ("ddr50-tuning-fails", 0x5d, Some(0x5342), "0016G"),
        ("discard-corrupts", 0x03, Some(0x5344), "SN64G"),
    ];
    for (file, manufacturer, oem, name) in known {
        let (m, o, n, _) = id(file, false);
        assert_eq!((m, n.as_str()), (manufacturer, name), "{file}");
        assert!(oem.is_none_or(|oem| oem == o), "{file}: {o:#x}");
    }
    let known = [
        ("cmd23-slow", 0x11, None, "MMC16G"),
        ("long-read", 0x13, Some(0x200), "MMC04G"),
        ("secure-erase-corrupts", 0x15, None, "MAG4FA"),
        ("trim-corrupts", 0x70, Some(0x100), "M62704"),
        ("flush-needs-write", 0x13, Some(0x14e), "Q2J54A"),
        ("hpi-breaks", 0x90, Some(0x14a), "HAG2e"),
        ("wrong-date", 0x45, None, "DG4032"),
        ("secure-erase-2s", 0x70, Some(0x100), "IY2964"),
        ("inand-cmd38", 0x02, Some(0x100), "SEM04G"),
    ];
    for (file, manufacturer, oem, name) in known {
        let (m, o, n, _) = id(file, true);
        assert_eq!((m, n.as_str()), (manufacturer, name), "{file}");
        assert!(oem.is_none_or(|oem| oem == o), "{file}: {o:#x}");
    }
    assert_eq!(id("sd-cache-broken", false).3, (2019, 11));
    assert_eq!(id("power-off-never-ready", false).3, (2022, 2));
    assert_eq!(id("ddr50-tuning-fails", false).3, (2019, 1));
    // The card was made in 2026: its four bits mean 2010, since its revision is not 9.
    let mut host = emmc("wrong-date");
    assert_eq!(identity(&mut host, true).3, (2010, 5));
    assert_eq!(host.ext_csd()[192], 8);
    assert_eq!(emmc("hpi-breaks").ext_csd()[192], 5);
}

#[test]
fn treated_well_they_keep_data() {
    let files = [
        "cmd23-locks-up",
        "sd-cache-broken",
        "power-off-never-ready",
        "ddr50-tuning-fails",
        "discard-corrupts",
        "last-block-locks-up",
        "command-queue-broken",
        "queue-astray",
        "queue-flush-hangs",
        "queue-forgets",
        "queue-late",
    ];
    for file in files {
        is_well(&mut sd(file), file);
    }
    let files = [
        "cmd23-slow",
        "long-read",
        "secure-erase-corrupts",
        "trim-corrupts",
        "flush-needs-write",
        "hpi-breaks",
        "wrong-date",
        "secure-erase-2s",
        "inand-cmd38",
    ];
    for file in files {
        is_well(&mut emmc(file), file);
    }
}

/// Checks that the card writes and reads like a card without the quirk.
fn is_well(host: &mut Host<impl Card>, file: &str) {
    write(host, 7, 3);
    host.ok(25, 8);
    host.transmit(&[4; 1024]);
    host.ok(12, 0);
    assert_eq!([read(host, 7), read(host, 8), read(host, 9)], [3, 4, 4], "{file}");
    assert!(host.card.violations().is_empty());
}

fn violated(card: &impl Card, what: &str) -> bool {
    card.violations().iter().any(|violation| violation.what.contains(what))
}

#[test]
fn counted_transfers() {
    for index in [18, 25] {
        let mut host = sd("cmd23-locks-up");
        host.short(23, 2);
        host.short(index, 0);
        assert!(violated(&host.card, "CMD23"));
        host.silent(13, host.rca << 16);
    }
    let mut host = emmc("cmd23-slow");
    let time = |host: &mut Host<EmmcCard>, counted: bool| {
        let begin_ns = host.now_ns;
        if counted {
            host.ok(23, 2);
        }
        host.ok(18, 0);
        host.receive(2);
        if !counted {
            host.ok(12, 0);
        }
        host.now_ns - begin_ns
    };
    assert!(time(&mut host, true) > time(&mut host, false) + 1_900_000);
}

#[test]
fn long_reads() {
    let mut host = emmc("long-read");
    let longest = (0..64)
        .map(|sector| {
            host.ok(17, sector);
            let begin_ns = host.now_ns;
            host.receive(1);
            host.now_ns - begin_ns
        })
        .filter(|ns| *ns > 400_000_000)
        .count();
    assert_eq!(longest, 2, "beyond the 100 ms of the CSD's TAAC");
}

fn erase(host: &mut Host<EmmcCard>, from: u32, to: u32, how: u32) -> u64 {
    host.ok(35, from);
    host.ok(36, to);
    let begin_ns = host.now_ns;
    host.ok(38, how);
    host.now_ns - begin_ns
}

#[test]
fn erases_that_hit_others() {
    for (file, how) in [
        ("secure-erase-corrupts", 0x8000_0000),
        ("secure-erase-corrupts", 0x8000_0001),
        ("trim-corrupts", 1),
        ("flush-needs-write", 1),
    ] {
        let mut host = emmc(file);
        write(&mut host, 1024, 5);
        erase(&mut host, 0, 1023, 0);
        assert_eq!(read(&mut host, 1024), 5);
        assert!(host.card.violations().is_empty(), "{file}: a plain erase is no harm");
        erase(&mut host, 0, 1023, how);
        assert_ne!(read(&mut host, 1024), 5, "{file}");
        assert!(violated(&host.card, "erase command"));
    }
    let mut host = sd("discard-corrupts");
    host.app(13, 0);
    assert_eq!(host.receive(1)[63 - 313 / 8] >> (313 % 8) & 1, 1, "discard is offered");
    write(&mut host, 64, 5);
    for (how, left) in [(0, true), (1, false)] {
        host.ok(32, 0);
        host.ok(33, 63);
        host.ok(38, how);
        assert_eq!(read(&mut host, 64) == 5, left);
    }
    assert!(violated(&host.card, "discard"));
}

#[test]
fn two_seconds_whatever_the_size() {
    let mut host = emmc("secure-erase-2s");
    for sectors in [1024, 1 << 20] {
        let ns = erase(&mut host, 0, sectors - 1, 0x8000_0000);
        assert!(ns.abs_diff(2_000_000_000) < 1_000_000, "{ns}");
    }
    assert!(erase(&mut host, 0, 1023, 0) < 10_000_000);
}

#[test]
fn the_argument_in_ext_csd_113() {
    let mut host = emmc("inand-cmd38");
    // A trim without EXT_CSD[113] erases the whole erase group.
    write(&mut host, 20, 5);
    erase(&mut host, 0, 7, 1);
    assert_eq!(read(&mut host, 20), 0);
    assert!(violated(&host.card, "EXT_CSD[113]"));
    let before = host.card.violations().len();
    write(&mut host, 20, 5);
    assert!(host.ext_write(113, 1));
    erase(&mut host, 0, 7, 1);
    assert_eq!(read(&mut host, 20), 5);
    assert_eq!(host.card.violations().len(), before);
}

#[test]
fn flushes() {
    let mut host = emmc("flush-needs-write");
    assert!(host.ext_write(33, 1));
    host.short(6, 0x0320_0100);
    host.wait_busy();
    assert_eq!(host.status() >> 19 & 1, 1);
    assert!(violated(&host.card, "flush"));
    write(&mut host, 0, 1);
    assert!(host.ext_write(32, 1));
    assert!(host.card.at_stake(host.now_ns).is_empty());
    for file in ["sd-cache-broken", "power-off-never-ready"] {
        let mut host = sd(file);
        let functions = extension::functions(&mut host);
        assert_eq!(functions.last(), Some(&(2, 2)));
        extension::write(&mut host, 2, 260, 1);
        write(&mut host, 0, 1);
        let busy_ns = extension::write(&mut host, 2, 261, 1);
        assert!(busy_ns <= 1_000_000_000);
        host.wait(60_000_000_000);
        assert_eq!(extension::read(&mut host, 2, 0, 261, 1), [1], "{file}: never cleared");
    }
    let mut host = sd("power-off-never-ready");
    extension::write(&mut host, 1, 2, 1);
    host.wait(60_000_000_000);
    assert_eq!(extension::read(&mut host, 1, 0, 1, 1), [0x10], "never ready");
}

#[test]
fn tuning_in_ddr50() {
    let mut host = sd("ddr50-tuning-fails");
    // In SDR25 the card responds again.
    host.sd_switch(0x80ff_fff1);
    host.short(19, 0);
    host.receive(1);
    host.sd_switch(0x80ff_fff4);
    host.set(|bus| (bus.clock_hz, bus.ddr) = (50_000_000, true));
    assert_eq!(host.state(), 4);
    host.silent(19, 0);
    assert_eq!(host.status() >> 19 & 1, 1);
    assert!(violated(&host.card, "DDR50"));
    write(&mut host, 0, 4);
    assert_eq!(read(&mut host, 0), 4, "DDR50 works without");
}

#[test]
fn an_interrupt_that_breaks() {
    let mut host = emmc("hpi-breaks");
    assert_eq!(host.ext_csd()[503], 1, "it is offered");
    assert!(host.ext_write(161, 1));
    host.short(6, 0x03b7_0000);
    host.short(13, 1 << 16 | 1);
    host.silent(13, 1 << 16);
    assert!(violated(&host.card, "HPI"));
    host.power_off();
    host.power_up();
    host.bring_up_emmc();
}

#[test]
fn the_last_sector() {
    let mut host = sd("last-block-locks-up");
    let last = (profile("quirks/last-block-locks-up").capacity_bytes() / 512 - 1) as u32;
    host.ok(17, last);
    host.receive(1);
    host.ok(18, last - 2);
    host.receive(2);
    host.ok(12, 0);
    host.ok(23, 2);
    host.ok(18, last - 1);
    host.receive(1);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
    host.silent(12, 0);
    assert!(violated(&host.card, "last sector"));
}

#[test]
fn the_queue() {
    let mut host = sd("command-queue-broken");
    assert_eq!(extension::read(&mut host, 2, 0, 6, 1), [31]);
    write(&mut host, 3, 9);
    extension::write(&mut host, 2, 262, 1);
    queue::tell(&mut host, 0, queue::READ, 1, 3);
    queue::wait_for(&mut host, 1);
    assert_ne!(queue::read(&mut host, 0, 1)[0], 9);
    extension::write(&mut host, 2, 261, 1);
    host.wait(10_000_000_000);
    assert_eq!(extension::read(&mut host, 2, 0, 261, 1), [1]);
    assert!(violated(&host.card, "queue"));
}

#[test]
fn locked_up_means_silent() {
    let mut host = sd("cmd23-locks-up");
    host.short(23, 1);
    let reply = host.send(18, 0);
    assert!(matches!(reply.answer, Some(Answer::Short { .. })) && reply.flow != Flow::None);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
}
