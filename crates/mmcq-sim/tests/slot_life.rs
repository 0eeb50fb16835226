//! Tests of the life of a card slot: cards that are inserted and removed, that do not answer at
//! once, that sleep and rest.

use crate::machine::{self, Rig, bytes};
use mmcq::block::BlockDevice;
use mmcq::card::protect::LockOp;
use mmcq::card::{Card as Found, Event, Options, Rest, Upkeep, bring_up, power, supervise};
use mmcq::engine::{DmaBuf, Irreversible};
use mmcq::host::sdhci::{self, SdhciQuirks};
use mmcq_sim::bench::{Bench, buffer};
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::card::{Card, Odd, OddAnswer};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const SURE: Irreversible = Irreversible::i_know_that_this_cannot_be_undone();
const ERASED: &LockOp<'static> = &LockOp::ForceErase(SURE);
static RESTS: Upkeep = Upkeep::DEFAULT.rest(Rest::ClockOff { after_ns: 5_000_000 });

fn profile(name: &str, change: impl Fn(String) -> String) -> (CardProfile, Medium) {
    let text = change(mmcq_sim::cards::named(name).unwrap().to_owned());
    let profile = CardProfile::from_toml(&text, name).unwrap();
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
    (profile, medium)
}

/// Returns a card that gives these odd answers.
fn odd(name: &str, answers: Vec<OddAnswer>) -> Box<dyn Card> {
    let (mut profile, medium) = profile(name, |text| text);
    profile.quirks_mut().answers = answers;
    profile.build(medium).unwrap()
}

fn answer(command: u8, nth: u64, times: u64, happens: Odd) -> OddAnswer {
    OddAnswer { command, app: false, nth, times, within_ms: None, happens, late_us: 0 }
}

/// Returns a locked card with an unknown password; its forced erase takes `group_us` for each
/// group.
fn closed(group_us: u32) -> Box<dyn Card> {
    let slow = format!("erase_next_group_us = {group_us}");
    let (profile, medium) = profile("sdhc-16g-hs", |text| text.replace("erase_next_group_us = 300", &slow));
    let mut card = profile.build_sd(medium).unwrap();
    card.set_password(b"open sesame");
    Box::new(card)
}

/// Returns a bench whose card was removed, after its supervisor reported that.
fn empty(options: Options) -> (Bench, Found, DmaBuf, Box<dyn Card>) {
    let bench = Bench::new("sdhc-16g-hs").unwrap();
    let (card, scratch) = bench.run(bring_up(bench.stack(), buffer(1), options)).unwrap();
    let card = card.unwrap();
    let out = bench.remove().unwrap();
    let (event, scratch) = bench.run(supervise(bench.stack(), scratch, options, card)).unwrap();
    assert_eq!(event, Event::Removed);
    (bench, card, scratch, out)
}

/// Checks the promise of `Event::Inserted`: with `Ok` the card is ready for requests.
#[test]
fn a_card_that_takes_minutes_is_ready_when_it_is_told() {
    for group_us in [300, 60_000] {
        let options = Options::DEFAULT.unlock(Some(ERASED));
        let (bench, card, scratch, _out) = empty(options);
        bench.insert(closed(group_us));
        let (event, _) = bench.run(supervise(bench.stack(), scratch, options, card)).unwrap();
        assert!(matches!(event, Event::Inserted(Ok(_))), "{group_us}: {event:?}");
        let read = bench.run(BlockDevice::new(bench.stack()).read(0, buffer(1))).unwrap().0;
        assert!(read.is_ok(), "{group_us}, after {} ms: {read:?}", bench.now_ns() / 1_000_000);
    }
}

/// Checks a new card whose bring-up fails at first: the failure is reported and bring-up tried
/// again, without any call of the program except `supervise`.
#[test]
fn a_card_that_fails_at_first_is_tried_again() {
    let (bench, card, mut scratch, _out) = empty(Options::DEFAULT);
    bench.insert(odd("sdhc-16g-hs", vec![answer(2, 1, 12, Odd::Unheard)]));
    let mut told = Vec::new();
    for _ in 0..6 {
        let (event, back) = bench.run(supervise(bench.stack(), scratch, Options::DEFAULT, card)).unwrap();
        scratch = back;
        let Event::Inserted(found) = event else { panic!("{event:?}") };
        told.push((bench.now_ns(), found.is_ok()));
        if found.is_ok() {
            break;
        }
    }
    let oks: Vec<bool> = told.iter().map(|(_, ok)| *ok).collect();
    // Twelve answers are lost, four in each of three tries.
    assert_eq!(oks, [false, false, false, true]);
    let pauses: Vec<u64> = told.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    // The last try succeeds, and is shorter for that.
    assert!(pauses[1] > pauses[0] + 50_000_000 && pauses[2] > 400_000_000, "{pauses:?}");
    assert!(bench.run(BlockDevice::new(bench.stack()).read(0, buffer(1))).unwrap().0.is_ok());
}

/// Checks that a card inserted or removed between two calls of the program is reported by the next
/// call.
#[test]
fn a_card_that_comes_or_goes_between_two_calls_is_told() {
    for steps in [0, 1, 2, 100] {
        let (bench, card, scratch, out) = empty(Options::DEFAULT);
        let goes_on = |bench: &Bench| (0..steps).take_while(|_| bench.step().is_ok()).count();
        bench.insert(out);
        goes_on(&bench);
        let told = bench.run(supervise(bench.stack(), scratch, Options::DEFAULT, card));
        assert!(matches!(told, Ok((Event::Inserted(Ok(_)), _))), "{steps} steps: {told:?}");

        let bench = Bench::new("sdhc-16g-hs").unwrap();
        let (card, scratch) = bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap();
        drop(bench.remove());
        goes_on(&bench);
        let told = bench.run(supervise(bench.stack(), scratch, Options::DEFAULT, card.unwrap()));
        assert!(matches!(told, Ok((Event::Removed, _))), "{steps} steps: {told:?}");
    }
}

