//! The interrupt at every shared access, and once more inside itself; and executors that poll as
//! they please.
//!
//! Everything that contexts share is behind the lock, so an interrupt makes a difference only
//! between two moments of it: where one begins and where one ends. `lock.rs` can interrupt at each
//! of them, `every.rs` tries them all, `executor.rs` mixes them with strange executors at random.

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
