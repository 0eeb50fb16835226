//! Tests of chains of transfers that the controller executes and the engine makes: when a chain is
//! made, and what becomes of a chain that fails.

use crate::{lane, rig};
use lane::Machine;
use mmcq::card::{self, Options};
use mmcq::engine::{Kind, Request};
use mmcq::host::sdhci::{self, Adma3, ChainList, Table};
use mmcq::sched::{ChainStats, Chained, Deadline, Demotion, Fifo, Profile, deadline};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::rc::Rc;

type Driver = Adma3<Port, ShadowMemory, 129, 16, 33>;
type Chains<P = Chained<Fifo>> = Machine<Driver, P, 32>;

fn built<P: Profile>(card: &str, emmc: bool, capabilities1: u32, policy: P) -> Chains<P> {
    let (time, memory) = (Time::new(), ShadowMemory::new(MemoryConfig::BITS32));
    let config = SdhciConfig { uhs_at_33v: emmc, capabilities1, ..SdhciConfig::GENERIC_4_20 };
    let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(rig::card(card)))));
    let port = Port::new(model.clone(), time.clone(), 0, 0);
    let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
    let host = sdhci::Sdhci::new(port, memory.clone(), Box::leak(Box::new(Table::new())), driver).unwrap();
    let host = Adma3::new(host, Box::leak(Box::new(ChainList::new())));
    let machine = Machine::over(host, policy, model, memory, time);
    machine.drive(async {
        let card = machine.identify(Options::DEFAULT).await;
        card::enable_extended_ops(&machine.stack, &card, rig::buffer(1, 0)).await.0.unwrap();
    });
    machine
}

const ADMA3: u32 = SdhciConfig::GENERIC_4_20.capabilities1 | 1 << 27;

fn with_policy<P: Profile>(card: &str, policy: P) -> Chains<P> {
    let machine = built(card, card.starts_with("emmc"), ADMA3, policy);
    assert!(machine.stack.with(|engine| engine.set_chains(16)));
    machine
}

fn machine(card: &str) -> Chains {
    with_policy(card, Chained(Fifo))
}

fn chains<P: Profile>(machine: &Chains<P>) -> ChainStats {
    machine.stack.with(|engine| engine.chain_stats().copied()).unwrap()
}

const CARDS: [&str; 3] = ["emmc-hs200", "sdxc-128g-uhs", "emmc-51-full"];

#[test]
fn reads_and_writes_of_many_places_are_one_transfer() {
    for card in CARDS {
        let machine = machine(card);
        for round in 1..20 {
            assert_eq!(machine.writes(round..round + 20), 0);
            let mixed: Vec<_> = (0..20u64)
                .map(|n| match n % 3 {
                    0 => machine.write(100_000 + n * 1_000, round),
                    _ => machine.read(n * 1_000, round + n as u8),
                })
                .collect();
            assert_eq!(machine.finish(&mixed), 0);
        }
        let stats = chains(&machine);
        assert!(stats.chains >= 3 * 19 && stats.transfers >= 4 * stats.chains, "{card}: {stats:?}");
        assert_eq!((stats.failures, stats.disbelieved, stats.suspected, stats.demoted), (0, 0, 0, None));
        assert_eq!(machine.steps(), 0);
        machine.checked();
    }
}

/// Checks that a scheduler and merging work as without chains: the policy picks each transfer, and
/// its requests are merged as usual.
#[test]
fn a_scheduler_and_merging_stay_as_they_are() {
    let policy = Chained(Deadline::new(deadline::DeadlineConfig::DEFAULT));
    let machine = with_policy("emmc-hs200", policy);
    assert_eq!(machine.writes(1..20), 0);
    for round in 0..10u8 {
        let ids: Vec<_> = (0..12u64)
            .flat_map(|n| [0, 8].map(|part| machine.write(200_000 + n * 1_000 + part, round)))
            .collect();
        let reads: Vec<_> = (0..8).map(|n| machine.read(n * 1_000, n as u8 + 1)).collect();
        assert_eq!(machine.finish(&ids) + machine.finish(&reads), 0);
    }
    let (stats, merged) = (chains(&machine), machine.stack.with(|engine| engine.stats().merged));
    assert!(stats.chains > 0 && merged > 50, "{stats:?} {merged}");
    machine.checked();
}

#[test]
fn a_controller_without_goes_on_without() {
    let machine = built("emmc-hs200", true, SdhciConfig::GENERIC_4_20.capabilities1, Chained(Fifo));
    assert!(!machine.stack.with(|engine| engine.set_chains(16)));
    assert_eq!(machine.writes(1..20) + machine.reads(1..20), 0);
    assert_eq!(chains(&machine), ChainStats::default());
}

