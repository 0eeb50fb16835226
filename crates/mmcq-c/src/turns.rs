//! Lets one context (thread or interrupt) at a time do a kind of work, such as calling callbacks. A
//! context that finds such work while another context does it leaves the work to that context.

use core::sync::atomic::{AtomicBool, Ordering, fence};

/// The right to do the work, called the turn. A context that finds the turn taken leaves its work
/// to the context that has the turn.
///
/// Each context stores one flag and then loads the other; a fence in between keeps this order.
/// Without the fences, the context that gives the turn back could miss `again` while the other
/// context still sees the turn taken; then no context would do the work.
pub(crate) struct Turns {
    taken: AtomicBool,
    /// Whether another context has found the turn taken, and so has left its work to the context
    /// that has the turn.
    again: AtomicBool,
}

impl Turns {
    pub const fn new() -> Self {
        Turns { taken: AtomicBool::new(false), again: AtomicBool::new(false) }
    }

    /// Takes the turn (the right to do the work). Returns false if another context has the turn;
    /// that context also does the work of this call.
    pub fn take(&self) -> bool {
        self.again.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.taken.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.again.store(false, Ordering::Release);
        true
    }

    /// Gives the turn (the right to do the work) back. Returns true if another context has left
    /// work in the meantime; the caller must then take the turn again.
    pub fn give_back(&self) -> bool {
        self.taken.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
        self.again.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::Turns;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::vec::Vec;

    #[test]
    fn a_context_that_finds_it_taken_leaves_its_work() {
        let turns = Turns::new();
        assert!(turns.take());
        assert!(!turns.take(), "another context has it");
        assert!(turns.give_back(), "there is work");
        assert!(turns.take());
        assert!(!turns.give_back());
    }

    const ROUNDS: u32 = 10_000;

    /// Waits until both threads have come to the `count`-th meeting.
    fn meet(met: &AtomicU32, count: u32) {
        met.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0u32;
        while met.load(Ordering::Acquire) < 2 * count {
            looks += 1;
            if looks.is_multiple_of(1000) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Without the memory fences of [`Turns`], this test fails on an x86-64 with two cores: in one
    /// round of some hundreds, both threads leave without doing the work.
    #[test]
    fn no_work_is_left_lying() {
        let shared = Arc::new((Turns::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let both: Vec<_> = [17, 13]
            .map(|delays| {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let (turns, work, met) = &*shared;
                    let mut left = 0;
                    for round in 0..ROUNDS {
                        meet(met, 2 * round + 1);
                        for _ in 0..round % delays {
                            std::hint::spin_loop();
                        }
                        work.fetch_add(1, Ordering::Relaxed);
                        while turns.take() {
                            work.swap(0, Ordering::Relaxed);
                            if !turns.give_back() {
                                break;
                            }
                        }
                        meet(met, 2 * round + 2);
                        left += work.load(Ordering::Relaxed);
                    }
                    left
                })
            })
            .into_iter()
            .collect();
        for thread in both {
            assert_eq!(thread.join().unwrap(), 0);
        }
    }
}
