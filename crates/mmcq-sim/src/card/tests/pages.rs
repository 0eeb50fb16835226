//! Tests of reads by page and of reading ahead, exact to the nanosecond, mostly on the card
//! `pro-plus-128`.

use super::host::Host;
use super::sd::card;
use crate::card::{Card, ReadBlock, SdCard};

const FIRST_NS: u64 = 171_000;
const SECOND_NS: u64 = 113_000;
const ABORT_NS: u64 = 194_000;
/// Time in ns from the start of a block to the start of the next: 1050 clocks of 208 MHz, and the
/// gap of 191 ns.
const BLOCK_NS: u64 = 5_048 + 191;
/// Number of blocks in the 512 KiB that the card reads ahead.
const AHEAD_BLOCKS: u64 = 1024;

/// Brings up the card of this profile in SDR104, as a card reader does.
pub(super) fn fast(file: &str) -> Host<SdCard> {
    let mut host = card(file, true);
    host.sd_switch(0x80ff_fff3);
    host.set(|bus| bus.clock_hz = 208_000_000);
    assert_eq!(host.state(), 4);
    host
}

/// Sends a command that must not cause errors. Returns the time in ns at which it ended on the
/// wire.
pub(super) fn sent(host: &mut Host<SdCard>, index: u8, arg: u32) -> u64 {
    let token_ns = host.now_ns + host.clocks_ns(48 + 8);
    host.ok(index, arg);
    token_ns
}

/// Receives a block. Returns the time in ns at which it started.
fn start(host: &mut Host<SdCard>) -> u64 {
    match host.block(&mut [0; 512]) {
        ReadBlock::At { start_ns, crc_ok: true } => start_ns,
        other => panic!("read gave {other:?}"),
    }
}

/// Receives this many blocks. Returns the time in ns at which the last one started.
fn last_start(host: &mut Host<SdCard>, blocks: u64) -> u64 {
    (0..blocks).map(|_| start(host)).last().unwrap()
}

/// Returns the time in ns from a read command to its first block on an idle card.
fn access_ns(host: &mut Host<SdCard>) -> u64 {
    let sent_ns = sent(host, 17, 0);
    start(host) - sent_ns
}

#[test]
fn one_page_two_pages_and_streaming() {
    let mut host = fast("pro-plus-128");
    let sent_ns = sent(&mut host, 18, 4096);
    for block in 0..4096 {
        let second = if block >= 16 { SECOND_NS } else { 0 };
        assert_eq!(start(&mut host), sent_ns + FIRST_NS + second + block * BLOCK_NS, "block {block}");
    }
    // The rate is 97.7 MB/s.
    assert_eq!(512 * 1_000_000_000 / BLOCK_NS / 100_000, 977);
    host.ok(12, 0);
    assert_eq!(access_ns(&mut host), FIRST_NS + ABORT_NS - host.clocks_ns(50) - host.clocks_ns(56));
}

#[test]
fn pages_are_counted_from_their_edges() {
    let mut host = fast("pro-plus-128");
    host.ok(23, 16);
    let sent_ns = sent(&mut host, 18, 4096 + 8);
    assert_eq!(last_start(&mut host, 8), sent_ns + FIRST_NS + 7 * BLOCK_NS);
    assert_eq!(last_start(&mut host, 8), sent_ns + FIRST_NS + SECOND_NS + 15 * BLOCK_NS);
}

#[test]
fn a_slow_bus_hides_the_gap_but_not_the_second_page() {
    let mut host = card("pro-plus-128", true);
    let sent_ns = sent(&mut host, 18, 0);
    let block_ns = host.clocks_ns(1050) + 191;
    assert_eq!(last_start(&mut host, 17), sent_ns + FIRST_NS + SECOND_NS + 16 * block_ns);
}

#[test]
fn a_transfer_that_goes_on_after_a_pause_finds_its_pages() {
    let mut host = fast("pro-plus-128");
    for pause_ns in [0, 40_000, SECOND_NS, 1_000_000, 150_000_000] {
        host.wait(10_000_000);
        host.ok(18, 0);
        let due_ns = last_start(&mut host, 16) + BLOCK_NS;
        host.now_ns = due_ns + pause_ns;
        let first_ns = start(&mut host);
        assert_eq!(first_ns, due_ns + SECOND_NS.max(pause_ns), "{pause_ns}");
        assert_eq!(last_start(&mut host, 300), first_ns + 300 * BLOCK_NS);
        // From here on the pipeline stays full.
        host.wait(pause_ns + BLOCK_NS);
        let now_ns = host.now_ns;
        assert_eq!(start(&mut host), now_ns);
        assert_eq!(last_start(&mut host, 40), now_ns + 40 * BLOCK_NS);
        host.ok(12, 0);
    }
}

#[test]
fn a_stop_leaves_a_page_fetch_behind() {
    for file in ["pro-plus-128", "pro-plus-128-ahead"] {
        let mut host = fast(file);
        for (blocks, idle_ns) in
            [(1, 0), (16, 0), (17, 50_000), (300, 190_000), (16, 194_000), (16, 1_000_000)]
        {
            host.ok(18, 0);
            last_start(&mut host, blocks);
            let stop_ns = sent(&mut host, 12, 0);
            host.wait(idle_ns);
            let read_ns = sent(&mut host, 18, 8192);
            assert_eq!(start(&mut host), read_ns.max(stop_ns + ABORT_NS) + FIRST_NS, "{blocks} {idle_ns}");
            // A stop before the first block also leaves a page fetch behind.
            sent(&mut host, 12, 0);
            host.ok(18, 0);
            let stop_ns = sent(&mut host, 12, 0);
            host.ok(17, 0);
            assert_eq!(start(&mut host), stop_ns + ABORT_NS + FIRST_NS);
        }
        // Deselecting the card also stops the read.
        host.wait(1_000_000);
        host.ok(18, 0);
        start(&mut host);
        host.wait(host.clocks_ns(48 + 8));
        let stop_ns = host.now_ns;
        host.card.command(7, 0, stop_ns);
        host.wait(1_000);
        host.ok(7, host.rca << 16);
        host.ok(17, 0);
        assert_eq!(start(&mut host), stop_ns + ABORT_NS + FIRST_NS);
    }
}

