//! Tests of power cuts: written data that are not in the flash yet are lost.

use super::host::Host;
use super::pages::fast;
use super::writes::{RATE, put};
use super::{medium, profile};
use crate::card::{Card, Fill, Medium, SdCard};

const NEW: [u8; 512] = [0xa5; 512];

fn block(card: &mut dyn Card, sector: u64) -> [u8; 512] {
    let mut block = [0; 512];
    card.peek(sector * 512, &mut block).unwrap();
    block
}

fn pattern(sector: u64) -> [u8; 512] {
    let mut block = [0; 512];
    Fill::Pattern(1).generate(sector * 512, &mut block);
    block
}

/// Returns how many blocks the flash has programmed completely, if it began at `first_ns` and never
/// waited.
fn programmed(first_ns: u64, now_ns: u64, blocks: u64) -> u64 {
    ((now_ns - first_ns) * RATE / 512_000_000_000).min(blocks)
}

/// Checks that of `blocks` from this sector on only the first `kept` have their new content.
fn assert_kept(host: &mut Host<SdCard>, sector: u64, blocks: u64, kept: u64) {
    for n in 0..blocks {
        let expected = if n < kept { NEW } else { pattern(sector + n) };
        assert_eq!(block(&mut host.card, sector + n), expected, "block {n} of {blocks}, {kept} kept");
    }
}

#[test]
fn an_open_write_loses_its_newest_blocks() {
    // The last case fills the cache, so that the cut comes while the card waits for room.
    for (blocks, wait_ns) in [(1, 0), (64, 0), (64, 100_000), (64, 250_000), (64, 10_000_000), (3000, 0)] {
        let mut host = fast("pro-plus-128");
        host.ok(25, 100);
        let first_ns = put(&mut host, blocks);
        host.wait(wait_ns);
        let kept = programmed(first_ns, host.now_ns, blocks);
        host.card.power_cut(host.now_ns);
        assert_kept(&mut host, 100, blocks, kept);
        assert!((kept == blocks) == (wait_ns == 10_000_000));
        assert!(blocks - kept <= 1024, "no more than the cache holds");
        // Reading over the bus gives the same result.
        host.wait(1_000_000);
        host.power_up();
        host.bring_up_sd(true);
        host.ok(17, 100 + blocks as u32 - 1);
        let last = host.receive(1);
        assert_eq!(last == NEW, kept == blocks);
    }
}

#[test]
fn while_the_card_is_busy_for_room_the_flash_goes_on() {
    let mut host = fast("pro-plus-128");
    host.ok(25, 0);
    let first_ns = put(&mut host, 3000);
    host.wait(host.clocks_ns(2) + host.block_ns(512));
    let taken = host.card.write_block(&NEW, true, host.now_ns);
    assert!(taken.busy_until_ns > host.now_ns);
    let kept = programmed(first_ns, host.now_ns, 3001);
    host.card.power_cut(host.now_ns);
    assert_kept(&mut host, 0, 3001, kept);
}

#[test]
fn what_was_written_before_comes_back() {
    let mut host = fast("pro-plus-128");
    let old: Vec<u8> = (0..8 * 512u32).map(|n| (n % 251) as u8).collect();
    host.ok(25, 8);
    host.transmit(&old);
    host.ok(12, 0);
    host.ok(25, 8);
    put(&mut host, 8);
    host.power_off();
    let mut read = vec![0; 8 * 512];
    host.card.peek(8 * 512, &mut read).unwrap();
    let kept = read.chunks(512).take_while(|block| *block == NEW).count();
    assert!(kept < 8);
    assert!(read[kept * 512..] == old[kept * 512..]);
}

#[test]
fn a_close_that_is_cut_off_has_lost_what_was_not_programmed() {
    for (share, whole) in [(0, false), (3, false), (10, true)] {
        let mut host = fast("pro-plus-128");
        host.ok(25, 0);
        let first_ns = put(&mut host, 200);
        host.short(12, 0);
        let busy_ns = host.last.busy_until_ns.unwrap() - host.now_ns;
        host.wait(busy_ns * share / 10);
        let kept = programmed(first_ns, host.now_ns, 200);
        assert_eq!(kept == 200, whole);
        host.card.power_cut(host.now_ns);
        assert_kept(&mut host, 0, 200, kept);
    }
}

#[test]
fn a_reset_loses_nothing_and_an_erase_stays() {
    let mut host = fast("pro-plus-128");
    host.ok(25, 0);
    put(&mut host, 100);
    host.silent(0, 0);
    host.wait(100_000_000);
    host.card.power_cut(host.now_ns);
    assert_kept(&mut host, 0, 100, 100);

    let mut host = fast("pro-plus-128");
    host.ok(25, 0);
    put(&mut host, 100);
    host.ok(12, 0);
    host.ok(32, 0);
    host.ok(33, 99);
    host.ok(38, 0);
    host.card.power_cut(host.now_ns);
    assert_eq!(block(&mut host.card, 99), [0; 512]);
}

#[test]
fn other_cards_keep_all_and_boxes_and_images_work_too() {
    let mut host = fast("sdxc-128g-uhs");
    host.ok(25, 0);
    put(&mut host, 100);
    host.card.power_cut(host.now_ns);
    assert_kept(&mut host, 0, 100, 100);
    let emmc = profile("hbg4a2");
    let mut boxed = emmc.build(medium(&emmc)).unwrap();
    assert_eq!(block(&mut *boxed, 5), pattern(5));
    assert!(boxed.peek(emmc.capacity_bytes(), &mut [0]).is_err());

    let path = std::env::temp_dir().join(format!("mmcq-sim-power-{}", std::process::id()));
    std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
    let small = profile("pro-plus-128").with_capacity_bytes(1 << 20).unwrap();
    let mut host = Host::new(small.build(Medium::image(&path, false).unwrap()).unwrap());
    host.bring_up_sd(false);
    host.ok(25, 0);
    for _ in 0..64 {
        host.wait(10);
        assert_eq!(host.card.write_block(&NEW, true, host.now_ns).status, Some(true));
    }
    host.wait(program_ns(10 * 512) - 630);
    host.card.power_cut(host.now_ns);
    let file = std::fs::read(&path).unwrap();
    let kept = file.chunks(512).take_while(|block| *block == NEW).count();
    assert_eq!(kept, 10);
    assert!(file[10 * 512..].iter().all(|byte| *byte == 7));
    drop(host);
    assert!(std::fs::read(&path).unwrap() == file);
    std::fs::remove_file(&path).unwrap();
}

fn program_ns(bytes: u64) -> u64 {
    (bytes * 1_000_000_000).div_ceil(RATE)
}