/// Checks that a flush, or a request for the same blocks, ends a chain, so that the order is kept.
#[test]
fn a_flush_and_the_same_blocks_end_a_chain() {
    for card in CARDS {
        let machine = machine(card);
        for round in 1..10u8 {
            let mut ids: Vec<_> =
                (0..12).map(|n| machine.write(u64::from(n % 5) * 1_000, round * 16 + n)).collect();
            ids.push(machine.flush());
            for (n, last) in [(0, 10), (1, 11), (2, 7), (3, 8), (4, 9)] {
                ids.push(machine.read(n * 1_000, round * 16 + last));
                ids.push(machine.write(n * 1_000, round));
                ids.push(machine.read(n * 1_000, round));
            }
            assert_eq!(machine.finish(&ids), 0);
        }
        assert!(chains(&machine).chains > 0);
        machine.checked();
    }
}

/// Checks that durable writes in a chain are reliable writes by their own CMD23: no flush follows
/// them.
#[test]
fn durable_writes_are_reliable_transfers() {
    let machine = machine("emmc-51-full");
    let ids: Vec<_> = (0..9u64)
        .map(|n| Request::new(Kind::Write { lba: n * 1_000, blocks: 8 }, rig::buffer(8, 7)).durable())
        .map(|request| (machine.submit(request), None))
        .collect();
    assert_eq!(machine.finish(&ids), 0);
    let (stats, flushed) = (chains(&machine), machine.stack.with(|engine| engine.stats().durable_flushes));
    assert!(stats.chains >= 1, "{stats:?}");
    assert_eq!(flushed, 0);
    let lost = machine.model.borrow_mut().card_mut().unwrap().at_stake(machine.time.now());
    assert!(lost.iter().all(|sector| sector.reliable), "{lost:?}");
}

/// Checks a known defect of a controller: it executes part of a list and reports all as complete.
/// Nothing is lost, and no further chain is used.
#[test]
fn a_list_that_ends_early_loses_nothing_and_is_the_last() {
    for nth in 1..=8 {
        let machine = machine("emmc-hs200");
        machine.faults(Plan::none().shot(Point::List, nth, Strike::Lost));
        assert_eq!(machine.writes(1..20), 0, "{nth}");
        machine.faults(Plan::none());
        assert_eq!(machine.reads(1..20), 0, "{nth}");
        let stats = chains(&machine);
        let last = machine.stack.with(|engine| engine.set_chains(16));
        // A list that ends after its last transfer shows no defect.
        let shown = u32::from(stats.demoted == Some(Demotion::EndsEarly));
        assert_eq!((stats.disbelieved, last), (shown, true), "{nth}: {stats:?}");
        assert!(shown == 1 || nth > 6, "{nth}: {stats:?}");
        assert_eq!(machine.writes(30..50) + machine.reads(30..50), 0, "believed again");
        assert!(chains(&machine).chains > stats.chains);
        machine.checked();
    }
}

/// Damages one block of a load, in turn every seventh block, and checks that only the transfer with
/// this block is tried again.
#[test]
fn a_transfer_that_fails_costs_no_other() {
    let mut failures = 0;
    for nth in (1..=150).step_by(7) {
        for point in [Point::WriteBlock, Point::ReadBlock] {
            let machine = machine("emmc-hs200");
            assert_eq!(machine.writes(1..20), 0);
            machine.faults(Plan::none().shot(point, nth, Strike::Crc));
            assert_eq!(machine.writes(30..50) + machine.reads(30..50), 0, "{point:?} {nth}");
            let stats = chains(&machine);
            assert_eq!((stats.suspected, stats.demoted), (0, None), "{stats:?}");
            failures += stats.failures;
            machine.checked();
        }
    }
    assert!(failures > 30, "{failures}");
}

/// Checks a response that is lost or that shows an error of an earlier write: all writes before it
/// in the chain become suspects.
#[test]
fn a_response_that_fails_makes_suspects_of_the_writes_before_it() {
    let mut suspected = 0;
    for nth in 1..=24 {
        for strike in [Strike::Lost, Strike::Crc, Strike::Status(1 << 19)] {
            let machine = machine("emmc-hs200");
            machine.faults(Plan::none().shot(Point::Response, nth, strike));
            let failed = machine.writes(1..20);
            // A status that the controller asked for alone belongs to one write.
            assert!(failed <= usize::from(strike == Strike::Status(1 << 19)), "{nth} {strike:?}: {failed}");
            machine.faults(Plan::none());
            suspected += chains(&machine).suspected;
            assert_eq!(machine.writes(30..50) + machine.reads(30..50), 0);
            machine.checked();
        }
    }
    assert!(suspected > 20, "{suspected}");
}

/// Lets one access to the card's medium fail, in turn every third of a load. Checks that at most
/// one write fails, and that the writes in the same chain are written again.
#[test]
fn a_late_error_fails_none_that_can_be_written() {
    for card in ["emmc-hs200", "sdxc-128g-uhs"] {
        let (mut failed, mut suspected) = (0, 0);
        for nth in (1..=160).step_by(3) {
            let machine = machine(card);
            machine.faults(Plan::none().shot(Point::Medium, nth, Strike::Fail));
            let now = machine.writes(1..21);
            assert!(now <= 1, "{card} {nth}: {now}");
            failed += now;
            suspected += chains(&machine).suspected;
            machine.faults(Plan::none());
            assert_eq!(machine.writes(30..50) + machine.reads(30..50), 0);
            machine.checked();
        }
        // Writes that were sent alone, or whose status came alone, get their own answer.
        assert!(failed < 20 && suspected > 20, "{card}: {failed} failed, {suspected} were suspects");
    }
}

