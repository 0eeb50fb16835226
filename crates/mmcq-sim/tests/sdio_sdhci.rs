//! An I/O card behind the SDHCI model: bring-up, functions, the card interrupt by the controller's
//! own bit, and packets in the interrupt's time.

#[path = "../../mmcq/tests/support/one_thread.rs"]
mod one_thread;

use mmcq::card::{Options, bring_up_io};
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::sdhci::{self, Table};
use mmcq::host::{Timing, Width};
use mmcq::sdio::bluetooth::{self, TypeA};
use mmcq::sdio::{CardInterrupt, Function};
use mmcq_sim::card::io::{IoProfile, type_a};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use one_thread::{NOW_NS, OneThread, TIMER};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Driver = sdhci::Sdhci<Port, ShadowMemory, 17>;
type Stack = mmcq::task::Stack<(OneThread, Driver), 4>;

/// Polls the future and lets virtual time run to the next interrupt or deadline whenever it waits.
fn drive<F: Future>(stack: &Stack, model: &Rc<RefCell<Sdhci>>, time: &Time, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        NOW_NS.set(time.now());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        if !model.borrow().irq() {
            let deadline = stack.with(|engine| engine.next_deadline_ns());
            let next = model.borrow().next_event_ns();
            let until = deadline.into_iter().chain(next).min().expect("nothing will ever happen");
            let reached = model.borrow_mut().advance(until.max(time.now()));
            time.set(reached.max(time.now()));
        }
        NOW_NS.set(time.now());
        if model.borrow().irq() { stack.on_irq() } else { stack.poll() }
    }
}

fn memory(bytes: usize) -> DmaBuf {
    let words: &'static mut [u64] = Box::leak(vec![0; bytes.div_ceil(8)].into_boxed_slice());
    // SAFETY: bytes of the same memory, not more than it has.
    DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), bytes) })
}

#[test]
fn packets_come_in_by_the_card_interrupt() {
    const PACKETS: u64 = 40;
    let path = format!("{}/cards/bt-type-a.toml", env!("CARGO_MANIFEST_DIR"));
    let profile = IoProfile::from_toml(&std::fs::read_to_string(&path).unwrap(), "bt-type-a").unwrap();
    let (card, handles) = profile.build();
    let time = Time::new();
    let shadow = ShadowMemory::new(MemoryConfig::BITS32);
    let model =
        Rc::new(RefCell::new(Sdhci::new(SdhciConfig::GENERIC_4_20, shadow.clone(), Some(Box::new(card)))));
    let port = Port::new(model.clone(), time.clone(), 0, 0);
    let table = Box::leak(Box::new(Table::new()));
    let host = sdhci::Sdhci::new(port, shadow.clone(), table, sdhci::SdhciConfig::new()).unwrap();
    NOW_NS.set(0);
    let stack: Stack = Stack::new(OneThread, TIMER, host, Config::DEFAULT);
    let found = drive(&stack, &model, &time, bring_up_io(&stack, memory(512), Options::DEFAULT)).0;
    let card = found.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((card.count(), card.timing, card.width), (1, Timing::HighSpeed, Width::W4));
    let receive = async {
        let mut irq = CardInterrupt::new(&stack, &card);
        let function = Function::new(&stack, &card, 1).unwrap();
        let bluetooth = TypeA::open(function, &mut irq, 512).await.unwrap();
        let mut buf = memory(2048);
        for number in 0..PACKETS {
            let result;
            (result, buf) = bluetooth.receive(&mut irq, buf).await;
            let got = result.unwrap_or_else(|error| panic!("packet {number}: {error}"));
            let sent = type_a::packet(number, 2048);
            let payload = sent.get(bluetooth::HEADER_BYTES as usize..).unwrap();
            assert_eq!(got.bytes as usize, payload.len());
            assert!(buf.get(..payload.len()) == Some(payload), "packet {number}: other data than sent");
        }
    };
    drive(&stack, &model, &time, receive);
    let (_, handle) = &handles[0];
    let counts = handle.borrow();
    assert_eq!((counts.delivered, counts.overrun, counts.retried, counts.stray), (PACKETS, 0, 0, 0));
    // From the line to the cleared cause: two CMD52 of about 2 us at 50 MHz, nothing else: the
    // software costs nothing here.
    let worst_ns = counts.latency_ns.iter().max().unwrap();
    assert!(*worst_ns < 20_000, "{worst_ns}");
    assert_eq!(shadow.violations(), Vec::<String>::new());
    assert_eq!(model.borrow().protocol_violations(), 0);
}
