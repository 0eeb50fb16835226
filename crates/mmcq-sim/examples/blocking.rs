//! Blocking calls: write a block, flush, read it back. `cargo run -p mmcq-sim --example blocking`

use mmcq::block::{Block, BlockDevice};
use mmcq::card::{Options, bring_up};
use mmcq_sim::bench::{Bench, buffer};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::new("sdhc-16g-hs")?;
    let (stack, idle) = (bench.stack(), bench.idle());

    // Brings the card up, from switching on its supply until it accepts reads and writes. On a
    // board, `idle` sleeps by `wfi`.
    let (card, _scratch) = stack.block_on(bring_up(stack, buffer(1), Options::DEFAULT), idle);
    let card = card?;
    println!("{} blocks, {:?} at {} Hz", card.params.sectors, card.timing, card.clock_hz);

    let disk = BlockDevice::new(stack);
    let mut block = Block([0x5a; 512]);
    disk.write_blocking(100, &block.0, idle)?;
    disk.flush_blocking(idle)?;
    block.0.fill(0);
    disk.read_blocking(100, &mut block.0, idle)?;
    assert_eq!(block.0, [0x5a; 512]);
    println!("written and read back after {} us", bench.now_ns() / 1000);
    Ok(())
}
