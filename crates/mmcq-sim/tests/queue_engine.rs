//! Tests of an eMMC's command queue, driven by the controller's queue engine for the stack above:
//! which requests use it, what goes wrong, and which lane the stack uses then.

use crate::timed::filled as buffer;
use crate::{cases, lane, queue};
use lane::Machine;
use mmcq::card::{self, Options, power};
use mmcq::host::sdhci::SdhciConfig;
use mmcq::sched::{Demotion, Fifo, HostQueue, HostQueued, Profile, TaskStats, Whole};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use queue::{Built, Form, Parts, Rig};
use std::cell::RefCell;
use std::rc::Rc;

type Queue = Machine<queue::Driver, HostQueued<Fifo>, 32>;

fn machine(card: &'static str) -> Queue {
    machine_of(Parts { card, ..Parts::new(Form::Wide) })
}

fn machine_of(parts: Parts) -> Queue {
    machine_with(parts, mmcq::host::sdhci::SdhciConfig::emmc_18())
}

fn machine_with(parts: Parts, driver: mmcq::host::sdhci::SdhciConfig) -> Queue {
    let Built { host, model, memory, time, .. } = Rig::built_with(parts, driver);
    Machine::over(host, HostQueued(Fifo), model, memory, time).with_emmc_queue()
}

#[test]
fn reads_go_through_the_engine_and_a_flush_finds_it_empty() {
    for (form, card) in [
        (Form::Narrow, "emmc-queue"),
        (Form::Wide, "emmc-queue-slow"),
        (Form::Short, "emmc-queue-fast"),
        (Form::Wide, "emmc-queue-one"),
    ] {
        let machine = machine_of(Parts { card, ..Parts::new(form) });
        assert!(machine.depth >= 2, "{card}");
        assert_eq!(machine.rounds(4), 0);
        let tasks = machine.tasks();
        assert!(tasks.entered >= 1 && tasks.rung > 20 && tasks.asked == 0, "{card}: {tasks:?}");
        assert!(tasks.rings < tasks.rung, "several by one write: {tasks:?}");
        for round in 1..4 {
            assert_eq!(machine.mixed(1, round), 0);
        }
        let tasks = machine.tasks();
        assert_eq!((tasks.failures, tasks.stale, tasks.lost), (0, 0, 0), "{card}");
        assert_eq!((tasks.demoted, tasks.engine), (None, None), "{card}");
        machine.checked();
    }
}

#[test]
fn a_card_without_a_queue_goes_on_without() {
    let machine = machine("emmc-hs200");
    assert_eq!((machine.depth, machine.rounds(2)), (0, 0));
    assert_eq!(machine.tasks().rung, 0);
    machine.checked();
}

/// Checks one fault of the queue, at each of its events: no request fails, and the engine stays in
/// use.
#[test]
fn one_fault_costs_no_engine() {
    let strikes = [
        (Point::Doorbell, Strike::Lost),
        (Point::TaskEnd, Strike::Spurious(1)),
        (Point::Clear, Strike::Spurious(1)),
        (Point::Enable, Strike::Status(8)),
        (Point::Blame, Strike::Lost),
        (Point::Task, Strike::Lost),
        (Point::Task, Strike::Never),
        (Point::Task, Strike::Late(5_000_000)),
        (Point::Interrupt, Strike::Lost),
        (Point::ReadBlock, Strike::Crc),
        (Point::Response, Strike::Crc),
        (Point::Halt, Strike::Late(400_000_000)),
    ];
    for (turn, (point, strike)) in strikes.into_iter().enumerate() {
        for &nth in cases::one_of(turn, &[1, 2, 5, 11, 24, 40]) {
            let machine = machine("emmc-queue");
            assert_eq!(machine.rounds(1), 0);
            let mut plan = Plan::none().shot(point, nth, strike);
            if matches!(point, Point::Halt | Point::Clear | Point::Blame) {
                // These points are reached only after another fault, so one is added.
                plan = Plan::none().shot(point, 1, strike).shot(Point::ReadBlock, nth + 20, Strike::Crc);
            }
            machine.faults(plan);
            assert_eq!(machine.rounds(8), 0, "{point:?} {strike:?} {nth}");
            let tasks = machine.tasks();
            assert_eq!((tasks.engine, tasks.demoted), (None, None), "{point:?} {strike:?} {nth}: {tasks:?}");
            assert!(tasks.rung > 50 && tasks.failures <= 1, "{point:?} {strike:?} {nth}: {tasks:?}");
            machine.checked();
        }
    }
}

