//! Tests of an I/O card that is removed while a driver waits for its interrupt.

use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::Config;
use mmcq::host::sdhci;
use mmcq::sched::{Fifo, Lean, Profile};
use mmcq::sdio::{CardInterrupt, Chain, Function};
use mmcq_sim::bench::{Bench, buffer};
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::sdhci::SdhciConfig;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn up<P: Profile>(policy: P) -> (Bench<P>, IoCard) {
    let path = format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (card, _handles) = IoProfile::from_toml(&text, "bt-type-a").unwrap().build();
    let (model, driver) = (SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    let bench = Bench::with_policy(Box::new(card), model, driver, Config::DEFAULT, policy).unwrap();
    let (card, _) = bench.run(bring_up_io(bench.stack(), buffer(1), Options::DEFAULT)).unwrap();
    (bench, card.unwrap())
}

/// Removes the card while a driver waits for its interrupt; `enabled`: the interrupt is enabled.
/// With `late` the driver begins to wait shortly after the removal. Its next command must report
/// the removal.
fn gone<P: Profile>(policy: P, enabled: bool, late: bool) {
    let what = format!("enabled {enabled}, late {late}, recovers {}", P::RECOVERS);
    let (bench, card) = up(policy);
    let stack = bench.stack();
    let mut interrupt = CardInterrupt::new(stack, &card);
    let function = Function::new(stack, &card, 1).unwrap();
    if enabled {
        bench.run(interrupt.enable(1)).unwrap().unwrap();
    }
    let mut wait = pin!(interrupt.wait());
    let count = Arc::new(Count(AtomicU32::new(0)));
    let waker = Waker::from(count.clone());
    let mut poll = || wait.as_mut().poll(&mut Context::from_waker(&waker));
    if !late {
        assert_eq!(poll(), Poll::Pending, "{what}");
    }
    let _card = bench.remove();
    let _ = bench.run(stack.pause(1_000_000)).unwrap();
    assert!(!stack.with(|engine| engine.present()));
    let mut ended = poll();
    if late && ended.is_pending() {
        // The engine reports the removal when the slot has been empty for a moment.
        bench.run(bench.sleep(100_000_000)).unwrap();
        assert!(count.0.load(Relaxed) > 0, "{what}: its task sleeps for ever");
        ended = poll();
    } else if !late {
        assert!(count.0.load(Relaxed) > 0, "{what}: its task sleeps for ever");
    }
    assert_eq!(ended, Poll::Ready(Ok(())), "{what}");
    assert!(bench.run(function.read_u8(0x13, Chain::Last)).unwrap().is_err(), "{what}");
}

/// Checks that a driver that waits for the interrupt of a removed card is woken: otherwise it would
/// wait for ever. Its next command reports the removal.
#[test]
fn a_driver_that_waits_for_the_interrupt_of_a_card_that_goes_is_woken() {
    for enabled in [false, true] {
        gone(Fifo, enabled, false);
    }
}

/// Checks a driver that begins to wait after the removal was noted, and before the slot counts as
/// empty.
#[test]
fn a_driver_that_begins_to_wait_for_a_card_that_has_just_gone_is_woken() {
    for enabled in [false, true] {
        gone(Fifo, enabled, true);
    }
}

#[test]
fn a_driver_on_lean_firmware_is_woken_too() {
    gone(Lean(Fifo), false, false);
    gone(Lean(Fifo), true, false);
    gone(Lean(Fifo), true, true);
}
