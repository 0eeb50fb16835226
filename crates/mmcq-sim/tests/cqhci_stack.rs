//! The whole stack on the driver of the queue engine, whose controller is one like any other.

#[path = "../../mmcq/tests/support/one_thread.rs"]
mod one_thread;
mod queue;

use mmcq::engine::{Config, DmaBuf};
use mmcq_sim::sdhci::Sdhci;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use one_thread::{NOW_NS, OneThread, TIMER};
use queue::{FORMS, Parts, Rig};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Turns a stack until this is over.
fn drive<F: Future>(stack: &Stack, built: &Turned, future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..1_000_000 {
        NOW_NS.set(built.time.now());
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        let until_ns = stack.with(|engine| engine.next_deadline_ns()).expect("a deadline");
        if !built.model.borrow().irq() {
            let reached_ns = built.model.borrow_mut().advance(until_ns.max(built.time.now()));
            built.time.set(reached_ns.max(built.time.now()));
        }
        NOW_NS.set(built.time.now());
        if built.model.borrow().irq() { stack.on_irq() } else { stack.poll() }
    }
    panic!("no end");
}

type Stack = mmcq::task::Stack<(OneThread, queue::Driver), 4>;

struct Turned {
    model: Rc<RefCell<Sdhci>>,
    time: Time,
}

#[test]
fn a_stack_drives_the_controller_as_if_it_had_no_queue_engine() {
    for form in FORMS {
        let queue::Built { host, model, memory, time, .. } = Rig::built(Parts::new(form));
        let stack = Stack::new(OneThread, TIMER, host, Config::DEFAULT);
        let built = Turned { model, time };
        let buffer = |fill: u64| DmaBuf::from_static(as_bytes(Box::leak(vec![fill; 512].into_boxed_slice())));
        let up = mmcq::card::bring_up(&stack, buffer(0), mmcq::card::Options::DEFAULT);
        let (card, _) = drive(&stack, &built, up);
        assert!(card.unwrap().params.sectors > 1 << 20, "{form:?}");
        let disk = mmcq::block::BlockDevice::new(&stack);
        let (result, _) = drive(&stack, &built, disk.write(800, buffer(0x0123_4567_89ab_cdef)));
        result.unwrap();
        drive(&stack, &built, disk.flush()).unwrap();
        let (result, read) = drive(&stack, &built, disk.read(800, buffer(0)));
        result.unwrap();
        assert!(read.chunks(8).all(|word| word == 0x0123_4567_89ab_cdef_u64.to_ne_bytes()));
        assert_eq!(memory.violations(), Vec::<String>::new(), "{form:?}");
        assert_eq!(built.model.borrow().first_violation(), None, "{form:?}");
    }
}

fn as_bytes(words: &'static mut [u64]) -> &'static mut [u8] {
    // SAFETY: bytes of the same memory, of the same length.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}
