//! Tests that the stack reports a loss of data to each handle exactly once, in the answer to a
//! flush or a durable write. The loss may show in any answer of the card, and the stack may abandon
//! or refuse requests meanwhile.

use crate::{cases, lane, rig};
use futures::future::{Either, join_all, select};
use lane::{Driver, Machine};
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options, extension, supervise};
use mmcq::engine::{Abilities, DmaBuf, Erase, Error, Kind, RecoveryStep, Request};
use mmcq::host::{Data, Direction};
use mmcq::sched::{Fifo, Packed};
use mmcq::spec::command::emmc;
use mmcq_sim::bench::{self, Bench};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use rig::buffer;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

type Plain = Machine<Driver, Fifo, 16>;

/// The ERROR bit of R1.
const ERROR: u32 = 1 << 19;

fn emmc() -> Plain {
    let machine = Plain::sdhci("emmc-hs200", true, Fifo);
    machine.drive(machine.identify(Options::DEFAULT));
    machine
}

/// Returns a machine with an SD card whose cache is on.
fn sd() -> Plain {
    let machine = Plain::sdhci("sdxc-64g-a2", false, Fifo);
    machine.drive(async {
        let card = machine.identify(Options::DEFAULT).await;
        extension::enable_cache(&machine.stack, &card, buffer(1, 0))
            .await
            .map_err(|(error, _)| error)
            .unwrap();
    });
    machine
}

fn written(machine: &Plain, device: &BlockDevice<'_, impl mmcq::task::Platform, 16>, lba: u64, byte: u8) {
    machine.drive(device.write(lba, buffer(1, byte))).0.unwrap();
}

/// Checks a flush in which the card cannot write its cache: each handle had a block in the cache,
/// and each gets the error once.
#[test]
fn a_flush_that_the_card_fails_is_told_to_each_handle_once() {
    for machine in [emmc(), sd()] {
        let (first, second) = (BlockDevice::new(&machine.stack), BlockDevice::new(&machine.stack));
        written(&machine, &first, 100, 1);
        written(&machine, &second, 200, 2);
        machine.faults(Plan::none().next(Point::Cache, &[Strike::Fail]));
        assert!(matches!(machine.drive(first.flush()), Err(Error::Program(_))));
        machine.faults(Plan::none());
        assert_eq!(machine.drive(second.flush()), Err(Error::CacheLost));
        assert_eq!(machine.drive(first.flush()), Ok(()), "once");
        assert_eq!(machine.drive(second.flush()), Ok(()), "once");
    }
}

/// Checks a flush that fails inside a durable write: the writes before it were in the same cache,
/// so the next flush reports the loss.
#[test]
fn a_flush_that_fails_inside_a_durable_write_is_told_by_the_next_flush() {
    for machine in [emmc(), sd()] {
        let device = BlockDevice::new(&machine.stack);
        // The card does not support reliable writes, so a durable write flushes.
        machine.stack.with(|engine| engine.set_abilities(Abilities::NONE));
        written(&machine, &device, 100, 1);
        // The first event is the durable write's own block into the cache; the second is its flush.
        machine.faults(Plan::none().shot(Point::Cache, 2, Strike::Fail));
        assert!(machine.drive(device.write_durable(300, buffer(1, 3))).0.is_err());
        machine.faults(Plan::none());
        assert!(machine.drive(device.flush()).is_err());
        assert_eq!(machine.drive(device.flush()), Ok(()), "once");
    }
}

/// Checks an error of the cache that shows once, in the next answer of the card to any client: the
/// next flush reports it.
#[test]
fn an_error_in_anothers_answer_is_told_by_the_next_flush() {
    let mut shown = 0;
    for reads in [false, true] {
        for nth in 1..=3 {
            let machine = emmc();
            let device = BlockDevice::new(&machine.stack);
            written(&machine, &device, 100, 1);
            let strikes = Faults::new(Plan::none().shot(Point::Response, nth, Strike::Status(ERROR)));
            machine.model.borrow_mut().set_faults(strikes.clone());
            let other = if reads {
                machine.drive(device.read(5_000, buffer(1, 0))).0
            } else {
                machine.drive(device.write(5_000, buffer(1, 2))).0
            };
            let struck = strikes.strikes() > 0;
            machine.faults(Plan::none());
            let flush = machine.drive(device.flush());
            assert!(!struck || flush.is_err(), "answer {nth}, {reads}: {other:?}, then {flush:?}");
            shown += u32::from(struck);
        }
    }
    assert_eq!(shown, 3, "two answers of a write, one of a read");
}

