//! Tests that a handle is bound to its card: what a program does for one card never reaches
//! another.

use mmcq::block::{BlockDevice, Partition};
use mmcq::card::partition::Area;
use mmcq::card::protect::{Lasts, protect_boot, protect_group};
use mmcq::card::{
    self, Card as Found, Event, Options, SdQueue, bring_up, enable_extended_ops, power, supervise,
};
use mmcq::engine::{CardNumber, Config, DmaBuf, Error, FlushBy, Irreversible, Kind, Request};
use mmcq::host::sdhci;
use mmcq::rpmb::{Key, Rpmb, RpmbError};
use mmcq::sched::{Fifo, Packed, Profile, Queued};
use mmcq::spec::command::sd::Extension;
use mmcq_sim::bench::{Bench, Host, Stack, buffer, card_named};
use mmcq_sim::sdhci::SdhciConfig;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const OTHER: &str = "sdxc-64g-a2";

/// Returns a bench whose card is up.
fn up(name: &str) -> (Bench, Found, DmaBuf) {
    let bench = Bench::new(name).unwrap();
    let (card, scratch) = bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap();
    let card = card.unwrap();
    (bench, card, scratch)
}

/// How the program gets the next card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The program calls `bring_up` again.
    BringUp,
    /// The supervisor reports that the slot is empty, and later that a card was inserted.
    Supervisor,
    /// The cards are exchanged before debouncing reports the slot as empty.
    QuickSwap,
    /// The host sees no removal and no insertion; the supervisor notices the exchange by the next
    /// request.
    Unseen,
}

const EVERY_WAY: [By; 4] = [By::BringUp, By::Supervisor, By::QuickSwap, By::Unseen];

/// Puts another card, or the same card again, into the slot, and brings it up.
fn next_card(bench: &Bench, old: Found, scratch: DmaBuf, by: By, other: Option<&str>) -> (Found, DmaBuf) {
    let stack = bench.stack();
    let out = bench.remove().unwrap();
    let into = other.map_or(out, |name| card_named(name).unwrap());
    if by == By::BringUp {
        bench.insert(into);
        let (found, scratch) = bench.run(bring_up(stack, scratch, Options::DEFAULT)).unwrap();
        return (found.unwrap(), scratch);
    }
    if by == By::Unseen {
        bench.insert(into);
        let asks = stack.request(Request::new(Kind::Read { lba: 8, blocks: 1 }, buffer(1)));
        let (told, asked) = bench.run(both(supervise(stack, scratch, Options::DEFAULT, old), asks)).unwrap();
        assert_eq!(asked.result.err(), Some(Error::Changed));
        let (Event::Changed(found), scratch) = told else { panic!("{:?}", told.0) };
        return (found, scratch);
    }
    let mut scratch = scratch;
    if by == By::QuickSwap {
        bench.step().unwrap();
    }
    if by == By::Supervisor {
        let (event, back) = bench.run(supervise(stack, scratch, Options::DEFAULT, old)).unwrap();
        assert_eq!(event, Event::Removed);
        scratch = back;
    }
    bench.insert(into);
    match bench.run(supervise(stack, scratch, Options::DEFAULT, old)).unwrap() {
        (Event::Inserted(found), back) => (found.unwrap(), back),
        (event, _) => panic!("{by:?}: {event:?}"),
    }
}

/// Checks that each call of a handle fails, with the error that its card has gone.
fn is_of_another(
    bench: &Bench,
    device: &BlockDevice<'_, (mmcq::board::NoLock, mmcq_sim::bench::Host, mmcq::sched::Fifo), 16>,
    by: By,
) {
    let told = |result: Result<u32, mmcq::block::BlockError>| result.map_err(|failed| failed.error);
    assert_eq!(told(bench.run(device.read(8, buffer(1))).unwrap().0), Err(Error::Changed), "{by:?}");
    assert_eq!(told(bench.run(device.write(8, buffer(1))).unwrap().0), Err(Error::Changed), "{by:?}");
    assert_eq!(told(bench.run(device.write_durable(8, buffer(1))).unwrap().0), Err(Error::Changed), "{by:?}");
    assert_eq!(bench.run(device.flush()).unwrap(), Err(Error::Changed), "{by:?}");
    let mut memory = [0; 512];
    assert_eq!(device.read_blocking(8, &mut memory, bench.idle()), Err(Error::Changed), "{by:?}");
    assert_eq!(device.write_blocking(8, &memory, bench.idle()), Err(Error::Changed), "{by:?}");
    assert_eq!(device.flush_blocking(bench.idle()), Err(Error::Changed), "{by:?}");
    assert_eq!(device.geometry(), None, "{by:?}");
}

