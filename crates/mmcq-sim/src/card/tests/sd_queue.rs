//! Tests of an SD card's command queue. Their sources are the register descriptions in public
//! drivers (three header files agree about CMD43 to CMD47), and parts 50 to 86 of
//! simulationroom999's series on storage. These give depth, arguments, states, the switch, and what
//! an abort does.

use super::extension;
use super::host::Host;
use super::pages::fast;
use super::queue::{READ, peek, read, ready, tell, wait_for, write};
use super::{medium, profile};
use crate::card::{Card, CardProfile, SdCard};
use crate::faults::{Faults, Plan, Point, Strike};

const ILLEGAL: u32 = 1 << 22;

/// Brings up the card of this profile in SDR104 with its cache on, and sets this queue mode.
fn queue(file: &str, mode: u8) -> Host<SdCard> {
    let mut host = fast(file);
    extension::write(&mut host, 2, 260, 1);
    extension::write(&mut host, 2, 262, mode);
    assert_eq!(extension::read(&mut host, 2, 0, 262, 1), [mode]);
    host
}

fn voluntary() -> Host<SdCard> {
    queue("sdxc-64g-a2", 1)
}

fn refused(host: &mut Host<SdCard>, index: u8, arg: u32) {
    host.silent(index, arg);
    assert_eq!(host.status() & ILLEGAL, ILLEGAL, "after CMD{index} {arg:#x}");
}

#[test]
fn what_the_registers_say() {
    let mut host = fast("sdxc-64g-a2");
    assert_eq!(extension::read(&mut host, 2, 0, 6, 1), [31], "32 tasks");
    host.app(13, 0);
    let ssr = host.receive(1);
    assert_eq!((ssr[21] & 0xf, ssr[22] >> 3, ssr[22] >> 2 & 1), (2, 31, 1), "A2, depth, cache");
    // Without queue mode the queue's commands are illegal, and bit 15 of CMD13 has no meaning.
    for (index, arg) in [(43, 1), (44, READ | 8), (45, 0), (46, 0), (47, 0)] {
        refused(&mut host, index, arg);
    }
    assert_eq!(host.short(13, host.rca << 16 | 1 << 15), 0x900);
    extension::write(&mut host, 2, 262, 3);
    assert_eq!(extension::read(&mut host, 2, 0, 262, 1), [3], "sequential");
    extension::write(&mut host, 2, 262, 0);
    host.ok(17, 0);
    host.receive(1);
    // A reset turns the queue off.
    extension::write(&mut host, 2, 262, 1);
    host.silent(0, 0);
    host.set(|bus| (bus.clock_hz, bus.width) = (400_000, 1));
    host.bring_up_sd(false);
    assert_eq!(extension::read(&mut host, 2, 0, 262, 1), [0]);
    let mut without = fast("pro-plus-128");
    without.silent(44, READ | 8);
    without.silent(48, 0);
}

#[test]
fn tasks_come_and_go() {
    let mut host = voluntary();
    tell(&mut host, 5, 0, 3, 1_000);
    tell(&mut host, 31, READ, 2, 4_000);
    tell(&mut host, 0, READ, 8, 1_000_000);
    let sent: Vec<u8> = (0..3 * 512u32).map(|at| (at * 7 % 251) as u8).collect();
    assert_eq!(ready(&mut host), 1 << 5, "a write has room at once");
    write(&mut host, 5, &sent);
    wait_for(&mut host, 1);
    let expected = peek(&mut host, 1_000_000, 8);
    assert_eq!(read(&mut host, 0, 8), expected);
    wait_for(&mut host, 1 << 31);
    let expected = peek(&mut host, 4_000, 2);
    assert_eq!(read(&mut host, 31, 2), expected);
    assert_eq!((ready(&mut host), host.status()), (0, 0x900));
    tell(&mut host, 5, READ, 3, 1_000);
    wait_for(&mut host, 1 << 5);
    assert_eq!(read(&mut host, 5, 3), sent);
}

#[test]
fn bits_of_an_emmcs_task_are_none() {
    let mut host = voluntary();
    host.card.set_faults(Faults::new(Plan::none()));
    // The bits for a reliable write and for bypassing the cache have no meaning on an SD card.
    tell(&mut host, 0, 1 << 31 | 1 << 24, 1, 100);
    wait_for(&mut host, 1);
    write(&mut host, 0, &[1; 512]);
    let now_ns = host.now_ns;
    assert_eq!(host.card.at_stake(now_ns).len(), 1, "it is in the cache");
    // A flush in queue mode with an empty queue.
    extension::write(&mut host, 2, 261, 1);
    assert_eq!(extension::read(&mut host, 2, 0, 261, 1), [0]);
    let now_ns = host.now_ns;
    assert!(host.card.at_stake(now_ns).is_empty());
}

