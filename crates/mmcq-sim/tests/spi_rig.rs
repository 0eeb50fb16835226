//! A rig for tests of the whole stack on an SPI bus, over the model of a card in SPI mode.

use crate::timed;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use mmcq::block::BlockDevice;
use mmcq::card::{self, Card, Event};
use mmcq::engine::{Config, Error, Kind, Request};
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};
use mmcq_sim::faults::{Faults, Plan};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::{Habits, SpiLine, SpiSlot};
use mmcq_sim::time::Time;
use mmcq_sim::world::Stream;
use timed::TURNS_MAX;
pub use timed::blocks as buffer;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;

pub type Stack = timed::On<Erased<{ constants::<Spi<Wire>>() }>>;

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

pub fn model(card: &str) -> SpiLine {
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
    pub fn at(line: SpiLine, hz: u32) -> Rig {
        let interrupt = Rc::new(Cell::new(None));
        let wire = Wire { line: line.clone(), end_ns: 0, interrupt: interrupt.clone() };
        let memory = Box::leak(Box::new(SpiMemory::new()));
        let host = Spi::new(wire, memory, SpiConfig::new(hz));
        NOW_NS.set(line.time.now());
        Rig { line, interrupt, stack: timed::on(Erased::new(host), Config::DEFAULT) }
    }

    pub fn turn(&self) -> Result<(), String> {
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
