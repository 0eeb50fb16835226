//! Tests of the whole stack on an SPI bus, over the model of a card in SPI mode.

use crate::timed;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use mmcq::block::BlockDevice;
use mmcq::card::{self, Card, Event};
use mmcq::engine::{Config, DmaBuf, Erase, Error, Kind, Request};
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};
use mmcq_sim::card::CardProfile;
use mmcq_sim::cards;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::{Habits, SpiLine, SpiSlot};
use mmcq_sim::time::Time;
use mmcq_sim::world::Stream;
use timed::one_thread::{NOW_NS, OneThread, TIMER};
use timed::{TURNS_MAX, blocks as buffer};

pub type Stack = mmcq::task::Stack<(OneThread, Spi<Wire>), 16>;

/// A port that moves bytes by DMA: an exchange takes the time of its bytes, and its end interrupts.
pub struct Wire {
    line: SpiLine,
    end_ns: u64,
    /// Time in ns of an interrupt that was not delivered to the stack yet; `None`: no interrupt.
    interrupt: Rc<Cell<Option<u64>>>,
}

// SAFETY: the port uses the memory only in `exchange`, and only reads it for `Send`.
unsafe impl Port for Wire {
    fn exchange(&mut self, exchange: Exchange) {
        // SAFETY: the driver lends the memory until `done`.
        let bytes = |segment: &Segment| unsafe {
            std::slice::from_raw_parts_mut(segment.ptr().as_ptr(), segment.len_bytes() as usize)
        };
        let mut slot = self.line.slot.borrow_mut();
        let now_ns = self.line.time.now();
        self.end_ns = match &exchange {
            Exchange::Swap(segment) => slot.transfer(bytes(segment), now_ns),
            Exchange::Receive(segment) => {
                bytes(segment).fill(0xff);
                slot.transfer(bytes(segment), now_ns)
            }
            Exchange::Send(segment) => slot.transfer(&mut bytes(segment).to_vec(), now_ns),
            Exchange::Idle(count) => slot.transfer(&mut vec![0xff; *count as usize], now_ns),
        };
        self.interrupt.set(Some(self.end_ns));
    }

    fn done(&mut self) -> Progress {
        if self.line.time.now() >= self.end_ns { Progress::Done } else { Progress::Going }
    }

    fn stop(&mut self) -> bool {
        self.end_ns = 0;
        true
    }

    fn select(&mut self, on: bool) {
        self.line.select(on);
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            self.line.set_clock(hz);
        }
    }
}

pub struct Rig {
    pub line: SpiLine,
    interrupt: Rc<Cell<Option<u64>>>,
    pub stack: Stack,
}

fn model(card: &str) -> SpiLine {
    SpiLine::new(SpiSlot::new(Some(timed::card(&timed::profile(card)))), Time::new())
}

impl Rig {
    pub fn new(card: &str, habits: Habits) -> Rig {
        let line = model(card);
        line.slot.borrow_mut().set_habits(habits);
        Self::on(line)
    }

    /// Returns a rig with a new stack on a bus that was used before.
    pub fn on(line: SpiLine) -> Rig {
        Self::at(line, 25_000_000)
    }

    /// Returns a rig whose bus runs at most at this clock frequency.
    fn at(line: SpiLine, hz: u32) -> Rig {
        let interrupt = Rc::new(Cell::new(None));
        let wire = Wire { line: line.clone(), end_ns: 0, interrupt: interrupt.clone() };
        let memory = Box::leak(Box::new(SpiMemory::new()));
        let host = Spi::new(wire, memory, SpiConfig::new(hz));
        NOW_NS.set(line.time.now());
        Rig { line, interrupt, stack: Stack::new(OneThread, TIMER, host, Config::DEFAULT) }
    }

    fn turn(&self) -> Result<(), String> {
        let deadline = self.stack.with(|engine| engine.next_deadline_ns());
        let end = self.interrupt.get();
        let at_ns = deadline.into_iter().chain(end).min().ok_or("nothing will ever happen")?;
        self.line.time.set(at_ns.max(self.line.time.now()));
        NOW_NS.set(self.line.time.now());
        if end.is_some_and(|end_ns| end_ns <= self.line.time.now()) {
            self.interrupt.set(None);
            self.stack.on_irq();
        } else {
            self.stack.poll();
        }
        Ok(())
    }

