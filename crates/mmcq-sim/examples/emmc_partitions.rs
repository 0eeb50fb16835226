//! Writes a boot partition of an eMMC while the user area stays in use. `cargo run -p mmcq-sim
//! --example emmc_partitions`

use mmcq::block::{BlockDevice, Partition};
use mmcq::card::partition::Area;
use mmcq::card::{Options, bring_up};
use mmcq_sim::bench::{Bench, buffer};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Bench::new("emmc-hs200")?;
    let stack = bench.stack();
    let (card, scratch) = bench.run(bring_up(stack, buffer(1), Options::DEFAULT))?;
    let card = card?;

    // A boot partition is read-only until the program asks for write access.
    let (boot, _scratch) = bench.run(Partition::open(stack, &card, scratch, Area::Boot1))?;
    let boot = boot?.writable()?;
    println!("boot area 1: {} blocks; user area: {} blocks", boot.blocks(), card.params.sectors);

    // The stack switches to the boot partition and back by itself; requests to the user area may
    // wait in the queue meanwhile.
    let mut image = buffer(8);
    image.fill(0xb0);
    let (written, image) = bench.run(boot.write(0, image))?;
    written?;
    bench.run(boot.flush())??;
    let (read, user) = bench.run(BlockDevice::new(stack).read(0, buffer(8)))?;
    read?;
    assert_ne!(user[..], image[..]);
    let (read, found) = bench.run(boot.read(0, buffer(8)))?;
    read?;
    assert_eq!(found[..], image[..]);
    Ok(())
}
