//! Tests of a card that is left alone: data that were complete are on the medium before the power
//! may go, and no state of the card misinterprets later commands.

use crate::{rig, timed};
use mmcq::block::BlockDevice;
use mmcq::card::{Options, Rest, Upkeep, power};
use mmcq::engine::{Acknowledge, Config, DmaBuf, Error, FlushBy, Kind, RecoveryStep, Request};
use mmcq::host::{Auto, Data, Direction, Phase, Timing};
use mmcq::spec::command::{self, emmc};
use mmcq_sim::memory::MemoryConfig;
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::world::Device;
use rig::{Rig, buffer};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const MS: u64 = 1_000_000;
const CACHED: Options = Options::DEFAULT.cache(true);

/// Runs a call that is polled late: before each poll, `between` acts on the card.
fn late<F: Future>(rig: &Rig, call: F, mut between: impl FnMut(u32)) -> F::Output {
    let mut call = pin!(call);
    for nth in 0..100_000 {
        if let Poll::Ready(output) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        between(nth);
        let busy = rig.stack.with(|engine| !engine.is_idle() || engine.next_deadline_ns().is_some());
        if busy || rig.model.borrow().irq() {
            rig.turn();
        }
    }
    panic!("no end");
}

#[test]
fn what_is_written_while_the_power_is_about_to_go_is_there_afterwards() {
    for sleeps in [false, true] {
        let rig = Rig::alone("emmc-51-full", CACHED);
        rig.one(rig.write(0, 8, 1)).result.unwrap();
        let mut written = 0;
        let write_one = |nth: u32| {
            // A write completes while the first flush is under way, before the call is polled
            // again.
            if nth == 0 {
                rig.one(rig.write(64, 8, 2)).result.unwrap();
                written += 1;
            }
        };
        if sleeps {
            let (result, _) = late(&rig, power::sleep(rig.stack, &rig.found, buffer(1, 0)), write_one);
            let _ = result.unwrap();
            // VCC may be switched off now.
            rig.ills.borrow_mut().brown_out = true;
        } else {
            let off = power::power_off(rig.stack, &rig.found, buffer(1, 0), power::Off::Short);
            let (result, _) = late(&rig, off, write_one);
            result.unwrap();
        }
        assert_eq!(written, 1);
        let mut found = [0; 512];
        rig.drive(mmcq::card::bring_up(rig.stack, buffer(1, 0), CACHED)).0.unwrap();
        let read = rig.one(rig.read(64, 1));
        found.copy_from_slice(&read.buf);
        assert_eq!(found, [2; 512], "sleeps: {sleeps}");
        assert!(rig.one(rig.flush()).result.is_ok());
    }
}

#[test]
fn who_writes_without_a_pause_keeps_a_device_awake_and_loses_no_data_without_a_word() {
    let rig = Rig::alone("emmc-51-full", CACHED);
    let others = RefCell::new(Vec::new());
    let busy = |rig: &Rig, nth: u32| {
        if nth == 2_000 || !rig.stack.with(|engine| engine.card_params().is_some()) {
            return;
        }
        let now = rig.time.now();
        let request = Request::new(Kind::Write { lba: 64, blocks: 8 }, buffer(8, 2));
        let Ok(id) = rig.stack.with(|engine| engine.submit(request, now)) else { return };
        // Of each two requests one is complete before the call is polled again, and one waits.
        if nth.is_multiple_of(2) {
            assert!(rig.one(id).result.is_ok());
        } else {
            others.borrow_mut().push(id);
        }
        others.borrow_mut().retain(|&id| rig.stack.with(|engine| engine.take(id)).is_none());
    };
    let (slept, scratch) =
        late(&rig, power::sleep(rig.stack, &rig.found, buffer(1, 0)), |nth| busy(&rig, nth));
    assert!(matches!(slept, Err(Error::Protocol(_))), "{slept:?}");
    assert!(rig.one(rig.read(64, 1)).result.is_ok(), "it is still there");
    let off = power::power_off(rig.stack, &rig.found, scratch, power::Off::Short);
    let (result, _) = late(&rig, off, |nth| busy(&rig, nth));
    assert_eq!(result, Err(Error::CacheLost));
}