    pub fn drive<F: Future>(&self, future: F) -> Result<F::Output, String> {
        timed::try_drive(&self.line.time, || self.turn(), future)
    }

    pub fn bring_up(&self) -> Result<Card, String> {
        let found = self.drive(card::bring_up_sd(&self.stack, buffer(1), card::Options::DEFAULT))?.0;
        found.map_err(|error| format!("bring-up: {error}"))
    }

    pub fn faults(&self, plan: Plan) -> Faults {
        let faults = Faults::new(plan);
        let mut slot = self.line.slot.borrow_mut();
        slot.set_faults(faults.clone());
        slot.card_mut().unwrap().set_faults(faults.clone());
        faults
    }

    pub fn peek(&self, sector: u64) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        if let Some(card) = self.line.slot.borrow_mut().card_mut() {
            card.peek(sector * 512, &mut bytes).unwrap();
        }
        bytes
    }

    /// Runs random reads and writes, several at a time, with a supervisor, and compares the data
    /// with a copy. Returns the errors of failed requests; after a failed write a sector may hold
    /// anything that was ever written to it.
    pub fn load(&self, found: Card, seed: u64, rounds: u64) -> Result<Vec<Error>, String> {
        let events = RefCell::new(Vec::new());
        let mut supervisor = pin!(async {
            let (mut found, mut scratch) = (found, buffer(1));
            loop {
                let options = card::Options::DEFAULT;
                let (event, memory) = card::supervise_sd(&self.stack, scratch, options, found).await;
                if let Event::Inserted(Ok(card)) | Event::Changed(card) = event {
                    found = card;
                }
                scratch = memory;
                events.borrow_mut().push(event);
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        let mut turn = || -> Result<(), String> {
            let Poll::Pending = supervisor.as_mut().poll(&mut context);
            self.turn().map_err(|error| format!("{error}, after {:?}", events.borrow()))
        };
        const WINDOW: u64 = 64;
        let mut random = Stream::new(seed, "load");
        let mut mirror: Vec<Option<Vec<u8>>> = (0..WINDOW).map(|at| Some(self.peek(at))).collect();
        let mut history: Vec<Vec<Vec<u8>>> = mirror.iter().map(|now| now.iter().cloned().collect()).collect();
        let mut failed = Vec::new();
        let mut stale = Vec::new();
        let mut pending = Vec::new();
        for round in 0..rounds {
            let blocks = [1, 1, 8, 1 + random.below(16)][random.below(4) as usize];
            let at = if random.chance(0.5) && round > 0 { 8 } else { random.below(WINDOW - blocks) };
            let range = at as usize..(at + blocks) as usize;
            let mut buf = buffer(blocks as usize);
            let (lba, blocks) = (at, blocks as u32);
            let writes = random.chance(0.5);
            let kind = if writes {
                buf.iter_mut().for_each(|byte| *byte = random.bits() as u8);
                Kind::Write { lba, blocks }
            } else {
                Kind::Read { lba, blocks }
            };
            let expected: Vec<_> = if writes {
                buf.chunks(512).map(|block| Some(block.to_vec())).collect()
            } else {
                mirror[range.clone()].to_vec()
            };
            if writes {
                for (sector, block) in range.clone().zip(&expected) {
                    history[sector].extend(block.clone());
                }
                mirror[range].clone_from_slice(&expected);
            }
            let now_ns = self.line.time.now();
            NOW_NS.set(now_ns);
            let request = Request::new(kind, buf);
            let id = match self.stack.with(|engine| engine.submit(request, now_ns)) {
                Ok(id) => id,
                Err((error, _)) => {
                    failed.push(error);
                    if writes {
                        mirror[at as usize..][..expected.len()].fill(None);
                    }
                    continue;
                }
            };
            pending.push((id, lba, writes, expected));
            let most = if round + 1 == rounds { 0 } else { random.below(6) as usize };
            let mut turns = 0;
            while pending.len() > most {
                let (went, before) = (turn(), pending.len());
                turns += 1;
                if turns > TURNS_MAX {
                    return Err(format!("no end after {TURNS_MAX} turns"));
                }
                let mut at = 0;
                while let Some((id, lba, writes, expected)) = pending.get(at) {
                    let Some(done) = self.stack.with(|engine| engine.take(*id)) else {
                        at += 1;
                        continue;
                    };
                    match done.result {
                        Err(error) => {
                            failed.push(error);
                            if *writes {
                                mirror[*lba as usize..][..expected.len()].fill(None);
                            }
                        }
                        Ok(_) if *writes => {}
                        Ok(_) => {
                            for (place, block) in expected.iter().enumerate() {
                                let (sector, read) = (*lba + place as u64, &done.buf[place * 512..][..512]);
                                if !history[sector as usize].iter().any(|version| version[..] == *read) {
                                    return Err(format!("sector {sector} was never written so"));
                                }
                                if block.as_ref().is_some_and(|block| *read != block[..]) {
                                    stale.push(sector);
                                }
                            }
                        }
                    }
                    pending.swap_remove(at);
                }
                if pending.len() == before {
                    went?;
                }
            }
        }
        let flush = {
            let device = BlockDevice::new(&self.stack);
            let mut flush = pin!(device.flush());
            let mut context = Context::from_waker(Waker::noop());
            let mut went = Ok(());
            loop {
                NOW_NS.set(self.line.time.now());
                if let Poll::Ready(done) = flush.as_mut().poll(&mut context) {
                    break done;
                }
                went?;
                went = turn();
            }
        };
        if let Err(error) = flush {
            failed.push(error);
        }
        if failed.is_empty() {
            if let Some(sector) = stale.first() {
                return Err(format!("sector {sector} is not what was written last"));
            }
            for (sector, block) in (0..).zip(&mirror) {
                if block.as_ref().is_some_and(|block| self.peek(sector) != block[..]) {
                    return Err(format!("the card holds something else in sector {sector}"));
                }
            }
        }
        Ok(failed)
    }
}

const EACH: [&str; 4] = ["sdsc-1g", "sdhc-16g-hs", "sdxc-64g-a2", "pro-plus-128"];

#[test]
fn every_card_comes_up_and_carries_a_load() {
    for card in EACH {
        let rig = Rig::new(card, Habits::USUAL);
        let found = rig.bring_up().unwrap_or_else(|error| panic!("{card}: {error}"));
        let profile = CardProfile::from_toml(cards::named(card).unwrap(), card).unwrap();
        assert_eq!(found.params.sectors * 512, profile.capacity_bytes(), "{card}");
        for seed in 1..4 {
            let failed = rig.load(found, seed, 60).unwrap_or_else(|error| panic!("{card}: {error}"));
            assert_eq!(failed, [], "{card}");
        }
        assert_eq!(rig.line.clock_hz(), 25_000_000);
        assert_eq!(rig.line.slot.borrow().protocol_violations(), 0, "{card}");
        assert_eq!(rig.line.slot.borrow().stats().blocks_bad, 0);
    }
}

#[test]
fn cards_of_every_habit() {
    let mut wrong = Vec::new();
    for response_bytes in 1..=8 {
        for (stop_bytes, stuff, deselect_ends) in [(0, 0xff, false), (1, 0x00, true), (1, 0x7f, false)] {
            let habits =
                Habits { response_bytes, stop_bytes, stuff, needs_gap: true, deselect_ends, ..Habits::USUAL };
            let rig = Rig::new("sdhc-16g-hs", habits);
            let told = match rig.bring_up() {
                Err(error) => error,
                Ok(found) => match rig.load(found, u64::from(response_bytes), 30) {
                    Err(error) => error,
                    Ok(failed) if !failed.is_empty() => format!("{failed:?}"),
                    Ok(_) if rig.line.slot.borrow().stats().commands[59] == 0 => "checksums are off".into(),
                    Ok(_) => continue,
                },
            };
            wrong.push(format!("{habits:?}: {told}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Checks one fault at a time: the stack recovers or reports an error, no data are wrong, and no
/// request waits for ever.
#[test]
fn each_fault_of_the_wire_once() {
    let strikes = [
        (Point::Exchange, Strike::Flip(3)),
        (Point::Exchange, Strike::Flip(11)),
        (Point::Exchange, Strike::Lost),
        (Point::Exchange, Strike::Astray(1)),
        (Point::Exchange, Strike::Astray(-1)),
        (Point::Command, Strike::Lost),
        (Point::Command, Strike::Crc),
        (Point::Response, Strike::Lost),
        (Point::Response, Strike::Crc),
        (Point::Response, Strike::Status(1 << 22)),
        (Point::Response, Strike::Late(20_000)),
        (Point::ReadBlock, Strike::Crc),
        (Point::ReadBlock, Strike::Lost),
        (Point::WriteBlock, Strike::Crc),
        (Point::WriteBlock, Strike::NoStatus),
        (Point::WriteBlock, Strike::Lost),
        (Point::Medium, Strike::Fail),
        (Point::Busy, Strike::Late(300_000_000)),
        (Point::Busy, Strike::Hidden),
        (Point::Busy, Strike::BrownOut),
        (Point::Response, Strike::BrownOut),
        (Point::ReadBlock, Strike::BrownOut),
        (Point::WriteBlock, Strike::BrownOut),
        (Point::ReadBlock, Strike::Late(50_000_000)),
    ];
    let mut wrong = Vec::new();
    let (mut tried, mut believed) = (0, 0);
    for (point, strike) in strikes {
        let bytes = (1..140).chain((140..6_000).step_by(41));
        for nth in if point == Point::Exchange { bytes.collect() } else { Vec::from_iter(1..30) } {
            let habits = Habits {
                response_bytes: 1 + (nth % 8) as u8,
                stop_bytes: (nth % 2) as u8,
                deselect_ends: nth % 3 == 0,
                needs_gap: true,
                ..Habits::USUAL
            };
            let rig = Rig::new(EACH[nth as usize % 3], habits);
            let found = rig.bring_up().unwrap();
            let faults = rig.faults(Plan::none().shot(point, nth, strike));
            let result = rig.load(found, nth, 12);
            if faults.strikes() == 0 {
                break;
            }
            tried += 1;
            match result {
                Err(error) => wrong.push(format!("{strike:?} at {nth} of {point:?}: {error}")),
                Ok(failed) if failed.is_empty() => {}
                // A medium that fails once is reported.
                Ok(_) if point == Point::Medium => {}
                // R1 and R2 have no checksum, so the stack believes a damaged one.
                Ok(failed) if failed.iter().all(|error| matches!(error, Error::Card(_))) => believed += 1,
                Ok(failed) => wrong.push(format!("{strike:?} at {nth} of {point:?}: {failed:?}")),
            }
        }
    }
    assert!(tried > 1_500 && believed < 20, "{tried}, {believed} of them believed");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn faults_that_stay() {
    let mut wrong = Vec::new();
    for (point, strike) in [
        (Point::ReadBlock, Strike::Crc),
        (Point::ReadBlock, Strike::Lost),
        (Point::WriteBlock, Strike::Crc),
        (Point::WriteBlock, Strike::NoStatus),
        (Point::WriteBlock, Strike::Lost),
        (Point::Command, Strike::Lost),
        (Point::Command, Strike::Crc),
        (Point::Response, Strike::Lost),
        (Point::Response, Strike::Crc),
        (Point::Response, Strike::Status(u32::MAX)),
        (Point::Response, Strike::Late(10_000_000)),
        (Point::Busy, Strike::Hidden),
        (Point::Busy, Strike::Never),
        (Point::Busy, Strike::Late(100_000_000)),
        (Point::Medium, Strike::Fail),
        (Point::Exchange, Strike::Lost),
        (Point::Exchange, Strike::Astray(1)),
        (Point::Exchange, Strike::Flip(12)),
        (Point::Response, Strike::Remove),
        (Point::ReadBlock, Strike::Remove),
        (Point::WriteBlock, Strike::Remove),
    ] {
        for nth in [1, 4, 11] {
            let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
            let found = rig.bring_up().unwrap();
            let plan = if strike == Strike::Remove {
                Plan::none().shot(point, nth, strike)
            } else {
                Plan::none().from(point, nth, strike)
            };
            rig.faults(plan);
            let from_ns = rig.line.time.now();
            let result = rig.load(found, nth, 8);
            let took_ms = (rig.line.time.now() - from_ns) / 1_000_000;
            if let Err(error) = result {
                wrong.push(format!("{strike:?} from {nth} of {point:?}: {error}"));
            }
            if took_ms > 200_000 {
                wrong.push(format!("{strike:?} from {nth} of {point:?}: {took_ms} ms"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn high_speed_at_50_mhz() {
    let line = model("sdhc-16g-hs");
    let rig = Rig::at(line, 50_000_000);
    let found = rig.bring_up().unwrap();
    assert_eq!(rig.line.clock_hz(), 50_000_000);
    assert_eq!(rig.load(found, 3, 40).unwrap(), []);
    assert_eq!(rig.line.slot.borrow().protocol_violations(), 0);
}

/// Checks faults that stay: they are reported in bounded time.
#[test]
fn a_line_or_a_card_that_is_gone() {
    for strike in [Strike::Line(0), Strike::Line(1), Strike::Never] {
        let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
        let found = rig.bring_up().unwrap();
        rig.faults(Plan::none().shot(Point::Exchange, 700, strike));
        let from_ns = rig.line.time.now();
        let failed = rig.load(found, 1, 6).unwrap_or_else(|error| panic!("{strike:?}: {error}"));
        assert!(!failed.is_empty(), "{strike:?}");
        let took_ns = rig.line.time.now() - from_ns;
        assert!(took_ns < 200_000_000_000, "{strike:?}: {took_ns} ns");
    }
    // A bus without answers, and a bus that always reads zeros: each has an error of its own.
    let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
    rig.line.slot.borrow_mut().remove(0);
    let error = rig.bring_up().unwrap_err();
    assert_eq!(error, "bring-up: no card has been brought up");
    assert!(rig.line.time.now() < 3_000_000_000, "{} ns", rig.line.time.now());
    let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
    rig.faults(Plan::none().shot(Point::Exchange, 1, Strike::Line(0)));
    let error = rig.bring_up().unwrap_err();
    assert_eq!(error, "bring-up: the card's line is low all the time: not wired, or its port is not set up");
    assert!(rig.line.time.now() < 3_000_000_000, "{} ns", rig.line.time.now());
}

/// Checks a read up to the card's last block: the card reads ahead beyond that block before it is
/// stopped, and shows an error in its next status. The error belongs to no request.
#[test]
fn a_read_up_to_the_last_block() {
    for name in EACH {
        let rig = Rig::new(name, Habits::USUAL);
        let found = rig.bring_up().unwrap();
        rig.drive(card::enable_extended_ops(&rig.stack, &found, buffer(1))).unwrap().0.unwrap();
        let device = BlockDevice::new(&rig.stack);
        let (read, _) = rig.drive(device.read(found.params.sectors - 6, buffer(6))).unwrap();
        assert_eq!(read, Ok(6), "{name}");
        let kind = Kind::Erase { lba: 155, blocks: 1, how: Erase::Erase };
        let erased = rig.drive(rig.stack.request(Request::new(kind, DmaBuf::EMPTY))).unwrap();
        assert_eq!(erased.result.map(|_| ()), Ok(()), "{name}");
    }
}

/// Checks that a new stack can run a load on a bus that was used before.
fn good(line: SpiLine) -> Result<(), String> {
    let rig = Rig::on(line);
    let found = rig.bring_up()?;
    let failed = rig.load(found, 1, 6)?;
    if failed.is_empty() { Ok(()) } else { Err(format!("{failed:?}")) }
}

fn frame(index: u8, arg: u32) -> Vec<u8> {
    let mut frame = vec![0x40 | index];
    frame.extend(arg.to_be_bytes());
    let crc = crc::Crc::<u8>::new(&crc::CRC_7_MMC).checksum(&frame);
    frame.push(crc << 1 | 1);
    frame
}

/// Checks a processor that is reset in the middle of an exchange, while the card's supply stays on.
#[test]
fn a_card_left_by_another_in_the_middle_is_brought_back() {
    let mut wrong = Vec::new();
    let block = [vec![0xff, 0xfc], vec![0x40; 512], vec![0; 2]].concat();
    for deselect_ends in [false, true] {
        for stays_selected in [false, true] {
            for (index, bytes) in [
                (18, 0),
                (18, 1),
                (18, 7_600),
                (18, 8_000),
                (18, 9_001),
                (17, 3),
                (17, 7_700),
                (25, 0),
                (25, 2),
            ]
            .into_iter()
            .chain([1, 100, 511, 512, 513].map(|bytes| (25, 3 + bytes)))
            .chain([(25, 516), (25, 517), (25, 530), (38, 0), (38, 40), (13, 0), (55, 2)])
            {
                let habits = Habits { deselect_ends, ..Habits::USUAL };
                let rig = Rig::new("sdhc-16g-hs", habits);
                rig.bring_up().unwrap();
                let line = rig.line.clone();
                line.select(true);
                line.transfer(&mut [0xff; 20]);
                line.transfer(&mut frame(12, 0));
                line.transfer(&mut [0xff; 4]);
                for (index, arg) in [(32, 0), (33, 9_000), (index, 0)] {
                    line.transfer(&mut frame(index, arg));
                    line.transfer(&mut [0xff; 2]);
                }
                let mut sent = if index == 25 { block.clone() } else { Vec::new() };
                sent.resize(bytes, 0xff);
                line.transfer(&mut sent);
                line.select(stays_selected);
                if let Err(error) = good(line) {
                    let how = format!("ends {deselect_ends}, low {stays_selected}");
                    wrong.push(format!("CMD{index} and {bytes} bytes, {how}: {error}"));
                }
            }
            // Half a command frame was sent.
            let rig = Rig::new("sdsc-1g", Habits { deselect_ends, ..Habits::USUAL });
            rig.bring_up().unwrap();
            rig.line.select(true);
            rig.line.transfer(&mut frame(17, 0)[..4]);
            rig.line.select(stays_selected);
            if let Err(error) = good(rig.line.clone()) {
                wrong.push(format!("half a frame: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Checks a new stack after an earlier stack that disappeared in the middle of a request; the
/// card's supply stays on.
#[test]
fn a_card_left_in_the_middle_is_brought_back() {
    let mut wrong = Vec::new();
    for deselect_ends in [false, true] {
        for stays_selected in [false, true] {
            for (what, turns) in
                ["read", "write"].into_iter().flat_map(|what| (0..60).step_by(3).map(move |n| (what, n)))
            {
                let rig = Rig::new("sdhc-16g-hs", Habits { deselect_ends, ..Habits::USUAL });
                rig.bring_up().unwrap();
                let kind = match what {
                    "read" => Kind::Read { lba: 0, blocks: 8 },
                    _ => Kind::Write { lba: 0, blocks: 8 },
                };
                let now_ns = rig.line.time.now();
                NOW_NS.set(now_ns);
                rig.stack.with(|engine| engine.submit(Request::new(kind, buffer(8)), now_ns)).unwrap();
                for _ in 0..turns {
                    if rig.turn().is_err() {
                        break;
                    }
                }
                let line = rig.line.clone();
                // A reset of the processor leaves the bus in the middle of an exchange.
                line.transfer(&mut vec![0xff; turns as usize % 7]);
                line.select(stays_selected);
                let Err(told) = good(line) else { continue };
                wrong.push(format!(
                    "{what} after {turns}, ends {deselect_ends}, low {stays_selected}: {told}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