#[test]
fn what_a_dropped_flush_was_to_tell_the_next_one_does() {
    for machine in [emmc(), sd()] {
        let device = BlockDevice::new(&machine.stack);
        written(&machine, &device, 100, 1);
        machine.faults(Plan::none().next(Point::Cache, &[Strike::Fail]));
        {
            let mut given_up = Box::pin(device.flush());
            let mut context = Context::from_waker(Waker::noop());
            assert!(given_up.as_mut().poll(&mut context).is_pending());
        }
        machine.rest();
        // The fault stays in the plan: if the first flush had not been struck, this one would be.
        assert!(machine.drive(device.flush()).is_err());
        assert_eq!(machine.drive(device.flush()), Ok(()), "once");
    }
}

fn beside<K: Future<Output: std::fmt::Debug>, T>(
    bench: &Bench,
    supervisor: &mut Pin<&mut K>,
    call: impl Future<Output = T>,
) -> T {
    match bench.run(select(pin!(call), supervisor)).unwrap() {
        Either::Left((result, _)) => result,
        Either::Right((event, _)) => panic!("the supervisor has ended: {event:?}"),
    }
}

/// Checks a flush that is refused because the queue is full: the program flushes again, as
/// docs/durable.md says, and gets the report of the loss then.
#[test]
fn a_flush_that_was_not_begun_keeps_the_word_of_a_loss() {
    let bench = Bench::new("emmc-hs200").unwrap();
    let stack = bench.stack();
    let (card, scratch) = bench.run(card::bring_up(stack, bench::buffer(1), Options::DEFAULT)).unwrap();
    let mut supervisor = pin!(supervise(stack, scratch, Options::DEFAULT, card.unwrap()));
    let (first, second) = (BlockDevice::new(stack), BlockDevice::new(stack));
    for (device, lba) in [(&first, 100), (&second, 200)] {
        bench.run(device.write(lba, bench::buffer(1))).unwrap().0.unwrap();
    }
    bench.set_faults(Plan::none().next(Point::Command, &[Strike::BrownOut])).unwrap();
    assert_eq!(beside(&bench, &mut supervisor, first.flush()), Err(Error::CacheLost));
    let mut context = Context::from_waker(Waker::noop());
    let read = |lba| stack.request(Request::new(Kind::Read { lba, blocks: 1 }, bench::buffer(1)));
    let mut others: Vec<_> = (0..16).map(|n| Box::pin(read(n * 100))).collect();
    others.retain_mut(|other| other.as_mut().poll(&mut context).is_pending());
    assert_eq!(beside(&bench, &mut supervisor, second.flush()), Err(Error::Full));
    beside(&bench, &mut supervisor, join_all(others));
    assert_eq!(beside(&bench, &mut supervisor, second.flush()), Err(Error::CacheLost));
    assert_eq!(beside(&bench, &mut supervisor, second.flush()), Ok(()));
}

/// Checks packed writes after a new initialisation. At bring-up the card was told to report a
/// failed packed write, and the initialisation switches that off, so packs need it switched on
/// again.
#[test]
fn packs_go_on_after_an_initialisation_only_where_the_card_tells_of_their_failures() {
    let machine = Machine::<Driver, Packed<Fifo>, 16>::sdhci("emmc-packed", true, Packed(Fifo));
    let card = machine.drive(machine.identify(Options::DEFAULT));
    assert!(machine.drive(card::enable_packed(&machine.stack, &card, buffer(1, 0))).is_ok());
    let mut supervisor = pin!(supervise(&machine.stack, buffer(1, 0), Options::DEFAULT, card));
    assert_eq!(machine.writes(1..10), 0);
    let before = machine.packs();
    assert!(before.writes > 0);
    machine.faults(Plan::none().next(Point::Command, &[Strike::BrownOut]));
    let device = BlockDevice::new(&machine.stack);
    {
        let call = pin!(device.read(0, buffer(8, 0)));
        let read = machine.drive(select(call, &mut supervisor));
        let Either::Left(((read, _), _)) = read else { panic!("the supervisor has ended") };
        assert_eq!(read, Ok(8));
    }
    assert_eq!(machine.stack.with(|e| e.stats().recovery_steps[RecoveryStep::Reinit as usize]), 1);
    for round in 2..6 {
        assert_eq!(machine.writes(round * 10..round * 10 + 9), 0);
    }
    assert!(machine.packs().writes > before.writes, "packs are given up");
    let data = Some(Data { direction: Direction::Read, block_size: 512, blocks: 1 });
    let asked = machine.stack.raw(None, emmc::send_ext_csd(), data, buffer(1, 0), 1_000_000_000);
    let (result, ext_csd) = machine.drive(asked);
    result.unwrap();
    assert!(ext_csd[56] & 8 != 0, "the card does not tell of a pack that fails");
}

