//! Tests of what a power cut leaves of sectors that are not safe in the flash: sectors in flight,
//! in the cache, and of writes that bypass the cache.

use super::emmc::card as emmc;
use super::host::Host;
use super::pages::fast;
use crate::card::{AtStake, Card, EmmcCard, Kept, Stage};
use crate::faults::{Faults, Plan, Point, Strike};

fn cached() -> Host<EmmcCard> {
    let mut host = emmc("hbg4a2");
    assert!(host.ext_write(33, 1));
    host
}

fn write(host: &mut Host<EmmcCard>, sector: u32, value: u8) {
    host.ok(24, sector);
    host.transmit(&[value; 512]);
}

fn peek(card: &mut dyn Card, sector: u64) -> Result<[u8; 512], std::io::ErrorKind> {
    let mut block = [0; 512];
    card.peek(sector * 512, &mut block).map(|()| block).map_err(|error| error.kind())
}

fn cut(host: &mut Host<EmmcCard>, kept: &[Kept]) {
    let mut n = 0;
    host.card.cut(host.now_ns, &mut |_| {
        n += 1;
        kept[n - 1]
    });
    assert_eq!(n, kept.len());
}

#[test]
fn the_cache_holds_what_was_not_flushed() {
    let mut host = cached();
    for (sector, value) in [(7, 1), (9, 2), (7, 3), (11, 4)] {
        write(&mut host, sector, value);
    }
    let stake = host.card.at_stake(host.now_ns);
    assert_eq!(stake.iter().map(|s| s.sector).collect::<Vec<_>>(), [7, 9, 7, 11]);
    assert!(stake.iter().all(|s| s.stage == Stage::Cached && s.partition == 0));
    assert!(stake.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    // Any subset of the cached sectors may survive: a later write may be safe and an earlier one
    // lost.
    let before = peek(&mut host.card, 100).unwrap();
    cut(&mut host, &[Kept::New, Kept::Old, Kept::Old, Kept::New]);
    assert_eq!(peek(&mut host.card, 7), Ok([1; 512]));
    assert_ne!(peek(&mut host.card, 9), Ok([2; 512]));
    assert_eq!(peek(&mut host.card, 11), Ok([4; 512]));
    assert_eq!(peek(&mut host.card, 100), Ok(before));
    assert!(host.card.at_stake(host.now_ns).is_empty());
    host.power_off();
    host.power_up();
    host.bring_up_emmc();
    assert_eq!(host.ext_csd()[33], 0, "the cache is off after a power cycle");
    write(&mut host, 7, 9);
    assert!(host.card.at_stake(host.now_ns).is_empty());
}

#[test]
fn a_flush_empties_it_and_so_does_turning_it_off() {
    for (index, value) in [(32, 1), (33, 0), (34, 2), (34, 3)] {
        let mut host = cached();
        for sector in 0..20 {
            write(&mut host, sector, 5);
        }
        assert!(!host.card.at_stake(host.now_ns).is_empty());
        host.short(6, 0x0300_0000 | index << 16 | value << 8);
        assert!(!host.card.at_stake(host.now_ns).is_empty(), "not before it is done");
        host.wait_busy();
        assert!(host.card.at_stake(host.now_ns).is_empty());
        host.card.power_cut(host.now_ns);
        assert!((0..20).all(|sector| peek(&mut host.card, sector) == Ok([5; 512])));
    }
}

/// Checks that the cache holds erases like writes: a power cut before the flush undoes an erase
/// sector by sector.
#[test]
fn the_cache_holds_erases_too() {
    const TRIM: u32 = 1;
    const SECURE_TRIM: [u32; 2] = [0x8000_0001, 0x8000_8000];
    let trim = |host: &mut Host<EmmcCard>, args: &[u32]| {
        for &arg in args {
            host.ok(35, 8);
            host.ok(36, 11);
            host.ok(38, arg);
            host.wait_busy();
        }
    };
    let filled = || {
        let mut host = cached();
        host.card.set_faults(Faults::new(Plan::none()));
        (8..12).for_each(|sector| write(&mut host, sector, 7));
        host.short(6, 0x0300_0000 | 32 << 16 | 1 << 8);
        host.wait_busy();
        assert!(host.card.at_stake(host.now_ns).is_empty());
        host
    };
    let mut host = filled();
    trim(&mut host, &[TRIM]);
    let stake: Vec<_> = host.card.at_stake(host.now_ns).iter().map(|s| (s.sector, s.stage)).collect();
    assert_eq!(stake, [8, 9, 10, 11].map(|sector| (sector, Stage::Cached)));
    assert_eq!(peek(&mut host.card, 9), Ok([0; 512]), "reads see the erase");
    // A cut never tears an erased sector.
    cut(&mut host, &[Kept::Old, Kept::New, Kept::Torn, Kept::Mixed]);
    let left = [8, 9, 10, 11].map(|sector| peek(&mut host.card, sector).unwrap()[0]);
    assert_eq!(left, [7, 0, 7, 7]);
    // A flush makes a trim safe; a secure erase is safe without a flush.
    let mut host = filled();
    trim(&mut host, &[TRIM]);
    host.short(6, 0x0300_0000 | 32 << 16 | 1 << 8);
    host.wait_busy();
    assert!(host.card.at_stake(host.now_ns).is_empty());
    let mut host = filled();
    trim(&mut host, &SECURE_TRIM);
    assert!(host.card.at_stake(host.now_ns).is_empty());
    assert_eq!(peek(&mut host.card, 9), Ok([0; 512]));
}

/// Checks that without a cache an erase is safe at its end, and that a power cut during the erase
/// undoes it.
#[test]
fn an_erase_under_way_is_at_stake() {
    let mut host = emmc("emmc-packed");
    host.card.set_faults(Faults::new(Plan::none()));
    write(&mut host, 8, 7);
    host.ok(35, 8);
    host.ok(36, 8);
    host.short(38, 1);
    let stake: Vec<_> = host.card.at_stake(host.now_ns).iter().map(|s| (s.sector, s.stage)).collect();
    assert_eq!(stake, [(8, Stage::InFlight)]);
    cut(&mut host, &[Kept::Old]);
    assert_eq!(peek(&mut host.card, 8), Ok([7; 512]));
}

#[test]
fn it_drains_by_itself_but_never_all_and_not_in_order() {
    let mut host = cached();
    for sector in 0..200 {
        write(&mut host, sector, 6);
    }
    host.wait(1_000_000_000);
    let left: Vec<u64> = host.card.at_stake(host.now_ns).iter().map(|s| s.sector).collect();
    assert!((20..80).contains(&left.len()), "{}", left.len());
    assert!(left[0] < 40 && left[left.len() - 1] >= 160);
    host.card.power_cut(host.now_ns);
    for sector in 0..200 {
        assert_eq!(peek(&mut host.card, sector) == Ok([6; 512]), !left.contains(&sector));
    }
}

#[test]
fn the_cache_has_an_end() {
    let mut host = cached();
    for sector in 0..6000 {
        host.ok(24, sector % 3000);
        host.transmit(&[sector as u8; 512]);
    }
    // The cache has 512 KiB; the journal counts its sectors only from time to time.
    assert!(host.card.at_stake(host.now_ns).len() <= 4 * 1024);
}

#[test]
fn reliable_and_forced_writes_go_past_it() {
    for arg in [1 << 31 | 2, 1 << 24 | 2] {
        let mut host = cached();
        write(&mut host, 50, 1);
        host.ok(23, arg);
        host.ok(25, 50);
        host.transmit(&[8; 1024]);
        assert!(host.card.at_stake(host.now_ns).is_empty(), "what lies below is superseded");
        host.card.power_cut(host.now_ns);
        assert_eq!(peek(&mut host.card, 50), Ok([8; 512]));
        assert_eq!(peek(&mut host.card, 51), Ok([8; 512]));
    }
}

#[test]
fn a_reset_empties_the_cache_and_spares_the_rest() {
    let mut host = cached();
    write(&mut host, 1, 1);
    assert!(host.ext_write(32, 1));
    write(&mut host, 2, 2);
    host.silent(0, 0);
    assert_eq!(peek(&mut host.card, 1), Ok([1; 512]));
    assert_ne!(peek(&mut host.card, 2), Ok([2; 512]));
    assert!(host.card.at_stake(host.now_ns).is_empty());
}

#[test]
fn in_flight_it_may_be_torn_a_reliable_one_may_not() {
    for (reliable, kept) in [
        (false, Kept::Torn),
        (false, Kept::Mixed),
        (false, Kept::New),
        (true, Kept::Torn),
        (true, Kept::Mixed),
    ] {
        let mut host = emmc("hbg4a2");
        host.card.set_faults(Faults::none());
        write(&mut host, 30, 7);
        assert!(host.card.at_stake(host.now_ns).is_empty());
        host.ok(23, u32::from(reliable) << 31 | 2);
        host.ok(25, 30);
        host.give(&[9; 512]);
        host.wait(host.clocks_ns(2) + host.block_ns(512));
        let taken = host.card.write_block(&[9; 512], true, host.now_ns);
        assert!(taken.busy_until_ns > host.now_ns);
        let stake = host.card.at_stake(host.now_ns);
        assert_eq!(
            stake.iter().map(|s| (s.sector, s.stage)).collect::<Vec<_>>(),
            [(30, Stage::InFlight), (31, Stage::InFlight)]
        );
        cut(&mut host, &[kept, Kept::New]);
        let mut half = [9; 512];
        half[256..].fill(7);
        let expected = match (reliable, kept) {
            (true, _) => Ok([7; 512]),
            (false, Kept::Torn) => Err(std::io::ErrorKind::InvalidData),
            (false, Kept::Mixed) => Ok(half),
            _ => Ok([9; 512]),
        };
        assert_eq!(peek(&mut host.card, 30), expected);
        assert_eq!(peek(&mut host.card, 31), Ok([9; 512]));
        host.power_off();
        host.power_up();
        host.bring_up_emmc();
        if expected.is_err() {
            host.ok(17, 30);
            assert_eq!(host.block(&mut [0; 512]), crate::card::ReadBlock::Never);
            assert_eq!(host.short(12, 0) >> 21 & 1, 1, "CARD_ECC_FAILED");
            write(&mut host, 30, 1);
            host.ok(17, 30);
            assert_eq!(host.receive(1), [1; 512]);
        }
    }
}

#[test]
fn an_sd_card_without_a_cache_is_safe_after_busy() {
    let mut host = fast("sdxc-128g-uhs");
    host.card.set_faults(Faults::none());
    host.ok(25, 10);
    host.transmit(&[3; 1024]);
    assert_eq!(host.card.at_stake(host.now_ns).len(), 2);
    host.short(12, 0);
    assert_eq!(host.card.at_stake(host.now_ns).len(), 2);
    host.wait_busy();
    assert!(host.card.at_stake(host.now_ns).is_empty());
    host.ok(25, 10);
    host.transmit(&[4; 1024]);
    host.card.cut(host.now_ns, &mut |s: &AtStake| if s.sector == 10 { Kept::Old } else { Kept::Mixed });
    assert_eq!(peek(&mut host.card, 10), Ok([3; 512]));
    let mixed = peek(&mut host.card, 11).unwrap();
    assert_eq!((mixed[0], mixed[511]), (4, 3));
}

#[test]
fn a_cache_may_lie() {
    let mut host = cached();
    let faults =
        Faults::new(Plan::none().shot(Point::Cache, 1, Strike::Lost).shot(Point::Cache, 4, Strike::Fail));
    host.card.set_faults(faults.clone());
    write(&mut host, 1, 1);
    write(&mut host, 2, 2);
    assert!(host.ext_write(32, 1));
    assert_eq!(host.card.at_stake(host.now_ns).iter().map(|s| s.sector).collect::<Vec<_>>(), [1]);
    // A failed flush reports its error.
    host.short(6, 0x0320_0100);
    host.wait_busy();
    assert_eq!(host.status() >> 19 & 1, 1);
    assert_eq!(faults.struck().len(), 2);
}
