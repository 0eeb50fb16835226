//! Tests with an interrupt at every access to shared state, also inside of an interrupt, and with
//! executors that poll at any time.
//!
//! Everything that contexts share is behind the lock, so only two moments of an interrupt make a
//! difference: where a use of the lock begins, and where it ends. `lock.rs` can interrupt at each
//! of these moments, `every.rs` tests all of them, and `executor.rs` tests them at random with
//! unusual executors.

#[path = "../support/fuzz.rs"]
mod fuzz;
#[path = "../support/io_card.rs"]
mod io_card;
#[path = "../support/one_thread.rs"]
#[allow(dead_code, reason = "only its clock: the lock is ours")]
mod one_thread;
#[path = "../support/mod.rs"]
mod support;

mod bench;
mod every;
mod executor;
mod lock;
