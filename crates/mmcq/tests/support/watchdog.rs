//! Watchdog that ends a test program which hangs. Its limit is the only one in real time: a test
//! waits for events, however long this takes, and no result depends on the limit.

#![allow(clippy::print_stderr, reason = "it says which test hangs")]

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time after which a test counts as hanging; no test needs so long, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Watch over a test until this value is dropped.
#[derive(Debug)]
pub struct Watchdog {
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the watch over the calling test.
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
