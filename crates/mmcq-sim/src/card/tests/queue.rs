//! Tests of an eMMC's command queue: tasks from CMD44 to their data, and the times.

use super::emmc::card;
use super::host::Host;
use crate::card::{Answer, Card, EmmcCard};
use crate::faults::{Faults, Plan, Point, Strike};

pub(super) const READ: u32 = 1 << 30;

/// Brings up the card of this profile with eight lines at HS, and switches the queue on.
pub(super) fn queue(file: &str) -> Host<EmmcCard> {
    let mut host = card(file);
    host.emmc_hs8();
    assert!(host.ext_write(15, 1), "CMDQ_MODE_EN");
    host
}

/// Sends a task by CMD44 and CMD45.
pub(super) fn tell(host: &mut Host<impl Card>, id: u32, how: u32, blocks: u32, sector: u32) {
    host.ok(44, how | id << 16 | blocks);
    host.ok(45, sector);
}

/// Reads the queue status by CMD13 with the bit SQS.
pub(super) fn ready(host: &mut Host<impl Card>) -> u32 {
    host.short(13, host.rca << 16 | 1 << 15)
}

/// Polls the queue status until one of these tasks is ready. Returns all ready tasks.
pub(super) fn wait_for(host: &mut Host<impl Card>, tasks: u32) -> u32 {
    for _ in 0..10_000 {
        let bits = ready(host);
        if bits & tasks != 0 {
            return bits;
        }
        host.wait(1_000);
    }
    panic!("none of {tasks:b} is ever ready");
}

pub(super) fn read(host: &mut Host<impl Card>, id: u32, blocks: usize) -> Vec<u8> {
    host.ok(46, id << 16);
    let data = host.receive(blocks);
    host.wait(host.clocks_ns(8));
    data
}

pub(super) fn write(host: &mut Host<impl Card>, id: u32, data: &[u8]) {
    host.ok(47, id << 16);
    host.transmit(data);
}

