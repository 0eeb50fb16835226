//! A card's command queue, driven by the engine: what it is used for, and cards that are not worth
//! it.

mod rig;

use mmcq::card::quirk::{Quirk, Quirks};
use mmcq::card::{self, Options, SdQueue};
use mmcq::engine::{Breach, Config, Error, Kind, Request, SlotId};
use mmcq::host::sdhci::{self, Table};
use mmcq::sched::{Demotion, Fifo, Queued, TaskStats};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use rig::one_thread::{NOW_NS, OneThread, TIMER};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Driver = sdhci::Sdhci<Port, ShadowMemory, 129>;
type Stack = mmcq::task::Stack<(OneThread, Driver, Queued<Fifo>), 16>;

/// Virtual time in which whatever was asked for must be answered.
const LIMIT_NS: u64 = 60_000_000_000;

struct Machine {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    stack: Stack,
    depth: u8,
}

impl Machine {
    fn new(card: &str) -> Machine {
        let machine = Machine::with_card(rig::card(card), true);
        let depth = machine.drive(async {
            let (card, scratch) = card::bring_up(&machine.stack, rig::buffer(1, 0), Options::DEFAULT).await;
            card::enable_task_queue(&machine.stack, &card.unwrap(), scratch).await.0.unwrap()
        });
        Machine { depth, ..machine }
    }

    /// An SD card with its cache on; what became of its queue.
    fn sd(card: &str, options: Options, how: SdQueue) -> (Machine, Result<u8, Error>) {
        let machine = Machine::with_card(rig::card(card), false);
        let result = machine.drive(async {
            let (card, _) = card::bring_up(&machine.stack, rig::buffer(1, 0), options).await;
            let card = card.unwrap();
            let page = rig::buffer(1, 0);
            card::extension::enable_cache(&machine.stack, &card, page).await.map_err(|(e, _)| e).unwrap();
            card::enable_sd_task_queue(&machine.stack, &card, rig::buffer(8, 0), how).await.0
        });
        (Machine { depth: result.unwrap_or(0), ..machine }, result)
    }

    fn with_card(card: Box<dyn mmcq_sim::card::Card>, emmc: bool) -> Machine {
        let (time, memory) = (Time::new(), ShadowMemory::new(MemoryConfig::BITS32));
        let config = SdhciConfig { uhs_at_33v: emmc, ..SdhciConfig::GENERIC_4_20 };
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(card))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::new()));
        let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
        let host = sdhci::Sdhci::new(port, memory, table, driver).unwrap();
        NOW_NS.set(0);
        let stack = Stack::with_policy(OneThread, TIMER, host, Config::DEFAULT, Queued(Fifo));
        Machine { time, model, stack, depth: 0 }
    }

    fn turn(&self) {
        if !self.model.borrow().irq() {
            let deadline = self.stack.with(|engine| engine.next_deadline_ns());
            let next = self.model.borrow().next_event_ns();
            let until = deadline.or(next).expect("nothing will ever happen").max(self.time.now());
            let reached = self.model.borrow_mut().advance(until);
            self.time.set(reached.max(self.time.now()));
        }
        NOW_NS.set(self.time.now());
        if self.model.borrow().irq() { self.stack.on_irq() } else { self.stack.poll() }
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            NOW_NS.set(self.time.now());
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return output;
            }
            self.turn();
        }
    }

    fn faults(&self, plan: Plan) {
        let faults = Faults::new(plan);
        let mut model = self.model.borrow_mut();
        model.set_faults(faults.clone());
        model.card_mut().unwrap().set_faults(faults);
    }

    fn submit(&self, kind: Kind, fill: u8) -> SlotId {
        let request = Request::new(kind, rig::buffer(8, fill));
        self.stack.with(|engine| engine.submit(request, self.time.now())).map_err(|(error, _)| error).unwrap()
    }

    /// Waits for all of these; how many failed. What is read has this byte in each place.
    fn finish(&self, ids: &[(SlotId, Option<u8>)]) -> usize {
        let (limit_ns, mut failed) = (self.time.now() + LIMIT_NS, 0);
        for &(id, content) in ids {
            let done = loop {
                if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                    break done;
                }
                assert!(self.time.now() < limit_ns, "no answer; {:?}", self.tasks());
                self.turn();
            };
            failed += usize::from(done.result.is_err());
            if let (Ok(_), Some(byte)) = (done.result, content) {
                assert!(done.buf.iter().all(|&found| found == byte), "byte {byte}");
            }
        }
        failed
    }

    /// Eight writes far from each other, and then so many rounds of reads of the same.
    fn rounds(&self, rounds: usize) -> usize {
        let kinds = |n: u8| (Kind::Write { lba: u64::from(n) * 1_000, blocks: 8 }, u64::from(n) * 1_000);
        let writes: Vec<_> = (0..8).map(|n| (self.submit(kinds(n).0, n + 1), None)).collect();
        let mut failed = self.finish(&writes);
        for _ in 0..rounds {
            let reads: Vec<_> = (0..8)
                .map(|n| (self.submit(Kind::Read { lba: kinds(n).1, blocks: 8 }, 0), Some(n + 1)))
                .collect();
            failed += self.finish(&reads);
        }
        failed
    }

    fn tasks(&self) -> TaskStats {
        self.stack.with(|engine| engine.task_stats().copied()).unwrap()
    }
}

