//! Tests of the R1 of a running transfer, which settles the writes before it: they are complete
//! while the data of that transfer are still under way, and each late error goes to one request.

use crate::erased::{Erased, constants};
use crate::support;
use mmcq::engine::{Config, DmaBuf, Engine, Error, Kind, Request, SlotId};
use mmcq::host::{
    BusOp, Caps, Cause, Direction, DmaError, Events, Host, Phase, Segment, Stage, StartError, Step,
};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{READY, TestHost, World, buffer, target};

const BLOCKS: u64 = 256;

/// The tests' host without open transfers, which can return the R1 of the phase in progress early.
struct Shows {
    host: TestHost,
    /// Whether the card has sent the response of the phase in progress.
    answered: bool,
    /// Whether the next interrupt reports only the response, and not the end of the phase.
    only_answer: bool,
}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.
unsafe impl Host for Shows {
    const EARLY_R1: bool = true;

    support::handed_on!();
    support::bus_handed_on!();
    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.host.start(phase, segments, timeout_ns)
    }
    fn ack(&mut self, segments: &[Segment]) -> Events {
        if std::mem::take(&mut self.only_answer) { Events::default() } else { self.host.ack(segments) }
    }
    fn early_r1(&mut self) -> Option<u32> {
        let world = self.host.world.borrow();
        (self.answered && world.running()).then_some(READY | world.next_status)
    }
}

struct Bench {
    world: Rc<RefCell<World>>,
    engine: Engine<Erased<{ constants::<Shows>() }>, 8>,
    now_ns: u64,
}

impl Bench {
    fn new(answered: bool) -> Bench {
        let world = World::new(BLOCKS);
        let host = Shows { host: TestHost::new(&world), answered, only_answer: false };
        let mut engine = Engine::new(Erased::new(host), Config::DEFAULT);
        engine.set_card_params(Some(target(BLOCKS)));
        Bench { world, engine, now_ns: 0 }
    }

    fn submit(&mut self, kind: Kind) -> SlotId {
        let buf = match kind {
            Kind::Read { blocks, .. } | Kind::Write { blocks, .. } => buffer(blocks, 7),
            _ => DmaBuf::EMPTY,
        };
        self.engine.submit(Request::new(kind, buf), self.now_ns).unwrap()
    }

    fn interrupt(&mut self) {
        self.now_ns += 1_000;
        let _ = self.engine.on_irq(self.now_ns);
    }

    /// Makes the controller report the response of the phase in progress, without the end of the
    /// phase.
    fn answers(&mut self) {
        // SAFETY: only the test's own settings are written.
        let host = unsafe { self.engine.host_mut() }.get_mut::<Shows>();
        (host.answered, host.only_answer) = (true, true);
        self.interrupt();
    }

    /// Ends the transfer in progress, and sets these bits in the R1 of the transfer after it.
    fn ends_and_the_next_tells(&mut self, status: u32) {
        self.world.borrow_mut().status_after_next = status;
        self.interrupt();
    }

    fn result(&mut self, id: SlotId) -> Option<Result<u32, Error>> {
        self.engine.take(id).map(|done| done.result.map(|output| output.bytes))
    }

    /// Runs the engine until it is idle.
    fn rest(&mut self) {
        self.until(|bench| bench.engine.is_idle());
        let _ = self.engine.poll(self.now_ns);
    }

    fn until(&mut self, mut is_so: impl FnMut(&Self) -> bool) {
        for _ in 0..1_000 {
            if is_so(self) {
                return;
            }
            self.interrupt();
            let answers = self.world.borrow().running() && !self.world.borrow().silent;
            if !answers {
                self.now_ns = self.now_ns.max(self.engine.next_deadline_ns().unwrap_or(0));
                let _ = self.engine.poll(self.now_ns);
            }
        }
        panic!("it does not come to that");
    }
}

const fn write(lba: u64) -> Kind {
    Kind::Write { lba, blocks: 8 }
}

#[test]
fn two_in_flight_need_no_cmd13() {
    let mut bench = Bench::new(true);
    let mut last = bench.submit(write(0));
    for n in 1..10 {
        let next = bench.submit(write(16 * n));
        bench.interrupt();
        assert_eq!(bench.result(last), Some(Ok(4096)), "it is complete before the end of transfer {n}");
        assert_eq!(bench.world.borrow().transfers().len() as u64, n + 1);
        last = next;
    }
    assert_eq!(bench.engine.stats().status_asked, 0);
    bench.rest();
    assert_eq!(bench.result(last), Some(Ok(4096)));
    assert_eq!(bench.engine.stats().status_asked, 1, "nothing followed the last");
}

