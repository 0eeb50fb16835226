//! Faults and how the stack recovers: a damaged block, a loss of the card's supply, and a
//! supervisor that initialises the card again. `cargo run -p mmcq-sim --example fault_and_recovery`

use futures::future::{Either, select};
use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up, supervise};
use mmcq::engine::RecoveryStep;
use mmcq_sim::bench::{Bench, buffer};
use mmcq_sim::faults::{Plan, Point, Strike};
use std::pin::pin;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::new("sdhc-16g-hs")?;
    let stack = bench.stack();
    let (card, scratch) = bench.run(bring_up(stack, buffer(1), Options::DEFAULT))?;

    // The supervisor runs beside the requests: it initialises the card again when the card has lost
    // its state.
    let mut supervisor = pin!(supervise(stack, scratch, Options::DEFAULT, card?));
    let disk = BlockDevice::new(stack);

    for (fault, plan) in [
        ("a damaged block", Plan::none().next(Point::ReadBlock, &[Strike::Crc])),
        ("a lost supply", Plan::none().next(Point::Command, &[Strike::BrownOut])),
    ] {
        bench.set_faults(plan)?;
        let begin_ns = bench.now_ns();
        let read = pin!(disk.read(0, buffer(8)));
        let Either::Left(((result, _buf), _)) = bench.run(select(read, supervisor.as_mut()))? else {
            return Err("the supervisor has something to tell".into());
        };
        result?;
        println!("{fault}: the read is right after {} us", (bench.now_ns() - begin_ns) / 1000);
    }
    let reinit = stack.with(|engine| engine.stats().recovery_steps[RecoveryStep::Reinit as usize]);
    println!("initialised again: {reinit} times");
    Ok(())
}
