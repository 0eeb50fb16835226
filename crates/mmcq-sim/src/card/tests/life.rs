//! Tests of interrupted and background work, health, false capacities, protection, and cards that
//! damage other sectors.

use super::host::Host;
use super::pages::fast;
use super::{medium, profile};
use crate::card::quirk::{Beyond, CsdProtection, Discarded, WornOut};
use crate::card::{Card, EmmcCard, Kept, Quirks, ReadBlock, SdCard};
use crate::faults::Faults;

pub(super) fn emmc(file: &str, change: impl FnOnce(&mut Quirks)) -> Host<EmmcCard> {
    let mut profile = profile(file);
    change(profile.quirks_mut());
    let mut host = Host::new(profile.build_emmc(medium(&profile)).unwrap());
    host.bring_up_emmc();
    host
}

fn sd(file: &str, change: impl FnOnce(&mut Quirks)) -> Host<SdCard> {
    let mut profile = profile(file);
    change(profile.quirks_mut());
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.bring_up_sd(true);
    host
}

pub(super) fn write(host: &mut Host<impl Card>, sector: u32, value: u8) {
    host.ok(24, sector);
    host.transmit(&[value; 512]);
}

pub(super) fn read(host: &mut Host<impl Card>, sector: u32) -> u8 {
    host.ok(17, sector);
    let data = host.receive(1);
    assert!(data.iter().all(|byte| *byte == data[0]));
    data[0]
}

#[test]
fn hpi_ends_a_flush_and_what_is_left_stays_in_the_cache() {
    let mut host = emmc("emmc-51-full", |quirks| quirks.sanitize_ms = 60_000);
    assert_eq!(host.ext_csd()[503], 1);
    // An HPI has no effect if it is not enabled.
    host.short(6, 0x03a5_0100);
    host.short(13, 1 << 16 | 1);
    host.wait(1_000_000_000);
    assert_eq!(host.state(), 7);
    host.wait(60_000_000_000);
    assert!(host.ext_write(161, 1));
    host.short(6, 0x03a5_0100);
    host.short(13, 1 << 16 | 1);
    host.wait(1_000_000);
    assert_eq!(host.state(), 4, "a sanitize of a minute");
    assert!(host.ext_write(33, 1));
    for sector in 0..300 {
        write(&mut host, sector, 1);
    }
    let before = host.card.at_stake(host.now_ns).len();
    host.short(6, 0x0320_0100);
    host.short(13, 1 << 16 | 1);
    host.wait(1_000_000);
    assert_eq!(host.state(), 4);
    let after = host.card.at_stake(host.now_ns).len();
    assert!(after > 0 && after <= before, "{before} {after}");
    assert!(host.ext_write(32, 1));
    assert!(host.card.at_stake(host.now_ns).is_empty());
}

#[test]
fn background_work_is_asked_for_and_done() {
    let mut host = emmc("emmc-51-full", |quirks| quirks.urgent_after_mib = Some(1));
    let put = |host: &mut Host<EmmcCard>| {
        host.ok(23, 2048);
        host.ok(25, 0);
        host.transmit(&vec![0; 1 << 20]);
    };
    assert_eq!(host.status() & 0x40, 0);
    put(&mut host);
    assert_eq!(host.status() & 0x40, 0x40, "EXCEPTION_EVENT");
    let ext = host.ext_csd();
    assert_eq!((ext[246], ext[54]), (2, 1));
    host.short(6, 0x03a4_0100);
    let begin_ns = host.now_ns;
    host.wait_busy();
    assert!(host.now_ns - begin_ns > 99_000_000);
    assert_eq!((host.status() & 0x40, host.ext_csd()[246]), (0, 0));
}

