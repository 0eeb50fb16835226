//! Tests of the extension registers of SD cards: general information, cache, power-off
//! notification.

use super::host::Host;
use super::pages::fast;
use super::profile;
use crate::card::{Card, SdCard};

/// Sends CMD48 for `len` bytes at an offset in a page of a function. Returns the bytes.
pub(super) fn read(host: &mut Host<SdCard>, function: u32, page: u32, offset: u32, len: u32) -> Vec<u8> {
    host.ok(48, function << 27 | page << 18 | offset << 9 | (len - 1));
    let mut data = host.receive(1);
    assert_eq!(data.len(), 512);
    assert!(data[len as usize..].iter().all(|byte| *byte == 0));
    data.truncate(len as usize);
    data
}

/// Sends CMD49 with one byte. Returns the busy time in ns.
pub(super) fn write(host: &mut Host<SdCard>, function: u32, offset: u32, value: u8) -> u64 {
    host.ok(49, function << 27 | offset << 9);
    let mut block = [0; 512];
    block[0] = value;
    host.wait(host.clocks_ns(2) + host.block_ns(512));
    let taken = host.card.write_block(&block, true, host.now_ns);
    assert_eq!(taken.status, Some(true));
    let busy_ns = taken.busy_until_ns - host.now_ns;
    host.now_ns = taken.busy_until_ns;
    assert_eq!(host.state(), 4);
    busy_ns
}

/// Returns the function codes and the addresses of their registers, found as a host finds them.
pub(super) fn functions(host: &mut Host<SdCard>) -> Vec<(u8, u32)> {
    let info = read(host, 0, 0, 0, 512);
    assert_eq!(info[..2], [0, 0], "revision");
    let mut found = Vec::new();
    let mut at = 16;
    for n in 0..info[4] {
        assert_eq!(info[at + 42], 1);
        let address = u32::from_le_bytes(info[at + 44..at + 48].try_into().unwrap());
        assert_eq!(address & 0x1_ffff, 0);
        found.push((info[at], address >> 18));
        let next = usize::from(u16::from_le_bytes([info[at + 40], info[at + 41]]));
        assert_eq!(next == 0, n + 1 == info[4]);
        at = next;
    }
    found
}

#[test]
fn what_the_card_offers() {
    let mut host = fast("sdxc-64g-a2");
    host.app(51, 0);
    assert_eq!(host.receive(1)[3] >> 2 & 1, 1, "CMD48 and CMD49 in the SCR");
    assert_eq!(functions(&mut host), [(1, 1), (2, 2)]);
    assert_eq!(read(&mut host, 1, 0, 1, 1), [0x10]);
    assert_eq!(read(&mut host, 2, 0, 4, 1), [1]);
    // On cards without extension registers the command is illegal.
    let mut old = fast("sdxc-128g-uhs");
    old.silent(48, 0x1ff);
    assert_eq!(old.status(), 0x0040_0900);
}

#[test]
fn cache_and_flush() {
    let mut host = fast("sdxc-64g-a2");
    let put = |host: &mut Host<SdCard>, sector, value| {
        host.ok(24, sector);
        host.transmit(&[value; 512]);
    };
    host.app(13, 0);
    host.receive(1);
    write(&mut host, 2, 260, 1);
    assert_eq!(read(&mut host, 2, 0, 260, 1), [1]);
    put(&mut host, 5, 1);
    assert_eq!(host.card.at_stake(host.now_ns).len(), 1);
    write(&mut host, 2, 261, 1);
    assert_eq!(read(&mut host, 2, 0, 261, 1), [0], "done");
    assert!(host.card.at_stake(host.now_ns).is_empty());
    put(&mut host, 5, 2);
    host.card.power_cut(host.now_ns);
    let mut block = [0; 512];
    host.card.peek(5 * 512, &mut block).unwrap();
    assert_eq!(block, [1; 512]);
    host.power_off();
    host.power_up();
    host.bring_up_sd(true);
    assert_eq!(read(&mut host, 2, 0, 260, 1), [0], "off after a power cycle");
}

#[test]
fn power_off_notification() {
    let mut host = fast("sdxc-64g-a2");
    write(&mut host, 2, 260, 1);
    host.ok(24, 5);
    host.transmit(&[3; 512]);
    write(&mut host, 1, 2, 1);
    assert_eq!(read(&mut host, 1, 0, 1, 1), [0x10]);
    host.wait(10_000_000);
    assert_eq!(read(&mut host, 1, 0, 1, 1), [0x11]);
    assert!(host.card.at_stake(host.now_ns).is_empty());
}

#[test]
fn a_mask_writes_single_bits() {
    let mut host = fast("sdxc-64g-a2");
    // Mask 1 lets the write change bit 0; mask 2 does not.
    for (mask, value, after) in [(1u32, 0xff, 1), (2, 0, 1), (1, 0, 0)] {
        host.ok(49, 2 << 27 | 1 << 26 | 260 << 9 | mask);
        host.transmit(&[value; 512]);
        assert_eq!(read(&mut host, 2, 0, 260, 1), [after]);
    }
    assert_eq!(profile("sdxc-64g-a2").capacity_bytes() >> 20, 61_064);
}
