//! Tests of packed commands of an eMMC, which the engine makes: when a pack is made, and what
//! becomes of entries that fail.

use crate::{lane, rig};
use lane::{Driver, Machine};
use mmcq::card::{self, Options};
use mmcq::engine::{Kind, Request};
use mmcq::sched::{Demotion, Fifo, PackStats, Packed};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;

type Packs = Machine<Driver, Packed<Fifo>, 16>;

fn machine(card: &str) -> Packs {
    let machine = Packs::sdhci(card, true, Packed(Fifo));
    let packs = machine.drive(async {
        let card = machine.identify(Options::DEFAULT).await;
        let (result, scratch) = card::enable_extended_ops(&machine.stack, &card, rig::buffer(1, 0)).await;
        result.unwrap();
        card::enable_packed(&machine.stack, &card, scratch).await.is_ok()
    });
    assert_eq!(packs, card == "emmc-packed");
    machine
}

/// Returns the bytes of nine writes. The first keeps the card busy until the other eight wait, so
/// these eight can become one pack.
fn nine(first: u8) -> std::ops::Range<u8> {
    first..first + 9
}

#[test]
fn writes_and_reads_of_many_places_are_one_transfer() {
    let machine = machine("emmc-packed");
    assert_eq!(machine.writes(nine(1)), 0);
    assert_eq!(machine.reads(nine(1)), 0);
    let packs = machine.packs();
    assert!(packs.writes >= 1 && packs.reads >= 1, "{packs:?}");
    for round in 2..20 {
        assert_eq!(machine.writes(nine(round)) + machine.reads(nine(round)), 0);
    }
    let packs = machine.packs();
    assert!(packs.entries >= 5 * (packs.writes + packs.reads), "{packs:?}");
    assert_eq!((packs.split, packs.failures, packs.suspected, packs.demoted), (0, 0, 0, None));
    assert_eq!(machine.steps(), 0);
}

#[test]
fn a_card_without_packed_commands_goes_on_without() {
    let machine = machine("emmc-hs200");
    assert_eq!(machine.writes(nine(1)) + machine.reads(nine(1)), 0);
    assert_eq!(machine.packs(), PackStats::default());
}

/// Checks that a flush, or a request for the same blocks, ends a pack, so that the order is kept.
#[test]
fn a_flush_and_the_same_blocks_end_a_pack() {
    let machine = machine("emmc-packed");
    for round in 1..10u8 {
        let mut ids: Vec<_> =
            (0..5).map(|n| machine.write(u64::from(n % 3) * 1_000, round * 8 + n)).collect();
        ids.push(machine.flush());
        for (n, last) in [(0, 3), (1, 4), (2, 2)] {
            ids.push(machine.read(n * 1_000, round * 8 + last));
        }
        assert_eq!(machine.finish(&ids), 0);
    }
    assert!(machine.packs().writes > 0);
}

/// Checks that durable writes in a pack are reliable writes by their own entries: no flush follows
/// them.
#[test]
fn durable_writes_are_reliable_entries() {
    let machine = machine("emmc-packed");
    let ids: Vec<_> = (0..9u64)
        .map(|n| Request::new(Kind::Write { lba: n * 1_000, blocks: 8 }, rig::buffer(8, 7)).durable())
        .map(|request| (machine.submit(request), None))
        .collect();
    assert_eq!(machine.finish(&ids), 0);
    let (packs, flushed) = (machine.packs(), machine.stack.with(|engine| engine.stats().durable_flushes));
    assert!(packs.writes >= 1, "{packs:?}");
    assert_eq!(flushed, 0);
    let lost = machine.model.borrow_mut().card_mut().unwrap().at_stake(machine.time.now());
    assert!(lost.iter().all(|sector| sector.reliable), "{lost:?}");
}

/// Checks an entry that fails, with the card naming this entry, the one behind it or the one before
/// it: no other request fails, and no data are wrong.
#[test]
fn an_entry_that_fails_costs_no_other_and_no_data() {
    for strike in [Strike::Fail, Strike::Astray(1), Strike::Astray(-1)] {
        let machine = machine("emmc-packed");
        machine.faults(Plan::none().shot(Point::Pack, 1, strike));
        assert_eq!(machine.writes(nine(1)), 0, "{strike:?}");
        let packs = machine.packs();
        assert_eq!((packs.split, packs.demoted), (1, None), "{strike:?}: {packs:?}");
        assert_eq!(machine.reads(nine(1)), 0, "{strike:?}");
        assert_eq!(machine.steps(), 0, "{strike:?}");
    }
}

