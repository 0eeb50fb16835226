//! The card's content: a sparse file, and generators of content for the tests.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Number of bytes in a block.
pub const BLOCK: usize = 512;

/// The file with the card's content. The tests read and write it without QEMU, so that the check is
/// independent of QEMU.
#[derive(Debug)]
pub struct Image {
    file: File,
    path: PathBuf,
    blocks: u32,
}

impl Image {
    /// Creates a file of zeros. QEMU requires a size that is a power of two; above 2 GiB its card
    /// is an SDHC card.
    pub fn create(path: &Path, bytes: u64) -> Result<Image, String> {
        let blocks = u32::try_from(bytes / BLOCK as u64).ok().filter(|_| bytes.is_power_of_two());
        let Some(blocks) = blocks else {
            return Err(format!("image of {bytes} bytes: expected a power of two below 2 TiB"));
        };
        let say = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(say)?;
        file.set_len(bytes).map_err(say)?;
        Ok(Image { file, path: path.to_path_buf(), blocks })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file in blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns whether the card is an SDHC card, which is addressed by block; smaller cards are
    /// addressed by byte.
    pub fn high_capacity(&self) -> bool {
        u64::from(self.blocks) * BLOCK as u64 > 2 << 30
    }

    /// Returns the content of the file from `block` on.
    pub fn read(&self, block: u32, blocks: u32) -> Vec<u8> {
        let mut bytes = vec![0; blocks as usize * BLOCK];
        self.file.read_exact_at(&mut bytes, u64::from(block) * BLOCK as u64).expect("inside the image");
        bytes
    }

    /// Writes to the file, without a command to the card.
    pub fn write(&self, block: u32, bytes: &[u8]) {
        self.file.write_all_at(bytes, u64::from(block) * BLOCK as u64).expect("inside the image");
    }
}

/// A generator of pseudo-random numbers (SplitMix64), for content and offsets; the same seed gives
/// the same numbers.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next random number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a random number from 0 to `limit` - 1.
    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit.max(1))) as u32
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(count);
        bytes
    }
}