#[test]
fn a_full_buffer_and_the_end_of_the_card_leave_nothing_to_abort() {
    let mut host = fast("pro-plus-128");
    let fill_ns = AHEAD_BLOCKS * BLOCK_NS;
    let command_ns = host.clocks_ns(48 + 8);
    for (blocks, full_after_ns) in [(16, fill_ns + SECOND_NS), (17, fill_ns), (100, fill_ns)] {
        for (early_ns, abort_ns) in [(0, 0), (1, ABORT_NS)] {
            host.wait(1_000_000);
            host.ok(18, 0);
            let due_ns = last_start(&mut host, blocks) + BLOCK_NS;
            host.now_ns = due_ns + full_after_ns - early_ns - command_ns;
            let stop_ns = sent(&mut host, 12, 0);
            let read_ns = sent(&mut host, 17, 0);
            assert_eq!(start(&mut host), read_ns.max(stop_ns + abort_ns) + FIRST_NS, "{blocks} {early_ns}");
        }
    }
    let sectors = (host.card.medium().bytes() / 512) as u32;
    host.ok(18, sectors - 16);
    last_start(&mut host, 16);
    host.ok(12, 0);
    assert_eq!(access_ns(&mut host), FIRST_NS);
}

#[test]
fn counted_reads_end_at_their_count_or_not() {
    for (file, abort_ns) in [("pro-plus-128", 0), ("pro-plus-128-ahead", ABORT_NS)] {
        let mut host = fast(file);
        for blocks in [1, 16, 40] {
            host.ok(23, blocks);
            host.ok(18, 0);
            let end_ns = last_start(&mut host, blocks.into()) + 1042 * 1_000_000_000 / 208_000_000;
            host.wait(2_000);
            let read_ns = sent(&mut host, 17, 8192);
            assert_eq!(start(&mut host), read_ns.max(end_ns + abort_ns) + FIRST_NS, "{file} {blocks}");
            // CMD17 reads one block and does not read ahead.
            let read_ns = sent(&mut host, 17, 99);
            assert_eq!(start(&mut host), read_ns + FIRST_NS, "{file}");
        }
        // CMD12 stops the counted read before its count.
        host.ok(23, 200);
        host.ok(18, 0);
        last_start(&mut host, 16);
        let stop_ns = sent(&mut host, 12, 0);
        host.ok(17, 0);
        assert_eq!(start(&mut host), stop_ns + ABORT_NS + FIRST_NS);
    }
}

#[test]
fn the_limits_of_the_thread() {
    // Rates in MiB/s of wire and card alone, for 8 KiB, 16 KiB and 1 MiB.
    let mut host = fast("pro-plus-128");
    for (kib, limit) in [(8, 30.6), (16, 34.6), (1024, 90.8)] {
        host.ok(23, kib * 2);
        let begin_ns = host.now_ns;
        host.ok(18, 0);
        host.receive(kib as usize * 2);
        let rate = f64::from(kib) / 1024.0 * 1e9 / (host.now_ns - begin_ns) as f64;
        assert!((rate / limit - 1.0).abs() < 0.004, "{kib} KiB: {rate} MiB/s, expected {limit}");
    }
}

#[test]
fn open_transfers_answer_cmd13_and_refuse_other_transfers() {
    for file in ["pro-plus-128", "sdxc-128g-uhs"] {
        let mut host = fast(file);
        host.ok(18, 64);
        host.receive(3);
        assert_eq!(host.status(), 5 << 9 | 0x100, "data");
        for index in [17, 18, 23, 24, 25] {
            host.silent(index, 0);
            assert_eq!(host.status(), 1 << 22 | 5 << 9 | 0x100, "CMD{index} in data");
        }
        assert_eq!(host.status(), 5 << 9 | 0x100);
        // The refused commands did not disturb the read.
        let mut expected = [0; 512];
        crate::card::Fill::Pattern(1).generate(67 * 512, &mut expected);
        let mut block = [0; 512];
        assert!(matches!(host.block(&mut block), ReadBlock::At { crc_ok: true, .. }));
        assert_eq!(block, expected);
        assert_eq!(host.short(12, 0), 5 << 9 | 0x100);
        assert_eq!(host.status(), 4 << 9 | 0x100);

        host.ok(25, 64);
        host.transmit(&[1; 512 * 3]);
        assert_eq!(host.status(), 6 << 9 | 0x100, "rcv");
        for index in [17, 18, 23, 24, 25] {
            host.silent(index, 0);
            assert_eq!(host.status(), 1 << 22 | 6 << 9 | 0x100, "CMD{index} in rcv");
        }
        assert_eq!(host.give(&[2; 512]).status, Some(true));
        assert_eq!(host.short(12, 0), 6 << 9 | 0x100);
        let until_ns = host.last.busy_until_ns.unwrap();
        assert!(until_ns > host.now_ns && host.card.busy(host.now_ns));
        assert_eq!(host.status(), 7 << 9, "prg");
        host.silent(17, 0);
        host.now_ns = until_ns;
        assert_eq!(host.status(), 1 << 22 | 4 << 9 | 0x100);
        host.ok(18, 64);
        let read = host.receive(4);
        assert_eq!((read[..1536] == [1; 1536], read[1536..] == [2; 512]), (true, true));
        host.ok(12, 0);
    }
}
