//! Asynchronous reads: 16 reads wait in the queue at once, and the stack orders, merges and starts
//! them. `cargo run -p mmcq-sim --example async_queue`

use futures::future::join_all;
use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up};
use mmcq_sim::bench::{Bench, buffer};

/// Number of blocks of each read.
const BLOCKS: u64 = 8;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::new("sdxc-128g-uhs")?;
    let stack = bench.stack();
    bench.run(bring_up(stack, buffer(1), Options::DEFAULT))?.0?;

    // All these handles share the stack's queue, and a scheduler takes them for one client.
    // `Request::from` sets another client.
    let read = async |lba| BlockDevice::new(stack).read(lba, buffer(BLOCKS as usize)).await;
    let begin_ns = bench.now_ns();
    let results = bench.run(join_all((0..16).map(|at| read(at * BLOCKS))))?;
    for (result, _buf) in results {
        assert_eq!(result?, BLOCKS as u32);
    }
    let transfers = stack.with(|engine| engine.stats().transfers);
    println!("16 reads of 4 KiB: {transfers} transfers, {} us", (bench.now_ns() - begin_ns) / 1000);
    Ok(())
}
