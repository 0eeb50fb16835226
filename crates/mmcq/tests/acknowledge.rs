//! Tests of writes that are complete when their data are transferred
//! ([`Acknowledge::Transferred`]): the time that they gain, and the promises that still hold for
//! flushes, barriers and durable writes.

use crate::erased::{Erased, constants};
use crate::{closed, support};
use closed::Closed;
use mmcq::engine::{Acknowledge, Config, DmaBuf, Engine, Error, Kind, Request, SlotId, Stats};
use mmcq::host::{BusyDetect, Cause, Host, Phase, Stage};
use mmcq::sched::{Fifo, Lean, Profile};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 4096;
const UNSEEN: [BusyDetect; 2] = [BusyDetect::Level, BusyDetect::Status];

struct Bench<P: Profile = Fifo> {
    world: Rc<RefCell<World>>,
    engine: Engine<Erased<{ constants::<Closed>() }>, 16, P>,
    now_ns: u64,
}

fn bench(busy: BusyDetect) -> Bench {
    with(busy, Acknowledge::Transferred, Fifo)
}

fn with<P: Profile>(busy: BusyDetect, acknowledge: Acknowledge, policy: P) -> Bench<P> {
    let world = World::new(BLOCKS);
    (world.borrow_mut().caps.busy, world.borrow_mut().busy_polls) = (busy, 3);
    world.borrow_mut().caps.max_blocks = 64;
    let config = Config::DEFAULT.acknowledge(acknowledge);
    let mut engine = Engine::with_policy(Erased::new(Closed(TestHost::new(&world))), config, policy);
    engine.set_card_params(Some(target(BLOCKS)));
    Bench { world, engine, now_ns: 0 }
}

const fn write(lba: u64) -> Kind {
    Kind::Write { lba, blocks: 8 }
}

const fn read(lba: u64) -> Kind {
    Kind::Read { lba, blocks: 8 }
}

impl<P: Profile> Bench<P> {
    fn request(kind: Kind) -> Request {
        let buf = match kind {
            Kind::Read { blocks, .. } | Kind::Write { blocks, .. } => buffer(blocks, 7),
            _ => DmaBuf::EMPTY,
        };
        Request::new(kind, buf)
    }

    fn submit(&mut self, kind: Kind) -> SlotId {
        self.engine.submit(Self::request(kind), self.now_ns).unwrap()
    }

    fn durable(&mut self, kind: Kind) -> SlotId {
        self.engine.submit(Self::request(kind).durable(), self.now_ns).unwrap()
    }

    fn interrupt(&mut self) {
        self.now_ns += 1_000;
        let _ = self.engine.on_irq(self.now_ns);
    }

    fn result(&mut self, id: SlotId) -> Option<Result<u32, Error>> {
        self.engine.take(id).map(|done| done.result.map(|output| output.bytes))
    }

    /// Does one step: an interrupt if a phase is running, otherwise a poll at the engine's next
    /// deadline.
    fn step(&mut self) {
        let answers = self.world.borrow().running() && !self.world.borrow().silent;
        if answers {
            return self.interrupt();
        }
        self.now_ns = self.now_ns.max(self.engine.next_deadline_ns().unwrap_or(0));
        let _ = self.engine.poll(self.now_ns);
    }

    fn finish(&mut self, id: SlotId) -> Result<u32, Error> {
        for _ in 0..10_000 {
            if let Some(result) = self.result(id) {
                return result;
            }
            self.step();
        }
        panic!("it has no end");
    }

    fn flush(&mut self) -> Result<u32, Error> {
        let id = self.submit(Kind::Flush);
        self.finish(id)
    }

    fn rest(&mut self) {
        for _ in 0..10_000 {
            if self.engine.is_idle() {
                let _ = self.engine.poll(self.now_ns);
                return;
            }
            self.step();
        }
        panic!("the engine does not come to rest");
    }

    fn commands(&self) -> Vec<u8> {
        self.world.borrow().log.iter().map(|seen| seen.index).collect()
    }

    fn stats(&self) -> Stats {
        *self.engine.stats()
    }
}

