//! Packed commands of an eMMC, made by the engine: when, and what becomes of entries that fail.

mod rig;

use mmcq::card::{self, Options};
use mmcq::engine::{Config, Kind, Request, SlotId};
use mmcq::host::sdhci::{self, Table};
use mmcq::sched::{Demotion, Fifo, PackStats, Packed};
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
type Stack = mmcq::task::Stack<(OneThread, Driver, Packed<Fifo>), 16>;

/// Virtual time in which whatever was asked for must be answered.
const LIMIT_NS: u64 = 60_000_000_000;

struct Machine {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    stack: Stack,
}

impl Machine {
    fn new(card: &str) -> Machine {
        let (time, memory) = (Time::new(), ShadowMemory::new(MemoryConfig::BITS32));
        let config = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(rig::card(card)))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::new()));
        let host = sdhci::Sdhci::new(port, memory, table, sdhci::SdhciConfig::emmc_18()).unwrap();
        NOW_NS.set(0);
        let stack = Stack::with_policy(OneThread, TIMER, host, Config::DEFAULT, Packed(Fifo));
        let machine = Machine { time, model, stack };
        let packs = machine.drive(async {
            let (card, scratch) = card::bring_up(&machine.stack, rig::buffer(1, 0), Options::DEFAULT).await;
            let card = card.unwrap();
            let (result, scratch) = card::enable_extended_ops(&machine.stack, &card, scratch).await;
            result.unwrap();
            card::enable_packed(&machine.stack, &card, scratch).await.is_ok()
        });
        assert_eq!(packs, card == "emmc-packed");
        machine
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
                assert!(self.time.now() < limit_ns, "no answer; {:?}", self.packs());
                self.turn();
            };
            failed += usize::from(done.result.is_err());
            if let (Ok(_), Some(byte)) = (done.result, content) {
                assert!(done.buf.iter().all(|&found| found == byte), "byte {byte}");
            }
        }
        failed
    }

    /// Eight writes far from each other, with these numbers, and one before them that keeps the card
    /// busy until all wait. How many failed.
    fn writes(&self, round: u8) -> usize {
        let lba = |n: u8| u64::from(n) * 1_000;
        let ids: Vec<_> =
            (0..9).map(|n| (self.submit(Kind::Write { lba: lba(n), blocks: 8 }, round + n), None)).collect();
        self.finish(&ids)
    }

    /// The same are read, and have these numbers.
    fn reads(&self, round: u8) -> usize {
        let read = |n: u8| Kind::Read { lba: u64::from(n) * 1_000, blocks: 8 };
        let ids: Vec<_> = (0..9).map(|n| (self.submit(read(n), 0), Some(round + n))).collect();
        self.finish(&ids)
    }

    fn packs(&self) -> PackStats {
        self.stack.with(|engine| engine.pack_stats().copied()).unwrap()
    }

    fn steps(&self) -> u64 {
        self.stack.with(|engine| engine.stats().recovery_steps.iter().sum())
    }
}

#[test]
fn writes_and_reads_of_many_places_are_one_transfer() {
    let machine = Machine::new("emmc-packed");
    assert_eq!(machine.writes(1), 0);
    assert_eq!(machine.reads(1), 0);
    let packs = machine.packs();
    assert!(packs.writes >= 1 && packs.reads >= 1, "{packs:?}");
    for round in 2..20 {
        assert_eq!(machine.writes(round) + machine.reads(round), 0);
    }
    let packs = machine.packs();
    assert!(packs.entries >= 5 * (packs.writes + packs.reads), "{packs:?}");
    assert_eq!((packs.split, packs.failures, packs.suspected, packs.demoted), (0, 0, 0, None));
    assert_eq!(machine.steps(), 0);
}

#[test]
fn a_card_without_packed_commands_goes_on_without() {
    let machine = Machine::new("emmc-hs200");
    assert_eq!(machine.writes(1) + machine.reads(1), 0);
    assert_eq!(machine.packs(), PackStats::default());
}

/// Whatever stands between them keeps its place.
#[test]
fn a_flush_and_the_same_blocks_end_a_pack() {
    let machine = Machine::new("emmc-packed");
    for round in 1..10u8 {
        let mut ids = Vec::new();
        for n in 0..5u8 {
            let lba = u64::from(n % 3) * 1_000;
            ids.push((machine.submit(Kind::Write { lba, blocks: 8 }, round * 8 + n), None));
        }
        ids.push((machine.submit(Kind::Flush, 0), None));
        for n in 0..3u8 {
            let last = if n < 2 { n + 3 } else { n };
            let read = Kind::Read { lba: u64::from(n) * 1_000, blocks: 8 };
            ids.push((machine.submit(read, 0), Some(round * 8 + last)));
        }
        assert_eq!(machine.finish(&ids), 0);
    }
    assert!(machine.packs().writes > 0);
}