pub(super) fn peek(host: &mut Host<impl Card>, sector: u64, sectors: usize) -> Vec<u8> {
    let mut bytes = vec![0; 512 * sectors];
    host.card.peek(sector * 512, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_the_registers_say() {
    let mut host = card("emmc-queue");
    let ext = host.ext_csd();
    assert_eq!((ext[308], ext[307], ext[15]), (1, 31, 0));
    assert!(host.ext_write(15, 1));
    assert_eq!(host.ext_csd()[15], 1);
    assert!(!host.ext_write(15, 2), "a reserved bit");
    // A reset turns the queue off.
    host.silent(0, 0);
    host.set(|bus| bus.clock_hz = 400_000);
    host.bring_up_emmc();
    assert_eq!(host.ext_csd()[15], 0);
    let mut without = card("hbg4a2");
    assert!(!without.ext_write(15, 1));
    assert_eq!((without.ext_csd()[308], without.ext_csd()[307]), (0, 0));
    without.silent(44, READ | 8);
}

#[test]
fn tasks_come_and_go() {
    let mut host = queue("emmc-queue");
    tell(&mut host, 5, 0, 3, 1_000);
    tell(&mut host, 31, READ, 2, 4_000);
    tell(&mut host, 0, READ, 8, 1_000_000);
    let sent: Vec<u8> = (0..3 * 512u32).map(|at| (at * 7 % 251) as u8).collect();
    assert_eq!(ready(&mut host), 1 << 5, "a write has room at once");
    write(&mut host, 5, &sent);
    assert_eq!(ready(&mut host) & 1 << 5, 0, "its bit is gone");
    wait_for(&mut host, 1);
    let expected = peek(&mut host, 1_000_000, 8);
    assert_eq!(read(&mut host, 0, 8), expected);
    wait_for(&mut host, 1 << 31);
    let expected = peek(&mut host, 4_000, 2);
    assert_eq!(read(&mut host, 31, 2), expected);
    assert_eq!((ready(&mut host), host.status()), (0, 0x900));
    // The written data can be read, and the task number can be used again.
    tell(&mut host, 5, READ, 3, 1_000);
    wait_for(&mut host, 1 << 5);
    assert_eq!(read(&mut host, 5, 3), sent);
}

#[test]
fn commands_go_beside_data_and_beside_busy() {
    let mut host = queue("emmc-queue");
    tell(&mut host, 0, READ, 8, 0);
    wait_for(&mut host, 1);
    host.ok(46, 0);
    host.receive(4);
    tell(&mut host, 1, READ, 8, 800);
    tell(&mut host, 2, 0, 1, 1_600);
    assert_eq!(ready(&mut host), 1 << 2);
    assert_eq!(host.status() >> 9 & 0xf, 5, "it is still sending");
    // The other blocks come as if no command had been sent in between.
    host.last.flow = crate::card::Flow::Read { block_size: 512 };
    let rest = host.receive(4);
    assert_eq!(rest, peek(&mut host, 4, 4));
    host.wait(1_000);
    host.ok(47, 2 << 16);
    let taken = host.card.write_block(&[1; 512], true, host.now_ns);
    assert!(taken.busy_until_ns > host.now_ns);
    tell(&mut host, 3, READ, 8, 2_400);
    assert!(host.card.busy(host.now_ns), "all of that within the busy");
    assert_eq!(host.status() >> 9 & 0xf, 7);
    host.now_ns = host.now_ns.max(taken.busy_until_ns);
    assert_eq!(host.status(), 0x900);
}

/// Returns the number of random 4 KiB reads a second at this depth.
fn rate(file: &str, depth: u32) -> u64 {
    let mut host = queue(file);
    let (mut waiting, mut told, mut done, from_ns) = (0u32, 0u64, 0u64, host.now_ns);
    while done < 400 {
        while waiting.count_ones() < depth {
            let id = waiting.trailing_ones();
            let sector = told.wrapping_mul(0x9e37_79b9) % 1_000_000 * 8;
            tell(&mut host, id, READ, 8, sector as u32);
            waiting |= 1 << id;
            told += 1;
        }
        let id = wait_for(&mut host, u32::MAX).trailing_zeros();
        read(&mut host, id, 8);
        waiting &= !(1 << id);
        done += 1;
    }
    done * 1_000_000_000 / (host.now_ns - from_ns)
}

#[test]
fn depth_pays_by_the_units_that_the_card_has() {
    // 4 KiB take 83 us on this bus: with a deep queue the wire limits the fast cards.
    for (file, single, deep) in [
        ("emmc-queue-slow", 3_400..4_000, 8_500..11_500),
        ("emmc-queue", 4_100..4_700, 9_500..12_000),
        ("emmc-queue-fast", 5_000..5_800, 9_500..12_000),
        ("emmc-queue-one", 4_700..5_500, 4_700..5_800),
    ] {
        let (one, all) = (rate(file, 1), rate(file, 32));
        assert!(single.contains(&one) && deep.contains(&all), "{file}: {one} and {all} a second");
    }
}

#[test]
fn a_late_error_of_a_write_is_in_the_next_status() {
    let mut host = queue("emmc-queue");
    host.card.set_faults(Faults::new(Plan::none().shot(Point::Medium, 1, Strike::Fail)));
    tell(&mut host, 0, 0, 1, 8);
    tell(&mut host, 1, 0, 1, 80);
    host.ok(47, 0);
    let taken = host.card.write_block(&[1; 512], true, host.now_ns);
    assert_eq!(taken.status, Some(true));
    // During programming the card does not know the error yet, and a response to SQS never reports
    // it.
    assert_eq!(host.short(44, 2 << 16 | 1) & 1 << 19, 0);
    assert_eq!(ready(&mut host), 1 << 1);
    host.now_ns = host.now_ns.max(taken.busy_until_ns);
    assert_eq!(ready(&mut host), 1 << 1);
    assert_eq!(host.short(45, 800) & 1 << 19, 1 << 19, "any answer but that to SQS tells it");
    assert_eq!(host.status() & 1 << 19, 0, "once");
}

#[test]
fn a_stop_ends_the_task_and_leaves_the_others() {
    let mut host = queue("emmc-queue");
    tell(&mut host, 0, READ, 8, 0);
    tell(&mut host, 1, 0, 8, 800);
    wait_for(&mut host, 1);
    host.ok(46, 0);
    host.receive(2);
    host.ok(12, 0);
    assert_eq!(ready(&mut host), 0b10);
    tell(&mut host, 0, READ, 8, 0);
    wait_for(&mut host, 1);
    host.ok(47, 1 << 16);
    host.transmit(&[7; 1024]);
    host.ok(12, 0);
    assert_eq!(ready(&mut host), 1);
    assert_eq!(peek(&mut host, 800, 2), [7; 1024]);
}

#[test]
fn what_is_discarded_is_gone() {
    let mut host = queue("emmc-queue");
    for id in 0..4 {
        tell(&mut host, id, 0, 1, 100 * id);
    }
    host.ok(48, 2 << 16 | 2);
    assert_eq!(ready(&mut host), 0b1011);
    host.ok(48, 1);
    assert_eq!(ready(&mut host), 0);
    assert!(host.ext_write(15, 0), "an empty queue can be turned off");
    host.ok(17, 0);
    host.receive(1);
}

#[test]
fn reliable_and_forced_writes_go_past_the_cache() {
    let mut host = queue("emmc-queue");
    assert!(host.ext_write(33, 1));
    host.card.set_faults(Faults::new(Plan::none()));
    for (id, how) in [(0, 0), (1, 1 << 31), (2, 1 << 24)] {
        tell(&mut host, id, how, 1, 100 * id);
        wait_for(&mut host, 1 << id);
        write(&mut host, id, &[id as u8; 512]);
    }
    let now_ns = host.now_ns;
    let cached: Vec<u64> = host.card.at_stake(now_ns).iter().map(|what| what.sector).collect();
    assert_eq!(cached, [0], "only the plain one is at stake");
}

#[test]
fn a_reset_forgets_the_tasks() {
    let mut host = queue("emmc-queue");
    tell(&mut host, 0, 0, 1, 0);
    host.silent(0, 0);
    host.set(|bus| {
        bus.clock_hz = 400_000;
        bus.width = 1;
    });
    host.bring_up_emmc();
    assert_eq!(host.status() & 0x900, 0x900);
    assert!(host.ext_write(15, 1));
    assert_eq!(ready(&mut host), 0);
    assert!(matches!(host.send(44, 1).answer, Some(Answer::Short { .. })), "the number is free");
}
