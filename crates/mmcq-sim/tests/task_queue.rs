//! Tests of a card's command queue, driven by the engine: which requests use it, and cards with a
//! queue that is not worth using.

use crate::{lane, rig};
use lane::{Driver, Machine};
use mmcq::card::quirk::{Quirk, Quirks};
use mmcq::card::{self, Options, SdQueue};
use mmcq::engine::{Breach, Error, Kind, Request};
use mmcq::sched::{Choice, Demotion, Fifo, Policy, Queued, Waiting};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;

/// The reason for giving up a queue that never got ready; tests do not compare its time.
const NEVER_READY: Demotion = Demotion::NeverReady(0);

fn is_why(found: Option<Demotion>, why: Demotion) -> bool {
    found.is_some_and(|found| std::mem::discriminant(&found) == std::mem::discriminant(&why))
}

type Queue = Machine<Driver, Queued<Fifo>, 16>;

fn emmc(card: &str) -> Queue {
    Queue::sdhci(card, true, Queued(Fifo)).with_emmc_queue()
}

/// Returns a machine with an SD card whose cache is on, and the result of switching the card's
/// queue on. The faults of `plan` strike from that switch on.
fn sd_with(card: &str, options: Options, how: SdQueue, plan: Plan) -> (Queue, Result<u8, Error>) {
    let machine = Queue::sdhci(card, false, Queued(Fifo));
    let result = machine.drive(async {
        let card = machine.identify(options).await;
        let page = rig::buffer(1, 0);
        card::extension::enable_cache(&machine.stack, &card, page).await.map_err(|(e, _)| e).unwrap();
        machine.faults(plan);
        card::enable_sd_task_queue(&machine.stack, &card, rig::buffer(8, 0), how).await.0
    });
    (Queue { depth: result.unwrap_or(0), ..machine }, result)
}

/// Returns a machine with an SD card as [`sd_with`] does, without faults.
fn sd(card: &str, options: Options, how: SdQueue) -> (Queue, Result<u8, Error>) {
    sd_with(card, options, how, Plan::none())
}

#[test]
fn reads_go_through_the_queue_and_a_flush_finds_it_off() {
    for card in ["emmc-queue", "emmc-queue-slow", "emmc-queue-fast", "emmc-queue-one"] {
        let machine = emmc(card);
        assert!(machine.depth >= 2, "{card}");
        assert_eq!(machine.rounds(4), 0);
        let tasks = machine.tasks();
        assert!(tasks.entered >= 1 && tasks.executed > 20 && tasks.demoted.is_none(), "{card}: {tasks:?}");
        for round in 1..4 {
            assert_eq!(machine.mixed(1, round), 0);
        }
        assert_eq!((machine.tasks().failures, machine.tasks().demoted), (0, None), "{card}");
    }
}

/// Checks that CMD44, CMD45 and the poll for ready tasks (CMD13) are sent while the data of a read
/// move.
#[test]
fn tasks_are_announced_beside_the_data_of_reads() {
    for card in ["emmc-queue", "emmc-queue-slow", "emmc-queue-fast"] {
        let machine = emmc(card);
        machine.writes(1..=8);
        assert_eq!(machine.stream_of_reads(64), 0);
        let (beside, tasks) = (machine.beside(), machine.tasks());
        assert!(beside > 0 && tasks.failures == 0, "{card}: {beside} commands beside data, {tasks:?}");
    }
}

/// Checks one failed or lost event at a time (response, command, interrupt) while the card's queue
/// is in use: no request fails.
#[test]
fn a_command_that_fails_beside_data_costs_no_request() {
    let mut failures = 0;
    for (point, strike) in
        [(Point::Response, Strike::Crc), (Point::Command, Strike::Lost), (Point::Interrupt, Strike::Lost)]
    {
        for nth in 1..80 {
            let machine = emmc("emmc-queue");
            machine.writes(1..=8);
            machine.faults(Plan::none().shot(point, nth, strike));
            assert_eq!(machine.stream_of_reads(24), 0, "{point:?} {strike:?} {nth}");
            assert_eq!(machine.mixed(1, 7), 0, "{point:?} {strike:?} {nth}");
            let tasks = machine.tasks();
            failures += tasks.failures;
        }
    }
    assert!(failures > 40, "{failures}");
}

