//! `embedded-sdmmc` on mmcq: FAT by blocking calls of [`BlockDevice::read_blocking`], here on a
//! simulated card.
//!
//! Blocks of `embedded-sdmmc` have no alignment, but controllers with DMA need one, so [`Blocking`]
//! copies through an aligned buffer. The SPI driver of `embedded-sdmmc` is not used; mmcq uses the
//! card's native bus. Another implementation of FAT (`fatfs`) makes the volume, and checks it at
//! the end.

use embedded_sdmmc::{Mode, TimeSource, Timestamp, VolumeIdx, VolumeManager};
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq_embassy::{Blocking, Buffer};

#[path = "../tests/support/fat.rs"]
mod fat;
#[path = "../tests/support/world.rs"]
mod world;

static SCRATCH: Buffer<1> = Buffer::new();
/// Buffer through which data are copied.
static BOUNCE: Buffer<8> = Buffer::new();

/// A time source for a board without a clock.
struct Midnight;

impl TimeSource for Midnight {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp {
            year_since_1970: 56,
            zero_indexed_month: 0,
            zero_indexed_day: 0,
            hours: 0,
            minutes: 0,
            seconds: 0,
        }
    }
}

fn main() {
    let world = world::World::new("sdhc-16g-hs");
    let stack = world.stack();
    let scratch = SCRATCH.take().expect("nothing else takes it");
    stack.block_on(card::bring_up_sd(stack, scratch, card::Options::DEFAULT), |_| {}).0.expect("a card");
    let device = BlockDevice::new(stack);
    fat::format(device.clone()).expect("a volume");

    let bounce = BOUNCE.take().expect("nothing else takes it");
    // On a target, the last argument is a function that waits for an interrupt.
    let card = Blocking::whole(stack, bounce, |_| {}).expect("a card that is up");
    let volumes = VolumeManager::new(card, Midnight);
    {
        let volume = volumes.open_volume(VolumeIdx(0)).expect("the first partition");
        let root = volume.open_root_dir().expect("its root");
        let file = root.open_file_in_dir("HELLO.TXT", Mode::ReadWriteCreateOrTruncate).expect("a new file");
        for line in 0..500 {
            file.write(format!("line {line} of a file on a card\n").as_bytes()).expect("room");
        }
    }
    device.flush_blocking(|_| {}).expect("all of it on the card");

    let text = fat::text_of(device, "HELLO.TXT").expect("the same volume");
    assert_eq!(text.lines().count(), 500);
    assert!(text.ends_with("line 499 of a file on a card\n"));
    assert!(world.memory.violations().is_empty());
    println!("{} bytes, read back by another implementation of FAT", text.len());
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_written_is_read_by_another() {
        super::main();
    }
}
