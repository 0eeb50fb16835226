//! Tests of transfers that stay open on an SDHCI, by stops and by a carrier: the commands on the
//! bus, the data on the card, and what the engine does with a controller that cannot keep a
//! transfer open.

use crate::timed;
use mmcq::block::BlockDevice;
use mmcq::card::{self, Card, Options, Rest, Upkeep, bring_up_io, supervise};
use mmcq::engine::{Close, Config, DmaBuf, Kind, Request, SlotId};
use mmcq::host::sdhci::{self, OpenWrites, StreamConfig, Streams, Table};
use mmcq::sdio::{CardInterrupt, Chain, Function};
use mmcq_sim::card::Card as CardModel;
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::card::io::function::loopback;
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Mistakes, Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;

pub type Driver = Streams<Port, ShadowMemory, 129>;
pub type Stack = timed::On<Erased<{ constants::<Driver>() }>>;

const WAYS: [OpenWrites; 2] = [OpenWrites::Gap, OpenWrites::Carrier];
/// Longest time in ns of a test's requests: the deadlines of two phases that never end, and their
/// recoveries.
const LIMIT_NS: u64 = 20_000_000_000;

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u8; 4096]);

/// Returns memory for this many blocks, `shift` bytes after the start of a page.
pub fn memory(blocks: usize, shift: usize) -> DmaBuf {
    let bytes = blocks * 512;
    let pages = Box::leak(vec![Page([0; 4096]); (bytes + shift).div_ceil(4096)].into_boxed_slice());
    // SAFETY: a page has no gaps, and the memory is leaked.
    let all = unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len() * 4096) };
    DmaBuf::from_static(&mut all[shift..shift + bytes])
}

pub struct Rig {
    pub time: Time,
    pub model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    pub stack: Stack,
    pub base: u64,
    /// Number of faults that the engine had counted at the end of bring-up, which sends commands
    /// that some cards do not know.
    faults: u64,
}

impl Rig {
    pub fn new(card: &str, writes: OpenWrites, mistakes: Mistakes) -> Rig {
        Rig::with_access(card, writes, mistakes, 200)
    }

    /// Returns a rig with the SD card that this profile text describes.
    pub fn of_text(text: &str) -> Rig {
        let profile = CardProfile::from_toml(text, "sd").unwrap_or_else(|error| panic!("{error}"));
        Rig::of(&profile, OpenWrites::Gap, Mistakes::NONE, 200)
    }

    /// Returns a rig in which a register access takes `access_ns`.
    pub fn with_access(card: &str, writes: OpenWrites, mistakes: Mistakes, access_ns: u64) -> Rig {
        Rig::of(&timed::profile(card), writes, mistakes, access_ns)
    }

    fn of(profile: &CardProfile, writes: OpenWrites, mistakes: Mistakes, access_ns: u64) -> Rig {
        let emmc = profile.name().contains("emmc");
        let config = SdhciConfig { uhs_at_33v: emmc, mistakes, ..SdhciConfig::GENERIC_4_20 };
        Rig::built(timed::card(profile), writes, config, access_ns).up(card::Options::DEFAULT).0
    }