#[test]
fn a_write_is_complete_and_its_memory_free_while_the_card_programs() {
    for busy in UNSEEN {
        let mut bench = bench(busy);
        let id = bench.submit(write(0));
        bench.interrupt();
        assert_eq!(bench.result(id), Some(Ok(4096)), "{busy:?}");
        assert_eq!((bench.world.borrow().mapped(), bench.engine.is_idle()), (0, false), "{busy:?}");
        // The next write still waits for the card, since the host refuses data for a busy card.
        let next = bench.submit(write(8));
        assert_eq!(bench.finish(next), Ok(4096), "{busy:?}");
        // By default a write is complete only when the card's status shows that it is programmed.
        let mut bench = with(busy, Acknowledge::Programmed, Fifo);
        let id = bench.submit(write(0));
        bench.interrupt();
        assert_eq!(bench.result(id), None, "{busy:?}");
        assert_eq!(bench.finish(id), Ok(4096), "{busy:?}");
    }
}

#[test]
fn a_host_that_sees_the_end_of_busy_asks_no_status_for_a_write() {
    let mut bench = bench(BusyDetect::Interrupt);
    let id = bench.submit(write(0));
    bench.interrupt();
    assert_eq!(bench.result(id), Some(Ok(4096)));
    assert_eq!(bench.commands(), [25]);
}

#[test]
fn the_next_command_tells_and_after_a_millisecond_without_one_the_card_is_asked() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level] {
        let mut bench = bench(busy);
        for n in 0..20 {
            let id = bench.submit(if n % 4 == 3 { read(n * 16) } else { write(n * 16) });
            assert_eq!(bench.finish(id), Ok(4096));
        }
        let (asked, last_ns) = (bench.stats().status_asked, bench.now_ns);
        assert_eq!(asked, 0, "{busy:?}: {:?}", bench.commands());
        let id = bench.submit(write(0));
        assert_eq!(bench.finish(id), Ok(4096));
        bench.rest();
        assert_eq!(bench.stats().status_asked, 1, "{busy:?}");
        assert!((1_000_000..1_100_000).contains(&(bench.now_ns - last_ns)), "{busy:?}");
        assert_eq!(bench.flush(), Ok(0));
    }
}

#[test]
fn a_late_error_is_told_by_the_next_flush_once_and_counted() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level, BusyDetect::Status] {
        for next in [Some(write(100)), Some(read(100)), Some(Kind::Flush), None] {
            let mut bench = bench(busy);
            // The card is never busy here: a response that shows it programming would report no
            // error.
            bench.world.borrow_mut().busy_polls = 0;
            let first = bench.submit(write(0));
            bench.interrupt();
            assert_eq!(bench.result(first), Some(Ok(4096)));
            // The next response of the card, whichever it is, carries the error.
            bench.world.borrow_mut().next_status = R1::CC_ERROR;
            let told = match next {
                Some(Kind::Flush) => bench.flush(),
                Some(kind) => {
                    let id = bench.submit(kind);
                    assert_eq!(bench.finish(id), Ok(4096), "it is not this one's: {busy:?}");
                    bench.flush()
                }
                None => {
                    bench.rest();
                    bench.flush()
                }
            };
            assert!(
                matches!(told, Err(Error::Program(status)) if status & R1::CC_ERROR != 0),
                "{busy:?} {next:?}"
            );
            assert_eq!(bench.stats().unowned, 1, "{busy:?} {next:?}");
            assert_eq!(bench.flush(), Ok(0), "once: {busy:?} {next:?}");
        }
    }
}

#[test]
fn an_answer_that_is_lost_may_have_told_so_the_flush_fails() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level] {
        let mut bench = bench(busy);
        let first = bench.submit(write(0));
        bench.interrupt();
        assert_eq!(bench.result(first), Some(Ok(4096)));
        let second = bench.submit(write(100));
        while bench.world.borrow().transfers().len() < 2 {
            bench.step();
        }
        let nth = bench.world.borrow().log.len();
        bench.world.borrow_mut().faults.insert(nth, (Cause::Crc, Stage::Command, false));
        assert_eq!(bench.finish(second), Ok(4096));
        assert!(matches!(bench.flush(), Err(Error::Program(_))), "{busy:?}");
        assert_eq!(bench.stats().unowned, 1, "{busy:?}");
        assert_eq!(bench.flush(), Ok(0));
    }
}

