//! Tests of a card that rests while nothing uses it and that the next request wakes: what that
//! costs, and what may go wrong meanwhile.

use crate::rig;
use mmcq::card::{Event, Options, Rest, Upkeep};
use mmcq::engine::{Error, RecoveryStep, SlotId};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;
use rig::Rig;
use std::cell::{Cell, RefCell};
use std::task::{RawWaker, RawWakerVTable, Waker};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const CLOCK_OFF: Rest = Rest::ClockOff { after_ns: 50 * MS };
const SLEEP: Rest = Rest::Sleep { after_ns: 50 * MS };

fn resting(name: &str, rest: Rest) -> Rig {
    let upkeep = Box::leak(Box::new(Upkeep::DEFAULT.rest(rest)));
    Rig::with(name, Options::DEFAULT.upkeep(upkeep))
}

/// Submits reads until the queue refuses one. Returns their IDs and the error.
fn fill(stack: &rig::Stack) -> (Vec<SlotId>, Error) {
    let mut ids = Vec::new();
    loop {
        let request =
            mmcq::engine::Request::new(mmcq::engine::Kind::Read { lba: 0, blocks: 1 }, rig::buffer(1, 0));
        match stack.with(|engine| engine.submit(request, stack.now_ns())) {
            Ok(id) => ids.push(id),
            Err((error, _)) => return (ids, error),
        }
    }
}

/// Returns the time of a read, in ns.
fn read(rig: &Rig) -> u64 {
    let begin = rig.time.now();
    let done = rig.one(rig.read(0, 8));
    assert!(done.result.is_ok(), "{:?}; {:?}", done.result, rig.trace());
    rig.time.now() - begin
}

/// Advances by a pause after which the card rests.
fn pause(rig: &Rig) {
    rig.until(rig.time.now() + 200 * MS);
}

fn clock_hz(rig: &Rig) -> u32 {
    rig.model.borrow().bus().clock_hz
}

#[test]
fn a_rest_costs_the_next_request_a_bounded_time() {
    for (name, rest, most_ns) in [
        ("sdhc-16g-hs", CLOCK_OFF, 100 * US),
        ("emmc-51-full", CLOCK_OFF, 100 * US),
        ("sdxc-128g-uhs", SLEEP, 100 * US),
        ("emmc-51-full", SLEEP, 3 * MS),
    ] {
        let rig = resting(name, rest);
        read(&rig);
        let awake_ns = read(&rig);
        pause(&rig);
        assert_eq!((rig.stats().rests, clock_hz(&rig)), (1, 0), "{name} {rest:?}");
        assert_eq!(rig.stack.with(|engine| engine.next_deadline_ns()), None, "{name}: nothing runs");
        let rested_ns = read(&rig);
        let cost_ns = rested_ns.saturating_sub(awake_ns);
        println!("{name} {rest:?}: a read takes {} us, after a rest {} us", awake_ns / US, rested_ns / US);
        assert!(cost_ns > 0 && cost_ns < most_ns, "{name} {rest:?}: {cost_ns}");
        // The card rests again, and no failure was counted.
        pause(&rig);
        assert_eq!(rig.stats().rests, 2);
        read(&rig);
        assert_eq!((rig.taken(RecoveryStep::Classify), rig.stats().cache_lost), (0, 0));
        rig.checked();
    }
}

#[test]
fn a_card_in_use_does_not_rest() {
    let rig = resting("emmc-51-full", CLOCK_OFF);
    for _ in 0..50 {
        read(&rig);
        rig.until(rig.time.now() + 40 * MS);
    }
    assert_eq!(rig.stats().rests, 0);
}

#[test]
fn what_was_written_is_on_the_medium_before_an_emmc_sleeps() {
    let rig = resting("hbg4a2", SLEEP);
    assert!(rig.one(rig.write(64, 8, 1)).result.is_ok());
    pause(&rig);
    assert_eq!(rig.stats().rests, 1);
    rig.ills.borrow_mut().brown_out = true;
    read(&rig);
    assert_eq!((rig.taken(RecoveryStep::Reinit), rig.stats().cache_lost), (1, 0), "{:?}", rig.trace());
    assert!(rig.one(rig.flush()).result.is_ok());
    rig.checked();
}

