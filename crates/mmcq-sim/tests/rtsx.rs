//! Tests of the whole stack on the model of Realtek's reader, whose driver was written
//! independently of the model: bring-up, streams, and a power cut in the middle of a stream.

use crate::{cases, timed};
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::card::quirk::{Quirk, Quirks};
use mmcq::engine::{Close, Config, DmaBuf, Error, Kind, Request, SlotId, StaysOpen};
use mmcq::host::rtsx::{self, Buffers};
use mmcq::host::{Caps, Timing, Width};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::rtsx::{Port, Rtsx, RtsxConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;
use timed::{blocks as buffer, filled};

type Driver = rtsx::Rtsx<Port, ShadowMemory>;
type Stack = timed::On<Erased<{ constants::<Driver>() }>>;

struct Rig {
    time: Time,
    model: Rc<RefCell<Rtsx>>,
    memory: ShadowMemory,
    stack: Stack,
}

impl Rig {
    fn new(card: &str, model: RtsxConfig, driver: rtsx::RtsxConfig, engine: Config) -> Rig {
        let card = timed::card(&timed::profile(card));
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Rc::new(RefCell::new(Rtsx::new(model, memory.clone(), Some(card))));
        let port = Port::new(model.clone(), time.clone(), 200, 50);
        let host = rtsx::Rtsx::new(port, memory.clone(), Box::leak(Box::new(Buffers::new())), driver);
        let host = host.unwrap_or_else(|error| panic!("{error}"));
        NOW_NS.set(0);
        Rig { time, model, memory, stack: timed::on(Erased::new(host), engine) }
    }

    /// Advances to the next interrupt or deadline, and lets the stack handle it.
    fn turn(&self) {
        timed::turn(&self.stack, &self.model, &self.time).unwrap();
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    fn up(card: &str, driver: rtsx::RtsxConfig, engine: Config) -> (Rig, u64) {
        let rig = Rig::new(card, RtsxConfig::GENERIC, driver, engine);
        let found = rig.drive(card::bring_up(&rig.stack, buffer(1), card::Options::DEFAULT)).0;
        let found = found.unwrap_or_else(|error| panic!("{card}: {error}"));
        assert_eq!((found.timing, found.width), (Timing::Sdr104, Width::W4));
        (rig, found.params.sectors)
    }

    fn submit(&self, kind: Kind, buf: DmaBuf) -> SlotId {
        let now = self.time.now();
        self.stack.with(|engine| engine.submit(Request::new(kind, buf), now)).unwrap()
    }

    fn finish(&self, id: SlotId) -> (Result<u32, Error>, DmaBuf) {
        loop {
            if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                return (done.result.map(|output| output.bytes), done.buf);
            }
            self.turn();
        }
    }

    fn checked(&self) {
        timed::checked(&self.memory, &self.model);
        assert_eq!(self.stack.with(|engine| engine.stats().lost_interrupts), 0);
    }
}

/// Checks each chip as Linux's driver leaves it, without supply for the pads and with the lines
/// pulled down: the card comes up at 1.8 V and its fastest timing, twice, and without SDR104 at
/// SDR50.
#[test]
fn a_card_comes_up_on_each_chip_that_linux_has_left() {
    for (device, version, tx_phase, slow_tx_phase) in [
        (0x5209, 0, 27, 27),
        (0x5227, 0, 27, 27),
        (0x522a, 0, 20, 20),
        (0x5229, 0, 27, 27),
        (0x5229, 2, 27, 27),
        (0x5249, 0, 1, 29),
        (0x524a, 0, 27, 29),
        (0x525a, 0, 25, 29),
    ] {
        let model =
            RtsxConfig { device, version, tx_phase, slow_tx_phase, good_phases: 7, ..RtsxConfig::GENERIC };
        model.check().unwrap();
        let driver = rtsx::RtsxConfig::new(rtsx::Chip::of_pci(0x10ec, device).unwrap());
        let rig = Rig::new("sdxc-128g-uhs", model, driver, Config::DEFAULT);
        for without in [0, Caps::timing_bit(Timing::Sdr104), 0] {
            let options = card::Options::DEFAULT.without(without);
            let found = rig.drive(card::bring_up(&rig.stack, buffer(1), options)).0;
            let found = found.unwrap_or_else(|error| panic!("{device:#x}: {error}"));
            let timing = if without == 0 { Timing::Sdr104 } else { Timing::Sdr50 };
            assert_eq!((found.timing, found.width), (timing, Width::W4), "{device:#x}");
            let id = rig.submit(Kind::Write { lba: 5, blocks: 64 }, filled(64, 7));
            rig.finish(id).0.unwrap();
            let id = rig.submit(Kind::Read { lba: 5, blocks: 64 }, buffer(64));
            assert!(rig.finish(id).1.iter().all(|&byte| byte == 7));
        }
        rig.checked();
    }
}

/// Checks sequential runs and random places, reads and writes, one at a time and many: with
/// streams, without streams, and on a chip that cannot continue a transfer.
#[test]
fn mixed_loads_bring_what_was_written() {
    for (continues, close_always, lies) in
        [(true, false, false), (true, true, false), (false, false, false), (true, false, true)]
    {
        let driver = rtsx::RtsxConfig::new(rtsx::Chip::Rts5249).continue_data(continues);
        let engine =
            Config::DEFAULT.stays_open(if close_always { StaysOpen::Never } else { StaysOpen::WherePays });
        let model = RtsxConfig { continue_data: !lies, ..RtsxConfig::GENERIC };
        let rig = Rig::new("pro-plus-128", model, driver, engine);
        let found = rig.drive(card::bring_up(&rig.stack, buffer(1), card::Options::DEFAULT)).0.unwrap();
        let base = found.params.sectors / 2;
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        const WINDOW: u64 = 16_384;
        let mut medium = vec![0u8; WINDOW as usize];
        for at in (0..WINDOW).step_by(1024) {
            let id = rig.submit(Kind::Write { lba: base + at, blocks: 1024 }, filled(1024, 0));
            rig.finish(id).0.unwrap();
        }
        let mut pending: Vec<(SlotId, Option<Vec<u8>>)> = Vec::new();
        let (mut at, mut depth, mut write) = (0, 1, false);
        for round in 0..cases::rounds(3, 400) {
            if below(6) == 0 {
                (at, depth, write) = (below(WINDOW), 1 + below(12) as usize, below(2) == 0);
            }
            let blocks = [1, 8, 64, 256, 1500][below(5) as usize];
            at = if at + blocks > WINDOW { 0 } else { at };
            let range = at as usize..(at + blocks) as usize;
            let (lba, count) = (base + at, blocks as u32);
            let id = if write {
                let byte = round as u8 | 1;
                medium[range].fill(byte);
                (rig.submit(Kind::Write { lba, blocks: count }, filled(blocks as usize, byte)), None)
            } else {
                let expected = medium[range].to_vec();
                (rig.submit(Kind::Read { lba, blocks: count }, buffer(blocks as usize)), Some(expected))
            };
            pending.push(id);
            at += blocks;
            while pending.len() >= depth {
                let (id, expected) = pending.remove(0);
                let (result, buf) = rig.finish(id);
                assert_eq!(result, Ok(buf.len() as u32));
                let same = |expected: &Vec<u8>| {
                    buf.chunks(512).zip(expected).all(|(got, &byte)| got.iter().all(|&b| b == byte))
                };
                assert!(expected.as_ref().is_none_or(same), "round {round}: other data than written");
            }
        }
        for (id, _) in pending {
            rig.finish(id).0.unwrap();
        }
        rig.drive(BlockDevice::new(&rig.stack).flush()).unwrap();
        let stats = rig.stack.with(|engine| *engine.stats());
        assert_eq!(stats.continued > cases::rounds(3, 50), continues && !close_always && !lies, "{stats:?}");
        assert_eq!(stats.not_continued, if lies { 2 } else { 0 });
        assert_eq!(rig.stack.with(|engine| engine.take_continue_lost()), lies);
        if !lies {
            rig.checked();
        }
    }
}

/// Checks a sequential run to the end of a card whose last block must be read alone: the open
/// transfer ends before that block.
#[test]
fn a_run_stops_before_a_last_block_that_is_read_alone() {
    const MINE: &[Quirk] = &[Quirk::sd(0x41, 0x3432, "SD16G", Quirks::LAST_BLOCK_ALONE)];
    for (quirks, alone) in [(MINE, true), (&[], false)] {
        let driver = rtsx::RtsxConfig::new(rtsx::Chip::Rts5249);
        let rig = Rig::new("quirks/last-block-locks-up", RtsxConfig::GENERIC, driver, Config::DEFAULT);
        let options = card::Options::DEFAULT.quirks(quirks);
        let found = rig.drive(card::bring_up(&rig.stack, buffer(1), options)).0.unwrap();
        let sectors = found.params.sectors;
        let mut whole = 0;
        for lba in (sectors - 320..sectors).step_by(32) {
            let id = rig.submit(Kind::Read { lba, blocks: 32 }, buffer(32));
            whole += u32::from(rig.finish(id).0 == Ok(32 * 512));
        }
        let stats = rig.stack.with(|engine| *engine.stats());
        let violations = rig.model.borrow_mut().card_mut().map(|card| card.violations().len());
        assert_eq!((whole == 10, violations == Some(0)), (alone, alone), "{whole} {violations:?}");
        assert!(stats.continued >= 5, "{stats:?}");
        if alone {
            rig.checked();
            assert_eq!((stats.recovery_steps.iter().sum::<u64>(), stats.not_continued), (0, 0));
        }
    }
}

/// Checks single requests of 64 KiB each, one after the other: the stack sees that they are
/// sequential and keeps the transfer open, so that all of them cost one data command.
#[test]
fn a_run_of_single_requests_is_one_transfer() {
    let (rig, _) = Rig::up("pro-plus-128", rtsx::RtsxConfig::new(rtsx::Chip::Rts5249), Config::DEFAULT);
    for write in [false, true] {
        rig.model.borrow_mut().take_stats();
        for i in 0..40 {
            let (lba, blocks) = (8192 + i * 128, 128);
            let kind = if write { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
            let id = rig.submit(kind, buffer(128));
            rig.finish(id).0.unwrap();
            rig.time.charge(60_000);
        }
        let id = rig.submit(Kind::Flush, DmaBuf::EMPTY);
        rig.finish(id).0.unwrap();
        let commands = rig.model.borrow().stats().commands;
        // The first request is sent alone (a write ends by CMD12, whose busy the chip waits for);
        // the second opens the transfer; one command closes it.
        let (index, stops) = if write { (25, 2) } else { (18, 1) };
        assert_eq!((commands[index], commands[12]), (2, stops));
    }
    rig.checked();
}

/// Checks a power cut in a stream: data flushed before are on the card. Data not flushed may be
/// lost, the newest first, and the next flush reports that.
#[test]
fn a_power_cut_in_a_stream_loses_only_what_was_not_flushed() {
    for cut_after in [1, 3, 10, 17, 30] {
        let (rig, _) = Rig::up("pro-plus-128", rtsx::RtsxConfig::new(rtsx::Chip::Rts5249), Config::DEFAULT);
        let write = |i: u64, byte| {
            let id = rig.submit(Kind::Write { lba: 8192 + i * 128, blocks: 128 }, filled(128, byte));
            rig.finish(id).0
        };
        for i in 0..40 {
            write(i, 1).unwrap();
        }
        rig.drive(BlockDevice::new(&rig.stack).flush()).unwrap();
        for i in 0..cut_after {
            write(i, 2).unwrap();
        }
        if cut_after > 2 {
            assert!(rig.stack.with(|engine| !engine.is_quiet()), "the transfer is held open");
        }
        let now = rig.time.now();
        rig.model.borrow_mut().card_mut().unwrap().power_cut(now);
        // The card does not respond any more; every request gets an error.
        let (result, _) = {
            let id = rig.submit(Kind::Flush, DmaBuf::EMPTY);
            rig.finish(id)
        };
        if cut_after > 2 {
            assert!(result.is_err(), "a flush after lost writes must not say that all is well");
        }
        let mut block = [0; 512];
        let mut seen_lost = false;
        for sector in 8192..8192 + 40 * 128u64 {
            rig.model.borrow_mut().card_mut().unwrap().peek(sector * 512, &mut block).unwrap();
            let byte = block[0];
            assert!(block.iter().all(|&b| b == byte), "torn block");
            let written = sector < 8192 + cut_after * 128;
            assert!(byte == 1 || (byte == 2 && written), "sector {sector}: {byte}");
            // Data are lost newest first: nothing survives that was written after lost data.
            seen_lost |= written && byte == 1;
            assert!(!(seen_lost && byte == 2), "sector {sector} survived, an older one did not");
        }
    }
}

#[test]
fn reasons_are_counted() {
    let (rig, sectors) = Rig::up("pro-plus-128", rtsx::RtsxConfig::new(rtsx::Chip::Rts5249), Config::DEFAULT);
    let read = |lba, blocks| {
        let id = rig.submit(Kind::Read { lba, blocks }, buffer(blocks as usize));
        rig.finish(id).0.unwrap();
    };
    for lba in [100, 164, 228] {
        read(lba, 64);
    }
    read(90_000, 8);
    for i in (1..=3).rev() {
        read(sectors - i * 64, 64);
    }
    let closed = rig.stack.with(|engine| engine.stats().closed);
    assert_eq!((closed[Close::Break as usize], closed[Close::Edge as usize]), (1, 1));
    rig.checked();
}