/// What is durable is so by its own entry: no flush follows.
#[test]
fn durable_writes_are_reliable_entries() {
    let machine = Machine::new("emmc-packed");
    let ids: Vec<_> = (0..9u64)
        .map(|n| {
            let request =
                Request::new(Kind::Write { lba: n * 1_000, blocks: 8 }, rig::buffer(8, 7)).durable();
            let id = machine.stack.with(|engine| engine.submit(request, machine.time.now()));
            (id.map_err(|(error, _)| error).unwrap(), None)
        })
        .collect();
    assert_eq!(machine.finish(&ids), 0);
    let (packs, flushed) = (machine.packs(), machine.stack.with(|engine| engine.stats().durable_flushes));
    assert!(packs.writes >= 1, "{packs:?}");
    assert_eq!(flushed, 0);
    let lost = machine.model.borrow_mut().card_mut().unwrap().at_stake(machine.time.now());
    assert!(lost.iter().all(|sector| sector.reliable), "{lost:?}");
}

/// An entry fails: the card names it, or the one behind it, or the one before.
#[test]
fn an_entry_that_fails_costs_no_other_and_no_data() {
    for strike in [Strike::Fail, Strike::Astray(1), Strike::Astray(-1)] {
        let machine = Machine::new("emmc-packed");
        machine.faults(Plan::none().shot(Point::Pack, 1, strike));
        assert_eq!(machine.writes(1), 0, "{strike:?}");
        let packs = machine.packs();
        assert_eq!((packs.split, packs.demoted), (1, None), "{strike:?}: {packs:?}");
        assert_eq!(machine.reads(1), 0, "{strike:?}");
        assert_eq!(machine.steps(), 0, "{strike:?}");
    }
}

/// The index makes no sense: all are written again, alone.
#[test]
fn an_index_of_no_entry_makes_suspects_of_all() {
    let machine = Machine::new("emmc-packed");
    machine.faults(Plan::none().shot(Point::Pack, 1, Strike::Astray(40)));
    assert_eq!(machine.writes(1), 0);
    let packs = machine.packs();
    assert_eq!((packs.split, packs.suspected), (0, 1), "{packs:?}");
    assert_eq!(machine.reads(1), 0);
}

/// A block cannot be programmed, wherever it is: it is written again, and is well.
#[test]
fn a_late_error_fails_none_that_can_be_written() {
    let mut split = 0;
    for nth in 1..=72 {
        let machine = Machine::new("emmc-packed");
        machine.faults(Plan::none().shot(Point::Medium, nth, Strike::Fail));
        let failed = machine.writes(1);
        // The first goes alone, and has its answer as ever.
        assert!(failed <= usize::from(nth <= 8), "{nth}: {failed}");
        split += machine.packs().split;
        machine.faults(Plan::none());
        assert_eq!(machine.writes(20) + machine.reads(20), 0);
    }
    assert!(split > 50, "{split}");
}

/// A read cannot be read: those beside it are.
#[test]
fn one_bad_block_fails_one_read() {
    let machine = Machine::new("emmc-packed");
    assert_eq!(machine.writes(1), 0);
    machine.model.borrow_mut().card_mut().unwrap().spoil(4_003);
    assert_eq!(machine.reads(1), 1);
    assert_eq!(machine.writes(30) + machine.reads(30), 0);
}

#[test]
fn packs_that_fail_again_and_again_are_given_up_and_no_request() {
    let machine = Machine::new("emmc-packed");
    let mut plan = Plan::seeded(1).chance(Point::WriteBlock, Strike::Crc, 0.02);
    plan = plan.chance(Point::ReadBlock, Strike::Crc, 0.02);
    machine.faults(plan);
    for round in 1..20 {
        assert_eq!(machine.writes(round) + machine.reads(round), 0);
    }
    let packs = machine.packs();
    assert_eq!(packs.demoted, Some(Demotion::Failures), "{packs:?}");
    machine.faults(Plan::none());
    assert_eq!(machine.writes(1) + machine.reads(1), 0);
    assert_eq!(machine.packs(), packs);
}