/// Checks that an engine that does not halt, or fails again and again, is given up: the software
/// drives the queue then, and after further failures one request is sent at a time. No request is
/// lost.
#[test]
fn an_engine_that_proves_bad_is_left_and_loses_no_request() {
    for (point, strike, why) in [
        (Point::Halt, Strike::Never, Some(Demotion::Halt)),
        (Point::Blame, Strike::Lost, None),
        (Point::Doorbell, Strike::Lost, Some(Demotion::Failures)),
        (Point::Task, Strike::Lost, Some(Demotion::Failures)),
        (Point::Task, Strike::Never, Some(Demotion::Failures)),
    ] {
        let machine = machine("emmc-queue");
        let mut plan = Plan::none().from(point, 1, strike);
        if matches!(point, Point::Halt | Point::Blame) {
            plan = plan.shot(Point::ReadBlock, 90, Strike::Crc).shot(Point::ReadBlock, 160, Strike::Crc);
        }
        machine.faults(plan);
        assert_eq!(machine.rounds(12), 0, "{point:?} {strike:?}");
        let tasks = machine.tasks();
        assert!(tasks.engine.is_some() && why.is_none_or(|why| tasks.engine == Some(why)), "{tasks:?}");
        // If the card's tasks are the fault, software has the same trouble.
        assert_eq!(tasks.demoted.is_some(), point == Point::Task, "{point:?} {strike:?}: {tasks:?}");
        // The lane is not tried again, although the faults are over.
        machine.faults(Plan::none());
        assert_eq!(machine.rounds(8), 0);
        assert_eq!(machine.tasks().rung, tasks.rung, "{point:?} {strike:?}");
        machine.checked();
    }
}

/// Checks a write that could not be programmed while others were executed with it: all are written
/// again, and each gets its own answer.
#[test]
fn a_late_error_with_several_suspects_fails_none_that_can_be_written() {
    let mut suspected = 0;
    for nth in 1..=24 {
        let machine = machine("emmc-queue");
        let failed = machine.late_error(nth);
        assert!(failed <= 1, "{nth}: {failed}");
        suspected += machine.tasks().suspected;
        machine.checked();
    }
    assert!(suspected > 0, "no late error had several suspects");
}

/// Checks an engine whose registers hold an impossible version: the software drives the queue, and
/// the reason is reported.
#[test]
fn an_engine_of_no_version_is_refused() {
    let parts = Parts { timer_hz: None, ..Parts::new(Form::Wide) };
    let machine = machine_of(parts);
    assert_eq!(machine.tasks().engine, None);
    // The driver moves data by SDMA, so it has no descriptors for tasks.
    let mut config = mmcq::host::sdhci::SdhciConfig::emmc_18();
    config.transfer = mmcq::host::sdhci::TransferMode::Sdma;
    let machine = machine_with(Parts::new(Form::Wide), config);
    assert_eq!(machine.tasks().engine, Some(Demotion::Engine(mmcq::host::QueueError::Transfer)));
    assert_eq!(machine.rounds(4), 0);
    assert!(machine.tasks().executed > 20 && machine.tasks().rung == 0);
    machine.checked();
}

/// Checks that memory is released before requests are answered, whatever fails (the card is
/// removed, the controller or the supply fails, a reset does not help): every request is answered,
/// and no memory comes back that the controller could still use.
#[test]
fn whatever_goes_the_memory_is_let_go_first() {
    for (point, strike) in [
        (Point::ReadBlock, Strike::Remove),
        (Point::Doorbell, Strike::Remove),
        (Point::ReadBlock, Strike::BrownOut),
        (Point::ReadBlock, Strike::Gone),
        (Point::Interrupt, Strike::Gone),
    ] {
        for nth in [1, 3, 8, 20, 45] {
            let machine = machine("emmc-queue");
            assert_eq!(machine.rounds(1), 0);
            let mapped = machine.memory.live_mappings();
            machine.faults(Plan::none().shot(point, nth, strike));
            let ids: Vec<_> = (0..24).map(|n| (machine.read(n % 8 * 1_000, 0).0, None)).collect();
            machine.finish(&ids);
            assert_eq!(machine.memory.live_mappings(), mapped, "{point:?} {strike:?} {nth}");
            assert_eq!(machine.memory.violations(), Vec::<String>::new(), "{point:?} {strike:?} {nth}");
        }
    }
}

