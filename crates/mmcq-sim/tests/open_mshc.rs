//! Tests of transfers that stay open on DesignWare's controller, reads by a ring of descriptors and
//! writes by a carrier: the commands on the bus, the data on the card, and what the engine does
//! with a controller that cannot keep a transfer open.

use crate::timed;
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::{Close, Config, DmaBuf, Error, Kind, Request, SlotId};
use mmcq::host::Width;
use mmcq::host::mshc::{self, Descriptors, DesignWare, OpenDesignWare, OpenTransfers, Scrap};
use mmcq::host::surroundings::Surrounded;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::mshc::{Board, Mshc, MshcConfig, Port};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;
use timed::{blocks as memory, filled};

pub type Driver = Surrounded<OpenDesignWare<Port, ShadowMemory, Board, 128>, Board>;
pub type Stack = timed::On<Erased<{ constants::<Driver>() }>>;

pub const BOTH: OpenTransfers = OpenTransfers::NONE.reads(true).writes(true);
/// Controllers with their cards: one with a small FIFO at 3.3 V, and others with a large FIFO,
/// whose clock must not stop inside a block.
const MODELS: [(MshcConfig, &str); 4] = [
    (MshcConfig::PCI, "sdhc-16g-hs"),
    (MshcConfig::JH7110, "sdxc-128g-uhs"),
    (MshcConfig::RK3399, "sdxc-128g-uhs"),
    (MshcConfig { signal18: false, signal18_fixed: true, lines: 8, ..MshcConfig::RK3399 }, "emmc-hs200"),
];
/// Longest time in ns of a test's requests: the deadlines of two phases that never end, and their
/// recoveries.
const LIMIT_NS: u64 = 20_000_000_000;
/// Pause in ns, longer than the engine holds a transfer open.
const PAUSE_NS: u64 = 2 * Config::DEFAULT.hold_ns + 1_000_000;

pub struct Rig {
    pub time: Time,
    pub model: Rc<RefCell<Mshc>>,
    memory: ShadowMemory,
    pub stack: Stack,
    pub base: u64,
    end: u64,
    /// Number of faults that the engine had counted at the end of bring-up, which sends commands
    /// that some cards do not know.
    faults: u64,
}

impl Rig {
    pub fn new((config, card): (MshcConfig, &str), open: OpenTransfers) -> Rig {
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let built = timed::card(&timed::profile(card));
        let model = Rc::new(RefCell::new(Mshc::new(config, memory.clone(), Some(built))));
        let port = Port::new(model.clone(), time.clone(), 100, 50);
        let driver = mshc::MshcConfig::new(config.source_hz)
            .max_clock_hz(208_000_000)
            .width(if config.lines == 8 { Width::W8 } else { Width::W4 })
            .high_speed(true)
            .ddr(true)
            .signal18(config.signal18)
            .signal18_fixed(config.signal18_fixed);
        let board = Board::new(model.clone(), time.clone());
        let table = Box::leak(Box::new(Descriptors::<128>::new()));
        let host = DesignWare::new(port, memory.clone(), board.clone(), table, driver).unwrap();
        let host = OpenDesignWare::new(host, Box::leak(Box::new(Scrap::new())), open).unwrap();
        let host = Surrounded::new(host, board);
        NOW_NS.set(0);
        let stack = timed::on(Erased::new(host), Config::DEFAULT);
        let mut rig = Rig { time, model, memory, stack, base: 0, end: 0, faults: 0 };
        let found = rig.drive(card::bring_up(&rig.stack, memory_block(), card::Options::DEFAULT)).0;
        rig.end = found.unwrap_or_else(|error| panic!("{card}: {error}")).params.sectors;
        rig.base = rig.end / 2;
        rig.faults = rig.faults();
        rig
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    fn submit(&self, kind: Kind, buf: DmaBuf) -> SlotId {
        let now = self.time.now();
        self.stack.with(|engine| engine.submit(Request::new(kind, buf), now)).unwrap()
    }

    fn result(&self, id: SlotId) -> (Result<u32, Error>, DmaBuf) {
        loop {
            if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                return (done.result.map(|output| output.bytes), done.buf);
            }
            timed::turn(&self.stack, &self.model, &self.time).unwrap();
        }
    }