#[test]
fn a_handle_reaches_no_other_card() {
    for by in EVERY_WAY {
        let (bench, card, scratch) = up("sdhc-16g-hs");
        let device = BlockDevice::new(bench.stack());
        bench.run(device.write(8, buffer(1))).unwrap().0.unwrap();
        next_card(&bench, card, scratch, by, Some(OTHER));
        let new = BlockDevice::new(bench.stack());
        let before = bench.run(new.read(8, buffer(1))).unwrap();
        is_of_another(&bench, &device, by);
        is_of_another(&bench, &device.clone(), by);
        let after = bench.run(new.read(8, buffer(1))).unwrap();
        assert!(before.0.is_ok() && before.1.iter().eq(after.1.iter()), "{by:?}: {:?}", before.0);
        assert!(new.geometry().is_some(), "{by:?}");
    }
}

/// Checks a program with a retry loop, as many programs have, while the cards are exchanged: the
/// loop must not write to the next card.
#[test]
fn a_program_that_tries_again_writes_nothing_to_the_next_card() {
    let (bench, card, scratch) = up("sdhc-16g-hs");
    let device = BlockDevice::new(bench.stack());
    let out = bench.remove();
    let mut told = Vec::new();
    let mut supervisor = Box::pin(supervise(bench.stack(), scratch, Options::DEFAULT, card));
    let mut inserted = false;
    for _ in 0..10_000 {
        let failed = bench.run(device.write(0, buffer(1))).unwrap().0.unwrap_err().error;
        if told.last() != Some(&failed) {
            told.push(failed);
        }
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready((event, scratch)) = supervisor.as_mut().poll(&mut context) {
            match event {
                Event::Removed => bench.insert(card_named(OTHER).unwrap()),
                Event::Inserted(found) => inserted = found.is_ok(),
                event => panic!("{event:?}"),
            }
            supervisor = Box::pin(supervise(bench.stack(), scratch, Options::DEFAULT, card));
        } else if bench.step().is_err() {
            break;
        }
    }
    assert!(inserted && out.is_some());
    assert_eq!(told.last(), Some(&Error::Changed), "{told:?}");
    let read = bench.run(BlockDevice::new(bench.stack()).read(0, buffer(1))).unwrap();
    let fresh = Bench::new(OTHER).unwrap();
    let (_, _) = fresh.run(bring_up(fresh.stack(), buffer(1), Options::DEFAULT)).unwrap();
    let untouched = fresh.run(BlockDevice::new(fresh.stack()).read(0, buffer(1))).unwrap();
    assert!(read.1.iter().eq(untouched.1.iter()), "the next card was written to");
}

/// Checks that the handle of a card does not work for the same card after its removal and
/// insertion: the content may have changed meanwhile.
#[test]
fn nor_the_same_card_once_it_was_away() {
    let (bench, card, scratch) = up("sdhc-16g-hs");
    let device = BlockDevice::new(bench.stack());
    next_card(&bench, card, scratch, By::Supervisor, None);
    is_of_another(&bench, &device, By::Supervisor);
}

/// Checks that handles stay valid when a contact only bounced, or when the program brings up the
/// same card again.
#[test]
fn a_card_that_was_never_away_keeps_its_handles() {
    for by in [By::BringUp, By::QuickSwap] {
        let (bench, card, scratch) = up("sdhc-16g-hs");
        let device = BlockDevice::new(bench.stack());
        let (_, scratch) = next_card(&bench, card, scratch, by, None);
        assert_eq!(bench.run(device.write(8, buffer(1))).unwrap().0, Ok(1), "{by:?}");
        let (again, _) = bench.run(bring_up(bench.stack(), scratch, Options::DEFAULT)).unwrap();
        again.unwrap();
        assert_eq!(bench.run(device.read(8, buffer(1))).unwrap().0, Ok(1), "{by:?}");
    }
}