/// Checks requests that are abandoned at any moment: a task that was submitted to the engine ends
/// by itself.
#[test]
fn what_is_given_up_stays_with_the_engine_until_its_end() {
    for after in 0..40 {
        let machine = machine("emmc-queue");
        assert_eq!(machine.rounds(2), 0);
        let mapped = machine.memory.live_mappings();
        let ids: Vec<_> = (0..16).map(|n| machine.read(n % 8 * 1_000, (n % 8) as u8 + 1)).collect();
        for _ in 0..after {
            if !machine.stack.with(|engine| engine.is_idle()) {
                machine.turn();
            }
        }
        let (given_up, kept): (Vec<_>, Vec<_>) = ids.into_iter().partition(|(id, _)| id.index() % 2 == 0);
        for (id, _) in given_up {
            machine.stack.with(|engine| engine.abandon(id));
        }
        if after % 3 == 0 {
            // The other way: the whole transfer is stopped at once.
            machine.stack.with(|engine| engine.abort(machine.time.now()));
        }
        assert_eq!(machine.finish(&kept), 0, "{after}");
        machine.rest();
        assert_eq!(machine.memory.live_mappings(), mapped, "{after}");
        machine.checked();
    }
}

/// Checks a queue whose engine was given up, and that is enabled again while the software has tasks
/// on the card: they end, and the engine has the tasks after them.
#[test]
fn an_engine_that_is_tried_again_finds_the_tasks_of_the_software_done() {
    for after in (0..40).step_by(3) {
        let machine = machine("emmc-queue");
        machine.faults(Plan::none().from(Point::Doorbell, 1, Strike::Lost));
        assert_eq!(machine.rounds(12), 0);
        let tasks = machine.tasks();
        assert_eq!((tasks.engine, tasks.demoted), (Some(Demotion::Failures), None), "{tasks:?}");
        machine.faults(Plan::none());
        let ids: Vec<_> = (0..16).map(|n| machine.read(n % 8 * 1_000, (n % 8) as u8 + 1)).collect();
        for _ in 0..after {
            if !machine.stack.with(|engine| engine.is_idle()) {
                machine.turn();
            }
        }
        let begin_ns = machine.time.now();
        assert!(machine.stack.with(|engine| engine.set_task_queue(machine.depth)));
        assert_eq!(machine.finish(&ids), 0, "{after}");
        assert!(machine.time.now() - begin_ns < 100_000_000, "{after}: {:?}", machine.tasks());
        assert_eq!(machine.rounds(4), 0, "{after}");
        let now = machine.tasks();
        assert!(now.rung > tasks.rung && now.failures == tasks.failures, "{after}: {now:?}");
        assert_eq!((now.engine, now.demoted), (None, None), "{after}: {now:?}");
        machine.checked();
    }
}

/// Checks a lost interrupt of a task after one that never reached the engine: it is found after
/// 20 ms, as without that one, and not only after the longest time of a task.
#[test]
fn a_lost_interrupt_is_found_soon_after_a_lost_doorbell_too() {
    for doorbell in [false, true] {
        let mut found = 0;
        for nth in 1..=6 {
            let machine = machine("emmc-queue");
            machine.stack.with(|engine| engine.always_use_task_queue(true));
            assert_eq!(machine.rounds(4), 0);
            if doorbell {
                machine.faults(Plan::none().shot(Point::Doorbell, 1, Strike::Lost));
                assert_eq!(machine.finish(&[machine.read(0, 1)]), 0);
                assert_eq!(machine.tasks().failures, 1);
            }
            machine.rest();
            let begin_ns = machine.time.now();
            // The first interrupts are those of the commands that switch the card's queue on.
            machine.faults(Plan::none().shot(Point::Interrupt, nth, Strike::Lost));
            assert_eq!(machine.finish(&[machine.read(0, 1)]), 0);
            let (took_ns, tasks) = (machine.time.now() - begin_ns, machine.tasks());
            if tasks.lost > 0 {
                found += 1;
                assert!(took_ns < 40_000_000, "doorbell {doorbell}, {nth}: {took_ns} ns, {tasks:?}");
            }
            machine.checked();
        }
        assert_eq!(found, 1, "doorbell {doorbell}");
    }
}

/// Checks that a suspended stack comes to rest with an empty queue, and with the card's queue
/// switched off.
#[test]
fn a_suspended_stack_has_no_task_left() {
    let machine = machine("emmc-queue");
    assert_eq!(machine.rounds(2), 0);
    let ids: Vec<_> = (0..8).map(|n| machine.read(n * 1_000, n as u8 + 1)).collect();
    machine.turn();
    machine.stack.with(|engine| engine.suspend());
    assert_eq!(machine.finish(&ids), 0);
    machine.rest();
    machine.stack.with(|engine| engine.resume(machine.time.now()));
    assert_eq!(machine.rounds(2), 0);
    machine.checked();
}