    fn finish(&self, id: SlotId) -> DmaBuf {
        let (result, buf) = self.result(id);
        result.unwrap_or_else(|error| panic!("{error}"));
        buf
    }

    fn pause(&self) {
        timed::run_to(&self.stack, &self.model, &self.time, self.time.now() + PAUSE_NS).unwrap();
    }

    fn write_at(&self, lba: u64, blocks: usize, byte: u8) {
        self.finish(self.submit(Kind::Write { lba, blocks: blocks as u32 }, filled(blocks, byte)));
    }

    fn reads_at(&self, lba: u64, blocks: usize, byte: u8) {
        let back = self.finish(self.submit(Kind::Read { lba, blocks: blocks as u32 }, memory(blocks)));
        assert!(back.iter().all(|got| *got == byte), "at {lba}");
    }

    /// Writes `requests` requests of `blocks` blocks one after the other, each filled with its
    /// number.
    fn write(&self, requests: u64, blocks: usize) {
        for n in 0..requests {
            self.write_at(self.base + n * blocks as u64, blocks, n as u8 | 1);
        }
    }

    fn reads_back(&self, requests: u64, blocks: usize) {
        for n in 0..requests {
            self.reads_at(self.base + n * blocks as u64, blocks, n as u8 | 1);
        }
    }

    /// Returns the number of faults that the engine has counted since bring-up.
    fn faults(&self) -> u64 {
        self.stack.with(|engine| engine.stats().faults) - self.faults
    }

    fn flush(&self) {
        self.drive(BlockDevice::new(&self.stack).flush()).unwrap();
    }

    fn commands(&self, index: usize) -> u64 {
        self.model.borrow().stats().commands[index]
    }

    fn closed(&self, reason: Close) -> u64 {
        self.stack.with(|engine| engine.stats().closed[reason as usize])
    }

    fn checked(&self) {
        timed::checked(&self.memory, &self.model);
        assert_eq!(self.stack.with(|engine| engine.stats().lost_interrupts), 0);
    }
}

fn memory_block() -> DmaBuf {
    memory(1)
}

#[test]
fn a_run_has_one_command_or_a_status_for_each() {
    for place in MODELS {
        let rig = Rig::new(place, BOTH);
        rig.write(40, 8);
        rig.flush();
        assert!(rig.commands(25) <= 3, "{place:?}: {} of CMD25", rig.commands(25));
        assert!(rig.commands(13) > 30, "{place:?}: {} of CMD13", rig.commands(13));
        rig.reads_back(40, 8);
        assert!(rig.commands(18) <= 3, "{place:?}: {} of CMD18", rig.commands(18));
        rig.flush();
        rig.checked();
        assert_eq!(rig.faults(), 0, "{place:?}");
    }
}

#[test]
fn each_way_is_off_until_it_is_enabled() {
    for (open, reads, writes) in [
        (OpenTransfers::NONE, false, false),
        (OpenTransfers::NONE.reads(true), true, false),
        (OpenTransfers::NONE.writes(true), false, true),
    ] {
        let rig = Rig::new(MODELS[0], open);
        rig.write(20, 8);
        rig.reads_back(20, 8);
        rig.flush();
        assert_eq!((rig.commands(18) < 5, rig.commands(25) < 5), (reads, writes), "{open:?}");
        rig.checked();
    }
}

/// Checks requests of every size, so that the ring of descriptors is used many times over, with
/// pauses longer than the engine holds a transfer open.
#[test]
fn data_are_right_at_each_size_and_after_each_pause() {
    for place in MODELS {
        let rig = Rig::new(place, BOTH);
        let sizes = [1, 2, 3, 7, 8, 15, 64, 100, 130, 300, 504, 511, 512, 1];
        for round in 0..3 {
            let mut lba = rig.base;
            for (n, blocks) in sizes.into_iter().enumerate() {
                rig.write_at(lba, blocks, (n + 1 + 16 * round) as u8);
                lba += blocks as u64;
                if round == 1 && n % 3 == 0 {
                    rig.pause();
                }
            }
            let mut lba = rig.base;
            for (n, blocks) in sizes.into_iter().enumerate() {
                rig.reads_at(lba, blocks, (n + 1 + 16 * round) as u8);
                lba += blocks as u64;
                if round == 2 && n % 3 == 0 {
                    rig.pause();
                }
            }
        }
        rig.flush();
        rig.checked();
        assert_eq!(rig.faults(), 0, "{place:?}");
        assert!(rig.closed(Close::Idle) > 0, "{place:?}");
    }
}