#[test]
fn what_the_mode_does_not_know() {
    let mut host = voluntary();
    let rca = host.rca << 16;
    let illegal = [
        (6, 0),
        (7, 0),
        (9, rca),
        (16, 512),
        (17, 0),
        (18, 0),
        (23, 8),
        (24, 0),
        (25, 0),
        (27, 0),
        (42, 0),
        (55, rca),
    ];
    for (index, arg) in illegal {
        refused(&mut host, index, arg);
    }
    // Tuning, erase and extension registers work in queue mode only with an empty queue.
    host.ok(19, 0);
    host.receive(1);
    host.ok(32, 0);
    host.ok(33, 8191);
    host.ok(38, 0);
    tell(&mut host, 0, 0, 1, 0);
    for (index, arg) in
        [(19, 0), (32, 0), (33, 0), (38, 0), (48, 2 << 27 | 262 << 9), (49, 2 << 27 | 262 << 9)]
    {
        refused(&mut host, index, arg);
    }
    assert_eq!(ready(&mut host), 1);
    host.ok(43, 1);
    extension::write(&mut host, 2, 262, 0);
    host.ok(17, 0);
    host.receive(1);
}

#[test]
fn what_is_no_task() {
    let mut host = voluntary();
    refused(&mut host, 45, 0);
    // A second CMD44 replaces the first.
    host.ok(44, READ | 1 << 16 | 8);
    host.ok(44, 2 << 16 | 8);
    host.ok(45, 0);
    refused(&mut host, 45, 0);
    refused(&mut host, 44, 2 << 16 | 8);
    refused(&mut host, 44, 3 << 16);
    refused(&mut host, 46, 2 << 16);
    refused(&mut host, 47, 3 << 16);
    for arg in [0, 3, 4 << 16 | 2] {
        refused(&mut host, 43, arg);
    }
    let blocks = 61_064 * 2048;
    host.ok(44, READ | 2);
    assert_eq!(host.short(45, blocks - 1) >> 31, 1, "beyond the end");
    assert_eq!(ready(&mut host), 1 << 2);
    // No second transfer can start while the data lines are in use.
    tell(&mut host, 1, 0, 1, 800);
    host.ok(47, 2 << 16);
    for (index, arg) in [(47, 1 << 16), (43, 1), (48, 0), (17, 0)] {
        refused(&mut host, index, arg);
    }
    tell(&mut host, 3, READ, 1, 1_600);
    host.last.flow = crate::card::Flow::Write { block_size: 512 };
    host.transmit(&[3; 4096]);
    wait_for(&mut host, 1 << 3);
    assert_eq!(ready(&mut host), 0b1010);
}

#[test]
fn aborted_stopped_and_reset() {
    let mut host = voluntary();
    for id in 0..4 {
        tell(&mut host, id, 0, 1, 100 * id);
    }
    host.ok(43, 2 << 16 | 2);
    assert_eq!(ready(&mut host), 0b1011);
    host.ok(47, 0);
    host.ok(12, 0);
    assert_eq!(ready(&mut host), 0b1010, "a stop ends one task");
    host.ok(43, 1);
    assert_eq!(ready(&mut host), 0);
    host.ok(12, 0);
}

#[test]
fn in_sequence_only_the_oldest_is_ready() {
    let mut host = queue("sdxc-64g-a2", 3);
    tell(&mut host, 0, READ, 8, 0);
    tell(&mut host, 1, 0, 1, 800);
    assert_eq!(ready(&mut host), 0);
    refused(&mut host, 43, 1 << 16 | 2);
    wait_for(&mut host, 1);
    assert_eq!(ready(&mut host), 1);
    read(&mut host, 0, 8);
    assert_eq!(ready(&mut host), 1 << 1);
    write(&mut host, 1, &[1; 512]);
    host.ok(43, 1);
}

#[test]
fn a_late_error_of_a_write_is_in_the_next_status() {
    let mut host = voluntary();
    host.card.set_faults(Faults::new(Plan::none().shot(Point::Medium, 1, Strike::Fail)));
    tell(&mut host, 0, 0, 1, 8);
    tell(&mut host, 1, 0, 1, 80);
    host.ok(47, 0);
    let taken = host.card.write_block(&[1; 512], true, host.now_ns);
    assert_eq!(taken.status, Some(true));
    assert_eq!(host.short(44, 2 << 16 | 1) & 1 << 19, 0, "nothing is known yet");
    host.now_ns = host.now_ns.max(taken.busy_until_ns);
    assert_eq!(ready(&mut host), 1 << 1, "the tasks' status has no errors");
    assert_eq!(host.short(45, 800) & 1 << 19, 1 << 19);
    assert_eq!(host.status() & 1 << 19, 0, "once");
}

