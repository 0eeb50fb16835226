//! Tests of packed commands of an eMMC: what the device accepts and executes, and what it reports
//! about a failure.

use super::emmc::card;
use super::host::Host;
use crate::card::{Card, EmmcCard};
use crate::faults::{Faults, Plan, Point, Strike};

const PACKED: u32 = 1 << 30;
const RELIABLE: u32 = 1 << 31;
const EXCEPTION: u32 = 1 << 6;

fn packed() -> Host<EmmcCard> {
    let mut host = card("emmc-packed");
    host.emmc_hs8();
    host
}

/// Returns a packed header with these entries: each has an argument of CMD23 and a sector.
fn header(way: u32, entries: &[(u32, u32)]) -> Vec<u8> {
    let mut words = vec![(entries.len() as u32) << 16 | way << 8 | 1, 0];
    for &(count, sector) in entries {
        words.extend([count, sector]);
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(512, 0);
    bytes
}

/// Writes a pack: each block of an entry has the byte that the entry gives.
fn write(host: &mut Host<EmmcCard>, entries: &[(u32, u32)]) {
    let blocks: u32 = entries.iter().map(|(count, _)| count & 0xffff).sum();
    host.ok(23, PACKED | (1 + blocks));
    host.ok(25, entries[0].1);
    host.transmit(&header(2, entries));
    for (&(count, _), n) in entries.iter().zip(1..) {
        host.transmit(&vec![n; 512 * (count & 0xffff) as usize]);
    }
}

fn first_byte(host: &mut Host<EmmcCard>, sector: u32) -> u8 {
    let mut byte = [0];
    host.card.peek(u64::from(sector) * 512, &mut byte).unwrap();
    byte[0]
}

fn told(host: &mut Host<EmmcCard>) -> (u8, u8, u8) {
    let ext = host.ext_csd();
    host.wait(host.clocks_ns(8));
    (ext[54] & 8, ext[36], ext[35])
}

const FOUR: [(u32, u32); 4] = [(2, 1_000), (RELIABLE | 1, 90_000), (8, 40), (1, 1_000_000)];

#[test]
fn four_writes_and_four_reads() {
    let mut host = packed();
    let ext = host.ext_csd();
    assert_eq!((ext[500], ext[501]), (63, 63));
    host.wait(host.clocks_ns(8));
    write(&mut host, &FOUR);
    assert_eq!(host.status(), 0x900);
    for (&(_, sector), n) in FOUR.iter().zip(1..) {
        assert_eq!(first_byte(&mut host, sector), n);
    }
    assert_eq!(told(&mut host), (0, 0, 0));
    host.ok(23, PACKED | 1);
    host.ok(25, 1_000);
    host.transmit(&header(1, &FOUR.map(|(count, sector)| (count & 0xffff, sector))));
    host.ok(23, PACKED | 12);
    host.ok(18, 1_000);
    let data = host.receive(12);
    host.wait(host.clocks_ns(8));
    let bytes: Vec<u8> = data.chunks(512).map(|block| block[0]).collect();
    assert_eq!(bytes, [1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4]);
    assert_eq!(host.state(), 4);
}

#[test]
fn what_is_not_taken() {
    let mut without = card("emmc-hs200");
    without.emmc_hs8();
    assert_ne!(without.short(23, PACKED | 2) & 1 << 19, 0, "MAX_PACKED is 0");
    let mut host = packed();
    assert_ne!(host.short(23, PACKED | RELIABLE | 2) & 1 << 19, 0, "flags are in the entries");
    // A packed read without a header.
    host.ok(23, PACKED | 8);
    assert_ne!(host.short(18, 0) & 1 << 19, 0);
    // Headers that are not valid: the card writes nothing, and names no failed entry.
    for (way, entries, blocks) in
        [(2, vec![(1, 8), (0, 16)], 2), (2, vec![(1, 8), (1, 16)], 2), (3, vec![(1, 8)], 2), (2, vec![], 1)]
    {
        let before = first_byte(&mut host, 8);
        host.ok(23, PACKED | blocks);
        host.ok(25, 8);
        host.transmit(&header(way, &entries));
        host.transmit(&vec![0xa5; 512 * (blocks as usize - 1)]);
        assert_ne!(host.status() & 1 << 19, 0, "{entries:?}");
        assert_eq!((told(&mut host), first_byte(&mut host, 8)), ((8, 1, 0), before), "{entries:?}");
    }
    // The next packed command works normally.
    write(&mut host, &FOUR);
    assert_eq!((host.status(), told(&mut host)), (0x900, (0, 0, 0)));
}

#[test]
fn an_entry_that_fails_ends_the_pack() {
    // The entry fails by its address, by an error of the medium, or by a fault of the packed
    // command.
    for (third, plan, index) in [
        (u32::MAX - 8, Plan::none(), 3),
        (40, Plan::none().shot(Point::Medium, 6, Strike::Fail), 3),
        (40, Plan::none().shot(Point::Pack, 1, Strike::Fail), 3),
        (40, Plan::none().shot(Point::Pack, 1, Strike::Astray(1)), 4),
        (40, Plan::none().shot(Point::Pack, 1, Strike::Astray(-1)), 2),
    ] {
        let mut host = packed();
        assert!(host.ext_write(56, 8));
        host.card.set_faults(Faults::new(plan));
        let last = first_byte(&mut host, 1_000_000);
        write(&mut host, &[FOUR[0], FOUR[1], (8, third), FOUR[3]]);
        assert_eq!(host.status() & EXCEPTION, EXCEPTION);
        assert_eq!(told(&mut host), (8, 3, index));
        assert_eq!((first_byte(&mut host, 1_000), first_byte(&mut host, 90_000)), (1, 2));
        assert_eq!(first_byte(&mut host, 1_000_000), last, "what is behind it is not begun");
        // The card reports the exception until the next packed command.
        assert_eq!(host.status() & EXCEPTION, EXCEPTION);
        host.card.set_faults(Faults::none());
        write(&mut host, &FOUR);
        assert_eq!(host.status(), 0x900);
    }
}

#[test]
fn a_failed_entry_may_show_by_the_exception_bit_alone() {
    for (plan, alone) in [
        (Plan::none().shot(Point::Pack, 1, Strike::Fail), true),
        (Plan::none().shot(Point::Medium, 6, Strike::Fail), true),
        (Plan::none().shot(Point::Pack, 1, Strike::Fail), false),
    ] {
        let profile = crate::card::tests::profile("emmc-packed");
        let profile = if alone { profile.with_exception_alone() } else { profile };
        let medium = crate::card::tests::medium(&profile);
        let mut host = Host::new(profile.build_emmc(medium).unwrap());
        host.bring_up_emmc();
        host.emmc_hs8();
        assert!(host.ext_write(56, 8));
        host.card.set_faults(Faults::new(plan));
        write(&mut host, &FOUR);
        let errors = if alone { 0 } else { 1 << 19 };
        assert_eq!(host.status(), 0x900 | EXCEPTION | errors);
        assert_eq!(told(&mut host), (8, 3, 3));
    }
}

#[test]
fn the_event_shows_where_it_is_enabled() {
    let mut host = packed();
    host.card.set_faults(Faults::new(Plan::none().shot(Point::Pack, 1, Strike::Fail)));
    write(&mut host, &FOUR);
    let status = host.status();
    assert_eq!(status & (EXCEPTION | 1 << 19), 1 << 19);
    assert_eq!(told(&mut host), (8, 3, 3));
}

#[test]
fn a_damaged_block_ends_it_too() {
    let mut host = packed();
    host.ok(23, PACKED | 13);
    host.ok(25, 1_000);
    host.transmit(&header(2, &FOUR));
    host.transmit(&[1; 3 * 512]);
    host.wait(host.block_ns(512));
    let taken = host.card.write_block(&[3; 512], false, host.now_ns);
    assert_eq!(taken.status, Some(false));
    let status = host.short(12, 0);
    host.wait_busy();
    assert_eq!(status >> 9 & 0xf, 6);
    assert_eq!((first_byte(&mut host, 1_000), told(&mut host)), (1, (8, 3, 3)));
}

/// Checks that a pack is faster than single commands: flash units load entries in parallel, and an
/// entry costs less than a command.
#[test]
fn a_pack_is_faster_than_its_parts() {
    let entries: Vec<(u32, u32)> = (0..16).map(|n| (8, n * 50_000)).collect();
    let took = |one: &dyn Fn(&mut Host<EmmcCard>)| {
        let mut host = packed();
        let began_ns = host.now_ns;
        one(&mut host);
        host.now_ns - began_ns
    };
    let packed_ns = took(&|host| write(host, &entries));
    let alone_ns = took(&|host| {
        for &(blocks, sector) in &entries {
            host.ok(23, blocks);
            host.ok(25, sector);
            host.transmit(&vec![1; 512 * blocks as usize]);
        }
    });
    assert!(packed_ns * 10 < alone_ns * 8, "{packed_ns} {alone_ns}");
    let packed_ns = took(&|host| {
        host.ok(23, PACKED | 1);
        host.ok(25, 0);
        host.transmit(&header(1, &entries));
        host.ok(23, PACKED | 128);
        host.ok(18, 0);
        host.receive(128);
    });
    let alone_ns = took(&|host| {
        for &(blocks, sector) in &entries {
            host.ok(23, blocks);
            host.ok(18, sector);
            host.receive(blocks as usize);
            host.wait(host.clocks_ns(8));
        }
    });
    assert!(packed_ns * 10 < alone_ns * 8, "{packed_ns} {alone_ns}");
}