/// Checks that a device whose cache could not be flushed stays awake: a sleeping device may lose
/// its supply.
#[test]
fn a_device_whose_cache_is_not_flushed_stays_awake() {
    let upkeep = Box::leak(Box::new(Upkeep::DEFAULT.rest(Rest::Sleep { after_ns: 50 * MS })));
    let rig = Rig::with("emmc-51-full", CACHED.upkeep(upkeep));
    rig.one(rig.write(64, 8, 1)).result.unwrap();
    let next = rig.ills.borrow().commands + 1;
    rig.ills.borrow_mut().deaf_at = vec![next];
    rig.until(rig.time.now() + 200 * MS);
    assert!(rig.ills.borrow().commands >= next);
    assert_eq!(rig.stats().rests, 0);
    assert!(rig.one(rig.read(64, 1)).result.is_ok());
    assert_eq!(rig.taken(RecoveryStep::Classify), 0);
    // Later the flush is tried again.
    rig.until(rig.time.now() + 70_000 * MS);
    assert_eq!(rig.stats().rests, 1);
}

/// Checks that a program cannot switch the cache on behind the engine, which would not know that
/// data must be flushed.
#[test]
fn a_cache_is_not_switched_behind_the_engine() {
    let rig = Rig::alone("emmc-51-full", CACHED.cache(false));
    assert_eq!(rig.stack.with(|engine| engine.card_params().unwrap().flush), FlushBy::Status);
    for access in [emmc::SwitchMode::WriteByte, emmc::SwitchMode::SetBits, emmc::SwitchMode::ClearBits] {
        let command = emmc::switch(access, 33, 1, 0);
        let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
        for kind in [
            Kind::Raw { prefix: None, phase, timeout_ns: MS },
            Kind::Raw { prefix: Some(command), phase, timeout_ns: MS },
            Kind::LongCommand { command, timeout_ns: MS },
        ] {
            let request = Request::new(kind, DmaBuf::EMPTY);
            let now = rig.time.now();
            let refused = rig.stack.with(|engine| engine.submit(request, now)).map_err(|(error, _)| error);
            assert_eq!(refused, Err(Error::Unsupported), "{kind:?}");
        }
    }
}

/// Checks a CMD55 whose answer is lost: the card would take the next command for an application
/// command, for example a CMD23, which then announces no blocks.
#[test]
fn a_lost_answer_to_cmd55_is_nothing_to_others() {
    for name in ["sdhc-16g-hs", "sdxc-128g-uhs"] {
        // CMD55 is executed without an answer, or not received; or the command after it is not
        // received.
        for (lost, deaf) in [(1, false), (1, true), (2, true)] {
            let rig = Rig::new(name);
            let data = Data { direction: Direction::Read, block_size: 64, blocks: 1 };
            let phase = Phase {
                command: command::sd::sd_status(),
                data: Some(data),
                auto: Auto::None,
                tuning: false,
            };
            let prefix = Some(command::app_cmd(rig.found.params.rca));
            let at = rig.ills.borrow().commands + lost;
            let status =
                rig.submit(Request::new(Kind::Raw { prefix, phase, timeout_ns: 10 * MS }, buffer(1, 0)));
            if deaf {
                rig.ills.borrow_mut().deaf_at = vec![at];
            } else {
                rig.ills.borrow_mut().mute_at = vec![at];
            }
            let write = rig.write(64, 8, 7);
            let read = rig.read(64, 8);
            let what = format!("{name}, command {lost}, deaf {deaf}");
            assert!(rig.one(status).result.is_err(), "{what}");
            assert!(rig.one(write).result.is_ok(), "{what}");
            assert!(rig.one(read).buf.iter().all(|&byte| byte == 7), "{what}");
            assert_eq!(rig.taken(RecoveryStep::Classify), 0, "{what}: {:?}", rig.trace());
        }
    }
}

/// Checks that the power stays on if the flush is refused because the queue is full, and that the
/// call reports that.
#[test]
fn the_power_stays_where_a_full_queue_refuses_the_flush() {
    let rig = Rig::alone("emmc-51-full", CACHED);
    let ids: Vec<_> = (0..16).map(|n| rig.write(n * 64, 8, 1)).collect();
    let off = power::power_off(rig.stack, &rig.found, buffer(1, 0), power::Off::Short);
    let (result, scratch) = rig.drive(off);
    assert_eq!(result, Err(Error::Full));
    for id in ids {
        assert!(rig.one(id).result.is_ok());
    }
    assert!(rig.one(rig.read(0, 1)).result.is_ok(), "the card is still there");
    let off = power::power_off(rig.stack, &rig.found, scratch, power::Off::Short);
    assert_eq!(rig.drive(off).0, Ok(()));
}