    /// Returns a rig with this controller, whose card is not brought up yet. The controller of an
    /// eMMC has UHS at 3.3 V.
    fn built(card: Box<dyn CardModel>, writes: OpenWrites, config: SdhciConfig, access_ns: u64) -> Rig {
        let (time, emmc) = (Time::new(), config.uhs_at_33v);
        let memory = ShadowMemory::new(MemoryConfig { natural: 1 << 19, ..MemoryConfig::BITS32 });
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(card))));
        let port = Port::new(model.clone(), time.clone(), access_ns, access_ns / 4);
        let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
        let table = Box::leak(Box::new(Table::<129>::new()));
        let host = sdhci::Sdhci::new(port, memory.clone(), table, driver).unwrap();
        let host = Streams::new(host, StreamConfig::NONE.reads(true).writes(writes));
        NOW_NS.set(0);
        let stack = timed::on(Erased::new(host), Config::DEFAULT);
        Rig { time, model, memory, stack, base: 0, faults: 0 }
    }

    /// Brings up the card of the rig.
    fn up(mut self, options: card::Options) -> (Rig, Card) {
        let found = self.drive(card::bring_up(&self.stack, memory_block(), options)).0;
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        self.base = found.params.sectors / 2;
        self.faults = self.faults();
        (self, found)
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    pub fn submit(&self, kind: Kind, buf: DmaBuf) -> SlotId {
        let now = self.time.now();
        self.stack.with(|engine| engine.submit(Request::new(kind, buf), now)).unwrap()
    }

    pub fn finish(&self, id: SlotId) -> DmaBuf {
        loop {
            if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                done.result.unwrap_or_else(|error| panic!("{error}"));
                return done.buf;
            }
            timed::turn(&self.stack, &self.model, &self.time).unwrap();
        }
    }

    /// Writes `requests` requests of `blocks` blocks one after the other, each filled with its
    /// number.
    fn write(&self, requests: u64, blocks: usize, shift: usize) {
        for n in 0..requests {
            let mut buf = memory(blocks, shift);
            buf.fill(n as u8 | 1);
            let lba = self.base + n * blocks as u64;
            self.finish(self.submit(Kind::Write { lba, blocks: blocks as u32 }, buf));
        }
    }

    fn reads_back(&self, requests: u64, blocks: usize) {
        for n in 0..requests {
            let lba = self.base + n * blocks as u64;
            let back = self.finish(self.submit(Kind::Read { lba, blocks: blocks as u32 }, memory(blocks, 0)));
            assert!(back.iter().all(|byte| *byte == n as u8 | 1), "request {n}");
        }
    }

    /// Returns the number of faults that the engine has counted since bring-up.
    fn faults(&self) -> u64 {
        self.stack.with(|engine| engine.stats().faults) - self.faults
    }

    pub fn flush(&self) {
        self.drive(BlockDevice::new(&self.stack).flush()).unwrap();
    }

    fn commands(&self, index: usize) -> u64 {
        self.model.borrow().stats().commands[index]
    }
}

fn memory_block() -> DmaBuf {
    memory(1, 0)
}

#[test]
fn a_run_has_one_command_or_a_status_for_each() {
    for writes in WAYS {
        for card in ["sdxc-128g-uhs", "emmc-hs200"] {
            let rig = Rig::new(card, writes, Mistakes::NONE);
            rig.write(40, 8, 0);
            rig.flush();
            let opened = rig.commands(25);
            assert!(opened <= 3, "{card}, {writes:?}: {opened} of CMD25");
            let status = rig.commands(13);
            assert_eq!(status > 30, writes == OpenWrites::Carrier, "{card}, {writes:?}: {status} of CMD13");
            rig.reads_back(40, 8);
            assert!(rig.commands(18) <= 3, "{card}, {writes:?}: {} of CMD18", rig.commands(18));
            rig.flush();
            timed::checked(&rig.memory, &rig.model);
            assert_eq!(rig.faults(), 0, "{card}, {writes:?}");
        }
    }
}

/// Checks sequential requests of more blocks than the block count register can hold (65 535): the
/// stack closes the open transfer before that, and begins a new one.
#[test]
fn a_run_goes_on_past_what_the_register_counts() {
    for writes in WAYS {
        let rig = Rig::new("sdxc-128g-uhs", writes, Mistakes::NONE);
        let (blocks, requests) = (1024, 70);
        rig.write(requests, blocks, 0);
        rig.flush();
        rig.reads_back(requests, blocks);
        assert_eq!(rig.faults(), 0, "{writes:?}");
        let closed = rig.stack.with(|engine| engine.stats().closed[Close::Memory as usize]);
        assert!(closed > 0, "{writes:?}: the reads at least come to the end of the count");
    }
}