#[test]
fn health_goes_down_to_the_end() {
    for (worn_out, refused) in [(WornOut::ReadOnly, true), (WornOut::Drop, false)] {
        let mut host = emmc("emmc-51-full", |quirks| {
            quirks.life_mib = Some(1);
            quirks.worn_out = worn_out;
        });
        let health = |host: &mut Host<EmmcCard>| host.ext_csd()[267..270].to_vec();
        assert_eq!(health(&mut host), [1, 1, 1]);
        for part in 0..10 {
            host.ok(23, 205);
            host.ok(25, part * 300);
            host.transmit(&vec![7; 205 * 512]);
        }
        // The card's life ends in the middle of the transfer. The next status reports WP_VIOLATION
        // if worn-out cards refuse writes.
        assert_eq!(host.status() >> 26 & 1, refused.into(), "WP_VIOLATION");
        assert_eq!(health(&mut host), [3, 11, 11]);
        assert_eq!(read(&mut host, 0), 7);
        if refused {
            assert_eq!(host.short(24, 0) >> 26 & 1, 1, "WP_VIOLATION");
        } else {
            write(&mut host, 0, 8);
            assert_eq!(read(&mut host, 0), 7, "dropped");
        }
    }
}

#[test]
fn fake_capacity() {
    let sector = 3 << 11;
    for (beyond, there, below) in [(Beyond::Limbo, 0, 1), (Beyond::Wrap, 5, 5)] {
        let mut host = sd("sdxc-64g-a2", |quirks| {
            quirks.real_mib = Some(2);
            quirks.beyond = beyond;
        });
        write(&mut host, 1 << 11, 1);
        write(&mut host, sector, 5);
        assert_eq!((read(&mut host, sector), read(&mut host, 1 << 11)), (there, below), "{beyond:?}");
    }
}

#[test]
fn discarded_sectors_are_anything() {
    for (discarded, value) in [(Discarded::Erased, 0), (Discarded::Ones, 0xff), (Discarded::Old, 6)] {
        let mut host = emmc("emmc-51-full", |quirks| quirks.discarded = discarded);
        write(&mut host, 9, 6);
        host.ok(35, 9);
        host.ok(36, 9);
        host.ok(38, 3);
        assert_eq!(read(&mut host, 9), value);
    }
    let mut host = sd("sdxc-64g-a2", |quirks| quirks.discarded = Discarded::Mixed);
    for sector in 0..64 {
        write(&mut host, sector, 6);
    }
    host.ok(32, 0);
    host.ok(33, 63);
    host.ok(38, 1);
    let mut seen: Vec<u8> = (0..64).map(|sector| read(&mut host, sector)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [0, 6, 0xff]);
}

#[test]
fn protection_of_all_kinds() {
    let mut host = emmc("hbg4a2", |quirks| quirks.protected_mib = vec![(4, 1)]);
    assert_eq!(host.short(24, 4 << 11) >> 26 & 1, 1);
    write(&mut host, (4 << 11) - 1, 1);
    host.ok(25, (4 << 11) - 1);
    assert_eq!(host.give(&[0; 512]).status, Some(true));
    assert_eq!(host.give(&[0; 512]).status, None);
    host.short(12, 0);
    let mut host = sd("sdxc-128g-uhs", |quirks| quirks.protected_mib = vec![(4, 1)]);
    assert_eq!(host.short(24, 4 << 11) >> 26 & 1, 1);
    for (protection, bits) in [(CsdProtection::Temporary, 0x10), (CsdProtection::Permanent, 0x20)] {
        let mut host = sd("sdxc-128g-uhs", |quirks| quirks.csd_protection = protection);
        assert_eq!(host.short(24, 0) >> 26 & 1, 1);
        host.silent(7, 0);
        assert_eq!(host.long(9, host.rca << 16)[14] & 0x30, bits);
    }
}

