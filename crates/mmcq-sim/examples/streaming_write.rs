//! A stream of writes to the card: two buffers take turns, so the card seldom waits for the
//! program. `cargo run -p mmcq-sim --example streaming_write`

use futures::future::join;
use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up};
use mmcq::engine::DmaBuf;
use mmcq_sim::bench::{Bench, buffer};

/// Number of blocks in each buffer: 64 KiB.
const BLOCKS: u64 = 128;
/// Number of buffers that each of the two futures writes.
const ROUNDS: u64 = 32;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::new("sdxc-128g-uhs")?;
    let stack = bench.stack();
    bench.run(bring_up(stack, buffer(1), Options::DEFAULT))?.0?;

    // While one future's buffer is being written, the other future fills its own. Each write
    // returns its buffer.
    let half = async |first: u64, mut buf: DmaBuf| {
        for round in 0..ROUNDS {
            buf.fill(round as u8);
            let lba = (2 * round + first) * BLOCKS;
            let result;
            (result, buf) = BlockDevice::new(stack).write(lba, buf).await;
            result?;
        }
        Ok::<(), mmcq::engine::Error>(())
    };
    let begin_ns = bench.now_ns();
    let both = join(half(0, buffer(BLOCKS as usize)), half(1, buffer(BLOCKS as usize)));
    let (first, second) = bench.run(both)?;
    first.and(second)?;
    bench.run(BlockDevice::new(stack).flush())??;
    let bytes = 2 * ROUNDS * BLOCKS * 512;
    println!("{} MB/s", bytes * 1000 / (bench.now_ns() - begin_ns));
    Ok(())
}