/// Checks memory whose end fits no DMA boundary: with stops the open transfer ends and the data
/// move as usual; with a carrier the transfer goes on.
#[test]
fn memory_beside_a_boundary_ends_a_transfer_by_stops_alone() {
    for writes in WAYS {
        let rig = Rig::new("sdxc-128g-uhs", writes, Mistakes::NONE);
        rig.write(20, 8, 4);
        rig.flush();
        let opened = rig.commands(25);
        assert_eq!(opened > 18, writes == OpenWrites::Gap, "{writes:?}: {opened} of CMD25");
        rig.reads_back(20, 8);
        assert_eq!(rig.faults(), 0, "{writes:?}");
        assert!(!rig.stack.with(|engine| engine.take_continue_lost()), "{writes:?}");
    }
}

/// Checks controllers that cannot keep a transfer open by stops, or cannot keep it open by a
/// carrier: the stack gives that method up after two failures, in bounded time, and no data are
/// lost.
#[test]
fn a_controller_that_cannot_is_left_after_two_failures() {
    let stops = [
        Mistakes { sdma_address_ignored: true, ..Mistakes::NONE },
        Mistakes { gap_unnoticed: true, ..Mistakes::NONE },
    ];
    let carrier = [Mistakes { carried_data_stay: true, ..Mistakes::NONE }];
    let all =
        stops.map(|m| (OpenWrites::Gap, m)).into_iter().chain(carrier.map(|m| (OpenWrites::Carrier, m)));
    for (writes, mistakes) in all {
        // With slow accesses the request to stop comes after the last block has been sent.
        let access_ns = if mistakes.gap_unnoticed { 20_000 } else { 200 };
        let rig = Rig::with_access("sdxc-128g-uhs", writes, mistakes, access_ns);
        let began_ns = rig.time.now();
        rig.write(60, 8, 0);
        rig.flush();
        let took_ns = rig.time.now() - began_ns;
        assert!(took_ns < LIMIT_NS, "{mistakes:?}: {took_ns} ns");
        assert!(rig.stack.with(|engine| engine.take_continue_lost()), "{mistakes:?}");
        rig.reads_back(60, 8);
        timed::checked(&rig.memory, &rig.model);
    }
}

/// Checks that requests between two parts of an open transfer find the controller as usual: nothing
/// of the open transfer is left in its registers.
#[test]
fn what_comes_between_finds_the_controller_as_ever() {
    for writes in WAYS {
        let rig = Rig::new("emmc-hs200", writes, Mistakes::NONE);
        for round in 0..6 {
            rig.write(6, 8, 0);
            let lba = rig.base + 9000 + 128 * round;
            let ids: Vec<SlotId> = (0..4)
                .map(|n| {
                    let mut buf = memory(3, 512);
                    buf.fill(0x40 + n as u8);
                    rig.submit(Kind::Write { lba: lba + 5 * n, blocks: 3 }, buf)
                })
                .collect();
            for id in ids {
                rig.finish(id);
            }
            for n in 0..4 {
                let back = rig.finish(rig.submit(Kind::Read { lba: lba + 5 * n, blocks: 3 }, memory(3, 4)));
                assert!(back.iter().all(|byte| *byte == 0x40 + n as u8), "{writes:?}, round {round}");
            }
            rig.reads_back(6, 8);
        }
        rig.flush();
        timed::checked(&rig.memory, &rig.model);
        assert_eq!(rig.faults(), 0, "{writes:?}");
    }
}

const MS: u64 = 1_000_000;

/// A supervisor beside the requests of a test.
struct Keeper<'a> {
    rig: &'a Rig,
    supervisor: Pin<Box<dyn Future<Output = ()> + 'a>>,
}

impl<'a> Keeper<'a> {
    fn new(rig: &'a Rig, card: Card, options: Options) -> Self {
        let ended = async move {
            let (event, _) = supervise(&rig.stack, memory_block(), options, card).await;
            panic!("{event:?}");
        };
        Keeper { rig, supervisor: Box::pin(ended) }
    }