#[test]
fn the_upper_address_of_a_huge_card_is_in_its_task() {
    let path = format!("{}/cards/sduc-4t.toml", env!("CARGO_MANIFEST_DIR"));
    let queue = "[queue]\nsource = \"\"\ndepth = 2\nunits = 1\nbuffers = 2\norder = \"as-loaded\"\n";
    let text = std::fs::read_to_string(path).unwrap() + queue;
    let profile = CardProfile::from_toml(&text, "sduc").unwrap();
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.bring_up_sd(true);
    extension::write(&mut host, 2, 262, 1);
    let sector = (1u64 << 32) + 24;
    tell(&mut host, 0, READ | ((sector >> 32) as u32) << 24, 1, sector as u32);
    wait_for(&mut host, 1);
    let expected = peek(&mut host, sector, 1);
    assert_eq!(read(&mut host, 0, 1), expected);
}

/// Does random 4 KiB reads at this depth. Returns the reads a second, and the number of wrong ones.
fn reads(host: &mut Host<SdCard>, depth: u32, count: u64) -> (u64, u64) {
    let (mut waiting, mut told, mut done, mut wrong, from_ns) = (0u32, 0u64, 0u64, 0, host.now_ns);
    let mut at = [0u32; 32];
    while done < count {
        while waiting.count_ones() < depth {
            let id = waiting.trailing_ones();
            at[id as usize] = (told.wrapping_mul(0x9e37_79b9) % 1_000_000 * 8) as u32;
            tell(host, id, READ, 8, at[id as usize]);
            waiting |= 1 << id;
            told += 1;
        }
        let id = wait_for(host, u32::MAX).trailing_zeros();
        let (found, meant) = (read(host, id, 8), peek(host, at[id as usize].into(), 8));
        wrong += u64::from(found != meant);
        waiting &= !(1 << id);
        done += 1;
    }
    (done * 1_000_000_000 / (host.now_ns - from_ns), wrong)
}

#[test]
fn depth_pays_and_a2_is_kept() {
    let rate = |depth| reads(&mut voluntary(), depth, 400);
    let [(one, _), (eight, wrong), (deep, _)] = [1, 8, 32].map(rate);
    // With a queue of 8 tasks a card of class A2 does 4000 random reads a second.
    assert!((2_600..3_100).contains(&one) && eight >= 4_000 && deep >= 4_000, "{one} {eight} {deep}");
    assert!((21..=28).contains(&(deep * 10 / one)) && wrong == 0, "{one} {deep}: 2.5 times");
}

#[test]
fn cards_that_do_not_stand_it() {
    let on = |file: &str| {
        let profile = profile(&format!("quirks/{file}"));
        let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
        host.bring_up_sd(true);
        extension::write(&mut host, 2, 260, 1);
        extension::write(&mut host, 2, 262, 1);
        host
    };
    // The card returns wrong data without an error bit.
    let mut host = on("queue-astray");
    assert_eq!(reads(&mut host, 4, 183).1, 3);
    assert_eq!(host.status(), 0x900);
    // A flush never ends, but only in queue mode.
    let mut host = on("queue-flush-hangs");
    extension::write(&mut host, 2, 261, 1);
    host.wait(10_000_000_000);
    assert_eq!(extension::read(&mut host, 2, 0, 261, 1), [1]);
    let mut host = on("queue-flush-hangs");
    extension::write(&mut host, 2, 262, 0);
    extension::write(&mut host, 2, 261, 1);
    assert_eq!(extension::read(&mut host, 2, 0, 261, 1), [0]);
    // The card loses tasks.
    let mut host = on("queue-forgets");
    reads(&mut host, 1, 49);
    tell(&mut host, 0, READ, 1, 0);
    tell(&mut host, 1, 0, 1, 8);
    wait_for(&mut host, 1);
    read(&mut host, 0, 1);
    assert_eq!(ready(&mut host), 0);
    // The switch of the queue takes effect late; until then nothing changes.
    let mut host = on("queue-late");
    assert_eq!(extension::read(&mut host, 2, 0, 262, 1), [0]);
    host.ok(17, 0);
    host.receive(1);
    host.wait(10_000_000);
    assert_eq!(extension::read(&mut host, 2, 0, 262, 1), [1]);
    host.silent(17, 0);
}
