//! Helpers for a stack over a model in virtual time: how both are advanced, and further functions
//! that tests need.

#![allow(dead_code, reason = "each test binary uses its own part")]

#[path = "../../../mmcq/tests/support/one_thread.rs"]
pub mod one_thread;

#[path = "../../../mmcq/tests/support/erased.rs"]
pub mod erased;
pub mod load;

use mmcq::board::NoLock;
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::Host;
use mmcq::sched::Fifo;
use mmcq::task::{Platform, Stack};
use mmcq_sim::card::Card;
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::memory::ShadowMemory;
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use one_thread::{NOW_NS, TIMER};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The stack of most tests. It is built once for each type of driver and scheduler: see [`erased`].
pub type On<H, P = Fifo> = Stack<(NoLock, H, P), 16>;

/// Returns a stack over this driver.
pub fn on<H: Host>(host: H, config: Config) -> On<H> {
    Stack::with_policy(NoLock::new(), TIMER, host, config, Fifo)
}

/// Number of polls after which a future counts as never ready.
pub const TURNS_MAX: u32 = 3_000_000;

/// Advances to the next interrupt or deadline, and lets the stack handle it.
pub fn turn<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Device + ?Sized>,
    time: &Time,
) -> Result<(), String> {
    let next = model.borrow().next_event_ns();
    let until = stack.with(|engine| engine.next_deadline_ns()).or(next);
    turn_to(stack, model, time, until)
}

/// Advances to the next event of the model, or to the stack's deadline if that is earlier, and lets
/// the stack handle it. The event need not interrupt.
pub fn step<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Device + ?Sized>,
    time: &Time,
) -> Result<(), String> {
    let next = model.borrow().next_event_ns();
    let until = stack.with(|engine| engine.next_deadline_ns()).into_iter().chain(next).min();
    turn_to(stack, model, time, until)
}

/// Advances until this time, and lets the stack handle everything on the way.
pub fn run_to<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Device + ?Sized>,
    time: &Time,
    until_ns: u64,
) -> Result<(), String> {
    while time.now() < until_ns {
        let due = stack.with(|engine| engine.next_deadline_ns()).map_or(until_ns, |at| at.min(until_ns));
        turn_to(stack, model, time, Some(due))?;
    }
    Ok(())
}

/// Advances to the next interrupt, at most until this time, and lets the stack handle it.
fn turn_to<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Device + ?Sized>,
    time: &Time,
    until: Option<u64>,
) -> Result<(), String> {
    if !model.borrow().irq() {
        let until = until.ok_or("nothing will ever happen")?.max(time.now());
        let reached = model.borrow_mut().advance(until);
        time.set(reached.max(time.now()));
    }
    NOW_NS.set(time.now());
    if !model.borrow().irq() {
        stack.poll();
        return Ok(());
    }
    // With PIO the next bytes may be ready at once. Otherwise an interrupt line that stays asserted
    // is an interrupt storm.
    for _ in 0..=4096 {
        stack.on_irq();
        NOW_NS.set(time.now());
        if !model.borrow().irq() {
            return Ok(());
        }
    }
    Err("the driver left the interrupt asserted".into())
}

/// Polls the future, and advances time while it waits.
pub fn try_drive<F: Future>(
    time: &Time,
    mut turn: impl FnMut() -> Result<(), String>,
    future: F,
) -> Result<F::Output, String> {
    let mut future = pin!(future);
    for _ in 0..TURNS_MAX {
        NOW_NS.set(time.now());
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(output);
        }
        turn()?;
    }
    Err(format!("no end after {TURNS_MAX} turns"))
}

/// Polls the future of a stack over a model, and advances time while it waits.
pub fn drive<B: Platform, const N: usize, F: Future>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Device + ?Sized>,
    time: &Time,
    future: F,
) -> F::Output {
    try_drive(time, || turn(stack, model, time), future).unwrap()
}

/// Checks that nothing was done that the memory or the controller forbids.
pub fn checked(memory: &ShadowMemory, model: &RefCell<impl Controller + ?Sized>) {
    assert_eq!(memory.violations(), Vec::<String>::new());
    assert_eq!(model.borrow().protocol_violations(), 0);
}

/// Returns the profile of a storage card, by the name of its file.
pub fn profile(name: &str) -> CardProfile {
    let path = format!("{}/../mmcq-sim/cards/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    CardProfile::from_toml(&text, name).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a card of this profile, with all of its blocks.
pub fn card(profile: &CardProfile) -> Box<dyn Card> {
    profile.build(medium(profile)).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the card's blocks, which take no memory until they are written.
pub fn medium(profile: &CardProfile) -> Medium {
    Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap()
}

/// Returns `count` zero bytes, aligned for every controller.
pub fn bytes(count: usize) -> DmaBuf {
    let words: &'static mut [u64] = Box::leak(vec![0; count.div_ceil(8)].into_boxed_slice());
    // SAFETY: the bytes are inside of the memory.
    DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), count) })
}

/// Returns memory for `count` blocks, filled with zeros.
pub fn blocks(count: usize) -> DmaBuf {
    bytes(count * 512)
}

/// Returns memory for `count` blocks in which every byte has this value.
pub fn filled(count: usize, byte: u8) -> DmaBuf {
    let mut buf = blocks(count);
    buf.fill(byte);
    buf
}