/// Checks that a handle which is made while the slot is empty waits for the next card.
#[test]
fn a_handle_may_be_made_before_its_card_comes() {
    let (bench, card, scratch) = up("sdhc-16g-hs");
    let stack = bench.stack();
    drop(bench.remove());
    let (event, scratch) = bench.run(supervise(stack, scratch, Options::DEFAULT, card)).unwrap();
    assert_eq!(event, Event::Removed);
    let early = BlockDevice::new(stack);
    let none = bench.run(early.read(8, buffer(1))).unwrap().0;
    assert_eq!(none.map_err(|failed| failed.error), Err(Error::NoCard));
    bench.insert(card_named(OTHER).unwrap());
    let (event, _) = bench.run(supervise(stack, scratch, Options::DEFAULT, card)).unwrap();
    assert!(matches!(event, Event::Inserted(Ok(_))), "{event:?}");
    assert_eq!(bench.run(early.read(8, buffer(1))).unwrap().0, Ok(1));
}

/// Checks that what a card lost when it was taken out is not reported as a loss of the next card:
/// neither by the flush of a handle that was made for this card, nor by its durable write.
#[test]
fn the_next_card_has_lost_nothing() {
    for (by, durable) in EVERY_WAY.into_iter().flat_map(|by| [(by, false), (by, true)]) {
        let (bench, card, scratch) = up("emmc-51-full");
        let stack = bench.stack();
        let old = BlockDevice::new(stack);
        assert_eq!(bench.run(old.write(8, buffer(8))).unwrap().0, Ok(8), "{by:?}");
        let (found, scratch) = next_card(&bench, card, scratch, by, Some("hbg4a2"));
        let _ = bench.run(enable_extended_ops(stack, &found, scratch)).unwrap();
        let next = BlockDevice::new(stack);
        if durable {
            assert_eq!(bench.run(next.write_durable(8, buffer(1))).unwrap().0, Ok(1), "{by:?}");
        }
        assert_eq!(bench.run(next.flush()).unwrap(), Ok(()), "{by:?}");
        assert_eq!(bench.run(old.flush()).unwrap(), Err(Error::Changed), "{by:?}");
    }
}

/// Checks requests without a handle: they can be for whichever card is in the slot, or for one
/// card.
#[test]
fn a_request_may_be_for_any_card() {
    let (bench, card, scratch) = up("sdhc-16g-hs");
    let stack = bench.stack();
    let first = stack.with(|engine| engine.card_number());
    next_card(&bench, card, scratch, By::BringUp, Some(OTHER));
    let second = stack.with(|engine| engine.card_number());
    let ask = |number| {
        let request = Request::new(Kind::Read { lba: 8, blocks: 1 }, buffer(1)).for_card(number);
        bench.run(stack.request(request)).unwrap().result.map(|output| output.bytes)
    };
    assert_eq!(ask(first), Err(Error::Changed));
    assert_eq!((ask(second), ask(CardNumber::ANY)), (Ok(512), Ok(512)));
}

/// Checks that what a program sends by the handle of one card does not reach the next card.
#[test]
fn a_conversation_is_with_one_card() {
    let (bench, card, scratch) = up("emmc-hs200");
    let stack = bench.stack();
    let (area, scratch) = bench.run(Partition::open(stack, &card, scratch, Area::Boot1)).unwrap();
    let boot = area.unwrap();
    assert_eq!(bench.run(boot.read(0, buffer(1))).unwrap().0, Ok(1));
    let (_, scratch) = next_card(&bench, card, scratch, By::BringUp, Some("emmc-51-full"));
    let read = bench.run(boot.read(0, buffer(1))).unwrap().0;
    assert_eq!(read.map_err(|failed| failed.error), Err(Error::Changed));
    let (result, scratch) = bench.run(enable_extended_ops(stack, &card, scratch)).unwrap();
    assert_eq!(result, Err(Error::Changed));
    let (result, scratch) = bench.run(Partition::open(stack, &card, scratch, Area::Boot1)).unwrap();
    assert_eq!(result.err(), Some(Error::Changed));
    let (result, scratch) = bench.run(card::partition::layout(stack, &card, scratch, Area::Boot1)).unwrap();
    assert_eq!(result.err(), Some(Error::Changed));
    let (result, scratch) = bench.run(power::sleep(stack, &card, scratch)).unwrap();
    assert_eq!(result.err(), Some(Error::Changed));
    let (result, _) = bench.run(power::power_off(stack, &card, scratch, power::Off::Short)).unwrap();
    assert_eq!(result, Err(Error::Changed));
    assert_eq!(bench.run(BlockDevice::new(stack).read(0, buffer(1))).unwrap().0, Ok(1));
}

