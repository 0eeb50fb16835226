//! The only clock of the tests: it ends a test program that hangs, so that nobody waits for it for
//! ever. A test waits for events, however long that takes; nothing depends on this limit.

#![allow(clippy::print_stderr, reason = "it says which test hangs")]

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A time that no test takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// A watch over a test, until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Watches the test that calls it.
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
        // It ends at once, and has nothing to say.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