#[test]
fn registers_that_lie() {
    let mut host = emmc("hbg4a2", |quirks| {
        quirks.ext_csd = vec![(212, 0xff), (213, 0xff), (214, 0xff), (215, 0xff), (248, 0)];
        quirks.csd = vec![(73, 62, 0), (119, 112, 0xff)];
        quirks.status_bits = 0x10;
    });
    assert_eq!(host.status(), 0x910);
    host.short(8, 0);
    let ext = host.receive(1);
    assert_eq!((&ext[212..216], ext[248]), (&[0xff; 4][..], 0));
    host.silent(7, 0);
    let csd = host.long(9, 1 << 16);
    assert_eq!(csd[1], 0xff);
    assert_eq!(csd[15], crate::wire::crc7(&csd[..15]) << 1 | 1);
    // A card whose power-up never ends.
    let mut never = profile("sdxc-128g-uhs");
    never.quirks_mut().never_ready = true;
    let mut host = Host::new(never.build_sd(medium(&never)).unwrap());
    host.silent(0, 0);
    host.send(8, 0x1aa);
    for _ in 0..300 {
        host.short(55, 0);
        assert_eq!(host.ocr(41, 0x40ff_8000) >> 31, 0);
        host.wait(10_000_000);
    }
}

#[test]
fn a_card_that_shrinks_and_one_that_keeps_its_voltage() {
    let mut host = emmc("hbg4a2", |quirks| quirks.shrinks = true);
    let sectors =
        |host: &mut Host<EmmcCard>| u32::from_le_bytes(host.ext_csd()[212..216].try_into().unwrap());
    let first = sectors(&mut host);
    for _ in 0..2 {
        host.silent(0, 0);
        host.set(|bus| bus.clock_hz = 400_000);
        host.bring_up_emmc();
        assert!(sectors(&mut host).abs_diff(first / 2) < 1024, "once");
    }
    let mut host = sd("sdxc-128g-uhs", |quirks| quirks.stuck_1v8 = true);
    host.power_off();
    host.power_up();
    host.silent(0, 0);
    host.set(|bus| bus.signal18 = true);
    host.send(8, 0x1aa);
    host.wait(100_000_000);
    host.short(55, 0);
    host.ocr(41, 0x41ff_8000);
    host.wait(100_000_000);
    host.short(55, 0);
    assert_eq!(host.ocr(41, 0x41ff_8000) >> 24, 0xc0, "ready, and no S18A: it is there already");
}

#[test]
fn cuts_that_damage_more() {
    for (shorn, sector, damaged) in [(false, 70, true), (true, 70, false)] {
        let mut host = fast_with(|quirks| {
            quirks.neighbour_damage = !shorn;
            quirks.shorn = shorn;
        });
        host.card.set_faults(Faults::none());
        for n in 64..96 {
            write(&mut host, n, 1);
        }
        host.ok(25, 68);
        host.transmit(&[2; 2048]);
        host.card.cut(host.now_ns, &mut |_| Kept::New);
        let mut block = [0; 512];
        let look = |host: &mut Host<SdCard>, sector: u64, block: &mut [u8; 512]| {
            host.card.peek(sector * 512, block).map(|()| (block[0], block[511]))
        };
        assert_eq!(look(&mut host, 75, &mut block).is_err(), damaged);
        assert!(look(&mut host, 96, &mut block).is_ok());
        let whole =
            (68..72).filter(|&n| look(&mut host, n, &mut block).is_ok_and(|ends| ends == (2, 2))).count();
        assert_eq!(whole == 4, !shorn, "{sector}");
    }
}

fn fast_with(change: impl FnOnce(&mut Quirks)) -> Host<SdCard> {
    let mut host = sd("sdxc-128g-uhs", change);
    host.sd_switch(0x80ff_fff3);
    host.set(|bus| bus.clock_hz = 208_000_000);
    host
}

#[test]
fn a_locked_up_card_says_nothing_until_its_power_goes() {
    let mut host = fast("quirks/cmd23-locks-up");
    host.short(23, 8);
    host.short(18, 0);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
    for index in [12, 13, 0, 55] {
        host.silent(index, host.rca << 16);
    }
    host.power_off();
    host.power_up();
    host.bring_up_sd(true);
    assert_eq!(host.card.violations().len(), 1);
}