/// Checks that a call whose flush has failed leaves the card to the engine: nothing else was done,
/// although no data are left that the next flush could report.
#[test]
fn a_failed_flush_leaves_the_card_to_the_engine() {
    for name in ["sleep, full", "sleep, suspended", "sleep, lost", "off, full", "off, suspended"] {
        let rig = Rig::with("emmc-51-full", CACHED);
        let (sleeps, why) = (name.starts_with("sleep"), name.rsplit(' ').next());
        let mut ended = Vec::new();
        let error = match why {
            Some("full") => {
                // All requests have ended, and no client has taken the completions.
                while let Ok(id) = rig.stack.with(|engine| {
                    let request = Request::new(Kind::Read { lba: 0, blocks: 1 }, buffer(1, 0));
                    engine.submit(request, rig.time.now())
                }) {
                    ended.push(id);
                    rig.until(rig.time.now() + 100 * MS);
                }
                Error::Full
            }
            Some("suspended") => {
                rig.stack.with(|engine| engine.suspend());
                Error::Suspended
            }
            _ => {
                rig.one(rig.write(64, 8, 1)).result.unwrap();
                rig.ills.borrow_mut().brown_out = true;
                Error::CacheLost
            }
        };
        let result = if sleeps {
            rig.drive(power::sleep(rig.stack, &rig.found, buffer(1, 0))).0.map(|_| ())
        } else {
            rig.drive(power::power_off(rig.stack, &rig.found, buffer(1, 0), power::Off::Short)).0
        };
        assert_eq!(result, Err(error), "{name}");
        ended.into_iter().for_each(|id| assert!(rig.one(id).result.is_ok()));
        rig.stack.with(|engine| engine.resume(rig.time.now()));
        assert!(rig.stack.with(|engine| engine.card_params().is_some()), "{name}");
        assert_eq!(rig.one(rig.read(0, 1)).result.err(), None, "{name}");
    }
}