#[test]
fn reads_go_through_the_queue_and_a_flush_finds_it_off() {
    for card in ["emmc-queue", "emmc-queue-slow", "emmc-queue-fast", "emmc-queue-one"] {
        let machine = Machine::new(card);
        assert!(machine.depth >= 2, "{card}");
        assert_eq!(machine.rounds(4), 0);
        let tasks = machine.tasks();
        assert!(tasks.entered >= 1 && tasks.executed > 20 && tasks.demoted.is_none(), "{card}: {tasks:?}");
        for round in 1..4 {
            let mut ids: Vec<_> = (0..4)
                .map(|n| (machine.submit(Kind::Read { lba: n * 1_000, blocks: 8 }, 0), Some(n as u8 + 1)))
                .collect();
            ids.push((machine.submit(Kind::Write { lba: 9_000, blocks: 8 }, round), None));
            ids.push((machine.submit(Kind::Flush, 0), None));
            ids.push((machine.submit(Kind::Read { lba: 9_000, blocks: 8 }, 0), Some(round)));
            ids.push((machine.submit(Kind::Read { lba: 1_000, blocks: 8 }, 0), Some(2)));
            assert_eq!(machine.finish(&ids), 0);
        }
        assert_eq!((machine.tasks().failures, machine.tasks().demoted), (0, None), "{card}");
    }
}

#[test]
fn a_card_without_a_queue_goes_on_without() {
    let machine = Machine::new("emmc-hs200");
    assert_eq!((machine.depth, machine.rounds(2)), (0, 0));
    assert_eq!(machine.tasks().entered, 0);
}

#[test]
fn a_card_that_is_not_worth_it_loses_its_queue_and_no_request() {
    for (strike, named) in [
        (Strike::Never, Some(Demotion::NeverReady)),
        (Strike::Lost, Some(Demotion::Failures)),
        (Strike::Spurious(1), None),
    ] {
        let machine = Machine::new("emmc-queue");
        machine.faults(Plan::none().from(Point::Task, 1, strike));
        assert_eq!(machine.rounds(8), 0, "{strike:?}");
        let tasks = machine.tasks();
        assert!(tasks.demoted.is_some() && named.is_none_or(|why| tasks.demoted == Some(why)), "{tasks:?}");
        // Never again, whatever the card is like now.
        machine.faults(Plan::none());
        assert_eq!(machine.rounds(8), 0);
        assert_eq!(machine.tasks(), tasks, "{strike:?}");
    }
}

#[test]
fn one_failure_costs_no_queue() {
    for strike in [Strike::Lost, Strike::Spurious(1)] {
        let machine = Machine::new("emmc-queue");
        machine.faults(Plan::none().shot(Point::Task, 3, strike));
        assert_eq!(machine.rounds(8), 0);
        let tasks = machine.tasks();
        assert_eq!((tasks.failures, tasks.demoted), (1, None), "{strike:?}");
        assert!(tasks.entered >= 2, "{tasks:?}");
    }
}

/// A write cannot be programmed, and others were executed with it: all are written again, and each
/// has its own answer.
#[test]
fn a_late_error_with_several_suspects_fails_none_that_can_be_written() {
    let mut suspected = 0;
    for nth in 1..=24 {
        let machine = Machine::new("emmc-queue");
        assert_eq!(machine.rounds(1), 0);
        machine.faults(Plan::none().shot(Point::Medium, nth, Strike::Fail));
        let mut ids = Vec::new();
        for n in 0..8u8 {
            let lba = u64::from(n) * 1_000;
            ids.push((machine.submit(Kind::Read { lba, blocks: 8 }, 0), Some(n + 1)));
            if n % 4 == 1 {
                // They are merged to one task.
                for part in [0, 8] {
                    let write = Kind::Write { lba: 50_000 + lba + part, blocks: 8 };
                    ids.push((machine.submit(write, n + 1), None));
                }
            }
        }
        let failed = machine.finish(&ids);
        assert!(failed <= 1, "{nth}: {failed}");
        suspected += machine.tasks().suspected;
    }
    assert!(suspected > 0, "no late error had several suspects");
}

