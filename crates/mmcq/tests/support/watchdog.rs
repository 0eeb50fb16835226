//! Watchdog that ends a test program if one of its tests hangs. A test waits for events, and sets
//! no limit in real time by itself. Only this watchdog has such a limit, and no test result depends
//! on it.

#![allow(clippy::print_stderr, reason = "it says which test hangs")]

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time after which a test counts as hanging; no test needs so long, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Watchdog over a running test. Dropping this value ends the watch.
#[derive(Debug)]
pub struct Watchdog {
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a watchdog over the test that calls this function.
pub fn watch() -> Watchdog {
    let (alive, ended) = channel();
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let thread = std::thread::spawn(move || {
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs: no end after {} minutes", LIMIT.as_secs() / 60);
            std::process::abort();
        }
    });
    Watchdog { alive: Some(alive), thread: Some(thread) }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.alive.take());
        // The thread ends at once and returns nothing.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