/// Polls two futures until both have ended. `a` may act on something that `b` waits for.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none() {
            first = ready(a.as_mut().poll(context));
        }
        if second.is_none() {
            second = ready(b.as_mut().poll(context));
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (first.unwrap(), second.unwrap())
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    if let Poll::Ready(it) = poll { Some(it) } else { None }
}

fn sectors(stack: &Stack) -> Option<u64> {
    stack.with(|engine| engine.card_params().map(|params| params.sectors))
}

/// Exchanges the device at each step of `sleep`, and checks that the engine never uses what it knew
/// of the previous device.
#[test]
fn sleep_gives_no_card_back_that_has_gone() {
    let mut cut = 0;
    for steps in 0..200 {
        let (bench, card, scratch) = up("emmc-hs200");
        let stack = bench.stack();
        let device = BlockDevice::new(stack);
        bench.run(device.write(8, buffer(8))).unwrap().0.unwrap();
        let (mut slept, mut told, mut at) = (None, None, 0);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut sleeps = pin!(power::sleep(stack, &card, scratch));
            let mut supervisor = pin!(supervise(stack, buffer(1), Options::DEFAULT, card));
            while slept.is_none() || told.is_none() {
                if slept.is_none() {
                    slept = ready(sleeps.as_mut().poll(&mut context)).map(|(result, _)| result);
                }
                if told.is_none() {
                    told = ready(supervisor.as_mut().poll(&mut context)).map(|(event, _)| event);
                }
                if bench.step().is_err() {
                    break;
                }
                if at == steps {
                    drop(bench.remove());
                    bench.insert(card_named("sdsc-1g").unwrap());
                }
                at += 1;
            }
        }
        if at <= steps {
            break;
        }
        cut += 1;
        let new = match told {
            Some(Event::Inserted(Ok(found)) | Event::Changed(found)) => Some(found.params.sectors),
            Some(event) => panic!("{steps}: {event:?}"),
            // The stack has not noticed the exchange yet.
            None if matches!(slept, Some(Err(_))) => Some(card.params.sectors),
            None => None,
        };
        assert_eq!(sectors(stack), new, "{steps}: {slept:?}");
        if let Some(Ok(asleep)) = slept {
            let woken = bench.run(power::awake(stack, &card, buffer(1), asleep)).unwrap().0;
            assert_eq!(sectors(stack), new, "{steps}: {woken:?}");
        }
    }
    assert!(cut >= 4, "{cut} events alone");
}

/// Checks that a handle does not report abilities of the next card, even in calls that only return
/// values known from bring-up and send nothing to the card.
#[test]
fn what_a_card_can_do_is_not_taken_for_the_next_card() {
    for (first, second) in [("sdhc-16g-hs", None), ("sdhc-16g-hs", Some(OTHER))] {
        let (bench, card, scratch) = up(first);
        let (event, scratch) = {
            bench.remove();
            bench.run(supervise(bench.stack(), scratch, Options::DEFAULT, card)).unwrap()
        };
        assert_eq!(event, Event::Removed);
        let mut back = scratch;
        if let Some(name) = second {
            bench.insert(card_named(name).unwrap());
            let (event, scratch) = bench.run(supervise(bench.stack(), back, Options::DEFAULT, card)).unwrap();
            assert!(matches!(event, Event::Inserted(Ok(_))));
            back = scratch;
        }
        let (result, _) = bench.run(enable_extended_ops(bench.stack(), &card, back)).unwrap();
        assert_eq!(result, Err(Error::Changed), "{second:?}");
        assert!(!bench.stack().with(|engine| engine.abilities().are_known()), "{second:?}");
    }
}