/// Checks that one unreadable block fails one read: the other reads of its chain succeed.
#[test]
fn one_bad_block_fails_one_read() {
    let machine = machine("emmc-hs200");
    assert_eq!(machine.writes(1..20), 0);
    machine.model.borrow_mut().card_mut().unwrap().spoil(7_003);
    assert_eq!(machine.reads(1..20), 1);
    assert_eq!(machine.writes(30..50) + machine.reads(30..50), 0);
    machine.checked();
}

/// Checks that a request ends although the controller never reports anything, or stops reporting.
#[test]
fn silence_has_an_end() {
    let strikes = [
        (Point::Interrupt, Strike::Lost),
        (Point::Dma, Strike::Never),
        (Point::Command, Strike::Lost),
        (Point::Busy, Strike::Late(400_000_000)),
    ];
    for (point, strike) in strikes {
        for nth in 1..=12 {
            let machine = machine("emmc-hs200");
            machine.faults(Plan::none().shot(point, nth, strike));
            assert_eq!(machine.writes(1..20), 0, "{point:?} {nth}");
            machine.faults(Plan::none());
            assert_eq!(machine.reads(1..20), 0, "{point:?} {nth}");
            machine.checked();
        }
    }
}

#[test]
fn a_lost_interrupt_costs_fifty_milliseconds() {
    let machine = machine("emmc-hs200");
    assert_eq!(machine.writes(1..20), 0);
    let lasts_ns = |plan| {
        machine.faults(plan);
        let began_ns = machine.time.now();
        assert_eq!(machine.reads(1..20), 0);
        machine.time.now() - began_ns
    };
    let well_ns = lasts_ns(Plan::none());
    for nth in 1..=3 {
        let more_ns = lasts_ns(Plan::none().shot(Point::Interrupt, nth, Strike::Lost)) - well_ns;
        assert!((40_000_000..60_000_000).contains(&more_ns), "{nth}: {more_ns} ns");
    }
    let lost = machine.stack.with(|engine| engine.stats().lost_interrupts);
    assert_eq!((lost, chains(&machine).failures), (3, 0));
}

#[test]
fn chains_that_fail_again_and_again_are_given_up_and_no_request() {
    let machine = machine("emmc-hs200");
    let mut plan = Plan::seeded(1).chance(Point::WriteBlock, Strike::Crc, 0.02);
    plan = plan.chance(Point::ReadBlock, Strike::Crc, 0.02);
    machine.faults(plan);
    for round in 1..20 {
        assert_eq!(machine.writes(round..round + 20) + machine.reads(round..round + 20), 0);
    }
    let stats = chains(&machine);
    assert_eq!(stats.demoted, Some(Demotion::Failures), "{stats:?}");
    machine.faults(Plan::none());
    assert_eq!(machine.writes(1..20) + machine.reads(1..20), 0);
    assert_eq!(chains(&machine), stats);
}

/// Checks that a request can be abandoned while the controller executes it: the others go on.
#[test]
fn memory_that_is_taken_away_ends_the_chain() {
    let machine = machine("emmc-hs200");
    assert_eq!(machine.writes(1..20), 0);
    for turns in 1..8 {
        let ids: Vec<_> = (0..20).map(|n| machine.read(n * 1_000, n as u8 + 1)).collect();
        for _ in 0..turns {
            machine.turn();
        }
        machine.stack.with(|engine| engine.abort(machine.time.now()));
        assert!(machine.finish(&ids[..19]) <= 1);
        machine.finish(&[(ids[19].0, None)]);
        machine.checked();
    }
}

/// Checks that the next flush reports an error that shows behind a chain: it may concern any data
/// in the cache, also those of writes that are complete.
#[test]
fn an_error_behind_a_chain_is_the_next_flushs_too() {
    let mut told = 0;
    for nth in 1..40 {
        let machine = machine("emmc-51-full");
        assert_eq!(machine.writes(1..9) + machine.finish(&[machine.flush()]), 0);
        machine.faults(Plan::none().shot(Point::Response, nth, Strike::Status(1 << 19)));
        let ids: Vec<_> = (0..8).map(|n| machine.write(n * 1_000, 20 + n as u8)).collect();
        let failed = ids.into_iter().map(|id| machine.finish(&[id]) != 0).position(|failed| failed);
        machine.faults(Plan::none());
        let flush = machine.finish(&[machine.flush()]);
        // The first write is sent alone, and the cache holds nothing before it.
        if let Some(1..) = failed {
            told += 1;
            assert_eq!(flush, 1, "{nth}: {failed:?} failed, those before are complete");
        }
    }
    assert!(told > 0);
}
