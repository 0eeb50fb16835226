//! A request to stop work before its end, which all threads of one piece of work can check.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Request to stop that the work of this thread obeys; `None`: the work always comes to its
    /// end.
    static HEARD: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// A request to stop work before its end. All clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the work to end.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the end of the work was requested.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Does a piece of work that can be stopped by this request: [`heard`](Self::heard) returns the
    /// request in this thread, and in the threads that [`super::in_order`] starts for the work.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Guard for the request to stop that this thread obeyed before. When it is dropped, also
        /// after a panic, the thread obeys that request again.
        struct Before(Option<Stop>);
        impl Drop for Before {
            fn drop(&mut self) {
                HEARD.set(self.0.take());
            }
        }
        let _before = Before(HEARD.replace(Some(self.clone())));
        work()
    }

    /// Returns the request to stop that the work of this thread must obey; `None` if there is none.
    pub fn heard() -> Option<Stop> {
        HEARD.with_borrow(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::Stop;
    use crate::parallel::each;

    #[test]
    fn threads_hear_the_wish_of_the_work_that_started_them_and_no_other() {
        let stop = Stop::default();
        let asked = || each(4, 2, |_| Stop::heard().map(|stop| stop.is_asked()));
        assert_eq!(asked(), [None; 4]);
        assert_eq!(stop.during(asked), [Some(false); 4]);
        stop.ask();
        assert_eq!(stop.during(asked), [Some(true); 4]);
        // A piece of work inside of another hears its own wish, and the outer one hears its own
        // again.
        let inner = Stop::default();
        let both = stop.during(|| (inner.during(asked), asked()));
        assert_eq!(both, (vec![Some(false); 4], vec![Some(true); 4]));
        assert!(Stop::heard().is_none());
    }
}