#[test]
fn a_card_without_a_queue_goes_on_without() {
    let machine = emmc("emmc-hs200");
    assert_eq!((machine.depth, machine.rounds(2)), (0, 0));
    assert_eq!(machine.tasks().entered, 0);
}

#[test]
fn a_card_that_is_not_worth_it_loses_its_queue_and_no_request() {
    for (strike, named) in [
        (Strike::Never, Some(NEVER_READY)),
        (Strike::Lost, Some(Demotion::Failures)),
        (Strike::Spurious(1), None),
    ] {
        let machine = emmc("emmc-queue");
        machine.faults(Plan::none().from(Point::Task, 1, strike));
        assert_eq!(machine.rounds(8), 0, "{strike:?}");
        let tasks = machine.tasks();
        assert!(tasks.demoted.is_some() && named.is_none_or(|why| is_why(tasks.demoted, why)), "{tasks:?}");
        // The queue is not tried again, although the faults are over.
        machine.faults(Plan::none());
        assert_eq!(machine.rounds(8), 0);
        assert_eq!(machine.tasks(), tasks, "{strike:?}");
    }
}

#[test]
fn one_failure_costs_no_queue() {
    for strike in [Strike::Lost, Strike::Spurious(1)] {
        let machine = emmc("emmc-queue");
        machine.faults(Plan::none().shot(Point::Task, 3, strike));
        assert_eq!(machine.rounds(8), 0);
        let tasks = machine.tasks();
        assert_eq!((tasks.failures, tasks.demoted), (1, None), "{strike:?}");
        assert!(tasks.entered >= 2, "{tasks:?}");
    }
}

/// Checks one lost interrupt, of a command of the queue or of a task's data. A lost interrupt of a
/// command during data costs nothing, since the data have an interrupt, too.
#[test]
fn a_lost_interrupt_costs_fifty_milliseconds() {
    let machine = emmc("emmc-queue");
    assert_eq!(machine.rounds(4), 0);
    let lasts_ns = |plan| {
        machine.faults(plan);
        let began_ns = machine.time.now();
        assert_eq!(machine.reads(1..=8), 0);
        machine.time.now() - began_ns
    };
    let well_ns = lasts_ns(Plan::none());
    let mut dear = 0;
    for nth in 1..=40 {
        let more_ns =
            lasts_ns(Plan::none().shot(Point::Interrupt, nth, Strike::Lost)).saturating_sub(well_ns);
        // A command may take 20 ms more.
        let waits = (40_000_000..75_000_000).contains(&more_ns);
        assert!(waits || more_ns < 100_000, "{nth}: {more_ns} ns");
        dear += usize::from(waits);
    }
    assert!(dear >= 30, "{dear}");
    assert_eq!(machine.tasks().failures, 0);
}

/// Checks a write that could not be programmed while others were executed with it: all are written
/// again, and each gets its own answer.
#[test]
fn a_late_error_with_several_suspects_fails_none_that_can_be_written() {
    let mut suspected = 0;
    for nth in 1..=24 {
        let machine = emmc("emmc-queue");
        let failed = machine.late_error(nth);
        assert!(failed <= 1, "{nth}: {failed}");
        suspected += machine.tasks().suspected;
    }
    assert!(suspected > 0, "no late error had several suspects");
}

/// Returns options that use the queue of any card, after a self-test of this many tasks.
fn any(self_test: u16) -> SdQueue {
    SdQueue::DEFAULT.any(true).self_test(self_test)
}

#[test]
fn an_sd_cards_queue_stays_off_unless_it_is_known_or_wanted() {
    const LIST: &[Quirk] = &[Quirk::sd(0x1b, 0x534d, "FD4QT", Quirks::SD_QUEUE_WORKS)];
    let listed = Options::DEFAULT.quirks(LIST);
    for (card, options, how, depth) in [
        ("sdxc-64g-a2", Options::DEFAULT, SdQueue::DEFAULT, 0),
        ("sdxc-64g-a2", listed, SdQueue::DEFAULT, 32),
        ("sdxc-64g-a2", Options::DEFAULT, any(0), 32),
        ("quirks/queue-late", listed, SdQueue::DEFAULT, 0),
    ] {
        let (machine, result) = sd(card, options, how);
        assert_eq!(result, Ok(depth), "{card}");
        assert_eq!(machine.rounds(2), 0);
        assert_eq!(machine.tasks().entered > 0, depth > 0);
    }
}

