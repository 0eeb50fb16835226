//! Tests of times, exact to the nanosecond, with the numbers of the card `hbg4a2`.

use super::host::Host;
use super::{medium, profile};
use crate::card::{Card, EmmcCard, ReadBlock};

const T_RAND_NS: u64 = 100_500;
const T_SEQ4K_NS: u64 = 40_200;
const W0_NS: u64 = 24_200;
const W4K_NS: u64 = 10_000;
/// Rate in bytes per second at which the cache drains: 69.7 MiB/s.
const DRAIN: u64 = 73_085_747;
/// Size of the cache in bytes.
const CACHE: u64 = 512 * 1024;

/// Brings up the card `hbg4a2` at HS400ES, as its board does.
fn hsq() -> Host<EmmcCard> {
    let profile = profile("hbg4a2");
    let mut host = Host::new(profile.build_emmc(medium(&profile)).unwrap());
    host.bring_up_emmc();
    host.emmc_hs8();
    assert!(host.ext_write(33, 1));
    assert!(host.ext_write(183, 0x86));
    host.ext_mode(185, 3, |bus| {
        bus.ddr = true;
        bus.strobe = true;
        bus.signal18 = true;
        bus.clock_hz = 200_000_000;
    });
    assert_eq!(host.state(), 4);
    host
}

/// Reads this many units of 4 KiB in one command. Returns the time in ns from the command to the
/// end of the last block.
fn read_ns(host: &mut Host<EmmcCard>, sector: u32, units: u32) -> u64 {
    host.ok(23, units * 8);
    let sent_ns = host.now_ns + host.clocks_ns(48 + 8);
    host.ok(18, sector);
    host.receive(units as usize * 8);
    host.now_ns - sent_ns
}

#[test]
fn reads() {
    let mut host = hsq();
    let wire_ns = 8 * host.block_ns(512);
    assert_eq!(host.block_ns(512), 1370);
    for units in 1..=20 {
        let expected = T_RAND_NS + u64::from(units - 1) * T_SEQ4K_NS + u64::from(units) * wire_ns;
        assert_eq!(read_ns(&mut host, 4096, units), expected, "{units} x 4 KiB");
    }
    // Eight blocks that lie in two units of 4 KiB.
    assert_eq!(read_ns(&mut host, 4100, 1), T_RAND_NS + T_SEQ4K_NS + wire_ns);
}

#[test]
fn a_slow_host_finds_the_data_waiting() {
    let mut host = hsq();
    host.ok(17, 0);
    host.wait(10 * T_RAND_NS);
    let mut buffer = [0u8; 512];
    let now_ns = host.now_ns;
    assert_eq!(host.block(&mut buffer), ReadBlock::At { start_ns: now_ns, crc_ok: true });
}

/// Writes blocks in one command. Returns the busy time in ns after the last block.
fn write_ns(host: &mut Host<EmmcCard>, sector: u32, blocks: u32) -> u64 {
    host.ok(23, blocks);
    host.ok(25, sector);
    let data = [0xa5u8; 512];
    let mut busy_ns = 0;
    for _ in 0..blocks {
        assert_eq!(busy_ns, 0, "busy before the last block");
        host.wait(host.block_ns(512));
        let taken = host.card.write_block(&data, true, host.now_ns);
        assert_eq!(taken.status, Some(true));
        busy_ns = taken.busy_until_ns - host.now_ns;
    }
    host.wait(busy_ns);
    assert_eq!(host.state(), 4);
    busy_ns
}

#[test]
fn writes_with_room_in_the_cache() {
    let mut host = hsq();
    assert_eq!(write_ns(&mut host, 0, 8), W0_NS + W4K_NS);
    assert_eq!(write_ns(&mut host, 0, 1), W0_NS + W4K_NS);
    assert_eq!(write_ns(&mut host, 4, 8), W0_NS + 2 * W4K_NS);
    assert_eq!(write_ns(&mut host, 0, 64), W0_NS + 8 * W4K_NS);
}

