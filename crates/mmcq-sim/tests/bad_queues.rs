//! Tests of cards and controllers whose queue reports what cannot be true. In each case the stack
//! refuses or leaves the lane, logs one message that names what it saw, and moves the data by the
//! next simpler lane.
//!
//! The messages are checked with the feature `log` (`cargo test -p mmcq-sim --features log --test
//! bad_queues`), everything else also without it.

mod lane;
mod queue;
mod rig;
mod timed;

use lane::{Driver, Machine};
use mmcq::card::{self, Options, SdQueue};
use mmcq::host::{
    CommandQueueHost, Host, QueueCaps, QueueError, QueueEvents, QueueSettings, QueueState, Segment, Task,
};
use mmcq::sched::{Demotion, Fifo, HostQueued, Profile, Queued, TaskStats};
use mmcq::spec::command::Command;
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::sdhci::CqhciConfig;
use queue::{Built, Form, Parts, Rig};

/// Who drives the card's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// Software drives the queue of an eMMC.
    Tasks,
    /// Software drives the queue of an SD card.
    SdTasks,
    /// The controller's queue engine (CQHCI) drives the queue of an eMMC.
    Engine,
}

/// Counters of the lane that drives the card's queue, after a load, and the warnings that were
/// logged.
#[derive(Debug)]
struct Seen {
    tasks: TaskStats,
    told: Vec<String>,
}

/// Reads and writes through a queue that goes wrong from the start. Checks that all these requests
/// and those after the faults succeed.
fn load<H: Host, P: Profile, const N: usize>(machine: &Machine<H, P, N>, plan: Plan) -> TaskStats {
    machine.faults(plan);
    assert_eq!(machine.rounds(12), 0);
    let tasks = machine.tasks();
    machine.faults(Plan::none());
    assert_eq!(machine.rounds(2), 0);
    machine.checked();
    tasks
}

/// Runs the load in a lane. Returns the lane's counters, and the warnings that were logged.
fn seen(lane: Lane, plan: impl Fn() -> Plan) -> Seen {
    let mut tasks = None;
    let told = log::told(|| {
        tasks = Some(match lane {
            Lane::Tasks => {
                let machine = Machine::<Driver, _, 16>::sdhci("emmc-queue", true, Queued(Fifo));
                load(&machine.with_emmc_queue(), plan())
            }
            Lane::SdTasks => load(&sd(), plan()),
            Lane::Engine => load(&engine(CqhciConfig::INTEL), plan()),
        });
    });
    Seen { tasks: tasks.unwrap(), told }
}

fn sd() -> Machine<Driver, Queued<Fifo>, 16> {
    let machine = Machine::sdhci("sdxc-64g-a2", false, Queued(Fifo));
    machine.drive(async {
        let card = machine.identify(Options::DEFAULT).await;
        let page = rig::buffer(1, 0);
        card::extension::enable_cache(&machine.stack, &card, page).await.map_err(|(e, _)| e).unwrap();
        let how = SdQueue::DEFAULT.any(true);
        let depth = card::enable_sd_task_queue(&machine.stack, &card, rig::buffer(8, 0), how).await.0;
        assert_eq!(depth, Ok(32));
    });
    machine
}

/// Makes a machine whose card has a queue and whose controller reports changed queue capabilities.
fn says(change: impl FnOnce(&mut QueueCaps)) -> Machine<Says, HostQueued<Fifo>, 32> {
    let driver = mmcq::host::sdhci::SdhciConfig::emmc_18();
    let Built { host: inner, model, memory, time, .. } = Rig::built_with(Parts::new(Form::Wide), driver);
    let mut caps = *inner.queue_caps().unwrap();
    change(&mut caps);
    Machine::over(Says { inner, caps }, HostQueued(Fifo), model, memory, time).with_emmc_queue()
}

fn engine(engine: CqhciConfig) -> Machine<queue::Driver, HostQueued<Fifo>, 32> {
    let parts = Parts::new(Form::Wide);
    let engine = CqhciConfig { short_descriptors: false, ..engine };
    let driver = mmcq::host::sdhci::SdhciConfig::emmc_18();
    let Built { host, model, memory, time, .. } = Rig::built_with(Parts { engine, ..parts }, driver);
    Machine::over(host, HostQueued(Fifo), model, memory, time).with_emmc_queue()
}

/// A controller whose queue engine reports other capabilities than it really has.
struct Says {
    inner: queue::Driver,
    caps: QueueCaps,
}