/// Checks a failed pack whose index names no entry: all entries become suspects and are written
/// again, one by one.
#[test]
fn an_index_of_no_entry_makes_suspects_of_all() {
    let machine = machine("emmc-packed");
    machine.faults(Plan::none().shot(Point::Pack, 1, Strike::Astray(40)));
    assert_eq!(machine.writes(nine(1)), 0);
    let packs = machine.packs();
    assert_eq!((packs.split, packs.suspected), (0, 1), "{packs:?}");
    assert_eq!(machine.reads(nine(1)), 0);
}

/// Lets one access to the card's medium fail, in turn each one of a load. Checks that no write of a
/// pack fails, since the pack is written again; the first write, which is sent alone, may fail.
#[test]
fn a_late_error_fails_none_that_can_be_written() {
    let mut split = 0;
    for nth in 1..=72 {
        let machine = machine("emmc-packed");
        machine.faults(Plan::none().shot(Point::Medium, nth, Strike::Fail));
        let failed = machine.writes(nine(1));
        // The first write is sent alone, and has its own answer.
        assert!(failed <= usize::from(nth <= 8), "{nth}: {failed}");
        split += machine.packs().split;
        machine.faults(Plan::none());
        assert_eq!(machine.writes(nine(20)) + machine.reads(nine(20)), 0);
    }
    assert!(split > 50, "{split}");
}

/// Checks that one unreadable block fails one read: the other reads of its pack succeed.
#[test]
fn one_bad_block_fails_one_read() {
    let machine = machine("emmc-packed");
    assert_eq!(machine.writes(nine(1)), 0);
    machine.model.borrow_mut().card_mut().unwrap().spoil(4_003);
    assert_eq!(machine.reads(nine(1)), 1);
    assert_eq!(machine.writes(nine(30)) + machine.reads(nine(30)), 0);
}

#[test]
fn packs_that_fail_again_and_again_are_given_up_and_no_request() {
    let machine = machine("emmc-packed");
    let mut plan = Plan::seeded(1).chance(Point::WriteBlock, Strike::Crc, 0.02);
    plan = plan.chance(Point::ReadBlock, Strike::Crc, 0.02);
    machine.faults(plan);
    for round in 1..20 {
        assert_eq!(machine.writes(nine(round)) + machine.reads(nine(round)), 0);
    }
    let packs = machine.packs();
    assert_eq!(packs.demoted, Some(Demotion::Failures), "{packs:?}");
    machine.faults(Plan::none());
    assert_eq!(machine.writes(nine(1)) + machine.reads(nine(1)), 0);
    assert_eq!(machine.packs(), packs);
}

/// Checks an entry of a pack that fails again when it is written alone. The entries before it are
/// complete, and the card does not say whose data could not be written, so the next flush reports
/// an error, too.
#[test]
fn an_entry_that_fails_for_good_is_told_to_the_next_flush_too() {
    let mut told = 0;
    for (nth, behind) in (9..=64).step_by(8).flat_map(|nth| (1..=70).map(move |behind| (nth, behind))) {
        let machine = machine("emmc-packed");
        let plan = Plan::none().shot(Point::Medium, nth, Strike::Fail);
        machine.faults(plan.shot(Point::Medium, nth + behind, Strike::Fail));
        let ids: Vec<_> = (0..8).map(|n| machine.write(n * 1_000, 20 + n as u8)).collect();
        let failed = ids.into_iter().map(|id| machine.finish(&[id]) != 0).position(|failed| failed);
        machine.faults(Plan::none());
        let flush = machine.finish(&[machine.flush()]);
        if let Some(1..) = failed {
            told += 1;
            assert_eq!(flush, 1, "{nth}, {behind}: {failed:?} failed, those before are complete");
        }
    }
    assert!(told > 0);
}