/// Checks that a permanent write protection and a key go to the card that the program means, or to
/// none.
#[test]
fn a_protection_and_a_key_reach_no_other_card() {
    let (bench, card, scratch) = up("emmc-51-full");
    let stack = bench.stack();
    let mut rpmb = bench.run(Rpmb::open(stack, &card, buffer(3))).unwrap().ok().unwrap();
    next_card(&bench, card, scratch, By::BringUp, Some("emmc-hs200"));
    let key = Key([7; 32]);
    let keyed = bench.run(rpmb.program_key(&key, Irreversible::i_know_that_this_cannot_be_undone())).unwrap();
    assert_eq!(keyed, Err(RpmbError::Card(Error::Changed)));
    assert_eq!(bench.run(rpmb.counter(&key, [1; 16])).unwrap(), Err(RpmbError::Card(Error::Changed)));
    let boot = protect_boot(stack, &card, Area::Boot1, Lasts::UntilPowerOff);
    assert_eq!(bench.run(boot).unwrap(), Err(Error::Changed));
    for on in [true, false] {
        let group = protect_group(stack, &card, 0, on);
        assert_eq!(bench.run(group).unwrap(), Err(Error::Changed));
    }
}

type Any<P> = mmcq::task::Stack<(mmcq::board::NoLock, Host, P), 16>;

/// Exchanges the card after each step of a call that enables something for it, also after the last
/// answer of the card and before the call sees it. Returns how often the card was exchanged. The
/// call must report the exchange, and must enable nothing for the next card.
fn enables_nothing_for_the_next<P: Profile, T: std::fmt::Debug>(
    (first, second): (&str, &str),
    profile: impl Fn() -> P,
    before: impl AsyncFn(&Any<P>, &Found),
    enable: impl AsyncFn(&Any<P>, &Found) -> Result<T, Error>,
    check: impl Fn(&Any<P>),
) -> u32 {
    for steps in 0..10_000 {
        let card = card_named(first).unwrap();
        let driver = sdhci::SdhciConfig::new();
        let bench =
            Bench::with_policy(card, SdhciConfig::GENERIC_4_20, driver, Config::DEFAULT, profile()).unwrap();
        let stack = bench.stack();
        let card = bench.run(bring_up(stack, buffer(1), Options::DEFAULT)).unwrap().0.unwrap();
        bench.run(before(stack, &card)).unwrap();
        let mut call = pin!(enable(stack, &card));
        let mut context = Context::from_waker(Waker::noop());
        let mut ended = ready(call.as_mut().poll(&mut context));
        for step in 0..=steps {
            if ended.is_some() {
                break;
            }
            bench.step().unwrap();
            if step < steps {
                ended = ready(call.as_mut().poll(&mut context));
            }
        }
        if let Some(ended) = ended {
            ended.unwrap();
            return steps;
        }
        drop(bench.remove());
        bench.insert(card_named(second).unwrap());
        let next = bench.run(bring_up(stack, buffer(1), Options::DEFAULT)).unwrap().0.unwrap();
        if let FlushBy::Status = next.params.flush {
            // A card whose cache is on, as far as the engine knows.
            let flush = FlushBy::SdCache { at: Extension::default(), timeout_ns: 1_000_000_000 };
            stack.with(|engine| {
                engine.set_card_params(Some(next.params.flush(flush)));
                let _ = engine.set_page(buffer(1));
            });
        }
        let told = bench.run(call).unwrap();
        assert!(matches!(told, Err(Error::Changed | Error::Removed)), "{first}, {steps}: {told:?}");
        check(stack);
    }
    panic!("{first}: the call does not end");
}