// SAFETY: calls go to the driver inside, in their order and with unchanged segments.
unsafe impl Host for Says {
    mmcq::forward_host!(self.inner => caps map unmap start ack set_bus isolate dat0_busy dat_levels present
        retune_ns supply_ma write_protected take_waker card_irq);

    fn queue(&mut self) -> Option<&mut dyn CommandQueueHost> {
        Some(self)
    }
}

// SAFETY: the engine never holds memory, since it is never asked for more than it can do.
unsafe impl CommandQueueHost for Says {
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError> {
        Ok(&self.caps)
    }
    fn enable_queue(&mut self, _: &QueueSettings) -> Result<(), QueueError> {
        unreachable!()
    }
    fn disable_queue(&mut self) -> Result<(), QueueError> {
        unreachable!()
    }
    fn prepare_task(&mut self, _: u8, _: &Task, _: &[Segment]) -> Result<(), QueueError> {
        unreachable!()
    }
    fn prepare_command(&mut self, _: &Command, _: bool) -> Result<(), QueueError> {
        unreachable!()
    }
    fn withdraw(&mut self, _: u32) {
        unreachable!()
    }
    fn ring(&mut self, _: u32) -> u32 {
        unreachable!()
    }
    fn ack_queue(&mut self) -> QueueEvents {
        unreachable!()
    }
    fn halt_queue(&mut self) -> Result<(), QueueError> {
        unreachable!()
    }
    fn resume_queue(&mut self) -> Result<(), QueueError> {
        unreachable!()
    }
    fn clear_task(&mut self, _: u8) -> Result<(), QueueError> {
        unreachable!()
    }
    fn clear_tasks(&mut self) -> Result<(), QueueError> {
        unreachable!()
    }
    fn queue_state(&self) -> QueueState {
        unreachable!()
    }
}

/// Checks that exactly one logged message says that this lane is given up, and that the message
/// contains these words.
fn is_told(told: &[String], lane: &str, words: &str) {
    if cfg!(feature = "log") {
        let of_lane = |line: &&String| line.starts_with(lane) && line.contains("is given up");
        let given_up: Vec<_> = told.iter().filter(of_lane).collect();
        assert!(given_up.len() == 1 && given_up[0].contains(words), "{lane}, {words}: {told:?}");
    }
}

const CARD: &str = "the card's command queue";
const CONTROLLER: &str = "the controller's queue engine";

/// A case: its name; the fault that strikes the card's queue, and its point; whether this is the
/// right reason for giving the queue up; words that the logged message must have.
type Case = (&'static str, Point, Strike, fn(Demotion) -> bool, &'static str);

const CASES: [Case; 4] = [
    (
        "it calls a task ready that does not exist",
        Point::Ready,
        Strike::Status(1 << 31),
        |why| why == Demotion::Unknown(1 << 31),
        "ready that do not exist, 0x80000000",
    ),
    (
        "it answers with its status",
        Point::Ready,
        Strike::Fail,
        |why| why == Demotion::Unknown(0x900),
        "ready that do not exist, 0x00000900",
    ),
    (
        "it is never ready",
        Point::Task,
        Strike::Never,
        |why| matches!(why, Demotion::NeverReady(500..600 | 3_000..3_100)),
        "nothing became ready in ",
    ),
    (
        "it forgets its queue",
        Point::Ready,
        Strike::Lost,
        |why| matches!(why, Demotion::NeverReady(500..600 | 3_000..3_100)),
        "nothing became ready in ",
    ),
];

#[test]
fn a_card_that_says_what_cannot_be_is_driven_without_its_queue() {
    for (what, point, strike, is_why, words) in CASES {
        for lane in [Lane::Tasks, Lane::SdTasks] {
            for nth in [1, 5] {
                let Seen { tasks, told } = seen(lane, || Plan::none().from(point, nth, strike));
                assert!(tasks.demoted.is_some_and(is_why), "{what}: {tasks:?}");
                assert_eq!((tasks.entered, tasks.failures), (1, 1), "{what}: {tasks:?}");
                is_told(&told, CARD, words);
            }
        }
    }
}