    fn poll(&mut self) {
        assert!(self.supervisor.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    /// Advances by a pause in which no request comes.
    fn pause(&mut self, ns: u64) {
        let until_ns = self.rig.time.now() + ns;
        while self.rig.time.now() < until_ns {
            self.poll();
            let next_ns = until_ns.min(self.rig.time.now() + MS / 4);
            timed::run_to(&self.rig.stack, &self.rig.model, &self.rig.time, next_ns).unwrap();
        }
    }

    fn finish(&mut self, id: SlotId) -> DmaBuf {
        loop {
            self.poll();
            if let Some(done) = self.rig.stack.with(|engine| engine.take(id)) {
                done.result.unwrap_or_else(|error| panic!("{error}"));
                return done.buf;
            }
            timed::turn(&self.rig.stack, &self.rig.model, &self.rig.time).unwrap();
        }
    }

    /// Writes eight blocks, the `n`-th of a run.
    fn write(&mut self, n: u64) {
        let mut buf = memory(8, 0);
        buf.fill(n as u8 | 1);
        let id = self.rig.submit(Kind::Write { lba: self.rig.base + 8 * n, blocks: 8 }, buf);
        self.finish(id);
    }

    /// Reads what [`write`](Self::write) has written.
    fn read(&mut self, n: u64) {
        let id = self.rig.submit(Kind::Read { lba: self.rig.base + 8 * n, blocks: 8 }, memory(8, 0));
        let back = self.finish(id);
        assert!(back.iter().all(|byte| *byte == n as u8 | 1), "request {n}");
    }
}

/// Checks a controller whose sampling point must be renewed each second, under a run whose pauses
/// are shorter than a transfer stays open: the tuning closes the transfer, and the run goes on.
#[test]
fn a_tuning_that_is_due_closes_the_transfer_and_the_run_goes_on() {
    let base = SdhciConfig::GENERIC_4_20;
    let config = SdhciConfig { capabilities1: base.capabilities1 & !0xf00 | 1 << 8, ..base };
    for writes in WAYS {
        let card = timed::card(&timed::profile("sdxc-128g-uhs"));
        let (rig, found) = Rig::built(card, writes, config, 200).up(Options::DEFAULT);
        let mut keeper = Keeper::new(&rig, found, Options::DEFAULT);
        keeper.pause(MS);
        let tunings = || rig.stack.with(|engine| engine.stats().tunings);
        let before = tunings();
        for n in 0..100 {
            keeper.write(n);
            keeper.pause(30 * MS);
        }
        assert!(rig.commands(25) < 50, "{writes:?}: {} of CMD25 in 100 writes", rig.commands(25));
        let written = tunings();
        for n in 0..100 {
            keeper.read(n);
            keeper.pause(30 * MS);
        }
        assert!(rig.commands(18) < 50, "{writes:?}: {} of CMD18 in 100 reads", rig.commands(18));
        let all = (written - before, tunings() - written);
        assert!(all.0 >= 2 && all.1 >= 2, "{writes:?}: {all:?} tunings in three seconds each");
        timed::checked(&rig.memory, &rig.model);
        assert_eq!(rig.faults(), 0, "{writes:?}");
    }
}

/// Checks a card that rests while its transfer is open: the transfer is closed first, and the next
/// request wakes the card.
#[test]
fn a_rest_closes_the_transfer_before_the_clock_stops() {
    static CLOCK_OFF: Upkeep = Upkeep::DEFAULT.rest(Rest::ClockOff { after_ns: 5 * MS });
    static SLEEPS: Upkeep = Upkeep::DEFAULT.rest(Rest::Sleep { after_ns: 5 * MS });
    for (writes, upkeep) in WAYS.into_iter().flat_map(|writes| [(writes, &CLOCK_OFF), (writes, &SLEEPS)]) {
        for name in ["sdhc-16g-hs", "emmc-51-full"] {
            let emmc = name.contains("emmc");
            let config = SdhciConfig { uhs_at_33v: emmc, ..SdhciConfig::GENERIC_4_20 };
            let options = Options::DEFAULT.upkeep(upkeep);
            let card = timed::card(&timed::profile(name));
            let (rig, found) = Rig::built(card, writes, config, 200).up(options);
            let mut keeper = Keeper::new(&rig, found, options);
            let what = format!("{name}, {writes:?}, {:?}", upkeep.rest);
            for round in 0..6 {
                for n in 0..4 {
                    keeper.write(4 * round + n);
                }
                keeper.pause(400 * MS);
                assert_eq!(rig.model.borrow().bus().clock_hz, 0, "{what}, after writes {round}");
                let lost = rig.model.borrow_mut().card_mut().unwrap().at_stake(rig.time.now());
                assert!(lost.is_empty() || emmc && upkeep.rest == CLOCK_OFF.rest, "{what}: {lost:?}");
                for n in 0..4 {
                    keeper.read(4 * round + n);
                }
                keeper.pause(400 * MS);
                assert_eq!(rig.model.borrow().bus().clock_hz, 0, "{what}, after reads {round}");
            }
            assert_eq!(rig.stack.with(|engine| engine.stats().rests), 12, "{what}");
            timed::checked(&rig.memory, &rig.model);
            assert_eq!(rig.faults(), 0, "{what}");
        }
    }
}

/// Checks that a card's rest counts from the end of the last request that continued a transfer, not
/// from an earlier one: with pauses a little shorter than the rest, the run goes on.
#[test]
fn a_rest_counts_from_the_last_continued_request() {
    static CLOCK_OFF: Upkeep = Upkeep::DEFAULT.rest(Rest::ClockOff { after_ns: 5 * MS });
    for writes in WAYS {
        let options = Options::DEFAULT.upkeep(&CLOCK_OFF);
        let card = timed::card(&timed::profile("sdhc-16g-hs"));
        let (rig, found) = Rig::built(card, writes, SdhciConfig::GENERIC_4_20, 200).up(options);
        let mut keeper = Keeper::new(&rig, found, options);
        for (index, write) in [(25, true), (18, false)] {
            let before = rig.commands(index);
            for n in 0..40 {
                match write {
                    true => keeper.write(n),
                    false => keeper.read(n),
                }
                keeper.pause(4 * MS);
                assert_ne!(rig.model.borrow().bus().clock_hz, 0, "{writes:?}, CMD{index}, request {n}");
            }
            let opened = rig.commands(index) - before;
            assert!(opened < 10, "{writes:?}: {opened} of CMD{index} in 40 requests");
            keeper.pause(300 * MS);
            assert_eq!(rig.model.borrow().bus().clock_hz, 0, "{writes:?}, after CMD{index}");
        }
        timed::checked(&rig.memory, &rig.model);
        assert_eq!(rig.faults(), 0, "{writes:?}");
    }
}

/// Checks a suspend while a transfer is open: the transfer is closed and the writes are on the
/// medium before the engine is idle. After the resume the run goes on.
#[test]
fn a_suspend_closes_the_transfer_before_the_engine_is_idle() {
    for writes in WAYS {
        for pause_ns in [0, 20_000, MS] {
            let rig = Rig::new("sdxc-128g-uhs", writes, Mistakes::NONE);
            for round in 0..4 {
                rig.write(6, 8, 0);
                timed::run_to(&rig.stack, &rig.model, &rig.time, rig.time.now() + pause_ns).unwrap();
                rig.stack.with(|engine| engine.suspend());
                let limit_ns = rig.time.now() + 500 * MS;
                while !rig.stack.with(|engine| engine.is_idle()) {
                    assert!(rig.time.now() < limit_ns, "{writes:?}, round {round}: never idle");
                    timed::turn(&rig.stack, &rig.model, &rig.time).unwrap();
                }
                let lost = rig.model.borrow_mut().card_mut().unwrap().at_stake(rig.time.now());
                assert!(lost.is_empty(), "{writes:?}, round {round}: {lost:?}");
                let sent = rig.model.borrow().stats().commands;
                timed::run_to(&rig.stack, &rig.model, &rig.time, rig.time.now() + 300 * MS).unwrap();
                assert_eq!(rig.model.borrow().stats().commands, sent, "{writes:?}: nothing is sent");
                rig.stack.with(|engine| engine.resume(rig.time.now()));
                rig.reads_back(6, 8);
            }
            timed::checked(&rig.memory, &rig.model);
            assert_eq!(rig.faults(), 0, "{writes:?}");
        }
    }
}

/// Checks a combo card whose function interrupts during a run of writes: on four data lines a card
/// cannot interrupt while a write is open, so no transfer stays open while a driver listens. When
/// the driver does not listen any more, transfers stay open again.
#[test]
fn a_card_interrupt_is_served_in_time_under_a_run() {
    let path = format!("{}/cards/quirks/sdio-cd-off.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (text, _) = text.split_once("[quirk]").unwrap();
    for writes in WAYS {
        let functions = IoProfile::from_toml(text, "combo").unwrap().build().0;
        let profile = timed::profile("sdhc-16g-hs");
        let card = functions.with_memory(profile.build_sd(timed::medium(&profile)).unwrap());
        let mut rig = Rig::built(Box::new(card), writes, SdhciConfig::GENERIC_4_20, 200);
        let found = rig.drive(bring_up_io(&rig.stack, memory_block(), Options::DEFAULT)).0.unwrap();
        rig.base = found.memory.unwrap().params.sectors / 2;
        let function = Function::new(&rig.stack, &found, 1).unwrap();
        let mut irq = CardInterrupt::new(&rig.stack, &found);
        rig.drive(function.enable()).unwrap();
        rig.faults = rig.faults();
        // The transfer is open when the driver begins to listen.
        rig.write(20, 8, 0);
        let opened = rig.commands(25);
        assert!(opened < 5, "{writes:?}: {opened} of CMD25 in 20 writes");
        rig.drive(irq.enable(1)).unwrap();
        let (mut served, mut worst_ns) = (0, 0);
        {
            let mut serve = pin!(async {
                for us in 1..=40u8 {
                    function.write_u8(loopback::TIMER_US, 6 * us, Chain::Last).await.unwrap();
                    let set_ns = rig.time.now();
                    irq.wait().await.unwrap();
                    assert_eq!(irq.pending().await, Ok(1 << 1));
                    worst_ns = worst_ns.max(rig.time.now() - set_ns);
                    function.write_u8(loopback::INTERRUPT, 0, Chain::Last).await.unwrap();
                    irq.ack();
                    served += 1;
                }
            });
            let mut done = false;
            let mut run = pin!(async {
                for n in 20..400u64 {
                    let mut buf = memory(8, 0);
                    buf.fill(n as u8 | 1);
                    let write = Kind::Write { lba: rig.base + 8 * n, blocks: 8 };
                    rig.stack.request(Request::new(write, buf)).await.result.unwrap();
                }
            });
            let mut both = pin!(poll_fn(|context| {
                done = done || serve.as_mut().poll(context).is_ready();
                match run.as_mut().poll(context) {
                    Poll::Ready(()) if done => Poll::Ready(()),
                    Poll::Ready(()) => panic!("the run is too short for all interrupts"),
                    Poll::Pending => Poll::Pending,
                }
            }));
            rig.drive(both.as_mut());
        }
        assert_eq!(served, 40, "{writes:?}");
        // A write of the run with its busy may come between.
        assert!(worst_ns < 20 * MS, "{writes:?}: {worst_ns} ns");
        rig.drive(irq.disable(1)).unwrap();
        let opened = rig.commands(25);
        rig.write(20, 8, 0);
        assert!(rig.commands(25) - opened < 5, "{writes:?}: {}", rig.commands(25) - opened);
        rig.flush();
        rig.reads_back(400, 8);
        timed::checked(&rig.memory, &rig.model);
        assert_eq!(rig.faults(), 0, "{writes:?}");
    }
}
