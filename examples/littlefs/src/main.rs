//! littlefs on mmcq: implements `littlefs2::driver::Storage` by blocking calls of `BlockDevice`,
//! here on a simulated card.
//!
//! A card does wear levelling and erases by itself, so littlefs must not do it (`BLOCK_CYCLES`). An
//! erase does nothing, since littlefs never reads what it has only erased. Blocks of littlefs have
//! 4 KiB, which is eight of the card's.

use littlefs2::consts::{U16, U4096};
use littlefs2::driver::Storage;
use littlefs2::fs::Filesystem;
use littlefs2::io::{Error, Result};
use littlefs2::path;
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::DmaBuf;
use mmcq::task::Platform;

#[path = "../../../crates/mmcq-embassy/tests/support/world.rs"]
mod world;

const CARD_BLOCK: usize = 512;
const BLOCK: usize = 4096;

/// First block of the file system on the card.
const FIRST: u64 = 2048;

#[repr(align(64))]
struct Bounce([u8; BLOCK]);

/// The adapter between littlefs and mmcq; users need only this.
struct Card<'a, B: Platform, const N: usize> {
    device: BlockDevice<'a, B, N>,
    /// Aligned buffer, since littlefs's caches are not aligned.
    bounce: Bounce,
}

fn lba(offset: usize) -> u64 {
    FIRST + (offset / CARD_BLOCK) as u64
}

impl<B: Platform, const N: usize> Storage for Card<'_, B, N> {
    const READ_SIZE: usize = CARD_BLOCK;
    const WRITE_SIZE: usize = CARD_BLOCK;
    const BLOCK_SIZE: usize = BLOCK;
    /// Number of blocks in the file system: 4 MiB.
    const BLOCK_COUNT: usize = 1024;
    const BLOCK_CYCLES: isize = -1;
    type CACHE_SIZE = U4096;
    type LOOKAHEAD_SIZE = U16;

    fn read(&mut self, off: usize, buf: &mut [u8]) -> Result<usize> {
        for (i, part) in buf.chunks_mut(BLOCK).enumerate() {
            let memory = &mut self.bounce.0[..part.len()];
            // On a target the last argument waits for an interrupt: `|_| cortex_m::asm::wfi()`.
            self.device.read_blocking(lba(off + i * BLOCK), memory, |_| {}).map_err(|_| Error::IO)?;
            part.copy_from_slice(memory);
        }
        Ok(buf.len())
    }

    fn write(&mut self, off: usize, data: &[u8]) -> Result<usize> {
        for (i, part) in data.chunks(BLOCK).enumerate() {
            let memory = &mut self.bounce.0[..part.len()];
            memory.copy_from_slice(part);
            self.device.write_blocking(lba(off + i * BLOCK), memory, |_| {}).map_err(|_| Error::IO)?;
        }
        Ok(data.len())
    }

    fn erase(&mut self, _: usize, len: usize) -> Result<usize> {
        Ok(len)
    }
}

fn main() {
    let world = world::World::new("sdhc-16g-hs");
    let stack = world.stack();
    let scratch = DmaBuf::from_static(Box::leak(Box::new(Bounce([0; BLOCK]))).0.as_mut_slice());
    stack.block_on(card::bring_up_sd(stack, scratch, card::Options::DEFAULT), |_| {}).0.expect("a card");
    let device = BlockDevice::new(stack);
    let storage = || Card { device: device.clone(), bounce: Bounce([0; BLOCK]) };
    let text = |n: u8| -> Vec<u8> { (0..6000u32).map(|i| (i / 7) as u8 ^ n).collect() };

    Filesystem::format(&mut storage()).expect("a volume");
    Filesystem::mount_and_then(&mut storage(), |fs| {
        fs.create_dir(path!("/logs"))?;
        for (n, name) in [path!("/logs/a"), path!("/logs/b"), path!("/logs/c")].into_iter().enumerate() {
            fs.write(name, &text(n as u8))?;
        }
        fs.remove(path!("/logs/b"))
    })
    .expect("three files, and one away");
    device.flush_blocking(|_| {}).expect("all of it on the card");

    // The file system is mounted again, with no data cached in memory.
    let listed = Filesystem::mount_and_then(&mut storage(), |fs| {
        assert_eq!(fs.read::<8192>(path!("/logs/a"))?[..], text(0));
        assert_eq!(fs.read::<8192>(path!("/logs/c"))?[..], text(2));
        fs.read_dir_and_then(path!("/logs"), |folder| {
            Ok(folder.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.file_type().is_file())).count())
        })
    })
    .expect("the same volume");
    assert_eq!(listed, 2);
    assert!(world.memory.violations().is_empty());
    println!(
        "littlefs: two files of 6000 bytes came back, in {} ms of the card's time",
        world.time.now() / 1_000_000
    );
}
