//! How many instructions a packet of Bluetooth Type-A takes, step by step: the driver of the crate
//! (`async fn`, polled from the interrupt), a state machine of callbacks that does the same, and
//! the engine alone with the same phases. Run it by `tools/path-length.sh`, which counts with
//! callgrind.
//!
//! The models of controller and card take almost no instructions, so that only the stack's own work
//! is measured.

#[path = "type_a_length/by_await.rs"]
mod by_await;
#[path = "type_a_length/callbacks.rs"]
mod callbacks;
#[path = "type_a_length/card.rs"]
mod card;
#[path = "type_a_length/engine_alone.rs"]
mod engine_alone;
#[path = "type_a_length/steps.rs"]
mod steps;

use by_await::{Counted, LOCKED, OneThread};
use mmcq::engine::DmaBuf;
use mmcq::task::Timer;
use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;

/// A timer for a program in which no time passes and no alarm is needed.
const TIMER: Timer = Timer { now_ns: || 0, set_alarm: |_| {} };

/// Handles one interrupt. Callgrind counts the instructions of this function.
#[inline(never)]
fn counted(interrupt: &mut dyn FnMut()) {
    interrupt();
}

/// Receives `count` packets. `which` is the interrupt of each packet whose instructions are
/// counted: 0 is the card interrupt, 1 is the end of the first phase, `None` means all interrupts.
fn drive(interrupt: &mut dyn FnMut(), packets: &dyn Fn() -> u64, fast: bool, count: u64, which: Option<u64>) {
    // To the end of the first packet: bring-up is over.
    for _ in 0..100 {
        if packets() > 0 {
            break;
        }
        interrupt();
    }
    let phases = if fast { 5 } else { 6 };
    let before = packets();
    LOCKED.store(0, Relaxed);
    for _ in 0..count {
        for at in 0..=phases {
            if which.is_none_or(|which| which == at) {
                counted(interrupt);
            } else {
                interrupt();
            }
        }
    }
    assert_eq!(packets() - before, count, "a packet takes other interrupts than its phases and its own");
    println!(
        "packets {count} interrupts {} locks {}",
        phases + 1,
        LOCKED.load(Relaxed) as f64 / count as f64
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [who, functions, which, count] = args.as_slice() else {
        eprintln!("usage: type_a_length async|locks|callbacks|engine 1|2 all|INTERRUPT COUNT");
        std::process::exit(2);
    };
    let fast = functions == "1";
    let which = (which != "all").then(|| which.parse().expect("INTERRUPT is a number"));
    let count = count.parse().expect("COUNT is a number");
    let words: &'static mut [u64] =
        Box::leak(vec![0u64; card::PAYLOAD_BYTES as usize / 8].into_boxed_slice());
    // SAFETY: any bytes are valid, and the memory lives for ever.
    let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) };
    let buf = DmaBuf::from_static(bytes);
    match who.as_str() {
        "async" => by_await::run(OneThread, buf, fast, count, which),
        "locks" => by_await::run(Counted, buf, fast, count, which),
        "callbacks" => {
            let machine = RefCell::new(callbacks::Machine::new(buf, if fast { 2 } else { 6 }));
            let packets = || machine.borrow().packets;
            drive(&mut || machine.borrow_mut().on_irq(), &packets, fast, count, which);
            let machine = machine.borrow();
            assert_eq!((machine.lost, machine.bytes()), (0, card::PAYLOAD_BYTES), "a packet was lost");
        }
        "engine" => {
            let only = RefCell::new(engine_alone::Loop::new(buf, fast));
            drive(&mut || only.borrow_mut().on_irq(), &|| only.borrow().packets, fast, count, which);
        }
        other => panic!("{other}: expected async, locks, callbacks or engine"),
    }
}
