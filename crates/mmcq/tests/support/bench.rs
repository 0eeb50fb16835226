//! An engine on the tests' host, for tests of recovery.

use crate::support::{TestHost, World, buffer, target};
use mmcq::engine::{
    Completion, Config, Engine, Handshake, Kind, RecoveryStep, Request, ServiceRequest, SlotId,
};
use mmcq::host::{Cause, Stage};
use mmcq::sched::{Fifo, Profile};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;

pub const BLOCKS: u64 = 256;
/// Number of slots of the engine.
pub const SLOTS: usize = 16;
pub const MS: u64 = 1_000_000;

pub struct Bench<P: Profile = Fifo> {
    pub world: Rc<RefCell<World>>,
    pub e: Engine<TestHost, SLOTS, P>,
    pub now: u64,
}

pub fn bench() -> Bench {
    Bench::new(Fifo)
}

/// Returns an engine that has a supervisor.
pub fn kept() -> Bench {
    let mut b = bench();
    let _ = b.e.set_service_waker(Some(Waker::noop().clone()));
    b
}

impl<P: Profile> Bench<P> {
    pub fn new(policy: P) -> Self {
        let world = World::new(BLOCKS);
        let mut e = Engine::with_policy(TestHost::new(&world), Config::DEFAULT, policy);
        e.set_card_params(Some(target(BLOCKS)));
        Bench { world, e, now: 1_000 }
    }

    pub fn submit(&mut self, request: Request) -> SlotId {
        self.e.submit(request, self.now).map_err(|(error, _)| error).unwrap()
    }

    pub fn read(&mut self, lba: u64, blocks: u32) -> SlotId {
        self.submit(Request::new(Kind::Read { lba, blocks }, buffer(blocks, 0xee)))
    }

    pub fn write(&mut self, lba: u64, blocks: u32, fill: u8) -> SlotId {
        self.submit(Request::new(Kind::Write { lba, blocks }, buffer(blocks, fill)))
    }

    /// Advances the engine by one interrupt, or to its next deadline.
    pub fn step(&mut self) {
        self.now += 1_000;
        let answers = {
            let world = self.world.borrow();
            world.running() && !world.silent && world.present
        };
        if answers {
            let _ = self.e.on_irq(self.now);
        } else {
            self.now = self.e.next_deadline_ns().map_or(self.now, |at| at.max(self.now));
            let _ = self.e.poll(self.now);
        }
    }

    pub fn finish(&mut self, id: SlotId) -> Completion {
        for _ in 0..100_000 {
            if let Some(completion) = self.e.take(id) {
                return completion;
            }
            self.step();
        }
        panic!("never done: {:?}", self.steps());
    }

    /// Makes steps until the engine requests help. Returns that request.
    pub fn help(&mut self) -> ServiceRequest {
        for _ in 0..100_000 {
            if let Some(help) = self.e.take_service_request() {
                return help;
            }
            self.step();
        }
        panic!("the engine asks for no help: {:?}", self.steps());
    }

    pub fn steps(&self) -> Vec<RecoveryStep> {
        self.e.incidents().map(|event| event.step).collect()
    }

    pub fn taken(&self, step: RecoveryStep) -> u64 {
        self.e.stats().recovery_steps[step as usize]
    }

    /// Makes the phase fail that is started as number `nth` from now on.
    pub fn fault(&self, nth: usize, cause: Cause, stage: Stage, executed: bool) {
        let mut world = self.world.borrow_mut();
        let at = world.log.len() + nth;
        world.faults.insert(at, (cause, stage, executed));
    }

    pub fn commands(&self) -> Vec<u8> {
        self.world.borrow().log.iter().map(|seen| seen.index).collect()
    }
}
