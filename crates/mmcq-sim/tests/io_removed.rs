//! Tests of an I/O card that is removed while a driver waits for its interrupt.

use mmcq::card::{Options, bring_up_io};
use mmcq::host::sdhci;
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

/// Checks that a driver that waits for the interrupt of a removed card is woken: otherwise it would
/// wait for ever. Its next command reports the removal.
#[test]
fn a_driver_that_waits_for_the_interrupt_of_a_card_that_goes_is_woken() {
    let path = format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (card, _handles) = IoProfile::from_toml(&text, "bt-type-a").unwrap().build();
    let bench = Bench::with(Box::new(card), SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new()).unwrap();
    let stack = bench.stack();
    let (card, _) = bench.run(bring_up_io(stack, buffer(1), Options::DEFAULT)).unwrap();
    let card = card.unwrap();
    let mut interrupt = CardInterrupt::new(stack, &card);
    let function = Function::new(stack, &card, 1).unwrap();
    let mut wait = pin!(interrupt.wait());
    let count = Arc::new(Count(AtomicU32::new(0)));
    let waker = Waker::from(count.clone());
    let mut poll = || wait.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(poll(), Poll::Pending);
    let _card = bench.remove();
    let _ = bench.run(stack.pause(1_000_000)).unwrap();
    assert!(count.0.load(Relaxed) > 0, "its task sleeps for ever");
    assert_eq!(poll(), Poll::Ready(Ok(())));
    assert!(bench.run(function.read_u8(0x13, Chain::Last)).unwrap().is_err());
    assert!(!stack.with(|engine| engine.present()));
}