/// Checks that a flush leaves the card's queue on and that sleep switches it off: a device that
/// wakes with its queue on accepts no ordinary command.
#[test]
fn a_device_sleeps_with_its_queue_off() {
    let Built { host, model, memory, time, .. } =
        Rig::built_with(Parts { card: "emmc-queue", ..Parts::new(Form::Wide) }, SdhciConfig::emmc_18());
    let machine = Queue::over(host, HostQueued(Fifo), model, memory, time);
    let card = machine.drive(async {
        let card = machine.identify(Options::DEFAULT).await;
        card::enable_task_queue(&machine.stack, &card, buffer(1, 0)).await.0.unwrap();
        card
    });
    assert_eq!(machine.rounds(4), 0);
    assert!(machine.tasks().rung > 20);
    let (asleep, scratch) = machine.drive(power::sleep(&machine.stack, &card, buffer(1, 0)));
    let (awake, _) = machine.drive(power::awake(&machine.stack, &card, scratch, asleep.unwrap()));
    assert_eq!(awake, Ok(()));
    assert_eq!(machine.rounds(4), 0);
    machine.checked();
}

/// A FIFO policy that always uses the general code path.
struct Roundabout(Fifo);

impl Profile for Roundabout {
    type Policy = Fifo;
    type Tails = Whole;
    type Lanes = HostQueue;
    const FAST: bool = false;

    fn policy(&self) -> &Fifo {
        &self.0
    }

    fn policy_mut(&mut self) -> &mut Fifo {
        &mut self.0
    }
}

/// Runs a load of random reads, writes and flushes. Returns the commands on the bus with the
/// answers, and the counters of the lane.
fn random_load<P: Profile>(policy: P, card: &'static str, seed: u64) -> (Vec<String>, TaskStats) {
    let Built { host, model, memory, time, .. } =
        Rig::built_with(Parts { card, ..Parts::new(Form::Wide) }, mmcq::host::sdhci::SdhciConfig::emmc_18());
    let machine: Machine<queue::Driver, P, 32> = Machine::over(host, policy, model, memory, time);
    let machine = machine.with_emmc_queue();
    machine.stack.with(|engine| engine.always_use_task_queue(true));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let said = seen.clone();
    machine
        .model
        .borrow_mut()
        .set_log(Some(Box::new(move |event| said.borrow_mut().push(format!("{event:?}")))));
    let mut state = seed;
    let mut draw = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let (mut under_way, mut now_ns) = (Vec::new(), machine.time.now());
    for step in 0..1500u64 {
        // The places are few, so that some requests continue others and some overlap.
        let (lba, byte) = (8 * draw(40), step as u8 | 1);
        match draw(8) {
            0..=2 if under_way.len() < 24 => under_way.push((step, machine.read(lba, byte).0)),
            3 if under_way.len() < 24 => under_way.push((step, machine.write(lba, byte).0)),
            4 if draw(24) == 0 => under_way.push((step, machine.flush().0)),
            // Sometimes the pause is so long that the stack switches the queue off.
            5 if draw(50) == 0 => now_ns += 15_000_000,
            _ => now_ns += draw(80_000),
        }
        crate::timed::run_to(&machine.stack, &machine.model, &machine.time, now_ns).unwrap();
        under_way.retain(|&(step, id)| {
            let Some(done) = machine.stack.with(|engine| engine.take(id)) else { return true };
            let (at_ns, first) = (now_ns, done.buf.first().copied());
            seen.borrow_mut().push(format!("{at_ns}: {step} is {:?} {first:?}", done.result));
            false
        });
    }
    machine.rest();
    machine.checked();
    let tasks = machine.tasks();
    assert!(tasks.rung > 300 && tasks.failures == 0, "{tasks:?}");
    (seen.take(), tasks)
}

#[test]
fn the_fast_path_to_the_engine_does_what_the_general_path_does() {
    for (card, seed) in [
        ("emmc-queue", 1),
        ("emmc-queue", 2),
        ("emmc-queue-slow", 3),
        ("emmc-queue-one", 4),
        ("emmc-queue-fast", 5),
    ] {
        let (fast, tasks) = random_load(HostQueued(Fifo), card, seed);
        let (general, others) = random_load(Roundabout(Fifo), card, seed);
        let differs = fast.iter().zip(&general).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("{card}: {:#?}\n{:#?}", &fast[at.saturating_sub(3)..=at], &general[at]);
        }
        assert_eq!((fast.len(), tasks), (general.len(), others), "{card}");
    }
}
