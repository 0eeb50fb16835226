//! Tests of writes that end only in the flash, exact to the nanosecond, mostly on the card
//! `pro-plus-128`.

use super::host::Host;
use super::pages::{fast, sent};
use crate::card::{Card, SdCard};

const CLOSE_NS: u64 = 1_566_000;
const REOPEN_NS: u64 = 1_712_000;
const GC_NS: u64 = 39_000_000;
/// Rate in bytes per second at which the flash programs: 50.163 MiB/s.
pub(super) const RATE: u64 = 52_599_718;

/// Returns the time in ns in which the flash programs this many bytes.
fn program_ns(bytes: u64) -> u64 {
    (bytes * 1_000_000_000).div_ceil(RATE)
}

/// Sends blocks into an open write. Returns the time in ns at which the card took the first one.
pub(super) fn put(host: &mut Host<SdCard>, blocks: u64) -> u64 {
    let mut first_ns = None;
    for _ in 0..blocks {
        host.wait(host.clocks_ns(2) + host.block_ns(512));
        first_ns = first_ns.or(Some(host.now_ns));
        let taken = host.card.write_block(&[0xa5; 512], true, host.now_ns);
        assert_eq!(taken.status, Some(true));
        host.now_ns = host.now_ns.max(taken.busy_until_ns);
    }
    first_ns.unwrap()
}

/// Writes blocks in one command, and lets the cache drain before its end. Returns the busy time in
/// ns of the end alone.
fn end_ns(host: &mut Host<SdCard>, sector: u32, blocks: u64) -> u64 {
    host.ok(25, sector);
    put(host, blocks);
    host.wait(20_000_000);
    let stop_ns = sent(host, 12, 0);
    host.now_ns - stop_ns
}

#[test]
fn a_write_ends_when_it_is_in_the_flash() {
    let mut host = fast("pro-plus-128");
    for blocks in [1, 16, 32, 500] {
        host.wait(100_000_000);
        host.ok(25, 64);
        let first_ns = put(&mut host, blocks);
        host.ok(12, 0);
        assert_eq!(host.now_ns, first_ns + program_ns(blocks * 512) + CLOSE_NS, "{blocks} blocks");
        host.ok(23, blocks as u32);
        host.ok(25, 8192);
        let first_ns = put(&mut host, blocks);
        assert_eq!(host.now_ns, first_ns + program_ns(blocks * 512) + CLOSE_NS, "{blocks} blocks, counted");
        assert_eq!(host.state(), 4);
    }
    host.ok(24, 4);
    let first_ns = put(&mut host, 1);
    assert_eq!(host.now_ns, first_ns + program_ns(512) + CLOSE_NS);
}

#[test]
fn the_limits_of_the_thread() {
    // Rates in MiB/s of wire and card alone, for 8 KiB, 16 KiB and 1 MiB. In the first 9 MiB no
    // garbage is collected.
    let mut host = fast("pro-plus-128");
    for (kib, limit) in [(8, 4.54), (16, 8.32), (1024, 46.5)] {
        let begin_ns = host.now_ns;
        host.ok(23, kib * 2);
        host.ok(25, 1 << 20 | kib);
        put(&mut host, u64::from(kib) * 2);
        let rate = f64::from(kib) / 1024.0 * 1e9 / (host.now_ns - begin_ns) as f64;
        assert!((rate / limit - 1.0).abs() < 0.006, "{kib} KiB: {rate} MiB/s, expected {limit}");
    }
}

#[test]
fn an_open_write_pays_once_and_drains_in_its_pauses() {
    let mut host = fast("pro-plus-128");
    host.ok(25, 0);
    // The cache fills, and then the flash limits the rate.
    let first_ns = put(&mut host, 20_480);
    let full = 20_480 * 512 - 512 * 1024;
    assert!(host.now_ns.abs_diff(first_ns + program_ns(full)) < 2, "10 MiB at the program rate");
    host.wait(5_000_000);
    let again_ns = host.now_ns;
    put(&mut host, 100);
    // The cache has room for 100 blocks, which go at wire speed.
    assert_eq!(host.now_ns, again_ns + 100 * (host.clocks_ns(2) + host.block_ns(512)));
    host.ok(12, 0);
    let bytes = 20_580 * 512;
    assert_eq!(host.now_ns, first_ns + program_ns(bytes) + CLOSE_NS);
    // After a long pause only the busy time of the end itself is left.
    assert_eq!(end_ns(&mut host, 1 << 20, 64), CLOSE_NS);
}

#[test]
fn ending_a_long_run_again_and_again_costs_more() {
    let mut host = fast("pro-plus-128");
    let mut at = 0;
    let ends: Vec<u64> = (0..5)
        .map(|_| {
            at += 1024;
            end_ns(&mut host, at - 1024, 1024)
        })
        .collect();
    let more = CLOSE_NS + REOPEN_NS;
    assert_eq!(ends, [CLOSE_NS, CLOSE_NS, more, more, more]);
    // Reads and idle time in between do not end the run of writes.
    host.ok(17, 0);
    host.receive(1);
    host.wait(1_000_000_000);
    assert_eq!(end_ns(&mut host, at, 8), more);
    // A write at another place begins a new run, and so does a second write at the same place.
    for _ in 0..3 {
        assert_eq!(end_ns(&mut host, 1 << 20, 1024), CLOSE_NS);
    }
    assert_eq!(end_ns(&mut host, (1 << 20) + 1024, 1024), CLOSE_NS);
    // A command that is itself long has no extra time at its end; the next one has.
    assert_eq!(end_ns(&mut host, 1 << 21, 4096), CLOSE_NS);
    assert_eq!(end_ns(&mut host, (1 << 21) + 4096, 1), more);
}

#[test]
fn garbage_is_collected_while_writes_are_scattered() {
    let mut host = fast("pro-plus-128");
    let mut stalls = 0;
    for run in 0..31 {
        let end_ns = end_ns(&mut host, run * 4096, 2048);
        assert!(end_ns == CLOSE_NS || end_ns == CLOSE_NS + GC_NS, "{end_ns}");
        stalls += u32::from(end_ns > CLOSE_NS);
    }
    assert_eq!(stalls, 2, "in 31 MiB, one for 15.15");
    // 40 MiB in one run: only its first bytes count as not sequential.
    assert_eq!(end_ns(&mut host, 1 << 20, 81_920), CLOSE_NS);
}
