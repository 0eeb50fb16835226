//! `embedded-sdmmc` on mmcq: FAT by blocking calls over [`BlockDevice::read_blocking`], here on a
//! simulated card.
//!
//! `embedded-sdmmc`'s blocks have no alignment, and controllers with DMA want one: [`Blocking`]
//! copies through an aligned buffer. Its own SPI driver is not used; mmcq drives the card by its
//! native bus. The volume is made, and checked at the end, by another implementation of FAT
//! (`fatfs`).

use embedded_sdmmc::{Mode, TimeSource, Timestamp, VolumeIdx, VolumeManager};
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::BLOCK_BYTES;
use mmcq::task::Platform;
use mmcq_embassy::{Blocking, Buffer};
use std::io::{self, Read, Seek, SeekFrom, Write};

#[path = "../tests/support/world.rs"]
mod world;

static SCRATCH: Buffer<1> = Buffer::new();
/// What is copied at a time.
static BOUNCE: Buffer<8> = Buffer::new();

#[repr(align(64))]
struct Bounce([u8; 512]);

/// No clock on this board.
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
    format(device.clone()).expect("a volume");

    let bounce = BOUNCE.take().expect("nothing else takes it");
    // On a target the last argument waits for an interrupt.
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

    let text = read_by_another(device).expect("the same volume");
    assert_eq!(text.lines().count(), 500);
    assert!(text.ends_with("line 499 of a file on a card\n"));
    assert!(world.memory.violations().is_empty());
    println!("{} bytes, read back by another implementation of FAT", text.len());
}

/// The partition: where it begins, and how long it is, in blocks.
const FIRST: u64 = 2048;
const BLOCKS: u64 = 256 << 11;

/// The partition as a stream of bytes, for `fatfs`.
struct Stream<'a, B: Platform, const N: usize> {
    device: BlockDevice<'a, B, N>,
    at: u64,
}

impl<B: Platform, const N: usize> Stream<'_, B, N> {
    /// The block at `at`, where in it, and how much of `len` is in it.
    fn block(&self, bounce: &mut Bounce, len: usize) -> io::Result<(u64, usize, usize)> {
        let (lba, offset) = (FIRST + self.at / 512, (self.at % 512) as usize);
        if self.at >= BLOCKS * 512 {
            return Ok((lba, 0, 0));
        }
        self.device.read_blocking(lba, &mut bounce.0[..512], |_| {}).map_err(io::Error::other)?;
        Ok((lba, offset, len.min(512 - offset)))
    }
}

impl<B: Platform, const N: usize> Read for Stream<'_, B, N> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut bounce = Bounce([0; 512]);
        let (_, offset, len) = self.block(&mut bounce, buf.len())?;
        buf[..len].copy_from_slice(&bounce.0[offset..offset + len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl<B: Platform, const N: usize> Write for Stream<'_, B, N> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut bounce = Bounce([0; 512]);
        let (lba, offset, len) = self.block(&mut bounce, buf.len())?;
        if len > 0 {
            bounce.0[offset..offset + len].copy_from_slice(&buf[..len]);
            self.device.write_blocking(lba, &bounce.0[..512], |_| {}).map_err(io::Error::other)?;
        }
        self.at += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush_blocking(|_| {}).map_err(io::Error::other)
    }
}

impl<B: Platform, const N: usize> Seek for Stream<'_, B, N> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, offset) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(offset) => (self.at, offset),
            SeekFrom::End(offset) => (BLOCKS * 512, offset),
        };
        self.at = base.checked_add_signed(offset).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// A partition table with one entry, and FAT32 in it.
fn format<B: Platform, const N: usize>(device: BlockDevice<'_, B, N>) -> io::Result<()> {
    let mut table = Bounce([0; 512]);
    let block = &mut table.0[..BLOCK_BYTES as usize];
    block[446 + 4] = 0x0c;
    block[446 + 8..446 + 12].copy_from_slice(&(FIRST as u32).to_le_bytes());
    block[446 + 12..446 + 16].copy_from_slice(&(BLOCKS as u32).to_le_bytes());
    block[510..].copy_from_slice(&[0x55, 0xaa]);
    device.write_blocking(0, block, |_| {}).map_err(io::Error::other)?;
    let options = fatfs::FormatVolumeOptions::new()
        .fat_type(fatfs::FatType::Fat32)
        .bytes_per_cluster(2048)
        .total_sectors(BLOCKS as u32)
        .bytes_per_sector(512);
    fatfs::format_volume(Stream { device, at: 0 }, options)
}

fn read_by_another<B: Platform, const N: usize>(device: BlockDevice<'_, B, N>) -> io::Result<String> {
    let volume = fatfs::FileSystem::new(Stream { device, at: 0 }, fatfs::FsOptions::new())?;
    let mut text = String::new();
    volume.root_dir().open_file("HELLO.TXT")?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_written_is_read_by_another() {
        super::main();
    }
}