#[test]
fn a_flush_waits_for_the_card_and_for_its_status() {
    for busy in UNSEEN {
        let mut bench = bench(busy);
        let first = bench.submit(write(0));
        bench.interrupt();
        assert_eq!(bench.result(first), Some(Ok(4096)));
        assert_eq!(bench.flush(), Ok(0));
        assert_eq!(bench.commands().last(), Some(&13), "{busy:?}: {:?}", bench.commands());
        assert!(!bench.engine.host().dat0_busy(), "{busy:?}: the card still programs");
    }
}

#[test]
fn what_promises_more_is_complete_with_its_status_and_its_error_is_its_own() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level, BusyDetect::Status] {
        for bad in [0, R1::CC_ERROR] {
            let mut bench = bench(busy);
            bench.engine.enable_extended_ops();
            bench.world.borrow_mut().busy_polls = 0;
            let id = bench.durable(write(0));
            bench.interrupt();
            assert_eq!(bench.result(id), None, "{busy:?}");
            bench.world.borrow_mut().next_status = bad;
            let result = bench.finish(id);
            assert_eq!(result.is_err(), bad != 0, "{busy:?}: {result:?}");
            assert_eq!(bench.stats().unowned, 0, "{busy:?}");
            assert_eq!(bench.flush(), Ok(0), "{busy:?}");
        }
        // The error of an earlier write does not fail the durable write.
        let mut bench = bench(busy);
        bench.engine.enable_extended_ops();
        bench.world.borrow_mut().busy_polls = 0;
        let early = bench.submit(write(100));
        bench.interrupt();
        assert_eq!(bench.result(early), Some(Ok(4096)));
        bench.world.borrow_mut().next_status = R1::CC_ERROR;
        let id = bench.durable(write(0));
        assert_eq!(bench.finish(id), Ok(4096), "{busy:?}");
        assert!(matches!(bench.flush(), Err(Error::Program(_))), "{busy:?}");
    }
}

#[test]
fn a_barrier_comes_after_the_status_of_what_is_complete() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level] {
        let mut bench = bench(busy);
        let early = bench.submit(write(100));
        bench.interrupt();
        assert_eq!(bench.result(early), Some(Ok(4096)));
        let command = mmcq::spec::command::send_csd(1);
        let phase = Phase { command, data: None, auto: mmcq::host::Auto::None, tuning: false };
        let raw = bench.submit(Kind::Raw { prefix: None, phase, timeout_ns: 1_000_000 });
        assert!(bench.finish(raw).is_ok());
        let commands = bench.commands();
        let (asked, raw) = (
            commands.iter().rposition(|&index| index == 13).unwrap(),
            commands.iter().position(|&index| index == 9).unwrap(),
        );
        assert!(asked < raw, "{busy:?}: {commands:?}");
    }
}

#[test]
fn requests_on_the_same_blocks_keep_their_order() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level] {
        let mut bench = bench(busy);
        let mut ids = Vec::new();
        for fill in 1..=6u8 {
            let kind = Kind::Write { lba: u64::from(fill % 3), blocks: 8 };
            ids.push(bench.engine.submit(Request::new(kind, buffer(8, fill)), bench.now_ns).unwrap());
        }
        for id in ids {
            assert_eq!(bench.finish(id), Ok(4096));
        }
        assert_eq!(bench.world.borrow().medium[4 * 512], 6, "{busy:?}");
        assert_eq!(bench.flush(), Ok(0));
    }
}

