//! Tests of transfers that stay open on an SDHCI, by stops and by a carrier: the commands on the
//! bus, the data on the card, and what the engine does with a controller that cannot keep a
//! transfer open.

use crate::timed;
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::{Close, Config, DmaBuf, Kind, Request, SlotId};
use mmcq::host::sdhci::{self, OpenWrites, StreamConfig, Streams, Table};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Mistakes, Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use timed::one_thread::{NOW_NS, OneThread, TIMER};

pub type Driver = Streams<Port, ShadowMemory, 129>;
pub type Stack = mmcq::task::Stack<(OneThread, Driver), 16>;

const WAYS: [OpenWrites; 2] = [OpenWrites::Gap, OpenWrites::Carrier];
/// Longest time in ns of a test's requests: the deadlines of two phases that never end, and their
/// recoveries.
const LIMIT_NS: u64 = 20_000_000_000;

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u8; 4096]);

/// Returns memory for this many blocks, `shift` bytes after the start of a page.
fn memory(blocks: usize, shift: usize) -> DmaBuf {
    let bytes = blocks * 512;
    let pages = Box::leak(vec![Page([0; 4096]); (bytes + shift).div_ceil(4096)].into_boxed_slice());
    // SAFETY: a page has no gaps, and the memory is leaked.
    let all = unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len() * 4096) };
    DmaBuf::from_static(&mut all[shift..shift + bytes])
}

pub struct Rig {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    pub stack: Stack,
    pub base: u64,
    /// Number of faults that the engine had counted at the end of bring-up, which sends commands
    /// that some cards do not know.
    faults: u64,
}

impl Rig {
    fn new(card: &str, writes: OpenWrites, mistakes: Mistakes) -> Rig {
        Rig::with_access(card, writes, mistakes, 200)
    }

    /// Returns a rig with the SD card that this profile text describes.
    pub fn of_text(text: &str) -> Rig {
        let profile = CardProfile::from_toml(text, "sd").unwrap_or_else(|error| panic!("{error}"));
        Rig::of(&profile, OpenWrites::Gap, Mistakes::NONE, 200)
    }

    /// Returns a rig in which a register access takes `access_ns`.
    fn with_access(card: &str, writes: OpenWrites, mistakes: Mistakes, access_ns: u64) -> Rig {
        Rig::of(&timed::profile(card), writes, mistakes, access_ns)
    }

    fn of(profile: &CardProfile, writes: OpenWrites, mistakes: Mistakes, access_ns: u64) -> Rig {
        let card = profile.name();
        let emmc = card.contains("emmc");
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig { natural: 1 << 19, ..MemoryConfig::BITS32 });
        let config = SdhciConfig { uhs_at_33v: emmc, mistakes, ..SdhciConfig::GENERIC_4_20 };
        let built = timed::card(profile);
        let model = Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(built))));
        let port = Port::new(model.clone(), time.clone(), access_ns, access_ns / 4);
        let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
        let table = Box::leak(Box::new(Table::new()));
        let host = sdhci::Sdhci::new(port, memory.clone(), table, driver).unwrap();
        let host = Streams::new(host, StreamConfig::NONE.reads(true).writes(writes));
        NOW_NS.set(0);
        let stack = Stack::new(OneThread, TIMER, host, Config::DEFAULT);
        let mut rig = Rig { time, model, memory, stack, base: 0, faults: 0 };
        let found = rig.drive(card::bring_up(&rig.stack, memory_block(), card::Options::DEFAULT)).0;
        rig.base = found.unwrap_or_else(|error| panic!("{card}: {error}")).params.sectors / 2;
        rig.faults = rig.faults();
        rig
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