#[test]
fn a_response_that_takes_its_time_is_taken_when_it_comes() {
    let mut bench = Bench::new(false);
    let (first, second) = (bench.submit(write(0)), bench.submit(write(16)));
    bench.interrupt();
    assert_eq!(bench.result(first), None, "its status is not known yet");
    bench.answers();
    assert_eq!(bench.result(first), Some(Ok(4096)));
    assert_eq!(bench.engine.stats().spurious, 0, "that interrupt had something to say");
    assert_eq!(bench.result(second), None);
    bench.rest();
    assert_eq!(bench.result(second), Some(Ok(4096)));
}

/// Tests writes with four requests in the engine: a write is complete while the next transfer is
/// running. If it waited for the end of that transfer, it would take one transfer longer than
/// needed.
#[test]
fn among_few_a_write_is_complete_while_the_next_transfer_moves() {
    let mut bench = Bench::new(true);
    let mut ids: Vec<SlotId> = [0, 16, 32, 48].map(|lba| bench.submit(write(lba))).into();
    for n in 4..12 {
        bench.interrupt();
        let first = ids.remove(0);
        assert_eq!(bench.result(first), Some(Ok(4096)), "before the end of transfer {}", n - 3);
        assert_eq!(bench.world.borrow().transfers().len() as u64, n - 2);
        ids.push(bench.submit(write(16 * n)));
    }
    assert_eq!(bench.engine.stats().status_asked, 0);
    bench.rest();
    assert!(ids.into_iter().all(|id| bench.result(id) == Some(Ok(4096))));
}

#[test]
fn among_many_no_response_is_asked_for() {
    let mut bench = Bench::new(true);
    let ids = [0, 16, 32, 48, 64].map(|lba| bench.submit(write(lba)));
    bench.interrupt();
    assert_eq!(
        bench.result(ids[0]),
        None,
        "the next transfer's end tells soon enough, and no interrupt more"
    );
}

#[test]
fn an_early_error_is_the_earlier_write_s_and_told_once() {
    for after in [Kind::Write { lba: 16, blocks: 8 }, Kind::Read { lba: 16, blocks: 8 }] {
        for answered in [true, false] {
            let mut bench = Bench::new(answered);
            let (first, second) = (bench.submit(write(0)), bench.submit(after));
            let status = R1::CC_ERROR;
            bench.ends_and_the_next_tells(status);
            if !answered {
                assert_eq!(bench.result(first), None);
                bench.answers();
            }
            assert!(matches!(bench.result(first), Some(Err(Error::Program(told))) if told & status != 0));
            bench.rest();
            assert_eq!(bench.result(second), Some(Ok(4096)), "the same R1 at its end is not its own");
            assert_eq!(bench.engine.stats().unowned, 0);
            let flush = bench.submit(Kind::Flush);
            bench.rest();
            assert_eq!(bench.result(flush), Some(Ok(0)), "the error has had its owner");
        }
    }
}

/// Tests a transfer whose R1 was taken early, and which then fails and is tried again: the status
/// bits of the second try are new, and no repetition.
#[test]
fn what_was_told_is_forgotten_with_its_transfer() {
    let mut bench = Bench::new(true);
    let (first, second) = (bench.submit(write(0)), bench.submit(write(16)));
    bench.ends_and_the_next_tells(R1::CC_ERROR);
    assert!(matches!(bench.result(first), Some(Err(Error::Program(_)))));
    let nth = bench.world.borrow().log.len();
    bench.world.borrow_mut().next_status = 0;
    bench.world.borrow_mut().faults.insert(nth, (Cause::Crc, Stage::Data, false));
    bench.until(|bench| bench.world.borrow().transfers().len() == 3);
    bench.world.borrow_mut().next_status = R1::CC_ERROR;
    bench.rest();
    assert_eq!(bench.result(second), Some(Ok(4096)));
    let flush = bench.submit(Kind::Flush);
    bench.rest();
    assert!(matches!(bench.result(flush), Some(Err(Error::Program(_)))), "an error that no write owns");
}
