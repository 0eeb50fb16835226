//! A rig whose card is driven by one of the engine's lanes: loads with known content, and checks
//! that hold for every lane.

#![allow(dead_code, reason = "each test binary uses its own part")]

use super::rig::{buffer, card};
use crate::timed;
use crate::timed::one_thread::{NOW_NS, TIMER};
use mmcq::board::NoLock;
use mmcq::card::{self, Card, Options};
use mmcq::engine::{Config, Kind, Request, SlotId};
use mmcq::host::Host;
use mmcq::host::sdhci::{self, Table};
use mmcq::sched::{PackStats, Profile, TaskStats};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

pub type Driver = sdhci::Sdhci<Port, ShadowMemory, 129>;

/// The longest virtual time in ns in which all requests must be answered.
pub const LIMIT_NS: u64 = 60_000_000_000;

pub struct Machine<H: Host, P: Profile, const N: usize> {
    pub time: Time,
    pub model: Rc<RefCell<Sdhci>>,
    pub memory: ShadowMemory,
    pub stack: mmcq::task::Stack<(NoLock, H, P), N>,
    /// Number of tasks that the card's queue can hold; 0 without a queue.
    pub depth: u8,
}

impl<P: Profile, const N: usize> Machine<Driver, P, N> {
    /// Returns a machine: an SDHCI with this card, an eMMC or SD card. Nothing was sent yet.
    pub fn sdhci(name: &str, emmc: bool, policy: P) -> Self {
        Self::seeing(MemoryConfig::BITS32, name, emmc, policy)
    }

    /// Returns a machine like [`sdhci`](Self::sdhci), whose controller sees this memory.
    pub fn seeing(sees: MemoryConfig, name: &str, emmc: bool, policy: P) -> Self {
        let (time, memory) = (Time::new(), ShadowMemory::new(sees));
        let config = SdhciConfig { uhs_at_33v: emmc, ..SdhciConfig::GENERIC_4_20 };
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(card(name)))));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::new()));
        let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
        let host = sdhci::Sdhci::new(port, memory.clone(), table, driver).unwrap();
        Machine::over(host, policy, model, memory, time)
    }
}

impl<H: Host, P: Profile, const N: usize> Machine<H, P, N> {
    /// Returns a machine with this driver over this model.
    pub fn over(host: H, policy: P, model: Rc<RefCell<Sdhci>>, memory: ShadowMemory, time: Time) -> Self {
        NOW_NS.set(0);
        let stack = mmcq::task::Stack::with_policy(NoLock::new(), TIMER, host, Config::DEFAULT, policy);
        Machine { time, model, memory, stack, depth: 0 }
    }

    pub async fn identify(&self, options: Options) -> Card {
        card::bring_up(&self.stack, buffer(1, 0), options).await.0.unwrap()
    }

    /// Brings the eMMC up, and uses its queue if it has one.
    pub fn with_emmc_queue(mut self) -> Self {
        self.depth = self.drive(async {
            let card = self.identify(Options::DEFAULT).await;
            card::enable_task_queue(&self.stack, &card, buffer(1, 0)).await.0.unwrap()
        });
        self
    }

    /// Advances to the next interrupt or deadline, and lets the stack handle it.
    pub fn turn(&self) {
        timed::turn(&self.stack, &self.model, &self.time).unwrap();
    }

    pub fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    /// Applies faults to controller, bus and card from now on.
    pub fn faults(&self, plan: Plan) {
        let faults = Faults::new(plan);
        let mut model = self.model.borrow_mut();
        model.set_faults(faults.clone());
        model.card_mut().unwrap().set_faults(faults);
    }

    pub fn submit(&self, request: Request) -> SlotId {
        self.stack.with(|engine| engine.submit(request, self.time.now())).map_err(|(error, _)| error).unwrap()
    }

    /// Submits a read of eight blocks, in which every byte must have this value. Returns what
    /// [`finish`](Self::finish) needs: the slot of the request, and this value.
    pub fn read(&self, lba: u64, byte: u8) -> (SlotId, Option<u8>) {
        (self.submit(Request::new(Kind::Read { lba, blocks: 8 }, buffer(8, 0))), Some(byte))
    }

    /// Submits a write of eight blocks, in which every byte has this value. Returns the slot of the
    /// request, and `None` since [`finish`](Self::finish) has no bytes to check.
    pub fn write(&self, lba: u64, byte: u8) -> (SlotId, Option<u8>) {
        (self.submit(Request::new(Kind::Write { lba, blocks: 8 }, buffer(8, byte))), None)
    }

    pub fn flush(&self) -> (SlotId, Option<u8>) {
        (self.submit(Request::new(Kind::Flush, buffer(8, 0))), None)
    }

