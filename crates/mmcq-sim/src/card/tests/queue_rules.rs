//! What a host must not do with a command queue. Each such command gets no response, the next
//! status has ILLEGAL_COMMAND, and the queue does not change.

use super::emmc::card;
use super::host::Host;
use super::queue::{READ, queue, read, ready, tell, wait_for, write};
use crate::card::{Card, EmmcCard};

const ILLEGAL: u32 = 1 << 22;

fn refused(host: &mut Host<EmmcCard>, index: u8, arg: u32) {
    host.silent(index, arg);
    assert_eq!(host.status() & ILLEGAL, ILLEGAL, "after CMD{index} {arg:#x}");
}

#[test]
fn without_the_queue_its_commands_are_illegal() {
    let mut host = card("emmc-queue");
    for (index, arg) in [(44, READ | 8), (45, 0), (46, 0), (47, 0), (48, 1)] {
        refused(&mut host, index, arg);
    }
    // Without the queue, the bit SQS of CMD13 has no meaning.
    assert_eq!(host.short(13, host.rca << 16 | 1 << 15), 0x900);
}

#[test]
fn half_a_task() {
    let mut host = queue("emmc-queue");
    refused(&mut host, 45, 0);
    // A second CMD44 replaces the first.
    host.ok(44, READ | 1 << 16 | 8);
    host.ok(44, 2 << 16 | 8);
    host.ok(45, 0);
    assert_eq!(ready(&mut host), 1 << 2);
    refused(&mut host, 45, 0);
}

#[test]
fn numbers_in_use_and_numbers_that_are_not_there() {
    let mut host = queue("emmc-queue");
    tell(&mut host, 3, 0, 8, 0);
    refused(&mut host, 44, 3 << 16 | 8);
    refused(&mut host, 44, 4 << 16);
    refused(&mut host, 47, 4 << 16);
    refused(&mut host, 48, 4 << 16 | 2);
    refused(&mut host, 48, 0);
    refused(&mut host, 48, 3);
    assert_eq!(ready(&mut host), 1 << 3);
    // A task number is also in use while the data of its task are transferred.
    host.ok(47, 3 << 16);
    host.transmit(&[0; 512]);
    refused(&mut host, 44, 3 << 16 | 8);
}

#[test]
fn the_wrong_direction_and_what_is_not_ready() {
    let mut host = queue("emmc-queue");
    tell(&mut host, 0, READ, 8, 0);
    tell(&mut host, 1, 0, 8, 800);
    refused(&mut host, 46, 0);
    refused(&mut host, 46, 1 << 16);
    wait_for(&mut host, 1);
    refused(&mut host, 47, 0);
    assert_eq!(ready(&mut host), 0b11);
    read(&mut host, 0, 8);
    write(&mut host, 1, &[9; 4096]);
}

#[test]
fn data_need_free_lines() {
    let mut host = queue("emmc-queue");
    for id in 0..3 {
        tell(&mut host, id, 0, 1, 8 * id);
    }
    host.ok(47, 0);
    refused(&mut host, 47, 1 << 16);
    refused(&mut host, 48, 1);
    let taken = host.card.write_block(&[0; 512], true, host.now_ns).busy_until_ns;
    refused(&mut host, 47, 1 << 16);
    refused(&mut host, 48, 1);
    host.now_ns = host.now_ns.max(taken);
    write(&mut host, 1, &[1; 512]);
    assert_eq!(ready(&mut host), 0b100);
}

#[test]
fn addresses_beyond_the_end() {
    let mut host = queue("emmc-queue");
    let sectors = 7456 * 2048;
    host.ok(44, READ | 2);
    assert_eq!(host.short(45, sectors - 1) >> 31, 1);
    assert_eq!(ready(&mut host), 0);
    tell(&mut host, 0, READ, 1, sectors - 1);
    wait_for(&mut host, 1);
    read(&mut host, 0, 1);
}

#[test]
fn data_outside_of_tasks() {
    let mut host = queue("emmc-queue");
    for (index, arg) in [(16, 512), (17, 0), (18, 0), (23, 8), (24, 0), (25, 0)] {
        refused(&mut host, index, arg);
    }
    // With an empty queue the host can read EXT_CSD and erase blocks.
    assert_eq!(host.ext_csd()[15], 1);
    host.ok(35, 0);
    host.ok(36, 1023);
    host.ok(38, 0);
    tell(&mut host, 0, 0, 1, 0);
    for (index, arg) in [(8, 0), (35, 0), (30, 0), (28, 0), (42, 0)] {
        refused(&mut host, index, arg);
    }
    assert!(!host.ext_write(179, 1), "another partition");
    assert!(!host.ext_write(15, 0), "the queue goes off only when it is empty");
    assert!(host.ext_write(32, 1), "a flush is allowed");
    assert_eq!(ready(&mut host), 1);
    host.ok(48, 1);
    assert!(host.ext_write(179, 1));
    assert!(host.ext_write(15, 0));
    assert!(host.ext_write(179, 3), "RPMB");
    assert!(!host.ext_write(15, 1), "not beside RPMB");
}

#[test]
fn a_locked_range_and_a_block_of_another_length() {
    let mut host = card("emmc-queue");
    host.emmc_hs8();
    host.ok(28, 0);
    host.ok(16, 256);
    assert!(host.ext_write(15, 1));
    tell(&mut host, 0, 0, 1, 0);
    assert_eq!(host.short(47, 0) & 1 << 26, 1 << 26, "WP_VIOLATION");
    assert_eq!((ready(&mut host), host.state()), (0, 4), "the task is gone");
}