#[test]
fn a_card_that_loses_its_supply_before_its_status_has_lost_writes() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level] {
        let mut bench = bench(busy);
        let early = bench.submit(write(100));
        assert_eq!(bench.finish(early), Ok(4096));
        while !bench.engine.is_quiet() {
            bench.step();
        }
        bench.engine.set_card_params(None);
        bench.engine.set_card_params(Some(target(BLOCKS)));
        assert_eq!(bench.flush(), Err(Error::CacheLost), "{busy:?}");
        assert_eq!(bench.flush(), Ok(0));
        // A write whose status has come is not lost with the card.
        let early = bench.submit(write(100));
        assert_eq!(bench.finish(early), Ok(4096));
        bench.rest();
        bench.engine.set_card_params(None);
        bench.engine.set_card_params(Some(target(BLOCKS)));
        assert_eq!(bench.flush(), Ok(0), "{busy:?}");
    }
}

/// Tests that the failure of a complete write does not hit the request that has the write's slot by
/// then: that request is sent only one time, and gets its own result.
#[test]
fn a_card_that_stays_busy_too_long_fails_the_flush_and_no_other_request() {
    for busy in UNSEEN {
        let mut bench = bench(busy);
        bench.world.borrow_mut().busy_polls = u32::MAX;
        let early = bench.submit(write(0));
        bench.interrupt();
        assert_eq!(bench.result(early), Some(Ok(4096)));
        let others = [32, 64, 128].map(|lba| bench.submit(write(lba)));
        assert_eq!(others[0].index(), early.index());
        bench.world.borrow_mut().busy_polls = 0;
        for id in others {
            assert_eq!(bench.finish(id), Ok(4096), "{busy:?}");
        }
        let places: Vec<u32> = bench.world.borrow().transfers().iter().map(|seen| seen.arg).collect();
        assert_eq!(places, [0, 32, 64, 128], "{busy:?}: each once");
        assert!(matches!(bench.flush(), Err(Error::Program(_))), "{busy:?}");
    }
}

#[test]
fn a_write_in_pieces_is_complete_with_its_last_and_owns_the_errors_of_the_others() {
    for busy in [BusyDetect::Interrupt, BusyDetect::Level] {
        for bad in [0, R1::CC_ERROR] {
            let mut bench = bench(busy);
            let id = bench.submit(Kind::Write { lba: 0, blocks: 160 });
            bench.interrupt();
            assert_eq!(bench.result(id), None, "{busy:?}");
            bench.world.borrow_mut().next_status = bad;
            let result = bench.finish(id);
            assert_eq!(result.is_err(), bad != 0, "{busy:?}: {result:?}");
            assert_eq!(bench.world.borrow().transfers().len(), if bad == 0 { 3 } else { 2 });
        }
    }
}

#[test]
fn firmware_that_cannot_recover_waits_for_the_status() {
    let mut bench = with(BusyDetect::Interrupt, Acknowledge::Transferred, Lean(Fifo));
    let id = bench.submit(write(0));
    bench.interrupt();
    assert_eq!(bench.result(id), None);
    assert_eq!(bench.finish(id), Ok(4096));
}

/// Tests an error of a piece, which the card reports in the response to the next piece: the write has
/// failed, also with a profile that does not recover.
fn piece_that_fails<P: Profile>(policy: P) -> Result<u32, Error> {
    let mut bench = with(BusyDetect::Interrupt, Acknowledge::Programmed, policy);
    let id = bench.submit(Kind::Write { lba: 0, blocks: 128 });
    // The first piece of 64 blocks ends, and the next one begins.
    bench.interrupt();
    bench.world.borrow_mut().next_status = R1::ERROR;
    bench.finish(id)
}

#[test]
fn a_write_in_pieces_has_the_error_of_each_piece() {
    assert!(piece_that_fails(Lean(Fifo)).is_err());
    assert!(piece_that_fails(Fifo).is_err());
}

#[test]
fn an_engine_that_is_suspended_asks_at_once() {
    let mut bench = bench(BusyDetect::Interrupt);
    let id = bench.submit(write(0));
    bench.interrupt();
    assert_eq!(bench.result(id), Some(Ok(4096)));
    assert!(!bench.engine.is_idle());
    bench.engine.suspend();
    let now_ns = bench.now_ns;
    bench.rest();
    assert!(bench.now_ns <= now_ns + 1_000);
}