/// Of any card, with a test of so many tasks.
fn any(self_test: u16) -> SdQueue {
    SdQueue { any: true, self_test, ..SdQueue::DEFAULT }
}

#[test]
fn an_sd_cards_queue_stays_off_unless_it_is_known_or_wanted() {
    const LIST: &[Quirk] = &[Quirk::sd(0x1b, 0x534d, "FD4QT", Quirks::SD_QUEUE_WORKS)];
    let listed = Options { quirks: LIST, ..Options::DEFAULT };
    for (card, options, how, depth) in [
        ("sdxc-64g-a2", Options::DEFAULT, SdQueue::DEFAULT, 0),
        ("sdxc-64g-a2", listed, SdQueue::DEFAULT, 32),
        ("sdxc-64g-a2", Options::DEFAULT, any(0), 32),
        ("quirks/queue-late", listed, SdQueue::DEFAULT, 0),
    ] {
        let (machine, result) = Machine::sd(card, options, how);
        assert_eq!(result, Ok(depth), "{card}");
        assert_eq!(machine.rounds(2), 0);
        assert_eq!(machine.tasks().entered > 0, depth > 0);
    }
}

#[test]
fn an_sd_cards_reads_go_through_its_queue_and_a_flush_finds_it_off() {
    for how in [any(8), SdQueue { sequential: true, ..any(8) }, SdQueue { writes: 8, ..any(0) }] {
        // Flushes hang on two of these, in the queue.
        for card in ["sdxc-64g-a2", "quirks/queue-late", "quirks/queue-flush-hangs"] {
            let (machine, result) = Machine::sd(card, Options::DEFAULT, how);
            assert_eq!(result, Ok(32), "{card}");
            assert_eq!(machine.rounds(4), 0);
            for round in 1..4 {
                let mut ids: Vec<_> = (0..4)
                    .map(|n| (machine.submit(Kind::Read { lba: n * 1_000, blocks: 8 }, 0), Some(n as u8 + 1)))
                    .collect();
                for n in 0..3 {
                    ids.push((machine.submit(Kind::Write { lba: 9_000 + 100 * n, blocks: 8 }, round), None));
                }
                ids.push((machine.submit(Kind::Flush, 0), None));
                ids.push((machine.submit(Kind::Read { lba: 9_000, blocks: 8 }, 0), Some(round)));
                ids.push((machine.submit(Kind::Read { lba: 1_000, blocks: 8 }, 0), Some(2)));
                assert_eq!(machine.finish(&ids), 0);
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
    let (machine, result) = Machine::sd("quirks/queue-astray", Options::DEFAULT, any(64));
    assert_eq!(result, Err(Error::Protocol(Breach::QueueWrongData)));
    assert_eq!((machine.rounds(8), machine.tasks().entered), (0, 0));
    // A queue that never gets ready.
    let machine = Machine::with_card(rig::card("sdxc-64g-a2"), false);
    let result = machine.drive(async {
        let (card, _) = card::bring_up(&machine.stack, rig::buffer(1, 0), Options::DEFAULT).await;
        let card = card.unwrap();
        let page = rig::buffer(1, 0);
        card::extension::enable_cache(&machine.stack, &card, page).await.map_err(|(e, _)| e).unwrap();
        machine.faults(Plan::none().from(Point::Task, 1, Strike::Never));
        card::enable_sd_task_queue(&machine.stack, &card, rig::buffer(1, 0), any(8)).await.0
    });
    assert_eq!(result, Err(Error::Protocol(Breach::QueueNeverReady)));
    assert_eq!((machine.rounds(2), machine.tasks().entered), (0, 0));
}

#[test]
fn an_sd_card_that_is_not_worth_it_loses_its_queue_and_no_request() {
    for (strike, named) in [
        (Strike::Never, Some(Demotion::NeverReady)),
        (Strike::Lost, Some(Demotion::Failures)),
        (Strike::Spurious(1), None),
    ] {
        let (machine, _) = Machine::sd("sdxc-64g-a2", Options::DEFAULT, any(0));
        machine.faults(Plan::none().from(Point::Task, 1, strike));
        assert_eq!(machine.rounds(8), 0, "{strike:?}");
        let tasks = machine.tasks();
        assert!(tasks.demoted.is_some() && named.is_none_or(|why| tasks.demoted == Some(why)), "{tasks:?}");
        machine.faults(Plan::none());
        assert_eq!((machine.rounds(8), machine.tasks()), (0, tasks), "{strike:?}");
    }
    let (machine, _) = Machine::sd("quirks/queue-forgets", Options::DEFAULT, any(0));
    assert_eq!(machine.rounds(40), 0);
    assert!(machine.tasks().demoted.is_some(), "{:?}", machine.tasks());
}
