//! A FAT volume on a card, made and read by `fatfs`, which is independent of the implementation
//! under test.

#![allow(dead_code)]

use mmcq::block::BlockDevice;
use mmcq::engine::BLOCK_BYTES;
use mmcq::task::Platform;
use std::io::{self, Read, Seek, SeekFrom, Write};

#[repr(align(64))]
struct Bounce([u8; 512]);

/// First block of the partition.
const FIRST: u64 = 2048;
/// Number of blocks of the partition.
const BLOCKS: u64 = 256 << 11;

/// The partition as a stream of bytes, for `fatfs`.
struct Stream<'a, B: Platform, const N: usize> {
    device: BlockDevice<'a, B, N>,
    at: u64,
}

impl<B: Platform, const N: usize> Stream<'_, B, N> {
    /// Reads the block at the stream's position into `bounce`. Returns the number of the block on
    /// the card, the offset of the position in it, and how many of the next `len` bytes it contains
    /// (0 at the end of the partition).
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

/// Writes a partition table with one entry, and formats that partition as FAT32.
pub fn format<B: Platform, const N: usize>(device: BlockDevice<'_, B, N>) -> io::Result<()> {
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

/// Returns the content of a file of the volume.
pub fn text_of<B: Platform, const N: usize>(device: BlockDevice<'_, B, N>, file: &str) -> io::Result<String> {
    let volume = fatfs::FileSystem::new(Stream { device, at: 0 }, fatfs::FsOptions::new())?;
    let mut text = String::new();
    volume.root_dir().open_file(file)?.read_to_string(&mut text)?;
    Ok(text)
}