/// Checks a sequential run of more blocks than a block count of 16 bits holds.
#[test]
fn a_run_goes_on_past_what_a_register_counts() {
    let rig = Rig::new(MODELS[2], BOTH);
    rig.write(140, 504);
    rig.flush();
    rig.reads_back(140, 504);
    assert!(rig.commands(18) <= 3, "{} of CMD18", rig.commands(18));
    assert_eq!(rig.faults(), 0);
    rig.checked();
}

/// Checks a sequential read to the end of the card: no block follows that would push the last words
/// out of the FIFO into memory.
#[test]
fn a_run_ends_at_the_end_of_the_card() {
    for place in MODELS {
        let rig = Rig::new(place, BOTH);
        let first = rig.end - 40;
        for n in 0..5 {
            rig.write_at(first + 8 * n, 8, n as u8 + 1);
        }
        for n in 0..5 {
            rig.reads_at(first + 8 * n, 8, n as u8 + 1);
        }
        rig.pause();
        rig.write_at(rig.base, 8, 0x77);
        rig.reads_at(rig.base, 8, 0x77);
        assert_eq!(rig.faults(), 0, "{place:?}");
        rig.checked();
    }
}

/// Checks that the card's last block comes in time, also if it was in the FIFO before its request.
#[test]
fn the_last_block_comes_whenever_it_is_asked_for() {
    for place in MODELS {
        let rig = Rig::new(place, BOTH);
        rig.write_at(rig.end - 2, 1, 0x11);
        rig.write_at(rig.end - 1, 1, 0x22);
        // Reads that stay open in pauses.
        for _ in 0..8 {
            for lba in rig.base..rig.base + 8 {
                rig.finish(rig.submit(Kind::Read { lba, blocks: 1 }, memory(1)));
                timed::run_to(&rig.stack, &rig.model, &rig.time, rig.time.now() + 400_000).unwrap();
            }
        }
        for pause_ns in [0, 10_000, 400_000] {
            let from = rig.time.now();
            rig.reads_at(rig.end - 2, 1, 0x11);
            timed::run_to(&rig.stack, &rig.model, &rig.time, rig.time.now() + pause_ns).unwrap();
            rig.reads_at(rig.end - 1, 1, 0x22);
            assert!(rig.time.now() - from < 50_000_000, "{place:?}, {pause_ns} ns");
        }
        assert_eq!(rig.faults(), 0, "{place:?}");
        rig.checked();
    }
}

/// Checks that requests between two parts of an open transfer find the controller as usual: nothing
/// of the open transfer is left in its registers.
#[test]
fn what_comes_between_finds_the_controller_as_ever() {
    for place in MODELS {
        let rig = Rig::new(place, BOTH);
        for round in 0..6 {
            rig.write(6, 8);
            let lba = rig.base + 9000 + 128 * round;
            let ids: Vec<SlotId> = (0..4)
                .map(|n| rig.submit(Kind::Write { lba: lba + 5 * n, blocks: 3 }, filled(3, 0x40 + n as u8)))
                .collect();
            for id in ids {
                rig.finish(id);
            }
            for n in 0..4 {
                rig.reads_at(lba + 5 * n, 3, 0x40 + n as u8);
            }
            rig.reads_back(6, 8);
        }
        rig.flush();
        rig.checked();
        assert_eq!(rig.faults(), 0, "{place:?}");
    }
}