/// Checks a request for a card that rests while the supervisor exists but the program does
/// not poll it: the request ends.
#[test]
fn a_request_for_a_card_that_rests_has_an_end() {
    let bench = Bench::new("emmc-hs200").unwrap();
    let options = Options::DEFAULT.upkeep(&RESTS);
    let (card, scratch) = bench.run(bring_up(bench.stack(), buffer(1), options)).unwrap();
    let mut supervisor = pin!(supervise(bench.stack(), scratch, options, card.unwrap()));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        assert!(supervisor.as_mut().poll(&mut context).is_pending());
        if bench.step().is_err() {
            break;
        }
    }
    let begin_ns = bench.now_ns();
    let read = bench.run(BlockDevice::new(bench.stack()).read(0, buffer(1)));
    assert!(read.is_ok(), "it waits for ever");
    assert!(bench.now_ns() - begin_ns < 60_000_000_000);
}

fn rig(card: Box<dyn Card>, quirks: SdhciQuirks) -> (Rig, Found) {
    let driver = sdhci::SdhciConfig::emmc_18().quirks(quirks);
    let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::with_card(card, model, driver, 0).unwrap();
    let found = rig.bring_up(Options::DEFAULT).unwrap();
    (rig, found)
}

const BUSY: [(&str, SdhciQuirks); 3] = [
    ("interrupt", SdhciQuirks::NONE),
    ("level", SdhciQuirks::NO_BUSY_IRQ),
    ("status", SdhciQuirks::NO_BUSY_IRQ.with(SdhciQuirks::NO_DAT0_LEVEL)),
];

/// Checks sleep and wake-up also on a controller where only the card's status shows the end of
/// busy: a sleeping device does not report its status.
#[test]
fn an_emmc_sleeps_and_wakes_however_busy_is_seen() {
    for (name, quirks) in BUSY {
        let (rig, found) = rig(machine::storage_card("emmc-51-full"), quirks);
        let (asleep, scratch) = rig.drive(power::sleep(&rig.stack, &found, bytes(512)));
        let asleep = asleep.unwrap_or_else(|error| panic!("{name}: {error}"));
        let woken = rig.drive(power::awake(&rig.stack, &found, scratch, asleep)).0;
        assert_eq!(woken, Ok(()), "{name}");
        rig.mixed_load(found.params.sectors, 10);
    }
}

/// Checks one lost answer while an eMMC goes to sleep, or wakes.
#[test]
fn one_lost_answer_on_the_way_to_sleep_costs_no_card() {
    for (name, quirks) in BUSY {
        // CMD5 twice, the CMD7 that deselects (the second CMD7 after that of bring-up) and the CMD7
        // that selects.
        for (command, nth) in [(5, 1), (5, 2), (7, 2), (7, 3)] {
            let card = odd("emmc-51-full", vec![answer(command, nth, 1, Odd::Silent)]);
            let (rig, found) = rig(card, quirks);
            let (asleep, scratch) = rig.drive(power::sleep(&rig.stack, &found, bytes(512)));
            if let Ok(asleep) = asleep {
                let woken = rig.drive(power::awake(&rig.stack, &found, scratch, asleep)).0;
                assert_eq!(woken, Ok(()), "{name}: CMD{command}, {nth}");
            }
            let read = rig.drive(BlockDevice::new(&rig.stack).read(0, bytes(512))).0;
            assert!(read.is_ok(), "{name}: CMD{command}, {nth}: {read:?}, {asleep:?}");
        }
    }
}

/// Checks a clock that jumps: the card loses its state, and the machine is suspended at each step
/// of the supervisor's bring-up. The jump must not count as the card's death.
#[test]
fn a_clock_that_jumps_in_a_conversation_is_not_the_cards_death() {
    let mut jumps = 0;
    for at in 1..400 {
        let (rig, found) = rig(machine::storage_card("sdhc-16g-hs"), SdhciQuirks::NONE);
        let lost = Plan::none().shot(Point::Command, 1, Strike::BrownOut);
        rig.model.borrow_mut().set_faults(Faults::new(lost));
        let mut supervisor = pin!(supervise(&rig.stack, bytes(512), Options::DEFAULT, found));
        let device = BlockDevice::new(&rig.stack);
        let mut read = pin!(device.read(0, bytes(512)));
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 0;
        let (result, _) = loop {
            assert!(supervisor.as_mut().poll(&mut context).is_pending());
            if let Poll::Ready(ended) = read.as_mut().poll(&mut context) {
                break ended;
            }
            rig.turn();
            // The supervisor's steps use a slot of the engine.
            if rig.stack.with(|engine| engine.slots_in_use()) < 2 {
                continue;
            }
            turns += 1;
            if turns == at {
                jumps += 1;
                rig.time.set(rig.time.now() + 13_000_000_000);
                crate::timed::one_thread::NOW_NS.set(rig.time.now());
            }
        };
        assert_eq!(result, Ok(1), "the clock jumps at turn {at}");
        if turns < at {
            break;
        }
    }
    assert!(jumps > 20, "{jumps} turns alone");
}