#[test]
fn a_card_that_does_not_wake_is_recovered() {
    for rest in [CLOCK_OFF, SLEEP] {
        let rig = resting("emmc-51-full", rest);
        read(&rig);
        pause(&rig);
        rig.ills.borrow_mut().mute = true;
        read(&rig);
        assert_eq!(rig.taken(RecoveryStep::Dead), 0);
        assert!(
            rig.taken(RecoveryStep::Reinit) + rig.taken(RecoveryStep::PowerCycle) > 0,
            "{rest:?} {:?}",
            rig.trace()
        );
    }
}

#[test]
fn a_supervisor_that_ends_during_a_rest_leaves_a_card_that_works_or_none() {
    let rig = resting("emmc-51-full", CLOCK_OFF);
    pause(&rig);
    assert_eq!(clock_hz(&rig), 0);
    rig.leave();
    read(&rig);
    assert_eq!(rig.taken(RecoveryStep::Classify), 0);

    let rig = resting("emmc-51-full", SLEEP);
    pause(&rig);
    rig.leave();
    let request =
        mmcq::engine::Request::new(mmcq::engine::Kind::Read { lba: 0, blocks: 1 }, rig::buffer(1, 0));
    let now_ns = rig.time.now();
    let refused = rig.stack.with(|engine| engine.submit(request, now_ns)).unwrap_err().0;
    assert_eq!(refused, Error::NoCard);
}

/// Checks a supervisor that ends at any moment while a rest begins, with a full queue behind it:
/// the card works afterwards.
#[test]
fn a_supervisor_that_ends_while_a_rest_begins_leaves_a_card_that_works() {
    let mut stopping = 0;
    for turns in 0..6 {
        let rig = resting("emmc-51-full", CLOCK_OFF);
        read(&rig);
        rig.until(rig.time.now() + 49 * MS);
        for _ in 0..turns {
            if rig.stack.with(|engine| engine.next_deadline_ns()).is_some() {
                rig.turn();
            }
        }
        let (ids, refused) = fill(rig.stack);
        assert_eq!(refused, Error::Full);
        stopping += u32::from(rig.stack.with(|engine| engine.slots_in_use()) > ids.len());
        rig.leave();
        for done in rig.finish(&ids, 1_000 * MS) {
            assert!(done.result.is_ok(), "after {turns} turns: {:?}", done.result);
        }
        assert_eq!((rig.taken(RecoveryStep::Classify), clock_hz(&rig)), (0, 200_000_000));
    }
    assert!(stopping > 0);
}

/// Checks a supervisor that replaces one which has made the card slower: the program has only the
/// card as it was brought up, but a rest ends at the present clock, and nothing is tuned.
#[test]
fn a_later_supervisor_knows_that_the_card_is_slower() {
    for name in ["sdxc-128g-uhs", "emmc-hs200"] {
        let upkeep = Box::leak(Box::new(Upkeep::DEFAULT.rest(CLOCK_OFF).retune_every_ns(Some(1_000 * MS))));
        let rig = Rig::with(name, Options::DEFAULT.upkeep(upkeep));
        rig.ills.borrow_mut().reads_up_to_hz = Some(60_000_000);
        for _ in 0..64 {
            read(&rig);
        }
        let slow_hz = clock_hz(&rig);
        assert!(rig.taken(RecoveryStep::Slower) > 0 && slow_hz <= 60_000_000, "{name}: {:?}", rig.trace());
        let before = rig.stats();
        rig.leave();
        rig.keep();
        for _ in 0..20 {
            pause(&rig);
            assert_eq!(clock_hz(&rig), 0, "{name}");
            read(&rig);
            assert_eq!(clock_hz(&rig), slow_hz, "{name}");
        }
        let after = rig.stats();
        assert_eq!((after.faults, after.tunings), (before.faults, before.tunings), "{name}");
        rig.checked();
    }
}