/// A handle with the blocks that it has written or erased since a loss was last reported to it, and
/// their content.
struct User<'a, B: mmcq::task::Platform> {
    device: BlockDevice<'a, B, 16>,
    changed: Vec<(u64, u8)>,
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Returns whether this block has this content on the medium, even if the supply fails now.
fn is_safe(machine: &Plain, (lba, byte): (u64, u8)) -> bool {
    let now_ns = machine.time.now();
    let mut model = machine.model.borrow_mut();
    let card = model.card_mut().unwrap();
    let at_stake = card.at_stake(now_ns).iter().any(|at| at.sector == lba);
    let mut block = [!byte; 512];
    card.peek(lba * 512, &mut block).unwrap();
    !at_stake && block == [byte; 512]
}

/// Checks what docs/durable.md says about the answer to a flush: after `Ok` everything that this
/// handle has written and erased is safe; a loss was reported to the handle before.
fn answered<B: mmcq::task::Platform>(
    machine: &Plain,
    user: &mut User<'_, B>,
    result: Result<(), Error>,
    what: &str,
) {
    match result {
        Ok(()) => {
            for block in user.changed.drain(..) {
                assert!(is_safe(machine, block), "{what}: Ok, and block {block:?} is not safe");
            }
        }
        // The flush was not started.
        Err(Error::Full) => {}
        Err(_) => user.changed.clear(),
    }
}

