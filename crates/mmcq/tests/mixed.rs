//! Tests of programs of requests of all kinds with faults, against a reference: what the page
//! `docs/durable.md` promises, in all combinations of the controller's and the card's abilities.
//!
//! The dimensions that are drawn together: pieces (the most blocks of a transfer), how the end of
//! busy is seen, how a transfer ends, open transfers, a cache, reliable writes, when a write is
//! complete, schedulers, lanes (queue, packs, chains), several clients, all kinds of requests on few
//! blocks, cancelled requests, halts, suspensions, a card that is taken out, a supervisor that
//! leaves; and up to four faults.

mod card;
mod cases;
mod execute;
mod host;
mod program;
mod run;
mod shrink;

use crate::fuzz;
use program::Program;

#[test]
fn fuzz_mixed_programs() {
    fuzz::fuzz("fuzz_mixed_programs", 1_500, |u| {
        let seed = u.arbitrary()?;
        if let Some(program) = shrink::shrunk(&Program::drawn(seed)) {
            panic!("seed {seed}: {}", shrink::told(&program));
        }
        Ok(())
    });
}