/// Checks that a call for one card never tells the engine about the next card.
#[test]
fn what_is_enabled_for_a_card_is_not_enabled_for_the_next() {
    let queue = ("emmc-queue", "emmc-queue-slow");
    let packs = ("emmc-packed", "emmc-51-full");
    let sd = ("sdxc-64g-a2", "sdhc-16g-hs");
    let nothing = async |_: &Any<Queued<Fifo>>, _: &Found| {};
    let depth = async |stack: &Any<Queued<Fifo>>, card: &Found| {
        card::enable_task_queue(stack, card, buffer(1)).await.0
    };
    let off = |stack: &Any<Queued<Fifo>>| {
        assert_eq!(stack.with(|engine| engine.task_stats().map_or(0, |stats| stats.entered)), 0)
    };
    assert!(enables_nothing_for_the_next(queue, || Queued(Fifo), nothing, depth, off) > 0);
    let cache = async |stack: &Any<Queued<Fifo>>, card: &Found| {
        card::extension::enable_cache(stack, card, buffer(1)).await.map_err(|(error, _)| error).map(|_| 0)
    };
    let cached = async |stack: &Any<Queued<Fifo>>, card: &Found| {
        cache(stack, card).await.unwrap();
    };
    let sd_depth = async |stack: &Any<Queued<Fifo>>, card: &Found| {
        card::enable_sd_task_queue(stack, card, buffer(1), SdQueue::DEFAULT.any(true)).await.0
    };
    assert!(enables_nothing_for_the_next(sd, || Queued(Fifo), cached, sd_depth, off) > 0);
    assert!(enables_nothing_for_the_next(sd, || Queued(Fifo), nothing, cache, off) > 0);
    let extended =
        async |stack: &Any<Queued<Fifo>>, card: &Found| enable_extended_ops(stack, card, buffer(1)).await.0;
    let unknown = |stack: &Any<Queued<Fifo>>| assert!(!stack.with(|engine| engine.abilities().are_known()));
    assert!(enables_nothing_for_the_next(packs, || Queued(Fifo), nothing, extended, unknown) > 0);
    let nothing = async |_: &Any<Packed<Fifo>>, _: &Found| {};
    let packed = async |stack: &Any<Packed<Fifo>>, card: &Found| {
        card::enable_packed(stack, card, buffer(1)).await.map_err(|(error, _)| error).map(|_| 0)
    };
    let unpacked = |stack: &Any<Packed<Fifo>>| {
        assert_eq!(stack.with(|engine| engine.pack_stats().map_or(0, |stats| stats.writes)), 0)
    };
    assert!(enables_nothing_for_the_next(packs, || Packed(Fifo), nothing, packed, unpacked) > 0);
}

/// Checks that a call which puts a card to sleep, or switches it off, leaves the next card alone:
/// the next card stays with the engine, and keeps its supply. The cards are exchanged after each
/// step of the call, also after the card's last answer and before the call sees it.
#[test]
fn neither_sleep_nor_power_off_takes_the_next_card_away() {
    for (first, sleeps) in [("emmc-51-full", true), ("emmc-51-full", false), ("sdxc-64g-a2", false)] {
        let (mut exchanges, mut changed, mut ended) = (0, 0, false);
        while !ended {
            let (bench, card, scratch) = up(first);
            let stack = bench.stack();
            bench.run(BlockDevice::new(stack).write(8, buffer(8))).unwrap().0.unwrap();
            let mut call = pin!(async {
                match sleeps {
                    true => power::sleep(stack, &card, scratch).await.0.map(|_| ()),
                    false => power::power_off(stack, &card, scratch, power::Off::Short).await.0,
                }
            });
            let mut context = Context::from_waker(Waker::noop());
            ended = call.as_mut().poll(&mut context).is_ready();
            for step in 0..=exchanges {
                let idle = !ended && bench.step().is_err();
                if !ended && (idle || step < exchanges) {
                    ended = call.as_mut().poll(&mut context).is_ready();
                }
            }
            if ended {
                break;
            }
            exchanges += 1;
            drop(bench.remove());
            bench.insert(card_named("emmc-hs200").unwrap());
            let next = bench.run(bring_up(stack, buffer(1), Options::DEFAULT)).unwrap().0.unwrap();
            let told = bench.run(call).unwrap();
            // The card may have gone to sleep, or lost its supply, before it was exchanged.
            assert!(matches!(told, Ok(()) | Err(Error::Changed)), "{first}, {sleeps}, {exchanges}: {told:?}");
            changed += u32::from(told.is_err());
            assert_eq!(sectors(stack), Some(next.params.sectors), "{first}, sleeps {sleeps}, {exchanges}");
            let read = bench.run(BlockDevice::new(stack).read(0, buffer(1))).unwrap().0;
            assert_eq!(read, Ok(1), "{first}, sleeps {sleeps}, {exchanges}");
        }
        assert!(changed > 3, "{first}, sleeps {sleeps}: {changed} of {exchanges}");
    }
}