thread_local! {
    /// The stack whose queue is filled when the supervisor's waker is cloned, and how many clones
    /// come before that.
    static FILLS: Cell<Option<(&'static rig::Stack, u32)>> = const { Cell::new(None) };
    static FILLED: RefCell<Vec<SlotId>> = const { RefCell::new(Vec::new()) };
}

/// Returns a waker whose `clone` fills the queue, as an interrupt between two statements of the
/// supervisor could.
fn filling() -> Waker {
    fn clone(_: *const ()) -> RawWaker {
        FILLS.set(match FILLS.take() {
            Some((stack, 0)) => {
                let (ids, refused) = fill(stack);
                assert_eq!(refused, Error::Full);
                FILLED.set(ids);
                None
            }
            Some((stack, before)) => Some((stack, before - 1)),
            None => None,
        });
        RawWaker::new(std::ptr::null(), &TABLE)
    }
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| {});
    // SAFETY: the functions of the table ignore the pointer.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

/// Checks that a card whose clock cannot be started again counts as gone: requests use every slot
/// except that of the request that stops the clock, and then the supervisor ends.
#[test]
fn a_clock_that_cannot_be_asked_for_again_is_no_card() {
    let rig = resting("emmc-51-full", CLOCK_OFF);
    read(&rig);
    rig.until(rig.time.now() + 49 * MS);
    *rig.waker.borrow_mut() = filling();
    for _ in 0..10 {
        // The clones that come first are the rig's own and the one that waits for work; the third
        // is that for the stop of the clock.
        FILLS.set(Some((rig.stack, 2)));
        rig.turn();
        if FILLS.take().is_none() {
            break;
        }
    }
    let ids = FILLED.take();
    assert_eq!((ids.len(), rig.stack.with(|engine| engine.slots_in_use())), (15, 16));
    let commands = rig.ills.borrow().commands;
    rig.leave();
    for done in rig.finish(&ids, 100 * MS) {
        assert_eq!(done.result.unwrap_err(), Error::NoCard);
    }
    assert_eq!(
        (rig.ills.borrow().commands, clock_hz(&rig)),
        (commands, 0),
        "nothing is sent without a clock"
    );
}

#[test]
fn a_program_may_dismiss_the_supervisor_during_a_rest() {
    let rig = resting("emmc-51-full", CLOCK_OFF);
    pause(&rig);
    assert_eq!(clock_hz(&rig), 0);
    assert!(!rig.stack.with(|engine| engine.dismiss_supervisor()), "first it wakes the card");
    for _ in 0..20 {
        rig.turn();
        if rig.stack.with(|engine| engine.dismiss_supervisor()) {
            break;
        }
    }
    rig.turn();
    assert!(matches!(rig.events.borrow()[..], [Event::Dismissed]), "{:?}", rig.events.borrow());
    assert_ne!(clock_hz(&rig), 0);
    read(&rig);
}

#[test]
fn a_card_that_is_taken_out_during_a_rest_is_missed() {
    let rig = resting("sdhc-16g-hs", CLOCK_OFF);
    pause(&rig);
    let out = rig.model.borrow_mut().remove(rig.time.now()).unwrap();
    rig.until(rig.time.now() + 200 * MS);
    assert!(matches!(rig.events.borrow()[..], [Event::Removed]), "{:?}", rig.events.borrow());
    rig.model.borrow_mut().insert(out, rig.time.now());
    rig.until(rig.time.now() + 2_000 * MS);
    assert!(matches!(rig.events.borrow()[..], [_, Event::Inserted(Ok(_))]), "{:?}", rig.events.borrow());
    read(&rig);
}

/// Checks a card that needs 3 s for the flush before its sleep, longer than a failed card is given,
/// and a request that comes meanwhile: the card is not reset in the middle of its flush.
#[test]
fn a_long_flush_before_the_sleep_is_waited_for() {
    let path = format!("{}/cards/emmc-cache.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("flush_us = 450", "flush_us = 3000000").replace("5000]", "5000000]");
    let profile = CardProfile::from_toml(&text, "slow").unwrap_or_else(|error| panic!("{error}"));
    let upkeep = Box::leak(Box::new(Upkeep::DEFAULT.rest(SLEEP)));
    let options = Options::DEFAULT.upkeep(upkeep);
    let rig = Rig::built(crate::timed::card(&profile), true, SdhciConfig::GENERIC_4_20, options);
    rig.keep();
    assert!(rig.one(rig.write(64, 8, 1)).result.is_ok());
    rig.until(rig.time.now() + 2_500 * MS);
    let begin = rig.time.now();
    read(&rig);
    assert!(rig.time.now() - begin < 1_000 * MS, "{:?}", rig.trace());
    assert_eq!((rig.taken(RecoveryStep::Reset), rig.stats().cache_lost), (0, 0), "{:?}", rig.trace());
    assert!(rig.one(rig.flush()).result.is_ok());
    rig.checked();
}