    /// Waits for all of these requests, and checks the bytes of reads. Returns how many failed.
    pub fn finish(&self, ids: &[(SlotId, Option<u8>)]) -> usize {
        let (limit_ns, mut failed) = (self.time.now() + LIMIT_NS, 0);
        for &(id, content) in ids {
            let done = loop {
                if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                    break done;
                }
                let of = |machine: &Self| {
                    machine.stack.with(|engine| (engine.task_stats().copied(), engine.pack_stats().copied()))
                };
                assert!(self.time.now() < limit_ns, "no answer; {:?}", of(self));
                self.turn();
            };
            failed += usize::from(done.result.is_err());
            if let (Ok(_), Some(byte)) = (done.result, content) {
                assert!(done.buf.iter().all(|&found| found == byte), "byte {byte}");
            }
        }
        failed
    }

    /// Writes these bytes to places far from each other, from the first place on. Returns how many
    /// writes failed.
    pub fn writes(&self, bytes: impl IntoIterator<Item = u8>) -> usize {
        let ids: Vec<_> = (0..).zip(bytes).map(|(n, byte)| self.write(n * 1_000, byte)).collect();
        self.finish(&ids)
    }

    /// Reads the places of [`writes`](Self::writes) back, with the same bytes. Returns how many
    /// reads failed.
    pub fn reads(&self, bytes: impl IntoIterator<Item = u8>) -> usize {
        let ids: Vec<_> = (0..).zip(bytes).map(|(n, byte)| self.read(n * 1_000, byte)).collect();
        self.finish(&ids)
    }

    /// Writes eight places, then reads them `count` times, four at a time. Returns how many
    /// requests failed.
    pub fn stream_of_reads(&self, count: u64) -> usize {
        let read = |n: u64| self.read(n % 8 * 1_000, (n % 8) as u8 + 1);
        let mut window: std::collections::VecDeque<_> = (0..4).map(read).collect();
        let mut failed = 0;
        for n in 4..count {
            let first = window.pop_front();
            failed += self.finish(first.as_slice());
            window.push_back(read(n));
        }
        failed + self.finish(window.make_contiguous())
    }

    /// Returns the number of commands that were sent while data moved.
    pub fn beside(&self) -> u64 {
        self.stack.with(|engine| engine.stats().concurrent)
    }

    /// Writes eight places, then reads them in this many rounds. Returns how many requests failed.
    pub fn rounds(&self, rounds: usize) -> usize {
        self.writes(1..=8) + (0..rounds).map(|_| self.reads(1..=8)).sum::<usize>()
    }

    /// Submits reads, `writes` writes and a flush, all at the same time. The places must have the
    /// content that [`rounds`](Self::rounds) has written. Returns how many requests failed.
    pub fn mixed(&self, writes: u64, byte: u8) -> usize {
        let mut ids: Vec<_> = (0..4).map(|n| self.read(n * 1_000, n as u8 + 1)).collect();
        ids.extend((0..writes).map(|n| self.write(9_000 + 100 * n, byte)));
        ids.push(self.flush());
        ids.push(self.read(9_000, byte));
        ids.push(self.read(1_000, 2));
        self.finish(&ids)
    }

    /// Makes one access of the card to its medium (a read or the programming of a block) fail: the
    /// `nth` one after this call. Runs eight reads and two pairs of writes meanwhile. Returns how
    /// many requests failed, at most one.
    pub fn late_error(&self, nth: u64) -> usize {
        assert_eq!(self.rounds(1), 0);
        self.faults(Plan::none().shot(Point::Medium, nth, Strike::Fail));
        let mut ids = Vec::new();
        for n in 0..8u8 {
            let lba = u64::from(n) * 1_000;
            ids.push(self.read(lba, n + 1));
            if n % 4 == 1 {
                // The two writes are merged to one task.
                ids.extend([0, 8].map(|part| self.write(50_000 + lba + part, n + 1)));
            }
        }
        self.finish(&ids)
    }

    /// Advances time until the stack has nothing to do.
    pub fn rest(&self) {
        let limit_ns = self.time.now() + LIMIT_NS;
        while !self.stack.with(|engine| engine.is_idle()) {
            assert!(self.time.now() < limit_ns, "it never rests");
            self.turn();
        }
    }

    /// Checks that nothing forbidden was done to controller, card or memory.
    pub fn checked(&self) {
        assert_eq!(self.memory.violations(), Vec::<String>::new());
        assert_eq!(self.model.borrow().first_violation(), None);
    }

    pub fn tasks(&self) -> TaskStats {
        self.stack.with(|engine| engine.task_stats().copied()).unwrap()
    }

    pub fn packs(&self) -> PackStats {
        self.stack.with(|engine| engine.pack_stats().copied()).unwrap()
    }

    /// Returns the number of recovery steps that were taken.
    pub fn steps(&self) -> u64 {
        self.stack.with(|engine| engine.stats().recovery_steps.iter().sum())
    }
}