#[test]
fn a_full_cache_costs_the_missing_bytes() {
    let mut host = hsq();
    // Fills the empty cache by one command of 500 KiB, then waits an exact time.
    host.wait(1_000_000_000);
    let full = 1000u32;
    host.ok(23, full);
    host.ok(25, 0);
    let mut end_ns = 0;
    for _ in 0..full {
        host.wait(host.block_ns(512));
        end_ns = host.now_ns;
        let taken = host.card.write_block(&[0; 512], true, host.now_ns);
        host.now_ns = host.now_ns.max(taken.busy_until_ns);
    }
    let level = u64::from(full) * 512;
    assert!(level < CACHE);
    assert_eq!(host.now_ns - end_ns, W0_NS + 125 * W4K_NS);
    host.ok(23, 800);
    host.ok(25, 0);
    for _ in 0..800 {
        host.wait(host.block_ns(512));
        end_ns = end_ns.min(host.now_ns);
        let now_ns = host.now_ns;
        let taken = host.card.write_block(&[0; 512], true, now_ns);
        host.now_ns = now_ns.max(taken.busy_until_ns);
        if taken.busy_until_ns > now_ns {
            let drained = u128::from(now_ns - end_ns) * u128::from(DRAIN) / 1_000_000_000;
            let missing = u128::from(level + 800 * 512 - CACHE) - drained;
            let wait_ns = (missing * 1_000_000_000).div_ceil(u128::from(DRAIN)) as u64;
            let busy_ns = taken.busy_until_ns - now_ns;
            let expected = W0_NS + 100 * W4K_NS + wait_ns;
            // The expected value counts whole drained bytes, which take 14 ns each.
            assert!(busy_ns.abs_diff(expected) <= 14, "{busy_ns} {expected}");
        }
    }
}

#[test]
fn in_the_long_run_writes_go_as_fast_as_the_cache_drains() {
    let mut host = hsq();
    for _ in 0..2000 {
        write_ns(&mut host, 0, 64);
    }
    let (start_ns, runs) = (host.now_ns, 4000u64);
    for run in 0..runs {
        write_ns(&mut host, run as u32 * 64, 64);
    }
    let rate = runs * 64 * 512 * 1_000_000_000 / (host.now_ns - start_ns);
    assert!(rate.abs_diff(DRAIN) * 100_000 < DRAIN, "{rate} bytes/s, expected {DRAIN}");
}

#[test]
fn a_long_open_write_does_not_pile_up_busy() {
    let mut host = hsq();
    host.ok(25, 0);
    let start_ns = host.now_ns;
    let blocks = 32 * 1024u64;
    for _ in 0..blocks {
        assert_eq!(host.give(&[1; 512]).status, Some(true));
    }
    let before_ns = host.now_ns;
    host.ok(12, 0);
    assert!(host.now_ns - before_ns < 10_000_000, "CMD12 is busy for {} ns", host.now_ns - before_ns);
    let drained = (host.now_ns - start_ns) * (DRAIN / 1000) / 1_000_000;
    assert!(drained + CACHE >= blocks * 512 - 1000, "no faster than the drain");
}

#[test]
fn flush_waits_for_the_cache_and_reliable_writes_for_their_data() {
    let mut host = hsq();
    host.wait(1_000_000_000);
    write_ns(&mut host, 0, 512);
    let drain_ns = (512 * 512 * 1_000_000_000u64).div_ceil(DRAIN);
    let start_ns = host.now_ns;
    assert!(host.ext_write(32, 1));
    let flushed_ns = host.now_ns - start_ns;
    let expected_ns = drain_ns - W0_NS - 64 * W4K_NS;
    assert!(flushed_ns.abs_diff(expected_ns) < 5_000, "{flushed_ns}, expected {expected_ns}");
    // The cache is empty: the flush takes the time of a usual switch.
    let start_ns = host.now_ns;
    assert!(host.ext_write(32, 1));
    assert!(host.now_ns - start_ns < 410_000);

    host.ok(23, 1 << 31 | 8);
    host.ok(25, 0);
    let mut busy_ns = 0;
    for _ in 0..8 {
        host.wait(host.block_ns(512));
        busy_ns = host.card.write_block(&[0; 512], true, host.now_ns).busy_until_ns - host.now_ns;
    }
    assert_eq!(busy_ns, (4096 * 1_000_000_000u64).div_ceil(DRAIN));
}