/// Checks that `Ok` of a flush means that all data of its handle are safe. Three handles write,
/// write durably and erase; flushes succeed, fail, are abandoned or refused; writes are abandoned;
/// any answer may show an error; the supply may fail.
#[test]
fn an_ok_of_a_flush_means_that_all_of_its_handle_is_safe() {
    let (mut oks, mut told, mut refused, mut erased, mut browned) = (0, 0, 0, 0, 0);
    for seed in 0..cases::rounds(4, 400) {
        let emmc = seed % 2 == 0;
        let machine = Plain::sdhci(if emmc { "emmc-hs200" } else { "sdxc-64g-a2" }, emmc, Fifo);
        let card = machine.drive(async {
            let card = machine.identify(Options::DEFAULT).await;
            card::enable_extended_ops(&machine.stack, &card, buffer(1, 0)).await.0.unwrap();
            if !emmc {
                let cache = extension::enable_cache(&machine.stack, &card, buffer(1, 0)).await;
                cache.map_err(|(error, _)| error).unwrap();
            }
            card
        });
        machine.faults(Plan::none());
        let mut supervisor = pin!(supervise(&machine.stack, buffer(1, 0), Options::DEFAULT, card));
        macro_rules! beside {
            ($call:expr) => {
                machine.drive(supervised($call, &mut supervisor))
            };
        }
        let mut dice = Dice(seed);
        let mut users =
            [0; 3].map(|_| User { device: BlockDevice::new(&machine.stack), changed: Vec::new() });
        for step in 0..40u64 {
            let lba = 10_000 + step * 64;
            let byte = 1 + step as u8;
            let what = format!("seed {seed}, step {step}");
            let who = dice.below(3) as usize;
            let fault = match dice.below(10) {
                0 | 1 => Plan::none().shot(Point::Cache, 1, Strike::Fail),
                2 => Plan::none().shot(Point::Response, 1 + dice.below(3), Strike::Status(ERROR)),
                3 => Plan::none().next(Point::Command, &[Strike::BrownOut]),
                _ => Plan::none(),
            };
            let fails = dice.below(12) == 0;
            let supply =
                if fails { Plan::none().next(Point::Command, &[Strike::BrownOut]) } else { Plan::none() };
            let user = &mut users[who];
            match dice.below(11) {
                0..=3 => {
                    // A write gets only faults of the supply, since a fault of the cache strikes
                    // flushes in this load.
                    browned += u32::from(fails);
                    machine.faults(supply);
                    let done = beside!(user.device.write(lba, buffer(1, byte))).0;
                    machine.faults(Plan::none());
                    if done.is_ok() {
                        user.changed.push((lba, byte));
                    }
                }
                4 => {
                    machine.faults(fault);
                    let done = beside!(user.device.write_durable(lba, buffer(1, byte))).0;
                    machine.faults(Plan::none());
                    assert!(done.is_err() || is_safe(&machine, (lba, byte)), "{what}: durable, and not safe");
                }
                5 => {
                    machine.faults(fault);
                    {
                        let mut given_up = Box::pin(user.device.flush());
                        let mut context = Context::from_waker(Waker::noop());
                        let _ = given_up.as_mut().poll(&mut context);
                    }
                    beside!(rest(&machine.stack));
                    machine.faults(Plan::none());
                }
                6 => {
                    let mut context = Context::from_waker(Waker::noop());
                    let read = |n| {
                        machine.stack.request(Request::new(Kind::Read { lba: n, blocks: 1 }, buffer(1, 0)))
                    };
                    let mut others: Vec<_> = (0..16).map(|n| Box::pin(read(n * 100))).collect();
                    others.retain_mut(|other| other.as_mut().poll(&mut context).is_pending());
                    let result = beside!(user.device.flush());
                    assert_eq!(result, Err(Error::Full), "{what}");
                    beside!(join_all(others));
                    refused += 1;
                    answered(&machine, user, result, &what);
                }
                7 => {
                    let mut turns = dice.below(4);
                    beside!(async {
                        let mut given_up = pin!(user.device.write(lba, buffer(1, byte)));
                        poll_fn(|context| {
                            let is_over = given_up.as_mut().poll(context).is_ready() || turns == 0;
                            turns = turns.saturating_sub(1);
                            if is_over { Poll::Ready(()) } else { Poll::Pending }
                        })
                        .await;
                    });
                    beside!(rest(&machine.stack));
                }
                8 => {
                    // Uses a block that a client has written, if there is one.
                    let lba = 10_000 + dice.below(step + 1) * 64;
                    let how = if emmc { Erase::Trim } else { Erase::Erase };
                    machine.faults(supply);
                    let erase = Request::new(Kind::Erase { lba, blocks: 1, how }, DmaBuf::EMPTY);
                    let done = beside!(machine.stack.request(erase)).result;
                    machine.faults(Plan::none());
                    users.iter_mut().for_each(|user| user.changed.retain(|changed| changed.0 != lba));
                    if done.is_ok() {
                        erased += 1;
                        users[who].changed.push((lba, 0));
                    }
                }
                _ => {
                    machine.faults(fault);
                    let result = beside!(user.device.flush());
                    machine.faults(Plan::none());
                    (oks, told) = (oks + u32::from(result.is_ok()), told + u32::from(result.is_err()));
                    answered(&machine, user, result, &what);
                }
            }
        }
        for user in &mut users {
            let mut result = Err(Error::Silent);
            for _ in 0..3 {
                result = beside!(user.device.flush());
                answered(&machine, user, result, &format!("seed {seed}, at the end"));
            }
            assert_eq!(result, Ok(()), "seed {seed}: a loss is told once");
        }
    }
    let many = cases::rounds(4, 400) as u32;
    assert!(oks > many && told > many && refused > many, "{oks} {told} {refused}");
    assert!(erased > many && browned > many / 4, "{erased} {browned}");
}

/// Runs a call while a supervisor runs, since some calls complete only if the supervisor runs.
async fn supervised<T>(call: impl Future<Output = T>, supervisor: &mut Pin<&mut impl Future>) -> T {
    let mut call = pin!(call);
    poll_fn(|context| {
        if let Poll::Ready(result) = call.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        assert!(supervisor.as_mut().poll(context).is_pending(), "the supervisor has ended");
        call.as_mut().poll(context)
    })
    .await
}

/// Waits until the stack has nothing to do.
async fn rest<B: mmcq::task::Platform>(stack: &mmcq::task::Stack<B, 16>) {
    poll_fn(|_| if stack.with(|engine| engine.is_idle()) { Poll::Ready(()) } else { Poll::Pending }).await;
}
