//! `embassy-time` as the clock and the timer of the stack.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};
use critical_section::Mutex;
use embassy_time::{Instant, TICK_HZ};
use mmcq::task::{Platform, Stack, Timer};

/// Number of stacks in a program that can have a clock.
pub const CLOCKS: usize = 4;

const SECOND_NS: u64 = 1_000_000_000;

/// State of the timer of one stack.
struct Alarm {
    deadline_ns: Cell<Option<u64>>,
    /// Waker of the task that runs [`Clock::run`].
    waker: RefCell<Option<Waker>>,
}

static ALARMS: [Mutex<Alarm>; CLOCKS] =
    [const { Mutex::new(Alarm { deadline_ns: Cell::new(None), waker: RefCell::new(None) }) }; CLOCKS];

/// The clock of one stack: number `I` of [`CLOCKS`]. Each number is for one stack only.
///
/// Pass [`TIMER`](Self::TIMER) to [`Stack::new`], and let a task await [`run`](Self::run) as long
/// as the stack is used. Without that task nothing polls the stack at its deadlines: pauses, and
/// waits for a controller that does not respond, would never end.
#[derive(Clone, Copy, Debug)]
pub struct Clock<const I: usize>;

impl<const I: usize> Clock<I> {
    const INDEX: usize = {
        assert!(I < CLOCKS, "there are four clocks, 0 to 3");
        I
    };

    /// The timer for [`Stack::new`]: returns the time of `embassy-time`, and wakes the task of
    /// [`run`](Self::run) at the stack's deadline.
    pub const TIMER: Timer = Timer { now_ns, set_alarm: Self::set_alarm };

    fn alarm() -> &'static Mutex<Alarm> {
        &ALARMS[Self::INDEX]
    }

    /// Sets the time in ns at which the stack's task is woken; `None`: at no time. The time driver
    /// keeps only the earliest wake-up of a task, so moving the alarm to a later time costs one
    /// unnecessary poll.
    fn set_alarm(at_ns: Option<u64>) {
        critical_section::with(|cs| {
            let alarm = Self::alarm().borrow(cs);
            alarm.deadline_ns.set(at_ns);
            if let Some(at_ns) = at_ns
                && let Some(waker) = &*alarm.waker.borrow()
            {
                embassy_time_driver::schedule_wake(ticks_after(at_ns), waker);
            }
        });
    }

    /// Polls the stack at each of its deadlines. Never returns.
    pub async fn run<B: Platform, const N: usize>(stack: &Stack<B, N>) -> ! {
        loop {
            poll_fn(|context| {
                let known = critical_section::with(|cs| {
                    Self::alarm().borrow(cs).waker.replace(Some(context.waker().clone()))
                });
                // Drop the waker outside of the critical section, because dropping it may run any
                // code.
                drop(known);
                let due = critical_section::with(|cs| {
                    let deadline_ns = Self::alarm().borrow(cs).deadline_ns.get();
                    match deadline_ns {
                        Some(at_ns) if now_ns() >= at_ns => true,
                        Some(at_ns) => {
                            embassy_time_driver::schedule_wake(ticks_after(at_ns), context.waker());
                            false
                        }
                        None => false,
                    }
                });
                if due { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            // The poll sets the timer for the next deadline.
            stack.poll();
            // If the poll leaves a deadline in the past, poll again, but let other tasks run in
            // between.
            let mut yielded = false;
            poll_fn(|context| {
                if core::mem::replace(&mut yielded, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }
}

/// Returns the time since start-up in nanoseconds, by `embassy-time`.
fn now_ns() -> u64 {
    ns(Instant::now().as_ticks())
}

/// Returns a number of ticks in nanoseconds, rounded down.
const fn ns(ticks: u64) -> u64 {
    let (seconds, rest) = (ticks / TICK_HZ, ticks % TICK_HZ);
    seconds
        .saturating_mul(SECOND_NS)
        .saturating_add((rest as u128 * SECOND_NS as u128 / TICK_HZ as u128) as u64)
}

/// Returns the first tick at which [`ns`] is at least `at_ns`.
const fn ticks_after(at_ns: u64) -> u64 {
    let (seconds, rest) = (at_ns / SECOND_NS, at_ns % SECOND_NS);
    seconds
        .saturating_mul(TICK_HZ)
        .saturating_add((rest as u128 * TICK_HZ as u128).div_ceil(SECOND_NS as u128) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_never_early_and_less_than_a_tick_late() {
        for at_ns in [0, 1, 999, 1000, 1001, 999_999_999, 1_000_000_000, 1_000_000_001, 86_400_000_000_123] {
            let tick = ticks_after(at_ns);
            assert!(ns(tick) >= at_ns, "{at_ns}");
            assert!(tick == 0 || ns(tick - 1) < at_ns, "{at_ns}");
        }
        assert!(ticks_after(u64::MAX) > 0);
        assert!(ns(u64::MAX) > 0);
    }
}