#[test]
fn an_sd_cards_reads_go_through_its_queue_and_a_flush_finds_it_off() {
    for how in [any(8), any(8).sequential(true), any(0).writes(8)] {
        // On two of these cards a flush hangs in the queue.
        for card in ["sdxc-64g-a2", "quirks/queue-late", "quirks/queue-flush-hangs"] {
            let (machine, result) = sd(card, Options::DEFAULT, how);
            assert_eq!(result, Ok(32), "{card}");
            assert_eq!(machine.rounds(4), 0);
            for round in 1..4 {
                assert_eq!(machine.mixed(3, round), 0);
            }
            let tasks = machine.tasks();
            assert!(
                tasks.executed > 20 && tasks.failures == 0 && tasks.demoted.is_none(),
                "{card}: {tasks:?}"
            );
            let mut model = machine.model.borrow_mut();
            assert!(model.card_mut().unwrap().violations().is_empty());
        }
    }
}

#[test]
fn a_test_that_writes_nothing_finds_wrong_data() {
    let (machine, result) = sd("quirks/queue-astray", Options::DEFAULT, any(64));
    assert_eq!(result, Err(Error::Protocol(Breach::QueueWrongData)));
    assert_eq!((machine.rounds(8), machine.tasks().entered), (0, 0));
    // The queue never gets ready.
    let never = Plan::none().from(Point::Task, 1, Strike::Never);
    let (machine, result) = sd_with("sdxc-64g-a2", Options::DEFAULT, any(8), never);
    assert_eq!(result, Err(Error::Protocol(Breach::QueueNeverReady)));
    assert_eq!((machine.rounds(2), machine.tasks().entered), (0, 0));
}

#[test]
fn an_sd_card_that_is_not_worth_it_loses_its_queue_and_no_request() {
    for (strike, named) in [
        (Strike::Never, Some(NEVER_READY)),
        (Strike::Lost, Some(Demotion::Failures)),
        (Strike::Spurious(1), None),
    ] {
        let (machine, _) = sd("sdxc-64g-a2", Options::DEFAULT, any(0));
        machine.faults(Plan::none().from(Point::Task, 1, strike));
        assert_eq!(machine.rounds(8), 0, "{strike:?}");
        let tasks = machine.tasks();
        assert!(tasks.demoted.is_some() && named.is_none_or(|why| is_why(tasks.demoted, why)), "{tasks:?}");
        machine.faults(Plan::none());
        assert_eq!((machine.rounds(8), machine.tasks()), (0, tasks), "{strike:?}");
    }
    let (machine, _) = sd("quirks/queue-forgets", Options::DEFAULT, any(0));
    assert_eq!(machine.rounds(40), 0);
    assert!(machine.tasks().demoted.is_some(), "{:?}", machine.tasks());
}

/// A scheduler that picks the oldest request and the newest in turns.
struct Turns(bool);

impl Policy for Turns {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, _: u64) -> Choice {
        self.0 = !self.0;
        let picked = if self.0 { waiting.next() } else { waiting.last() };
        picked.map_or(Choice::IdleUntil(0), |request| Choice::Go(request.index))
    }
}

/// Checks a durable write that cannot use the queue, between reads that can: the policy picks it, and
/// at the next question picks a read.
#[test]
fn a_policy_may_change_its_mind_while_the_queue_is_on() {
    for other in [false, true] {
        let machine =
            Machine::<Driver, _, 16>::sdhci("emmc-queue", true, Queued(Turns(other))).with_emmc_queue();
        machine.stack.with(|engine| engine.enable_extended_ops());
        assert_eq!(machine.writes(1..=8), 0);
        for round in 0..8 {
            let mut ids: Vec<_> = (0..6).map(|n| machine.read(n * 1_000, n as u8 + 1)).collect();
            let kind = Kind::Write { lba: 9_000, blocks: 8 };
            let durable = Request::new(kind, rig::buffer(8, round)).durable();
            ids.insert(3, (machine.submit(durable), None));
            assert_eq!(machine.finish(&ids), 0);
        }
        assert!(machine.tasks().entered > 0, "{:?}", machine.tasks());
    }
}
