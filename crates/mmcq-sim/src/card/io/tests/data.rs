use super::*;
use crate::card::{Card, ReadBlock};

const BYTE_FIXED: (bool, bool) = (false, false);
const BYTE_UP: (bool, bool) = (false, true);
const BLOCK_FIXED: (bool, bool) = (true, false);
const BLOCK_UP: (bool, bool) = (true, true);

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 256) as u8).collect()
}

fn with_blocks(bytes: u16) -> Host<IoCard> {
    let mut host = Host::ready(card(config()), 6);
    host.put(0, 0x110, bytes as u8);
    host.put(0, 0x111, (bytes >> 8) as u8);
    host
}

#[test]
fn bytes_with_rising_and_with_fixed_address() {
    let mut host = Host::ready(card(config()), 6);
    let data = pattern(512);
    for bytes in [1usize, 3, 4, 511, 512] {
        // A count of 512 is coded as 0.
        let count = bytes as u32 & 0x1ff;
        host.write53(1, BYTE_UP, 0x200, count, &data[..bytes]);
        assert_eq!(host.read53(1, BYTE_UP, 0x200, count, 1), data[..bytes]);
        host.write53(1, BYTE_FIXED, 0, count, &data[..bytes]);
        assert_eq!(host.get(1, 4), bytes.min(255) as u8);
        assert_eq!(host.read53(1, BYTE_FIXED, 0, count, 1), data[..bytes]);
    }
    // Function 0 accepts CMD53 as well.
    assert_eq!(host.read53(0, BYTE_UP, 0, 4, 1), [0x43, 3, 6, 6]);
}

#[test]
fn blocks_with_rising_and_with_fixed_address() {
    let mut host = with_blocks(200);
    let data = pattern(1000);
    host.write53(1, BLOCK_UP, 0x300, 5, &data);
    assert_eq!(host.read53(1, BLOCK_UP, 0x300, 5, 5), data);
    host.write53(1, BLOCK_FIXED, 0, 5, &data);
    assert_eq!(host.read53(1, BLOCK_FIXED, 0, 5, 5), data);
    assert_eq!(host.get(1, 4), 0);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_follows() {
    let mut host = Host::ready(card(config()), 2);
    let refused = [
        // Refused: block mode without a block size; more bytes than the function's largest block;
        // an access over the last address.
        (1, BLOCK_UP, 0x100, 1, 0x1800),
        (1, BYTE_UP, 0x20f8, 9, 0x1100),
        // An access to a fixed address cannot exceed the last address.
        (3, BYTE_UP, 0, 4, 0x1200),
        (2, BYTE_UP, 0, 4, 0x1800),
    ];
    for (number, modes, address, count, want) in refused {
        assert_eq!(host.extended(false, number, modes, address, count), want);
        assert_eq!(host.last.flow, Flow::None);
    }
    assert_eq!(host.read53(1, BYTE_FIXED, 0x20ff, 9, 1), [0; 9]);
    host.put(0, 2, 6);
    assert_eq!(host.extended(false, 2, BYTE_UP, 0x100, 65), 0x1100);
    assert_eq!(host.extended(false, 2, BYTE_UP, 0x100, 0), 0x1100);
    // Blocks larger than the function's largest block.
    host.put(0, 0x210, 65);
    assert_eq!(host.extended(false, 2, BLOCK_UP, 0x100, 1), 0x1100);
    // A card that does not support block mode.
    let mut plain = config();
    plain.capabilities = 0;
    let mut host = Host::ready(card(plain), 2);
    host.put(0, 0x110, 64);
    assert_eq!(host.extended(false, 1, BLOCK_UP, 0x100, 1), 0x1800);
}

#[test]
fn an_endless_transfer_ends_by_an_abort() {
    let mut host = with_blocks(64);
    assert_eq!(host.extended(false, 1, BLOCK_FIXED, 0, 0), 0x1000);
    host.receive(9);
    // During data CMD52 works and reports the transfer; CMD53 is illegal.
    assert_eq!(host.direct(false, 0, false, 0, 0), 0x2043);
    host.silent(53, 0x1000_0004);
    // An abort that names another function changes nothing.
    assert_eq!(host.direct(true, 0, false, 6, 2), 0x6002, "and the illegal command before");
    assert_eq!(host.direct(true, 0, false, 6, 1), 0x1001);
    let mut block = [0; 64];
    assert_eq!(host.block(&mut block), ReadBlock::Never);
    assert_eq!(host.read53(1, BYTE_UP, 0x100, 4, 1), [0; 4]);
}

#[test]
fn without_direct_commands_during_data_only_the_abort_is_heard() {
    let mut plain = config();
    plain.capabilities = 0x02;
    let mut host = Host::ready(card(plain), 2);
    host.put(0, 0x110, 64);
    host.extended(false, 1, BLOCK_FIXED, 0, 0);
    host.receive(1);
    host.silent(52, 0);
    assert_eq!(host.direct(true, 0, false, 6, 1), 0x5001);
}

#[test]
fn a_damaged_block_is_not_taken() {
    let mut host = with_blocks(64);
    host.extended(true, 1, BLOCK_FIXED, 0, 2);
    let now = host.now_ns;
    assert_eq!(host.card.write_block(&[1; 64], true, now).status, Some(true));
    host.wait(10_000);
    let now = host.now_ns;
    assert_eq!(host.card.write_block(&[2; 64], false, now).status, Some(false));
    assert_eq!(host.get(1, 4), 64);
    // With the wrong number of data lines the data are damaged.
    host.set(|bus| bus.width = 1);
    host.extended(true, 1, BYTE_FIXED, 0, 4);
    let now = host.now_ns;
    assert_eq!(host.card.write_block(&[3; 4], true, now).status, Some(false));
    assert_eq!(host.get(1, 4), 64);
}

#[test]
fn first_block_and_busy_take_the_functions_time() {
    let mut host = Host::ready(card(config()), 2);
    let before = {
        host.extended(false, 1, BYTE_UP, 0x100, 4);
        host.now_ns
    };
    let mut word = [0; 4];
    let ReadBlock::At { start_ns, crc_ok: true } = host.block(&mut word) else { panic!("no block") };
    // The first block may start 1 us after the end of the command, but the response takes longer.
    assert_eq!(start_ns, before);
    host.extended(true, 1, BYTE_UP, 0x100, 4);
    let now = host.now_ns;
    assert_eq!(host.card.write_block(&[0; 4], true, now).busy_until_ns, now + 500);
    assert!(host.card.busy(now + 499) && !host.card.busy(now + 500));
}