/// Checks one fault at a time, in the middle of open transfers: the engine recovers, and no byte is
/// wrong. The flush fails only where the response to a carrier is missing, since it may have shown
/// an error of a complete write. It may be missing too if the DMA fails.
#[test]
fn faults_in_the_middle_are_recovered_from() {
    for (point, strike) in [
        (Point::Command, Strike::Lost),
        (Point::Response, Strike::Lost),
        (Point::Response, Strike::Crc),
        (Point::Response, Strike::EndBit),
        (Point::ReadBlock, Strike::Crc),
        (Point::ReadBlock, Strike::EndBit),
        (Point::ReadBlock, Strike::Lost),
        (Point::ReadBlock, Strike::Late(700_000_000)),
        (Point::WriteBlock, Strike::Crc),
        (Point::WriteBlock, Strike::NoStatus),
        (Point::WriteBlock, Strike::Lost),
        (Point::Interrupt, Strike::Lost),
        (Point::Dma, Strike::Fail),
        (Point::Dma, Strike::Never),
    ] {
        for nth in [3, 20, 41] {
            for place in [MODELS[0], MODELS[2]] {
                let rig = Rig::new(place, BOTH);
                let faults = Faults::new(Plan::none().shot(point, nth, strike));
                rig.model.borrow_mut().set_faults(faults.clone());
                rig.write(30, 8);
                rig.reads_back(30, 8);
                rig.write(30, 3);
                let flushed = rig.drive(BlockDevice::new(&rig.stack).flush());
                let carried = rig.stack.with(|engine| engine.stats().not_continued) > 0;
                let lost = carried && matches!(point, Point::Command | Point::Response);
                let perhaps = carried && (point, strike) == (Point::Dma, Strike::Fail);
                let right = flushed.is_err() == lost || perhaps;
                assert!(right, "{point:?} {strike:?} {nth}: {flushed:?}");
                rig.flush();
                rig.reads_back(30, 3);
                assert_eq!(faults.struck().len(), 1, "{point:?} {strike:?} {nth}");
                assert!(!rig.stack.with(|engine| engine.take_continue_lost()), "{point:?} {strike:?} {nth}");
                assert_eq!(rig.memory.violations(), Vec::<String>::new(), "{point:?} {strike:?} {nth}");
                assert_eq!(rig.model.borrow().protocol_violations(), 0, "{point:?} {strike:?} {nth}");
            }
        }
    }
}

#[test]
fn a_card_that_is_taken_out_of_an_open_transfer_is_gone() {
    for reads in [false, true] {
        for place in [MODELS[0], MODELS[2]] {
            let rig = Rig::new(place, BOTH);
            rig.write(4, 8);
            if reads {
                rig.reads_back(3, 8);
            }
            // While it is held, or while its data go on.
            let lba = rig.base + 24 + 8 * u64::from(!reads);
            let kind = |lba| match reads {
                true => Kind::Read { lba, blocks: 8 },
                false => Kind::Write { lba, blocks: 8 },
            };
            let id = rig.submit(kind(lba), memory(8));
            timed::step(&rig.stack, &rig.model, &rig.time).unwrap();
            let now = rig.time.now();
            rig.model.borrow_mut().remove(now);
            // What the card had may have come; the next request finds it gone.
            let first = rig.result(id).0;
            let request = Request::new(kind(lba + 8), memory(8));
            let next = rig.stack.with(|engine| engine.submit(request, rig.time.now()));
            let second = next.ok().and_then(|id| rig.result(id).0.ok());
            assert!(first.is_err() || second.is_none(), "{place:?}, {reads}");
            assert!(rig.time.now() - now < 2_000_000_000, "{}", rig.time.now() - now);
            assert_eq!(rig.memory.violations(), Vec::<String>::new());
        }
    }
}

/// Checks controllers that cannot keep reads open, or cannot keep writes open: the stack gives that
/// method up in bounded time, and no data are lost.
#[test]
fn a_controller_that_cannot_is_left_after_two_failures() {
    for config in [
        MshcConfig { ignores_poll: true, ..MshcConfig::PCI },
        MshcConfig { carries_nothing: true, ..MshcConfig::PCI },
    ] {
        let rig = Rig::new((config, "sdhc-16g-hs"), BOTH);
        let began_ns = rig.time.now();
        rig.write(60, 8);
        rig.flush();
        rig.reads_back(60, 8);
        let took_ns = rig.time.now() - began_ns;
        assert!(took_ns < LIMIT_NS, "{config:?}: {took_ns} ns");
        assert!(rig.stack.with(|engine| engine.take_continue_lost()), "{config:?}");
        rig.write(10, 3);
        rig.reads_back(10, 3);
        assert_eq!(rig.memory.violations(), Vec::<String>::new());
    }
}