/// Checks that the stack gives up first the queue engine and then the queue. The engine asks the
/// card by itself, and does not report answers that make no sense: its tasks never end, and the log
/// shows its registers. The software drives the queue next, and sees the answers itself.
#[test]
fn the_engine_is_left_first_and_then_the_queue() {
    for (what, point, strike, is_why, words) in CASES {
        for nth in [1, 5] {
            let Seen { tasks, told } = seen(Lane::Engine, || Plan::none().from(point, nth, strike));
            if strike == Strike::Status(1 << 31) {
                // The engine looks only at the bits of its own tasks.
                assert_eq!((tasks.engine, tasks.demoted, tasks.failures), (None, None, 0), "{what}");
                continue;
            }
            assert_eq!(tasks.engine, Some(Demotion::Failures), "{what}: {tasks:?}");
            assert!(tasks.demoted.is_some_and(is_why), "{what}: {tasks:?}");
            is_told(&told, CONTROLLER, "two failures in ten seconds");
            is_told(&told, CARD, words);
            if cfg!(feature = "log") {
                let ready = if strike == Strike::Fail { "ready 0x00000900" } else { "ready 0x00000000" };
                let seen = told.iter().filter(|line| line.contains("no end of task") && line.contains(ready));
                assert_eq!(seen.count(), 2, "{what}: {told:?}");
            }
        }
    }
}

/// Checks that an engine whose registers hold impossible values is not used, with the reason for
/// each value.
#[test]
fn an_engine_whose_registers_are_nonsense_is_not_used() {
    use QueueError::{StaysOff, Timer, Version};
    const INTEL: CqhciConfig = CqhciConfig::INTEL;
    let version = |seen| (CqhciConfig { version: Some(seen), ..INTEL }, Version(seen));
    let capabilities = |seen| (CqhciConfig { capabilities: Some(seen), ..INTEL }, Timer(seen));
    for (config, why) in [
        version(0),
        version(u32::MAX),
        version(0x410),
        capabilities(0),
        capabilities(u32::MAX),
        // The clock of the engine's timer is 0.
        capabilities(0x3000),
        // Tasks stay at 64 bits whatever the driver writes; in the next case the engine never
        // switches on.
        (CqhciConfig { no_configuration: 1 << 8, ..INTEL }, StaysOff(0x1001)),
        (CqhciConfig { no_configuration: 1, ..INTEL }, StaysOff(0x1100)),
    ] {
        let (tasks, told) = with(|| engine(config));
        is_refused(tasks, why, &told);
    }
}

/// Checks that an engine with too few slots or too small tasks is not used. CQHCI has no register
/// for these limits, but a driver of another engine may report them.
#[test]
fn an_engine_that_is_too_small_is_not_used() {
    for slots in [0, 1] {
        let (tasks, told) = with(|| says(|caps| caps.depth = slots));
        is_refused(tasks, QueueError::Small { slots, bytes: 0x20000 }, &told);
    }
    let (tasks, told) = with(|| says(|caps| caps.max_bytes = 0));
    is_refused(tasks, QueueError::Small { slots: 31, bytes: 0 }, &told);
}

/// Runs a load on a machine. Returns the counters of the queue's lane, and the warnings that were
/// logged.
fn with<H: Host, P: Profile, const N: usize>(
    machine: impl FnOnce() -> Machine<H, P, N>,
) -> (TaskStats, Vec<String>) {
    let mut tasks = None;
    let told = log::told(|| tasks = Some(load(&machine(), Plan::none())));
    (tasks.unwrap(), told)
}

/// Checks that the engine was refused for this reason, and that the software drove the queue
/// without a failure.
fn is_refused(tasks: TaskStats, why: QueueError, told: &[String]) {
    assert_eq!((tasks.engine, tasks.demoted), (Some(Demotion::Engine(why)), None), "{tasks:?}");
    assert!(tasks.executed > 50 && tasks.rung == 0 && tasks.failures == 0, "{why}: {tasks:?}");
    is_told(told, CONTROLLER, &why.to_string());
}

#[cfg(not(feature = "log"))]
mod log {
    /// Runs `act`. Without the feature `log` there are no warnings.
    pub fn told(act: impl FnOnce()) -> Vec<String> {
        act();
        Vec::new()
    }
}

#[cfg(feature = "log")]
mod log {
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    struct Lines;

    impl ::log::Log for Lines {
        fn enabled(&self, _: &::log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &::log::Record<'_>) {
            LINES.with_borrow_mut(|lines| lines.push(record.args().to_string()));
        }

        fn flush(&self) {}
    }

    /// Runs `act`, and returns the warnings that it logged.
    pub fn told(act: impl FnOnce()) -> Vec<String> {
        static LINES_OF_ALL: Lines = Lines;
        // Every test of this file sets this same logger, so a second call may fail.
        let _ = ::log::set_logger(&LINES_OF_ALL);
        ::log::set_max_level(::log::LevelFilter::Warn);
        let _ = LINES.take();
        act();
        LINES.take()
    }
}