/// Checks a flush after which the engine at once asks the supervisor to tune, and a card that has
/// to be initialised again by that. The card sleeps when the supervisor has finished, and the
/// supervisor does not give the sleeping card to the engine.
#[test]
fn a_card_that_the_supervisor_works_on_sleeps_afterwards() {
    let upkeep = Box::leak(Box::new(Upkeep::DEFAULT.retune_every_ns(Some(1_000 * MS))));
    let rig = Rig::with("emmc-hs200", CACHED.upkeep(upkeep));
    assert_eq!(rig.found.timing, Timing::Hs200);
    assert!(rig.one(rig.read(0, 8)).result.is_ok());
    let mut sleep = pin!(power::sleep(rig.stack, &rig.found, buffer(1, 0)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    while rig.stats().tunings == 0 {
        // The flush ends, and tuning is due. The supervisor is not polled yet.
        timed::turn(rig.stack, &rig.model, &rig.time).unwrap();
    }
    rig.ills.borrow_mut().mute = true;
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    rig.poll_supervisor();
    let (asleep, scratch) = rig.drive(sleep);
    let trace = rig.trace();
    assert!(trace.iter().any(|&(_, step)| step == RecoveryStep::PowerCycle), "{trace:?}");
    assert!(rig.stack.with(|engine| engine.card_params().is_none()), "{asleep:?} {trace:?}");
    let (awake, _) = rig.drive(power::awake(rig.stack, &rig.found, scratch, asleep.unwrap()));
    assert_eq!(awake, Ok(()));
    assert!(rig.one(rig.read(0, 8)).result.is_ok());
    rig.checked();
}

/// Checks a flush that reports a loss, after which the engine asks the supervisor to initialise the
/// card. The supervisor finishes its work before the supply goes off, and does not give the card to
/// the engine afterwards.
#[test]
fn a_card_that_the_supervisor_works_on_goes_off_afterwards() {
    let rig = Rig::with("emmc-51-full", CACHED);
    rig.one(rig.write(64, 8, 1)).result.unwrap();
    rig.ills.borrow_mut().brown_out = true;
    let off = power::power_off(rig.stack, &rig.found, buffer(1, 0), power::Off::Short);
    let mut off = pin!(off);
    assert!(off.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    while rig.taken(RecoveryStep::Reinit) == 0 || !rig.stack.with(|engine| engine.is_idle()) {
        rig.turn();
    }
    // The flush has ended, and its caller is not polled yet. The card no longer answers, and
    // another client uses it.
    rig.ills.borrow_mut().mute = true;
    let read = rig.read(0, 8);
    while rig.taken(RecoveryStep::Reinit) == 1 {
        timed::turn(rig.stack, &rig.model, &rig.time).unwrap();
    }
    assert!(off.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    rig.poll_supervisor();
    let (result, _) = rig.drive(off);
    assert_eq!(result, Err(Error::CacheLost));
    assert!(rig.stack.with(|engine| engine.card_params().is_none()), "{:?}", rig.trace());
    let _ = rig.one(read);
    let (commands, trace) = (rig.ills.borrow().commands, rig.trace());
    rig.until(rig.time.now() + 10_000 * MS);
    assert_eq!((rig.ills.borrow().commands, rig.trace()), (commands, trace), "the supply is off");
    rig.checked();
}

/// Checks a call that cannot wait for the supervisor, because other clients have all slots: the
/// supply stays on, and the call reports that. The loss that its flush has found is reported by the
/// next flush.
#[test]
fn the_power_stays_where_full_slots_forbid_to_wait_for_the_supervisor() {
    let rig = Rig::with("emmc-51-full", CACHED);
    rig.one(rig.write(64, 8, 1)).result.unwrap();
    rig.ills.borrow_mut().brown_out = true;
    let mut off = pin!(power::power_off(rig.stack, &rig.found, buffer(1, 0), power::Off::Short));
    assert!(off.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    while rig.taken(RecoveryStep::Reinit) == 0 || !rig.stack.with(|engine| engine.is_idle()) {
        rig.turn();
    }
    // The flush has ended, and its caller is not polled yet. The card answers no more, so the next
    // request calls the supervisor.
    rig.ills.borrow_mut().mute = true;
    let mut reads = vec![rig.read(0, 8)];
    while rig.taken(RecoveryStep::Reinit) == 1 {
        timed::turn(rig.stack, &rig.model, &rig.time).unwrap();
    }
    let read = || Request::new(Kind::Read { lba: 0, blocks: 8 }, buffer(8, 0));
    while let Ok(id) = rig.stack.with(|engine| engine.submit(read(), rig.time.now())) {
        reads.push(id);
    }
    // The supervisor's first request takes the slot that is reserved for it.
    rig.poll_supervisor();
    let (result, scratch) = rig.drive(off);
    assert_eq!(result, Err(Error::Full));
    for read in reads {
        assert!(rig.one(read).result.is_ok(), "the card is there again");
    }
    let device = BlockDevice::new(rig.stack);
    assert_eq!(rig.drive(device.flush()), Err(Error::CacheLost));
    assert_eq!(rig.drive(device.flush()), Ok(()), "once");
    let (result, _) = rig.drive(power::power_off(rig.stack, &rig.found, scratch, power::Off::Short));
    assert_eq!(result, Ok(()));
    rig.checked();
}

/// Checks a card without a cache: a write that was reported as complete early is lost with the
/// power, and the caller gets an error.
#[test]
fn a_write_that_was_told_early_goes_with_the_power_and_is_told() {
    let mut config = Config::DEFAULT;
    config.acknowledge = Acknowledge::Transferred;
    let (memory, host) = (MemoryConfig::BITS32, SdhciConfig::GENERIC_4_20);
    let rig = Rig::running(config, memory, rig::card("sdhc-16g-hs"), false, host, Options::DEFAULT);
    let mut early = 0;
    let busy = |nth: u32| {
        if nth < 2_000 && rig.stack.with(|engine| engine.card_params().is_some()) {
            early += u32::from(rig.one(rig.write(64, 8, 2)).result.is_ok());
        }
    };
    let (result, _) =
        late(&rig, power::power_off(rig.stack, &rig.found, buffer(1, 0), power::Off::Short), busy);
    assert_eq!(result, Err(Error::CacheLost), "{early} writes");
}

/// Checks that a write ends when `bring_up` takes its card away: no status is asked of the card,
/// and waiting requests get their turn.
#[test]
fn a_write_whose_card_is_taken_away_ends() {
    for name in ["emmc-51-full", "sdhc-16g-hs"] {
        let rig = Rig::alone(name, Options::DEFAULT);
        let written = rig.write(0, 8, 1);
        let commands = rig.ills.borrow().commands;
        rig.drive(mmcq::card::bring_up(rig.stack, buffer(1, 0), Options::DEFAULT)).0.unwrap();
        let told = rig.one(written).result;
        assert!(told.is_err(), "{name}: no card has told that it is programmed: {told:?}");
        let spent = rig.ills.borrow().commands - commands;
        assert!(spent < 200, "{name}: {spent} commands");
        assert!(rig.one(rig.read(0, 8)).result.is_ok());
    }
}
